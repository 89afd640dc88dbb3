/* fuzz_cache.c - the cache's file with rows that nobody wrote: the bytes are a list of changes.
 *
 *     0 table column row type length bytes    a value of a row: NULL, a number, a text, a blob
 *     1 which                                 one of the statements below
 *     2 low high value                        a byte of the file
 *
 * Whatever was changed: the cache opens, what it finds has the bytes that were put, it verifies,
 * lists and exports, and another cache imports from the file. The plan and the kernel that are
 * looked for are found whole or not at all.
 */
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "cache/cache.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

static const char cubin[] = "\x7f"
                            "ELF a cubin of the test";
static const char plan[] = "a plan of the test";
static const char key[] = "templates, source";
static char folder[64], database[96], other[96];
static uint8_t *fresh; /* the file before changes */
static size_t fresh_size;

static const struct {
    const char *table, *columns[13];
    int count;
} tables[] = {
    {"unit",
     {"id", "arch", "toolchain", "options", "created", "compile_ms", "registers", "spill_bytes",
      "shared_bytes", "checksum", "seal", "cubin", "source"},
     13},
    {"kernel", {"id", "key", "arch", "unit", "name", "seal", "canonical"}, 7},
    {"plan", {"id", "key", "stamp", "created", "seal", "canonical", "content"}, 7},
    {"last_use", {"kind", "id", "time"}, 3},
    {"counter", {"name", "value"}, 2},
    {"note", {"name", "value"}, 2},
};
static const char *const statements[] = {
    "DELETE FROM unit",
    "DELETE FROM kernel",
    "DROP TABLE plan",
    "DROP TABLE note",
    "DROP INDEX kernel_key",
    "PRAGMA user_version = 99",
    "PRAGMA user_version = 0",
    "PRAGMA application_id = 1",
    "CREATE TRIGGER more AFTER INSERT ON plan BEGIN DELETE FROM unit; END",
    "CREATE VIEW more AS SELECT * FROM unit",
    "INSERT INTO kernel SELECT id + 10, key, arch, 77, name, seal, canonical FROM kernel",
    "INSERT INTO kernel SELECT id + 20, key, arch, unit, name, seal, canonical FROM kernel",
    "INSERT INTO plan SELECT id + 10, key, stamp, created, seal, canonical, content FROM plan",
    "UPDATE unit SET cubin = zeroblob(100000)",
    "ALTER TABLE unit ADD COLUMN more",
    "ALTER TABLE plan RENAME COLUMN content TO contents",
};
enum { STATEMENTS = sizeof statements / sizeof *statements };

static void nothing(void *context, int level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
}

static struct cache_key_query query(void)
{
    return (struct cache_key_query){
        hash_bytes(key, sizeof key), key, sizeof key, "sm_90", "nvrtc 13.0", false};
}

static void file_fill(struct cache *cache)
{
    const struct cache_kernel kernel = {hash_bytes(key, sizeof key), key, sizeof key, "mul"};
    const struct cache_unit unit = {.arch = "sm_90",
                                    .toolchain = "nvrtc 13.0",
                                    .options = "--minimal",
                                    .source = "source",
                                    .cubin = cubin,
                                    .cubin_size = sizeof cubin,
                                    .kernels = &kernel,
                                    .kernel_count = 1};
    cache_put_unit(cache, &unit);
    cache_put_plan(cache, hash_bytes(key, sizeof key), key, sizeof key, plan, sizeof plan);
    cache_put_note(cache, "a note", "its text");
}

static void folder_remove(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        perror(folder);
}

static void file_make(void)
{
    struct cache *cache;
    struct stat status;
    if (fresh)
        return;
    log_set_function(nothing, NULL);
    snprintf(folder, sizeof folder, "%s/phasor-fuzz-XXXXXX",
             stat("/dev/shm", &status) == 0 ? "/dev/shm" : "/tmp");
    EXPECT(mkdtemp(folder));
    atexit(folder_remove);
    snprintf(database, sizeof database, "%s/phasor.db", folder);
    snprintf(other, sizeof other, "%s/shipped.db", folder);
    EXPECT(cache_open(&(struct cache_options){.directory = folder}, &cache) == PHASOR_OK);
    file_fill(cache);
    cache_close(cache);
    FILE *file = fopen(database, "rb");
    EXPECT(file && fseek(file, 0, SEEK_END) == 0);
    fresh_size = (size_t)ftell(file);
    rewind(file);
    fresh = malloc(fresh_size);
    EXPECT(fresh && fread(fresh, 1, fresh_size, file) == fresh_size);
    fclose(file);
}

/* -- changes ----------------------------------------------------------------------------------- */

struct changes {
    const uint8_t *at;
    size_t left;
};

static unsigned next(struct changes *changes)
{
    if (changes->left == 0)
        return 0;
    changes->left--;
    return *changes->at++;
}

static void value_bind(sqlite3_stmt *statement, struct changes *changes)
{
    const unsigned type = next(changes) % 5;
    size_t length = next(changes);
    length = length < changes->left ? length : changes->left;
    int64_t number = 0;
    memcpy(&number, changes->at, length < sizeof number ? length : sizeof number);
    if (type == 1)
        sqlite3_bind_int64(statement, 1, number);
    else if (type == 2)
        sqlite3_bind_double(statement, 1, (double)number / 3);
    else if (type == 3)
        sqlite3_bind_text(statement, 1, (const char *)changes->at, (int)length, SQLITE_TRANSIENT);
    else if (type == 4)
        sqlite3_bind_blob(statement, 1, changes->at, (int)length, SQLITE_TRANSIENT);
    changes->at += length;
    changes->left -= length;
}

static void value_change(sqlite3 *db, struct changes *changes)
{
    char sql[160];
    sqlite3_stmt *statement;
    const unsigned table = next(changes) % (sizeof tables / sizeof *tables);
    const unsigned column = next(changes) % (unsigned)tables[table].count, row = next(changes) % 4;
    snprintf(sql, sizeof sql, "UPDATE %s SET %s = ?%s", tables[table].table,
             tables[table].columns[column], table < 3 && row ? " WHERE id = 1" : "");
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        return;
    value_bind(statement, changes);
    sqlite3_step(statement);
    sqlite3_finalize(statement);
}

/* The changes of bytes come last: SQLite would refuse what they leave. */
static void bytes_change(uint8_t *file, size_t nbytes, const uint8_t *at, size_t left)
{
    for (; left >= 4; at += 4, left -= 4)
        if (at[0] % 3 == 2)
            file[(size_t)(at[1] | at[2] << 8) % nbytes] = at[3];
}

static void file_write(const uint8_t *bytes, size_t nbytes)
{
    char beside[128];
    FILE *file = fopen(database, "wb");
    EXPECT(file && fwrite(bytes, 1, nbytes, file) == nbytes);
    fclose(file);
    chmod(database, 0600);
    for (int i = 0; i < 2; i++) {
        snprintf(beside, sizeof beside, "%s%s", database, i ? "-wal" : "-shm");
        unlink(beside);
    }
    for (int i = 1; i < 4; i++) {
        snprintf(beside, sizeof beside, "%s.broken-%d", database, i);
        unlink(beside);
    }
}

static void file_change(const uint8_t *bytes, size_t nbytes)
{
    sqlite3 *db;
    struct changes changes = {bytes, nbytes};
    file_write(fresh, fresh_size);
    EXPECT(sqlite3_open(database, &db) == SQLITE_OK);
    sqlite3_exec(db, "PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF", NULL, NULL, NULL);
    while (changes.left > 0) {
        const unsigned kind = next(&changes) % 3;
        if (kind == 0)
            value_change(db, &changes);
        else if (kind == 1)
            sqlite3_exec(db, statements[next(&changes) % STATEMENTS], NULL, NULL, NULL);
        else
            for (int i = 0; i < 3; i++)
                next(&changes);
    }
    sqlite3_close(db);
    FILE *file = fopen(database, "rb+");
    struct stat status;
    EXPECT(file && fstat(fileno(file), &status) == 0);
    uint8_t *whole = malloc((size_t)status.st_size + 1);
    EXPECT(whole && fread(whole, 1, (size_t)status.st_size, file) == (size_t)status.st_size);
    bytes_change(whole, (size_t)status.st_size, bytes, nbytes);
    rewind(file);
    EXPECT(fwrite(whole, 1, (size_t)status.st_size, file) == (size_t)status.st_size);
    fclose(file);
    free(whole);
}

/* -- what must hold ---------------------------------------------------------------------------- */

static void rows_check(struct cache *cache)
{
    struct cache_found found;
    const struct cache_key_query wanted = query();
    void *blob;
    size_t nbytes;
    bool has;
    EXPECT(cache_get_kernel(cache, &wanted, &found) == PHASOR_OK);
    EXPECT(!found.found ||
           (found.cubin_size == sizeof cubin && memcmp(found.cubin, cubin, sizeof cubin) == 0));
    EXPECT(!found.found || strcmp(found.name, "mul") == 0);
    cache_found_free(&found);
    EXPECT(cache_get_plan(cache, wanted.key, key, sizeof key, &blob, &nbytes, &has) == PHASOR_OK);
    EXPECT(!has || (nbytes == sizeof plan && memcmp(blob, plan, sizeof plan) == 0));
    memory_free(blob);
}

static void texts_check(struct cache *cache)
{
    struct text text = {0};
    bool found;
    EXPECT(cache_get_note(cache, "a note", &text, &found) == PHASOR_OK);
    static const char *const what[] = {"stats", "list"};
    for (int i = 0; i < 4; i++)
        expect_file_status(cache_show(cache, what[i % 2], i / 2 == 1, &text));
    text_free(&text);
    struct cache_rows rows;
    char digits[HASH_TEXT];
    hash_text(hash_bytes(key, sizeof key), digits);
    digits[2] = '\0';
    expect_file_status(cache_find_rows(cache, digits, &rows));
    cache_rows_free(&rows);
    struct cache_report report;
    expect_file_status(cache_verify(cache, &report));
    cache_report_free(&report);
}

static void ship_check(struct cache *cache)
{
    struct cache *second;
    struct cache_shipped shipped;
    unlink(other);
    expect_file_status(cache_export(cache, other, &shipped));
    EXPECT(cache_open(&(struct cache_options){.directory = ":memory:"}, &second) == PHASOR_OK);
    expect_file_status(cache_import(second, database, &shipped));
    rows_check(second);
    cache_close(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct cache *cache;
    file_make();
    file_change(bytes, nbytes);
    EXPECT(cache_open(&(struct cache_options){.directory = folder}, &cache) == PHASOR_OK);
    if (nbytes % 2)
        texts_check(cache);
    rows_check(cache);
    ship_check(cache);
    texts_check(cache);
    file_fill(cache); /* heals what was damaged */
    rows_check(cache);
    cache_close(cache);
    return 0;
}
