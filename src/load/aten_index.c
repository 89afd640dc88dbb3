/* aten_index.c - calls that read or write elements at indices held in tensors.
 *
 *     aten.index.Tensor(x, [None, i, j])      index(x, i, j, axis=1)
 *     aten.index.Tensor(x, [i, None, j])      index(permute(x, [0, 2, 1]), i, j, axis=0)
 *     aten.index_put_.default(x, [mask], 0)   where(mask, 0, x)
 *     aten.index_put_.default(x, [mask], y)   where(mask, index(y, cumsum(mask) - 1), x)
 *     aten.index_put.default(x, [mask], 0)    insert(x, where(mask, 0, x))   with x's strides */
#include "load/aten.h"

#include <string.h>

value index_integer(struct aten *a, value index)
{
    const enum dtype dtype = aten_type(a, index);
    return dtype == DT_i32 || dtype == DT_i64 ? index : aten_cast(a, index, DT_i64);
}

/* -- lists of indices -------------------------------------------------------------------------- */

/* The index tensors of a list: which axes they stand for, whether those are neighbours, and the
 * order of dims that makes them so. */
struct places {
    value indices[RANK_MAX];
    int axes[RANK_MAX], count;
    int axis; /* of the first, after `order` */
    bool moved;
    int order[RANK_MAX];
};

static bool is_mask(const struct aten *a, value v)
{
    return aten_type(a, v) == DT_bool || aten_type(a, v) == DT_u8;
}

/* Argument 1; refuses masks. */
static void places_read(struct aten *a, int rank, struct places *p)
{
    const struct argument *list = &a->arguments[1];
    *p = (struct places){0};
    if ((list->kind != ARGUMENT_TENSORS && list->kind != ARGUMENT_TENSOR) || list->count > rank) {
        aten_refuse(a, "%d indices of %d dims", list->count, rank);
        return;
    }
    for (int i = 0; i < list->count; i++) {
        if (!list->tensors[i])
            continue;
        const value index = tensor_get(a->loader, list->tensors[i]);
        if (is_mask(a, index))
            aten_refuse(a, "a mask as index: the size of its result depends on values; use where "
                           "or masked_fill, which keep the size");
        p->axes[p->count] = i;
        p->indices[p->count++] = a->reason ? index : index_integer(a, index);
    }
}

static void places_order(struct places *p, int rank)
{
    bool indexed[RANK_MAX] = {false};
    int at = 0;
    for (int i = 0; i < p->count; i++) {
        indexed[p->axes[i]] = true;
        p->moved = p->moved || p->axes[i] != p->axes[0] + i;
        p->order[at++] = p->axes[i];
    }
    p->axis = p->moved ? 0 : p->axes[0];
    for (int d = 0; d < rank; d++)
        if (!indexed[d])
            p->order[at++] = d;
}

void build_index(struct aten *a)
{
    const value x = aten_value(a, 0);
    struct places p;
    places_read(a, aten_rank(a, x), &p);
    if (a->reason || a->graph->status != PHASOR_OK)
        return;
    if (p.count == 0) {
        aten_new(a, x);
        return;
    }
    places_order(&p, aten_rank(a, x));
    value operands[RANK_MAX + 1] = {p.moved ? graph_permute(a->graph, x, p.order) : x};
    memcpy(operands + 1, p.indices, (size_t)p.count * sizeof *operands);
    aten_new(a, graph_add(a->graph, OP_index, DT_bool, operands, p.count + 1,
                          &(struct attributes){.axis = p.axis}, NULL));
}

/* The one mask of a list, with how many dims come before it. 0: the list has no mask, or more. */
static value mask_of(struct aten *a, const struct argument *list, int *before)
{
    value mask = 0;
    for (int i = 0; list->kind == ARGUMENT_TENSORS && i < list->count; i++) {
        if (!list->tensors[i])
            continue;
        const value index = tensor_get(a->loader, list->tensors[i]);
        if (mask || !is_mask(a, index))
            return 0;
        mask = aten_cast(a, index, DT_bool);
        *before = i;
    }
    return mask;
}

/* The number of true elements before each of a mask's: the row of the source that it takes. */
static value mask_places(struct aten *a, value mask)
{
    const dim count = graph_count(a->graph, mask);
    const value marks = graph_cast(a->graph, graph_reshape(a->graph, mask, &count, 1), DT_i64);
    const value counts =
        graph_add(a->graph, OP_cumsum, DT_bool, &marks, 1, &(struct attributes){0}, NULL);
    return graph_reshape(a->graph, graph_map2(a->graph, OP_sub, counts, aten_number(a, DT_i64, 1)),
                         aten_shape(a, mask), aten_rank(a, mask));
}

/* The rows of the source, along an axis, at the places of the mask's elements; one row is for all
 * of them, and none is for a mask that is nowhere true. */
static value source_at(struct aten *a, value source, int axis, value mask)
{
    const int64_t rows = size_value(a->sizes, aten_shape(a, source)[axis]);
    if (size_value(a->sizes, graph_count(a->graph, source)) == 1)
        return graph_reshape(a->graph, source, &(dim){0}, 0);
    if (rows == 0)
        return aten_number(a, aten_type(a, source), 0);
    if (rows > 1)
        return graph_add(a->graph, OP_index, DT_bool, (value[]){source, mask_places(a, mask)}, 2,
                         &(struct attributes){.axis = axis}, NULL);
    for (int d = 1; d < aten_rank(a, mask) && axis > 0; d++)
        source = graph_unsqueeze(a->graph, source, axis);
    return axis > 0 ? source : graph_squeeze(a->graph, source, 0);
}

/* x[mask] = source, also x[:, mask]: a choice between x and the source, of which each place has its
 * own row where it has more than one. False when it is not of that form. */
static bool put_masked(struct aten *a, value x, value source)
{
    int before = 0;
    value mask = mask_of(a, &a->arguments[1], &before);
    const int rank = aten_rank(a, x), depth = mask ? aten_rank(a, mask) : 0,
              rest = rank - before - depth, rows = aten_rank(a, source) - rest - 1;
    if (!mask || rest < 0 || depth == 0)
        return false;
    source = rows < 0 ? source : source_at(a, source, rows, mask);
    for (int d = 0; d < rest; d++)
        mask = graph_unsqueeze(a->graph, mask, depth + d);
    if (aten_flag(a, 3))
        source = graph_map2(a->graph, OP_add, x, source);
    aten_new(a, aten_laid_out_as(a, x, graph_map3(a->graph, OP_where, mask, source, x)));
    return true;
}

static void inverse_of(const int *order, int rank, int *inverse)
{
    for (int d = 0; d < rank; d++)
        inverse[order[d]] = d;
}

/* self, indices, values, accumulate=False */
void build_index_put(struct aten *a)
{
    const value x = aten_value(a, 0), source = aten_cast(a, aten_value(a, 2), aten_type(a, x));
    const int rank = aten_rank(a, x);
    struct places p;
    int inverse[RANK_MAX];
    if (put_masked(a, x, source))
        return;
    places_read(a, rank, &p);
    if (a->reason || a->graph->status != PHASOR_OK)
        return;
    if (p.count == 0) {
        aten_new(a, aten_full(a, source, aten_shape(a, x), rank));
        return;
    }
    places_order(&p, rank);
    value operands[RANK_MAX + 2] = {p.moved ? graph_permute(a->graph, x, p.order) : x, source};
    memcpy(operands + 2, p.indices, (size_t)p.count * sizeof *operands);
    const struct attributes at = {.axis = p.axis, .flag = aten_flag(a, 3)};
    const value put = graph_add(a->graph, OP_index_put, DT_bool, operands, p.count + 2, &at, NULL);
    inverse_of(p.order, rank, inverse);
    aten_new(a,
             p.moved ? aten_clone(a, graph_permute(a->graph, put, inverse), FORMAT_PRESERVE) : put);
}

/* -- one axis ---------------------------------------------------------------------------------- */

static value take(struct aten *a, value x, value index, int axis)
{
    return graph_add(a->graph, OP_index, DT_bool, (value[]){x, index_integer(a, index)}, 2,
                     &(struct attributes){.axis = axis}, NULL);
}

/* The index as a tensor with one dim. */
static value as_line(struct aten *a, value index)
{
    const dim count = graph_count(a->graph, index);
    return graph_reshape(a->graph, index, &count, 1);
}

static value shaped_as(struct aten *a, value v, value pattern)
{
    return graph_reshape(a->graph, v, aten_shape(a, pattern), aten_rank(a, pattern));
}

/* self, mask, source: the next element of the source wherever the mask is true. */
void build_masked_scatter(struct aten *a)
{
    const value x = aten_value(a, 0), mask = aten_value(a, 1);
    dim shape[RANK_MAX];
    const int rank = aten_rank(a, x) > aten_rank(a, mask) ? aten_rank(a, x) : aten_rank(a, mask);
    for (int d = 0; d < rank; d++)
        shape[d] = size_literal(a->sizes, 1);
    aten_broadcast(a, shape, rank, aten_shape(a, x), aten_rank(a, x));
    aten_broadcast(a, shape, rank, aten_shape(a, mask), aten_rank(a, mask));
    const value chosen = graph_expand(a->graph, aten_cast(a, mask, DT_bool), shape, rank);
    const value picked = source_at(a, as_line(a, aten_value(a, 2)), 0, chosen);
    aten_new_row_major(
        a, graph_map3(a->graph, OP_where, chosen, picked, graph_expand(a->graph, x, shape, rank)));
}

/* self, dim, index */
void build_index_select(struct aten *a)
{
    const value x = aten_value(a, 0), index = as_line(a, aten_value(a, 2));
    const int rank = aten_rank(a, x);
    if (rank == 0)
        aten_new(a, x);
    else
        aten_new(a, take(a, x, index, aten_axis(a, 1, rank)));
}

/* weight, indices */
void build_embedding(struct aten *a)
{
    aten_new(a, take(a, aten_value(a, 0), aten_value(a, 1), 0));
}

/* take: self as one line, at index */
void build_take(struct aten *a)
{
    aten_new(a, take(a, as_line(a, aten_value(a, 0)), aten_value(a, 1), 0));
}

/* self, dim, index, source or value, and alpha where they are added; into a copy of self, row-major
 * unless self's layout is kept */
static void index_write(struct aten *a, bool keeps_layout)
{
    const value given = aten_value(a, 0), x = aten_with_axis(a, given),
                index = index_integer(a, as_line(a, aten_value(a, 2)));
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    value source = aten_as(a, aten_operand(a, 3), aten_type(a, x));
    if (a->op == OP_add) {
        const struct operand alpha = aten_operand(a, 4);
        if (alpha.value || alpha.number.re != 1 || alpha.number.im != 0)
            source = graph_map2(a->graph, OP_mul, source, aten_as(a, alpha, aten_type(a, x)));
    }
    const struct attributes at = {.axis = axis, .flag = a->op == OP_add};
    const value base = keeps_layout ? x : aten_row_major(a, x);
    const value put =
        graph_add(a->graph, OP_index_put, DT_bool, (value[]){base, source, index}, 3, &at, NULL);
    aten_new(a, shaped_as(a, put, given));
}

/* index_copy; op: add for index_add */
void build_index_write(struct aten *a)
{
    index_write(a, false);
}

void build_index_fill(struct aten *a)
{
    index_write(a, true);
}

/* gather: self, dim, index. The result has the shape of the index; one without elements may have
 * any. */
void build_gather(struct aten *a)
{
    const value x = aten_with_axis(a, aten_value(a, 0)), given = aten_value(a, 2),
                index = aten_with_axis(a, index_integer(a, given));
    const struct attributes at = {.axis = aten_axis(a, 1, aten_rank(a, x))};
    if (graph_count(a->graph, index) == 0) {
        const value none = aten_number(a, aten_type(a, x), 0);
        aten_new(a, aten_full(a, none, aten_shape(a, given), aten_rank(a, given)));
        return;
    }
    const value picked = graph_add(a->graph, OP_gather, DT_bool, (value[]){x, index}, 2, &at, NULL);
    aten_new(a, shaped_as(a, picked, given));
}

/* take_along_dim: gather, with the other dims broadcast */
void build_take_along(struct aten *a)
{
    value x = aten_value(a, 0), index = index_integer(a, aten_value(a, 1));
    if (!aten_given(a, 2)) {
        x = as_line(a, x);
        index = as_line(a, index);
    }
    const int rank = aten_rank(a, x), axis = aten_given(a, 2) ? aten_axis(a, 2, rank) : 0;
    dim shape[RANK_MAX], of_x[RANK_MAX], of_index[RANK_MAX];
    if (rank == 0 || aten_rank(a, index) != rank) {
        aten_refuse(a, "tensor and index must have one rank of 1 or more");
        return;
    }
    memcpy(shape, aten_shape(a, x), (size_t)rank * sizeof *shape);
    aten_broadcast(a, shape, rank, aten_shape(a, index), rank);
    for (int d = 0; d < rank; d++) {
        of_x[d] = d == axis ? aten_shape(a, x)[d] : shape[d];
        of_index[d] = d == axis ? aten_shape(a, index)[d] : shape[d];
    }
    x = graph_expand(a->graph, x, of_x, rank);
    index = graph_expand(a->graph, index, of_index, rank);
    aten_new(a, graph_add(a->graph, OP_gather, DT_bool, (value[]){x, index}, 2,
                          &(struct attributes){.axis = axis}, NULL));
}

/* -- scatter ----------------------------------------------------------------------------------- */

static void scatter(struct aten *a, enum scatter_mode mode)
{
    const value given = aten_value(a, 0), x = aten_with_axis(a, given),
                index = aten_with_axis(a, index_integer(a, aten_value(a, 2)));
    const struct operand operand = aten_operand(a, 3);
    value source = aten_as(a, operand, aten_type(a, x));
    const struct attributes at = {.axis = aten_axis(a, 1, aten_rank(a, x)), .flag = mode};
    if (graph_count(a->graph, index) == 0) {
        aten_new(a, aten_clone(a, given, FORMAT_CONTIGUOUS));
        return;
    }
    if (operand.is_number || aten_rank(a, source) == 0)
        source = graph_expand(a->graph, source, aten_shape(a, index), aten_rank(a, index));
    const value put = graph_add(a->graph, OP_scatter, DT_bool,
                                (value[]){aten_row_major(a, x), index, source}, 3, &at, NULL);
    aten_new(a, shaped_as(a, put, given));
}

/* self, dim, index, src or value. op: add for scatter_add */
void build_scatter(struct aten *a)
{
    scatter(a, a->op == OP_add ? SCATTER_ADD : SCATTER_SET);
}

/* ..., reduce: "add", "multiply"; scatter_reduce: "sum", "prod", include_self=True. number: 1 for
 * it */
void build_scatter_reduce(struct aten *a)
{
    const char *how = aten_string(a, 4);
    if (a->number && !aten_flag(a, 5))
        aten_refuse(a, "scatter_reduce without the tensor's own values");
    else if (strcmp(how, "add") == 0 || strcmp(how, "sum") == 0)
        scatter(a, SCATTER_ADD);
    else if (strcmp(how, "multiply") == 0 || strcmp(how, "prod") == 0)
        scatter(a, SCATTER_MULTIPLY);
    else
        aten_refuse(a, "reduction %s; add and multiply are supported", how);
}
