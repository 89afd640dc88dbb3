/* size_translate.c - an expression of one pool in another, symbols replaced; see size.h.
 *
 *     "2*s25 + 1" with s25 replaced by the literal 7      the literal 15
 */
#include "graph/size.h"

static dim translate_sum(struct sizes *to, const struct sizes *from, const struct size_node *n,
                         const dim *replacement, dim *memo)
{
    dim result = size_literal(to, n->literal);
    for (int i = 0; i < n->count; i++)
        result = size_add(to, result,
                          size_mul(to, size_literal(to, n->terms[i].factor),
                                   size_translate(to, from, n->terms[i].term, replacement, memo)));
    return result;
}

dim size_translate(struct sizes *to, const struct sizes *from, dim d, const dim *replacement,
                   dim *memo)
{
    if (d <= 1)
        return d;
    if (memo[d])
        return memo[d];
    const struct size_node *n = &from->nodes.at[d];
    dim result;
    switch (n->kind) {
    case SIZE_LITERAL: result = size_literal(to, n->literal); break;
    case SIZE_SYMBOL: result = replacement[n->symbol]; break;
    case SIZE_SUM: result = translate_sum(to, from, n, replacement, memo); break;
    case SIZE_PRODUCT:
        result = 1;
        for (int i = 0; i < n->count; i++)
            result =
                size_mul(to, result, size_translate(to, from, n->operands[i], replacement, memo));
        break;
    default:
        result =
            size_binary(to, n->kind, size_translate(to, from, n->operands[0], replacement, memo),
                        size_translate(to, from, n->operands[1], replacement, memo));
    }
    return memo[d] = result;
}
