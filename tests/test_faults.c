/* test_faults.c - faults of the machine, with the stand-ins for driver and NVRTC: each is a status
 * with a sentence, nothing is left behind, and what can still work does.
 *
 * A driver that is missing or finds no device: test_driver.c. Damaged images: test_device.c.
 */
#include "support/leak.h"
#include "support/runtime_case.h"

#ifdef PHASOR_CUDA

static phasor_counters stats_of(const struct opened *o)
{
    phasor_counters counters = {.size = sizeof counters};
    ASSERT_OK(phasor_stats(o->runtime, &counters));
    return counters;
}

static void run_and_expect(struct opened *o)
{
    ASSERT_OK(opened_run(o));
    opened_expect(o);
    opened_delete(o);
}

static void nothing_is_left(void)
{
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    cr_assert_eq(stand_in_get("stand_in_modules"), 0);
    cr_assert_eq(stand_in_get("stand_in_corruptions"), 0);
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
}

/* -- memory of the device ---------------------------------------------------------------------- */

/* x[2, length, 2, 16] of int_input. */
static void length_set(struct opened *o, DLTensor *x, int64_t sizes[4], int64_t length)
{
    *x = *o->in[0].tensor;
    memcpy(sizes, x->shape, 4 * sizeof *sizes);
    sizes[1] = length;
    x->shape = sizes;
    x->strides = NULL;
    o->in[0].tensor = x;
}

Test(faults, a_call_that_needs_too_much_and_a_smaller_one)
{
    struct opened o;
    DLTensor large, small;
    int64_t large_sizes[4], small_sizes[4];
    setenv("PHASOR_STAND_IN_MEMORY", "14000", 1);
    opened_case(&o, ON_CUDA, "int_input", "plain");
    float *data = calloc(2 * 32 * 2 * 16, sizeof *data);
    const phasor_value given = o.in[0];

    length_set(&o, &large, large_sizes, 32);
    large.data = data;
    large.byte_offset = 0;
    for (int i = 0; i < 3; i++)
        ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_MEMORY, "memory");
    o.in[0] = given;
    length_set(&o, &small, small_sizes, 1);
    small.data = data;
    small.byte_offset = 0;
    ASSERT_OK(opened_run(&o));
    opened_delete(&o);
    unsetenv("PHASOR_STAND_IN_MEMORY");
    o.in[0] = given;
    run_and_expect(&o);
    opened_close(&o);
    free(data);
    nothing_is_left();
    ASSERT_NO_LEAKS();
}

/* Each allocation of the driver's in turn. */
Test(faults, every_kind_of_allocation_fails)
{
    static const char *const functions[] = {"cuMemAlloc_v2=2", "cuMemAllocFromPoolAsync=2",
                                            "cuMemHostAlloc=2", "cuLibraryLoadData=2",
                                            "cuStreamCreate=2"};
    struct opened o;
    opened_case(&o, ON_CUDA, "int_input", "plain");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        setenv("PHASOR_STAND_IN_FAIL", functions[i], 1);
        const phasor_status status = opened_run(&o);
        unsetenv("PHASOR_STAND_IN_FAIL");
        if (status == PHASOR_OK) { /* it is not used, or another way was found */
            opened_expect(&o);
            opened_delete(&o);
        } else {
            cr_assert_eq(status, PHASOR_ERROR_MEMORY, "%s: %s", functions[i], phasor_message());
        }
        run_and_expect(&o);
    }
    opened_close(&o);
    nothing_is_left();
    ASSERT_NO_LEAKS();
}

/* -- a device that is lost --------------------------------------------------------------------- */

/* 719: a launch failed, and nothing works in this context any more. Modules that cannot be waited
 * for stay loaded, and what the driver holds of the host stays with it: these two tests do not look
 * for leaks. */
Test(faults, a_lost_device)
{
    struct opened o, other;
    phasor_state *state;
    opened_case(&o, ON_CUDA, "report_counter", "plain");
    run_and_expect(&o);
    ASSERT_OK(phasor_state_new(o.program, &state));
    setenv("PHASOR_STAND_IN_FAIL", "*=719", 1);
    for (int i = 0; i < 3; i++)
        ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_DEVICE, "719");
    ASSERT_FAILS(phasor_run(o.program, state, o.in, o.in_count, o.out, o.out_count, NULL),
                 PHASOR_ERROR_DEVICE, "719");
    cr_assert_eq(phasor_state_reset(o.program, state), PHASOR_ERROR_DEVICE);
    phasor_state_free(state);
    opened_close(&o);
    phasor_runtime *runtime;
    const phasor_options options = options_for(ON_CUDA);
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_DEVICE, "719");
    opened_case(&other, ON_CPU, "report_counter", "plain"); /* the CPU is not lost */
    run_and_expect(&other);
    opened_close(&other);
    unsetenv("PHASOR_STAND_IN_FAIL");
    opened_case(&o, ON_CUDA, "report_counter", "plain");
    run_and_expect(&o);
    opened_close(&o);
}

/* An output that outlives the device is freed all the same. */
Test(faults, an_output_of_a_lost_device)
{
    struct opened o;
    opened_case(&o, ON_CUDA, "int_input", "plain");
    ASSERT_OK(opened_run(&o));
    setenv("PHASOR_STAND_IN_FAIL", "*=719", 1);
    char bytes[4096];
    const DLTensor *out = &o.out[0].owned->dl_tensor;
    cr_assert_eq(
        phasor_copy_to_host(o.runtime, out, bytes, (size_t)tensor_count(out) * sizeof(float)),
        PHASOR_ERROR_DEVICE);
    opened_close(&o);
    opened_delete(&o);
}

Test(faults, launches_and_copies_that_fail)
{
    static const char *const functions[] = {"cuLaunchKernel",       "cuMemcpyHtoDAsync_v2",
                                            "cuMemcpyDtoHAsync_v2", "cuEventRecord",
                                            "cuStreamSynchronize",  "cuLibraryGetKernel"};
    struct opened o;
    opened_case(&o, ON_CUDA, "int_input", "plain");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char fail[64];
        snprintf(fail, sizeof fail, "%s=700", functions[i]);
        setenv("PHASOR_STAND_IN_FAIL", fail, 1);
        const phasor_status status = opened_run(&o);
        cr_assert(status == PHASOR_OK || status == PHASOR_ERROR_DEVICE, "%s: %s", fail,
                  phasor_message());
        if (status == PHASOR_OK)
            opened_delete(&o);
        else
            cr_assert(strstr(phasor_message(), "700"), "%s", phasor_message());
        unsetenv("PHASOR_STAND_IN_FAIL");
        run_and_expect(&o);
    }
    opened_close(&o);
    nothing_is_left();
    ASSERT_NO_LEAKS();
}

/* -- the compiler ------------------------------------------------------------------------------ */

/* A failed compile is no reason to forget how to: the next call compiles, and is right. */
static void compiler_faults(const char *fault, phasor_status status, const char *message)
{
    struct opened o;
    opened_case(&o, ON_CUDA, "int_input", "plain");
    setenv("PHASOR_STAND_IN_NVRTC_FAIL", fault, 1);
    for (int i = 0; i < 2; i++) {
        ASSERT_FAILS(opened_run(&o), status, message);
        cr_assert_eq(stats_of(&o).compiled, 0, "%s", fault);
    }
    unsetenv("PHASOR_STAND_IN_NVRTC_FAIL");
    run_and_expect(&o);
    cr_assert_gt(stats_of(&o).compiled, 0, "%s", fault);
    opened_close(&o);
    nothing_is_left();
}

Test(faults, every_error_of_nvrtc)
{
    static const char *const functions[] = {"nvrtcCreateProgram", "nvrtcCompileProgram",
                                            "nvrtcGetCUBINSize", "nvrtcGetCUBIN"};
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (int error = 1; error <= 14; error++) {
            char fault[64];
            snprintf(fault, sizeof fault, "%s=%d", functions[f], error);
            compiler_faults(fault, error == 1 ? PHASOR_ERROR_MEMORY : PHASOR_ERROR_COMPILE,
                            error == 1 ? "memory" : "nvrtc 13.0");
        }
    compiler_faults("nvrtcCompileProgram=999", PHASOR_ERROR_COMPILE, "it was told to fail");
    compiler_faults("nvrtcCompileProgram=6,nvrtcGetProgramLogSize=5", PHASOR_ERROR_COMPILE,
                    "the source:");
    ASSERT_NO_LEAKS();
}

Test(faults, no_program_and_no_cubin)
{
    compiler_faults("nvrtcCreateProgram=null", PHASOR_ERROR_COMPILE, "NVRTC_ERROR");
    compiler_faults("nvrtcGetCUBINSize=empty", PHASOR_ERROR_COMPILE, "NVRTC_ERROR");
    ASSERT_NO_LEAKS();
}

Test(faults, a_compiler_that_does_not_know_itself)
{
    static const char *const faults[] = {"nvrtcVersion=5", "nvrtcGetNumSupportedArchs=5",
                                         "nvrtcGetSupportedArchs=5"};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct opened o;
        setenv("PHASOR_STAND_IN_NVRTC_FAIL", faults[i], 1);
        opened_case(&o, ON_CUDA, "int_input", "plain");
        ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_COMPILE, "does not say");
        opened_close(&o);
        unsetenv("PHASOR_STAND_IN_NVRTC_FAIL");
    }
    nothing_is_left();
    ASSERT_NO_LEAKS();
}

/* NVRTC without its second library says so in its log, which the message has. */
Test(faults, the_builtins_library_is_missing)
{
    compiler_faults("nvrtcCompileProgram=7", PHASOR_ERROR_COMPILE, "it was told to fail");
    ASSERT_NO_LEAKS();
}

/* 209 and 200: what a driver says of code from a compiler that is newer than it. Nothing of it may
 * stay where the next process would find it. */
Test(faults, a_compiler_newer_than_the_driver)
{
    static const char *const faults[] = {"cuLibraryLoadData=200", "cuLibraryGetKernel=209"};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char folder[64];
        struct opened o;
        phasor_options options = options_for(ON_CUDA);
        folder_make(folder);
        options.cache = folder;
        options.log = NULL;
        setenv("PHASOR_LOG", "off", 1);
        setenv("PHASOR_STAND_IN_FAIL", faults[i], 1);
        opened_with(&o, &options, "int_input", "plain");
        ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_DEVICE, "driver");
        ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_DEVICE, "driver");
        opened_close(&o);
        unsetenv("PHASOR_STAND_IN_FAIL");
        opened_with(&o, &options, "int_input", "plain");
        run_and_expect(&o);
        opened_close(&o);
        folder_remove(folder);
    }
    nothing_is_left();
    ASSERT_NO_LEAKS();
}

/* -- no device --------------------------------------------------------------------------------- */

Test(faults, no_driver_and_no_device)
{
    static const struct {
        const char *name, *value, *message;
    } rows[] = {{"PHASOR_DRIVER", "/there/is/none.so", "/there/is/none.so"},
                {"PHASOR_DRIVER", "libm.so.6", "has no function cuInit"},
                {"PHASOR_STAND_IN_FAIL", "cuInit=999", "cuInit"},
                {"PHASOR_STAND_IN_FAIL", "cuInit=100", "finds no device"},
                {"PHASOR_STAND_IN_FAIL", "cuDevicePrimaryCtxRetain=2", "cuDevicePrimaryCtxRetain"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct opened o;
        phasor_options options = options_for(ON_CUDA);
        setenv(rows[i].name, rows[i].value, 1);
        phasor_runtime *runtime;
        const phasor_status status = phasor_open(&runtime, &options);
        cr_assert(status == PHASOR_ERROR_DEVICE || status == PHASOR_ERROR_MEMORY, "row %zu", i);
        cr_assert(strstr(phasor_message(), rows[i].message), "row %zu: %s", i, phasor_message());
        cr_assert_null(runtime);
        options.device = PHASOR_DEVICE_CPU;
        opened_with(&o, &options, "int_input", "plain");
        run_and_expect(&o);
        opened_close(&o);
        unsetenv(rows[i].name);
    }
    ASSERT_NO_LEAKS();
}

/* The stand-in counts its devices once in a process, so this is a test of its own. */
Test(faults, a_driver_without_a_device)
{
    phasor_runtime *runtime;
    phasor_options options = options_for(ON_CUDA);
    struct opened o;
    setenv("PHASOR_STAND_IN_ARCHS", "none", 1);
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_DEVICE, "finds no device");
    options.device = PHASOR_DEVICE_DEFAULT;
    opened_with(&o, &options, "int_input", "plain");
    cr_assert_str_eq(phasor_program_device(o.program), "cpu");
    run_and_expect(&o);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

#else

Test(faults, a_build_without_cuda_says_so)
{
    phasor_runtime *runtime;
    const phasor_options options = options_for(ON_CUDA);
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_DEVICE, "PHASOR_CUDA=OFF");
    ASSERT_NO_LEAKS();
}

#endif
