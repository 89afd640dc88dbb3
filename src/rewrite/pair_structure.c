/* pair_structure.c - rows that move or pick elements and whose operands are not all alike.
 *
 *     cast(f32[n], c64)             pair(cast(f32[n], f32), 0)
 *     cast(c64[n], c128)            cast(f32[n, 2], f64)
 *     gather(c64[n, m], i64[k, m])  gather(f32[n, m, 2], expand(index[k, m, 1], [k, m, 2]))
 *     where(bool[n], c64, c64)      where(bool[n, 1], f32[n, 2], f32[n, 2])
 *     real(c64[n])                  select(f32[n, 2], axis=1, 0)
 */
#include "rewrite/pair.h"

#include <string.h>

/* New memory, as a cast to another dtype gives, where there is nothing to cast. */
static value cast_or_copy(struct pairs *p, value real, enum dtype dtype)
{
    if (graph_node(p->to, real)->dtype != dtype)
        return graph_cast(p->to, real, dtype);
    return graph_add(p->to, OP_clone, dtype, &real, 1,
                     &(struct attributes){.flag = FORMAT_PRESERVE}, NULL);
}

static value cast_to_bool(struct pairs *p, struct parts z)
{
    return either(p, compared(p, OP_ne, z.re, 0), compared(p, OP_ne, z.im, 0));
}

value pair_cast(struct pairs *p, const struct node *node)
{
    const enum dtype real = dtype_info[node->dtype].real;
    if (!pair_operand_is_complex(p, node, 0)) {
        const value re = graph_cast(p->to, pair_operand(p, node, 0), real);
        return pair_make(p, (struct parts){re, constant(p, re, 0)});
    }
    if (dtype_is_complex(node->dtype))
        return graph_cast(p->to, pair_operand(p, node, 0), real);
    const struct parts z = pair_operand_parts(p, node, 0);
    return node->dtype == DT_bool ? cast_to_bool(p, z) : cast_or_copy(p, z.re, node->dtype);
}

value pair_concat(struct pairs *p, const struct node *node)
{
    return pair_same_operator(p, node);
}

/* Channels last: dims N, ..., C, pair next to each other in memory, then back to their order. */
static value copy_channels_last(struct pairs *p, const struct node *node)
{
    int axes[RANK_MAX] = {0}, back[RANK_MAX];
    const int channels = node->rank - 1;
    for (int d = 1; d < channels; d++)
        axes[d] = d + 1;
    axes[channels] = 1;
    axes[channels + 1] = channels + 1;
    for (int d = 0; d <= channels + 1; d++)
        back[axes[d]] = d;
    const value moved = graph_permute(p->to, pair_operand(p, node, 0), axes);
    const struct attributes at = {.flag = FORMAT_CONTIGUOUS};
    const value copy = graph_add(p->to, node->op, DT_bool, &moved, 1, &at, NULL);
    return graph_permute(p->to, copy, back);
}

value pair_clone(struct pairs *p, const struct node *node)
{
    const bool channels_last = node->attributes.flag >= FORMAT_CHANNELS_LAST && node->rank >= 2;
    return channels_last ? copy_channels_last(p, node) : pair_same_operator(p, node);
}

value pair_contiguous(struct pairs *p, const struct node *node)
{
    return pair_clone(p, node);
}

/* A view of the pair's memory: never the part that the pair was made of. */
static value part_view(struct pairs *p, const struct node *node, int64_t part)
{
    const value pair = pair_operand(p, node, 0);
    return graph_select(p->to, pair, graph_node(p->to, pair)->rank - 1,
                        size_literal(p->to->sizes, part));
}

value pair_real(struct pairs *p, const struct node *node)
{
    return part_view(p, node, 0);
}

value pair_imag(struct pairs *p, const struct node *node)
{
    return part_view(p, node, 1);
}

value pair_where(struct pairs *p, const struct node *node)
{
    const value condition = pair_widened(p, pair_operand(p, node, 0));
    return choose(p, condition, pair_operand(p, node, 1), pair_operand(p, node, 2));
}

/* An index of both parts. */
static value index_of_pair(struct pairs *p, value index)
{
    const int rank = graph_node(p->to, index)->rank;
    dim sizes[RANK_MAX];
    memcpy(sizes, graph_node(p->to, index)->shape, (size_t)rank * sizeof *sizes);
    sizes[rank] = size_literal(p->to->sizes, 2);
    return graph_expand(p->to, graph_unsqueeze(p->to, index, rank), sizes, rank + 1);
}

value pair_gather(struct pairs *p, const struct node *node)
{
    const value operands[] = {pair_operand(p, node, 0), index_of_pair(p, pair_operand(p, node, 1))};
    return graph_add(p->to, OP_gather, DT_bool, operands, 2, &node->attributes, NULL);
}

value pair_scatter(struct pairs *p, const struct node *node)
{
    const value operands[] = {pair_operand(p, node, 0), index_of_pair(p, pair_operand(p, node, 1)),
                              pair_operand(p, node, 2)};
    return graph_add(p->to, OP_scatter, DT_bool, operands, 3, &node->attributes, NULL);
}
