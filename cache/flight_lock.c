/* flight_lock.c - see flight_lock.h.
 *
 *     key 0123abcd...  ->  byte 0x0123abcd... of phasor.lock
 *
 * One file for all keys: a file a key would need as many inodes as there are kernels, for ever,
 * since a lock file must not be removed. Two keys with one byte only wait for each other. */
#include "cache/flight_lock.h"

#include "cache/cache_internal.h"
#include "cache/location.h"

#include <fcntl.h>
#include <unistd.h>

/* Not byte 0, which is for setting files aside. */
static int64_t key_byte(struct hash key)
{
    return (int64_t)(key.low >> 2) | 1;
}

static int lock_file_open(struct cache *cache)
{
    int descriptor = -1;
    cache_enter(cache);
    if (cache->main.is_file)
        descriptor = location_lock_open(cache->directory);
    cache_leave(cache);
    return descriptor;
}

enum flight_turn flight_lock_try(struct cache *cache, struct hash key, struct flight_lock *lock)
{
    lock->byte = key_byte(key);
    if (lock->descriptor < 0)
        lock->descriptor = lock_file_open(cache);
    if (lock->descriptor < 0)
        return FLIGHT_NONE;
    const enum lock_result result = location_lock_try(lock->descriptor, lock->byte);
    if (result == LOCK_BROKEN)
        flight_lock_release(lock);
    return result == LOCK_TAKEN ? FLIGHT_MINE : result == LOCK_BUSY ? FLIGHT_OTHERS : FLIGHT_NONE;
}

/* Released by name: a child that was forked meanwhile has the same open file, and closing ours
 * alone would leave the lock with it. */
void flight_lock_release(struct flight_lock *lock)
{
    struct flock range = {
        .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = (off_t)lock->byte, .l_len = 1};
    if (lock->descriptor < 0)
        return;
    fcntl(lock->descriptor, F_OFD_SETLK, &range);
    close(lock->descriptor);
    lock->descriptor = -1;
}
