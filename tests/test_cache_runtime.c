/* test_cache_runtime.c - the cache seen from a call: rows that the driver refuses, archs, archived
 * layers, reasons of a miss, and other processes that compile; on the stand-ins. */
#include "cache/cache.h"
#include "support/child.h"
#include "support/leak.h"
#include "support/runtime_case.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[64];

static void setup(void)
{
    strcpy(folder, "/tmp/phasor-test-XXXXXX");
    cr_assert(mkdtemp(folder));
    unsetenv("PHASOR_CACHE_READONLY_DIRS");
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(cache_runtime, .init = setup, .fini = teardown, .timeout = 3600);

static phasor_options options_here(void)
{
    phasor_options options = options_for(ON_CUDA);
    options.cache = folder;
    options.mode = PHASOR_MODE_EXACT;
    return options;
}

/* Opens the case, runs it, looks at its results; gives the counters. */
static phasor_counters run_once(const phasor_options *options)
{
    struct opened o;
    phasor_counters counters = {.size = sizeof counters};
    opened_with(&o, options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    ASSERT_OK(phasor_stats(o.runtime, &counters));
    opened_close(&o);
    return counters;
}

static long figure(const char *name)
{
    phasor_runtime *runtime;
    const phasor_options options = options_here();
    char *text, mark[64];
    ASSERT_OK(phasor_open(&runtime, &options));
    ASSERT_OK(phasor_cache_show(runtime, "stats", true, &text));
    snprintf(mark, sizeof mark, "\"%s\": ", name);
    const char *at = strstr(text, mark);
    cr_assert(at, "%s", text);
    const long number = atol(at + strlen(mark));
    phasor_free(text);
    phasor_close(runtime);
    return number;
}

static void expect_verified(bool good)
{
    phasor_runtime *runtime;
    const phasor_options options = options_here();
    char *text;
    bool found;
    ASSERT_OK(phasor_open(&runtime, &options));
    ASSERT_OK(phasor_cache_verify(runtime, false, true, &found, &text));
    cr_assert_eq(found, good, "%s", text);
    phasor_free(text);
    phasor_close(runtime);
}

/* Puts other bytes, with right checksums, under every kernel's key. */
static int rows_replace(const char *from_arch, const char *to_arch, const void *bytes,
                        size_t nbytes)
{
    struct cache *cache;
    int replaced = 0;
    cr_assert_eq(cache_open(&(struct cache_options){.directory = folder}, &cache), PHASOR_OK);
    for (int digit = 0; digit < 16; digit++) {
        struct cache_rows rows;
        cr_assert_eq(cache_find_rows(cache, (char[]){"0123456789abcdef"[digit], '\0'}, &rows),
                     PHASOR_OK);
        for (int i = 0; i < rows.count; i++) {
            const struct cache_row *row = &rows.at[i];
            if (row->is_plan || strcmp(row->arch, from_arch) != 0)
                continue;
            const struct cache_kernel kernel = {hash_bytes(row->key_bytes, row->key_size),
                                                row->key_bytes, row->key_size, row->name};
            const struct cache_unit unit = {.arch = to_arch,
                                            .toolchain = row->toolchain,
                                            .options = row->options,
                                            .source = row->source,
                                            .cubin = bytes ? bytes : row->bytes,
                                            .cubin_size = bytes ? nbytes : row->nbytes,
                                            .kernels = &kernel,
                                            .kernel_count = 1};
            cache_put_unit(cache, &unit);
            replaced++;
        }
        cache_rows_free(&rows);
    }
    cache_close(cache);
    return replaced;
}

/* -- what the driver refuses ------------------------------------------------------------------- */

Test(cache_runtime, a_broken_cubin_with_a_right_checksum)
{
    static const char broken[] = "\177ELF and nothing more that a driver would take";
    const phasor_options options = options_here();
    const uint64_t kernels = run_once(&options).compiled;
    cr_assert_gt(kernels, 0);
    cr_assert_eq(rows_replace("sm_90", "sm_90", broken, sizeof broken), (int)kernels);
    expect_verified(true); /* nothing but the driver can tell */
    cr_assert_eq(run_once(&options).compiled, kernels);
    cr_assert_eq(figure("repairs"), (long)kernels);
    cr_assert_eq(figure("refusals"), (long)kernels);
    cr_assert_eq(run_once(&options).compiled, 0);
    ASSERT_NO_LEAKS();
}

/* What an older driver refuses is of use to others: who cannot put a better one in its place leaves it
 * there. */
Test(cache_runtime, a_refused_cubin_stays_where_nothing_can_be_compiled)
{
    static const char broken[] = "\177ELF and nothing more that a driver would take";
    struct opened o;
    phasor_options options = options_here();
    const uint64_t kernels = run_once(&options).compiled;
    cr_assert_eq(rows_replace("sm_90", "sm_90", broken, sizeof broken), (int)kernels);
    options.no_compile = true;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_NOT_READY, "not in the cache");
    opened_close(&o);
    cr_assert_eq(figure("kernels"), (long)kernels);
    options.no_compile = false;
    cr_assert_eq(run_once(&options).compiled, kernels);
    ASSERT_NO_LEAKS();
}

Test(cache_runtime, a_cubin_that_is_no_elf_file_is_found_by_verify)
{
    const phasor_options options = options_here();
    const uint64_t kernels = run_once(&options).compiled;
    cr_assert_eq(rows_replace("sm_90", "sm_90", "garbage", 7), (int)kernels);
    expect_verified(false);
    cr_assert_eq(run_once(&options).compiled, kernels);
    expect_verified(true);
    ASSERT_NO_LEAKS();
}

Test(cache_runtime, a_cubin_for_another_arch_under_the_right_key)
{
    phasor_options options = options_here();
    struct opened o;
    options.device = PHASOR_DEVICE_NONE;
    options.arch = "sm_80";
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(phasor_program_prepare(o.program, o.in, o.in_count));
    opened_close(&o);
    options = options_here();
    const uint64_t kernels = run_once(&options).compiled; /* both archs are there now */
    cr_assert_eq(figure("kernels"), 2 * (long)kernels);
    cr_assert_eq(rows_replace("sm_80", "sm_90", NULL, 0), (int)kernels);
    cr_assert_eq(run_once(&options).compiled, kernels);
    cr_assert_eq(run_once(&options).compiled, 0);
    ASSERT_NO_LEAKS();
}

/* -- keys -------------------------------------------------------------------------------------- */

static float text_run(const char *body)
{
    char path[128];
    float number = 0, data[4] = {5, 6, 7, 8};
    int64_t shape[1] = {4};
    DLTensor tensor = {
        .data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
    phasor_runtime *runtime;
    phasor_program *program;
    phasor_value in = {.kind = PHASOR_TENSOR, .tensor = &tensor}, out = {0};
    const phasor_options options = options_here();
    snprintf(path, sizeof path, "%s/one_name.phasor", folder);
    FILE *file = fopen(path, "w");
    fprintf(file, "phasor 1 \"one_name\"\ninput x: f32[4]\n%s\noutput y\n", body);
    fclose(file);
    ASSERT_OK(phasor_open(&runtime, &options));
    ASSERT_OK(phasor_program_load(runtime, path, NULL, &program));
    ASSERT_OK(phasor_run(program, NULL, &in, 1, &out, 1, NULL));
    DLTensor *y = &out.owned->dl_tensor;
    float numbers[4];
    ASSERT_OK(phasor_copy_to_host(runtime, y, numbers, sizeof numbers));
    number = numbers[1];
    out.owned->deleter(out.owned);
    phasor_program_close(program);
    phasor_close(runtime);
    return number;
}

/* One name of the program and one of the kernel: constants, axes and operands are all that differ.
 */
Test(cache_runtime, programs_that_differ_in_one_number)
{
    for (int round = 0; round < 2; round++) { /* compiled, then from the cache */
        cr_assert_eq(text_run("k = scalar value=2 : f32[]\ny = mul(x, k)"), 12);
        cr_assert_eq(text_run("k = scalar value=3 : f32[]\ny = mul(x, k)"), 18);
        cr_assert_eq(text_run("k = scalar value=2 : f32[]\ny = sub(x, k)"), 4);
        cr_assert_eq(text_run("k = scalar value=2 : f32[]\ny = sub(k, x)"), -4);
    }
    cr_assert_eq(figure("compiles"), 4);
    ASSERT_NO_LEAKS();
}

/* -- compiles that fail ------------------------------------------------------------------------ */

Test(cache_runtime, a_failed_compile_stores_nothing)
{
    struct opened o;
    char templates[128], path[160];
    const phasor_options options = options_here();
    snprintf(templates, sizeof templates, "%s/templates", folder);
    cr_assert_eq(mkdir(templates, 0700), 0);
    snprintf(path, sizeof path, "%s/device.cuh", templates);
    FILE *out = fopen(path, "w");
    fputs("#error planted for a test\n", out);
    fclose(out);
    setenv("PHASOR_TEMPLATE_DIR", templates, 1);
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_COMPILE, "planted for a test");
    opened_close(&o);
    cr_assert_eq(figure("kernels"), 0);
    cr_assert_eq(figure("plans"), 0);
    unsetenv("PHASOR_TEMPLATE_DIR"); /* mended: other templates are another key */
    cr_assert_gt(run_once(&options).compiled, 0);
    ASSERT_NO_LEAKS();
}

/* -- layers ------------------------------------------------------------------------------------ */

Test(cache_runtime, an_exported_file_serves_without_a_compiler)
{
    char path[128], *text;
    bool good;
    phasor_runtime *runtime;
    phasor_options options = options_here();
    const uint64_t kernels = run_once(&options).compiled;
    snprintf(path, sizeof path, "%s/layer.db", folder);
    ASSERT_OK(phasor_open(&runtime, &options));
    ASSERT_OK(phasor_cache_export(runtime, path, true, &text));
    phasor_free(text);
    phasor_close(runtime);
    setenv("PHASOR_CACHE_READONLY_DIRS", path, 1);
    setenv("PHASOR_NVRTC", "/there/is/none.so", 1);
    options.cache = ":memory:";
    struct opened o;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    phasor_counters counters = {.size = sizeof counters};
    ASSERT_OK(phasor_stats(o.runtime, &counters));
    cr_assert(counters.compiled == 0 && counters.cache_hits == kernels &&
              counters.foreign == kernels);
    ASSERT_OK(phasor_cache_import(o.runtime, path, true, &good, &text));
    cr_assert(good, "%s", text);
    phasor_free(text);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* -- reasons ----------------------------------------------------------------------------------- */

struct reasons {
    int count;
    char last[2000];
};

static void reason_keep(void *context, const char *kernels, const char *reason, double milliseconds)
{
    struct reasons *reasons = context;
    (void)kernels;
    (void)milliseconds;
    reasons->count++;
    snprintf(reasons->last, sizeof reasons->last, "%s", reason);
}

/* Another length of the program, compiled and not run. */
static void prepare_length(const phasor_options *options, int64_t length)
{
    struct opened o;
    opened_with(&o, options, "qk_rope_bf16_dynamic", "plain");
    for (int i = 0; i < o.in_count; i++)
        if (o.in[i].kind == PHASOR_TENSOR)
            o.in[i].tensor->shape[1] = length;
    ASSERT_OK(phasor_program_prepare(o.program, o.in, o.in_count));
    opened_close(&o);
}

Test(cache_runtime, a_compile_says_what_differs_from_the_nearest_key)
{
    char library[128];
    struct reasons reasons = {0};
    phasor_options options = options_here();
    options.device = PHASOR_DEVICE_NONE;
    options.arch = "sm_90";
    options.compiled = reason_keep;
    options.compiled_context = &reasons;
    prepare_length(&options, 3);
    cr_assert(strstr(reasons.last, "no kernel is there"), "%s", reasons.last);
    prepare_length(&options, 4);
    cr_assert(strstr(reasons.last, "nearest ") && strstr(reasons.last, "COUNT") &&
                  strstr(reasons.last, ", there "),
              "%s", reasons.last);
    options.arch = "sm_80";
    prepare_length(&options, 4);
    cr_assert(strstr(reasons.last, "it is there for sm_90, this is for sm_80"), "%s", reasons.last);
    snprintf(library, sizeof library, "%s/libnvrtc.so", folder); /* not the one that is noted */
    cr_assert_eq(symlink(PHASOR_TEST_LIBRARIES "/libphasor_stand_in_nvrtc.so", library), 0);
    setenv("PHASOR_NVRTC", library, 1);
    setenv("PHASOR_STAND_IN_NVRTC_VERSION", "13.1", 1);
    prepare_length(&options, 4);
    cr_assert(strstr(reasons.last, "it is there by nvrtc 13.0, this is nvrtc 13.1"), "%s",
              reasons.last);
    unsetenv("PHASOR_STAND_IN_NVRTC_VERSION");
    options.no_fma = true;
    prepare_length(&options, 4);
    cr_assert(strstr(reasons.last, "code: "), "%s", reasons.last);
    const int before = reasons.count;
    prepare_length(&options, 4);
    cr_assert_eq(reasons.count, before);
    ASSERT_NO_LEAKS();
}

/* -- other processes --------------------------------------------------------------------------- */

/* A stopped child that holds the turn of every kernel. */
static pid_t holder_start(void)
{
    int ready[2];
    char byte, path[128];
    cr_assert_eq(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        snprintf(path, sizeof path, "%s/phasor.lock", folder);
        const int descriptor = open(path, O_RDWR | O_CREAT, 0600);
        struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 0};
        const bool mine = fcntl(descriptor, F_OFD_SETLK, &all) == 0;
        if (write(ready[1], mine ? "1" : "0", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    cr_assert_eq(byte, '1');
    kill(child, SIGSTOP);
    return child;
}

static void holder_end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

Test(cache_runtime, who_serves_waits_for_no_other_process)
{
    const phasor_options options = options_here();
    figure("kernels"); /* makes the directory safe and the file */
    const double before = seconds_now();
    const uint64_t kernels = run_once(&options).compiled;
    const double alone = seconds_now() - before;
    cr_assert_gt(kernels, 0);
    phasor_runtime *runtime;
    ASSERT_OK(phasor_open(&runtime, &options));
    ASSERT_OK(phasor_cache_clear(runtime));
    phasor_close(runtime);
    const pid_t child = holder_start();
    const double then = seconds_now();
    cr_assert_eq(run_once(&options).compiled, kernels);
    /* a wait for the other process would be 10 s */
    cr_assert_lt(seconds_now() - then, 2 * alone + 9, "alone it takes %.1f s", alone);
    holder_end(child);
    cr_assert_eq(run_once(&options).compiled, 0); /* it was stored all the same */
    ASSERT_NO_LEAKS();
}

Test(cache_runtime, who_prewarms_waits_and_not_for_ever)
{
    phasor_options options = options_here();
    options.device = PHASOR_DEVICE_NONE;
    options.arch = "sm_90";
    figure("kernels");
    /* killed: at once; a compile may take its time on a busy machine, but not three times */
    pid_t child;
    double took = 10;
    for (int i = 0; i < 3 && took > 9; i++) {
        child = holder_start();
        holder_end(child);
        const double before = seconds_now();
        prepare_length(&options, 3 + i);
        took = seconds_now() - before;
    }
    cr_assert_lt(took, 9);
    /* stopped: after the bound */
    child = holder_start();
    const double before = seconds_now();
    prepare_length(&options, 7);
    took = seconds_now() - before;
    cr_assert_gt(took, 9, "%.1f s", took);
    holder_end(child);
    expect_verified(true);
    ASSERT_NO_LEAKS();
}
