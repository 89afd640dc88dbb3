/* device_stream.c - see device.h: streams, whether they capture, and events. */
#include "device/device_private.h"

#ifdef PHASOR_CUDA

#include "base/memory.h"

struct device_event {
    struct device *device;
    CUevent event;
};

phasor_status device_synchronize(struct device *device, void *stream)
{
    return driver_check(device->driver, device->driver->StreamSynchronize(stream),
                        "waiting for a stream");
}

/* The default stream cannot say while another stream captures: using it would break that capture.
 * Any other error is left to the call that uses the stream. */
bool device_stream_is_capturing(struct device *device, void *stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return device->driver->StreamIsCapturing(stream, &status) ==
               CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

phasor_status device_stream_new(struct device *device, void **stream)
{
    CUstream created = NULL;
    const phasor_status status =
        driver_check(device->driver, device->driver->StreamCreate(&created, CU_STREAM_NON_BLOCKING),
                     "cuStreamCreate");
    *stream = created;
    return status;
}

void device_stream_free(struct device *device, void *stream)
{
    if (stream)
        device->driver->StreamDestroy(stream);
}

phasor_status device_event_new(struct device *device, bool timing, struct device_event **out)
{
    *out = NULL;
    struct device_event *event = memory_new(sizeof *event);
    if (!event)
        return fail_memory();
    const unsigned flags = timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
    const phasor_status status = driver_check(
        device->driver, device->driver->EventCreate(&event->event, flags), "cuEventCreate");
    if (status != PHASOR_OK) {
        memory_free(event);
        return status;
    }
    event->device = device_retain(device);
    *out = event;
    return PHASOR_OK;
}

void device_event_free(struct device_event *event)
{
    if (!event)
        return;
    event->device->driver->EventDestroy(event->event);
    device_release(event->device);
    memory_free(event);
}

phasor_status device_event_record(struct device_event *event, void *stream)
{
    return driver_check(event->device->driver,
                        event->device->driver->EventRecord(event->event, stream),
                        "recording an event");
}

phasor_status device_event_wait(struct device_event *event, void *stream)
{
    return driver_check(event->device->driver,
                        event->device->driver->StreamWaitEvent(stream, event->event, 0),
                        "waiting for an event on a stream");
}

phasor_status device_event_synchronize(struct device_event *event)
{
    return driver_check(event->device->driver,
                        event->device->driver->EventSynchronize(event->event),
                        "waiting for an event");
}

phasor_status device_event_done(struct device_event *event, bool *done)
{
    const CUresult result = event->device->driver->EventQuery(event->event);
    *done = result == CUDA_SUCCESS;
    if (result == CUDA_ERROR_NOT_READY)
        return PHASOR_OK;
    return driver_check(event->device->driver, result, "asking for an event");
}

phasor_status device_event_milliseconds(struct device_event *from, struct device_event *to,
                                        double *milliseconds)
{
    float elapsed = 0;
    const phasor_status status =
        driver_check(from->device->driver,
                     from->device->driver->EventElapsedTime(&elapsed, from->event, to->event),
                     "measuring between two events");
    *milliseconds = (double)elapsed;
    return status;
}

#endif
