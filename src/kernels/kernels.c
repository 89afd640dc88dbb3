/* kernels.c - from a kernel of a recipe to a function that can be launched.
 *
 *     loaded already -> cache -> NVRTC, and into the cache
 *
 * A kernel is known by its key: its source, and the options of the compiler. Programs and
 * specialisations that want the same one share it; two threads that want it at once make it once.
 */
#include "context/runtime.h"
#include "kernels/units.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

void kernel_destroy(struct flight *entry)
{
    struct loaded_kernel *kernel = (struct loaded_kernel *)(void *)entry;
    if (kernel->module)
        runtime_retire(kernel->runtime, kernel->module);
}

/* -- loading ----------------------------------------------------------------------------------- */

/* On a runtime that runs nothing, having the cubin is all. */
phasor_status kernel_load(struct phasor_runtime *runtime, struct loaded_kernel *kernel,
                          const void *cubin, size_t nbytes, const char *name)
{
    struct device_scope scope;
    kernel->runtime = runtime;
    if (!runtime->device)
        return PHASOR_OK;
    TRY(device_enter(runtime->device, &scope));
    phasor_status status = device_module_load(runtime->device, cubin, nbytes, &kernel->module);
    if (status == PHASOR_OK)
        status = device_module_function(kernel->module, name, &kernel->function);
    if (status != PHASOR_OK) {
        device_module_unload(kernel->module);
        kernel->module = NULL;
    }
    device_leave(runtime->device, &scope);
    return status;
}

/* -- the cache --------------------------------------------------------------------------------- */

/* A row that the driver refuses counts as none. It is removed where another can take its place, and
 * else kept for those whose driver takes it. any: nothing can be compiled. */
static phasor_status kernel_find(struct phasor_runtime *runtime, const struct recipe_kernel *wanted,
                                 const char *arch, const char *toolchain, bool any,
                                 struct loaded_kernel *kernel, bool *found)
{
    const struct cache_key_query query = {wanted->key, wanted->key_bytes, wanted->key_size,
                                          arch,        toolchain,         any};
    struct cache_found row = {0};
    *found = false;
    TRY(cache_get_kernel(runtime->cache, &query, &row));
    if (!row.found)
        return PHASOR_OK;
    const phasor_status status = kernel_load(runtime, kernel, row.cubin, row.cubin_size, row.name);
    cache_found_free(&row);
    *found = status == PHASOR_OK;
    if (status == PHASOR_ERROR_MEMORY)
        return status;
    if (status != PHASOR_OK) {
        log_line(LOG_WARNING, "the cubin of %s in the cache is of no use: %s", wanted->name,
                 message_get());
        if (!any)
            cache_drop_kernel(runtime->cache, &query);
    }
    return PHASOR_OK;
}

/* Where nothing can be compiled: a cubin of any version, then of lower minor archs, which run here
 * too. */
static phasor_status kernel_find_any(struct phasor_runtime *runtime,
                                     const struct recipe_kernel *wanted,
                                     struct loaded_kernel *kernel, bool *found)
{
    char lower[32];
    const char *toolchain = runtime_toolchain(runtime); /* says which ones are foreign */
    const int number = atoi(runtime->arch + 3);
    TRY(kernel_find(runtime, wanted, runtime->arch, toolchain, true, kernel, found));
    for (int minor = number % 10 - 1; !*found && minor >= 0; minor--) {
        snprintf(lower, sizeof lower, "sm_%d", number / 10 * 10 + minor);
        TRY(kernel_find(runtime, wanted, lower, toolchain, true, kernel, found));
    }
    return PHASOR_OK;
}

phasor_status kernel_lookup(struct phasor_runtime *runtime, const struct recipe_kernel *wanted,
                            struct loaded_kernel *kernel, bool *found)
{
    const char *toolchain = runtime_toolchain(runtime);
    kernel->runtime = runtime;
    if (toolchain && !runtime->options.no_compile)
        return kernel_find(runtime, wanted, runtime->arch, toolchain, false, kernel, found);
    return kernel_find_any(runtime, wanted, kernel, found);
}

/* Another device's thread or another process may have been faster. */
static phasor_status kernel_compile_once(struct phasor_runtime *runtime, struct compiler *compiler,
                                         const struct recipe_kernel *wanted,
                                         struct loaded_kernel *kernel)
{
    struct turn turn;
    bool again, found = false;
    TRY(turn_take(runtime, wanted, &turn, &again));
    phasor_status status = PHASOR_OK;
    if (again)
        status = kernel_lookup(runtime, wanted, kernel, &found);
    if (status == PHASOR_OK && !found)
        status = unit_compile(runtime, compiler, &(struct unit_part){wanted, kernel}, 1);
    turn_give(&turn);
    return status;
}

/* -- all ways in order ------------------------------------------------------------------------- */

static phasor_status kernel_without_compiler(struct phasor_runtime *runtime,
                                             const struct recipe_kernel *wanted,
                                             struct loaded_kernel *kernel, phasor_status otherwise)
{
    bool found;
    struct text why = {0};
    text_add(&why, message_get());
    phasor_status status = kernel_find_any(runtime, wanted, kernel, &found);
    if (status == PHASOR_OK && !found) {
        status = fail(otherwise, "%s for %s is not in the cache (%s), and %s", wanted->name,
                      runtime->arch, cache_path(runtime->cache), text_get(&why));
        if (status == PHASOR_ERROR_COMPILE)
            count_up(&runtime->compile_failures, 1);
    }
    text_free(&why);
    return status;
}

static phasor_status kernel_make(struct phasor_runtime *runtime, const struct recipe_kernel *wanted,
                                 struct loaded_kernel *kernel, bool *missing)
{
    struct compiler *compiler;
    bool found;
    TRY(kernel_lookup(runtime, wanted, kernel, &found));
    if (found)
        return PHASOR_OK;
    if (!wanted->source) {
        *missing = true;
        return fail(PHASOR_NOT_READY, "%s is not in the cache", wanted->name);
    }
    if (runtime->options.no_compile) {
        fail(PHASOR_NOT_READY, "compiling is forbidden");
        return kernel_without_compiler(runtime, wanted, kernel, PHASOR_NOT_READY);
    }
    const phasor_status status = runtime_compiler(runtime, &compiler);
    if (status != PHASOR_OK)
        return kernel_without_compiler(runtime, wanted, kernel, status);
    return kernel_compile_once(runtime, compiler, wanted, kernel);
}

phasor_status kernel_ready(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                           struct loaded_kernel **out)
{
    struct flight *entry;
    bool owner;
    TRY(flight_get(&runtime->kernels, kernel->key, kernel->key_bytes, kernel->key_size, false,
                   &entry, &owner));
    *out = (struct loaded_kernel *)(void *)entry;
    return entry ? PHASOR_OK : fail(PHASOR_NOT_READY, "%s is not loaded", kernel->name);
}

phasor_status kernel_get(struct phasor_runtime *runtime, const struct recipe_kernel *wanted,
                         struct loaded_kernel **out, bool *missing)
{
    struct flight *entry;
    bool owner;
    *missing = false;
    *out = NULL;
    TRY(flight_get(&runtime->kernels, wanted->key, wanted->key_bytes, wanted->key_size, true,
                   &entry, &owner));
    *out = (struct loaded_kernel *)(void *)entry;
    if (!owner)
        return PHASOR_OK;
    const phasor_status status = kernel_make(runtime, wanted, *out, missing);
    flight_done(&runtime->kernels, entry, status, *missing || status == PHASOR_ERROR_INTERRUPTED);
    if (status != PHASOR_OK)
        *out = NULL;
    return *missing ? PHASOR_OK : status;
}
