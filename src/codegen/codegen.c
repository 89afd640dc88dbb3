/* codegen.c - see codegen.h. The order of a source: device.cuh, prologue, template. */
#include "codegen/codegen.h"

#include "codegen/kernel.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { NAME_LENGTH_MAX = 56 };

/* -- shared ------------------------------------------------------------------------------------ */

void kernel_memory_order(const struct kernel_builder *builder, const struct buffer *buffer,
                         int order[RANK_MAX])
{
    const struct sizes *sizes = &builder->plan->sizes;
    for (int d = 0; d < buffer->rank; d++) {
        int at = d;
        const int64_t stride = size_value(sizes, buffer->strides[d]);
        /* a dim of size 1 has no place of its own: it stays where it is */
        while (at > 0 && size_value(sizes, buffer->sizes[d]) != 1 &&
               size_value(sizes, buffer->strides[order[at - 1]]) < stride) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = d;
    }
}

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
    emitter->pointers = builder->pointers;
    emitter->written = builder->written;
    emitter->wide = kernel_is_wide(builder);
    builder->wide |= emitter->wide;
    return PHASOR_OK;
}

phasor_status kernel_emitter_end(struct kernel_builder *builder, struct emitter *emitter)
{
    const phasor_status status = emitter->status;
    builder->uses_flag |= emitter->uses_flag;
    emitter_free(emitter);
    return status;
}

uint32_t kernel_power_of_two(int64_t at_least, uint32_t most)
{
    uint32_t power = 1;
    while (power < most && power < at_least)
        power *= 2;
    return power;
}

static bool lanes_stay_inside(const struct sizes *pool, const dim *sizes, int rank, int64_t lanes)
{
    for (int d = rank - 1; d >= 0 && lanes > 1; d--) {
        const int64_t size = size_value(pool, sizes[d]);
        if (size % lanes == 0)
            return true;
        if (size == 0 || lanes % size != 0)
            return false;
        lanes /= size;
    }
    return lanes == 1;
}

int kernel_lanes(const struct kernel_builder *builder, const dim *sizes, int rank, int most,
                 bool gapless)
{
    const struct sizes *pool = &builder->plan->sizes;
    const int64_t count = size_value(pool, kernel_count(builder, sizes, rank));
    for (int lanes = most; lanes > 1; lanes /= 2)
        if (lanes_stay_inside(pool, sizes, rank, lanes) || (gapless && count % lanes == 0))
            return lanes;
    return 1;
}

phasor_status kernel_pointer(struct kernel_builder *builder, int buffer, bool written)
{
    struct kernel *kernel = builder->launch;
    builder->written[buffer] |= written;
    if (builder->pointers[buffer] >= 0)
        return PHASOR_OK;
    struct kernel_argument *arguments =
        NEW(&builder->plan->arena, struct kernel_argument, kernel->argument_count + 1);
    if (!arguments)
        return fail_memory();
    if (kernel->argument_count)
        memcpy(arguments, kernel->arguments, (size_t)kernel->argument_count * sizeof *arguments);
    arguments[kernel->argument_count] =
        (struct kernel_argument){.is_buffer = true, .buffer = buffer};
    builder->pointers[buffer] = kernel->argument_count++;
    kernel->arguments = arguments;
    return PHASOR_OK;
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
    const int64_t most = INT32_MAX;
    for (size_t f = 0; f < index->forms.count; f++)
        if (size_value(index->sizes, index->forms.at[f].highest) > most)
            return true;
    return builder->runs > most;
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
    builder->launch->name =
        arena_format(&plan->arena, "phasor_%s", name.length ? text_get(&name) : "copy");
    builder->launch->operators = arena_string(&plan->arena, text_get(&operators));
    const bool failed =
        name.failed || operators.failed || !builder->launch->name || !builder->launch->operators;
    text_free(&name);
    text_free(&operators);
    return failed ? fail_memory() : PHASOR_OK;
}

static void emit_arguments(struct kernel_builder *builder, struct text *out)
{
    struct kernel *kernel = builder->launch;
    text_add(out, "struct args {\n");
    for (int i = 0; i < kernel->argument_count; i++) {
        const int buffer = kernel->arguments[i].buffer;
        text_format(out, "    %svoid *p%d;\n", builder->written[buffer] ? "" : "const ", i);
    }
    kernel->argument_bytes = 8 * kernel->argument_count;
    kernel->flag_argument = -1;
    if (builder->uses_flag) {
        text_add(out, "    u32 *flag;\n");
        kernel->flag_argument = kernel->argument_bytes;
        kernel->argument_bytes += 8;
    }
    text_add(out, "};\n\n");
}

/* What the kinds of kernels differ in here: the template, and the function that fills in its
 * prologue. */
static const struct {
    const char *file;
    size_t text; /* offset in struct templates */
    phasor_status (*build)(struct kernel_builder *);
} kinds[] = {
    [KERNEL_MAP] = {"map.cu", offsetof(struct templates, map), kernel_map},
    [KERNEL_ROW] = {"map.cu", offsetof(struct templates, map), kernel_row},
    [KERNEL_SCATTER] = {"map.cu", offsetof(struct templates, map), kernel_scatter},
    [KERNEL_REDUCE] = {"reduce.cu", offsetof(struct templates, reduce), kernel_reduce},
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
        text_format(&out, "#define PARTS %d\n", builder->part + 1);
    text_add(&out, text_get(&builder->defines));
    text_format(&out, "typedef %s index_t;\n", builder->wide ? "u64" : "u32");
    emit_arguments(builder, &out);
    text_add(&out, text_get(&builder->functions));
    text_format(&out, "\n#line 1 \"%s\"\n%s", parts ? "maps.cu" : kinds[kernel->kind].file,
                parts ? builder->templates->maps : template_text(builder->templates, kernel->kind));
    kernel->source = out.failed || builder->functions.failed || builder->defines.failed
                         ? NULL
                         : arena_string(&builder->plan->arena, text_get(&out));
    if (kernel->source)
        kernel->key = hash_bytes(kernel->source, strlen(kernel->source));
    text_free(&out);
    return kernel->source ? PHASOR_OK : fail_memory();
}

/* The part's blocks and runs, as the template wants them. */
static phasor_status part_geometry(struct kernel_builder *builder)
{
    const int64_t per_block =
        builder->kernel->kind == KERNEL_REDUCE ? builder->side : builder->block;
    const int64_t blocks = builder->runs / per_block + (builder->runs % per_block != 0);
    if (blocks > INT32_MAX - (int64_t)builder->blocks)
        return fail(PHASOR_ERROR_INPUT, "%lld blocks; a launch has at most %d", (long long)blocks,
                    INT32_MAX);
    char number[16] = "";
    if (builder->part >= 0) {
        snprintf(number, sizeof number, "%d", builder->part);
        text_format(&builder->defines, "#define BLOCKS%s %lldu\n", number, (long long)blocks);
    }
    text_format(&builder->defines, "#define COUNT%s %llu%s\n", number,
                (unsigned long long)builder->runs, kernel_is_wide(builder) ? "ull" : "u");
    builder->blocks += (uint32_t)blocks;
    return PHASOR_OK;
}

/* Elements of a buffer that the part in work reads, each once. */
static int64_t elements_read(const struct kernel_builder *builder, int buffer)
{
    const struct plan *plan = builder->plan;
    const struct buffer *b = &plan->buffers.at[buffer];
    const enum kernel_kind kind = builder->kernel->kind;
    const int64_t all = size_value(&plan->sizes, kernel_count(builder, b->sizes, b->rank));
    int64_t loads = 0;
    for (expr e = 1; e < builder->trace.expressions.count; e++)
        loads += builder->trace.expressions.at[e].kind == EXPR_LOAD &&
                 builder->trace.expressions.at[e].buffer == buffer;
    const bool once = kind == KERNEL_MAP || kind == KERNEL_ROW || kind == KERNEL_SCATTER;
    return loads == 0 ? 0 : once && loads * builder->runs < all ? loads * builder->runs : all;
}

/* Each element read once, each result written once. */
static int64_t part_bytes(const struct kernel_builder *builder)
{
    const struct plan *plan = builder->plan;
    int64_t bytes = 0;
    for (size_t b = 0; b < plan->buffers.count; b++)
        bytes += elements_read(builder, (int)b) * dtype_size(plan->buffers.at[b].dtype);
    for (int s = 0; s < builder->kernel->store_count; s++) {
        const struct buffer *b = plan_buffer(plan, builder->kernel->stores[s].buffer);
        const int64_t stored =
            builder->kernel->kind == KERNEL_SCATTER
                ? builder->runs * builder->lanes
                : size_value(&plan->sizes, kernel_count(builder, b->sizes, b->rank));
        bytes += stored * dtype_size(b->dtype);
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
    builder->bytes += part_bytes(builder);
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
    TRY(kernel_source(builder));
    builder->launch->bytes = builder->bytes;
    builder->launch->grid = builder->blocks;
    builder->launch->block = builder->block;
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
    arena_free(&builder.scratch);
    return status;
}

phasor_status codegen_plan(struct plan *plan, const struct templates *templates)
{
    size_t launches = 0;
    for (size_t k = 0, end; k < plan->kernels.count; k = end) {
        for (end = k + 1; end < plan->kernels.count &&
                          plan->kernels.at[end].launch == plan->kernels.at[k].launch;
             end++)
            continue;
        TRY(launch_build(plan, k, end - k, templates));
        plan->kernels.at[launches++] = plan->kernels.at[k];
    }
    plan->kernels.count = launches;
    return PHASOR_OK;
}
