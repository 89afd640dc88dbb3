/* cache_rows.h - what the tests of the store share: a directory of their own, small rows, and a
 * look into the file.
 *
 *     simple_put(cache, "a")   stores the key "a" with a cubin of 3000 bytes derived from it
 *     simple_is(cache, "a")    1 found and right, 0 missed, 2 right and foreign, -1 found and wrong
 *
 * setup and teardown are a suite's init and fini. Warnings are counted instead of printed. */
#pragma once
#include "base/log.h"
#include "base/memory.h"
#include "cache/cache.h"
#include "cache/location.h"
#include "support/leak.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CUBIN_SIZE = 3000, OTHER_USER = 65534 };

static char directory[600], file[700];
static char top[64];
static const char *stamp = "this generator";
static int warnings;

static inline void warning_count(void *context, int level, const char *line)
{
    (void)context;
    (void)line;
    warnings += level == LOG_WARNING;
}

static inline void setup(void)
{
    strcpy(top, "/tmp/phasor-cache-XXXXXX");
    cr_assert(mkdtemp(top));
    snprintf(directory, sizeof directory, "%s/cache", top);
    snprintf(file, sizeof file, "%s/phasor.db", directory);
    unsetenv("PHASOR_CACHE");
    unsetenv("PHASOR_CACHE_DIR");
    unsetenv("PHASOR_CACHE_MAX_SIZE");
    log_set_level(LOG_WARNING);
    log_set_function(warning_count, NULL);
}

static inline int entry_remove(const char *path, const struct stat *entry, int type,
                               struct FTW *where)
{
    (void)entry;
    (void)type;
    (void)where;
    return remove(path);
}

static inline void teardown(void)
{
    nftw(top, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline struct cache *open_at(const char *path, bool trust, int64_t max_bytes)
{
    struct cache *cache = NULL;
    const struct cache_options options = {path, trust, max_bytes, stamp};
    cr_assert_eq(cache_open(&options, &cache), PHASOR_OK);
    return cache;
}

static inline struct cache *open_here(void)
{
    return open_at(directory, false, 0);
}

static inline void cubin_make(const char *key, unsigned char cubin[CUBIN_SIZE])
{
    const struct hash hash = hash_bytes(key, strlen(key));
    for (int i = 0; i < CUBIN_SIZE; i++)
        cubin[i] = (unsigned char)(hash.low >> (i % 8 * 8)) ^ (unsigned char)(i / 8);
}

static inline void unit_put(struct cache *cache, const char *key, const char *arch,
                            const char *toolchain)
{
    unsigned char cubin[CUBIN_SIZE];
    cubin_make(key, cubin);
    const struct cache_kernel kernel = {hash_bytes(key, strlen(key)), key, strlen(key), "map_mul"};
    const struct cache_unit unit = {arch,  toolchain,    "--fmad=false", "source",
                                    cubin, sizeof cubin, 12.5,           32,
                                    0,     -1,           &kernel,        1};
    cache_put_unit(cache, &unit);
}

static inline struct cache_key_query query_make(const char *key, const char *arch,
                                                const char *toolchain)
{
    return (struct cache_key_query){
        hash_bytes(key, strlen(key)), key, strlen(key), arch, toolchain, false};
}

/* 1 found and right, 0 missed, -1 found and wrong, 2 right and foreign. */
static inline int kernel_is(struct cache *cache, const char *key, const char *arch,
                            const char *toolchain)
{
    unsigned char cubin[CUBIN_SIZE];
    struct cache_found found;
    const struct cache_key_query query = query_make(key, arch, toolchain);
    cubin_make(key, cubin);
    if (cache_get_kernel(cache, &query, &found) != PHASOR_OK)
        return -1;
    int result = found.found + found.foreign;
    if (found.found && (found.cubin_size != CUBIN_SIZE || memcmp(found.cubin, cubin, CUBIN_SIZE) ||
                        strcmp(found.name, "map_mul")))
        result = -1;
    cache_found_free(&found);
    return result;
}

static inline int simple_is(struct cache *cache, const char *key)
{
    return kernel_is(cache, key, "sm_90", "nvrtc 1");
}

static inline void simple_put(struct cache *cache, const char *key)
{
    unit_put(cache, key, "sm_90", "nvrtc 1");
}

static inline struct cache_counters counters(struct cache *cache)
{
    struct cache_counters result;
    cache_get_counters(cache, &result);
    return result;
}

/* A figure of the statistics, from the JSON. */
static inline json_int_t figure(struct cache *cache, const char *name)
{
    struct text text = {0};
    cr_assert_eq(cache_show(cache, "stats", true, &text), PHASOR_OK);
    json_t *stats = json_loads(text.at, 0, NULL);
    cr_assert(stats, "%s", text.at);
    const json_int_t value = json_integer_value(json_object_get(stats, name));
    json_decref(stats);
    text_free(&text);
    return value;
}

static inline void sql_run(const char *sql)
{
    sqlite3 *db;
    cr_assert_eq(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s: %s", sql,
                 sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* Writes the bytes over the file from an offset on. */
static inline void file_write(const void *bytes, size_t nbytes, long offset)
{
    FILE *out = fopen(file, "r+b");
    cr_assert(out && fseek(out, offset, SEEK_SET) == 0 && fwrite(bytes, 1, nbytes, out) == nbytes);
    fclose(out);
}

static inline bool exists(const char *format, const char *path)
{
    char name[1000];
    struct stat entry;
    snprintf(name, sizeof name, format, path);
    return lstat(name, &entry) == 0;
}

static inline mode_t mode_of(const char *path)
{
    struct stat entry;
    return stat(path, &entry) == 0 ? entry.st_mode & 07777 : 0;
}

/* Runs in a child that is not root: its exit code, 0 for success. */
static inline int run_as_other(int (*function)(void))
{
    const pid_t child = fork();
    if (child == 0)
        _exit(geteuid() == 0 && (setgid(OTHER_USER) || setuid(OTHER_USER)) ? 99 : function());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}
