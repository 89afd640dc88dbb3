/* cache.c - kernels, plans and notes in and out of the store.
 *
 *     put   one transaction: the row it replaces goes, the new one comes, the oldest go when the
 *           file is too big
 *     get   one statement; what it finds must have the key itself, byte for byte, and the checksum
 *           of its bytes
 *
 * A get looks into main first, then into the layers. It writes only to delete a damaged row. */
#include "cache/cache_internal.h"
#include "cache/row_check.h"

#include <string.h>

/* -- putting ----------------------------------------------------------------------------------- */

/* Replacing one by one could delete a unit in between; so all old rows go first. */
static int unit_replace(struct cache *cache, const struct cache_unit *unit)
{
    int rc = SQLITE_OK;
    for (int i = 0; i < unit->kernel_count && rc == SQLITE_OK; i++) {
        const struct cache_kernel *kernel = &unit->kernels[i];
        rc = store_run(&cache->main, DELETE_KERNEL, "htbt", kernel->key, unit->arch,
                       kernel->key_bytes, kernel->key_size, unit->toolchain);
    }
    return rc;
}

int cache_unit_insert(struct cache *cache, const struct cache_unit *unit)
{
    const struct hash checksum = hash_bytes(unit->cubin, unit->cubin_size);
    const char *options = unit->options ? unit->options : "";
    const char *source = unit->source ? unit->source : "";
    const struct unit_resources resources = {unit->registers < 0 ? -1 : unit->registers,
                                             unit->spill_bytes < 0 ? -1 : unit->spill_bytes,
                                             unit->shared_bytes < 0 ? -1 : unit->shared_bytes};
    struct store *store = &cache->main;
    int rc = unit_replace(cache, unit);
    if (rc == SQLITE_OK)
        rc = store_run(store, ADD_UNIT, "tttiduuuhhbt", unit->arch, unit->toolchain, options,
                       cache_now(), unit->compile_ms, resources.registers, resources.spill_bytes,
                       resources.shared_bytes, checksum,
                       unit_seal(unit->arch, unit->toolchain, options, resources, checksum, source),
                       unit->cubin, unit->cubin_size, source);
    if (rc != SQLITE_OK)
        return rc;
    const int64_t id = sqlite3_last_insert_rowid(store->db);
    for (int i = 0; i < unit->kernel_count && rc == SQLITE_OK; i++) {
        const struct cache_kernel *kernel = &unit->kernels[i];
        rc = store_run(
            store, ADD_KERNEL, "htithb", kernel->key, unit->arch, id, kernel->name,
            kernel_seal(kernel->key, unit->arch, kernel->name, unit->toolchain, options, checksum),
            kernel->key_bytes, kernel->key_size);
    }
    return rc;
}

/* A row that can't fit would drive out all others and then itself. */
static bool row_fits(struct cache *cache, size_t nbytes)
{
    if (cache->max_bytes <= 0 || nbytes < (uint64_t)cache->max_bytes / 2)
        return true;
    cache_note_trouble(cache, "a row of %zu bytes is not kept: the limit of the cache is %lld",
                       nbytes, (long long)cache->max_bytes);
    return false;
}

void cache_put_unit(struct cache *cache, const struct cache_unit *unit)
{
    cache_enter(cache);
    bool again = row_fits(cache, unit->cubin_size + (unit->source ? strlen(unit->source) : 0));
    for (int tries = 0; again && tries < 2; tries++) {
        int rc = cache_write_begin(cache);
        if (rc == SQLITE_OK)
            rc = cache_unit_insert(cache, unit);
        if (rc == SQLITE_OK)
            rc = cache_evict(cache);
        again = cache_write_end(cache, rc, "storing a kernel");
    }
    cache_leave(cache);
}

int cache_plan_insert(struct cache *cache, struct hash key, const void *key_bytes, size_t key_size,
                      const char *stamp, const void *blob, size_t nbytes)
{
    int rc = store_run(&cache->main, DELETE_SAME_PLAN, "hbt", key, key_bytes, key_size, stamp);
    if (rc == SQLITE_OK)
        rc = store_run(&cache->main, ADD_PLAN, "htihbb", key, stamp, cache_now(),
                       plan_seal(key, stamp, blob, nbytes), key_bytes, key_size, blob, nbytes);
    return rc == SQLITE_OK ? cache_evict(cache) : rc;
}

void cache_put_plan(struct cache *cache, struct hash key, const void *key_bytes, size_t key_size,
                    const void *blob, size_t nbytes)
{
    cache_enter(cache);
    bool again = row_fits(cache, nbytes + key_size);
    for (int tries = 0; again && tries < 2; tries++) {
        int rc = cache_write_begin(cache);
        if (rc == SQLITE_OK)
            rc = cache_plan_insert(cache, key, key_bytes, key_size, cache->stamp, blob, nbytes);
        again = cache_write_end(cache, rc, "storing a plan");
    }
    cache_leave(cache);
}

/* -- dropping ---------------------------------------------------------------------------------- */

void cache_count(struct cache *cache, const struct cache_counters *more)
{
#define COUNTER_ADD(name)               \
    cache->counters.name += more->name; \
    cache->pending.name += more->name;
    CACHE_COUNTERS(COUNTER_ADD)
#undef COUNTER_ADD
}

/* Counted before the deletion, so that the count goes into the same transaction. */
static void row_drop(struct cache *cache, struct store *store, enum statement deletion, int64_t id,
                     const char *reason)
{
    const bool ours = store == &cache->main;
    cache_count(cache, &(struct cache_counters){.repairs = ours, .refusals = !ours});
    cache_note_trouble(cache, "%s: %s %s", store_name(store), reason,
                       ours ? "was deleted" : "is not used");
    if (!ours)
        return;
    int rc = cache_write_begin(cache);
    if (rc == SQLITE_OK)
        rc = store_run(store, deletion, "i", id);
    cache_write_end(cache, rc, "deleting a row");
}

void cache_drop_kernel(struct cache *cache, const struct cache_key_query *query)
{
    sqlite3_stmt *row;
    cache_enter(cache);
    struct store *store = &cache->main;
    const char *toolchain = query->any_toolchain ? NULL : query->toolchain;
    cache_count(cache, &(struct cache_counters){.refusals = 1});
    const int rc = store_find(store, FIND_KERNEL, &row, "htbt", query->key, query->arch,
                              query->key_bytes, query->key_size, toolchain);
    if (rc == SQLITE_ROW) {
        const int64_t id = sqlite3_column_int64(row, KERNEL_UNIT);
        sqlite3_reset(row);
        row_drop(cache, store, DELETE_UNIT, id, "a cubin that the driver refused");
    } else if (rc != SQLITE_DONE) {
        cache_respond(cache, store, rc, "looking for a kernel");
    }
    cache_leave(cache);
}

void cache_drop_plan(struct cache *cache, struct hash key, const void *key_bytes, size_t key_size)
{
    sqlite3_stmt *row;
    cache_enter(cache);
    struct store *store = &cache->main;
    const int rc =
        store_find(store, FIND_PLAN, &row, "hbt", key, key_bytes, key_size, cache->stamp);
    if (rc == SQLITE_ROW) {
        const int64_t id = sqlite3_column_int64(row, PLAN_ID);
        sqlite3_reset(row);
        row_drop(cache, store, DELETE_PLAN, id, "a plan that could not be read");
    } else if (rc != SQLITE_DONE) {
        cache_respond(cache, store, rc, "looking for a plan");
    }
    cache_leave(cache);
}

/* -- getting ----------------------------------------------------------------------------------- */

static struct store *store_at(struct cache *cache, int index)
{
    return index == 0 ? &cache->main : &cache->layers[index - 1];
}

/* A copy of a column with a NUL after it; NULL when memory is out. */
static void *column_copy(sqlite3_stmt *row, int column, size_t *nbytes)
{
    const void *bytes = sqlite3_column_blob(row, column);
    const size_t size = bytes ? (size_t)sqlite3_column_bytes(row, column) : 0;
    char *copy = memory_resize(NULL, size + 1);
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, bytes, size);
    copy[size] = '\0';
    *nbytes = size;
    return copy;
}

/* The cubin is hashed where SQLite has it, before it is copied. */
bool cache_kernel_is_whole(sqlite3_stmt *row, struct hash key, const char *arch)
{
    const void *cubin = sqlite3_column_blob(row, KERNEL_CUBIN);
    const struct hash checksum =
        hash_bytes(cubin ? cubin : "", (size_t)sqlite3_column_bytes(row, KERNEL_CUBIN));
    const char *name = row_text(row, KERNEL_NAME), *options = row_text(row, KERNEL_OPTIONS);
    const char *toolchain = row_text(row, KERNEL_TOOLCHAIN);
    return name && toolchain && options && store_hash_is(row, KERNEL_CHECKSUM, checksum) &&
           store_hash_is(row, KERNEL_SEAL,
                         kernel_seal(key, arch, name, toolchain, options, checksum));
}

static phasor_status kernel_take(const struct cache_key_query *query, sqlite3_stmt *row,
                                 struct cache_found *out)
{
    size_t name_size;
    const char *toolchain = (const char *)sqlite3_column_text(row, KERNEL_TOOLCHAIN);
    out->foreign = !query->toolchain || strcmp(toolchain, query->toolchain) != 0;
    out->cubin = column_copy(row, KERNEL_CUBIN, &out->cubin_size);
    out->name = column_copy(row, KERNEL_NAME, &name_size);
    out->found = out->cubin && out->name;
    if (out->found)
        return PHASOR_OK;
    cache_found_free(out);
    return fail_memory();
}

static phasor_status kernel_find(struct cache *cache, struct store *store,
                                 const struct cache_key_query *query, struct cache_found *out)
{
    sqlite3_stmt *row;
    const char *toolchain = query->any_toolchain ? NULL : query->toolchain;
    const int rc = store_find(store, FIND_KERNEL, &row, "htbt", query->key, query->arch,
                              query->key_bytes, query->key_size, toolchain);
    if (rc == SQLITE_ROW) {
        const int64_t id = sqlite3_column_int64(row, KERNEL_UNIT);
        const bool whole = cache_kernel_is_whole(row, query->key, query->arch);
        const phasor_status status = whole ? kernel_take(query, row, out) : PHASOR_OK;
        sqlite3_reset(row);
        if (!whole && !store->other) /* another version may seal its rows in another way */
            row_drop(cache, store, DELETE_UNIT, id, "a damaged kernel");
        else if (whole && status == PHASOR_OK && store == &cache->main)
            cache_touch(cache, USE_UNIT, id);
        return status;
    }
    if ((rc & 0xff) == SQLITE_NOMEM)
        return fail_memory();
    if (rc != SQLITE_DONE)
        cache_respond(cache, store, rc, "looking for a kernel");
    return PHASOR_OK;
}

phasor_status cache_get_kernel(struct cache *cache, const struct cache_key_query *query,
                               struct cache_found *out)
{
    phasor_status status = PHASOR_OK;
    *out = (struct cache_found){0};
    cache_enter(cache);
    for (int i = 0; i <= cache->layer_count && status == PHASOR_OK && !out->found; i++)
        status = kernel_find(cache, store_at(cache, i), query, out);
    if (status == PHASOR_OK)
        cache_count(cache, &(struct cache_counters){
                               .hits = out->found, .misses = !out->found, .foreign = out->foreign});
    cache_leave(cache);
    return status;
}

bool cache_has_kernel(struct cache *cache, const struct cache_key_query *query)
{
    const char *toolchain = query->any_toolchain ? NULL : query->toolchain;
    bool has = false;
    cache_enter(cache);
    for (int i = 0; i <= cache->layer_count && !has; i++) {
        sqlite3_stmt *row;
        has = store_find(store_at(cache, i), FIND_KERNEL, &row, "htbt", query->key, query->arch,
                         query->key_bytes, query->key_size, toolchain) == SQLITE_ROW;
        if (has)
            sqlite3_reset(row);
    }
    cache_leave(cache);
    return has;
}

void cache_found_free(struct cache_found *found)
{
    memory_free(found->cubin);
    memory_free(found->name);
    *found = (struct cache_found){0};
}

bool cache_plan_is_whole(sqlite3_stmt *row, struct hash key, const char *stamp)
{
    const void *content = sqlite3_column_blob(row, PLAN_CONTENT);
    return store_hash_is(row, PLAN_SEAL,
                         plan_seal(key, stamp, content ? content : "",
                                   (size_t)sqlite3_column_bytes(row, PLAN_CONTENT)));
}

static phasor_status plan_find(struct cache *cache, struct store *store, struct hash key,
                               const void *key_bytes, size_t key_size, void **blob, size_t *nbytes)
{
    sqlite3_stmt *row;
    const int rc =
        store_find(store, FIND_PLAN, &row, "hbt", key, key_bytes, key_size, cache->stamp);
    if (rc == SQLITE_ROW) {
        const int64_t id = sqlite3_column_int64(row, PLAN_ID);
        const bool whole = cache_plan_is_whole(row, key, cache->stamp);
        *blob = whole ? column_copy(row, PLAN_CONTENT, nbytes) : NULL;
        sqlite3_reset(row);
        if (!whole && !store->other)
            row_drop(cache, store, DELETE_PLAN, id, "a damaged plan");
        else if (*blob && store == &cache->main)
            cache_touch(cache, USE_PLAN, id);
        return whole && !*blob ? fail_memory() : PHASOR_OK;
    }
    if ((rc & 0xff) == SQLITE_NOMEM)
        return fail_memory();
    if (rc != SQLITE_DONE)
        cache_respond(cache, store, rc, "looking for a plan");
    return PHASOR_OK;
}

phasor_status cache_get_plan(struct cache *cache, struct hash key, const void *key_bytes,
                             size_t key_size, void **blob, size_t *nbytes, bool *found)
{
    phasor_status status = PHASOR_OK;
    *blob = NULL;
    *nbytes = 0;
    cache_enter(cache);
    for (int i = 0; i <= cache->layer_count && status == PHASOR_OK && !*blob; i++)
        status = plan_find(cache, store_at(cache, i), key, key_bytes, key_size, blob, nbytes);
    *found = *blob != NULL;
    cache_leave(cache);
    return status;
}

/* Of the file and of the layers. */
phasor_status cache_other_plans(struct cache *cache, struct text *stamp, int64_t *count)
{
    *count = 0;
    cache_enter(cache);
    for (int i = 0; i <= cache->layer_count; i++) {
        sqlite3_stmt *row;
        struct store *store = store_at(cache, i);
        const int rc = store_find(store, COUNT_OTHER_PLANS, &row, "t", cache->stamp);
        if (rc == SQLITE_ROW) {
            if (*count == 0 && row_text(row, 1))
                text_add(stamp, row_text(row, 1));
            *count += sqlite3_column_int64(row, 0);
            sqlite3_reset(row);
        } else {
            cache_respond(cache, store, rc, "counting plans");
        }
    }
    cache_leave(cache);
    return text_status(stamp);
}

/* -- notes and counters ------------------------------------------------------------------------ */

void cache_put_note(struct cache *cache, const char *name, const char *value)
{
    bool again = true;
    cache_enter(cache);
    for (int tries = 0; again && tries < 2; tries++) {
        int rc = cache_write_begin(cache);
        if (rc == SQLITE_OK)
            rc = store_run(&cache->main, SET_NOTE, "tt", name, value);
        again = cache_write_end(cache, rc, "storing a note");
    }
    cache_leave(cache);
}

phasor_status cache_get_note(struct cache *cache, const char *name, struct text *out, bool *found)
{
    sqlite3_stmt *row;
    *found = false;
    cache_enter(cache);
    for (int i = 0; i <= cache->layer_count && !*found; i++) {
        struct store *store = store_at(cache, i);
        const int rc = store_find(store, FIND_NOTE, &row, "t", name);
        if (rc == SQLITE_ROW) {
            const char *value = (const char *)sqlite3_column_text(row, 0);
            text_add(out, value ? value : "");
            *found = true;
            sqlite3_reset(row);
        } else if (rc != SQLITE_DONE) {
            cache_respond(cache, store, rc, "looking for a note");
        }
    }
    cache_leave(cache);
    return text_status(out);
}

void cache_count_compiles(struct cache *cache, int kernels)
{
    cache_enter(cache);
    cache_count(cache, &(struct cache_counters){.compiles = (uint64_t)kernels});
    cache_leave(cache);
}

void cache_get_counters(struct cache *cache, struct cache_counters *out)
{
    cache_enter(cache);
    *out = cache->counters;
    cache_leave(cache);
}

/* -- clearing ---------------------------------------------------------------------------------- */

/* Outside the transaction: the log is given back too, where there is one. */
static void file_release(struct cache *cache)
{
    store_execute(&cache->main, "PRAGMA incremental_vacuum");
    store_execute(&cache->main, "PRAGMA wal_checkpoint(TRUNCATE)");
}

phasor_status cache_clear(struct cache *cache)
{
    phasor_status status = PHASOR_OK;
    bool again = true;
    int rc = SQLITE_OK;
    cache_enter(cache);
    if (cache->file_is_used && !cache->main.is_file)
        status = fail(PHASOR_ERROR_FILE, "%s is only read here: nothing was deleted", cache->file);
    for (int tries = 0; status == PHASOR_OK && again && tries < 2; tries++) {
        rc = cache_write_begin(cache);
        if (rc == SQLITE_OK)
            rc = store_execute(
                &cache->main,
                "DELETE FROM kernel; DELETE FROM unit; DELETE FROM plan; DELETE FROM last_use");
        const int before_commit = rc;
        again = cache_write_end(cache, rc, "deleting all rows");
        rc = before_commit;
    }
    if (status == PHASOR_OK && rc != SQLITE_OK)
        status = fail(PHASOR_ERROR_FILE, "%s", cache->trouble);
    if (status == PHASOR_OK)
        file_release(cache);
    cache_leave(cache);
    return status;
}
