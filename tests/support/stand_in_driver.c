/* stand_in_driver.c - the CUDA driver's functions over the CPU: devices, contexts, modules,
 * launches. See stand_in.h. stand_in_memory.c has memory, streams, events and graphs.
 *
 * Strict where the driver's documents are: a wrong context, a dead stream, a pointer that is none,
 * a call that may not be made while a stream captures are errors here, and are counted. Kernels run
 * in the call that launches them.
 */
#include "stand_in_private.h"

#ifdef PHASOR_CUDA

#include "host_run.h"
#include "stand_in.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DEVICES_MOST = 8, STACK_MOST = 32 };

static struct stand_in_device {
    char arch[16];
    struct CUctx_st *primary;
} devices[DEVICES_MOST];
static int device_total;
static pthread_once_t started = PTHREAD_ONCE_INIT;

struct CUctx_st {
    CUdevice device;
    int uses; /* of a primary context */
};

static _Thread_local CUcontext stack[STACK_MOST];
static _Thread_local int depth;

static long launches, misuses, modules, contexts;

#pragma GCC visibility push(default)
long stand_in_launches(void);
long stand_in_misuses(void);
long stand_in_modules(void);
long stand_in_contexts(void);
long stand_in_launches(void)
{
    return __atomic_load_n(&launches, __ATOMIC_RELAXED);
}

long stand_in_misuses(void)
{
    return __atomic_load_n(&misuses, __ATOMIC_RELAXED);
}

long stand_in_modules(void)
{
    return __atomic_load_n(&modules, __ATOMIC_RELAXED);
}

long stand_in_contexts(void)
{
    return __atomic_load_n(&contexts, __ATOMIC_RELAXED);
}
#pragma GCC visibility pop

CUresult stand_in_misuse(CUresult result)
{
    __atomic_add_fetch(&misuses, 1, __ATOMIC_RELAXED);
    return result;
}

CUresult stand_in_injected(const char *function)
{
    const char *list = getenv("PHASOR_STAND_IN_FAIL");
    const size_t length = strlen(function);
    for (const char *s = list; s && *s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
        if (strncmp(s, function, length) == 0 && s[length] == '=')
            return (CUresult)atoi(s + length + 1);
    return CUDA_SUCCESS;
}

CUcontext stand_in_context(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

int stand_in_context_device(CUcontext context)
{
    return context->device;
}

/* -- devices ----------------------------------------------------------------------------------- */

static void devices_read(void)
{
    const char *list = getenv("PHASOR_STAND_IN_ARCHS");
    if (!list)
        list = "sm_90";
    if (strcmp(list, "none") == 0)
        return;
    while (*list && device_total < DEVICES_MOST) {
        const size_t length = strcspn(list, ",");
        snprintf(devices[device_total++].arch, sizeof devices->arch, "%.*s", (int)length, list);
        list += length + (list[length] == ',');
    }
}

CUresult cuInit(unsigned flags)
{
    (void)flags;
    INJECT("cuInit");
    pthread_once(&started, devices_read);
    return device_total ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

static const struct {
    CUresult result;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
};

CUresult cuGetErrorName(CUresult result, const char **name)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].result == result) {
            *name = errors[i].name;
            return CUDA_SUCCESS;
        }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].result == result) {
            *text = errors[i].text;
            return CUDA_SUCCESS;
        }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = device_total;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (ordinal < 0 || ordinal >= device_total)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    snprintf(name, (size_t)length, "stand-in %s", devices[device].arch);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *nbytes, CUdevice device)
{
    (void)device;
    *nbytes = stand_in_memory_limit();
    return CUDA_SUCCESS;
}

static int arch_number(const char *arch)
{
    const char *digits = strchr(arch, '_');
    return digits ? atoi(digits + 1) : 0;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = arch_number(devices[device].arch) / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = arch_number(devices[device].arch) % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    default: *value = 0; return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* -- contexts ---------------------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    INJECT("cuDevicePrimaryCtxRetain");
    pthread_mutex_lock(&lock);
    if (!devices[device].primary)
        devices[device].primary = calloc(1, sizeof *devices[device].primary);
    devices[device].primary->device = device;
    *context = devices[device].primary;
    pthread_mutex_unlock(&lock);
    __atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    __atomic_sub_fetch(&contexts, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    if (depth == STACK_MOST)
        return stand_in_misuse(CUDA_ERROR_INVALID_VALUE);
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    if (depth == 0)
        return stand_in_misuse(CUDA_ERROR_INVALID_CONTEXT);
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = stand_in_context();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    if (depth == 0)
        depth = 1;
    stack[depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    NEED_CONTEXT();
    *device = stand_in_context()->device;
    return CUDA_SUCCESS;
}

#pragma GCC visibility push(default)
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    (void)flags;
    struct CUctx_st *created = calloc(1, sizeof *created);
    created->device = device;
    *context = created;
    return cuCtxPushCurrent(created);
}
#pragma GCC visibility pop

CUresult cuCtxDestroy(CUcontext context)
{
    if (stand_in_context() == context)
        depth--;
    free(context);
    return CUDA_SUCCESS;
}

/* -- modules ----------------------------------------------------------------------------------- */

struct CUfunc_st {
    host_kernel *kernel;
    host_kernel_size *size;
    struct CUfunc_st *next;
};

/* A library and a module are one thing here; so are a kernel and its function. */
struct CUlib_st {
    void *handle;
    int file; /* open as long as the handle: the loader knows objects by their path, which has its
                 number */
    char arch[16];
    struct CUfunc_st *functions;
};

/* Where the section headers end, which is where a shared object from the linker ends; 0 for any
 * other image. */
static size_t object_size(const void *image)
{
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        memcmp(header.e_ident + STAND_IN_MARK_AT, STAND_IN_MARK, STAND_IN_MARK_SIZE) != 0)
        return 0;
    return header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
}

static bool file_write(int file, const char *bytes, size_t nbytes)
{
    while (nbytes > 0) {
        const ssize_t written = write(file, bytes, nbytes);
        if (written <= 0)
            return false;
        bytes += written;
        nbytes -= (size_t)written;
    }
    return true;
}

static void *image_open(const void *image, size_t nbytes, int *out)
{
    static const char no_mark[STAND_IN_MARK_SIZE] = {0};
    const char *bytes = image;
    char path[64];
    void *handle = NULL;
    const int file = memfd_create("kernels", MFD_CLOEXEC);
    if (file < 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (file_write(file, bytes, STAND_IN_MARK_AT) &&
        file_write(file, no_mark, STAND_IN_MARK_SIZE) &&
        file_write(file, bytes + EI_NIDENT, nbytes - EI_NIDENT))
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    *out = file;
    if (!handle)
        close(file);
    return handle;
}

static CUresult library_load(struct CUlib_st **out, const void *image)
{
    struct stand_in_trailer trailer;
    const size_t nbytes = object_size(image);
    if (stand_in_capture_forbids())
        return stand_in_misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (nbytes == 0)
        return CUDA_ERROR_INVALID_IMAGE;
    memcpy(&trailer, (const char *)image + nbytes, sizeof trailer);
    if (trailer.nbytes != nbytes)
        return CUDA_ERROR_INVALID_IMAGE;
    struct CUlib_st *library = calloc(1, sizeof *library);
    library->handle = image_open(image, nbytes, &library->file);
    if (!library->handle) {
        free(library);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    memcpy(library->arch, trailer.arch, sizeof library->arch);
    *out = library;
    __atomic_add_fetch(&modules, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

/* The same major and no newer minor. */
static bool arch_serves(const char *code, const char *device)
{
    const int from = arch_number(code), to = arch_number(device);
    return from / 10 == to / 10 && from % 10 <= to % 10;
}

static CUresult function_find(CUfunction *out, struct CUlib_st *library, const char *name)
{
    char symbol[256], size_symbol[300];
    host_symbol(symbol, 0, name);
    snprintf(size_symbol, sizeof size_symbol, "%s_size", symbol);
    host_kernel *kernel = (host_kernel *)dlsym(library->handle, symbol);
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    struct CUfunc_st *function = calloc(1, sizeof *function);
    function->kernel = kernel;
    function->size = (host_kernel_size *)dlsym(library->handle, size_symbol);
    function->next = library->functions;
    library->functions = function;
    *out = function;
    return CUDA_SUCCESS;
}

static CUresult library_unload(struct CUlib_st *library)
{
    while (library->functions) {
        struct CUfunc_st *next = library->functions->next;
        free(library->functions);
        library->functions = next;
    }
    dlclose(library->handle);
    close(library->file);
    free(library);
    __atomic_sub_fetch(&modules, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options,
                           void **jit_values, unsigned jit_count, CUlibraryOption *options,
                           void **values, unsigned count)
{
    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)options;
    (void)values;
    (void)count;
    INJECT("cuLibraryLoadData");
    NEED_CONTEXT();
    return library_load((struct CUlib_st **)library, code);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    return library_unload((struct CUlib_st *)library);
}

/* As the driver does it lazily: an image for another arch is found out here. */
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    INJECT("cuLibraryGetKernel");
    NEED_CONTEXT();
    if (!arch_serves(((struct CUlib_st *)library)->arch, devices[stand_in_context()->device].arch))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    return function_find((CUfunction *)kernel, (struct CUlib_st *)library, name);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    INJECT("cuModuleLoadData");
    NEED_CONTEXT();
    return library_load((struct CUlib_st **)module, image);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    return function_find(function, (struct CUlib_st *)module, name);
}

CUresult cuModuleUnload(CUmodule module)
{
    return library_unload((struct CUlib_st *)module);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    (void)function;
    *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? 16 : 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *nbytes)
{
    if (index != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    *nbytes = function->size();
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    (void)function;
    (void)attribute;
    return value > 227 * 1024 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* -- launches ---------------------------------------------------------------------------------- */

CUresult stand_in_launch(CUfunction function, unsigned grid, unsigned block, const void *arguments)
{
    __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
    return host_run_kernel(function->kernel, grid, block, arguments) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_LAUNCH_FAILED;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra)
{
    const void *arguments = parameters ? parameters[0] : NULL;
    (void)shared_bytes;
    INJECT("cuLaunchKernel");
    NEED_CONTEXT();
    NEED_STREAM(stream);
    if (extra) {
        if (extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE ||
            *(const size_t *)extra[3] != function->size())
            return stand_in_misuse(CUDA_ERROR_INVALID_VALUE);
        arguments = extra[1];
    }
    if (!arguments || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 ||
        block_x == 0 || block_x > 1024)
        return stand_in_misuse(CUDA_ERROR_INVALID_VALUE);
    if (stand_in_capturing(stream))
        return stand_in_capture_launch(stream, function, grid_x, block_x, arguments,
                                       function->size());
    return stand_in_launch(function, grid_x, block_x, arguments);
}

#endif
