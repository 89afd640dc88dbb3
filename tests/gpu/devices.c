/* devices.c - contexts of one device, and several devices in one process.
 *
 *     gpu_devices CASES contexts [LENGTH 32] [ROUNDS 20]
 *         primary       the device's primary context
 *         own           a context that the caller made
 *         both          a runtime in each of the two, in turn
 *         none          a thread that has no context
 *         crossed       a runtime of the primary context, called from the caller's own
 *     gpu_devices CASES two [LENGTH 32] [ROUNDS 20]
 *         alternating   two GPUs in turn, each called while the other's context is current
 *         foreign       memory of the other GPU is refused, and the next call is right
 *         parallel      two threads for each GPU, from an empty cache
 *         following     one runtime and one program for both GPUs: calls go where their tensors are,
 *                       in turn and in parallel; what is refused; outputs that outlive all
 *
 * Everything is compared with the CPU device. With two GPUs the runtimes share a cache on disk, or
 * are one: each kernel is compiled once for each arch, so once where both are of one kind. Exit 77
 * where there is one GPU alone. */
#include "call.h"
#include "support/leak_options.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_EACH = 2, THREADS = 2 * THREADS_EACH };

static long length, rounds;
static struct reference reference;

/* -- a place: a context with a stream and buffers, and a runtime that was opened in it --------- */

enum whose { PRIMARY, OWN };

struct place {
    int ordinal;
    enum whose whose;
    void *context, *stream;
    phasor_runtime *runtime;
    phasor_program *program;
    struct call call;
};

static void context_open(struct place *p, int ordinal, enum whose whose)
{
    *p = (struct place){.ordinal = ordinal, .whose = whose};
    if (whose == PRIMARY)
        CUDA(DevicePrimaryCtxRetain(&p->context, ordinal));
    else
        CUDA(CtxCreate(&p->context, 0, ordinal));
    CUDA(CtxSetCurrent(p->context));
}

static void place_open(struct place *p, int ordinal, enum whose whose,
                       const phasor_options *options)
{
    phasor_options changed = *options;
    changed.ordinal = ordinal;
    context_open(p, ordinal, whose);
    OK(phasor_open(&p->runtime, &changed));
    p->program = program_open(p->runtime, "bench_rope_bf16");
    CUDA(StreamCreate(&p->stream, STREAM_NON_BLOCKING));
    rope_new(&p->call, p->program, ordinal, 1, length);
}

static void place_leave(struct place *p)
{
    CUDA(StreamDestroy(p->stream));
    CUDA(CtxSetCurrent(NULL));
    if (p->whose == PRIMARY)
        CUDA(DevicePrimaryCtxRelease(p->ordinal));
    else
        CUDA(CtxDestroy(p->context));
}

static void place_close(struct place *p)
{
    CUDA(CtxSetCurrent(p->context));
    call_free(&p->call);
    phasor_program_close(p->program);
    phasor_close(p->runtime);
    place_leave(p);
}

/* The call itself is made while `current` is the thread's context, or none. */
static void place_call(struct place *p, void *current, uint64_t seed, const char *what)
{
    void *after = NULL;
    CUDA(CtxSetCurrent(p->context));
    call_fill(&p->call, seed, p->stream);
    CUDA(CtxSetCurrent(current));
    OK(call_run(&p->call, NULL, p->stream));
    CUDA(CtxGetCurrent(&after));
    if (after != current)
        WRONG("%s: a call leaves another context current than it found", what);
    CUDA(CtxSetCurrent(p->context));
    call_read(&p->call, p->stream);
    reference_check(&reference, &p->call, what);
}

/* -- one device -------------------------------------------------------------------------------- */

static void test_place(enum whose whose, const char *name)
{
    const phasor_options options = options_for(PHASOR_MODE_EXACT, 0);
    struct place p;
    place_open(&p, 0, whose, &options);
    for (long i = 0; i < rounds; i++)
        place_call(&p, p.context, (uint64_t)i, name);
    place_close(&p);
    printf("contexts: %-8s right\n", name);
}

static void test_both(void)
{
    const phasor_options options = options_for(PHASOR_MODE_EXACT, 0);
    struct place primary, own;
    place_open(&primary, 0, PRIMARY, &options);
    place_open(&own, 0, OWN, &options);
    for (long i = 0; i < rounds; i++) {
        place_call(&primary, primary.context, (uint64_t)i, "both, primary");
        place_call(&own, own.context, (uint64_t)i, "both, own");
    }
    place_close(&own);
    place_call(&primary, primary.context, 1, "both, after the own context was destroyed");
    place_close(&primary);
    printf("contexts: both     right\n");
}

static void *none_run(void *argument)
{
    struct place *p = argument;
    for (long i = 0; i < rounds; i++)
        place_call(p, NULL, (uint64_t)i, "a thread without a context");
    CUDA(CtxSetCurrent(NULL));
    return NULL;
}

static void test_none(void)
{
    const phasor_options options = options_for(PHASOR_MODE_EXACT, 0);
    struct place p;
    pthread_t thread;
    place_open(&p, 0, PRIMARY, &options);
    if (pthread_create(&thread, NULL, none_run, &p) != 0)
        WRONG("a thread cannot be started");
    pthread_join(thread, NULL);
    place_close(&p);
    printf("contexts: none     right\n");
}

/* Stream and buffers are of the caller's own context, weights and kernels of the primary one. */
static void test_crossed(void)
{
    const phasor_options options = options_for(PHASOR_MODE_EXACT, 0);
    struct place primary, own;
    place_open(&primary, 0, PRIMARY, &options);
    place_call(&primary, primary.context, 1, "crossed, primary");
    context_open(&own, 0, OWN);
    own.runtime = primary.runtime;
    own.program = primary.program;
    CUDA(StreamCreate(&own.stream, STREAM_NON_BLOCKING));
    rope_new(&own.call, own.program, 0, 1, length);
    for (long i = 0; i < rounds; i++)
        place_call(&own, own.context, (uint64_t)i,
                   "a runtime of the primary context, called from "
                   "the caller's own");
    call_free(&own.call);
    CUDA(StreamDestroy(own.stream));
    CUDA(CtxSetCurrent(NULL));
    CUDA(CtxDestroy(own.context));
    place_close(&primary);
    printf("contexts: crossed  right\n");
}

static void test_contexts(void)
{
    test_place(PRIMARY, "primary");
    test_place(OWN, "own");
    test_both();
    test_none();
    test_crossed();
}

/* -- two devices ------------------------------------------------------------------------------- */

static char cache[64];

static int entry_remove(const char *path, const struct stat *entry, int type, struct FTW *where)
{
    (void)entry, (void)type, (void)where;
    return remove(path);
}

static phasor_options cache_new(void)
{
    phasor_options options = options_for(PHASOR_MODE_EXACT, 0);
    strcpy(cache, "/tmp/phasor-devices-XXXXXX");
    if (!mkdtemp(cache))
        WRONG("%s cannot be made", cache);
    options.cache = cache;
    return options;
}

static void cache_remove(void)
{
    nftw(cache, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* As many kernels were compiled as one device needs, for each arch. */
static void compiles_check(const struct place *first, const struct place *second, const char *what)
{
    const uint64_t a = counters_of(first->runtime).compiled;
    const uint64_t b = counters_of(second->runtime).compiled;
    const uint64_t each =
        counters_of(first->runtime).compiled + counters_of(first->runtime).cache_hits;
    const char *arch[2] = {phasor_arch_name(first->runtime), phasor_arch_name(second->runtime)};
    const uint64_t archs = strcmp(arch[0], arch[1]) == 0 ? 1 : 2;
    printf("two: %s: %d kernels compiled for %s by device %d, %d for %s by device %d\n", what,
           (int)a, arch[0], first->ordinal, (int)b, arch[1], second->ordinal);
    if (each == 0 || a + b != each * archs)
        WRONG("%s: %d kernels were compiled for %d arch%s, not %d for each", what, (int)(a + b),
              (int)archs, archs == 1 ? "" : "s", (int)each);
}

static void test_alternating(enum whose first, enum whose second, const char *what)
{
    const phasor_options options = cache_new();
    struct place a, b;
    place_open(&a, 0, first, &options);
    place_open(&b, 1, second, &options);
    for (long i = 0; i < rounds; i++) {
        place_call(&a, i % 2 ? b.context : a.context, (uint64_t)i, what);
        place_call(&b, i % 2 ? a.context : b.context, (uint64_t)i, what);
    }
    compiles_check(&a, &b, what);
    place_close(&b);
    place_call(&a, a.context, 1, "after the other device was closed");
    place_close(&a);
    cache_remove();
}

/* The runtime of device 0 with an input of device 1. */
static void test_foreign(void)
{
    const phasor_options options = cache_new();
    struct place a, b;
    place_open(&a, 0, PRIMARY, &options);
    place_open(&b, 1, PRIMARY, &options);
    place_call(&a, a.context, 1, "before memory of another device");
    const phasor_value own = a.call.inputs[0];
    a.call.inputs[0] = b.call.inputs[0];
    const phasor_status status = call_run(&a.call, NULL, a.stream);
    if (status != PHASOR_ERROR_INPUT || !strstr(phasor_message(), "device 1"))
        WRONG("an input of device 1 for a runtime of device 0 gives %s: %s",
              phasor_status_name(status), phasor_message());
    a.call.inputs[0] = own;
    place_call(&a, a.context, 2, "after memory of another device");
    place_close(&b);
    place_close(&a);
    cache_remove();
    printf("two: memory of the other device is refused\n");
}

struct worker {
    pthread_t thread;
    struct place place; /* with the runtime of another place */
    int number;
};

static pthread_barrier_t barrier;

static void *worker_run(void *argument)
{
    struct worker *w = argument;
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < rounds; i++)
        place_call(&w->place, w->place.context, (uint64_t)(i * THREADS + w->number),
                   "threads on both devices");
    CUDA(CtxSetCurrent(NULL));
    return NULL;
}

static void worker_open(struct worker *w, const struct place *from, int number)
{
    w->place = *from;
    w->number = number;
    CUDA(CtxSetCurrent(from->context));
    CUDA(StreamCreate(&w->place.stream, STREAM_NON_BLOCKING));
    rope_new(&w->place.call, from->program, from->ordinal, 1, length);
}

static void worker_close(struct worker *w)
{
    pthread_join(w->thread, NULL);
    CUDA(CtxSetCurrent(w->place.context));
    call_free(&w->place.call);
    CUDA(StreamDestroy(w->place.stream));
}

static void test_parallel(void)
{
    phasor_options options = cache_new();
    struct place places[2];
    struct worker workers[THREADS];
    options.wait_for_others = true; /* else each runtime compiles what it needs at once */
    for (int i = 0; i < 2; i++)
        place_open(&places[i], i, PRIMARY, &options);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        worker_open(&workers[i], &places[i % 2], i);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
            WRONG("a thread cannot be started");
    for (int i = 0; i < THREADS; i++)
        worker_close(&workers[i]);
    pthread_barrier_destroy(&barrier);
    compiles_check(&places[0], &places[1], "parallel");
    place_close(&places[1]);
    place_close(&places[0]);
    cache_remove();
}

/* -- one runtime for two devices --------------------------------------------------------------- */

struct shared {
    phasor_runtime *runtime;
    phasor_program *program;
    uint64_t kernels; /* that a device needs */
    int archs;
};

/* Of a runtime of each device alone. */
static void shared_count(struct shared *s)
{
    char arch[2][16];
    for (int i = 0; i < 2; i++) {
        phasor_options options = options_for(PHASOR_MODE_EXACT, i);
        struct place p;
        place_open(&p, i, PRIMARY, &options);
        place_call(&p, p.context, 1, "a device alone");
        s->kernels = counters_of(p.runtime).compiled;
        snprintf(arch[i], sizeof arch[i], "%s", phasor_arch_name(p.runtime));
        place_close(&p);
    }
    s->archs = strcmp(arch[0], arch[1]) == 0 ? 1 : 2;
}

/* No device is named, and the cache is in memory. */
static void shared_open(struct shared *s, phasor_mode mode)
{
    phasor_options options = options_for(mode, 0);
    options.device = PHASOR_DEVICE_DEFAULT;
    CUDA(CtxSetCurrent(NULL));
    OK(phasor_open(&s->runtime, &options));
    s->program = program_open(s->runtime, "bench_rope_bf16");
}

static void shared_close(struct shared *s)
{
    phasor_program_close(s->program);
    phasor_close(s->runtime);
}

static void shared_check(const struct shared *s, const char *what)
{
    const uint64_t compiled = counters_of(s->runtime).compiled,
                   want = s->kernels * (uint64_t)s->archs;
    printf("two: %s: %d kernels compiled for %d arch%s\n", what, (int)compiled, s->archs,
           s->archs == 1 ? "" : "s");
    if (s->kernels == 0 || compiled != want)
        WRONG("%s: %d kernels were compiled for %d arch%s, not %d", what, (int)compiled, s->archs,
              s->archs == 1 ? "" : "s", (int)want);
}

static void guest_open(struct place *p, const struct shared *s, int ordinal, enum whose whose)
{
    context_open(p, ordinal, whose);
    p->runtime = s->runtime;
    p->program = s->program;
    CUDA(StreamCreate(&p->stream, STREAM_NON_BLOCKING));
    rope_new(&p->call, p->program, ordinal, 1, length);
}

/* The program and its runtime are closed by others. */
static void guest_close(struct place *p)
{
    CUDA(CtxSetCurrent(p->context));
    call_free(&p->call);
    place_leave(p);
}

static void test_following(struct shared *s, enum whose whose, const char *what)
{
    struct place a, b;
    shared_open(s, PHASOR_MODE_EXACT);
    guest_open(&a, s, 0, PRIMARY);
    guest_open(&b, s, 1, whose);
    for (long i = 0; i < rounds; i++) {
        place_call(&b, i % 2 ? a.context : b.context, (uint64_t)i, what);
        place_call(&a, i % 2 ? b.context : a.context, (uint64_t)i, what);
    }
    const uint64_t launches = counters_of(s->runtime).launches;
    if (launches < 2 * (uint64_t)rounds)
        WRONG("%s: %d launches of %ld calls are counted", what, (int)launches, 2 * rounds);
    shared_check(s, what);
    CUDA(CtxSetCurrent(NULL));
    shared_close(s);
    guest_close(&b);
    guest_close(&a);
}

static void refusal_check(phasor_status status, const char *first, const char *second,
                          const char *what)
{
    if (status != PHASOR_ERROR_INPUT || !strstr(phasor_message(), first) ||
        !strstr(phasor_message(), second))
        WRONG("%s gives %s: \"%s\" lacks \"%s\" or \"%s\"", what, phasor_status_name(status),
              phasor_message(), first, second);
}

/* Tensors on two devices in one call, and a state on another device than its first call. */
static void test_refused(struct shared *s)
{
    struct place a, b;
    phasor_state *state;
    shared_open(s, PHASOR_MODE_EXACT);
    guest_open(&a, s, 0, PRIMARY);
    guest_open(&b, s, 1, PRIMARY);
    const phasor_value input = a.call.inputs[1], output = a.call.outputs[0];
    a.call.inputs[1] = b.call.inputs[1];
    refusal_check(call_run(&a.call, NULL, a.stream), "input 1 (", "CUDA device 0, where input 0 (",
                  "a second input on another device");
    a.call.inputs[1] = input;
    a.call.outputs[0] = b.call.outputs[0];
    refusal_check(call_run(&a.call, NULL, a.stream), "output 0 (", "CUDA device 0, where input 0 (",
                  "an output on another device");
    a.call.outputs[0] = output;
    OK(phasor_state_new(s->program, &state));
    call_fill(&b.call, 1, b.stream);
    OK(call_run(&b.call, state, b.stream));
    refusal_check(call_run(&a.call, state, a.stream), "state is on CUDA device 1", "CUDA device 0",
                  "a state of another device");
    OK(phasor_state_check(s->program, state));
    OK(call_run(&b.call, state, b.stream));
    phasor_state_free(state);
    place_call(&a, a.context, 2, "after what was refused");
    place_call(&b, b.context, 2, "after what was refused");
    shared_close(s);
    guest_close(&b);
    guest_close(&a);
    printf("two: tensors on two devices and a state of another device are refused\n");
}

/* Owned outputs as those of a call, for reading and comparing. */
static void outputs_check(struct place *p, phasor_value *owned, const char *what)
{
    struct buffer kept[SLOTS_MOST];
    memcpy(kept, p->call.out, sizeof kept);
    CUDA(CtxSetCurrent(p->context));
    for (int i = 0; i < p->call.out_count; i++) {
        const DLTensor *t = &owned[i].owned->dl_tensor;
        if (t->device.device_type != kDLCUDA || t->device.device_id != p->ordinal)
            WRONG("%s: output %d is on device %d, not %d", what, i, t->device.device_id,
                  p->ordinal);
        p->call.out[i].tensor.data = (char *)t->data + t->byte_offset;
    }
    call_read(&p->call, p->stream);
    reference_check(&reference, &p->call, what);
    for (int i = 0; i < p->call.out_count; i++)
        p->call.out[i].tensor = kept[i].tensor;
}

/* Outputs of both devices, deleted in either order after all else was closed. */
static void test_outlive(struct shared *s, int first_deleted)
{
    const char *what = "outputs that outlive their runtime";
    struct place places[2];
    phasor_value owned[2][SLOTS_MOST];
    shared_open(s, PHASOR_MODE_EXACT);
    for (int k = 0; k < 2; k++) {
        struct place *p = &places[k];
        guest_open(p, s, k, PRIMARY);
        call_fill(&p->call, (uint64_t)k, p->stream);
        OK(phasor_run(s->program, NULL, p->call.inputs, p->call.in_count, owned[k],
                      p->call.out_count, p->stream));
    }
    shared_close(s);
    for (int k = 0; k < 2; k++)
        outputs_check(&places[k], owned[k], what);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < places[k].call.out_count; i++) {
            phasor_value *v = &owned[k ? 1 - first_deleted : first_deleted][i];
            v->owned->deleter(v->owned);
        }
    for (int k = 0; k < 2; k++)
        guest_close(&places[k]);
}

/* Both devices begin at once, with nothing compiled. */
static void test_following_parallel(struct shared *s, phasor_mode mode, const char *what)
{
    struct worker workers[THREADS];
    shared_open(s, mode);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        guest_open(&workers[i].place, s, i % 2, PRIMARY);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
            WRONG("a thread cannot be started");
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    if (mode == PHASOR_MODE_EXACT)
        shared_check(s, what);
    shared_close(s);
    for (int i = 0; i < THREADS; i++)
        guest_close(&workers[i].place);
}

static void test_shared(void)
{
    struct shared s;
    shared_count(&s);
    test_following(&s, PRIMARY, "following, primary contexts");
    test_following(&s, OWN, "following, an own context of the second device");
    test_refused(&s);
    test_outlive(&s, 0);
    test_outlive(&s, 1);
    test_following_parallel(&s, PHASOR_MODE_EXACT, "following in parallel");
    test_following_parallel(&s, PHASOR_MODE_AUTO, "following in parallel, auto");
    printf("two: one runtime follows the tensors of its calls\n");
}

static void test_two(void)
{
    test_alternating(PRIMARY, PRIMARY, "alternating, primary contexts");
    test_alternating(OWN, OWN, "alternating, own contexts");
    test_alternating(PRIMARY, OWN, "alternating, a primary and an own context");
    test_foreign();
    test_parallel();
    test_shared();
}

/* -- all --------------------------------------------------------------------------------------- */

int main(int count, char **arguments)
{
    if (count < 3)
        WRONG("usage: gpu_devices CASES contexts|two [LENGTH] [ROUNDS]");
    cases_folder = arguments[1];
    const bool two = strcmp(arguments[2], "two") == 0;
    if (!two && strcmp(arguments[2], "contexts") != 0)
        WRONG("\"%s\" is neither \"contexts\" nor \"two\"", arguments[2]);
    length = argument_number(count, arguments, 3, 1, 32);
    rounds = argument_number(count, arguments, 4, 1, 20);
    driver_open();
    if (two && driver_devices() < 2) {
        printf("skipped: there is one device, and this needs two\n");
        return 77;
    }
    reference_open(&reference, "bench_rope_bf16");
    if (two)
        test_two();
    else
        test_contexts();
    reference_close(&reference);
    driver_finish();
    return 0;
}
