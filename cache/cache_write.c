/* cache_write.c - the one way to write: a transaction that takes along what was noted in memory
 * since the last one.
 *
 *     cache_write_begin   BEGIN IMMEDIATE, counters, times of use, the last trouble
 *       rows, cache_evict
 *     cache_write_end     COMMIT, or ROLLBACK and a response to the trouble
 *
 * IMMEDIATE: a transaction that starts by reading fails at its first write when another process was
 * faster, without waiting. */
#include "cache/cache_internal.h"

#include <string.h>
#include <time.h>

enum { EVICT_AT_ONCE = 64, CLOCK_SLACK_MS = 60000 };

int64_t cache_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Noting a use is best effort: when the list is full or memory is out, the row only looks older
 * than it is. */
void cache_touch(struct cache *cache, int kind, int64_t id)
{
    if (cache->touched.count < TOUCHED_MOST)
        (void)array_push(&cache->touched,
                         ((struct touch){.id = id, .time = cache_now(), .kind = kind}));
}

bool cache_has_pending(const struct cache *cache)
{
    static const struct cache_counters none;
    return cache->touched.count || cache->trouble_pending ||
           memcmp(&cache->pending, &none, sizeof none) != 0;
}

/* -- pending ----------------------------------------------------------------------------------- */

static int counter_write(struct cache *cache, const char *name, uint64_t increment)
{
    return increment ? store_run(&cache->main, ADD_COUNTER, "ti", name, (int64_t)increment)
                     : SQLITE_OK;
}

static int counters_write(struct cache *cache)
{
    int rc = SQLITE_OK;
#define COUNTER_WRITE(name) \
    if (rc == SQLITE_OK)    \
        rc = counter_write(cache, #name, cache->pending.name);
    CACHE_COUNTERS(COUNTER_WRITE)
#undef COUNTER_WRITE
    return rc;
}

static int pending_write(struct cache *cache)
{
    int rc = counters_write(cache);
    for (size_t i = 0; i < cache->touched.count && rc == SQLITE_OK; i++) {
        const struct touch *touch = &cache->touched.at[i];
        rc = store_run(&cache->main, SET_LAST_USE, "iii", touch->time, (int64_t)touch->kind,
                       touch->id);
    }
    if (rc == SQLITE_OK && cache->trouble_pending)
        rc = store_run(&cache->main, SET_NOTE, "tt", "last_trouble", cache->trouble);
    return rc;
}

/* What was counted within this transaction is written with the next one. */
static void pending_clear(struct cache *cache)
{
#define COUNTER_TAKE(name) cache->pending.name -= cache->written.name;
    CACHE_COUNTERS(COUNTER_TAKE)
#undef COUNTER_TAKE
    cache->pending.evictions += cache->evicted;
    cache->counters.evictions += cache->evicted;
    cache->touched.count = 0;
    cache->trouble_pending = false;
}

/* -- transactions ------------------------------------------------------------------------------ */

int cache_write_begin(struct cache *cache)
{
    cache->evicted = 0;
    cache->written = cache->pending;
    const int rc = store_execute(&cache->main, "BEGIN IMMEDIATE");
    return rc == SQLITE_OK ? pending_write(cache) : rc;
}

int cache_write_commit(struct cache *cache)
{
    const int rc = store_execute(&cache->main, "COMMIT");
    if (rc != SQLITE_OK)
        return rc;
    pending_clear(cache);
    if (cache->was_busy)
        sqlite3_busy_timeout(cache->main.db, BUSY_WAIT_MS);
    cache->was_busy = false;
    return SQLITE_OK;
}

/* The response comes first: it reads the error, which a rollback would replace. */
bool cache_write_end(struct cache *cache, int rc, const char *doing)
{
    struct store *store = &cache->main;
    if (rc == SQLITE_OK)
        rc = cache_write_commit(cache);
    if (rc == SQLITE_OK)
        return false;
    const bool again = cache_respond(cache, store, rc, doing);
    if (store->db && !sqlite3_get_autocommit(store->db))
        store_execute(store, "ROLLBACK");
    return again;
}

/* -- eviction ---------------------------------------------------------------------------------- */

struct victim {
    int64_t kind, id, rows;
};

/* Rows whose time of use was lost count as the oldest. A time to come is from before the clock went
 * back: taken as it is, new rows would be older and go first. All of it runs over indexes alone. */
static int last_use_complete(struct cache *cache)
{
    char sql[160];
    const int rc = store_execute(
        &cache->main,
        "INSERT OR IGNORE INTO last_use SELECT 0, unit, 0 FROM kernel;"
        "INSERT OR IGNORE INTO last_use SELECT 1, id, 0 FROM plan INDEXED BY plan_key");
    if (rc != SQLITE_OK)
        return rc;
    const int64_t now = cache_now();
    sqlite3_snprintf(sizeof sql, sql, "UPDATE last_use SET time = %lld WHERE time > %lld",
                     (long long)(now - CLOCK_SLACK_MS), (long long)now);
    return store_execute(&cache->main, sql);
}

/* How many kernels or plans go with each. Plans of other generators go first, since nothing here
 * asks for them. */
static const char other_plans_sql[] =
    "SELECT 1, id, 1 FROM plan WHERE stamp < ?2 OR stamp > ?2 LIMIT ?1";
static const char oldest_sql[] =
    "SELECT kind, id, CASE kind WHEN 0 THEN"
    " (SELECT count(*) FROM kernel WHERE unit = last_use.id) ELSE 1 END"
    " FROM last_use ORDER BY time, kind DESC, id LIMIT ?1";

static int victims_find(struct cache *cache, const char *sql, struct victim victims[EVICT_AT_ONCE],
                        int *count)
{
    sqlite3_stmt *row = NULL;
    int rc = store_prepare(&cache->main, sql, &row);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int(row, 1, EVICT_AT_ONCE);
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(row) == 2)
        rc = sqlite3_bind_text(row, 2, cache->stamp, -1, SQLITE_STATIC);
    for (*count = 0; rc == SQLITE_OK && *count < EVICT_AT_ONCE;) {
        const int step = sqlite3_step(row);
        if (step == SQLITE_ROW)
            victims[(*count)++] =
                (struct victim){sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
                                sqlite3_column_int64(row, 2)};
        else if (step == SQLITE_DONE)
            break;
        else
            rc = step;
    }
    sqlite3_finalize(row);
    return rc;
}

/* A time of use without its row is deleted here too, else it would be found again and again. */
static int victim_delete(struct cache *cache, const struct victim *victim)
{
    int rc = store_run(&cache->main, victim->kind == USE_UNIT ? DELETE_UNIT : DELETE_PLAN, "i",
                       victim->id);
    if (rc == SQLITE_OK)
        rc = store_run(&cache->main, DELETE_LAST_USE, "ii", victim->kind, victim->id);
    if (rc == SQLITE_OK)
        cache->evicted += (uint64_t)victim->rows;
    return rc;
}

/* Deletes what the SQL finds until at most `target` bytes are used, or none of it is left. */
static int found_evict(struct cache *cache, const char *sql, int64_t target, int64_t *used)
{
    struct victim victims[EVICT_AT_ONCE];
    int rc = SQLITE_OK, count = 1;
    while (rc == SQLITE_OK && count > 0 && *used > target) {
        rc = victims_find(cache, sql, victims, &count);
        for (int i = 0; rc == SQLITE_OK && i<count && * used> target; i++) {
            rc = victim_delete(cache, &victims[i]);
            if (rc == SQLITE_OK)
                rc = store_bytes(&cache->main, used);
        }
    }
    return rc;
}

static int rows_evict(struct cache *cache, int64_t target)
{
    int64_t used = INT64_MAX;
    int rc = last_use_complete(cache);
    if (rc == SQLITE_OK)
        rc = found_evict(cache, other_plans_sql, target, &used);
    if (rc == SQLITE_OK)
        rc = found_evict(cache, oldest_sql, target, &used);
    return rc;
}

/* Freed pages are reused, so the file needs to shrink only when it is over the limit itself. */
static int file_shrink(struct cache *cache)
{
    char sql[64];
    int64_t pages = 0, size = 0;
    int rc = store_number(&cache->main, "PRAGMA page_count", &pages);
    if (rc == SQLITE_OK)
        rc = store_number(&cache->main, "PRAGMA page_size", &size);
    if (rc != SQLITE_OK || size == 0 || pages * size <= cache->max_bytes)
        return rc;
    sqlite3_snprintf(sizeof sql, sql, "PRAGMA incremental_vacuum(%lld)",
                     (pages * size - cache->max_bytes) / size + 1);
    return store_execute(&cache->main, sql);
}

int cache_evict(struct cache *cache)
{
    int64_t used = 0;
    if (cache->max_bytes <= 0)
        return SQLITE_OK;
    int rc = store_bytes(&cache->main, &used);
    if (rc != SQLITE_OK || used <= cache->max_bytes)
        return rc;
    rc = rows_evict(cache, cache->max_bytes - cache->max_bytes / 32);
    return rc == SQLITE_OK ? file_shrink(cache) : rc;
}
