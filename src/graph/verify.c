/* verify.c - does a graph hold what graph.h promises? One line says what is wrong.
 *
 *     %7 = mul(%3, %9)        "rope: node mul_1 (mul): operand 1 is no earlier value"
 *
 * Each node is inferred again from its operands and compared with what it says of itself. */
#include "base/verify.h"
#include "graph/element.h"
#include "graph/graph.h"
#include "graph/infer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static phasor_status verify_fail(const struct graph *graph, value v, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static phasor_status verify_fail(const struct graph *graph, value v, const char *format, ...)
{
    char what[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const struct node *n = graph_node(graph, v);
    const bool known = n->op < OP_COUNT;
    return fail(PHASOR_ERROR_FILE, "%s: node %s (%s): %s", graph->name,
                n->name ? n->name : "without a name", known ? op_info[n->op].name : "no operator",
                what);
}

/* For what is no node: an input, output, buffer or check. */
static phasor_status verify_fail_slot(const struct graph *graph, const char *what, size_t index,
                                      const char *name, const char *why)
{
    return fail(PHASOR_ERROR_FILE, "%s: %s %zu (%s): %s", graph->name, what, index,
                name ? name : "without a name", why);
}

/* -- nodes ------------------------------------------------------------------------------------- */

static bool size_exists(const struct graph *graph, dim d)
{
    return d < graph->sizes->nodes.count;
}

static phasor_status verify_data(const struct graph *graph, value v, const struct data *data)
{
    if (!data)
        return verify_fail(graph, v, "has no data");
    if (data->rank < 0 || data->rank > RANK_MAX)
        return verify_fail(graph, v, "data of rank %d; at most %d", data->rank, RANK_MAX);
    if (data->dtype >= DT_COUNT || !data_is_inside(data))
        return verify_fail(graph, v, "data '%s' reaches outside of its memory",
                           data->name ? data->name : "");
    return PHASOR_OK;
}

/* Lists and references are there, so that inference may look at them. */
static phasor_status verify_attributes(const struct graph *graph, value v)
{
    const struct node *n = graph_node(graph, v);
    const struct attributes *at = &n->attributes;
    if (at->axis_count < 0 || at->axis_count > RANK_MAX || (at->axis_count && !at->axes))
        return verify_fail(graph, v, "%d axes", at->axis_count);
    if (at->size_count < 0 || at->size_count > 2 * RANK_MAX || (at->size_count && !at->sizes))
        return verify_fail(graph, v, "%d sizes", at->size_count);
    for (int i = 0; i < at->size_count; i++)
        if (!size_exists(graph, at->sizes[i]))
            return verify_fail(graph, v, "size %d is not in the pool", i);
    if (!size_exists(graph, at->start) || !size_exists(graph, at->length))
        return verify_fail(graph, v, "start or length is not in the pool");
    if (strchr(op_info[n->op].attributes, 'd'))
        TRY(verify_data(graph, v, at->data));
    if (strchr(op_info[n->op].attributes, 't') && !at->text)
        return verify_fail(graph, v, "has no text");
    return PHASOR_OK;
}

static phasor_status verify_operands(const struct graph *graph, value v)
{
    const struct node *n = graph_node(graph, v);
    const struct op_info *info = &op_info[n->op];
    const bool some = info->kind != KIND_LEAF && n->op != OP_unknown;
    if (n->argument_count < 0 || (some && n->argument_count == 0) ||
        (info->arity && n->argument_count != info->arity) ||
        (info->kind == KIND_LEAF && n->argument_count != 0))
        return verify_fail(graph, v, "has %d operands", n->argument_count);
    if (n->argument_count && !n->arguments)
        return verify_fail(graph, v, "has no list of operands");
    for (int i = 0; i < n->argument_count; i++)
        if (n->arguments[i] == 0 || n->arguments[i] >= v)
            return verify_fail(graph, v, "operand %d is no earlier value", i);
    return PHASOR_OK;
}

/* Inputs and states belong to the slot that says so. */
static phasor_status verify_leaf(const struct graph *graph, value v)
{
    const struct node *n = graph_node(graph, v);
    const int index = n->attributes.index;
    const size_t count = n->op == OP_input ? graph->inputs.count : graph->buffers.count;
    if (index < 0 || (size_t)index >= count)
        return verify_fail(graph, v, "index %d; there are %zu", index, count);
    if ((n->op == OP_input ? graph->inputs.at[index].node : graph->buffers.at[index].node) != v)
        return verify_fail(graph, v, "slot %d has another node", index);
    return n->op == OP_state ? verify_data(graph, v, graph->buffers.at[index].initial) : PHASOR_OK;
}

static phasor_status verify_type(struct graph *graph, value v)
{
    const struct node *n = graph_node(graph, v);
    struct node again = *n;
    dim shape[RANK_MAX];
    if (infer_node(graph, &again, shape) != PHASOR_OK)
        return fail_in(PHASOR_ERROR_FILE, "%s: node %s (%s)", graph->name, n->name,
                       op_info[n->op].name);
    if (again.dtype == n->dtype && again.rank == n->rank &&
        memcmp(shape, n->shape, (size_t)n->rank * sizeof *shape) == 0)
        return PHASOR_OK;
    struct text has = {0}, wanted = {0};
    infer_print_type(graph, n->dtype, n->shape, n->rank, &has);
    infer_print_type(graph, again.dtype, shape, again.rank, &wanted);
    const phasor_status status =
        verify_fail(graph, v, "is %s, its operands make it %s", text_get(&has), text_get(&wanted));
    text_free(&has);
    text_free(&wanted);
    return status;
}

static phasor_status verify_node(struct graph *graph, value v)
{
    const struct node *n = graph_node(graph, v);
    if (n->op <= OP_none || n->op >= OP_COUNT)
        return verify_fail(graph, v, "operator number %d is none", (int)n->op);
    if (!n->name || !*n->name)
        return verify_fail(graph, v, "value %u has no name", v);
    if ((int)n->dtype < 0 || n->dtype >= DT_COUNT)
        return verify_fail(graph, v, "dtype number %d is none", (int)n->dtype);
    if (n->rank < 0 || n->rank > RANK_MAX || (n->rank && !n->shape))
        return verify_fail(graph, v, "rank %d; at most %d", n->rank, RANK_MAX);
    for (int d = 0; d < n->rank; d++)
        if (!size_exists(graph, n->shape[d]))
            return verify_fail(graph, v, "dim %d is not in the pool", d);
    TRY(verify_operands(graph, v));
    TRY(verify_attributes(graph, v));
    if (n->op == OP_input || n->op == OP_state)
        TRY(verify_leaf(graph, v));
    return verify_type(graph, v);
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static phasor_status verify_names(const struct graph *graph)
{
    const size_t count = graph->nodes.count - 1;
    const char **names = memory_new(count * sizeof *names);
    phasor_status status = names ? PHASOR_OK : fail_memory();
    if (!names)
        return status;
    for (size_t i = 0; i < count; i++)
        names[i] = graph->nodes.at[i + 1].name;
    qsort(names, count, sizeof *names, name_compare);
    for (size_t i = 1; i < count && status == PHASOR_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status =
                fail(PHASOR_ERROR_FILE, "%s: two nodes have the name %s", graph->name, names[i]);
    memory_free(names);
    return status;
}

/* -- slots ------------------------------------------------------------------------------------- */

static bool value_exists(const struct graph *graph, value v)
{
    return v > 0 && v < graph->nodes.count;
}

/* A number slot's node: 0-dim, bool or a float. */
static bool holds_number(const struct graph *graph, value v, phasor_kind kind)
{
    const struct node *n = graph_node(graph, v);
    return n->rank == 0 && (kind == PHASOR_BOOL ? n->dtype == DT_bool : dtype_is_float(n->dtype));
}

/* Why an input's or output's node or size does not suit its kind; NULL when it does. */
static const char *slot_trouble(const struct graph *graph, phasor_kind kind, value node, dim size,
                                bool constant, const phasor_value *expected)
{
    if (kind == PHASOR_OWNED || (int)kind < PHASOR_NONE || kind > PHASOR_STRING)
        return "no kind of a slot";
    if (kind == PHASOR_TENSOR)
        return constant                    ? "a tensor cannot be a constant"
               : value_exists(graph, node) ? NULL
                                           : "has no value";
    if (constant)
        return expected->kind == kind ? NULL : "its constant is of another kind";
    if (kind == PHASOR_INT)
        return size_exists(graph, size) ? NULL : "its size is not in the pool";
    if (kind != PHASOR_FLOAT && kind != PHASOR_BOOL)
        return NULL;
    if (!value_exists(graph, node))
        return "has no value";
    return holds_number(graph, node, kind) ? NULL : "its value is no 0-dim tensor of its kind";
}

/* Why `written` cannot be what the leaf's memory holds after the call; NULL when it can. */
static const char *write_trouble(const struct graph *graph, value leaf, value written)
{
    if (written == 0)
        return NULL;
    if (!value_exists(graph, written))
        return "what is written is no value";
    if (graph_node(graph, leaf)->dtype != graph_node(graph, written)->dtype ||
        !graph_same_shape(graph, leaf, written))
        return "what is written has another dtype or shape";
    return NULL;
}

static phasor_status verify_inputs(const struct graph *graph)
{
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const struct graph_input *in = &graph->inputs.at[i];
        const char *why =
            slot_trouble(graph, in->kind, in->node, in->size, in->constant, &in->expected);
        const struct node *n = graph_node(graph, value_exists(graph, in->node) ? in->node : 0);
        if (!why && in->node && (n->op != OP_input || n->attributes.index != (int)i))
            why = "its node is no input of that index";
        if (!why && in->written)
            why = in->kind == PHASOR_TENSOR ? write_trouble(graph, in->node, in->written)
                                            : "only tensors are written";
        if (why || !in->name)
            return verify_fail_slot(graph, "input", i, in->name, why ? why : "inputs have names");
    }
    return PHASOR_OK;
}

static phasor_status verify_outputs(const struct graph *graph)
{
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const struct graph_output *out = &graph->outputs.at[i];
        const char *why =
            slot_trouble(graph, out->kind, out->node, out->size, out->constant, &out->expected);
        if (why || !out->name)
            return verify_fail_slot(graph, "output", i, out->name,
                                    why ? why : "outputs have names");
    }
    return PHASOR_OK;
}

static phasor_status verify_buffers(const struct graph *graph)
{
    for (size_t i = 0; i < graph->buffers.count; i++) {
        const struct graph_buffer *buffer = &graph->buffers.at[i];
        const struct node *n =
            graph_node(graph, value_exists(graph, buffer->node) ? buffer->node : 0);
        const char *why = NULL;
        if (n->op != OP_state || n->attributes.index != (int)i)
            why = "its node is no state of that index";
        else
            why = write_trouble(graph, buffer->node, buffer->written);
        if (why || !buffer->name)
            return verify_fail_slot(graph, "buffer", i, buffer->name,
                                    why ? why : "buffers have names");
    }
    return PHASOR_OK;
}

phasor_status graph_verify(struct graph *graph)
{
    TRY(graph_status(graph));
    if (graph->nodes.count == 0)
        return fail(PHASOR_ERROR_FILE, "%s: the graph was not initialised",
                    graph->name ? graph->name : "");
    for (size_t v = 1; v < graph->nodes.count; v++)
        TRY(verify_node(graph, (value)v));
    TRY(verify_names(graph));
    TRY(verify_inputs(graph));
    TRY(verify_outputs(graph));
    TRY(verify_buffers(graph));
    for (size_t i = 0; i < graph->checks.count; i++)
        if (!size_exists(graph, graph->checks.at[i].condition))
            return verify_fail_slot(graph, "check", i, graph->checks.at[i].message,
                                    "its size is not in the pool");
    return PHASOR_OK;
}

phasor_status graph_verify_after(struct graph *graph, const char *pass)
{
    if (!verify_is_wanted())
        return PHASOR_OK;
    TRY(graph_status(graph)); /* what a file or a call can cause is no fault */
    const phasor_status status = graph_verify(graph);
    TRY(graph_status(graph));
    return verify_result(status, pass);
}
