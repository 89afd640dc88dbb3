/* test_allocations.c - memory runs out at every place of a whole call: opening, loading, rewriting,
 * planning, generating, compiling, storing and running.
 *
 *     for n = 1, 2, ...: the n-th allocation of Phasor, jansson or SQLite fails
 *         ->  PHASOR_ERROR_MEMORY, or success (what was not kept in the cache is only counted);
 *             nothing is leaked, and the same call without a failure gives the right result
 *
 * Each n is tried with PHASOR_TEST_EVERY_ALLOCATION=1 (minutes; TMPDIR=/dev/shm makes it faster),
 * or from another number on; else one in STRIDE.
 */
#include "support/leak.h"
#include "support/runtime_case.h"

#include <jansson.h>
#include <pthread.h>
#include <sqlite3.h>
#include <unistd.h>

enum { STRIDE = 41, ALLOCATIONS_MOST = 200000 };

/* -- allocators that fail once ----------------------------------------------------------------- */

static long until_failure; /* 1: the next one fails; 0: none does */
static long blocks;        /* of Phasor and jansson, that are not freed */
static bool failed;

static bool fails_now(void)
{
    if (__atomic_load_n(&until_failure, __ATOMIC_RELAXED) <= 0 ||
        __atomic_sub_fetch(&until_failure, 1, __ATOMIC_RELAXED) != 0)
        return false;
    return failed = true;
}

static void *block_resize(void *context, void *block, size_t nbytes)
{
    (void)context;
    void *resized = fails_now() ? NULL : realloc(block, nbytes);
    if (resized && !block)
        __atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
    return resized;
}

static void block_free(void *context, void *block)
{
    (void)context;
    if (block)
        __atomic_sub_fetch(&blocks, 1, __ATOMIC_RELAXED);
    free(block);
}

static void *json_block(size_t nbytes)
{
    return block_resize(NULL, NULL, nbytes);
}

static void json_free_block(void *block)
{
    block_free(NULL, block);
}

static sqlite3_mem_methods sqlite_memory;

static void *sqlite_block(int nbytes)
{
    return fails_now() ? NULL : sqlite_memory.xMalloc(nbytes);
}

static void *sqlite_resize(void *block, int nbytes)
{
    return fails_now() ? NULL : sqlite_memory.xRealloc(block, nbytes);
}

static void allocators_set(void)
{
    json_set_alloc_funcs(json_block, json_free_block);
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory), SQLITE_OK);
    sqlite3_mem_methods methods = sqlite_memory;
    methods.xMalloc = sqlite_block;
    methods.xRealloc = sqlite_resize;
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods), SQLITE_OK);
}

/* -- one call ---------------------------------------------------------------------------------- */

struct trial {
    phasor_options options;
    const char *name; /* of the case */
    phasor_tensors *inputs, *expected;
    struct opened o;
};

static void log_nothing(void *context, int level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
}

/* From nothing to outputs. What is open stays so, for the second try. */
static phasor_status trial_run(struct trial *t)
{
    struct opened *o = &t->o;
    phasor_status status = o->runtime ? PHASOR_OK : phasor_open(&o->runtime, &t->options);
    if (status == PHASOR_OK && !o->program)
        status =
            phasor_program_load(o->runtime, case_path(t->name, "plain.pt2"), NULL, &o->program);
    if (status != PHASOR_OK)
        return status;
    o->in_count = phasor_program_input_count(o->program);
    o->out_count = phasor_program_output_count(o->program);
    values_read(t->inputs, "input", o->in_count, o->in);
    status = phasor_state_reset(o->program, NULL);
    return status == PHASOR_OK ? opened_run(o) : status;
}

static void trial_expect(struct trial *t, long n)
{
    const phasor_status status = trial_run(t);
    cr_assert_eq(status, PHASOR_OK, "after failure %ld: %s", n, phasor_message());
    t->o.expected = t->expected;
    opened_expect(&t->o);
    opened_delete(&t->o);
}

static void trial_close(struct trial *t)
{
    phasor_program_close(t->o.program);
    phasor_close(t->o.runtime);
    t->o = (struct opened){0};
}

/* False when there is no n-th allocation. */
static bool trial_fail(struct trial *t, long n)
{
    failed = false;
    __atomic_store_n(&until_failure, n, __ATOMIC_RELAXED);
    const phasor_status status = trial_run(t);
    const bool reached = failed;
    if (status == PHASOR_OK && reached) { /* a result that is wrong would be worse than none */
        __atomic_store_n(&until_failure, 0, __ATOMIC_RELAXED);
        t->o.expected = t->expected;
        opened_expect(&t->o);
    }
    if (status == PHASOR_OK)
        opened_delete(&t->o);
    if (n % 2 == 0) /* closing with a failure ahead: it has no status, and may not fail */
        trial_close(t);
    __atomic_store_n(&until_failure, 0, __ATOMIC_RELAXED);
    cr_assert(status == PHASOR_OK || status == PHASOR_ERROR_MEMORY, "failure %ld: %s: %s", n,
              phasor_status_name(status), phasor_message());
    cr_assert(status == PHASOR_OK || strstr(phasor_message(), "memory"), "failure %ld: \"%s\"", n,
              phasor_message());
    return reached;
}

static void file_read(const char *name, const char *file, phasor_tensors **out)
{
    ASSERT_OK(phasor_tensors_read(case_path(name, file), out));
}

/* With an empty cache for each failure, or with what the call before has left there. */
static void failures_try(struct trial *t, const char *folder, bool cold)
{
    const char *every = getenv("PHASOR_TEST_EVERY_ALLOCATION");
    const long stride = every ? 1 : STRIDE, kept = blocks;
    long n = every && atol(every) > 1 ? atol(every) : 1;
    for (bool reached = true; reached; n += stride) {
        char path[96];
        cr_assert_lt(n, ALLOCATIONS_MOST);
        snprintf(path, sizeof path, "%s/phasor.db", folder);
        if (cold)
            unlink(path);
        reached = trial_fail(t, n);
        trial_expect(t, n);
        trial_close(t);
        cr_assert_eq(blocks, kept, "failure %ld: %ld blocks are left", n, blocks - kept);
    }
    cr_log_info("%s: %ld allocations with %s cache", t->name, n, cold ? "an empty" : "a full");
}

/* With TMPDIR in memory every n takes a tenth of the time. */
static void cache_folder_make(char folder[64])
{
    const char *place = getenv("TMPDIR");
    snprintf(folder, 64, "%.40s/phasor-memory-XXXXXX", place ? place : "/tmp");
    cr_assert(mkdtemp(folder));
}

static void every_allocation(const char *name, enum where where)
{
    char folder[64];
    struct trial t = {.options = options_for(where), .name = name};
    setenv("PHASOR_STAND_IN_KEEP", "1", 1);
    allocators_set();
    cache_folder_make(folder);
    t.options.resize = block_resize;
    t.options.free = block_free;
    t.options.log = log_nothing;
    t.options.cache = folder;
    ASSERT_OK(phasor_open(&t.o.runtime, &t.options)); /* the allocators are in force */
    file_read(name, "inputs_0.safetensors", &t.inputs);
    file_read(name, "outputs_0.safetensors", &t.expected);
    trial_expect(&t, 0); /* what stays for the whole process is made */
    trial_close(&t);
    failures_try(&t, folder, true);
    failures_try(&t, folder, false);
    phasor_tensors_close(t.inputs);
    phasor_tensors_close(t.expected);
    if (where == ON_CUDA)
        cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

Test(allocations, symbols_and_weights_on_the_cpu, .timeout = 7200)
{
    every_allocation("int_input", ON_CPU);
}

Test(allocations, symbols_and_weights_on_cuda, .timeout = 7200)
{
    every_allocation("int_input", ON_CUDA);
}

Test(allocations, a_buffer_that_changes_on_the_cpu, .timeout = 7200)
{
    every_allocation("report_counter", ON_CPU);
}

Test(allocations, a_buffer_that_changes_on_cuda, .timeout = 7200)
{
    every_allocation("report_counter", ON_CUDA);
}

Test(allocations, a_complex_program_on_the_cpu, .timeout = 7200)
{
    every_allocation("op_cat_mixed", ON_CPU);
}

Test(allocations, a_complex_program_on_cuda, .timeout = 7200)
{
    every_allocation("op_cat_mixed", ON_CUDA);
}
