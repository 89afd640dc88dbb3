/* call.c - see call.h. A case and sizes -> tensors in device memory; what was computed -> right, or
 * the first element that is not. */
#include "call.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *cases_folder;

void wrong(const char *file, int line, const char *format, ...)
{
    const char *name = strrchr(file, '/');
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", name ? name + 1 : file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void status_check(phasor_status status, const char *call, const char *file, int line)
{
    if (status != PHASOR_OK)
        wrong(file, line, "%s: %s: %s", call, phasor_status_name(status), phasor_message());
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

long argument_number(int count, char **arguments, int index, long least, long otherwise)
{
    char *end = NULL;
    if (index >= count)
        return otherwise;
    const long number = strtol(arguments[index], &end, 10);
    if (*end || end == arguments[index] || number < least)
        WRONG("argument %d is \"%s\", not a whole number from %ld on", index, arguments[index],
              least);
    return number;
}

/* -- programs ---------------------------------------------------------------------------------- */

phasor_options options_for(phasor_mode mode, int ordinal)
{
    return (phasor_options){.size = sizeof(phasor_options),
                            .device = PHASOR_DEVICE_CUDA,
                            .ordinal = ordinal,
                            .cache = ":memory:",
                            .mode = mode};
}

phasor_runtime *runtime_open(phasor_mode mode, int ordinal)
{
    const phasor_options options = options_for(mode, ordinal);
    phasor_runtime *runtime;
    OK(phasor_open(&runtime, &options));
    return runtime;
}

phasor_program *program_open(phasor_runtime *runtime, const char *name)
{
    char path[4096];
    phasor_program *program;
    snprintf(path, sizeof path, "%s/%s/plain.pt2", cases_folder, name);
    OK(phasor_program_load(runtime, path, NULL, &program));
    return program;
}

phasor_counters counters_of(phasor_runtime *runtime)
{
    phasor_counters counters = {.size = sizeof counters};
    OK(phasor_stats(runtime, &counters));
    return counters;
}

/* -- tensors ----------------------------------------------------------------------------------- */

static void buffer_new(struct buffer *b, int ordinal, const phasor_spec *spec, const int64_t *shape)
{
    device_pointer pointer;
    b->nbytes = spec->dtype.bits / 8;
    for (int d = 0; d < spec->rank; d++) {
        b->shape[d] = shape[d];
        b->nbytes *= (size_t)shape[d];
    }
    CUDA(MemAlloc(&pointer, b->nbytes));
    b->host = calloc(1, b->nbytes);
    b->tensor = (DLTensor){.data = (void *)(uintptr_t)pointer,
                           .device = {kDLCUDA, ordinal},
                           .ndim = spec->rank,
                           .dtype = spec->dtype,
                           .shape = b->shape};
    if (!b->host)
        WRONG("no memory for %zu bytes", b->nbytes);
}

static void buffer_free(struct buffer *b)
{
    if (b->host)
        CUDA(MemFree((device_pointer)(uintptr_t)b->tensor.data));
    free(b->host);
    b->host = NULL;
}

static void buffer_fill(struct buffer *b, uint64_t *state)
{
    const size_t size = b->tensor.dtype.bits / 8;
    for (size_t at = 0; at < b->nbytes; at += size) {
        const float number = (float)(random_next(state) >> 40) * 0x1p-22f - 2.0f;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        const uint16_t half = (uint16_t)(bits >> 16);
        memcpy(b->host + at, size == 2 ? (const void *)&half : &number, size);
    }
}

/* -- a call ------------------------------------------------------------------------------------ */

static bool dtype_is_known(DLDataType dtype)
{
    return (dtype.code == kDLBfloat && dtype.bits == 16) ||
           (dtype.code == kDLFloat && dtype.bits == 32);
}

static void call_add_inputs(struct call *call, int ordinal, const int64_t *dims)
{
    phasor_spec spec = {.size = sizeof spec};
    call->in_count = phasor_program_input_count(call->program);
    for (int i = 0; i < call->in_count && i < SLOTS_MOST; i++) {
        OK(phasor_program_input(call->program, i, &spec));
        if (spec.kind != PHASOR_TENSOR || !dtype_is_known(spec.dtype))
            WRONG("input %s is no tensor of f32 or bf16", spec.name);
        buffer_new(&call->in[i], ordinal, &spec, dims);
        call->inputs[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &call->in[i].tensor};
        dims += spec.rank;
    }
}

/* The size of the symbol in the inputs. */
static int64_t symbol_size(const struct call *call, const char *symbol)
{
    phasor_spec spec = {.size = sizeof spec};
    for (int i = 0; i < call->in_count; i++) {
        OK(phasor_program_input(call->program, i, &spec));
        for (int d = 0; d < spec.rank; d++)
            if (spec.dims[d].symbol && strcmp(spec.dims[d].symbol, symbol) == 0)
                return call->in[i].shape[d];
    }
    WRONG("no input has the size %s", symbol);
}

static void call_add_output(struct call *call, int ordinal, int i)
{
    phasor_spec spec = {.size = sizeof spec};
    int64_t shape[RANK_MOST];
    OK(phasor_program_output(call->program, i, &spec));
    if (spec.kind != PHASOR_TENSOR)
        return;
    for (int d = 0; d < spec.rank; d++)
        shape[d] = spec.dims[d].symbol ? symbol_size(call, spec.dims[d].symbol) : spec.dims[d].size;
    buffer_new(&call->out[i], ordinal, &spec, shape);
    call->outputs[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &call->out[i].tensor};
}

void call_new(struct call *call, phasor_program *program, int ordinal, const phasor_binding *sizes,
              int size_count)
{
    int64_t dims[SLOTS_MOST * RANK_MOST];
    *call = (struct call){.program = program};
    OK(phasor_program_sizes(program, sizes, size_count, dims, SLOTS_MOST * RANK_MOST));
    call_add_inputs(call, ordinal, dims);
    call->out_count = phasor_program_output_count(program);
    if (call->in_count > SLOTS_MOST || call->out_count > SLOTS_MOST)
        WRONG("%d inputs and %d outputs, at most %d", call->in_count, call->out_count, SLOTS_MOST);
    for (int i = 0; i < call->out_count; i++)
        call_add_output(call, ordinal, i);
}

void rope_new(struct call *call, phasor_program *program, int ordinal, int64_t batch,
              int64_t length)
{
    call_new(call, program, ordinal, (phasor_binding[]){{"q.0", batch}, {"q.1", length}}, 2);
}

void call_free(struct call *call)
{
    for (int i = 0; i < SLOTS_MOST; i++) {
        buffer_free(&call->in[i]);
        buffer_free(&call->out[i]);
    }
}

void call_fill(struct call *call, uint64_t seed, void *stream)
{
    for (int i = 0; i < call->in_count; i++) {
        struct buffer *b = &call->in[i];
        buffer_fill(b, &seed);
        CUDA(
            MemcpyHtoDAsync((device_pointer)(uintptr_t)b->tensor.data, b->host, b->nbytes, stream));
    }
    for (int i = 0; i < call->out_count; i++)
        if (call->out[i].host)
            CUDA(MemsetD8Async((device_pointer)(uintptr_t)call->out[i].tensor.data, 0x55,
                               call->out[i].nbytes, stream));
    CUDA(StreamSynchronize(stream));
}

phasor_status call_run(struct call *call, phasor_state *state, void *stream)
{
    return phasor_run_into(call->program, state, call->inputs, call->in_count, call->outputs,
                           call->out_count, stream);
}

void call_read(struct call *call, void *stream)
{
    for (int i = 0; i < call->out_count; i++) {
        struct buffer *b = &call->out[i];
        if (b->host)
            CUDA(MemcpyDtoHAsync(b->host, (device_pointer)(uintptr_t)b->tensor.data, b->nbytes,
                                 stream));
    }
    CUDA(StreamSynchronize(stream));
}

void call_same(const struct call *got, const struct call *want, const char *what)
{
    for (int i = 0; i < want->out_count; i++) {
        const struct buffer *a = &got->out[i], *b = &want->out[i];
        if (a->nbytes != b->nbytes)
            WRONG("%s: output %d has %zu bytes, not %zu", what, i, a->nbytes, b->nbytes);
        for (size_t at = 0; at < b->nbytes; at++)
            if (a->host[at] != b->host[at])
                WRONG("%s: byte %zu of output %d is 0x%02x, not 0x%02x", what, at, i, a->host[at],
                      b->host[at]);
    }
}

/* -- the CPU device ---------------------------------------------------------------------------- */

void reference_open(struct reference *reference, const char *name)
{
    const phasor_options options = {
        .size = sizeof options, .device = PHASOR_DEVICE_CPU, .cache = ":memory:"};
    OK(phasor_open(&reference->runtime, &options));
    reference->program = program_open(reference->runtime, name);
}

void reference_close(struct reference *reference)
{
    phasor_program_close(reference->program);
    phasor_close(reference->runtime);
}

static float number_at(const unsigned char *bytes, size_t size, size_t at)
{
    float number;
    uint32_t bits = 0;
    memcpy((unsigned char *)&bits + 4 - size, bytes + at, size); /* bf16 is the upper half */
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Of bf16, one unit in the last place of the number that is wanted: its power of 2 / 128. */
static float allowed_at(float want, size_t size)
{
    uint32_t bits;
    float power;
    memcpy(&bits, &want, sizeof bits);
    bits &= 0x7f800000;
    memcpy(&power, &bits, sizeof power);
    const float unit = power * 0x1p-7f;
    if (size == 2)
        return unit > 1e-5f ? unit : 1e-5f;
    return 1e-5f + 1e-5f * fabsf(want);
}

static void buffer_check(const struct buffer *got, const unsigned char *want, int output,
                         const char *what)
{
    const size_t size = got->tensor.dtype.bits / 8;
    for (size_t at = 0; at < got->nbytes; at += size) {
        const float x = number_at(got->host, size, at), y = number_at(want, size, at);
        if (!(fabsf(x - y) <= allowed_at(y, size)))
            WRONG("%s: element %zu of output %d is %g, and %g on the CPU device", what, at / size,
                  output, (double)x, (double)y);
    }
}

void reference_check(const struct reference *reference, const struct call *call, const char *what)
{
    struct call host = *call;
    for (int i = 0; i < host.in_count; i++) {
        host.in[i].tensor = (DLTensor){.data = host.in[i].host,
                                       .device = {kDLCPU, 0},
                                       .ndim = host.in[i].tensor.ndim,
                                       .dtype = host.in[i].tensor.dtype,
                                       .shape = host.in[i].shape};
        host.inputs[i].tensor = &host.in[i].tensor;
    }
    OK(phasor_run(reference->program, NULL, host.inputs, host.in_count, host.outputs,
                  host.out_count, NULL));
    for (int i = 0; i < host.out_count; i++) {
        if (host.outputs[i].kind != PHASOR_OWNED)
            continue;
        DLManagedTensor *owned = host.outputs[i].owned;
        unsigned char *want = malloc(host.out[i].nbytes);
        OK(phasor_copy_to_host(reference->runtime, &owned->dl_tensor, want, host.out[i].nbytes));
        buffer_check(&call->out[i], want, i, what);
        free(want);
        owned->deleter(owned);
    }
}
