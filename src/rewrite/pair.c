/* pair.c - operands and results of pair functions, and the rows that stay the operator they are.
 *
 *     reshape(c64[n, m], [n*m])     reshape(f32[n, m, 2], [n*m, 2])
 *     permute(c64[n, m], [1, 0])    permute(f32[n, m, 2], [1, 0, 2])
 *     slice, select, flip, sum ...  the same: axes count from the front, the pair's dim is the last
 *     diagonal(c64[n, n])           transpose(diagonal(f32[n, n, 2])): the pair must come last
 */
#include "rewrite/pair.h"

#include <string.h>

/* -- operands ---------------------------------------------------------------------------------- */

bool pair_operand_is_complex(const struct pairs *p, const struct node *node, int index)
{
    return dtype_is_complex(graph_node(p->from, node->arguments[index])->dtype);
}

value pair_operand(const struct pairs *p, const struct node *node, int index)
{
    return p->map[node->arguments[index]];
}

/* Unlike real() in a program, it is no tensor there: its flag says that what is computed of it has
 * the strides that a result of the complex numbers has. */
static value half_select(struct pairs *p, value pair, int axis, int64_t part)
{
    const struct attributes at = {
        .axis = axis, .start = size_literal(p->to->sizes, part), .flag = SELECT_HALF};
    return graph_add(p->to, OP_select, DT_bool, &pair, 1, &at, NULL);
}

struct parts pair_operand_parts(struct pairs *p, const struct node *node, int index)
{
    struct parts *known = &p->parts[node->arguments[index]];
    if (known->re && known->im)
        return *known;
    const value pair = p->map[node->arguments[index]];
    const struct node *made = graph_node(p->to, pair);
    if (made->op == OP_pair) {
        *known = (struct parts){made->arguments[0], made->arguments[1]};
    } else {
        const int axis = made->rank - 1;
        known->re = half_select(p, pair, axis, 0);
        known->im = half_select(p, pair, axis, 1);
    }
    return *known;
}

/* A view of a tensor that was cast from real is the cast of the same view of the real tensor. */
static bool is_plain_view(const struct node *node)
{
    return op_info[node->op].kind == KIND_VIEW && op_info[node->op].arity == 1 &&
           dtype_is_complex(node->dtype) && op_info[node->op].complex != COMPLEX_VANISH;
}

static value real_of(struct pairs *p, value v);

static value real_make(struct pairs *p, const struct node *node)
{
    const enum dtype real = dtype_info[node->dtype].real;
    if (node->op == OP_scalar && node->attributes.number.im == 0 &&
        !signbit(node->attributes.number.im))
        return graph_float(p->to, real, node->attributes.number.re);
    if (node->op == OP_cast && !pair_operand_is_complex(p, node, 0))
        return graph_cast(p->to, pair_operand(p, node, 0), real);
    if (node->op != OP_cast && !is_plain_view(node))
        return 0;
    if (op_info[node->op].kind == KIND_VIEW && node->attributes.number.im != 0)
        return 0; /* a pad with a complex number */
    const value operand = real_of(p, node->arguments[0]);
    if (!operand)
        return 0;
    return node->op == OP_cast
               ? graph_cast(p->to, operand, real)
               : graph_add(p->to, node->op, real, &operand, 1, &node->attributes, NULL);
}

static value real_of(struct pairs *p, value v)
{
    const struct node *node = graph_node(p->from, v);
    if (p->real[v] == 0 && dtype_is_complex(node->dtype))
        p->real[v] = real_make(p, node);
    return p->real[v];
}

value pair_operand_real(struct pairs *p, const struct node *node, int index)
{
    return real_of(p, node->arguments[index]);
}

/* -- results ----------------------------------------------------------------------------------- */

/* The shape that two values broadcast to; returns its rank. */
static int shape_of_both(const struct pairs *p, value a, value b, dim shape[RANK_MAX])
{
    const struct node *x = graph_node(p->to, a), *y = graph_node(p->to, b);
    if (x->rank < y->rank)
        return shape_of_both(p, b, a, shape);
    memcpy(shape, x->shape, (size_t)x->rank * sizeof *shape);
    for (int d = 1; d <= y->rank; d++)
        if (size_value(p->to->sizes, shape[x->rank - d]) == 1)
            shape[x->rank - d] = y->shape[y->rank - d];
    return x->rank;
}

value pair_make(struct pairs *p, struct parts parts)
{
    if (!graph_same_shape(p->to, parts.re, parts.im)) {
        dim shape[RANK_MAX];
        const int rank = shape_of_both(p, parts.re, parts.im, shape);
        parts.re = graph_expand(p->to, parts.re, shape, rank);
        parts.im = graph_expand(p->to, parts.im, shape, rank);
    }
    return graph_add(p->to, OP_pair, DT_bool, (value[]){parts.re, parts.im}, 2, NULL, NULL);
}

value pair_widened(struct pairs *p, value real)
{
    const int rank = graph_node(p->to, real)->rank;
    return rank == 0 ? real : graph_unsqueeze(p->to, real, rank);
}

/* -- the same operator ------------------------------------------------------------------------- */

static value with_attributes(struct pairs *p, const struct node *node,
                             const struct attributes *attributes)
{
    const value *map = p->map;
    value few[8], *operands = few;
    if (node->argument_count > 8)
        operands = NEW(p->to->arena, value, node->argument_count);
    if (!operands)
        return graph_fail(p->to, PHASOR_ERROR_MEMORY, "out of memory");
    for (int i = 0; i < node->argument_count; i++)
        operands[i] = map[node->arguments[i]];
    return graph_add(p->to, node->op, DT_bool, operands, node->argument_count, attributes, NULL);
}

/* reshape, expand: the sizes end with the pair's. */
static value with_pair_size(struct pairs *p, const struct node *node)
{
    dim sizes[RANK_MAX + 1];
    struct attributes at = node->attributes;
    memcpy(sizes, at.sizes, (size_t)at.size_count * sizeof *sizes);
    sizes[at.size_count++] = size_literal(p->to->sizes, 2);
    at.sizes = sizes;
    return with_attributes(p, node, &at);
}

/* permute: the dim of the pair stays the last. */
static value with_pair_axis(struct pairs *p, const struct node *node)
{
    int axes[RANK_MAX + 1];
    struct attributes at = node->attributes;
    memcpy(axes, at.axes, (size_t)at.axis_count * sizeof *axes);
    axes[at.axis_count] = at.axis_count;
    at.axis_count++;
    at.axes = axes;
    return with_attributes(p, node, &at);
}

/* pad: nothing before and after the parts. A complex number to pad with goes part by part. */
static value with_pair_margin(struct pairs *p, const struct node *node)
{
    struct attributes at = node->attributes;
    const struct number number = at.number;
    if (number.re != number.im) {
        struct parts z = pair_operand_parts(p, node, 0);
        at.number = (struct number){.re = number.re};
        z.re = graph_add(p->to, OP_pad, DT_bool, &z.re, 1, &at, NULL);
        at.number = (struct number){.re = number.im};
        z.im = graph_add(p->to, OP_pad, DT_bool, &z.im, 1, &at, NULL);
        return pair_make(p, z);
    }
    dim sizes[2 * RANK_MAX + 2] = {0};
    memcpy(sizes, at.sizes, (size_t)at.size_count * sizeof *sizes);
    sizes[at.size_count] = sizes[at.size_count + 1] = size_literal(p->to->sizes, 0);
    at.size_count += 2;
    at.sizes = sizes;
    at.number = (struct number){.re = number.re};
    return with_attributes(p, node, &at);
}

/* diagonal, unfold: they put a dim after the pair's. */
static value with_pair_moved(struct pairs *p, const struct node *node)
{
    const value result = with_attributes(p, node, &node->attributes);
    const int rank = graph_node(p->to, result)->rank;
    return rank < 2 ? result : graph_transpose(p->to, result, rank - 2, rank - 1);
}

/* insert_diagonal: the same, of the operand that is written. */
static value with_pair_moved_back(struct pairs *p, const struct node *node)
{
    const value base = pair_operand(p, node, 0), part = pair_operand(p, node, 1);
    const int rank = graph_node(p->to, part)->rank;
    const value moved = graph_transpose(p->to, part, rank - 2, rank - 1);
    return graph_add(p->to, node->op, DT_bool, (value[]){base, moved}, 2, &node->attributes, NULL);
}

/* Rows that mention all dims, or put one last; the others are right as they are. */
static pair_function *const adapted[OP_COUNT] = {
    [OP_reshape] = with_pair_size,
    [OP_expand] = with_pair_size,
    [OP_permute] = with_pair_axis,
    [OP_pad] = with_pair_margin,
    [OP_diagonal] = with_pair_moved,
    [OP_unfold] = with_pair_moved,
    [OP_insert_diagonal] = with_pair_moved_back,
};

value pair_same_operator(struct pairs *p, const struct node *node)
{
    pair_function *const adapt = adapted[node->op];
    return adapt ? adapt(p, node) : with_attributes(p, node, &node->attributes);
}

value pair_vanished(struct pairs *p, const struct node *node)
{
    return pair_operand(p, node, 0);
}
