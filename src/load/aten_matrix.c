/* aten_matrix.c - products of matrices: everything becomes dot of two operands of one rank.
 *
 *     aten.linear.default(x[2, s, 64], w[8, 64], b)    add(reshape(dot(reshape(x), permute(w))), b)
 *     aten.matmul.default(x[4, 8, 16], y[16])           squeeze(dot(x, unsqueeze(y))) */
#include "load/aten.h"

#include <string.h>

/* -- dot --------------------------------------------------------------------------------------- */

/* A tensor with its leading dims broadcast to `lead`, of which there are `count`. */
static value with_leading(struct aten *a, value x, const dim *lead, int count)
{
    dim sizes[RANK_MAX];
    const int rank = aten_rank(a, x);
    memcpy(sizes, lead, (size_t)count * sizeof *sizes);
    sizes[count] = aten_shape(a, x)[rank - 2];
    sizes[count + 1] = aten_shape(a, x)[rank - 1];
    return graph_expand(a->graph, x, sizes, count + 2);
}

/* x[..., m, k] by y[k, n]: one matrix of all rows */
static value rows_product(struct aten *a, value x, value y)
{
    dim sizes[RANK_MAX], flat[2];
    const int rank = aten_rank(a, x);
    memcpy(sizes, aten_shape(a, x), (size_t)rank * sizeof *sizes);
    flat[0] = 1;
    for (int d = 0; d < rank - 1; d++)
        flat[0] = size_mul(a->sizes, flat[0], sizes[d]);
    flat[1] = sizes[rank - 1];
    sizes[rank - 1] = aten_shape(a, y)[1];
    const value product = graph_map2(a->graph, OP_dot, graph_reshape(a->graph, x, flat, 2), y);
    return graph_reshape(a->graph, product, sizes, rank);
}

value matrix_product(struct aten *a, value x, value y)
{
    const int rank_x = aten_rank(a, x), rank_y = aten_rank(a, y);
    if (rank_x == 0 || rank_y == 0) {
        aten_refuse(a, "a 0-dim operand");
        return x;
    }
    if (rank_x == 1)
        x = graph_unsqueeze(a->graph, x, 0);
    if (rank_y == 1)
        y = graph_unsqueeze(a->graph, y, 1);
    dim lead[RANK_MAX];
    const int lead_x = aten_rank(a, x) - 2, lead_y = aten_rank(a, y) - 2;
    value product;
    if (lead_y == 0 && lead_x > 0) {
        product = rows_product(a, x, y);
    } else {
        memcpy(lead, aten_shape(a, x), (size_t)lead_x * sizeof *lead);
        const int count = aten_broadcast(a, lead, lead_x, aten_shape(a, y), lead_y);
        product = graph_map2(a->graph, OP_dot, with_leading(a, x, lead, count),
                             with_leading(a, y, lead, count));
    }
    if (rank_y == 1)
        product = graph_squeeze(a->graph, product, aten_rank(a, product) - 1);
    if (rank_x == 1)
        product = graph_squeeze(a->graph, product, aten_rank(a, product) - (rank_y == 1 ? 1 : 2));
    return product;
}

void build_matmul(struct aten *a)
{
    aten_new(a, matrix_product(a, aten_value(a, 0), aten_value(a, 1)));
}

/* vdot conjugates its first operand. op: conj for it */
void build_dot(struct aten *a)
{
    value x = aten_value(a, 0);
    if (a->op == OP_conj && dtype_is_complex(aten_type(a, x)))
        x = graph_map1(a->graph, OP_conj, x);
    aten_new(a, matrix_product(a, x, aten_value(a, 1)));
}

/* input, weight, bias=None */
void build_linear(struct aten *a)
{
    const value x = aten_value(a, 0);
    value weight = aten_value(a, 1);
    if (aten_rank(a, weight) == 2)
        weight = graph_transpose(a->graph, weight, 0, 1);
    const value product = matrix_product(a, x, weight);
    aten_new(a,
             aten_given(a, 2) ? graph_map2(a->graph, OP_add, product, aten_value(a, 2)) : product);
}

/* addmm, baddbmm, addmv: self, x, y, beta=1, alpha=1 */
void build_add_product_of_matrices(struct aten *a)
{
    value product = matrix_product(a, aten_value(a, 1), aten_value(a, 2));
    value added = aten_value(a, 0);
    const enum dtype dtype = aten_type(a, product);
    const struct operand beta = aten_operand(a, 3), alpha = aten_operand(a, 4);
    if (alpha.value || alpha.number.re != 1 || alpha.number.im != 0)
        product = graph_map2(a->graph, OP_mul, product, aten_as(a, alpha, dtype));
    if (beta.value || beta.number.re != 1 || beta.number.im != 0)
        added = graph_map2(a->graph, OP_mul, added, aten_as(a, beta, dtype));
    /* not even a NaN counts then */
    const bool none = !beta.value && beta.number.re == 0 && beta.number.im == 0;
    /* the product first: the result is row-major, whatever is added to it */
    aten_new(a, none ? product : graph_map2(a->graph, OP_add, product, added));
}

void build_outer(struct aten *a)
{
    value x[2];
    aten_pair(a, 0, 1, 0, x);
    if (aten_rank(a, x[0]) == 1 && aten_rank(a, x[1]) == 1)
        aten_new(a, graph_map2(a->graph, OP_mul, graph_unsqueeze(a->graph, x[0], 1), x[1]));
    else
        aten_refuse(a, "needs two tensors of one dim");
}

/* -- several products -------------------------------------------------------------------------- */

/* tensors: from the left, or from the right when the last is a vector */
void build_multi_dot(struct aten *a)
{
    const struct argument *list = aten_list(a, 0);
    const int count = list->count;
    if (count == 0)
        return;
    const bool backwards = aten_rank(a, tensor_get(a->loader, list->tensors[count - 1])) == 1;
    value product = tensor_get(a->loader, list->tensors[backwards ? count - 1 : 0]);
    for (int i = 1; i < count; i++) {
        const value next = tensor_get(a->loader, list->tensors[backwards ? count - 1 - i : i]);
        product = backwards ? matrix_product(a, next, product) : matrix_product(a, product, next);
    }
    aten_new(a, product);
}

/* self, n: by squares, as eager multiplies */
void build_matrix_power(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x);
    const int64_t times = aten_int(a, 1);
    value square = 0, result = 0;
    if (rank < 2 || times < 0) {
        aten_refuse(a, times < 0 ? "the inverse of a matrix is not supported; invert outside of "
                                   "the program"
                                 : "needs a matrix");
        return;
    }
    for (int64_t left = times; left > 0; left /= 2) {
        square = square ? matrix_product(a, square, square) : x;
        if (left % 2)
            result = result ? matrix_product(a, result, square) : square;
    }
    if (times == 0) { /* ones where row and column meet */
        const dim *shape = aten_shape(a, x);
        const value row = graph_unsqueeze(a->graph, graph_iota(a->graph, shape[rank - 2]), 1),
                    column = graph_iota(a->graph, shape[rank - 1]);
        const value one = aten_cast(a, graph_map2(a->graph, OP_eq, row, column), aten_type(a, x));
        result = aten_full(a, one, shape, rank);
    }
    aten_new(a, result);
}

/* self, other, dim: x[i + 1] y[i + 2] - x[i + 2] y[i + 1]. Without a dim, along the first
 * of size 3 */
void build_cross(struct aten *a)
{
    struct graph *g = a->graph;
    value x[2], turned[2][2];
    dim shape[RANK_MAX];
    aten_pair(a, 0, 1, 0, x);
    memcpy(shape, aten_shape(a, x[0]), (size_t)aten_rank(a, x[0]) * sizeof *shape);
    const int rank =
        aten_broadcast(a, shape, aten_rank(a, x[0]), aten_shape(a, x[1]), aten_rank(a, x[1]));
    int axis = aten_given(a, 2) ? aten_axis(a, 2, rank) : 0;
    while (!aten_given(a, 2) && axis < rank && size_value(a->sizes, shape[axis]) != 3)
        axis++;
    if (a->reason || axis >= rank || size_value(a->sizes, shape[axis]) != 3) {
        aten_refuse(a, "needs a dim of size 3");
        return;
    }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            const struct attributes at = {.axes = &axis,
                                          .axis_count = 1,
                                          .sizes = (dim[]){aten_literal(a, -1 - k)},
                                          .size_count = 1};
            const value wide = graph_expand(g, x[i], shape, rank);
            turned[i][k] = graph_add(g, OP_roll, DT_bool, &wide, 1, &at, NULL);
        }
    aten_new(a, graph_map2(g, OP_sub, graph_map2(g, OP_mul, turned[0][0], turned[1][1]),
                           graph_map2(g, OP_mul, turned[0][1], turned[1][0])));
}

/* x, N=None, increasing=False: the powers 0 to N - 1 of each element as a running product. number:
 * 1 for linalg_vander, whose powers always rise */
void build_vander(struct aten *a)
{
    struct graph *g = a->graph;
    value x = aten_value(a, 0);
    const int rank = aten_rank(a, x);
    const enum dtype dtype = dtype_is_integer(aten_type(a, x)) ? DT_i64 : aten_type(a, x);
    if (rank == 0 || (!a->number && rank != 1)) {
        aten_refuse(a, "needs a line of numbers");
        return;
    }
    dim shape[RANK_MAX + 1];
    memcpy(shape, aten_shape(a, x), (size_t)rank * sizeof *shape);
    const dim count = aten_given(a, 1) ? aten_size(a, 1) : shape[rank - 1];
    const struct attributes along = {.axis = rank};
    shape[rank] = size_max(a->sizes, size_sub(a->sizes, count, 1), 0);
    x = graph_expand(g, graph_unsqueeze(g, aten_cast(a, x, dtype), rank), shape, rank + 1);
    value parts[2] = {0, graph_add(g, OP_cumprod, DT_bool, &x, 1, &along, NULL)};
    shape[rank] = size_min(a->sizes, count, 1);
    parts[0] = graph_expand(g, aten_number(a, dtype, 1), shape, rank + 1);
    const value rising = graph_concat(g, parts, 2, rank);
    const struct attributes turn = {.axes = &rank, .axis_count = 1};
    aten_new(a, a->number || aten_flag(a, 2)
                    ? rising
                    : graph_add(g, OP_flip, DT_bool, &rising, 1, &turn, NULL));
}
