/* pair_quotient.c - division, absolute values and angles, safe where squares would overflow.
 *
 *     div(z, w)      the smaller part of w over the larger one first, so that no square is formed
 *     abs(z)         hypot(re, im)
 *     angle(z)       atan2(im, re)
 *     sign(z)        z / abs(z), 0 for 0
 */
#include "rewrite/pair.h"

/* x / y with r = small / big of y's parts and s = big + small * r:
 *     re (a + b*r) / s,  im (b - a*r) / s   where the real part of y is the larger one,
 *     re (a*r + b) / s,  im (b*r - a) / s   otherwise. By zero: the parts divided by zero. */
struct parts parts_quotient(struct pairs *p, struct parts x, struct parts y)
{
    const value c = magnitude(p, y.re), d = magnitude(p, y.im);
    const value level = binary(p, OP_ge, c, d), zero = both(p, is_zero(p, c), is_zero(p, d));
    const value big = choose(p, level, y.re, y.im), small = choose(p, level, y.im, y.re);
    const value ratio = over(p, small, big);
    const value scale = plus(p, big, times(p, small, ratio));
    const value first = choose(p, level, x.re, x.im), second = choose(p, level, x.im, x.re);
    const value turned = times(p, first, ratio);
    const value re = plus(p, first, times(p, second, ratio));
    const value im = choose(p, level, minus(p, second, turned), minus(p, turned, second));
    return (struct parts){choose(p, laid_out(p, x.re, zero), over(p, x.re, c), over(p, re, scale)),
                          choose(p, zero, over(p, x.im, c), over(p, im, scale))};
}

struct parts parts_reciprocal(struct pairs *p, struct parts z)
{
    return parts_quotient(p, (struct parts){constant(p, z.re, 1), constant(p, z.re, 0)}, z);
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
