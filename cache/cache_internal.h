/* cache_internal.h - the parts of one cache, shared by the files of this folder.
 *
 *     main     what rows are put into: the file, or a ":memory:" database
 *     layers   databases that are only read, asked in order when main has no row: the file itself
 *              when it may not be written, then those of PHASOR_CACHE_READONLY_DIRS
 *
 * Every function here is called with the lock held, except cache_enter, which takes it. */
#pragma once
#include "base/memory.h"
#include "cache/cache.h"
#include "cache/store.h"

#include <pthread.h>
#include <unistd.h>

enum { LAYERS_MOST = 16, TOUCHED_MOST = 65536, TROUBLE_SIZE = 512, OPEN_TRIES = 8 };

enum cache_mode { CACHE_READ_WRITE, CACHE_READ_ONLY, CACHE_OFF };

struct touch {
    int64_t id, time;
    int kind; /* USE_UNIT, USE_PLAN */
};

struct cache {
    pthread_mutex_t lock;
    pid_t process; /* that made the connections */
    bool asleep;   /* connections were closed for a fork: open them before use */
    struct store main, layers[LAYERS_MOST];
    int layer_count;
    ARRAY(char *) places; /* of PHASOR_CACHE_READONLY_DIRS, absolute */

    const char *stamp; /* of the generator whose plans are hits */
    enum cache_mode mode;
    bool trust;
    bool wants_memory;      /* ":memory:" was asked for by name */
    int64_t max_bytes;      /* 0: no limit */
    char *directory, *file; /* NULL when there is none; valid as long as the cache */
    bool file_is_used;

    struct cache_counters counters, pending; /* of the process; those not yet written */
    struct cache_counters written;           /* of those: in the open transaction */
    ARRAY(struct touch) touched;             /* not yet written */
    uint64_t evicted;                        /* in the open transaction */
    int set_aside;                           /* files, since the last cache_verify */
    char trouble[TROUBLE_SIZE];              /* the last one */
    bool trouble_pending;                    /* not yet written */
    bool warned;
    bool was_busy; /* the last write waited in vain: the next one waits less */
    struct cache *next;
};

/* -- cache_open.c ------------------------------------------------------------------------------ */

void cache_enter(struct cache *cache);
void cache_leave(struct cache *cache);
/* The store that figures are about: main, or the file when it is read only. */
struct store *cache_shown(struct cache *cache);
/* Notes a trouble: the first one is logged as a warning. */
void cache_note_trouble(struct cache *cache, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* main's file is damaged: it is renamed, and a new one made. */
void cache_replace_file(struct cache *cache, const char *reason);
/* Does what the code asks for: sets a damaged file aside, goes to memory, waits less, closes a
 * layer. True when the call may be tried again on another store. */
bool cache_respond(struct cache *cache, struct store *store, int rc, const char *doing);

/* -- cache_layers.c ---------------------------------------------------------------------------- */

phasor_status cache_places_read(struct cache *cache);
void cache_places_free(struct cache *cache);
phasor_status cache_layers_attach(struct cache *cache);

/* -- cache.c ----------------------------------------------------------------------------------- */

void cache_count(struct cache *cache, const struct cache_counters *more);
/* Rows of FIND_KERNEL and FIND_PLAN whose checksums and seals are right. */
bool cache_kernel_is_whole(sqlite3_stmt *row, struct hash key, const char *arch);
bool cache_plan_is_whole(sqlite3_stmt *row, struct hash key, const char *stamp);
/* In a transaction. */
int cache_unit_insert(struct cache *cache, const struct cache_unit *unit);
int cache_plan_insert(struct cache *cache, struct hash key, const void *key_bytes, size_t key_size,
                      const char *stamp, const void *blob, size_t nbytes);

/* -- cache_verify.c ---------------------------------------------------------------------------- */

struct findings;
/* In a transaction: deletes the rows that were found bad, and counts them. */
int store_drop_findings(struct store *store, const struct findings *findings, int64_t *dropped);

/* -- cache_write.c ----------------------------------------------------------------------------- */

void cache_touch(struct cache *cache, int kind, int64_t id);
int64_t cache_now(void); /* milliseconds since 1970 */
bool cache_has_pending(const struct cache *cache);
/* Opens a transaction and writes what is pending. Always followed by cache_write_end with the
 * result so far. */
int cache_write_begin(struct cache *cache);
/* The transaction's end alone; what is not SQLITE_OK goes on to cache_write_end. */
int cache_write_commit(struct cache *cache);
/* Commits, or rolls back and responds. True when the caller should try again. */
bool cache_write_end(struct cache *cache, int rc, const char *doing);
/* In a transaction: deletes what was used longest ago until the rows fit. */
int cache_evict(struct cache *cache);
