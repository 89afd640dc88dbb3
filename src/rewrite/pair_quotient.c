/* pair_quotient.c - division, absolute values and angles, safe where squares would overflow.
 *
 *     div(z, w)      the smaller part of w over the larger one first, so that no square is formed
 *     abs(z)         hypot(re, im)
 *     angle(z)       atan2(im, re)
 *     sign(z)        z / abs(z), 0 for 0
 */
#include "rewrite/pair.h"

/* x * y + z, in one rounding or two. */
static value times_plus(struct pairs *p, value x, value y, value z)
{
    return p->fma ? graph_map3(p->to, OP_fma, x, y, z) : plus(p, times(p, x, y), z);
}

/* A quotient before its last step, r = small / big of the parts of y:
 *     re (b*r + a) / s,  im (b - a*r) / s   where the real part of y is the larger one,
 *     re (a*r + b) / s,  im (b*r - a) / s   otherwise; s = big + small * r. */
struct quotient {
    value re, im, divisor, zero; /* zero: y is */
};

static struct quotient quotient_of(struct pairs *p, struct parts x, struct parts y)
{
    const value c = magnitude(p, y.re), d = magnitude(p, y.im), level = binary(p, OP_ge, c, d);
    const value big = choose(p, level, y.re, y.im), small = choose(p, level, y.im, y.re);
    const value ratio = over(p, small, big), opposite = negated(p, x.re);
    const value first = choose(p, level, x.re, x.im), second = choose(p, level, x.im, x.re);
    const value turned = choose(p, level, opposite, x.im);
    return (struct quotient){
        times_plus(p, second, ratio, first),
        times_plus(p, turned, ratio, choose(p, level, x.im, opposite)),
        times_plus(p, small, ratio, big),
        both(p, is_zero(p, c), is_zero(p, d)),
    };
}

/* By zero: the parts divided by zero. */
struct parts parts_quotient(struct pairs *p, struct parts x, struct parts y)
{
    const struct quotient q = quotient_of(p, x, y);
    const value nothing = magnitude(p, y.re);
    return (struct parts){
        choose(p, laid_out(p, x.re, q.zero), over(p, x.re, nothing), over(p, q.re, q.divisor)),
        choose(p, q.zero, over(p, x.im, nothing), over(p, q.im, q.divisor))};
}

/* By products with 1 / s, which overflows for denormal z: eager's reciprocal is NaN there. */
struct parts parts_reciprocal(struct pairs *p, struct parts z)
{
    const value one = constant(p, z.re, 1), none = constant(p, z.re, 0);
    const struct quotient q = quotient_of(p, (struct parts){one, none}, z);
    const value nothing = magnitude(p, z.re), scale = over(p, one, q.divisor);
    return (struct parts){
        choose(p, laid_out(p, z.re, q.zero), over(p, one, nothing), times(p, q.re, scale)),
        choose(p, q.zero, over(p, none, nothing), times(p, q.im, scale))};
}

value pair_div(struct pairs *p, const struct node *node)
{
    return pair_make(
        p, parts_quotient(p, pair_operand_parts(p, node, 0), pair_operand_parts(p, node, 1)));
}

value pair_reciprocal(struct pairs *p, const struct node *node)
{
    return pair_make(p, parts_reciprocal(p, pair_operand_parts(p, node, 0)));
}

value pair_abs(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return binary(p, OP_hypot, z.re, z.im);
}

value pair_angle(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return binary(p, OP_atan2, z.im, z.re);
}

value pair_sign(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    const value length = binary(p, OP_hypot, z.re, z.im), zero = is_zero(p, length),
                nothing = constant(p, length, 0);
    return pair_make(p, (struct parts){choose(p, zero, nothing, over(p, z.re, length)),
                                       choose(p, zero, nothing, over(p, z.im, length))});
}
