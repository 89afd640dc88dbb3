/* aten_reduce.c - sums, extremes, means, norms, scans and orders.
 *
 *     aten.mean.dim(bf16[8, 64], [-1])     cast(div(sum(cast(x) : f32), 64.0)) : bf16
 *     aten.max.dim(x, 1)                   amax(x, [1]) and argmax(x, 1)
 *     aten.topk.default(x, 2, 1)           gather at the first two of sort_index(x, 1) */
#include "load/aten.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* -- sums -------------------------------------------------------------------------------------- */

/* Integers add up in i64. */
static enum dtype sum_type(enum dtype dtype)
{
    return dtype_is_integer(dtype) ? DT_i64 : dtype;
}

/* dims and keepdim at positions; < 0: all dims, not kept */
struct reduced {
    int axes[RANK_MAX], count;
    bool keep;
};

static struct reduced reduced_of(struct aten *a, value x, int dims, int keep)
{
    struct reduced r = {.keep = keep >= 0 && aten_flag(a, keep)};
    const int rank = aten_rank(a, x);
    for (int d = 0; d < rank; d++)
        r.axes[d] = d;
    r.count = dims >= 0 ? aten_axes(a, dims, rank, true, r.axes) : rank;
    return r;
}

static void reduce_typed(struct aten *a, int dims, int keep, int dtype)
{
    value x = aten_value(a, 0);
    x = aten_cast(a, x, aten_dtype(a, dtype, sum_type(aten_type(a, x))));
    const struct reduced r = reduced_of(a, x, dims, keep);
    aten_new(a, graph_reduce(a->graph, a->op, x, r.axes, r.count, r.keep));
}

/* sum, prod: self, dtype */
void build_reduce_all(struct aten *a)
{
    reduce_typed(a, -1, -1, 1);
}

/* self, dim, keepdim, dtype */
void build_reduce(struct aten *a)
{
    reduce_typed(a, 1, 2, 3);
}

value reduce_mean(struct aten *a, value v, const int *axes, int count, bool keep)
{
    const enum dtype dtype = aten_type(a, v);
    const value wide = aten_wide(a, v),
                sum = graph_reduce(a->graph, OP_sum, wide, axes, count, keep);
    const dim n = aten_count(a, v, axes, count);
    const value divisor = size_is_literal(a->sizes, n)
                              ? aten_number(a, aten_type(a, wide), (double)size_value(a->sizes, n))
                              : aten_cast(a, graph_size(a->graph, n), aten_type(a, wide));
    return aten_cast(a, graph_map2(a->graph, OP_div, sum, divisor), dtype);
}

static void mean(struct aten *a, int dims, int keep, int dtype)
{
    value x = aten_value(a, 0);
    x = aten_cast(a, x, aten_dtype(a, dtype, aten_type(a, x)));
    const struct reduced r = reduced_of(a, x, dims, keep);
    aten_new(a, reduce_mean(a, x, r.axes, r.count, r.keep));
}

void build_mean_all(struct aten *a)
{
    mean(a, -1, -1, 1);
}

void build_mean(struct aten *a)
{
    mean(a, 1, 2, 3);
}

/* The largest of nothing is an error in eager too. */
static void check_extreme(struct aten *a, value x, const struct reduced *r)
{
    char message[160];
    const dim count = aten_count(a, x, r->axes, r->count);
    snprintf(message, sizeof message, "%s: the largest or smallest of no elements", a->call->name);
    if (a->op == OP_amax || a->op == OP_amin)
        aten_check(a, size_binary(a->sizes, SIZE_NE, count, 0), message);
}

/* any, all, amax, amin, max, min: self, dim, keepdim */
void build_reduce_plain(struct aten *a)
{
    const value x = aten_value(a, 0);
    const struct reduced r = reduced_of(a, x, 1, 2);
    if (op_info[a->op].complex == COMPLEX_NEVER && dtype_is_complex(aten_type(a, x)))
        aten_refuse(a, "complex numbers have no order");
    else
        aten_new(a, graph_reduce(a->graph, a->op, x, r.axes, r.count, r.keep));
    check_extreme(a, x, &r);
}

void build_reduce_plain_all(struct aten *a)
{
    const value x = aten_value(a, 0);
    const struct reduced r = reduced_of(a, x, -1, -1);
    aten_new(a, graph_reduce(a->graph, a->op, x, r.axes, r.count, false));
    check_extreme(a, x, &r);
}

/* -- variance ---------------------------------------------------------------------------------- */

/* The sum of squared distances from the mean, by n - correction (0 at least). Complex: of
 * absolute values. */
value reduce_variance(struct aten *a, value v, const int *axes, int count, bool keep,
                      double correction)
{
    struct graph *g = a->graph;
    const value wide = aten_wide(a, v);
    value apart = graph_map2(g, OP_sub, wide, reduce_mean(a, wide, axes, count, true));
    if (dtype_is_complex(aten_type(a, apart)))
        apart = graph_map1(g, OP_abs, apart);
    const enum dtype dtype = aten_type(a, apart);
    const value sum =
        graph_reduce(g, OP_sum, graph_map2(g, OP_mul, apart, apart), axes, count, keep);
    const value n = aten_cast(a, graph_size(g, aten_count(a, v, axes, count)), dtype);
    const value less = graph_map2(g, OP_sub, n, aten_number(a, dtype, correction));
    return graph_map2(g, OP_div, sum, graph_map2(g, OP_maximum, less, aten_number(a, dtype, 0)));
}

/* op: sqrt for the standard deviation */
static value spread_of(struct aten *a, value x, const struct reduced *r, double correction)
{
    const value variance = reduce_variance(a, x, r->axes, r->count, r->keep, correction);
    const value result = a->op == OP_sqrt ? graph_map1(a->graph, OP_sqrt, variance) : variance;
    return aten_cast(a, result, dtype_info[aten_type(a, x)].real);
}

/* self, dim=None, correction=None, keepdim=False; var_mean and std_mean give the mean too */
void build_variance(struct aten *a)
{
    const value x = aten_value(a, 0);
    const struct reduced r = reduced_of(a, x, 1, 3);
    aten_new(a, spread_of(a, x, &r, aten_given(a, 2) ? aten_float(a, 2) : 1));
    if (a->call->result_count > 1)
        aten_new(a, reduce_mean(a, x, r.axes, r.count, r.keep));
}

/* self, dim, unbiased=True, keepdim=False */
void build_variance_flag(struct aten *a)
{
    const value x = aten_value(a, 0);
    const struct reduced r = reduced_of(a, x, 1, 3);
    aten_new(a, spread_of(a, x, &r, aten_flag(a, 2) ? 1 : 0));
    if (a->call->result_count > 1)
        aten_new(a, reduce_mean(a, x, r.axes, r.count, r.keep));
}

/* self, unbiased=True */
void build_variance_all(struct aten *a)
{
    const value x = aten_value(a, 0);
    const struct reduced r = reduced_of(a, x, -1, -1);
    aten_new(a, spread_of(a, x, &r, aten_flag(a, 1) ? 1 : 0));
    if (a->call->result_count > 1)
        aten_new(a, reduce_mean(a, x, r.axes, r.count, false));
}

/* -- norms ------------------------------------------------------------------------------------- */

static value norm_of(struct aten *a, value x, const struct reduced *r, double order)
{
    struct graph *g = a->graph;
    const value size = graph_map1(g, OP_abs, x);
    const enum dtype dtype = aten_type(a, size);
    if (isinf(order))
        return graph_reduce(g, order > 0 ? OP_amax : OP_amin, size, r->axes, r->count, r->keep);
    value term = size;
    if (order == 0)
        term = aten_cast(a, graph_map2(g, OP_ne, size, aten_number(a, dtype, 0)), dtype);
    else if (order == 2)
        term = graph_map2(g, OP_mul, size, size);
    else if (order != 1)
        term = graph_map2(g, OP_pow, size, aten_number(a, dtype, order));
    const value sum = graph_reduce(g, OP_sum, term, r->axes, r->count, r->keep);
    if (order == 0 || order == 1)
        return sum;
    return order == 2 ? graph_map1(g, OP_sqrt, sum)
                      : graph_map2(g, OP_pow, sum, aten_number(a, dtype, 1 / order));
}

static void norm(struct aten *a, double order, int dims, int keep, int dtype)
{
    value x = aten_value(a, 0);
    if (dtype >= 0)
        x = aten_cast(a, x, aten_dtype(a, dtype, aten_type(a, x)));
    const struct reduced r = reduced_of(a, x, dims, keep);
    aten_new(
        a, aten_cast(a, norm_of(a, aten_wide(a, x), &r, order), dtype_info[aten_type(a, x)].real));
}

/* linalg_vector_norm: self, ord=2, dim=None, keepdim=False, dtype=None */
void build_vector_norm(struct aten *a)
{
    norm(a, aten_float(a, 1), 2, 3, 4);
}

/* linalg_norm: self, ord=None, dim=None, keepdim=False, dtype=None: of all elements without ord
 * and dim, along one dim */
void build_any_norm(struct aten *a)
{
    const struct argument *dims = &a->arguments[2];
    const bool one = dims->kind == ARGUMENT_INTS
                         ? dims->count == 1
                         : aten_given(a, 2) || aten_rank(a, aten_value(a, 0)) == 1;
    if (!one && aten_given(a, 1))
        aten_refuse(a, "the norm of a matrix; only norms of vectors are supported");
    else
        norm(a, aten_given(a, 1) ? aten_float(a, 1) : 2, 2, 3, 4);
}

/* linalg_norm and linalg_matrix_norm by name: self, ord="fro", dim, keepdim=False,
 * dtype=None: the root of the sum of all squares is that of a vector */
void build_named_norm(struct aten *a)
{
    if (aten_rank(a, aten_value(a, 0)) < 2 || strcmp(aten_string(a, 1), "fro") != 0)
        aten_refuse(a, "the norm %s of a matrix; only fro and norms of vectors are supported",
                    aten_string(a, 1));
    else
        norm(a, 2, 2, 3, 4);
}

/* norm: self, p, dim, keepdim */
void build_norm(struct aten *a)
{
    norm(a, aten_given(a, 1) ? aten_float(a, 1) : 2, 2, 3, -1);
}

void build_norm_all(struct aten *a)
{
    norm(a, aten_float(a, 1), -1, -1, -1);
}

/* self, dim, keepdim: log(sum(exp(x - m))) + m, m the largest, or the largest real part */
void build_logsumexp(struct aten *a)
{
    struct graph *g = a->graph;
    value x = aten_value(a, 0);
    const enum dtype dtype = aten_inexact(aten_type(a, x));
    x = aten_wide(a, aten_cast(a, x, dtype));
    const struct reduced r = reduced_of(a, x, 1, 2);
    const value ordered = dtype_is_complex(dtype) ? graph_map1(g, OP_real, x) : x;
    const value most = graph_reduce(g, OP_amax, ordered, r.axes, r.count, true);
    const value finite = graph_map3(g, OP_where, graph_map1(g, OP_is_inf, most),
                                    aten_number(a, aten_type(a, ordered), 0), most);
    const value shift = aten_cast(a, finite, aten_type(a, x));
    const value exponential = graph_map1(g, OP_exp, graph_map2(g, OP_sub, x, shift));
    const value sum =
        graph_map1(g, OP_log, graph_reduce(g, OP_sum, exponential, r.axes, r.count, r.keep));
    const value back =
        aten_cast(a, graph_reduce(g, OP_amax, finite, r.axes, r.count, r.keep), aten_type(a, x));
    aten_new(a, aten_cast(a, graph_map2(g, OP_add, sum, back), dtype));
}

/* -- places ------------------------------------------------------------------------------------ */

static value place_of(struct aten *a, enum op op, value x, int axis, bool keep)
{
    const int rank = aten_rank(a, x);
    const dim one = 1;
    if (rank == 0)
        x = graph_reshape(a->graph, x, &one, 1);
    const value place =
        graph_add(a->graph, op, DT_i64, &x, 1, &(struct attributes){.axis = axis}, NULL);
    return keep && rank ? graph_unsqueeze(a->graph, place, axis) : place;
}

static bool has_order(struct aten *a, value x)
{
    if (dtype_is_complex(aten_type(a, x)))
        aten_refuse(a, "complex numbers have no order");
    return a->reason == NULL;
}

/* aminmax: self, dim=None, keepdim=False: least and largest */
void build_both_extremes(struct aten *a)
{
    const value x = aten_value(a, 0);
    const struct reduced r = reduced_of(a, x, 1, 2);
    if (!has_order(a, x))
        return;
    aten_new(a, graph_reduce(a->graph, OP_amin, x, r.axes, r.count, r.keep));
    aten_new(a, graph_reduce(a->graph, OP_amax, x, r.axes, r.count, r.keep));
}

/* argmax, argmin: self, dim=None, keepdim=False */
void build_place(struct aten *a)
{
    value x = aten_value(a, 0);
    const int rank = aten_rank(a, x);
    dim ones[RANK_MAX];
    if (!has_order(a, x))
        return;
    if (aten_given(a, 1)) {
        aten_new(a, place_of(a, a->op, x, aten_axis(a, 1, rank), aten_flag(a, 2)));
        return;
    }
    const dim count = graph_count(a->graph, x);
    value place = place_of(a, a->op, graph_reshape(a->graph, x, &count, 1), 0, false);
    for (int d = 0; d < rank; d++)
        ones[d] = 1;
    if (aten_flag(a, 2))
        place = graph_reshape(a->graph, place, ones, rank);
    aten_new(a, place);
}

/* max.dim, min.dim: self, dim, keepdim: values and places. op: amax or amin */
void build_extreme(struct aten *a)
{
    const value x = aten_value(a, 0);
    if (!has_order(a, x))
        return;
    const struct reduced r = reduced_of(a, x, 1, 2);
    aten_new(a, graph_reduce(a->graph, a->op, x, r.axes, r.count, r.keep));
    aten_new(a, place_of(a, a->op == OP_amax ? OP_argmax : OP_argmin, x,
                         aten_axis(a, 1, aten_rank(a, x)), r.keep));
}

/* -- scans ------------------------------------------------------------------------------------- */

/* cumsum, cumprod: self, dim, dtype */
void build_scan(struct aten *a)
{
    value x = aten_value(a, 0);
    const enum dtype dtype = aten_dtype(a, 2, sum_type(aten_type(a, x)));
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    x = aten_cast(a, x, dtype);
    if (aten_rank(a, x) == 0)
        aten_new(a, x);
    else
        aten_new(a, graph_add(a->graph, a->op, DT_bool, &x, 1, &(struct attributes){.axis = axis},
                              NULL));
}

/* self, n=1, dim=-1, prepend=None, append=None. Of order 0 the tensor itself, whatever is put
 * before and behind it. */
void build_diff(struct aten *a)
{
    enum { ORDER_MAX = 64 };
    struct graph *g = a->graph;
    struct operand parts[3];
    value joined[3];
    int count = 0;
    const value x = aten_value(a, 0);
    const int64_t times = aten_int(a, 1);
    if (aten_rank(a, x) == 0 || times < 0 || times > ORDER_MAX) {
        aten_refuse(a, "differences of order %lld of a tensor of %d dims", (long long)times,
                    aten_rank(a, x));
        return;
    }
    const int axis = aten_axis(a, 2, aten_rank(a, x));
    for (int i = 0; i < 3 && times > 0; i++) {
        static const int order[] = {3, 0, 4};
        if (aten_given(a, order[i]))
            parts[count++] = aten_operand(a, order[i]);
    }
    const enum dtype dtype = times ? aten_promote(a, parts, count) : aten_type(a, x);
    for (int i = 0; i < count; i++)
        joined[i] = aten_as(a, parts[i], dtype);
    value line = count > 1 ? graph_concat(g, joined, count, axis) : x;
    for (int64_t i = 0; i < times && size_value(a->sizes, aten_shape(a, line)[axis]) > 0; i++) {
        const dim length = size_sub(a->sizes, aten_shape(a, line)[axis], 1);
        const value next = graph_slice(g, line, axis, 1, length, 1),
                    before = graph_slice(g, line, axis, 0, length, 1);
        line = graph_map2(g, dtype == DT_bool ? OP_bit_xor : OP_sub, next, before);
    }
    aten_new(a, line);
}

/* -- order ------------------------------------------------------------------------------------- */

/* The values along an axis in order, `length` of them, and where they were. */
static void order(struct aten *a, value x, int axis, bool descending, dim length, bool whole)
{
    struct graph *g = a->graph;
    if (!has_order(a, x))
        return;
    if (aten_rank(a, x) == 0) {
        aten_new(a, x);
        aten_new(a, aten_number(a, DT_i64, 0));
        return;
    }
    const struct attributes at = {.axis = axis, .flag = descending};
    value places = graph_add(g, OP_sort_index, DT_i64, &x, 1, &at, NULL);
    if (!whole)
        places = aten_clone(a, graph_slice(g, places, axis, 0, length, 1), FORMAT_CONTIGUOUS);
    value values = graph_add(g, OP_gather, DT_bool, (value[]){x, places}, 2,
                             &(struct attributes){.axis = axis}, NULL);
    if (whole)
        values = aten_laid_out_as(a, x, values);
    if (a->call->result_count > 1 || a->op != OP_sort_index)
        aten_new(a, values);
    aten_new(a, places);
}

/* sort: self, dim=-1, descending=False */
void build_sort(struct aten *a)
{
    const value x = aten_value(a, 0);
    order(a, x, aten_axis(a, 1, aten_rank(a, x)), aten_flag(a, 2), 0, true);
}

/* sort.stable: self, stable, dim=-1, descending=False */
void build_sort_stable(struct aten *a)
{
    const value x = aten_value(a, 0);
    order(a, x, aten_axis(a, 2, aten_rank(a, x)), aten_flag(a, 3), 0, true);
}

/* topk: self, k, dim=-1, largest=True, sorted=True */
void build_topk(struct aten *a)
{
    const value x = aten_value(a, 0);
    order(a, x, aten_axis(a, 2, aten_rank(a, x)), aten_flag(a, 3), aten_size(a, 1), false);
}
