/* state.c - the buffers that a program changes, and the note that an index was out of range.
 *
 *     state k_cache: f32[1, 512, 64]   ->   memory of its own for each phasor_state, with the
 *                                           strides of the file's value
 *
 * A program whose callers give no state has one of its own on each device, made at the first call
 * there. Where a program runs on several devices, a caller's state gets its buffers by its first
 * use, on the device of that call.
 */
#include "call/output.h"
#include "context/twins.h"

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
    if (!device) {
        state->flag = memory_new(sizeof *state->flag);
        if (!state->flag)
            return fail_memory();
        TRY(buffers_make(state, NULL));
        return reset_host(state);
    }
    TRY(device_enter(device, &scope));
    phasor_status status = device_flag_new(device, &state->flag);
    if (status == PHASOR_OK)
        status = buffers_make(state, device);
    if (status == PHASOR_OK)
        status = reset_device(state, device);
    device_leave(device, &scope);
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
            device_flag_free(device, state->flag);
        device_leave(device, &scope);
    }
}

/* Back to one that was not used yet. */
static void state_empty(struct phasor_state *state)
{
    if (!state->program)
        return;
    flag_free(state, state_device(state->program));
    for (int k = 0; state->buffers && k < (int)state_graph(state->program)->buffers.count; k++)
        memory_release(state->buffers[k]);
    memory_free(state->buffers);
    memory_free(state->addresses);
    state->flag = NULL;
    state->buffers = NULL;
    state->addresses = NULL;
    state->count = 0;
    state->program = NULL;
}

static phasor_status state_bind(struct phasor_state *state, struct phasor_program *program)
{
    state->program = program;
    const phasor_status status = state_setup(state, state_device(program));
    if (status != PHASOR_OK)
        state_empty(state);
    return status;
}

static phasor_status state_new(struct phasor_program *owner, struct phasor_program *program,
                               struct phasor_state **out)
{
    *out = NULL;
    struct phasor_state *state = memory_new(sizeof *state);
    if (!state)
        return fail_memory();
    state->owner = owner;
    pthread_mutex_init(&state->lock, NULL);
    const phasor_status status = program ? state_bind(state, program) : PHASOR_OK;
    if (status == PHASOR_OK)
        *out = state;
    else
        phasor_state_free(state);
    return status;
}

phasor_status phasor_state_new(phasor_program *program, phasor_state **out)
{
    NOT_NULL(program);
    NOT_NULL(out);
    *out = NULL;
    TRY(program_check_runnable(program));
    return state_new(program, program->twins ? NULL : program, out);
}

void phasor_state_free(phasor_state *state)
{
    if (!state)
        return;
    state_empty(state);
    pthread_mutex_destroy(&state->lock);
    memory_free(state);
}

static phasor_status state_check_owner(const struct phasor_program *program,
                                       const struct phasor_state *state)
{
    return state->owner == program->first
               ? PHASOR_OK
               : fail(PHASOR_ERROR_USAGE, "the state is of another program (%s)",
                      program_logical(state->owner)->name);
}

/* A state that is used for the first time, or that is not of this device or program. */
static phasor_status state_get_given(struct phasor_program *program, struct phasor_state *state)
{
    TRY(state_check_owner(program, state));
    if (!state->program)
        return state_bind(state, program);
    return fail(PHASOR_ERROR_INPUT,
                "the state is on CUDA device %d, where it was first used; the tensors of this call "
                "are on CUDA device %d, for which another state is needed",
                device_ordinal(state->program->runtime->device),
                device_ordinal(program->runtime->device));
}

phasor_status state_get(struct phasor_program *program, struct phasor_state *state,
                        struct phasor_state **out)
{
    phasor_status status = PHASOR_OK;
    *out = state;
    if (state)
        return state->program == program ? PHASOR_OK : state_get_given(program, state);
    *out = __atomic_load_n(&program->own, __ATOMIC_ACQUIRE);
    if (*out)
        return PHASOR_OK;
    pthread_mutex_lock(&program->lock);
    *out = program->own;
    if (!*out)
        status = state_new(program->first, program, out);
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

static phasor_status reset_one(struct phasor_program *program, struct phasor_state *state)
{
    struct device *device = state_device(program);
    struct device_scope scope;
    if (!device)
        return reset_host(state);
    TRY(device_enter(device, &scope));
    const phasor_status status = reset_device(state, device);
    device_leave(device, &scope);
    return status;
}

static phasor_status check_one(struct phasor_program *program, struct phasor_state *state)
{
    struct device *device = state_device(program);
    struct device_scope scope;
    if (device) {
        TRY(device_enter(device, &scope));
        const phasor_status status = device_wait_all(device);
        device_leave(device, &scope);
        TRY(status);
    }
    return state_report(state);
}

/* For a state, or for the program's own on every device. What was not used yet has no buffers, and
 * nothing to do. */
static phasor_status state_each(struct phasor_program *program, struct phasor_state *state,
                                phasor_status (*act)(struct phasor_program *,
                                                     struct phasor_state *))
{
    if (state)
        TRY(state_check_owner(program, state));
    if (state)
        return state->program ? act(state->program, state) : PHASOR_OK;
    if (!program->twins) {
        TRY(program_check_runnable(program));
        TRY(state_get(program, NULL, &state));
        return act(program, state);
    }
    for (int i = 0; i < program->runtime->device_count; i++) {
        struct phasor_program *twin = program_twin(program, i);
        struct phasor_state *own = twin ? __atomic_load_n(&twin->own, __ATOMIC_ACQUIRE) : NULL;
        if (own)
            TRY(act(twin, own));
    }
    return PHASOR_OK;
}

phasor_status phasor_state_reset(phasor_program *program, phasor_state *state)
{
    NOT_NULL(program);
    LOG_SCOPE(&program->runtime->first->log);
    return state_each(program, state, reset_one);
}

phasor_status phasor_state_check(phasor_program *program, phasor_state *state)
{
    NOT_NULL(program);
    LOG_SCOPE(&program->runtime->first->log);
    return state_each(program, state, check_one);
}
