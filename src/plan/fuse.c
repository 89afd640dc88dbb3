/* fuse.c - which values are kept in memory, and which kernel computes each of them.
 *
 *     %1 = reshape(x)   %2 = mul(%1, f)   %3 = reshape(%2)   %4 = cast(%3)      output %4: one
 *                                                            kernel, nothing kept
 *
 * A value is kept (has a buffer) when
 *   - it is a leaf with memory, or what an output, a changed input or a changed buffer shows;
 *   - it has a kernel of its own kind: reductions, scans, scatters;
 *   - it is dear (sin, exp, ...) and is broadcast, read through a view that moves elements, or
 *       does not depend on the call;
 *   - the expression behind it has become too long.
 * Everything else is recomputed where it is read: it costs arithmetic, not memory.
 *
 * Kernels stand in the order in which they run. A kept value joins an earlier kernel of the same
 * shape when all that it reads is there by then. Values that depend on no input (setup) are
 * computed once for a specialisation. */
#include "plan/fusion.h"

#include <string.h>

/* A reduction or product takes in the elementwise operators that follow it, as long as they are its only
 * readers and no other reduction has them. */
static value reduction_end(const struct fusion *f, value v, bool *taken)
{
    value end = v;
    for (;;) {
        const value user =
            f->target[end] || (end != v && f->kept[end]) ? 0 : fusion_only_user(f, end);
        if (user == 0 || taken[user] || op_info[fusion_node(f, user)->op].kind != KIND_MAP ||
            !graph_same_shape(f->graph, user, v))
            return end;
        end = user;
        taken[end] = true;
    }
}

/* -- kernels ----------------------------------------------------------------------------------- */

/* The latest kernel that v needs; -1: none. */
static phasor_status latest_needed(const struct fusion *f, value v, int *latest)
{
    struct reads reads = {0};
    const phasor_status status = reads_of_value(f->plan, v, &reads);
    for (size_t i = 0; i < reads.count; i++) {
        const int kernel = f->kernel_of[reads.at[i].node];
        *latest = kernel > *latest ? kernel : *latest;
    }
    array_free(&reads);
    return status;
}

/* Whether both buffers run through their dims in one order. */
static bool same_order(const struct fusion *f, int a, int b)
{
    const struct buffer *x = &f->plan->buffers.at[a], *y = &f->plan->buffers.at[b];
    const struct sizes *sizes = f->graph->sizes;
    for (int d = 0; d < x->rank; d++)
        for (int e = d + 1; e < x->rank; e++) {
            const bool x_first =
                size_value(sizes, x->strides[d]) >= size_value(sizes, x->strides[e]);
            const bool y_first =
                size_value(sizes, y->strides[d]) >= size_value(sizes, y->strides[e]);
            if (x_first != y_first && size_value(sizes, x->sizes[d]) > 1 &&
                size_value(sizes, x->sizes[e]) > 1)
                return false;
        }
    return true;
}

static bool is_caller_memory(const struct fusion *f, int buffer)
{
    const enum buffer_kind kind = f->plan->buffers.at[buffer].kind;
    return kind == BUFFER_INPUT || kind == BUFFER_STATE;
}

/* Whether v reads what kernel k stores through a join of parts of any length: computing that again
 * in the same kernel would ask at each level which part an element is in. */
static bool reads_through_join(const struct fusion *f, value v, int k, bool joined, bool *seen)
{
    const struct node *n = fusion_node(f, v);
    joined |= n->op == OP_concat && !plan_is_fixed(f->plan, v, n->attributes.axis);
    for (int i = 0; i < n->argument_count; i++) {
        const value a = n->arguments[i];
        if (joined && f->kernel_of[a] == k)
            return true;
        if (f->kernel_of[a] >= 0 || seen[a])
            continue;
        seen[a] = true;
        if (reads_through_join(f, a, k, joined, seen))
            return true;
    }
    return false;
}

/* An earlier kernel that can store v as well; -1: none. Changes in place stay alone: what is read
 * before must be. */
static int kernel_to_join(const struct fusion *f, value v, int buffer, bool setup, int latest)
{
    if (is_caller_memory(f, buffer))
        return -1;
    for (int k = (int)f->plan->kernels.count - 1; k >= 0 && k >= latest; k--) {
        const struct kernel *kernel = &f->plan->kernels.at[k];
        if (kernel->kind == KERNEL_MAP && kernel->setup == setup &&
            kernel->store_count < STORES_MAX &&
            (fusion_node(f, v)->op != OP_concat ||
             fusion_kernel_bytes(f, kernel) + fusion_source_bytes(f, v) <= SOURCE_MAX) &&
            !is_caller_memory(f, kernel->stores[0].buffer) &&
            graph_same_shape(f->graph, kernel->stores[0].node, v) &&
            same_order(f, kernel->stores[0].buffer, buffer))
            return k;
    }
    return -1;
}

static phasor_status kernel_add(struct fusion *f, enum kernel_kind kind, value special, value v,
                                int buffer, bool setup, bool copy)
{
    struct kernel kernel = {.kind = kind,
                            .setup = setup,
                            .special = special,
                            .scratch = -1,
                            .store_count = 1,
                            .stores = {{v, buffer, copy}}};
    if (kind == KERNEL_REDUCE || kind == KERNEL_SCAN)
        TRY(split_kernels(f, kernel));
    else if (!array_push(&f->plan->kernels, kernel))
        return fail_memory();
    f->kernel_of[v] = (int)f->plan->kernels.count - 1;
    return PHASOR_OK;
}

static phasor_status map_store(struct fusion *f, value v, int buffer, bool setup)
{
    int latest = -1;
    TRY(latest_needed(f, v, &latest));
    const int join = kernel_to_join(f, v, buffer, setup, latest);
    bool again = false;
    if (join >= 0 && join == latest) {
        bool *seen = memory_new(f->graph->nodes.count * sizeof *seen);
        if (!seen)
            return fail_memory();
        again = reads_through_join(f, v, join, false, seen);
        memory_free(seen);
    }
    if (join < 0 || again)
        return kernel_add(f, KERNEL_MAP, 0, v, buffer, setup, false);
    struct kernel *kernel = &f->plan->kernels.at[join];
    kernel->stores[kernel->store_count++] = (struct kernel_store){v, buffer, false};
    f->kernel_of[v] = join;
    return PHASOR_OK;
}

/* The base is put into the buffer first, unless it is there. Where it is in memory itself, others
 * find it there, and not in what the copy stores. */
static phasor_status scatter_store(struct fusion *f, value v, int buffer, bool setup)
{
    const value base = fusion_node(f, v)->arguments[0];
    const int kernel = f->kernel_of[base];
    if (f->plan->buffer_of[base] != buffer)
        TRY(kernel_add(f, KERNEL_MAP, 0, base, buffer, setup, f->plan->buffer_of[base] >= 0));
    f->kernel_of[base] = kernel;
    return kernel_add(f, KERNEL_SCATTER, v, v, buffer, setup, false);
}

static enum kernel_kind kernel_kind(const struct fusion *f, value v)
{
    return f->by_attention[v] ? KERNEL_ATTENTION : fusion_kind(fusion_node(f, v));
}

static phasor_status store(struct fusion *f, value v, int buffer)
{
    const bool setup = f->plan->buffers.at[buffer].kind == BUFFER_TABLE;
    const enum kernel_kind kind = f->by_library[v] ? KERNEL_LIBRARY : kernel_kind(f, v);
    if (fusion_count(f, v) == 0) {
        f->kernel_of[v] = -1;
        return PHASOR_OK;
    }
    if (kind == KERNEL_SCATTER)
        return scatter_store(f, v, buffer, setup);
    if (kind != KERNEL_MAP)
        return kernel_add(f, kind, v, v, buffer, setup, false);
    return map_store(f, v, buffer, setup);
}

static bool takes_in_readers(enum op op)
{
    return op_info[op].kind == KIND_REDUCE || op == OP_dot;
}

/* A reduction and what it takes in are one kernel, which stores the end of the chain. */
static void store_reduction(struct fusion *f, value v, value *stored_by, bool *taken)
{
    const value end = reduction_end(f, v, taken);
    if (end == v)
        return;
    f->kept[v] = false;
    f->kept[end] = true;
    stored_by[end] = v;
}

static phasor_status store_kept(struct fusion *f, value v, const value *stored_by,
                                const struct row_roots *rows)
{
    if (f->plan->buffer_of[v] < 0)
        TRY(place_inner(f, v));
    const int buffer = f->plan->buffer_of[v];
    const bool row = rows[v].count > 0;
    const value root = row ? rows[v].at[0] : stored_by[v];
    const enum kernel_kind kind = row ? KERNEL_ROW : kernel_kind(f, root);
    if (!stored_by[v] && !row)
        return store(f, v, buffer);
    if (fusion_count(f, v) == 0)
        return PHASOR_OK;
    TRY(kernel_add(f, kind, root, v, buffer, f->plan->buffers.at[buffer].kind == BUFFER_TABLE,
                   false));
    struct kernel *kernel = &f->plan->kernels.at[f->kernel_of[v]];
    kernel->root_count = rows[v].count;
    memcpy(kernel->roots, rows[v].at, sizeof kernel->roots);
    for (int i = 0; i < rows[v].shown_count; i++) {
        const value shown = rows[v].shown[i];
        kernel->stores[kernel->store_count++] =
            (struct kernel_store){shown, f->plan->buffer_of[shown], false};
        f->kernel_of[shown] = f->kernel_of[v];
    }
    return PHASOR_OK;
}

static phasor_status store_copies(struct fusion *f, const struct targets *copies)
{
    for (size_t i = 0; i < copies->list.count; i++) {
        const struct target *t = &copies->list.at[i];
        const int kernel = f->kernel_of[t->node];
        if (fusion_count(f, t->node) == 0)
            continue;
        TRY(kernel_add(f, KERNEL_MAP, 0, t->node, t->buffer, false, t->copy));
        f->kernel_of[t->node] = kernel;
    }
    return PHASOR_OK;
}

static phasor_status make_kernels(struct fusion *f, const struct targets *copies)
{
    value *stored_by = NEW(&f->plan->arena, value, f->graph->nodes.count);
    bool *taken = NEW(&f->plan->arena, bool, f->graph->nodes.count);
    struct row_roots *rows = NEW(&f->plan->arena, struct row_roots, f->graph->nodes.count);
    if (!stored_by || !taken || !rows)
        return fail_memory();
    TRY(row_choose(f, rows));
    for (value v = 1; v < f->graph->nodes.count; v++)
        if (f->live[v] && f->kept[v] && !f->by_library[v] &&
            takes_in_readers(fusion_node(f, v)->op))
            store_reduction(f, v, stored_by, taken);
    for (value v = 1; v < f->graph->nodes.count; v++)
        if (f->live[v] && f->kept[v])
            TRY(store_kept(f, v, stored_by, rows));
    return store_copies(f, copies);
}

static phasor_status fuse_all(struct fusion *f, struct targets *targets, struct targets *copies)
{
    TRY(keep_prepare(f));
    TRY(place_all(f, targets, copies));
    TRY(keep_choose(f));
    TRY(make_kernels(f, copies));
    return steps_make(f);
}

phasor_status plan_fuse(struct plan *plan, const struct call_shape *call,
                        const struct layout *layouts, const struct plan_options *options)
{
    const size_t count = plan->graph.nodes.count;
    struct fusion f = {.plan = plan,
                       .graph = &plan->graph,
                       .call = call,
                       .layouts = layouts,
                       .options = options,
                       .counts = NEW(&plan->arena, int64_t, count),
                       .live = NEW(&plan->arena, bool, count),
                       .setup = NEW(&plan->arena, bool, count),
                       .kept = NEW(&plan->arena, bool, count),
                       .target = NEW(&plan->arena, bool, count),
                       .cost = NEW(&plan->arena, int, count),
                       .length = NEW(&plan->arena, int, count),
                       .users = NEW(&plan->arena, int, count),
                       .kernel_of = NEW(&plan->arena, int, count),
                       .memory_of = NEW(&plan->arena, int, count)};
    struct targets targets = {0}, copies = {0};
    plan->buffer_of = NEW(&plan->arena, int, count);
    if (!f.counts || !f.live || !f.setup || !f.kept || !f.target || !f.cost || !f.length ||
        !f.users || !f.kernel_of || !f.memory_of || !plan->buffer_of)
        return fail_memory();
    memset(f.kernel_of, -1, count * sizeof *f.kernel_of);
    memset(f.memory_of, -1, count * sizeof *f.memory_of);
    memset(plan->buffer_of, -1, count * sizeof *plan->buffer_of);
    graph_mark_live(&plan->graph, f.live);
    const phasor_status status = fuse_all(&f, &targets, &copies);
    array_free(&targets.list);
    array_free(&copies.list);
    return status;
}
