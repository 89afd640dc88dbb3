/* simplify.c - fewer nodes that mean the same; what nobody reads goes.
 *
 *     permute(permute(x, [1, 0]), [1, 0])     x
 *     reshape(reshape(x, [n, 1]), [n, 1, 1])  reshape(x, [n, 1, 1])     only dims of 1 come and go
 *     slice(x, axis, 0, all of it, 1)         x
 *     select(pair(re, im), the last axis, 1)  im
 *     cast(x : f32, f32)                      x
 *
 *     concat(64 parts and more)               concat(concat(32 parts), ...): a planner can cut it
 *
 * Values whose memory the caller sees stay as they are, and no two values become one: in the
 * program they are two tensors (a product with 1 is new memory). A rule must not change which
 * strides a result has.
 */
#include "rewrite/rewrite.h"

#include <string.h>

struct simplification {
    const struct graph *from;
    struct graph *to;
    value *map;
    bool *live, *pinned;
};

/* Gives the value that stands for the node, or 0: the rule does not apply. Operands are
 * translated already. */
typedef value rule_function(struct simplification *s, const struct node *node,
                            const value *operands);

static bool is_literal(const struct graph *graph, dim size, int64_t number)
{
    return size_is_literal(graph->sizes, size) && size_value(graph->sizes, size) == number;
}

static value rule_cast(struct simplification *s, const struct node *node, const value *operands)
{
    return graph_node(s->to, operands[0])->dtype == node->dtype ? operands[0] : 0;
}

static value rule_slice(struct simplification *s, const struct node *node, const value *operands)
{
    const struct attributes *at = &node->attributes;
    const bool whole = is_literal(s->to, at->start, 0) && at->step == 1 &&
                       at->length == graph_node(s->to, operands[0])->shape[at->axis];
    return whole ? operands[0] : 0;
}

static bool has_shape_of(const struct node *node, const struct node *other)
{
    return node->rank == other->rank &&
           memcmp(node->shape, other->shape, (size_t)node->rank * sizeof *node->shape) == 0;
}

static value rule_expand(struct simplification *s, const struct node *node, const value *operands)
{
    const struct node *operand = graph_node(s->to, operands[0]);
    if (has_shape_of(node, operand))
        return operands[0];
    return operand->op == OP_expand
               ? graph_expand(s->to, operand->arguments[0], node->shape, node->rank)
               : 0;
}

static bool is_identity(const int *axes, int count)
{
    for (int d = 0; d < count; d++)
        if (axes[d] != d)
            return false;
    return true;
}

static value rule_permute(struct simplification *s, const struct node *node, const value *operands)
{
    const struct node *operand = graph_node(s->to, operands[0]);
    if (is_identity(node->attributes.axes, node->rank))
        return operands[0];
    if (operand->op != OP_permute)
        return 0;
    int axes[RANK_MAX];
    for (int d = 0; d < node->rank; d++)
        axes[d] = operand->attributes.axes[node->attributes.axes[d]];
    return is_identity(axes, node->rank) ? operand->arguments[0]
                                         : graph_permute(s->to, operand->arguments[0], axes);
}

/* Dims of 1 come and go, the others stay: such a reshape is a view of any strides. */
static bool changes_ones_alone(const struct graph *graph, const struct node *a,
                               const struct node *b)
{
    int i = 0, k = 0;
    while (i < a->rank || k < b->rank) {
        if (i < a->rank && is_literal(graph, a->shape[i], 1))
            i++;
        else if (k < b->rank && is_literal(graph, b->shape[k], 1))
            k++;
        else if (i < a->rank && k < b->rank && a->shape[i] == b->shape[k])
            i++, k++;
        else
            return false;
    }
    return true;
}

static value rule_reshape(struct simplification *s, const struct node *node, const value *operands)
{
    const struct node *inner = graph_node(s->to, operands[0]);
    if (has_shape_of(node, inner))
        return operands[0];
    if (inner->op != OP_reshape)
        return 0;
    const struct node *origin = graph_node(s->to, inner->arguments[0]);
    if (!changes_ones_alone(s->to, node, inner) && !changes_ones_alone(s->to, inner, origin))
        return 0;
    return graph_reshape(s->to, inner->arguments[0], node->shape, node->rank);
}

static value rule_select(struct simplification *s, const struct node *node, const value *operands)
{
    const struct node *operand = graph_node(s->to, operands[0]);
    if (operand->op != OP_pair || node->attributes.axis != operand->rank - 1 ||
        !size_is_literal(s->to->sizes, node->attributes.start))
        return 0;
    return operand->arguments[size_value(s->to->sizes, node->attributes.start)];
}

static rule_function *const rules[OP_COUNT] = {
    [OP_cast] = rule_cast,       [OP_slice] = rule_slice,     [OP_expand] = rule_expand,
    [OP_permute] = rule_permute, [OP_reshape] = rule_reshape, [OP_select] = rule_select,
};

/* A list of many parts as lists of lists: each keeps the source of a kernel short. The last list,
 * which has the name of all, stays the value that outputs show. */
enum { PARTS_OF_LIST = 32, PARTS_MOST = 64 };

static value split_concat(struct simplification *s, value v)
{
    const struct node node = *graph_node(s->from, v);
    const int lists = (node.argument_count + PARTS_OF_LIST - 1) / PARTS_OF_LIST;
    value *parts = memory_new((size_t)(node.argument_count + lists) * sizeof *parts);
    if (!parts)
        return graph_fail(s->to, PHASOR_ERROR_MEMORY, "out of memory");
    int count = node.argument_count;
    for (int i = 0; i < count; i++)
        parts[i] = s->map[node.arguments[i]];
    s->to->origin = node.origin;
    while (count > PARTS_MOST) {
        int list = 0;
        for (int first = 0; first < count; first += PARTS_OF_LIST) {
            const int length = count - first < PARTS_OF_LIST ? count - first : PARTS_OF_LIST;
            parts[list++] = graph_concat(s->to, parts + first, length, node.attributes.axis);
        }
        count = list;
    }
    const value result = graph_concat(s->to, parts, count, node.attributes.axis);
    s->to->origin = NULL;
    if (result)
        s->to->nodes.at[result].name = node.name;
    memory_free(parts);
    return result;
}

static value simplify_node(struct simplification *s, value v)
{
    const struct node *node = graph_node(s->from, v);
    rule_function *const rule = s->pinned[v] ? NULL : rules[node->op];
    value result = 0;
    if (node->op == OP_concat && node->argument_count > PARTS_MOST)
        return split_concat(s, v);
    if (rule) {
        const value operand = s->map[node->arguments[0]];
        s->to->origin = node->origin;
        result = rule(s, node, &operand);
        s->to->origin = NULL;
    }
    return result ? result : rewrite_copy(s->from, s->to, v, s->map);
}

/* Slots name their inputs and states, read or not. */
static void mark_live(const struct graph *graph, bool *live)
{
    graph_mark_live(graph, live);
    for (size_t v = 1; v < graph->nodes.count; v++)
        live[v] = live[v] || graph->nodes.at[v].op == OP_input || graph->nodes.at[v].op == OP_state;
}

static phasor_status simplify_once(const struct graph *from, struct graph *to)
{
    const size_t count = from->nodes.count;
    struct simplification s = {.from = from,
                               .to = to,
                               .map = memory_new(count * sizeof(value)),
                               .live = memory_new(count),
                               .pinned = memory_new(count)};
    phasor_status status = s.map && s.live && s.pinned ? rewrite_begin(from, to) : fail_memory();
    if (status == PHASOR_OK) {
        mark_live(from, s.live);
        rewrite_mark_pinned(from, s.pinned);
        for (size_t v = 1; v < count && to->status == PHASOR_OK; v++)
            if (s.live[v])
                s.map[v] = simplify_node(&s, (value)v);
        status = rewrite_end(from, to, s.map);
    }
    memory_free(s.map);
    memory_free(s.live);
    memory_free(s.pinned);
    return status;
}

/* Twice: what a rule leaves unread goes in the second walk. */
phasor_status rewrite_simplify(const struct graph *from, struct graph *to)
{
    struct graph first = {0};
    phasor_status status = graph_init(&first, to->arena, to->sizes, to->name);
    if (status == PHASOR_OK)
        status = simplify_once(from, &first);
    if (status == PHASOR_OK)
        status = simplify_once(&first, to);
    graph_free(&first);
    return status;
}
