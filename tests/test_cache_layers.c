/* test_cache_layers.c - read-only layers, and the files that export makes and import takes. */
#include "support/cache_rows.h"
#include "support/child.h"

#include <sched.h>
#include <sys/mount.h>
#include <time.h>

TestSuite(cache_layers, .init = setup, .fini = teardown);

static char exported[700], other[700];

static void names_set(void)
{
    snprintf(exported, sizeof exported, "%s/layer.db", top);
    snprintf(other, sizeof other, "%s/other", top);
    unsetenv("PHASOR_CACHE_READONLY_DIRS");
}

/* A cache with the keys, one letter each, in `directory`; and its export. */
static struct cache_shipped keys_export(const char *keys)
{
    struct cache_shipped shipped;
    struct cache *cache = open_here();
    for (const char *key = keys; *key; key++)
        simple_put(cache, (char[]){*key, '\0'});
    cr_assert_eq(cache_export(cache, exported, &shipped), PHASOR_OK, "%s", message_get());
    cache_close(cache);
    return shipped;
}

static struct cache *open_other(void)
{
    return open_at(other, false, 0);
}

static void layers_use(const char *list)
{
    setenv("PHASOR_CACHE_READONLY_DIRS", list, 1);
}

/* SQL on the exported file, behind its mode. */
static void exported_run(const char *sql)
{
    sqlite3 *db;
    cr_assert_eq(chmod(exported, 0600), 0);
    cr_assert_eq(sqlite3_open(exported, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    cr_assert_eq(chmod(exported, 0444), 0);
}

static long size_of(const char *path)
{
    struct stat entry;
    return stat(path, &entry) == 0 ? (long)entry.st_size : -1;
}

/* -- export ------------------------------------------------------------------------------------ */

Test(cache_layers, export_writes_one_compact_read_only_file)
{
    unsigned char header[100];
    names_set();
    struct cache *cache = open_here();
    for (int i = 0; i < 200; i++)
        simple_put(cache, (char[]){(char)('a' + i % 26), (char)('a' + i / 26), '\0'});
    cr_assert_eq(cache_clear(cache), PHASOR_OK);
    cache_close(cache);
    const struct cache_shipped shipped = keys_export("ab");
    cr_assert(shipped.kernels == 2 && shipped.plans == 0 && shipped.refused == 0);
    cr_assert_eq(shipped.bytes, size_of(exported));
    cr_assert_lt(size_of(exported), 80 * 1024);
    cr_assert_eq(mode_of(exported), 0444);
    cr_assert_not(exists("%s-wal", exported));
    cr_assert_not(exists("%s-journal", exported));
    FILE *in = fopen(exported, "rb");
    cr_assert_eq(fread(header, 1, sizeof header, in), sizeof header);
    fclose(in);
    cr_assert(header[18] == 1 && header[19] == 1, "it has no rollback journal");
    struct text left = {0};
    char command[800];
    snprintf(command, sizeof command, "test $(ls %s | wc -l) -eq 2", top); /* cache, layer.db */
    cr_assert_eq(system(command), 0);
    text_free(&left);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

Test(cache_layers, export_replaces_nothing_but_an_export)
{
    struct cache_shipped shipped;
    names_set();
    keys_export("a");
    keys_export("b"); /* an export is replaced */
    struct cache *cache = open_here();
    cr_assert_eq(cache_export(cache, file, &shipped), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "the cache itself"), "%s", message_get());
    FILE *out = fopen(other, "w");
    fputs("my notes\n", out);
    fclose(out);
    cr_assert_eq(cache_export(cache, other, &shipped), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "not overwritten"), "%s", message_get());
    cr_assert_eq(size_of(other), 9);
    cr_assert_eq(truncate(other, 0), 0);
    cr_assert_eq(cache_export(cache, other, &shipped), PHASOR_ERROR_FILE);
    unlink(other);
    cr_assert_eq(symlink(exported, other), 0);
    cr_assert_eq(cache_export(cache, other, &shipped), PHASOR_ERROR_FILE);
    unlink(other);
    cr_assert_eq(mkdir(other, 0700), 0);
    cr_assert_eq(cache_export(cache, other, &shipped), PHASOR_ERROR_FILE);
    cr_assert_eq(cache_export(cache, "/proc/nothing/here", &shipped), PHASOR_ERROR_FILE);
    cache_close(cache);
    /* another cache in use is no export */
    cache = open_other();
    simple_put(cache, "z");
    char second[800];
    snprintf(second, sizeof second, "%s/phasor.db", other);
    struct cache *first = open_here();
    cr_assert_eq(cache_export(first, second, &shipped), PHASOR_ERROR_FILE);
    cr_assert_eq(simple_is(cache, "z"), 1);
    cache_close(first);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache_layers, export_leaves_damaged_rows_out)
{
    struct cache_report report;
    names_set();
    struct cache *cache = open_here();
    simple_put(cache, "a");
    simple_put(cache, "b");
    cache_close(cache);
    sql_run("UPDATE unit SET cubin = zeroblob(3000) WHERE id = (SELECT min(id) FROM unit)");
    const struct cache_shipped shipped = keys_export("c");
    cr_assert_eq(shipped.kernels, 2);
    cr_assert_eq(shipped.refused, 1);
    layers_use(exported);
    cache = open_other();
    cr_assert_eq(simple_is(cache, "a") * 100 + simple_is(cache, "b") * 10 + simple_is(cache, "c"),
                 11);
    cr_assert_eq(cache_verify(cache, &report), PHASOR_OK);
    cr_assert_eq(report.bad, 0, "%s", text_get(&report.lines));
    cr_assert_eq(report.kernels, 2);
    cache_report_free(&report);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* -- layers ------------------------------------------------------------------------------------ */

Test(cache_layers, serve_hits_and_are_not_written)
{
    char list[1500];
    struct stat before, after;
    names_set();
    keys_export("ab");
    cr_assert_eq(stat(exported, &before), 0);
    snprintf(list, sizeof list, "::%s:", exported);
    layers_use(list);
    struct cache *cache = open_other();
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(simple_is(cache, "c"), 0);
    simple_put(cache, "c");
    cr_assert_eq(simple_is(cache, "c"), 1);
    cr_assert_eq(counters(cache).hits, 2);
    cr_assert_eq(counters(cache).misses, 1);
    cr_assert_eq(figure(cache, "kernels"), 1); /* of the file itself */
    cache_close(cache);
    cr_assert_eq(stat(exported, &after), 0);
    cr_assert(before.st_mtim.tv_nsec == after.st_mtim.tv_nsec && before.st_size == after.st_size);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

Test(cache_layers, a_directory_serves_with_its_writer)
{
    names_set();
    struct cache *writer = open_here();
    simple_put(writer, "a");
    layers_use(directory);
    struct cache *cache = open_other();
    cr_assert_eq(simple_is(cache, "a"), 1);
    simple_put(writer, "b"); /* it is no export: what comes later is seen */
    cr_assert_eq(simple_is(cache, "b"), 1);
    cr_assert_eq(simple_is(cache, "c"), 0);
    cache_close(cache);
    cache_close(writer);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

Test(cache_layers, serve_a_memory_cache_and_plans)
{
    void *blob;
    size_t nbytes;
    bool found;
    names_set();
    struct cache *cache = open_here();
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "kernels", 7);
    cache_close(cache);
    keys_export("a");
    layers_use(exported);
    cache = open_at(":memory:", false, 0);
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(cache_get_plan(cache, hash_bytes("p", 1), "p", 1, &blob, &nbytes, &found),
                 PHASOR_OK);
    cr_assert(found && nbytes == 7 && memcmp(blob, "kernels", 7) == 0);
    memory_free(blob);
    cache_close(cache);
    setenv("PHASOR_CACHE", "off", 1);
    cache = open_at(":memory:", false, 0);
    cr_assert_eq(simple_is(cache, "a"), 0);
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

Test(cache_layers, a_damaged_row_is_refused_and_the_next_layer_serves)
{
    char second[700], list[1500];
    names_set();
    keys_export("ab");
    snprintf(second, sizeof second, "%s/second.db", top);
    cr_assert_eq(rename(exported, second), 0);
    keys_export("ab");
    exported_run("UPDATE unit SET cubin = zeroblob(3000) WHERE id = (SELECT min(id) FROM unit)");
    snprintf(list, sizeof list, "%s:%s", exported, second);
    layers_use(list);
    struct cache *cache = open_other();
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(simple_is(cache, "b"), 1);
    cr_assert_eq(counters(cache).refusals, 1);
    cr_assert_eq(counters(cache).repairs, 0);
    cr_assert_eq(warnings, 1);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

static void expect_layer_refused(const char *list, const char *why)
{
    warnings = 0;
    layers_use(list);
    struct cache *cache = open_other();
    struct text text = {0};
    cr_assert_eq(simple_is(cache, "a"), 0, "%s", why);
    simple_put(cache, "b");
    cr_assert_eq(simple_is(cache, "b"), 1, "%s", why);
    cr_assert_eq(warnings, 1, "%s: %d warnings", why, warnings);
    cr_assert_eq(cache_show(cache, "stats", false, &text), PHASOR_OK);
    cr_assert(strstr(text.at, "PHASOR_CACHE_READONLY_DIRS"), "%s: %s", why, text.at);
    text_free(&text);
    cache_close(cache);
}

Test(cache_layers, one_that_cannot_be_used_is_one_warning)
{
    char list[1500], link[700];
    names_set();
    keys_export("a");
    expect_layer_refused("/there/is/nothing:/nor/here", "missing");
    snprintf(list, sizeof list, "%s/empty", top);
    cr_assert_eq(mkdir(list, 0700), 0);
    expect_layer_refused(list, "a directory without a file");
    cr_assert_eq(chmod(exported, 0666), 0);
    expect_layer_refused(exported, "a file for all");
    cr_assert_eq(chmod(exported, 0444) | chmod(top, 0777), 0);
    expect_layer_refused(exported, "in a directory for all");
    cr_assert_eq(chmod(top, 0700), 0);
    if (geteuid() == 0) {
        cr_assert_eq(chown(exported, OTHER_USER, OTHER_USER), 0);
        expect_layer_refused(exported, "of another user");
        cr_assert_eq(chown(exported, 0, 0), 0);
        snprintf(link, sizeof link, "%s/link.db", top);
        cr_assert_eq(symlink(exported, link) | lchown(link, OTHER_USER, OTHER_USER), 0);
        expect_layer_refused(link, "through a link of another user");
    }
    cr_assert_eq(chmod(exported, 0600), 0);
    cr_assert_eq(truncate(exported, 1000), 0);
    expect_layer_refused(exported, "truncated");
    FILE *out = fopen(exported, "w");
    fputs("no database at all, but long enough to be looked at as if it were one of those", out);
    fclose(out);
    expect_layer_refused(exported, "text");
    ASSERT_NO_LEAKS();
}

/* The file is root's, as in an image; the process is not. */
static int image_is_used(void)
{
    struct cache *cache = open_at(":memory:", false, 0);
    const bool good = simple_is(cache, "a") == 1 && warnings == 0;
    cache_close(cache);
    return !good;
}

Test(cache_layers, what_root_made_serves_other_users)
{
    names_set();
    keys_export("a");
    layers_use(exported);
    cr_assert_eq(chmod(top, 0755), 0);
    cr_assert_eq(run_as_other(image_is_used), 0);
}

/* A mount namespace of its own; where that is not allowed, the directory's mode has to do. */
static int read_only_mount_is_used(void)
{
    (void)(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(top, top, NULL, MS_BIND, NULL) == 0 &&
           mount(NULL, top, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
    struct cache *cache = open_at(":memory:", false, 0);
    const bool good = simple_is(cache, "a") == 1 && simple_is(cache, "b") == 0 && warnings == 0;
    cache_close(cache);
    return !good;
}

Test(cache_layers, serve_from_a_read_only_mount)
{
    names_set();
    keys_export("a");
    cr_assert_eq(chmod(top, 0555), 0);
    layers_use(exported);
    cr_assert_eq(in_child(read_only_mount_is_used), 0);
    layers_use(directory); /* and a cache that is no export, with the journal of its writer gone */
    cr_assert_eq(in_child(read_only_mount_is_used), 0);
    cr_assert_eq(chmod(top, 0700), 0);
}

/* A database with a log, as a writer that was killed leaves it, on a read-only mount. */
Test(cache_layers, a_log_without_its_writer_is_served)
{
    names_set();
    const pid_t child = fork();
    if (child == 0) {
        struct cache *cache = open_here();
        simple_put(cache, "a");
        kill(getpid(), SIGKILL);
    }
    waitpid(child, NULL, 0);
    layers_use(directory);
    struct cache *cache = open_other();
    cr_assert_eq(simple_is(cache, "a"), 1); /* mode=ro reads the log */
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

Test(cache_layers, are_opened_again_after_a_fork)
{
    names_set();
    keys_export("a");
    layers_use(exported);
    struct cache *cache = open_at(":memory:", false, 0);
    cr_assert_eq(simple_is(cache, "a"), 1);
    const pid_t child = fork();
    if (child == 0)
        _exit(simple_is(cache, "a") != 1 || warnings != 0);
    int status = 1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(warnings, 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache_layers, relative_names_hold_after_chdir)
{
    names_set();
    keys_export("a");
    cr_assert_eq(chdir(top), 0);
    layers_use("layer.db");
    struct cache *cache = open_at(":memory:", false, 0);
    cr_assert_eq(chdir("/"), 0);
    const pid_t child = fork(); /* closes and opens */
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    cr_assert_eq(simple_is(cache, "a"), 1);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* Its mark would be a lie: rows that come later are in a log that readers without locks miss. */
Test(cache_layers, an_export_that_is_written_is_none_any_more)
{
    names_set();
    keys_export("a");
    cr_assert_eq(mkdir(other, 0700), 0);
    char moved[800];
    snprintf(moved, sizeof moved, "%s/phasor.db", other);
    cr_assert_eq(chmod(exported, 0600) | rename(exported, moved), 0);
    struct cache *writer = open_other();
    simple_put(writer, "b");
    layers_use(other);
    struct cache *cache = open_at(":memory:", false, 0);
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(simple_is(cache, "b"), 1);
    cache_close(cache);
    cache_close(writer);
    ASSERT_NO_LEAKS();
}

/* -- import ------------------------------------------------------------------------------------ */

Test(cache_layers, import_takes_what_is_missing)
{
    struct cache_shipped shipped;
    names_set();
    struct cache *cache = open_here();
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "kernels", 7);
    unit_put(cache, "a", "sm_80", "nvrtc 1");
    cache_close(cache);
    keys_export("abc");
    cache = open_other();
    simple_put(cache, "a");
    cr_assert_eq(cache_import(cache, exported, &shipped), PHASOR_OK, "%s", message_get());
    cr_assert(shipped.kernels == 3 && shipped.plans == 1 && shipped.present == 1 &&
              shipped.refused == 0);
    cr_assert_eq(cache_import(cache, exported, &shipped), PHASOR_OK);
    cr_assert(shipped.kernels == 0 && shipped.plans == 0 && shipped.present == 5);
    cache_close(cache);
    cache = open_other();
    cr_assert_eq(simple_is(cache, "a") + simple_is(cache, "b") + simple_is(cache, "c"), 3);
    cr_assert_eq(kernel_is(cache, "a", "sm_80", "nvrtc 1"), 1);
    struct cache_report report;
    cr_assert_eq(cache_verify(cache, &report), PHASOR_OK);
    cr_assert_eq(report.bad, 0, "%s", text_get(&report.lines));
    cr_assert_eq(report.kernels, 4);
    cache_report_free(&report);
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

static const char *const bad_rows[] = {
    "UPDATE unit SET cubin = zeroblob(3000) WHERE id = (SELECT min(id) FROM unit)",
    "UPDATE unit SET cubin = NULL WHERE id = (SELECT min(id) FROM unit)",
    "UPDATE unit SET checksum = NULL WHERE id = (SELECT min(id) FROM unit)",
    "UPDATE unit SET source = NULL WHERE id = (SELECT min(id) FROM unit)",
    "UPDATE unit SET arch = 'sm_80' WHERE id = (SELECT min(id) FROM unit)",
    "UPDATE kernel SET name = 'map_mum' WHERE id = (SELECT min(id) FROM kernel)",
    /* of the key "a", the key "b" */
    "UPDATE kernel SET canonical = X'62' WHERE id = (SELECT min(id) FROM kernel)",
    "UPDATE kernel SET key = zeroblob(16) WHERE id = (SELECT min(id) FROM kernel)",
    "UPDATE kernel SET seal = zeroblob(3) WHERE id = (SELECT min(id) FROM kernel)",
    "PRAGMA foreign_keys = OFF; UPDATE kernel SET unit = 77 WHERE id = (SELECT min(id) FROM "
    "kernel)",
};

Test(cache_layers, import_refuses_every_bad_row_and_takes_the_others)
{
    names_set();
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++) {
        struct cache_shipped shipped;
        unlink(exported);
        keys_export("ab");
        exported_run(bad_rows[i]);
        struct cache *cache = open_other();
        cr_assert_eq(cache_import(cache, exported, &shipped), PHASOR_OK, "%s: %s", bad_rows[i],
                     message_get());
        cr_assert_eq(shipped.kernels, 1, "%s", bad_rows[i]);
        cr_assert_geq(shipped.refused, 1, "%s", bad_rows[i]);
        cr_assert_eq(counters(cache).refusals, (uint64_t)shipped.refused);
        cr_assert_eq(simple_is(cache, "a"), 0, "%s", bad_rows[i]);
        cr_assert_eq(simple_is(cache, "b"), 1, "%s", bad_rows[i]);
        cr_assert_eq(cache_clear(cache), PHASOR_OK);
        cache_close(cache);
    }
    ASSERT_NO_LEAKS();
}

Test(cache_layers, of_another_version_are_skipped_and_counted)
{
    names_set();
    keys_export("a");
    exported_run("PRAGMA user_version = 1");
    layers_use(exported);
    for (int version = 1; version <= 3; version += 2) {
        char sql[64];
        snprintf(sql, sizeof sql, "PRAGMA user_version = %d", version);
        exported_run(sql);
        warnings = 0;
        struct cache *cache = open_other();
        cr_assert_eq(simple_is(cache, "a"), 0);
        cr_assert_eq(counters(cache).skipped, 1);
        cr_assert_eq(warnings, 1);
        cache_close(cache);
    }
    unsetenv("PHASOR_CACHE_READONLY_DIRS");
    struct cache *cache = open_other();
    cr_assert_eq(figure(cache, "skipped"), 2);
    cache_close(cache);
    /* an export of an older version makes room for one of this */
    exported_run("PRAGMA user_version = 1");
    keys_export("a");
    ASSERT_NO_LEAKS();
}

/* Noise over the last pages: tables whose roots are right. */
static void exported_page_break(void)
{
    unsigned char noise[4096];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)(i * i * 7 + i / 3);
    cr_assert_eq(chmod(exported, 0600), 0);
    FILE *out = fopen(exported, "r+b");
    cr_assert(out && fseek(out, -3 * 4096, SEEK_END) == 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(fwrite(noise, 1, sizeof noise, out), sizeof noise);
    fclose(out);
}

static void expect_import_fails(const char *path, const char *why)
{
    struct cache_shipped shipped;
    struct cache *cache = open_other();
    cr_assert_eq(cache_import(cache, path, &shipped), PHASOR_ERROR_FILE, "%s", why);
    cr_assert_eq(shipped.kernels, 0, "%s", why);
    cache_close(cache);
}

Test(cache_layers, import_of_what_is_no_cache)
{
    names_set();
    keys_export("a");
    expect_import_fails("/there/is/nothing", "missing");
    expect_import_fails(top, "a directory");
    cr_assert_eq(chmod(exported, 0666), 0);
    expect_import_fails(exported, "writable by all");
    exported_run("CREATE VIEW more AS SELECT 1");
    expect_import_fails(exported, "a table too many");
    exported_run("DROP VIEW more; PRAGMA user_version = 9");
    expect_import_fails(exported, "a newer schema");
    exported_run("PRAGMA application_id = 9");
    expect_import_fails(exported, "a foreign file");
    cr_assert_eq(chmod(exported, 0600) | truncate(exported, 5000), 0);
    expect_import_fails(exported, "truncated");
    unlink(exported);
    keys_export("abcdefgh");
    exported_page_break();
    expect_import_fails(exported, "a page of noise");
    setenv("PHASOR_CACHE", "ro", 1);
    expect_import_fails(exported, "nothing can be kept");
    ASSERT_NO_LEAKS();
}

Test(cache_layers, import_keeps_the_limit)
{
    struct cache_shipped shipped;
    char key[16];
    names_set();
    struct cache *cache = open_here();
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "%d", i);
        simple_put(cache, key);
    }
    cache_close(cache);
    keys_export("");
    cache = open_at(other, false, 300 * 1024);
    cr_assert_eq(cache_import(cache, exported, &shipped), PHASOR_OK);
    cr_assert_eq(shipped.kernels, 200);
    cr_assert_gt(shipped.evicted, 50);
    cr_assert(figure(cache, "bytes") <= 300 * 1024);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}
