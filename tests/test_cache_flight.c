/* test_cache_flight.c - single flight among processes: who holds the lock of a key, and what
 * becomes of it when the holder dies, stops or forks. */
#include "cache/flight_lock.h"
#include "support/cache_rows.h"
#include "support/child.h"

#include <signal.h>
#include <time.h>

TestSuite(cache_flight, .init = setup, .fini = teardown);

/* A wait for another process is 10 s; the work of a test is milliseconds, on a busy machine too. */
#define NO_WAIT_S 9.0

static struct hash key_of(const char *name)
{
    return hash_bytes(name, strlen(name));
}

/* A child that holds the lock of "a" until it is killed. */
static pid_t holder_start(void)
{
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct flight_lock lock = FLIGHT_LOCK_NONE;
        struct cache *cache = open_here();
        const bool mine = flight_lock_try(cache, key_of("a"), &lock) == FLIGHT_MINE;
        if (write(ready[1], mine ? "1" : "0", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    cr_assert_eq(byte, '1');
    close(ready[0]);
    close(ready[1]);
    return child;
}

Test(cache_flight, one_holder_for_each_key)
{
    struct flight_lock one = FLIGHT_LOCK_NONE, two = FLIGHT_LOCK_NONE, other = FLIGHT_LOCK_NONE;
    struct cache *cache = open_here();
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &one), FLIGHT_MINE);
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &two), FLIGHT_OTHERS);
    cr_assert_eq(flight_lock_try(cache, key_of("b"), &other), FLIGHT_MINE);
    flight_lock_release(&one);
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &two), FLIGHT_MINE);
    flight_lock_release(&two);
    flight_lock_release(&other);
    flight_lock_release(&other);
    cache_close(cache);
    cache = open_at(":memory:", false, 0);
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &one), FLIGHT_NONE);
    flight_lock_release(&one);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* Stopped: the others are told at once, and may go on beside it. Killed: the lock is free. */
Test(cache_flight, a_holder_that_is_stopped_or_killed_blocks_nobody)
{
    struct flight_lock lock = FLIGHT_LOCK_NONE;
    const pid_t child = holder_start();
    struct cache *cache = open_here();
    const double before = seconds_now();
    kill(child, SIGSTOP);
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &lock), FLIGHT_OTHERS);
    simple_put(cache, "a"); /* who does not wait writes its own */
    cr_assert_eq(simple_is(cache, "a"), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &lock), FLIGHT_MINE);
    cr_assert_lt(seconds_now() - before, NO_WAIT_S);
    flight_lock_release(&lock);
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

Test(cache_flight, a_forked_child_does_not_keep_the_lock)
{
    struct flight_lock lock = FLIGHT_LOCK_NONE, next = FLIGHT_LOCK_NONE;
    struct cache *cache = open_here();
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &lock), FLIGHT_MINE);
    const pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    flight_lock_release(&lock);
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &next), FLIGHT_MINE);
    flight_lock_release(&next);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* The lock file of another owner's making, of another kind, or none at all. */
Test(cache_flight, a_lock_file_that_cannot_be_used_is_no_lock)
{
    char name[800];
    struct flight_lock lock = FLIGHT_LOCK_NONE;
    struct cache *cache = open_here();
    snprintf(name, sizeof name, "%s/phasor.lock", directory);
    cr_assert_eq(symlink("/etc/passwd", name), 0);
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &lock), FLIGHT_NONE);
    unlink(name);
    cr_assert_eq(mkdir(name, 0700), 0);
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &lock), FLIGHT_NONE);
    rmdir(name);
    /* a file that a dead process left, with its number in it, means nothing */
    FILE *out = fopen(name, "w");
    fputs("4711\n", out);
    fclose(out);
    cr_assert_eq(flight_lock_try(cache, key_of("a"), &lock), FLIGHT_MINE);
    flight_lock_release(&lock);
    cr_assert(exists("%s", name)); /* never removed */
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

/* A writer that is stopped in its transaction: others wait no longer than the busy timeout. */
Test(cache_flight, a_stopped_writer_costs_a_bounded_wait)
{
    int ready[2];
    char byte;
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cr_assert_eq(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        sqlite3 *db;
        sqlite3_open(file, &db);
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (write(ready[1], "1", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    kill(child, SIGSTOP);
    double before = seconds_now();
    cr_assert_eq(simple_is(cache, "a"), 1); /* reading waits for nobody */
    cr_assert_lt(seconds_now() - before, NO_WAIT_S);
    before = seconds_now();
    simple_put(cache, "b");
    const double first = seconds_now() - before;
    cr_assert_gt(first, NO_WAIT_S, "%.1f s", first);
    before = seconds_now();
    simple_put(cache, "b"); /* it has learned: the next one waits less */
    cr_assert_lt(seconds_now() - before, NO_WAIT_S);
    cr_assert_eq(warnings, 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    simple_put(cache, "b");
    cr_assert_eq(simple_is(cache, "b"), 1);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}
