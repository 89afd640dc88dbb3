/* flight_lock.h - one compile among all processes that share a cache.
 *
 *     flight_lock_try(cache, key, &lock)   FLIGHT_MINE: compile, put, release
 *                                          FLIGHT_OTHERS: another process is at it; ask again soon
 *                                          FLIGHT_NONE: nothing to lock here; compile
 *     flight_lock_release(&lock)
 *
 * The kernel releases a lock when its holder dies, however it dies. How long to wait for a holder
 * is the caller's to bound; after waiting, and after taking the lock, it looks into the cache
 * again. */
#pragma once
#include "base/hash.h"
#include "cache/cache.h"

struct flight_lock {
    int descriptor; /* -1: nothing is held */
    int64_t byte;
};
#define FLIGHT_LOCK_NONE ((struct flight_lock){-1, 0})

enum flight_turn { FLIGHT_MINE, FLIGHT_OTHERS, FLIGHT_NONE };

/* lock: FLIGHT_LOCK_NONE at first, then what the call before left in it. Never blocks. */
enum flight_turn flight_lock_try(struct cache *cache, struct hash key, struct flight_lock *lock);
void flight_lock_release(struct flight_lock *lock); /* FLIGHT_LOCK_NONE is fine */
