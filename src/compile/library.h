/* library.h - finds the file of NVRTC.
 *
 * Candidates in order: bare names, for the loader's own search, then files that exist:
 *     libnvrtc.so.13, libnvrtc.so.12, libnvrtc.so, /usr/local/cuda/lib64/libnvrtc.so.13.0.88 ...
 */
#pragma once
#include "base/status.h"

struct library {
    void *handle;
    char *path;     /* of the file that was opened, links resolved */
    char build[32]; /* "13.0.88" when the file's name or its package says so, else "" */
};

phasor_status library_open(struct library *out);
void library_close(struct library *library);
