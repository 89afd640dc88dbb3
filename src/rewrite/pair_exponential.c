/* pair_exponential.c - exp, log, roots and powers, with the branch cut of log and sqrt along the
 * negative real axis.
 *
 *     exp(a + bi)    e^a cos b + i e^a sin b
 *     log(z)         log(hypot(a, b)) + i atan2(b, a)
 *     sqrt(z)        t + i b/2t with t = sqrt((|a| + |z|) / 2); for a < 0 |b|/2t + i copysign(t, b)
 *     pow(z, 3)      z * z * z, exact where the products are; pow(z, w) in general exp(w log z)
 */
#include "rewrite/pair.h"

value parts_product_real(struct pairs *p, value x, value y, value kept)
{
    return choose(p, both(p, unary(p, OP_is_nan, y), kept), x, times(p, x, y));
}

value parts_sign(struct pairs *p, value x)
{
    const value one = constant(p, x, 1);
    return choose(p, unary(p, OP_is_nan, x), one, binary(p, OP_copysign, one, x));
}

value parts_product_imaginary(struct pairs *p, value x, value y, value kept)
{
    const value sign = parts_sign(p, x);
    return choose(p, is_zero(p, y), times(p, sign, y), parts_product_real(p, x, y, kept));
}

/* Beyond the largest number e^a is two factors e^(a/2): the sine or cosine may bring it back. */
struct power power_of_e(struct pairs *p, value a)
{
    const double limit = by_width(p, a, 88, 709);
    const value large = both(p, compared(p, OP_gt, a, limit), compared(p, OP_lt, a, 2 * limit));
    const value power = unary(p, OP_exp, choose(p, large, scaled(p, a, 0.5), a));
    return (struct power){power, choose(p, large, power, constant(p, power, 1)), large};
}

struct parts parts_exp(struct pairs *p, struct parts z)
{
    const struct power e = power_of_e(p, z.re);
    const value nothing = compared(p, OP_eq, z.re, -INFINITY);
    const value re = parts_product_real(p, e.power, unary(p, OP_cos, z.im), is_infinite(p, z.re));
    const value im = parts_product_imaginary(p, e.power, unary(p, OP_sin, z.im), nothing);
    return (struct parts){times(p, re, e.factor), times(p, im, e.factor)};
}

/* The parts are halved twice where their hypot would overflow. */
struct parts parts_log(struct pairs *p, struct parts z)
{
    const double limit = by_width(p, z.re, 0x1p126, 0x1p1022);
    const value larger = binary(p, OP_maximum, magnitude(p, z.re), magnitude(p, z.im));
    const value large = compared(p, OP_gt, larger, limit);
    const value factor = choose(p, large, constant(p, larger, 0.25), constant(p, larger, 1));
    const value length = binary(p, OP_hypot, times(p, z.re, factor), times(p, z.im, factor));
    const value added = choose(p, large, constant(p, larger, log(4)), constant(p, larger, 0));
    return (struct parts){plus(p, unary(p, OP_log, length), added),
                          binary(p, OP_atan2, z.im, z.re)};
}

/* sqrt(z) = back * sqrt(factor * z), so that neither |a| + |z| overflows nor tiny parts lose
 * bits. */
struct parts parts_sqrt(struct pairs *p, struct parts z)
{
    const bool wide = graph_node(p->to, z.re)->dtype == DT_f64;
    const value larger = binary(p, OP_maximum, magnitude(p, z.re), magnitude(p, z.im)),
                one = constant(p, larger, 1);
    const value large = compared(p, OP_gt, larger, wide ? 0x1p1020 : 0x1p124);
    const value tiny = compared(p, OP_lt, larger, wide ? 0x1p-960 : 0x1p-96);
    const value factor =
        choose(p, large, constant(p, one, 0x1p-4), choose(p, tiny, constant(p, one, 0x1p60), one));
    const value back =
        choose(p, large, constant(p, one, 4), choose(p, tiny, constant(p, one, 0x1p-30), one));

    const value a = times(p, z.re, factor), b = times(p, z.im, factor),
                length = binary(p, OP_hypot, a, b);
    const value sum = plus(p, scaled(p, magnitude(p, a), 0.5), scaled(p, length, 0.5));
    const value root = unary(p, OP_sqrt, sum), rest = over(p, b, scaled(p, root, 2));
    const value left = compared(p, OP_lt, a, 0), zero = is_zero(p, root),
                edge = is_infinite(p, z.im);
    const value re = times(p, choose(p, left, magnitude(p, rest), root), back);
    const value im = times(p, choose(p, left, binary(p, OP_copysign, root, b), rest), back);
    return (struct parts){
        choose(p, edge, magnitude(p, z.im), choose(p, zero, constant(p, re, 0), re)),
        choose(p, either(p, edge, zero), z.im, im)};
}

/* -- rows -------------------------------------------------------------------------------------- */

value pair_exp(struct pairs *p, const struct node *node)
{
    return pair_make(p, parts_exp(p, pair_operand_parts(p, node, 0)));
}

value pair_exp2(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return pair_make(p,
                     parts_exp(p, (struct parts){scaled(p, z.re, M_LN2), scaled(p, z.im, M_LN2)}));
}

/* e^a cos b - 1 = expm1(a) cos b - 2 sin(b/2)^2: no difference of nearly equal numbers near 0.
 * Beyond the largest number eager's products are plain ones, and so are these. */
value pair_expm1(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    const value half = unary(p, OP_sin, scaled(p, z.im, 0.5));
    const value re = times(p, unary(p, OP_expm1, z.re), unary(p, OP_cos, z.im));
    return pair_make(p, (struct parts){minus(p, re, times(p, scaled(p, half, 2), half)),
                                       times(p, unary(p, OP_exp, z.re), unary(p, OP_sin, z.im))});
}

value pair_log(struct pairs *p, const struct node *node)
{
    return pair_make(p, parts_log(p, pair_operand_parts(p, node, 0)));
}

static value log_of_base(struct pairs *p, const struct node *node, double factor)
{
    const struct parts z = parts_log(p, pair_operand_parts(p, node, 0));
    return pair_make(p, (struct parts){scaled(p, z.re, factor), scaled(p, z.im, factor)});
}

value pair_log2(struct pairs *p, const struct node *node)
{
    return log_of_base(p, node, M_LOG2E);
}

value pair_log10(struct pairs *p, const struct node *node)
{
    return log_of_base(p, node, M_LOG10E);
}

/* log|1 + z| = log1p(a (2 + a) + b^2) / 2 near 0. */
value pair_log1p(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    const struct parts shifted = {plus(p, z.re, constant(p, z.re, 1)), z.im};
    const struct parts far = parts_log(p, shifted);
    const value square =
        plus(p, times(p, z.re, plus(p, z.re, constant(p, z.re, 2))), times(p, z.im, z.im));
    const value near =
        choose(p, is_zero(p, square), z.re, scaled(p, unary(p, OP_log1p, square), 0.5));
    const value is_near = compared(p, OP_lt, binary(p, OP_hypot, z.re, z.im), 0.5);
    return pair_make(p, (struct parts){choose(p, is_near, near, far.re), far.im});
}

value pair_sqrt(struct pairs *p, const struct node *node)
{
    return pair_make(p, parts_sqrt(p, pair_operand_parts(p, node, 0)));
}

value pair_rsqrt(struct pairs *p, const struct node *node)
{
    return pair_make(p, parts_reciprocal(p, parts_sqrt(p, pair_operand_parts(p, node, 0))));
}

value pair_sigmoid(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    const struct parts power = parts_exp(p, (struct parts){negated(p, z.re), negated(p, z.im)});
    return pair_make(
        p,
        parts_reciprocal(p, (struct parts){plus(p, power.re, constant(p, power.re, 1)), power.im}));
}

/* -- powers ------------------------------------------------------------------------------------ */

enum { POWER_MAX = 1024 }; /* the largest exponent that is written out as products */

/* z^n by squaring, n > 0. */
static struct parts power_of_integer(struct pairs *p, struct parts z, int exponent)
{
    struct parts result = z;
    int bit = 1;
    while (bit <= exponent / 2)
        bit *= 2;
    for (bit /= 2; bit > 0; bit /= 2) {
        result = parts_product(p, result, result);
        if (exponent & bit)
            result = parts_product(p, result, z);
    }
    return result;
}

/* exp(w log z), with eager's NaN for 0^0. */
static struct parts power_general(struct pairs *p, struct parts z, struct parts w)
{
    return parts_exp(p, parts_product(p, parts_log(p, z), w));
}

/* 1, laid out as z is. */
static struct parts power_of_nothing(struct pairs *p, struct parts z)
{
    const value always = laid_out(p, z.re, is_zero(p, constant(p, z.re, 0)));
    return (struct parts){choose(p, always, constant(p, z.re, 1), z.re),
                          choose(p, always, constant(p, z.re, 0), z.im)};
}

/* The exponent when it is one real number of the program. */
static bool exponent_number(const struct pairs *p, const struct node *node, double *exponent)
{
    const struct node *number = graph_node(p->from, node->arguments[1]);
    while ((number->op == OP_cast || number->op == OP_expand) && number->argument_count == 1)
        number = graph_node(p->from, number->arguments[0]);
    *exponent = dtype_is_integer(number->dtype) ? (double)number->attributes.number.i
                                                : number->attributes.number.re;
    return number->op == OP_scalar &&
           (!dtype_is_complex(number->dtype) || number->attributes.number.im == 0);
}

value pair_pow(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0), w = pair_operand_parts(p, node, 1);
    double exponent;
    const bool known = exponent_number(p, node, &exponent),
               whole = known && exponent == trunc(exponent);
    if (known && exponent == 0)
        return pair_make(p, power_of_nothing(p, z));
    if (whole && fabs(exponent) <= POWER_MAX) {
        const struct parts power = power_of_integer(p, z, (int)fabs(exponent));
        return pair_make(p, exponent > 0 ? power : parts_reciprocal(p, power));
    }
    if (known && fabs(exponent) == 0.5) {
        const struct parts root = parts_sqrt(p, z);
        return pair_make(p, exponent > 0 ? root : parts_reciprocal(p, root));
    }
    return pair_make(p, power_general(p, z, w));
}
