/* driver.h - the functions of the CUDA driver that are used. Private to src/device/, the only
 * folder that knows cuda.h.
 *
 * libcuda.so.1 is opened at run time (PHASOR_DRIVER names another file), once for the process, on
 * the first need. A row is: the field, the symbol, the function in cuda.h whose type it has.
 * Symbols are spelled with their version: what the header of a newer toolkit makes of a name may
 * not be in an older driver.
 */
#pragma once
#include "base/status.h"

#ifdef PHASOR_CUDA
#include <cuda.h>

/* In every driver that CUDA 12 runs on. */
#define DRIVER_REQUIRED(X)                                                                \
    X(Init, "cuInit", cuInit)                                                             \
    X(DriverGetVersion, "cuDriverGetVersion", cuDriverGetVersion)                         \
    X(GetErrorName, "cuGetErrorName", cuGetErrorName)                                     \
    X(GetErrorString, "cuGetErrorString", cuGetErrorString)                               \
    X(DeviceGetCount, "cuDeviceGetCount", cuDeviceGetCount)                               \
    X(DeviceGet, "cuDeviceGet", cuDeviceGet)                                              \
    X(DeviceGetName, "cuDeviceGetName", cuDeviceGetName)                                  \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", cuDeviceTotalMem)                            \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", cuDeviceGetAttribute)                   \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain)       \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", cuDevicePrimaryCtxRelease) \
    X(CtxGetCurrent, "cuCtxGetCurrent", cuCtxGetCurrent)                                  \
    X(CtxGetDevice, "cuCtxGetDevice", cuCtxGetDevice)                                     \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", cuCtxPushCurrent)                            \
    X(CtxPopCurrent, "cuCtxPopCurrent_v2", cuCtxPopCurrent)                               \
    X(ModuleLoadData, "cuModuleLoadData", cuModuleLoadData)                               \
    X(ModuleGetFunction, "cuModuleGetFunction", cuModuleGetFunction)                      \
    X(ModuleUnload, "cuModuleUnload", cuModuleUnload)                                     \
    X(FuncGetAttribute, "cuFuncGetAttribute", cuFuncGetAttribute)                         \
    X(FuncSetAttribute, "cuFuncSetAttribute", cuFuncSetAttribute)                         \
    X(LaunchKernel, "cuLaunchKernel", cuLaunchKernel)                                     \
    X(MemAlloc, "cuMemAlloc_v2", cuMemAlloc)                                              \
    X(MemFree, "cuMemFree_v2", cuMemFree)                                                 \
    X(MemHostAlloc, "cuMemHostAlloc", cuMemHostAlloc)                                     \
    X(MemFreeHost, "cuMemFreeHost", cuMemFreeHost)                                        \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", cuMemcpyHtoDAsync)                         \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", cuMemcpyDtoHAsync)                         \
    X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", cuMemcpyDtoDAsync)                         \
    X(MemsetD8Async, "cuMemsetD8Async", cuMemsetD8Async)                                  \
    X(StreamCreate, "cuStreamCreate", cuStreamCreate)                                     \
    X(StreamDestroy, "cuStreamDestroy_v2", cuStreamDestroy)                               \
    X(StreamSynchronize, "cuStreamSynchronize", cuStreamSynchronize)                      \
    X(StreamWaitEvent, "cuStreamWaitEvent", cuStreamWaitEvent)                            \
    X(StreamIsCapturing, "cuStreamIsCapturing", cuStreamIsCapturing)                      \
    X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode",               \
      cuThreadExchangeStreamCaptureMode)                                                  \
    X(EventCreate, "cuEventCreate", cuEventCreate)                                        \
    X(EventRecord, "cuEventRecord", cuEventRecord)                                        \
    X(EventQuery, "cuEventQuery", cuEventQuery)                                           \
    X(EventSynchronize, "cuEventSynchronize", cuEventSynchronize)                         \
    X(EventElapsedTime, "cuEventElapsedTime", cuEventElapsedTime)                         \
    X(EventDestroy, "cuEventDestroy_v2", cuEventDestroy)

/* NULL where the driver lacks them. */
#define DRIVER_OPTIONAL(X)                                                       \
    X(LibraryLoadData, "cuLibraryLoadData", cuLibraryLoadData)                   \
    X(LibraryUnload, "cuLibraryUnload", cuLibraryUnload)                         \
    X(LibraryGetKernel, "cuLibraryGetKernel", cuLibraryGetKernel)                \
    X(KernelGetFunction, "cuKernelGetFunction", cuKernelGetFunction)             \
    X(FuncLoad, "cuFuncLoad", cuFuncLoad)                                        \
    X(FuncGetParamInfo, "cuFuncGetParamInfo", cuFuncGetParamInfo)                \
    X(StreamGetId, "cuStreamGetId", cuStreamGetId)                               \
    X(MemPoolCreate, "cuMemPoolCreate", cuMemPoolCreate)                         \
    X(MemPoolDestroy, "cuMemPoolDestroy", cuMemPoolDestroy)                      \
    X(MemPoolSetAttribute, "cuMemPoolSetAttribute", cuMemPoolSetAttribute)       \
    X(MemPoolTrimTo, "cuMemPoolTrimTo", cuMemPoolTrimTo)                         \
    X(MemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync) \
    X(MemFreeAsync, "cuMemFreeAsync", cuMemFreeAsync)

struct driver {
#define DRIVER_FIELD(name, symbol, type) __typeof__(&type) name;
    DRIVER_REQUIRED(DRIVER_FIELD)
    DRIVER_OPTIONAL(DRIVER_FIELD)
#undef DRIVER_FIELD
    int version; /* 13000 */
    bool has_libraries, has_pools;
};

/* PHASOR_ERROR_DEVICE with the reason when there is no driver or it does not start. Later calls
 * cost one load. */
phasor_status driver_get(const struct driver **out);

/* PHASOR_OK, or the message "what: CUDA_ERROR_X, error 1 (the driver's text)" with
 * PHASOR_ERROR_MEMORY or PHASOR_ERROR_DEVICE. */
phasor_status driver_check(const struct driver *driver, CUresult result, const char *what);
#endif
