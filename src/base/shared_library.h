/* shared_library.h - finds the file of a library that NVIDIA ships: NVRTC, cuBLASLt and their like.
 *
 * Candidates in order: the file that a variable names, else bare names, for the loader's own search,
 * then files that exist:
 *     libnvrtc.so.13, libnvrtc.so.12, libnvrtc.so, /usr/local/cuda/lib64/libnvrtc.so.13.0.88 ...
 */
#pragma once
#include "base/status.h"

#include <stdbool.h>

struct library_search {
    const char *name;     /* "NVRTC", for messages */
    const char *variable; /* "PHASOR_NVRTC" */
    const char *const *loader_names;
    int loader_name_count;
    const char *file;                 /* "libnvrtc.so" */
    const char *wheel;                /* folder of the Python wheel: "cuda_nvrtc" */
    const char *symbol;               /* that it certainly has */
    const char *advice;               /* the end of the message when there is none */
    phasor_status missing;            /* the status of that */
    void (*before)(const char *path); /* is called before a file is opened; may be NULL */
};

struct shared_library {
    void *handle;
    char *path;     /* of the file that was opened, links resolved */
    char build[32]; /* "13.0.88" when the file's name or its package says so, else "" */
};

phasor_status shared_library_open(const struct library_search *search, struct shared_library *out);
void shared_library_close(struct shared_library *library);
