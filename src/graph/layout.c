/* layout.c - strides and shared memory of every value, as eager PyTorch has them.
 *
 *     %y = add(%x, %w)          x [4, 6] with strides [1, 4]: so has y, in memory of its own
 *     %t = permute(%y) 1, 0     strides [4, 1], memory of %y
 *     %r = reshape(%t, [24])    %t is contiguous, so %r shows the memory of %y; otherwise it would
 *                               be a copy
 *
 * An elementwise result has the order of dims that its operands have (they vote in turn, the larger
 * stride goes first) and no gaps. Sums, running sums and the like are row-major whatever their
 * operand is; softmax and the like are so by a clone that the loader adds. One function a row says
 * what the others do; the table at the end names them. */
#include "graph/layout_private.h"

#include <string.h>

static bool same_shape(const struct layouts *l, const struct node *n, const struct node *a)
{
    if (n->rank != a->rank)
        return false;
    for (int d = 0; d < n->rank; d++)
        if (extent(l, n, d) != extent(l, a, d))
            return false;
    return true;
}

enum { OPERANDS_MAX = 3 };

/* Of a half: those of the complex numbers. */
static void whole_strides(const struct layouts *l, const struct node *n, int k, int64_t *strides)
{
    const struct layout *layout = operand_layout(l, n, k);
    for (int d = 0; d < n->rank; d++)
        strides[d] = layout->half ? layout->strides[d] / 2 : layout->strides[d];
}

/* Many steps may stand for one operator on complex numbers; what one of them leaves to the next is
 * no tensor in the program. */
static bool is_later_step(const struct layouts *l, const struct node *n)
{
    for (int k = 0; k < n->argument_count; k++) {
        const struct node *a = node_of(l, n->arguments[k]);
        if (op_info[a->op].kind == KIND_MAP && a->attributes.index != 0 &&
            a->attributes.index == n->attributes.index)
            return true;
    }
    return false;
}

/* All operands have the result's shape and one dense layout: so has the result. Where both rules
 * hold they differ in strides of dims of size 1: an operator takes the first one that holds, but
 * its later steps keep what the first has chosen. */
static bool operands_share_layout(const struct layouts *l, const struct node *n, struct layout *out)
{
    int64_t strides[OPERANDS_MAX][RANK_MAX];
    bool row_major = true, equal = true;
    for (int k = 0; k < n->argument_count; k++) {
        if (!same_shape(l, n, node_of(l, n->arguments[k])))
            return false;
        whole_strides(l, n, k, strides[k]);
        row_major &= strides_are_row_major(l, n, strides[k]);
        equal &= strides_are_dense(l, n, strides[k]) &&
                 memcmp(strides[k], strides[0], (size_t)n->rank * sizeof(int64_t)) == 0;
    }
    if (row_major && !(equal && is_later_step(l, n)))
        strides_row_major(l, n, out);
    else if (equal)
        strides_as(l, n, strides[0], out);
    return row_major || equal;
}

static void layout_elementwise(struct layouts *l, const struct node *n, struct layout *out)
{
    int64_t strides[OPERANDS_MAX][RANK_MAX];
    int order[RANK_MAX];
    if (operands_share_layout(l, n, out))
        return;
    for (int k = 0; k < n->argument_count; k++)
        strides_broadcast(l, n, k, strides[k]);
    strides_vote(l, n, strides, n->argument_count, order);
    strides_dense(l, n, order, out);
}

/* As operand 0 where that is dense; otherwise its order of dims without the gaps. */
static void layout_like_first(struct layouts *l, const struct node *n, struct layout *out)
{
    int64_t strides[1][RANK_MAX] = {{0}};
    int order[RANK_MAX];
    whole_strides(l, n, 0, strides[0]);
    if (strides_are_dense(l, n, strides[0])) {
        strides_as(l, n, strides[0], out);
        return;
    }
    strides_broadcast(l, n, 0, strides[0]);
    strides_vote(l, n, strides, 1, order);
    strides_dense(l, n, order, out);
}

static void layout_row_major(struct layouts *l, const struct node *n, struct layout *out)
{
    strides_row_major(l, n, out);
}

/* A copy with a part of it written: eager keeps gaps, too. */
static void layout_kept(struct layouts *l, const struct node *n, struct layout *out)
{
    int64_t strides[RANK_MAX] = {0};
    whole_strides(l, n, 0, strides);
    if (strides_overlap(l, n, strides))
        layout_like_first(l, n, out);
    else
        strides_as(l, n, strides, out);
}

/* The operand with the axes that are indexed repeated, and the indices repeated along the others,
 * vote like operands of an elementwise operator. */
static void layout_index(struct layouts *l, const struct node *n, struct layout *out)
{
    const struct node *a = node_of(l, n->arguments[0]);
    const int axis = n->attributes.axis, replaced = n->argument_count - 1,
              added = n->rank - (a->rank - replaced);
    int64_t strides[RANK_MAX + 1][RANK_MAX] = {{0}};
    int order[RANK_MAX];
    for (int d = 0; d < n->rank; d++)
        if (d < axis || d >= axis + added)
            strides[0][d] = operand_layout(l, n, 0)->strides[d < axis ? d : d - added + replaced];
    for (int k = 1; k < n->argument_count; k++) {
        const struct node *index = node_of(l, n->arguments[k]);
        for (int d = 0; d < index->rank; d++)
            if (extent(l, index, d) != 1)
                strides[k][axis + added - index->rank + d] = operand_layout(l, n, k)->strides[d];
    }
    strides_vote(l, n, strides, n->argument_count, order);
    strides_dense(l, n, order, out);
}

/* -- views ------------------------------------------------------------------------------------- */

static void alias_of(struct layouts *l, const struct node *n, struct layout *out)
{
    out->root = operand_layout(l, n, 0)->root;
    out->offset = operand_layout(l, n, 0)->offset;
}

static void layout_reshape(struct layouts *l, const struct node *n, struct layout *out)
{
    const struct node *a = node_of(l, n->arguments[0]);
    for (int d = 0; d < a->rank; d++)
        if (extent(l, a, d) == 0) { /* nothing to show: an empty tensor of its own layout */
            strides_row_major(l, n, out);
            alias_of(l, n, out);
            return;
        }
    if (strides_viewed(l, a, operand_layout(l, n, 0)->strides, n, out->strides))
        alias_of(l, n, out);
    else
        strides_row_major(l, n, out);
}

static void layout_permute(struct layouts *l, const struct node *n, struct layout *out)
{
    alias_of(l, n, out);
    for (int d = 0; d < n->rank; d++)
        out->strides[d] = operand_layout(l, n, 0)->strides[n->attributes.axes[d]];
}

static void layout_expand(struct layouts *l, const struct node *n, struct layout *out)
{
    alias_of(l, n, out);
    strides_broadcast(l, n, 0, out->strides);
}

static void layout_slice(struct layouts *l, const struct node *n, struct layout *out)
{
    const int axis = n->attributes.axis;
    *out = *operand_layout(l, n, 0);
    out->offset += size_value(l->graph->sizes, n->attributes.start) * out->strides[axis];
    out->strides[axis] *= n->attributes.step;
}

static void layout_select(struct layouts *l, const struct node *n, struct layout *out)
{
    const int axis = n->attributes.axis;
    *out = *operand_layout(l, n, 0);
    out->offset += size_value(l->graph->sizes, n->attributes.start) * out->strides[axis];
    out->half = n->attributes.flag == SELECT_HALF;
    memmove(out->strides + axis, out->strides + axis + 1,
            (size_t)(n->rank - axis) * sizeof *out->strides);
}

static void layout_diagonal(struct layouts *l, const struct node *n, struct layout *out)
{
    const int *axes = n->attributes.axes;
    const struct layout *in = operand_layout(l, n, 0);
    const int64_t start = size_value(l->graph->sizes, n->attributes.start);
    alias_of(l, n, out);
    out->offset += start > 0 ? start * in->strides[axes[1]] : -start * in->strides[axes[0]];
    for (int d = 0, to = 0; d < n->rank + 1; d++)
        if (d != axes[0] && d != axes[1])
            out->strides[to++] = in->strides[d];
    out->strides[n->rank - 1] = in->strides[axes[0]] + in->strides[axes[1]];
}

static void layout_unfold(struct layouts *l, const struct node *n, struct layout *out)
{
    const int axis = n->attributes.axis;
    *out = *operand_layout(l, n, 0);
    out->strides[n->rank - 1] = out->strides[axis];
    out->strides[axis] *= n->attributes.step;
}

/* Channels last: dim 1 is innermost, the others keep their order. */
static void dense_channels_last(const struct layouts *l, const struct node *n, struct layout *out)
{
    int order[RANK_MAX], k = 0;
    for (int d = 0; d < n->rank; d++)
        if (d != 1)
            order[k++] = d;
    if (n->rank > 1)
        order[k] = 1;
    strides_dense(l, n, order, out);
}

static void layout_format(struct layouts *l, const struct node *n, struct layout *out)
{
    if (n->attributes.flag == FORMAT_PRESERVE)
        layout_like_first(l, n, out);
    else if (n->attributes.flag == FORMAT_CONTIGUOUS)
        strides_row_major(l, n, out);
    else
        dense_channels_last(l, n, out);
}

/* A view where the operand has the format already. */
static void layout_contiguous(struct layouts *l, const struct node *n, struct layout *out)
{
    const struct layout *in = operand_layout(l, n, 0);
    layout_format(l, n, out);
    bool equal = n->attributes.flag != FORMAT_PRESERVE;
    for (int d = 0; d < n->rank; d++)
        equal &= extent(l, n, d) < 2 || in->strides[d] == out->strides[d];
    if (equal ||
        (n->attributes.flag == FORMAT_CONTIGUOUS && strides_are_row_major(l, n, in->strides)))
        *out = *in;
}

static void layout_view_as_real(struct layouts *l, const struct node *n, struct layout *out)
{
    const struct layout *in = operand_layout(l, n, 0);
    alias_of(l, n, out);
    out->offset *= 2;
    for (int d = 0; d < n->rank - 1; d++)
        out->strides[d] = 2 * in->strides[d];
    out->strides[n->rank - 1] = 1;
}

/* Where pairs do not lie together there is no such tensor, and the value is a copy. */
static void layout_view_as_complex(struct layouts *l, const struct node *n, struct layout *out)
{
    const struct layout *in = operand_layout(l, n, 0);
    bool pairs = in->strides[n->rank] == 1 && in->offset % 2 == 0;
    for (int d = 0; d < n->rank; d++)
        pairs &= in->strides[d] % 2 == 0 || extent(l, n, d) < 2;
    if (!pairs) {
        strides_row_major(l, n, out);
        return;
    }
    alias_of(l, n, out);
    out->offset /= 2;
    for (int d = 0; d < n->rank; d++)
        out->strides[d] = in->strides[d] / 2;
}

static void layout_real(struct layouts *l, const struct node *n, struct layout *out)
{
    const struct layout *in = operand_layout(l, n, 0);
    alias_of(l, n, out);
    out->offset *= 2;
    for (int d = 0; d < n->rank; d++)
        out->strides[d] = 2 * in->strides[d];
}

static void layout_imag(struct layouts *l, const struct node *n, struct layout *out)
{
    layout_real(l, n, out);
    out->offset++;
}

/* Laid out as an elementwise result of the parts, each element twice as wide: what a complex result
 * would have. */
static void layout_pair(struct layouts *l, const struct node *n, struct layout *out)
{
    struct node parts = *n;
    parts.rank--;
    layout_elementwise(l, &parts, out);
    for (int d = 0; d < parts.rank; d++)
        out->strides[d] *= 2;
    out->strides[parts.rank] = 1;
}

/* -- leaves ------------------------------------------------------------------------------------ */

static void layout_input(struct layouts *l, const struct node *n, struct layout *out)
{
    *out = (struct layout){.root = l->self};
    if (n->rank) /* a number that is an input has no tensor */
        memcpy(out->strides, l->call->inputs[n->attributes.index].strides,
               (size_t)n->rank * sizeof *out->strides);
}

static void layout_data(struct layouts *l, const struct node *n, struct layout *out)
{
    *out = (struct layout){.root = l->self};
    if (n->rank)
        memcpy(out->strides, n->attributes.data->strides, (size_t)n->rank * sizeof *out->strides);
}

/* -- the table --------------------------------------------------------------------------------- */

enum { CHAIN_MAX = 64 };
typedef void layout_function(struct layouts *, const struct node *, struct layout *);

#define layout_flip layout_like_first
#define layout_roll layout_row_major
#define layout_pad layout_row_major
#define layout_clone layout_format
#define layout_concat layout_row_major
#define layout_insert layout_kept
#define layout_insert_diagonal layout_kept
#define layout_state layout_data
#define layout_scalar layout_row_major
#define layout_size layout_row_major
#define layout_iota layout_row_major
#define layout_index_put layout_like_first
#define layout_gather layout_row_major
#define layout_scatter layout_like_first
#define layout_argmax layout_row_major
#define layout_argmin layout_row_major
#define layout_cumsum layout_row_major
#define layout_cumprod layout_row_major
#define layout_sort_index layout_like_first
#define layout_dot layout_row_major
#define layout_unknown layout_row_major

static layout_function *const functions[OP_COUNT] = {
#define MAP(name, ...) [OP_##name] = layout_elementwise,
#define VIEW(name, ...) [OP_##name] = layout_##name,
#define REDUCE(name, ...) [OP_##name] = layout_row_major,
#define LEAF(name, ...) [OP_##name] = layout_##name,
#define CORE(name, ...) [OP_##name] = layout_##name,
#include "graph/ops.def"
};

bool layout_along(const struct graph *graph, value root, const int64_t *strides, value v,
                  struct layout *space, struct layout *out)
{
    struct layouts layouts = {.graph = graph, .of = {.at = space}};
    value chain[CHAIN_MAX];
    int count = 0;
    for (value at = v; at != root; at = graph_node(graph, at)->arguments[0]) {
        if (count == CHAIN_MAX || op_info[graph_node(graph, at)->op].kind != KIND_VIEW)
            return false;
        chain[count++] = at;
    }
    space[root] = (struct layout){.root = root};
    memcpy(space[root].strides, strides, (size_t)graph_node(graph, root)->rank * sizeof *strides);
    while (count > 0) {
        const value at = chain[--count];
        layouts.self = at;
        space[at] = (struct layout){0};
        functions[graph_node(graph, at)->op](&layouts, graph_node(graph, at), &space[at]);
    }
    *out = space[v];
    return out->root == root;
}

/* What ends up in an input or a buffer is written where that is: it has its strides, and so have
 * views of it. */
static void layout_change(struct layouts *l, value v)
{
    const struct graph *graph = l->graph;
    const int64_t *strides = NULL;
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i].written == v)
            strides = l->call->inputs[i].strides;
    for (size_t i = 0; i < graph->buffers.count; i++)
        if (graph->buffers.at[i].written == v)
            strides = graph->buffers.at[i].initial->strides;
    if (strides && l->of.at[v].root == v && op_info[node_of(l, v)->op].kind != KIND_LEAF)
        memcpy(l->of.at[v].strides, strides, (size_t)node_of(l, v)->rank * sizeof *strides);
}

phasor_status layout_infer(const struct graph *graph, const struct call_shape *call,
                           struct arena *arena, struct layout **out)
{
    const size_t count = graph->nodes.count;
    struct layouts layouts = {graph, call, {NEW(arena, struct layout, count), count, count}, 0};
    bool *live = memory_new(count * sizeof *live);
    if (!layouts.of.at || !live) {
        memory_free(live);
        return fail_memory();
    }
    graph_mark_live(graph, live);
    for (value v = 1; v < count; v++) {
        layouts.self = v;
        if (live[v])
            functions[node_of(&layouts, v)->op](&layouts, node_of(&layouts, v), &layouts.of.at[v]);
        layout_change(&layouts, v);
    }
    memory_free(live);
    *out = layouts.of.at;
    return PHASOR_OK;
}

/* -- a graph that grows ------------------------------------------------------------------------ */

struct layout *layout_of(struct layouts *l, value v)
{
    while (l->of.count <= v) {
        if (!array_push(&l->of, (struct layout){0}))
            return NULL;
        l->self = (value)l->of.count - 1;
        if (l->self > 0)
            functions[node_of(l, l->self)->op](l, node_of(l, l->self), &l->of.at[l->self]);
        if (l->self > 0)
            layout_change(l, l->self);
    }
    return &l->of.at[v];
}

void layouts_free(struct layouts *layouts)
{
    array_free(&layouts->of);
}

bool layout_is_dense(struct layouts *l, value v, int order[RANK_MAX])
{
    const struct layout *layout = layout_of(l, v);
    const struct node *n = node_of(l, v);
    if (!layout || !strides_are_dense(l, n, layout->strides))
        return false;
    strides_vote(l, n, (int64_t(*)[RANK_MAX])layout->strides, 1, order);
    return true;
}

bool layout_has(struct layouts *l, const struct graph_claim *claim)
{
    const struct layout *layout = layout_of(l, claim->node);
    const struct node *n = node_of(l, claim->node);
    struct layout ordered = {0};
    if (!layout)
        return false;
    if (claim->kind != CLAIM_ORDER)
        return (layout->root != claim->node) == (claim->kind == CLAIM_SHARED);
    strides_dense(l, n, claim->order, &ordered);
    for (int d = 0; d < n->rank; d++) {
        if (extent(l, n, d) == 0)
            return true;
        if (extent(l, n, d) != 1 && ordered.strides[d] != layout->strides[d])
            return false;
    }
    return true;
}
