/* device.c - see device.h. An ordinal -> a device with its context; entering and leaving that
 * context. */
#include "device/device_private.h"

#ifdef PHASOR_CUDA

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

phasor_status device_count(int *count)
{
    const struct driver *driver;
    *count = 0;
    TRY(driver_get(&driver));
    TRY(driver_check(driver, driver->DeviceGetCount(count), "cuDeviceGetCount"));
    if (*count < 1)
        return fail(PHASOR_ERROR_DEVICE,
                    "the CUDA driver finds no device: check that nvidia-smi lists one and that "
                    "CUDA_VISIBLE_DEVICES does not hide it");
    return PHASOR_OK;
}

phasor_status device_driver_version(int *version)
{
    const struct driver *driver;
    *version = 0;
    TRY(driver_get(&driver));
    *version = driver->version;
    return PHASOR_OK;
}

/* -- opening ----------------------------------------------------------------------------------- */

static phasor_status device_read(const struct driver *driver, int ordinal, CUdevice *handle,
                                 struct device_info *info)
{
    int count, major, minor;
    TRY(device_count(&count));
    if (ordinal < 0 || ordinal >= count)
        return fail(PHASOR_ERROR_DEVICE,
                    "there is no device %d; the driver has %d, numbered from 0", ordinal, count);
    TRY(driver_check(driver, driver->DeviceGet(handle, ordinal), "cuDeviceGet"));
    TRY(driver_check(driver, driver->DeviceGetName(info->name, (int)sizeof info->name, *handle),
                     "cuDeviceGetName"));
    TRY(driver_check(driver, driver->DeviceTotalMem(&info->memory, *handle), "cuDeviceTotalMem"));
    TRY(driver_check(
        driver,
        driver->DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, *handle),
        "cuDeviceGetAttribute"));
    TRY(driver_check(
        driver,
        driver->DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, *handle),
        "cuDeviceGetAttribute"));
    snprintf(info->arch, sizeof info->arch, "sm_%d%d", major, minor);
    return PHASOR_OK;
}

phasor_status device_describe(int ordinal, struct device_info *out)
{
    const struct driver *driver;
    CUdevice handle;
    *out = (struct device_info){0};
    TRY(driver_get(&driver));
    return device_read(driver, ordinal, &handle, out);
}

/* Whether the current context of this thread is of the device, and which it is. */
static bool context_is_ours(const struct device *device, CUcontext *context)
{
    CUdevice current;
    if (device->driver->CtxGetCurrent(context) != CUDA_SUCCESS || !*context)
        return false;
    return *context == device->context ||
           (device->driver->CtxGetDevice(&current) == CUDA_SUCCESS && current == device->handle);
}

/* A further device may be opened while this thread captures a stream of another. */
static phasor_status context_open(struct device *device)
{
    CUcontext current;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (context_is_ours(device, &current)) {
        device->context = current;
        return PHASOR_OK;
    }
    device->driver->ThreadExchangeStreamCaptureMode(&mode);
    const CUresult result =
        device->driver->DevicePrimaryCtxRetain(&device->context, device->handle);
    device->driver->ThreadExchangeStreamCaptureMode(&mode);
    device->is_primary = result == CUDA_SUCCESS;
    return driver_check(device->driver, result, "cuDevicePrimaryCtxRetain");
}

static phasor_status device_setup(struct device *device, int ordinal)
{
    struct device_scope scope;
    device->ordinal = ordinal;
    TRY(driver_get(&device->driver));
    TRY(device_read(device->driver, ordinal, &device->handle, &device->info));
    TRY(context_open(device));
    TRY(device_enter(device, &scope));
    const phasor_status status = device_memory_open(device);
    device_leave(device, &scope);
    return status;
}

/* At the exit of the process the driver may be gone already: its errors mean that there is nothing
 * left to free. */
static void device_destroy(struct device *device)
{
    struct device_scope scope;
    if (device->context && device_enter(device, &scope) == PHASOR_OK) {
        device_memory_close(device);
        device_leave(device, &scope);
    }
    if (device->is_primary)
        device->driver->DevicePrimaryCtxRelease(device->handle);
    pthread_mutex_destroy(&device->lock);
    memory_free(device);
}

phasor_status device_open(int ordinal, struct device **out)
{
    *out = NULL;
    struct device *device = memory_new(sizeof *device);
    if (!device)
        return fail_memory();
    device->references = 1;
    pthread_mutex_init(&device->lock, NULL);
    const phasor_status status = device_setup(device, ordinal);
    if (status == PHASOR_OK)
        *out = device;
    else
        device_destroy(device);
    return status;
}

void device_close(struct device *device)
{
    struct device_scope scope;
    if (!device)
        return;
    __atomic_store_n(&device->closed, true, __ATOMIC_RELEASE);
    if (device_enter(device, &scope) == PHASOR_OK) {
        device_memory_reclaim(device);
        device_leave(device, &scope);
    }
    device_release(device);
}

struct device *device_retain(struct device *device)
{
    __atomic_add_fetch(&device->references, 1, __ATOMIC_RELAXED);
    return device;
}

void device_release(struct device *device)
{
    if (device && __atomic_sub_fetch(&device->references, 1, __ATOMIC_ACQ_REL) == 0)
        device_destroy(device);
}

/* -- what it is -------------------------------------------------------------------------------- */

const char *device_arch(const struct device *device)
{
    return device->info.arch;
}

const char *device_name(const struct device *device)
{
    return device->info.name;
}

int device_ordinal(const struct device *device)
{
    return device->ordinal;
}

/* -- the current context ----------------------------------------------------------------------- */

phasor_status device_enter(struct device *device, struct device_scope *scope)
{
    CUcontext current = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    *scope = (struct device_scope){0};
    if (!context_is_ours(device, &current)) {
        TRY(driver_check(device->driver, device->driver->CtxPushCurrent(device->context),
                         "cuCtxPushCurrent"));
        scope->pushed = true;
    }
    device->driver->ThreadExchangeStreamCaptureMode(&mode);
    scope->capture_mode = (int)mode;
    return PHASOR_OK;
}

void device_leave(struct device *device, const struct device_scope *scope)
{
    CUcontext popped;
    CUstreamCaptureMode mode = (CUstreamCaptureMode)scope->capture_mode;
    device->driver->ThreadExchangeStreamCaptureMode(&mode);
    if (scope->pushed)
        device->driver->CtxPopCurrent(&popped);
}

#endif
