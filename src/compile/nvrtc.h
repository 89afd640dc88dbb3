/* nvrtc.h - CUDA text in, cubin out. NVRTC is opened at run time: a process that finds every kernel
 * in its cache never needs it, and the same binary runs where it is not installed.
 *
 *     struct compiler *compiler;
 *     struct compile_result result;
 *     TRY(compiler_open(&compiler));
 *     const struct compile_request request = {.name = "mul.cu", .source = text, .arch = "sm_90"};
 *     TRY(compiler_run(compiler, &request, &result));
 *
 * An open compiler may be used by any number of threads at once.
 */
#pragma once
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct compiler;

/* Opens PHASOR_NVRTC when that is set, and nothing else then; otherwise the first libnvrtc that is
 * found on the loader's path, in CUDA_PATH, CUDA_HOME, /usr/local/cuda*, beside this library, or in
 * an installed Python wheel. PHASOR_ERROR_COMPILE: none; the message says where it looked and what
 * to do. */
phasor_status compiler_open(struct compiler **out);
/* The same in processes of this command, a list of words that ends with NULL: workers.h. This
 * process never opens NVRTC. */
phasor_status compiler_open_workers(const char *const *command, struct compiler **out);
void compiler_close(struct compiler *compiler); /* NULL is fine */

/* The options that depend neither on arch nor on version; known without a compiler. */
const char *compiler_fixed_options(void);

/* All valid as long as the compiler. */
const char *compiler_version(
    const struct compiler *compiler);                       /* "nvrtc 13.0.88", or "nvrtc 13.0" */
const char *compiler_path(const struct compiler *compiler); /* the file that was opened */
const char *const *compiler_archs(const struct compiler *compiler,
                                  int *count); /* "sm_75", "sm_80" ... */
bool compiler_knows_arch(const struct compiler *compiler, const char *arch);
/* The options for the arch as one string; "" for an arch that NVRTC does not know. */
const char *compiler_options_text(const struct compiler *compiler, const char *arch);

struct compile_request {
    const char *name; /* shown in NVRTC's messages */
    const char *source;
    const char *arch; /* "sm_90" */
    bool want_ptx;    /* for people to read; costs a second compile */
};

struct compile_result {
    void *cubin;
    size_t cubin_size;
    char *ptx; /* NULL unless wanted */
    double milliseconds;
};

/* PHASOR_ERROR_COMPILE: the message has NVRTC's log and the source with line numbers; out is all
 * zero then. */
phasor_status compiler_run(struct compiler *compiler, const struct compile_request *request,
                           struct compile_result *out);
void compile_result_free(struct compile_result *result);
