/* pair_product.c - products, and what is made of real parts.
 *
 *     mul(z, w)       pair(re = a*c - b*d, im = a*d + b*c)          eager CPU's roundings
 *                     pair(re = fma(a, c, -(b*d)), im = fma(a, d, b*c))   eager CUDA's
 *     mul(z, cast(r)) mul(z, r[..., 1])                             two products
 *     polar(m, a)     pair(m*cos(a), m*sin(a))
 *     dot(z, w)       four real ones
 *     prod, cumprod   products of halves, log2(n) steps
 */
#include "rewrite/pair.h"

struct parts parts_product(struct pairs *p, struct parts x, struct parts y)
{
    const value bd = times(p, x.im, y.im), bc = times(p, x.im, y.re);
    if (p->fma)
        return (struct parts){graph_map3(p->to, OP_fma, x.re, y.re, negated(p, bd)),
                              graph_map3(p->to, OP_fma, x.re, y.im, bc)};
    return (struct parts){minus(p, times(p, x.re, y.re), bd), plus(p, times(p, x.re, y.im), bc)};
}

value pair_mul(struct pairs *p, const struct node *node)
{
    for (int side = 0; side < 2; side++) {
        const value real = pair_operand_real(p, node, side);
        if (real && side == 0)
            return times(p, pair_widened(p, real), pair_operand(p, node, 1));
        if (real)
            return times(p, pair_operand(p, node, 0), pair_widened(p, real));
    }
    return pair_make(
        p, parts_product(p, pair_operand_parts(p, node, 0), pair_operand_parts(p, node, 1)));
}

value pair_complex(struct pairs *p, const struct node *node)
{
    return pair_make(p, (struct parts){pair_operand(p, node, 0), pair_operand(p, node, 1)});
}

value pair_polar(struct pairs *p, const struct node *node)
{
    const value length = pair_operand(p, node, 0), angle = pair_operand(p, node, 1);
    return pair_make(p, (struct parts){times(p, length, unary(p, OP_cos, angle)),
                                       times(p, length, unary(p, OP_sin, angle))});
}

value pair_conj(struct pairs *p, const struct node *node)
{
    const struct parts z = pair_operand_parts(p, node, 0);
    return pair_make(p, (struct parts){z.re, negated(p, z.im)});
}

static value dot(struct pairs *p, value a, value b)
{
    return binary(p, OP_dot, a, b);
}

value pair_dot(struct pairs *p, const struct node *node)
{
    const value x = pair_operand_real(p, node, 0), y = pair_operand_real(p, node, 1);
    const struct parts a = pair_operand_parts(p, node, 0), b = pair_operand_parts(p, node, 1);
    if (y)
        return pair_make(p, (struct parts){dot(p, a.re, y), dot(p, a.im, y)});
    if (x)
        return pair_make(p, (struct parts){dot(p, x, b.re), dot(p, x, b.im)});
    return pair_make(p, (struct parts){minus(p, dot(p, a.re, b.re), dot(p, a.im, b.im)),
                                       plus(p, dot(p, a.re, b.im), dot(p, a.im, b.re))});
}

value pair_cumsum(struct pairs *p, const struct node *node)
{
    return pair_same_operator(p, node);
}

/* -- products along an axis -------------------------------------------------------------------- */

/* A product along an axis is row-major whatever its factors are. */
static struct parts parts_row_major(struct pairs *p, struct parts z)
{
    const struct attributes at = {.flag = FORMAT_CONTIGUOUS};
    return (struct parts){graph_add(p->to, OP_clone, DT_bool, &z.re, 1, &at, NULL),
                          graph_add(p->to, OP_clone, DT_bool, &z.im, 1, &at, NULL)};
}

static struct parts parts_slice(struct pairs *p, struct parts z, int axis, dim start, dim length)
{
    return (struct parts){graph_slice(p->to, z.re, axis, start, length, 1),
                          graph_slice(p->to, z.im, axis, start, length, 1)};
}

static struct parts parts_concat(struct pairs *p, struct parts x, struct parts y, int axis)
{
    return (struct parts){graph_concat(p->to, (value[]){x.re, y.re}, 2, axis),
                          graph_concat(p->to, (value[]){x.im, y.im}, 2, axis)};
}

static dim axis_size(const struct pairs *p, struct parts z, int axis)
{
    return graph_node(p->to, z.re)->shape[axis];
}

/* The number of halvings that leave one element of the largest size that the axis can have. */
static int halvings(const struct pairs *p, dim size)
{
    int steps = 0;
    for (int64_t high = p->to->sizes->nodes.at[size].high; high > 1; high -= high / 2)
        steps++;
    return steps;
}

/* n elements -> n - n/2, which is `left`: the first half times the second; of an odd number the
 * last stays as it is. */
static struct parts halve(struct pairs *p, struct parts z, int axis, dim left)
{
    struct sizes *sizes = p->to->sizes;
    const dim half = size_sub(sizes, axis_size(p, z, axis), left),
              rest = size_sub(sizes, left, half), whole = size_add(sizes, half, half);
    const struct parts product =
        parts_product(p, parts_slice(p, z, axis, size_literal(sizes, 0), half),
                      parts_slice(p, z, axis, half, half));
    if (size_is_literal(sizes, rest) && size_value(sizes, rest) == 0)
        return product;
    return parts_concat(p, product, parts_slice(p, z, axis, whole, rest), axis);
}

static value filled(struct pairs *p, value like, int axis, double number)
{
    dim sizes[RANK_MAX];
    const struct node *node = graph_node(p->to, like);
    const int rank = node->rank;
    for (int d = 0; d < rank; d++)
        sizes[d] = d == axis ? size_literal(p->to->sizes, 1) : node->shape[d];
    return graph_expand(p->to, constant(p, like, number), sizes, rank);
}

/* The product along an axis, which goes. An axis that may be empty gets a 1 at its end. */
static struct parts product_along(struct pairs *p, struct parts z, int axis)
{
    const dim zero = size_literal(p->to->sizes, 0);
    const dim size = axis_size(p, z, axis);
    const int steps = halvings(p, size);
    for (int step = 1; step <= steps; step++) /* ceil(size / 2^step): short, however many steps */
        z = halve(p, z, axis,
                  size_floordiv(p->to->sizes,
                                size_add(p->to->sizes, size,
                                         size_literal(p->to->sizes, ((int64_t)1 << step) - 1)),
                                size_literal(p->to->sizes, (int64_t)1 << step)));
    const dim left = axis_size(p, z, axis);
    if (!size_is_literal(p->to->sizes, left) || size_value(p->to->sizes, left) == 0) {
        const struct parts one = {filled(p, z.re, axis, 1), filled(p, z.im, axis, 0)};
        z = parts_concat(p, z, one, axis);
    }
    return (struct parts){graph_select(p->to, z.re, axis, zero),
                          graph_select(p->to, z.im, axis, zero)};
}

value pair_prod(struct pairs *p, const struct node *node)
{
    struct parts z = pair_operand_parts(p, node, 0);
    bool goes[RANK_MAX] = {false};
    for (int i = 0; i < node->attributes.axis_count; i++)
        goes[node->attributes.axes[i]] = true;
    for (int axis = RANK_MAX - 1; axis >= 0; axis--)
        if (goes[axis])
            z = product_along(p, z, axis);
    return pair_make(p, parts_row_major(p, z));
}

/* Each element times the one `distance` before it; the first ones stay. Distances 1, 2, 4, ...
 * give the running product. */
static struct parts cumprod_step(struct pairs *p, struct parts z, int axis, int64_t distance)
{
    struct sizes *sizes = p->to->sizes;
    const dim zero = size_literal(sizes, 0), size = axis_size(p, z, axis);
    const dim first = size_min(sizes, size, size_literal(sizes, distance)),
              rest = size_sub(sizes, size, first);
    const struct parts product =
        parts_product(p, parts_slice(p, z, axis, zero, rest), parts_slice(p, z, axis, first, rest));
    return parts_concat(p, parts_slice(p, z, axis, zero, first), product, axis);
}

value pair_cumprod(struct pairs *p, const struct node *node)
{
    struct parts z = pair_operand_parts(p, node, 0);
    const int axis = node->attributes.axis;
    const int64_t high = p->to->sizes->nodes.at[axis_size(p, z, axis)].high;
    for (int64_t distance = 1; distance < high; distance *= 2)
        z = cumprod_step(p, z, axis, distance);
    return pair_make(p, parts_row_major(p, z));
}
