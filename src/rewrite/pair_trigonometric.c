/* pair_trigonometric.c - the circular and hyperbolic functions and their inverses.
 *
 *     sinh(a + bi) = sinh a cos b + i cosh a sin b        sin z  = -i sinh(iz)
 *     tanh                                                tan z  = -i tanh(iz)
 *     acos, asin, acosh from sqrt(1 - z), sqrt(1 + z)     asinh z = -i asin(iz)
 *     atanh from log1p and atan2                          atan z  = -i atanh(iz)
 *
 * Products of two roots rather than roots of products, so that the branch cuts and the signs of
 * zeros on them come out.
 */
#include "rewrite/pair.h"

typedef struct parts parts_function(struct pairs *p, struct parts z);

/* -i f(iz) */
static value turned(struct pairs *p, const struct node *node, parts_function *function)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    const struct parts w = function(p, (struct parts){negated(p, z.im), z.re});
    return pair_make(p, (struct parts){w.im, negated(p, w.re)});
}

static value straight(struct pairs *p, const struct node *node, parts_function *function)
{
    return pair_make(p, function(p, pair_operand_parts(p, node, 0)));
}

/* -- functions --------------------------------------------------------------------------------- */

/* cosh and sinh; beyond the largest number in two factors, of which `factor` comes last. */
struct hyperbolic {
    value cosh, sinh, factor;
};

static struct hyperbolic hyperbolic_of(struct pairs *p, value a)
{
    const struct power e = power_of_e(p, magnitude(p, a));
    const value half = scaled(p, e.power, 0.5);
    return (struct hyperbolic){
        choose(p, e.large, half, unary(p, OP_cosh, a)),
        choose(p, e.large, binary(p, OP_copysign, half, a), unary(p, OP_sinh, a)), e.factor};
}

static struct parts parts_sinh(struct pairs *p, struct parts z)
{
    const struct hyperbolic h = hyperbolic_of(p, z.re);
    const value edge = either(p, is_zero(p, z.re), is_infinite(p, z.re)),
                never = compared(p, OP_lt, h.cosh, 0);
    const value re = parts_product_real(p, h.sinh, unary(p, OP_cos, z.im), edge);
    const value im = parts_product_imaginary(p, h.cosh, unary(p, OP_sin, z.im), never);
    return (struct parts){times(p, re, h.factor), times(p, im, h.factor)};
}

static struct parts parts_cosh(struct pairs *p, struct parts z)
{
    const struct hyperbolic h = hyperbolic_of(p, z.re);
    const value re = parts_product_real(p, h.cosh, unary(p, OP_cos, z.im), is_infinite(p, z.re));
    const value im = parts_product_imaginary(p, h.sinh, unary(p, OP_sin, z.im), is_zero(p, z.re));
    return (struct parts){times(p, re, h.factor), times(p, im, h.factor)};
}

/* t = tan b, s = sinh a, u = 1 + t^2:  (u sqrt(1 + s^2) s + i t) / (1 + u s^2). Where e^(2|a|)
 * drowns everything else, the limit: +-1 + i 4 sin b cos b e^(-2|a|). */
static struct parts parts_tanh(struct pairs *p, struct parts z)
{
    const value tangent = unary(p, OP_tan, z.im), s = unary(p, OP_sinh, z.re),
                one = constant(p, s, 1);
    const value u = plus(p, one, times(p, tangent, tangent)), square = times(p, s, s);
    const value below = plus(p, one, times(p, u, square));
    const value above = times(p, times(p, u, unary(p, OP_sqrt, plus(p, one, square))), s);

    const value size = magnitude(p, z.re),
                sides = times(p, unary(p, OP_sin, z.im), unary(p, OP_cos, z.im));
    const value known = either(p, is_infinite(p, size), binary(p, OP_eq, sides, sides));
    const value far = both(p, compared(p, OP_gt, size, by_width(p, size, 11, 22)), known);
    const value decay = unary(p, OP_exp, scaled(p, size, -2)), none = constant(p, size, 0);
    const value sign = choose(p, unary(p, OP_is_nan, sides), z.im, sides);
    const value limit = choose(p, is_zero(p, decay), binary(p, OP_copysign, none, sign),
                               times(p, scaled(p, sides, 4), decay));
    const value re = choose(p, far, binary(p, OP_copysign, one, z.re), over(p, above, below));
    const value im = choose(p, far, limit, over(p, tangent, below));
    return (struct parts){choose(p, is_zero(p, z.re), z.re, re),
                          choose(p, is_zero(p, z.im), z.im, im)};
}

/* An infinite operand as a huge finite one of the same angle. */
static struct parts parts_boxed(struct pairs *p, struct parts z)
{
    const value re_infinite = is_infinite(p, z.re), im_infinite = is_infinite(p, z.im);
    const value infinite = either(p, re_infinite, im_infinite);
    const value huge = constant(p, z.re, by_width(p, z.re, 0x1p100, 0x1p1000));
    const value re = choose(p, re_infinite, binary(p, OP_copysign, huge, z.re), scaled(p, z.re, 0));
    const value im = choose(p, im_infinite, binary(p, OP_copysign, huge, z.im), scaled(p, z.im, 0));
    return (struct parts){choose(p, infinite, re, z.re), choose(p, infinite, im, z.im)};
}

/* The roots of 1 - z and 1 + z, or with `from_z` of z - 1 and z + 1. */
struct roots {
    struct parts minus, plus;
};

static struct roots roots_around_one(struct pairs *p, struct parts z, bool from_z)
{
    const value one = constant(p, z.re, 1);
    const struct parts up = {plus(p, z.re, one), z.im};
    const struct parts down = {from_z ? minus(p, z.re, one) : minus(p, one, z.re),
                               from_z ? z.im : negated(p, z.im)};
    return (struct roots){parts_sqrt(p, down), parts_sqrt(p, up)};
}

/* An infinite operand gives an infinite part. */
static value infinite_like(struct pairs *p, struct parts z, value part, value sign)
{
    const value infinite = either(p, is_infinite(p, z.re), is_infinite(p, z.im));
    return choose(p, infinite, scaled(p, sign, INFINITY), part);
}

/* asinh(a b + c d), where the sum may be beyond the largest number. */
static value asinh_of_sum(struct pairs *p, value a, value b, value c, value d)
{
    const value whole = plus(p, times(p, a, b), times(p, c, d));
    const value half = plus(p, times(p, scaled(p, a, 0.5), b), times(p, scaled(p, c, 0.5), d));
    const value large =
        compared(p, OP_gt, magnitude(p, half), by_width(p, half, 0x1p100, 0x1p1000));
    const value added = binary(p, OP_copysign, constant(p, half, M_LN2), half);
    return choose(p, large, plus(p, unary(p, OP_asinh, half), added), unary(p, OP_asinh, whole));
}

/* asinh(Im(conj(sqrt(1 + z)) sqrt(1 - z))): the imaginary part of acos; that of asin with the
 * other sign. */
static value part_beyond(struct pairs *p, struct roots r)
{
    return asinh_of_sum(p, r.plus.re, r.minus.im, negated(p, r.plus.im), r.minus.re);
}

static struct parts parts_acos(struct pairs *p, struct parts z)
{
    const struct roots r = roots_around_one(p, parts_boxed(p, z), false);
    const value angle = scaled(p, binary(p, OP_atan2, r.minus.re, r.plus.re), 2);
    return (struct parts){choose(p, is_zero(p, z.re), constant(p, angle, M_PI_2), angle),
                          infinite_like(p, z, part_beyond(p, r), negated(p, parts_sign(p, z.im)))};
}

static struct parts parts_asin(struct pairs *p, struct parts z)
{
    const struct parts w = parts_boxed(p, z);
    const struct roots r = roots_around_one(p, w, false);
    const value across = minus(p, times(p, r.plus.re, r.minus.re), times(p, r.plus.im, r.minus.im));
    const value angle = binary(p, OP_atan2, w.re, across);
    return (struct parts){choose(p, is_zero(p, z.re), z.re, angle),
                          infinite_like(p, z, negated(p, part_beyond(p, r)), parts_sign(p, z.im))};
}

static struct parts parts_acosh(struct pairs *p, struct parts z)
{
    const struct roots r = roots_around_one(p, parts_boxed(p, z), true);
    const value along = asinh_of_sum(p, r.minus.re, r.plus.re, r.minus.im, r.plus.im);
    const value angle = scaled(p, binary(p, OP_atan2, r.minus.im, r.plus.re), 2);
    const value quarter = binary(p, OP_copysign, constant(p, angle, M_PI_2), z.im);
    return (struct parts){infinite_like(p, z, along, constant(p, along, 1)),
                          choose(p, is_zero(p, z.re), quarter, angle)};
}

/* log1p(4|a| / ((1 - |a|)^2 + b^2)) / 4; near 1 the squares may vanish: log(|1 + z| / |1 - z|) /
 * 2. */
static value atanh_part(struct pairs *p, struct parts z, value size, value gap, value square)
{
    const value ratio = over(p, scaled(p, size, 4), plus(p, times(p, gap, gap), square));
    const value outer =
        unary(p, OP_log, binary(p, OP_hypot, plus(p, size, constant(p, size, 1)), z.im));
    const value inner = unary(p, OP_log, binary(p, OP_hypot, gap, z.im));
    return choose(p, compared(p, OP_gt, ratio, 1), scaled(p, minus(p, outer, inner), 0.5),
                  scaled(p, unary(p, OP_log1p, ratio), 0.25));
}

/* im atan2(2b, (1 - a)(1 + a) - b^2) / 2. Far away 1 / z and +-pi/2, so that no square
 * overflows. */
static struct parts parts_atanh(struct pairs *p, struct parts z)
{
    const value one = constant(p, z.re, 1), size = magnitude(p, z.re), gap = minus(p, one, size);
    const value square = times(p, z.im, z.im), length = binary(p, OP_hypot, z.re, z.im);
    const value far = compared(p, OP_gt, length, by_width(p, length, 0x1p30, 0x1p60));
    const value near_re = atanh_part(p, z, size, gap, square);
    const value far_re = choose(p, is_infinite(p, length), constant(p, length, 0),
                                over(p, over(p, size, length), length));
    const value angle = binary(p, OP_atan2, scaled(p, z.im, 2),
                               minus(p, times(p, gap, plus(p, one, size)), square));
    const value quarter = binary(p, OP_copysign, constant(p, length, M_PI_2), z.im);
    const value far_im = choose(p, unary(p, OP_is_nan, z.im), z.im, quarter);
    const value re = binary(p, OP_copysign, choose(p, far, far_re, near_re), z.re);
    return (struct parts){choose(p, is_zero(p, z.re), z.re, re),
                          choose(p, far, far_im, scaled(p, angle, 0.5))};
}

/* -- rows -------------------------------------------------------------------------------------- */

value pair_sin(struct pairs *p, const struct node *node)
{
    return turned(p, node, parts_sinh);
}

/* cosh(iz) */
value pair_cos(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return pair_make(p, parts_cosh(p, (struct parts){negated(p, z.im), z.re}));
}

value pair_tan(struct pairs *p, const struct node *node)
{
    return turned(p, node, parts_tanh);
}

value pair_asin(struct pairs *p, const struct node *node)
{
    return straight(p, node, parts_asin);
}

value pair_acos(struct pairs *p, const struct node *node)
{
    return straight(p, node, parts_acos);
}

value pair_atan(struct pairs *p, const struct node *node)
{
    return turned(p, node, parts_atanh);
}

value pair_sinh(struct pairs *p, const struct node *node)
{
    return straight(p, node, parts_sinh);
}

value pair_cosh(struct pairs *p, const struct node *node)
{
    return straight(p, node, parts_cosh);
}

value pair_tanh(struct pairs *p, const struct node *node)
{
    return straight(p, node, parts_tanh);
}

value pair_asinh(struct pairs *p, const struct node *node)
{
    return turned(p, node, parts_asin);
}

value pair_acosh(struct pairs *p, const struct node *node)
{
    return straight(p, node, parts_acosh);
}

value pair_atanh(struct pairs *p, const struct node *node)
{
    return straight(p, node, parts_atanh);
}
