/* kernel_scan.c - running sums and products.
 *
 *     cumsum(%1) axis=1 of f32 [8, 100]
 *       load(a, i, r, x)         the 4 elements of row i from 4*r on
 *       element(a, i, e)         one of those that no whole run has
 *       store(a, i, r, x), store_element(a, i, e, acc)
 *
 *     in stages (plan/split.c): the carry stage reads and writes what the parts gave; the last has
 *       carry(a, i, part)        what is before the part */
#include "codegen/kernel.h"

#include <stdio.h>

struct scan {
    struct row_parts parts;
    expr results[LANES_MAX], result; /* of a run, of an element */
    form addresses[LANES_MAX], address;
};

static phasor_status scan_trace(struct kernel_builder *builder, struct scan *scan)
{
    struct trace *trace = &builder->trace;
    struct index_pool *index = &trace->index;
    struct row_parts *parts = &scan->parts;
    const struct buffer *buffer = plan_buffer(builder->plan, builder->kernel->stores[0].buffer);
    const dim run = size_literal(index->sizes, builder->lanes);
    TRY(kernel_row_trace(builder, parts));
    const form first = index_scale(
        index, index_variable(index, 'r', size_floordiv(index->sizes, parts->rows.length, run)),
        run);
    form at[RANK_MAX];
    for (int l = 0; l < builder->lanes && parts->run[0]; l++) {
        kernel_row_coordinates(builder, parts,
                               index_offset(index, first, size_literal(index->sizes, l)), at);
        scan->results[l] = trace_special(trace, parts->node->dtype, l);
        scan->addresses[l] = trace_address(trace, buffer, at);
    }
    scan->result = trace_special(trace, parts->node->dtype, 0);
    kernel_row_coordinates(builder, parts, index_variable(index, 'e', parts->rows.length), at);
    scan->address = trace_address(trace, buffer, at);
    builder->trace.visited[builder->kernel->special] = true;
    return trace_status(trace);
}

static phasor_status emit_load(struct kernel_builder *builder, const struct scan *scan)
{
    struct emitter emitter;
    const int lanes = scan->parts.run[0] ? builder->lanes : 0;
    TRY(kernel_emitter(builder, &emitter));
    text_add(&builder->functions,
             "DEVICE void load(const args &a, index_t i, index_t r, acc_t *x)\n{\n");
    emit_loads(&emitter, scan->parts.run, lanes);
    for (int l = 0; l < lanes; l++) {
        char name[NAME_SIZE];
        emit_value(&emitter, scan->parts.run[l], name);
        text_format(&builder->functions, "    x[%d] = (acc_t)%s;\n", l, name);
    }
    text_add(&builder->functions, "}\n");
    TRY(kernel_emitter_end(builder, &emitter));
    return kernel_row_element(builder, &scan->parts);
}

static phasor_status emit_stores(struct kernel_builder *builder, const struct scan *scan)
{
    struct emitter emitter;
    struct text *out = &builder->functions;
    const enum dtype dtype = scan->parts.node->dtype;
    const int buffer = builder->kernel->stores[0].buffer,
              lanes = scan->parts.run[0] ? builder->lanes : 0;
    TRY(kernel_emitter(builder, &emitter));
    text_add(out, "DEVICE void store(const args &a, index_t i, index_t r, const acc_t *x)\n{\n");
    for (int l = 0; l < lanes; l++) {
        char from[NAME_SIZE];
        snprintf(from, sizeof from, "x[%d]", l);
        emit_result(dtype, l, from, out);
    }
    emit_store(&emitter, buffer, scan->addresses, scan->results, lanes);
    text_add(out, "}\n");
    TRY(kernel_emitter_end(builder, &emitter));
    if (!scan->parts.rest)
        return PHASOR_OK;
    TRY(kernel_emitter(builder, &emitter));
    text_add(out, "DEVICE void store_element(const args &a, index_t i, index_t e, acc_t acc)\n{\n");
    emit_result(dtype, 0, "acc", out);
    emit_store(&emitter, buffer, &scan->address, &scan->result, 1);
    text_add(out, "}\n");
    return kernel_emitter_end(builder, &emitter);
}

/* What the parts gave, read and written as it is. */
static void emit_scratch(struct kernel_builder *builder)
{
    const int pointer = builder->pointers[builder->kernel->scratch];
    text_add(&builder->defines, "#define REST\n");
    text_format(&builder->functions,
                "DEVICE acc_t element(const args &a, index_t i, index_t e)\n{\n"
                "    return ((const acc_t *)a.p%d)[i * LENGTH + e];\n}\n"
                "DEVICE void load(const args &a, index_t i, index_t r, acc_t *x)\n{\n"
                "    for (int l = 0; l < LANES; l++)\n"
                "        x[l] = element(a, i, r * LANES + l);\n}\n"
                "DEVICE void store_element(const args &a, index_t i, index_t e, acc_t acc)\n{\n"
                "    ((acc_t *)a.p%d)[i * LENGTH + e] = acc;\n}\n"
                "DEVICE void store(const args &a, index_t i, index_t r, const acc_t *x)\n{\n"
                "    for (int l = 0; l < LANES; l++)\n"
                "        store_element(a, i, r * LANES + l, x[l]);\n}\n",
                pointer, pointer);
}

static phasor_status emit_carry(struct kernel_builder *builder)
{
    const int scratch = builder->kernel->scratch;
    if (builder->kernel->stage != STAGE_LAST)
        return PHASOR_OK;
    TRY(kernel_pointer(builder, scratch, false));
    kernel_define_parts(builder, builder->lanes);
    text_format(
        &builder->functions,
        "DEVICE acc_t carry(const args &a, index_t i, index_t part)\n{\n"
        "    return part ? ((const acc_t *)a.p%d)[i * ROW_PARTS + part - 1] : identity();\n}\n",
        builder->pointers[scratch]);
    return PHASOR_OK;
}

/* Threads of a block: `width` a row, a run each; `side` rows. A row of few runs, which is one tile,
 * has few threads. */
static void scan_geometry(struct kernel_builder *builder, const struct rows *rows)
{
    enum { BLOCK_LEAST = 128 };
    struct sizes *sizes = &builder->plan->sizes;
    uint32_t width = (uint32_t)rows->strands, side = 1;
    if (size_is_literal(sizes, rows->length))
        width = kernel_power_of_two(
            (size_value(sizes, rows->length) + builder->lanes - 1) / builder->lanes, width);
    if (rows->order != ROWS_ALONG) {
        const uint32_t most = rows->order == ROWS_NARROW ? ROWS_NARROW_MOST : ROWS_SIDE;
        side = size_is_literal(sizes, rows->inner)
                   ? kernel_power_of_two(size_value(sizes, rows->inner), most)
                   : most;
    }
    side = side > BLOCK_LEAST / width ? side : BLOCK_LEAST / width;
    side = side > 0 ? side : 1;
    builder->block = width * side;
    builder->side = side;
    text_format(&builder->defines, "#define SIDE %u\n#define LANES %d\n%s", side, builder->lanes,
                rows->order == ROWS_ALONG ? "#define ALONG\n" : "");
}

phasor_status kernel_scan(struct kernel_builder *builder)
{
    struct sizes *sizes = &builder->plan->sizes;
    const struct kernel *kernel = builder->kernel;
    struct scan scan = {0};
    kernel_rows(builder, true, &scan.parts);
    struct rows *rows = &scan.parts.rows;
    if (kernel->stage == STAGE_CARRY) {
        rows->order = ROWS_ALONG;
        rows->length = kernel->parts;
        rows->strands = SCAN_ALONG_RUNS / 2;
        rows->run = 4;
    }
    builder->lanes = rows->run;
    if (size_is_literal(sizes, rows->length) && size_value(sizes, rows->length) < rows->run)
        builder->lanes = rows->length ? (int)size_value(sizes, rows->length) : 1;
    if (kernel->stage != STAGE_CARRY)
        TRY(scan_trace(builder, &scan));
    scan_geometry(builder, rows);
    kernel_define_inside(builder, "LENGTH", rows->length);
    kernel_combination(builder, scan.parts.node->op, scan.parts.accumulator, 0);
    if (kernel->stage == STAGE_CARRY) {
        TRY(kernel_pointer(builder, kernel->scratch, true));
        builder->trace.visited[kernel->special] = true;
        emit_scratch(builder);
        return PHASOR_OK;
    }
    TRY(kernel_pointers(builder));
    TRY(kernel_pointer(builder, kernel->stores[0].buffer, true));
    TRY(emit_carry(builder));
    TRY(emit_load(builder, &scan));
    return emit_stores(builder, &scan);
}
