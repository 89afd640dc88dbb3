/* test_cache_damage.c - what happens to rows, files and directories behind the store's back.
 * Results stay right: a miss, a counter, one warning. Files are damaged between two openings, or
 * through a connection of the test's own. */
#include "support/cache_rows.h"

TestSuite(cache_damage, .init = setup, .fini = teardown);

/* -- damage ------------------------------------------------------------------------------------ */

static const char *const row_damages[] = {
    "UPDATE unit SET cubin = NULL",
    "UPDATE unit SET cubin = zeroblob(3000)",
    "UPDATE unit SET cubin = substr(cubin, 1, 2999)",
    "UPDATE unit SET checksum = NULL",
    "UPDATE unit SET checksum = zeroblob(16)",
    "UPDATE kernel SET name = 'map_mum'",
    "UPDATE kernel SET seal = zeroblob(16)",
    "UPDATE unit SET options = '--fmad=true'",
    /* the row of another key under this one */
    "UPDATE kernel SET key = (SELECT key FROM kernel WHERE canonical = X'61'), canonical = X'61'"
    " WHERE canonical = X'62'",
    /* the row of another arch, or of another toolchain */
    "UPDATE kernel SET arch = 'sm_90'; DELETE FROM kernel WHERE canonical = X'61' AND id < 3",
    "UPDATE unit SET toolchain = 'nvrtc 1'; DELETE FROM kernel WHERE canonical = X'61' AND id < 4",
    /* another whole unit with the same entry name */
    "UPDATE kernel SET unit = 3 - unit",
};

Test(cache_damage, a_damaged_row_is_a_miss_and_is_deleted)
{
    for (size_t i = 0; i < sizeof row_damages / sizeof *row_damages; i++) {
        struct cache *cache = open_here();
        simple_put(cache, "a");
        simple_put(cache, "b");
        unit_put(cache, "a", "sm_80", "nvrtc 1");
        unit_put(cache, "a", "sm_90", "nvrtc 2");
        sql_run(row_damages[i]);
        cr_assert_eq(simple_is(cache, "a"), 0, "%s", row_damages[i]);
        cr_assert_eq(counters(cache).repairs, 1, "%s", row_damages[i]);
        simple_put(cache, "a");
        cr_assert_eq(simple_is(cache, "a"), 1);
        cr_assert_eq(cache_clear(cache), PHASOR_OK);
        cache_close(cache);
    }
    ASSERT_NO_LEAKS();
}

Test(cache_damage, one_flipped_bit_in_the_file)
{
    unsigned char cubin[CUBIN_SIZE], *bytes = malloc(1 << 20), *at;
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cache_close(cache);
    FILE *in = fopen(file, "rb");
    const size_t nbytes = fread(bytes, 1, 1 << 20, in);
    fclose(in);
    cubin_make("a", cubin);
    at = memmem(bytes, nbytes, cubin, 100);
    cr_assert(at);
    at[50] ^= 4;
    file_write(at + 50, 1, at + 50 - bytes);
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a"), 0);
    cr_assert_eq(counters(cache).repairs, 1);
    cr_assert_eq(figure(cache, "kernels"), 0);
    cr_assert_eq(warnings, 1);
    cache_close(cache);
    free(bytes);
    ASSERT_NO_LEAKS();
}

static void damage_zero(void)
{
    static const char zeros[4096];
    file_write(zeros, sizeof zeros, 0);
}
static void damage_text(void)
{
    file_write("# not a database, whatever its name says\n", 41, 0);
}
static void damage_truncate_to_odd(void)
{
    cr_assert_eq(truncate(file, 1000), 0);
}
static void damage_truncate_to_half(void)
{
    struct stat entry;
    cr_assert(stat(file, &entry) == 0 && truncate(file, entry.st_size / 2) == 0);
}
static void damage_noise(void)
{
    unsigned char noise[3000];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)(i * i * 7 + i / 3);
    for (long page = 1; page < 12; page++)
        file_write(noise, sizeof noise, page * 4096 + 8);
}
static void damage_older(void)
{
    sql_run("PRAGMA user_version = 1");
}
static void damage_foreign(void)
{
    sql_run("PRAGMA application_id = 7");
}
static void damage_tables(void)
{
    sql_run("DROP TABLE kernel");
}
static void damage_view(void)
{
    sql_run("CREATE VIEW more AS SELECT 1");
}
static void damage_trigger(void)
{
    sql_run("DROP TRIGGER unit_deleted");
}

Test(cache_damage, a_damaged_file_is_set_aside)
{
    void (*const damages[])(void) = {
        damage_zero,  damage_text,   damage_truncate_to_odd, damage_truncate_to_half,
        damage_noise, damage_older,  damage_foreign,         damage_tables,
        damage_view,  damage_trigger};
    const int count = sizeof damages / sizeof *damages;
    for (int i = 0; i < count; i++) {
        struct cache *cache = open_here();
        for (char key[2] = "a"; *key <= 'z'; ++*key)
            simple_put(cache, key);
        cache_close(cache);
        damages[i]();
        warnings = 0;
        cache = open_here();
        cr_assert_eq(simple_is(cache, "m"), 0, "damage %d", i);
        simple_put(cache, "a");
        cr_assert_eq(simple_is(cache, "a"), 1, "damage %d", i);
        cr_assert_str_eq(cache_path(cache), file);
        cr_assert_eq(warnings, 1, "damage %d: %d warnings", i, warnings);
        cr_assert_eq(figure(cache, "repairs"), 1, "damage %d", i);
        cr_assert(exists("%s.broken-1", file), "damage %d", i);
        cache_close(cache);
        location_remove_aside(directory, file);
        unlink(file);
    }
    ASSERT_NO_LEAKS();
}

/* Its rows are taken, where they are what this version knows; nothing in it is changed. */
Test(cache_damage, a_newer_file_is_only_read)
{
    struct cache_shipped shipped;
    struct stat before, after;
    struct cache *cache = open_here();
    simple_put(cache, "a");
    simple_put(cache, "b");
    cache_close(cache);
    sql_run("UPDATE kernel SET seal = zeroblob(32) WHERE canonical = X'62';"
            "ALTER TABLE unit ADD COLUMN more; PRAGMA user_version = 3");
    cr_assert_eq(stat(file, &before), 0);
    warnings = 0;
    cache = open_here();
    cr_assert_eq(warnings, 1);
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(simple_is(cache, "b"), 0, "a row that is sealed in another way was taken");
    simple_put(cache, "c");
    cr_assert_eq(simple_is(cache, "c"), 1);
    cr_assert_eq(cache_clear(cache), PHASOR_ERROR_FILE);
    cr_assert_eq(cache_import(cache, file, &shipped), PHASOR_ERROR_FILE);
    cr_assert(counters(cache).repairs == 0 && counters(cache).refusals == 0);
    cache_close(cache);
    cr_assert(stat(file, &after) == 0 && before.st_ino == after.st_ino &&
              before.st_size == after.st_size && before.st_mtime == after.st_mtime);
    cr_assert_not(exists("%s.broken-1", file));
    /* one whose tables have other names serves nothing, and is left alone too */
    sql_run("ALTER TABLE kernel RENAME TO kernels");
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a"), 0);
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cache_close(cache);
    cr_assert_not(exists("%s.broken-1", file));
    ASSERT_NO_LEAKS();
}

Test(cache_damage, an_empty_file_gets_the_tables)
{
    cr_assert_eq(mkdir(directory, 0700), 0);
    fclose(fopen(file, "w"));
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(warnings, 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache_damage, damage_while_open_heals_and_the_row_is_kept)
{
    struct cache *cache = open_here(), *other = open_here();
    simple_put(cache, "a");
    sql_run("DROP TABLE plan; DROP TABLE kernel");
    simple_put(cache, "b");
    cr_assert_eq(simple_is(cache, "b"), 1);
    cr_assert_eq(simple_is(other, "b"), 0); /* finds the damage too, and takes the new file */
    cr_assert_eq(simple_is(other, "b"), 1);
    cr_assert(exists("%s.broken-1", file));
    cr_assert_not(exists("%s.broken-2", file));
    cache_close(cache);
    cache_close(other);
    ASSERT_NO_LEAKS();
}

/* -- places ------------------------------------------------------------------------------------ */

Test(cache_damage, modes)
{
    umask(0);
    char deep[700], wal[800];
    snprintf(deep, sizeof deep, "%s/new/deep path", top);
    struct cache *cache = open_at(deep, false, 0);
    simple_put(cache, "a");
    cr_assert_eq(mode_of(deep), 0700);
    cr_assert_eq(mode_of(cache_path(cache)), 0600);
    snprintf(wal, sizeof wal, "%s-wal", cache_path(cache));
    cr_assert(mode_of(wal) == 0600 || !location_is_local(deep));
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

static void expect_refused(const char *path, const char *what)
{
    warnings = 0;
    struct cache *cache = open_at(path, false, 0);
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_str_eq(cache_path(cache), ":memory:", "%s was not refused", what);
    cr_assert_eq(warnings, 1, "%s: %d warnings", what, warnings);
    cr_assert_eq(cache_require_store(cache), PHASOR_ERROR_FILE);
    cache_close(cache);
    cache = open_at(path, true, 0);
    cr_assert_str_neq(cache_path(cache), ":memory:", "%s was refused in spite of trust", what);
    cache_close(cache);
}

Test(cache_damage, what_others_can_change_is_refused)
{
    char link[700];
    cache_close(open_here());
    cr_assert_eq(chmod(directory, 0777), 0);
    expect_refused(directory, "a directory for all");
    cr_assert_eq(chmod(directory, 0720), 0);
    expect_refused(directory, "a directory for the group");
    cr_assert_eq(chmod(directory, 0755) | chmod(file, 0666), 0);
    expect_refused(directory, "a file for all");
    cr_assert_eq(chmod(file, 0644), 0);
    snprintf(link, sizeof link, "%s/link", top);
    cr_assert_eq(symlink(directory, link), 0);
    struct cache *cache = open_at(link, false, 0);
    cr_assert_str_neq(cache_path(cache), ":memory:");
    cache_close(cache);
    if (geteuid() == 0) {
        cr_assert_eq(lchown(link, OTHER_USER, OTHER_USER), 0);
        expect_refused(link, "a link of another user");
        strcat(link, "/");
        expect_refused(link, "a link of another user");
        cr_assert_eq(chown(file, OTHER_USER, OTHER_USER), 0);
        expect_refused(directory, "a file of another user");
        cr_assert_eq(chown(file, 0, 0) | chown(directory, OTHER_USER, OTHER_USER), 0);
        expect_refused(directory, "a directory of another user");
    }
    ASSERT_NO_LEAKS();
}

Test(cache_damage, what_is_no_directory_or_file)
{
    cache_close(open_here());
    unlink(file);
    cr_assert_eq(mkfifo(file, 0600), 0);
    struct cache *cache = open_here();
    cr_assert_str_eq(cache_path(cache), ":memory:");
    cache_close(cache);
    cache = open_at(file, true, 0);
    cr_assert_str_eq(cache_path(cache), ":memory:");
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* The file has "a"; it can be read and not be written. */
static int read_only_directory(void)
{
    struct cache *cache = open_here();
    simple_put(cache, "b");
    const bool good = simple_is(cache, "a") == 1 && simple_is(cache, "b") == 1 && warnings == 1 &&
                      cache_require_store(cache) == PHASOR_ERROR_FILE &&
                      figure(cache, "kernels") == 1;
    cache_close(cache);
    return !good;
}

static int unusable_directory(void)
{
    struct cache *cache = open_at("/proc/nothing/here", false, 0);
    simple_put(cache, "b");
    const bool good =
        simple_is(cache, "b") == 1 && warnings == 1 && strcmp(cache_path(cache), ":memory:") == 0;
    cache_close(cache);
    return !good;
}

Test(cache_damage, read_only_directory)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cache_close(cache);
    if (geteuid() == 0)
        cr_assert_eq(chown(top, OTHER_USER, -1) | chown(directory, OTHER_USER, -1) |
                         chown(file, OTHER_USER, -1),
                     0);
    cr_assert_eq(chmod(directory, 0555), 0);
    cr_assert_eq(run_as_other(read_only_directory), 0);
    cr_assert_eq(chmod(directory, 0755), 0);
    cr_assert_eq(run_as_other(unusable_directory), 0);
}

Test(cache_damage, the_environment_names_the_directory)
{
    struct text text = {0};
    setenv("HOME", "/h", 1);
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("PHASOR_CACHE_DIR", "/p", 1);
    location_find("/o", &text);
    text_add(&text, " ");
    location_find(NULL, &text);
    text_add(&text, " ");
    setenv("PHASOR_CACHE_DIR", "", 1);
    location_find(NULL, &text);
    text_add(&text, " ");
    setenv("XDG_CACHE_HOME", "relative", 1);
    location_find("", &text);
    cr_assert_str_eq(text.at, "/o /p /x/phasor /h/.cache/phasor");
    text_free(&text);
    unsetenv("HOME");
    cr_assert_eq(location_find(NULL, &text), PHASOR_OK); /* the password file's, or none */
    text_free(&text);
    ASSERT_NO_LEAKS();
}

Test(cache_damage, odd_names)
{
    static const char *const names[] = {
        "a b",          "100%41", "what?mode=memory", "sharp#1", "Timoth\xc3\xa9\x65",
        "\xe6\xb5\x8b", "file:x", "\xff'\"\\"};
    cr_assert_eq(chdir(top), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/%s/phasor.db", top, names[i]);
        struct cache *cache = open_at(names[i], false, 0);
        simple_put(cache, "a");
        cr_assert(exists("%s", path), "%s", path);
        cache_close(cache);
        setenv("PHASOR_CACHE", "ro", 1);
        cache = open_at(names[i], false, 0);
        cr_assert_eq(simple_is(cache, "a"), 1, "%s", path);
        cache_close(cache);
        unsetenv("PHASOR_CACHE");
    }
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

Test(cache_damage, switched_by_the_environment)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cache_close(cache);
    setenv("PHASOR_CACHE", "ro", 1);
    cache = open_here();
    simple_put(cache, "b");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(cache_clear(cache), PHASOR_ERROR_FILE);
    cr_assert_str_eq(cache_path(cache), file);
    cr_assert_eq(cache_require_store(cache), PHASOR_ERROR_FILE);
    cache_close(cache);
    setenv("PHASOR_CACHE", "off", 1);
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a"), 0);
    cr_assert_str_eq(cache_path(cache), ":memory:");
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    setenv("PHASOR_CACHE", "maybe", 1);
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a") + simple_is(cache, "b"), 1);
    cr_assert_eq(warnings, 1);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache_damage, only_local_file_systems_are_local)
{
    cr_assert(location_type_is_local(0xef53) && location_type_is_local(0x01021994));
    const unsigned long network[] = {0x6969,     0xff534d42, 0xfe534d42, 0x0bd00bd0,
                                     0x47504653, 0x65735546, 0x01021997, 0};
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        cr_assert_not(location_type_is_local(network[i]));
}
