/* shapes.c - the buffers that a caller of phasor_run_into is expected to give, before they exist.
 *
 *     output y: f32[2, 3] strides [1, 2] in the plan of phasor_run
 *         ->   a call into f32[2, 3] strides [1, 2] without memory, aligned to 16 bytes
 *
 * So that what phasor_run_into needs can be compiled beforehand, like what phasor_run needs. */
#include "call/call.h"

#include <string.h>

void strides_close(int rank, const int64_t *sizes, const int64_t *order, int64_t *strides)
{
    bool taken[RANK_MAX] = {false};
    int64_t stride = 1;
    for (int k = 0; k < rank; k++) {
        int next = -1;
        for (int d = rank - 1; d >= 0; d--)
            if (!taken[d] && (next < 0 || order[d] < order[next]))
                next = d;
        if (next < 0)
            return;
        taken[next] = true;
        strides[next] = stride;
        stride *= sizes[next] > 1 ? sizes[next] : 1;
    }
}

/* A buffer for an output, without memory. */
struct imagined {
    DLTensor tensor;
    int64_t sizes[RANK_MAX], strides[RANK_MAX];
};

/* The plan's dims: a complex tensor has its pair. */
static void imagine(const struct slot *slot, const struct plan_output *output,
                    struct imagined *buffer, phasor_value *out)
{
    const int rank = output->rank - dtype_is_complex(slot->dtype);
    memcpy(buffer->sizes, output->sizes, (size_t)rank * sizeof *buffer->sizes);
    strides_close(rank, buffer->sizes, output->strides, buffer->strides);
    buffer->tensor = (DLTensor){.ndim = rank,
                                .dtype = dtype_to_dlpack(slot->dtype),
                                .shape = buffer->sizes,
                                .strides = buffer->strides};
    *out = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &buffer->tensor};
}

phasor_status call_read_into(struct call *call, struct phasor_program *program,
                             const phasor_value *inputs, int input_count,
                             const struct plan_output *outputs)
{
    const size_t count = (size_t)program->output_count;
    phasor_value *values = memory_new(count * sizeof *values);
    struct imagined *buffers = memory_new(count * sizeof *buffers);
    for (size_t i = 0; values && buffers && i < count; i++)
        if (program->outputs[i].kind == PHASOR_TENSOR)
            imagine(&program->outputs[i], &outputs[i], &buffers[i], &values[i]);
    call->words = call->word_space; /* call_free always */
    call->in = call->in_space;
    call->out = call->out_space;
    const phasor_status status =
        values && buffers
            ? call_read(call, program, CALL_SHAPES_INTO, inputs, input_count, values, (int)count)
            : fail_memory();
    call->outputs = NULL;
    memory_free(values);
    memory_free(buffers);
    return status;
}
