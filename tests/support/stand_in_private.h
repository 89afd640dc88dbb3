/* stand_in_private.h - what the two files of the stand-in driver know of each other. Everything
 * that cuda.h declares is exported from it, whatever the preset for visibility. */
#pragma once

#ifdef PHASOR_CUDA
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <stdbool.h>
#include <stddef.h>

CUresult stand_in_misuse(CUresult result); /* counts it and returns the result */
CUresult stand_in_injected(const char *function);
CUcontext stand_in_context(void); /* the current one, or NULL */
int stand_in_context_device(CUcontext context);

size_t stand_in_memory_limit(void);
bool stand_in_stream_valid(CUstream stream);
bool stand_in_capturing(CUstream stream);
/* A call that is not allowed now because a stream captures; breaks the capture, as the driver does.
 */
bool stand_in_capture_forbids(void);
CUresult stand_in_capture_launch(CUstream stream, CUfunction function, unsigned grid,
                                 unsigned block, const void *arguments, size_t nbytes);
CUresult stand_in_launch(CUfunction function, unsigned grid, unsigned block, const void *arguments);

#define INJECT(symbol)                                        \
    do {                                                      \
        const CUresult injected_ = stand_in_injected(symbol); \
        if (injected_ != CUDA_SUCCESS)                        \
            return injected_;                                 \
    } while (0)
#define NEED_CONTEXT()                                          \
    do {                                                        \
        INJECT("*");                                            \
        if (!stand_in_context())                                \
            return stand_in_misuse(CUDA_ERROR_INVALID_CONTEXT); \
    } while (0)
#define NEED_STREAM(stream)                                    \
    do {                                                       \
        INJECT("*");                                           \
        if (!stand_in_stream_valid(stream))                    \
            return stand_in_misuse(CUDA_ERROR_INVALID_HANDLE); \
    } while (0)
#endif
