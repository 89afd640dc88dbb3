/* functional.c - tensors that alias and are written become values that are not; see loader.h.
 *
 *     y = x[..., 2:]     y: base x, view slice
 *     y.mul_(z)          x's value: insert(x, mul(slice(x), z)); x has been written once
 *     x.sum(), y         x's value; y's is out of date and is made anew: slice(x's value)
 *
 * Every tensor ends at a root, which owns memory and its newest value. A view's value holds for
 * one version of its root; when the root was written since, the view is made again. Writing a
 * view writes the value of its base with the part replaced, and so on up to the root. A new
 * alias operator needs a row in `writers`, or its writes are refused. */
#include "load/loader.h"

#include <string.h>

static struct loader_tensor *tensor_at(struct loader *loader, tensor t)
{
    return &loader->tensors.at[t];
}

static struct loader_tensor *root_of(struct loader *loader, tensor t)
{
    return tensor_at(loader, tensor_root(loader, t));
}

static tensor tensor_push(struct loader *loader, const struct loader_tensor *added)
{
    if ((loader->tensors.count == 0 && !array_push(&loader->tensors, (struct loader_tensor){0})) ||
        !array_push(&loader->tensors, *added))
        return (tensor)graph_fail(loader->graph, fail_memory(), "out of memory");
    return (tensor)loader->tensors.count - 1;
}

tensor tensor_new(struct loader *loader, value v)
{
    return tensor_push(loader, &(struct loader_tensor){.value = v});
}

tensor tensor_same(struct loader *loader, tensor t)
{
    (void)loader;
    return t;
}

/* Eager keeps a conjugated or negated tensor as a view with a mark: what is written to it changes
 * the tensor that it is of. */
static bool is_alias(const struct node *node)
{
    if (node->op == OP_index)
        return node->argument_count == 2;
    return node->argument_count == 1 &&
           (op_info[node->op].kind == KIND_VIEW || node->op == OP_conj || node->op == OP_neg);
}

bool tensor_has_mark(const struct loader *loader, tensor t)
{
    for (; t && t < loader->tensors.count; t = loader->tensors.at[t].base)
        if (op_info[loader->tensors.at[t].view].kind == KIND_MAP)
            return true;
    return false;
}

tensor tensor_root(const struct loader *loader, tensor t)
{
    while (t < loader->tensors.count && loader->tensors.at[t].base)
        t = loader->tensors.at[t].base;
    return t;
}

/* A conjugated or negated tensor lies as the one that it shows; the operators of the same names,
 * which compute, would leave no gaps. */
static void mark_keeps_strides(struct loader *loader, value v)
{
    const struct node *n = graph_node(loader->graph, v);
    if (v != 0 && op_info[n->op].kind == KIND_MAP)
        loader_layout_as(loader, n->arguments[0], v);
}

/* v may stand several views above the base: each gets a tensor. */
tensor tensor_view(struct loader *loader, tensor base, value v)
{
    if (loader->graph->status != PHASOR_OK || v == tensor_get(loader, base))
        return base;
    const struct node *node = graph_node(loader->graph, v);
    if (!is_alias(node))
        return (tensor)graph_fail(loader->graph, PHASOR_ERROR_FILE,
                                  "%s: %s is no view of its operand", loader->path, node->name);
    const struct attributes attributes = node->attributes;
    const enum op op = node->op;
    const value index = op == OP_index ? node->arguments[1] : 0;
    base = tensor_view(loader, base, node->arguments[0]);
    mark_keeps_strides(loader, v);
    return tensor_push(loader, &(struct loader_tensor){.base = base,
                                                       .view = op,
                                                       .attributes = attributes,
                                                       .index = index,
                                                       .value = v,
                                                       .version = root_of(loader, base)->writes});
}

/* Its value now, though nobody reads it. */
static value tensor_value(struct loader *loader, tensor t)
{
    struct graph *graph = loader->graph;
    struct loader_tensor *at = tensor_at(loader, t);
    if (at->base == 0 || at->version == root_of(loader, t)->writes)
        return at->value;
    const value base = tensor_value(loader, at->base);
    const struct origin *before = graph->origin;
    graph->origin = graph_node(graph, at->value)->origin;
    at->value = graph_add(graph, at->view, DT_bool, (value[]){base, at->index}, at->index ? 2 : 1,
                          &at->attributes, NULL);
    at->version = root_of(loader, t)->writes;
    graph->origin = before;
    mark_keeps_strides(loader, at->value);
    return at->value;
}

value tensor_get(struct loader *loader, tensor t)
{
    if (t == 0 || t >= loader->tensors.count)
        return 0;
    forks_read(loader, t);
    return tensor_value(loader, t);
}

/* -- writing ----------------------------------------------------------------------------------- */

/* The base's new value when its view gets the value `part`. 0: cannot be written through. */
typedef value write_function(struct graph *graph, value base, value part,
                             const struct attributes *view);

static value write_reshape(struct graph *graph, value base, value part,
                           const struct attributes *view)
{
    (void)view;
    return graph_reshape(graph, part, graph_node(graph, base)->shape,
                         graph_node(graph, base)->rank);
}

static value write_permute(struct graph *graph, value base, value part,
                           const struct attributes *view)
{
    int inverse[RANK_MAX] = {0};
    (void)base;
    for (int d = 0; d < view->axis_count; d++)
        inverse[view->axes[d]] = d;
    return graph_permute(graph, part, inverse);
}

/* Only where nothing was repeated: otherwise one element would be written many times. */
static value write_expand(struct graph *graph, value base, value part,
                          const struct attributes *view)
{
    if (size_value(graph->sizes, graph_count(graph, base)) !=
        size_value(graph->sizes, graph_count(graph, part)))
        return 0;
    return write_reshape(graph, base, part, view);
}

static value write_slice(struct graph *graph, value base, value part, const struct attributes *view)
{
    const struct attributes at = {.axis = view->axis, .start = view->start, .step = view->step};
    return graph_add(graph, OP_insert, DT_bool, (value[]){base, part}, 2, &at, NULL);
}

static value write_select(struct graph *graph, value base, value part,
                          const struct attributes *view)
{
    const struct attributes at = {.axis = view->axis, .start = view->start, .step = 1};
    part = graph_unsqueeze(graph, part, view->axis);
    return graph_add(graph, OP_insert, DT_bool, (value[]){base, part}, 2, &at, NULL);
}

static value write_diagonal(struct graph *graph, value base, value part,
                            const struct attributes *view)
{
    return graph_add(graph, OP_insert_diagonal, DT_bool, (value[]){base, part}, 2, view, NULL);
}

static value write_view_as_real(struct graph *graph, value base, value part,
                                const struct attributes *view)
{
    (void)base, (void)view;
    return graph_map1(graph, OP_view_as_complex, part);
}

static value write_view_as_complex(struct graph *graph, value base, value part,
                                   const struct attributes *view)
{
    (void)base, (void)view;
    return graph_map1(graph, OP_view_as_real, part);
}

static value write_real(struct graph *graph, value base, value part, const struct attributes *view)
{
    (void)view;
    return graph_map2(graph, OP_complex, part, graph_map1(graph, OP_imag, base));
}

static value write_imag(struct graph *graph, value base, value part, const struct attributes *view)
{
    (void)view;
    return graph_map2(graph, OP_complex, graph_map1(graph, OP_real, base), part);
}

static value write_conj(struct graph *graph, value base, value part, const struct attributes *view)
{
    (void)base, (void)view;
    return graph_map1(graph, OP_conj, part);
}

static value write_neg(struct graph *graph, value base, value part, const struct attributes *view)
{
    (void)base, (void)view;
    return graph_map1(graph, OP_neg, part);
}

static value pad_end(struct graph *graph, value v, int axis, dim more)
{
    dim sizes[2 * RANK_MAX] = {0};
    sizes[2 * axis + 1] = more;
    const struct attributes at = {.sizes = sizes, .size_count = 2 * graph_node(graph, v)->rank};
    return more == 0 ? v : graph_add(graph, OP_pad, DT_bool, &v, 1, &at, NULL);
}

/* Windows [n, .., length] side by side along the axis, each filled up to the step, then to the size
 * of the base. */
static value windows_joined(struct graph *graph, value base, value part,
                            const struct attributes *view)
{
    struct sizes *sizes = graph->sizes;
    const int rank = graph_node(graph, base)->rank, axis = view->axis;
    const dim step = size_literal(sizes, view->step);
    int order[RANK_MAX + 1];
    dim shape[RANK_MAX];
    for (int d = 0; d <= rank; d++)
        order[d] = d <= axis ? d : d == axis + 1 ? rank : d - 1;
    part = graph_permute(graph, part, order);
    part = pad_end(graph, part, axis + 1, size_sub(sizes, step, view->length));
    for (int d = 0; d < rank; d++)
        shape[d] = graph_node(graph, base)->shape[d];
    /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): axis is below the rank */
    const dim whole = shape[axis];
    shape[axis] = size_mul(sizes, graph_node(graph, part)->shape[axis], step);
    return pad_end(graph, graph_reshape(graph, part, shape, rank), axis,
                   size_sub(sizes, whole, shape[axis]));
}

/* Only where windows do not overlap. */
static value write_unfold(struct graph *graph, value base, value part,
                          const struct attributes *view)
{
    const int rank = graph_node(graph, base)->rank, axis = view->axis;
    if (rank + 1 > RANK_MAX || size_value(graph->sizes, view->length) > view->step)
        return 0;
    dim shape[RANK_MAX];
    const dim count = size_mul(graph->sizes, graph_node(graph, part)->shape[axis],
                               size_literal(graph->sizes, view->step));
    const value line = graph_iota(graph, graph_node(graph, base)->shape[axis]);
    const value at =
        graph_map2(graph, OP_remainder, line, graph_float(graph, DT_i64, (double)view->step));
    const value inside =
        graph_map2(graph, OP_bit_and, graph_map2(graph, OP_lt, at, graph_size(graph, view->length)),
                   graph_map2(graph, OP_lt, line, graph_size(graph, count)));
    for (int d = axis; d < rank; d++)
        shape[d - axis] = d == axis ? graph_node(graph, base)->shape[axis] : 1;
    return graph_map3(graph, OP_where, graph_reshape(graph, inside, shape, rank - axis),
                      windows_joined(graph, base, part, view), base);
}

static value write_contiguous(struct graph *graph, value base, value part,
                              const struct attributes *view)
{
    (void)graph, (void)base, (void)view;
    return part;
}

static write_function *const writers[OP_COUNT] = {
    [OP_reshape] = write_reshape,
    [OP_permute] = write_permute,
    [OP_expand] = write_expand,
    [OP_slice] = write_slice,
    [OP_select] = write_select,
    [OP_diagonal] = write_diagonal,
    [OP_view_as_real] = write_view_as_real,
    [OP_view_as_complex] = write_view_as_complex,
    [OP_real] = write_real,
    [OP_imag] = write_imag,
    [OP_contiguous] = write_contiguous,
    [OP_unfold] = write_unfold,
    [OP_conj] = write_conj,
    [OP_neg] = write_neg,
};

static void write_refuse(struct loader *loader, enum op view)
{
    const char *reason =
        arena_format(loader->graph->arena, "writes through a view (%s) whose elements share memory",
                     op_info[view].name);
    if (!reason ||
        !array_push(&loader->refusals, (struct loader_refusal){loader->graph->origin, reason}))
        graph_fail(loader->graph, fail_memory(), "out of memory");
}

/* Into the view's base, and so on up to the root. */
static void write_through(struct loader *loader, tensor t, value v)
{
    if (loader->graph->status != PHASOR_OK)
        return;
    const struct loader_tensor view = *tensor_at(loader, t);
    if (view.base == 0) {
        v = written_as(loader, view.value, v);
        struct loader_tensor *root = tensor_at(loader, t);
        root->value = v;
        root->version = ++root->writes;
        root->writer = loader->graph->origin;
        return;
    }
    const value base = tensor_value(loader, view.base);
    const value whole =
        view.index ? graph_add(loader->graph, OP_index_put, DT_bool, (value[]){base, v, view.index},
                               3, &view.attributes, NULL)
        : writers[view.view] ? writers[view.view](loader->graph, base, v, &view.attributes)
                             : 0;
    if (whole == 0) {
        if (loader->graph->status == PHASOR_OK)
            write_refuse(loader, view.view);
        return;
    }
    /* the view itself is made anew when it is read: it shares the root's memory */
    write_through(loader, view.base, whole);
}

void tensor_write(struct loader *loader, tensor t, value v)
{
    if (t == 0 || loader->graph->status != PHASOR_OK)
        return;
    forks_written(loader, t);
    write_through(loader, t, v);
}

/* -- the end of the program -------------------------------------------------------------------- */

static value data_find(const struct graph *graph, const struct data *data)
{
    for (size_t v = 1; v < graph->nodes.count; v++)
        if (graph->nodes.at[v].op == OP_data && graph->nodes.at[v].attributes.data == data)
            return (value)v;
    return 0;
}

/* A weight of other strides over the same memory would change too: refused. */
static phasor_status memory_check(struct loader *loader, const struct loader_tensor *root)
{
    for (size_t t = 1; t < loader->tensors.count; t++) {
        const struct data *other = loader->tensors.at[t].data;
        if (!other || other == root->data || other->storage != root->data->storage)
            continue;
        const char *reason =
            arena_format(loader->graph->arena, "writes into %s, whose memory the weight %s shares",
                         root->data->name, other->name);
        if (!reason ||
            !array_push(&loader->refusals, (struct loader_refusal){root->writer, reason}))
            return fail_memory();
        break;
    }
    return PHASOR_OK;
}

/* The OP_data of a written weight becomes the OP_state of a new buffer, in place: values keep
 * their numbers. */
static phasor_status weight_becomes_buffer(struct loader *loader, const struct loader_tensor *root)
{
    struct graph *graph = loader->graph;
    const value v = data_find(graph, root->data);
    const struct graph_buffer buffer = {.name = root->data->name,
                                        .initial = root->data,
                                        .node = v,
                                        .written = root->value,
                                        .writer = root->writer};
    TRY(memory_check(loader, root));
    if (v == 0)
        return fail(PHASOR_ERROR_FILE, "%s: the buffer %s is written but never made", loader->path,
                    root->data->name);
    if (!array_push(&graph->buffers, buffer))
        return fail_memory();
    graph->nodes.at[v].op = OP_state;
    graph->nodes.at[v].attributes =
        (struct attributes){.index = (int)graph->buffers.count - 1, .data = root->data};
    return PHASOR_OK;
}

phasor_status tensor_finish(struct loader *loader)
{
    struct graph *graph = loader->graph;
    TRY(forks_finish(loader));
    for (size_t t = 1; t < loader->tensors.count; t++) {
        const struct loader_tensor *root = &loader->tensors.at[t];
        if (root->base || root->writes == 0)
            continue;
        if (root->input) {
            graph->inputs.at[root->input - 1].written = root->value;
            graph->inputs.at[root->input - 1].writer = root->writer;
        } else if (root->buffer) {
            graph->buffers.at[root->buffer - 1].written = root->value;
            graph->buffers.at[root->buffer - 1].writer = root->writer;
        } else if (root->constant && root->data) {
            TRY(weight_becomes_buffer(loader, root));
        }
    }
    return graph_status(graph);
}
