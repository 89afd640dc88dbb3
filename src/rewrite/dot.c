/* dot.c - products of small matrices as sums of products, which fuse with what is around them.
 *
 *     %d = dot(%a, %b)    : bf16[4, 8, 16] x bf16[4, 16, 3]
 *
 *     %x = reshape(cast(%a)) : f32[4, 8, 1, 16]
 *     %y = reshape(permute(cast(%b))) : f32[4, 1, 3, 16]
 *     %d = cast(sum(mul(%x, %y), axis 3)) : bf16[4, 8, 3]
 *
 * f16 and bf16 are multiplied and summed in f32 and rounded once, as matrix units do. Products over
 * more than LENGTH_SMALL elements stay: they have kernels of their own, or a library.
 */
#include "rewrite/rewrite.h"

#include <string.h>

enum { LENGTH_SMALL = 16 };

static bool is_small(const struct graph *graph, const struct node *n)
{
    const dim length = graph_node(graph, n->arguments[0])->shape[n->rank - 1];
    return size_is_literal(graph->sizes, length) &&
           size_value(graph->sizes, length) <= LENGTH_SMALL;
}

static value lower_dot(struct graph *to, value a, value b)
{
    const struct node *n = graph_node(to, a);
    const enum dtype dtype = n->dtype,
                     wide = dtype_is_float(dtype) ? dtype_info[dtype].compute : dtype;
    const int rank = n->rank;
    const value x = graph_unsqueeze(to, graph_cast(to, a, wide), rank - 1);
    const value y = graph_unsqueeze(
        to, graph_transpose(to, graph_cast(to, b, wide), rank - 2, rank - 1), rank - 2);
    const value products = graph_map2(to, OP_mul, x, y);
    return graph_cast(to, graph_reduce(to, OP_sum, products, &rank, 1, false), dtype);
}

phasor_status rewrite_dot(const struct graph *from, struct graph *to)
{
    value *map = memory_new(from->nodes.count * sizeof *map);
    if (!map)
        return fail_memory();
    phasor_status status = rewrite_begin(from, to);
    for (value v = 1; v < from->nodes.count && status == PHASOR_OK; v++) {
        const struct node *n = graph_node(from, v);
        to->origin = n->origin;
        map[v] = n->op == OP_dot && is_small(from, n)
                     ? lower_dot(to, map[n->arguments[0]], map[n->arguments[1]])
                     : rewrite_copy(from, to, v, map);
        status = graph_status(to);
    }
    if (status == PHASOR_OK)
        status = rewrite_end(from, to, map);
    memory_free(map);
    return status;
}
