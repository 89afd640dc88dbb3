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
    bool is_primary;   /* the context was retained here */
    CUmemoryPool pool; /* NULL: memory without order on streams */
    void *freeing; /* a stream of our own, for what is freed when no caller's stream may be named */
    CUdeviceptr
        waiter; /* a small allocation: freeing it waits for the whole device, see wait_for_all */
    int references; /* atomic */
    bool closed;    /* atomic: no run will come to take blocks off the list */

    pthread_mutex_t lock; /* of the lists */
    struct flag_page *flags;
    struct device_block *returned;
    size_t returned_bytes, returned_count; /* written under the lock, read without it */
};

/* The pool and the list, for device_open and for the end of the device. memory_close frees what is
 * on the list. */
phasor_status device_memory_open(struct device *device);
void device_memory_close(struct device *device);
/* The first page of flags, or a further one; all of them. */
phasor_status device_flags_open(struct device *device);
void device_flags_close(struct device *device);
/* Waits for all work of the device and frees every block on the list. */
void device_memory_reclaim(struct device *device);
#endif
