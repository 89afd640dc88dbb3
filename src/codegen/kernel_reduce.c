/* kernel_reduce.c - reductions.
 *
 *     rsqrt(add(mean, eps)) of f32 [8, 32, 128] over the last dim
 *       run(a, i, r)        the 4 elements of row i from 4*r on, producers applied, combined
 *       store(a, i, acc)    the consumers, one element
 *
 *     sum of f32 [1000003] in parts (plan/split.c)
 *       run(a, i, r), element(a, i, e)                the elements that no whole run has, one by one
 *       store(a, i, part, acc)                        into scratch
 *     and in the last stage
 *       run(a, i, r)        a part's result
 *       store(a, i, acc)
 *
 * Sums of f16 and bf16 are in f32, of small integers in i64. */
#include "codegen/kernel.h"

#include <string.h>

/* CUDA cells of the reduction rows, and of scans. */
static const struct {
    const char *identity, *combine;
} reductions[OP_COUNT] = {
#define REDUCE(name, type, on, complex, rules, identity_c, combine_c, identity_cuda, combine_cuda) \
    [OP_##name] = {identity_cuda, combine_cuda},
#include "graph/ops.def"
    [OP_cumsum] = {"0", "%0 + %1"},
    [OP_cumprod] = {"1", "%0 * %1"},
};

const char *kernel_suffix(int number)
{
    static const char *const suffixes[ROOTS_MAX] = {"", "1", "2", "3"};
    return suffixes[number];
}

void kernel_combination(struct kernel_builder *builder, enum op reduction, enum dtype accumulator,
                        int number)
{
    struct text *out = &builder->functions;
    const char *n = kernel_suffix(number);
    text_format(&builder->defines, "typedef %s acc%s_t;\n", emit_type(accumulator), n);
    text_format(out, "DEVICE acc%s_t identity%s() { return ", n, n);
    emit_cell(reductions[reduction].identity, accumulator, NULL, out);
    text_format(out, "; }\nDEVICE acc%s_t combine%s(acc%s_t x, acc%s_t y) { return ", n, n, n, n);
    emit_cell(reductions[reduction].combine, accumulator, (const char *const[]){"x", "y"}, out);
    text_add(out, "; }\n");
}

void kernel_accumulate(struct kernel_builder *builder, struct emitter *emitter,
                       enum dtype accumulator, int number, expr element)
{
    char name[NAME_SIZE];
    const char *n = kernel_suffix(number);
    emit_value(emitter, element, name);
    if (accumulator == DT_bool)
        text_format(&builder->functions, "    acc%s = combine%s(acc%s, %s != 0);\n", n, n, n, name);
    else
        text_format(&builder->functions, "    acc%s = combine%s(acc%s, (acc%s_t)%s);\n", n, n, n, n,
                    name);
}

/* -- rows -------------------------------------------------------------------------------------- */

void kernel_rows(struct kernel_builder *builder, bool scan, struct row_parts *parts)
{
    struct plan *plan = builder->plan;
    const value special = builder->kernel->special;
    *parts = (struct row_parts){.node = graph_node(&plan->graph, special)};
    parts->operand = graph_node(&plan->graph, parts->node->arguments[0]);
    parts->accumulator = plan_accumulator(parts->node->op, parts->operand->dtype);
    plan_rows(plan, special, scan, &parts->rows);
    dim kept[RANK_MAX];
    int rank = 0;
    for (int d = 0, gone = 0; d < parts->operand->rank; d++)
        if (gone < parts->rows.axis_count && parts->rows.axes[gone] == d)
            gone++;
        else
            kept[rank++] = parts->operand->shape[d];
    builder->runs = kernel_count(builder, kept, rank);
    trace_unravel(&builder->trace, index_variable(&builder->trace.index, 'i', builder->runs), kept,
                  rank, parts->at);
}

/* Those of the operand from those of the row and the element's number in it. */
void kernel_row_coordinates(struct kernel_builder *builder, const struct row_parts *parts,
                            form element, form *out)
{
    const struct rows *rows = &parts->rows;
    dim sizes[RANK_MAX];
    form inside[RANK_MAX];
    for (int i = 0; i < rows->axis_count; i++)
        sizes[i] = parts->operand->shape[rows->axes[i]];
    trace_unravel(&builder->trace, element, sizes, rows->axis_count, inside);
    for (int d = 0, kept = 0, gone = 0; d < parts->operand->rank; d++)
        out[d] =
            gone < rows->axis_count && rows->axes[gone] == d ? inside[gone++] : parts->at[kept++];
}

/* What of a row whole runs cover comes by runs; REST: not all of it is. */
phasor_status kernel_row_trace(struct kernel_builder *builder, struct row_parts *parts)
{
    struct index_pool *index = &builder->trace.index;
    const value operand = parts->node->arguments[0];
    const dim length = parts->rows.length, run = size_literal(index->sizes, builder->lanes),
              whole = size_floordiv(index->sizes, length, run);
    const form first = index_scale(index, index_variable(index, 'r', whole), run);
    form at[RANK_MAX];
    for (int l = 0; l < builder->lanes && whole != 0; l++) {
        kernel_row_coordinates(builder, parts,
                               index_offset(index, first, size_literal(index->sizes, l)), at);
        parts->run[l] = trace_element(&builder->trace, operand, at, 0);
    }
    parts->rest = !size_is_multiple(index->sizes, length, builder->lanes);
    if (parts->rest) {
        kernel_row_coordinates(builder, parts, index_variable(index, 'e', length), at);
        parts->element = trace_element(&builder->trace, operand, at, 0);
        text_add(&builder->defines, "#define REST\n");
    }
    return trace_status(&builder->trace);
}

phasor_status kernel_row_element(struct kernel_builder *builder, const struct row_parts *parts)
{
    struct emitter emitter;
    char name[NAME_SIZE];
    if (!parts->rest)
        return PHASOR_OK;
    TRY(kernel_emitter(builder, &emitter));
    text_add(&builder->functions, "DEVICE acc_t element(const args &a, index_t i, index_t e)\n{\n");
    emit_loads(&emitter, &parts->element, 1);
    emit_value(&emitter, parts->element, name);
    text_format(&builder->functions, "    return (acc_t)%s%s;\n}\n", name,
                parts->accumulator == DT_bool ? " != 0" : "");
    return kernel_emitter_end(builder, &emitter);
}

/* -- what a reduction is made of --------------------------------------------------------------- */

/* Elements in pairs, pairs of pairs, ... */
static phasor_status emit_run(struct kernel_builder *builder, const struct row_parts *parts)
{
    struct emitter emitter;
    struct text *out = &builder->functions;
    const int lanes = parts->run[0] ? builder->lanes : 0;
    TRY(kernel_emitter(builder, &emitter));
    text_add(out, "DEVICE acc_t run(const args &a, index_t i, index_t r)\n{\n");
    emit_loads(&emitter, parts->run, lanes);
    for (int l = 0; l < lanes; l++) {
        char name[NAME_SIZE];
        emit_value(&emitter, parts->run[l], name);
        text_format(out, "    acc_t acc%d = (acc_t)%s%s;\n", l, name,
                    parts->accumulator == DT_bool ? " != 0" : "");
    }
    for (int step = 1; step < lanes; step *= 2)
        for (int l = 0; l + step < lanes; l += 2 * step)
            text_format(out, "    acc%d = combine(acc%d, acc%d);\n", l, l, l + step);
    text_format(out, "    return %s;\n}\n", lanes ? "acc0" : "identity()");
    return kernel_emitter_end(builder, &emitter);
}

static phasor_status emit_epilogue(struct kernel_builder *builder, const struct row_parts *parts,
                                   expr element, form address)
{
    struct emitter emitter;
    TRY(kernel_emitter(builder, &emitter));
    text_add(&builder->functions, "DEVICE void store(const args &a, index_t i, acc_t acc)\n{\n");
    emit_result(parts->node->dtype, 0, "acc", &builder->functions);
    emit_loads(&emitter, &element, 1);
    emit_store(&emitter, builder->kernel->stores[0].buffer, &address, &element, 1);
    text_add(&builder->functions, "}\n");
    return kernel_emitter_end(builder, &emitter);
}

/* Threads of a block: `width` a row, `side` rows. A row of few runs has few strands. */
static void reduction_geometry(struct kernel_builder *builder, const struct rows *rows)
{
    enum { BLOCK_ALONG = 128, BLOCK_ACROSS = 512, BLOCK_PARTS = 256 };
    struct sizes *sizes = &builder->plan->sizes;
    const bool along = rows->order == ROWS_ALONG;
    const uint32_t block = !along                                 ? BLOCK_ACROSS
                           : builder->kernel->stage == STAGE_LAST ? BLOCK_PARTS
                                                                  : BLOCK_ALONG;
    const uint32_t most = (uint32_t)rows->strands;
    uint32_t strands = most, side = 1;
    if (size_is_literal(sizes, rows->length))
        strands = kernel_power_of_two(
            (size_value(sizes, rows->length) + builder->lanes - 1) / builder->lanes, most);
    if (!along)
        side = size_is_literal(sizes, rows->inner)
                   ? kernel_power_of_two(size_value(sizes, rows->inner), ROWS_SIDE)
                   : ROWS_SIDE;
    const uint32_t width = strands < block / side ? strands : block / side;
    side = side > BLOCK_ALONG / width ? side : BLOCK_ALONG / width;
    builder->block = width * side;
    builder->side = side;
    text_format(&builder->defines, "#define SIDE %u\n#define STRANDS %u\n#define LANES %d\n%s",
                side, strands, builder->lanes, along ? "#define ALONG\n" : "");
}

/* -- stages ------------------------------------------------------------------------------------ */

static phasor_status reduce_parts(struct kernel_builder *builder, struct row_parts *parts)
{
    const struct kernel *kernel = builder->kernel;
    TRY(kernel_pointers(builder));
    TRY(kernel_pointer(builder, kernel->scratch, true));
    builder->trace.visited[kernel->special] = true;
    kernel_define_parts(builder, builder->lanes);
    TRY(emit_run(builder, parts));
    TRY(kernel_row_element(builder, parts));
    text_format(&builder->functions,
                "DEVICE void store(const args &a, index_t i, index_t part, acc_t acc)\n{\n"
                "    ((acc_t *)a.p%d)[i * ROW_PARTS + part] = acc;\n}\n",
                builder->pointers[kernel->scratch]);
    return PHASOR_OK;
}

static phasor_status reduce_store(struct kernel_builder *builder, struct row_parts *parts)
{
    const struct kernel *kernel = builder->kernel;
    const struct kernel_store *store = &kernel->stores[0];
    const expr element = trace_compute(&builder->trace, store->node, parts->at, 0);
    const form address =
        trace_address(&builder->trace, plan_buffer(builder->plan, store->buffer), parts->at);
    TRY(trace_status(&builder->trace));
    TRY(kernel_pointers(builder));
    TRY(kernel_pointer(builder, store->buffer, true));
    if (kernel->stage == STAGE_LAST) {
        TRY(kernel_pointer(builder, kernel->scratch, false));
        text_format(&builder->functions,
                    "DEVICE acc_t run(const args &a, index_t i, index_t r)\n{\n"
                    "    return ((const acc_t *)a.p%d)[i * LENGTH + r];\n}\n",
                    builder->pointers[kernel->scratch]);
    } else {
        TRY(emit_run(builder, parts));
        TRY(kernel_row_element(builder, parts));
    }
    return emit_epilogue(builder, parts, element, address);
}

phasor_status kernel_reduce(struct kernel_builder *builder)
{
    struct sizes *sizes = &builder->plan->sizes;
    const enum kernel_stage stage = builder->kernel->stage;
    struct row_parts parts;
    kernel_rows(builder, false, &parts);
    struct rows *rows = &parts.rows;
    if (stage == STAGE_LAST) {
        rows->order = ROWS_ALONG;
        rows->length = builder->kernel->parts;
        rows->strands = REDUCE_ALONG_STRANDS;
        rows->run = 1;
    }
    builder->lanes = rows->run;
    if (size_is_literal(sizes, rows->length) && size_value(sizes, rows->length) < rows->run)
        builder->lanes = rows->length ? (int)size_value(sizes, rows->length) : 1;
    if (stage != STAGE_LAST)
        TRY(kernel_row_trace(builder, &parts));
    reduction_geometry(builder, rows);
    kernel_define_inside(builder, "LENGTH", rows->length);
    kernel_combination(builder, parts.node->op, parts.accumulator, 0);
    return stage == STAGE_PARTS ? reduce_parts(builder, &parts) : reduce_store(builder, &parts);
}
