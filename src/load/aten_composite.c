/* aten_composite.c - calls that eager itself writes as a few others.
 *
 *     aten.rot90.default(x[2, 3])                    flip(permute(x, [1, 0]), [0])
 *     aten.tensordot.default(x, y, [2], [0])         dot of both as matrices, reshaped
 *     aten.pad.default(x, [1, 2], "reflect")         index(x, ((n - 1) - |n - 1 - |i - 1||)) */
#include "load/aten.h"

#include <math.h>
#include <string.h>

/* -- comparing and counting -------------------------------------------------------------------- */

/* isreal: of complex numbers, those without an imaginary part */
void build_is_real(struct aten *a)
{
    const value x = aten_value(a, 0);
    if (dtype_is_complex(aten_type(a, x))) {
        const value imaginary = graph_map1(a->graph, OP_imag, x);
        aten_new(a, graph_map1(a->graph, OP_not, imaginary));
    } else {
        aten_new(a, aten_full(a, aten_number(a, DT_bool, 1), aten_shape(a, x), aten_rank(a, x)));
    }
}

/* self, other, rtol=1e-5, atol=1e-8, equal_nan=False */
void build_is_close(struct aten *a)
{
    struct graph *g = a->graph;
    value x[2];
    const enum dtype dtype = aten_pair(a, 0, 1, 0, x);
    value close = graph_map2(g, OP_eq, x[0], x[1]);
    const enum dtype work = aten_inexact(dtype), real = dtype_info[work].real;
    for (int i = 0; i < 2; i++)
        x[i] = aten_cast(a, x[i], work);
    if (aten_flag(a, 4))
        close = graph_map2(g, OP_bit_or, close,
                           graph_map2(g, OP_bit_and, graph_map1(g, OP_is_nan, x[0]),
                                      graph_map1(g, OP_is_nan, x[1])));
    const value distance = graph_map1(g, OP_abs, graph_map2(g, OP_sub, x[0], x[1]));
    const value scaled =
        graph_map2(g, OP_mul, graph_map1(g, OP_abs, x[1]), aten_number(a, real, aten_float(a, 2)));
    const value allowed = graph_map2(g, OP_add, aten_number(a, real, aten_float(a, 3)), scaled);
    const value finite = graph_map2(g, OP_lt, distance, aten_number(a, real, INFINITY));
    const value near = graph_map2(g, OP_bit_and, finite, graph_map2(g, OP_le, distance, allowed));
    aten_new(a, graph_map2(g, OP_bit_or, close, near));
}

/* self, dim=None */
void build_count_nonzero(struct aten *a)
{
    const value x = aten_value(a, 0);
    int axes[RANK_MAX];
    const int count = aten_axes(a, 1, aten_rank(a, x), true, axes);
    const value marks =
        graph_cast(a->graph, graph_map1(a->graph, OP_not, graph_map1(a->graph, OP_not, x)), DT_i64);
    aten_new(a, graph_reduce(a->graph, OP_sum, marks, axes, count, false));
}

/* -- diagonals --------------------------------------------------------------------------------- */

/* A matrix of zeros for each line of x's last dim, with the line in its diagonal; the two new dims
 * come last. */
static value diagonal_matrix(struct aten *a, value x, int64_t offset)
{
    const int rank = aten_rank(a, x);
    dim shape[RANK_MAX + 1];
    if (rank == 0 || rank + 1 > RANK_MAX) {
        aten_refuse(a, "a tensor of %d dims", rank);
        return x;
    }
    memcpy(shape, aten_shape(a, x), (size_t)rank * sizeof *shape);
    shape[rank - 1] =
        size_add(a->sizes, shape[rank - 1], aten_literal(a, offset < 0 ? -offset : offset));
    shape[rank] = shape[rank - 1];
    const value zeros = aten_full(a, aten_number(a, aten_type(a, x), 0), shape, rank + 1);
    const struct attributes at = {
        .axes = (int[]){rank - 1, rank}, .axis_count = 2, .start = aten_literal(a, offset)};
    return graph_add(a->graph, OP_insert_diagonal, DT_bool, (value[]){zeros, x}, 2, &at, NULL);
}

/* self, diagonal=0: a matrix of a line, a line of a matrix */
void build_diag(struct aten *a)
{
    const value x = aten_value(a, 0);
    const struct attributes at = {.axes = (int[]){0, 1}, .axis_count = 2, .start = aten_size(a, 1)};
    if (aten_rank(a, x) == 1)
        aten_new(a, diagonal_matrix(a, x, aten_int(a, 1)));
    else
        aten_new(a, aten_clone(a, graph_add(a->graph, OP_diagonal, DT_bool, &x, 1, &at, NULL),
                               FORMAT_CONTIGUOUS));
}

/* self, offset=0: of all elements */
void build_diag_flat(struct aten *a)
{
    const value x = aten_value(a, 0);
    const dim count = graph_count(a->graph, x);
    aten_new(a, diagonal_matrix(a, graph_reshape(a->graph, x, &count, 1), aten_int(a, 1)));
}

/* self, offset=0, dim1=-2, dim2=-1 */
void build_diag_embed(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x) + 1;
    const int row = aten_axis(a, 2, rank), column = aten_axis(a, 3, rank);
    const value matrix = diagonal_matrix(a, x, aten_int(a, 1));
    int axes[RANK_MAX], next = 0;
    if (a->reason || a->graph->status != PHASOR_OK)
        return;
    for (int d = 0; d < rank; d++)
        axes[d] = d == row ? rank - 2 : d == column ? rank - 1 : next++;
    aten_new_row_major(a, graph_permute(a->graph, matrix, axes));
}

void build_trace(struct aten *a)
{
    value x = aten_value(a, 0);
    const struct attributes at = {.axes = (int[]){0, 1}, .axis_count = 2};
    x = graph_add(a->graph, OP_diagonal, DT_bool, &x, 1, &at, NULL);
    x = aten_cast(a, x, dtype_is_integer(aten_type(a, x)) ? DT_i64 : aten_type(a, x));
    aten_new(a, graph_reduce(a->graph, OP_sum, x, (int[]){0}, 1, false));
}

/* -- turns and joins --------------------------------------------------------------------------- */

static value flipped(struct aten *a, value x, const int *axes, int count)
{
    return graph_add(a->graph, OP_flip, DT_bool, &x, 1,
                     &(struct attributes){.axes = axes, .axis_count = count}, NULL);
}

/* fliplr, flipud. number: the dim */
void build_flip_side(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int axis = a->number;
    if (aten_rank(a, x) <= axis)
        aten_refuse(a, "a tensor of %d dims", aten_rank(a, x));
    else
        aten_new(a, flipped(a, x, &axis, 1));
}

/* self, k=1, dims=[0,1] */
void build_turn(struct aten *a)
{
    const value x = aten_value(a, 0);
    int axes[RANK_MAX];
    const int count = aten_axes(a, 2, aten_rank(a, x), false, axes);
    const int turns = (int)((aten_int(a, 1) % 4 + 4) % 4);
    if (count != 2 || axes[0] == axes[1]) {
        aten_refuse(a, "needs two dims");
        return;
    }
    const value turned = turns % 2 ? graph_transpose(a->graph, x, axes[0], axes[1]) : x;
    const int *side = turns == 1 ? axes : axes + 1;
    aten_new(a, turns == 0   ? aten_clone(a, x, FORMAT_CONTIGUOUS)
                : turns == 2 ? flipped(a, x, axes, 2)
                             : flipped(a, turned, side, 1));
}

/* One more dim for a line, a matrix for a number. */
static value as_matrix(struct aten *a, value x, bool column)
{
    for (int rank = aten_rank(a, x); rank < 2; rank++)
        x = graph_unsqueeze(a->graph, x, column ? rank : 0);
    return x;
}

static enum dtype list_dtype(struct aten *a, const struct argument *list)
{
    struct operand operands[64];
    if (list->count > 64)
        aten_refuse(a, "more than 64 tensors");
    for (int i = 0; i < list->count && i < 64; i++)
        operands[i] = operand_of(a, tensor_get(a->loader, list->tensors[i]));
    return aten_promote(a, operands, list->count < 64 ? list->count : 64);
}

/* tensors: lines are columns */
void build_columns(struct aten *a)
{
    const struct argument *list = aten_list(a, 0);
    const enum dtype dtype = list_dtype(a, list);
    value parts[64];
    for (int i = 0; i < list->count && !a->reason; i++)
        parts[i] = aten_cast(a, as_matrix(a, tensor_get(a->loader, list->tensors[i]), true), dtype);
    if (!a->reason)
        aten_new(a, graph_concat(a->graph, parts, list->count, 1));
}

/* tensors: matrices along the diagonal of a matrix of zeros */
void build_block_diagonal(struct aten *a)
{
    const struct argument *list = aten_list(a, 0);
    const enum dtype dtype = list_dtype(a, list);
    value parts[64];
    dim before = 0, all = 0;
    for (int i = 0; i < list->count && !a->reason; i++) {
        parts[i] =
            aten_cast(a, as_matrix(a, tensor_get(a->loader, list->tensors[i]), false), dtype);
        all = size_add(a->sizes, all, aten_shape(a, parts[i])[1]);
    }
    for (int i = 0; i < list->count && !a->reason; i++) {
        const dim own = aten_shape(a, parts[i])[1];
        const dim after = size_sub(a->sizes, size_sub(a->sizes, all, before), own);
        const dim sizes[4] = {0, 0, before, after};
        parts[i] = graph_add(a->graph, OP_pad, DT_bool, &parts[i], 1,
                             &(struct attributes){.sizes = sizes, .size_count = 4}, NULL);
        before = size_add(a->sizes, before, own);
    }
    if (!a->reason)
        aten_new(a, graph_concat(a->graph, parts, list->count, 0));
}

/* tensors: each line varies along its own dim; the dims become one, the tensors the last */
void build_all_pairs(struct aten *a)
{
    const struct argument *list = aten_list(a, 0);
    value parts[RANK_MAX];
    dim shape[RANK_MAX], alone[RANK_MAX], count = 1;
    if (list->count >= RANK_MAX) {
        aten_refuse(a, "%d tensors", list->count);
        return;
    }
    for (int i = 0; i < list->count; i++) {
        shape[i] = graph_count(a->graph, tensor_get(a->loader, list->tensors[i]));
        count = size_mul(a->sizes, count, shape[i]);
    }
    for (int i = 0; i < list->count; i++) {
        for (int d = 0; d < list->count; d++)
            alone[d] = d == i ? shape[i] : 1;
        const value line =
            graph_reshape(a->graph, tensor_get(a->loader, list->tensors[i]), alone, list->count);
        const dim column[2] = {count, 1};
        parts[i] =
            graph_reshape(a->graph, graph_expand(a->graph, line, shape, list->count), column, 2);
    }
    if (list->count == 1)
        aten_same(a, list->tensors[0]);
    else
        aten_new(a, graph_concat(a->graph, parts, list->count, 1));
}

/* -- products ---------------------------------------------------------------------------------- */

/* The dims but `axes` first and then those, or those first, as a matrix; *kept dims are kept. */
static value as_product_side(struct aten *a, value x, const int *axes, int count, bool last,
                             dim *kept, int *kept_count)
{
    const int rank = aten_rank(a, x);
    int order[RANK_MAX], at = 0;
    bool summed[RANK_MAX] = {false};
    dim sides[2] = {1, 1};
    for (int i = 0; i < count; i++)
        summed[axes[i]] = true;
    for (int i = 0; i < count && !last; i++)
        order[at++] = axes[i];
    *kept_count = 0;
    for (int d = 0; d < rank; d++)
        if (!summed[d]) {
            order[at++] = d;
            kept[(*kept_count)++] = aten_shape(a, x)[d];
        }
    for (int i = 0; i < count && last; i++)
        order[at++] = axes[i];
    for (int d = 0; d < rank; d++) {
        dim *side = &sides[summed[d] == last];
        *side = size_mul(a->sizes, *side, aten_shape(a, x)[d]);
    }
    return graph_reshape(a->graph, graph_permute(a->graph, x, order), sides, 2);
}

static void product_over(struct aten *a, value x, value y, const int *x_axes, const int *y_axes,
                         int count)
{
    dim shape[2 * RANK_MAX];
    int from_x, from_y;
    const value left = as_product_side(a, x, x_axes, count, true, shape, &from_x);
    const value right = as_product_side(a, y, y_axes, count, false, shape + from_x, &from_y);
    if (from_x + from_y > RANK_MAX)
        aten_refuse(a, "a result of %d dims", from_x + from_y);
    else
        aten_new(a, graph_reshape(a->graph, graph_map2(a->graph, OP_dot, left, right), shape,
                                  from_x + from_y));
}

/* self, other, dims_self, dims_other. A dim of size 1 meets one of any size, which is summed. */
void build_tensordot(struct aten *a)
{
    value x = aten_value(a, 0), y = aten_value(a, 1);
    int x_axes[RANK_MAX], y_axes[RANK_MAX];
    const int count = aten_axes(a, 2, aten_rank(a, x), false, x_axes);
    if (aten_axes(a, 3, aten_rank(a, y), false, y_axes) != count) {
        aten_refuse(a, "as many dims of one as of the other are needed");
        return;
    }
    for (int i = 0; i < count; i++) {
        const dim own = aten_shape(a, x)[x_axes[i]], its = aten_shape(a, y)[y_axes[i]];
        if (own == 1 && its != 1)
            y = graph_reduce(a->graph, OP_sum, y, &y_axes[i], 1, true);
        else if (its == 1 && own != 1)
            x = graph_reduce(a->graph, OP_sum, x, &x_axes[i], 1, true);
    }
    product_over(a, x, y, x_axes, y_axes, count);
}

/* self, other: over the last dim of both */
void build_inner(struct aten *a)
{
    const value x = aten_value(a, 0), y = aten_value(a, 1);
    const int last[2] = {aten_rank(a, x) - 1, aten_rank(a, y) - 1};
    if (last[0] < 0 || last[1] < 0)
        aten_new(a, graph_map2(a->graph, OP_mul, x, y));
    else
        product_over(a, x, y, &last[0], &last[1], 1);
}

/* x, y, dim=-1 */
void build_vecdot(struct aten *a)
{
    value x[2];
    const bool complex = dtype_is_complex(aten_pair(a, 0, 1, 0, x));
    const value left = complex ? graph_map1(a->graph, OP_conj, x[0]) : x[0];
    const value product = graph_map2(a->graph, OP_mul, left, x[1]);
    const int rank = aten_rank(a, product), axis = aten_axis(a, 2, rank);
    aten_new(a, graph_reduce(a->graph, OP_sum, product, &axis, rank ? 1 : 0, false));
}

/* self, vec1, vec2, beta=1, alpha=1 */
void build_add_outer(struct aten *a)
{
    struct graph *g = a->graph;
    const value column = graph_unsqueeze(g, aten_value(a, 1), 1);
    value product = graph_map2(g, OP_mul, column, aten_value(a, 2)), added = aten_value(a, 0);
    const enum dtype dtype = aten_type(a, product);
    const struct operand beta = aten_operand(a, 3), alpha = aten_operand(a, 4);
    if (alpha.value || alpha.number.re != 1 || alpha.number.im != 0)
        product = graph_map2(g, OP_mul, product, aten_as(a, alpha, dtype));
    if (beta.value || beta.number.re != 1 || beta.number.im != 0)
        added = graph_map2(g, OP_mul, added, aten_as(a, beta, dtype));
    aten_new(a, graph_map2(g, OP_add, added, product));
}

/* self, other: each element of one times the whole other */
void build_kron(struct aten *a)
{
    value x[2];
    dim apart[2][2 * RANK_MAX], joined[RANK_MAX];
    aten_pair(a, 0, 1, 0, x);
    const int ranks[2] = {aten_rank(a, x[0]), aten_rank(a, x[1])};
    const int rank = ranks[0] > ranks[1] ? ranks[0] : ranks[1];
    if (2 * rank > RANK_MAX) {
        aten_refuse(a, "tensors of %d dims", rank);
        return;
    }
    for (int d = 0; d < rank; d++) {
        dim sizes[2];
        for (int i = 0; i < 2; i++) {
            const int own = d - (rank - ranks[i]);
            sizes[i] = own < 0 ? 1 : aten_shape(a, x[i])[own];
            apart[i][2 * d + i] = sizes[i];
            apart[i][2 * d + 1 - i] = 1;
        }
        joined[d] = size_mul(a->sizes, sizes[0], sizes[1]);
    }
    for (int i = 0; i < 2; i++)
        x[i] = graph_reshape(a->graph, x[i], apart[i], 2 * rank);
    aten_new(a, graph_reshape(a->graph, graph_map2(a->graph, OP_mul, x[0], x[1]), joined, rank));
}

/* -- padding by the tensor's own elements ------------------------------------------------------ */

/* A line goes around what negative padding leaves of it. */
static value circular_places(struct aten *a, dim n, dim before, dim after, dim padded)
{
    struct graph *g = a->graph;
    const dim cut = size_max(a->sizes, size_sub(a->sizes, 0, before), 0),
              cut_after = size_max(a->sizes, size_sub(a->sizes, 0, after), 0);
    const dim left = size_sub(a->sizes, size_sub(a->sizes, n, cut), cut_after);
    const value at =
        graph_map2(g, OP_sub, graph_iota(g, padded), graph_size(g, size_max(a->sizes, before, 0)));
    return graph_map2(g, OP_add, graph_map2(g, OP_remainder, at, graph_size(g, left)),
                      graph_size(g, cut));
}

/* Places of a padded line in the line of n: i - before, brought inside. */
static value padded_places(struct aten *a, const char *mode, dim n, dim before, dim padded)
{
    struct graph *g = a->graph;
    value at = graph_map2(g, OP_sub, graph_iota(g, padded), graph_size(g, before));
    const value last = graph_size(g, size_sub(a->sizes, n, 1));
    if (strcmp(mode, "reflect") == 0) {
        at = graph_map2(g, OP_sub, last, graph_map1(g, OP_abs, at));
        return graph_map2(g, OP_sub, last, graph_map1(g, OP_abs, at));
    }
    at = graph_map2(g, OP_minimum, at, last);
    return graph_map2(g, OP_maximum, at, aten_number(a, DT_i64, 0));
}

void pad_by_itself(struct aten *a, const char *mode)
{
    value x = aten_value(a, 0);
    dim given[RANK_MAX];
    const int count = aten_sizes(a, 1, given), rank = aten_rank(a, x);
    if (strcmp(mode, "reflect") != 0 && strcmp(mode, "replicate") != 0 &&
        strcmp(mode, "circular") != 0)
        aten_refuse(a, "padding mode %s; constant, reflect, replicate and circular are supported",
                    mode);
    for (int i = 0; i + 1 < count && i / 2 < rank && !a->reason; i += 2) {
        const int axis = rank - 1 - i / 2;
        const dim n = aten_shape(a, x)[axis];
        const dim padded = size_add(a->sizes, size_add(a->sizes, n, given[i]), given[i + 1]);
        if (size_value(a->sizes, n) == 0) {
            aten_refuse(a, "a dim of no elements");
            break;
        }
        const value places = mode[0] == 'c' ? circular_places(a, n, given[i], given[i + 1], padded)
                                            : padded_places(a, mode, n, given[i], padded);
        x = graph_add(a->graph, OP_index, DT_bool, (value[]){x, places}, 2,
                      &(struct attributes){.axis = axis}, NULL);
    }
    aten_new(a, x);
}
