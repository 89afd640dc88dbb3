/* store.c - the statements of an open database: by number, bound and run in one call.
 *
 *     store_run(store, DELETE_UNIT, "i", id)      sqlite3_prepare (once), bind, step, reset
 *
 * The pages of a file can be arranged so that a walk over them never ends. Each statement may
 * therefore do only so much work: what a lookup needs, or what a walk over all rows of a file of
 * that size needs, many times over. It ends with SQLITE_INTERRUPT then, which is damage. */
#include "cache/store.h"

#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

/* In instructions of SQLite's machine: looking up a key takes some hundred, a row of a walk about
 * 200 for at least as many bytes. */
enum { LOOKUP_WORK = 2000000, WALK_WORK = 8000000, WALK_WORK_A_BYTE = 4 };

/* The newest kernel first: its rowid is the last part of the index, so nothing is sorted. */
static const char *const statement_text[STATEMENTS] = {
    [FIND_KERNEL] =
        "SELECT u.id, u.checksum, u.cubin, u.toolchain, k.name, k.seal, u.options FROM kernel k "
        "JOIN unit u ON u.id = k.unit"
        " WHERE k.key = ?1 AND k.arch = ?2 AND k.canonical = ?3 AND (?4 IS NULL OR "
        "u.toolchain = ?4)"
        " ORDER BY k.id DESC LIMIT 1",
    [FIND_PLAN] =
        "SELECT id, seal, content FROM plan WHERE key = ?1 AND canonical = ?2 AND stamp = "
        "?3 ORDER BY id DESC LIMIT 1",
    [COUNT_OTHER_PLANS] = "SELECT count(*), max(stamp) FROM plan WHERE stamp < ?1 OR stamp > ?1",
    [FIND_NOTE] = "SELECT value FROM note WHERE name = ?1",
    [ADD_UNIT] = "INSERT INTO unit (arch, toolchain, options, created, compile_ms, registers, "
                 "spill_bytes, shared_bytes, checksum, seal, cubin, source)"
                 " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    [ADD_KERNEL] = "INSERT INTO kernel (key, arch, unit, name, seal, canonical) VALUES (?1, ?2, "
                   "?3, ?4, ?5, ?6)",
    [ADD_PLAN] = "INSERT INTO plan (key, stamp, created, seal, canonical, content) VALUES (?1, ?2, "
                 "?3, ?4, ?5, ?6)",
    [DELETE_KERNEL] = "DELETE FROM kernel WHERE key = ?1 AND arch = ?2 AND canonical = ?3"
                      " AND (SELECT toolchain FROM unit WHERE id = kernel.unit) = ?4",
    [DELETE_UNIT] = "DELETE FROM unit WHERE id = ?1",
    [DELETE_KERNEL_ROW] = "DELETE FROM kernel WHERE id = ?1",
    [DELETE_PLAN] = "DELETE FROM plan WHERE id = ?1",
    [DELETE_SAME_PLAN] = "DELETE FROM plan WHERE key = ?1 AND canonical = ?2 AND stamp = ?3",
    [SET_LAST_USE] = "UPDATE last_use SET time = ?1 WHERE kind = ?2 AND id = ?3",
    [DELETE_LAST_USE] = "DELETE FROM last_use WHERE kind = ?1 AND id = ?2",
    [ADD_COUNTER] = "INSERT INTO counter VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = "
                    "value + excluded.value",
    [SET_NOTE] = "INSERT OR REPLACE INTO note VALUES (?1, ?2)",
};

/* -- work --------------------------------------------------------------------------------------- */

int store_work_count(void *left)
{
    return --*(int64_t *)left < 0;
}

bool store_code_is_damage(int rc)
{
    const int kind = rc & 0xff;
    return kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || kind == SQLITE_FORMAT ||
           kind == SQLITE_ERROR || kind == SQLITE_INTERRUPT;
}

/* What is in memory was never a file. */
static void walk_begin(struct store *store)
{
    struct stat entry;
    const char *name = sqlite3_db_filename(store->db, "main");
    if (!name || !*name || stat(name, &entry) != 0)
        *store->work_left = INT64_MAX;
    else
        *store->work_left = (WALK_WORK + entry.st_size * WALK_WORK_A_BYTE) / WORK_COUNTED;
}

int store_prepare(struct store *store, const char *sql, sqlite3_stmt **out)
{
    *out = NULL;
    if (!store->db)
        return SQLITE_MISUSE;
    walk_begin(store);
    return sqlite3_prepare_v2(store->db, sql, -1, out, NULL);
}

/* -- statements -------------------------------------------------------------------------------- */

void store_hash_write(struct hash hash, unsigned char bytes[16])
{
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(hash.high >> (56 - 8 * i));
        bytes[8 + i] = (unsigned char)(hash.low >> (56 - 8 * i));
    }
}

bool store_hash_is(sqlite3_stmt *row, int column, struct hash hash)
{
    unsigned char bytes[16];
    store_hash_write(hash, bytes);
    const void *stored = sqlite3_column_blob(row, column);
    return stored && sqlite3_column_bytes(row, column) == 16 && memcmp(stored, bytes, 16) == 0;
}

static int statement_bind_hash(sqlite3_stmt *statement, int index, struct hash hash)
{
    unsigned char bytes[16];
    store_hash_write(hash, bytes);
    return sqlite3_bind_blob(statement, index, bytes, 16, SQLITE_TRANSIENT);
}

/* A blob of no bytes is not NULL. */
static int statement_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, size_t nbytes)
{
    return sqlite3_bind_blob64(statement, index, nbytes ? bytes : "", nbytes, SQLITE_STATIC);
}

static int statement_bind_number(sqlite3_stmt *statement, int index, int number)
{
    return number < 0 ? sqlite3_bind_null(statement, index)
                      : sqlite3_bind_int(statement, index, number);
}

static int statement_bind(sqlite3_stmt *statement, const char *format, va_list arguments)
{
    int rc = SQLITE_OK;
    for (int i = 1; *format && rc == SQLITE_OK; i++, format++) {
        if (*format == 'h') {
            rc = statement_bind_hash(statement, i, va_arg(arguments, struct hash));
        } else if (*format == 'b') {
            const void *bytes = va_arg(arguments, const void *);
            rc = statement_bind_blob(statement, i, bytes, va_arg(arguments, size_t));
        } else if (*format == 't') {
            rc =
                sqlite3_bind_text(statement, i, va_arg(arguments, const char *), -1, SQLITE_STATIC);
        } else if (*format == 'i') {
            rc = sqlite3_bind_int64(statement, i, va_arg(arguments, int64_t));
        } else if (*format == 'd') {
            rc = sqlite3_bind_double(statement, i, va_arg(arguments, double));
        } else {
            rc = statement_bind_number(statement, i, va_arg(arguments, int));
        }
    }
    return rc;
}

static int statement_get(struct store *store, enum statement which, sqlite3_stmt **out)
{
    int rc = SQLITE_OK;
    if (!store->db)
        return SQLITE_MISUSE;
    *store->work_left = LOOKUP_WORK / WORK_COUNTED;
    if (!store->statements[which])
        rc = sqlite3_prepare_v3(store->db, statement_text[which], -1, SQLITE_PREPARE_PERSISTENT,
                                &store->statements[which], NULL);
    *out = store->statements[which];
    return rc;
}

static int statement_step(struct store *store, enum statement which, sqlite3_stmt **out,
                          const char *format, va_list arguments)
{
    sqlite3_stmt *statement = NULL;
    int rc = statement_get(store, which, &statement);
    if (rc == SQLITE_OK)
        rc = statement_bind(statement, format, arguments);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *out = statement;
    else if (statement)
        sqlite3_reset(statement);
    return rc;
}

int store_find(struct store *store, enum statement which, sqlite3_stmt **out, const char *format,
               ...)
{
    va_list arguments;
    va_start(arguments, format);
    *out = NULL;
    const int rc = statement_step(store, which, out, format, arguments);
    va_end(arguments);
    return rc;
}

int store_run(struct store *store, enum statement which, const char *format, ...)
{
    sqlite3_stmt *row = NULL;
    va_list arguments;
    va_start(arguments, format);
    const int rc = statement_step(store, which, &row, format, arguments);
    va_end(arguments);
    if (row)
        sqlite3_reset(row);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int store_execute(struct store *store, const char *sql)
{
    if (!store->db)
        return SQLITE_MISUSE;
    walk_begin(store);
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL);
}

void store_roll_back(struct store *store)
{
    if (store->db && !sqlite3_get_autocommit(store->db))
        store_execute(store, "ROLLBACK");
}

int store_number(struct store *store, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    *out = 0;
    int rc = store_prepare(store, sql, &statement);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int store_bytes(struct store *store, int64_t *out)
{
    int64_t pages = 0, unused = 0, size = 0;
    int rc = store_number(store, "PRAGMA page_count", &pages);
    if (rc == SQLITE_OK)
        rc = store_number(store, "PRAGMA freelist_count", &unused);
    if (rc == SQLITE_OK)
        rc = store_number(store, "PRAGMA page_size", &size);
    *out = (pages - unused) * size;
    return rc;
}
