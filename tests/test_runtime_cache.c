/* test_runtime_cache.c - what is compiled, kept and found again; callbacks, failures of the device;
 * on the stand-in driver. */
#include "support/leak.h"
#include "support/runtime_case.h"

/* -- the cache and compiling ------------------------------------------------------------------- */

static phasor_counters stats_of(const struct opened *o)
{
    phasor_counters counters = {.size = sizeof counters};
    ASSERT_OK(phasor_stats(o->runtime, &counters));
    return counters;
}

Test(cache, a_second_process_compiles_nothing)
{
    char folder[64];
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    folder_make(folder);
    options.cache = folder;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(phasor_cache_require(o.runtime));
    ASSERT_OK(opened_run(&o));
    opened_delete(&o);
    const uint64_t kernels = stats_of(&o).compiled;
    cr_assert_gt(kernels, 0);
    opened_close(&o);

    setenv("PHASOR_NVRTC", "/there/is/none.so", 1);
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    const phasor_counters counters = stats_of(&o);
    cr_assert_eq(counters.compiled, 0);
    cr_assert_eq(counters.cache_hits, kernels);
    cr_assert_eq(counters.foreign, kernels);
    cr_assert_gt(counters.launches, 0);
    char *text;
    ASSERT_OK(phasor_cache_show(o.runtime, "stats", true, &text));
    cr_assert(strstr(text, "\"kernels\""), "%s", text);
    phasor_free(text);
    cr_assert(strstr(phasor_cache_path(o.runtime), folder));
    ASSERT_OK(phasor_cache_clear(o.runtime));
    opened_close(&o);

    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_COMPILE, "/there/is/none.so");
    opened_close(&o);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

Test(cache, damaged_plans_are_made_anew)
{
    char folder[64], command[256];
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    folder_make(folder);
    options.cache = folder;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_delete(&o);
    opened_close(&o);
    options.no_fma = true; /* another key */
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    cr_assert_gt(stats_of(&o).compiled, 0);
    opened_close(&o);
    snprintf(command, sizeof command, "ls %s/phasor.db > /dev/null", folder);
    cr_assert_eq(system(command), 0);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

Test(cache, forbidden_to_compile)
{
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    options.no_compile = true;
    opened_with(&o, &options, "twice", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_NOT_READY, "forbidden");
    ASSERT_FAILS(phasor_program_prepare(o.program, o.in, o.in_count), PHASOR_NOT_READY,
                 "forbidden");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

static bool interrupted(void *context)
{
    return *(bool *)context;
}

static void compiled(void *context, const char *kernels, const char *reason, double milliseconds)
{
    cr_assert(*kernels && *reason && milliseconds >= 0);
    ++*(int *)context;
}

Test(cache, callbacks)
{
    struct opened o;
    bool stop = true;
    int count = 0;
    phasor_options options = options_for(ON_CUDA);
    options.interrupted = interrupted;
    options.interrupted_context = &stop;
    options.compiled = compiled;
    options.compiled_context = &count;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_INTERRUPTED, "interrupted");
    stop = false;
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    cr_assert_gt(count, 0);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* Compiling for an arch without a device; what the runtime then has, it serves. */
Test(cache, prewarmed_without_a_device)
{
    char folder[64];
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    folder_make(folder);
    options.cache = folder;
    options.device = PHASOR_DEVICE_NONE;
    options.arch = "sm_90";
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(phasor_program_prepare(o.program, o.in, o.in_count));
    cr_assert_gt(stats_of(&o).compiled, 0);
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_USAGE, "none");
    opened_close(&o);
    options = options_for(ON_CUDA);
    options.cache = folder;
    options.no_compile = true;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    opened_close(&o);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

/* What is prewarmed: every tensor aligned to 16 bytes, and every one to its elements. */
static void offsets_prewarm(const char *folder, phasor_mode mode, const char *layer)
{
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    options.cache = folder;
    options.device = PHASOR_DEVICE_NONE;
    options.arch = "sm_90";
    options.mode = mode;
    opened_with(&o, &options, "qk_rope_bf16_dynamic", "plain");
    DLTensor tensors[2] = {*o.in[0].tensor, *o.in[1].tensor};
    const phasor_value in[2] = {{.kind = PHASOR_TENSOR, .tensor = &tensors[0]},
                                {.kind = PHASOR_TENSOR, .tensor = &tensors[1]}};
    for (int aligned = 0; aligned < 2; aligned++) {
        for (int i = 0; i < 2; i++)
            tensors[i].data = aligned ? NULL : (void *)(uintptr_t)4098; /* no memory */
        ASSERT_OK(phasor_program_prepare(o.program, in, 2));
    }
    cr_assert_gt(stats_of(&o).compiled, 0);
    char *report = NULL;
    if (layer)
        ASSERT_OK(phasor_cache_export(o.runtime, layer, false, &report));
    phasor_free(report);
    opened_close(&o);
}

/* The inputs at each alignment from 2 to 16 bytes, both alike and one unlike the other: the right
 * results, and nothing is compiled. */
static void offsets_expect(const char *folder, phasor_mode mode)
{
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    options.cache = folder;
    options.no_compile = true;
    options.mode = mode;
    opened_with(&o, &options, "qk_rope_bf16_dynamic", "plain");
    DLTensor tensors[2];
    char *rooms[2];
    for (int i = 0; i < 2; i++) {
        tensors[i] = *o.in[i].tensor;
        const size_t nbytes = (size_t)tensor_count(&tensors[i]) * 2;
        rooms[i] = aligned_alloc(64, (nbytes / 64 + 2) * 64);
        o.in[i].tensor = &tensors[i];
    }
    for (int k = 0; k < 16; k++) {
        const int offsets[2] = {16 >> k % 4, 16 >> k / 4};
        phasor_tensors *file = o.inputs;
        phasor_value given[2];
        values_read(file, "input", 2, given);
        for (int i = 0; i < 2; i++) {
            tensors[i].data = rooms[i] + offsets[i];
            tensors[i].byte_offset = 0;
            memcpy(tensors[i].data, (char *)given[i].tensor->data + given[i].tensor->byte_offset,
                   (size_t)tensor_count(&tensors[i]) * 2);
        }
        cr_assert_eq(opened_run(&o), PHASOR_OK, "offsets %d and %d: %s", offsets[0], offsets[1],
                     phasor_message());
        opened_expect(&o);
        opened_delete(&o);
    }
    cr_expect_eq(stats_of(&o).compiled, 0);
    cr_expect_eq(stand_in_get("stand_in_misuses"), 0);
    opened_close(&o);
    for (int i = 0; i < 2; i++)
        free(rooms[i]);
}

/* Where nothing can be compiled, what was made for less alignment serves more, in each mode what was
 * prewarmed in any. */
Test(cache, what_needs_less_serves)
{
    static const phasor_mode modes[] = {PHASOR_MODE_EXACT, PHASOR_MODE_GENERIC, PHASOR_MODE_AUTO};
    for (int made = 0; made < 3; made++) {
        char folder[64], other[64], layer[128];
        folder_make(folder);
        folder_make(other);
        snprintf(layer, sizeof layer, "%s/shipped.db", folder);
        offsets_prewarm(folder, modes[made], layer);
        for (int mode = 0; mode < 3; mode++)
            offsets_expect(folder, modes[mode]);
        setenv("PHASOR_CACHE_READONLY_DIRS", layer, 1);
        offsets_expect(other, modes[made]);
        unsetenv("PHASOR_CACHE_READONLY_DIRS");
        folder_remove(folder);
        folder_remove(other);
    }
    ASSERT_NO_LEAKS();
}

Test(cache, few_specialisations_are_kept)
{
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    options.specialisations = 2;
    opened_with(&o, &options, "int_input", "plain");
    const int64_t starts[] = {1, 2, 3, 4, 1, 2, 3, 4};
    for (int i = 0; i < 8; i++) {
        o.in[1].integer = starts[i];
        ASSERT_OK(opened_run(&o));
        opened_delete(&o);
    }
    o.in[1].integer = 5;
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    cr_assert_eq(stats_of(&o).specialisations, 9);
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_modules"), 0);
    ASSERT_NO_LEAKS();
}

/* Work in flight may still use a module whose kernel nobody holds, so some are kept for later; not
 * as many as there were lengths. */
Test(cache, modules_are_unloaded_while_it_runs, .timeout = 3600)
{
    enum { LENGTHS = 80, KEPT = 64, HELD = 2 };
    struct opened o;
    long most = 0;
    phasor_options options = options_for(ON_CUDA);
    options.specialisations = HELD;
    options.mode = PHASOR_MODE_EXACT;
    opened_with(&o, &options, "int_input", "plain");
    for (int i = 0; i < LENGTHS; i++) {
        o.in[1].integer = i % 50; /* a literal of the kernel, as the length is */
        o.in[0].tensor->shape[1] = 6 - i / 50;
        ASSERT_OK(opened_run(&o));
        opened_delete(&o);
        const long modules = stand_in_get("stand_in_modules");
        most = modules > most ? modules : most;
    }
    cr_assert_eq(stats_of(&o).specialisations, LENGTHS);
    cr_assert_gt(most, KEPT / 2, "%ld modules: too few to show anything", most);
    cr_assert_leq(most, KEPT + HELD + 1, "%ld modules were loaded at once", most);
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_modules"), 0);
    ASSERT_NO_LEAKS();
}

/* -- failures ---------------------------------------------------------------------------------- */

Test(failures, device_out_of_memory)
{
    struct opened o;
    setenv("PHASOR_STAND_IN_MEMORY", "60000", 1);
    opened_case(&o, ON_CUDA, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_MEMORY, "out of memory");
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    ASSERT_NO_LEAKS();
}

Test(failures, launch)
{
    struct opened o;
    setenv("PHASOR_STAND_IN_FAIL", "cuLaunchKernel=719", 1);
    opened_case(&o, ON_CUDA, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_DEVICE, "launching");
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    ASSERT_NO_LEAKS();
}
