/* driver.h - the CUDA driver as these programs call it themselves: contexts, streams, memory,
 * capture, graphs and bare launches. It is opened at run time, the file that PHASOR_DRIVER names or
 * libcuda.so.1, so that the same program runs on a GPU and on the stand-in driver.
 *
 *     driver_open();
 *     void *stream;
 *     CUDA(StreamCreate(&stream, STREAM_NON_BLOCKING));       or a message, and exit 1
 *     ...
 *     driver_finish();          what the stand-in driver counted: no misuse, no memory left
 *
 * No header of CUDA is needed: handles are void *, numbers are those of cuda.h. A row is: the
 * field, the symbol, its parameters. Each function returns a CUresult, 0 for success. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef uint64_t device_pointer;

enum { STREAM_NON_BLOCKING = 1, DRIVER_INVALID_HANDLE = 400 };
enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED, CAPTURE_MODES };
enum { CAPTURE_STATUS_ACTIVE = 1 };

#define DRIVER_FUNCTIONS(X)                                                                    \
    X(Init, "cuInit", (unsigned))                                                              \
    X(GetErrorName, "cuGetErrorName", (int, const char **))                                    \
    X(DeviceGetCount, "cuDeviceGetCount", (int *))                                             \
    X(DeviceGetName, "cuDeviceGetName", (char *, int, int))                                    \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **, int))                      \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int))                          \
    X(CtxCreate, "cuCtxCreate_v2", (void **, unsigned, int))                                   \
    X(CtxDestroy, "cuCtxDestroy_v2", (void *))                                                 \
    X(CtxGetCurrent, "cuCtxGetCurrent", (void **))                                             \
    X(CtxSetCurrent, "cuCtxSetCurrent", (void *))                                              \
    X(CtxSynchronize, "cuCtxSynchronize", (void))                                              \
    X(MemAlloc, "cuMemAlloc_v2", (device_pointer *, size_t))                                   \
    X(MemFree, "cuMemFree_v2", (device_pointer))                                               \
    X(MemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                     \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (device_pointer, const void *, size_t, void *)) \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, device_pointer, size_t, void *))       \
    X(MemsetD8Async, "cuMemsetD8Async", (device_pointer, unsigned char, size_t, void *))       \
    X(StreamCreate, "cuStreamCreate", (void **, unsigned))                                     \
    X(StreamDestroy, "cuStreamDestroy_v2", (void *))                                           \
    X(StreamSynchronize, "cuStreamSynchronize", (void *))                                      \
    X(StreamBeginCapture, "cuStreamBeginCapture_v2", (void *, int))                            \
    X(StreamEndCapture, "cuStreamEndCapture", (void *, void **))                               \
    X(StreamIsCapturing, "cuStreamIsCapturing", (void *, int *))                               \
    X(GraphInstantiate, "cuGraphInstantiateWithFlags", (void **, void *, unsigned long long))  \
    X(GraphLaunch, "cuGraphLaunch", (void *, void *))                                          \
    X(GraphExecDestroy, "cuGraphExecDestroy", (void *))                                        \
    X(GraphDestroy, "cuGraphDestroy", (void *))                                                \
    X(ModuleLoadData, "cuModuleLoadData", (void **, const void *))                             \
    X(ModuleGetFunction, "cuModuleGetFunction", (void **, void *, const char *))               \
    X(ModuleUnload, "cuModuleUnload", (void *))                                                \
    X(LaunchKernel, "cuLaunchKernel",                                                          \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,   \
       void **, void **))

struct driver {
#define DRIVER_FIELD(name, symbol, parameters) int(*name) parameters;
    DRIVER_FUNCTIONS(DRIVER_FIELD)
#undef DRIVER_FIELD
};
extern struct driver driver;

/* A call that must succeed. */
#define CUDA(call) driver_check(driver.call, #call, __FILE__, __LINE__)
void driver_check(int result, const char *call, const char *file, int line);

/* Exit 77 and the reason where there is no driver or no device. */
void driver_open(void);
/* After all is closed. The stand-in driver counts what a GPU forgives: exit 1 when it counted
 * something. */
void driver_finish(void);

int driver_devices(void);
/* Bytes of the device of the current context that are in use, by whomever. */
int64_t driver_memory_used(void);

/* A kernel that does nothing, with one argument of `nbytes` bytes, as Phasor's kernels have one.
 * The driver compiles it from PTX; the stand-in, which takes no PTX, has it from its NVRTC. */
void driver_nothing_load(void **module, void **function, size_t nbytes);
/* The launch as Phasor does it: the arguments as a buffer. */
int driver_launch(void *function, unsigned grid, unsigned block, void *arguments, size_t nbytes,
                  void *stream);
