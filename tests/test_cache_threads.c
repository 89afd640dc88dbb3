/* test_cache_threads.c - many threads of many processes at all doors of one cache: rows are put and
 * found, plans, notes and figures too, while others verify, collect and take locks. A plain
 * program, because Criterion's runner does not start under the thread sanitizer.
 *
 *     2 processes x 6 threads x 12 keys   ->   144 kernels, each found with its own bytes
 *     the same with room for a few        ->   what is found is right, and nothing is damaged
 */
#include "base/log.h"
#include "cache/cache.h"
#include "cache/flight_lock.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 2, THREADS = 6, KEYS = 12, KEY_SIZE = 32, CUBIN_SIZE = 5000 };
enum { ROOM = 60000 }; /* of the small cache */

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

static char directory[] = "/tmp/phasor-threads-XXXXXX";

/* -- rows: a key says what its bytes are ------------------------------------------------------- */

static void key_make(char key[KEY_SIZE], int process, int thread, int number)
{
    snprintf(key, KEY_SIZE, "key %d %d %d", process, thread, number);
}

static void cubin_make(const char *key, unsigned char cubin[CUBIN_SIZE])
{
    const struct hash hash = hash_bytes(key, strlen(key));
    for (int i = 0; i < CUBIN_SIZE; i++)
        cubin[i] = (unsigned char)(hash.low >> (i % 8 * 8)) ^ (unsigned char)(i / 8);
}

static void kernel_put(struct cache *cache, const char *key)
{
    unsigned char cubin[CUBIN_SIZE];
    cubin_make(key, cubin);
    const struct cache_kernel kernel = {hash_bytes(key, strlen(key)), key, strlen(key), key};
    const struct cache_unit unit = {.arch = "sm_90",
                                    .toolchain = "threads",
                                    .options = "",
                                    .source = key,
                                    .cubin = cubin,
                                    .cubin_size = sizeof cubin,
                                    .kernels = &kernel,
                                    .kernel_count = 1};
    cache_put_unit(cache, &unit);
}

static struct cache_key_query query_of(const char *key)
{
    return (struct cache_key_query){
        hash_bytes(key, strlen(key)), key, strlen(key), "sm_90", "threads", false};
}

/* Whether it is there; what is there is right. */
static bool kernel_is(struct cache *cache, const char *key)
{
    unsigned char cubin[CUBIN_SIZE];
    struct cache_found found;
    const struct cache_key_query query = query_of(key);
    cubin_make(key, cubin);
    CHECK(cache_get_kernel(cache, &query, &found) == PHASOR_OK);
    const bool there = found.found;
    if (there) {
        CHECK(found.cubin_size == sizeof cubin && memcmp(found.cubin, cubin, sizeof cubin) == 0);
        CHECK(strcmp(found.name, key) == 0);
    }
    cache_found_free(&found);
    return there;
}

static bool plan_is(struct cache *cache, const char *key)
{
    void *blob;
    size_t nbytes;
    bool found;
    const struct hash hash = hash_bytes(key, strlen(key));
    CHECK(cache_get_plan(cache, hash, key, strlen(key), &blob, &nbytes, &found) == PHASOR_OK);
    CHECK(!found || (nbytes == strlen(key) && memcmp(blob, key, nbytes) == 0));
    memory_free(blob);
    return found;
}

/* -- threads ----------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct cache *cache;
    int process, number;
    bool all_stay; /* nothing is evicted */
};

/* What is done beside serving, each now and then. */
static void look_around(struct cache *cache, int turn)
{
    struct text text = {0};
    struct cache_report report = {0};
    struct cache_collected collected;
    struct cache_counters counters;
    bool found;
    cache_get_counters(cache, &counters);
    CHECK(counters.repairs == 0 && counters.refusals == 0);
    if (turn % 4 == 0)
        CHECK(cache_show(cache, turn % 8 ? "list" : "stats", true, &text) == PHASOR_OK);
    if (turn % 6 == 1)
        CHECK(cache_verify(cache, &report) == PHASOR_OK && report.bad == 0);
    if (turn % 6 == 3)
        CHECK(cache_gc(cache, &collected) == PHASOR_OK && collected.dropped == 0);
    cache_put_note(cache, "turn", "a note");
    CHECK(cache_get_note(cache, "turn", &text, &found) == PHASOR_OK);
    cache_report_free(&report);
    text_free(&text);
}

static void lock_and_put(struct cache *cache, const char *key)
{
    struct flight_lock lock = FLIGHT_LOCK_NONE;
    const struct hash hash = hash_bytes(key, strlen(key));
    const enum flight_turn turn = flight_lock_try(cache, hash, &lock);
    CHECK(turn == FLIGHT_MINE || turn == FLIGHT_OTHERS);
    kernel_put(cache, key);
    cache_count_compiles(cache, 1);
    cache_put_plan(cache, hash, key, strlen(key), key, strlen(key));
    flight_lock_release(&lock);
}

static void *work(void *argument)
{
    const struct worker *w = argument;
    char key[KEY_SIZE];
    for (int i = 0; i < KEYS; i++) {
        key_make(key, w->process, w->number, i);
        lock_and_put(w->cache, key);
        CHECK(kernel_is(w->cache, key) || !w->all_stay);
        CHECK(plan_is(w->cache, key) || !w->all_stay);
        key_make(key, PROCESSES - 1 - w->process, w->number, i); /* another's, who may be later */
        kernel_is(w->cache, key);
        look_around(w->cache, w->number + i);
    }
    return NULL;
}

/* Its threads share two connections to the file. */
static void process_work(int process, int64_t max_bytes)
{
    struct worker workers[THREADS];
    struct cache *caches[2];
    const struct cache_options options = {.directory = directory, .max_bytes = max_bytes};
    for (int i = 0; i < 2; i++)
        CHECK(cache_open(&options, &caches[i]) == PHASOR_OK);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .cache = caches[i % 2], .process = process, .number = i, .all_stay = max_bytes < 0};
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
    for (int i = 0; i < 2; i++)
        cache_close(caches[i]);
}

/* -- processes --------------------------------------------------------------------------------- */

static int entry_remove(const char *path, const struct stat *entry, int type, struct FTW *where)
{
    (void)entry;
    (void)type;
    (void)where;
    return remove(path);
}

static int64_t kernels_there(void)
{
    struct cache *cache;
    struct cache_report report;
    char key[KEY_SIZE];
    int64_t count = 0;
    CHECK(cache_open(&(struct cache_options){.directory = directory}, &cache) == PHASOR_OK);
    for (int i = 0; i < PROCESSES * THREADS * KEYS; i++) {
        key_make(key, i % PROCESSES, i / PROCESSES % THREADS, i / PROCESSES / THREADS);
        count += kernel_is(cache, key);
    }
    CHECK(cache_verify(cache, &report) == PHASOR_OK);
    CHECK(report.bad == 0 && report.kernels == count);
    cache_report_free(&report);
    cache_close(cache);
    return count;
}

/* The number of kernels that are left. */
static int64_t processes_run(int64_t max_bytes)
{
    CHECK(mkdtemp(directory));
    for (int process = 0; process < PROCESSES; process++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            process_work(process, max_bytes);
            exit(0);
        }
    }
    for (int process = 0; process < PROCESSES; process++) {
        int status = 1;
        CHECK(wait(&status) > 0);
        CHECK(status == 0);
    }
    const int64_t count = kernels_there();
    nftw(directory, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    return count;
}

int main(void)
{
    unsetenv("PHASOR_CACHE");
    unsetenv("PHASOR_CACHE_READONLY_DIRS");
    CHECK(processes_run(-1) == PROCESSES * THREADS * KEYS);
    const int64_t left = processes_run(ROOM);
    CHECK(left > 0 && left < ROOM / CUBIN_SIZE + 1);
    puts("ok");
    return 0;
}
