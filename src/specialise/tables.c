/* tables.c - values that depend on sizes and constants alone: computed once, kept on the device.
 *
 *     cos and sin of positions 0..s25 - 1      a table [s25, 64]
 *     called with 77, then with 4096 tokens    computed for 2048 rows, then once more for 4096;
 *                                              every length reads the rows that it needs
 *
 * Kernels that take sizes as arguments share the tables of their class where a shorter table is the
 * beginning of a longer one: the outermost dim is a symbol, nothing else depends on it, and the
 * kernels that fill the tables use it only to know how many elements there are. A table that grows
 * is a new one; those who read the old one keep it.
 *
 * They are filled on a stream of their own; when this returns they are done, so that any stream may
 * read them.
 */
#include "specialise/ready.h"

#include "call/output.h"

#include "base/log.h"

#include <string.h>

/* Kernels that fill more than is needed count below 2^31. */
enum { ROWS_BYTES_FIRST = 1 << 20, BYTES_MOST = 1 << 30 };

/* -- whether they can be shared ---------------------------------------------------------------- */

/* The symbol that is the outermost dim, -1 where there is none; false: rows cannot be added. */
static bool table_rows(const struct plan *plan, const struct buffer *b, int *symbol)
{
    const struct sizes *sizes = &plan->sizes;
    *symbol = -1;
    for (int k = 0; k < b->rank; k++) {
        const int d = b->order[k];
        const struct size_node *size = &sizes->nodes.at[b->sizes[d]];
        if (size->kind == SIZE_SYMBOL && *symbol < 0 && size_is_literal(sizes, b->strides[d])) {
            bool outermost = true;
            for (int before = 0; before < k; before++)
                outermost &= b->sizes[b->order[before]] == 1;
            if (!outermost)
                return false;
            *symbol = size->symbol;
        } else if (b->sizes[d] != 1 &&
                   (size->kind != SIZE_LITERAL || !size_is_literal(sizes, b->strides[d]))) {
            return false;
        }
    }
    return true;
}

void shared_tables_init(struct shared_tables *tables, const struct plan *plan)
{
    tables->possible = plan->table_bytes > 0;
    tables->symbol = -1;
    for (size_t b = 0; b < plan->buffers.count && tables->possible; b++) {
        int symbol;
        if (plan->buffers.at[b].kind != BUFFER_TABLE)
            continue;
        tables->possible = table_rows(plan, &plan->buffers.at[b], &symbol) &&
                           (symbol < 0 || tables->symbol < 0 || tables->symbol == symbol);
        tables->symbol = symbol < 0 ? tables->symbol : symbol;
    }
    for (size_t k = 0; k < plan->kernels.count; k++)
        tables->possible &= !plan->kernels.at[k].setup || !plan->kernels.at[k].sizes_inside;
}

void shared_tables_free(struct shared_tables *tables)
{
    memory_release(tables->memory);
    memory_free(tables->offsets);
    pthread_mutex_destroy(&tables->lock);
}

/* -- filling ----------------------------------------------------------------------------------- */

/* A table depends on no input: an index out of range in it is a matter of the program, found at
 * once. */
static phasor_status hoisted_run(struct step_maker *l, const struct ready_step *steps, int count,
                                 void *stream)
{
    struct device *device = l->program->runtime->device;
    void *work = NULL;
    uint32_t *flag = NULL;
    phasor_status status = PHASOR_OK;
    if (l->recipe->work_bytes)
        status = device_allocate(device, (size_t)l->recipe->work_bytes, &work, stream);
    if (status == PHASOR_OK)
        status = device_flag_new(device, &flag);
    if (status == PHASOR_OK)
        status = steps_run(device, stream, steps, count,
                           &(struct step_memory){.work = work, .flag = flag});
    if (status == PHASOR_OK)
        status = device_synchronize(device, stream);
    if (status == PHASOR_OK && *(volatile uint32_t *)flag)
        log_line(LOG_WARNING, "%s: an index that depends on sizes alone is out of range",
                 program_logical(l->program)->name);
    device_free(device, work, stream);
    device_flag_free(device, flag);
    return status;
}

/* Every step of the recipe that fills a table, once. */
static phasor_status tables_fill(struct step_maker *l)
{
    struct device *device = l->program->runtime->device;
    struct ready_step *steps;
    int count;
    void *stream;
    TRY(ready_steps(l, true, &steps, &count));
    for (int i = 0; i < count; i++)
        for (int r = 0; r < steps[i].relocation_count; r++)
            if (!steps[i].relocations[r].flag && steps[i].relocations[r].kind != BUFFER_WORK)
                return fail(PHASOR_ERROR_FILE, "a plan computes a table from what a call brings");
    if (count == 0)
        return PHASOR_OK;
    TRY(device_stream_new(device, &stream));
    const phasor_status status = hoisted_run(l, steps, count, stream);
    device_stream_free(device, stream);
    if (status == PHASOR_OK)
        count_up(&l->program->runtime->launches, (uint64_t)count);
    return status;
}

/* -- tables of a specialisation alone ---------------------------------------------------------- */

static phasor_status tables_own(struct specialisation *spec, struct step_maker *l)
{
    if (l->ready_only)
        return fail(PHASOR_NOT_READY, "tables for these sizes are not filled yet");
    TRY(memory_lasting(spec->program->runtime->device, (size_t)spec->recipe.table_bytes,
                       &spec->table));
    spec->flight.weight = spec->recipe.table_bytes;
    l->table = spec->table;
    return tables_fill(l);
}

/* -- tables of a class ------------------------------------------------------------------------- */

/* Bytes of a row of all tables. */
static int64_t row_bytes(const struct plan *plan, const struct recipe *recipe, int64_t rows)
{
    int64_t nbytes = 0;
    for (size_t b = 0; b < plan->buffers.count; b++)
        if (plan->buffers.at[b].kind == BUFFER_TABLE)
            nbytes += recipe->buffers[b].nbytes / (rows > 0 ? rows : 1);
    return nbytes;
}

/* As many rows as are needed, twice as many as before, or a megabyte of them. */
static int64_t rows_choose(const struct plan_class *class, const struct recipe *recipe,
                           const struct phasor_program *program, int64_t needed)
{
    const struct size_symbol *symbol = &class->plan->sizes.symbols.at[class->tables.symbol];
    const int64_t each = row_bytes(class->plan, recipe, needed);
    const int64_t bytes = program->runtime->options.table_bytes;
    const int64_t most = (bytes < BYTES_MOST ? bytes : BYTES_MOST) / (each > 0 ? each : 1);
    int64_t rows = ROWS_BYTES_FIRST / (each > 0 ? each : 1);
    rows = rows > 2 * class->tables.rows ? rows : 2 * class->tables.rows;
    rows = rows < symbol->high ? rows : symbol->high;
    rows = rows < most ? rows : most;
    return rows > needed ? rows : needed;
}

/* The class's plan for `rows` rows: where its tables lie, and the kernels that fill them. */
static phasor_status grown_recipe(const struct plan_class *class, const int64_t *symbols,
                                  int64_t rows, struct recipe *out)
{
    const struct plan *plan = class->plan;
    const size_t count = plan->sizes.symbols.count;
    int64_t *values = NEW(&out->arena, int64_t, plan->sizes.nodes.count),
            *grown = NEW(&out->arena, int64_t, count);
    if (!values || !grown)
        return fail_memory();
    if (count)
        memcpy(grown, symbols, count * sizeof *grown);
    if (class->tables.symbol >= 0)
        grown[class->tables.symbol] = rows;
    if (!sizes_evaluate(&plan->sizes, grown, values))
        return fail(PHASOR_ERROR_INPUT, "a table does not fit in 64 bits");
    TRY(recipe_make_like(out, plan, &class->recipe, plan, values, true));
    out->table_bytes = 0;
    for (size_t b = 0; b < plan->buffers.count; b++) {
        const struct buffer *buffer = &plan->buffers.at[b];
        if (buffer->kind != BUFFER_TABLE)
            continue;
        int64_t nbytes = dtype_size(buffer->dtype);
        for (int d = 0; d < buffer->rank; d++)
            nbytes *= values[buffer->sizes[d]];
        out->buffers[b].offset = out->table_bytes;
        out->buffers[b].nbytes = nbytes;
        out->table_bytes += plan_round_up(nbytes);
    }
    return PHASOR_OK;
}

/* Takes memory and offsets over. */
static void shared_tables_replace(struct shared_tables *tables, struct memory *memory,
                                  int64_t *offsets, int64_t rows)
{
    memory_release(tables->memory);
    memory_free(tables->offsets);
    tables->memory = memory;
    tables->offsets = offsets;
    tables->rows = rows;
}

static phasor_status tables_grow(struct specialisation *spec, struct step_maker *l, int64_t rows)
{
    struct plan_class *class = spec->class;
    struct device *device = spec->program->runtime->device;
    struct recipe grown = {0};
    struct step_maker filler = *l;
    struct memory *memory = NULL;
    int64_t *offsets = memory_new(class->plan->buffers.count * sizeof *offsets);
    phasor_status status =
        offsets ? grown_recipe(class, spec->symbols, rows, &grown) : fail_memory();
    if (status == PHASOR_OK)
        status = memory_lasting(device, (size_t)grown.table_bytes, &memory);
    filler.recipe = &grown;
    filler.arena = &grown.arena;
    filler.table = memory;
    if (status == PHASOR_OK)
        status = tables_fill(&filler);
    if (status == PHASOR_OK) {
        for (size_t b = 0; b < class->plan->buffers.count; b++)
            offsets[b] = grown.buffers[b].offset;
        shared_tables_replace(&class->tables, memory, offsets, rows);
    } else {
        memory_release(memory);
        memory_free(offsets);
    }
    recipe_free(&grown);
    return status;
}

/* More rows than are needed are welcome, but no call fails for them: other expressions of the plan
 * may have no value for so many, and memory may be short. */
static phasor_status tables_grow_well(struct specialisation *spec, struct step_maker *l,
                                      int64_t needed)
{
    const struct plan_class *class = spec->class;
    const int64_t rows = class->tables.symbol < 0
                             ? needed
                             : rows_choose(class, &spec->recipe, spec->program, needed);
    if (rows > needed && tables_grow(spec, l, rows) == PHASOR_OK)
        return PHASOR_OK;
    return tables_grow(spec, l, needed);
}

static phasor_status tables_share(struct specialisation *spec, struct step_maker *l)
{
    struct shared_tables *tables = &spec->class->tables;
    struct recipe *recipe = &spec->recipe;
    const int64_t needed = tables->symbol >= 0 ? spec->symbols[tables->symbol] : 1;
    phasor_status status = PHASOR_OK;
    pthread_mutex_lock(&tables->lock);
    if ((!tables->memory || tables->rows < needed) && l->ready_only)
        status =
            fail(PHASOR_NOT_READY, "a table of %lld rows is not filled yet", (long long)needed);
    else if (!tables->memory || tables->rows < needed)
        status = tables_grow_well(spec, l, needed);
    if (status == PHASOR_OK) {
        spec->table = memory_retain(tables->memory);
        for (int b = 0; b < recipe->buffer_count; b++)
            if (recipe->buffers[b].kind == BUFFER_TABLE)
                recipe->buffers[b].offset = tables->offsets[b];
    }
    pthread_mutex_unlock(&tables->lock);
    l->table = spec->table;
    return status;
}

phasor_status tables_make(struct specialisation *spec, struct step_maker *maker)
{
    if (spec->recipe.table_bytes == 0)
        return PHASOR_OK;
    return spec->class && spec->class->tables.possible ? tables_share(spec, maker)
                                                       : tables_own(spec, maker);
}
