/* place.c - memory that somebody outside sees: leaves, outputs, and what the call changes.
 *
 *     return y, y[1:], x       y: fresh memory, stored once; slot 1 shows it from an offset on;
 *                              slot 2 is the caller's x
 *     x.mul_(2)                stored over x while it is computed: each element is read by the
 *                              thread that writes it
 *     cache[:, pos] = k        stored into the cache; nothing of it is copied
 */
#include "plan/fusion.h"

#include <stdio.h>
#include <string.h>

/* -- buffers ----------------------------------------------------------------------------------- */

/* Dims as memory runs, largest stride first. A dim of size 1 has no place of its own: it stays
 * where it is. */
static void memory_order(const struct sizes *sizes, const struct node *n, const int64_t *strides,
                         int *order)
{
    for (int d = 0; d < n->rank; d++) {
        int at = d;
        while (at > 0 && size_value(sizes, n->shape[d]) != 1 &&
               strides[order[at - 1]] < strides[d]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = d;
    }
}

/* A stride that follows from no size: a symbol of its own, times the power of two that is known to
 * divide it. */
static dim stride_symbol(struct fusion *f, int64_t stride, int axis)
{
    enum { POWER_MOST = 16 };
    struct sizes *sizes = f->graph->sizes;
    char name[32];
    int64_t power = 1;
    while (!f->options->any && power < POWER_MOST && stride % (2 * power) == 0)
        power *= 2;
    snprintf(name, sizeof name, "stride%zu_%d", f->plan->buffers.count, axis);
    return size_mul(sizes, size_literal(sizes, power),
                    size_symbol(sizes, name, f->options->any ? 0 : 1, INT64_MAX, stride / power));
}

/* Of the caller's memory nothing is known: each dim has a stride of its own, in their order. */
static void any_strides(struct fusion *f, const struct node *n, const int64_t *strides,
                        struct buffer *buffer)
{
    struct sizes *sizes = f->graph->sizes;
    for (int d = 0; d < n->rank; d++) {
        const bool matters = size_value(sizes, n->shape[d]) > 1;
        const int64_t stride = matters ? strides[d] : 1;
        buffer->order[d] = d;
        buffer->strides[d] = n->shape[d] == 1 || stride < 0 ? size_literal(sizes, stride)
                                                            : stride_symbol(f, stride, d);
    }
}

static bool is_callers(const struct buffer *buffer)
{
    return buffer->kind == BUFFER_INPUT || buffer->kind == BUFFER_SLOT;
}

/* Strides as expressions: those without gaps follow from the sizes. In a plan of literals they are
 * literals too. */
static void buffer_strides(struct fusion *f, const struct node *n, const int64_t *strides,
                           struct buffer *buffer)
{
    struct sizes *sizes = f->graph->sizes;
    dim expected = 1;
    memory_order(sizes, n, strides, buffer->order);
    for (int k = n->rank - 1; k >= 0; k--) {
        const int d = buffer->order[k];
        const int64_t size = size_value(sizes, n->shape[d]);
        const bool fixed = strides[d] <= 1 || buffer->kind == BUFFER_DATA ||
                           buffer->kind == BUFFER_STATE || !f->options->generic;
        if (size > 1 && size_value(sizes, expected) != strides[d])
            expected = fixed ? size_literal(sizes, strides[d]) : stride_symbol(f, strides[d], d);
        buffer->strides[d] = f->options->generic ? expected : size_literal(sizes, strides[d]);
        expected = size_mul(sizes, expected, n->shape[d]);
    }
}

static phasor_status buffer_add(struct fusion *f, struct buffer buffer, value v,
                                const int64_t *strides, int *out)
{
    const struct node *n = fusion_node(f, v);
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
        last += (size - 1) * (strides[d] > 0 ? strides[d] : 0);
        empty |= size == 0;
    }
    if (f->options->any && is_callers(&buffer)) {
        any_strides(f, n, strides, &buffer);
        buffer.alignment = dtype_size(n->dtype);
    } else {
        buffer_strides(f, n, strides, &buffer);
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
    const struct node *n = fusion_node(f, v);
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
    const struct node *n = fusion_node(f, v);
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

/* Of the weights that show one storage, the one that starts first lends its pointer to all: their
 * loads can be merged. */
static void share_data(struct fusion *f, int buffer)
{
    struct buffer *b = &f->plan->buffers.at[buffer];
    const struct data *data = fusion_node(f, b->node)->attributes.data;
    int base = buffer;
    int64_t first = data->offset;
    for (int i = 0; i < (int)f->plan->buffers.count; i++) {
        const struct buffer *other = &f->plan->buffers.at[i];
        const struct data *there =
            other->kind == BUFFER_DATA ? fusion_node(f, other->node)->attributes.data : NULL;
        if (there && there->storage->id == data->storage->id && there->dtype == data->dtype &&
            there->offset < first) {
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
        if (f->live[v] && fusion_has_memory(f, v))
            TRY(leaf_buffer(f, v));
    for (int b = 0; b < (int)f->plan->buffers.count; b++)
        if (f->plan->buffers.at[b].kind == BUFFER_DATA)
            share_data(f, b);
    return PHASOR_OK;
}

/* -- outputs ----------------------------------------------------------------------------------- */

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
    const struct node *n = fusion_node(f, root);
    if (written_place(f, root, &out->memory, &out->index))
        return;
    out->memory = n->op == OP_input   ? MEMORY_INPUT
                  : n->op == OP_state ? MEMORY_STATE
                  : n->op == OP_data  ? MEMORY_DATA
                                      : MEMORY_FRESH;
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
static phasor_status fresh_memory(struct fusion *f, struct targets *targets, value v,
                                  const int64_t *strides, int *memory)
{
    int buffer;
    TRY(buffer_add(f, (struct buffer){.kind = BUFFER_OUTPUT, .alignment = 16}, v, strides,
                   &buffer));
    TRY(memory_add(f, f->plan->buffers.at[buffer].nbytes, memory));
    f->plan->buffers.at[buffer].index = *memory;
    return target_add(targets, v, buffer, false);
}

/* Phasor's own memory: the root of the output is stored once, the slot shows it. */
static phasor_status owned_output(struct fusion *f, struct targets *targets, value v,
                                  struct plan_output *out)
{
    const struct layout *layout = &f->layouts[v];
    const struct node *n = fusion_node(f, v);
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
        TRY(fresh_memory(f, targets, layout->root, f->layouts[layout->root].strides,
                         &f->memory_of[layout->root]));
    out->index = f->memory_of[layout->root];
    return PHASOR_OK;
}

static phasor_status caller_output(struct fusion *f, struct targets *targets, value v, int slot,
                                   struct plan_output *out)
{
    const struct call_tensor *tensor = &f->call->outputs[slot];
    int buffer;
    *out = (struct plan_output){
        .tensor = true, .memory = MEMORY_FRESH, .index = -1, .scalar_buffer = -1};
    memcpy(out->strides, tensor->strides, (size_t)fusion_node(f, v)->rank * sizeof *out->strides);
    TRY(buffer_add(
        f, (struct buffer){.kind = BUFFER_SLOT, .index = slot, .alignment = tensor->alignment}, v,
        tensor->strides, &buffer));
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
    const struct node *n = fusion_node(f, output->node);
    if (output->kind !=
        PHASOR_TENSOR) { /* a number that the program computes: read back by the runtime */
        const int64_t none[RANK_MAX] = {0};
        TRY(fresh_memory(f, targets, output->node, none, &out->index));
        out->scalar_buffer = (int)f->plan->buffers.count - 1;
        return PHASOR_OK;
    }
    out->tensor = true;
    TRY(f->call->outputs ? caller_output(f, targets, output->node, slot, out)
                         : owned_output(f, targets, output->node, out));
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

/* -- changes in place -------------------------------------------------------------------------- */

/* Whether `written` may be stored over `leaf` while it is computed: nobody else reads the leaf, and
 * each element is read by the thread that writes it (or the leaf is the base that a scatter writes
 * into). */
static bool in_place(const struct fusion *f, value leaf, value written)
{
    if (leaf == 0 || !f->live[leaf])
        return op_info[fusion_node(f, written)->op].kind == KIND_MAP ||
               op_info[fusion_node(f, written)->op].kind == KIND_VIEW;
    value v = leaf;
    while (v != written) {
        const value user = fusion_only_user(f, v);
        if (user == 0 || !graph_same_shape(f->graph, v, user))
            return false;
        const enum kernel_kind kind = fusion_kind(fusion_node(f, user));
        const bool base = (kind == KERNEL_SCATTER || kind == KERNEL_COLLECT) &&
                          fusion_node(f, user)->arguments[0] == v;
        if (base ? user != written : op_info[fusion_node(f, user)->op].kind != KIND_MAP)
            return false;
        v = user;
    }
    return true;
}

/* A change goes to its place directly where that is safe; otherwise it is computed aside and copied
 * at the end. */
static phasor_status change_target(struct fusion *f, struct targets *targets,
                                   struct targets *copies, value leaf, value written,
                                   struct buffer buffer, const int64_t *strides)
{
    int index = leaf && f->live[leaf] ? f->plan->buffer_of[leaf] : -1;
    if (written == leaf)
        return PHASOR_OK;
    if (fusion_has_memory(f, written)) {
        TRY(buffer_add(f, buffer, written, strides, &index));
        return target_add(copies, written, index, true);
    }
    if (in_place(f, leaf, written)) {
        if (index < 0)
            TRY(buffer_add(f, buffer, written, strides, &index));
        return target_add(targets, written, index, false);
    }
    TRY(buffer_add(f, buffer, written, strides, &index));
    f->kept[written] = f->target[written] = true; /* the copy reads it: nothing may take it in */
    return target_add(copies, written, index, true);
}

static phasor_status plan_changes(struct fusion *f, struct targets *targets, struct targets *copies)
{
    for (size_t i = 0; i < f->graph->buffers.count; i++) {
        const struct graph_buffer *b = &f->graph->buffers.at[i];
        const struct buffer buffer = {
            .kind = BUFFER_STATE, .index = (int)i, .alignment = data_alignment(b->initial)};
        if (b->written)
            TRY(change_target(f, targets, copies, b->node, b->written, buffer,
                              b->initial->strides));
    }
    for (size_t i = 0; i < f->graph->inputs.count; i++) {
        const struct graph_input *in = &f->graph->inputs.at[i];
        const struct call_tensor *tensor = &f->call->inputs[i];
        const struct buffer buffer = {
            .kind = BUFFER_INPUT, .index = (int)i, .alignment = tensor->alignment};
        if (in->written)
            TRY(change_target(f, targets, copies, in->node, in->written, buffer, tensor->strides));
    }
    return PHASOR_OK;
}

/* -- all of it --------------------------------------------------------------------------------- */

/* Targets give values their buffers; a second target of one value is a copy of its own. */
static phasor_status place_targets(struct fusion *f, const struct targets *targets,
                                   struct targets *copies)
{
    for (size_t i = 0; i < targets->list.count; i++) {
        const struct target *t = &targets->list.at[i];
        const bool aside = f->by_library[t->node] && !library_can_store(f, t->node, t->buffer);
        if (f->plan->buffer_of[t->node] < 0 && !fusion_is_leaf(f, t->node) && !aside) {
            f->plan->buffer_of[t->node] = t->buffer;
            f->target[t->node] = f->kept[t->node] = true;
        } else {
            TRY(target_add(copies, t->node, t->buffer,
                           !fusion_is_leaf(f, t->node) || fusion_has_memory(f, t->node)));
        }
    }
    return PHASOR_OK;
}

/* What is in memory of the call is there in a call alone: what depends on it is no table. */
static void unhoist(struct fusion *f)
{
    for (value v = 1; v < f->graph->nodes.count; v++) {
        const struct node *n = fusion_node(f, v);
        const int buffer = f->plan->buffer_of[v];
        f->setup[v] &= buffer < 0 || plan_buffer(f->plan, buffer)->kind == BUFFER_DATA;
        for (int i = 0; i < n->argument_count; i++)
            f->setup[v] &= f->setup[n->arguments[i]];
    }
}

phasor_status place_all(struct fusion *f, struct targets *targets, struct targets *copies)
{
    TRY(leaf_buffers(f));
    TRY(plan_changes(f, targets, copies));
    TRY(plan_outputs(f, targets));
    TRY(place_targets(f, targets, copies));
    unhoist(f);
    return PHASOR_OK;
}

/* Where a kept value that nobody outside sees goes. */
phasor_status place_inner(struct fusion *f, value v)
{
    int64_t strides[RANK_MAX];
    row_major(f, v, strides);
    const enum buffer_kind kind = f->setup[v] ? BUFFER_TABLE : BUFFER_WORK;
    return buffer_add(f, (struct buffer){.kind = kind, .alignment = 16}, v, strides,
                      &f->plan->buffer_of[v]);
}
