/* device_none.c - device.h for a build without the CUDA headers: there is no device, and
 * device_count says why. */
#include "device/device.h"

#ifndef PHASOR_CUDA

static phasor_status device_absent(void)
{
    return fail(PHASOR_ERROR_DEVICE,
                "this Phasor was built without CUDA (PHASOR_CUDA=OFF) and has the CPU device only; "
                "build it where the CUDA headers are found");
}

/* No device can be opened, so that what takes one is never called. */

phasor_status device_count(int *count)
{
    *count = 0;
    return device_absent();
}

phasor_status device_driver_version(int *version)
{
    *version = 0;
    return device_absent();
}

phasor_status device_describe(int ordinal, struct device_info *out)
{
    (void)ordinal;
    *out = (struct device_info){0};
    return device_absent();
}

phasor_status device_open(int ordinal, struct device **out)
{
    (void)ordinal;
    *out = NULL;
    return device_absent();
}

void device_close(struct device *device)
{
    (void)device;
}

struct device *device_retain(struct device *device)
{
    return device;
}

void device_release(struct device *device)
{
    (void)device;
}

const char *device_arch(const struct device *device)
{
    (void)device;
    return "";
}

const char *device_name(const struct device *device)
{
    (void)device;
    return "";
}

int device_ordinal(const struct device *device)
{
    (void)device;
    return 0;
}

phasor_status device_enter(struct device *device, struct device_scope *scope)
{
    (void)device;
    (void)scope;
    return device_absent();
}

void device_leave(struct device *device, const struct device_scope *scope)
{
    (void)device;
    (void)scope;
}

phasor_status device_module_load(struct device *device, const void *cubin, size_t nbytes,
                                 struct device_module **out)
{
    (void)device;
    (void)cubin;
    (void)nbytes;
    (void)out;
    return device_absent();
}

void device_module_unload(struct device_module *module)
{
    (void)module;
}

phasor_status device_module_function(struct device_module *module, const char *name,
                                     struct device_function **out)
{
    (void)module;
    (void)name;
    (void)out;
    return device_absent();
}

phasor_status device_function_resources(const struct device_function *function,
                                        struct device_resources *out)
{
    (void)function;
    (void)out;
    return device_absent();
}

phasor_status device_launch(struct device *device, const struct device_function *function,
                            uint32_t grid, uint32_t block, uint32_t shared_bytes,
                            const void *arguments, size_t arguments_size, void *stream)
{
    (void)device;
    (void)function;
    (void)grid;
    (void)block;
    (void)shared_bytes;
    (void)arguments;
    (void)arguments_size;
    (void)stream;
    return device_absent();
}

phasor_status device_allocate(struct device *device, size_t nbytes, void **pointer, void *stream)
{
    (void)device;
    (void)nbytes;
    (void)pointer;
    (void)stream;
    return device_absent();
}

void device_free(struct device *device, void *pointer, void *stream)
{
    (void)device;
    (void)pointer;
    (void)stream;
}

phasor_status device_block_new(struct device *device, size_t nbytes, void *stream,
                               struct device_block **out)
{
    (void)device;
    (void)nbytes;
    (void)stream;
    (void)out;
    return device_absent();
}

void *device_block_pointer(const struct device_block *block)
{
    (void)block;
    return NULL;
}

void device_block_free(struct device_block *block)
{
    (void)block;
}

phasor_status device_upload(struct device *device, void *to, const void *from, size_t nbytes,
                            void *stream)
{
    (void)device;
    (void)to;
    (void)from;
    (void)nbytes;
    (void)stream;
    return device_absent();
}

phasor_status device_download(struct device *device, void *to, const void *from, size_t nbytes,
                              void *stream)
{
    (void)device;
    (void)to;
    (void)from;
    (void)nbytes;
    (void)stream;
    return device_absent();
}

phasor_status device_copy(struct device *device, void *to, const void *from, size_t nbytes,
                          void *stream)
{
    (void)device;
    (void)to;
    (void)from;
    (void)nbytes;
    (void)stream;
    return device_absent();
}

phasor_status device_fill_zero(struct device *device, void *to, size_t nbytes, void *stream)
{
    (void)device;
    (void)to;
    (void)nbytes;
    (void)stream;
    return device_absent();
}

phasor_status device_flag_new(struct device *device, uint32_t **out)
{
    (void)device;
    (void)out;
    return device_absent();
}

void device_flag_free(struct device *device, uint32_t *flag)
{
    (void)device;
    (void)flag;
}

phasor_status device_wait_all(struct device *device)
{
    (void)device;
    return device_absent();
}

phasor_status device_synchronize(struct device *device, void *stream)
{
    (void)device;
    (void)stream;
    return device_absent();
}

bool device_stream_is_capturing(struct device *device, void *stream)
{
    (void)device;
    (void)stream;
    return false;
}

phasor_status device_stream_new(struct device *device, void **stream)
{
    (void)device;
    (void)stream;
    return device_absent();
}

void device_stream_free(struct device *device, void *stream)
{
    (void)device;
    (void)stream;
}

phasor_status device_event_new(struct device *device, bool timing, struct device_event **out)
{
    (void)device;
    (void)timing;
    (void)out;
    return device_absent();
}

void device_event_free(struct device_event *event)
{
    (void)event;
}

phasor_status device_event_record(struct device_event *event, void *stream)
{
    (void)event;
    (void)stream;
    return device_absent();
}

phasor_status device_event_wait(struct device_event *event, void *stream)
{
    (void)event;
    (void)stream;
    return device_absent();
}

phasor_status device_event_synchronize(struct device_event *event)
{
    (void)event;
    return device_absent();
}

phasor_status device_event_done(struct device_event *event, bool *done)
{
    (void)event;
    (void)done;
    return device_absent();
}

phasor_status device_event_milliseconds(struct device_event *from, struct device_event *to,
                                        double *milliseconds)
{
    (void)from;
    (void)to;
    (void)milliseconds;
    return device_absent();
}

#endif
