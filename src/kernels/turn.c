/* turn.c - see turn.h. */
#include "context/runtime.h"
#include "executable/recipe.h"

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

/* -- in the process ---------------------------------------------------------------------------- */

void turns_open(struct turns *turns)
{
    *turns = (struct turns){0};
    pthread_mutex_init(&turns->lock, NULL);
    pthread_cond_init(&turns->changed, NULL);
}

void turns_close(struct turns *turns)
{
    pthread_mutex_destroy(&turns->lock);
    pthread_cond_destroy(&turns->changed);
}

/* By another thread: one that takes it twice, from a function of its caller, compiles twice. */
static bool is_taken(const struct turns *turns, struct hash key)
{
    for (const struct turn *turn = turns->first; turn; turn = turn->next)
        if (hash_equal(turn->key, key) && !pthread_equal(turn->thread, pthread_self()))
            return true;
    return false;
}

/* False: another has it, and it was not to be waited for. */
static bool turn_enter(struct turns *turns, struct hash key, bool wait, struct turn *turn)
{
    *turn = TURN_NONE;
    turn->key = key;
    pthread_mutex_lock(&turns->lock);
    while (wait && is_taken(turns, key))
        pthread_cond_wait(&turns->changed, &turns->lock);
    if (!is_taken(turns, key)) {
        turn->turns = turns;
        turn->thread = pthread_self();
        turn->next = turns->first;
        turns->first = turn;
    }
    pthread_mutex_unlock(&turns->lock);
    return turn->turns != NULL;
}

static void turn_leave(struct turn *turn)
{
    struct turns *turns = turn->turns;
    if (!turns)
        return;
    pthread_mutex_lock(&turns->lock);
    struct turn **at = &turns->first;
    while (*at != turn)
        at = &(*at)->next;
    *at = turn->next;
    pthread_cond_broadcast(&turns->changed);
    pthread_mutex_unlock(&turns->lock);
    turn->turns = NULL;
}

/* -- among processes --------------------------------------------------------------------------- */

static int64_t milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A holder that was stopped, or hangs, costs a second compile and nothing else. */
static phasor_status turn_wait(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                               struct turn *turn)
{
    const int64_t end = milliseconds_now() + TURN_WAIT_MS;
    while (flight_lock_try(runtime->cache, turn->key, &turn->lock) == FLIGHT_OTHERS) {
        const struct timespec pause = {0, PAUSE_MS * 1000000L};
        if (runtime_interrupted(runtime))
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

/* Whether the turn is the caller's; false as in turn_try. */
static bool turn_try_others(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                            const char *toolchain, struct turn *turn, bool *again)
{
    const enum flight_turn result = flight_lock_try(runtime->cache, turn->key, &turn->lock);
    if (result == FLIGHT_OTHERS)
        flight_lock_release(&turn->lock); /* the descriptor: nothing is held */
    *again = (result == FLIGHT_MINE || runtime->first->twins) &&
             row_is_there(runtime, kernel, toolchain);
    return result != FLIGHT_OTHERS || !is_patient(runtime);
}

/* -- both -------------------------------------------------------------------------------------- */

phasor_status turn_take(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                        struct turn *turn, bool *again)
{
    const char *toolchain = runtime_toolchain(runtime);
    turn_enter(&runtime->first->turns, turn_key(runtime, kernel, toolchain), true, turn);
    if (!is_patient(runtime)) {
        turn_try_others(runtime, kernel, toolchain, turn, again);
        return PHASOR_OK;
    }
    *again = false;
    const phasor_status status = turn_wait(runtime, kernel, turn);
    if (status != PHASOR_OK)
        turn_give(turn);
    else
        *again = row_is_there(runtime, kernel, toolchain);
    return status;
}

bool turn_try(struct phasor_runtime *runtime, const struct recipe_kernel *kernel, struct turn *turn,
              bool *again)
{
    const char *toolchain = runtime_toolchain(runtime);
    *again = false;
    if (!turn_enter(&runtime->first->turns, turn_key(runtime, kernel, toolchain), false, turn))
        return false;
    const bool ours = turn_try_others(runtime, kernel, toolchain, turn, again);
    if (!ours)
        turn_give(turn);
    return ours;
}

void turn_give(struct turn *turn)
{
    flight_lock_release(&turn->lock);
    turn_leave(turn);
}
