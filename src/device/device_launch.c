/* device_launch.c - see device.h: cubin -> module -> function -> launch.
 *
 * Modules are libraries of the driver where it has them (they serve every context), else modules of
 * the context.
 */
#include "device/device_private.h"

#ifdef PHASOR_CUDA

#include "base/memory.h"

#include <elf.h>
#include <string.h>

enum { SHARED_WITHOUT_ASKING = 48 * 1024, GRID_LARGEST = 0x7fffffff };

struct device_function {
    CUfunction function; /* of the context in which it was looked up */
    CUkernel kernel;     /* serves every context; NULL without libraries */
    CUcontext context;
    size_t arguments_size; /* 0: the driver cannot say */
    struct device_function *next;
};

struct device_module {
    struct device *device;
    CUlibrary library; /* one of the two */
    CUmodule module;
    struct device_function *functions;
};

/* -- modules ----------------------------------------------------------------------------------- */

static CUresult module_load(struct device_module *module, const void *cubin)
{
    const struct driver *driver = module->device->driver;
    return driver->has_libraries
               ? driver->LibraryLoadData(&module->library, cubin, NULL, NULL, 0, NULL, NULL, 0)
               : driver->ModuleLoadData(&module->module, cubin);
}

/* The driver takes no length: an image that is shorter than its own header says must not reach it.
 */
static phasor_status image_check(const void *cubin, size_t nbytes)
{
    Elf64_Ehdr header;
    if (nbytes < sizeof header)
        return fail(PHASOR_ERROR_DEVICE, "a module of %zu bytes is no cubin", nbytes);
    memcpy(&header, cubin, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
        return fail(PHASOR_ERROR_DEVICE,
                    "the bytes of a module are no cubin: they do not begin with an ELF header");
    const size_t sections = (size_t)header.e_shnum * header.e_shentsize;
    const size_t segments = (size_t)header.e_phnum * header.e_phentsize;
    if (header.e_shoff > nbytes || sections > nbytes - header.e_shoff || header.e_phoff > nbytes ||
        segments > nbytes - header.e_phoff)
        return fail(PHASOR_ERROR_DEVICE, "a cubin is cut short after %zu bytes", nbytes);
    return PHASOR_OK;
}

/* What the driver says of code from a compiler that is newer than it, among others. */
static phasor_status module_fail(const struct device *device, CUresult result, const char *what)
{
    const int version = device->driver->version;
    const phasor_status status = driver_check(device->driver, result, what);
    if (result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
        result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        return fail_in(
            status,
            "cuda:%d (%s): the driver (for CUDA %d.%d) takes no such code; it may be older "
            "than the compiler (phasor doctor shows both)",
            device->ordinal, device->info.arch, version / 1000, version % 1000 / 10);
    return fail_in(status, "cuda:%d (%s)", device->ordinal, device->info.arch);
}

phasor_status device_module_load(struct device *device, const void *cubin, size_t nbytes,
                                 struct device_module **out)
{
    *out = NULL;
    TRY(image_check(cubin, nbytes));
    struct device_module *module = memory_new(sizeof *module);
    if (!module)
        return fail_memory();
    module->device = device;
    const CUresult result = module_load(module, cubin);
    if (result != CUDA_SUCCESS) {
        memory_free(module);
        return module_fail(device, result, "loading a module");
    }
    device_retain(device);
    *out = module;
    return PHASOR_OK;
}

void device_module_unload(struct device_module *module)
{
    struct device_scope scope;
    if (!module)
        return;
    struct device *device = module->device;
    if (device_enter(device, &scope) == PHASOR_OK) {
        if (module->library)
            device->driver->LibraryUnload(module->library);
        if (module->module)
            device->driver->ModuleUnload(module->module);
        device_leave(device, &scope);
    }
    while (module->functions) {
        struct device_function *next = module->functions->next;
        memory_free(module->functions);
        module->functions = next;
    }
    memory_free(module);
    device_release(device);
}

/* -- functions --------------------------------------------------------------------------------- */

/* Also loads the code now: the driver would do it in the first launch, which may be under capture.
 */
static CUresult function_find(struct device_module *module, const char *name,
                              struct device_function *function)
{
    const struct driver *driver = module->device->driver;
    CUresult result;
    if (module->library) {
        result = driver->LibraryGetKernel(&function->kernel, module->library, name);
        if (result == CUDA_SUCCESS)
            result = driver->KernelGetFunction(&function->function, function->kernel);
    } else {
        result = driver->ModuleGetFunction(&function->function, module->module, name);
    }
    if (result == CUDA_SUCCESS && driver->FuncLoad)
        result = driver->FuncLoad(function->function);
    if (result == CUDA_SUCCESS)
        result = driver->CtxGetCurrent(&function->context);
    size_t offset;
    if (result == CUDA_SUCCESS && driver->FuncGetParamInfo &&
        driver->FuncGetParamInfo(function->function, 0, &offset, &function->arguments_size) !=
            CUDA_SUCCESS)
        function->arguments_size = 0;
    return result;
}

phasor_status device_module_function(struct device_module *module, const char *name,
                                     struct device_function **out)
{
    *out = NULL;
    struct device_function *function = memory_new(sizeof *function);
    if (!function)
        return fail_memory();
    const CUresult result = function_find(module, name, function);
    if (result != CUDA_SUCCESS) {
        memory_free(function);
        return fail_in(module_fail(module->device, result, "finding it in its module"), "kernel %s",
                       name);
    }
    /* A list for unloading: pushed without a lock, so that two threads may look up functions of one
     * module. */
    function->next = __atomic_load_n(&module->functions, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&module->functions, &function->next, function, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
    *out = function;
    return PHASOR_OK;
}

phasor_status device_function_resources(const struct device_function *function,
                                        struct device_resources *out)
{
    const struct driver *driver;
    const CUfunction handle = function->function;
    *out = (struct device_resources){0};
    TRY(driver_get(&driver));
    CUresult result = driver->FuncGetAttribute(&out->registers, CU_FUNC_ATTRIBUTE_NUM_REGS, handle);
    if (result == CUDA_SUCCESS)
        result =
            driver->FuncGetAttribute(&out->local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, handle);
    if (result == CUDA_SUCCESS)
        result = driver->FuncGetAttribute(&out->shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                          handle);
    return driver_check(driver, result, "cuFuncGetAttribute");
}

/* -- launching --------------------------------------------------------------------------------- */

/* The function of the current context; the kernel itself in a context in which it was not looked
 * up. */
static CUfunction function_handle(const struct device *device,
                                  const struct device_function *function)
{
    CUcontext current;
    if (!function->kernel ||
        (device->driver->CtxGetCurrent(&current) == CUDA_SUCCESS && current == function->context))
        return function->function;
    return (CUfunction)function->kernel;
}

phasor_status device_launch(struct device *device, const struct device_function *function,
                            uint32_t grid, uint32_t block, uint32_t shared_bytes,
                            const void *arguments, size_t arguments_size, void *stream)
{
    if (grid == 0)
        return PHASOR_OK;
    if (grid > GRID_LARGEST)
        return fail(PHASOR_ERROR_DEVICE, "a grid of %u blocks; at most %d", grid, GRID_LARGEST);
    /* The driver takes a buffer that is too short, and lets the kernel read what is behind it. */
    if (function->arguments_size && function->arguments_size != arguments_size)
        return fail(PHASOR_ERROR_DEVICE, "a kernel takes arguments of %zu bytes and is given %zu",
                    function->arguments_size, arguments_size);
    const CUfunction handle = function_handle(device, function);
    if (shared_bytes > SHARED_WITHOUT_ASKING)
        TRY(driver_check(
            device->driver,
            device->driver->FuncSetAttribute(
                handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes),
            "asking for shared memory"));
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &arguments_size, CU_LAUNCH_PARAM_END};
    return driver_check(device->driver,
                        device->driver->LaunchKernel(handle, grid, 1, 1, block, 1, 1, shared_bytes,
                                                     stream, NULL, extra),
                        "launching a kernel");
}

#endif
