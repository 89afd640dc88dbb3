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
    aten_new(a, none ? product : graph_map2(a->graph, OP_add, added, product));
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
