/* cache_rows.c - rows with all they hold, for people and for checks: cache show, cache verify.
 *
 *     cache_find_rows(cache, "0123ab", ...)   kernels, then plans, whose key begins so
 *     cache_next_unit(cache, 7, ...)          the first unit with an id above 7
 *
 * From the store that figures are about. Nothing here counts as a hit. */
#include "cache/cache_internal.h"
#include "cache/row_check.h"

#include <ctype.h>
#include <string.h>

/* Columns of both queries. */
enum { COLUMN_ID, COLUMN_KEY, COLUMN_CANONICAL, COLUMN_NAME, COLUMN_ARCH, COLUMN_TOOLCHAIN };
enum { COLUMN_OPTIONS = COLUMN_TOOLCHAIN + 1, COLUMN_SOURCE, COLUMN_BYTES, COLUMN_CREATED };
enum { COLUMN_USED = COLUMN_CREATED + 1, COLUMN_MS, COLUMN_REGISTERS, COLUMN_SPILL };
enum { COLUMN_SHARED = COLUMN_SPILL + 1, COLUMN_KERNELS, COLUMN_CHECKSUM };
enum { COLUMN_STAMP = COLUMN_CHECKSUM + 1 }; /* of a plan, whose seal stands before it */

#define UNIT_COLUMNS                                                                     \
    "u.arch, u.toolchain, u.options, u.source, u.cubin, u.created, coalesce(l.time, 0)," \
    " u.compile_ms, u.registers, u.spill_bytes, u.shared_bytes,"                         \
    " (SELECT count(*) FROM kernel c WHERE c.unit = u.id), u.checksum, NULL"

static const char kernels_by_prefix_sql[] =
    "SELECT u.id, k.key, k.canonical, k.name, " UNIT_COLUMNS
    " FROM kernel k JOIN unit u ON u.id = k.unit"
    " LEFT JOIN last_use l ON l.kind = 0 AND l.id = u.id"
    " WHERE k.key >= ?1 AND k.key <= ?2 ORDER BY k.key, k.id DESC LIMIT ?3";
static const char plans_by_prefix_sql[] =
    "SELECT p.id, p.key, p.canonical, NULL, NULL, NULL, NULL, NULL, p.content, p.created,"
    " coalesce(l.time, 0), NULL, NULL, NULL, NULL, 0, p.seal, p.stamp FROM plan p"
    " LEFT JOIN last_use l ON l.kind = 1 AND l.id = p.id"
    " WHERE p.key >= ?1 AND p.key <= ?2 ORDER BY p.key, p.id DESC LIMIT ?3";
static const char next_unit_sql[] =
    "SELECT u.id, NULL, NULL, (SELECT group_concat(name, ' ') FROM kernel k WHERE k.unit = "
    "u.id), " UNIT_COLUMNS " FROM unit u LEFT JOIN last_use l ON l.kind = 0 AND l.id = u.id"
    " WHERE u.id > ?1 ORDER BY u.id LIMIT 1";

/* -- reading ----------------------------------------------------------------------------------- */

/* A copy with a NUL behind it; NULL for SQL's NULL. */
static char *bytes_take(struct arena *arena, sqlite3_stmt *row, int column, size_t *nbytes)
{
    const void *bytes = sqlite3_column_blob(row, column);
    const size_t size = bytes ? (size_t)sqlite3_column_bytes(row, column) : 0;
    if (nbytes)
        *nbytes = size;
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        return NULL;
    char *copy = arena_new(arena, size + 1);
    if (copy && size)
        memcpy(copy, bytes, size);
    return copy;
}

static int number_take(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? -1 : sqlite3_column_int(row, column);
}

static bool row_take(struct arena *arena, sqlite3_stmt *from, bool is_plan, struct cache_row *to)
{
    const char *key = (const char *)sqlite3_column_blob(from, COLUMN_KEY);
    *to = (struct cache_row){
        .is_plan = is_plan,
        .id = sqlite3_column_int64(from, COLUMN_ID),
        .created = sqlite3_column_int64(from, COLUMN_CREATED),
        .used = sqlite3_column_int64(from, COLUMN_USED),
        .compile_ms = sqlite3_column_double(from, COLUMN_MS),
        .registers = number_take(from, COLUMN_REGISTERS),
        .spill_bytes = number_take(from, COLUMN_SPILL),
        .shared_bytes = number_take(from, COLUMN_SHARED),
        .kernels = sqlite3_column_int(from, COLUMN_KERNELS),
    };
    for (int i = 0; key && i < sqlite3_column_bytes(from, COLUMN_KEY) && i < 16; i++)
        sqlite3_snprintf(3, to->key + 2 * i, "%02x", (unsigned char)key[i]);
    to->key_bytes = bytes_take(arena, from, COLUMN_CANONICAL, &to->key_size);
    to->name = bytes_take(arena, from, COLUMN_NAME, NULL);
    to->arch = bytes_take(arena, from, COLUMN_ARCH, NULL);
    to->toolchain = bytes_take(arena, from, COLUMN_TOOLCHAIN, NULL);
    to->options = bytes_take(arena, from, COLUMN_OPTIONS, NULL);
    to->source = bytes_take(arena, from, COLUMN_SOURCE, NULL);
    to->bytes = bytes_take(arena, from, COLUMN_BYTES, &to->nbytes);
    to->stamp = bytes_take(arena, from, COLUMN_STAMP, NULL);
    to->whole = to->bytes && (!is_plan || (to->key_bytes && to->stamp)) &&
                store_hash_is(from, COLUMN_CHECKSUM,
                              is_plan ? plan_seal(hash_bytes(to->key_bytes, to->key_size),
                                                  to->stamp, to->bytes, to->nbytes)
                                      : hash_bytes(to->bytes, to->nbytes));
    return to->bytes || sqlite3_column_type(from, COLUMN_BYTES) == SQLITE_NULL;
}

/* Only told: what looks at rows repairs nothing. */
static phasor_status rows_fail(struct store *store, int rc)
{
    if ((rc & 0xff) == SQLITE_NOMEM)
        return fail_memory();
    return fail(PHASOR_ERROR_FILE, "%s: reading rows: %s", store_name(store),
                store->db ? sqlite3_errmsg(store->db) : "it is closed");
}

/* -- by key ------------------------------------------------------------------------------------ */

/* "0a3" -> from 0a 30 00 ... to 0a 3f ff ...; false when it is no prefix of a key. */
static bool prefix_read(const char *prefix, unsigned char from[16], unsigned char to[16])
{
    const size_t length = strlen(prefix);
    memset(from, 0, 16);
    memset(to, 0xff, 16);
    if (length == 0 || length > 32)
        return false;
    for (size_t i = 0; i < length; i++) {
        const int digit = prefix[i] >= 'A' && prefix[i] <= 'F' ? prefix[i] + 32 : prefix[i];
        if (!isxdigit((unsigned char)digit))
            return false;
        const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10, shift = i % 2 ? 0 : 4;
        from[i / 2] = (unsigned char)(from[i / 2] | value << shift);
        to[i / 2] = (unsigned char)(to[i / 2] & ~(15 << shift));
        to[i / 2] = (unsigned char)(to[i / 2] | value << shift);
    }
    return true;
}

static int rows_find(struct store *store, const char *sql, bool is_plan,
                     const unsigned char from[16], const unsigned char to[16],
                     struct cache_rows *out)
{
    sqlite3_stmt *row = NULL;
    int rc = store_prepare(store, sql, &row);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(row, 1, from, 16, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(row, 2, to, 16, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int(row, 3, CACHE_ROWS_MOST - out->count);
    while (rc == SQLITE_OK && (rc = sqlite3_step(row)) == SQLITE_ROW)
        rc = row_take(&out->arena, row, is_plan, &out->at[out->count]) ? SQLITE_OK : SQLITE_NOMEM,
        out->count += rc == SQLITE_OK;
    sqlite3_finalize(row);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

phasor_status cache_find_rows(struct cache *cache, const char *prefix, struct cache_rows *out)
{
    unsigned char from[16], to[16];
    *out = (struct cache_rows){0};
    if (!prefix_read(prefix, from, to))
        return fail(PHASOR_ERROR_USAGE, "\"%s\" is no key: 1 to 32 hexadecimal digits", prefix);
    cache_enter(cache);
    struct store *store = cache_shown(cache);
    out->at = NEW(&out->arena, struct cache_row, CACHE_ROWS_MOST);
    int rc = out->at ? SQLITE_OK : SQLITE_NOMEM;
    if (rc == SQLITE_OK)
        rc = rows_find(store, kernels_by_prefix_sql, false, from, to, out);
    if (rc == SQLITE_OK && out->count < CACHE_ROWS_MOST)
        rc = rows_find(store, plans_by_prefix_sql, true, from, to, out);
    const phasor_status status = rc == SQLITE_OK ? PHASOR_OK : rows_fail(store, rc);
    cache_leave(cache);
    if (status != PHASOR_OK)
        cache_rows_free(out);
    return status;
}

void cache_rows_free(struct cache_rows *rows)
{
    arena_free(&rows->arena);
    *rows = (struct cache_rows){0};
}

/* -- one unit after the other ------------------------------------------------------------------ */

phasor_status cache_next_unit(struct cache *cache, int64_t after, struct cache_rows *out)
{
    sqlite3_stmt *row = NULL;
    *out = (struct cache_rows){0};
    cache_enter(cache);
    struct store *store = cache_shown(cache);
    int rc = store_prepare(store, next_unit_sql, &row);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(row, 1, after);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(row);
    if (rc == SQLITE_ROW) {
        out->at = NEW(&out->arena, struct cache_row, 1);
        rc = out->at && row_take(&out->arena, row, false, out->at) ? SQLITE_DONE : SQLITE_NOMEM;
        out->count = 1;
    }
    sqlite3_finalize(row);
    const phasor_status status = rc == SQLITE_DONE ? PHASOR_OK : rows_fail(store, rc);
    cache_leave(cache);
    if (status != PHASOR_OK)
        cache_rows_free(out);
    return status;
}
