/* threads.c - many threads with warm calls on one program: right results, and how many calls a
 * second beside what the driver itself can launch.
 *
 *     gpu_threads CASES [THREADS 16] [CALLS 10000] [LENGTH 16] [PERCENT 0] [exact|generic]
 *
 *     threads: 16 threads, length 16, exact
 *       10000 calls of 1 kernel in each thread
 *       phasor  one thread        A calls/s, 16 threads        B calls/s, B/A x
 *       bare    one thread        C calls/s, 16 threads        D calls/s, D/C x
 *       B of the lesser of 16 A and D, in percent
 *
 * Each thread has a stream, buffers, inputs and a state of its own. "bare" are cuLaunchKernel's of
 * a kernel that does nothing, with as many bytes of arguments, blocks and launches as a call has.
 *
 * Exit 1: a thread has other bits than one thread alone had, something was compiled in a warm call,
 * or all threads together make less than PERCENT of what is possible: so many threads times one
 * thread's calls, or the driver's own bare launches, whichever is less. */
#include "call.h"
#include "support/leak_options.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENT_BYTES = 40, BLOCK = 128, VECTOR_BYTES = 16, WARM_CALLS = 20 };

struct worker {
    pthread_t thread;
    struct call call, alone; /* the same inputs; `alone` was run before by one thread */
    phasor_state *state;
    void *stream;
    double start, end;
};

static struct worker *workers;
static long worker_count, call_count;
static void *context;
static void *nothing;
static unsigned nothing_grid;
static int kernels;

/* -- one after the other ----------------------------------------------------------------------- */

static void worker_open(struct worker *w, phasor_program *program, int64_t length, uint64_t seed)
{
    CUDA(StreamCreate(&w->stream, STREAM_NON_BLOCKING));
    OK(phasor_state_new(program, &w->state));
    rope_new(&w->call, program, 0, 1, length);
    rope_new(&w->alone, program, 0, 1, length);
    call_fill(&w->call, seed, w->stream);
    call_fill(&w->alone, seed, w->stream);
    OK(call_run(&w->alone, w->state, w->stream));
    call_read(&w->alone, w->stream);
}

static void worker_close(struct worker *w)
{
    call_free(&w->call);
    call_free(&w->alone);
    phasor_state_free(w->state);
    CUDA(StreamDestroy(w->stream));
}

/* -- at once ----------------------------------------------------------------------------------- */

static void calls_make(struct worker *w)
{
    for (long i = 0; i < call_count; i++)
        OK(call_run(&w->call, w->state, w->stream));
}

static void launches_make(struct worker *w)
{
    unsigned char arguments[ARGUMENT_BYTES] = {0};
    for (long i = 0; i < call_count * kernels; i++) {
        const int result =
            driver_launch(nothing, nothing_grid, BLOCK, arguments, sizeof arguments, w->stream);
        driver_check(result, "LaunchKernel", __FILE__, __LINE__);
    }
}

static pthread_barrier_t barrier;
static void (*body)(struct worker *);

static void *worker_run(void *argument)
{
    struct worker *w = argument;
    CUDA(CtxSetCurrent(context));
    pthread_barrier_wait(&barrier);
    w->start = seconds_now();
    body(w);
    w->end = seconds_now();
    CUDA(StreamSynchronize(w->stream));
    return NULL;
}

/* Calls a second of the first `count` threads together. */
static double rate_measure(void (*what)(struct worker *), long count)
{
    double start = 0, end = 0;
    body = what;
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (long i = 0; i < count; i++)
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
            WRONG("thread %ld cannot be started", i);
    for (long i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        start = i == 0 || workers[i].start < start ? workers[i].start : start;
        end = workers[i].end > end ? workers[i].end : end;
    }
    pthread_barrier_destroy(&barrier);
    return (double)(count * call_count) / (end - start);
}

static void results_check(void)
{
    char what[64];
    for (long i = 0; i < worker_count; i++) {
        snprintf(what, sizeof what, "thread %ld of %ld", i, worker_count);
        call_read(&workers[i].call, workers[i].stream);
        call_same(&workers[i].call, &workers[i].alone, what);
        OK(phasor_state_check(workers[i].call.program, workers[i].state));
    }
}

/* -- figures ----------------------------------------------------------------------------------- */

struct rates {
    double alone, together;
};

static struct rates rates_measure(void (*what)(struct worker *), const char *name)
{
    struct rates rates;
    rates.alone = rate_measure(what, 1);
    rates.together = rate_measure(what, worker_count);
    printf("  %-7s one thread %8.0f calls/s, %ld threads %8.0f calls/s, %.2f x\n", name,
           rates.alone, worker_count, rates.together, rates.together / rates.alone);
    return rates;
}

static void rates_judge(const struct rates *phasor, const struct rates *bare, long percent)
{
    const double all = phasor->alone * (double)worker_count;
    const double possible = all < bare->together ? all : bare->together;
    const double reached = phasor->together / possible * 100;
    printf("  %.0f %% of what %s\n", reached,
           all < bare->together ? "so many single threads make"
                                : "the driver's bare launches make");
    if (reached < (double)percent)
        WRONG("all threads together reach %.1f %%, and %ld %% were asked for", reached, percent);
}

static void nothing_size(const struct call *call)
{
    size_t nbytes = 0;
    for (int i = 0; i < call->out_count; i++)
        nbytes += call->out[i].nbytes;
    nothing_grid = (unsigned)(nbytes / VECTOR_BYTES / BLOCK + 1);
}

static void threads_compare(phasor_runtime *runtime, phasor_program *program, long percent)
{
    phasor_run_info info = {.size = sizeof info};
    OK(phasor_program_info(program, &info));
    kernels = info.kernels;
    nothing_size(&workers[0].call);
    const uint64_t compiled = counters_of(runtime).compiled;
    const long wanted = call_count;
    call_count = WARM_CALLS;
    rate_measure(calls_make, worker_count);
    call_count = wanted;
    printf("  %ld calls of %d kernel%s in each thread\n", call_count, kernels,
           kernels == 1 ? "" : "s");
    const struct rates phasor = rates_measure(calls_make, "phasor");
    results_check();
    const struct rates bare = rates_measure(launches_make, "bare");
    if (counters_of(runtime).compiled != compiled)
        WRONG("%d kernels were compiled by warm calls",
              (int)(counters_of(runtime).compiled - compiled));
    rates_judge(&phasor, &bare, percent);
}

static phasor_mode mode_read(int count, char **arguments, int index)
{
    const char *name = index < count ? arguments[index] : "exact";
    if (strcmp(name, "exact") != 0 && strcmp(name, "generic") != 0)
        WRONG("argument %d is \"%s\", neither \"exact\" nor \"generic\"", index, name);
    return strcmp(name, "exact") == 0 ? PHASOR_MODE_EXACT : PHASOR_MODE_GENERIC;
}

int main(int count, char **arguments)
{
    struct reference reference;
    void *module;
    if (count < 2)
        WRONG("usage: gpu_threads CASES [THREADS] [CALLS] [LENGTH] [PERCENT] [exact|generic]");
    cases_folder = arguments[1];
    worker_count = argument_number(count, arguments, 2, 1, 16);
    call_count = argument_number(count, arguments, 3, 1, 10000);
    const long length = argument_number(count, arguments, 4, 1, 16);
    const long percent = argument_number(count, arguments, 5, 0, 0);
    const phasor_mode mode = mode_read(count, arguments, 6);
    driver_open();
    CUDA(DevicePrimaryCtxRetain(&context, 0));
    CUDA(CtxSetCurrent(context));
    driver_nothing_load(&module, &nothing, ARGUMENT_BYTES);
    phasor_runtime *runtime = runtime_open(mode, 0);
    phasor_program *program = program_open(runtime, "bench_rope_bf16");
    workers = calloc((size_t)worker_count, sizeof *workers);
    printf("threads: %ld threads, length %ld, %s\n", worker_count, length,
           mode == PHASOR_MODE_EXACT ? "exact" : "generic");
    for (long i = 0; i < worker_count; i++)
        worker_open(&workers[i], program, length, (uint64_t)i + 1);
    reference_open(&reference, "bench_rope_bf16");
    reference_check(&reference, &workers[0].alone, "one thread alone");
    reference_close(&reference);
    threads_compare(runtime, program, percent);
    for (long i = 0; i < worker_count; i++)
        worker_close(&workers[i]);
    free(workers);
    phasor_program_close(program);
    phasor_close(runtime);
    CUDA(ModuleUnload(module));
    CUDA(CtxSetCurrent(NULL));
    CUDA(DevicePrimaryCtxRelease(0));
    driver_finish();
    return 0;
}
