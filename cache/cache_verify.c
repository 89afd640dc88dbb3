/* cache_verify.c - looks at every row, and puts right what can be.
 *
 *     verify   main and the read-only layers: rows counted, a line for each bad one; writes nothing
 *     gc       main: bad rows go, the oldest go until the rest fits, the file shrinks, what repairs
 *              set aside is removed; a file whose structure is damaged gives way to a new one */
#include "cache/cache_internal.h"
#include "cache/location.h"
#include "cache/row_check.h"

#include <string.h>
#include <sys/stat.h>

void cache_report_free(struct cache_report *report)
{
    text_free(&report->lines);
    *report = (struct cache_report){0};
}

static phasor_status store_fail(struct cache *cache, struct store *store, int rc, const char *doing)
{
    if ((rc & 0xff) == SQLITE_NOMEM)
        return fail_memory();
    cache_respond(cache, store, rc, doing);
    return fail(PHASOR_ERROR_FILE, "%s", cache->trouble);
}

/* -- verify ------------------------------------------------------------------------------------ */

static void report_add(struct cache_report *report, const char *file,
                       const struct findings *findings)
{
    report->units += findings->units;
    report->kernels += findings->kernels;
    report->plans += findings->plans;
    report->bad += (int64_t)findings->list.count;
    for (size_t i = 0; i < findings->list.count; i++)
        text_format(&report->lines, "%s: %s\n", file, text_get(&findings->list.at[i].line));
}

static phasor_status store_verify(struct cache *cache, struct store *store,
                                  struct cache_report *report)
{
    struct findings findings = {0};
    if (!store->db)
        return PHASOR_OK;
    const int rc = checks_run(store, &findings);
    report_add(report, store_name(store), &findings);
    findings_free(&findings);
    return rc == SQLITE_OK ? PHASOR_OK : store_fail(cache, store, rc, "checking rows");
}

phasor_status cache_verify(struct cache *cache, struct cache_report *report)
{
    *report = (struct cache_report){0};
    cache_enter(cache);
    if (cache->set_aside) { /* opening the file was enough to see it */
        report->bad += cache->set_aside;
        text_format(&report->lines, "%s\n", cache->trouble);
        cache->set_aside = 0;
    }
    phasor_status status = store_verify(cache, &cache->main, report);
    for (int i = 0; status == PHASOR_OK && i < cache->layer_count; i++)
        status = store_verify(cache, &cache->layers[i], report);
    cache_leave(cache);
    if (status == PHASOR_OK)
        status = text_status(&report->lines);
    if (status != PHASOR_OK)
        cache_report_free(report);
    return status;
}

/* -- gc ---------------------------------------------------------------------------------------- */

static int finding_drop(struct store *store, const struct finding *bad)
{
    switch (bad->kind) {
    case BAD_UNIT: return store_run(store, DELETE_UNIT, "i", bad->id);
    case BAD_KERNEL: return store_run(store, DELETE_KERNEL_ROW, "i", bad->id);
    case BAD_PLAN: return store_run(store, DELETE_PLAN, "i", bad->id);
    case BAD_USE: return store_run(store, DELETE_LAST_USE, "ii", bad->use, bad->id);
    case BAD_COUNTER:
        return store_execute(store,
                             "DELETE FROM counter WHERE typeof(value) <> 'integer' OR value < 0");
    case BAD_FILE: break;
    }
    return SQLITE_OK;
}

/* The triggers of the schema delete what depends on a row. */
int store_drop_findings(struct store *store, const struct findings *findings, int64_t *dropped)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < findings->list.count; i++) {
        rc = finding_drop(store, &findings->list.at[i]);
        *dropped += rc == SQLITE_OK && findings->list.at[i].kind != BAD_FILE;
    }
    return rc;
}

static const struct finding *file_damage(const struct findings *findings)
{
    for (size_t i = 0; i < findings->list.count; i++)
        if (findings->list.at[i].kind == BAD_FILE)
            return &findings->list.at[i];
    return NULL;
}

/* Rows of a file whose structure is damaged are not worth the risk. */
static int rows_collect(struct cache *cache, struct cache_collected *out)
{
    const uint64_t evictions = cache->counters.evictions;
    struct findings findings = {0};
    int rc = checks_run(&cache->main, &findings);
    const struct finding *damage = rc == SQLITE_OK ? file_damage(&findings) : NULL;
    if (damage) {
        cache_replace_file(cache, text_get(&damage->line));
        findings_free(&findings);
        return SQLITE_OK;
    }
    if (rc == SQLITE_OK)
        rc = cache_write_begin(cache);
    if (rc == SQLITE_OK)
        rc = store_drop_findings(&cache->main, &findings, &out->dropped);
    cache_count(cache, &(struct cache_counters){.repairs = (uint64_t)out->dropped});
    if (rc == SQLITE_OK)
        rc = cache_evict(cache);
    if (rc == SQLITE_OK)
        rc = cache_write_commit(cache);
    out->evicted = (int64_t)(cache->counters.evictions - evictions);
    findings_free(&findings);
    return rc;
}

/* VACUUM needs the file for itself and room for a copy; where it can't have them, free pages are
 * given back at least. */
static void file_compact(struct cache *cache)
{
    if (store_execute(&cache->main, "VACUUM") != SQLITE_OK)
        store_execute(&cache->main, "PRAGMA incremental_vacuum");
    store_execute(&cache->main, "PRAGMA wal_checkpoint(TRUNCATE)");
}

static int64_t file_size(const char *path)
{
    struct stat entry;
    return path && stat(path, &entry) == 0 ? (int64_t)entry.st_size : 0;
}

static phasor_status main_collect(struct cache *cache, struct cache_collected *out)
{
    out->bytes_before = file_size(cache->file);
    const int rc = rows_collect(cache, out);
    if (rc != SQLITE_OK) {
        cache_write_end(cache, rc, "collecting rows");
        return (rc & 0xff) == SQLITE_NOMEM ? fail_memory()
                                           : fail(PHASOR_ERROR_FILE, "%s", cache->trouble);
    }
    file_compact(cache);
    out->set_aside = location_remove_aside(cache->directory, cache->file);
    out->bytes = file_size(cache->file);
    return PHASOR_OK;
}

phasor_status cache_gc(struct cache *cache, struct cache_collected *out)
{
    *out = (struct cache_collected){0};
    TRY(cache_require_store(cache));
    cache_enter(cache);
    const phasor_status status = cache->main.is_file ? main_collect(cache, out) : PHASOR_OK;
    cache_leave(cache);
    return status;
}
