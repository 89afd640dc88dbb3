/* weights.c - weights on the device: uploaded at the first call, once a storage, however many
 * tensors view it.
 *
 *     freqs.real and freqs.imag, two views of one storage   ->   one allocation, two addresses into
 *                                                                it
 */
#include "call/output.h"
#include "context/program.h"

#include <string.h>

/* An earlier value with the same memory. */
static struct memory *storage_find(const struct graph *graph, struct memory *const *weights,
                                   value v)
{
    const struct storage *storage = graph_node(graph, v)->attributes.data->storage;
    for (value earlier = 1; earlier < v; earlier++)
        if (weights[earlier] &&
            graph_node(graph, earlier)->attributes.data->storage->bytes == storage->bytes &&
            graph_node(graph, earlier)->attributes.data->storage->nbytes == storage->nbytes)
            return weights[earlier];
    return NULL;
}

static phasor_status weight_upload(struct device *device, const struct graph *graph,
                                   struct memory **weights, value v, void *stream)
{
    const struct storage *storage = graph_node(graph, v)->attributes.data->storage;
    weights[v] = memory_retain(storage_find(graph, weights, v));
    if (weights[v])
        return PHASOR_OK;
    TRY(memory_lasting(device, storage->nbytes, &weights[v]));
    return device_upload(device, weights[v]->bytes, storage->bytes, storage->nbytes, stream);
}

static void weights_drop(struct memory **weights, size_t count)
{
    for (size_t v = 0; weights && v < count; v++)
        memory_release(weights[v]);
    memory_free(weights);
}

static phasor_status weights_upload(struct device *device, const struct graph *graph,
                                    struct memory **weights, const bool *live)
{
    void *stream;
    phasor_status status = device_stream_new(device, &stream);
    if (status != PHASOR_OK)
        return status;
    for (value v = 1; status == PHASOR_OK && v < graph->nodes.count; v++)
        if (live[v] && graph_node(graph, v)->op == OP_data)
            status = weight_upload(device, graph, weights, v, stream);
    if (status == PHASOR_OK)
        status = device_synchronize(device, stream);
    device_stream_free(device, stream);
    return status;
}

static phasor_status weights_make(struct phasor_program *program, struct memory ***out)
{
    const struct graph *graph = program_real(program);
    const size_t count = graph->nodes.count;
    struct memory **weights = memory_new(count * sizeof *weights);
    bool *live = memory_new(count * sizeof *live);
    phasor_status status = weights && live ? PHASOR_OK : fail_memory();
    if (status == PHASOR_OK) {
        graph_mark_live(graph, live);
        status = weights_upload(program->runtime->device, graph, weights, live);
    }
    memory_free(live);
    if (status != PHASOR_OK)
        weights_drop(weights, count);
    else
        *out = weights;
    return status;
}

phasor_status weights_get(struct phasor_program *program, struct memory ***out)
{
    phasor_status status = PHASOR_OK;
    pthread_mutex_lock(&program->lock);
    if (!program->weights)
        status = weights_make(program, &program->weights);
    *out = program->weights;
    pthread_mutex_unlock(&program->lock);
    return status;
}

void weights_free(struct phasor_program *program)
{
    if (program->weights)
        weights_drop(program->weights, program_real(program)->nodes.count);
    program->weights = NULL;
}
