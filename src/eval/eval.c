/* eval.c - runs the nodes in their order; see eval.h. A value is freed as soon as its last reader
 * is done. */
#include "eval/eval.h"

#include "base/number.h"
#include "eval/parts.h"
#include "graph/element.h"

#include <inttypes.h>

static eval_function *const functions[OP_COUNT] = {
#define MAP(name, ...) [OP_##name] = eval_map,
#define REDUCE(name, ...) [OP_##name] = eval_reduce,
#define VIEW(name, ...) [OP_##name] = eval_##name,
#define LEAF(name, ...) [OP_##name] = eval_##name,
#define CORE(name, ...) [OP_##name] = eval_##name,
#include "graph/ops.def"
};

/* -- tensors ----------------------------------------------------------------------------------- */

int64_t eval_tensor_count(const struct eval_tensor *tensor)
{
    return eval_product(tensor, 0, tensor->rank);
}

void eval_tensor_free(struct eval_tensor *tensor)
{
    if (tensor->owned)
        memory_free(tensor->bytes);
    tensor->bytes = NULL;
    tensor->owned = false;
}

void eval_free(struct eval_results *results)
{
    for (size_t v = 0; v < results->count; v++)
        eval_tensor_free(&results->values[v]);
    memory_free(results->values);
    *results = (struct eval_results){0};
}

/* Bytes of a row-major tensor; negative when that is no size. */
static int64_t tensor_nbytes(const struct eval_tensor *tensor)
{
    int64_t nbytes = dtype_size(tensor->dtype);
    bool empty = false, overflow = false;
    for (int d = 0; d < tensor->rank; d++) {
        if (tensor->sizes[d] < 0)
            return -1;
        empty = empty || tensor->sizes[d] == 0;
        overflow = overflow ||
                   __builtin_mul_overflow(nbytes, tensor->sizes[d] ? tensor->sizes[d] : 1, &nbytes);
    }
    return overflow || nbytes > INT64_MAX / 2 ? -1 : empty ? 0 : nbytes;
}

/* A weight whose elements already lie in row-major order is used where it is. */
static bool tensor_borrow(const struct node *node, struct eval_tensor *out)
{
    const struct data *data = node->attributes.data;
    if (node->op != OP_data || !data_is_inside(data) || data_count(data) == 0)
        return false;
    const struct strided whole = strided_new(data->dtype, data->rank, data->sizes, NULL);
    for (int d = 0; d < data->rank; d++)
        if (data->sizes[d] != 1 && data->strides[d] != whole.strides[d])
            return false;
    out->bytes = (char *)data->storage->bytes + data->offset * dtype_size(data->dtype);
    return true;
}

/* -- nodes ------------------------------------------------------------------------------------- */

static phasor_status node_run(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    if (dtype_info[node->dtype].kind == DTC_NAMED && node->op != OP_unknown)
        return fail(PHASOR_ERROR_REFUSED, "the dtype %s cannot be computed with",
                    dtype_text(node->dtype));
    out->dtype = node->dtype;
    out->rank = node->rank;
    for (int d = 0; d < node->rank; d++)
        out->sizes[d] = eval_dim(eval, node->shape[d]);
    const int64_t nbytes = tensor_nbytes(out);
    if (nbytes < 0)
        return fail(PHASOR_ERROR_INPUT, "a size is negative, or too large");
    if (tensor_borrow(node, out))
        return PHASOR_OK;
    out->bytes = memory_new((size_t)nbytes);
    out->owned = true;
    return out->bytes ? functions[node->op](eval, node, out) : fail_memory();
}

static phasor_status node_fail(const struct node *node, phasor_status status)
{
    const struct origin *origin = node->origin;
    return fail_in(status, "%s (%s%s%s)", origin && origin->node ? origin->node : node->name,
                   origin && origin->target ? origin->target : op_info[node->op].name,
                   origin && origin->line ? ", " : "", origin && origin->line ? origin->line : "");
}

static void release_operands(struct eval *eval, const struct node *node, uint32_t *readers)
{
    for (int i = 0; i < node->argument_count; i++)
        if (--readers[node->arguments[i]] == 0)
            eval_tensor_free(&eval->values[node->arguments[i]]);
}

/* readers[v]: how often v is still needed, a wish of the caller included; 0: not at all. */
static phasor_status run_needed(struct eval *eval, uint32_t *readers)
{
    for (value v = 1; v < eval->graph->nodes.count; v++) {
        if (!readers[v])
            continue;
        const struct node *node = graph_node(eval->graph, v);
        const phasor_status status = node_run(eval, node, &eval->values[v]);
        if (status != PHASOR_OK)
            return node_fail(node, status);
        release_operands(eval, node, readers);
    }
    return PHASOR_OK;
}

/* From how often the caller wants each node to how often it is needed. Readers come after what they
 * read. */
static void count_readers(const struct graph *graph, uint32_t *readers)
{
    readers[0] = 0;
    for (size_t v = graph->nodes.count; v-- > 1;)
        for (int i = 0; readers[v] && i < graph->nodes.at[v].argument_count; i++)
            readers[graph->nodes.at[v].arguments[i]]++;
}

static phasor_status run(struct eval *eval, uint32_t *readers, struct eval_results *out,
                         bool *index_out_of_range)
{
    *out = (struct eval_results){.values = eval->values, .count = eval->graph->nodes.count};
    count_readers(eval->graph, readers);
    fenv_t host;
    arithmetic_enter(&host);
    const phasor_status status = run_needed(eval, readers);
    arithmetic_leave(&host);
    memory_free(readers);
    if (status != PHASOR_OK)
        eval_free(out);
    *index_out_of_range = eval->out_of_range;
    return status;
}

static phasor_status eval_start(struct eval *eval, uint32_t **readers, struct eval_results *out)
{
    const size_t count = eval->graph->nodes.count;
    *out = (struct eval_results){0};
    eval->values = memory_new(count * sizeof *eval->values);
    *readers = memory_new(count * sizeof **readers);
    if (eval->values && *readers)
        return PHASOR_OK;
    memory_free(eval->values);
    memory_free(*readers);
    return fail_memory();
}

/* -- entries ----------------------------------------------------------------------------------- */

phasor_status eval_graph(const struct graph *graph, const struct eval_options *options,
                         const struct eval_inputs *inputs, struct eval_results *out,
                         bool *index_out_of_range)
{
    struct eval eval = {.graph = graph, .options = options, .inputs = inputs};
    uint32_t *readers;
    TRY(eval_start(&eval, &readers, out));
    for (size_t i = 0; i < graph->outputs.count; i++)
        readers[graph->outputs.at[i].node]++;
    for (size_t i = 0; i < graph->inputs.count; i++)
        readers[graph->inputs.at[i].written]++;
    for (size_t i = 0; i < graph->buffers.count; i++)
        readers[graph->buffers.at[i].written]++;
    return run(&eval, readers, out, index_out_of_range);
}

phasor_status eval_values(const struct graph *graph, const struct eval_options *options,
                          const value *wanted, int count, struct eval_results *out,
                          bool *index_out_of_range)
{
    struct eval eval = {.graph = graph, .options = options};
    uint32_t *readers;
    TRY(eval_start(&eval, &readers, out));
    for (int i = 0; i < count; i++)
        readers[wanted[i]]++;
    return run(&eval, readers, out, index_out_of_range);
}

phasor_status eval_value(const struct graph *graph, const struct eval_options *options,
                         value wanted, struct eval_tensor *out, bool *index_out_of_range)
{
    struct eval_results results;
    *out = (struct eval_tensor){0};
    TRY(eval_values(graph, options, &wanted, 1, &results, index_out_of_range));
    *out = results.values[wanted];
    results.values[wanted] = (struct eval_tensor){0};
    eval_free(&results);
    return PHASOR_OK;
}
