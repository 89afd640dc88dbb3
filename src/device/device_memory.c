/* device_memory.c - see device.h: allocation, the list of returned blocks, copies.
 *
 *     block A of stream 1, block B of stream 2 returned; an allocation on stream 1
 *  -> A is freed in the order of stream 1, B stays on the list
 *
 * Rules. (1) device_block_free asks nothing of the driver while the runtime lives. (2) A stream is
 * named only by the call that the caller gave it to. (3) The pool is Phasor's own: the limits of
 * the process's default pool stay as they are.
 */
#include "device/device_private.h"

#ifdef PHASOR_CUDA

#include "base/memory.h"

#include <stdint.h>
#include <string.h>

enum { RETURNED_FRACTION = 16 }; /* of the device's memory may lie on the list for other streams */

struct device_block {
    struct device *device;
    void *pointer;
    size_t nbytes;
    unsigned long long stream; /* id of the stream that it was made for */
    struct device_block *next;
};

static CUdeviceptr address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* -- the pool ---------------------------------------------------------------------------------- */

static phasor_status pool_open(struct device *device)
{
    const struct driver *driver = device->driver;
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->handle}};
    cuuint64_t threshold =
        UINT64_MAX; /* keep what is freed: a warm call takes no memory from the system */
    TRY(driver_check(driver, driver->MemPoolCreate(&device->pool, &properties), "cuMemPoolCreate"));
    return driver_check(
        driver,
        driver->MemPoolSetAttribute(device->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
        "cuMemPoolSetAttribute");
}

phasor_status device_memory_open(struct device *device)
{
    int supported = 0;
    if (device->driver->has_pools &&
        device->driver->DeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
                                           device->handle) != CUDA_SUCCESS)
        supported = 0;
    if (supported)
        TRY(pool_open(device));
    TRY(driver_check(device->driver, device->driver->MemAlloc(&device->waiter, 1), "cuMemAlloc"));
    TRY(device_flags_open(device));
    return device_stream_new(device, &device->freeing);
}

/* -- the list of returned blocks --------------------------------------------------------------- */

/* A number for a live stream that no other stream ever has. Without cuStreamGetId the handle must
 * do. */
static unsigned long long stream_id(const struct device *device, void *stream)
{
    unsigned long long id = 0;
    if (device->driver->StreamGetId && device->driver->StreamGetId(stream, &id) == CUDA_SUCCESS)
        return id;
    return (unsigned long long)(uintptr_t)stream;
}

/* Under the lock. */
static void returned_counted(struct device *device, size_t count, size_t nbytes)
{
    __atomic_store_n(&device->returned_count, count, __ATOMIC_RELEASE);
    __atomic_store_n(&device->returned_bytes, nbytes, __ATOMIC_RELEASE);
}

static struct device_block *returned_take_all(struct device *device)
{
    pthread_mutex_lock(&device->lock);
    struct device_block *list = device->returned;
    device->returned = NULL;
    returned_counted(device, 0, 0);
    pthread_mutex_unlock(&device->lock);
    return list;
}

static struct device_block *returned_take_stream(struct device *device, unsigned long long stream)
{
    struct device_block *taken = NULL;
    pthread_mutex_lock(&device->lock);
    for (struct device_block **at = &device->returned; *at;) {
        struct device_block *block = *at;
        if (block->stream != stream) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        returned_counted(device, device->returned_count - 1,
                         device->returned_bytes - block->nbytes);
        block->next = taken;
        taken = block;
    }
    pthread_mutex_unlock(&device->lock);
    return taken;
}

/* The references of the blocks themselves were given up when they were put on the list. */
static void blocks_free(struct device *device, struct device_block *list, void *stream)
{
    while (list) {
        struct device_block *next = list->next;
        device_free(device, list->pointer, stream);
        memory_free(list);
        list = next;
    }
}

static void returned_free_stream(struct device *device, void *stream)
{
    if (__atomic_load_n(&device->returned_count, __ATOMIC_ACQUIRE) == 0)
        return;
    blocks_free(device, returned_take_stream(device, stream_id(device, stream)), stream);
}

static void returned_put_back(struct device *device, struct device_block *list)
{
    pthread_mutex_lock(&device->lock);
    while (list) {
        struct device_block *next = list->next;
        list->next = device->returned;
        device->returned = list;
        returned_counted(device, device->returned_count + 1, device->returned_bytes + list->nbytes);
        list = next;
    }
    pthread_mutex_unlock(&device->lock);
}

/* Waits for all work of the device. cuCtxSynchronize and cuCtxRecordEvent would break a capture
 * that goes on anywhere in the context; freeing memory that came from cuMemAlloc waits for
 * everything too, and leaves captures alone. */
static bool wait_for_all(struct device *device)
{
    CUdeviceptr waiter;
    pthread_mutex_lock(&device->lock);
    waiter = device->waiter;
    device->waiter = 0;
    pthread_mutex_unlock(&device->lock);
    if (!waiter && device->driver->MemAlloc(&waiter, 1) != CUDA_SUCCESS)
        return false;
    return device->driver->MemFree(waiter) != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* For the next wait, which may come when there is no memory left. */
static void waiter_renew(struct device *device)
{
    CUdeviceptr made = 0;
    if (device->driver->MemAlloc(&made, 1) != CUDA_SUCCESS)
        return;
    pthread_mutex_lock(&device->lock);
    const CUdeviceptr spare = device->waiter ? made : 0;
    if (!spare)
        device->waiter = made;
    pthread_mutex_unlock(&device->lock);
    if (spare)
        device->driver->MemFree(spare);
}

phasor_status device_wait_all(struct device *device)
{
    const bool waited = wait_for_all(device);
    waiter_renew(device);
    return waited ? PHASOR_OK
                  : fail(PHASOR_ERROR_DEVICE, "cuda:%d: its work cannot be waited for",
                         device->ordinal);
}

/* The list is taken before the wait: a block that is returned during it may have work that the wait
 * does not cover. */
void device_memory_reclaim(struct device *device)
{
    struct device_block *list = returned_take_all(device);
    if (!list)
        return;
    if (wait_for_all(device))
        blocks_free(device, list, device->freeing);
    else
        returned_put_back(device, list);
    waiter_renew(device);
}

/* Blocks whose work cannot be waited for even now stay allocated. */
void device_memory_close(struct device *device)
{
    device_memory_reclaim(device);
    for (struct device_block *list = returned_take_all(device); list;) {
        struct device_block *next = list->next;
        memory_free(list);
        list = next;
    }
    device_stream_free(device, device->freeing);
    device_flags_close(device);
    if (device->waiter)
        device->driver->MemFree(device->waiter);
    if (device->pool)
        device->driver->MemPoolDestroy(device->pool);
}

static bool returned_too_much(struct device *device)
{
    return __atomic_load_n(&device->returned_bytes, __ATOMIC_RELAXED) >
           device->info.memory / RETURNED_FRACTION;
}

/* -- allocation -------------------------------------------------------------------------------- */

static CUresult allocate_once(struct device *device, size_t nbytes, CUdeviceptr *pointer,
                              void *stream)
{
    return device->pool
               ? device->driver->MemAllocFromPoolAsync(pointer, nbytes, device->pool, stream)
               : device->driver->MemAlloc(pointer, nbytes);
}

/* Everything that is free but kept goes back to the driver. */
static void memory_squeeze(struct device *device, void *stream)
{
    device_memory_reclaim(device);
    device->driver->StreamSynchronize(device->freeing);
    device->driver->StreamSynchronize(stream);
    if (device->pool)
        device->driver->MemPoolTrimTo(device->pool, 0);
}

phasor_status device_allocate(struct device *device, size_t nbytes, void **pointer, void *stream)
{
    CUdeviceptr allocated = 0;
    *pointer = NULL;
    returned_free_stream(device, stream);
    if (returned_too_much(device))
        device_memory_reclaim(device);

    const size_t wanted = nbytes ? nbytes : 1;
    CUresult result = allocate_once(device, wanted, &allocated, stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        memory_squeeze(device, stream);
        result = allocate_once(device, wanted, &allocated, stream);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return fail(PHASOR_ERROR_MEMORY, "%zu bytes of device memory on cuda:%d: out of memory",
                    nbytes, device->ordinal);
    TRY(driver_check(device->driver, result, "allocating device memory"));
    *pointer = (void *)(uintptr_t)allocated;
    return PHASOR_OK;
}

void device_free(struct device *device, void *pointer, void *stream)
{
    if (!pointer)
        return;
    if (device->pool)
        device->driver->MemFreeAsync(address(pointer), stream);
    else
        device->driver->MemFree(address(pointer)); /* waits for the device */
}

phasor_status device_block_new(struct device *device, size_t nbytes, void *stream,
                               struct device_block **out)
{
    *out = NULL;
    struct device_block *block = memory_new(sizeof *block);
    if (!block)
        return fail_memory();
    const phasor_status status = device_allocate(device, nbytes, &block->pointer, stream);
    if (status != PHASOR_OK) {
        memory_free(block);
        return status;
    }
    block->device = device_retain(device);
    block->nbytes = nbytes;
    block->stream = stream_id(device, stream);
    *out = block;
    return PHASOR_OK;
}

void *device_block_pointer(const struct device_block *block)
{
    return block->pointer;
}

void device_block_free(struct device_block *block)
{
    struct device_scope scope;
    if (!block)
        return;
    struct device *device = block->device;
    block->next = NULL;
    returned_put_back(device, block);
    if (__atomic_load_n(&device->closed, __ATOMIC_ACQUIRE) &&
        device_enter(device, &scope) == PHASOR_OK) {
        device_memory_reclaim(device);
        device_leave(device, &scope);
    }
    device_release(device);
}

/* -- copies ------------------------------------------------------------------------------------ */

phasor_status device_upload(struct device *device, void *to, const void *from, size_t nbytes,
                            void *stream)
{
    if (nbytes == 0)
        return PHASOR_OK;
    return driver_check(device->driver,
                        device->driver->MemcpyHtoDAsync(address(to), from, nbytes, stream),
                        "copying to the device");
}

phasor_status device_download(struct device *device, void *to, const void *from, size_t nbytes,
                              void *stream)
{
    if (nbytes == 0)
        return PHASOR_OK;
    return driver_check(device->driver,
                        device->driver->MemcpyDtoHAsync(to, address(from), nbytes, stream),
                        "copying from the device");
}

phasor_status device_copy(struct device *device, void *to, const void *from, size_t nbytes,
                          void *stream)
{
    if (nbytes == 0)
        return PHASOR_OK;
    return driver_check(device->driver,
                        device->driver->MemcpyDtoDAsync(address(to), address(from), nbytes, stream),
                        "copying on the device");
}

phasor_status device_fill_zero(struct device *device, void *to, size_t nbytes, void *stream)
{
    if (nbytes == 0)
        return PHASOR_OK;
    return driver_check(device->driver,
                        device->driver->MemsetD8Async(address(to), 0, nbytes, stream),
                        "clearing device memory");
}

#endif
