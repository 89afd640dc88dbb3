/* row.c - reductions that need no kernel of their own: what reads the result has the row in
 * registers anyway.
 *
 *     %m = sum(mul(%x, %x)) over the last dim of [8, 32, 128]
 *     %y = mul(%x, rsqrt(%m))                                    one kernel: 16 threads a row, each
 *                                                                reads its elements once
 *
 *     %m = amax(%x)   %e = exp(sub(%x, %m))   %s = sum(%e)
 *     %y = div(%e, %s)                                           one kernel: the row stays in
 *                                                                registers for both
 *
 * What of these has one element a row and is an output is stored by one thread of the row.
 *
 * It is so when one kept value reads the reduction, has as many elements as what is reduced, in the
 * same rows, and nothing on the way moves elements from row to row; and when a row fits a
 * power-of-two share of a warp. */
#include "plan/fusion.h"

#include <string.h>

enum { WARP = 32, RUNS_MAX = 4 };

/* The number of leading dims that make up `rows`; -1 when no prefix does. */
static int row_prefix(const struct fusion *f, const struct node *n, int64_t rows)
{
    int64_t product = 1;
    for (int k = 0;; k++) {
        if (product == rows &&
            (k == n->rank || size_value(f->graph->sizes, n->shape[k]) != 1 || rows == 1))
            return k;
        if (product == rows && k < n->rank) {
            bool rest = true; /* sizes of 1 may belong to either side: take the earlier boundary if
                                 all that follows is 1 */
            for (int d = k; d < n->rank; d++)
                rest &= size_value(f->graph->sizes, n->shape[d]) == 1;
            if (rest)
                return k;
        }
        if (k == n->rank || product > rows)
            return -1;
        product *= size_value(f->graph->sizes, n->shape[k]);
    }
}

/* What an operator does to rows: LEAVES moves elements out of them; INSIDE keeps them if its axis
 * lies inside a row. */
static const enum {
    LEAVES,
    KEEPS,
    KEEPS_ELEMENTWISE,
    INSIDE,
    RESHAPES
} effects[OP_COUNT] = {
#define MAP(name, ...) [OP_##name] = KEEPS_ELEMENTWISE,
#include "graph/ops.def"
    [OP_reshape] = RESHAPES, [OP_clone] = KEEPS,  [OP_contiguous] = KEEPS, [OP_pair] = KEEPS,
    [OP_select] = INSIDE,    [OP_slice] = INSIDE, [OP_concat] = INSIDE,
};

/* Operands of an elementwise operator must lie in the rows as the result does. */
static bool operands_align(const struct fusion *f, const struct node *n, int64_t rows)
{
    for (int i = 0; i < n->argument_count; i++) {
        const struct node *a = fusion_node(f, n->arguments[i]);
        if (a->rank && row_prefix(f, a, rows) >= 0 && a->rank != n->rank)
            return false;
    }
    return true;
}

/* Whether the operator leaves every element in its row. */
static bool stays_in_rows(const struct fusion *f, const struct node *n, int64_t rows)
{
    const int prefix = row_prefix(f, n, rows);
    if (prefix < 0)
        return false;
    switch (effects[n->op]) {
    case KEEPS: return true;
    case KEEPS_ELEMENTWISE: return operands_align(f, n, rows);
    case RESHAPES: return row_prefix(f, fusion_node(f, n->arguments[0]), rows) >= 0;
    case INSIDE: return n->attributes.axis >= prefix;
    default: return false;
    }
}

static bool is_fresh(const struct fusion *f, int buffer)
{
    const enum buffer_kind kind = f->plan->buffers.at[buffer].kind;
    return kind != BUFFER_INPUT && kind != BUFFER_STATE;
}

/* A value of one element a row: kept because it is dear and broadcast, which in a row kernel each
 * thread computes; or because somebody outside sees it, which one thread of a row stores. */
static bool is_row_value(const struct fusion *f, value v, int64_t rows)
{
    return fusion_count(f, v) == rows &&
           (!f->target[v] ||
            (!f->setup[v] && f->plan->buffer_of[v] >= 0 && is_fresh(f, f->plan->buffer_of[v]))) &&
           (fusion_kind(fusion_node(f, v)) == KERNEL_MAP ||
            op_info[fusion_node(f, v)->op].kind == KIND_REDUCE);
}

/* false: the kernel has no room for another store. */
static bool roots_show(const struct fusion *f, value v, struct row_roots *roots)
{
    if (!f->target[v])
        return true;
    if (roots->shown_count == STORES_MAX - 1)
        return false;
    roots->shown[roots->shown_count++] = v;
    return true;
}

/* A reduction of the same rows, of as many elements. */
static bool is_row_root(const struct fusion *f, value v, int64_t rows, int64_t elements)
{
    const struct node *n = fusion_node(f, v);
    return op_info[n->op].kind == KIND_REDUCE && is_row_value(f, v, rows) &&
           n->attributes.axis_count == 1 &&
           n->attributes.axes[0] == fusion_node(f, n->arguments[0])->rank - 1 &&
           fusion_count(f, n->arguments[0]) == elements;
}

/* The only kept value that reads what comes of v, with nothing on the way that leaves the rows; 0:
 * none. Reductions of the same rows on the way are roots too. */
static value row_reader(const struct fusion *f, value v, int64_t rows, bool *reached,
                        struct row_roots *roots)
{
    const int64_t elements = fusion_count(f, fusion_node(f, v)->arguments[0]);
    value reader = 0;
    memset(reached, 0, f->graph->nodes.count * sizeof *reached);
    reached[v] = true;
    *roots = (struct row_roots){.at = {v}, .count = 1};
    if (!roots_show(f, v, roots))
        return 0;
    for (value u = v + 1; u < f->graph->nodes.count; u++) {
        const struct node *n = fusion_node(f, u);
        for (int i = 0; f->live[u] && i < n->argument_count; i++)
            reached[u] |= reached[n->arguments[i]] && n->arguments[i] != reader;
        if (!reached[u])
            continue;
        if (!reader && roots->count < ROOTS_MAX && is_row_root(f, u, rows, elements)) {
            roots->at[roots->count++] = u;
            if (!roots_show(f, u, roots))
                return 0;
            continue;
        }
        const bool row_value = is_row_value(f, u, rows), reads = f->kept[u] && !row_value;
        /* The kernel stands where the reader does: what comes later may need what comes later. */
        if (row_value && f->target[u] && (reader || !roots_show(f, u, roots)))
            return 0;
        if (!stays_in_rows(f, n, rows) || (reads && reader))
            return 0;
        if (reads)
            reader = u;
    }
    return reader;
}

/* Rows of the store are runs of its memory. */
static bool is_row_major(const struct fusion *f, int buffer)
{
    const struct buffer *b = &f->plan->buffers.at[buffer];
    int64_t expected = 1;
    for (int d = b->rank - 1; d >= 0; d--) {
        const int64_t size = size_value(f->graph->sizes, b->sizes[d]);
        if (size != 1 && size_value(f->graph->sizes, b->strides[d]) != expected)
            return false;
        expected *= size;
    }
    return true;
}

/* Lanes of 16 bytes, threads of a row and runs of a thread; false where a row does not divide so.
 */
bool row_shape(int64_t length, int nbytes, int *lanes, int *threads, int *runs)
{
    for (*lanes = 16 / nbytes < 8 ? 16 / nbytes : 8; *lanes > 1; *lanes /= 2) {
        const int64_t pieces = length % *lanes == 0 ? length / *lanes : 0;
        for (*runs = 1; *runs <= RUNS_MAX; *runs *= 2) {
            const int64_t share = pieces % *runs == 0 ? pieces / *runs : 0;
            if (share >= 2 && share <= WARP && (share & (share - 1)) == 0) {
                *threads = (int)share;
                return true;
            }
        }
    }
    return false;
}

static bool row_fuses(struct fusion *f, value v, bool *reached, struct row_roots *roots,
                      value *reader)
{
    const struct node *n = fusion_node(f, v), *a = fusion_node(f, n->arguments[0]);
    const int64_t rows = fusion_count(f, v);
    int lanes, threads, runs;
    if (rows == 0 || !is_row_root(f, v, rows, fusion_count(f, n->arguments[0])))
        return false;
    *reader = row_reader(f, v, rows, reached, roots);
    if (*reader == 0 || fusion_kind(fusion_node(f, *reader)) != KERNEL_MAP ||
        fusion_count(f, *reader) != fusion_count(f, n->arguments[0]) ||
        f->setup[v] != f->setup[*reader])
        return false;
    const int buffer = f->plan->buffer_of[*reader];
    if (buffer >= 0 && (!is_row_major(f, buffer) || !is_fresh(f, buffer)))
        return false;
    return plan_is_fixed(f->plan, n->arguments[0], a->rank - 1) &&
           row_shape(size_value(f->graph->sizes, a->shape[a->rank - 1]),
                     dtype_size(fusion_node(f, *reader)->dtype), &lanes, &threads, &runs);
}

/* Roots of one reader that do not come of each other, in one list; false where they are of other
 * rows, or too many. */
static bool roots_join(const struct fusion *f, const struct row_roots *more,
                       struct row_roots *roots)
{
    struct row_roots all = *roots;
    for (int i = 0; i < more->count; i++) {
        const value root = more->at[i], operand = fusion_node(f, root)->arguments[0];
        int at = all.count;
        bool there = false;
        for (int k = 0; k < all.count; k++)
            there |= all.at[k] == root;
        if (there)
            continue;
        if (all.count == ROOTS_MAX ||
            (at > 0 && !is_row_root(f, all.at[0], fusion_count(f, root), fusion_count(f, operand))))
            return false;
        for (; at > 0 && all.at[at - 1] > root; at--)
            all.at[at] = all.at[at - 1];
        all.at[at] = root;
        all.count++;
    }
    for (int i = 0; i < more->shown_count; i++) {
        bool there = false;
        for (int k = 0; k < all.shown_count; k++)
            there |= all.shown[k] == more->shown[i];
        if (!there && !roots_show(f, more->shown[i], &all))
            return false;
    }
    *roots = all;
    return true;
}

phasor_status row_choose(struct fusion *f, struct row_roots *rows)
{
    bool *reached = memory_new(f->graph->nodes.count * sizeof *reached);
    if (!reached)
        return fail_memory();
    for (value v = 1; v < f->graph->nodes.count; v++) {
        value reader;
        struct row_roots roots;
        if (f->live[v] && f->kept[v] && op_info[fusion_node(f, v)->op].kind == KIND_REDUCE &&
            row_fuses(f, v, reached, &roots, &reader) && roots_join(f, &roots, &rows[reader]))
            for (value u = v; u < reader; u++)
                f->kept[u] &= !reached[u];
    }
    memory_free(reached);
    return PHASOR_OK;
}
