/* split.c - rows of reductions and scans: how they are cut, and long ones shared by many blocks.
 *
 *     sum of f32 [1000000]      489 parts      parts   489 blocks, a part each       -> scratch
 *                                              last    their sum, what follows it    -> the result
 *     cumsum of f32 [1000000]   489 parts      parts   as above: the sum of each     -> scratch
 *                                              carry   the running sums of these, in their place
 *                                              last    each part, from what is before it on
 *
 * The order in which elements are combined is a function of the sizes alone, whether they are
 * literals or arguments, and of nothing of the device:
 *
 *   1. A row is cut into runs: of 16 bytes where the last dim is among those that go, of one
 *      element otherwise. The elements of a run are combined in pairs, pairs of pairs, ...
 *   2. Runs q, q + strands, q + 2 * strands, ... of a part are strand q. They are combined one
 *      after another.
 *   3. Strand q is combined with q + strands / 2, then with q + strands / 4, ...
 *   4. The results of the parts are reduced in the same way.
 *
 * A run or strand that is not there is the identity, which changes nothing: so a thread may have
 * one strand or several, and rows of few runs have few strands. A scan combines the runs of a tile
 * in a tree of fixed shape (scan.cu), and tiles one after another.
 *
 * What is asked of a size here (is the row long, are there few of them?) becomes a guard where the
 * size is an argument: a class of sizes has one answer. */
#include "plan/fusion.h"

/* A row is long from `long_runs` on, where whole rows would give less than `few` blocks: then its
 * parts have at least `part_runs` each, and all of them make about `most` blocks. */
static const struct {
    int64_t long_runs, part_runs, few, most;
} reductions[] = {[ROWS_ALONG] = {2048, 512, 1024, 2048},
                  [ROWS_ACROSS] = {256, 128, 256, 512},
                  [ROWS_NARROW] = {256, 128, 256, 512}},
  scans[] = {[ROWS_ALONG] = {3 * SCAN_ALONG_RUNS, SCAN_ALONG_RUNS, 256, 1024},
             [ROWS_ACROSS] = {3 * SCAN_ACROSS_RUNS, SCAN_ACROSS_RUNS, 256, 1024},
             [ROWS_NARROW] = {3 * SCAN_NARROW_RUNS, SCAN_NARROW_RUNS, 256, 1024}};

enum dtype plan_accumulator(enum op op, enum dtype operand)
{
    if (op_info[op].kind != KIND_REDUCE || (op_info[op].type != TYPE_BOOL && operand != DT_bool))
        return dtype_info[operand].compute;
    return DT_bool;
}

static dim ceiling(struct sizes *sizes, dim a, dim b)
{
    return size_floordiv(sizes, size_sub(sizes, size_add(sizes, a, b), 1), b);
}

static bool goes(const struct node *n, bool scan, int axis)
{
    bool found = scan && n->attributes.axis == axis;
    for (int i = 0; i < n->attributes.axis_count && !scan; i++)
        found |= n->attributes.axes[i] == axis;
    return found;
}

static enum rows_order order_of(struct sizes *sizes, const struct rows *rows, bool last_goes)
{
    const bool narrow =
        !last_goes && size_is_less(sizes, rows->inner, size_literal(sizes, ROWS_NARROW_MOST + 1));
    return last_goes ? ROWS_ALONG : narrow ? ROWS_NARROW : ROWS_ACROSS;
}

void plan_rows(struct plan *plan, value special, bool scan, struct rows *rows)
{
    struct sizes *sizes = &plan->sizes;
    const struct node *n = graph_node(&plan->graph, special),
                      *a = graph_node(&plan->graph, n->arguments[0]);
    const bool is_scan = op_info[n->op].kind != KIND_REDUCE;
    const int nbytes = dtype_size(a->dtype);
    *rows = (struct rows){.length = 1, .count = 1, .inner = 1};
    for (int d = 0; d < a->rank; d++)
        if (goes(n, is_scan, d)) {
            rows->axes[rows->axis_count++] = d;
            rows->length = size_mul(sizes, rows->length, a->shape[d]);
            rows->inner = 1;
        } else {
            rows->count = size_mul(sizes, rows->count, a->shape[d]);
            rows->inner = size_mul(sizes, rows->inner, a->shape[d]);
        }
    const bool along = a->rank == 0 || goes(n, is_scan, a->rank - 1);
    rows->order = scan || along ? order_of(sizes, rows, along) : ROWS_ACROSS;
    rows->run = along ? (nbytes > 1 ? 16 / nbytes : 8) : scan ? SCAN_ACROSS_RUN : 1;
    rows->strands = scan    ? scans[rows->order].part_runs
                    : along ? REDUCE_ALONG_STRANDS
                            : REDUCE_ACROSS_STRANDS;
}

/* The blocks that whole rows would give, each SIDE or fewer rows that are neighbours in memory. */
static dim whole_blocks(struct sizes *sizes, const struct rows *rows)
{
    const dim side =
        size_max(sizes, 1, size_min(sizes, rows->inner, size_literal(sizes, ROWS_SIDE)));
    return rows->order == ROWS_ALONG ? rows->count : ceiling(sizes, rows->count, side);
}

/* Whether rows are shared, by how many parts, of how many elements each: a multiple of `part_runs`
 * runs for a scan, whose tiles they are. */
static bool split_choose(struct sizes *sizes, const struct rows *rows, bool scan, dim *parts,
                         dim *chunk)
{
    const int64_t long_runs = (scan ? scans : reductions)[rows->order].long_runs,
                  part_runs = (scan ? scans : reductions)[rows->order].part_runs,
                  few = (scan ? scans : reductions)[rows->order].few,
                  most = (scan ? scans : reductions)[rows->order].most;
    const dim run = size_literal(sizes, rows->run),
              unit = scan ? size_literal(sizes, part_runs) : 1;
    if (!size_is_less(sizes, size_literal(sizes, long_runs * rows->run), rows->length))
        return false;
    const dim blocks = whole_blocks(sizes, rows);
    if (!size_is_less(sizes, blocks, size_literal(sizes, few)))
        return false;
    const dim runs = ceiling(sizes, rows->length, run);
    const dim wanted =
        size_min(sizes, ceiling(sizes, runs, size_literal(sizes, part_runs)),
                 ceiling(sizes, size_literal(sizes, most), size_max(sizes, 1, blocks)));
    *chunk = size_mul(sizes, ceiling(sizes, runs, size_mul(sizes, wanted, unit)),
                      size_mul(sizes, unit, run));
    *parts = ceiling(sizes, rows->length, *chunk);
    return true;
}

/* Memory for what the parts of every row give. */
static phasor_status scratch_add(struct fusion *f, value special, enum dtype dtype, dim rows,
                                 dim parts, int *out)
{
    struct sizes *sizes = f->graph->sizes;
    const struct buffer buffer = {.kind = BUFFER_WORK,
                                  .index = -1,
                                  .nbytes = size_value(sizes, size_mul(sizes, rows, parts)) *
                                            dtype_size(dtype),
                                  .dtype = dtype,
                                  .rank = 2,
                                  .sizes = {rows, parts},
                                  .strides = {parts, 1},
                                  .order = {0, 1},
                                  .alignment = 16,
                                  .node = special,
                                  .base = (int)f->plan->buffers.count,
                                  .first = -1,
                                  .last = -1};
    *out = buffer.base;
    return array_push(&f->plan->buffers, buffer) ? sizes_status(sizes) : fail_memory();
}

phasor_status split_kernels(struct fusion *f, struct kernel kernel)
{
    struct sizes *sizes = f->graph->sizes;
    const struct node *n = fusion_node(f, kernel.special);
    const bool scan = kernel.kind == KERNEL_SCAN;
    struct rows rows;
    plan_rows(f->plan, kernel.special, scan, &rows);
    /* What runs once is not worth the launches. */
    if (!kernel.setup && split_choose(sizes, &rows, scan, &kernel.parts, &kernel.chunk)) {
        struct kernel first = kernel;
        TRY(scratch_add(f, kernel.special,
                        plan_accumulator(n->op, fusion_node(f, n->arguments[0])->dtype), rows.count,
                        kernel.parts, &kernel.scratch));
        first.scratch = kernel.scratch;
        first.kind = KERNEL_REDUCE;
        first.stage = STAGE_PARTS;
        if (!array_push(&f->plan->kernels, first))
            return fail_memory();
        first.kind = KERNEL_SCAN;
        first.stage = STAGE_CARRY;
        if (scan && !array_push(&f->plan->kernels, first))
            return fail_memory();
        kernel.stage = STAGE_LAST;
    }
    return array_push(&f->plan->kernels, kernel) ? sizes_status(sizes) : fail_memory();
}
