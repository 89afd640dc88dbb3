/* codegen.c - see codegen.h. The order of a source: device.cuh, prologue, template. */
#include "codegen/codegen.h"

#include "base/number.h"
#include "codegen/kernel.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { NAME_LENGTH_MAX = 56 };

/* -- shared ------------------------------------------------------------------------------------ */

dim kernel_count(const struct kernel_builder *builder, const dim *sizes, int rank)
{
    dim count = 1;
    for (int d = 0; d < rank; d++)
        count = size_mul(&builder->plan->sizes, count, sizes[d]);
    return count;
}

phasor_status kernel_emitter(struct kernel_builder *builder, struct emitter *emitter)
{
    TRY(emitter_init(emitter, &builder->trace, &builder->functions));
    emitter->arguments = &builder->arguments;
    emitter->pointers = builder->pointers;
    emitter->written = builder->written;
    emitter->wide = kernel_is_wide(builder);
    builder->wide |= emitter->wide;
    return PHASOR_OK;
}

phasor_status kernel_emitter_end(struct kernel_builder *builder, struct emitter *emitter)
{
    /* Writing adds to the pools of the trace; what came after a failure may have left another
     * message. */
    const bool no_memory = emitter->status == PHASOR_ERROR_MEMORY ||
                           trace_status(&builder->trace) == PHASOR_ERROR_MEMORY;
    const phasor_status status = emitter->status;
    builder->uses_flag |= emitter->uses_flag;
    emitter_free(emitter);
    return no_memory ? fail_memory() : status;
}

uint32_t kernel_power_of_two(int64_t at_least, uint32_t most)
{
    uint32_t power = 1;
    while (power < most && power < at_least)
        power *= 2;
    return power;
}

static bool lanes_stay_inside(struct sizes *pool, const dim *sizes, int rank, int64_t lanes)
{
    for (int d = rank - 1; d >= 0 && lanes > 1; d--) {
        if (size_is_multiple(pool, sizes[d], lanes))
            return true;
        const int64_t size = size_is_literal(pool, sizes[d]) ? size_value(pool, sizes[d]) : 0;
        if (size == 0 || lanes % size != 0)
            return false;
        lanes /= size;
    }
    return lanes == 1;
}

static bool is_literal_shape(const struct sizes *pool, const dim *sizes, int rank)
{
    for (int d = 0; d < rank; d++)
        if (!size_is_literal(pool, sizes[d]))
            return false;
    return true;
}

int kernel_lanes(struct kernel_builder *builder, const dim *sizes, int rank, int most, bool gapless)
{
    struct sizes *pool = &builder->plan->sizes;
    const dim count = kernel_count(builder, sizes, rank);
    int lanes = most;
    while (lanes > 1 && !lanes_stay_inside(pool, sizes, rank, lanes) &&
           !(gapless && size_is_multiple(pool, count, lanes)))
        lanes /= 2;
    builder->arguments.gains |= lanes < most && !is_literal_shape(pool, sizes, rank);
    return lanes;
}

phasor_status kernel_pointer(struct kernel_builder *builder, int buffer, bool written)
{
    builder->written[buffer] |= written;
    if (builder->pointers[buffer] < 0)
        builder->pointers[buffer] = argument_find(&builder->arguments, ARGUMENT_BUFFER, buffer, 0);
    return builder->pointers[buffer] < 0 ? fail_memory() : PHASOR_OK;
}

static void define_size(struct kernel_builder *builder, const char *name, dim size, bool literal)
{
    const struct sizes *sizes = &builder->plan->sizes;
    text_format(&builder->defines, "#define %s ", name);
    if (literal)
        text_format(&builder->defines, "%lld%s\n", (long long)size_value(sizes, size),
                    kernel_is_wide(builder) ? "ull" : "u");
    else
        text_format(&builder->defines, "a.n%d\n",
                    argument_find(&builder->arguments, ARGUMENT_SIZE, 0, size));
}

/* Kernels that fill tables run once for a length, and often differ between lengths in these numbers
 * alone: as arguments, they leave one kernel for all lengths. */
void kernel_define(struct kernel_builder *builder, const char *name, dim size)
{
    const bool literal = size_is_literal(&builder->plan->sizes, size);
    define_size(builder, name, size, literal && !builder->kernel->setup);
}

phasor_status kernel_pointers(struct kernel_builder *builder)
{
    for (expr e = 1; e < builder->trace.expressions.count; e++)
        if (builder->trace.expressions.at[e].kind == EXPR_LOAD)
            TRY(kernel_pointer(builder, builder->trace.expressions.at[e].buffer, false));
    return PHASOR_OK;
}

bool kernel_is_wide(const struct kernel_builder *builder)
{
    const struct index_pool *index = &builder->trace.index;
    const dim most = size_literal(index->sizes, INT32_MAX);
    for (size_t f = 0; f < index->forms.count; f++)
        if (size_is_less(index->sizes, most, index->forms.at[f].highest))
            return true;
    return size_is_less(index->sizes, most, builder->runs);
}

void kernel_define_inside(struct kernel_builder *builder, const char *name, dim size)
{
    const bool literal = size_is_literal(&builder->plan->sizes, size);
    if (!literal)
        builder->arguments.sizes_inside = builder->arguments.gains = true;
    define_size(builder, name, size, literal);
}

void kernel_define_parts(struct kernel_builder *builder, int run)
{
    struct sizes *sizes = &builder->plan->sizes;
    kernel_define_inside(builder, "ROW_PARTS", builder->kernel->parts);
    kernel_define_inside(builder, "CHUNK",
                         size_floordiv(sizes, builder->kernel->chunk, size_literal(sizes, run)));
}

/* -- the source -------------------------------------------------------------------------------- */

/* "mul_fma": the operators that compute something, in the graph's order, each once. */
static phasor_status kernel_name(struct kernel_builder *builder)
{
    struct plan *plan = builder->plan;
    bool used[OP_COUNT] = {false};
    struct text name = {0}, operators = {0};
    for (value v = 1; v < plan->graph.nodes.count; v++) {
        const struct node *n = graph_node(&plan->graph, v);
        const enum op_kind kind = op_info[n->op].kind;
        if (!builder->visited[v] || used[n->op] || kind == KIND_LEAF)
            continue;
        used[n->op] = true;
        text_format(&operators, "%s%s", operators.length ? ", " : "", op_info[n->op].name);
        if (kind != KIND_VIEW && name.length + strlen(op_info[n->op].name) < NAME_LENGTH_MAX)
            text_format(&name, "%s%s", name.length ? "_" : "", op_info[n->op].name);
    }
    if (builder->launch->kind == KERNEL_ATTENTION) {
        text_free(&name);
        text_add(&name, "attention");
    }
    builder->launch->name =
        arena_format(&plan->arena, "phasor_%s", name.length ? text_get(&name) : "copy");
    builder->launch->operators = arena_string(&plan->arena, text_get(&operators));
    const bool failed =
        name.failed || operators.failed || !builder->launch->name || !builder->launch->operators;
    text_free(&name);
    text_free(&operators);
    return failed ? fail_memory() : PHASOR_OK;
}

/* For those who ask where a kernel comes from. */
static phasor_status kernel_values(const struct kernel_builder *builder)
{
    struct kernel *kernel = builder->launch;
    const size_t count = builder->plan->graph.nodes.count;
    for (size_t v = 1; v < count; v++)
        kernel->value_count += builder->visited[v];
    kernel->values = NEW(&builder->plan->arena, value, kernel->value_count);
    if (!kernel->values)
        return fail_memory();
    kernel->value_count = 0;
    for (value v = 1; v < count; v++)
        if (builder->visited[v])
            kernel->values[kernel->value_count++] = v;
    return PHASOR_OK;
}

static void emit_argument(const struct kernel_builder *builder, int i, struct text *out)
{
    const struct kernel_argument *argument = &builder->arguments.list.at[i];
    if (argument->kind == ARGUMENT_BUFFER)
        text_format(out, "    %svoid *p%d;\n", builder->written[argument->buffer] ? "" : "const ",
                    i);
    else if (argument->kind == ARGUMENT_DIVISOR)
        text_format(out, "    divisor m%d;\n", i);
    else
        text_format(out, builder->wide ? "    u64 n%d;\n" : "    u32 n%d, high%d;\n", i, i);
}

static phasor_status emit_arguments(struct kernel_builder *builder, struct text *out)
{
    struct kernel *kernel = builder->launch;
    kernel->argument_count = (int)builder->arguments.list.count;
    kernel->arguments =
        arena_copy(&builder->plan->arena, builder->arguments.list.at,
                   builder->arguments.list.count * sizeof *builder->arguments.list.at);
    if (kernel->argument_count && !kernel->arguments)
        return fail_memory();
    text_add(out, "struct args {\n");
    for (int i = 0; i < kernel->argument_count; i++)
        emit_argument(builder, i, out);
    kernel->argument_bytes = 8 * kernel->argument_count;
    kernel->flag_argument = -1;
    if (builder->uses_flag) {
        text_add(out, "    u32 *flag;\n");
        kernel->flag_argument = kernel->argument_bytes;
        kernel->argument_bytes += 8;
    }
    text_add(out, "};\n\n");
    return PHASOR_OK;
}

/* What the kinds of kernels differ in here: the template, and the function that fills in its
 * prologue. */
static const struct {
    const char *file;
    size_t text; /* offset in struct templates */
    phasor_status (*build)(struct kernel_builder *);
} kinds[] = {
    [KERNEL_MAP] = {"map.cu", offsetof(struct templates, map), kernel_map},
    [KERNEL_ROW] = {"row.cu", offsetof(struct templates, row), kernel_row},
    [KERNEL_SCATTER] = {"map.cu", offsetof(struct templates, map), kernel_scatter},
    [KERNEL_REDUCE] = {"reduce.cu", offsetof(struct templates, reduce), kernel_reduce},
    [KERNEL_DOT] = {"dot.cu", offsetof(struct templates, dot), kernel_dot},
    [KERNEL_ATTENTION] = {"attention.cu", offsetof(struct templates, attention), kernel_attention},
    [KERNEL_SCAN] = {"scan.cu", offsetof(struct templates, scan), kernel_scan},
    [KERNEL_COLLECT] = {"collect.cu", offsetof(struct templates, collect), kernel_collect},
    [KERNEL_SORT] = {"sort.cu", offsetof(struct templates, sort), kernel_sort},
    [KERNEL_SEARCH] = {"search.cu", offsetof(struct templates, search), kernel_search},
};

static const char *template_text(const struct templates *templates, enum kernel_kind kind)
{
    return *(const char *const *)((const char *)templates + kinds[kind].text);
}

static phasor_status kernel_source(struct kernel_builder *builder)
{
    struct kernel *kernel = builder->launch;
    const bool parts = builder->part >= 0;
    struct text out = {0};
    text_format(&out, "#line 1 \"device.cuh\"\n%s\n#line 1 \"prologue\"\n",
                builder->templates->device);
    text_format(&out, "#define KERNEL %s\n#define BLOCK %u\n", kernel->name, builder->block);
    if (parts)
        text_format(&out, "#define PARTS %d\n%s", builder->part + 1,
                    builder->alike ? "#define ALIKE\n" : "");
    text_add(&out, text_get(&builder->defines));
    text_format(&out, "typedef %s index_t;\n", builder->wide ? "u64" : "u32");
    const phasor_status status = emit_arguments(builder, &out);
    text_add(&out, text_get(&builder->functions));
    text_format(&out, "\n#line 1 \"%s\"\n%s", parts ? "maps.cu" : kinds[kernel->kind].file,
                parts ? builder->templates->maps : template_text(builder->templates, kernel->kind));
    kernel->source = out.failed || builder->functions.failed || builder->defines.failed
                         ? NULL
                         : arena_string(&builder->plan->arena, text_get(&out));
    if (kernel->source)
        kernel->key = hash_bytes(kernel->source, strlen(kernel->source));
    text_free(&out);
    return status != PHASOR_OK || kernel->source ? status : fail_memory();
}

/* The part's blocks and runs, as the template wants them. */
static phasor_status part_geometry(struct kernel_builder *builder)
{
    struct sizes *sizes = &builder->plan->sizes;
    const struct kernel *kernel = builder->kernel;
    const bool rows = kernel->kind == KERNEL_REDUCE || kernel->kind == KERNEL_SCAN ||
                      kernel->kind == KERNEL_DOT || kernel->kind == KERNEL_ATTENTION,
               parts = kernel->stage == STAGE_PARTS ||
                       (kernel->stage == STAGE_LAST && kernel->kind == KERNEL_SCAN);
    const int64_t per_block = rows ? builder->side : builder->block;
    dim blocks =
        size_floordiv(sizes, size_add(sizes, builder->runs, size_literal(sizes, per_block - 1)),
                      size_literal(sizes, per_block));
    if (parts)
        blocks = size_mul(sizes, blocks, kernel->parts);
    char name[32];
    if (builder->part >= 0) {
        snprintf(name, sizeof name, "BLOCKS%d", builder->part);
        kernel_define(builder, name, blocks);
    }
    snprintf(name, sizeof name, builder->part >= 0 ? "COUNT%d" : "COUNT", builder->part);
    kernel_define(builder, name, builder->runs);
    builder->blocks = size_add(sizes, builder->blocks, blocks);
    if (size_value(sizes, builder->blocks) > INT32_MAX)
        return fail(PHASOR_ERROR_INPUT, "%lld blocks; a launch has at most %d",
                    (long long)size_value(sizes, builder->blocks), INT32_MAX);
    return sizes_status(sizes);
}

/* Elements of a buffer that the part in work reads, each once. */
static dim elements_read(const struct kernel_builder *builder, int buffer)
{
    struct plan *plan = builder->plan;
    const struct buffer *b = &plan->buffers.at[buffer];
    const enum kernel_kind kind = builder->kernel->kind;
    const dim all = kernel_count(builder, b->sizes, b->rank);
    int64_t loads = 0;
    for (expr e = 1; e < builder->trace.expressions.count; e++)
        loads += builder->trace.expressions.at[e].kind == EXPR_LOAD &&
                 builder->trace.expressions.at[e].buffer == buffer;
    const bool once = kind == KERNEL_MAP || kind == KERNEL_ROW || kind == KERNEL_SCATTER;
    if (loads == 0 || !once)
        return loads == 0 ? 0 : all;
    return size_min(&plan->sizes,
                    size_mul(&plan->sizes, builder->runs, size_literal(&plan->sizes, loads)), all);
}

static dim scaled(const struct kernel_builder *builder, dim count, int64_t factor)
{
    return size_mul(&builder->plan->sizes, count, size_literal(&builder->plan->sizes, factor));
}

/* Each element read once, each result written once. */
static dim part_bytes(const struct kernel_builder *builder)
{
    struct plan *plan = builder->plan;
    struct sizes *sizes = &plan->sizes;
    const struct kernel *kernel = builder->kernel;
    dim bytes = 0;
    for (size_t b = 0; b < plan->buffers.count; b++)
        bytes = size_add(
            sizes, bytes,
            scaled(builder, elements_read(builder, (int)b), dtype_size(plan->buffers.at[b].dtype)));
    if (kernel->scratch >= 0) {
        const struct buffer *b = plan_buffer(plan, kernel->scratch);
        bytes = size_add(sizes, bytes,
                         scaled(builder, kernel_count(builder, b->sizes, b->rank),
                                dtype_size(b->dtype) * (kernel->stage == STAGE_CARRY ? 2 : 1)));
    }
    const bool stores = kernel->stage == STAGE_WHOLE || kernel->stage == STAGE_LAST;
    for (int s = 0; stores && s < kernel->store_count; s++) {
        const struct buffer *b = plan_buffer(plan, kernel->stores[s].buffer);
        const dim stored = kernel->kind == KERNEL_SCATTER
                               ? scaled(builder, builder->runs, builder->lanes)
                               : kernel_count(builder, b->sizes, b->rank);
        bytes = size_add(sizes, bytes, scaled(builder, stored, dtype_size(b->dtype)));
    }
    return bytes;
}

static phasor_status part_build(struct kernel_builder *builder)
{
    const struct plan *plan = builder->plan;
    TRY(trace_init(&builder->trace, plan, builder->kernel, &builder->plan->sizes,
                   &builder->scratch));
    TRY(kinds[builder->kernel->kind].build(builder));
    TRY(part_geometry(builder));
    builder->bytes = size_add(&builder->plan->sizes, builder->bytes, part_bytes(builder));
    for (size_t v = 0; v < plan->graph.nodes.count; v++)
        builder->visited[v] |= builder->trace.visited[v];
    return PHASOR_OK;
}

static phasor_status launch_begin(struct kernel_builder *builder)
{
    const struct plan *plan = builder->plan;
    builder->pointers = NEW(&builder->scratch, int, plan->buffers.count);
    builder->written = NEW(&builder->scratch, bool, plan->buffers.count);
    builder->visited = NEW(&builder->scratch, bool, plan->graph.nodes.count);
    if (!builder->pointers || !builder->written || !builder->visited)
        return fail_memory();
    memset(builder->pointers, -1, plan->buffers.count * sizeof *builder->pointers);
    return PHASOR_OK;
}

static phasor_status launch_end(struct kernel_builder *builder)
{
    TRY(kernel_name(builder));
    TRY(kernel_values(builder));
    TRY(parts_merge(&builder->functions, builder->starts, builder->part + 1, &builder->alike));
    TRY(kernel_source(builder));
    builder->launch->bytes = builder->bytes;
    builder->launch->grid = builder->blocks;
    builder->launch->block = builder->block;
    builder->launch->sizes_inside = builder->arguments.sizes_inside;
    builder->launch->gains = builder->arguments.gains;
    return PHASOR_OK;
}

/* Kernels first..first + count of the plan become the one at first. */
static phasor_status launch_build(struct plan *plan, size_t first, size_t count,
                                  const struct templates *templates)
{
    struct kernel_builder builder = {
        .plan = plan, .launch = &plan->kernels.at[first], .templates = templates, .part = -1};
    phasor_status status = launch_begin(&builder);
    for (size_t k = 0; k < count && status == PHASOR_OK; k++) {
        builder.kernel = &plan->kernels.at[first + k];
        builder.part = count > 1 ? (int)k : -1;
        builder.lanes = 1;
        if (k < PARTS_ALIKE_MOST)
            builder.starts[k] = builder.functions.length;
        status = part_build(&builder);
        trace_free(&builder.trace);
    }
    if (status == PHASOR_OK)
        status = launch_end(&builder);
    if (status != PHASOR_OK)
        status =
            fail_in(status, "%s", graph_node(&plan->graph, builder.launch->stores[0].node)->name);
    text_free(&builder.functions);
    text_free(&builder.defines);
    array_free(&builder.arguments.list);
    arena_free(&builder.scratch);
    return status;
}

/* One kernel a step is left. */
phasor_status codegen_plan(struct plan *plan, const struct templates *templates)
{
    size_t launches = 0;
    for (size_t i = 0; i < plan->steps.count; i++) {
        struct step *step = &plan->steps.at[i];
        fenv_t host;
        if (step->kind != STEP_KERNEL)
            continue;
        arithmetic_enter(&host);
        const phasor_status status =
            launch_build(plan, (size_t)step->kernel.first, (size_t)step->kernel.count, templates);
        arithmetic_leave(&host);
        TRY(status);
        plan->kernels.at[launches] = plan->kernels.at[step->kernel.first];
        step->kernel.first = (int)launches++;
        step->kernel.count = 1;
    }
    plan->kernels.count = launches;
    return PHASOR_OK;
}
