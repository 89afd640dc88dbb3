/* test_compile.c - NVRTC without a GPU: found or not, right cubins for every arch, errors that show
 * the source. */
#include "base/memory.h"
#include "compile/cubin.h"
#include "compile/nvrtc.h"
#include "support/leak.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char scale_source[] =
    "struct args { const float *x; float *out; unsigned n; };\n"
    "extern \"C\" __global__ void __launch_bounds__(128) scale(const __grid_constant__ args a)\n"
    "{\n"
    "    const unsigned i = blockIdx.x * 128 + threadIdx.x;\n"
    "    if (i < a.n)\n"
    "        a.out[i] = __fmul_rn(a.x[i], 2.0f) + 1.0f;\n"
    "}\n";

#ifdef PHASOR_CUDA

/* NVRTC of this machine, or NULL: these tests then have nothing to test, and say so. */
static struct compiler *compiler_here(void)
{
    struct compiler *compiler;
    if (compiler_open(&compiler) == PHASOR_OK)
        return compiler;
    cr_log_info("skipped: %s", message_get());
    return NULL;
}

static phasor_status compile(struct compiler *compiler, const char *source, const char *arch,
                             struct compile_result *out)
{
    return compiler_run(
        compiler, &(struct compile_request){.name = "scale.cu", .source = source, .arch = arch},
        out);
}

Test(compile, a_named_library_that_is_missing)
{
    struct compiler *compiler;
    setenv("PHASOR_NVRTC", "/nonexistent/libnvrtc.so", 1);
    cr_assert_eq(compiler_open(&compiler), PHASOR_ERROR_COMPILE);
    cr_assert_null(compiler);
    cr_assert(strstr(message_get(), "PHASOR_NVRTC=/nonexistent/libnvrtc.so"), "%s", message_get());
    compiler_close(NULL);
    ASSERT_NO_LEAKS();
}

Test(compile, a_named_library_that_is_another)
{
    struct compiler *compiler;
    setenv("PHASOR_NVRTC", "libm.so.6", 1);
    cr_assert_eq(compiler_open(&compiler), PHASOR_ERROR_COMPILE);
    cr_assert(strstr(message_get(), "has no function nvrtcVersion"), "%s", message_get());
}

Test(compile, every_arch_gets_a_cubin)
{
    static const char *const archs[] = {"sm_75", "sm_80", "sm_90", "sm_100", "sm_120"};
    struct compiler *compiler = compiler_here();
    for (size_t i = 0; compiler && i < sizeof archs / sizeof *archs; i++) {
        struct compile_result result;
        Elf64_Ehdr header;
        if (!compiler_knows_arch(compiler, archs[i]))
            continue;
        cr_assert_eq(compile(compiler, scale_source, archs[i], &result), PHASOR_OK, "%s: %s",
                     archs[i], message_get());
        cr_assert_gt(result.cubin_size, sizeof header);
        memcpy(&header, result.cubin, sizeof header);
        cr_assert_arr_eq(header.e_ident, ELFMAG, SELFMAG);
        cr_assert_leq(header.e_shoff + (size_t)header.e_shnum * header.e_shentsize,
                      result.cubin_size);
        cr_assert_null(result.ptx);
        cr_assert_gt(result.milliseconds, 0);
        compile_result_free(&result);
    }
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

Test(compile, what_it_says_of_itself)
{
    struct compiler *compiler = compiler_here();
    if (!compiler)
        return;
    int count = 0;
    const char *const *archs = compiler_archs(compiler, &count);
    const char *options = compiler_options_text(compiler, "sm_90");
    cr_assert_gt(count, 0);
    cr_assert(compiler_knows_arch(compiler, archs[0]));
    cr_assert(!compiler_knows_arch(compiler, "sm_1"));
    cr_assert_eq(strncmp(compiler_version(compiler), "nvrtc 1", 7), 0, "%s",
                 compiler_version(compiler));
    cr_assert_eq(compiler_path(compiler)[0], '/');
    cr_assert_eq(strncmp(options, "--gpu-architecture=sm_90 ", 25), 0, "%s", options);
    cr_assert(strstr(options, " --fmad=false"));
    cr_assert_null(strstr(options, "fast"));
    cr_assert_str_eq(compiler_options_text(compiler, "sm_1"), "");
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

Test(compile, an_arch_that_is_unknown)
{
    struct compiler *compiler = compiler_here();
    struct compile_result result;
    if (!compiler)
        return;
    cr_assert_eq(compile(compiler, scale_source, "sm_1", &result), PHASOR_ERROR_COMPILE);
    cr_assert(strstr(message_get(), "does not compile for sm_1; it knows sm_"), "%s",
              message_get());
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

Test(compile, a_broken_kernel_shows_log_and_source)
{
    struct compiler *compiler = compiler_here();
    struct compile_result result;
    if (!compiler)
        return;
    cr_assert_eq(compile(compiler, "// one\n#line 7 \"map.cu\"\nint f() { return missing; }\n",
                         "sm_90", &result),
                 PHASOR_ERROR_COMPILE);
    cr_assert_null(result.cubin);
    cr_assert(strstr(message_get(), "scale.cu"), "%s", message_get());
    cr_assert(strstr(message_get(), "map.cu(7): error: identifier \"missing\" is undefined"), "%s",
              message_get());
    cr_assert(strstr(message_get(), "    3 | int f() { return missing; }"), "%s", message_get());
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

Test(compile, a_long_broken_source_is_cut)
{
    struct compiler *compiler = compiler_here();
    struct compile_result result;
    char source[8192] = "error;\n";
    if (!compiler)
        return;
    for (size_t at = strlen(source); at + 8 < sizeof source; at += 7)
        memcpy(source + at, "// etc\n", 8);
    cr_assert_eq(compile(compiler, source, "sm_90", &result), PHASOR_ERROR_COMPILE);
    cr_assert(strstr(message_get(), "  200 | "), "%s", message_get());
    cr_assert_null(strstr(message_get(), "  201 | "));
    cr_assert(strstr(message_get(), "more lines follow"));
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

Test(compile, ptx_and_no_contraction)
{
    struct compiler *compiler = compiler_here();
    struct compile_result result;
    if (!compiler)
        return;
    const struct compile_request request = {
        .name = "scale.cu", .source = scale_source, .arch = "sm_90", .want_ptx = true};
    cr_assert_eq(compiler_run(compiler, &request, &result), PHASOR_OK, "%s", message_get());
    cr_assert(strstr(result.ptx, ".target sm_90"), "%s", result.ptx);
    cr_assert(strstr(result.ptx, "mul.rn.f32"), "%s", result.ptx);
    cr_assert_null(strstr(result.ptx, "fma.rn.f32"), "%s", result.ptx);
    cr_assert_null(strstr(result.ptx, ".ftz"), "%s", result.ptx);
    compile_result_free(&result);
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

Test(compile, resources_are_read_from_the_cubin)
{
    static const char source[] =
        "struct args { float *out; };\n"
        "extern \"C\" __global__ void shared(const __grid_constant__ args a)\n"
        "{\n"
        "    __shared__ float part[64];\n"
        "    part[threadIdx.x] = a.out[threadIdx.x];\n"
        "    __syncthreads();\n"
        "    a.out[threadIdx.x] = part[63 - threadIdx.x];\n"
        "}\n"
        "extern \"C\" __global__ void plain(const __grid_constant__ args a) { *a.out = 1; }\n";
    struct compiler *compiler = compiler_here();
    struct compile_result result;
    struct cubin_resources resources;
    if (!compiler)
        return;
    cr_assert_eq(compile(compiler, source, "sm_80", &result), PHASOR_OK, "%s", message_get());
    cr_assert(cubin_resources(result.cubin, result.cubin_size, "shared", &resources));
    cr_assert_geq(resources.registers, 4);
    cr_assert_eq(resources.local_bytes, 0);
    cr_assert_eq(resources.shared_bytes, 256);
    cr_assert(cubin_resources(result.cubin, result.cubin_size, "plain", &resources));
    cr_assert_eq(resources.shared_bytes, 0);
    cr_assert(!cubin_resources(result.cubin, result.cubin_size, "missing", &resources));

    /* Cut bytes, in a block of just their size, or changed ones: any answer, no reading outside. */
    for (size_t nbytes = 0; nbytes < result.cubin_size; nbytes += 13) {
        void *cut = memory_new(nbytes);
        memcpy(cut, result.cubin, nbytes);
        cubin_resources(cut, nbytes, "shared", &resources);
        memory_free(cut);
    }
    for (size_t at = 0; at < result.cubin_size; at++) {
        ((unsigned char *)result.cubin)[at] ^= 0xff;
        cubin_resources(result.cubin, result.cubin_size, "shared", &resources);
        ((unsigned char *)result.cubin)[at] ^= 0xff;
    }
    compile_result_free(&result);
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

Test(compile, the_same_source_gives_the_same_bytes)
{
    struct compiler *compiler = compiler_here();
    struct compile_result one, two;
    if (!compiler)
        return;
    cr_assert_eq(compile(compiler, scale_source, "sm_80", &one), PHASOR_OK);
    cr_assert_eq(compile(compiler, scale_source, "sm_80", &two), PHASOR_OK);
    cr_assert_eq(one.cubin_size, two.cubin_size);
    cr_assert_arr_eq(one.cubin, two.cubin, one.cubin_size);
    compile_result_free(&one);
    compile_result_free(&two);
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

static void *compile_some(void *context)
{
    for (int i = 0; i < 3; i++) {
        struct compile_result result;
        if (compile(context, scale_source, i % 2 ? "sm_80" : "sm_90", &result) != PHASOR_OK)
            return (void *)"failed";
        compile_result_free(&result);
    }
    return NULL;
}

Test(compile, many_threads)
{
    struct compiler *compiler = compiler_here();
    pthread_t threads[4];
    for (int i = 0; compiler && i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, compile_some, compiler), 0);
    for (int i = 0; compiler && i < 4; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        cr_assert_null(failed);
    }
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

/* -- the stand-in ------------------------------------------------------------------------------ */

static struct compiler *compiler_stand_in(void)
{
    struct compiler *compiler;
    setenv("PHASOR_NVRTC", PHASOR_TEST_LIBRARIES "/libphasor_stand_in_nvrtc.so", 1);
    cr_assert_eq(compiler_open(&compiler), PHASOR_OK, "%s", message_get());
    return compiler;
}

Test(compile, old_versions_are_not_given_new_options)
{
    setenv("PHASOR_STAND_IN_NVRTC_VERSION", "12.3", 1);
    struct compiler *compiler = compiler_stand_in();
    cr_assert_str_eq(compiler_version(compiler), "nvrtc 12.3");
    cr_assert_null(strstr(compiler_options_text(compiler, "sm_90"), "--minimal"));
    compiler_close(compiler);
    setenv("PHASOR_STAND_IN_NVRTC_VERSION", "12.4", 1);
    compiler = compiler_stand_in();
    cr_assert(strstr(compiler_options_text(compiler, "sm_90"), "--minimal"));
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

Test(compile, the_stand_in_compiles_and_fails_alike)
{
    struct compiler *compiler = compiler_stand_in();
    struct compile_result result;
    cr_assert_eq(compile(compiler, scale_source, "sm_90", &result), PHASOR_OK, "%s", message_get());
    cr_assert_arr_eq(result.cubin, ELFMAG, SELFMAG);
    compile_result_free(&result);
    cr_assert_eq(compile(compiler, "\nint f() { return missing; }\n", "sm_90", &result),
                 PHASOR_ERROR_COMPILE);
    cr_assert(strstr(message_get(), "scale.cu:2:"), "%s", message_get());
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

#else

Test(compile, a_build_without_cuda_says_so)
{
    struct compiler *compiler;
    cr_assert_eq(compiler_open(&compiler), PHASOR_ERROR_COMPILE);
    cr_assert_null(compiler);
    cr_assert(strstr(message_get(), "PHASOR_CUDA=OFF"), "%s", message_get());
    cr_assert(scale_source[0]);
}

#endif
