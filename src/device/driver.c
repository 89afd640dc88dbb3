/* driver.c - see driver.h. Nothing -> a table of function pointers, made once for the process. */
#include "device/driver.h"

#ifdef PHASOR_CUDA

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

/* A failed start is tried again by the next call: a driver may be loaded into the kernel meanwhile.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct driver table;
static const struct driver *ready;

phasor_status driver_check(const struct driver *driver, CUresult result, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS)
        return PHASOR_OK;
    if (driver->GetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "an unknown error";
    if (driver->GetErrorString(result, &text) != CUDA_SUCCESS || !text)
        text = "no description";
    const phasor_status status =
        result == CUDA_ERROR_OUT_OF_MEMORY ? PHASOR_ERROR_MEMORY : PHASOR_ERROR_DEVICE;
    return fail(status, "%s: %s, error %d (%s)", what, name, (int)result, text);
}

static phasor_status driver_resolve(struct driver *driver, void *library, const char *name)
{
#define RESOLVE(field, symbol, type) \
    driver->field = (__typeof__(driver->field))dlsym(library, symbol);
#define REQUIRE(field, symbol, type)                                                          \
    RESOLVE(field, symbol, type)                                                              \
    if (!driver->field)                                                                       \
        return fail(PHASOR_ERROR_DEVICE,                                                      \
                    "%s has no function " symbol "; a driver for CUDA 12 or newer is needed", \
                    name);
    DRIVER_REQUIRED(REQUIRE)
    DRIVER_OPTIONAL(RESOLVE)
#undef REQUIRE
#undef RESOLVE
    driver->has_libraries = driver->LibraryLoadData && driver->LibraryUnload &&
                            driver->LibraryGetKernel && driver->KernelGetFunction;
    driver->has_pools = driver->MemPoolCreate && driver->MemPoolDestroy &&
                        driver->MemPoolSetAttribute && driver->MemPoolTrimTo &&
                        driver->MemAllocFromPoolAsync && driver->MemFreeAsync;
    return PHASOR_OK;
}

static phasor_status driver_start(struct driver *driver, const char *name)
{
    const CUresult result = driver->Init(0);
    if (result == CUDA_ERROR_NO_DEVICE)
        return fail(PHASOR_ERROR_DEVICE,
                    "the CUDA driver finds no device: check that nvidia-smi lists one and that "
                    "CUDA_VISIBLE_DEVICES does not hide it");
    TRY(driver_check(driver, result, "cuInit"));
    if (driver->DriverGetVersion(&driver->version) != CUDA_SUCCESS)
        return fail(PHASOR_ERROR_DEVICE, "%s does not say its version", name);
    return PHASOR_OK;
}

static phasor_status driver_open(struct driver *driver)
{
    const char *named = getenv("PHASOR_DRIVER");
    const char *name = named && *named ? named : "libcuda.so.1";
    /* Never unmapped: its threads and the callers' contexts outlive this use. */
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *reason = dlerror();
        return fail(PHASOR_ERROR_DEVICE,
                    "no CUDA driver: %s. Install the NVIDIA driver%s, or use the CPU device",
                    reason ? reason : name, name == named ? " or correct PHASOR_DRIVER" : "");
    }
    phasor_status status = driver_resolve(driver, library, name);
    if (status == PHASOR_OK)
        status = driver_start(driver, name);
    if (status != PHASOR_OK)
        dlclose(library);
    return status;
}

phasor_status driver_get(const struct driver **out)
{
    *out = __atomic_load_n(&ready, __ATOMIC_ACQUIRE);
    if (*out)
        return PHASOR_OK;
    pthread_mutex_lock(&lock);
    phasor_status status = PHASOR_OK;
    if (!ready) {
        status = driver_open(&table);
        if (status == PHASOR_OK)
            __atomic_store_n(&ready, &table, __ATOMIC_RELEASE);
    }
    *out = ready;
    pthread_mutex_unlock(&lock);
    return status;
}

#endif
