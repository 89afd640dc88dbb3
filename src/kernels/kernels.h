/* kernels.h - kernels that are loaded on a device, each once for its source.
 *
 *     a recipe's kernel  ->  the table of loaded kernels, else the cache, else NVRTC  ->  a module
 */
#pragma once
#include "executable/recipe.h"
#include "kernels/flight.h"

struct phasor_runtime;

struct loaded_kernel {
    struct flight flight; /* first */
    struct phasor_runtime *runtime;
    struct device_module *module; /* NULL on a runtime that runs nothing */
    struct device_function *function;
};

/* The kernel of a recipe: loaded already, in the cache, or compiled from its source. Without a
 * source a kernel that the cache does not have gives *missing and PHASOR_OK. Release with
 * flight_release(&runtime->kernels, ...). */
phasor_status kernel_get(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                         struct loaded_kernel **out, bool *missing);
/* One that is loaded; PHASOR_NOT_READY: it is not. */
phasor_status kernel_ready(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                           struct loaded_kernel **out);
void kernel_destroy(struct flight *entry);
