/* test_host.c - generated CUDA text run on the CPU, without a driver: barriers, shuffles, many
 * kernels, errors. */
#include "support/host_run.h"
#include "support/leak.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The sum of a block of 64, by shuffles and shared memory; the first thread of each block writes
 * it. */
static const char sum_source[] =
    "struct args { const float *x; float *out; };\n"
    "extern \"C\" __global__ void sum(const __grid_constant__ args a)\n"
    "{\n"
    "    __shared__ float part[2];\n"
    "    float v = a.x[blockIdx.x * 64 + threadIdx.x];\n"
    "    for (int step = 16; step > 0; step /= 2)\n"
    "        v += __shfl_xor_sync(0xffffffffu, v, step);\n"
    "    if (threadIdx.x % 32 == 0)\n"
    "        part[threadIdx.x / 32] = v;\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0)\n"
    "        a.out[blockIdx.x] = part[0] + part[1];\n"
    "}\n";

struct sum_args {
    const float *x;
    float *out;
};

Test(host, barriers_and_shuffles)
{
    const char *source = sum_source, *name = "sum.cu";
    struct host_module *module;
    float x[192], out[3] = {0};
    cr_assert(host_compile(&source, &name, 1, &module), "%s", host_error());
    for (int i = 0; i < 192; i++)
        x[i] = (float)i;
    cr_assert(host_launch(module, 0, "sum", 3, 64, &(struct sum_args){x, out}), "%s", host_error());
    for (int block = 0; block < 3; block++)
        cr_assert_float_eq(out[block], 64.0f * (float)(64 * block) + 63 * 32, 0);
    cr_assert(!host_launch(module, 0, "product", 3, 64, &(struct sum_args){x, out}));
    host_close(module);
    ASSERT_NO_LEAKS();
}

Test(host, many_sources_may_share_names)
{
    enum { COUNT = 12 };
    char sources[COUNT][256];
    const char *list[COUNT], *names[COUNT];
    struct host_module *module;
    for (int i = 0; i < COUNT; i++) {
        snprintf(sources[i], sizeof sources[i],
                 "struct args { int *out; };\nstatic int helper() { return %d; }\n"
                 "extern \"C\" __global__ void k(const args a) { *a.out = helper(); }\n",
                 i * i);
        list[i] = sources[i];
        names[i] = "k.cu";
    }
    cr_assert(host_compile(list, names, COUNT, &module), "%s", host_error());
    for (int i = 0; i < COUNT; i++) {
        int result = -1, *out = &result;
        cr_assert(host_launch(module, i, "k", 1, 1, &out), "%s", host_error());
        cr_assert_eq(result, i * i);
    }
    host_close(module);
    ASSERT_NO_LEAKS();
}

/* A unit of several kernels, in namespaces, with the name as a macro that is defined anew. */
Test(host, one_source_may_have_several_kernels)
{
    const char *name = "unit.cu",
               *source =
                   "namespace first {\n"
                   "#define KERNEL one\n"
                   "struct args { int *out; };\n"
                   "extern \"C\" __global__ void KERNEL(const args a) { *a.out += 1; }\n"
                   "}\n"
                   "#undef KERNEL\n"
                   "#define KERNEL two\n"
                   "namespace second { struct args { int *out; int more; }; }\n"
                   "extern \"C\" __global__ void __launch_bounds__(64)\n"
                   "    KERNEL(const __grid_constant__ second::args a) { *a.out += a.more; }\n";
    struct host_module *module;
    int result = 0;
    struct {
        int *out;
        int more;
    } args = {&result, 10};
    cr_assert(host_compile(&source, &name, 1, &module), "%s", host_error());
    cr_assert(host_launch(module, 0, "one", 2, 3, &args), "%s", host_error());
    cr_assert_eq(result, 6);
    cr_assert(host_launch(module, 0, "two", 1, 2, &args), "%s", host_error());
    cr_assert_eq(result, 26);
    host_close(module);
    ASSERT_NO_LEAKS();
}

Test(host, threads_that_wait_apart_are_reported)
{
    const char *name = "hang.cu",
               *source = "struct args { int *out; };\n"
                         "extern \"C\" __global__ void hang(const __grid_constant__ args a)\n"
                         "{\n"
                         "    if (threadIdx.x < 32)\n"
                         "        __syncthreads();\n"
                         "    else if (threadIdx.x == 32)\n"
                         "        __syncwarp();\n"
                         "    else\n"
                         "        __syncthreads();\n"
                         "}\n";
    struct host_module *module;
    int *out = NULL;
    cr_assert(host_compile(&source, &name, 1, &module), "%s", host_error());
    cr_assert(!host_launch(module, 0, "hang", 1, 64, &out));
    cr_assert(strstr(host_error(), "wait at different places"), "%s", host_error());
    host_close(module);
    ASSERT_NO_LEAKS();
}

Test(host, a_broken_source_names_its_line)
{
    const char *name = "broken.cu", *source = "\n\nint f() { return missing; }\n";
    struct host_module *module;
    cr_assert(!host_compile(&source, &name, 1, &module));
    cr_assert_null(module);
    cr_assert(strstr(host_error(), "broken.cu:3:"), "%s", host_error());
}
