/* turn.h - one compile of a kernel among the devices of a runtime, and among the processes that
 * share a cache.
 *
 *     TRY(turn_take(runtime, kernel, &turn, &again));    may wait for another process
 *     if (again) { look into the cache once more }
 *     compile, put into the cache
 *     turn_give(&turn);
 *
 * In the process, who comes second waits for the first, and finds the kernel in the cache; threads
 * of one device have met in the table of loaded kernels before. Among processes it depends:
 *
 * Who runs nothing, prewarming for others, waits: at most TURN_WAIT_MS for one kernel, then it
 * compiles beside the other. Who serves never waits: it compiles for itself and uses its own cubin,
 * and those who can wait wait for it. */
#pragma once
#include "cache/flight_lock.h"

#include <pthread.h>

struct phasor_runtime;
struct recipe_kernel;

enum { TURN_WAIT_MS = 10000 };

struct turn {
    struct hash key;
    struct flight_lock lock; /* among processes */
    struct turns *turns;     /* in which it stands; NULL: it is not taken */
    pthread_t thread;        /* that has it */
    struct turn *next;
};
#define TURN_NONE ((struct turn){.lock = FLIGHT_LOCK_NONE})

/* Those that are taken in this process. */
struct turns {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct turn *first;
};
void turns_open(struct turns *turns);
void turns_close(struct turns *turns);

/* The turn stays where it is in memory until it is given back. again: a row is there now.
 * PHASOR_ERROR_INTERRUPTED: while it waited. */
phasor_status turn_take(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                        struct turn *turn, bool *again);
/* Never waits. False: another device's thread or another process compiles it, and the caller is one
 * who waits for that, by turn_take, when it holds no other turn. */
bool turn_try(struct phasor_runtime *runtime, const struct recipe_kernel *kernel, struct turn *turn,
              bool *again);
void turn_give(struct turn *turn); /* one that is not taken is fine */
