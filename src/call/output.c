/* output.c - see output.h. */
#include "call/output.h"

#include "base/memory.h"
#include "graph/graph.h"

#include <string.h>

enum { HOST_ALIGNMENT = 64 };

/* -- shared memory ----------------------------------------------------------------------------- */

static void host_release(void *block)
{
    memory_free(block);
}

phasor_status memory_inside(void *bytes, void (*release)(void *), void *owner, struct memory **out)
{
    *out = memory_new(sizeof **out);
    if (!*out)
        return fail_memory();
    **out = (struct memory){.references = 1, .bytes = bytes, .release = release, .owner = owner};
    return PHASOR_OK;
}

phasor_status memory_host(size_t nbytes, struct memory **out)
{
    *out = NULL;
    if (nbytes > SIZE_MAX / 2)
        return fail_memory();
    char *block = memory_new(nbytes + HOST_ALIGNMENT);
    if (!block)
        return fail_memory();
    char *aligned = block + (HOST_ALIGNMENT - (uintptr_t)block % HOST_ALIGNMENT) % HOST_ALIGNMENT;
    const phasor_status status = memory_inside(aligned, host_release, block, out);
    if (status != PHASOR_OK)
        memory_free(block);
    else
        (*out)->nbytes = nbytes;
    return status;
}

phasor_status memory_device(struct device *device, size_t nbytes, void *stream, struct memory **out)
{
    struct device_block *block;
    *out = NULL;
    TRY(device_block_new(device, nbytes, stream, &block));
    const phasor_status status = memory_inside(device_block_pointer(block), NULL, NULL, out);
    if (status != PHASOR_OK) {
        device_block_free(block);
        return status;
    }
    (*out)->block = block;
    (*out)->nbytes = nbytes;
    return PHASOR_OK;
}

/* A block is freed in the order of its stream, or after all work when that stream is never named
 * again. So a stream that exists only here makes the second the only way. */
phasor_status memory_lasting(struct device *device, size_t nbytes, struct memory **out)
{
    void *stream;
    *out = NULL;
    TRY(device_stream_new(device, &stream));
    phasor_status status = memory_device(device, nbytes, stream, out);
    if (status == PHASOR_OK)
        status = device_synchronize(device, stream);
    device_stream_free(device, stream);
    if (status != PHASOR_OK) {
        memory_release(*out);
        *out = NULL;
    }
    return status;
}

struct memory *memory_retain(struct memory *memory)
{
    if (memory)
        __atomic_add_fetch(&memory->references, 1, __ATOMIC_RELAXED);
    return memory;
}

void memory_release(struct memory *memory)
{
    if (!memory || __atomic_sub_fetch(&memory->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    device_block_free(memory->block);
    if (memory->release)
        memory->release(memory->owner);
    memory_free(memory);
}

/* -- handles ----------------------------------------------------------------------------------- */

struct handle {
    DLManagedTensor managed;
    int64_t sizes[RANK_MAX], strides[RANK_MAX];
};

static void handle_delete(DLManagedTensor *managed)
{
    memory_release(managed->manager_ctx);
    memory_free((struct handle *)(void *)managed); /* its first member */
}

phasor_status output_new(const struct output_tensor *tensor, struct memory *memory,
                         DLManagedTensor **out)
{
    struct handle *handle = memory_new(sizeof *handle);
    *out = NULL;
    if (!handle)
        return fail_memory();
    memcpy(handle->sizes, tensor->sizes, (size_t)tensor->rank * sizeof *handle->sizes);
    memcpy(handle->strides, tensor->strides, (size_t)tensor->rank * sizeof *handle->strides);
    handle->managed = (DLManagedTensor){
        .dl_tensor = {.data = tensor->data,
                      .device = tensor->device,
                      .ndim = tensor->rank,
                      .dtype = dtype_to_dlpack(tensor->dtype),
                      .shape = handle->sizes,
                      .strides = handle->strides,
                      .byte_offset = (uint64_t)tensor->byte_offset},
        .manager_ctx = memory_retain(memory),
        .deleter = handle_delete,
    };
    *out = &handle->managed;
    return PHASOR_OK;
}
