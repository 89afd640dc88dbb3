/* state.c - the buffers that a program changes, and the note that an index was out of range.
 *
 *     state k_cache: f32[1, 512, 64]   ->   memory of its own for each phasor_state, with the
 *                                           strides of the file's value
 *
 * A program whose callers give no state has one of its own, made at the first call.
 */
#include "runtime/runtime.h"

#include <string.h>

static const struct graph *state_graph(const struct phasor_program *program)
{
    return program->on_cuda ? program_real(program) : program_logical(program);
}

static struct device *state_device(const struct phasor_program *program)
{
    return program->on_cuda ? program->runtime->device : NULL;
}

/* Where the initial value lies in its storage: its lowest byte and how many follow. */
static const char *initial_bytes(const struct data *data, size_t *nbytes, int64_t *first)
{
    const int size = dtype_size(data->dtype);
    int64_t low, high;
    const bool any = data_extent(data->rank, data->sizes, data->strides, &low, &high);
    *nbytes = any ? (size_t)((high - low + 1) * size) : 0;
    *first = -low * size;
    return any ? (const char *)data->storage->bytes + (data->offset + low) * size : NULL;
}

/* -- resetting --------------------------------------------------------------------------------- */

static phasor_status reset_host(struct phasor_state *state)
{
    const struct graph *graph = state_graph(state->program);
    pthread_mutex_lock(&state->lock);
    for (int k = 0; k < state->count; k++) {
        size_t nbytes;
        int64_t first;
        const char *bytes = initial_bytes(graph->buffers.at[k].initial, &nbytes, &first);
        if (nbytes)
            memcpy(state->buffers[k]->bytes, bytes, nbytes);
    }
    pthread_mutex_unlock(&state->lock);
    return PHASOR_OK;
}

/* After all work that may use the buffers, before any that is issued later. */
static phasor_status reset_device(struct phasor_state *state, struct device *device)
{
    const struct graph *graph = state_graph(state->program);
    void *stream;
    if (state->count == 0)
        return PHASOR_OK;
    TRY(device_wait_all(device));
    TRY(device_stream_new(device, &stream));
    phasor_status status = PHASOR_OK;
    for (int k = 0; status == PHASOR_OK && k < state->count; k++) {
        size_t nbytes;
        int64_t first;
        const char *bytes = initial_bytes(graph->buffers.at[k].initial, &nbytes, &first);
        status = device_upload(device, state->buffers[k]->bytes, bytes, nbytes, stream);
    }
    if (status == PHASOR_OK)
        status = device_synchronize(device, stream);
    device_stream_free(device, stream);
    return status;
}

/* -- life -------------------------------------------------------------------------------------- */

static phasor_status buffers_make(struct phasor_state *state, struct device *device)
{
    const struct graph *graph = state_graph(state->program);
    state->buffers = memory_new(graph->buffers.count * sizeof *state->buffers);
    state->addresses = memory_new(graph->buffers.count * sizeof *state->addresses);
    if (!state->buffers || !state->addresses)
        return fail_memory();
    for (size_t k = 0; k < graph->buffers.count; k++, state->count++) {
        size_t nbytes;
        int64_t first;
        initial_bytes(graph->buffers.at[k].initial, &nbytes, &first);
        TRY(device ? memory_lasting(device, nbytes, &state->buffers[k])
                   : memory_host(nbytes, &state->buffers[k]));
        state->addresses[k] = state->buffers[k]->bytes + first;
    }
    return PHASOR_OK;
}

static phasor_status state_setup(struct phasor_state *state, struct device *device)
{
    struct device_scope scope;
    void *flag = NULL;
    if (!device) {
        state->flag = memory_new(sizeof *state->flag);
        if (!state->flag)
            return fail_memory();
        TRY(buffers_make(state, NULL));
        return reset_host(state);
    }
    TRY(device_enter(device, &scope));
    phasor_status status = device_host_allocate(device, sizeof *state->flag, &flag);
    state->flag = flag;
    if (status == PHASOR_OK)
        status = buffers_make(state, device);
    if (status == PHASOR_OK)
        status = reset_device(state, device);
    device_leave(device, &scope);
    return status;
}

phasor_status phasor_state_new(phasor_program *program, phasor_state **out)
{
    *out = NULL;
    TRY(program_check_runnable(program));
    struct phasor_state *state = memory_new(sizeof *state);
    if (!state)
        return fail_memory();
    state->program = program;
    pthread_mutex_init(&state->lock, NULL);
    const phasor_status status = state_setup(state, state_device(program));
    if (status == PHASOR_OK)
        *out = state;
    else
        phasor_state_free(state);
    return status;
}

/* Kernels that are still running may write the flag: it goes after them. The buffers see to
 * themselves. */
static void flag_free(struct phasor_state *state, struct device *device)
{
    struct device_scope scope;
    if (!device) {
        memory_free(state->flag);
    } else if (state->flag && device_enter(device, &scope) == PHASOR_OK) {
        if (device_wait_all(device) == PHASOR_OK)
            device_host_free(device, state->flag);
        device_leave(device, &scope);
    }
}

void phasor_state_free(phasor_state *state)
{
    if (!state)
        return;
    flag_free(state, state_device(state->program));
    for (int k = 0; state->buffers && k < (int)state_graph(state->program)->buffers.count; k++)
        memory_release(state->buffers[k]);
    memory_free(state->buffers);
    memory_free(state->addresses);
    pthread_mutex_destroy(&state->lock);
    memory_free(state);
}

phasor_status state_get(struct phasor_program *program, struct phasor_state *state,
                        struct phasor_state **out)
{
    phasor_status status = PHASOR_OK;
    *out = state;
    if (state && state->program != program)
        return fail(PHASOR_ERROR_USAGE, "the state is of another program (%s)",
                    program_logical(state->program)->name);
    if (state)
        return PHASOR_OK;
    *out = __atomic_load_n(&program->own, __ATOMIC_ACQUIRE);
    if (*out)
        return PHASOR_OK;
    pthread_mutex_lock(&program->lock);
    *out = program->own;
    if (!*out)
        status = phasor_state_new(program, out);
    if (status == PHASOR_OK)
        __atomic_store_n(&program->own, *out, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&program->lock);
    return status;
}

/* -- questions --------------------------------------------------------------------------------- */

phasor_status state_report(struct phasor_state *state)
{
    if (__atomic_load_n(state->flag, __ATOMIC_RELAXED) == 0 ||
        __atomic_exchange_n(state->flag, 0, __ATOMIC_ACQ_REL) == 0)
        return PHASOR_OK;
    return fail(
        PHASOR_ERROR_INPUT,
        "%s: an index was out of range in an earlier call on this state; it was clamped, so that "
        "call's results are not what PyTorch would give",
        program_logical(state->program)->name);
}

phasor_status phasor_state_reset(phasor_program *program, phasor_state *state)
{
    struct device *device = state_device(program);
    struct device_scope scope;
    TRY(state_get(program, state, &state));
    if (!device)
        return reset_host(state);
    TRY(device_enter(device, &scope));
    const phasor_status status = reset_device(state, device);
    device_leave(device, &scope);
    return status;
}

phasor_status phasor_state_check(phasor_program *program, phasor_state *state)
{
    struct device *device = state_device(program);
    struct device_scope scope;
    TRY(state_get(program, state, &state));
    if (device) {
        TRY(device_enter(device, &scope));
        const phasor_status status = device_wait_all(device);
        device_leave(device, &scope);
        TRY(status);
    }
    return state_report(state);
}
