/* write.c - a graph as a file: x.phasor, and x.safetensors beside it with the constants that are
 * too large for text. */
#include "base/file.h"
#include "load/safetensors.h"
#include "context/program.h"

#include <string.h>

struct writer {
    struct arena arena;
    ARRAY(const char *) names;
    ARRAY(phasor_value) values;
};

static phasor_status writer_add(struct writer *writer, const struct data *data)
{
    if (!data || data_is_inline(data))
        return PHASOR_OK;
    for (size_t i = 0; i < writer->names.count; i++)
        if (strcmp(writer->names.at[i], data->name) == 0)
            return PHASOR_OK;
    DLTensor *tensor = NEW(&writer->arena, DLTensor, 1);
    if (!tensor)
        return fail_memory();
    *tensor =
        (DLTensor){.data = (char *)data->storage->bytes + data->offset * dtype_size(data->dtype),
                   .device = {kDLCPU, 0},
                   .ndim = data->rank,
                   .dtype = dtype_to_dlpack(data->dtype),
                   .shape = (int64_t *)data->sizes,
                   .strides = (int64_t *)data->strides};
    const phasor_value v = {.kind = PHASOR_TENSOR, .tensor = tensor};
    return array_push(&writer->names, data->name) && array_push(&writer->values, v) ? PHASOR_OK
                                                                                    : fail_memory();
}

static phasor_status writer_fill(struct writer *writer, const struct graph *graph)
{
    for (value v = 1; v < graph->nodes.count; v++)
        if (graph->nodes.at[v].op == OP_data)
            TRY(writer_add(writer, graph->nodes.at[v].attributes.data));
    for (size_t k = 0; k < graph->buffers.count; k++)
        TRY(writer_add(writer, graph->buffers.at[k].initial));
    return PHASOR_OK;
}

/* "dir/rope.phasor" -> "dir/rope.safetensors" */
static phasor_status weights_write(struct writer *writer, const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    const int length =
        dot && dot > (slash ? slash + 1 : path) ? (int)(dot - path) : (int)strlen(path);
    const char *beside = arena_format(&writer->arena, "%.*s.safetensors", length, path);
    if (!beside)
        return fail_memory();
    if (writer->names.count == 0)
        return PHASOR_OK;
    return tensors_write(beside, writer->names.at, writer->values.at, (int)writer->names.count);
}

phasor_status phasor_program_write(phasor_program *program, const char *stage, const char *path)
{
    NOT_NULL(program);
    NOT_NULL(stage);
    NOT_NULL(path);
    const bool loaded = strcmp(stage, "loaded") == 0;
    struct writer writer = {0};
    struct text text = {0};
    if (!loaded && strcmp(stage, "real") != 0)
        return fail(PHASOR_ERROR_USAGE,
                    "stage \"%s\" cannot be written as a program; loaded and real can", stage);
    const struct graph *graph = loaded ? program_logical(program) : program_real(program);
    phasor_status status = writer_fill(&writer, graph);
    if (status == PHASOR_OK)
        status = weights_write(&writer, path);
    if (status == PHASOR_OK) {
        graph_print(graph, &text);
        status = text_status(&text);
    }
    if (status == PHASOR_OK)
        status = file_write(path, text_get(&text), text.length);
    text_free(&text);
    array_free(&writer.names);
    array_free(&writer.values);
    arena_free(&writer.arena);
    return status;
}
