/* store_open.c - opens a database so that many processes can share it, and closes it.
 *
 *     an empty file              ->  tables of schema.sql
 *     a file of this version     ->  as it is
 *     one of a newer version     ->  refused; it can be opened to be read
 *     anything else, older ones  ->  refused with `broken`
 *
 * The order of opening matters: the busy timeout stands before everything that can wait,
 * auto_vacuum before the first table, and the schema is looked at again inside the write
 * transaction that makes it. A file may be from elsewhere, and made to do harm: nothing of it is
 * asked before its tables were compared with ours. */
#include "cache/store.h"

#include "base/memory.h"
#include "base/text.h"
#include "cache/location.h"
#include "cache/schema.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -- connecting -------------------------------------------------------------------------------- */

/* No statement of ours comes near these. LENGTH is that of a row, cubin and source included. */
static const struct {
    int limit, most;
} limits[] = {
    {SQLITE_LIMIT_LENGTH, 256 << 20},   {SQLITE_LIMIT_SQL_LENGTH, 64 << 10},
    {SQLITE_LIMIT_COLUMN, 64},          {SQLITE_LIMIT_EXPR_DEPTH, 64},
    {SQLITE_LIMIT_COMPOUND_SELECT, 4},  {SQLITE_LIMIT_VDBE_OP, 10000},
    {SQLITE_LIMIT_FUNCTION_ARG, 8},     {SQLITE_LIMIT_ATTACHED, 1}, /* VACUUM attaches one */
    {SQLITE_LIMIT_VARIABLE_NUMBER, 32}, {SQLITE_LIMIT_TRIGGER_DEPTH, 8},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

/* What no file may bring along and set going: code of its own. */
static const struct {
    int setting, value;
} settings[] = {
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0}, {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},    {SQLITE_DBCONFIG_DQS_DML, 0},
    {SQLITE_DBCONFIG_DQS_DDL, 0},        {SQLITE_DBCONFIG_ENABLE_FKEY, 1},
};

/* None of this touches the file; /tmp may be read-only. */
static int store_configure(struct store *store)
{
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, BUSY_WAIT_MS);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        sqlite3_db_config(store->db, settings[i].setting, settings[i].value, NULL);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        sqlite3_limit(store->db, limits[i].limit, limits[i].most);
    sqlite3_drop_modules(store->db, NULL); /* no virtual tables */
    store->work_left = memory_new(sizeof *store->work_left);
    if (!store->work_left)
        return SQLITE_NOMEM;
    sqlite3_progress_handler(store->db, WORK_COUNTED, store_work_count, store->work_left);
    return store_execute(store, "PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON");
}

static int store_connect(struct store *store, const char *name, int flags)
{
    *store = (struct store){0};
    const int rc = sqlite3_open_v2(name, &store->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    return rc == SQLITE_OK ? store_configure(store) : rc;
}

/* -- what it is -------------------------------------------------------------------------------- */

struct identity {
    int64_t application, schema, tables; /* tables: how many */
    bool ours;                           /* the tables are those of schema.sql */
};

static phasor_status store_refuse(struct store *store, int rc, const char *path)
{
    if ((rc & 0xff) == SQLITE_NOMEM)
        return fail_memory();
    store->broken = store_code_is_damage(rc);
    return fail(PHASOR_ERROR_FILE, "%s: %s", path,
                store->db && sqlite3_extended_errcode(store->db) == rc ? sqlite3_errmsg(store->db)
                                                                       : sqlite3_errstr(rc));
}

static bool identity_is_empty(const struct identity *identity)
{
    return identity->application == 0 && identity->schema == 0 && identity->tables == 0;
}

static phasor_status store_check_identity(struct store *store, const char *path,
                                          const struct identity *identity, bool newer)
{
    const bool known = identity->application == SCHEMA_APPLICATION;
    store->other = known && identity->schema > 0 && identity->schema != SCHEMA_VERSION;
    if (known && (identity->ours || (newer && identity->schema > SCHEMA_VERSION)))
        return PHASOR_OK;
    store->broken = !store->other || identity->schema < SCHEMA_VERSION;
    if (!known)
        return fail(PHASOR_ERROR_FILE, "%s is not a cache of Phasor", path);
    if (identity->schema != SCHEMA_VERSION)
        return fail(PHASOR_ERROR_FILE, "%s has schema %lld, this version knows %d", path,
                    (long long)identity->schema, SCHEMA_VERSION);
    return fail(PHASOR_ERROR_FILE, "%s: its tables are not those of this version of Phasor", path);
}

static int identity_read(struct store *store, struct identity *out)
{
    int rc = store_number(store, "PRAGMA application_id", &out->application);
    if (rc == SQLITE_OK)
        rc = store_number(store, "PRAGMA user_version", &out->schema);
    if (rc == SQLITE_OK)
        rc = store_number(store, "SELECT total(1) FROM sqlite_master", &out->tables);
    out->ours = false;
    if (rc == SQLITE_OK && out->application == SCHEMA_APPLICATION && out->schema == SCHEMA_VERSION)
        out->ours = schema_is_ours(store, &rc);
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
    struct identity identity = {0};
    int rc = store_execute(store, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK)
        rc = identity_read(store, &identity);
    if (rc == SQLITE_OK && identity_is_empty(&identity))
        rc = schema_make(store);
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
    if (store_prepare(store, "PRAGMA journal_mode", &statement) == SQLITE_OK &&
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
    struct identity identity = {0};
    int rc = store_identify(store, &identity);
    if (rc == SQLITE_OK && identity_is_empty(&identity)) {
        rc = store_fill(store, wal);
        if (rc == SQLITE_OK)
            rc = store_identify(store, &identity);
    }
    if (rc != SQLITE_OK)
        return store_refuse(store, rc, path);
    TRY(store_check_identity(store, path, &identity, false));
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
    store->other = kept.other;
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

phasor_status store_open_read_only(struct store *store, const char *path, bool frozen, bool newer)
{
    struct identity identity = {0};
    struct text uri = {0};
    *store = (struct store){0};
    phasor_status status = uri_write(&uri, path, frozen ? "?immutable=1" : "?mode=ro");
    if (status == PHASOR_OK) {
        int rc = store_connect(store, uri.at, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
        if (rc == SQLITE_OK)
            rc = store_identify(store, &identity);
        status = rc == SQLITE_OK ? store_check_identity(store, path, &identity, newer)
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
    if (!waiting && store_open_read_only(store, path, true, false) == PHASOR_OK) {
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
    return store_open_read_only(store, path, frozen, false);
}

bool store_file_is_marked(const char *path)
{
    struct store store = {0};
    struct text uri = {0};
    int64_t application = 0;
    bool marked = false;
    if (uri_write(&uri, path, "?immutable=1") == PHASOR_OK &&
        store_connect(&store, uri.at, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI) == SQLITE_OK &&
        store_number(&store, "PRAGMA application_id", &application) == SQLITE_OK)
        marked = application == SCHEMA_APPLICATION && store_is_marked(&store);
    text_free(&uri);
    store_close(&store, false);
    return marked;
}

/* -- closing ----------------------------------------------------------------------------------- */

void store_close(struct store *store, bool tidy)
{
    if (store->db && !tidy)
        sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->db);
    memory_free(store->work_left);
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
