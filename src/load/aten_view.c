/* aten_view.c - calls that move elements without computing: results share memory with their
 * operand wherever eager's do.
 *
 *     aten.view.default(x, [s, 4, -1])        reshape(x, [s, 4, 2*s25])
 *     aten.slice.Tensor(x, -1, 2)             slice(x, axis=2, start=2, length=62, step=1)
 *     aten.t.default(x)                       permute(x, [1, 0]) */
#include "load/aten.h"

#include <string.h>

/* -- sizes ------------------------------------------------------------------------------------- */

static dim divide(struct aten *a, dim total, dim part)
{
    dim quotient;
    if (size_divide_exactly(a->sizes, total, part, &quotient))
        return quotient;
    return size_value(a->sizes, part) ? size_floordiv(a->sizes, total, part) : 0;
}

/* Replaces one -1 by what is left of `total`. */
static void sizes_resolve(struct aten *a, dim *sizes, int count, dim total)
{
    int unknown = -1;
    dim known = 1;
    for (int d = 0; d < count; d++)
        if (size_value(a->sizes, sizes[d]) == -1)
            unknown = d;
        else
            known = size_mul(a->sizes, known, sizes[d]);
    if (unknown >= 0)
        sizes[unknown] = divide(a, total, known);
}

/* -- reshapes ---------------------------------------------------------------------------------- */

static void view_as(struct aten *a, const dim *sizes, int rank)
{
    const tensor base = aten_tensor(a, 0);
    aten_view(a, base, graph_reshape(a->graph, tensor_get(a->loader, base), sizes, rank));
}

/* reshape and flatten copy where strides do not allow a view. */
static void view_or_copy(struct aten *a, const dim *sizes, int rank)
{
    const tensor base = aten_tensor(a, 0);
    aten_fork(a, base, graph_reshape(a->graph, tensor_get(a->loader, base), sizes, rank));
}

void build_view(struct aten *a)
{
    dim sizes[RANK_MAX];
    const int rank = aten_sizes(a, 1, sizes);
    sizes_resolve(a, sizes, rank, graph_count(a->graph, aten_value(a, 0)));
    view_as(a, sizes, rank);
}

void build_reshape(struct aten *a)
{
    dim sizes[RANK_MAX];
    const int rank = aten_sizes(a, 1, sizes);
    sizes_resolve(a, sizes, rank, graph_count(a->graph, aten_value(a, 0)));
    view_or_copy(a, sizes, rank);
}

void build_reshape_as(struct aten *a)
{
    const value other = aten_value(a, 1);
    view_or_copy(a, aten_shape(a, other), aten_rank(a, other));
}

/* As eager: made contiguous, then viewed, though one view might do. */
void build_ravel(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    const dim count = graph_count(a->graph, x);
    const value line = graph_add(a->graph, OP_contiguous, DT_bool, &x, 1,
                                 &(struct attributes){.flag = FORMAT_CONTIGUOUS}, NULL);
    const tensor t = tensor_fork(a->loader, base, line, NULL);
    aten_view(a, t, graph_reshape(a->graph, line, &count, 1));
}

void build_flatten(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x), first = aten_axis(a, 1, rank), last = aten_axis(a, 2, rank);
    const dim *shape = aten_shape(a, x);
    dim sizes[RANK_MAX] = {1};
    int count = 0;
    if (rank == 0) {
        sizes[count++] = 1;
    } else if (first == last) {
        aten_same(a, aten_tensor(a, 0));
        return;
    }
    for (int d = 0; d < rank; d++)
        if (d <= first || d > last)
            sizes[count++] = shape[d];
        else
            sizes[count - 1] = size_mul(a->sizes, sizes[count - 1], shape[d]);
    view_or_copy(a, sizes, count);
}

void build_unflatten(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x), axis = aten_axis(a, 1, rank);
    dim part[RANK_MAX], sizes[RANK_MAX];
    const int count = aten_sizes(a, 2, part);
    if (rank == 0 || rank - 1 + count > RANK_MAX) {
        aten_refuse(a, "more than %d dims", RANK_MAX);
        return;
    }
    sizes_resolve(a, part, count, aten_shape(a, x)[axis]);
    for (int d = 0; d < rank - 1 + count; d++)
        sizes[d] = d < axis           ? aten_shape(a, x)[d]
                   : d < axis + count ? part[d - axis]
                                      : aten_shape(a, x)[d - count + 1];
    view_as(a, sizes, rank - 1 + count);
}

/* atleast_1d, 2d, 3d. number: how many */
void build_reshape_least(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x), least = a->number;
    dim sizes[RANK_MAX] = {1, 1, 1};
    if (rank >= least) {
        aten_same(a, aten_tensor(a, 0));
        return;
    }
    const int before = least - rank - (least == 3 && rank > 0); /* the third dim comes last */
    for (int d = 0; d < least; d++)
        sizes[d] = d >= before && d < before + rank ? aten_shape(a, x)[d - before] : 1;
    view_as(a, sizes, least);
}

/* squeeze: all dims of size 1, or those of them that are named */
void build_squeeze(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x);
    int axes[RANK_MAX], kept = 0;
    bool named[RANK_MAX] = {false};
    dim sizes[RANK_MAX];
    const int count = aten_axes(a, 1, rank, false, axes);
    for (int i = 0; i < count; i++)
        named[axes[i]] = true;
    for (int d = 0; d < rank; d++)
        if (!named[d] || aten_shape(a, x)[d] != 1)
            sizes[kept++] = aten_shape(a, x)[d];
    view_as(a, sizes, kept);
}

void build_unsqueeze(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    aten_view(a, base, graph_unsqueeze(a->graph, x, aten_axis(a, 1, aten_rank(a, x) + 1)));
}

/* -- expand ------------------------------------------------------------------------------------ */

static void expand_to(struct aten *a, dim *sizes, int rank)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    const int old = aten_rank(a, x);
    for (int d = 1; d <= old && d <= rank; d++)
        if (size_value(a->sizes, sizes[rank - d]) == -1)
            sizes[rank - d] = aten_shape(a, x)[old - d];
    aten_view(a, base, graph_expand(a->graph, x, sizes, rank));
}

void build_expand(struct aten *a)
{
    dim sizes[RANK_MAX];
    const int rank = aten_sizes(a, 1, sizes);
    expand_to(a, sizes, rank);
}

void build_expand_as(struct aten *a)
{
    dim sizes[RANK_MAX];
    const value other = aten_value(a, 1);
    const int rank = aten_rank(a, other);
    for (int d = 0; d < rank; d++)
        sizes[d] = aten_shape(a, other)[d];
    expand_to(a, sizes, rank);
}

/* the shape that all tensors of a list broadcast to */
static int list_shape(struct aten *a, const struct argument *list, dim shape[RANK_MAX])
{
    int rank = 0;
    for (int i = 0; i < list->count; i++) {
        const value v = tensor_get(a->loader, list->tensors[i]);
        rank = aten_broadcast(a, shape, rank, aten_shape(a, v), aten_rank(a, v));
    }
    return rank;
}

void build_broadcast_tensors(struct aten *a)
{
    const struct argument *list = aten_list(a, 0);
    dim shape[RANK_MAX];
    const int rank = list_shape(a, list, shape);
    for (int i = 0; i < list->count; i++) {
        const value v = tensor_get(a->loader, list->tensors[i]);
        aten_view(a, list->tensors[i], graph_expand(a->graph, v, shape, rank));
    }
}

/* meshgrid: tensor k varies along axis k; indexing "xy" swaps the first two */
void build_meshgrid(struct aten *a)
{
    const struct argument *list = aten_list(a, 0);
    const bool swap = strcmp(aten_string(a, 1), "xy") == 0 && list->count > 1;
    dim shape[RANK_MAX], alone[RANK_MAX];
    if (list->count > RANK_MAX) {
        aten_refuse(a, "more than %d tensors", RANK_MAX);
        return;
    }
    for (int i = 0; i < list->count; i++)
        shape[swap && i < 2 ? 1 - i : i] =
            graph_count(a->graph, tensor_get(a->loader, list->tensors[i]));
    for (int i = 0; i < list->count; i++) {
        const int axis = swap && i < 2 ? 1 - i : i;
        for (int d = 0; d < list->count; d++)
            alone[d] = d == axis ? shape[axis] : 1;
        const value line =
            graph_reshape(a->graph, tensor_get(a->loader, list->tensors[i]), alone, list->count);
        aten_view(a, list->tensors[i], graph_expand(a->graph, line, shape, list->count));
    }
}

/* -- order of dims ----------------------------------------------------------------------------- */

static void view_permuted(struct aten *a, const int *axes)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    bool identity = true;
    for (int d = 0; d < aten_rank(a, x); d++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all dims are set */
        identity = identity && axes[d] == d;
    aten_view(a, base, identity ? x : graph_permute(a->graph, x, axes));
}

void build_permute(struct aten *a)
{
    int axes[RANK_MAX];
    const int rank = aten_rank(a, aten_value(a, 0));
    if (aten_axes(a, 1, rank, false, axes) == rank)
        view_permuted(a, axes);
    else
        graph_fail(a->graph, PHASOR_ERROR_FILE, "%s: %s: needs each of %d dims", a->loader->path,
                   a->call->target, rank);
}

static void view_swapped(struct aten *a, int axis0, int axis1)
{
    int axes[RANK_MAX];
    for (int d = 0; d < RANK_MAX; d++)
        axes[d] = d == axis0 ? axis1 : d == axis1 ? axis0 : d;
    view_permuted(a, axes);
}

void build_transpose(struct aten *a)
{
    const int rank = aten_rank(a, aten_value(a, 0));
    view_swapped(a, aten_axis(a, 1, rank), aten_axis(a, 2, rank));
}

/* t, mT: the last two dims; a tensor of fewer stays */
void build_transpose_last(struct aten *a)
{
    const int rank = aten_rank(a, aten_value(a, 0));
    view_swapped(a, rank < 2 ? 0 : rank - 2, rank < 2 ? 0 : rank - 1);
}

void build_transpose_all(struct aten *a)
{
    const int rank = aten_rank(a, aten_value(a, 0));
    int axes[RANK_MAX];
    for (int d = 0; d < rank; d++)
        axes[d] = rank - 1 - d;
    view_permuted(a, axes);
}

/* mH, adjoint: transposed, and conjugated where it is complex */
void build_adjoint(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    const int rank = aten_rank(a, x);
    if (dtype_is_complex(aten_type(a, x)) && rank >= 2)
        aten_view(a, base,
                  graph_map1(a->graph, OP_conj, graph_transpose(a->graph, x, rank - 2, rank - 1)));
    else
        build_transpose_last(a);
}

void build_move_axis(struct aten *a)
{
    const int rank = aten_rank(a, aten_value(a, 0));
    int from[RANK_MAX], to[RANK_MAX], axes[RANK_MAX];
    bool taken[RANK_MAX] = {false};
    const int count = aten_axes(a, 1, rank, false, from);
    if (aten_axes(a, 2, rank, false, to) != count)
        aten_refuse(a, "as many sources as destinations are needed");
    for (int d = 0; d < rank; d++)
        axes[d] = -1;
    for (int i = 0; i < count && !a->reason; i++) {
        axes[to[i]] = from[i];
        taken[from[i]] = true;
    }
    for (int d = 0, next = 0; d < rank; d++) {
        while (next < rank && taken[next])
            next++;
        if (axes[d] < 0)
            axes[d] = next < rank ? next++ : 0;
    }
    view_permuted(a, axes);
}

/* -- parts of complex numbers ------------------------------------------------------------------ */

void build_view_as_real(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    aten_view(a, base, graph_map1(a->graph, OP_view_as_real, tensor_get(a->loader, base)));
}

void build_view_as_complex(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    if (aten_type(a, x) == DT_f32 || aten_type(a, x) == DT_f64)
        aten_view(a, base, graph_map1(a->graph, OP_view_as_complex, x));
    else
        aten_refuse(a, "complex numbers are made of f32 or f64, not of %s",
                    dtype_text(aten_type(a, x)));
}

/* real, imag. op: the one of them */
void build_part(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    if (dtype_is_complex(aten_type(a, x)))
        aten_view(a, base, graph_map1(a->graph, a->op, x));
    else
        aten_same(a, base);
}

/* view(dtype): between a complex dtype and its parts; other bit patterns are refused */
void build_view_dtype(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    const enum dtype from = aten_type(a, x), to = aten_dtype(a, 1, from);
    const int rank = aten_rank(a, x);
    dim sizes[RANK_MAX + 1];
    if (from == to || rank == 0 || rank == RANK_MAX) {
        aten_same(a, base);
        return;
    }
    memcpy(sizes, aten_shape(a, x), (size_t)rank * sizeof *sizes);
    const dim pair = aten_literal(a, 2);
    if (dtype_is_complex(from) && to == dtype_info[from].real) {
        sizes[rank - 1] = size_mul(a->sizes, sizes[rank - 1], pair);
        aten_view(a, base,
                  graph_reshape(a->graph, graph_map1(a->graph, OP_view_as_real, x), sizes, rank));
    } else if (dtype_is_complex(to) && from == dtype_info[to].real) {
        sizes[rank - 1] = divide(a, sizes[rank - 1], pair);
        sizes[rank] = pair;
        aten_view(
            a, base,
            graph_map1(a->graph, OP_view_as_complex, graph_reshape(a->graph, x, sizes, rank + 1)));
    } else {
        aten_refuse(a, "a view of %s as %s takes bits apart", dtype_text(from), dtype_text(to));
    }
}

/* -- copies ------------------------------------------------------------------------------------ */

void build_clone(struct aten *a)
{
    aten_new(a, aten_clone(a, aten_value(a, 0), aten_format(a, 1)));
}

/* The tensor itself where it is contiguous already. */
void build_contiguous(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    const enum memory_format asked = aten_format(a, 1);
    const enum memory_format format = asked == FORMAT_PRESERVE ? FORMAT_CONTIGUOUS : asked;
    aten_fork(a, base,
              graph_add(a->graph, OP_contiguous, DT_bool, &x, 1,
                        &(struct attributes){.flag = format}, NULL));
}
