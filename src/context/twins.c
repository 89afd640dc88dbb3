/* twins.c - see twins.h. The tensors of a call -> the runtime and the program of their device.
 *
 *     inputs q on cuda:1, k on cuda:1   ->   twins[1], by one atomic load; made when it is NULL
 */
#include "context/twins.h"

#include "call/call.h"
/* -- runtimes ---------------------------------------------------------------------------------- */

phasor_status runtime_twins_open(struct phasor_runtime *first)
{
    int count;
    if (!first->device || !first->device_is_default)
        return PHASOR_OK;
    TRY(device_count(&count));
    if (count < 2)
        return PHASOR_OK;
    first->twins = NEW(&first->arena, struct phasor_runtime *, count);
    if (!first->twins)
        return fail_memory();
    first->device_count = count;
    first->twins[device_ordinal(first->device)] = first;
    return PHASOR_OK;
}

static void runtime_twin_close(struct phasor_runtime *twin)
{
    runtime_close_device(twin);
    arena_free(&twin->arena);
    memory_free(twin);
}

void runtime_twins_close(struct phasor_runtime *first)
{
    for (int i = 0; first->twins && i < first->device_count; i++)
        if (first->twins[i] && first->twins[i] != first)
            runtime_twin_close(first->twins[i]);
    first->twins = NULL;
}

/* The arch that the options name is that of the first device. */
static phasor_status runtime_twin_new(struct phasor_runtime *first, int ordinal,
                                      struct phasor_runtime **out)
{
    struct phasor_runtime *twin = memory_new(sizeof *twin);
    if (!twin)
        return fail_memory();
    twin->first = first;
    twin->options = first->options;
    twin->options.arch = NULL;
    twin->device_kind = first->device_kind;
    twin->device_is_default = first->device_is_default;
    twin->cache = first->cache;
    twin->templates = first->templates;
    pthread_mutex_init(&twin->retired_lock, NULL);
    phasor_status status = device_open(ordinal, &twin->device);
    if (status == PHASOR_OK)
        status = runtime_open_names(twin);
    if (status == PHASOR_OK)
        *out = twin;
    else
        runtime_twin_close(twin);
    return status;
}

/* With the lock held. */
static phasor_status runtime_twin_get(struct phasor_runtime *first, int ordinal,
                                      struct phasor_runtime **out)
{
    struct phasor_runtime *twin = first->twins[ordinal];
    if (!twin) {
        TRY(runtime_twin_new(first, ordinal, &twin));
        __atomic_store_n(&first->twins[ordinal], twin, __ATOMIC_RELEASE);
    }
    *out = twin;
    return PHASOR_OK;
}

static bool has_device(const struct phasor_runtime *first, int ordinal)
{
    return ordinal >= 0 && ordinal < first->device_count;
}

phasor_status runtime_for(struct phasor_runtime *first, const DLTensor *tensor,
                          struct phasor_runtime **out)
{
    *out = first;
    if (tensor->device.device_type != kDLCUDA || !has_device(first, tensor->device.device_id))
        return PHASOR_OK;
    pthread_mutex_lock(&first->twins_lock);
    const phasor_status status = runtime_twin_get(first, tensor->device.device_id, out);
    pthread_mutex_unlock(&first->twins_lock);
    return status;
}

/* -- programs ---------------------------------------------------------------------------------- */

phasor_status program_twins_open(struct phasor_program *first)
{
    const struct phasor_runtime *runtime = first->runtime;
    if (!runtime->twins || !first->on_cuda)
        return PHASOR_OK;
    first->twins = NEW(&first->file->loaded.arena, struct phasor_program *, runtime->device_count);
    if (!first->twins)
        return fail_memory();
    first->twins[device_ordinal(runtime->device)] = first;
    return PHASOR_OK;
}

void program_twins_close(struct phasor_program *first)
{
    for (int i = 0; first->twins && i < first->runtime->device_count; i++)
        if (first->twins[i] && first->twins[i] != first)
            phasor_program_close(first->twins[i]);
    first->twins = NULL;
}

/* All that was made of the file is read and never written after loading. */
static phasor_status program_twin_new(struct phasor_program *first, struct phasor_runtime *runtime,
                                      struct phasor_program **out)
{
    struct phasor_program *twin = memory_new(sizeof *twin);
    if (!twin)
        return fail_memory();
    *twin = (struct phasor_program){.first = first,
                                    .runtime = runtime,
                                    .file = first->file,
                                    .id = first->id,
                                    .rewritten = first->rewritten,
                                    .on_cuda = first->on_cuda,
                                    .inputs = first->inputs,
                                    .outputs = first->outputs,
                                    .input_specs = first->input_specs,
                                    .output_specs = first->output_specs,
                                    .input_count = first->input_count,
                                    .output_count = first->output_count,
                                    .canonical = first->canonical,
                                    .canonical_size = first->canonical_size,
                                    .canonical_hash = first->canonical_hash};
    __atomic_add_fetch(&twin->file->references, 1, __ATOMIC_RELAXED);
    program_open_locks(twin);
    const phasor_status status = program_open_table(twin);
    if (status == PHASOR_OK)
        *out = twin;
    else
        phasor_program_close(twin);
    return status;
}

/* With the lock held. */
static phasor_status program_twin_get(struct phasor_program *first, int ordinal,
                                      struct phasor_program **out)
{
    struct phasor_runtime *runtime;
    struct phasor_program *twin = first->twins[ordinal];
    if (!twin) {
        TRY(runtime_twin_get(first->runtime, ordinal, &runtime));
        TRY(program_twin_new(first, runtime, &twin));
        __atomic_store_n(&first->twins[ordinal], twin, __ATOMIC_RELEASE);
    }
    *out = twin;
    return PHASOR_OK;
}

/* Opening a device allocates and waits, which a stream that captures does not bear. */
static phasor_status program_twin_make(struct phasor_program *first, int ordinal, void *stream,
                                       struct phasor_program **out)
{
    struct phasor_runtime *runtime = first->runtime;
    if (device_stream_is_capturing(runtime->device, stream))
        return fail(PHASOR_NOT_READY,
                    "%s has not run on CUDA device %d, and the stream is capturing: run it once "
                    "before",
                    program_logical(first)->name, ordinal);
    pthread_mutex_lock(&runtime->twins_lock);
    const phasor_status status = program_twin_get(first, ordinal, out);
    pthread_mutex_unlock(&runtime->twins_lock);
    return status;
}

/* -- the device of a call ---------------------------------------------------------------------- */

/* Of the first CUDA tensor; -1: none is. */
static int values_ordinal(const phasor_value *values, int count)
{
    for (int i = 0; i < count; i++) {
        const DLTensor *t = value_tensor(&values[i]);
        if (t && t->device.device_type == kDLCUDA)
            return t->device.device_id;
    }
    return -1;
}

phasor_status program_for(struct phasor_program *first, const struct phasor_state *state,
                          const phasor_value *inputs, int input_count, const phasor_value *outputs,
                          int output_count, void *stream, struct phasor_program **out)
{
    int ordinal = values_ordinal(inputs, input_count);
    if (ordinal < 0)
        ordinal = values_ordinal(outputs, output_count);
    *out = first;
    if (ordinal < 0 && state && state->owner == first && state->program)
        *out = state->program;
    if (!has_device(first->runtime, ordinal)) /* none is given, or call_read says what is wrong */
        return PHASOR_OK;
    *out = program_twin(first, ordinal);
    return *out ? PHASOR_OK : program_twin_make(first, ordinal, stream, out);
}
