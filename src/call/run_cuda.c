/* run_cuda.c - a call on a CUDA device.
 *
 *     host inputs up -> memory for outputs -> workspace -> launches -> workspace back -> host
 *         memory down -> handles
 *
 * A warm call of phasor_run_into with device tensors does the launches and nothing else: it copies
 * a few hundred bytes of arguments to the stack, puts in the addresses of this call, and launches.
 * All that can run out of memory comes before the first launch.
 */
#include "eval/strided.h"
#include "graph/element.h"
#include "call/output.h"
#include "specialise/specialise.h"
#include "call/workspace.h"

#include <stdlib.h>
#include <string.h>

enum { FRESH_SPACE = CALL_SLOTS };

struct cuda_call {
    struct call *call;
    struct specialisation *spec;
    struct phasor_state *state;
    struct device *device;
    void *stream;
    bool capturing;
    struct memory **fresh; /* this call's memories */
    struct memory *fresh_space[FRESH_SPACE];
    phasor_value *outputs; /* as they will be given to the caller */
    phasor_value output_space[CALL_SLOTS];
    char *work; /* of this call alone */
    struct workspace *workspace;
};

/* -- host memory ------------------------------------------------------------------------------- */

static size_t slot_bytes(const struct call_slot *slot)
{
    return (size_t)(slot->high - slot->low);
}

/* Device memory for a slot in host memory: the same bytes, gaps included, so that strides stay. */
static phasor_status slot_stage(const struct cuda_call *c, struct call_slot *slot, bool upload)
{
    void *base;
    slot->used = slot->bytes;
    if (!slot->host)
        return PHASOR_OK;
    slot->used = NULL;
    if (c->capturing)
        return fail(
            PHASOR_NOT_READY,
            "host memory cannot be read or written by what a stream captures; give device tensors");
    TRY(device_allocate(c->device, slot_bytes(slot), &base, c->stream));
    slot->used = (char *)base - slot->low;
    return upload ? device_upload(c->device, base, slot->bytes + slot->low, slot_bytes(slot),
                                  c->stream)
                  : PHASOR_OK;
}

static phasor_status slots_stage(const struct cuda_call *c)
{
    const struct phasor_program *program = c->call->program;
    for (int i = 0; i < program->input_count; i++)
        if (c->call->in[i].bytes)
            TRY(slot_stage(c, &c->call->in[i], true));
    for (int i = 0; c->call->form == CALL_INTO && i < program->output_count; i++)
        if (program->outputs[i].kind == PHASOR_TENSOR)
            TRY(slot_stage(c, &c->call->out[i], false));
    return PHASOR_OK;
}

static void slot_unstage(const struct cuda_call *c, struct call_slot *slot)
{
    if (slot->host && slot->used)
        device_free(c->device, slot->used + slot->low, c->stream);
}

static void slots_unstage(const struct cuda_call *c)
{
    const struct phasor_program *program = c->call->program;
    for (int i = 0; i < program->input_count; i++)
        slot_unstage(c, &c->call->in[i]);
    for (int i = 0; c->call->form == CALL_INTO && i < program->output_count; i++)
        slot_unstage(c, &c->call->out[i]);
}

/* Element by element: what lies in the gaps is not ours. */
static phasor_status slot_download(const struct cuda_call *c, const struct call_slot *slot,
                                   enum dtype dtype)
{
    const int rank = call_rank(c->call, slot);
    const size_t nbytes = slot_bytes(slot);
    if (nbytes == 0)
        return PHASOR_OK;
    struct strided to = strided_new(dtype, rank, call_sizes(c->call, slot), slot->bytes);
    const bool gapless = (size_t)strided_count(&to) * (size_t)dtype_size(dtype) == nbytes;
    if (gapless)
        return device_download(c->device, slot->bytes + slot->low, slot->used + slot->low, nbytes,
                               c->stream);
    char *copy = memory_new(nbytes);
    if (!copy)
        return fail_memory();
    phasor_status status =
        device_download(c->device, copy, slot->used + slot->low, nbytes, c->stream);
    if (status == PHASOR_OK)
        status = device_synchronize(c->device, c->stream);
    memcpy(to.strides, call_strides(c->call, slot), (size_t)rank * sizeof *to.strides);
    to.count = -1;
    struct strided from = to;
    from.bytes = copy - slot->low;
    if (status == PHASOR_OK)
        status = strided_copy(&to, &from);
    memory_free(copy);
    return status;
}

static phasor_status slots_download(const struct cuda_call *c)
{
    const struct phasor_program *program = c->call->program;
    for (int i = 0; i < program->input_count; i++)
        if (program->inputs[i].written && c->call->in[i].host)
            TRY(slot_download(c, &c->call->in[i], program->inputs[i].dtype));
    for (int i = 0; c->call->form == CALL_INTO && i < program->output_count; i++)
        if (program->outputs[i].kind == PHASOR_TENSOR && c->call->out[i].host)
            TRY(slot_download(c, &c->call->out[i], program->outputs[i].dtype));
    return PHASOR_OK;
}

/* -- outputs ----------------------------------------------------------------------------------- */

/* A number that was an input and is an output tensor: memory of its own. */
static phasor_status output_of_number(const struct cuda_call *c, const struct call_slot *in,
                                      struct output_tensor *tensor, struct memory **memory)
{
    TRY(memory_device(c->device, slot_bytes(in), c->stream, memory));
    tensor->data = (*memory)->bytes;
    return device_copy(c->device, tensor->data, in->used, slot_bytes(in), c->stream);
}

static phasor_status output_of_input(const struct cuda_call *c, int index,
                                     struct output_tensor *tensor, struct memory **memory)
{
    const DLTensor *input = value_tensor(&c->call->inputs[index]);
    if (!c->call->in[index].tensor)
        return output_of_number(c, &c->call->in[index], tensor, memory);
    tensor->data = input->data;
    tensor->byte_offset += (int64_t)input->byte_offset;
    tensor->device = input->device; /* a view of a host tensor is one */
    return PHASOR_OK;
}

static phasor_status output_of_weight(const struct cuda_call *c, int index,
                                      struct output_tensor *tensor, struct memory **memory)
{
    struct memory **weights;
    TRY(weights_get(c->call->program, &weights));
    if (index < 0 || !weights[index])
        return fail(PHASOR_ERROR_FILE, "the plan in the cache names value %d, which is no weight",
                    index);
    const struct data *data =
        graph_node(program_real(c->call->program), (value)index)->attributes.data;
    *memory = memory_retain(weights[index]);
    tensor->data = (*memory)->bytes;
    tensor->byte_offset += data->offset * dtype_size(data->dtype);
    return PHASOR_OK;
}

static phasor_status output_memory(const struct cuda_call *c, const struct plan_output *output,
                                   struct output_tensor *tensor, struct memory **memory)
{
    switch (output->memory) {
    case MEMORY_INPUT: return output_of_input(c, output->index, tensor, memory);
    case MEMORY_DATA: return output_of_weight(c, output->index, tensor, memory);
    case MEMORY_STATE:
        *memory = memory_retain(c->state->buffers[output->index]);
        tensor->data = (*memory)->bytes;
        tensor->byte_offset += c->state->addresses[output->index] - (*memory)->bytes;
        return PHASOR_OK;
    default:
        *memory = memory_retain(c->fresh[output->index]);
        tensor->data = (*memory)->bytes;
        return PHASOR_OK;
    }
}

/* The plan knows complex tensors as pairs: the slot is what the program calls it. */
static phasor_status output_handle(const struct cuda_call *c, const struct slot *slot,
                                   const struct plan_output *output, phasor_value *out)
{
    const bool pair = dtype_is_complex(slot->dtype);
    int64_t strides[RANK_MAX];
    struct memory *memory = NULL;
    struct output_tensor tensor = {.device = {kDLCUDA, device_ordinal(c->device)},
                                   .dtype = slot->dtype,
                                   .rank = output->rank - pair,
                                   .sizes = output->sizes,
                                   .strides = strides,
                                   .byte_offset = output->offset * dtype_size(output->dtype)};
    if (output->index < 0 || tensor.rank != slot->rank)
        return fail(PHASOR_ERROR_FILE, "the plan in the cache is of another program");
    for (int d = 0; d < tensor.rank; d++)
        strides[d] = output->strides[d] / (pair ? 2 : 1);
    phasor_status status = output_memory(c, output, &tensor, &memory);
    if (status == PHASOR_OK)
        status = output_new(&tensor, memory, &out->owned);
    memory_release(memory);
    out->kind = status == PHASOR_OK ? PHASOR_OWNED : PHASOR_NONE;
    return status;
}

static phasor_status output_prepare(const struct cuda_call *c, int i)
{
    const struct slot *slot = &c->call->program->outputs[i];
    const struct plan_output *output = &c->spec->recipe.outputs[i];
    if (slot->kind == PHASOR_TENSOR && c->call->form == CALL_OWNED)
        return output_handle(c, slot, output, &c->outputs[i]);
    if (slot->kind == PHASOR_TENSOR)
        c->outputs[i] = c->call->outputs[i];
    else if (slot->constant && slot->kind == PHASOR_NONE)
        c->outputs[i] = (phasor_value){.kind = PHASOR_NONE};
    else if (slot->constant)
        c->outputs[i] = slot->expected;
    else
        c->outputs[i] = (phasor_value){.kind = slot->kind, .integer = output->integer};
    return PHASOR_OK;
}

/* Numbers that the program computes are waited for: nobody could use them otherwise. */
static phasor_status output_number(const struct cuda_call *c, const struct slot *slot,
                                   const struct plan_output *output, phasor_value *out)
{
    const struct recipe_buffer *buffer = &c->spec->recipe.buffers[output->scalar_buffer];
    char bytes[16] = {0};
    if (buffer->kind != BUFFER_OUTPUT || dtype_size(slot->dtype) > (int)sizeof bytes ||
        buffer->nbytes < dtype_size(slot->dtype))
        return fail(PHASOR_ERROR_FILE, "the plan in the cache is of another program");
    TRY(device_download(c->device, bytes, c->fresh[buffer->index]->bytes + buffer->offset,
                        (size_t)dtype_size(slot->dtype), c->stream));
    TRY(device_synchronize(c->device, c->stream));
    const struct number number = element_load(slot->dtype, bytes);
    const bool integer = dtype_is_integer(slot->dtype);
    if (slot->kind == PHASOR_INT)
        out->integer = integer ? number.i : (int64_t)number.re;
    else if (slot->kind == PHASOR_BOOL)
        out->boolean = integer ? number.i != 0 : number.re != 0;
    else
        out->real = integer ? (double)number.i : number.re;
    return PHASOR_OK;
}

static phasor_status outputs_read(const struct cuda_call *c)
{
    for (int i = 0; i < c->call->program->output_count; i++)
        if (c->call->program->outputs[i].scalar && c->spec->recipe.outputs[i].scalar_buffer >= 0)
            TRY(output_number(c, &c->call->program->outputs[i], &c->spec->recipe.outputs[i],
                              &c->outputs[i]));
    return PHASOR_OK;
}

/* -- the steps --------------------------------------------------------------------------------- */

static phasor_status steps_issue(struct cuda_call *c)
{
    const struct step_memory memory = {.inputs = c->call->in,
                                       .outputs = c->call->out,
                                       .states = c->state->addresses,
                                       .fresh = c->fresh,
                                       .work = c->workspace ? c->workspace->memory->bytes : c->work,
                                       .flag = c->state->flag};
    const struct ready_step *steps = __atomic_load_n(&c->spec->steps, __ATOMIC_ACQUIRE);
    const phasor_status status =
        steps_run(c->device, c->stream, steps, c->spec->step_count, &memory);
    if (status == PHASOR_OK)
        count_up(&c->call->program->runtime->launches, (uint64_t)c->spec->launch_count);
    const phasor_status given = workspace_give(c->call->program, c->workspace, c->stream);
    c->workspace = NULL;
    return status != PHASOR_OK ? status : given;
}

/* -- the call ---------------------------------------------------------------------------------- */

static phasor_status work_take(struct cuda_call *c)
{
    if (c->call->form == CALL_INTO)
        return workspace_take(c->spec, c->stream, c->capturing, &c->workspace);
    void *work = NULL;
    if (c->spec->recipe.work_bytes)
        TRY(device_allocate(c->device, (size_t)c->spec->recipe.work_bytes, &work, c->stream));
    c->work = work;
    return PHASOR_OK;
}

static phasor_status fresh_make(struct cuda_call *c)
{
    const struct recipe *recipe = &c->spec->recipe;
    c->fresh = recipe->memory_count <= FRESH_SPACE
                   ? c->fresh_space
                   : memory_new((size_t)recipe->memory_count * sizeof *c->fresh);
    if (!c->fresh)
        return fail_memory();
    if (recipe->memory_count <= FRESH_SPACE)
        memset(c->fresh_space, 0, (size_t)recipe->memory_count * sizeof *c->fresh);
    if (c->capturing && recipe->memory_count)
        return fail(PHASOR_NOT_READY,
                    "the program returns a number that it computes; that cannot be captured");
    for (int i = 0; i < recipe->memory_count; i++)
        TRY(memory_device(c->device, (size_t)recipe->memories[i], c->stream, &c->fresh[i]));
    return PHASOR_OK;
}

static phasor_status outputs_prepare(struct cuda_call *c)
{
    const int count = c->call->program->output_count;
    c->outputs =
        count <= CALL_SLOTS ? c->output_space : memory_new((size_t)count * sizeof *c->outputs);
    if (!c->outputs)
        return fail_memory();
    for (int i = 0; i < count; i++)
        c->outputs[i].kind = PHASOR_NONE;
    for (int i = 0; i < count; i++)
        TRY(output_prepare(c, i));
    return PHASOR_OK;
}

static phasor_status cuda_call_run(struct cuda_call *c)
{
    TRY(call_check_in_place(c->call, c->spec->recipe.in_place, c->spec->recipe.in_place_count));
    TRY(fresh_make(c));
    TRY(slots_stage(c));
    TRY(outputs_prepare(c));
    TRY(work_take(c));
    TRY(steps_issue(c));
    TRY(slots_download(c));
    return outputs_read(c);
}

static void cuda_call_free(struct cuda_call *c, bool failed)
{
    const int count = c->call->program->output_count;
    if (failed && c->outputs && c->call->form == CALL_OWNED)
        outputs_drop(c->outputs, count);
    slots_unstage(c);
    device_free(c->device, c->work, c->stream);
    for (int i = 0; c->fresh && i < c->spec->recipe.memory_count; i++)
        memory_release(c->fresh[i]);
    if (c->fresh != c->fresh_space)
        memory_free(c->fresh);
    if (c->outputs != c->output_space)
        memory_free(c->outputs);
}

phasor_status cuda_run(struct call *call, struct specialisation *spec, struct phasor_state *state)
{
    struct cuda_call c;
    c.call = call;
    c.spec = spec;
    c.state = state;
    c.device = call->program->runtime->device;
    c.stream = call->stream;
    c.fresh = NULL;
    c.outputs = NULL;
    c.work = NULL;
    c.workspace = NULL;
    c.capturing = call->capturing;
    if (c.capturing) /* graphs hold the addresses of its kernels */
        flight_pin(&call->program->specialisations, &spec->flight);
    const phasor_status status = cuda_call_run(&c);
    if (status == PHASOR_OK)
        memcpy(call->outputs, c.outputs, (size_t)call->program->output_count * sizeof *c.outputs);
    cuda_call_free(&c, status != PHASOR_OK);
    return status;
}
