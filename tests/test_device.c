/* test_device.c - the device layer over the stand-in driver: load, launch, memory that outlives
 * runs, capture, errors. */
#include "compile/nvrtc.h"
#include "device/device.h"
#include "support/leak.h"
#include "support/stand_in.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Helpers, a prologue and a template, in the shape in which the generator writes them. */
static const char rotation_source[] =
    "typedef unsigned int u32;\n"
    "struct vec16 { u32 w[4]; };\n"
    "static __device__ __forceinline__ vec16 load16(const void *p, u32 i)\n"
    "{\n"
    "    const uint4 v = ((const uint4 *)p)[i];\n"
    "    return {{v.x, v.y, v.z, v.w}};\n"
    "}\n"
    "static __device__ __forceinline__ void store16(void *p, u32 i, vec16 v)\n"
    "{\n"
    "    ((uint4 *)p)[i] = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);\n"
    "}\n"
    "static __device__ __forceinline__ float f32(u32 bits) { return __uint_as_float(bits); }\n"
    "#define KERNEL mul_view_as_real // } \"\n"
    "#define BLOCK 128\n"
    "typedef u32 index_t;\n"
    "struct args { const void *x, *f; void *out; index_t n; };\n"
    "static __device__ __forceinline__ void body(const args &a, index_t i)\n"
    "{\n"
    "    const vec16 x = load16(a.x, i), f = load16(a.f, i);\n"
    "    vec16 out;\n"
    "    for (int p = 0; p < 4; p += 2) {\n"
    "        const float v0 = f32(x.w[p]), v1 = f32(x.w[p + 1]);\n"
    "        const float v2 = f32(f.w[p]), v3 = f32(f.w[p + 1]);\n"
    "        out.w[p] = __float_as_uint(__fmaf_rn(v0, v2, -__fmul_rn(v1, v3)));\n"
    "        out.w[p + 1] = __float_as_uint(__fmaf_rn(v0, v3, __fmul_rn(v1, v2)));\n"
    "    }\n"
    "    store16(a.out, i, out);\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)\n"
    "{\n"
    "    const index_t i = blockIdx.x * (index_t)BLOCK + threadIdx.x;\n"
    "    if (i < a.n)\n"
    "        body(a, i);\n"
    "}\n";

struct rotation_args {
    const void *x, *f;
    void *out;
    uint32_t n; /* vectors of two pairs */
};

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

#ifdef PHASOR_CUDA

/* -- a device of the stand-in ------------------------------------------------------------------ */

#define OK(expression)                                                          \
    do {                                                                        \
        const phasor_status status_ = (expression);                             \
        cr_assert_eq(status_, PHASOR_OK, "%s: %s", #expression, message_get()); \
    } while (0)

enum { OWN = 1 }; /* allocations that an open device keeps for itself */

#define DRIVER PHASOR_TEST_LIBRARIES "/libphasor_stand_in_driver.so"

static void *driver_symbol(const char *name)
{
    void *library = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, name) : NULL;
    cr_assert_not_null(symbol, "%s", name);
    return symbol;
}

static long driver_count(const char *name)
{
    return ((stand_in_count *)driver_symbol(name))();
}

static struct device *device_stand_in(const char *archs, int ordinal)
{
    struct device *device;
    setenv("PHASOR_DRIVER", DRIVER, 1);
    setenv("PHASOR_NVRTC", PHASOR_TEST_LIBRARIES "/libphasor_stand_in_nvrtc.so", 1);
    setenv("PHASOR_STAND_IN_ARCHS", archs, 1);
    OK(device_open(ordinal, &device));
    return device;
}

static void cubin_make(const char *source, const char *arch, struct compile_result *result)
{
    struct compiler *compiler;
    OK(compiler_open(&compiler));
    OK(compiler_run(compiler,
                    &(struct compile_request){.name = "test.cu", .source = source, .arch = arch},
                    result));
    compiler_close(compiler);
}

static struct device_module *module_make(struct device *device, const char *source)
{
    struct compile_result result;
    struct device_module *module;
    cubin_make(source, device_arch(device), &result);
    OK(device_module_load(device, result.cubin, result.cubin_size, &module));
    compile_result_free(&result);
    return module;
}

/* What every test ends with: everything is closed, so nothing may be left. */
static void nothing_left(void)
{
    cr_assert_eq(driver_count("stand_in_allocations"), 0);
    cr_assert_eq(driver_count("stand_in_modules"), 0);
    cr_assert_eq(driver_count("stand_in_contexts"), 0);
    cr_assert_eq(driver_count("stand_in_corruptions"), 0);
    cr_assert_eq(driver_count("stand_in_misuses"), 0);
    ASSERT_NO_LEAKS();
}

/* Rotates on the device, by the context that is current, and compares. */
static void rotate(struct device *device, void *stream)
{
    enum { VECTORS = 300, FLOATS = 4 * VECTORS };
    static float x[FLOATS], f[FLOATS], out[FLOATS];
    struct device_module *module = module_make(device, rotation_source);
    struct device_function *function;
    struct rotation_args args = {.n = VECTORS};
    void *memory[3];
    OK(device_module_function(module, "mul_view_as_real", &function));
    for (int i = 0; i < FLOATS; i++) {
        x[i] = (float)(i % 17) - 8;
        f[i] = (float)(i % 13) - 6;
    }
    for (int i = 0; i < 3; i++)
        OK(device_allocate(device, sizeof x, &memory[i], stream));
    args.x = memory[0];
    args.f = memory[1];
    args.out = memory[2];
    OK(device_upload(device, memory[0], x, sizeof x, stream));
    OK(device_upload(device, memory[1], f, sizeof f, stream));
    OK(device_launch(device, function, (VECTORS + 127) / 128, 128, 0, &args, sizeof args, stream));
    OK(device_download(device, out, memory[2], sizeof out, stream));
    OK(device_synchronize(device, stream));
    for (int i = 0; i < FLOATS; i += 2) {
        cr_assert_float_eq(out[i], x[i] * f[i] - x[i + 1] * f[i + 1], 0);
        cr_assert_float_eq(out[i + 1], x[i] * f[i + 1] + x[i + 1] * f[i], 0);
    }
    for (int i = 0; i < 3; i++)
        device_free(device, memory[i], stream);
    device_module_unload(module);
}

Test(device, compiles_loads_launches_and_reads_back)
{
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    void *stream;
    cr_assert_str_eq(device_arch(device), "sm_90");
    cr_assert_str_eq(device_name(device), "stand-in sm_90");
    OK(device_enter(device, &scope));
    cr_assert(scope.pushed);
    OK(device_stream_new(device, &stream));
    rotate(device, stream);
    rotate(device, NULL);
    device_stream_free(device, stream);
    device_leave(device, &scope);
    device_close(device);
    nothing_left();
}

Test(device, two_devices_at_once)
{
    struct device *first = device_stand_in("sm_90,sm_80", 0), *second;
    struct device_scope outer, inner;
    struct device_info info;
    int count;
    OK(device_count(&count));
    cr_assert_eq(count, 2);
    OK(device_describe(1, &info));
    cr_assert_str_eq(info.arch, "sm_80");
    OK(device_open(1, &second));
    OK(device_enter(first, &outer));
    OK(device_enter(second, &inner));
    cr_assert(inner.pushed);
    rotate(second, NULL);
    device_leave(second, &inner);
    rotate(first, NULL);
    device_leave(first, &outer);
    device_close(first);
    device_close(second);
    nothing_left();
}

Test(device, a_device_that_does_not_exist)
{
    struct device *device = device_stand_in("sm_90", 0), *other;
    cr_assert_eq(device_open(1, &other), PHASOR_ERROR_DEVICE);
    cr_assert_null(other);
    cr_assert(strstr(message_get(), "no device 1; the driver has 1"), "%s", message_get());
    device_close(device);
    nothing_left();
}

/* -- modules ----------------------------------------------------------------------------------- */

Test(device, damaged_images_are_refused)
{
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    struct device_module *module;
    struct compile_result result;
    cubin_make(rotation_source, "sm_90", &result);
    OK(device_enter(device, &scope));
    for (size_t nbytes = 0; nbytes < result.cubin_size / 2; nbytes += 97)
        cr_assert_eq(device_module_load(device, result.cubin, nbytes, &module),
                     PHASOR_ERROR_DEVICE);
    cr_assert_null(module);
    ((char *)result.cubin)[0] = 'X';
    cr_assert_eq(device_module_load(device, result.cubin, result.cubin_size, &module),
                 PHASOR_ERROR_DEVICE);
    cr_assert(strstr(message_get(), "no cubin"), "%s", message_get());
    device_leave(device, &scope);
    compile_result_free(&result);
    device_close(device);
    nothing_left();
}

Test(device, an_image_for_another_arch)
{
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    struct device_module *module;
    struct device_function *function;
    struct compile_result result;
    cubin_make(rotation_source, "sm_80", &result);
    OK(device_enter(device, &scope));
    OK(device_module_load(device, result.cubin, result.cubin_size, &module));
    cr_assert_eq(device_module_function(module, "mul_view_as_real", &function),
                 PHASOR_ERROR_DEVICE);
    cr_assert(strstr(message_get(), "CUDA_ERROR_NO_BINARY_FOR_GPU, error 209"), "%s",
              message_get());
    device_module_unload(module);
    device_leave(device, &scope);
    compile_result_free(&result);
    device_close(device);
    nothing_left();
}

Test(device, a_lower_minor_of_the_same_major_serves)
{
    struct device *device = device_stand_in("sm_86", 0);
    struct device_scope scope;
    struct device_module *module;
    struct device_function *function;
    struct compile_result result;
    cubin_make(rotation_source, "sm_80", &result);
    OK(device_enter(device, &scope));
    OK(device_module_load(device, result.cubin, result.cubin_size, &module));
    OK(device_module_function(module, "mul_view_as_real", &function));
    cr_assert_eq(device_module_function(module, "missing", &function), PHASOR_ERROR_DEVICE);
    cr_assert(strstr(message_get(), "kernel missing"), "%s", message_get());
    device_module_unload(module);
    device_leave(device, &scope);
    compile_result_free(&result);
    device_close(device);
    nothing_left();
}

Test(device, launches_that_fail_and_launches_of_nothing)
{
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    struct device_function *function;
    struct rotation_args args = {.n = 0};
    OK(device_enter(device, &scope));
    struct device_module *module = module_make(device, rotation_source);
    OK(device_module_function(module, "mul_view_as_real", &function));
    OK(device_launch(device, function, 0, 128, 0, &args, sizeof args, NULL));
    cr_assert_eq(driver_count("stand_in_launches"), 0);
    OK(device_launch(device, function, 1, 128, 0, &args, sizeof args, NULL));
    cr_assert_eq(driver_count("stand_in_launches"), 1);
    cr_assert_eq(device_launch(device, function, 1, 128, 0, &args, sizeof args - 8, NULL),
                 PHASOR_ERROR_DEVICE);
    cr_assert(strstr(message_get(), "arguments of 32 bytes and is given 24"), "%s", message_get());
    cr_assert_eq(device_launch(device, function, 0x80000000u, 128, 0, &args, sizeof args, NULL),
                 PHASOR_ERROR_DEVICE);
    setenv("PHASOR_STAND_IN_FAIL", "cuLaunchKernel=719", 1);
    cr_assert_eq(device_launch(device, function, 1, 128, 0, &args, sizeof args, NULL),
                 PHASOR_ERROR_DEVICE);
    cr_assert(
        strstr(message_get(), "CUDA_ERROR_LAUNCH_FAILED, error 719 (unspecified launch failure)"),
        "%s", message_get());
    device_module_unload(module);
    device_leave(device, &scope);
    device_close(device);
    nothing_left();
}

/* -- memory ------------------------------------------------------------------------------------ */

Test(device, memory_of_no_bytes_and_too_many)
{
    setenv("PHASOR_STAND_IN_MEMORY", "1000000", 1);
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    void *pointer;
    OK(device_enter(device, &scope));
    OK(device_allocate(device, 0, &pointer, NULL));
    cr_assert_not_null(pointer);
    cr_assert_eq((uintptr_t)pointer % 256, 0);
    device_free(device, pointer, NULL);
    device_free(device, NULL, NULL);
    cr_assert_eq(device_allocate(device, 2000000, &pointer, NULL), PHASOR_ERROR_MEMORY);
    cr_assert_null(pointer);
    cr_assert(strstr(message_get(), "2000000 bytes of device memory on cuda:0"), "%s",
              message_get());
    device_leave(device, &scope);
    device_close(device);
    nothing_left();
}

/* The stream is gone when the block is freed: its handle is never named again, and memory comes
 * back when it is short. */
Test(device, a_block_outlives_its_stream)
{
    setenv("PHASOR_STAND_IN_MEMORY", "1000000", 1);
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    struct device_block *block, *next;
    void *stream;
    OK(device_enter(device, &scope));
    OK(device_stream_new(device, &stream));
    OK(device_block_new(device, 30000, stream, &block));
    device_stream_free(device, stream);
    device_block_free(block);
    cr_assert_eq(driver_count("stand_in_allocations"), 1 + OWN);
    OK(device_block_new(device, 990000, NULL, &next));
    cr_assert_eq(driver_count("stand_in_allocations"), 1 + OWN);
    device_leave(device, &scope);
    device_block_free(next);
    device_close(device);
    nothing_left();
}

Test(device, a_returned_block_is_freed_by_the_next_call_on_its_stream)
{
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    struct device_block *mine, *other, *next;
    void *stream;
    OK(device_enter(device, &scope));
    OK(device_stream_new(device, &stream));
    OK(device_block_new(device, 1000, stream, &mine));
    OK(device_block_new(device, 1000, NULL, &other));
    device_block_free(mine);
    device_block_free(other);
    cr_assert_eq(driver_count("stand_in_allocations"), 2 + OWN);
    OK(device_block_new(device, 1000, stream, &next));
    cr_assert_eq(driver_count("stand_in_allocations"), 2 + OWN);
    device_block_free(next);
    device_stream_free(device, stream);
    device_leave(device, &scope);
    device_close(device);
    nothing_left();
}

static void *block_free_elsewhere(void *block)
{
    device_block_free(block);
    return NULL;
}

Test(device, a_block_outlives_its_device)
{
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    struct device_block *blocks[3];
    pthread_t thread;
    OK(device_enter(device, &scope));
    for (int i = 0; i < 3; i++)
        OK(device_block_new(device, 100, NULL, &blocks[i]));
    memset(device_block_pointer(blocks[1]), 7, 100);
    device_leave(device, &scope);
    device_block_free(blocks[2]);
    device_close(device);
    cr_assert_eq(driver_count("stand_in_allocations"), 2 + OWN);
    cr_assert_eq(pthread_create(&thread, NULL, block_free_elsewhere, blocks[0]), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(driver_count("stand_in_allocations"), 1 + OWN);
    cr_assert_eq(driver_count("stand_in_contexts"), 1);
    device_block_free(blocks[1]);
    nothing_left();
}

Test(device, overwritten_guards_are_noticed)
{
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    void *pointer;
    OK(device_enter(device, &scope));
    OK(device_allocate(device, 100, &pointer, NULL));
    ((volatile char *)pointer)[100] = 1;
    device_free(device, pointer, NULL);
    device_leave(device, &scope);
    device_close(device);
    cr_assert_eq(driver_count("stand_in_corruptions"), 1);
}

Test(device, copies_and_fills)
{
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    void *from, *to;
    int values[4] = {1, 2, 3, 4};
    OK(device_enter(device, &scope));
    OK(device_allocate(device, sizeof values, &from, NULL));
    OK(device_allocate(device, sizeof values, &to, NULL));
    OK(device_upload(device, from, values, sizeof values, NULL));
    OK(device_copy(device, to, from, sizeof values, NULL));
    OK(device_fill_zero(device, to, 8, NULL));
    OK(device_download(device, values, to, sizeof values, NULL));
    OK(device_synchronize(device, NULL));
    cr_assert_arr_eq(values, ((int[]){0, 0, 3, 4}), sizeof values);
    OK(device_upload(device, NULL, NULL, 0, NULL));
    device_free(device, from, NULL);
    device_free(device, to, NULL);
    device_leave(device, &scope);
    device_close(device);
    nothing_left();
}

/* Two whole pages of them: each is its own, and 0 again for the next owner. */
Test(device, flags)
{
    enum { COUNT = 128 };
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    uint32_t *flags[COUNT], *again;
    OK(device_enter(device, &scope));
    for (uint32_t i = 0; i < COUNT; i++) {
        OK(device_flag_new(device, &flags[i]));
        cr_assert_eq(*flags[i], 0);
        *flags[i] = i + 1;
    }
    for (uint32_t i = 0; i < COUNT; i++)
        cr_assert_eq(*flags[i], i + 1);
    device_flag_free(device, flags[77]);
    OK(device_flag_new(device, &again));
    cr_assert_eq(again, flags[77]);
    cr_assert_eq(*again, 0);
    for (int i = 0; i < COUNT; i++)
        device_flag_free(device, flags[i]);
    device_flag_free(device, NULL);
    device_leave(device, &scope);
    device_close(device);
    nothing_left();
}

/* -- contexts, capture, events ----------------------------------------------------------------- */

Test(device, the_callers_context_is_used)
{
    setenv("PHASOR_DRIVER", DRIVER, 1);
    setenv("PHASOR_STAND_IN_ARCHS", "sm_90,sm_80", 1);
    int (*init)(unsigned) = driver_symbol("cuInit");
    int (*create)(void **, unsigned, int) = driver_symbol("cuCtxCreate_v2");
    int (*destroy)(void *) = driver_symbol("cuCtxDestroy_v2");
    void *context;
    struct device *same, *other;
    struct device_scope scope;
    cr_assert_eq(init(0), 0);
    cr_assert_eq(create(&context, 0, 1), 0);
    OK(device_open(1, &same));
    OK(device_open(0, &other));
    cr_assert_eq(driver_count("stand_in_contexts"), 1);
    OK(device_enter(same, &scope));
    cr_assert(!scope.pushed);
    device_leave(same, &scope);
    OK(device_enter(other, &scope));
    cr_assert(scope.pushed);
    device_leave(other, &scope);
    device_close(same);
    device_close(other);
    destroy(context);
    nothing_left();
}

Test(device, a_capture_is_seen_and_survives)
{
    struct device *device = device_stand_in("sm_90", 0);
    int (*begin)(void *, int) = driver_symbol("cuStreamBeginCapture_v2");
    int (*end)(void *, void **) = driver_symbol("cuStreamEndCapture");
    int (*launch)(void *, void *) = driver_symbol("cuGraphLaunch");
    int (*destroy)(void *) = driver_symbol("cuGraphDestroy");
    struct device_scope scope;
    struct device_module *module, *loaded;
    struct device_function *function;
    struct device_block *block;
    void *stream, *graph;
    float x[64], out;
    OK(device_enter(device, &scope));
    OK(device_stream_new(device, &stream));
    module = module_make(device, sum_source);
    OK(device_module_function(module, "sum", &function));
    OK(device_block_new(device, 100, NULL, &block));
    for (int i = 0; i < 64; i++)
        x[i] = 1;
    out = 0;
    cr_assert(!device_stream_is_capturing(device, stream));
    cr_assert_eq(begin(stream, 0), 0);
    cr_assert(device_stream_is_capturing(device, stream));
    OK(device_launch(device, function, 1, 64, 0, &(struct sum_args){x, &out},
                     sizeof(struct sum_args), stream));
    loaded = module_make(device, sum_source); /* another stream's need, at a bad moment */
    device_block_free(block);
    cr_assert_eq(end(stream, &graph), 0);
    cr_assert_eq(out, 0);
    cr_assert_eq(launch(graph, stream), 0);
    cr_assert_eq(out, 64);
    destroy(graph);
    device_module_unload(loaded);
    device_module_unload(module);
    device_stream_free(device, stream);
    device_leave(device, &scope);
    device_close(device);
    nothing_left();
}

Test(device, events)
{
    struct device *device = device_stand_in("sm_90", 0);
    struct device_scope scope;
    struct device_event *from, *to;
    double milliseconds = -1;
    bool done = false;
    OK(device_enter(device, &scope));
    OK(device_event_new(device, true, &from));
    OK(device_event_new(device, true, &to));
    OK(device_event_record(from, NULL));
    OK(device_event_record(to, NULL));
    OK(device_event_wait(to, NULL));
    OK(device_event_synchronize(to));
    OK(device_event_done(to, &done));
    cr_assert(done);
    OK(device_event_milliseconds(from, to, &milliseconds));
    cr_assert_geq(milliseconds, 0);
    device_event_free(from);
    device_event_free(to);
    device_leave(device, &scope);
    device_close(device);
    nothing_left();
}

#else

Test(device, a_build_without_cuda_says_so)
{
    struct device *device;
    cr_assert_eq(device_open(0, &device), PHASOR_ERROR_DEVICE);
    cr_assert_null(device);
    cr_assert(rotation_source[0] && sum_source[0]);
    cr_assert(sizeof(struct sum_args) && sizeof(struct rotation_args));
    cr_assert(sizeof(struct stand_in_trailer));
}

#endif
