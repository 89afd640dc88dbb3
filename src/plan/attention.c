/* attention.c - attention as one kernel: softmax(score(q k')) v, found by its pattern.
 *
 *     %s = mul(dot(cast(%q), permute(cast(%k))), 0.125)           masks, biases and the like too
 *     %e = exp(sub(%s, amax(%s)))
 *     %y = dot(div(%e, sum(%e)), cast(%v))        q, k, v in f16 or bf16
 *         ->   one kernel that keeps no scores; it stores %y and what only reads that
 *
 * The maximum and the sum may stand behind where(...), as in the softmax that gives 0 for a row that
 * is masked whole. Whatever stands between the product and the softmax becomes code of the kernel,
 * as long as it reads no other product. Few rows are left to products and a softmax of their own:
 * blocks of this kernel make 64.
 */
#include "plan/fusion.h"

#include <string.h>

enum { ROWS_LEAST = 17, WIDTH_MOST = 128, GROUP = 8 };

/* -- the pattern ------------------------------------------------------------------------------- */

static bool passes_elements(const struct node *n)
{
    return n->op == OP_cast || n->op == OP_clone || n->op == OP_contiguous;
}

static value passed(const struct graph *graph, value v)
{
    while (passes_elements(graph_node(graph, v)))
        v = graph_node(graph, v)->arguments[0];
    return v;
}

/* Whether v is `reduction` of `operand` over its last axis, shown with that axis again; a choice on
 * the way makes it the safe softmax. */
static bool reduces(const struct graph *graph, value v, enum op reduction, value operand,
                    bool *safe)
{
    for (;;) {
        const struct node *n = graph_node(graph, v);
        if (n->op == OP_where) {
            *safe = true;
            v = n->arguments[2];
        } else if (n->op == OP_reshape || n->op == OP_expand || passes_elements(n)) {
            v = n->arguments[0];
        } else {
            const int last = graph_node(graph, operand)->rank - 1;
            return n->op == reduction && n->arguments[0] == operand &&
                   n->attributes.axis_count == 1 && n->attributes.axes[0] == last;
        }
    }
}

/* The only product that v is made of, element by element; 0: none, or several. */
static value only_product(const struct graph *graph, value v, value scores, bool *linear, int depth)
{
    const struct node *n = graph_node(graph, v);
    value found = 0;
    if (n->op == OP_dot)
        return graph_same_shape(graph, v, scores) ? v : 0;
    if (depth == 0 || (op_info[n->op].kind != KIND_MAP && !passes_elements(n)))
        return 0;
    for (int i = 0; i < n->argument_count; i++) {
        const value product = only_product(graph, n->arguments[i], scores, linear, depth - 1);
        if (product && found)
            return 0;
        found = product ? product : found;
    }
    static const bool keeps_masked[OP_COUNT] = {
        [OP_mul] = true,   [OP_add] = true,  [OP_sub] = true,  [OP_div] = true,
        [OP_where] = true, [OP_cast] = true, [OP_clone] = true};
    if (found)
        *linear &= keeps_masked[n->op];
    return found;
}

bool attention_match(const struct graph *graph, value v, struct attention *out)
{
    enum { DEPTH = 16 };
    const struct node *n = graph_node(graph, v);
    *out = (struct attention){.linear = true};
    if (n->op != OP_dot)
        return false;
    const struct node *quotient = graph_node(graph, passed(graph, n->arguments[0]));
    if (quotient->op != OP_div)
        return false;
    const value exponential = quotient->arguments[0];
    const struct node *e = graph_node(graph, exponential);
    const struct node *difference = e->op == OP_exp ? graph_node(graph, e->arguments[0]) : NULL;
    if (!difference || difference->op != OP_sub || difference->dtype != DT_f32)
        return false;
    out->scores = difference->arguments[0];
    if (!reduces(graph, quotient->arguments[1], OP_sum, exponential, &out->safe) ||
        !reduces(graph, difference->arguments[1], OP_amax, out->scores, &out->safe))
        return false;
    out->product = only_product(graph, out->scores, out->scores, &out->linear, DEPTH);
    if (!out->product)
        return false;
    out->query = graph_node(graph, out->product)->arguments[0];
    out->key = graph_node(graph, out->product)->arguments[1];
    out->value = n->arguments[1];
    return true;
}

/* -- operands ---------------------------------------------------------------------------------- */

static bool is_half(enum dtype dtype)
{
    return dtype == DT_f16 || dtype == DT_bf16;
}

/* Through views, and the cast from 16 bits, to the first value that is neither; *half: the first
 * that has 16 bits. */
static value operand_source(const struct fusion *f, value v, value *half)
{
    *half = 0;
    for (;;) {
        const struct node *n = fusion_node(f, v);
        if (!*half && is_half(n->dtype))
            *half = v;
        const bool widens =
            n->op == OP_cast && !*half && is_half(fusion_node(f, n->arguments[0])->dtype);
        if (!widens && (op_info[n->op].kind != KIND_VIEW || f->kept[v] || n->op == OP_concat))
            return v;
        v = n->arguments[0];
    }
}

/* Whether groups of 8 elements along dim `axis` of v are such groups in memory, where `root` is. */
static bool groups_survive(const struct fusion *f, value v, int axis, value root)
{
    const struct sizes *sizes = f->graph->sizes;
    for (; v != root; v = fusion_node(f, v)->arguments[0]) {
        const struct node *n = fusion_node(f, v), *a = fusion_node(f, n->arguments[0]);
        const struct attributes *at = &n->attributes;
        switch (n->op) {
        case OP_cast:
        case OP_clone:
        case OP_contiguous: break;
        case OP_permute: axis = at->axes[axis]; break;
        case OP_expand: axis -= n->rank - a->rank; break;
        case OP_reshape:
            if (axis != n->rank - 1 || a->rank == 0 ||
                size_value(sizes, a->shape[a->rank - 1]) % GROUP)
                return false;
            axis = a->rank - 1;
            break;
        case OP_slice:
            if (at->axis == axis && (at->step != 1 || size_value(sizes, at->start) % GROUP))
                return false;
            break;
        case OP_select:
            if (at->axis <= axis)
                axis++;
            break;
        default: return false;
        }
        if (axis < 0 || size_value(sizes, fusion_node(f, n->arguments[0])->shape[axis]) % GROUP)
            return false;
    }
    const int buffer = f->plan->buffer_of[root];
    if (buffer < 0)
        return axis == fusion_node(f, root)->rank - 1; /* it will be row-major */
    const struct buffer *b = plan_buffer(f->plan, buffer);
    for (int d = 0; d < b->rank; d++) {
        const int64_t stride = size_value(sizes, b->strides[d]);
        if (size_value(sizes, b->sizes[d]) > 1 && (d == axis ? stride != 1 : stride % GROUP))
            return false;
    }
    return b->alignment >= 2 * GROUP;
}

/* Whether an operand has 16 bits, all of them the same, and can be read in groups of 8: what is
 * computed can be kept so that it can, but not what somebody else has put where it is. */
static bool operand_fits(const struct fusion *f, value v, int axis, enum dtype *dtype)
{
    value half;
    const value source = operand_source(f, v, &half);
    if (!half || (*dtype && fusion_node(f, half)->dtype != *dtype))
        return false;
    *dtype = fusion_node(f, half)->dtype;
    return half != source || !fusion_is_leaf(f, source) ||
           (fusion_has_memory(f, source) && groups_survive(f, v, axis, source));
}

static void keep_operand(struct fusion *f, value v, int axis)
{
    value half;
    const value source = operand_source(f, v, &half);
    if (!fusion_is_leaf(f, source))
        f->kept[source] = true;
    if ((fusion_is_leaf(f, source) && !fusion_has_memory(f, source)) ||
        !groups_survive(f, v, axis, source))
        f->kept[half] = true;
}

void attention_keep_operands(struct fusion *f, value v)
{
    struct attention a;
    const int rank = fusion_node(f, v)->rank;
    attention_match(f->graph, v, &a);
    keep_operand(f, a.query, rank - 1);
    keep_operand(f, a.key, rank - 2);
    keep_operand(f, a.value, rank - 1);
}

/* -- which ------------------------------------------------------------------------------------- */

/* What of v depends on the product: it is not kept when nobody else reads it. */
static bool mark_inner(const struct fusion *f, value v, value product, signed char *depends)
{
    if (v == product) {
        depends[v] = true;
        return true;
    }
    if (v < product || depends[v] >= 0)
        return v > product && depends[v] > 0;
    depends[v] = false;
    for (int i = 0; i < fusion_node(f, v)->argument_count; i++)
        if (mark_inner(f, fusion_node(f, v)->arguments[i], product, depends))
            depends[v] = true;
    return depends[v];
}

/* Whether nobody but the attention reads what it computes. */
static bool is_private(const struct fusion *f, value v, const signed char *inner)
{
    for (value u = 1; u < f->graph->nodes.count; u++) {
        if (!f->live[u] || u == v || inner[u] > 0)
            continue;
        for (int i = 0; i < fusion_node(f, u)->argument_count; i++)
            if (inner[fusion_node(f, u)->arguments[i]] > 0)
                return false;
    }
    for (value u = 1; u < v; u++)
        if (inner[u] > 0 && f->plan->buffer_of[u] >= 0)
            return false; /* somebody outside sees it */
    return true;
}

static bool is_wanted(const struct fusion *f, value v, const struct attention *a)
{
    const struct node *n = fusion_node(f, v), *q = fusion_node(f, a->query);
    const int rank = n->rank;
    enum dtype dtype = 0;
    if (!f->options->tensor_cores || f->setup[v] || f->counts[v] == 0 ||
        !plan_is_fixed(f->plan, a->query, rank - 1) || !plan_is_fixed(f->plan, v, rank - 1))
        return false;
    const int64_t head = graph_dim(f->graph, a->query, rank - 1),
                  width = graph_dim(f->graph, v, rank - 1);
    return q->rank == rank && head % 16 == 0 && width % 16 == 0 && head > 0 && head <= WIDTH_MOST &&
           width <= WIDTH_MOST && graph_dim(f->graph, v, rank - 2) >= ROWS_LEAST &&
           graph_dim(f->graph, a->value, rank - 2) > 0 &&
           operand_fits(f, a->query, rank - 1, &dtype) &&
           operand_fits(f, a->key, rank - 2, &dtype) && operand_fits(f, a->value, rank - 1, &dtype);
}

phasor_status attention_choose(struct fusion *f)
{
    const size_t count = f->graph->nodes.count;
    f->by_attention = NEW(&f->plan->arena, bool, count);
    f->inner = NEW(&f->plan->arena, bool, count);
    signed char *depends = memory_new(count);
    phasor_status status = f->by_attention && f->inner && depends ? PHASOR_OK : fail_memory();
    for (value v = 1; v < count && status == PHASOR_OK; v++) {
        struct attention a;
        if (!f->live[v] || !attention_match(f->graph, v, &a) || !is_wanted(f, v, &a))
            continue;
        memset(depends, -1, count);
        mark_inner(f, fusion_node(f, v)->arguments[0], a.product, depends);
        if (!is_private(f, v, depends))
            continue;
        f->by_attention[v] = true;
        f->by_library[v] = false;
        for (value u = a.product; u < v; u++) {
            f->inner[u] |= depends[u] > 0;
            f->by_library[u] &= !f->inner[u];
        }
    }
    memory_free(depends);
    return status;
}
