/* program.c - loading a program, and what it tells about itself: slots, refusals.
 *
 *     rope.pt2 -> loaded graph -> real graph, or the refusals that keep it from being one
 *
 * All that callers may ask for is made at load, so that a program can be shared by threads without
 * a lock.
 */
#include "context/twins.h"
#include "call/workspace.h"

#include "base/log.h"
#include "load/string_map.h"
#include "rewrite/rewrite.h"

#include <string.h>

void program_file_release(void *owner)
{
    struct program_file *file = owner;
    if (__atomic_sub_fetch(&file->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    graph_free(&file->real);
    load_free(&file->loaded);
    memory_free(file);
}

/* -- slots ------------------------------------------------------------------------------------- */

/* What differences of its sizes are multiples of. */
static int64_t size_step(const struct size_node *n)
{
    int64_t step = 0;
    for (int i = 0; n->kind == SIZE_SUM && i < n->count; i++)
        for (int64_t a = n->terms[i].factor; a != 0;) {
            const int64_t rest = step % a;
            step = a;
            a = rest;
        }
    return step == 0 || step == INT64_MIN ? 1 : step < 0 ? -step : step;
}

static phasor_status dim_describe(const struct graph *graph, dim size, phasor_dim *out)
{
    const struct size_node *n = &graph->sizes->nodes.at[size];
    *out = (phasor_dim){
        .size = n->value, .min = n->value, .max = n->value, .example = n->value, .step = 1};
    if (n->kind == SIZE_LITERAL)
        return PHASOR_OK;
    struct text text = {0};
    size_print(graph->sizes, size, &text);
    out->size = -1;
    out->min = n->low;
    out->max = n->high;
    out->step = size_step(n);
    out->symbol = arena_string(graph->arena, text_get(&text));
    const bool failed = text.failed || !out->symbol;
    text_free(&text);
    return failed ? fail_memory() : PHASOR_OK;
}

static phasor_status tensor_describe(const struct graph *graph, value v, struct slot *slot,
                                     phasor_spec *spec)
{
    const struct node *n = graph_node(graph, v);
    phasor_dim *dims = NEW(graph->arena, phasor_dim, n->rank);
    if (!dims)
        return fail_memory();
    for (int d = 0; d < n->rank; d++)
        TRY(dim_describe(graph, n->shape[d], &dims[d]));
    slot->dtype = n->dtype;
    slot->rank = n->rank;
    spec->dtype = dtype_to_dlpack(n->dtype);
    spec->rank = n->rank;
    spec->dims = dims;
    return PHASOR_OK;
}

static phasor_status slot_describe(const struct graph *graph, dim size, value v, struct slot *slot,
                                   phasor_spec *spec)
{
    *spec = (phasor_spec){.name = slot->name,
                          .kind = slot->kind,
                          .constant = slot->constant ? &slot->expected : NULL};
    if (slot->kind == PHASOR_TENSOR)
        return tensor_describe(graph, v, slot, spec);
    slot->scalar = v != 0 && !slot->constant;
    if (slot->scalar)
        slot->dtype = graph_node(graph, v)->dtype;
    if (slot->kind != PHASOR_INT || slot->constant)
        return PHASOR_OK;
    phasor_dim *integer = NEW(graph->arena, phasor_dim, 1);
    spec->integer = integer;
    return integer ? dim_describe(graph, size, integer) : fail_memory();
}

static phasor_status slots_describe(struct phasor_program *program)
{
    const struct graph *graph = program_logical(program);
    struct arena *arena = &program->file->loaded.arena;
    program->input_count = (int)graph->inputs.count;
    program->output_count = (int)graph->outputs.count;
    program->inputs = NEW(arena, struct slot, program->input_count);
    program->outputs = NEW(arena, struct slot, program->output_count);
    program->input_specs = NEW(arena, phasor_spec, program->input_count);
    program->output_specs = NEW(arena, phasor_spec, program->output_count);
    if (!program->inputs || !program->outputs || !program->input_specs || !program->output_specs)
        return fail_memory();
    for (int i = 0; i < program->input_count; i++) {
        const struct graph_input *in = &graph->inputs.at[i];
        program->inputs[i] = (struct slot){.name = in->name,
                                           .kind = in->kind,
                                           .written = in->written != 0,
                                           .constant = in->constant || in->kind == PHASOR_NONE,
                                           .expected = in->expected};
        TRY(slot_describe(graph, in->size, in->node, &program->inputs[i],
                          &program->input_specs[i]));
    }
    for (int i = 0; i < program->output_count; i++) {
        const struct graph_output *out = &graph->outputs.at[i];
        program->outputs[i] = (struct slot){.name = out->name,
                                            .kind = out->kind,
                                            .expected = out->expected,
                                            .constant = out->constant || out->kind == PHASOR_NONE};
        TRY(slot_describe(graph, out->size, out->node, &program->outputs[i],
                          &program->output_specs[i]));
    }
    return PHASOR_OK;
}

/* -- loading ----------------------------------------------------------------------------------- */

static void refusal_log(const struct phasor_program *program)
{
    const struct refusal *first = &program->file->loaded.refusals.at[0];
    log_line(LOG_WARNING, "%s is left as it is: %s (%s, %s): %s", program_logical(program)->name,
             first->node, first->target, first->line ? first->line : "no source line in the file",
             first->reason);
}

static phasor_status program_rewrite(struct phasor_program *program)
{
    struct loaded_program *loaded = &program->file->loaded;
    const phasor_options *options = &program->runtime->options;
    const struct rewrite_options rewrite = {.rules = options->rules, .fma = !options->no_fma};
    TRY(graph_init(&program->file->real, &loaded->arena, &loaded->sizes, loaded->graph.name));
    TRY(rewrite_program(&loaded->graph, &program->file->real, &rewrite, &loaded->refusals,
                        &program->rewritten));
    program->rewritten = program->rewritten && loaded->refusals.count == 0;
    for (size_t i = 0; i < loaded->refusals.count; i++)
        program->unknown |= loaded->refusals.at[i].unknown;
    program->on_cuda = program->rewritten && program->runtime->device;
    if (!program->rewritten && loaded->refusals.count)
        refusal_log(program);
    return PHASOR_OK;
}

static phasor_status program_canonical(struct phasor_program *program)
{
    struct text bytes = {0};
    phasor_status status =
        program->rewritten ? canonical_print(program_real(program), &bytes) : PHASOR_OK;
    if (status == PHASOR_OK && program->rewritten) /* strides of outputs follow this one */
        status = canonical_print(program_logical(program), &bytes);
    program->canonical_size = bytes.length;
    program->canonical_hash = hash_bytes(text_get(&bytes), bytes.length);
    program->canonical = arena_copy(&program->file->loaded.arena, text_get(&bytes), bytes.length);
    text_free(&bytes);
    return status != PHASOR_OK ? status : program->canonical ? PHASOR_OK : fail_memory();
}

/* Those that share their kernels are a few kilobytes each. */
static size_t specialisations_most(const struct phasor_program *program)
{
    enum { EXACT_MOST = 256, GENERIC_MOST = 4096 };
    const int asked = program->runtime->options.specialisations;
    return asked ? (size_t)asked : program_is_exact(program) ? EXACT_MOST : GENERIC_MOST;
}

void program_open_locks(struct phasor_program *program)
{
    pthread_mutex_init(&program->lock, NULL);
    pthread_mutex_init(&program->workspace_lock, NULL);
    classes_init(&program->classes);
}

phasor_status program_open_table(struct phasor_program *program)
{
    TRY(flight_open(&program->specialisations, sizeof(struct specialisation),
                    specialisation_destroy));
    program->specialisations.kept = true;
    program->specialisations.cap = specialisations_most(program);
    program->specialisations.weight_cap = program->runtime->options.table_bytes;
    return PHASOR_OK;
}

static phasor_status program_setup(struct phasor_program *program)
{
    TRY(program_rewrite(program));
    TRY(program_open_table(program));
    TRY(slots_describe(program));
    TRY(program_canonical(program));
    return program_twins_open(program);
}

static phasor_status program_new(phasor_runtime *runtime, struct phasor_program **out)
{
    static uint64_t last_id;
    struct phasor_program *program = memory_new(sizeof *program);
    struct program_file *file = memory_new(sizeof *file);
    *out = program;
    if (!program || !file) {
        memory_free(program);
        memory_free(file);
        *out = NULL;
        return fail_memory();
    }
    file->references = 1;
    program->first = program;
    program->file = file;
    program->runtime = runtime;
    program->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    program_open_locks(program);
    return PHASOR_OK;
}

static phasor_status program_finish(struct phasor_program *program, phasor_status status,
                                    phasor_program **out)
{
    if (status == PHASOR_OK)
        status = program_setup(program);
    if (status == PHASOR_OK)
        *out = program;
    else
        phasor_program_close(program);
    return status;
}

phasor_status phasor_program_load(phasor_runtime *runtime, const char *path, const char *model,
                                  phasor_program **out)
{
    struct phasor_program *program;
    NOT_NULL(out);
    *out = NULL;
    NOT_NULL(runtime);
    NOT_NULL(path);
    LOG_SCOPE(&runtime->log);
    TRY(program_new(runtime, &program));
    return program_finish(program, load_program(path, model, &program->file->loaded), out);
}

phasor_status phasor_program_load_memory(phasor_runtime *runtime, const void *bytes, size_t nbytes,
                                         const char *name, const char *model, phasor_program **out)
{
    struct phasor_program *program;
    NOT_NULL(out);
    *out = NULL;
    NOT_NULL(runtime);
    NOT_NULL(bytes);
    NOT_NULL(name);
    LOG_SCOPE(&runtime->log);
    TRY(program_new(runtime, &program));
    return program_finish(program,
                          load_pt2_memory(bytes, nbytes, name, model, &program->file->loaded), out);
}

void phasor_program_close(phasor_program *program)
{
    if (!program)
        return;
    LOG_SCOPE(&program->runtime->first->log);
    program_twins_close(program);
    background_forget(program->runtime, program);
    phasor_state_free(program->own);
    flight_close(&program->specialisations);
    classes_free(&program->classes, program->runtime);
    workspaces_free(program);
    weights_free(program);
    program_file_release(program->file);
    pthread_mutex_destroy(&program->lock);
    memory_free(program);
}

/* -- questions --------------------------------------------------------------------------------- */

int phasor_program_input_count(const phasor_program *program)
{
    return program ? program->input_count : 0;
}

int phasor_program_output_count(const phasor_program *program)
{
    return program ? program->output_count : 0;
}

static phasor_status index_check(const char *what, int index, int count)
{
    if (index >= 0 && index < count)
        return PHASOR_OK;
    return fail(PHASOR_ERROR_USAGE, "%s %d: there are %d, numbered from 0", what, index, count);
}

static phasor_status spec_give(const phasor_spec *spec, phasor_spec *out)
{
    const size_t size = out->size;
    TRY(struct_check("phasor_spec", size, sizeof *out));
    memcpy(out, spec, size);
    out->size = size;
    return PHASOR_OK;
}

phasor_status phasor_program_input(const phasor_program *program, int index, phasor_spec *out)
{
    NOT_NULL(program);
    NOT_NULL(out);
    TRY(index_check("input", index, program->input_count));
    return spec_give(&program->input_specs[index], out);
}

phasor_status phasor_program_output(const phasor_program *program, int index, phasor_spec *out)
{
    NOT_NULL(program);
    NOT_NULL(out);
    TRY(index_check("output", index, program->output_count));
    return spec_give(&program->output_specs[index], out);
}

int phasor_program_refused_count(const phasor_program *program)
{
    return program ? (int)program->file->loaded.refusals.count : 0;
}

phasor_status phasor_program_refused(const phasor_program *program, int index, phasor_refusal *out)
{
    NOT_NULL(program);
    NOT_NULL(out);
    TRY(index_check("refusal", index, phasor_program_refused_count(program)));
    const struct refusal *refusal = &program->file->loaded.refusals.at[index];
    const size_t size = out->size;
    TRY(struct_check("phasor_refusal", size, sizeof *out));
    const phasor_refusal given = {size,          refusal->node,   refusal->target, refusal->reason,
                                  refusal->line, refusal->unknown};
    memcpy(out, &given, size);
    return PHASOR_OK;
}

const char *phasor_program_device(const phasor_program *program)
{
    if (!program)
        return NULL;
    const phasor_runtime *runtime = program->runtime;
    return runtime->device && runtime->device_is_default && !program->rewritten
               ? "cpu"
               : runtime->device_text;
}

/* -- what cannot be run ------------------------------------------------------------------------ */

/* The refusals of one unknown operator: the first, the last so far, and how many. */
struct unknown {
    size_t first, last;
    int count;
};

/* next[i]: the next refusal of the same operator as i; 0: none. */
struct unknowns {
    struct string_map numbers; /* operator -> its place in the list */
    ARRAY(struct unknown) list;
    size_t *next;
};

static phasor_status unknown_add(struct unknowns *u, const char *target, size_t i)
{
    uint32_t number = (uint32_t)u->list.count;
    bool fresh;
    if (!string_map_add(&u->numbers, target, number, &fresh))
        return fail_memory();
    if (fresh)
        return array_push(&u->list, ((struct unknown){i, i, 1})) ? PHASOR_OK : fail_memory();
    string_map_find(&u->numbers, target, &number);
    struct unknown *unknown = &u->list.at[number];
    u->next[unknown->last] = i;
    unknown->last = i;
    unknown->count++;
    return PHASOR_OK;
}

/* "aten.fft_fft.default, 2 times: no rule for this operator\n    fft_fft, rope.py:29" */
static void unknown_print(const struct refusal *refusals, const struct unknowns *u,
                          const struct unknown *unknown, struct text *out)
{
    const struct refusal *first = &refusals[unknown->first];
    text_format(out, "\n  %s, %d time%s: %s", first->target, unknown->count,
                unknown->count == 1 ? "" : "s", first->reason);
    size_t i = unknown->first;
    do {
        text_format(out, "\n    %s, %s", refusals[i].node,
                    refusals[i].line ? refusals[i].line : "no source line in the file");
        i = u->next[i];
    } while (i);
}

static phasor_status unknowns_print(const struct refusal_list *list, struct text *out)
{
    struct unknowns u = {.next = memory_new(list->count * sizeof *u.next)};
    phasor_status status = u.next ? PHASOR_OK : fail_memory();
    for (size_t i = 0; status == PHASOR_OK && i < list->count; i++)
        if (list->at[i].unknown)
            status = unknown_add(&u, list->at[i].target, i);
    for (size_t k = 0; status == PHASOR_OK && k < u.list.count; k++)
        unknown_print(list->at, &u, &u.list.at[k], out);
    string_map_free(&u.numbers);
    array_free(&u.list);
    memory_free(u.next);
    return status == PHASOR_OK ? text_status(out) : status;
}

phasor_status program_check_runnable(const struct phasor_program *program)
{
    const struct refusal_list *list = &program->file->loaded.refusals;
    const char *name = program_logical(program)->name;
    if (program->unknown) {
        struct text all = {0};
        phasor_status status = unknowns_print(list, &all);
        if (status == PHASOR_OK)
            status = fail(PHASOR_ERROR_REFUSED,
                          "%s has operators or dtypes that Phasor does not know:%s", name,
                          text_get(&all));
        text_free(&all);
        return status;
    }
    const bool on_cpu =
        program->runtime->device_kind == PHASOR_DEVICE_CPU || program->runtime->device_is_default;
    if (program->rewritten || on_cpu)
        return PHASOR_OK;
    return fail(PHASOR_ERROR_REFUSED,
                "%s cannot be rewritten, so it runs on the CPU device only: %s (%s, %s): %s", name,
                list->count ? list->at[0].node : "?", list->count ? list->at[0].target : "?",
                list->count && list->at[0].line ? list->at[0].line : "no source line in the file",
                list->count ? list->at[0].reason : "?");
}
