/* misuse.c - outputs of phasor_run_into as nobody should give them, and as somebody may: sizes,
 * strides, offsets and memory that others use. Not one byte is written that is no element of a
 * declared output, and what is refused writes nothing.
 *
 *     gpu_misuse CASES [ROUNDS 200]
 *
 *     gpu_misuse CASES 20, on the stand-in driver
 *         ->  bench_rope_bf16, exact: 61 calls ran, 92 were refused, 0 bytes outside
 *             ...
 *
 * All outputs lie in one allocation, whose every byte is compared after each call. gpu/misuse.sh
 * runs it under compute-sanitizer; the preset asan runs it on the stand-in driver. */
#include "call.h"
#include "support/leak_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK = 0x5a, ROOM = 8 }; /* ROOM: times the bytes of an output */

static const char *const programs[] = {"bench_rope_bf16", "qk_rope_f32", "op_exp_log_sqrt",
                                       "op_reciprocal"};
static const phasor_mode modes[] = {PHASOR_MODE_EXACT, PHASOR_MODE_GENERIC, PHASOR_MODE_AUTO};
static const char *const mode_names[] = {"exact", "generic", "auto"};

static void *stream;

/* The memory of all outputs, each in the middle of its part. */
struct memory {
    device_pointer pointer;
    size_t nbytes;
    unsigned char *got;
    bool *declared;                   /* bytes that are elements of an output */
    size_t first[SLOTS_MOST];         /* of the middle of an output's part */
    unsigned char *right[SLOTS_MOST]; /* row-major results */
};

/* An output as it is declared in one call. */
struct declared {
    DLTensor tensor;
    int64_t shape[RANK_MOST], strides[RANK_MOST];
};

struct misuse {
    struct call call;
    struct memory memory;
    struct declared out[SLOTS_MOST];
    uint64_t random;
    long ran, refused;
};

static int64_t random_to(struct misuse *m, int64_t bound)
{
    return (int64_t)(random_next(&m->random) % (uint64_t)bound);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void memory_new(struct misuse *m)
{
    struct memory *memory = &m->memory;
    for (int i = 0; i < m->call.out_count; i++) {
        const size_t part = (m->call.out[i].nbytes * ROOM + 4095) / 4096 * 4096;
        memory->first[i] = memory->nbytes + part / 2;
        memory->nbytes += part;
        memory->right[i] = malloc(m->call.out[i].nbytes + 1);
    }
    CUDA(MemAlloc(&memory->pointer, memory->nbytes + 1));
    memory->got = malloc(memory->nbytes + 1);
    memory->declared = malloc(memory->nbytes + 1);
}

static void memory_free(struct misuse *m)
{
    CUDA(MemFree(m->memory.pointer));
    free(m->memory.got);
    free(m->memory.declared);
    for (int i = 0; i < m->call.out_count; i++)
        free(m->memory.right[i]);
}

/* What a plain call gives. */
static void results_keep(struct misuse *m)
{
    OK(call_run(&m->call, NULL, stream));
    call_read(&m->call, stream);
    for (int i = 0; i < m->call.out_count; i++)
        memcpy(m->memory.right[i], m->call.out[i].host, m->call.out[i].nbytes);
}

/* -- declaring --------------------------------------------------------------------------------- */

static void strides_dense(struct declared *d)
{
    int64_t stride = 1;
    for (int a = d->tensor.ndim - 1; a >= 0; a--) {
        d->strides[a] = stride;
        stride *= d->shape[a] > 1 ? d->shape[a] : 1;
    }
}

/* Right sizes, row-major, in the middle of its part. */
static void declare_right(struct misuse *m)
{
    for (int i = 0; i < m->call.out_count; i++) {
        struct declared *d = &m->out[i];
        d->tensor = m->call.out[i].tensor;
        memcpy(d->shape, m->call.out[i].shape, sizeof d->shape);
        d->tensor.shape = d->shape;
        d->tensor.strides = d->strides;
        d->tensor.data = (void *)(uintptr_t)m->memory.pointer;
        d->tensor.byte_offset = m->memory.first[i];
        strides_dense(d);
    }
}

/* Other sizes than the output has. */
static void sizes_spoil(struct misuse *m, struct declared *d)
{
    const int rank = d->tensor.ndim;
    const int a = (int)random_to(m, rank), b = (int)random_to(m, rank);
    const int64_t before = d->shape[a], other[] = {0, 1, before - 1, before + 1, 2 * before};
    const int64_t swapped = d->shape[b];
    if (random_to(m, 4) == 0 && swapped != before) {
        d->shape[b] = before;
        d->shape[a] = swapped;
    } else {
        do
            d->shape[a] = other[random_to(m, 5)];
        while (d->shape[a] == before);
    }
    strides_dense(d);
}

/* Dims in another order in memory, with gaps. */
static void strides_vary(struct misuse *m, struct declared *d)
{
    int64_t stride = 1 + random_to(m, 2);
    bool taken[RANK_MOST] = {false};
    for (int k = 0; k < d->tensor.ndim; k++) {
        int a = random_to(m, 2) ? d->tensor.ndim - 1 - k : (int)random_to(m, d->tensor.ndim);
        while (taken[a])
            a = (a + 1) % d->tensor.ndim;
        taken[a] = true;
        d->strides[a] = stride;
        stride = stride * d->shape[a] + (k == 0 ? random_to(m, 2) : 0);
    }
    d->tensor.byte_offset -= (uint64_t)(stride / 2 * (d->tensor.dtype.bits / 8));
}

/* Two elements in one place. */
static bool strides_spoil(struct misuse *m, struct declared *d)
{
    int a = (int)random_to(m, d->tensor.ndim);
    if (d->shape[a] < 2)
        return false;
    d->strides[a] = 0;
    return true;
}

/* Its first dim runs backwards; false where it has one element. */
static bool backwards(struct declared *d)
{
    d->tensor.byte_offset +=
        (uint64_t)((d->shape[0] - 1) * d->strides[0] * d->tensor.dtype.bits / 8);
    d->strides[0] = -d->strides[0];
    return d->shape[0] > 1;
}

/* -- calls ------------------------------------------------------------------------------------- */

static void elements_mark(struct misuse *m, int i, bool results)
{
    const struct declared *d = &m->out[i];
    const int64_t size = d->tensor.dtype.bits / 8;
    int64_t at[RANK_MOST] = {0}, count = 1;
    for (int a = 0; a < d->tensor.ndim; a++)
        count *= d->shape[a];
    for (int64_t k = 0; k < count; k++) {
        int64_t element = 0, rest = k;
        for (int a = d->tensor.ndim - 1; a >= 0; a--) {
            at[a] = rest % d->shape[a];
            rest /= d->shape[a];
            element += at[a] * d->strides[a];
        }
        const size_t byte = (size_t)((int64_t)d->tensor.byte_offset + element * size);
        if (results && memcmp(m->memory.got + byte, m->memory.right[i] + k * size, (size_t)size))
            WRONG("output %d: element %lld is not what it should be", i, (long long)k);
        memset(m->memory.declared + byte, true, (size_t)size);
    }
}

static void memory_compare(struct misuse *m, const char *what, phasor_status status)
{
    struct memory *memory = &m->memory;
    CUDA(MemcpyDtoHAsync(memory->got, memory->pointer, memory->nbytes, stream));
    CUDA(StreamSynchronize(stream));
    memset(memory->declared, false, memory->nbytes);
    for (int i = 0; status == PHASOR_OK && i < m->call.out_count; i++)
        elements_mark(m, i, true);
    for (size_t at = 0; at < memory->nbytes; at++)
        if (!memory->declared[at] && memory->got[at] != MARK)
            WRONG("%s: byte %zu of the outputs' memory was written, and is no element", what, at);
}

/* The status must be OK, or PHASOR_ERROR_INPUT where that is asked for. */
static void misuse_call(struct misuse *m, const char *what, phasor_status expected)
{
    phasor_value outputs[SLOTS_MOST];
    for (int i = 0; i < m->call.out_count; i++)
        outputs[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &m->out[i].tensor};
    CUDA(MemsetD8Async(m->memory.pointer, MARK, m->memory.nbytes, stream));
    const phasor_status status =
        phasor_run_into(m->call.program, NULL, m->call.inputs, m->call.in_count, outputs,
                        m->call.out_count, stream);
    if (status != expected)
        WRONG("%s: status %s, not %s: %s", what, phasor_status_name(status),
              phasor_status_name(expected), phasor_message());
    memory_compare(m, what, status);
    *(status == PHASOR_OK ? &m->ran : &m->refused) += 1;
}

/* -- one of each kind -------------------------------------------------------------------------- */

static struct declared *one_of(struct misuse *m)
{
    declare_right(m);
    return &m->out[random_to(m, m->call.out_count)];
}

static void round_run(struct misuse *m)
{
    struct declared *d = one_of(m);
    misuse_call(m, "right ones", PHASOR_OK);
    sizes_spoil(m, d);
    misuse_call(m, "wrong sizes", PHASOR_ERROR_INPUT);
    strides_vary(m, one_of(m));
    misuse_call(m, "strides", PHASOR_OK);
    if (strides_spoil(m, one_of(m)))
        misuse_call(m, "elements in one place", PHASOR_ERROR_INPUT);
    d = one_of(m);
    if (backwards(d))
        misuse_call(m, "strides that go backwards", PHASOR_ERROR_INPUT);
    d = one_of(m);
    d->tensor.byte_offset += (uint64_t)(d->tensor.dtype.bits / 8 * (1 + random_to(m, 16)));
    misuse_call(m, "an offset", PHASOR_OK);
    one_of(m)->tensor.byte_offset += 1;
    misuse_call(m, "half an element", PHASOR_ERROR_INPUT);
    one_of(m)->tensor.byte_offset = UINT64_MAX - 1;
    misuse_call(m, "an offset beyond all memory", PHASOR_ERROR_INPUT);
    one_of(m)->tensor.ndim -= 1;
    misuse_call(m, "a rank", PHASOR_ERROR_INPUT);
    one_of(m)->tensor.dtype.bits *= 2;
    misuse_call(m, "a dtype", PHASOR_ERROR_INPUT);
    one_of(m)->tensor.device.device_id = 77;
    misuse_call(m, "another device", PHASOR_ERROR_INPUT);
}

/* Memory that somebody else reads or writes in the same call. */
static void aliases_run(struct misuse *m)
{
    struct declared *d = one_of(m);
    const struct buffer *in = &m->call.in[0];
    d->tensor.data = in->tensor.data;
    d->tensor.byte_offset = d->tensor.dtype.bits / 8;
    misuse_call(m, "a part of an input", PHASOR_ERROR_INPUT);
    declare_right(m);
    if (m->call.out_count > 1) {
        m->out[1].tensor.byte_offset = m->out[0].tensor.byte_offset;
        misuse_call(m, "a part of another output", PHASOR_ERROR_INPUT);
    }
}

/* While a stream captures, wrong sizes are refused as ever, and nothing is left in the graph. */
static void capture_run(struct misuse *m)
{
    void *graph, *executable;
    phasor_value outputs[SLOTS_MOST];
    sizes_spoil(m, one_of(m));
    for (int i = 0; i < m->call.out_count; i++)
        outputs[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &m->out[i].tensor};
    CUDA(MemsetD8Async(m->memory.pointer, MARK, m->memory.nbytes, stream));
    CUDA(StreamBeginCapture(stream, CAPTURE_RELAXED));
    const phasor_status status =
        phasor_run_into(m->call.program, NULL, m->call.inputs, m->call.in_count, outputs,
                        m->call.out_count, stream);
    CUDA(StreamEndCapture(stream, &graph));
    if (status != PHASOR_ERROR_INPUT && status != PHASOR_NOT_READY)
        WRONG("wrong sizes in a capture: status %s", phasor_status_name(status));
    if (graph) {
        CUDA(GraphInstantiate(&executable, graph, 0));
        CUDA(GraphLaunch(executable, stream));
        memory_compare(m, "wrong sizes in a capture", status);
        CUDA(GraphExecDestroy(executable));
        CUDA(GraphDestroy(graph));
    }
}

static void program_misuse(phasor_runtime *runtime, const char *name, long rounds, int mode)
{
    struct misuse m = {.random = 7};
    call_new(&m.call, program_open(runtime, name), 0, NULL, 0);
    call_fill(&m.call, 1, stream);
    memory_new(&m);
    results_keep(&m);
    for (long i = 0; i < rounds; i++)
        round_run(&m);
    aliases_run(&m);
    capture_run(&m);
    printf("%s, %s: %ld calls ran, %ld were refused, 0 bytes outside\n", name, mode_names[mode],
           m.ran, m.refused);
    memory_free(&m);
    phasor_program_close(m.call.program);
    call_free(&m.call);
}

int main(int count, char **arguments)
{
    void *context;
    if (count < 2)
        WRONG("usage: gpu_misuse CASES [ROUNDS]");
    cases_folder = arguments[1];
    const long rounds = argument_number(count, arguments, 2, 1, 200);
    driver_open();
    CUDA(DevicePrimaryCtxRetain(&context, 0));
    CUDA(CtxSetCurrent(context));
    CUDA(StreamCreate(&stream, STREAM_NON_BLOCKING));
    for (int mode = 0; mode < 3; mode++) {
        phasor_runtime *runtime = runtime_open(modes[mode], 0);
        for (size_t k = 0; k < sizeof programs / sizeof *programs; k++)
            program_misuse(runtime, programs[k], rounds, mode);
        phasor_close(runtime);
    }
    CUDA(StreamDestroy(stream));
    CUDA(CtxSetCurrent(NULL));
    CUDA(DevicePrimaryCtxRelease(0));
    driver_finish();
    return 0;
}
