/* workers.h - NVRTC in processes of their own: a crash of the compiler ends one of them and fails
 * one compile.
 *
 *     this process                                    a worker: COMMAND, socket on standard input
 *     workers_run(request)   -- name, source, arch ->  workers_serve()
 *                            <- status, cubin --       compiler_run(), then waits for the next
 *
 * NVRTC holds locks of its own during most of a compile, so that threads of one process wait for
 * each other; processes do not. There are as many workers as there ever were compiles at once.
 */
#pragma once
#include "compile/nvrtc.h"

struct workers;

/* What the first worker said of its compiler. Valid as long as the workers. */
struct workers_hello {
    char *version, *path;
    char *archs; /* a line each: "sm_90\t--gpu-architecture=sm_90 --minimal ..." */
};

/* Starts the first worker; the same command again gives the same workers. PHASOR_ERROR_COMPILE: the
 * command cannot be started or is no worker, or its message where it has no compiler. */
phasor_status workers_open(const char *const *command, struct workers **out);
void workers_close(struct workers *workers); /* NULL is fine; no compile of the caller is running */
const struct workers_hello *workers_hello(const struct workers *workers);

/* From any number of threads. PHASOR_ERROR_COMPILE, too, where the worker died: the message says by
 * which signal. */
phasor_status workers_run(struct workers *workers, const struct compile_request *request,
                          struct compile_result *out);

/* The other side: compiles what comes over the socket until that is closed. */
phasor_status workers_serve(int socket);
