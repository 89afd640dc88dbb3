/* cache.h - compiled kernels and plans in one SQLite file. This header is the manual of the store.
 *
 *     struct cache *cache;
 *     TRY(cache_open(&(struct cache_options){0}, &cache));           ~/.cache/phasor/phasor.db
 *
 *     struct cache_key_query query = {hash_bytes(key, n), key, n, "sm_90", "nvrtc 13.0.88"};
 *     struct cache_found found;
 *     TRY(cache_get_kernel(cache, &query, &found));
 *     if (!found.found) { compile; cache_put_unit(cache, &unit); }
 *     else { load found.cubin, take found.name from it; }
 *     cache_found_free(&found);
 *     cache_close(cache);
 *
 * Trouble. Nothing here fails because of the store: what cannot be read is a miss, what cannot be
 * written is not kept. The first trouble of a cache is logged as a warning, all are counted and the
 * last one is shown by cache_show. The only failing status of the functions that serve (open, get)
 * is PHASOR_ERROR_MEMORY.
 *   - a directory that cannot be used: rows are kept in a ":memory:" database. A file in it that
 *     can be read and is safe serves hits all the same.
 *   - a file that is damaged, is no database of Phasor or has an older schema is renamed to
 *     phasor.db.broken-N, and a new one is made. A damaged row is deleted. Both count as repairs.
 *     One with a newer schema is only read; rows that are put are kept in memory.
 *   - so is renamed a file that was made to do harm: its tables must be those of schema.sql word for word,
 *     views are off, and a statement that does more work than the file's size explains is ended.
 *   - a full disk, or another process that holds the file for seconds: the row is not kept; the
 *     next one is tried again.
 *
 * Read-only layers. PHASOR_CACHE_READONLY_DIRS=a:b: directories with a phasor.db, or exported files
 * (cache_export). They serve hits when the file has none, in this order, and are never written: an
 * exported file is read without locks, from a read-only mount too, any other with mode=ro. What
 * they hold belongs to this user or to root and only its owner can write it; a layer that cannot be
 * used is one warning; one with another schema is skipped and counted.
 *
 * Location: options.directory, PHASOR_CACHE_DIR, $XDG_CACHE_HOME/phasor, $HOME/.cache/phasor, the
 * home of the user in the password file, else memory. ":memory:" in the first two means memory.
 * Directories are made with mode 0700, files 0600. A directory or file that belongs to another
 * user, is writable by group or others, or is another user's symbolic link is refused unless
 * trust_directory is set: a cubin is code. PHASOR_CACHE=rw|ro|off: ro writes nothing anywhere, off
 * uses memory.
 *
 * Keys. The caller hashes its canonical key; the key itself is stored too and compared on every
 * hit, so that two keys with one hash are two rows. The hash alone never decides.
 *
 * Hits never write. When a row was used, and the counters, are noted in memory and written with the
 * next row or at close.
 *
 * Threads and processes. All functions may be called from any thread, cache_close last. Many
 * processes may share a file. No SQLite handle lives across fork(): the connection is closed before
 * it and opened again at the next use on either side. */
#pragma once
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;

struct cache_options {
    const char *directory; /* NULL: as above */
    bool trust_directory;  /* no check of owners and modes */
    int64_t max_bytes; /* 0: PHASOR_CACHE_MAX_SIZE ("512M"; "0": none) or 1 GiB; negative: none */
    const char *stamp; /* of the generator that asks and puts, valid as long as the cache: plans of
                          another are no hits and are the first to be evicted; NULL: "" */
};

/* Never fails for trouble with the store. */
phasor_status cache_open(const struct cache_options *options, struct cache **out);
void cache_close(struct cache *cache); /* NULL is fine */

/* The file in use, or ":memory:". Valid as long as the cache. */
const char *cache_path(struct cache *cache);
/* For those whose purpose is the store: PHASOR_OK when rows that are put now are kept in a file (or
 * in memory, where that was asked for by name), else PHASOR_ERROR_FILE and why. */
phasor_status cache_require_store(struct cache *cache);

/* -- kernels ----------------------------------------------------------------------------------- */

struct cache_kernel {
    struct hash key;
    const void *key_bytes;
    size_t key_size;
    const char *name; /* entry name in the cubin */
};

/* One compile and its kernels: stored in one transaction, whole or not at all. A kernel that is
 * there already, for the same arch and toolchain, is replaced. */
struct cache_unit {
    const char *arch, *toolchain, *options, *source; /* "sm_90", "nvrtc 13.0.88" */
    const void *cubin;
    size_t cubin_size;
    double compile_ms;
    int registers, spill_bytes, shared_bytes; /* -1: unknown */
    const struct cache_kernel *kernels;
    int kernel_count;
};
void cache_put_unit(struct cache *cache, const struct cache_unit *unit);

struct cache_key_query {
    struct hash key;
    const void *key_bytes;
    size_t key_size;
    const char *arch;
    const char *toolchain; /* whose rows count; NULL: of any version, the newest one */
    bool any_toolchain;    /* the newest of any version; toolchain says only what is foreign */
};

struct cache_found {
    bool found;
    bool foreign; /* made by another toolchain than the query's (or the query named none) */
    void *cubin;  /* its checksum was compared; belongs to the caller, to be freed by memory_free */
    size_t cubin_size;
    char *name; /* belongs to the caller too; cache_found_free frees both */
};
phasor_status cache_get_kernel(struct cache *cache, const struct cache_key_query *query,
                               struct cache_found *out);
void cache_found_free(struct cache_found *found);
/* Whether a get would look at a row; counts nothing and checks nothing. */
bool cache_has_kernel(struct cache *cache, const struct cache_key_query *query);

/* The driver refused what cache_get_kernel found: removes that row with its unit and counts a
 * repair. A row of a read-only layer stays, so the next get may find it again: compile, do not ask
 * twice. */
void cache_drop_kernel(struct cache *cache, const struct cache_key_query *query);

/* -- plans ------------------------------------------------------------------------------------- */

void cache_put_plan(struct cache *cache, struct hash key, const void *key_bytes, size_t key_size,
                    const void *blob, size_t nbytes);
/* A hit: *found is true and *blob a copy (memory_free); else *blob is NULL. */
phasor_status cache_get_plan(struct cache *cache, struct hash key, const void *key_bytes,
                             size_t key_size, void **blob, size_t *nbytes, bool *found);
/* Plans of other generators than options.stamp: how many, and, appended, the stamp of one. */
phasor_status cache_other_plans(struct cache *cache, struct text *stamp, int64_t *count);
/* The plan could not be understood: removes it and counts a repair. */
void cache_drop_plan(struct cache *cache, struct hash key, const void *key_bytes, size_t key_size);

/* -- notes ------------------------------------------------------------------------------------- */

/* A small text kept under a name, e.g. the version found behind a library's path, size and time. */
void cache_put_note(struct cache *cache, const char *name, const char *value);
/* Appends the note to `out`; *found says whether there was one. */
phasor_status cache_get_note(struct cache *cache, const char *name, struct text *out, bool *found);

/* -- figures ----------------------------------------------------------------------------------- */

/* Kernels, except for the last four. A foreign hit is a hit as well. */
#define CACHE_COUNTERS(X)                                    \
    X(hits)                                                  \
    X(misses)                                                \
    X(foreign)                                               \
    X(compiles)                                              \
    X(evictions) /* kernels and plans */                     \
    X(repairs)   /* damaged rows deleted, files set aside */ \
    X(skipped)   /* read-only layers of another version */   \
    X(refusals)  /* rows not used: by an import, of a read-only layer, by the driver */

struct cache_counters {
#define CACHE_COUNTER_FIELD(name) uint64_t name;
    CACHE_COUNTERS(CACHE_COUNTER_FIELD)
#undef CACHE_COUNTER_FIELD
};

void cache_count_compiles(struct cache *cache, int kernels);
/* Of this process, since cache_open. */
void cache_get_counters(struct cache *cache, struct cache_counters *out);

/* "stats" or "list", appended to `out`: for people, or one JSON document. Counts there are since
 * the file was made. */
phasor_status cache_show(struct cache *cache, const char *what, bool json, struct text *out);

/* Deletes all kernels and plans; the totals stay. PHASOR_ERROR_FILE when that could not be done. */
phasor_status cache_clear(struct cache *cache);

/* -- looking after ----------------------------------------------------------------------------- */

struct cache_report {
    int64_t units, kernels, plans; /* looked at */
    int64_t bad;                   /* rows, and faults of a whole file */
    struct text lines;             /* one for each bad one: file, row, what is wrong */
};
/* Checks every row of the file and of the layers: schema, SQLite's own checks, checksums, seals,
 * hashes of keys, NULLs, rows without those they belong to. Writes nothing. A file that was set
 * aside since the cache was opened, or since the last check, is bad too. PHASOR_ERROR_FILE: it
 * cannot be read now. */
phasor_status cache_verify(struct cache *cache, struct cache_report *report);
void cache_report_free(struct cache_report *report);

struct cache_collected {
    int64_t evicted, dropped;    /* rows: the oldest over the limit; damaged ones */
    int64_t set_aside;           /* databases of earlier repairs that were removed */
    int64_t bytes_before, bytes; /* of the file */
};
/* Deletes damaged rows, the oldest ones over the limit and what repairs set aside, and makes the
 * file as small as its rows. A file of which more than rows is damaged gives way to a new one.
 * PHASOR_ERROR_FILE: nothing can be written. */
phasor_status cache_gc(struct cache *cache, struct cache_collected *out);

/* -- shipping ---------------------------------------------------------------------------------- */

struct cache_shipped {
    int64_t kernels, plans; /* written */
    int64_t present;        /* import: were there already */
    int64_t refused;        /* damaged: left out */
    int64_t evicted;        /* import: by the limit */
    int64_t bytes;          /* export: of the file */
};
/* Writes all whole rows to one read-only file (mode 0444) that serves as a layer. It is replaced in
 * one step when all is written, and only if it was such a file. PHASOR_ERROR_FILE: the store or the
 * place cannot be used. */
phasor_status cache_export(struct cache *cache, const char *path, struct cache_shipped *out);
/* Takes rows that are missing here from a file of such a kind, or from any phasor.db. Each is
 * checked before any byte of it is used; damaged ones are counted and logged at level info. The
 * file itself must be safe, as a layer. PHASOR_ERROR_FILE: nothing can be kept here, or the file
 * cannot be used or read to its end; rows read until then stay. */
phasor_status cache_import(struct cache *cache, const char *path, struct cache_shipped *out);

/* -- rows as they are -------------------------------------------------------------------------- */

/* What is missing in the row is NULL, or -1. */
struct cache_row {
    bool is_plan;
    int64_t id;   /* of the unit, of the plan */
    char key[33]; /* hexadecimal */
    const void *key_bytes;
    size_t key_size;
    const char *name; /* kernel; of a unit: all names */
    const char *arch, *toolchain, *options, *source;
    const char *stamp; /* plan: of the generator that made it */
    const void *bytes; /* the cubin, the plan */
    size_t nbytes;
    bool whole;            /* the checksum, of a plan the seal, is that of the bytes */
    int64_t created, used; /* milliseconds since 1970 */
    double compile_ms;     /* of the whole unit */
    int registers, spill_bytes, shared_bytes, kernels; /* kernels: in its unit */
};
enum { CACHE_ROWS_MOST = 32 };
struct cache_rows {
    struct arena arena;
    struct cache_row *at;
    int count;
};
/* The rows whose key begins so, newest first among those of one key; at most CACHE_ROWS_MOST.
 * PHASOR_ERROR_USAGE: these are no hexadecimal digits. */
phasor_status cache_find_rows(struct cache *cache, const char *prefix, struct cache_rows *out);
/* The unit with the lowest id above `after`; count 0: there is none. */
phasor_status cache_next_unit(struct cache *cache, int64_t after, struct cache_rows *out);
void cache_rows_free(struct cache_rows *rows);

/* The stored key that is most like one that was not found. */
struct cache_near {
    bool found;
    struct arena arena;
    char key[33];
    const void *key_bytes;
    size_t key_size;
    const char *arch, *toolchain; /* kernels */
};
/* The same key for another arch or toolchain, else the most alike of the newest with this name,
 * else of all newest. */
phasor_status cache_near_kernel(struct cache *cache, const struct cache_key_query *query,
                                const char *name, struct cache_near *out);
phasor_status cache_near_plan(struct cache *cache, const void *key_bytes, size_t key_size,
                              struct cache_near *out);
void cache_near_free(struct cache_near *near);
