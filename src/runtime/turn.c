/* turn.c - see turn.h. */
#include "runtime/turn.h"

#include "base/log.h"

#include <string.h>
#include <time.h>

enum { PAUSE_MS = 2 };

/* Archs and toolchains of one key are compiled on their own. */
static struct hash turn_key(const struct phasor_runtime *runtime,
                            const struct recipe_kernel *kernel, const char *toolchain)
{
    toolchain = toolchain ? toolchain : "";
    const struct hash parts[3] = {kernel->key, hash_bytes(runtime->arch, strlen(runtime->arch)),
                                  hash_bytes(toolchain, strlen(toolchain))};
    return hash_bytes(parts, sizeof parts);
}

static bool is_interrupted(const struct phasor_runtime *runtime)
{
    const phasor_options *options = &runtime->options;
    return options->interrupted && options->interrupted(options->interrupted_context);
}

static int64_t milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A holder that was stopped, or hangs, costs a second compile and nothing else. */
static phasor_status turn_wait(struct phasor_runtime *runtime, struct hash key,
                               const struct recipe_kernel *kernel, struct flight_lock *turn)
{
    const int64_t end = milliseconds_now() + TURN_WAIT_MS;
    while (flight_lock_try(runtime->cache, key, turn) == FLIGHT_OTHERS) {
        const struct timespec pause = {0, PAUSE_MS * 1000000L};
        if (is_interrupted(runtime))
            return fail(PHASOR_ERROR_INTERRUPTED, "interrupted before %s was compiled",
                        kernel->name);
        if (milliseconds_now() >= end) {
            log_line(LOG_INFO,
                     "%s: another process has been compiling it for %d s; it is compiled here too",
                     kernel->name, TURN_WAIT_MS / 1000);
            return PHASOR_OK;
        }
        nanosleep(&pause, NULL);
    }
    return PHASOR_OK;
}

static bool row_is_there(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                         const char *toolchain)
{
    const struct cache_key_query query = {kernel->key,   kernel->key_bytes, kernel->key_size,
                                          runtime->arch, toolchain,         !toolchain};
    return cache_has_kernel(runtime->cache, &query);
}

static bool is_patient(const struct phasor_runtime *runtime)
{
    return !runtime->device || runtime->options.wait_for_others;
}

phasor_status turn_take(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                        struct flight_lock *turn, bool *again)
{
    const char *toolchain = runtime_toolchain(runtime);
    if (!is_patient(runtime)) {
        turn_try(runtime, kernel, turn, again);
        return PHASOR_OK;
    }
    *turn = FLIGHT_LOCK_NONE;
    *again = false;
    const phasor_status status =
        turn_wait(runtime, turn_key(runtime, kernel, toolchain), kernel, turn);
    if (status != PHASOR_OK)
        turn_give(turn);
    else
        *again = row_is_there(runtime, kernel, toolchain);
    return status;
}

bool turn_try(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
              struct flight_lock *turn, bool *again)
{
    const char *toolchain = runtime_toolchain(runtime);
    *turn = FLIGHT_LOCK_NONE;
    const enum flight_turn result =
        flight_lock_try(runtime->cache, turn_key(runtime, kernel, toolchain), turn);
    if (result == FLIGHT_OTHERS)
        turn_give(turn); /* the descriptor: nothing is held */
    *again = result == FLIGHT_MINE && row_is_there(runtime, kernel, toolchain);
    return result != FLIGHT_OTHERS || !is_patient(runtime);
}

void turn_give(struct flight_lock *turn)
{
    flight_lock_release(turn);
}
