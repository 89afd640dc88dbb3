/* device_flags.c - see device.h: numbers in host memory that kernels write and the host reads.
 *
 *     flag 0, flag 1, ... flag 63   ->   bytes 0, 64, ... 4032 of one page of pinned memory
 *
 * Pinning takes the driver a millisecond, and freeing what was pinned half of that (H200). The first
 * page is there with the device, so that no call waits for it.
 */
#include "device/device_private.h"

#ifdef PHASOR_CUDA

#include "base/memory.h"

enum { FLAG_BYTES = 64, PAGE_FLAGS = 64 }; /* a cache line each, a bit of `taken` each */

struct flag_page {
    struct flag_page *next;
    char *bytes;
    uint64_t taken;
};

static phasor_status page_new(struct device *device, struct flag_page **out)
{
    struct flag_page *page = memory_new(sizeof *page);
    if (!page)
        return fail_memory();
    const phasor_status status = driver_check(
        device->driver,
        device->driver->MemHostAlloc((void **)&page->bytes, FLAG_BYTES * PAGE_FLAGS,
                                     CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
        "allocating pinned host memory");
    if (status != PHASOR_OK)
        memory_free(page);
    else
        *out = page;
    return status;
}

static void page_add(struct device *device, struct flag_page *page)
{
    pthread_mutex_lock(&device->lock);
    page->next = device->flags;
    device->flags = page;
    pthread_mutex_unlock(&device->lock);
}

/* NULL: all are taken. */
static uint32_t *flag_take(struct device *device)
{
    uint32_t *flag = NULL;
    pthread_mutex_lock(&device->lock);
    struct flag_page *page = device->flags;
    while (page && page->taken == UINT64_MAX)
        page = page->next;
    if (page) {
        const int at = __builtin_ctzll(~page->taken);
        page->taken |= 1ull << at;
        flag = (uint32_t *)(void *)(page->bytes + at * FLAG_BYTES);
    }
    pthread_mutex_unlock(&device->lock);
    return flag;
}

phasor_status device_flags_open(struct device *device)
{
    struct flag_page *page = NULL;
    TRY(page_new(device, &page));
    page_add(device, page);
    return PHASOR_OK;
}

void device_flags_close(struct device *device)
{
    while (device->flags) {
        struct flag_page *page = device->flags;
        device->flags = page->next;
        device->driver->MemFreeHost(page->bytes);
        memory_free(page);
    }
}

phasor_status device_flag_new(struct device *device, uint32_t **out)
{
    while (!(*out = flag_take(device)))
        TRY(device_flags_open(device));
    **out = 0;
    return PHASOR_OK;
}

void device_flag_free(struct device *device, uint32_t *flag)
{
    if (!flag)
        return;
    pthread_mutex_lock(&device->lock);
    struct flag_page *page = device->flags;
    while ((uintptr_t)flag - (uintptr_t)page->bytes >= FLAG_BYTES * PAGE_FLAGS)
        page = page->next;
    page->taken &= ~(1ull << (((uintptr_t)flag - (uintptr_t)page->bytes) / FLAG_BYTES));
    pthread_mutex_unlock(&device->lock);
}

#endif
