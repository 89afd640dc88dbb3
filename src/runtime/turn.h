/* turn.h - one compile of a kernel among the processes that share a cache.
 *
 *     TRY(turn_take(runtime, kernel, &turn, &again));    may wait for another process
 *     if (again) { look into the cache once more }
 *     compile, put into the cache
 *     turn_give(&turn);
 *
 * Who runs nothing, prewarming for others, waits: at most TURN_WAIT_MS for one kernel, then it
 * compiles beside the other. Who serves never waits: it compiles for itself and uses its own cubin,
 * and those who can wait wait for it. */
#pragma once
#include "cache/flight_lock.h"
#include "runtime/runtime.h"

enum { TURN_WAIT_MS = 10000 };

/* again: a row is there now. PHASOR_ERROR_INTERRUPTED: while it waited. */
phasor_status turn_take(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                        struct flight_lock *turn, bool *again);
/* Never waits. False: another process compiles it, and the caller is one who waits for that, by
 * turn_take, when it holds no other turn. */
bool turn_try(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
              struct flight_lock *turn, bool *again);
void turn_give(struct flight_lock *turn);
