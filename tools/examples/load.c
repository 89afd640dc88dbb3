/* load.c - the example server under load: requests of random lengths, as fast as they are answered.
 *
 *     1000 requests, 8 threads, lengths 1:4096
 *         ->  the first call; requests a second; compiles
 *             of lengths that are new, and of those that were answered before: p50, p99 and max,
 *             until phasor_run returned (call) and until the results were on the host (answer)
 */
#include "server.h"

#include <stdatomic.h>
#include <time.h>

struct sample {
    double call, whole;
    bool repeated, failed;
};

struct length {
    atomic_bool answered;
    atomic_uint_least64_t checksum; /* of the first answer */
};

struct load {
    const struct server *server;
    int64_t count;
    atomic_llong next; /* the request that the next free thread takes */
    struct length *lengths;
    struct sample *samples; /* one for each request */
};

/* The same requests in every run: a number's length depends on the number alone. */
static int64_t request_length(const struct server *server, uint64_t number)
{
    uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
    return server->shortest + (int64_t)(mixed % (uint64_t)(server->longest - server->shortest + 1));
}

/* Whoever asks for a length, and whichever kernel answers: the bits are the same. */
static bool checksum_agrees(struct length *length, uint64_t checksum)
{
    uint_least64_t first = 0;
    return atomic_compare_exchange_strong(&length->checksum, &first, checksum) || first == checksum;
}

static void request_send(struct load *load, struct worker *worker, int64_t number)
{
    const int64_t length = request_length(load->server, (uint64_t)number);
    struct length *entry = &load->lengths[length - load->server->shortest];
    struct sample *sample = &load->samples[number];
    struct answer answer;
    /* Two that ask for a new length at once both wait for it: neither is repeated. */
    sample->repeated = atomic_load(&entry->answered);
    if (worker_answer(worker, length, &answer) != PHASOR_OK) {
        fprintf(stderr, "server: length %lld: %s\n", (long long)length, phasor_message());
        sample->failed = true;
        return;
    }
    atomic_store(&entry->answered, true);
    sample->call = answer.call;
    sample->whole = answer.whole;
    sample->failed = !checksum_agrees(entry, answer.checksum);
    if (sample->failed)
        fprintf(stderr, "server: length %lld: two answers differ\n", (long long)length);
}

static void *requests_send(void *context)
{
    struct load *load = context;
    struct worker worker;
    worker_open(&worker, load->server);
    for (int64_t number; (number = atomic_fetch_add(&load->next, 1)) < load->count;)
        request_send(load, &worker, number);
    worker_close(&worker);
    return NULL;
}

/* -- figures ----------------------------------------------------------------------------------- */

static double seconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int double_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void times_print(const char *name, double *times, int64_t count)
{
    qsort(times, (size_t)count, sizeof *times, double_compare);
    printf("  %-26s %8lld", name, (long long)count);
    if (count > 0)
        printf("   p50 %.1f us   p99 %.1f us   max %.1f us", times[count / 2],
               times[count * 99 / 100], times[count - 1]);
    printf("\n");
}

static void samples_print(const struct load *load, bool repeated, double *times)
{
    const char *const names[2][2] = {{"first time, call", "first time, answer"},
                                     {"repeated, call", "repeated, answer"}};
    for (int whole = 0; whole < 2; whole++) {
        int64_t count = 0;
        for (int64_t i = 0; i < load->count; i++)
            if (load->samples[i].repeated == repeated && !load->samples[i].failed)
                times[count++] = whole ? load->samples[i].whole : load->samples[i].call;
        times_print(names[repeated][whole], times, count);
    }
}

static void compiles_print(const struct server *server, const char *name)
{
    phasor_counters counters = {.size = sizeof counters};
    CHECK(phasor_stats(server->runtime, &counters));
    printf("  %-26s %8llu   compiled %llu, from the cache %llu\n", name,
           (unsigned long long)counters.specialisations, (unsigned long long)counters.compiled,
           (unsigned long long)counters.cache_hits);
}

/* Before it is asked, a server makes one call: what costs once (the compiler's start, the kernels
 * that serve all lengths) is not paid by a request. */
static void first_call(const struct server *server)
{
    struct worker worker;
    struct answer answer;
    worker_open(&worker, server);
    CHECK(worker_answer(&worker, server->longest, &answer));
    worker_close(&worker);
    printf("%s, %s = %lld to %lld\n", phasor_program_device(server->program), server->dim,
           (long long)server->shortest, (long long)server->longest);
    printf("  %-26s %8d   %.1f ms\n", "first call", 1, answer.call * 1e-3);
    compiles_print(server, "specialisations then");
}

bool load_run(const struct server *server, int64_t count, int threads)
{
    const size_t lengths = (size_t)(server->longest - server->shortest + 1);
    struct load load = {.server = server,
                        .count = count,
                        .lengths = memory_need(lengths, sizeof *load.lengths),
                        .samples = memory_need((size_t)count, sizeof *load.samples)};
    double *times = memory_need((size_t)count, sizeof *times);
    int64_t failed = 0;
    first_call(server);
    const double start = seconds_now();
    threads_run(threads, requests_send, &load);
    printf("  %-26s %8lld   %.0f a second with %d threads\n", "requests", (long long)count,
           (double)count / (seconds_now() - start), threads);
    samples_print(&load, false, times);
    samples_print(&load, true, times);
    compiles_print(server, "specialisations at the end");
    for (int64_t i = 0; i < count; i++)
        failed += load.samples[i].failed;
    printf("  %-26s %8lld\n", "failed or differing", (long long)failed);
    free(load.samples);
    free(load.lengths);
    free(times);
    return failed == 0;
}
