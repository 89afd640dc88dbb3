/* background.h - work that no call waits for: specialisations with literal sizes, made while
 * generic kernels serve.
 *
 *     second call with some sizes   ->  queued
 *     a thread of the pool          ->  takes the one that was called most often, compiles, swaps
 * it
 *                                       in
 *
 * Threads start with the first work, run with low priority and end with the runtime. A process that
 * was forked has none: its queue stays as it is, and generic kernels go on serving.
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct phasor_program;
struct phasor_runtime;
struct specialisation;

/* What is done for a specialisation in the background. */
enum later {
    LATER_EXACT, /* its sizes came again: exact kernels where they pay */
    LATER_ANY,   /* its class serves a second call: kernels for any strides and alignments, so that
                    no other class need be waited for */
    LATER_CLASS  /* it makes do with those: the kernels of its own class, then it is made anew */
};

struct background {
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    struct background_work *first;
    struct background_worker *workers;
    int started;
    pid_t process;
    bool closing;
};

void background_init(struct background *background);
/* All programs are closed. */
void background_close(struct background *background);
/* Queues work for the specialisation, of which the caller has a reference; nothing happens when
 * there is no memory or no thread for it. */
void background_add(struct phasor_runtime *runtime, struct specialisation *spec, enum later later);
/* Drops the program's work and waits for what is being done for it. */
void background_forget(struct phasor_runtime *runtime, const struct phasor_program *program);
