/* shapes.c - many random shapes through one program in mode auto: memory of the host and of the
 * device is flat after the first ones.
 *
 *     gpu_shapes CASES [SHAPES 100000] [FIRST 5000] [BATCHES 16] [LENGTHS 1024] [HOST_KIB 8192]
 *
 *     gpu_shapes CASES 400 200 6 6, on the stand-in driver
 *         ->  200 first: 12 MiB of the host, 3 MiB of the device
 *             400: 13 MiB of the host (+0.2), 3 MiB of the device (+0.2); 2 compiled
 *
 * Shapes are batch 1..BATCHES by length 1..LENGTHS of bench_rope_bf16: with the defaults four times
 * as many as are kept, so that the least recently used ones go all the time. Three of four calls
 * write into the caller's buffers, the fourth has outputs of its own. Some are compared with the
 * CPU device.
 *
 * Exit 1: the host's resident memory grows by more than HOST_KIB after the first shapes, or what is
 * in use of the device by more than 32 MiB, the step in which the driver's pool grows. */
#include "call.h"
#include "support/leak_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The pool grows whenever more is in flight than ever before: one step is no leak. A block that each
 * of the calls left behind would be more. */
enum { DEVICE_GROWTH_MOST = 32 << 20, CHECKS = 8, CHECK_ELEMENTS = 200000, OWNED_EVERY = 4 };

static void *stream;
static phasor_program *program;
static struct call largest;

struct memory {
    int64_t host, device;
};

static struct memory memory_read(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        WRONG("/proc/self/statm cannot be read");
    fclose(file);
    CUDA(StreamSynchronize(stream));
    return (struct memory){resident * sysconf(_SC_PAGESIZE), driver_memory_used()};
}

static double mebibytes(int64_t nbytes)
{
    return (double)nbytes / (1 << 20);
}

/* A call on the first bytes of the largest one's buffers. */
static void call_shrink(struct call *call, int64_t batch, int64_t length)
{
    *call = largest;
    for (int i = 0; i < call->in_count; i++) {
        call->in[i].tensor.shape = call->in[i].shape;
        call->inputs[i].tensor = &call->in[i].tensor;
    }
    for (int i = 0; i < call->out_count; i++) {
        call->out[i].tensor.shape = call->out[i].shape;
        call->outputs[i].tensor = &call->out[i].tensor;
    }
    struct buffer *all[] = {&call->in[0], &call->in[1], &call->out[0], &call->out[1]};
    for (int i = 0; i < 4; i++) {
        struct buffer *b = all[i];
        b->nbytes = b->nbytes / (size_t)(b->shape[0] * b->shape[1]) * (size_t)(batch * length);
        b->shape[0] = batch;
        b->shape[1] = length;
    }
}

static void owned_run(const struct call *call)
{
    phasor_value outputs[SLOTS_MOST];
    OK(phasor_run(program, NULL, call->inputs, call->in_count, outputs, call->out_count, stream));
    for (int i = 0; i < call->out_count; i++)
        outputs[i].owned->deleter(outputs[i].owned);
}

struct run {
    struct reference reference;
    uint64_t random;
    long batches, lengths, made;
    int checked;
};

static void shape_run(struct run *run)
{
    struct call call;
    const int64_t batch = 1 + (int64_t)(random_next(&run->random) % (uint64_t)run->batches);
    const int64_t length = 1 + (int64_t)(random_next(&run->random) % (uint64_t)run->lengths);
    call_shrink(&call, batch, length);
    if (++run->made % OWNED_EVERY == 0) {
        owned_run(&call);
        return;
    }
    OK(call_run(&call, NULL, stream));
    if (run->checked == CHECKS || (int64_t)call.out[0].nbytes / 2 > CHECK_ELEMENTS)
        return;
    run->checked++;
    call_read(&call, stream);
    reference_check(&run->reference, &call, "a random shape");
}

static struct memory shapes_run(struct run *run, long until)
{
    run->checked = 0;
    while (run->made < until)
        shape_run(run);
    return memory_read();
}

static void memory_judge(const struct memory *first, const struct memory *end, long host_kib)
{
    if (end->host - first->host > host_kib * 1024)
        WRONG("resident memory grows by %.1f MiB, at most %.1f were allowed",
              mebibytes(end->host - first->host), (double)host_kib / 1024);
    if (end->device - first->device > DEVICE_GROWTH_MOST)
        WRONG("memory of the device grows by %.1f MiB, at most %.1f were allowed",
              mebibytes(end->device - first->device), mebibytes(DEVICE_GROWTH_MOST));
}

static void shapes_compare(struct run *run, phasor_runtime *runtime, long shapes, long first_count,
                           long host_kib)
{
    reference_open(&run->reference, "bench_rope_bf16");
    const double start = seconds_now();
    const struct memory first = shapes_run(run, first_count);
    printf("shapes: %ld first: %.0f MiB of the host, %.0f MiB of the device\n", run->made,
           mebibytes(first.host), mebibytes(first.device));
    const struct memory end = shapes_run(run, shapes);
    const phasor_counters counters = counters_of(runtime);
    printf("shapes: %ld: %.0f MiB of the host (%+.1f), %.0f MiB of the device (%+.1f); %d "
           "compiled, %d specialisations, %.1f s\n",
           run->made, mebibytes(end.host), mebibytes(end.host - first.host), mebibytes(end.device),
           mebibytes(end.device - first.device), (int)counters.compiled,
           (int)counters.specialisations, seconds_now() - start);
    memory_judge(&first, &end, host_kib);
    reference_close(&run->reference);
}

int main(int count, char **arguments)
{
    struct run run = {.random = 1};
    void *context;
    if (count < 2)
        WRONG("usage: gpu_shapes CASES [SHAPES] [FIRST] [BATCHES] [LENGTHS] [HOST_KIB]");
    cases_folder = arguments[1];
    const long shapes = argument_number(count, arguments, 2, 1, 100000);
    const long first = argument_number(count, arguments, 3, 1, 5000);
    run.batches = argument_number(count, arguments, 4, 1, 16);
    run.lengths = argument_number(count, arguments, 5, 1, 1024);
    const long host_kib = argument_number(count, arguments, 6, 1, 8192);
    driver_open();
    CUDA(DevicePrimaryCtxRetain(&context, 0));
    CUDA(CtxSetCurrent(context));
    CUDA(StreamCreate(&stream, STREAM_NON_BLOCKING));
    phasor_runtime *runtime = runtime_open(PHASOR_MODE_AUTO, 0);
    program = program_open(runtime, "bench_rope_bf16");
    rope_new(&largest, program, 0, run.batches, run.lengths);
    call_fill(&largest, 1, stream);
    shapes_compare(&run, runtime, shapes, first, host_kib);
    call_free(&largest);
    phasor_program_close(program);
    phasor_close(runtime);
    CUDA(StreamDestroy(stream));
    CUDA(CtxSetCurrent(NULL));
    CUDA(DevicePrimaryCtxRelease(0));
    driver_finish();
    return 0;
}
