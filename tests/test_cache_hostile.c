/* test_cache_hostile.c - databases made so that reading them does not end: as the cache itself, as a
 * read-only layer and as what is imported. Each use ends, and none believes them.
 *
 *     a view in place of a table          WITH RECURSIVE without an end
 *     pages that all point to the next    18 levels of 200: 200^18 rows for a walk */
#include "support/cache_rows.h"

TestSuite(cache_hostile, .init = setup, .fini = teardown, .timeout = 3600);

enum { PAGE = 4096, LEVELS = 18, CHILDREN = 200 };

static const char *const tables[] = {"unit", "kernel", "plan", "last_use", "counter", "note"};
enum { TABLES = sizeof tables / sizeof *tables };

static char elsewhere[700];

static void hostile_begin(void)
{
    struct cache *cache = open_here();
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", top);
    simple_put(cache, "a");
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "kernels", 7);
    cache_put_note(cache, "export", "1"); /* then a layer is opened without locks */
    cache_close(cache);
    sql_run("PRAGMA journal_mode=DELETE");
}

static void reads_end(struct cache *cache)
{
    struct cache_report report;
    struct cache_near near;
    struct cache_rows rows;
    struct text text = {0};
    void *blob;
    size_t nbytes;
    bool found;
    const struct cache_key_query query = query_make("a", "sm_90", "nvrtc 1");
    cr_assert_neq(simple_is(cache, "a"), -1);
    cr_assert_eq(simple_is(cache, "b"), 0);
    cr_assert_eq(cache_get_plan(cache, hash_bytes("p", 1), "p", 1, &blob, &nbytes, &found),
                 PHASOR_OK);
    cr_assert(!found || (nbytes == 7 && memcmp(blob, "kernels", 7) == 0));
    memory_free(blob);
    cache_get_note(cache, "nvrtc", &text, &found);
    cache_near_kernel(cache, &query, "map_mul", &near);
    cache_near_free(&near);
    cache_near_plan(cache, "q", 1, &near);
    cache_near_free(&near);
    if (cache_find_rows(cache, "0", &rows) == PHASOR_OK)
        cache_rows_free(&rows);
    if (cache_next_unit(cache, 0, &rows) == PHASOR_OK)
        cache_rows_free(&rows);
    cache_show(cache, "stats", true, &text);
    cache_show(cache, "list", false, &text);
    text_free(&text);
    if (cache_verify(cache, &report) == PHASOR_OK)
        cache_report_free(&report);
}

/* The file stands at `file` and is made anew by each use that sets it aside. */
static void all_uses_end(const char *what)
{
    char copy[800], command[2400];
    struct cache_shipped shipped;
    struct cache_collected collected;
    snprintf(copy, sizeof copy, "%s/copy.db", top);
    snprintf(command, sizeof command, "cp %s %s && chmod 600 %s", file, copy, copy);
    cr_assert_eq(system(command), 0);

    struct cache *cache = open_at(elsewhere, false, 0);
    cr_assert_neq(cache_import(cache, copy, &shipped), PHASOR_OK, "%s was imported", what);
    cr_assert_eq(shipped.kernels, 0, "%s", what);
    cache_close(cache);

    setenv("PHASOR_CACHE_READONLY_DIRS", copy, 1);
    cache = open_at(elsewhere, false, 0);
    reads_end(cache);
    cache_close(cache);
    unsetenv("PHASOR_CACHE_READONLY_DIRS");

    setenv("PHASOR_CACHE", "ro", 1);
    cache = open_here();
    reads_end(cache);
    cache_close(cache);
    unsetenv("PHASOR_CACHE");

    cache = open_at(directory, false, 64 * 1024); /* so little that it must evict */
    reads_end(cache);
    for (char key[2] = "c"; *key <= 'z'; ++*key)
        simple_put(cache, key);
    cache_gc(cache, &collected);
    simple_put(cache, "c");
    cr_assert_eq(simple_is(cache, "c"), 1, "%s", what);
    cr_assert_eq(figure(cache, "repairs"), 1, "%s was not set aside", what);
    cache_close(cache);
}

Test(cache_hostile, a_view_in_place_of_a_table)
{
    for (int t = 0; t < TABLES; t++) {
        char sql[600];
        hostile_begin();
        snprintf(sql, sizeof sql,
                 "PRAGMA foreign_keys=OFF; DROP TABLE %s; CREATE VIEW %s AS WITH RECURSIVE r(id) AS"
                 " (SELECT 1 UNION ALL SELECT id + 1 FROM r) SELECT id, 'export' AS name,"
                 " 'sm_90' AS arch, 1 AS unit, id AS time, 0 AS kind, id AS value,"
                 " x'00' AS key, x'00' AS canonical FROM r",
                 tables[t], tables[t]);
        sql_run(sql);
        all_uses_end(tables[t]);
        unlink(file);
    }
    ASSERT_NO_LEAKS();
}

/* -- pages ------------------------------------------------------------------------------------- */

static void put_big_endian(unsigned char *at, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * (bytes - 1 - i)));
}

/* An inner page of a table whose children are all the same page. */
static void inner_page(unsigned char page[PAGE], uint32_t child)
{
    int content = PAGE;
    memset(page, 0, PAGE);
    page[0] = 5;
    put_big_endian(page + 3, CHILDREN, 2);
    put_big_endian(page + 8, child, 4);
    for (int cell = 0; cell < CHILDREN; cell++) {
        content -= 5;
        put_big_endian(page + content, child, 4);
        page[content + 4] = 1; /* the row's number */
        put_big_endian(page + 12 + 2 * cell, (uint32_t)content, 2);
    }
    put_big_endian(page + 5, (uint32_t)content, 2);
}

static uint32_t root_page(const char *table)
{
    sqlite3 *db;
    sqlite3_stmt *row;
    cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_prepare_v2(db, "SELECT rootpage FROM sqlite_master WHERE name = ?1", -1,
                                    &row, NULL),
                 SQLITE_OK);
    sqlite3_bind_text(row, 1, table, -1, SQLITE_STATIC);
    cr_assert_eq(sqlite3_step(row), SQLITE_ROW);
    const uint32_t page = (uint32_t)sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return page;
}

/* The root's own page goes to the end of the file, below the levels. */
static void levels_make(const char *table)
{
    unsigned char page[PAGE], count[4];
    struct stat entry;
    const uint32_t root = root_page(table);
    FILE *db = fopen(file, "r+b");
    cr_assert(db && fstat(fileno(db), &entry) == 0);
    const uint32_t last = (uint32_t)(entry.st_size / PAGE);
    cr_assert(fseek(db, (long)(root - 1) * PAGE, SEEK_SET) == 0 &&
              fread(page, 1, PAGE, db) == PAGE);
    cr_assert_eq(page[0], 13, "%s is more than one page", table);
    for (int level = 0; level <= LEVELS; level++) {
        cr_assert(fseek(db, (long)(last + (uint32_t)level) * PAGE, SEEK_SET) == 0 &&
                  fwrite(page, 1, PAGE, db) == PAGE);
        inner_page(page, last + (uint32_t)level + 1);
    }
    cr_assert(fseek(db, (long)(root - 1) * PAGE, SEEK_SET) == 0 &&
              fwrite(page, 1, PAGE, db) == PAGE);
    put_big_endian(count, last + LEVELS + 1, 4);
    cr_assert(fseek(db, 28, SEEK_SET) == 0 && fwrite(count, 1, 4, db) == 4);
    fclose(db);
}

Test(cache_hostile, pages_that_are_walked_for_ever)
{
    static const char *const walked[] = {"unit", "kernel", "plan"};
    for (int t = 0; t < 3; t++) {
        hostile_begin();
        levels_make(walked[t]);
        all_uses_end(walked[t]);
        unlink(file);
    }
    ASSERT_NO_LEAKS();
}
