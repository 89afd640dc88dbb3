/* store.c - opens a database so that many processes can share it, and runs its statements.
 *
 *     an empty file          ->  tables of schema.sql
 *     a file of this schema  ->  as it is
 *     anything else          ->  refused with `broken`
 *
 * The order of opening matters: the busy timeout stands before everything that can wait,
 * auto_vacuum before the first table, and the schema is looked at again inside the write
 * transaction that makes it. */
#include "cache/store.h"

#include "base/embedded.h"
#include "base/memory.h"
#include "base/text.h"
#include "cache/location.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { APPLICATION = 1346917202, SCHEMA = 1 }; /* as in schema.sql */

extern const struct embedded_file embedded_schema[];

/* The newest kernel first: its rowid is the last part of the index, so nothing is sorted. */
static const char *const statement_text[STATEMENTS] = {
    [FIND_KERNEL] = "SELECT u.id, u.checksum, u.cubin, u.toolchain, k.name, k.seal FROM kernel k "
                    "JOIN unit u ON u.id = k.unit"
                    " WHERE k.key = ?1 AND k.arch = ?2 AND k.canonical = ?3 AND (?4 IS NULL OR "
                    "u.toolchain = ?4)"
                    " ORDER BY k.id DESC LIMIT 1",
    [FIND_PLAN] = "SELECT id, checksum, content FROM plan WHERE key = ?1 AND canonical = ?2 ORDER "
                  "BY id DESC LIMIT 1",
    [FIND_NOTE] = "SELECT value FROM note WHERE name = ?1",
    [ADD_UNIT] = "INSERT INTO unit (arch, toolchain, options, created, compile_ms, registers, "
                 "spill_bytes, shared_bytes,"
                 " checksum, cubin, source) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    [ADD_KERNEL] = "INSERT INTO kernel (key, arch, unit, name, seal, canonical) VALUES (?1, ?2, "
                   "?3, ?4, ?5, ?6)",
    [ADD_PLAN] =
        "INSERT INTO plan (key, created, checksum, canonical, content) VALUES (?1, ?2, ?3, ?4, ?5)",
    [DELETE_KERNEL] = "DELETE FROM kernel WHERE key = ?1 AND arch = ?2 AND canonical = ?3"
                      " AND (SELECT toolchain FROM unit WHERE id = kernel.unit) = ?4",
    [DELETE_UNIT] = "DELETE FROM unit WHERE id = ?1",
    [DELETE_KERNEL_ROW] = "DELETE FROM kernel WHERE id = ?1",
    [DELETE_PLAN] = "DELETE FROM plan WHERE id = ?1",
    [DELETE_SAME_PLAN] = "DELETE FROM plan WHERE key = ?1 AND canonical = ?2",
    [SET_LAST_USE] = "UPDATE last_use SET time = ?1 WHERE kind = ?2 AND id = ?3",
    [DELETE_LAST_USE] = "DELETE FROM last_use WHERE kind = ?1 AND id = ?2",
    [ADD_COUNTER] = "INSERT INTO counter VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = "
                    "value + excluded.value",
    [SET_NOTE] = "INSERT OR REPLACE INTO note VALUES (?1, ?2)",
};

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
    return store->db ? sqlite3_exec(store->db, sql, NULL, NULL, NULL) : SQLITE_MISUSE;
}

static void store_roll_back(struct store *store)
{
    if (store->db && !sqlite3_get_autocommit(store->db))
        store_execute(store, "ROLLBACK");
}

int store_number(struct store *store, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    *out = 0;
    if (!store->db)
        return SQLITE_MISUSE;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);
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

/* -- opening ----------------------------------------------------------------------------------- */

struct identity {
    int64_t application, schema, tables; /* tables: how many */
};

static phasor_status store_refuse(struct store *store, int rc, const char *path)
{
    const int kind = rc & 0xff;
    if (kind == SQLITE_NOMEM)
        return fail_memory();
    store->broken = kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || kind == SQLITE_FORMAT ||
                    kind == SQLITE_ERROR;
    return fail(PHASOR_ERROR_FILE, "%s: %s", path,
                store->db && sqlite3_extended_errcode(store->db) == rc ? sqlite3_errmsg(store->db)
                                                                       : sqlite3_errstr(rc));
}

static bool identity_is_empty(const struct identity *identity)
{
    return identity->application == 0 && identity->schema == 0 && identity->tables == 0;
}

static phasor_status store_check_identity(struct store *store, const char *path,
                                          const struct identity *identity)
{
    if (identity->application == APPLICATION && identity->schema == SCHEMA)
        return PHASOR_OK;
    store->broken = true;
    if (identity->application != APPLICATION)
        return fail(PHASOR_ERROR_FILE, "%s is not a cache of Phasor", path);
    return fail(PHASOR_ERROR_FILE, "%s has schema %lld, this version knows %d", path,
                (long long)identity->schema, SCHEMA);
}

/* Settings of a connection; none of them touches the file. A database is not trusted to bring code
 * of its own, and /tmp may be read-only. */
static int store_configure(struct store *store)
{
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, BUSY_WAIT_MS);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return store_execute(store, "PRAGMA temp_store=MEMORY");
}

static int store_connect(struct store *store, const char *name, int flags)
{
    *store = (struct store){0};
    const int rc = sqlite3_open_v2(name, &store->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    return rc == SQLITE_OK ? store_configure(store) : rc;
}

static int identity_read(struct store *store, struct identity *out)
{
    int rc = store_number(store, "PRAGMA application_id", &out->application);
    if (rc == SQLITE_OK)
        rc = store_number(store, "PRAGMA user_version", &out->schema);
    if (rc == SQLITE_OK)
        rc = store_number(store, "SELECT count(*) FROM sqlite_master", &out->tables);
    return rc;
}

/* In one transaction: another process may make the tables between two reads. */
static int store_identify(struct store *store, struct identity *out)
{
    int rc = store_execute(store, "BEGIN");
    if (rc == SQLITE_OK)
        rc = identity_read(store, out);
    if (rc == SQLITE_OK)
        rc = store_execute(store, "COMMIT");
    if (rc != SQLITE_OK)
        store_roll_back(store);
    return rc;
}

static int store_create(struct store *store)
{
    struct identity identity;
    int rc = store_execute(store, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK)
        rc = identity_read(store, &identity);
    if (rc == SQLITE_OK && identity_is_empty(&identity))
        rc = store_execute(store, embedded_schema[0].text);
    if (rc == SQLITE_OK)
        rc = store_execute(store, "COMMIT");
    if (rc != SQLITE_OK)
        store_roll_back(store);
    return rc;
}

bool store_is_marked(struct store *store)
{
    int64_t marked = 0;
    return store_number(store, "SELECT 1 FROM note WHERE name = '" EXPORT_MARK "'", &marked) ==
               SQLITE_OK &&
           marked == 1;
}

const char *store_name(const struct store *store)
{
    const char *name = store->db ? sqlite3_db_filename(store->db, "main") : NULL;
    return name && *name ? name : ":memory:";
}

static bool store_is_wal(struct store *store)
{
    sqlite3_stmt *statement = NULL;
    bool wal = false;
    if (sqlite3_prepare_v2(store->db, "PRAGMA journal_mode", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        wal = sqlite3_stricmp((const char *)sqlite3_column_text(statement, 0), "wal") == 0;
    sqlite3_finalize(statement);
    return wal;
}

/* Failing to change the mode is no trouble where the old one is safe too. */
static int store_set_journal(struct store *store, bool wal)
{
    if (store_is_wal(store) != wal)
        store_execute(store, wal ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=DELETE");
    const bool is_wal = store_is_wal(store);
    if (is_wal && !wal)
        return SQLITE_PROTOCOL;
    return store_execute(store, is_wal ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL");
}

/* The journal is set before the tables are made, so that they are written without a wait for the
 * disk. */
static int store_fill(struct store *store, bool wal)
{
    int rc = store_execute(store, "PRAGMA auto_vacuum=INCREMENTAL");
    if (rc == SQLITE_OK)
        rc = store_set_journal(store, wal);
    return rc == SQLITE_OK ? store_create(store) : rc;
}

static phasor_status store_setup(struct store *store, const char *path, bool wal)
{
    struct identity identity;
    int rc = store_identify(store, &identity);
    if (rc == SQLITE_OK && identity_is_empty(&identity)) {
        rc = store_fill(store, wal);
        if (rc == SQLITE_OK)
            rc = store_identify(store, &identity);
    }
    if (rc != SQLITE_OK)
        return store_refuse(store, rc, path);
    TRY(store_check_identity(store, path, &identity));
    rc = store_set_journal(store, wal);
    if (rc == SQLITE_OK && store_is_marked(store))
        rc = store_execute(store, "DELETE FROM note WHERE name = '" EXPORT_MARK "'");
    return rc == SQLITE_OK ? PHASOR_OK : store_refuse(store, rc, path);
}

static phasor_status store_close_failed(struct store *store, phasor_status status)
{
    const struct store kept = *store;
    store_close(store, false);
    store->broken = kept.broken;
    store->device = kept.device;
    store->inode = kept.inode;
    return status;
}

/* Before it is opened: a file that comes in between is then not taken for the damaged one, which
 * would lose it; the damage of a later one is found when it is opened again. */
static struct stat file_identity(const char *path)
{
    struct stat entry = {0};
    if (stat(path, &entry) != 0)
        entry = (struct stat){0};
    return entry;
}

phasor_status store_open_memory(struct store *store)
{
    const int rc = store_connect(store, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    phasor_status status = rc == SQLITE_OK ? store_setup(store, ":memory:", false)
                                           : store_refuse(store, rc, ":memory:");
    return status == PHASOR_OK ? status : store_close_failed(store, status);
}

phasor_status store_open_file(struct store *store, const char *path, bool wal)
{
    const struct stat entry = file_identity(path);
    int rc = store_connect(store, path, SQLITE_OPEN_READWRITE);
    phasor_status status = PHASOR_OK;
    store->is_file = true;
    store->device = entry.st_dev;
    store->inode = entry.st_ino;
    if (rc != SQLITE_OK)
        status = store_refuse(store, rc, path);
    else if (sqlite3_db_readonly(store->db, "main") == 1)
        status = fail(PHASOR_ERROR_FILE, "%s cannot be written", path);
    else
        status = store_setup(store, path, wal);
    return status == PHASOR_OK ? status : store_close_failed(store, status);
}

/* -- read only --------------------------------------------------------------------------------- */

/* file:/a%20b?mode=ro: only letters, digits and a few marks stand for themselves in the name. */
static phasor_status uri_write(struct text *uri, const char *path, const char *query)
{
    text_add(uri, "file:");
    for (const unsigned char *c = (const unsigned char *)path; *c; c++) {
        const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                           (*c >= '0' && *c <= '9') || strchr("/._-", *c) != NULL;
        text_format(uri, plain ? "%c" : "%%%02X", *c);
    }
    text_add(uri, query);
    return text_status(uri);
}

phasor_status store_open_read_only(struct store *store, const char *path, bool frozen)
{
    struct identity identity;
    struct text uri = {0};
    *store = (struct store){0};
    phasor_status status = uri_write(&uri, path, frozen ? "?immutable=1" : "?mode=ro");
    if (status == PHASOR_OK) {
        int rc = store_connect(store, uri.at, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
        if (rc == SQLITE_OK) /* it may be from elsewhere: cells are checked before they are used */
            rc = store_execute(store, "PRAGMA cell_size_check=ON");
        if (rc == SQLITE_OK)
            rc = store_identify(store, &identity);
        status = rc == SQLITE_OK ? store_check_identity(store, path, &identity)
                                 : store_refuse(store, rc, path);
    }
    text_free(&uri);
    return status == PHASOR_OK ? status : store_close_failed(store, status);
}

/* The mark can be read only by opening the file. Without locks, since those would already need what
 * a read-only mount lacks; what is read then is used only if the mark is there. */
phasor_status store_open_layer(struct store *store, const char *path)
{
    const bool waiting = location_has_journal(path);
    if (!waiting && store_open_read_only(store, path, true) == PHASOR_OK) {
        if (store_is_marked(store))
            return PHASOR_OK;
        store_close(store, false);
    }
    const char *slash = strrchr(path, '/');
    struct text directory = {0};
    text_add_bytes(&directory, path, slash && slash > path ? (size_t)(slash - path) : 1);
    const bool frozen =
        !directory.failed && location_is_frozen(slash ? text_get(&directory) : ".", path);
    text_free(&directory);
    return store_open_read_only(store, path, frozen);
}

/* -- closing ----------------------------------------------------------------------------------- */

void store_close(struct store *store, bool tidy)
{
    if (store->db && !tidy)
        sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->db);
    *store = (struct store){0};
}

static pthread_mutex_t abandoned_lock = PTHREAD_MUTEX_INITIALIZER;
static ARRAY(struct store) abandoned; /* kept so that a leak check can tell them from leaks */

void store_abandon(struct store *store)
{
    if (store->db) {
        pthread_mutex_lock(&abandoned_lock);
        array_push(&abandoned, *store);
        pthread_mutex_unlock(&abandoned_lock);
    }
    *store = (struct store){0};
}
