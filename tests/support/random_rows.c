/* random_rows.c - one function for each view, reduction and row with code of its own: random
 * attributes that fit x.
 *
 *     grow_slice(random, OP_slice, x: f32[7, 3])    slice(x) axis=0 start=1 length=3 step=2
 *
 * The table at the end is made from the operator table: a new row needs its function here. */
#include "random_graph.h"

#include <string.h>

static const struct node *node_of(const struct random_graph *random, value v)
{
    return graph_node(random->graph, v);
}

static value add1(struct random_graph *random, enum op op, value x, struct attributes at)
{
    return random_add(random, op, &x, 1, at);
}

static int rank_of(const struct random_graph *random, value v)
{
    return node_of(random, v)->rank;
}

/* An axis of x with at least `least` elements; -1 where there is none. */
static int pick_axis(struct random_graph *random, value x, int64_t least)
{
    for (int attempt = 0; attempt < 6 && rank_of(random, x); attempt++) {
        const int axis = random_pick(random, rank_of(random, x));
        if (random_size_of(random, x, axis) >= least)
            return axis;
    }
    return -1;
}

static int64_t pick_to(struct random_graph *random, int64_t most)
{
    return random_pick(random, (int)most + 1);
}

static void copy_shape(const struct random_graph *random, value x, dim shape[RANK_MAX])
{
    memcpy(shape, node_of(random, x)->shape, (size_t)rank_of(random, x) * sizeof *shape);
}

/* -- views ------------------------------------------------------------------------------------- */

/* Two dims become one, or one becomes two, or a dim of 1 comes or goes. */
static value grow_reshape(struct random_graph *random, enum op op, value x)
{
    dim shape[RANK_MAX];
    int rank = rank_of(random, x);
    copy_shape(random, x, shape);
    const int axis = pick_axis(random, x, 0), kind = random_pick(random, 4);
    if (axis < 0 || kind == 0) {
        const int at = random_pick(random, rank + 1);
        memmove(shape + at + 1, shape + at, (size_t)(rank++ - at) * sizeof *shape);
        shape[at] = 1;
    } else if (axis + 1 < rank && kind < 3) {
        shape[axis] = size_mul(random->graph->sizes, shape[axis], shape[axis + 1]);
        memmove(shape + axis + 1, shape + axis + 2, (size_t)(--rank - axis - 1) * sizeof *shape);
    } else {
        const int64_t size = random_size_of(random, x, axis);
        const int factor = size % 7 == 0 && size   ? 7
                           : size % 3 == 0 && size ? 3
                           : size % 2 == 0 && size ? 2
                                                   : 1;
        memmove(shape + axis + 1, shape + axis, (size_t)(rank++ - axis) * sizeof *shape);
        shape[axis] = random_literal(random, size / factor);
        shape[axis + 1] = random_literal(random, factor);
    }
    return rank > 6 ? 0
                    : add1(random, op, x, (struct attributes){.sizes = shape, .size_count = rank});
}

static int pick_axes(struct random_graph *random, value x, int axes[RANK_MAX], bool all)
{
    const int rank = rank_of(random, x);
    int count = 0;
    for (int d = 0; d < rank; d++)
        if (all || random_pick(random, 2))
            axes[count++] = d;
    for (int d = count - 1; d > 0; d--) {
        const int other = random_pick(random, d + 1), axis = axes[d];
        axes[d] = axes[other];
        axes[other] = axis;
    }
    return count;
}

static value grow_permute(struct random_graph *random, enum op op, value x)
{
    int axes[RANK_MAX];
    const int count = pick_axes(random, x, axes, true);
    return count < 2 ? 0
                     : add1(random, op, x, (struct attributes){.axes = axes, .axis_count = count});
}

static value grow_expand(struct random_graph *random, enum op op, value x)
{
    dim shape[RANK_MAX];
    const int rank = rank_of(random, x), more = random_pick(random, 2),
              size = 2 + random_pick(random, 2);
    if (rank + more > 5)
        return 0;
    for (int d = 0; d < more; d++)
        shape[d] = random_literal(random, size);
    bool grows = more > 0;
    for (int d = 0; d < rank; d++) {
        const bool one = random_size_of(random, x, d) == 1;
        shape[more + d] = one ? random_literal(random, size) : node_of(random, x)->shape[d];
        grows |= one;
    }
    if (!grows || random_count_of(random, x) > RANDOM_ELEMENTS / 3)
        return 0;
    return add1(random, op, x, (struct attributes){.sizes = shape, .size_count = rank + more});
}

static value grow_slice(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 1);
    if (axis < 0)
        return 0;
    const int64_t size = random_size_of(random, x, axis), step = 1 + pick_to(random, 2),
                  start = pick_to(random, size - 1);
    const int64_t most = (size - 1 - start) / step + 1,
                  length = most - pick_to(random, most > 2 ? 2 : most - 1);
    return add1(random, op, x,
                (struct attributes){.axis = axis,
                                    .start = random_literal(random, start),
                                    .length = random_literal(random, length),
                                    .step = step});
}

static value grow_select(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 1);
    if (axis < 0)
        return 0;
    const int64_t at = pick_to(random, random_size_of(random, x, axis) - 1);
    return add1(random, op, x,
                (struct attributes){.axis = axis, .start = random_literal(random, at)});
}

static bool pick_diagonal(struct random_graph *random, value x, int axes[2], int64_t *start,
                          int64_t *length)
{
    int all[RANK_MAX];
    if (pick_axes(random, x, all, true) < 2)
        return false;
    memcpy(axes, all, 2 * sizeof *axes);
    const int64_t rows = random_size_of(random, x, axes[0]),
                  columns = random_size_of(random, x, axes[1]);
    *start = random_pick(random, 3) - 1;
    const int64_t right = *start > 0 ? columns - *start : columns,
                  down = *start < 0 ? rows + *start : rows;
    *length = right < down ? right : down;
    return *length > 0;
}

static value grow_diagonal(struct random_graph *random, enum op op, value x)
{
    int axes[2];
    int64_t start, length;
    if (!pick_diagonal(random, x, axes, &start, &length))
        return 0;
    return add1(
        random, op, x,
        (struct attributes){.axes = axes, .axis_count = 2, .start = random_literal(random, start)});
}

static value grow_insert_diagonal(struct random_graph *random, enum op op, value x)
{
    int axes[2], rank = 0;
    int64_t start, length;
    dim shape[RANK_MAX];
    if (!pick_diagonal(random, x, axes, &start, &length))
        return 0;
    for (int d = 0; d < rank_of(random, x); d++)
        if (d != axes[0] && d != axes[1])
            shape[rank++] = node_of(random, x)->shape[d];
    shape[rank++] = random_literal(random, length);
    const value operands[] = {x, random_shaped(random, node_of(random, x)->dtype, shape, rank)};
    return random_add(
        random, op, operands, 2,
        (struct attributes){.axes = axes, .axis_count = 2, .start = random_literal(random, start)});
}

static value grow_unfold(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 2);
    if (axis < 0 || random_count_of(random, x) > RANDOM_ELEMENTS / 2)
        return 0;
    const int64_t size = random_size_of(random, x, axis), most = size < 4 ? size : 4,
                  length = 1 + pick_to(random, most - 1);
    return add1(random, op, x,
                (struct attributes){.axis = axis,
                                    .length = random_literal(random, length),
                                    .step = 1 + pick_to(random, 2)});
}

static value grow_flip(struct random_graph *random, enum op op, value x)
{
    int axes[RANK_MAX];
    const int count = pick_axes(random, x, axes, false);
    return count == 0 ? 0
                      : add1(random, op, x, (struct attributes){.axes = axes, .axis_count = count});
}

static value grow_roll(struct random_graph *random, enum op op, value x)
{
    int axes[RANK_MAX];
    dim shifts[RANK_MAX];
    const int count = pick_axes(random, x, axes, false);
    for (int i = 0; i < count; i++) {
        shifts[i] = random_literal(random, random_pick(random, 9) - 4);
        if (random_size_of(random, x, axes[i]) == 0)
            return 0;
    }
    return count == 0
               ? 0
               : add1(random, op, x,
                      (struct attributes){
                          .axes = axes, .axis_count = count, .sizes = shifts, .size_count = count});
}

static value grow_pad(struct random_graph *random, enum op op, value x)
{
    dim sizes[2 * RANK_MAX];
    const int rank = rank_of(random, x), number = random_pick(random, 3);
    if (rank == 0 || random_count_of(random, x) > RANDOM_ELEMENTS / 2)
        return 0;
    for (int d = 0; d < rank; d++) {
        const int64_t size = random_size_of(random, x, d), before = random_pick(random, 3),
                      after = random_pick(random, 4) - 1;
        sizes[2 * d] = random_literal(random, random_pick(random, 2) ? before : 0);
        sizes[2 * d + 1] = random_literal(random, size == 0 && after < 0 ? 0 : after);
    }
    return add1(random, op, x,
                (struct attributes){.sizes = sizes,
                                    .size_count = 2 * rank,
                                    .number = {.i = number > 0, .re = number}});
}

static value grow_clone(struct random_graph *random, enum op op, value x)
{
    const bool images = rank_of(random, x) == 4 && random_pick(random, 2) && !random->complex;
    return add1(
        random, op, x,
        (struct attributes){.flag = images ? FORMAT_CHANNELS_LAST : random_pick(random, 2)});
}
#define grow_contiguous grow_clone

static value grow_part(struct random_graph *random, enum op op, value x)
{
    return dtype_is_complex(node_of(random, x)->dtype) ? add1(random, op, x, (struct attributes){0})
                                                       : 0;
}
#define grow_real grow_part
#define grow_imag grow_part
#define grow_view_as_real grow_part

static value grow_view_as_complex(struct random_graph *random, enum op op, value x)
{
    const int rank = rank_of(random, x);
    const enum dtype dtype = node_of(random, x)->dtype;
    if (dtype != DT_f32 && dtype != DT_f64)
        return 0;
    if (rank == 0 || random_size_of(random, x, rank - 1) != 2) {
        const value parts[] = {x, graph_expand(random->graph, random_like(random, x, dtype),
                                               node_of(random, x)->shape, rank)};
        x = random_add(random, OP_pair, parts, 2, (struct attributes){0});
    }
    return add1(random, op, x, (struct attributes){0});
}

static value grow_concat(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 0), count = 1 + random_pick(random, 4);
    value parts[4] = {x};
    dim shape[RANK_MAX];
    if (axis < 0 || random_count_of(random, x) > RANDOM_ELEMENTS / 2)
        return 0;
    copy_shape(random, x, shape);
    for (int i = 1; i < count; i++) {
        shape[axis] = random_literal(random, random_pick(random, 4));
        parts[i] = random_pick(random, 2) ? x
                                          : random_shaped(random, node_of(random, x)->dtype, shape,
                                                          rank_of(random, x));
    }
    return random_add(random, op, parts, count, (struct attributes){.axis = axis});
}

static value grow_pair(struct random_graph *random, enum op op, value x)
{
    const struct node *n = node_of(random, x);
    if (n->rank > 4 || random_count_of(random, x) > RANDOM_ELEMENTS / 2)
        return 0;
    dim shape[RANK_MAX];
    copy_shape(random, x, shape);
    const value parts[] = {x, random_shaped(random, n->dtype, shape, n->rank)};
    return random_add(random, op, parts, 2, (struct attributes){0});
}

static value grow_insert(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 1);
    dim shape[RANK_MAX];
    if (axis < 0)
        return 0;
    copy_shape(random, x, shape);
    const int64_t size = random_size_of(random, x, axis), step = 1 + pick_to(random, 2),
                  start = pick_to(random, size - 1);
    const int64_t length = pick_to(random, (size - 1 - start) / step + 1);
    shape[axis] = random_literal(random, length);
    const value operands[] = {
        x, random_shaped(random, node_of(random, x)->dtype, shape, rank_of(random, x))};
    return random_add(
        random, op, operands, 2,
        (struct attributes){.axis = axis, .start = random_literal(random, start), .step = step});
}

/* -- reductions and scans ---------------------------------------------------------------------- */

/* Floats whose sum (small integers) or product (1 or 2) is the same in any order. Of extremes, -0
 * becomes 0: whether it is lower is nobody's promise. */
static value exact_operand(struct random_graph *random, enum op op, value x)
{
    const bool product = op == OP_prod || op == OP_cumprod;
    if (op != OP_amax && op != OP_amin)
        return graph_map1(random->graph, OP_round,
                          random_clamp(random, x, product ? 1 : -8, product ? 2 : 8));
    return graph_map2(random->graph, OP_add, x,
                      random_number(random, node_of(random, x)->dtype, 0));
}

static value complex_operand(struct random_graph *random, enum op op, value x)
{
    x = random_tame(random, x);
    return op == OP_prod || op == OP_cumprod ? graph_map1(random->graph, OP_sign, x) : x;
}

static value fold_operand(struct random_graph *random, enum op op, value x, bool *loose)
{
    const enum dtype dtype = node_of(random, x)->dtype;
    const bool logical = op == OP_any || op == OP_all;
    *loose = dtype_is_complex(dtype) && !logical;
    if (*loose)
        return complex_operand(random, op, x);
    if (!dtype_is_float(dtype) || logical)
        return x;
    *loose = op != OP_amax && op != OP_amin && (random->complex || random_pick(random, 3) == 0);
    if (*loose)
        return random_clamp(random, graph_map1(random->graph, OP_abs, x),
                            op == OP_sum || op == OP_cumsum ? 0.125 : 0.97, 1.03);
    return exact_operand(random, op, x);
}

static value grow_reduce(struct random_graph *random, enum op op, value x)
{
    int axes[RANK_MAX];
    bool loose;
    const int count = pick_axes(random, x, axes, random_pick(random, 3) == 0);
    if (count == 0 && rank_of(random, x))
        return 0;
    x = fold_operand(random, op, x, &loose);
    const value v = add1(random, op, x, (struct attributes){.axes = axes, .axis_count = count});
    return loose ? random_loosen(random, v, 5e-5) : v;
}

static value grow_cumsum(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 0);
    bool loose;
    if (axis < 0)
        return 0;
    x = fold_operand(random, op, x, &loose);
    const value v = add1(random, op, x, (struct attributes){.axis = axis});
    return loose ? random_loosen(random, v, 5e-5) : v;
}
#define grow_cumprod grow_cumsum

/* -- indices ----------------------------------------------------------------------------------- */

/* -size <= element < size */
static value indices_below(struct random_graph *random, const dim *shape, int rank, int64_t size)
{
    const enum dtype dtype = random_pick(random, 2) ? DT_i64 : DT_i32;
    const value any = random_shaped(random, dtype, shape, rank);
    const value inside =
        graph_map2(random->graph, OP_remainder, any, random_number(random, dtype, (double)size));
    if (random_pick(random, 2))
        return inside;
    return graph_map2(random->graph, OP_sub, inside, random_number(random, dtype, (double)size));
}

/* count different numbers below size, in a random order. */
static value different_indices(struct random_graph *random, int64_t count, int64_t size)
{
    const int64_t stride = 1 + pick_to(random, count ? (size - count) / count : 0);
    const int axis = 0;
    value v = graph_iota(random->graph, random_literal(random, count));
    if (stride > 1)
        v = graph_map2(random->graph, OP_mul, v, random_number(random, DT_i64, (double)stride));
    if (count > 1 && random_pick(random, 2))
        v = add1(random, OP_flip, v, (struct attributes){.axes = &axis, .axis_count = 1});
    return v;
}

static value grow_index(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 1);
    if (axis < 0)
        return 0;
    const bool two = axis + 1 < rank_of(random, x) && random_size_of(random, x, axis + 1) > 0 &&
                     random_pick(random, 2);
    const dim shape[] = {random_literal(random, 1 + random_pick(random, 3)),
                         random_literal(random, 1 + random_pick(random, 4))};
    const int rank = random_pick(random, 3);
    value operands[3] = {
        x, indices_below(random, shape + 2 - rank, rank, random_size_of(random, x, axis))};
    if (two)
        operands[2] = indices_below(random, shape + 1, 1, random_size_of(random, x, axis + 1));
    return random_add(random, op, operands, two ? 3 : 2, (struct attributes){.axis = axis});
}

static value grow_index_put(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 1);
    dim shape[RANK_MAX];
    if (axis < 0)
        return 0;
    const int64_t size = random_size_of(random, x, axis), count = pick_to(random, size);
    const int rank = rank_of(random, x);
    const bool two =
        axis + 1 < rank && random_size_of(random, x, axis + 1) > 0 && random_pick(random, 2);
    copy_shape(random, x, shape);
    shape[axis] = random_literal(random, count);
    if (two)
        memmove(shape + axis + 1, shape + axis + 2, (size_t)(rank - axis - 2) * sizeof *shape);
    value operands[4] = {
        x, random_shaped(random, node_of(random, x)->dtype, shape, two ? rank - 1 : rank),
        different_indices(random, count, size)};
    if (two)
        operands[3] = indices_below(random, shape + axis, 1, random_size_of(random, x, axis + 1));
    return random_add(random, op, operands, two ? 4 : 3, (struct attributes){.axis = axis});
}

static value grow_gather(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 1);
    dim shape[RANK_MAX];
    if (axis < 0)
        return 0;
    for (int d = 0; d < rank_of(random, x); d++)
        shape[d] =
            random_literal(random, d == axis ? 1 + random_pick(random, 4)
                                             : pick_to(random, random_size_of(random, x, d)));
    const value operands[] = {
        x, indices_below(random, shape, rank_of(random, x), random_size_of(random, x, axis))};
    return random_add(random, op, operands, 2, (struct attributes){.axis = axis});
}

static value grow_scatter(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 1), rank = rank_of(random, x);
    dim shape[RANK_MAX], row[RANK_MAX];
    if (axis < 0)
        return 0;
    for (int d = 0; d < rank; d++) {
        shape[d] = random_literal(random, pick_to(random, random_size_of(random, x, d)));
        row[d] = d == axis ? shape[d] : 1;
    }
    value index = different_indices(random, size_value(random->graph->sizes, shape[axis]),
                                    random_size_of(random, x, axis));
    index =
        graph_expand(random->graph, graph_reshape(random->graph, index, row, rank), shape, rank);
    dim larger[RANK_MAX];
    memcpy(larger, shape, sizeof larger);
    larger[0] =
        size_add(random->graph->sizes, larger[0], random_literal(random, random_pick(random, 2)));
    const value operands[] = {x, index,
                              random_shaped(random, node_of(random, x)->dtype, larger, rank)};
    return random_add(random, op, operands, 3, (struct attributes){.axis = axis});
}

static value grow_dot(struct random_graph *random, enum op op, value x)
{
    const int rank = rank_of(random, x);
    dim shape[RANK_MAX];
    if (rank < 2 || !dtype_is_complex(node_of(random, x)->dtype) ||
        random_count_of(random, x) > 256)
        return 0;
    copy_shape(random, x, shape);
    shape[rank - 2] = shape[rank - 1];
    shape[rank - 1] = random_literal(random, 1 + random_pick(random, 3));
    const value other =
        random_tame(random, random_shaped(random, node_of(random, x)->dtype, shape, rank));
    const value operands[] = {random_tame(random, x), other};
    return random_loosen(random, random_add(random, op, operands, 2, (struct attributes){0}), 5e-5);
}

/* A position along an axis of at least one element. */
static value grow_argmax(struct random_graph *random, enum op op, value x)
{
    const int axis = pick_axis(random, x, 1);
    return axis < 0
               ? 0
               : add1(random, op, x,
                      (struct attributes){.axis = axis,
                                          .flag = op == OP_sort_index && random_pick(random, 2)});
}
#define grow_argmin grow_argmax
#define grow_sort_index grow_argmax

/* Not drawn: no kernel. */
static value grow_nothing(struct random_graph *random, enum op op, value x)
{
    (void)random, (void)op, (void)x;
    return 0;
}
#define grow_unknown grow_nothing

grow_function *const random_rows[OP_COUNT] = {
#define VIEW(name, ...) [OP_##name] = grow_##name,
#define REDUCE(name, ...) [OP_##name] = grow_reduce,
#define CORE(name, ...) [OP_##name] = grow_##name,
#include "graph/ops.def"
};
