/* test_cache_shared.c - the store under several threads, connections and processes, forked and
 * killed ones too. */
#include "support/cache_rows.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

TestSuite(cache_shared, .init = setup, .fini = teardown);

static void name_key(char key[32], int writer, int number)
{
    snprintf(key, 32, "%d/%d", writer, number);
}

static void many_put(struct cache *cache, int writer, int count)
{
    char key[32];
    for (int i = 0; i < count; i++) {
        name_key(key, writer, i);
        simple_put(cache, key);
    }
}

static bool many_are(struct cache *cache, int writer, int count)
{
    char key[32];
    for (int i = 0; i < count; i++) {
        name_key(key, writer, i);
        if (simple_is(cache, key) != 1)
            return false;
    }
    return true;
}

Test(cache_shared, two_connections)
{
    struct cache *one = open_here(), *two = open_here();
    simple_put(one, "a");
    cr_assert_eq(simple_is(two, "a"), 1);
    simple_put(two, "b");
    cr_assert_eq(simple_is(one, "b"), 1);
    cache_close(one);
    simple_put(two, "c");
    cr_assert_eq(simple_is(two, "a") + simple_is(two, "b") + simple_is(two, "c"), 3);
    cache_close(two);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

static void *hold_lock(void *ready)
{
    sqlite3 *db;
    sqlite3_open(file, &db);
    sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL);
    pthread_barrier_wait(ready);
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    sqlite3_close(db);
    return NULL;
}

Test(cache_shared, waits_for_another_writer)
{
    pthread_t thread;
    pthread_barrier_t ready;
    struct cache *cache = open_here();
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&thread, NULL, hold_lock, &ready);
    pthread_barrier_wait(&ready);
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(warnings, 0);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&ready);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

struct worker {
    pthread_t thread;
    struct cache *cache;
    int number;
    bool good;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    many_put(worker->cache, worker->number, 50);
    worker->good = many_are(worker->cache, worker->number, 50);
    return NULL;
}

/* Times of use and counters are worth no warning: another process writes all the while. */
Test(cache_shared, counters_are_lost_in_silence)
{
    sqlite3 *db;
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    cr_assert_eq(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(figure(cache, "hits"), 1); /* those of this process */
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache_shared, threads)
{
    struct worker workers[8] = {0};
    struct cache *cache = open_here();
    for (int i = 0; i < 8; i++) {
        workers[i].cache = cache;
        workers[i].number = i;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(workers[i].thread, NULL);
        cr_assert(workers[i].good);
    }
    cr_assert_eq(figure(cache, "kernels"), 400);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

static pid_t process_start(int number, int count)
{
    const pid_t child = fork();
    if (child == 0) {
        struct cache *cache = open_here();
        many_put(cache, number, count);
        const bool good = many_are(cache, number, count) && warnings == 0;
        cache_close(cache);
        _exit(!good);
    }
    return child;
}

Test(cache_shared, processes_start_together_on_an_empty_directory)
{
    for (int i = 0; i < 8; i++)
        process_start(i, 20);
    for (int i = 0; i < 8; i++) {
        int status = 1;
        wait(&status);
        cr_assert_eq(status, 0);
    }
    struct cache *cache = open_here();
    cr_assert_eq(figure(cache, "kernels"), 160);
    cr_assert_eq(figure(cache, "hits"), 160);
    cache_close(cache);
    cr_assert_eq(warnings, 0);
}

Test(cache_shared, processes_find_the_same_damage)
{
    struct cache *cache = open_here();
    cache_close(cache);
    file_write("no database", 11, 0);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            cache = open_here();
            many_put(cache, i, 10);
            _exit(!many_are(cache, i, 10));
        }
    for (int i = 0; i < 4; i++) {
        int status = 1;
        wait(&status);
        cr_assert_eq(status, 0);
    }
    cache = open_here();
    cr_assert_eq(figure(cache, "kernels"), 40);
    cr_assert(exists("%s.broken-1", file) && !exists("%s.broken-2", file));
    cache_close(cache);
}

Test(cache_shared, killed_writers_leave_whole_rows)
{
    for (int round = 0; round < 20; round++) {
        const pid_t child = process_start(round, 100000);
        nanosleep(&(struct timespec){0, 5000000 + round * 2000000}, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct cache *cache = open_here();
        for (int i = 0, state = 1; state == 1; i++) {
            char key[32];
            name_key(key, round, i);
            state = simple_is(cache, key);
            cr_assert(state == 0 || state == 1);
        }
        cr_assert_eq(counters(cache).repairs, 0);
        cache_close(cache);
    }
    cr_assert_eq(warnings, 0);
}

/* Both go on with the cache that was open before the fork, and the parent is gone first. */
Test(cache_shared, a_forked_child_opens_the_file_again)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    const pid_t child = fork();
    if (child == 0) {
        bool good = simple_is(cache, "a") == 1;
        many_put(cache, 1, 50);
        good = good && many_are(cache, 1, 50) && warnings == 0;
        cache_close(cache);
        _exit(!good);
    }
    many_put(cache, 0, 50);
    cr_assert(many_are(cache, 0, 50));
    int status = 1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
    cr_assert(many_are(cache, 1, 50));
    cache_close(cache);
    cache = open_here();
    cr_assert_eq(figure(cache, "kernels"), 101);
    cr_assert_eq(figure(cache, "hits"), 1 + 1 + 50 + 100); /* none twice */
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

Test(cache_shared, a_forked_child_keeps_its_copy_of_memory)
{
    struct cache *cache = open_at(":memory:", false, 0);
    simple_put(cache, "a");
    const pid_t child = fork();
    if (child == 0) {
        simple_put(cache, "b");
        _exit(simple_is(cache, "a") != 1 || simple_is(cache, "b") != 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
    cr_assert(simple_is(cache, "a") == 1 && simple_is(cache, "b") == 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* Without the handlers of fork() the connection is the parent's: the child must leave it and its
 * locks alone. */
Test(cache_shared, a_cloned_process_goes_to_memory)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    const pid_t child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        simple_put(cache, "b");
        const bool good = simple_is(cache, "a") == 0 && simple_is(cache, "b") == 1 && warnings == 1;
        cache_close(cache);
        _exit(!good);
    }
    int status = 1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
    cr_assert(simple_is(cache, "a") == 1 && simple_is(cache, "b") == 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}
