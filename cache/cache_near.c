/* cache_near.c - why a key was not found: the stored one that is most like it.
 *
 *     the same key for another arch or toolchain          ->  that row
 *     else, of the newest rows with the same entry name,  ->  the one whose key has most bytes in
 *     else of all newest rows                                 common at its start and end
 *
 * For messages alone: only some rows are looked at, so that a miss stays cheap in a big cache. */
#include "cache/cache_internal.h"
#include "cache/row_check.h"

#include <string.h>

enum { KERNELS_MOST = 512, PLANS_MOST = 64 };

static const char same_key_sql[] =
    "SELECT k.key, k.canonical, k.arch, u.toolchain FROM kernel k JOIN unit u ON u.id = k.unit"
    " WHERE k.key = ?1 AND k.canonical = ?2 ORDER BY k.id DESC LIMIT ?3";
static const char same_name_sql[] = "SELECT k.key, k.canonical, k.arch, u.toolchain FROM"
                                    " (SELECT * FROM kernel ORDER BY id DESC LIMIT ?3) k CROSS "
                                    "JOIN unit u"
                                    " ON u.id = k.unit WHERE k.name = ?2 OR k.name GLOB ?2 || "
                                    "'_[0-9]*'"; /* of several in one unit: mul_0, mul_1 */
static const char newest_kernels_sql[] =
    "SELECT k.key, k.canonical, k.arch, u.toolchain FROM"
    " (SELECT * FROM kernel ORDER BY id DESC LIMIT ?3) k CROSS JOIN unit u"
    " ON u.id = k.unit";
static const char newest_plans_sql[] =
    "SELECT key, canonical, NULL, NULL FROM plan ORDER BY id DESC LIMIT ?3";

struct search {
    const void *key_bytes;
    size_t key_size;
    const char *arch; /* NULL: does not count */
    struct cache_near *best;
    size_t score;
    bool no_memory;
};

/* Bytes in common at the start, and at the end behind those. */
static size_t likeness(const unsigned char *a, size_t a_size, const unsigned char *b, size_t b_size)
{
    const size_t most = a_size < b_size ? a_size : b_size;
    size_t start = 0, end = 0;
    while (start < most && a[start] == b[start])
        start++;
    while (end < most - start && a[a_size - 1 - end] == b[b_size - 1 - end])
        end++;
    return start + end;
}

static char *text_copy(struct arena *arena, sqlite3_stmt *row, int column)
{
    const char *value = (const char *)sqlite3_column_text(row, column);
    return value ? arena_string(arena, value) : NULL;
}

static void near_keep(struct search *search, sqlite3_stmt *row)
{
    struct cache_near *best = search->best;
    const unsigned char *key = sqlite3_column_blob(row, 0);
    const size_t size = (size_t)sqlite3_column_bytes(row, 1);
    arena_free(&best->arena);
    for (int i = 0; key && i < sqlite3_column_bytes(row, 0) && i < 16; i++)
        sqlite3_snprintf(3, best->key + 2 * i, "%02x", key[i]);
    best->key_bytes = arena_copy(&best->arena, sqlite3_column_blob(row, 1), size);
    best->key_size = size;
    best->arch = text_copy(&best->arena, row, 2);
    best->toolchain = text_copy(&best->arena, row, 3);
    best->found = best->key_bytes != NULL;
    search->no_memory |= !best->found && size > 0;
}

/* Of two that are as like, the one of the same arch, then the newer one. */
static void near_consider(struct search *search, sqlite3_stmt *row)
{
    const unsigned char *bytes = sqlite3_column_blob(row, 1);
    const char *arch = (const char *)sqlite3_column_text(row, 2);
    if (!bytes)
        return;
    size_t score = 2 * likeness(search->key_bytes, search->key_size, bytes,
                                (size_t)sqlite3_column_bytes(row, 1)) +
                   1;
    score += search->arch && arch && strcmp(arch, search->arch) == 0;
    if (score <= search->score)
        return;
    search->score = score;
    near_keep(search, row);
}

/* second: the canonical key, a name, or nothing (PLANS). Trouble only means that less is known. */
static void store_search(struct search *search, struct store *store, const char *sql,
                         const struct cache_key_query *query, const char *name, int most)
{
    unsigned char key[16];
    sqlite3_stmt *row = NULL;
    if (store_prepare(store, sql, &row) != SQLITE_OK)
        return;
    store_hash_write(query->key, key);
    if (sqlite3_bind_parameter_name(row, 1))
        sqlite3_bind_blob(row, 1, key, sizeof key, SQLITE_STATIC);
    if (name)
        sqlite3_bind_text(row, 2, name, -1, SQLITE_STATIC);
    else if (sqlite3_bind_parameter_name(row, 2))
        sqlite3_bind_blob64(row, 2, query->key_bytes, query->key_size, SQLITE_STATIC);
    sqlite3_bind_int(row, 3, most);
    while (sqlite3_step(row) == SQLITE_ROW)
        near_consider(search, row);
    sqlite3_finalize(row);
}

static void all_search(struct cache *cache, struct search *search, const char *sql,
                       const struct cache_key_query *query, const char *name, int most)
{
    store_search(search, &cache->main, sql, query, name, most);
    for (int i = 0; i < cache->layer_count; i++)
        store_search(search, &cache->layers[i], sql, query, name, most);
}

phasor_status cache_near_kernel(struct cache *cache, const struct cache_key_query *query,
                                const char *name, struct cache_near *out)
{
    struct search search = {query->key_bytes, query->key_size, query->arch, out, 0, false};
    *out = (struct cache_near){0};
    cache_enter(cache);
    all_search(cache, &search, same_key_sql, query, NULL, KERNELS_MOST);
    if (!out->found)
        all_search(cache, &search, same_name_sql, query, name, KERNELS_MOST);
    if (!out->found)
        all_search(cache, &search, newest_kernels_sql, query, NULL, KERNELS_MOST);
    cache_leave(cache);
    return search.no_memory ? fail_memory() : PHASOR_OK;
}

phasor_status cache_near_plan(struct cache *cache, const void *key_bytes, size_t key_size,
                              struct cache_near *out)
{
    struct search search = {key_bytes, key_size, NULL, out, 0, false};
    const struct cache_key_query query = {.key_bytes = key_bytes, .key_size = key_size};
    *out = (struct cache_near){0};
    cache_enter(cache);
    all_search(cache, &search, newest_plans_sql, &query, NULL, PLANS_MOST);
    cache_leave(cache);
    return search.no_memory ? fail_memory() : PHASOR_OK;
}

void cache_near_free(struct cache_near *near)
{
    arena_free(&near->arena);
    *near = (struct cache_near){0};
}
