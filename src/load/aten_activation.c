/* aten_activation.c - activation functions and normalisations, built from operators of the
 * table.
 *
 *     aten.silu(bf16)      cast(div(x, add(1, exp(neg(x)))) : f32) : bf16      rounded once
 *     aten.softmax.int     clone(exp(x - amax(x)) / sum(...))    row-major, as eager's is */
#include "load/aten.h"

#include <math.h>
#include <string.h>

/* -- small words for long formulas ------------------------------------------------------------- */

static value two(struct aten *a, enum op op, value x, value y)
{
    return graph_map2(a->graph, op, x, y);
}

/* x op number */
static value with(struct aten *a, enum op op, value x, double number)
{
    return graph_map2(a->graph, op, x, aten_number(a, aten_type(a, x), number));
}

static value choose(struct aten *a, value condition, value x, value y)
{
    return graph_map3(a->graph, OP_where, condition, x, y);
}

/* The operand in the type that eager computes in; finish() rounds back. */
static value start(struct aten *a)
{
    return aten_wide(a, aten_value(a, 0));
}

static void finish(struct aten *a, value result)
{
    aten_new(a, aten_cast(a, result, aten_type(a, aten_value(a, 0))));
}

static void finish_row_major(struct aten *a, value result)
{
    aten_new_row_major(a, aten_cast(a, result, aten_type(a, aten_value(a, 0))));
}

static bool needs_real(struct aten *a, value x)
{
    if (dtype_is_complex(aten_type(a, x)))
        aten_refuse(a, "not defined on complex numbers");
    return a->reason == NULL;
}

/* -- activations ------------------------------------------------------------------------------- */

/* x / (1 + exp(-x)) */
static value silu_of(struct aten *a, value x)
{
    const value exponential = graph_map1(a->graph, OP_exp, graph_map1(a->graph, OP_neg, x));
    return two(a, OP_div, x, with(a, OP_add, exponential, 1));
}

void build_silu(struct aten *a)
{
    finish(a, silu_of(a, start(a)));
}

void build_relu(struct aten *a)
{
    const value x = start(a);
    if (needs_real(a, x))
        finish(a, with(a, OP_maximum, x, 0));
}

/* hardtanh, relu6: clamp to two constants */
void build_hardtanh(struct aten *a)
{
    const value x = start(a);
    if (needs_real(a, x))
        finish(a, with(a, OP_minimum, with(a, OP_maximum, x, aten_float(a, 1)), aten_float(a, 2)));
}

void build_relu6(struct aten *a)
{
    finish(a, with(a, OP_minimum, with(a, OP_maximum, start(a), 0), 6));
}

/* x * clamp(x + 3, 0, 6) / 6; hardsigmoid without the factor. op: mul or none */
void build_hardswish(struct aten *a)
{
    const value x = start(a), shifted = with(a, OP_add, x, 3);
    const value gate = with(a, OP_minimum, with(a, OP_maximum, shifted, 0), 6);
    finish(a, with(a, OP_div, a->op == OP_mul ? two(a, OP_mul, x, gate) : gate, 6));
}

void build_leaky_relu(struct aten *a)
{
    const value x = start(a);
    finish(a, choose(a, with(a, OP_gt, x, 0), x, with(a, OP_mul, x, aten_float(a, 1))));
}

/* x > 0 ? scale * x : scale * alpha * (exp(x * input_scale) - 1) */
void build_elu(struct aten *a)
{
    const value x = start(a);
    const double alpha = aten_float(a, 1), scale = aten_float(a, 2), input_scale = aten_float(a, 3);
    const value bent = graph_map1(a->graph, OP_expm1, with(a, OP_mul, x, input_scale));
    finish(a, choose(a, with(a, OP_gt, x, 0), with(a, OP_mul, x, scale),
                     with(a, OP_mul, bent, alpha * scale)));
}

/* elu with the constants of self-normalising networks */
void build_selu(struct aten *a)
{
    const double alpha = 1.6732632423543772848170429916717,
                 scale = 1.0507009873554804934193349852946;
    const value x = start(a),
                bent = with(a, OP_mul, graph_map1(a->graph, OP_expm1, x), alpha * scale);
    finish(a, choose(a, with(a, OP_gt, x, 0), with(a, OP_mul, x, scale), bent));
}

/* x > 0 ? x : alpha * (exp(x / alpha) - 1) */
void build_celu(struct aten *a)
{
    const value x = start(a);
    const double alpha = aten_float(a, 1);
    const value bent = graph_map1(a->graph, OP_expm1, with(a, OP_mul, x, 1 / alpha));
    finish(a, choose(a, with(a, OP_gt, x, 0), x, with(a, OP_mul, bent, alpha)));
}

/* log(1 + exp(x * beta)) / beta, linear above the threshold */
static value softplus_of(struct aten *a, value x, double beta, double threshold)
{
    const value scaled = with(a, OP_mul, x, beta);
    const value curve =
        with(a, OP_div, graph_map1(a->graph, OP_log1p, graph_map1(a->graph, OP_exp, scaled)), beta);
    return choose(a, with(a, OP_gt, scaled, threshold), x, curve);
}

void build_softplus(struct aten *a)
{
    finish(a, softplus_of(a, start(a), aten_float(a, 1), aten_float(a, 2)));
}

void build_mish(struct aten *a)
{
    const value x = start(a);
    finish(a, two(a, OP_mul, x, graph_map1(a->graph, OP_tanh, softplus_of(a, x, 1, INFINITY))));
}

/* min(x, 0) - log1p(exp(-|x|)) */
void build_log_sigmoid(struct aten *a)
{
    const value x = start(a), size = graph_map1(a->graph, OP_neg, graph_map1(a->graph, OP_abs, x));
    const value tail = graph_map1(a->graph, OP_log1p, graph_map1(a->graph, OP_exp, size));
    finish_row_major(a, two(a, OP_sub, with(a, OP_minimum, x, 0), tail));
}

/* x * P(X <= x), exactly or by tanh */
void build_gelu(struct aten *a)
{
    const value x = start(a);
    if (!needs_real(a, x))
        return;
    if (strcmp(aten_string(a, 1), "tanh") != 0) {
        const value area = graph_map1(a->graph, OP_erf, with(a, OP_mul, x, M_SQRT1_2));
        finish(a, two(a, OP_mul, with(a, OP_mul, x, 0.5), with(a, OP_add, area, 1)));
        return;
    }
    const value cube = two(a, OP_mul, two(a, OP_mul, x, x), x);
    const value inner = with(a, OP_mul, two(a, OP_add, x, with(a, OP_mul, cube, 0.044715)),
                             M_SQRT2 * M_2_SQRTPI * 0.5);
    const value bent = with(a, OP_add, graph_map1(a->graph, OP_tanh, inner), 1);
    finish(a, two(a, OP_mul, with(a, OP_mul, x, 0.5), bent));
}

/* the first half of an axis times the sigmoid of the second */
void build_glu(struct aten *a)
{
    const value x = start(a);
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    const dim half = size_floordiv(a->sizes, aten_shape(a, x)[axis], aten_literal(a, 2));
    const value first = graph_slice(a->graph, x, axis, 0, half, 1),
                second = graph_slice(a->graph, x, axis, half, half, 1);
    finish(a, two(a, OP_mul, first, graph_map1(a->graph, OP_sigmoid, second)));
}

void build_threshold(struct aten *a)
{
    const value x = aten_value(a, 0);
    const value limit = aten_as_written(a, aten_operand(a, 1), aten_type(a, x));
    const value other = aten_as(a, aten_operand(a, 2), aten_type(a, x));
    aten_new(a, choose(a, two(a, OP_le, x, limit), other, x));
}

/* log(exp(x) + exp(y)) of complex numbers: the one with the larger real part, and what the other
 * adds. Beside an infinite real part, the formula itself; -inf twice is the first. */
static value log_of_sum_complex(struct aten *a, value x, value y)
{
    struct graph *g = a->graph;
    const value real[2] = {graph_map1(g, OP_real, x), graph_map1(g, OP_real, y)};
    const value is_less = two(a, OP_lt, real[0], real[1]);
    const value least = choose(a, is_less, x, y), most = choose(a, is_less, y, x);
    const value added = graph_map1(g, OP_log1p, graph_map1(g, OP_exp, two(a, OP_sub, least, most)));
    const value plain =
        graph_map1(g, OP_log, two(a, OP_add, graph_map1(g, OP_exp, x), graph_map1(g, OP_exp, y)));
    const value is_equal =
        two(a, OP_bit_and, two(a, OP_eq, real[0], real[1]), graph_map1(g, OP_is_inf, real[0]));
    const value infinite = choose(a, with(a, OP_lt, real[0], 0), x, plain);
    return choose(a, is_equal, infinite, two(a, OP_add, most, added));
}

/* log(exp(x) + exp(y)) of real numbers: equal ones, infinities among them, are not subtracted. */
static value log_of_sum(struct aten *a, value x, value y)
{
    struct graph *g = a->graph;
    const value apart = graph_map1(g, OP_neg, graph_map1(g, OP_abs, two(a, OP_sub, x, y)));
    const value tail = graph_map1(g, OP_log1p, graph_map1(g, OP_exp, apart)),
                most = two(a, OP_maximum, x, y);
    return choose(a, two(a, OP_eq, x, y), with(a, OP_add, most, M_LN2), two(a, OP_add, most, tail));
}

void build_logaddexp(struct aten *a)
{
    value x[2];
    const enum dtype dtype = aten_pair(a, 0, 1, PAIR_INEXACT, x);
    const value left = aten_wide(a, x[0]), right = aten_wide(a, x[1]);
    aten_new(a, aten_cast(a,
                          dtype_is_complex(dtype) ? log_of_sum_complex(a, left, right)
                                                  : log_of_sum(a, left, right),
                          dtype));
}

/* log2(2^x + 2^y) */
void build_logaddexp2(struct aten *a)
{
    struct graph *g = a->graph;
    value x[2];
    const enum dtype dtype = aten_pair(a, 0, 1, PAIR_INEXACT, x);
    const value left = aten_wide(a, x[0]), right = aten_wide(a, x[1]);
    if (!needs_real(a, left))
        return;
    const value apart = graph_map1(g, OP_neg, graph_map1(g, OP_abs, two(a, OP_sub, left, right)));
    const value tail = graph_map1(g, OP_log1p, graph_map1(g, OP_exp2, apart)),
                most = two(a, OP_maximum, left, right);
    const value sum = choose(a, two(a, OP_eq, left, right), with(a, OP_add, most, 1),
                             two(a, OP_add, most, with(a, OP_mul, tail, 1 / M_LN2)));
    aten_new(a, aten_cast(a, sum, dtype));
}

/* x * log(y), and 0 where x is 0, whatever y is but NaN. op: log, or log1p for xlog1py */
void build_xlogy(struct aten *a)
{
    struct graph *g = a->graph;
    value x[2];
    const enum dtype dtype = aten_pair(a, 0, 1, PAIR_INEXACT, x);
    const value left = aten_wide(a, x[0]), right = aten_wide(a, x[1]);
    if (!needs_real(a, left))
        return;
    const value product = two(a, OP_mul, left, graph_map1(g, a->op, right));
    const value zeros = two(a, OP_bit_and, with(a, OP_eq, left, 0),
                            graph_map1(g, OP_not, graph_map1(g, OP_is_nan, right)));
    const value zero = aten_number(a, aten_type(a, left), 0);
    aten_new(a, aten_cast(a, choose(a, zeros, zero, product), dtype));
}

/* 0 below 0 and of NaN, 1 above; `values` at 0 */
void build_heaviside(struct aten *a)
{
    const value x = aten_value(a, 0), values = aten_value(a, 1);
    if (!needs_real(a, x))
        return;
    const value step = aten_cast(a, with(a, OP_gt, x, 0), aten_type(a, x));
    aten_new(a, choose(a, with(a, OP_eq, x, 0), aten_cast(a, values, aten_type(a, x)), step));
}

/* Replaces NaN and infinities; without a replacement for those, the largest and smallest finite
 * numbers. Of complex numbers, in both parts. */
void build_nan_to_num(struct aten *a)
{
    static const double largest[DT_COUNT] = {[DT_f16] = 65504,
                                             [DT_bf16] = 0x1.fep127,
                                             [DT_f32] = 0x1.fffffep127,
                                             [DT_f64] = 0x1.fffffffffffffp1023};
    const value given = aten_value(a, 0);
    const bool complex = dtype_is_complex(aten_type(a, given));
    const value x = complex ? graph_map1(a->graph, OP_view_as_real, given) : given;
    const enum dtype dtype = aten_type(a, x);
    if (dtype_is_integer(dtype)) {
        aten_new(a, x);
        return;
    }
    const double replacements[3] = {aten_given(a, 1) ? aten_float(a, 1) : 0,
                                    aten_given(a, 2) ? aten_float(a, 2) : largest[dtype],
                                    aten_given(a, 3) ? aten_float(a, 3) : -largest[dtype]};
    value result =
        choose(a, graph_map1(a->graph, OP_is_nan, x), aten_number(a, dtype, replacements[0]), x);
    result = choose(a, with(a, OP_eq, x, INFINITY), aten_number(a, dtype, replacements[1]), result);
    result =
        choose(a, with(a, OP_eq, x, -INFINITY), aten_number(a, dtype, replacements[2]), result);
    aten_new(a, complex ? aten_clone(a, graph_map1(a->graph, OP_view_as_complex, result),
                                     FORMAT_PRESERVE)
                        : result);
}

/* Dropout of a program exported for inference does nothing. */
void build_dropout(struct aten *a)
{
    if (aten_flag(a, 2) && aten_float(a, 1) != 0)
        aten_refuse(a, "dropout in training mode; export the module after eval()");
    else
        aten_same(a, aten_tensor(a, 0));
}

/* -- softmax ----------------------------------------------------------------------------------- */

/* x - amax(x) along an axis, and the sum of its exponentials */
static value shifted_of(struct aten *a, value x, int axis, value *exponential, value *total)
{
    const int axes[1] = {axis};
    const int count = aten_rank(a, x) ? 1 : 0;
    const value shifted = two(a, OP_sub, x, graph_reduce(a->graph, OP_amax, x, axes, count, true));
    *exponential = graph_map1(a->graph, OP_exp, shifted);
    *total = graph_reduce(a->graph, OP_sum, *exponential, axes, count, true);
    return shifted;
}

/* self, dim, dtype=None. op: log for log_softmax */
static void softmax_finish(struct aten *a, value x, enum dtype dtype)
{
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    x = aten_wide(a, aten_cast(a, x, aten_inexact(dtype)));
    if (!needs_real(a, x))
        return;
    value exponential, total;
    const value shifted = shifted_of(a, x, axis, &exponential, &total);
    const value result = a->op == OP_log
                             ? two(a, OP_sub, shifted, graph_map1(a->graph, OP_log, total))
                             : two(a, OP_div, exponential, total);
    aten_new_row_major(a, aten_cast(a, result, aten_inexact(dtype)));
}

void build_softmax(struct aten *a)
{
    const value x = aten_value(a, 0);
    softmax_finish(a, x, aten_dtype(a, 2, aten_type(a, x)));
}

/* self, dim, half_to_float */
void build_softmax_core(struct aten *a)
{
    const value x = aten_value(a, 0);
    softmax_finish(a, x, aten_flag(a, 2) ? DT_f32 : aten_type(a, x));
}

/* -- normalisation ----------------------------------------------------------------------------- */

/* The last dims that a shape argument names. */
static int last_axes(struct aten *a, value x, int index, int axes[RANK_MAX])
{
    dim sizes[RANK_MAX];
    const int count = aten_sizes(a, index, sizes), rank = aten_rank(a, x);
    for (int i = 0; i < count && count <= rank; i++)
        axes[i] = rank - count + i;
    return count <= rank ? count : 0;
}

/* x * weight + bias where they are given */
static value scale_and_shift(struct aten *a, value x, int weight, int bias)
{
    if (aten_given(a, weight))
        x = two(a, OP_mul, x, aten_cast(a, aten_value(a, weight), aten_type(a, x)));
    if (bias && aten_given(a, bias))
        x = two(a, OP_add, x, aten_cast(a, aten_value(a, bias), aten_type(a, x)));
    return x;
}

/* Mean or 1 / deviation as a result. Its dtype is the file's: an export for a CPU has that of the
 * operand, one for a GPU f32. */
static void statistic_new(struct aten *a, value v)
{
    const bool told = a->produced < a->call->result_count;
    const enum dtype dtype = told ? a->call->results[a->produced].dtype : DT_f32;
    aten_new(a, dtype_is_float(dtype) ? aten_cast(a, v, dtype) : v);
}

/* input, normalized_shape, weight, bias, eps; native_layer_norm returns mean and 1 / deviation
 * too */
void build_layer_norm(struct aten *a)
{
    const value x = start(a);
    int axes[RANK_MAX];
    const int count = last_axes(a, x, 1, axes);
    if (!needs_real(a, x))
        return;
    const value mean = reduce_mean(a, x, axes, count, true),
                variance = reduce_variance(a, x, axes, count, true, 0);
    const value inverse =
        graph_map1(a->graph, OP_rsqrt, with(a, OP_add, variance, aten_float(a, 4)));
    finish_row_major(a, scale_and_shift(a, two(a, OP_mul, two(a, OP_sub, x, mean), inverse), 2, 3));
    statistic_new(a, mean);
    statistic_new(a, inverse);
}

/* input, normalized_shape, weight=None, eps=None (the dtype's epsilon). Of complex numbers, eager
 * takes the mean of x * x, not of |x|^2. */
void build_rms_norm(struct aten *a)
{
    const value x = start(a);
    int axes[RANK_MAX];
    const int count = last_axes(a, x, 1, axes);
    const enum dtype part = dtype_info[aten_type(a, x)].real;
    const double epsilon = aten_given(a, 3) ? aten_float(a, 3) : part == DT_f64 ? 0x1p-52 : 0x1p-23;
    const value power = reduce_mean(a, two(a, OP_mul, x, x), axes, count, true);
    const value inverse = graph_map1(a->graph, OP_rsqrt, with(a, OP_add, power, epsilon));
    finish_row_major(a, scale_and_shift(a, two(a, OP_mul, x, inverse), 2, 0));
}

/* x[n, c, ...] with each group of channels made to have mean 0 and variance 1, then scaled and
 * shifted by channel. */
static void group_norm(struct aten *a, dim groups, int weight, double epsilon)
{
    const value x = start(a);
    const int rank = aten_rank(a, x);
    const int axes[1] = {2};
    dim channels[RANK_MAX];
    if (!needs_real(a, x) || rank < 2)
        return;
    const dim *shape = aten_shape(a, x);
    const dim parts = size_mul(a->sizes, shape[0], groups);
    const dim grouped[3] = {shape[0], groups,
                            size_floordiv(a->sizes, graph_count(a->graph, x), parts)};
    const value lines = graph_reshape(a->graph, x, grouped, 3);
    const value mean = reduce_mean(a, lines, axes, 1, true),
                variance = reduce_variance(a, lines, axes, 1, true, 0);
    const value inverse = graph_map1(a->graph, OP_rsqrt, with(a, OP_add, variance, epsilon));
    value result =
        graph_reshape(a->graph, two(a, OP_mul, two(a, OP_sub, lines, mean), inverse), shape, rank);
    for (int d = 0; d < rank - 1; d++)
        channels[d] = d == 0 ? shape[1] : 1;
    for (int i = weight; i <= weight + 1; i++)
        if (aten_given(a, i)) {
            const value factor = aten_cast(a, aten_value(a, i), aten_type(a, x));
            result = two(a, i == weight ? OP_mul : OP_add, result,
                         graph_reshape(a->graph, factor, channels, rank - 1));
        }
    finish_row_major(a, result);
    statistic_new(a, graph_squeeze(a->graph, mean, 2));
    statistic_new(a, graph_squeeze(a->graph, inverse, 2));
}

/* input, num_groups, weight=None, bias=None, eps=1e-05 */
void build_group_norm(struct aten *a)
{
    group_norm(a, aten_size(a, 1), 2, aten_float(a, 4));
}

/* input, weight, bias, N, C, HxW, group, eps; mean and 1 / deviation too */
void build_group_norm_core(struct aten *a)
{
    group_norm(a, aten_size(a, 6), 1, aten_float(a, 7));
}
