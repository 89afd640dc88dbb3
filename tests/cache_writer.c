/* cache_writer.c - a process that does nothing but write to a cache, to be killed; and one that
 * looks whether what such processes left is right. Used by kill.sh.
 *
 *     cache_writer put DIRECTORY SEED    puts kernels, plans and notes until it is killed
 *     cache_writer check DIRECTORY       prints "rows 812 bad 0"; exit code 1 when a row is wrong
 *
 * A key says what its bytes are, so that a row that is whole and wrong is seen too. */
#include "base/memory.h"
#include "base/text.h"
#include "cache/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MOST = 40000 };

static uint64_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* The size and the bytes follow from the key. */
static size_t bytes_make(const char *key, unsigned char *bytes)
{
    const struct hash hash = hash_bytes(key, strlen(key));
    const size_t size = 500 + (size_t)(hash.low % (BYTES_MOST - 500));
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(hash.high >> (i % 8 * 8)) ^ (unsigned char)(i / 8);
    memcpy(bytes, "\177ELF", 4);
    return size;
}

static void unit_put(struct cache *cache, const char *key)
{
    static unsigned char bytes[BYTES_MOST];
    const struct cache_kernel kernel = {hash_bytes(key, strlen(key)), key, strlen(key), "entry"};
    const struct cache_unit unit = {.arch = "sm_90",
                                    .toolchain = "writer",
                                    .source = key,
                                    .cubin = bytes,
                                    .cubin_size = bytes_make(key, bytes),
                                    .registers = -1,
                                    .spill_bytes = -1,
                                    .shared_bytes = -1,
                                    .kernels = &kernel,
                                    .kernel_count = 1};
    cache_put_unit(cache, &unit);
}

static void plan_put(struct cache *cache, const char *key)
{
    static unsigned char bytes[BYTES_MOST];
    const size_t size = bytes_make(key, bytes);
    cache_put_plan(cache, hash_bytes(key, strlen(key)), key, strlen(key), bytes, size);
}

static void __attribute__((noreturn)) put(struct cache *cache, uint64_t seed)
{
    for (uint64_t state = seed;;) {
        char key[64];
        snprintf(key, sizeof key, "writer %" PRIu64, random_next(&state) % 5000);
        if (random_next(&state) % 4)
            unit_put(cache, key);
        else
            plan_put(cache, key);
        if (random_next(&state) % 16 == 0)
            cache_put_note(cache, "writer", key);
    }
}

/* Of kernels whose key is a writer's: everything that a get would trust, and the bytes. */
static bool row_is_right(const struct cache_row *unit)
{
    static unsigned char bytes[BYTES_MOST];
    if (!unit->toolchain || strcmp(unit->toolchain, "writer") != 0)
        return true;
    const size_t size = unit->source ? bytes_make(unit->source, bytes) : 0;
    return unit->bytes && unit->nbytes == size && memcmp(unit->bytes, bytes, size) == 0;
}

static int check(struct cache *cache)
{
    struct cache_rows rows;
    int64_t count = 0, bad = 0;
    for (int64_t after = -1;; cache_rows_free(&rows)) {
        if (cache_next_unit(cache, after, &rows) != PHASOR_OK) {
            fprintf(stderr, "%s\n", message_get());
            return 1;
        }
        if (rows.count == 0)
            break;
        after = rows.at[0].id;
        count++;
        bad += !row_is_right(&rows.at[0]);
    }
    printf("rows %" PRId64 " bad %" PRId64 "\n", count, bad);
    return bad != 0;
}

int main(int argc, char **argv)
{
    struct cache *cache;
    const bool puts_rows = argc == 4 && strcmp(argv[1], "put") == 0;
    if (!puts_rows && (argc != 3 || strcmp(argv[1], "check") != 0)) {
        fprintf(stderr, "usage: %s put DIRECTORY SEED | check DIRECTORY\n", argv[0]);
        return 2;
    }
    if (cache_open(&(struct cache_options){.directory = argv[2]}, &cache) != PHASOR_OK)
        return 4;
    if (puts_rows)
        put(cache, strtoull(argv[3], NULL, 10));
    const int status = check(cache);
    cache_close(cache);
    return status;
}
