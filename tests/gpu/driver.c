/* driver.c - see driver.h. Nothing -> a table of the driver's functions, and a kernel that does
 * nothing. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver driver;
static void *library;

static void give_up(int exit_code, const char *what, const char *reason)
{
    fprintf(stderr, "%s%s%s\n", what, reason ? ": " : "", reason ? reason : "");
    exit(exit_code);
}

void driver_check(int result, const char *call, const char *file, int line)
{
    const char *name = NULL, *slash = strrchr(file, '/');
    if (result == 0)
        return;
    driver.GetErrorName(result, &name);
    fprintf(stderr, "%s:%d: cu%s: %s, error %d\n", slash ? slash + 1 : file, line, call,
            name ? name : "unknown error", result);
    exit(1);
}

void driver_open(void)
{
    const char *named = getenv("PHASOR_DRIVER");
    const char *path = named && *named ? named : "libcuda.so.1";
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        give_up(77, "skipped, no CUDA driver", dlerror());
#define RESOLVE(name, symbol, parameters)                          \
    driver.name = (__typeof__(driver.name))dlsym(library, symbol); \
    if (!driver.name)                                              \
        give_up(1, "the driver lacks a function of CUDA 12", symbol);
    DRIVER_FUNCTIONS(RESOLVE)
#undef RESOLVE
    if (driver.Init(0) != 0 || driver_devices() < 1)
        give_up(77, "skipped, the CUDA driver finds no device", path);
}

int driver_devices(void)
{
    int count = 0;
    CUDA(DeviceGetCount(&count));
    return count;
}

int64_t driver_memory_used(void)
{
    size_t unused = 0, total = 0;
    CUDA(MemGetInfo(&unused, &total));
    return (int64_t)(total - unused);
}

void driver_finish(void)
{
    static const char *const names[] = {"stand_in_misuses", "stand_in_corruptions",
                                        "stand_in_allocations", "stand_in_modules",
                                        "stand_in_contexts"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        long (*counted)(void) = (long (*)(void))dlsym(library, names[i]);
        if (!counted || counted() == 0)
            continue;
        fprintf(stderr, "%s is %ld after all was closed, not 0\n", names[i], counted());
        exit(1);
    }
}

/* -- a kernel that does nothing ---------------------------------------------------------------- */

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry nothing(.param .align 8 .b8 arguments[%zu])\n"
                          "{\n\tret;\n}\n";
static const char source[] = "struct alignas(8) args { char bytes[%zu]; };\n"
                             "extern \"C\" __global__ void nothing(const args a) { (void)a; }\n";

struct compiler {
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*size)(void *, size_t *), (*copy)(void *, char *), (*destroy)(void **);
    int (*log_size)(void *, size_t *), (*log)(void *, char *);
};

static void *symbol_find(void *from, const char *name)
{
    void *symbol = dlsym(from, name);
    if (!symbol)
        give_up(1, "PHASOR_NVRTC lacks a function", name);
    return symbol;
}

static void compiler_open(struct compiler *out)
{
    const char *path = getenv("PHASOR_NVRTC");
    void *from = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
    if (!from)
        give_up(1, "the driver takes no PTX, and PHASOR_NVRTC cannot be opened", path);
    *(void **)&out->create = symbol_find(from, "nvrtcCreateProgram");
    *(void **)&out->compile = symbol_find(from, "nvrtcCompileProgram");
    *(void **)&out->size = symbol_find(from, "nvrtcGetCUBINSize");
    *(void **)&out->copy = symbol_find(from, "nvrtcGetCUBIN");
    *(void **)&out->destroy = symbol_find(from, "nvrtcDestroyProgram");
    *(void **)&out->log_size = symbol_find(from, "nvrtcGetProgramLogSize");
    *(void **)&out->log = symbol_find(from, "nvrtcGetProgramLog");
}

static void compile_fail(const struct compiler *compiler, void *program)
{
    char *log = NULL;
    size_t size = 0;
    if (compiler->log_size(program, &size) == 0 && (log = calloc(1, size + 1)))
        compiler->log(program, log);
    give_up(1, "NVRTC does not compile the kernel of the bare launches", log);
}

/* malloc'ed */
static char *nothing_compile(size_t nbytes)
{
    static const char *const options[] = {"--gpu-architecture=sm_90"};
    struct compiler compiler;
    char text[512];
    void *program = NULL;
    size_t size = 0;
    compiler_open(&compiler);
    snprintf(text, sizeof text, source, nbytes);
    if (compiler.create(&program, text, "nothing.cu", 0, NULL, NULL) != 0)
        give_up(1, "NVRTC takes no program", NULL);
    if (compiler.compile(program, 1, options) != 0 || compiler.size(program, &size) != 0)
        compile_fail(&compiler, program);
    char *cubin = malloc(size);
    if (!cubin || compiler.copy(program, cubin) != 0)
        give_up(1, "NVRTC does not give the kernel of the bare launches", NULL);
    compiler.destroy(&program);
    return cubin;
}

void driver_nothing_load(void **module, void **function, size_t nbytes)
{
    char text[512];
    snprintf(text, sizeof text, ptx, nbytes);
    if (driver.ModuleLoadData(module, text) != 0) {
        char *cubin = nothing_compile(nbytes);
        CUDA(ModuleLoadData(module, cubin));
        free(cubin);
    }
    CUDA(ModuleGetFunction(function, *module, "nothing"));
}

int driver_launch(void *function, unsigned grid, unsigned block, void *arguments, size_t nbytes,
                  void *stream)
{
    /* CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END */
    void *extra[] = {(void *)1, arguments, (void *)2, &nbytes, (void *)0};
    return driver.LaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, NULL, extra);
}
