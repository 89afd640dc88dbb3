/* device.h - one CUDA device: its memory, its modules, launches. All that the rest of Phasor knows
 * of the driver.
 *
 *     struct device *device;
 *     struct device_scope scope;
 *     TRY(device_open(0, &device));
 *     TRY(device_enter(device, &scope));      from here to leave, its context is current
 *     TRY(device_module_load(device, cubin, nbytes, &module));
 *     TRY(device_module_function(module, "mul", &function));
 *     TRY(device_launch(device, function, grid, 128, 0, &arguments, sizeof arguments, stream));
 *     device_leave(device, &scope);
 *
 * Threads. Every function may be called from any thread; those that take a stream, a module or an
 * event need device_enter before. Several devices can be open at once; nothing is shared but the
 * table of the driver's functions. A stream is a CUstream; NULL is the legacy default stream.
 *
 * Contexts. The device uses the context that is current at device_open when that is of the same
 * device, else the primary context. device_enter keeps whatever context of the same device is
 * current, so that a caller's own streams stay valid.
 *
 * Capture. Between enter and leave the thread's capture mode is "relaxed": what is loaded,
 * allocated or waited for here neither fails because another stream captures nor breaks that
 * capture. On a stream that captures itself only launches, copies and fills are allowed.
 *
 * Memory that outlives a run. An output is freed by its consumer, on any thread, perhaps after the
 * stream was destroyed, while a capture goes on elsewhere, or after the runtime was closed. At that
 * moment nothing may be asked of the driver: naming a destroyed stream crashes, an event of the
 * whole context breaks captures, a synchronisation stalls. So device_block_free only puts the block
 * on the device's list. The next allocation on a stream T takes from the list the blocks that were
 * made for T (compared by the stream's id, which is never used twice, and T is alive because the
 * caller has just named it) and frees them in the order of T: after everything that was issued on T
 * until then, so also after what was issued before the consumer's call. Blocks of other streams
 * wait for a call on their stream; when memory runs out, when they exceed a bound, or when the
 * device is closed, all work is waited for once and all of them are freed.
 */
#pragma once
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct device_module;
struct device_function;
struct device_block;
struct device_event;

/* -- devices ----------------------------------------------------------------------------------- */

/* How many devices there are, at least 1. PHASOR_ERROR_DEVICE, with the reason, when there is no
 * driver or no device. */
phasor_status device_count(int *count);
/* The driver's version as CUDA counts it, 13000 for 13.0. */
phasor_status device_driver_version(int *version);

struct device_info {
    char name[128]; /* "NVIDIA H200" */
    char arch[16];  /* "sm_90" */
    size_t memory;  /* bytes */
};
/* What a device is, without making a context on it. */
phasor_status device_describe(int ordinal, struct device_info *out);

/* An open device keeps one small allocation for itself. */
phasor_status device_open(int ordinal, struct device **out);
/* Ends the use by device_open. The device goes with its last block and its last device_release.
 * NULL is fine. */
void device_close(struct device *device);
struct device *device_retain(struct device *device);
void device_release(struct device *device);

const char *device_arch(const struct device *device);
const char *device_name(const struct device *device);
int device_ordinal(const struct device *device);

struct device_scope {
    bool pushed;
    int capture_mode;
};
/* Makes a context of the device current for this thread, until device_leave with the same scope. */
phasor_status device_enter(struct device *device, struct device_scope *scope);
void device_leave(struct device *device, const struct device_scope *scope);

/* -- modules and launches ---------------------------------------------------------------------- */

/* The bytes may be freed afterwards. PHASOR_ERROR_DEVICE: cut short, no cubin, or refused by the
 * driver. Whole but altered bytes can crash the driver: what comes from a file must have passed its
 * checksum. An image for another arch may load and be refused by device_module_function only. */
phasor_status device_module_load(struct device *device, const void *cubin, size_t nbytes,
                                 struct device_module **out);
/* NULL is fine; nothing of it may be running. */
void device_module_unload(struct device_module *module);
/* Valid as long as the module; its code is on the device from here on. */
phasor_status device_module_function(struct device_module *module, const char *name,
                                     struct device_function **out);

struct device_resources {
    int registers, local_bytes, shared_bytes; /* local: spills and arrays, for a thread */
};
phasor_status device_function_resources(const struct device_function *function,
                                        struct device_resources *out);

/* One argument, a struct passed by value, of exactly the size that the kernel declares. A grid of
 * 0: success, no launch. */
phasor_status device_launch(struct device *device, const struct device_function *function,
                            uint32_t grid, uint32_t block, uint32_t shared_bytes,
                            const void *arguments, size_t arguments_size, void *stream);

/* -- memory ------------------------------------------------------------------------------------ */

/* Aligned to at least 256 bytes; 0 bytes give a pointer too. Ordered on the stream, both of them.
 * PHASOR_ERROR_MEMORY: the device has no such memory left. */
phasor_status device_allocate(struct device *device, size_t nbytes, void **pointer, void *stream);
void device_free(struct device *device, void *pointer, void *stream); /* NULL is fine */

/* Memory for an output of a run on `stream`: see above. A block keeps its device alive. */
phasor_status device_block_new(struct device *device, size_t nbytes, void *stream,
                               struct device_block **out);
void *device_block_pointer(const struct device_block *block);
/* Any thread, any time, no context needed. NULL is fine. */
void device_block_free(struct device_block *block);

/* All in the order of the stream. Host memory must stay as it is until the stream has passed the
 * copy. */
phasor_status device_upload(struct device *device, void *to, const void *from, size_t nbytes,
                            void *stream);
phasor_status device_download(struct device *device, void *to, const void *from, size_t nbytes,
                              void *stream);
phasor_status device_copy(struct device *device, void *to, const void *from, size_t nbytes,
                          void *stream);
phasor_status device_fill_zero(struct device *device, void *to, size_t nbytes, void *stream);

/* A number in host memory, 0 at first, that kernels reach at the same address: it is read without a
 * copy. Freed when no kernel can write it any more; others get it then. */
phasor_status device_flag_new(struct device *device, uint32_t **out);
void device_flag_free(struct device *device, uint32_t *flag); /* NULL is fine */

/* -- streams and events ------------------------------------------------------------------------ */

/* Waits for the work of the stream and reports an error that it ran into. */
phasor_status device_synchronize(struct device *device, void *stream);
/* Waits for the work of all streams, without breaking a capture that goes on in one of them. */
phasor_status device_wait_all(struct device *device);
/* Whether the stream is capturing, or was and its capture is broken. Costs next to nothing, so it
 * is asked first. */
bool device_stream_is_capturing(struct device *device, void *stream);

/* A stream that does not wait for the default stream. */
phasor_status device_stream_new(struct device *device, void **stream);
void device_stream_free(struct device *device, void *stream);

/* A point in a stream's work. With timing, two of them measure. */
phasor_status device_event_new(struct device *device, bool timing, struct device_event **out);
void device_event_free(struct device_event *event); /* NULL is fine */
phasor_status device_event_record(struct device_event *event, void *stream);
/* What is issued on the stream from now on waits for the event. */
phasor_status device_event_wait(struct device_event *event, void *stream);
phasor_status device_event_synchronize(struct device_event *event);
phasor_status device_event_done(struct device_event *event, bool *done);
phasor_status device_event_milliseconds(struct device_event *from, struct device_event *to,
                                        double *milliseconds);
