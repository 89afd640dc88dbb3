/* capture.c - calls captured into CUDA graphs, in each of the driver's capture modes.
 *
 *     gpu_capture CASES [LENGTH 64] [REPLAYS 5]
 *
 *     warm          a call that was made before: replayed with other inputs, right each time
 *     new length    a length that no call had, with the generic kernels of its class: the same,
 *                   and nothing is compiled
 *     cold          nothing is ready: PHASOR_NOT_READY, the capture goes on, and a warm call of
 *                   another program after it is in the graph; phasor_run is refused likewise
 *     beside        another thread compiles another program while the stream captures
 *     twice         outputs that are one tensor, captured, replayed, freed; device memory is flat
 *
 * What is replayed is compared bit for bit with the same call without a capture, and that with the
 * CPU device. */
#include "call.h"
#include "support/leak_options.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 8, ROUNDS_FIRST = 3, GROWTH_MOST = 4 << 20 };

static const char *const mode_names[CAPTURE_MODES] = {"global", "thread_local", "relaxed"};

static long length, replays;
static int mode; /* of the captures */
static void *stream, *context;

/* -- captures ---------------------------------------------------------------------------------- */

struct graph {
    void *graph, *executable;
};

static void capture_begin(void)
{
    CUDA(StreamBeginCapture(stream, mode));
}

static void capture_is_whole(const char *after)
{
    int status = 0;
    CUDA(StreamIsCapturing(stream, &status));
    if (status != CAPTURE_STATUS_ACTIVE)
        WRONG("%s capture: after %s its status is %d, not active", mode_names[mode], after, status);
}

static struct graph capture_end(void)
{
    struct graph graph = {0};
    capture_is_whole("all calls");
    CUDA(StreamEndCapture(stream, &graph.graph));
    CUDA(GraphInstantiate(&graph.executable, graph.graph, 0));
    return graph;
}

static void graph_close(struct graph *graph)
{
    CUDA(GraphExecDestroy(graph->executable));
    CUDA(GraphDestroy(graph->graph));
}

/* The graph holds `call`. `plain` is another call of the same program and sizes. */
static void graph_check(const struct graph *graph, struct call *call, struct call *plain,
                        const struct reference *reference, const char *what)
{
    char where[128];
    for (long i = 0; i < replays; i++) {
        const uint64_t seed = 1000 + (uint64_t)i;
        snprintf(where, sizeof where, "%s, capture mode %s, replay %ld", what, mode_names[mode], i);
        call_fill(call, seed, stream);
        call_fill(plain, seed, stream);
        CUDA(GraphLaunch(graph->executable, stream));
        call_read(call, stream);
        OK(call_run(plain, NULL, stream));
        call_read(plain, stream);
        call_same(call, plain, where);
        if (i == 0)
            reference_check(reference, call, where);
    }
}

static void not_ready_check(phasor_status status, const char *what)
{
    if (status != PHASOR_NOT_READY)
        WRONG("capture mode %s: %s gives %s, not %s: %s", mode_names[mode], what,
              phasor_status_name(status), phasor_status_name(PHASOR_NOT_READY), phasor_message());
    if (!strstr(phasor_message(), "capturing"))
        WRONG("the message of %s says nothing of the capture: %s", what, phasor_message());
    capture_is_whole(what);
}

/* Outputs that Phasor would allocate are never captured. */
static void expect_not_ready(struct call *call)
{
    phasor_value owned[SLOTS_MOST];
    not_ready_check(call_run(call, NULL, stream), "a cold call");
    not_ready_check(phasor_run(call->program, NULL, call->inputs, call->in_count, owned,
                               call->out_count, stream),
                    "phasor_run");
}

/* -- one program and its lengths --------------------------------------------------------------- */

struct rope {
    phasor_runtime *runtime;
    phasor_program *program;
    struct reference reference;
};

static void rope_open(struct rope *r, phasor_mode how)
{
    r->runtime = runtime_open(how, 0);
    r->program = program_open(r->runtime, "bench_rope_bf16");
    reference_open(&r->reference, "bench_rope_bf16");
}

static void rope_close(struct rope *r)
{
    reference_close(&r->reference);
    phasor_program_close(r->program);
    phasor_close(r->runtime);
}

static void capture_one(const struct rope *r, struct call *call, struct call *plain,
                        const char *what)
{
    const uint64_t compiled = counters_of(r->runtime).compiled;
    capture_begin();
    OK(call_run(call, NULL, stream));
    struct graph graph = capture_end();
    if (counters_of(r->runtime).compiled != compiled)
        WRONG("%s: %d kernels were compiled while the stream captured", what,
              (int)(counters_of(r->runtime).compiled - compiled));
    graph_check(&graph, call, plain, &r->reference, what);
    graph_close(&graph);
}

static void test_warm(void)
{
    struct rope r;
    struct call call, plain;
    rope_open(&r, PHASOR_MODE_EXACT);
    rope_new(&call, r.program, 0, 2, length);
    rope_new(&plain, r.program, 0, 2, length);
    OK(call_run(&call, NULL, stream));
    capture_one(&r, &call, &plain, "warm");
    call_free(&call);
    call_free(&plain);
    rope_close(&r);
}

static void test_new_length(void)
{
    struct rope r;
    struct call known, call, plain;
    rope_open(&r, PHASOR_MODE_GENERIC);
    rope_new(&known, r.program, 0, 2, length);
    OK(call_run(&known, NULL, stream));
    rope_new(&call, r.program, 0, 2, length - 1);
    rope_new(&plain, r.program, 0, 2, length - 1);
    capture_one(&r, &call, &plain, "new length");
    call_free(&known);
    call_free(&call);
    call_free(&plain);
    rope_close(&r);
}

/* -- twice and twice_complex ------------------------------------------------------------------- */

struct twice {
    phasor_program *program;
    struct reference reference;
    const phasor_binding *sizes;
    int size_count;
};

static const phasor_binding nine[] = {{"x.0", 9}};

static void twice_open(struct twice *t, phasor_runtime *runtime, const char *name)
{
    const bool is_static = strcmp(name, "twice") == 0;
    t->program = program_open(runtime, name);
    reference_open(&t->reference, name);
    t->sizes = nine;
    t->size_count = is_static ? 0 : 1;
}

static void twice_close(struct twice *t)
{
    reference_close(&t->reference);
    phasor_program_close(t->program);
}

static void twice_round(const struct twice *t, const char *name)
{
    struct call call, plain;
    call_new(&call, t->program, 0, t->sizes, t->size_count);
    call_new(&plain, t->program, 0, t->sizes, t->size_count);
    OK(call_run(&call, NULL, stream));
    capture_begin();
    OK(call_run(&call, NULL, stream));
    struct graph graph = capture_end();
    graph_check(&graph, &call, &plain, &t->reference, name);
    /* The buffers go first: a graph that is not launched again needs them no more. */
    call_free(&call);
    graph_close(&graph);
    call_fill(&plain, 7, stream);
    OK(call_run(&plain, NULL, stream));
    call_read(&plain, stream);
    reference_check(&t->reference, &plain, "after the buffers of a graph were freed");
    call_free(&plain);
}

static void test_twice(const char *name)
{
    phasor_runtime *runtime = runtime_open(PHASOR_MODE_DEFAULT, 0);
    struct twice t;
    int64_t used = 0;
    twice_open(&t, runtime, name);
    for (int round = 0; round < ROUNDS; round++) {
        twice_round(&t, name);
        if (round == ROUNDS_FIRST)
            used = driver_memory_used();
    }
    if (driver_memory_used() - used > GROWTH_MOST)
        WRONG("%s: %d captures more take %lld bytes of the device", name, ROUNDS - ROUNDS_FIRST,
              (long long)(driver_memory_used() - used));
    twice_close(&t);
    phasor_close(runtime);
}

/* -- cold calls -------------------------------------------------------------------------------- */

static void test_cold(void)
{
    struct rope r;
    struct twice t;
    struct call cold, warm, plain;
    rope_open(&r, PHASOR_MODE_DEFAULT);
    twice_open(&t, r.runtime, "twice_complex");
    rope_new(&cold, r.program, 0, 2, length);
    call_new(&warm, t.program, 0, t.sizes, t.size_count);
    call_new(&plain, t.program, 0, t.sizes, t.size_count);
    OK(call_run(&warm, NULL, stream));
    capture_begin();
    expect_not_ready(&cold);
    OK(call_run(&warm, NULL, stream));
    expect_not_ready(&cold);
    struct graph graph = capture_end();
    graph_check(&graph, &warm, &plain, &t.reference, "warm beside cold");
    graph_close(&graph);

    /* The call that was refused works once there is no capture. */
    call_fill(&cold, 5, stream);
    OK(call_run(&cold, NULL, stream));
    call_read(&cold, stream);
    reference_check(&r.reference, &cold, "cold, after the capture");
    call_free(&cold);
    call_free(&warm);
    call_free(&plain);
    twice_close(&t);
    rope_close(&r);
}

/* -- another thread compiles ------------------------------------------------------------------- */

struct beside {
    pthread_t thread;
    phasor_program *program;
    struct call call;
    void *stream;
    int state; /* 0: the capture has not begun; 1: it has; 2: the call is done */
};

static void *compile_beside(void *argument)
{
    struct beside *b = argument;
    CUDA(CtxSetCurrent(context));
    while (__atomic_load_n(&b->state, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    OK(call_run(&b->call, NULL, b->stream));
    __atomic_store_n(&b->state, 2, __ATOMIC_RELEASE);
    return NULL;
}

static void beside_open(struct beside *b, phasor_runtime *runtime)
{
    *b = (struct beside){.program = program_open(runtime, "bench_rope_f32")};
    CUDA(StreamCreate(&b->stream, STREAM_NON_BLOCKING));
    rope_new(&b->call, b->program, 0, 1, length + 1);
    call_fill(&b->call, 11, b->stream);
    if (pthread_create(&b->thread, NULL, compile_beside, b) != 0)
        WRONG("a thread cannot be started");
}

static void beside_close(struct beside *b)
{
    struct reference reference;
    pthread_join(b->thread, NULL);
    call_read(&b->call, b->stream);
    reference_open(&reference, "bench_rope_f32");
    reference_check(&reference, &b->call, "compiled while another stream captured");
    reference_close(&reference);
    call_free(&b->call);
    phasor_program_close(b->program);
    CUDA(StreamDestroy(b->stream));
}

static void test_beside(void)
{
    struct rope r;
    struct beside b;
    struct call call, plain;
    int calls = 0;
    rope_open(&r, PHASOR_MODE_EXACT);
    rope_new(&call, r.program, 0, 2, length);
    rope_new(&plain, r.program, 0, 2, length);
    OK(call_run(&call, NULL, stream));
    beside_open(&b, r.runtime);
    const uint64_t compiled = counters_of(r.runtime).compiled;
    capture_begin();
    __atomic_store_n(&b.state, 1, __ATOMIC_RELEASE);
    /* Captured all the while, but no graph of a million launches. */
    while (__atomic_load_n(&b.state, __ATOMIC_ACQUIRE) != 2)
        if (calls++ < 100)
            OK(call_run(&call, NULL, stream));
        else
            sched_yield();
    OK(call_run(&call, NULL, stream));
    struct graph graph = capture_end();
    if (counters_of(r.runtime).compiled == compiled)
        WRONG("the other thread compiled nothing while the stream captured");
    graph_check(&graph, &call, &plain, &r.reference, "beside a compile");
    graph_close(&graph);
    beside_close(&b);
    call_free(&call);
    call_free(&plain);
    rope_close(&r);
}

/* -- all --------------------------------------------------------------------------------------- */

int main(int count, char **arguments)
{
    if (count < 2)
        WRONG("usage: gpu_capture CASES [LENGTH] [REPLAYS]");
    cases_folder = arguments[1];
    length = argument_number(count, arguments, 2, 2, 64);
    replays = argument_number(count, arguments, 3, 1, 5);
    driver_open();
    CUDA(DevicePrimaryCtxRetain(&context, 0));
    CUDA(CtxSetCurrent(context));
    CUDA(StreamCreate(&stream, STREAM_NON_BLOCKING));
    for (mode = 0; mode < CAPTURE_MODES; mode++) {
        test_warm();
        test_new_length();
        test_cold();
        test_beside();
        test_twice("twice");
        test_twice("twice_complex");
        printf("capture: %-12s warm, new length, cold, beside a compile, twice: right\n",
               mode_names[mode]);
    }
    CUDA(StreamDestroy(stream));
    CUDA(CtxSetCurrent(NULL));
    CUDA(DevicePrimaryCtxRelease(0));
    driver_finish();
    return 0;
}
