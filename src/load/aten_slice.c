/* aten_slice.c - parts of tensors: slices, selections, splits, windows, diagonals; and tensors
 * with a part replaced.
 *
 *     aten.slice.Tensor(x, 0, 1)                  slice(x, axis=0, start=1, length=s - 1, step=1)
 *     aten.chunk.default(x, 2, -1)                two slices
 *     aten.slice_scatter.default(x, y, 0, 1)      insert(x, y, axis=0, start=1, step=1) */
#include "load/aten.h"

#include <stdint.h>
#include <string.h>

struct range {
    dim start, length;
    int64_t step;
};

/* The smaller of two sizes whose distance is known even where they are not: s - 1 of s. */
static dim smaller(struct aten *a, dim x, dim y)
{
    /* before the look into the pool, which may move */
    const dim distance = size_sub(a->sizes, x, y);
    const struct size_node *apart = &a->sizes->nodes.at[distance];
    return apart->high <= 0 ? x : apart->low >= 0 ? y : size_min(a->sizes, x, y);
}

/* A bound of a slice in 0..size, as Python reads it. */
static dim bound(struct aten *a, int index, dim size, dim fallback)
{
    if (!aten_given(a, index))
        return fallback;
    dim at = aten_size(a, index);
    if (size_value(a->sizes, at) == INT64_MAX)
        return size;
    if (size_value(a->sizes, at) < 0)
        return size_max(a->sizes, size_add(a->sizes, at, size), 0);
    return smaller(a, at, size);
}

/* Arguments first, first + 1, first + 2: start, end, step. */
static struct range range_of(struct aten *a, int first, dim size)
{
    struct range range = {.start = bound(a, first, size, 0), .step = aten_int(a, first + 2)};
    const dim end = bound(a, first + 1, size, size);
    if (range.step < 1)
        range.step = 1; /* eager refuses it: such a file is damaged, and infer would not say so */
    const dim length = size_max(a->sizes, size_sub(a->sizes, end, range.start), 0);
    const dim rounded = size_add(a->sizes, length, aten_literal(a, range.step - 1));
    range.length =
        range.step == 1 ? length : size_floordiv(a->sizes, rounded, aten_literal(a, range.step));
    return range;
}

static value slice_of(struct aten *a, value x, int axis, struct range range)
{
    if (range.start == 0 && range.step == 1 && range.length == aten_shape(a, x)[axis])
        return x;
    return graph_slice(a->graph, x, axis, range.start, range.length, range.step);
}

static bool has_dims(struct aten *a, value x)
{
    if (aten_rank(a, x) == 0)
        aten_refuse(a, "a 0-dim tensor");
    return aten_rank(a, x) > 0;
}

/* An index counted from the end when it is negative. */
static dim index_of(struct aten *a, int index, dim size)
{
    const dim at = aten_size(a, index);
    return size_value(a->sizes, at) < 0 ? size_add(a->sizes, at, size) : at;
}

void build_slice(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    if (!has_dims(a, x))
        return;
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    aten_view(a, base, slice_of(a, x, axis, range_of(a, 2, aten_shape(a, x)[axis])));
}

/* self, dim, start, length */
void build_narrow(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    if (!has_dims(a, x))
        return;
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    const struct range range = {index_of(a, 2, aten_shape(a, x)[axis]), aten_size(a, 3), 1};
    aten_view(a, base, slice_of(a, x, axis, range));
}

/* At a place that is known before the call, or in a 0-dim tensor. */
void build_select(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    if (!has_dims(a, x))
        return;
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    if (a->arguments[2].kind == ARGUMENT_TENSOR)
        aten_view(a, base,
                  graph_add(a->graph, OP_index, DT_bool, (value[]){x, aten_value(a, 2)}, 2,
                            &(struct attributes){.axis = axis}, NULL));
    else
        aten_view(a, base, graph_select(a->graph, x, axis, index_of(a, 2, aten_shape(a, x)[axis])));
}

/* -- splits: as many parts as the file has results --------------------------------------------- */

static void part_add(struct aten *a, int axis, dim start, dim length)
{
    const tensor base = aten_tensor(a, 0);
    aten_view(a, base,
              slice_of(a, tensor_get(a->loader, base), axis, (struct range){start, length, 1}));
}

static void split_evenly(struct aten *a, int axis, dim part)
{
    const dim size = aten_shape(a, aten_value(a, 0))[axis];
    for (int i = 0; i < a->call->result_count; i++) {
        const dim start = size_mul(a->sizes, part, aten_literal(a, i));
        part_add(a, axis, start,
                 smaller(a, part, size_max(a->sizes, size_sub(a->sizes, size, start), 0)));
    }
}

/* self, split_size, dim */
void build_split(struct aten *a)
{
    const value x = aten_value(a, 0);
    if (has_dims(a, x))
        split_evenly(a, aten_axis(a, 2, aten_rank(a, x)), aten_size(a, 1));
}

/* self, chunks, dim */
void build_chunk(struct aten *a)
{
    const value x = aten_value(a, 0);
    if (!has_dims(a, x))
        return;
    const int axis = aten_axis(a, 2, aten_rank(a, x));
    const int64_t chunks = aten_int(a, 1);
    if (chunks < 1) {
        aten_refuse(a, "%lld chunks", (long long)chunks);
        return;
    }
    const dim rounded = size_add(a->sizes, aten_shape(a, x)[axis], aten_literal(a, chunks - 1));
    split_evenly(a, axis, size_floordiv(a->sizes, rounded, aten_literal(a, chunks)));
}

/* self, split_sizes, dim */
void build_split_sizes(struct aten *a)
{
    const value x = aten_value(a, 0);
    const struct argument *parts = &a->arguments[1];
    if (!has_dims(a, x))
        return;
    const int axis = aten_axis(a, 2, aten_rank(a, x));
    dim start = 0;
    if (parts->kind != ARGUMENT_INTS)
        aten_refuse(a, "sizes that depend on the values of a tensor");
    for (int i = 0; i < parts->count && parts->kind == ARGUMENT_INTS; i++) {
        part_add(a, axis, start, parts->sizes[i]);
        start = size_add(a->sizes, start, parts->sizes[i]);
    }
}

/* Into n parts, the first ones longer by one. Argument 1: n */
static void split_into(struct aten *a, int axis)
{
    const dim parts = aten_literal(a, aten_int(a, 1)), size = aten_shape(a, aten_value(a, 0))[axis];
    if (size_value(a->sizes, parts) < 1) {
        aten_refuse(a, "no parts");
        return;
    }
    const dim low = size_floordiv(a->sizes, size, parts),
              more = size_binary(a->sizes, SIZE_MOD, size, parts);
    dim start = 0;
    for (int i = 0; i < size_value(a->sizes, parts) && i < a->call->result_count; i++) {
        const dim longer = size_binary(a->sizes, SIZE_LT, aten_literal(a, i), more);
        const dim length = size_add(a->sizes, low, longer);
        part_add(a, axis, start, length);
        start = size_add(a->sizes, start, length);
    }
}

/* At the indices of argument 1. */
static void split_at(struct aten *a, int axis)
{
    const struct argument *at = &a->arguments[1];
    const dim size = aten_shape(a, aten_value(a, 0))[axis];
    dim start = 0;
    if (at->kind != ARGUMENT_INTS)
        aten_refuse(a, "indices that depend on the values of a tensor");
    for (int i = 0; i <= at->count && !a->reason; i++) {
        dim end = i < at->count ? at->sizes[i] : size;
        if (size_value(a->sizes, end) < 0)
            end = size_add(a->sizes, end, size);
        end = size_max(a->sizes, size_min(a->sizes, end, size), start);
        part_add(a, axis, start, size_sub(a->sizes, end, start));
        start = end;
    }
}

/* tensor_split: self, sections, dim */
void build_tensor_split(struct aten *a)
{
    const value x = aten_value(a, 0);
    if (has_dims(a, x))
        split_into(a, aten_axis(a, 2, aten_rank(a, x)));
}

/* tensor_split: self, indices, dim */
void build_tensor_split_at(struct aten *a)
{
    const value x = aten_value(a, 0);
    if (has_dims(a, x))
        split_at(a, aten_axis(a, 2, aten_rank(a, x)));
}

/* hsplit, vsplit, dsplit: along dim 1 (of a line: 0), 0, 2. number: the dim */
static int side_of(struct aten *a)
{
    const int rank = aten_rank(a, aten_value(a, 0));
    const int axis = rank == 1 && a->number == 1 ? 0 : a->number;
    if (axis >= rank)
        aten_refuse(a, "a tensor of %d dims", rank);
    return axis < rank ? axis : 0;
}

/* self, sections */
void build_split_side(struct aten *a)
{
    const int axis = side_of(a);
    if (!a->reason)
        split_into(a, axis);
}

/* self, indices */
void build_split_side_at(struct aten *a)
{
    const int axis = side_of(a);
    if (!a->reason)
        split_at(a, axis);
}

void build_unbind(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    if (!has_dims(a, x))
        return;
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    for (int i = 0; i < a->call->result_count; i++)
        aten_view(a, base, graph_select(a->graph, x, axis, aten_literal(a, i)));
}

/* -- windows and diagonals --------------------------------------------------------------------- */

/* Of a 0-dim tensor, windows of 1 or 0 elements without a dim that counts them. */
void build_unfold(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value given = tensor_get(a->loader, base), x = aten_with_axis(a, given);
    const struct attributes at = {.axis = aten_axis(a, 1, aten_rank(a, x)),
                                  .length = aten_size(a, 2),
                                  .step = aten_int(a, 3)};
    if (aten_rank(a, given) == 0)
        aten_view(a, base, slice_of(a, x, 0, (struct range){0, at.length, 1}));
    else
        aten_view(a, base, graph_add(a->graph, OP_unfold, DT_bool, &x, 1, &at, NULL));
}

/* Arguments first ...: offset, dim1, dim2 */
static struct attributes diagonal_of(struct aten *a, value x, int first, int axes[2])
{
    for (int i = 0; i < 2; i++)
        axes[i] = aten_axis(a, first + 1 + i, aten_rank(a, x));
    return (struct attributes){
        .axes = axes, .axis_count = 2, .start = aten_literal(a, aten_int(a, first))};
}

void build_diagonal(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    int axes[2];
    const struct attributes at = diagonal_of(a, x, 1, axes);
    aten_view(a, base, graph_add(a->graph, OP_diagonal, DT_bool, &x, 1, &at, NULL));
}

/* -- a tensor with a part replaced ------------------------------------------------------------- */

/* The source (argument 1) in the dtype of the tensor and in the shape of the part. */
static value source_for(struct aten *a, value x, const dim *shape, int rank)
{
    return graph_expand(a->graph, aten_cast(a, aten_value(a, 1), aten_type(a, x)), shape, rank);
}

static void insert(struct aten *a, value x, value part, int axis, dim start, int64_t step)
{
    const struct attributes at = {.axis = axis, .start = start, .step = step};
    aten_new(a, graph_add(a->graph, OP_insert, DT_bool, (value[]){x, part}, 2, &at, NULL));
}

/* self, src, dim=0, start=None, end=None, step=1 */
void build_slice_scatter(struct aten *a)
{
    const value x = aten_value(a, 0);
    if (!has_dims(a, x))
        return;
    const int rank = aten_rank(a, x), axis = aten_axis(a, 2, rank);
    const struct range range = range_of(a, 3, aten_shape(a, x)[axis]);
    dim shape[RANK_MAX];
    memcpy(shape, aten_shape(a, x), (size_t)rank * sizeof *shape);
    shape[axis] = range.length;
    insert(a, x, source_for(a, x, shape, rank), axis, range.start, range.step);
}

/* self, src, dim, index */
void build_select_scatter(struct aten *a)
{
    const value x = aten_value(a, 0);
    if (!has_dims(a, x))
        return;
    const int rank = aten_rank(a, x), axis = aten_axis(a, 2, rank);
    dim shape[RANK_MAX];
    for (int d = 0; d < rank - 1; d++)
        shape[d] = aten_shape(a, x)[d < axis ? d : d + 1];
    const value part = source_for(a, x, shape, rank - 1);
    if (a->arguments[3].kind == ARGUMENT_TENSOR)
        aten_new(a, graph_add(a->graph, OP_index_put, DT_bool, (value[]){x, part, aten_value(a, 3)},
                              3, &(struct attributes){.axis = axis}, NULL));
    else
        insert(a, x, graph_unsqueeze(a->graph, part, axis), axis,
               index_of(a, 3, aten_shape(a, x)[axis]), 1);
}

/* self, src, offset=0, dim1=0, dim2=1 */
void build_diagonal_scatter(struct aten *a)
{
    const value x = aten_value(a, 0), part = aten_cast(a, aten_value(a, 1), aten_type(a, x));
    int axes[2];
    const struct attributes at = diagonal_of(a, x, 2, axes);
    aten_new(a, graph_add(a->graph, OP_insert_diagonal, DT_bool, (value[]){x, part}, 2, &at, NULL));
}

/* copy: the source in the dtype and shape of the tensor */
void build_copy(struct aten *a)
{
    const value x = aten_value(a, 0);
    const value source = source_for(a, x, aten_shape(a, x), aten_rank(a, x));
    aten_new(a, graph_node(a->graph, source)->op == OP_expand
                    ? aten_clone(a, source, FORMAT_CONTIGUOUS)
                    : source);
}
