/* aten_elementwise.c - calls that compute each element alone: one row of the operator table
 * after promotion, or a few.
 *
 *     aten.mul.Tensor(bf16[4, 64], f32[64])        mul(cast(x) : f32, y) : f32
 *     aten.add.Tensor(x, y, alpha=2)               fma(y, 2, x) of floats, or add(x, mul(y, 2))
 *     aten.pow.Tensor_Scalar(x, 2)                 mul(x, x), as eager does */
#include "load/aten.h"

#include <math.h>
#include <string.h>

/* -- one operand ------------------------------------------------------------------------------- */

static bool op_takes(enum op op, enum dtype dtype)
{
    return !dtype_is_complex(dtype) || op_info[op].complex != COMPLEX_NEVER;
}

/* One operator of the table on operands of one dtype; an operator without a meaning on complex
 * numbers is refused. */
static value map_checked(struct aten *a, enum op op, const value *operands, int count)
{
    if (op_takes(op, aten_type(a, operands[0])))
        return graph_add(a->graph, op, DT_bool, operands, count, NULL, NULL);
    aten_refuse(a, "%s is not defined on complex numbers", op_info[op].name);
    return operands[0];
}

static value inexact_for(struct aten *a, enum op op, value x)
{
    return op_info[op].on == ON_F ? aten_cast(a, x, aten_inexact(aten_type(a, x))) : x;
}

void build_map1(struct aten *a)
{
    const value x = inexact_for(a, a->op, aten_value(a, 0));
    aten_new(a, map_checked(a, a->op, &x, 1));
}

/* Of complex numbers eager's angles are row-major. */
void build_angle(struct aten *a)
{
    const value x = inexact_for(a, OP_angle, aten_value(a, 0));
    const value angles = map_checked(a, OP_angle, &x, 1);
    if (dtype_is_complex(aten_type(a, x)))
        aten_new_row_major(a, angles);
    else
        aten_new(a, angles);
}

/* floor, ceil, trunc, round leave integers alone */
void build_rounding(struct aten *a)
{
    const value x = aten_value(a, 0);
    aten_new(a, dtype_is_integer(aten_type(a, x)) ? x : map_checked(a, a->op, &x, 1));
}

void build_round_decimals(struct aten *a)
{
    const value x = aten_value(a, 0), wide = aten_wide(a, x);
    const enum dtype dtype = aten_type(a, wide);
    const int64_t decimals = aten_int(a, 1);
    if (decimals < -300 || decimals > 300)
        aten_refuse(a, "rounding to %lld decimals", (long long)decimals);
    if (dtype_is_integer(dtype) || a->reason) {
        aten_new(a, x);
        return;
    }
    const value scale =
        aten_number(a, dtype, pow(10, (double)(decimals < 0 ? -decimals : decimals)));
    const enum op there = decimals < 0 ? OP_div : OP_mul, back = decimals < 0 ? OP_mul : OP_div;
    const value rounded = graph_map1(a->graph, OP_round, graph_map2(a->graph, there, wide, scale));
    aten_new(a, aten_cast(a, graph_map2(a->graph, back, rounded, scale), aten_type(a, x)));
}

void build_same(struct aten *a)
{
    aten_same(a, aten_tensor(a, 0));
}

/* conj, and _neg_view: views. op: conj or neg */
void build_marked(struct aten *a)
{
    const tensor base = aten_tensor(a, 0);
    const value x = tensor_get(a->loader, base);
    if (a->op == OP_neg || dtype_is_complex(aten_type(a, x)))
        aten_view(a, base, graph_map1(a->graph, a->op, x));
    else
        aten_same(a, base);
}

/* resolve_conj, resolve_neg: a copy of what is seen through one of those */
void build_resolved(struct aten *a)
{
    const tensor t = aten_tensor(a, 0);
    if (tensor_has_mark(a->loader, t))
        aten_new(a, aten_clone(a, tensor_get(a->loader, t), FORMAT_PRESERVE));
    else
        aten_same(a, t);
}

void build_conj_physical(struct aten *a)
{
    const value x = aten_value(a, 0);
    if (dtype_is_complex(aten_type(a, x)))
        aten_new(a, graph_map1(a->graph, OP_conj, x));
    else
        aten_same(a, aten_tensor(a, 0));
}

void build_square(struct aten *a)
{
    const value x = aten_value(a, 0);
    aten_new(a, graph_map2(a->graph, OP_mul, x, x));
}

void build_is_finite(struct aten *a)
{
    const value x = inexact_for(a, OP_is_nan, aten_value(a, 0));
    const value nan = graph_map1(a->graph, OP_is_nan, x),
                infinite = graph_map1(a->graph, OP_is_inf, x);
    aten_new(a, graph_map1(a->graph, OP_not, graph_map2(a->graph, OP_bit_or, nan, infinite)));
}

/* isposinf, isneginf: eq with an infinity; the row's operator says on which side of 0 */
void build_is_signed_infinity(struct aten *a)
{
    const value x = inexact_for(a, OP_is_inf, aten_value(a, 0));
    const value side = map_checked(a, a->op, (value[]){x, aten_number(a, aten_type(a, x), 0)}, 2);
    aten_new(a, graph_map2(a->graph, OP_bit_and, graph_map1(a->graph, OP_is_inf, x), side));
}

/* signbit: of -0 too, which is not below 0 */
void build_is_negative(struct aten *a)
{
    struct graph *g = a->graph;
    value x = aten_value(a, 0);
    const enum dtype dtype = aten_type(a, x);
    if (dtype_is_float(dtype))
        x = graph_map2(g, OP_copysign, aten_number(a, dtype, 1), x);
    const value operands[2] = {x, aten_number(a, dtype, 0)};
    aten_new(a, map_checked(a, OP_lt, operands, 2));
}

void build_logical_not(struct aten *a)
{
    aten_new(a, graph_map1(a->graph, OP_not, aten_value(a, 0)));
}

/* x times a constant: deg2rad, rad2deg */
void build_degrees(struct aten *a)
{
    const value x = inexact_for(a, OP_div, aten_value(a, 0));
    const double factor = a->op == OP_mul ? M_PI / 180 : 180 / M_PI;
    aten_new(a, graph_map2(a->graph, OP_mul, x, aten_number(a, aten_type(a, x), factor)));
}

void build_frac(struct aten *a)
{
    const value x = aten_value(a, 0);
    aten_new(a, graph_map2(a->graph, OP_sub, x, map_checked(a, OP_trunc, &x, 1)));
}

/* -- two operands ------------------------------------------------------------------------------ */

void build_map2(struct aten *a)
{
    value x[2];
    const int inexact = op_info[a->op].on == ON_F ? PAIR_INEXACT : 0;
    aten_pair(a, 0, 1, a->op == OP_mul || a->op == OP_div ? inexact | PAIR_AS_WRITTEN : inexact, x);
    aten_new(a, map_checked(a, a->op, x, 2));
}

/* x + alpha * y, or x - alpha * y: rounded once for floats, as eager does. */
static value add_scaled(struct aten *a, value x, value y, int alpha)
{
    const enum dtype dtype = aten_type(a, x);
    const struct operand factor = aten_operand(a, alpha);
    if (!factor.value && factor.number.re == 1 && factor.number.im == 0)
        return graph_map2(a->graph, a->op, x, y);
    if (!dtype_is_float(dtype) || factor.value)
        return graph_map2(a->graph, a->op, x,
                          graph_map2(a->graph, OP_mul, y, aten_as(a, factor, dtype)));
    struct operand signed_factor = factor;
    signed_factor.number.re = a->op == OP_sub ? -factor.number.re : factor.number.re;
    return graph_map3(a->graph, OP_fma, y, aten_as(a, signed_factor, dtype), x);
}

void build_add(struct aten *a)
{
    value x[2];
    aten_pair(a, 0, 1, 0, x);
    aten_new(a, add_scaled(a, x[0], x[1], 2));
}

void build_reverse_sub(struct aten *a)
{
    value x[2];
    aten_pair(a, 0, 1, 0, x);
    aten_new(a, add_scaled(a, x[1], x[0], 2));
}

/* div with a rounding mode, and the operators that are one */
void build_div_mode(struct aten *a)
{
    const char *mode = a->op == OP_div_floor ? "floor" : aten_string(a, 2);
    value x[2];
    aten_pair(a, 0, 1, mode[0] ? PAIR_AS_WRITTEN : PAIR_AS_WRITTEN | PAIR_INEXACT, x);
    const enum op op = strcmp(mode, "floor") == 0   ? OP_div_floor
                       : strcmp(mode, "trunc") == 0 ? OP_div_trunc
                                                    : OP_div;
    aten_new(a, map_checked(a, op, x, 2));
}

void build_logical(struct aten *a)
{
    value x[2];
    for (int i = 0; i < 2; i++)
        x[i] = aten_cast(a, aten_value(a, i), DT_bool);
    aten_new(a, graph_map2(a->graph, a->op, x[0], x[1]));
}

/* fmax, fmin: a NaN gives way to a number. op: maximum or minimum */
void build_number_wins(struct aten *a)
{
    value x[2];
    const enum dtype dtype = aten_pair(a, 0, 1, 0, x);
    value best = map_checked(a, a->op, x, 2);
    if (dtype_is_float(dtype)) {
        best = graph_map3(a->graph, OP_where, graph_map1(a->graph, OP_is_nan, x[0]), x[1], best);
        best = graph_map3(a->graph, OP_where, graph_map1(a->graph, OP_is_nan, x[1]), x[0], best);
    }
    aten_new(a, best);
}

/* -- powers ------------------------------------------------------------------------------------ */

/* The exponents for which eager has products, roots and quotients; 0 where it has none. */
static value power_special(struct aten *a, value x, double exponent)
{
    struct graph *g = a->graph;
    if (exponent == 1)
        return x;
    if (exponent == 0.5)
        return graph_map1(g, OP_sqrt, x);
    if (exponent == -0.5)
        return graph_map1(g, OP_rsqrt, x);
    if (exponent == -1)
        return graph_map1(g, OP_reciprocal, x);
    const value square =
        exponent == 2 || exponent == 3 || exponent == -2 ? graph_map2(g, OP_mul, x, x) : 0;
    if (exponent == 2)
        return square;
    if (exponent == 3)
        return graph_map2(g, OP_mul, square, x);
    return exponent == -2 ? graph_map1(g, OP_reciprocal, square) : 0;
}

static value power_of(struct aten *a, value x, struct operand exponent)
{
    const enum dtype dtype = aten_type(a, x);
    if (!exponent.value && exponent.number.im == 0 && !dtype_is_integer(dtype)) {
        const value wide = aten_wide(a, x), special = power_special(a, wide, exponent.number.re);
        if (special)
            return aten_cast(a, special, dtype);
    }
    return graph_map2(a->graph, OP_pow, x, aten_as(a, exponent, dtype));
}

void build_pow_number(struct aten *a)
{
    const struct operand x[2] = {aten_operand(a, 0), aten_operand(a, 1)};
    aten_new(a, power_of(a, aten_as(a, x[0], aten_promote(a, x, 2)), x[1]));
}

/* float_power: in double precision, whatever comes in */
void build_float_power(struct aten *a)
{
    const struct operand x[2] = {aten_operand(a, 0), aten_operand(a, 1)};
    const enum dtype dtype = dtype_is_complex(aten_promote(a, x, 2)) ? DT_c128 : DT_f64;
    const value base = aten_as(a, x[0], dtype);
    aten_new(a, x[1].is_number ? power_of(a, base, x[1])
                               : graph_map2(a->graph, OP_pow, base, aten_as(a, x[1], dtype)));
}

/* -- choices ----------------------------------------------------------------------------------- */

static value condition_of(struct aten *a, int index)
{
    return aten_cast(a, aten_value(a, index), DT_bool);
}

void build_where(struct aten *a)
{
    value x[2];
    aten_pair(a, 1, 2, false, x);
    aten_new(a, graph_map3(a->graph, OP_where, condition_of(a, 0), x[0], x[1]));
}

void build_masked_fill(struct aten *a)
{
    const value x = aten_value(a, 0);
    const value filling = aten_as(a, aten_operand(a, 2), aten_type(a, x));
    aten_new_row_major(a, graph_map3(a->graph, OP_where, condition_of(a, 1), filling, x));
}

/* A bound of integers, brought into their range: what is beyond bounds nothing. */
static value bound_of(struct aten *a, struct operand bound, enum dtype dtype)
{
    const int bits = 8 * dtype_size(dtype);
    if (!bound.value && dtype_is_integer(dtype) && dtype != DT_bool && bits < 64) {
        const bool negative = dtype != DT_u8;
        const int64_t most = ((int64_t)1 << (bits - negative)) - 1,
                      least = negative ? -most - 1 : 0;
        const int64_t given = bound.number.i;
        bound.number.i = given > most ? most : given < least ? least : given;
    }
    return aten_as(a, bound, dtype);
}

/* x between two bounds, either of which may be missing. op: minimum for clamp_max, whose one
 * bound is argument 1 */
void build_clamp(struct aten *a)
{
    struct operand x[3] = {aten_operand(a, 0)};
    int count = 1;
    const bool low = aten_given(a, 1) && a->op != OP_minimum;
    const int high = a->op == OP_minimum ? 1 : a->op == OP_maximum ? 0 : 2;
    if (low)
        x[count++] = aten_operand(a, 1);
    if (high && aten_given(a, high))
        x[count++] = aten_operand(a, high);
    const enum dtype dtype = aten_promote(a, x, count);
    value result = aten_as(a, x[0], dtype);
    for (int i = 1; i < count; i++) {
        const enum op op = i == 1 && low ? OP_maximum : OP_minimum;
        result = map_checked(a, op, (value[]){result, bound_of(a, x[i], dtype)}, 2);
    }
    aten_new(a, result);
}

/* start + weight * (end - start), from the nearer end */
void build_lerp(struct aten *a)
{
    struct graph *g = a->graph;
    const value start = aten_wide(a, aten_value(a, 0)), end = aten_wide(a, aten_value(a, 1));
    const enum dtype dtype = aten_type(a, start);
    const value weight = aten_as(a, aten_operand(a, 2), dtype),
                span = graph_map2(g, OP_sub, end, start);
    if (dtype_is_complex(dtype)) {
        aten_new(a, graph_map2(g, OP_add, start, graph_map2(g, OP_mul, weight, span)));
        return;
    }
    const value one = aten_number(a, dtype, 1), half = aten_number(a, dtype, 0.5);
    const value near_start = graph_map2(g, OP_add, start, graph_map2(g, OP_mul, weight, span));
    const value rest = graph_map2(g, OP_mul, span, graph_map2(g, OP_sub, one, weight));
    const value near_end = graph_map2(g, OP_sub, end, rest);
    const value small = graph_map2(g, OP_lt, graph_map1(g, OP_abs, weight), half);
    aten_new(a, aten_cast(a, graph_map3(g, OP_where, small, near_start, near_end),
                          aten_type(a, aten_value(a, 0))));
}

/* self + value * x * y, or / y. op: mul or div */
void build_add_product(struct aten *a)
{
    struct graph *g = a->graph;
    const struct operand x[3] = {aten_operand(a, 0), aten_operand(a, 1), aten_operand(a, 2)};
    const enum dtype dtype = aten_promote(a, x, 3);
    value part[3];
    for (int i = 0; i < 3; i++)
        part[i] = aten_wide(a, aten_as(a, x[i], dtype));
    const struct operand factor = aten_operand(a, 3);
    value product = part[1];
    if (factor.value || factor.number.re != 1 || factor.number.im != 0)
        product = graph_map2(g, OP_mul, aten_as(a, factor, aten_type(a, product)), product);
    product = graph_map2(g, a->op, product, part[2]);
    aten_new(a, aten_cast(a, graph_map2(g, OP_add, part[0], product), dtype));
}

/* -- complex numbers from parts ---------------------------------------------------------------- */

void build_complex_parts(struct aten *a)
{
    const value x[2] = {aten_value(a, 0), aten_value(a, 1)};
    if (aten_type(a, x[0]) == DT_f16)
        aten_refuse(a, "complex32 (pairs of float16) is not supported; cast to float32 first");
    else
        aten_new(a, graph_map2(a->graph, a->op, x[0], x[1]));
}

/* -- dtypes ------------------------------------------------------------------------------------ */

static bool format_is_kept(enum memory_format format)
{
    return format == FORMAT_PRESERVE || format == FORMAT_CONTIGUOUS;
}

/* to(...): the tensor itself when nothing changes */
static void convert(struct aten *a, enum dtype dtype, bool copy, enum memory_format format)
{
    const value x = aten_value(a, 0);
    if (dtype == aten_type(a, x) && !copy && format_is_kept(format)) {
        aten_same(a, aten_tensor(a, 0));
        return;
    }
    const value cast = graph_cast(a->graph, x, dtype);
    aten_new(a, format_is_kept(format) && cast != x ? cast : aten_clone(a, cast, format));
}

/* self, dtype=None, copy=False, memory_format=None, with device and layout ignored */
void build_to(struct aten *a)
{
    convert(a, aten_dtype(a, 1, aten_type(a, aten_value(a, 0))), aten_flag(a, 2),
            aten_format(a, 3));
}

void build_to_other(struct aten *a)
{
    convert(a, aten_type(a, aten_value(a, 1)), aten_flag(a, 2), aten_format(a, 3));
}

void build_to_copy(struct aten *a)
{
    convert(a, aten_dtype(a, 1, aten_type(a, aten_value(a, 0))), true, aten_format(a, 2));
}
