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
#include "plan/plan.h"

#include <string.h>

struct layouts {
    const struct graph *graph;
    const struct call_shape *call;
    struct layout *at;
    value self; /* the node in work */
};

static const struct node *node_of(const struct layouts *l, value v)
{
    return graph_node(l->graph, v);
}

static int64_t extent(const struct layouts *l, const struct node *n, int d)
{
    return size_value(l->graph->sizes, n->shape[d]);
}

static const struct layout *operand_layout(const struct layouts *l, const struct node *n, int index)
{
    return &l->at[n->arguments[index]];
}

/* -- dense layouts ----------------------------------------------------------------------------- */

/* Strides without gaps; order[0] is the outermost dim. */
static void dense(const struct layouts *l, const struct node *n, const int *order,
                  struct layout *out)
{
    int64_t stride = 1;
    for (int k = n->rank - 1; k >= 0; k--) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): order has rank entries */
        const int64_t size = extent(l, n, order[k]);
        out->strides[order[k]] = stride;
        stride *= size > 1 ? size : 1;
    }
    out->offset = 0;
    out->root = l->self;
}

static void dense_row_major(const struct layouts *l, const struct node *n, struct layout *out)
{
    int order[RANK_MAX];
    for (int d = 0; d < n->rank; d++)
        order[d] = d;
    dense(l, n, order, out);
}

static void dense_as(const struct layouts *l, const struct node *n, const int64_t *strides,
                     struct layout *out)
{
    *out = (struct layout){.root = l->self};
    memcpy(out->strides, strides, (size_t)n->rank * sizeof *strides);
}

static bool is_row_major(const struct layouts *l, const struct node *n, const int64_t *strides)
{
    int64_t expected = 1;
    for (int d = n->rank - 1; d >= 0; d--) {
        if (extent(l, n, d) == 0)
            return true;
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all dims are set */
        if (extent(l, n, d) != 1 && strides[d] != expected)
            return false;
        expected *= extent(l, n, d);
    }
    return true;
}

/* No gaps and no element twice, in some order of dims. */
static bool is_dense(const struct layouts *l, const struct node *n, const int64_t *strides)
{
    int64_t expected = 1;
    bool taken[RANK_MAX] = {false};
    for (int left = n->rank; left > 0; left--) {
        int next = -1;
        for (int d = 0; d < n->rank; d++)
            if (!taken[d] && (extent(l, n, d) < 2 || strides[d] == expected)) {
                next = d;
                break;
            }
        if (next < 0)
            return false;
        taken[next] = true;
        expected *= extent(l, n, next) > 1 ? extent(l, n, next) : 1;
    }
    return true;
}

/* Strides of operand k as seen from the result; 0 where it is broadcast. */
static void broadcast_strides(const struct layouts *l, const struct node *n, int k,
                              int64_t *strides)
{
    const struct node *a = node_of(l, n->arguments[k]);
    const struct layout *layout = operand_layout(l, n, k);
    for (int d = 0; d < n->rank; d++) {
        const int at = d - (n->rank - a->rank);
        strides[d] =
            at < 0 || (extent(l, a, at) == 1 && extent(l, n, d) != 1) ? 0 : layout->strides[at];
    }
}

/* > 0: dim x belongs outside dim y; 0: no operand says. */
static int dims_vote(const struct layouts *l, const struct node *n, int64_t (*strides)[RANK_MAX],
                     int count, int x, int y)
{
    for (int k = 0; k < count; k++) {
        const int64_t a = strides[k][x], b = strides[k][y];
        if (a == 0 || b == 0)
            continue;
        if (a != b)
            return a > b ? 1 : -1;
        if (extent(l, n, x) > extent(l, n, y))
            return 1;
    }
    return 0;
}

/* The order of dims in which the operands agree, as PyTorch's iterator finds it: insertion from the
 * innermost dim out. */
static void vote_order(const struct layouts *l, const struct node *n, int64_t (*strides)[RANK_MAX],
                       int count, int *order)
{
    int inner_first[RANK_MAX];
    for (int d = 0; d < n->rank; d++)
        inner_first[d] = n->rank - 1 - d;
    for (int i = 1; i < n->rank; i++) {
        int at = i;
        for (int k = i - 1; k >= 0; k--) {
            const int vote = dims_vote(l, n, strides, count, inner_first[k], inner_first[at]);
            if (vote > 0) {
                const int swap = inner_first[k];
                inner_first[k] = inner_first[at];
                inner_first[at] = swap;
                at = k;
            } else if (vote < 0) {
                break;
            }
        }
    }
    for (int d = 0; d < n->rank; d++)
        order[d] = inner_first[n->rank - 1 - d];
}

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
        row_major &= is_row_major(l, n, strides[k]);
        equal &= is_dense(l, n, strides[k]) &&
                 memcmp(strides[k], strides[0], (size_t)n->rank * sizeof(int64_t)) == 0;
    }
    if (row_major && !(equal && is_later_step(l, n)))
        dense_row_major(l, n, out);
    else if (equal)
        dense_as(l, n, strides[0], out);
    return row_major || equal;
}

static void layout_elementwise(struct layouts *l, const struct node *n, struct layout *out)
{
    int64_t strides[OPERANDS_MAX][RANK_MAX];
    int order[RANK_MAX];
    if (operands_share_layout(l, n, out))
        return;
    for (int k = 0; k < n->argument_count; k++)
        broadcast_strides(l, n, k, strides[k]);
    vote_order(l, n, strides, n->argument_count, order);
    dense(l, n, order, out);
}

/* As operand 0 where that is dense; otherwise its order of dims without the gaps. */
static void layout_like_first(struct layouts *l, const struct node *n, struct layout *out)
{
    int64_t strides[1][RANK_MAX] = {{0}};
    int order[RANK_MAX];
    whole_strides(l, n, 0, strides[0]);
    if (is_dense(l, n, strides[0])) {
        dense_as(l, n, strides[0], out);
        return;
    }
    broadcast_strides(l, n, 0, strides[0]);
    vote_order(l, n, strides, 1, order);
    dense(l, n, order, out);
}

static void layout_row_major(struct layouts *l, const struct node *n, struct layout *out)
{
    dense_row_major(l, n, out);
}

/* -- views ------------------------------------------------------------------------------------- */

static void alias_of(struct layouts *l, const struct node *n, struct layout *out)
{
    out->root = operand_layout(l, n, 0)->root;
    out->offset = operand_layout(l, n, 0)->offset;
}

/* Strides with which the operand's memory has the new shape; false when none do. */
static bool view_strides(const struct layouts *l, const struct node *a, const int64_t *old,
                         const struct node *n, int64_t *new)
{
    int to = n->rank - 1;
    int64_t chunk_stride = a->rank ? old[a->rank - 1] : 1, chunk = 1, filled = 1;
    for (int d = a->rank - 1; d >= 0; d--) {
        chunk *= extent(l, a, d);
        const bool ends =
            d == 0 || (extent(l, a, d - 1) != 1 && old[d - 1] != chunk * chunk_stride);
        if (!ends)
            continue;
        while (to >= 0 && (filled < chunk || extent(l, n, to) == 1)) {
            new[to] = filled *chunk_stride;
            filled *= extent(l, n, to--);
        }
        if (filled != chunk)
            return false;
        if (d > 0) {
            chunk_stride = old[d - 1];
            chunk = filled = 1;
        }
    }
    for (; to >= 0; to--)
        new[to] = filled *chunk_stride;
    return true;
}

static void layout_reshape(struct layouts *l, const struct node *n, struct layout *out)
{
    const struct node *a = node_of(l, n->arguments[0]);
    for (int d = 0; d < a->rank; d++)
        if (extent(l, a, d) == 0) { /* nothing to show: an empty tensor of its own layout */
            dense_row_major(l, n, out);
            alias_of(l, n, out);
            return;
        }
    if (view_strides(l, a, operand_layout(l, n, 0)->strides, n, out->strides))
        alias_of(l, n, out);
    else
        dense_row_major(l, n, out);
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
    broadcast_strides(l, n, 0, out->strides);
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
    dense(l, n, order, out);
}

static void layout_format(struct layouts *l, const struct node *n, struct layout *out)
{
    if (n->attributes.flag == FORMAT_PRESERVE)
        layout_like_first(l, n, out);
    else if (n->attributes.flag == FORMAT_CONTIGUOUS)
        dense_row_major(l, n, out);
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
    if (equal || (n->attributes.flag == FORMAT_CONTIGUOUS && is_row_major(l, n, in->strides)))
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

static void layout_view_as_complex(struct layouts *l, const struct node *n, struct layout *out)
{
    const struct layout *in = operand_layout(l, n, 0);
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
    const struct call_tensor *tensor = &l->call->inputs[n->attributes.index];
    *out = (struct layout){.root = l->self};
    memcpy(out->strides, tensor->strides, (size_t)n->rank * sizeof *out->strides);
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
#define layout_insert layout_like_first
#define layout_insert_diagonal layout_like_first
#define layout_state layout_data
#define layout_scalar layout_row_major
#define layout_size layout_row_major
#define layout_iota layout_row_major
#define layout_index layout_row_major
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
    struct layouts layouts = {.graph = graph, .at = space};
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
    if (strides && l->at[v].root == v && op_info[graph_node(graph, v)->op].kind != KIND_LEAF)
        memcpy(l->at[v].strides, strides, (size_t)graph_node(graph, v)->rank * sizeof *strides);
}

phasor_status layout_infer(const struct graph *graph, const struct call_shape *call,
                           struct arena *arena, struct layout **out)
{
    struct layouts layouts = {graph, call, NEW(arena, struct layout, graph->nodes.count), 0};
    bool *live = memory_new(graph->nodes.count * sizeof *live);
    if (!layouts.at || !live) {
        memory_free(live);
        return fail_memory();
    }
    graph_mark_live(graph, live);
    for (value v = 1; v < graph->nodes.count; v++) {
        layouts.self = v;
        if (live[v])
            functions[graph_node(graph, v)->op](&layouts, graph_node(graph, v), &layouts.at[v]);
        layout_change(&layouts, v);
    }
    memory_free(live);
    *out = layouts.at;
    return PHASOR_OK;
}
