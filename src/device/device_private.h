/* device_private.h - what the files of src/device/ know of a device and of each other. */
#pragma once
#include "device/device.h"
#include "device/driver.h"

#ifdef PHASOR_CUDA
#include <pthread.h>

struct device {
    const struct driver *driver;
    struct device_info info;
    int ordinal;
    CUdevice handle;
    CUcontext context;
    bool is_primary;     /* the context was retained here */
    CUmemoryPool pool;   /* NULL: memory without order on streams */
    void *freeing;       /* a stream of our own, for what is freed when no caller's stream may be named */
    int references;      /* atomic */
    bool closed;         /* atomic: no run will come to take blocks off the list */

    pthread_mutex_t lock; /* of the list */
    struct device_block *returned;
    size_t returned_bytes;
};

/* The pool and the list, for device_open and for the end of the device. memory_close frees what is on the list. */
phasor_status device_memory_open(struct device *device);
void device_memory_close(struct device *device);
/* Synchronises the context and frees every block on the list. */
void device_memory_reclaim(struct device *device);

/* While this is in force, a capture on another thread neither fails what this thread does nor is broken by it. */
static inline CUstreamCaptureMode capture_mode_relax(const struct device *device)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    device->driver->ThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static inline void capture_mode_restore(const struct device *device, CUstreamCaptureMode mode)
{
    device->driver->ThreadExchangeStreamCaptureMode(&mode);
}
#endif
