/* fuse.c - which values are kept in memory, and which kernel computes each of them.
 *
 *     %1 = reshape(x)   %2 = mul(%1, f)   %3 = reshape(%2)   %4 = cast(%3)      output %4: one kernel, nothing kept
 *
 * A value is kept (has a buffer) when
 *   - it is a leaf with memory, or what an output, a changed input or a changed buffer shows;
 *   - it has a kernel of its own kind: reductions, scans, scatters;
 *   - it is dear (sin, exp, ...) and is broadcast, read through a view that moves elements, or does not depend on the call;
 *   - the expression behind it has become too long.
 * Everything else is recomputed where it is read: it costs arithmetic, not memory.
 *
 * Kernels stand in the order in which they run. A kept value joins an earlier kernel of the same shape when all that it
 * reads is there by then. Values that depend on no input (setup) are computed once for a specialisation. */
#include "plan/plan.h"

#include <string.h>

enum { DEAR = 8, COST_MAX = 256 };

struct fusion {
    struct plan *plan;
    struct graph *graph;
    const struct call_shape *call;
    const struct layout *layouts;
    const struct plan_options *options;
    bool *live;
    bool *setup;      /* depends on no input and no state */
    bool *kept;       /* computed into memory by a kernel */
    bool *target;     /* kept because an output or a change shows it */
    int *cost;        /* of computing an element from what is kept */
    int *users;       /* live readers */
    int *kernel_of;   /* kept value -> its kernel; -1 */
    int *memory_of;   /* root -> index in plan->memories; -1 */
};

static const struct node *node_of(const struct fusion *f, value v)
{
    return graph_node(f->graph, v);
}

static int64_t count_of(const struct fusion *f, value v)
{
    return size_value(f->graph->sizes, graph_count(f->graph, v));
}

static bool is_leaf(const struct fusion *f, value v)
{
    return op_info[node_of(f, v)->op].kind == KIND_LEAF;
}

static bool has_memory(const struct fusion *f, value v)
{
    const enum op op = node_of(f, v)->op;
    return op == OP_input || op == OP_state || op == OP_data;
}

static bool is_scan(enum op op)
{
    return op == OP_cumsum || op == OP_cumprod;
}

static bool is_scatter(enum op op)
{
    return op == OP_index_put || op == OP_scatter;
}

/* Rows with a kernel of their own kind. */
static bool is_special(const struct fusion *f, value v)
{
    const enum op op = node_of(f, v)->op;
    return op_info[op].kind == KIND_REDUCE || is_scan(op) || is_scatter(op);
}

/* -- buffers --------------------------------------------------------------------------------------------------- */

static phasor_status buffer_add(struct fusion *f, struct buffer buffer, value v, const int64_t *strides, int *out)
{
    const struct node *n = node_of(f, v);
    struct sizes *sizes = f->graph->sizes;
    int64_t last = 0;
    buffer.node = v;
    buffer.dtype = n->dtype;
    buffer.rank = n->rank;
    buffer.first = buffer.last = -1;
    bool empty = false;
    for (int d = 0; d < n->rank; d++) {
        const int64_t size = size_value(sizes, n->shape[d]);
        buffer.sizes[d] = n->shape[d];
        buffer.strides[d] = size_literal(sizes, strides[d]);
        last += (size - 1) * (strides[d] > 0 ? strides[d] : 0);
        empty |= size == 0;
    }
    buffer.nbytes = empty ? 0 : (last + 1) * dtype_size(n->dtype);
    buffer.base = (int)f->plan->buffers.count;
    if (!array_push(&f->plan->buffers, buffer))
        return fail_memory();
    *out = buffer.base;
    return sizes_status(sizes);
}

static void row_major(const struct fusion *f, value v, int64_t *strides)
{
    const struct node *n = node_of(f, v);
    int64_t stride = 1;
    for (int d = n->rank - 1; d >= 0; d--) {
        const int64_t size = size_value(f->graph->sizes, n->shape[d]);
        strides[d] = stride;
        stride *= size > 1 ? size : 1;
    }
}

/* The alignment of the first element of a weight in memory that starts at 256 bytes. */
static int data_alignment(const struct data *data)
{
    const int64_t offset = data->offset * dtype_size(data->dtype);
    int alignment = 16;
    while (alignment > 1 && offset % alignment)
        alignment /= 2;
    return alignment;
}

static phasor_status leaf_buffer(struct fusion *f, value v)
{
    const struct node *n = node_of(f, v);
    struct buffer buffer = {.kind = BUFFER_DATA, .index = (int)v, .alignment = 16};
    if (n->op == OP_input) {
        buffer.kind = BUFFER_INPUT;
        buffer.index = n->attributes.index;
        buffer.alignment = f->call->inputs[n->attributes.index].alignment;
    } else if (n->op == OP_state) {
        buffer.kind = BUFFER_STATE;
        buffer.index = n->attributes.index;
        buffer.alignment = data_alignment(n->attributes.data);
    } else {
        buffer.alignment = data_alignment(n->attributes.data);
    }
    return buffer_add(f, buffer, v, f->layouts[v].strides, &f->plan->buffer_of[v]);
}

/* Of the weights that show one storage, the one that starts first lends its pointer to all: their loads can be merged. */
static void share_data(struct fusion *f, int buffer)
{
    struct buffer *b = &f->plan->buffers.at[buffer];
    const struct data *data = node_of(f, b->node)->attributes.data;
    int base = buffer;
    int64_t first = data->offset;
    for (int i = 0; i < (int)f->plan->buffers.count; i++) {
        const struct buffer *other = &f->plan->buffers.at[i];
        const struct data *there = other->kind == BUFFER_DATA ? node_of(f, other->node)->attributes.data : NULL;
        if (there && there->storage->id == data->storage->id && there->dtype == data->dtype && there->offset < first) {
            base = i;
            first = there->offset;
        }
    }
    b->base = base;
    b->base_offset = data->offset - first;
}

static phasor_status leaf_buffers(struct fusion *f)
{
    for (value v = 1; v < f->graph->nodes.count; v++)
        if (f->live[v] && has_memory(f, v))
            TRY(leaf_buffer(f, v));
    for (int b = 0; b < (int)f->plan->buffers.count; b++)
        if (f->plan->buffers.at[b].kind == BUFFER_DATA)
            share_data(f, b);
    return PHASOR_OK;
}

/* -- outputs --------------------------------------------------------------------------------------------------- */

/* One store that somebody outside sees. */
struct target {
    value node;
    int buffer;
    bool copy;
};

struct targets {
    ARRAY(struct target) list;
};

static phasor_status target_add(struct targets *targets, value v, int buffer, bool copy)
{
    return array_push(&targets->list, (struct target){v, buffer, copy}) ? PHASOR_OK : fail_memory();
}

/* The input or buffer that ends up holding root; false when none does. */
static bool written_place(const struct fusion *f, value root, enum memory_kind *kind, int *index)
{
    for (size_t i = 0; i < f->graph->inputs.count; i++)
        if (f->graph->inputs.at[i].written == root) {
            *kind = MEMORY_INPUT;
            *index = (int)i;
            return true;
        }
    for (size_t i = 0; i < f->graph->buffers.count; i++)
        if (f->graph->buffers.at[i].written == root) {
            *kind = MEMORY_STATE;
            *index = (int)i;
            return true;
        }
    return false;
}

static void output_place(const struct fusion *f, value root, struct plan_output *out)
{
    const struct node *n = node_of(f, root);
    if (written_place(f, root, &out->memory, &out->index))
        return;
    out->memory = n->op == OP_input ? MEMORY_INPUT : n->op == OP_state ? MEMORY_STATE : n->op == OP_data ? MEMORY_DATA : MEMORY_FRESH;
    out->index = n->op == OP_input || n->op == OP_state ? n->attributes.index : (int)root;
}

static phasor_status memory_add(struct fusion *f, int64_t nbytes, int *out)
{
    int64_t *memories = NEW(&f->plan->arena, int64_t, f->plan->memory_count + 1);
    if (!memories)
        return fail_memory();
    if (f->plan->memory_count)
        memcpy(memories, f->plan->memories, (size_t)f->plan->memory_count * sizeof *memories);
    memories[f->plan->memory_count] = nbytes;
    f->plan->memories = memories;
    *out = f->plan->memory_count++;
    return PHASOR_OK;
}

/* Fresh memory that holds v with these strides. */
static phasor_status fresh_memory(struct fusion *f, struct targets *targets, value v, const int64_t *strides, int *memory)
{
    int buffer;
    TRY(buffer_add(f, (struct buffer){.kind = BUFFER_OUTPUT, .alignment = 16}, v, strides, &buffer));
    TRY(memory_add(f, f->plan->buffers.at[buffer].nbytes, memory));
    f->plan->buffers.at[buffer].index = *memory;
    return target_add(targets, v, buffer, false);
}

/* Phasor's own memory: the root of the output is stored once, the slot shows it. */
static phasor_status owned_output(struct fusion *f, struct targets *targets, value v, struct plan_output *out)
{
    const struct layout *layout = &f->layouts[v];
    const struct node *n = node_of(f, v);
    output_place(f, layout->root, out);
    memcpy(out->strides, layout->strides, (size_t)n->rank * sizeof *out->strides);
    out->offset = layout->offset;
    if (out->memory == MEMORY_INPUT && f->options->own_outputs) {
        row_major(f, v, out->strides);
        out->memory = MEMORY_FRESH;
        out->offset = 0;
        return fresh_memory(f, targets, v, out->strides, &out->index);
    }
    if (out->memory != MEMORY_FRESH)
        return PHASOR_OK;
    if (f->memory_of[layout->root] < 0)
        TRY(fresh_memory(f, targets, layout->root, f->layouts[layout->root].strides, &f->memory_of[layout->root]));
    out->index = f->memory_of[layout->root];
    return PHASOR_OK;
}

static phasor_status caller_output(struct fusion *f, struct targets *targets, value v, int slot, struct plan_output *out)
{
    const struct call_tensor *tensor = &f->call->outputs[slot];
    int buffer;
    *out = (struct plan_output){.tensor = true, .memory = MEMORY_FRESH, .index = -1, .scalar_buffer = -1};
    memcpy(out->strides, tensor->strides, (size_t)node_of(f, v)->rank * sizeof *out->strides);
    TRY(buffer_add(f, (struct buffer){.kind = BUFFER_SLOT, .index = slot, .alignment = tensor->alignment}, v, tensor->strides, &buffer));
    return target_add(targets, v, buffer, false);
}

static phasor_status plan_one_output(struct fusion *f, struct targets *targets, int slot)
{
    const struct graph_output *output = &f->graph->outputs.at[slot];
    struct plan_output *out = &f->plan->outputs[slot];
    *out = (struct plan_output){.scalar_buffer = -1, .index = -1};
    if (output->kind == PHASOR_INT && !output->constant)
        out->integer = size_value(f->graph->sizes, output->size);
    if (output->node == 0)
        return PHASOR_OK;
    const struct node *n = node_of(f, output->node);
    if (output->kind != PHASOR_TENSOR) { /* a number that the program computes: read back by the runtime */
        const int64_t none[RANK_MAX] = {0};
        TRY(fresh_memory(f, targets, output->node, none, &out->index));
        out->scalar_buffer = (int)f->plan->buffers.count - 1;
        return PHASOR_OK;
    }
    out->tensor = true;
    TRY(f->call->outputs ? caller_output(f, targets, output->node, slot, out) : owned_output(f, targets, output->node, out));
    out->dtype = n->dtype;
    out->rank = n->rank;
    for (int d = 0; d < n->rank; d++)
        out->sizes[d] = size_value(f->graph->sizes, n->shape[d]);
    return PHASOR_OK;
}

static phasor_status plan_outputs(struct fusion *f, struct targets *targets)
{
    f->plan->output_count = (int)f->graph->outputs.count;
    f->plan->outputs = NEW(&f->plan->arena, struct plan_output, f->plan->output_count);
    if (!f->plan->outputs)
        return fail_memory();
    for (int i = 0; i < f->plan->output_count; i++)
        TRY(plan_one_output(f, targets, i));
    return PHASOR_OK;
}

/* -- changes in place ------------------------------------------------------------------------------------------ */

static value only_user(const struct fusion *f, value v)
{
    if (f->users[v] != 1)
        return 0;
    for (value user = v + 1; user < f->graph->nodes.count; user++)
        for (int i = 0; f->live[user] && i < node_of(f, user)->argument_count; i++)
            if (node_of(f, user)->arguments[i] == v)
                return user;
    return 0;
}

/* Whether `written` may be stored over `leaf` while it is computed: nobody else reads the leaf, and each element is read
 * by the thread that writes it (or the leaf is the base that a scatter writes into). */
static bool in_place(const struct fusion *f, value leaf, value written)
{
    if (leaf == 0 || !f->live[leaf])
        return op_info[node_of(f, written)->op].kind == KIND_MAP || op_info[node_of(f, written)->op].kind == KIND_VIEW;
    value v = leaf;
    while (v != written) {
        const value user = only_user(f, v);
        if (user == 0 || !graph_same_shape(f->graph, v, user))
            return false;
        const bool base = is_scatter(node_of(f, user)->op) && node_of(f, user)->arguments[0] == v;
        if (base ? user != written : op_info[node_of(f, user)->op].kind != KIND_MAP)
            return false;
        v = user;
    }
    return true;
}

/* A change goes to its place directly where that is safe; otherwise it is computed aside and copied at the end. */
static phasor_status change_target(struct fusion *f, struct targets *targets, struct targets *copies, value leaf, value written,
                                   struct buffer buffer, const int64_t *strides)
{
    int index = leaf && f->live[leaf] ? f->plan->buffer_of[leaf] : -1;
    if (written == leaf)
        return PHASOR_OK;
    if (has_memory(f, written)) {
        TRY(buffer_add(f, buffer, written, strides, &index));
        return target_add(copies, written, index, true);
    }
    if (in_place(f, leaf, written)) {
        if (index < 0)
            TRY(buffer_add(f, buffer, written, strides, &index));
        return target_add(targets, written, index, false);
    }
    TRY(buffer_add(f, buffer, written, strides, &index));
    f->kept[written] = true;
    return target_add(copies, written, index, true);
}

static phasor_status plan_changes(struct fusion *f, struct targets *targets, struct targets *copies)
{
    for (size_t i = 0; i < f->graph->buffers.count; i++) {
        const struct graph_buffer *b = &f->graph->buffers.at[i];
        const struct buffer buffer = {.kind = BUFFER_STATE, .index = (int)i, .alignment = data_alignment(b->initial)};
        if (b->written)
            TRY(change_target(f, targets, copies, b->node, b->written, buffer, b->initial->strides));
    }
    for (size_t i = 0; i < f->graph->inputs.count; i++) {
        const struct graph_input *in = &f->graph->inputs.at[i];
        const struct call_tensor *tensor = &f->call->inputs[i];
        const struct buffer buffer = {.kind = BUFFER_INPUT, .index = (int)i, .alignment = tensor->alignment};
        if (in->written)
            TRY(change_target(f, targets, copies, in->node, in->written, buffer, tensor->strides));
    }
    return PHASOR_OK;
}

/* -- what is kept ---------------------------------------------------------------------------------------------- */

static void find_setup(struct fusion *f)
{
    for (value v = 1; v < f->graph->nodes.count; v++) {
        const struct node *n = node_of(f, v);
        f->setup[v] = n->op != OP_input && n->op != OP_state;
        for (int i = 0; i < n->argument_count; i++)
            f->setup[v] &= f->setup[n->arguments[i]];
    }
}

static void count_users(struct fusion *f)
{
    for (value v = 1; v < f->graph->nodes.count; v++)
        for (int i = 0; f->live[v] && i < node_of(f, v)->argument_count; i++)
            f->users[node_of(f, v)->arguments[i]]++;
}

/* Through views that neither compute nor move: what is worth keeping is what they show. */
static value shown_by(const struct fusion *f, value v)
{
    while (op_info[node_of(f, v)->op].kind == KIND_VIEW && op_info[node_of(f, v)->op].memory != MEMORY_COPY)
        v = node_of(f, v)->arguments[0];
    return v;
}

static bool moves_elements(enum op op)
{
    return op_info[op].kind == KIND_VIEW && op_info[op].memory == MEMORY_COPY && op != OP_clone && op != OP_pair;
}

static bool grows(const struct fusion *f, value from, value to)
{
    return count_of(f, to) >= 2 * count_of(f, from);
}

/* Whether reading `operand` in `reader` is a reason to keep it. */
static bool worth_keeping(const struct fusion *f, value operand, value reader)
{
    const value shown = shown_by(f, operand);
    const bool broadcast = grows(f, operand, reader);
    const bool moved = moves_elements(node_of(f, reader)->op) && f->users[shown] > 1;
    const bool fixed = f->setup[operand] && !f->setup[reader];
    return f->cost[shown] >= DEAR && (broadcast || moved || fixed);
}

static void keep(struct fusion *f, value v)
{
    v = shown_by(f, v);
    if (!is_leaf(f, v))
        f->kept[v] = true;
}

/* Index operands and sources of special kernels are traced like any other; their result is kept. */
static void weigh(struct fusion *f, value v)
{
    const struct node *n = node_of(f, v);
    int64_t cost = op_info[n->op].kind == KIND_MAP ? op_info[n->op].cost : 0;
    for (int i = 0; i < n->argument_count; i++) {
        if (worth_keeping(f, n->arguments[i], v))
            keep(f, n->arguments[i]);
        const value shown = shown_by(f, n->arguments[i]);
        cost += f->kept[shown] || is_leaf(f, shown) ? 0 : f->cost[shown];
    }
    if (is_special(f, v) || cost > COST_MAX)
        f->kept[v] = true;
    f->cost[v] = cost > COST_MAX ? COST_MAX : (int)cost;
}

static phasor_status check_supported(const struct fusion *f, value v)
{
    const struct node *n = node_of(f, v);
    const bool core = op_info[n->op].kind == KIND_CORE && n->op != OP_index && n->op != OP_gather && !is_special(f, v);
    if (core || (is_scatter(n->op) && n->attributes.flag != 0))
        return fail(PHASOR_ERROR_REFUSED, "%s: %s has no GPU kernel yet; run with the CPU device", n->name,
                    n->origin ? n->origin->target : op_info[n->op].name);
    return PHASOR_OK;
}

static phasor_status choose_kept(struct fusion *f)
{
    for (value v = 1; v < f->graph->nodes.count; v++) {
        if (!f->live[v] || is_leaf(f, v))
            continue;
        TRY(check_supported(f, v));
        weigh(f, v);
    }
    return PHASOR_OK;
}

/* A reduction takes in the elementwise operators that follow it, as long as they are its only readers and no other
 * reduction has them. */
static value reduction_end(const struct fusion *f, value v, bool *taken)
{
    value end = v;
    for (;;) {
        const value user = f->target[end] || (end != v && f->kept[end]) ? 0 : only_user(f, end);
        if (user == 0 || taken[user] || op_info[node_of(f, user)->op].kind != KIND_MAP || !graph_same_shape(f->graph, user, v))
            return end;
        end = user;
        taken[end] = true;
    }
}

/* -- kernels --------------------------------------------------------------------------------------------------- */

/* The latest kernel that v needs; -1: none. Stops at what is kept. */
static int needed_kernel(const struct fusion *f, value v, bool *seen)
{
    int latest = -1;
    const struct node *n = node_of(f, v);
    for (int i = 0; i < n->argument_count; i++) {
        const value a = n->arguments[i];
        if (seen[a])
            continue;
        seen[a] = true;
        const int kernel = f->kernel_of[a] >= 0 ? f->kernel_of[a] : needed_kernel(f, a, seen);
        latest = kernel > latest ? kernel : latest;
    }
    return latest;
}

static phasor_status latest_needed(const struct fusion *f, value v, int *latest)
{
    bool *seen = memory_new(f->graph->nodes.count * sizeof *seen);
    if (!seen)
        return fail_memory();
    *latest = needed_kernel(f, v, seen);
    memory_free(seen);
    return PHASOR_OK;
}

/* Whether both buffers run through their dims in one order. */
static bool same_order(const struct fusion *f, int a, int b)
{
    const struct buffer *x = &f->plan->buffers.at[a], *y = &f->plan->buffers.at[b];
    const struct sizes *sizes = f->graph->sizes;
    for (int d = 0; d < x->rank; d++)
        for (int e = d + 1; e < x->rank; e++) {
            const bool x_first = size_value(sizes, x->strides[d]) >= size_value(sizes, x->strides[e]);
            const bool y_first = size_value(sizes, y->strides[d]) >= size_value(sizes, y->strides[e]);
            if (x_first != y_first && size_value(sizes, x->sizes[d]) > 1 && size_value(sizes, x->sizes[e]) > 1)
                return false;
        }
    return true;
}

static bool is_caller_memory(const struct fusion *f, int buffer)
{
    const enum buffer_kind kind = f->plan->buffers.at[buffer].kind;
    return kind == BUFFER_INPUT || kind == BUFFER_STATE;
}

/* An earlier kernel that can store v as well; -1: none. Changes in place stay alone: what is read before must be. */
static int kernel_to_join(const struct fusion *f, value v, int buffer, bool setup, int latest)
{
    if (is_caller_memory(f, buffer))
        return -1;
    for (int k = (int)f->plan->kernels.count - 1; k >= 0 && k >= latest; k--) {
        const struct kernel *kernel = &f->plan->kernels.at[k];
        if (kernel->kind == KERNEL_MAP && kernel->setup == setup && kernel->store_count < STORES_MAX &&
            !is_caller_memory(f, kernel->stores[0].buffer) && graph_same_shape(f->graph, kernel->stores[0].node, v) &&
            same_order(f, kernel->stores[0].buffer, buffer))
            return k;
    }
    return -1;
}

static phasor_status kernel_add(struct fusion *f, enum kernel_kind kind, value special, value v, int buffer, bool setup, bool copy)
{
    struct kernel kernel = {.kind = kind, .setup = setup, .special = special, .store_count = 1, .stores = {{v, buffer, copy}}};
    if (!array_push(&f->plan->kernels, kernel))
        return fail_memory();
    f->kernel_of[v] = (int)f->plan->kernels.count - 1;
    return PHASOR_OK;
}

static phasor_status map_store(struct fusion *f, value v, int buffer, bool setup)
{
    int latest;
    TRY(latest_needed(f, v, &latest));
    const int join = kernel_to_join(f, v, buffer, setup, latest);
    if (join < 0)
        return kernel_add(f, KERNEL_MAP, 0, v, buffer, setup, false);
    struct kernel *kernel = &f->plan->kernels.at[join];
    kernel->stores[kernel->store_count++] = (struct kernel_store){v, buffer, false};
    f->kernel_of[v] = join;
    return PHASOR_OK;
}

/* The base is put into the buffer first, unless it is there. */
static phasor_status scatter_store(struct fusion *f, value v, int buffer, bool setup)
{
    const value base = node_of(f, v)->arguments[0];
    if (f->plan->buffer_of[base] != buffer)
        TRY(kernel_add(f, KERNEL_MAP, 0, base, buffer, setup, f->plan->buffer_of[base] >= 0));
    return kernel_add(f, KERNEL_SCATTER, v, v, buffer, setup, false);
}

static phasor_status store(struct fusion *f, value v, int buffer)
{
    const bool setup = f->plan->buffers.at[buffer].kind == BUFFER_TABLE;
    const enum op op = node_of(f, v)->op;
    if (count_of(f, v) == 0) {
        f->kernel_of[v] = -1;
        return PHASOR_OK;
    }
    if (is_scatter(op))
        return scatter_store(f, v, buffer, setup);
    if (op_info[op].kind == KIND_REDUCE || is_scan(op))
        return kernel_add(f, is_scan(op) ? KERNEL_SCAN : KERNEL_REDUCE, v, v, buffer, setup, false);
    return map_store(f, v, buffer, setup);
}

/* Where a kept value that nobody outside sees goes. */
static phasor_status inner_buffer(struct fusion *f, value v)
{
    int64_t strides[RANK_MAX];
    row_major(f, v, strides);
    const enum buffer_kind kind = f->setup[v] ? BUFFER_TABLE : BUFFER_WORK;
    return buffer_add(f, (struct buffer){.kind = kind, .alignment = 16}, v, strides, &f->plan->buffer_of[v]);
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

static phasor_status store_kept(struct fusion *f, value v, const value *stored_by)
{
    if (f->plan->buffer_of[v] < 0)
        TRY(inner_buffer(f, v));
    const int buffer = f->plan->buffer_of[v];
    if (!stored_by[v])
        return store(f, v, buffer);
    if (count_of(f, v) == 0)
        return PHASOR_OK;
    return kernel_add(f, KERNEL_REDUCE, stored_by[v], v, buffer, f->plan->buffers.at[buffer].kind == BUFFER_TABLE, false);
}

/* Targets give values their buffers; a second target of one value is a copy of its own. */
static phasor_status place_targets(struct fusion *f, const struct targets *targets, struct targets *copies)
{
    for (size_t i = 0; i < targets->list.count; i++) {
        const struct target *t = &targets->list.at[i];
        if (f->plan->buffer_of[t->node] < 0 && !is_leaf(f, t->node)) {
            f->plan->buffer_of[t->node] = t->buffer;
            f->target[t->node] = f->kept[t->node] = true;
        } else {
            TRY(target_add(copies, t->node, t->buffer, !is_leaf(f, t->node) || has_memory(f, t->node)));
        }
    }
    return PHASOR_OK;
}

static phasor_status store_copies(struct fusion *f, const struct targets *copies)
{
    for (size_t i = 0; i < copies->list.count; i++) {
        const struct target *t = &copies->list.at[i];
        const int kernel = f->kernel_of[t->node];
        if (count_of(f, t->node) == 0)
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
    if (!stored_by || !taken)
        return fail_memory();
    for (value v = 1; v < f->graph->nodes.count; v++)
        if (f->live[v] && op_info[node_of(f, v)->op].kind == KIND_REDUCE)
            store_reduction(f, v, stored_by, taken);
    for (value v = 1; v < f->graph->nodes.count; v++)
        if (f->live[v] && f->kept[v])
            TRY(store_kept(f, v, stored_by));
    return store_copies(f, copies);
}

static phasor_status fuse_all(struct fusion *f, struct targets *targets, struct targets *copies)
{
    find_setup(f);
    count_users(f);
    TRY(leaf_buffers(f));
    TRY(plan_changes(f, targets, copies));
    TRY(plan_outputs(f, targets));
    TRY(place_targets(f, targets, copies));
    TRY(choose_kept(f));
    return make_kernels(f, copies);
}

phasor_status plan_fuse(struct plan *plan, const struct call_shape *call, const struct layout *layouts,
                        const struct plan_options *options)
{
    const size_t count = plan->graph.nodes.count;
    struct fusion f = {.plan = plan, .graph = &plan->graph, .call = call, .layouts = layouts, .options = options,
                       .live = NEW(&plan->arena, bool, count), .setup = NEW(&plan->arena, bool, count),
                       .kept = NEW(&plan->arena, bool, count), .target = NEW(&plan->arena, bool, count),
                       .cost = NEW(&plan->arena, int, count), .users = NEW(&plan->arena, int, count),
                       .kernel_of = NEW(&plan->arena, int, count), .memory_of = NEW(&plan->arena, int, count)};
    struct targets targets = {0}, copies = {0};
    plan->buffer_of = NEW(&plan->arena, int, count);
    if (!f.live || !f.setup || !f.kept || !f.target || !f.cost || !f.users || !f.kernel_of || !f.memory_of || !plan->buffer_of)
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
