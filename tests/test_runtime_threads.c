/* test_runtime_threads.c - many threads on one program: new sizes at once, both forms, outputs
 * deleted elsewhere. A plain program, because Criterion's runner does not start under the thread
 * sanitizer.
 *
 *     8 threads x 40 calls, start 0..7 in turn   ->   the bytes that one thread got for that start
 *                                                     before
 */
#include "phasor.h"
#include "support/leak_options.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, CALLS = 40, STARTS = 8, COUNT = 2 * 6 * 2 * 16 };

#define CHECK(call)                                                                          \
    do {                                                                                     \
        if ((call) != PHASOR_OK) {                                                           \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, phasor_message()); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

static phasor_runtime *runtime;
static phasor_program *program;
static DLTensor x;
static float expected[STARTS][COUNT];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static DLManagedTensor *left; /* an output that the next thread deletes */

static void delete_later(DLManagedTensor *output)
{
    pthread_mutex_lock(&lock);
    DLManagedTensor *before = left;
    left = output;
    pthread_mutex_unlock(&lock);
    if (before)
        before->deleter(before);
}

static void compare(const float *got, int start)
{
    if (memcmp(got, expected[start], sizeof expected[start]) == 0)
        return;
    fprintf(stderr, "start %d: another result than one thread alone had\n", start);
    exit(1);
}

static void call_owned(int start, float *got)
{
    const phasor_value in[2] = {{.kind = PHASOR_TENSOR, .tensor = &x},
                                {.kind = PHASOR_INT, .integer = start}};
    phasor_value out;
    CHECK(phasor_run(program, NULL, in, 2, &out, 1, NULL));
    CHECK(phasor_copy_to_host(runtime, &out.owned->dl_tensor, got, COUNT * sizeof *got));
    delete_later(out.owned);
}

static void call_into(int start, float *got)
{
    int64_t shape[4] = {2, 6, 2, 16};
    DLTensor t = {.data = got, .device = {kDLCPU, 0}, .ndim = 4, .dtype = x.dtype, .shape = shape};
    const phasor_value in[2] = {{.kind = PHASOR_TENSOR, .tensor = &x},
                                {.kind = PHASOR_INT, .integer = start}};
    phasor_value out = {.kind = PHASOR_TENSOR, .tensor = &t};
    CHECK(phasor_run_into(program, NULL, in, 2, &out, 1, NULL));
}

static void *work(void *number)
{
    float *got = malloc(COUNT * sizeof *got);
    for (int i = 0; i < CALLS; i++) {
        const int start = (int)((size_t)number + (size_t)i) % STARTS;
        (i % 2 ? call_into : call_owned)(start, got);
        compare(got, start);
    }
    free(got);
    return NULL;
}

static void open_all(phasor_device_kind device)
{
    const phasor_options options = {
        .size = sizeof options, .device = device, .cache = ":memory:", .specialisations = 5};
    CHECK(phasor_open(&runtime, &options));
    CHECK(phasor_program_load(runtime, PHASOR_TEST_CASES "/int_input/plain.pt2", NULL, &program));
}

static void close_all(void)
{
    phasor_program_close(program);
    phasor_close(runtime);
    if (left)
        left->deleter(left);
    left = NULL;
}

static void run_device(phasor_device_kind device)
{
    pthread_t threads[THREADS];
    open_all(device);
    for (int start = 0; start < STARTS; start++)
        call_owned(start, expected[start]);
    close_all();
    open_all(device);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    close_all();
}

int main(void)
{
    phasor_tensors *inputs;
    phasor_value v;
    setenv("PHASOR_NVRTC", PHASOR_TEST_LIBRARIES "/libphasor_stand_in_nvrtc.so", 1);
    setenv("PHASOR_DRIVER", PHASOR_TEST_LIBRARIES "/libphasor_stand_in_driver.so", 1);
    CHECK(phasor_tensors_read(PHASOR_TEST_CASES "/int_input/inputs_0.safetensors", &inputs));
    if (!phasor_tensors_find(inputs, "input_0", &v))
        return 1;
    x = *v.tensor;
    run_device(PHASOR_DEVICE_CPU);
    run_device(PHASOR_DEVICE_CUDA);
    phasor_tensors_close(inputs);
    puts("ok");
    return 0;
}
