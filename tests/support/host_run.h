/* host_run.h - runs generated CUDA text on the CPU: the very bytes that NVRTC would get, compiled
 * as C++ by `c++`.
 *
 *     struct host_module *module;
 *     if (!host_compile(sources, names, 100, &module))            one call a core
 *         puts(host_error());
 *     host_launch(module, 7, "mul", grid, block, &arguments);     kernel "mul" of sources[7]
 *
 * Threads of a block run one after the other; one that waits (__syncthreads, a shuffle) lets the
 * others run. Needs nothing of Phasor, so that the stand-ins for NVRTC and the driver use it too.
 */
#pragma once
#include "host_state.h"

#include <stdbool.h>
#include <stddef.h>

struct host_module;

bool host_compile(const char *const *sources, const char *const *names, int count,
                  struct host_module **out);
void host_close(struct host_module *module); /* NULL is fine */
bool host_launch(struct host_module *module, int index, const char *name, unsigned grid,
                 unsigned block, const void *arguments);

/* Why the last call of this thread failed: a sentence, and the compiler's words. */
const char *host_error(void);

/* -- the parts, for the stand-ins -------------------------------------------------------------- */

/* The bytes of a shared object with the kernels of one source, to be freed with free(). */
bool host_build(const char *source, const char *name, void **bytes, size_t *nbytes);
/* "host_0_mul": the symbol of a kernel; the same with "_size" is its host_kernel_size. */
void host_symbol(char symbol[256], int index, const char *name);
/* false: threads of a block waited at different places, which a GPU would hang on. */
bool host_run_kernel(host_kernel *kernel, unsigned grid, unsigned block, const void *arguments);
