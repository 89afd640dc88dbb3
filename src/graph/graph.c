/* graph.c - life and building of graphs; see graph.h. */
#include "graph/graph.h"

#include "base/hash.h"
#include "graph/infer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- life -------------------------------------------------------------------------------------- */

phasor_status graph_init(struct graph *graph, struct arena *arena, struct sizes *sizes,
                         const char *name)
{
    static const dim no_shape[1]; /* that of rank 0 is copied, too */
    *graph = (struct graph){.arena = arena, .sizes = sizes, .name = arena_string(arena, name)};
    if (!graph->name ||
        !array_push(&graph->nodes, (struct node){.op = OP_none, .shape = no_shape, .name = ""}))
        return fail_memory();
    return PHASOR_OK;
}

void graph_free(struct graph *graph)
{
    array_free(&graph->nodes);
    array_free(&graph->inputs);
    array_free(&graph->outputs);
    array_free(&graph->buffers);
    array_free(&graph->checks);
    array_free(&graph->claims);
    memory_free(graph->names);
    *graph = (struct graph){0};
}

/* Keeps the thread's present message with the status. */
static value graph_stick(struct graph *graph, phasor_status status)
{
    if (graph->status == PHASOR_OK) {
        graph->status = status;
        graph->message = arena_string(graph->arena, message_get());
    }
    return 0;
}

value graph_fail(struct graph *graph, phasor_status status, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return graph_stick(graph, fail(status, "%s", text));
}

phasor_status graph_status(struct graph *graph)
{
    if (graph->status != PHASOR_OK)
        return graph->message ? fail(graph->status, "%s", graph->message) : fail_memory();
    return sizes_status(graph->sizes);
}

/* -- names ------------------------------------------------------------------------------------- */

static size_t name_slot(const struct graph *graph, const char *name)
{
    size_t slot = (size_t)hash_bytes(name, strlen(name)).low & (graph->names_size - 1);
    while (graph->names[slot] && strcmp(graph->nodes.at[graph->names[slot] - 1].name, name) != 0)
        slot = (slot + 1) & (graph->names_size - 1);
    return slot;
}

static bool names_grow(struct graph *graph)
{
    if (graph->nodes.count * 2 < graph->names_size)
        return true;
    const size_t size = graph->names_size ? graph->names_size * 2 : 64;
    uint32_t *names = memory_new(size * sizeof *names);
    if (!names)
        return false;
    memory_free(graph->names);
    graph->names = names;
    graph->names_size = size;
    for (uint32_t v = 1; v < graph->nodes.count; v++)
        names[name_slot(graph, graph->nodes.at[v].name)] = v + 1;
    return true;
}

/* The given name, or one made from the operator's that no node has: "mul.17". */
static const char *node_name(struct graph *graph, enum op op, const char *name)
{
    if (name)
        return arena_string(graph->arena, name);
    for (size_t number = graph->nodes.count;; number++) {
        char made[64];
        snprintf(made, sizeof made, "%s.%zu", op_info[op].name, number);
        if (!graph->names[name_slot(graph, made)])
            return arena_string(graph->arena, made);
    }
}

/* -- adding ------------------------------------------------------------------------------------ */

/* The attribute lists in the arena; false when memory is out. */
static bool attributes_keep(struct graph *graph, struct attributes *at)
{
    if (at->axis_count)
        at->axes = arena_copy(graph->arena, at->axes, (size_t)at->axis_count * sizeof *at->axes);
    if (at->size_count)
        at->sizes = arena_copy(graph->arena, at->sizes, (size_t)at->size_count * sizeof *at->sizes);
    return (!at->axis_count || at->axes) && (!at->size_count || at->sizes);
}

static bool node_keep(struct graph *graph, struct node *node, const dim *shape, const char *name)
{
    if (node->argument_count)
        node->arguments = arena_copy(graph->arena, node->arguments,
                                     (size_t)node->argument_count * sizeof *node->arguments);
    node->shape = arena_copy(graph->arena, shape, (size_t)node->rank * sizeof *shape);
    node->name = names_grow(graph) ? node_name(graph, node->op, name) : NULL;
    return (!node->argument_count || node->arguments) && node->shape && node->name &&
           attributes_keep(graph, &node->attributes);
}

/* Those behind count and add bytes of tensors in 64 bits: a tensor that no memory could hold is
 * none. */
static bool bytes_fit(const struct graph *graph, const struct node *node, const dim *shape)
{
    int64_t nbytes = 4 * dtype_size(node->dtype);
    bool fits = true;
    for (int d = 0; d < node->rank; d++) {
        const int64_t size = size_value(graph->sizes, shape[d]);
        if (size == 0)
            return true;
        fits = fits && !__builtin_mul_overflow(nbytes, size, &nbytes);
    }
    return fits;
}

/* A scalar of an integer dtype wraps, as eager's literals do: -1 of u8 is 255. */
static struct number number_wrapped(enum dtype dtype, struct number number)
{
    const int unused = 64 - 8 * dtype_size(dtype);
    if (!dtype_is_integer(dtype) || dtype == DT_bool || unused <= 0)
        return number;
    const uint64_t high = (uint64_t)number.i << unused;
    number.i = dtype == DT_u8 ? (int64_t)(high >> unused) : (int64_t)high >> unused;
    number.re = (double)number.i;
    return number;
}

value graph_add(struct graph *graph, enum op op, enum dtype dtype, const value *arguments,
                int argument_count, const struct attributes *attributes, const char *name)
{
    if (graph->status != PHASOR_OK)
        return 0;
    struct node node = {.op = op,
                        .dtype = dtype,
                        .arguments = arguments,
                        .argument_count = argument_count,
                        .attributes = attributes ? *attributes : (struct attributes){0},
                        .origin = op_info[op].kind == KIND_LEAF ? NULL : graph->origin};
    if (op == OP_scalar)
        node.attributes.number = number_wrapped(dtype, node.attributes.number);
    for (int i = 0; i < argument_count; i++)
        if (arguments[i] == 0 || arguments[i] >= graph->nodes.count)
            return graph_fail(graph, PHASOR_ERROR_FILE, "%s: operand %d is no value",
                              name ? name : op_info[op].name, i);

    dim shape[RANK_MAX];
    const phasor_status status = infer_node(graph, &node, shape);
    if (graph->sizes->status ==
        PHASOR_ERROR_MEMORY) /* a size of 0 that stands for none misled it */
        return graph_stick(graph, fail_memory());
    if (status != PHASOR_OK)
        return graph_stick(graph, status);
    if (!bytes_fit(graph, &node, shape))
        return graph_fail(graph, PHASOR_ERROR_FILE,
                          "%s: the bytes of the tensor do not fit in 64 bits",
                          name ? name : op_info[op].name);
    if (!node_keep(graph, &node, shape, name) || !array_push(&graph->nodes, node))
        return graph_stick(graph, fail_memory());
    graph->names[name_slot(graph, node.name)] = (uint32_t)graph->nodes.count;
    return (value)graph->nodes.count - 1;
}

/* -- short forms ------------------------------------------------------------------------------- */

value graph_map1(struct graph *graph, enum op op, value a)
{
    return graph_add(graph, op, DT_bool, &a, 1, NULL, NULL);
}

value graph_map2(struct graph *graph, enum op op, value a, value b)
{
    return graph_add(graph, op, DT_bool, (value[]){a, b}, 2, NULL, NULL);
}

value graph_map3(struct graph *graph, enum op op, value a, value b, value c)
{
    return graph_add(graph, op, DT_bool, (value[]){a, b, c}, 3, NULL, NULL);
}

value graph_cast(struct graph *graph, value a, enum dtype dtype)
{
    if (graph_node(graph, a)->dtype == dtype)
        return a;
    return graph_add(graph, OP_cast, dtype, &a, 1, NULL, NULL);
}

value graph_scalar(struct graph *graph, enum dtype dtype, struct number number)
{
    return graph_add(graph, OP_scalar, dtype, NULL, 0, &(struct attributes){.number = number},
                     NULL);
}

value graph_float(struct graph *graph, enum dtype dtype, double number)
{
    const bool fits = number >= -9223372036854775808.0 && number < 9223372036854775808.0;
    return graph_scalar(graph, dtype,
                        (struct number){.i = fits ? (int64_t)number : 0, .re = number});
}

value graph_size(struct graph *graph, dim size)
{
    return graph_add(graph, OP_size, DT_i64, NULL, 0,
                     &(struct attributes){.sizes = &size, .size_count = 1}, NULL);
}

value graph_iota(struct graph *graph, dim size)
{
    return graph_add(graph, OP_iota, DT_i64, NULL, 0,
                     &(struct attributes){.sizes = &size, .size_count = 1}, NULL);
}

static bool has_shape(const struct graph *graph, value a, const dim *sizes, int rank)
{
    const struct node *n = graph_node(graph, a);
    return n->rank == rank &&
           (rank == 0 || memcmp(n->shape, sizes, (size_t)rank * sizeof *sizes) == 0);
}

static value view_with_sizes(struct graph *graph, enum op op, value a, const dim *sizes, int rank)
{
    if (has_shape(graph, a, sizes, rank))
        return a;
    return graph_add(graph, op, DT_bool, &a, 1,
                     &(struct attributes){.sizes = sizes, .size_count = rank}, NULL);
}

value graph_reshape(struct graph *graph, value a, const dim *sizes, int rank)
{
    return view_with_sizes(graph, OP_reshape, a, sizes, rank);
}

value graph_expand(struct graph *graph, value a, const dim *sizes, int rank)
{
    return view_with_sizes(graph, OP_expand, a, sizes, rank);
}

value graph_permute(struct graph *graph, value a, const int *axes)
{
    const struct attributes at = {.axes = axes, .axis_count = graph_node(graph, a)->rank};
    return graph_add(graph, OP_permute, DT_bool, &a, 1, &at, NULL);
}

value graph_transpose(struct graph *graph, value a, int axis0, int axis1)
{
    int axes[RANK_MAX];
    for (int d = 0; d < RANK_MAX; d++)
        axes[d] = d == axis0 ? axis1 : d == axis1 ? axis0 : d;
    return graph_permute(graph, a, axes);
}

value graph_slice(struct graph *graph, value a, int axis, dim start, dim length, int64_t step)
{
    const struct attributes at = {.axis = axis, .start = start, .length = length, .step = step};
    return graph_add(graph, OP_slice, DT_bool, &a, 1, &at, NULL);
}

value graph_select(struct graph *graph, value a, int axis, dim index)
{
    return graph_add(graph, OP_select, DT_bool, &a, 1,
                     &(struct attributes){.axis = axis, .start = index}, NULL);
}

value graph_unsqueeze(struct graph *graph, value a, int axis)
{
    const struct node *n = graph_node(graph, a);
    dim sizes[RANK_MAX + 1];
    if (n->rank == RANK_MAX || axis < 0 || axis > n->rank)
        return graph_fail(graph, PHASOR_ERROR_FILE, "unsqueeze %s: axis %d of rank %d", n->name,
                          axis, n->rank);
    for (int d = 0; d <= n->rank; d++)
        sizes[d] = d < axis ? n->shape[d] : d == axis ? 1 : n->shape[d - 1];
    return graph_reshape(graph, a, sizes, n->rank + 1);
}

value graph_squeeze(struct graph *graph, value a, int axis)
{
    const struct node *n = graph_node(graph, a);
    dim sizes[RANK_MAX];
    if (axis < 0 || axis >= n->rank)
        return graph_fail(graph, PHASOR_ERROR_FILE, "squeeze %s: axis %d of rank %d", n->name, axis,
                          n->rank);
    for (int d = 0; d < n->rank - 1; d++)
        sizes[d] = d < axis ? n->shape[d] : n->shape[d + 1];
    return graph_reshape(graph, a, sizes, n->rank - 1);
}

value graph_concat(struct graph *graph, const value *parts, int count, int axis)
{
    if (count == 0)
        return graph_fail(graph, PHASOR_ERROR_FILE, "concat: no parts");
    return graph_add(graph, OP_concat, DT_bool, parts, count, &(struct attributes){.axis = axis},
                     NULL);
}

value graph_reduce(struct graph *graph, enum op op, value a, const int *axes, int count, bool keep)
{
    const struct node *n = graph_node(graph, a);
    dim kept[RANK_MAX];
    const int rank = n->rank;
    memcpy(kept, n->shape, (size_t)rank * sizeof *kept);
    for (int i = 0; i < count; i++)
        if (axes[i] >= 0 && axes[i] < rank)
            kept[axes[i]] = 1;
    const value result = graph_add(graph, op, DT_bool, &a, 1,
                                   &(struct attributes){.axes = axes, .axis_count = count}, NULL);
    return keep ? graph_reshape(graph, result, kept, rank) : result;
}

dim graph_count(struct graph *graph, value v)
{
    dim count = 1;
    for (int d = 0; d < graph_node(graph, v)->rank; d++)
        count = size_mul(graph->sizes, count, graph_node(graph, v)->shape[d]);
    return count;
}

bool graph_same_shape(const struct graph *graph, value a, value b)
{
    if (graph_node(graph, a)->rank != graph_node(graph, b)->rank)
        return false;
    for (int d = 0; d < graph_node(graph, a)->rank; d++)
        if (graph_dim(graph, a, d) != graph_dim(graph, b, d))
            return false;
    return true;
}

/* -- copying ----------------------------------------------------------------------------------- */

value graph_copy_node(struct graph *to, const struct graph *from, value v, const value *map)
{
    const struct node *n = graph_node(from, v);
    value arguments[64], *operands = arguments;
    if (n->argument_count > 64)
        operands = NEW(to->arena, value, n->argument_count);
    if (!operands)
        return graph_stick(to, fail_memory());
    for (int i = 0; i < n->argument_count; i++)
        operands[i] = map[n->arguments[i]];
    const struct origin *before = to->origin;
    to->origin = n->origin;
    const value copy =
        graph_add(to, n->op, n->dtype, operands, n->argument_count, &n->attributes, n->name);
    to->origin = before;
    return copy;
}

phasor_status graph_copy_slots(struct graph *to, const struct graph *from, const value *map)
{
    for (size_t i = 0; i < from->inputs.count; i++) {
        struct graph_input input = from->inputs.at[i];
        input.node = map[input.node];
        input.written = map[input.written];
        if (!array_push(&to->inputs, input))
            return fail_memory();
    }
    for (size_t i = 0; i < from->outputs.count; i++) {
        struct graph_output output = from->outputs.at[i];
        output.node = map[output.node];
        if (!array_push(&to->outputs, output))
            return fail_memory();
    }
    /* Buffers may be there already: their OP_state nodes need them. */
    for (size_t i = 0; i < from->buffers.count; i++) {
        struct graph_buffer buffer = from->buffers.at[i];
        buffer.node = map[buffer.node];
        buffer.written = map[buffer.written];
        if (i < to->buffers.count)
            to->buffers.at[i] = buffer;
        else if (!array_push(&to->buffers, buffer))
            return fail_memory();
    }
    for (size_t i = 0; i < from->checks.count; i++)
        if (!array_push(&to->checks, from->checks.at[i]))
            return fail_memory();
    return PHASOR_OK;
}

/* Translates sizes of one pool to another. */
struct rebinding {
    struct graph *to;
    const struct sizes *from;
    const dim *replacement;
    dim *memo;
};

static dim rebind_size(const struct rebinding *r, dim d)
{
    return size_translate(r->to->sizes, r->from, d, r->replacement, r->memo);
}

static phasor_status rebind_node(const struct rebinding *r, const struct node *n)
{
    struct attributes at = n->attributes;
    dim *sizes = NEW(r->to->arena, dim, at.size_count);
    if (!sizes)
        return fail_memory();
    for (int i = 0; i < at.size_count; i++)
        sizes[i] = rebind_size(r, n->attributes.sizes[i]);
    at.sizes = sizes;
    at.start = rebind_size(r, at.start);
    at.length = rebind_size(r, at.length);
    r->to->origin = n->origin;
    graph_add(r->to, n->op, n->dtype, n->arguments, n->argument_count, &at, n->name);
    r->to->origin = NULL;
    return graph_status(r->to);
}

static void rebind_slots(const struct rebinding *r)
{
    struct graph *to = r->to;
    for (size_t i = 0; i < to->inputs.count; i++)
        to->inputs.at[i].size = rebind_size(r, to->inputs.at[i].size);
    for (size_t i = 0; i < to->outputs.count; i++)
        to->outputs.at[i].size = rebind_size(r, to->outputs.at[i].size);
    for (size_t i = 0; i < to->checks.count; i++)
        to->checks.at[i].condition = rebind_size(r, to->checks.at[i].condition);
}

static phasor_status rebind_all(const struct rebinding *r, const struct graph *from)
{
    for (size_t i = 0; i < from->buffers.count; i++)
        if (!array_push(&r->to->buffers, from->buffers.at[i]))
            return fail_memory();
    for (size_t v = 1; v < from->nodes.count; v++)
        TRY(rebind_node(r, &from->nodes.at[v]));
    value *same = memory_new(from->nodes.count * sizeof *same);
    if (!same)
        return fail_memory();
    for (size_t v = 0; v < from->nodes.count; v++)
        same[v] = (value)v;
    const phasor_status status = graph_copy_slots(r->to, from, same);
    memory_free(same);
    rebind_slots(r);
    return status;
}

phasor_status graph_rebind(struct graph *to, const struct graph *from, const dim *replacement)
{
    struct rebinding r = {to, from->sizes, replacement,
                          memory_new(from->sizes->nodes.count * sizeof(dim))};
    if (!r.memo)
        return fail_memory();
    phasor_status status = rebind_all(&r, from);
    if (status == PHASOR_OK)
        status = graph_status(to);
    memory_free(r.memo);
    return status;
}

bool graph_is_integer_input(const struct graph *graph, dim size)
{
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i].kind == PHASOR_INT && graph->inputs.at[i].size == size)
            return true;
    return false;
}

void graph_mark_live(const struct graph *graph, bool *live)
{
    memset(live, 0, graph->nodes.count * sizeof *live);
    for (size_t i = 0; i < graph->outputs.count; i++)
        live[graph->outputs.at[i].node] = true;
    for (size_t i = 0; i < graph->inputs.count; i++)
        live[graph->inputs.at[i].written] = true;
    for (size_t i = 0; i < graph->buffers.count; i++)
        live[graph->buffers.at[i].written] = true;
    for (size_t v = graph->nodes.count; v-- > 1;)
        for (int i = 0; live[v] && i < graph->nodes.at[v].argument_count; i++)
            live[graph->nodes.at[v].arguments[i]] = true;
    live[0] = false;
}
