/* copy.c - phasor_copy_to_host: a tensor from anywhere, of any strides, as row-major host memory.
 *
 *     f32[2, 3], strides 1, 2, on the device   ->   6 floats in row-major order
 */
#include "call/call.h"
#include "context/twins.h"
#include "eval/strided.h"

#include <string.h>

/* The bytes between a tensor's lowest and highest element, brought to the host. */
static phasor_status span_fetch(struct phasor_runtime *runtime, const char *from, size_t nbytes,
                                void *to)
{
    struct device *device = runtime->device;
    struct device_scope scope;
    void *stream;
    if (!device)
        return fail(PHASOR_ERROR_USAGE, "device memory, and this runtime has no CUDA device");
    TRY(device_enter(device, &scope));
    phasor_status status = device_wait_all(device);
    if (status == PHASOR_OK && (status = device_stream_new(device, &stream)) == PHASOR_OK) {
        status = device_download(device, to, from, nbytes, stream);
        if (status == PHASOR_OK)
            status = device_synchronize(device, stream);
        device_stream_free(device, stream);
    }
    device_leave(device, &scope);
    return status;
}

/* low, high: bytes of its elements, beside its first one. */
static phasor_status view_of(const DLTensor *tensor, struct strided *out, int64_t *low,
                             int64_t *high)
{
    enum dtype dtype;
    if (!dtype_from_dlpack(tensor->dtype, &dtype) || tensor->ndim < 0 || tensor->ndim > RANK_MAX)
        return fail(PHASOR_ERROR_USAGE,
                    "a tensor of rank %d and DLPack dtype %d with %d bits cannot be copied",
                    tensor->ndim, tensor->dtype.code, tensor->dtype.bits);
    if (tensor->ndim && !tensor->shape)
        return fail(PHASOR_ERROR_USAGE, "the tensor's shape is NULL");
    *out = (struct strided){.dtype = dtype, .rank = tensor->ndim, .count = -1};
    if (!tensor_measure(tensor, dtype_size(dtype), out->sizes, out->strides, low, high))
        return fail(PHASOR_ERROR_USAGE,
                    "a size is negative, or sizes and strides are too large for any memory");
    if (!tensor->data && *low != *high)
        return fail(PHASOR_ERROR_USAGE, "the tensor's data is NULL");
    out->bytes = (char *)((uintptr_t)tensor->data + tensor->byte_offset);
    return PHASOR_OK;
}

phasor_status phasor_copy_to_host(phasor_runtime *runtime, const DLTensor *from, void *to,
                                  size_t nbytes)
{
    struct strided source;
    int64_t low, high;
    NOT_NULL(runtime);
    NOT_NULL(from);
    if (nbytes)
        NOT_NULL(to);
    TRY(view_of(from, &source, &low, &high));
    const struct strided target = strided_new(source.dtype, source.rank, source.sizes, to);
    const size_t needed = (size_t)strided_count(&target) * (size_t)dtype_size(source.dtype);
    if (needed != nbytes)
        return fail(PHASOR_ERROR_USAGE, "room for %zu bytes; the tensor has %zu", nbytes, needed);
    if (low == high)
        return PHASOR_OK;
    if (from->device.device_type == kDLCPU || from->device.device_type == kDLCUDAHost)
        return strided_copy(&target, &source);
    const size_t span = (size_t)(high - low);
    char *copy = memory_new(span);
    if (!copy)
        return fail_memory();
    phasor_status status = PHASOR_OK;
    if (runtime->twins)
        status = runtime_for(runtime, from, &runtime);
    if (status == PHASOR_OK)
        status = span_fetch(runtime, source.bytes + low, span, copy);
    source.bytes = copy - low;
    if (status == PHASOR_OK)
        status = strided_copy(&target, &source);
    memory_free(copy);
    return status;
}
