/* cache_ship.c - rows out of the store into one file, and back in.
 *
 *     export   phasor.db  ->  F: whole rows alone, compact, marked, rollback journal, mode 0444
 *     import   F  ->  phasor.db: what is whole and missing there
 *
 * F is written beside its place and renamed: a reader has the old file or the new one, and whoever
 * has the old one open keeps it. That is why a marked file may be read without locks
 * (immutable=1). */
#include "base/log.h"
#include "cache/cache_internal.h"
#include "cache/location.h"
#include "cache/row_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { UNITS_AT_ONCE = 64 };

static phasor_status ship_fail(struct store *store, int rc, const char *path, const char *doing)
{
    if ((rc & 0xff) == SQLITE_NOMEM)
        return fail_memory();
    return fail(PHASOR_ERROR_FILE, "%s: %s: %s", path, doing,
                store->db ? sqlite3_errmsg(store->db) : sqlite3_errstr(rc));
}

/* -- export ------------------------------------------------------------------------------------ */

static bool is_same_file(const char *a, const char *b)
{
    struct stat left, right;
    return a && b && stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_dev == right.st_dev &&
           left.st_ino == right.st_ino;
}

/* What is there already must be an earlier export: nothing else is worth less than a new file. */
static phasor_status target_check(struct cache *cache, const char *path)
{
    struct stat entry;
    if (lstat(path, &entry) != 0)
        return errno == ENOENT ? PHASOR_OK : fail(PHASOR_ERROR_FILE, "cannot look at %s: %m", path);
    if (!S_ISREG(entry.st_mode))
        return fail(PHASOR_ERROR_FILE, "%s is not a regular file and is not overwritten", path);
    if (is_same_file(path, cache->file))
        return fail(PHASOR_ERROR_FILE, "%s is the cache itself; export to another name", path);
    if (entry.st_size == 0)
        return fail(PHASOR_ERROR_FILE, "%s is empty, not an exported cache, and is not overwritten",
                    path);
    if (store_file_is_marked(path))
        return PHASOR_OK;
    return fail(PHASOR_ERROR_FILE, "%s is not an exported cache of Phasor and is not overwritten",
                path);
}

/* Beside the target, so that a rename is enough. "./": a name that begins with "file:" would be an
 * address for SQLite. */
static phasor_status temporary_make(const char *path, struct text *name)
{
    text_format(name, "%s%s.XXXXXX", *path == '/' ? "" : "./", path);
    TRY(text_status(name));
    const int descriptor = mkstemp(name->at);
    if (descriptor < 0) {
        name->length = 0;
        return fail(PHASOR_ERROR_FILE, "cannot make a file beside %s: %m", path);
    }
    close(descriptor);
    return PHASOR_OK;
}

static int copy_make(struct store *store, const char *name)
{
    sqlite3_stmt *statement = NULL;
    int rc = store_prepare(store, "VACUUM INTO ?1", &statement);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Totals, notes and times of use are those of this machine. */
static int copy_clean(struct store *copy, struct cache_shipped *out)
{
    struct findings findings = {0};
    int rc = checks_run(copy, &findings);
    if (rc == SQLITE_OK)
        rc = store_execute(copy, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK)
        rc = store_drop_findings(copy, &findings, &out->refused);
    if (rc == SQLITE_OK)
        rc = store_execute(copy, "DELETE FROM counter; DELETE FROM note; DELETE FROM last_use;"
                                 "INSERT INTO note VALUES ('" EXPORT_MARK "', '1'); COMMIT;"
                                 "PRAGMA auto_vacuum=NONE; VACUUM");
    if (rc == SQLITE_OK)
        rc = store_number(copy, "SELECT total(1) FROM kernel", &out->kernels);
    if (rc == SQLITE_OK)
        rc = store_number(copy, "SELECT total(1) FROM plan", &out->plans);
    findings_free(&findings);
    return rc;
}

static phasor_status copy_fill(struct store *store, const char *name, const char *path,
                               struct cache_shipped *out)
{
    struct store copy;
    int rc = copy_make(store, name);
    if (rc != SQLITE_OK)
        return ship_fail(store, rc, path, "writing the export");
    TRY(store_open_file(&copy, name, false));
    rc = copy_clean(&copy, out);
    const phasor_status status =
        rc == SQLITE_OK ? PHASOR_OK : ship_fail(&copy, rc, path, "writing the export");
    store_close(&copy, true);
    return status;
}

/* The rename is what must last; a directory that cannot be synced is no reason to fail. */
static void directory_sync(const char *path)
{
    char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash)
        slash[slash == copy] = '\0';
    const int descriptor = copy ? open(slash ? copy : ".", O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
    free(copy);
}

static phasor_status copy_publish(const char *name, const char *path, struct cache_shipped *out)
{
    struct stat entry;
    if (chmod(name, 0444) != 0 || stat(name, &entry) != 0)
        return fail(PHASOR_ERROR_FILE, "cannot finish %s: %m", name);
    if (rename(name, path) != 0)
        return fail(PHASOR_ERROR_FILE, "cannot rename %s to %s: %m", name, path);
    out->bytes = (int64_t)entry.st_size;
    directory_sync(path);
    return PHASOR_OK;
}

static void temporary_remove(const char *name)
{
    struct text journal = {0};
    text_format(&journal, "%s-journal", name);
    unlink(text_get(&journal));
    unlink(name);
    text_free(&journal);
}

static phasor_status store_export(struct cache *cache, const char *path, struct cache_shipped *out)
{
    struct text name = {0};
    if (!cache->file_is_used && !cache->wants_memory)
        return fail(PHASOR_ERROR_FILE, "there is no cache to export: %s",
                    cache->trouble[0] ? cache->trouble : "PHASOR_CACHE is off");
    TRY(target_check(cache, path));
    phasor_status status = temporary_make(path, &name);
    if (status == PHASOR_OK)
        status = copy_fill(cache_shown(cache), name.at, path, out);
    if (status == PHASOR_OK)
        status = copy_publish(name.at, path, out);
    if (status != PHASOR_OK && name.length)
        temporary_remove(name.at);
    text_free(&name);
    return status;
}

phasor_status cache_export(struct cache *cache, const char *path, struct cache_shipped *out)
{
    *out = (struct cache_shipped){0};
    cache_enter(cache);
    const phasor_status status = store_export(cache, path, out);
    cache_leave(cache);
    return status;
}

/* -- import ------------------------------------------------------------------------------------ */

struct import {
    struct cache *cache;
    struct store from;
    const char *path;
    struct cache_shipped *out;
    sqlite3_stmt *of_unit; /* kernels of one unit, columns as kernels_sql */
    struct arena arena;    /* of one unit */
    ARRAY(struct cache_kernel) kernels;
    int units; /* in the open transaction */
};

/* Refused rows are logged one by one and counted; the bytes of none of them are used. */
static void import_refuse(struct import *import, const char *what, int64_t id, const char *wrong)
{
    import->out->refused++;
    cache_count(import->cache, &(struct cache_counters){.refusals = 1});
    log_line(LOG_INFO, "cache: %s: %s %lld was refused: %s", import->path, what, (long long)id,
             wrong);
}

static struct hash row_key(sqlite3_stmt *row)
{
    return hash_bytes(sqlite3_column_blob(row, ROW_CANONICAL),
                      (size_t)sqlite3_column_bytes(row, ROW_CANONICAL));
}

/* A damaged row of ours counts as missing: what comes replaces it. */
static int kernel_is_there(struct cache *cache, sqlite3_stmt *row, const char *toolchain,
                           bool *there)
{
    sqlite3_stmt *found;
    const int rc =
        store_find(&cache->main, FIND_KERNEL, &found, "htbt", row_key(row),
                   sqlite3_column_text(row, ROW_ARCH), sqlite3_column_blob(row, ROW_CANONICAL),
                   (size_t)sqlite3_column_bytes(row, ROW_CANONICAL), toolchain);
    *there =
        rc == SQLITE_ROW && cache_kernel_is_whole(found, row_key(row), row_text(row, ROW_ARCH));
    if (rc == SQLITE_ROW)
        sqlite3_reset(found);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static bool kernel_keep(struct import *import, sqlite3_stmt *row)
{
    const size_t size = (size_t)sqlite3_column_bytes(row, ROW_CANONICAL);
    const struct cache_kernel kernel = {
        row_key(row), arena_copy(&import->arena, sqlite3_column_blob(row, ROW_CANONICAL), size),
        size, arena_string(&import->arena, (const char *)sqlite3_column_text(row, ROW_NAME))};
    return kernel.key_bytes && kernel.name && array_push(&import->kernels, kernel);
}

static int kernel_take(struct import *import, sqlite3_stmt *row, const char *toolchain)
{
    bool there;
    const char *wrong = kernel_wrong(row);
    if (wrong) {
        import_refuse(import, "kernel", sqlite3_column_int64(row, ROW_ID), wrong);
        return SQLITE_OK;
    }
    const int rc = kernel_is_there(import->cache, row, toolchain, &there);
    if (rc != SQLITE_OK)
        return rc;
    import->out->present += there;
    return there || kernel_keep(import, row) ? SQLITE_OK : SQLITE_NOMEM;
}

static int unit_put(struct import *import, sqlite3_stmt *row)
{
    const struct cache_unit unit = {
        .arch = row_text(row, UNIT_ARCH),
        .toolchain = row_text(row, UNIT_TOOLCHAIN),
        .options = row_text(row, UNIT_OPTIONS),
        .source = row_text(row, UNIT_SOURCE),
        .cubin = sqlite3_column_blob(row, UNIT_CUBIN),
        .cubin_size = (size_t)sqlite3_column_bytes(row, UNIT_CUBIN),
        .compile_ms = sqlite3_column_double(row, UNIT_MS),
        .registers = row_number(row, UNIT_REGISTERS),
        .spill_bytes = row_number(row, UNIT_SPILL),
        .shared_bytes = row_number(row, UNIT_SHARED),
        .kernels = import->kernels.at,
        .kernel_count = (int)import->kernels.count,
    };
    import->out->kernels += unit.kernel_count;
    return cache_unit_insert(import->cache, &unit);
}

static int unit_take(struct import *import, sqlite3_stmt *row)
{
    const char *wrong = unit_wrong(row), *toolchain = row_text(row, UNIT_TOOLCHAIN);
    const int64_t id = sqlite3_column_int64(row, UNIT_ID);
    int rc = sqlite3_bind_int64(import->of_unit, 1, id);
    import->kernels.count = 0;
    if (wrong)
        import_refuse(import, "unit", id, wrong);
    while (!wrong && rc == SQLITE_OK && (rc = sqlite3_step(import->of_unit)) == SQLITE_ROW)
        rc = kernel_take(import, import->of_unit, toolchain);
    sqlite3_reset(import->of_unit);
    rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    if (rc == SQLITE_OK && import->kernels.count)
        rc = unit_put(import, row);
    arena_free(&import->arena);
    return rc;
}

static int plan_take(struct import *import, sqlite3_stmt *row)
{
    struct cache *cache = import->cache;
    sqlite3_stmt *found;
    const char *wrong = plan_wrong(row);
    if (wrong) {
        import_refuse(import, "plan", sqlite3_column_int64(row, ROW_ID), wrong);
        return SQLITE_OK;
    }
    const void *key = sqlite3_column_blob(row, ROW_CANONICAL);
    const size_t size = (size_t)sqlite3_column_bytes(row, ROW_CANONICAL);
    const char *stamp = row_text(row, PLAN_ROW_STAMP);
    const int rc =
        store_find(&cache->main, FIND_PLAN, &found, "hbt", row_key(row), key, size, stamp);
    const bool there = rc == SQLITE_ROW && cache_plan_is_whole(found, row_key(row), stamp);
    if (rc == SQLITE_ROW)
        sqlite3_reset(found);
    else if (rc != SQLITE_DONE)
        return rc;
    import->out->present += there;
    import->out->plans += !there;
    return there ? SQLITE_OK
                 : cache_plan_insert(cache, row_key(row), key, size, stamp,
                                     sqlite3_column_blob(row, PLAN_ROW_CONTENT),
                                     (size_t)sqlite3_column_bytes(row, PLAN_ROW_CONTENT));
}

/* Rows are committed in portions: the log stays small, and other processes get their turn. */
static int portion_end(struct import *import)
{
    import->units = 0;
    int rc = cache_evict(import->cache);
    if (rc == SQLITE_OK)
        rc = cache_write_commit(import->cache);
    return rc == SQLITE_OK ? cache_write_begin(import->cache) : rc;
}

static int rows_take(struct import *import, const char *sql,
                     int (*take)(struct import *, sqlite3_stmt *), bool *theirs)
{
    sqlite3_stmt *row = NULL;
    int step = SQLITE_DONE;
    int rc = store_prepare(&import->from, sql, &row);
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(row) == 1)
        rc = sqlite3_bind_int64(row, 1, INT64_MIN);
    *theirs = rc != SQLITE_OK;
    while (rc == SQLITE_OK && (step = sqlite3_step(row)) == SQLITE_ROW) {
        rc = take(import, row);
        if (rc == SQLITE_OK && ++import->units >= UNITS_AT_ONCE)
            rc = portion_end(import);
    }
    sqlite3_finalize(row);
    if (rc == SQLITE_OK && step != SQLITE_DONE) {
        rc = step;
        *theirs = true;
    }
    return rc;
}

/* Kernels without a unit are met by no unit. */
static int orphans_refuse(struct import *import)
{
    int64_t orphans = 0;
    const int rc = store_number(&import->from,
                                "SELECT count(*) FROM kernel WHERE NOT EXISTS"
                                " (SELECT 1 FROM unit WHERE unit.id = kernel.unit)",
                                &orphans);
    for (int64_t i = 0; i < orphans; i++)
        import_refuse(import, "kernel without a unit, number", i + 1, "its unit is missing");
    return rc;
}

static const char kernels_of_unit_sql[] =
    "SELECT " KERNEL_ROW_COLUMNS
    " FROM kernel k JOIN unit u ON u.id = k.unit WHERE k.unit = ?1 ORDER BY k.id";

static int rows_import(struct import *import, bool *theirs)
{
    int rc = store_prepare(&import->from, kernels_of_unit_sql, &import->of_unit);
    *theirs = rc != SQLITE_OK;
    if (rc == SQLITE_OK)
        rc = cache_write_begin(import->cache);
    if (rc == SQLITE_OK)
        rc = rows_take(import, units_sql, unit_take, theirs);
    if (rc == SQLITE_OK)
        rc = rows_take(import, plans_sql, plan_take, theirs);
    if (rc == SQLITE_OK)
        rc = orphans_refuse(import);
    if (rc == SQLITE_OK)
        rc = cache_evict(import->cache);
    sqlite3_finalize(import->of_unit);
    return rc;
}

/* What was taken before their file turned out to be damaged was checked, and stays. */
static phasor_status import_rows(struct import *import)
{
    struct cache *cache = import->cache;
    const uint64_t evictions = cache->counters.evictions;
    bool theirs;
    phasor_status status = PHASOR_OK;
    int rc = rows_import(import, &theirs);
    if (rc != SQLITE_OK && theirs) {
        status = ship_fail(&import->from, rc, import->path, "reading rows to import");
        rc = SQLITE_OK;
    }
    if (rc == SQLITE_OK)
        rc = cache_write_commit(cache);
    if (rc != SQLITE_OK) {
        cache_write_end(cache, rc, "importing");
        status = (rc & 0xff) == SQLITE_NOMEM ? fail_memory()
                                             : fail(PHASOR_ERROR_FILE, "%s", cache->trouble);
    }
    import->out->evicted = (int64_t)(cache->counters.evictions - evictions);
    return status;
}

/* The structure of the file, before anything of it is looked up. */
static phasor_status structure_check(struct import *import)
{
    sqlite3_stmt *row = NULL;
    bool good = false;
    int rc = store_prepare(&import->from, "PRAGMA quick_check(1)", &row);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(row);
    if (rc == SQLITE_ROW) {
        const char *said = (const char *)sqlite3_column_text(row, 0);
        good = said && strcmp(said, "ok") == 0;
        fail(PHASOR_ERROR_FILE, "%s is damaged: %s", import->path, said ? said : "?");
    }
    sqlite3_finalize(row);
    if (rc != SQLITE_ROW)
        return ship_fail(&import->from, rc, import->path, "checking the file");
    return good ? PHASOR_OK : PHASOR_ERROR_FILE;
}

static phasor_status import_open(struct import *import)
{
    TRY(location_check_layer(import->path, false, import->cache->trust));
    TRY(store_open_layer(&import->from, import->path));
    return structure_check(import);
}

phasor_status cache_import(struct cache *cache, const char *path, struct cache_shipped *out)
{
    struct import import = {.cache = cache, .path = path, .out = out};
    *out = (struct cache_shipped){0};
    TRY(cache_require_store(cache));
    cache_enter(cache);
    phasor_status status = import_open(&import);
    if (status == PHASOR_OK)
        status = import_rows(&import);
    store_close(&import.from, false);
    array_free(&import.kernels);
    cache_leave(cache);
    return status;
}
