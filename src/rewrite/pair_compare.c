/* pair_compare.c - questions to complex numbers: each part answers, then and / or.
 *
 *     eq(z, w)         re == re and im == im
 *     not(z)           both parts are zero
 *     any(z, axes)     any(re) or any(im)
 *     all(z, axes)     all(re != 0 or im != 0)
 */
#include "rewrite/pair.h"

value pair_eq(struct pairs *p, const struct node *node)
{
    const struct parts x = pair_operand_parts(p, node, 0), y = pair_operand_parts(p, node, 1);
    return both(p, binary(p, OP_eq, x.re, y.re), binary(p, OP_eq, x.im, y.im));
}

value pair_ne(struct pairs *p, const struct node *node)
{
    const struct parts x = pair_operand_parts(p, node, 0), y = pair_operand_parts(p, node, 1);
    return either(p, binary(p, OP_ne, x.re, y.re), binary(p, OP_ne, x.im, y.im));
}

value pair_not(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return both(p, unary(p, OP_not, z.re), unary(p, OP_not, z.im));
}

value pair_is_nan(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return either(p, unary(p, OP_is_nan, z.re), unary(p, OP_is_nan, z.im));
}

value pair_is_inf(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return either(p, unary(p, OP_is_inf, z.re), unary(p, OP_is_inf, z.im));
}

static value reduced(struct pairs *p, const struct node *node, value real)
{
    return graph_reduce(p->to, node->op, real, node->attributes.axes, node->attributes.axis_count,
                        false);
}

value pair_any(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return either(p, reduced(p, node, z.re), reduced(p, node, z.im));
}

value pair_all(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return reduced(p, node, either(p, compared(p, OP_ne, z.re, 0), compared(p, OP_ne, z.im, 0)));
}
