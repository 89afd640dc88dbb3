/* kernel_reduce.c - reductions.
 *
 *     rsqrt(add(mean, eps)) of f32 [8, 32, 128] over the last dim
 *       accumulate(a, i, r, acc)   4 lanes of row i, from 4*r on, producers applied
 *       store(a, i, acc)           the consumers, one element
 *
 * Sums of f16 and bf16 run in f32, of small integers in i64. */
#include "codegen/kernel.h"

#include <string.h>

/* CUDA cells of the reduction rows. */
static const struct {
    const char *identity, *combine;
} reductions[OP_COUNT] = {
#define REDUCE(name, type, on, complex, rules, identity_c, combine_c, identity_cuda, combine_cuda) \
    [OP_##name] = {identity_cuda, combine_cuda},
#include "graph/ops.def"
};

struct reduction {
    struct kernel_builder *builder;
    const struct node *node, *operand;
    enum dtype accumulator;
    int axes[RANK_MAX], axis_count; /* reduced, in the operand's order */
    form row[RANK_MAX];             /* coordinates of the result */
};

enum dtype kernel_accumulator(const struct node *reduce, enum dtype operand)
{
    if (op_info[reduce->op].type == TYPE_BOOL || operand == DT_bool)
        return op_info[reduce->op].type == TYPE_BOOL ? DT_bool : operand;
    return dtype_info[operand].compute;
}

void kernel_combination(struct kernel_builder *builder, enum op reduction, enum dtype accumulator)
{
    struct text *out = &builder->functions;
    text_format(&builder->defines, "typedef %s acc_t;\n", emit_type(accumulator));
    text_add(out, "DEVICE acc_t identity() { return ");
    emit_cell(reductions[reduction].identity, accumulator, NULL, out);
    text_add(out, "; }\nDEVICE acc_t combine(acc_t x, acc_t y) { return ");
    emit_cell(reductions[reduction].combine, accumulator, (const char *const[]){"x", "y"}, out);
    text_add(out, "; }\n");
}

void kernel_accumulate(struct kernel_builder *builder, struct emitter *emitter,
                       enum dtype accumulator, expr element)
{
    char name[NAME_SIZE];
    emit_value(emitter, element, name);
    text_format(&builder->functions,
                accumulator == DT_bool ? "    acc = combine(acc, %s != 0);\n"
                                       : "    acc = combine(acc, (acc_t)%s);\n",
                name);
}

/* Coordinates of the operand from those of the result and of the reduced dims. */
static void operand_coordinates(const struct reduction *reduction, const form *reduced, form *out)
{
    for (int d = 0, kept = 0, gone = 0; d < reduction->operand->rank; d++)
        if (gone < reduction->axis_count && reduction->axes[gone] == d)
            out[d] = reduced[gone++];
        else
            out[d] = reduction->row[kept++];
}

static phasor_status emit_accumulate(struct reduction *reduction, const expr *lanes, int count)
{
    struct emitter emitter;
    TRY(kernel_emitter(reduction->builder, &emitter));
    text_add(&reduction->builder->functions,
             "DEVICE acc_t accumulate(const args &a, index_t i, index_t r, acc_t acc)\n{\n");
    emit_loads(&emitter, lanes, count);
    for (int l = 0; l < count; l++)
        kernel_accumulate(reduction->builder, &emitter, reduction->accumulator, lanes[l]);
    text_add(&reduction->builder->functions, "    return acc;\n}\n");
    return kernel_emitter_end(reduction->builder, &emitter);
}

static phasor_status emit_epilogue(struct reduction *reduction, expr element, form address)
{
    struct kernel_builder *builder = reduction->builder;
    struct emitter emitter;
    TRY(kernel_emitter(reduction->builder, &emitter));
    text_add(&builder->functions, "DEVICE void store(const args &a, index_t i, acc_t acc)\n{\n");
    emit_result(reduction->node->dtype, &builder->functions);
    emit_loads(&emitter, &element, 1);
    emit_store(&emitter, builder->kernel->stores[0].buffer, &address, &element, 1);
    text_add(&builder->functions, "}\n");
    return kernel_emitter_end(reduction->builder, &emitter);
}

static void reduction_begin(struct reduction *reduction, struct kernel_builder *builder)
{
    const struct graph *graph = &builder->plan->graph;
    *reduction =
        (struct reduction){.builder = builder, .node = graph_node(graph, builder->kernel->special)};
    reduction->operand = graph_node(graph, reduction->node->arguments[0]);
    reduction->accumulator = kernel_accumulator(reduction->node, reduction->operand->dtype);
    for (int d = 0; d < reduction->operand->rank; d++)
        for (int i = 0; i < reduction->node->attributes.axis_count; i++)
            if (reduction->node->attributes.axes[i] == d)
                reduction->axes[reduction->axis_count++] = d;
}

static bool is_fixed(const struct reduction *reduction, int axis)
{
    return plan_is_fixed(reduction->builder->plan, reduction->node->arguments[0], axis);
}

static int reduction_lanes(const struct reduction *reduction)
{
    const int count = reduction->axis_count;
    if (count == 0 || reduction->axes[count - 1] != reduction->operand->rank - 1)
        return 1;
    const int nbytes = dtype_size(reduction->operand->dtype),
              most = 16 / nbytes < 8 ? 16 / nbytes : 8;
    return is_fixed(reduction, reduction->operand->rank - 1)
               ? kernel_lanes(reduction->builder,
                              &reduction->operand->shape[reduction->operand->rank - 1], 1, most,
                              false)
               : 1;
}

/* A block for a row that is long; many rows in a block where rows are short, or where neighbours in
 * memory are other rows. Rows of any length are shared by as many threads whatever it is. */
static void reduction_geometry(struct reduction *reduction, dim length)
{
    struct kernel_builder *builder = reduction->builder;
    const int count = reduction->axis_count;
    const bool along_memory = count && reduction->axes[count - 1] == reduction->operand->rank - 1;
    bool fixed = true;
    for (int i = 0; i < count; i++)
        fixed &= is_fixed(reduction, reduction->axes[i]);
    const uint32_t most = along_memory ? (fixed ? 256 : 128) : 8;
    const uint32_t threads =
        fixed ? kernel_power_of_two(size_pin(&builder->plan->sizes, length), most) : most;
    builder->block = threads > 128 ? threads : 128;
    builder->side = builder->block / threads;
    text_format(&builder->defines, "#define SIDE %u\n", builder->side);
}

/* The lanes of run r; none where there is nothing to reduce. */
static phasor_status trace_lanes(struct reduction *reduction, dim length, expr lanes[LANES_MAX])
{
    struct kernel_builder *builder = reduction->builder;
    struct index_pool *index = &builder->trace.index;
    dim sizes[RANK_MAX];
    for (int i = 0; i < reduction->axis_count; i++)
        sizes[i] = reduction->operand->shape[reduction->axes[i]];
    const form run = index_variable(index, 'r', length);
    for (int l = 0; l < builder->lanes && length != 0; l++) {
        form reduced[RANK_MAX], at[RANK_MAX];
        const form element =
            index_offset(index, index_scale(index, run, size_literal(index->sizes, builder->lanes)),
                         size_literal(index->sizes, l));
        trace_unravel(&builder->trace, element, sizes, reduction->axis_count, reduced);
        operand_coordinates(reduction, reduced, at);
        lanes[l] = trace_element(&builder->trace, reduction->node->arguments[0], at, 0);
    }
    return trace_status(&builder->trace);
}

phasor_status kernel_reduce(struct kernel_builder *builder)
{
    struct reduction reduction;
    struct index_pool *index = &builder->trace.index;
    reduction_begin(&reduction, builder);
    dim gone[RANK_MAX];
    for (int i = 0; i < reduction.axis_count; i++)
        gone[i] = reduction.operand->shape[reduction.axes[i]];
    builder->lanes = reduction_lanes(&reduction);
    const dim length =
        size_floordiv(index->sizes, kernel_count(builder, gone, reduction.axis_count),
                      size_literal(index->sizes, builder->lanes));
    builder->runs = kernel_count(builder, reduction.node->shape, reduction.node->rank);

    const form row = index_variable(index, 'i', builder->runs);
    trace_unravel(&builder->trace, row, reduction.node->shape, reduction.node->rank, reduction.row);
    expr lanes[LANES_MAX] = {0};
    TRY(trace_lanes(&reduction, length, lanes));
    const struct kernel_store *store = &builder->kernel->stores[0];
    const expr element = trace_compute(&builder->trace, store->node, reduction.row, 0);
    const form address =
        trace_address(&builder->trace, plan_buffer(builder->plan, store->buffer), reduction.row);
    TRY(trace_status(&builder->trace));

    TRY(kernel_pointers(builder));
    TRY(kernel_pointer(builder, store->buffer, true));
    reduction_geometry(&reduction, length);
    kernel_define_length(builder, length);
    kernel_combination(builder, reduction.node->op, reduction.accumulator);
    TRY(emit_accumulate(&reduction, lanes, length != 0 ? builder->lanes : 0));
    return emit_epilogue(&reduction, element, address);
}
