/* output.h - memory that several owners share, and the tensors handed to the caller that show it.
 *
 *     out0 = view of m, out1 = m   ->   two DLManagedTensors, one struct memory with two references
 *
 * The last owner frees it: a deleter of an output on any thread, perhaps long after the runtime was
 * closed, a state, or a program. Nothing here takes a lock or asks the driver for anything.
 */
#pragma once
#include "device/device.h"
#include "graph/dtype.h"

struct memory {
    int references; /* atomic */
    char *bytes;    /* host address, or an address of the device */
    size_t nbytes;
    struct device_block *block;   /* device memory */
    void (*release)(void *owner); /* memory inside of something else: gives that up */
    void *owner;
};

/* Host memory, zeroed, aligned to 64 bytes. */
phasor_status memory_host(size_t nbytes, struct memory **out);
/* Device memory for outputs of a run on the stream. */
phasor_status memory_device(struct device *device, size_t nbytes, void *stream,
                            struct memory **out);
/* Device memory that no single stream orders: it is freed only after all work of the device. Needs
 * device_enter. */
phasor_status memory_lasting(struct device *device, size_t nbytes, struct memory **out);
/* Memory inside of `owner`, which release() gives up at the end. On failure the owner is not given
 * up. */
phasor_status memory_inside(void *bytes, void (*release)(void *), void *owner, struct memory **out);
struct memory *memory_retain(struct memory *memory);
void memory_release(struct memory *memory); /* NULL is fine */

struct output_tensor {
    DLDevice device;
    enum dtype dtype;
    int rank;
    const int64_t *sizes, *strides; /* elements; copied */
    void *data;                     /* the start of the memory, equal for all that share it */
    int64_t byte_offset;            /* of the first element */
};
/* A new handle on the memory (retained here), or on the caller's own memory when that is NULL. */
phasor_status output_new(const struct output_tensor *tensor, struct memory *memory,
                         DLManagedTensor **out);
