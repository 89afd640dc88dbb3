/* aten_attention.c - attention in each of eager's spellings, and the softmax that it takes.
 *
 *     scaled_dot_product_attention(q, k, v, mask)
 *         scores = q @ k^T * scale + (mask ? 0 : -inf)
 *         weights = exp(scores - most) / sum, 0 along a row of scores that are all -inf
 *         weights @ v
 *
 * f16 and bf16 are computed in f32 and rounded once. */
#include "load/aten.h"

#include <math.h>

/* -- the safe softmax -------------------------------------------------------------------------- */

struct softmax {
    value weights, most, sum; /* most: 0 where a row has nothing but -inf; sum: 1 there */
};

/* A row of -inf alone has no weights: its exponentials, taken from 0 and not from -inf, are 0, and
 * so are quotients by 1. A NaN anywhere in a row is NaN everywhere, as in any softmax. */
static struct softmax safe_softmax(struct aten *a, value x, int axis)
{
    struct graph *g = a->graph;
    const enum dtype dtype = aten_type(a, x);
    const int axes[1] = {axis}, count = aten_rank(a, x) ? 1 : 0;
    const value top = graph_reduce(g, OP_amax, x, axes, count, true);
    const value nothing = graph_map2(g, OP_eq, top, aten_number(a, dtype, -INFINITY));
    const value most = graph_map3(g, OP_where, nothing, aten_number(a, dtype, 0), top);
    const value exponential = graph_map1(g, OP_exp, graph_map2(g, OP_sub, x, most));
    const value sum = graph_map3(g, OP_where, nothing, aten_number(a, dtype, 1),
                                 graph_reduce(g, OP_sum, exponential, axes, count, true));
    return (struct softmax){graph_map2(g, OP_div, exponential, sum), most, sum};
}

/* self, dim, dtype=None */
void build_safe_softmax(struct aten *a)
{
    const value given = aten_value(a, 0);
    const enum dtype dtype = aten_inexact(aten_dtype(a, 2, aten_type(a, given)));
    const value x = aten_wide(a, aten_cast(a, given, dtype));
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    if (dtype_is_complex(dtype))
        aten_refuse(a, "complex numbers have no order");
    else
        aten_new_row_major(a, aten_cast(a, safe_softmax(a, x, axis).weights, dtype));
}

/* -- scores ------------------------------------------------------------------------------------ */

/* Keys or values with their heads repeated, so that each group of query heads has its own. */
static value heads_repeated(struct aten *a, value x, value query)
{
    dim sizes[RANK_MAX], wide[RANK_MAX], times;
    const int rank = aten_rank(a, x), axis = rank - 3;
    const dim *shape = aten_shape(a, x);
    if (axis < 0 || rank == RANK_MAX || rank != aten_rank(a, query) ||
        !size_divide_exactly(a->sizes, aten_shape(a, query)[axis], shape[axis], &times)) {
        aten_refuse(a, "enable_gqa needs query heads that are a multiple of key and value heads");
        return x;
    }
    if (times == 1)
        return x;
    for (int d = 0; d <= rank; d++)
        wide[d] = d <= axis ? shape[d] : d == axis + 1 ? times : shape[d - 1];
    for (int d = 0; d < rank; d++)
        sizes[d] = d == axis ? aten_shape(a, query)[axis] : shape[d];
    return graph_reshape(
        a->graph, graph_expand(a->graph, graph_unsqueeze(a->graph, x, axis + 1), wide, rank + 1),
        sizes, rank);
}

/* 1 / sqrt(the size of the last dim), unless it is given */
static value scale_of(struct aten *a, value query, int index, enum dtype dtype)
{
    const dim width = aten_shape(a, query)[aten_rank(a, query) - 1];
    if (aten_given(a, index) && a->arguments[index].kind == ARGUMENT_TENSOR)
        return aten_cast(a, aten_value(a, index), dtype);
    if (aten_given(a, index))
        return aten_number(a, dtype, aten_float(a, index));
    if (size_is_literal(a->sizes, width))
        return aten_number(a, dtype, 1 / sqrt((double)size_value(a->sizes, width)));
    return graph_map1(a->graph, OP_rsqrt, aten_cast(a, graph_size(a->graph, width), dtype));
}

/* A mask is added; one of bools adds 0 where it is true, else -inf. */
static value masked(struct aten *a, value scores, value mask)
{
    const enum dtype dtype = aten_type(a, scores);
    const value added = aten_type(a, mask) == DT_bool
                            ? graph_map3(a->graph, OP_where, mask, aten_number(a, dtype, 0),
                                         aten_number(a, dtype, -INFINITY))
                            : aten_cast(a, mask, dtype);
    return graph_map2(a->graph, OP_add, scores, added);
}

/* Row i sees the columns 0 to i, counted from the first ones also where there are more of one. */
static value causal(struct aten *a, value scores)
{
    const int rank = aten_rank(a, scores);
    const dim *shape = aten_shape(a, scores);
    const value row = graph_unsqueeze(a->graph, graph_iota(a->graph, shape[rank - 2]), 1);
    const value column = graph_iota(a->graph, shape[rank - 1]);
    return masked(a, scores, graph_map2(a->graph, OP_le, column, row));
}

/* -- attention --------------------------------------------------------------------------------- */

struct attention {
    value output;
    struct softmax softmax;
};

/* Arguments: query, key, value, attn_mask, dropout_p, is_causal, scale, and with `grouped`
 * enable_gqa. false: refused. */
static bool attend(struct aten *a, bool grouped, struct attention *out)
{
    struct graph *g = a->graph;
    value x[3];
    for (int i = 0; i < 3; i++)
        x[i] = aten_value(a, i);
    for (int i = 0; i < 3; i++)
        if (!dtype_is_float(aten_type(a, x[i])) || aten_rank(a, x[i]) < 2)
            aten_refuse(a, "attention of tensors that are no matrices of real numbers");
    if (aten_float(a, 4) != 0)
        aten_refuse(a, "attention with dropout; export the module after eval()");
    if (a->reason)
        return false;
    if (grouped && aten_flag(a, 7))
        for (int i = 1; i < 3; i++)
            x[i] = heads_repeated(a, x[i], x[0]);
    const enum dtype dtype = aten_type(a, x[0]);
    const int rank = aten_rank(a, x[1]);
    const value keys = graph_transpose(g, aten_wide(a, x[1]), rank - 2, rank - 1);
    value scores = matrix_product(a, aten_wide(a, x[0]), keys);
    scores = graph_map2(g, OP_mul, scores, scale_of(a, x[0], 6, aten_type(a, scores)));
    if (aten_rank(a, scores) < 2)
        return false;
    if (aten_flag(a, 5))
        scores = causal(a, scores);
    if (aten_given(a, 3))
        scores = masked(a, scores, aten_value(a, 3));
    out->softmax = safe_softmax(a, scores, aten_rank(a, scores) - 1);
    out->output = aten_cast(a, matrix_product(a, out->softmax.weights, aten_wide(a, x[2])), dtype);
    return a->reason == NULL;
}

/* query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa */
void build_attention(struct aten *a)
{
    struct attention attention;
    if (attend(a, true, &attention))
        aten_new(a, attention.output);
}

/* The same, dropout_mask: the weights too. Eager adds the ones and zeros of a mask of bools here,
 * which its callers have made -inf before. */
void build_attention_math(struct aten *a)
{
    struct attention attention;
    if (aten_given(a, 3) && aten_type(a, aten_value(a, 3)) == DT_bool)
        aten_refuse(a, "_scaled_dot_product_attention_math adds a mask of bools as ones and zeros; "
                       "give it 0 and -inf");
    else if (aten_given(a, 8))
        aten_refuse(a, "attention with dropout; export the module after eval()");
    else if (attend(a, true, &attention)) {
        aten_new(a, attention.output);
        aten_new(a, aten_cast(a, attention.softmax.weights, aten_type(a, aten_value(a, 0))));
    }
}

/* The spellings of the fused kernels: query, key, value, attn_mask or attn_bias, dropout_p,
 * is_causal, scale, and what decides nothing. number: 1 gives each row's logarithm of its sum of
 * exponentials too; the other kernels' is padded. */
void build_attention_fused(struct aten *a)
{
    struct graph *g = a->graph;
    struct attention attention;
    if (!attend(a, false, &attention))
        return;
    aten_new(a, attention.output);
    if (!a->number)
        return;
    const value sums =
        graph_map2(g, OP_add, graph_map1(g, OP_log, attention.softmax.sum), attention.softmax.most);
    const int rank = aten_rank(a, sums) - 1;
    value lines = graph_squeeze(g, sums, rank);
    if (rank >= 2) { /* in memory as the CPU's kernel writes them: the heads side by side */
        lines = graph_transpose(g, lines, rank - 2, rank - 1);
        lines = graph_transpose(g, aten_clone(a, lines, FORMAT_CONTIGUOUS), rank - 2, rank - 1);
    }
    aten_new(a, lines);
}

/* query, key, value, return_debug_mask, dropout_p, is_causal, scale: no mask; causal means the last
 * columns here, which are the first ones only of a square. */
void build_attention_flash(struct aten *a)
{
    const value query = aten_value(a, 0), key = aten_value(a, 1);
    const int rank = aten_rank(a, query);
    a->arguments[3] = (struct argument){0};
    if (aten_flag(a, 5) && rank > 1 && aten_rank(a, key) == rank &&
        aten_shape(a, query)[rank - 2] != aten_shape(a, key)[rank - 2])
        aten_refuse(a, "causal flash attention of queries and keys of different lengths");
    else
        build_attention_fused(a);
}
