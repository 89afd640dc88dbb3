/* test_cache_rows.c - verify and gc: every kind of bad row is named, and nothing else; rows by key,
 * and the stored key that is most like one that was not found. */
#include "cache/row_check.h"
#include "support/cache_rows.h"

#include <signal.h>
#include <time.h>

TestSuite(cache_rows, .init = setup, .fini = teardown);

static void rows_put(struct cache *cache)
{
    simple_put(cache, "a");
    simple_put(cache, "b");
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "kernels", 7);
}

/* -- verify ------------------------------------------------------------------------------------ */

Test(cache_rows, verify_counts_every_row)
{
    struct cache_report report;
    struct cache *cache = open_here();
    rows_put(cache);
    cr_assert_eq(cache_verify(cache, &report), PHASOR_OK);
    cr_assert(report.units == 2 && report.kernels == 2 && report.plans == 1);
    cr_assert_eq(report.bad, 0, "%s", text_get(&report.lines));
    cr_assert_eq(report.lines.length, 0);
    cache_report_free(&report);
    cache_close(cache);
    cache = open_at(":memory:", false, 0);
    rows_put(cache);
    cr_assert_eq(cache_verify(cache, &report), PHASOR_OK);
    cr_assert(report.kernels == 2 && report.bad == 0);
    cache_report_free(&report);
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

static const struct {
    const char *sql, *said;
    int bad;
} damages[] = {
    {"UPDATE unit SET cubin = zeroblob(3000) WHERE id = 1", "unit 1 (sm_90, nvrtc 1): the checksum",
     1},
    {"UPDATE unit SET cubin = NULL WHERE id = 1", "unit 1 (sm_90, nvrtc 1): its cubin", 1},
    {"UPDATE unit SET checksum = NULL WHERE id = 1", "its cubin or checksum is missing", 2},
    {"UPDATE unit SET checksum = zeroblob(16) WHERE id = 1", "its seal is not", 2},
    {"UPDATE unit SET toolchain = 'nvrtc 2' WHERE id = 1", "not that of its arch, toolchain", 2},
    {"UPDATE unit SET options = '--fmad=true' WHERE id = 1", "not that of its key, name and", 2},
    {"UPDATE unit SET source = 'other' WHERE id = 1", "not that of its arch, toolchain", 1},
    {"UPDATE unit SET registers = 33 WHERE id = 1", "not that of its arch, toolchain", 1},
    {"UPDATE kernel SET key = (SELECT key FROM kernel WHERE id = 2), canonical = X'62' WHERE id = "
     "1",
     "not that of its key, name and", 1},
    {"UPDATE plan SET stamp = 'another'", "not that of its key, stamp", 1},
    {"UPDATE unit SET source = NULL WHERE id = 1", "source is missing", 1},
    {"UPDATE unit SET arch = 'sm_80' WHERE id = 1", "its arch is not that of its unit", 2},
    {"UPDATE kernel SET name = 'map_mum' WHERE id = 1", "map_mum, sm_90): its seal", 1},
    {"UPDATE kernel SET seal = zeroblob(5) WHERE id = 1", "its seal is not", 1},
    {"UPDATE kernel SET key = zeroblob(16) WHERE id = 1", "kernel 1 (00000000, map_mul", 1},
    {"UPDATE kernel SET canonical = X'7a' WHERE id = 1", "not the hash of its canonical key", 1},
    {"UPDATE kernel SET unit = 2 WHERE id = 1", "unit 1 (sm_90, nvrtc 1): no kernel", 2},
    {"PRAGMA foreign_keys = OFF; UPDATE kernel SET unit = 9 WHERE id = 1", "its unit is missing",
     2},
    {"UPDATE plan SET content = 'kernelz'", "plan 1 (", 1},
    {"UPDATE plan SET content = NULL", "its content, stamp or seal is missing", 1},
    {"UPDATE plan SET seal = X'00'", "its seal is not that of its key, stamp", 1},
    {"UPDATE plan SET canonical = X'00'", "plan 1 (", 1},
    {"INSERT INTO last_use VALUES (1, 77, 0)", "the time of use of plan 77", 1},
    {"INSERT INTO counter VALUES ('hats', 'many')", "\"hats\" is no count", 1},
};

Test(cache_rows, verify_names_every_kind_of_damage_and_gc_drops_it)
{
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct cache_report report;
        struct cache_collected collected;
        struct cache *cache = open_here();
        rows_put(cache);
        cache_close(cache);
        sql_run(damages[i].sql);
        cache = open_here();
        cr_assert_eq(cache_verify(cache, &report), PHASOR_OK);
        cr_assert_eq(report.bad, damages[i].bad, "%s: %s", damages[i].sql, text_get(&report.lines));
        cr_assert(strstr(text_get(&report.lines), damages[i].said), "%s: %s", damages[i].sql,
                  text_get(&report.lines));
        cr_assert(strstr(report.lines.at, file), "the file is not named");
        cache_report_free(&report);
        cr_assert_eq(counters(cache).repairs, 0, "verify has repaired: %s", damages[i].sql);
        cr_assert_eq(cache_gc(cache, &collected), PHASOR_OK, "%s: %s", damages[i].sql,
                     message_get());
        cr_assert_eq(collected.dropped, damages[i].bad, "%s", damages[i].sql);
        cr_assert_eq(collected.set_aside, 0, "%s", damages[i].sql);
        cr_assert_eq(counters(cache).repairs, (uint64_t)damages[i].bad);
        simple_put(cache, "c");
        cr_assert_eq(simple_is(cache, "c"), 1, "%s", damages[i].sql);
        cache_close(cache);
        cache = open_here();
        cr_assert_eq(cache_verify(cache, &report), PHASOR_OK);
        cr_assert(report.bad == 0 && report.kernels >= 1, "%s: %s", damages[i].sql,
                  text_get(&report.lines));
        cache_report_free(&report);
        cache_close(cache);
        unlink(file);
    }
    ASSERT_NO_LEAKS();
}

Test(cache_rows, verify_tells_of_a_file_that_had_to_be_set_aside)
{
    struct cache_report report;
    cache_close(open_here());
    file_write("no database", 11, 0);
    struct cache *cache = open_here();
    cr_assert_eq(cache_verify(cache, &report), PHASOR_OK);
    cr_assert_eq(report.bad, 1);
    cr_assert(strstr(report.lines.at, "broken-1"), "%s", report.lines.at);
    cache_report_free(&report);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* A page of a table that is noise: SQLite says so for the file, and the other tables are read. */
Test(cache_rows, verify_reads_on_behind_a_damaged_page)
{
    unsigned char noise[4096];
    struct cache_report report;
    struct cache *cache = open_here();
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "%d", i);
        simple_put(cache, key);
    }
    cache_close(cache);
    struct stat entry;
    cr_assert_eq(stat(file, &entry), 0);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)(i * i * 7 + i / 3);
    for (long page = 20; page < 40; page++)
        file_write(noise, sizeof noise, page * 4096);
    cache = open_here();
    cr_assert_eq(cache_verify(cache, &report), PHASOR_OK, "%s", message_get());
    cr_assert_gt(report.bad, 0);
    cr_assert(strstr(report.lines.at, "SQLite"), "%s", report.lines.at);
    cache_report_free(&report);
    struct cache_collected collected;
    cr_assert_eq(cache_gc(cache, &collected), PHASOR_OK);
    cr_assert_eq(collected.set_aside, 1);
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(warnings, 1);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* -- gc ---------------------------------------------------------------------------------------- */

static long file_bytes(void)
{
    struct stat entry;
    return stat(file, &entry) == 0 ? (long)entry.st_size : -1;
}

Test(cache_rows, gc_shrinks_the_file_to_its_rows)
{
    struct cache_collected collected;
    char key[16];
    struct cache *cache = open_here();
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "%d", i);
        simple_put(cache, key);
    }
    cache_close(cache);
    const long before = file_bytes();
    sql_run("PRAGMA foreign_keys = ON; DELETE FROM unit WHERE id > 10");
    cache = open_here();
    cr_assert_eq(cache_gc(cache, &collected), PHASOR_OK);
    cr_assert_eq(collected.bytes_before, before);
    cr_assert_eq(collected.bytes, file_bytes());
    cr_assert_lt(file_bytes(), before / 5);
    cr_assert_eq(simple_is(cache, "5"), 1);
    cache_close(cache);
    /* to a cap that is smaller than the rows */
    cache = open_at(directory, false, 64 * 1024);
    cr_assert_eq(cache_gc(cache, &collected), PHASOR_OK);
    cr_assert_leq(file_bytes(), 64 * 1024);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache_rows, gc_removes_what_was_set_aside)
{
    struct cache_collected collected;
    for (int i = 0; i < 3; i++) {
        cache_close(open_here());
        file_write("no database", 11, 0);
    }
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cr_assert(exists("%s.broken-1", file) && exists("%s.broken-3", file));
    cr_assert_eq(cache_gc(cache, &collected), PHASOR_OK);
    cr_assert_eq(collected.set_aside, 3);
    cr_assert_not(exists("%s.broken-1", file));
    cr_assert_not(exists("%s.broken-3", file));
    cr_assert_eq(simple_is(cache, "a"), 1);
    cache_close(cache);
    setenv("PHASOR_CACHE", "ro", 1);
    cache = open_here();
    cr_assert_eq(cache_gc(cache, &collected), PHASOR_ERROR_FILE);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* -- rows by key ------------------------------------------------------------------------------- */

Test(cache_rows, found_by_key_or_prefix)
{
    char key[HASH_TEXT];
    struct cache_rows rows;
    struct cache *cache = open_here();
    rows_put(cache);
    unit_put(cache, "a", "sm_80", "nvrtc 1");
    hash_text(hash_bytes("a", 1), key);
    for (size_t length = 32; length >= 6; length--) {
        key[length] = '\0';
        cr_assert_eq(cache_find_rows(cache, key, &rows), PHASOR_OK);
        cr_assert_eq(rows.count, 2, "%s: %d", key, rows.count);
        const struct cache_row *row = &rows.at[0];
        cr_assert_str_eq(row->arch, "sm_80"); /* the newest first */
        cr_assert_str_eq(row->name, "map_mul");
        cr_assert_str_eq(row->source, "source");
        cr_assert_str_eq(row->toolchain, "nvrtc 1");
        cr_assert(row->nbytes == CUBIN_SIZE && row->registers == 32 && row->shared_bytes == -1);
        cr_assert(row->key_size == 1 && *(const char *)row->key_bytes == 'a');
        cache_rows_free(&rows);
    }
    hash_text(hash_bytes("p", 1), key);
    cr_assert_eq(cache_find_rows(cache, key, &rows), PHASOR_OK);
    cr_assert(rows.count == 1 && rows.at[0].is_plan && rows.at[0].nbytes == 7);
    cache_rows_free(&rows);
    cr_assert_eq(cache_find_rows(cache, "00000000", &rows), PHASOR_OK);
    cr_assert_eq(rows.count, 0);
    cache_rows_free(&rows);
    static const char *const bad[] = {"", "xyz", "012345678901234567890123456789012", "12 "};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(cache_find_rows(cache, bad[i], &rows), PHASOR_ERROR_USAGE);
    int64_t after = -1, count = 0;
    for (;; count++) {
        cr_assert_eq(cache_next_unit(cache, after, &rows), PHASOR_OK);
        if (!rows.count)
            break;
        after = rows.at[0].id;
        cache_rows_free(&rows);
    }
    cr_assert_eq(count, 3);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* -- near ones --------------------------------------------------------------------------------- */

static struct cache_near near_of(struct cache *cache, const char *key, const char *arch)
{
    struct cache_near near;
    const struct cache_key_query query = query_make(key, arch, "nvrtc 2");
    cr_assert_eq(cache_near_kernel(cache, &query, "map_mul", &near), PHASOR_OK);
    return near;
}

Test(cache_rows, the_nearest_key_is_found)
{
    struct cache *cache = open_here();
    struct cache_near near = near_of(cache, "COUNT 640 code", "sm_90");
    cr_assert_not(near.found);
    cache_near_free(&near);
    simple_put(cache, "COUNT 640 code");
    simple_put(cache, "COUNT 999 other");
    unit_put(cache, "COUNT 641 code", "sm_80", "nvrtc 1");
    near = near_of(cache, "COUNT 640 code", "sm_90"); /* the same key, another toolchain */
    cr_assert(near.found && strcmp(near.toolchain, "nvrtc 1") == 0 &&
              strcmp(near.arch, "sm_90") == 0);
    cache_near_free(&near);
    near = near_of(cache, "COUNT 644 code", "sm_90");
    cr_assert(near.found && near.key_size == 14 &&
              memcmp(near.key_bytes, "COUNT 640 code", 14) == 0);
    cache_near_free(&near);
    near = near_of(cache, "COUNT 644 code", "sm_80");
    cr_assert(near.found && memcmp(near.key_bytes, "COUNT 641 code", 14) == 0);
    cache_near_free(&near);
    const struct cache_key_query query = query_make("COUNT 644 code", "sm_80", "nvrtc 2");
    cr_assert_eq(cache_near_kernel(cache, &query, "another_name", &near), PHASOR_OK);
    cr_assert(near.found && memcmp(near.key_bytes, "COUNT 641 code", 14) == 0);
    cache_near_free(&near);
    cache_put_plan(cache, hash_bytes("p 3", 3), "p 3", 3, "kernels", 7);
    cr_assert_eq(cache_near_plan(cache, "p 4", 3, &near), PHASOR_OK);
    cr_assert(near.found && memcmp(near.key_bytes, "p 3", 3) == 0);
    cache_near_free(&near);
    cr_assert_eq(counters(cache).hits + counters(cache).misses, 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}
