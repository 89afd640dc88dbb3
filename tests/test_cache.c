/* test_cache.c - rows of the store: what is put is found, what was not put is not, and the limit
 * holds. */
#include "support/cache_rows.h"

#include <time.h>

TestSuite(cache, .init = setup, .fini = teardown);

/* -- rows -------------------------------------------------------------------------------------- */

Test(cache, finds_what_was_put)
{
    struct cache *cache = open_here();
    cr_assert_eq(simple_is(cache, "a"), 0);
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(kernel_is(cache, "a", "sm_80", "nvrtc 1"), 0);
    cache_close(cache);
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_str_eq(cache_path(cache), file);
    cr_assert_eq(cache_require_store(cache), PHASOR_OK);
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

Test(cache, memory_has_the_same_rules)
{
    struct cache *cache = open_at(":memory:", false, 0);
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_str_eq(cache_path(cache), ":memory:");
    cr_assert_eq(warnings, 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache, toolchain_is_no_part_of_the_key)
{
    struct cache *cache = open_here();
    unit_put(cache, "a", "sm_90", "nvrtc 1");
    cr_assert_eq(kernel_is(cache, "a", "sm_90", "nvrtc 2"), 0);
    cr_assert_eq(kernel_is(cache, "a", "sm_90", NULL), 2);
    unit_put(cache, "a", "sm_90", "nvrtc 2");
    cr_assert_eq(kernel_is(cache, "a", "sm_90", "nvrtc 1"), 1);
    cr_assert_eq(kernel_is(cache, "a", "sm_90", "nvrtc 2"), 1);
    struct cache_key_query query = query_make("a", "sm_90", "nvrtc 2");
    struct cache_found found;
    query.any_toolchain = true;
    cr_assert_eq(cache_get_kernel(cache, &query, &found), PHASOR_OK);
    cr_assert(found.found && !found.foreign); /* the newest */
    cache_found_free(&found);
    cr_assert_eq(counters(cache).foreign, 1);
    cr_assert_eq(counters(cache).hits, 4);
    cr_assert_eq(counters(cache).misses, 1);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

static void put_with_hash(struct cache *cache, const char *key, struct hash hash)
{
    const struct cache_kernel kernel = {hash, key, strlen(key), key};
    cache_put_unit(cache, &(struct cache_unit){"sm_90", "t", "", "", key, strlen(key), 0, -1, -1,
                                               -1, &kernel, 1});
}

Test(cache, equal_hashes_are_two_rows)
{
    struct cache *cache = open_here();
    const struct hash hash = {1, 2};
    const char *const keys[] = {"one", "two", "three"};
    put_with_hash(cache, "one", hash);
    put_with_hash(cache, "two", hash);
    for (int i = 0; i < 3; i++) {
        struct cache_found found;
        const struct cache_key_query query = {hash, keys[i], strlen(keys[i]), "sm_90", "t", false};
        cr_assert_eq(cache_get_kernel(cache, &query, &found), PHASOR_OK);
        cr_assert_eq(found.found, i < 2);
        cr_assert(!found.found || strcmp(found.name, keys[i]) == 0);
        cache_found_free(&found);
    }
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache, a_unit_has_many_kernels_and_goes_with_the_last)
{
    struct cache *cache = open_here();
    struct cache_kernel kernels[3];
    static const char *const names[] = {"k0", "k1", "k2"};
    for (int i = 0; i < 3; i++)
        kernels[i] = (struct cache_kernel){hash_bytes(names[i], 2), names[i], 2, names[i]};
    cache_put_unit(cache, &(struct cache_unit){"sm_90", "nvrtc 1", "", "", "cubin", 5, 0, -1, -1,
                                               -1, kernels, 3});
    cr_assert_eq(figure(cache, "kernels"), 3);
    simple_put(cache, "k0");
    simple_put(cache, "k1");
    cr_assert_eq(figure(cache, "kernels"), 3);
    simple_put(cache, "k2");
    simple_put(cache, "k2");
    cr_assert_eq(simple_is(cache, "k2"), 1);
    cr_assert_eq(figure(cache, "kernels"), 3);
    cache_close(cache);
    sql_run(
        "CREATE TABLE is_three (n CHECK (n = 3)); INSERT INTO is_three SELECT count(*) FROM unit;"
        "INSERT INTO is_three SELECT count(*) FROM last_use");
    ASSERT_NO_LEAKS();
}

static bool plan_is(struct cache *cache, const char *key, const char *content)
{
    void *blob;
    size_t nbytes;
    bool found;
    cr_assert_eq(cache_get_plan(cache, hash_bytes(key, strlen(key)), key, strlen(key), &blob,
                                &nbytes, &found),
                 PHASOR_OK);
    const bool same = found && nbytes == strlen(content) && memcmp(blob, content, nbytes) == 0;
    memory_free(blob);
    return same;
}

Test(cache, plans)
{
    struct cache *cache = open_here();
    const struct hash hash = hash_bytes("p", 1);
    cr_assert_not(plan_is(cache, "p", ""));
    cache_put_plan(cache, hash, "p", 1, "", 0);
    cr_assert(plan_is(cache, "p", ""));
    cache_put_plan(cache, hash, "p", 1, "kernels", 7);
    cr_assert(plan_is(cache, "p", "kernels"));
    cr_assert_eq(figure(cache, "plans"), 1);
    cache_drop_plan(cache, hash, "p", 1);
    cr_assert_not(plan_is(cache, "p", "kernels"));
    cache_put_plan(cache, hash, "p", 1, "kernels", 7);
    sql_run("UPDATE plan SET content = 'kernelz'");
    cr_assert_not(plan_is(cache, "p", "kernelz"));
    cr_assert_eq(counters(cache).repairs, 2);
    cr_assert_eq(figure(cache, "plans"), 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

static bool plan_is_there(struct cache *cache, const char *key, const char *content)
{
    void *blob;
    size_t nbytes;
    bool found;
    cr_assert_eq(cache_get_plan(cache, hash_bytes(key, strlen(key)), key, strlen(key), &blob,
                                &nbytes, &found),
                 PHASOR_OK);
    cr_assert(!found || (nbytes == strlen(content) && memcmp(blob, content, nbytes) == 0));
    memory_free(blob);
    return found;
}

/* A kernel is code that its own key holds; a plan is right for the generator that made it. */
Test(cache, plans_of_another_generator_are_no_hits)
{
    struct text other = {0};
    int64_t count;
    stamp = "that generator";
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "old", 3);
    cache_close(cache);
    stamp = "this generator";
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_not(plan_is_there(cache, "p", ""));
    cr_assert_eq(cache_other_plans(cache, &other, &count), PHASOR_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(text_get(&other), "that generator");
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "new", 3);
    cr_assert(plan_is_there(cache, "p", "new"));
    cr_assert_eq(figure(cache, "plans"), 2);
    cr_assert_eq(figure(cache, "other_plans"), 1);
    cache_close(cache);
    stamp = "that generator"; /* two versions that share a file */
    cache = open_here();
    cr_assert(plan_is_there(cache, "p", "old"));
    cache_close(cache);
    text_free(&other);
    ASSERT_NO_LEAKS();
}

/* They were used last, and go first. */
Test(cache, plans_of_another_generator_are_evicted_first)
{
    static char content[20000];
    char key[16];
    struct cache *cache = open_here();
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "k%d", i);
        simple_put(cache, key);
    }
    cache_close(cache);
    stamp = "that generator";
    cache = open_here();
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "p%d", i);
        cache_put_plan(cache, hash_bytes(key, strlen(key)), key, strlen(key), content,
                       sizeof content);
    }
    cache_close(cache);
    stamp = "this generator";
    cache = open_at(directory, false, 200 * 1024);
    simple_put(cache, "one more");
    cr_assert_eq(figure(cache, "kernels"), 11);
    cr_assert_lt(figure(cache, "other_plans"), 10);
    cr_assert_eq(figure(cache, "evictions"), 10 - figure(cache, "other_plans"));
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache, notes)
{
    struct cache *cache = open_here();
    struct text text = {0};
    bool found;
    cr_assert_eq(cache_get_note(cache, "n", &text, &found), PHASOR_OK);
    cr_assert_not(found);
    cache_put_note(cache, "n", "1");
    cache_put_note(cache, "n", "nvrtc 13.0.88");
    cr_assert_eq(cache_get_note(cache, "n", &text, &found), PHASOR_OK);
    cr_assert(found);
    cr_assert_str_eq(text.at, "nvrtc 13.0.88");
    text_free(&text);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache, drop_deletes_what_the_driver_refused)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    unit_put(cache, "a", "sm_90", "nvrtc 2");
    const struct cache_key_query query = query_make("a", "sm_90", "nvrtc 1");
    cache_drop_kernel(cache, &query);
    cache_drop_kernel(cache, &query);
    cr_assert_eq(simple_is(cache, "a"), 0);
    cr_assert_eq(kernel_is(cache, "a", "sm_90", "nvrtc 2"), 1);
    cr_assert_eq(counters(cache).repairs, 1);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache, a_hit_writes_nothing)
{
    struct cache *cache = open_here();
    sqlite3 *db;
    sqlite3_stmt *version;
    simple_put(cache, "a");
    sqlite3_open(file, &db);
    sqlite3_prepare_v2(db, "PRAGMA data_version", -1, &version, NULL);
    cr_assert_eq(sqlite3_step(version), SQLITE_ROW);
    const int before = sqlite3_column_int(version, 0);
    sqlite3_reset(version);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(simple_is(cache, i % 2 ? "a" : "b"), i % 2);
    cr_assert_eq(sqlite3_step(version), SQLITE_ROW);
    cr_assert_eq(sqlite3_column_int(version, 0), before);
    sqlite3_finalize(version);
    sqlite3_close(db);
    cache_close(cache);
    cache = open_here();
    cr_assert_eq(figure(cache, "hits"), 50); /* written at close */
    cr_assert_eq(figure(cache, "misses"), 50);
    cr_assert_eq(counters(cache).hits, 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* -- figures ----------------------------------------------------------------------------------- */

Test(cache, figures_are_one_json_document)
{
    struct cache *cache = open_here();
    struct text text = {0};
    simple_put(cache, "a");
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "kernels", 7);
    cache_count_compiles(cache, 3);
    simple_is(cache, "a");
    simple_is(cache, "b");
    cr_assert_eq(cache_show(cache, "stats", true, &text), PHASOR_OK);
    json_t *stats = json_loads(text.at, 0, NULL);
    cr_assert_eq(json_object_size(stats), 14);
    cr_assert_str_eq(json_string_value(json_object_get(stats, "generator")), stamp);
    json_int_t kernels, plans, bytes, hits, misses, foreign, compiles, evictions, repairs, refusals;
    json_t *trouble;
    cr_assert_eq(json_unpack(stats, "{s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I s:o}", "kernels",
                             &kernels, "plans", &plans, "bytes", &bytes, "hits", &hits, "misses",
                             &misses, "foreign", &foreign, "compiles", &compiles, "evictions",
                             &evictions, "repairs", &repairs, "refusals", &refusals, "last_trouble",
                             &trouble),
                 0);
    cr_assert(kernels == 1 && plans == 1 && bytes > CUBIN_SIZE && hits == 1 && misses == 1 &&
              foreign == 0 && compiles == 3);
    cr_assert(evictions == 0 && repairs == 0 && refusals == 0 && json_is_null(trouble));
    json_decref(stats);
    text_free(&text);
    cache_close(cache);
    cache = open_here();
    cr_assert_eq(figure(cache, "compiles"), 3);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache, list_names_every_row)
{
    struct cache *cache = open_here();
    struct text text = {0};
    char key[HASH_TEXT];
    simple_put(cache, "a");
    simple_put(cache, "b");
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "kernels", 7);
    cr_assert_eq(cache_show(cache, "list", true, &text), PHASOR_OK);
    json_t *list = json_loads(text.at, 0, NULL);
    cr_assert(list, "%s", text.at);
    json_t *row = json_array_get(json_object_get(list, "kernels"), 0);
    hash_text(hash_bytes("a", 1), key);
    cr_assert_str_eq(json_string_value(json_object_get(row, "key")), key);
    cr_assert_str_eq(json_string_value(json_object_get(row, "arch")), "sm_90");
    cr_assert_eq(json_integer_value(json_object_get(row, "bytes")), CUBIN_SIZE);
    cr_assert(json_is_null(json_object_get(row, "shared_bytes")));
    cr_assert_eq(json_array_size(json_object_get(list, "kernels")), 2);
    cr_assert_eq(json_array_size(json_object_get(list, "plans")), 1);
    json_decref(list);
    text_free(&text);
    cr_assert_eq(cache_show(cache, "list", false, &text), PHASOR_OK);
    cr_assert(strstr(text.at, key));
    text_free(&text);
    cr_assert_eq(cache_show(cache, "stats", false, &text), PHASOR_OK);
    cr_assert(strstr(text.at, file));
    cr_assert_eq(cache_show(cache, "everything", false, &text), PHASOR_ERROR_USAGE);
    text_free(&text);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache, clear_leaves_the_totals)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "kernels", 7);
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(cache_clear(cache), PHASOR_OK);
    cr_assert_eq(simple_is(cache, "a"), 0);
    cr_assert(figure(cache, "kernels") == 0 && figure(cache, "plans") == 0 &&
              figure(cache, "hits") == 1);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* -- the limit --------------------------------------------------------------------------------- */

static void numbered_put(struct cache *cache, int number)
{
    char key[16];
    snprintf(key, sizeof key, "%d", number);
    simple_put(cache, key);
}

static int numbered_is(struct cache *cache, int number)
{
    char key[16];
    snprintf(key, sizeof key, "%d", number);
    return simple_is(cache, key);
}

static void pause_shortly(void)
{
    nanosleep(&(struct timespec){0, 3000000}, NULL);
}

Test(cache, what_was_used_longest_ago_goes)
{
    enum { LIMIT = 400 * 1024 };
    struct stat entry;
    struct cache *cache = open_at(directory, false, LIMIT);
    for (int i = 0; i < 40; i++)
        numbered_put(cache, i);
    cr_assert_eq(counters(cache).evictions, 0);
    pause_shortly();
    for (int i = 0; i < 40; i += 2)
        cr_assert_eq(numbered_is(cache, i), 1);
    pause_shortly();
    cache_put_plan(cache, hash_bytes("p", 1), "p", 1, "kernels", 7);
    for (int i = 100; counters(cache).evictions < 10; i++)
        numbered_put(cache, i);
    for (int i = 0; i < 40; i += 2)
        cr_assert_eq(numbered_is(cache, i), 1, "%d was used and is gone", i);
    cr_assert_eq(numbered_is(cache, 1), 0);
    cr_assert(plan_is(cache, "p", "kernels"));
    cr_assert(figure(cache, "bytes") <= LIMIT);
    for (int i = 200; i < 400; i++)
        numbered_put(cache, i);
    cr_assert_eq(numbered_is(cache, 399), 1);
    cache_close(cache);
    cr_assert(stat(file, &entry) == 0 && entry.st_size <= LIMIT + 64 * 1024, "%ld bytes",
              (long)entry.st_size);
    cache = open_at(directory, false, 0);
    cr_assert(figure(cache, "evictions") > 200);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache, a_lost_time_of_use_counts_as_the_oldest)
{
    struct cache *cache = open_at(directory, false, 300 * 1024);
    for (int i = 0; i < 20; i++)
        numbered_put(cache, i);
    sql_run("DELETE FROM last_use WHERE id > 15");
    for (int i = 100; counters(cache).evictions == 0; i++)
        numbered_put(cache, i);
    cr_assert_eq(numbered_is(cache, 0), 1);
    cr_assert_eq(numbered_is(cache, 15), 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache, a_smaller_limit_shrinks_the_file)
{
    struct stat entry;
    struct cache *cache = open_here();
    for (int i = 0; i < 200; i++)
        numbered_put(cache, i);
    cache_close(cache);
    setenv("PHASOR_CACHE_MAX_SIZE", "300Ki", 1);
    cache = open_here();
    numbered_put(cache, 200);
    cr_assert_eq(numbered_is(cache, 200), 1);
    cache_close(cache);
    cr_assert(stat(file, &entry) == 0 && entry.st_size <= 310 * 1024, "%ld bytes",
              (long)entry.st_size);
    setenv("PHASOR_CACHE_MAX_SIZE", "4K",
           1); /* less than one row: it isn't kept, nothing else is lost */
    cache = open_here();
    numbered_put(cache, 300);
    cr_assert(numbered_is(cache, 300) == 0 && numbered_is(cache, 200) == 1 && warnings == 1);
    cache_close(cache);
    setenv("PHASOR_CACHE_MAX_SIZE", "lots", 1);
    cache = open_here();
    numbered_put(cache, 300);
    cr_assert(numbered_is(cache, 300) == 1 && warnings == 2);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* -- memory ------------------------------------------------------------------------------------ */

static int allocations_left = -1;

static void *resize_or_fail(void *context, void *block, size_t nbytes)
{
    (void)context;
    if (allocations_left == 0)
        return NULL;
    allocations_left -= allocations_left > 0;
    return realloc(block, nbytes);
}

static void free_block(void *context, void *block)
{
    (void)context;
    free(block);
}

static phasor_status open_put_get(bool *found)
{
    struct cache *cache = NULL;
    struct cache_found result = {0};
    const struct cache_key_query query = query_make("a", "sm_90", "nvrtc 1");
    phasor_status status = cache_open(&(struct cache_options){.directory = directory}, &cache);
    if (status == PHASOR_OK) {
        simple_put(cache, "a");
        status = cache_get_kernel(cache, &query, &result);
        cr_assert(status == PHASOR_OK || !result.cubin);
    }
    *found = result.found;
    cache_found_free(&result);
    cache_close(cache);
    return status;
}

Test(cache, out_of_memory_is_a_status)
{
    bool found = false;
    int failures = 0;
    memory_set_hooks(&(struct memory_hooks){resize_or_fail, free_block, NULL});
    for (int count = 0; !found && count < 100; count++) {
        allocations_left = count;
        const phasor_status status = open_put_get(&found);
        cr_assert(status == PHASOR_ERROR_MEMORY || (status == PHASOR_OK && found), "%s",
                  message_get());
        failures += status == PHASOR_ERROR_MEMORY;
    }
    cr_assert(found && failures > 5);
    ASSERT_NO_LEAKS();
}
