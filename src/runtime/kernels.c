/* kernels.c - from a kernel of a recipe to a function that can be launched.
 *
 *     loaded already -> cache -> NVRTC, and into the cache
 *
 * A kernel is known by its key: the hash of the templates and the rest of its source. Programs and
 * specialisations that want the same one share it; two threads that want it at once make it once.
 */
#include "runtime/runtime.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kernel_destroy(struct flight *entry)
{
    struct loaded_kernel *kernel = (struct loaded_kernel *)(void *)entry;
    if (kernel->module)
        runtime_retire(kernel->runtime, kernel->module);
}

/* -- loading ----------------------------------------------------------------------------------- */

/* On a runtime that runs nothing, having the cubin is all. */
static phasor_status kernel_load(struct phasor_runtime *runtime, struct loaded_kernel *kernel,
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

/* A row that the driver refuses is removed and counts as none. */
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
    const int number = atoi(runtime->arch + 3);
    TRY(kernel_find(runtime, wanted, runtime->arch, NULL, true, kernel, found));
    for (int minor = number % 10 - 1; !*found && minor >= 0; minor--) {
        snprintf(lower, sizeof lower, "sm_%d", number / 10 * 10 + minor);
        TRY(kernel_find(runtime, wanted, lower, NULL, true, kernel, found));
    }
    return PHASOR_OK;
}

/* -- compiling --------------------------------------------------------------------------------- */

static void dump_write(const char *directory, const char *name, const char *ending,
                       const void *bytes, size_t nbytes)
{
    struct text path = {0};
    text_format(&path, "%s/%s.%s", directory, name, ending);
    FILE *file = text_status(&path) == PHASOR_OK ? fopen(text_get(&path), "wb") : NULL;
    const bool written = file && fwrite(bytes, 1, nbytes, file) == nbytes;
    if ((file && fclose(file) != 0) || !written)
        log_line(LOG_WARNING, "PHASOR_DUMP: %s cannot be written: %s", text_get(&path),
                 strerror(errno));
    text_free(&path);
}

static void dump(const struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                 const struct compile_result *result)
{
    char digits[HASH_TEXT], name[256];
    if (!runtime->dump)
        return;
    hash_text(kernel->key, digits);
    snprintf(name, sizeof name, "%s-%.12s.%s", kernel->name, digits, runtime->arch);
    dump_write(runtime->dump, name, "cu", kernel->source, strlen(kernel->source));
    if (result->cubin)
        dump_write(runtime->dump, name, "cubin", result->cubin, result->cubin_size);
}

static void kernel_keep(struct phasor_runtime *runtime, const struct compiler *compiler,
                        const struct recipe_kernel *wanted, const struct compile_result *result,
                        const struct loaded_kernel *kernel)
{
    struct device_resources resources = {-1, -1, -1};
    if (kernel->function && device_function_resources(kernel->function, &resources) != PHASOR_OK)
        resources = (struct device_resources){-1, -1, -1};
    const struct cache_kernel row = {wanted->key, wanted->key_bytes, wanted->key_size,
                                     wanted->name};
    const struct cache_unit unit = {.arch = runtime->arch,
                                    .toolchain = compiler_version(compiler),
                                    .options = compiler_options_text(compiler, runtime->arch),
                                    .source = wanted->source,
                                    .cubin = result->cubin,
                                    .cubin_size = result->cubin_size,
                                    .compile_ms = result->milliseconds,
                                    .registers = resources.registers,
                                    .spill_bytes = resources.local_bytes,
                                    .shared_bytes = resources.shared_bytes,
                                    .kernels = &row,
                                    .kernel_count = 1};
    cache_put_unit(runtime->cache, &unit);
}

static void compile_count(struct phasor_runtime *runtime, const struct recipe_kernel *wanted,
                          double milliseconds)
{
    const phasor_options *options = &runtime->options;
    count_up(&runtime->compiled, 1);
    count_up(&runtime->compile_units, 1);
    cache_count_compiles(runtime->cache, 1);
    log_line(LOG_INFO, "compiled %s for %s in %.1f ms", wanted->name, runtime->arch, milliseconds);
    if (options->compiled)
        options->compiled(options->compiled_context, wanted->name, "not in the cache",
                          milliseconds);
}

static phasor_status kernel_compile(struct phasor_runtime *runtime, struct compiler *compiler,
                                    const struct recipe_kernel *wanted,
                                    struct loaded_kernel *kernel)
{
    const phasor_options *options = &runtime->options;
    const struct compile_request request = {
        .name = wanted->name, .source = wanted->source, .arch = runtime->arch};
    struct compile_result result = {0};
    if (options->interrupted && options->interrupted(options->interrupted_context))
        return fail(PHASOR_ERROR_INTERRUPTED, "interrupted before %s was compiled", wanted->name);
    phasor_status status = compiler_run(compiler, &request, &result);
    dump(runtime, wanted, &result);
    if (status == PHASOR_OK) {
        compile_count(runtime, wanted, result.milliseconds);
        status = kernel_load(runtime, kernel, result.cubin, result.cubin_size, wanted->name);
    }
    if (status == PHASOR_OK)
        kernel_keep(runtime, compiler, wanted, &result, kernel);
    compile_result_free(&result);
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
    if (status == PHASOR_OK && !found)
        status = fail(otherwise, "%s for %s is not in the cache (%s), and %s", wanted->name,
                      runtime->arch, cache_path(runtime->cache), text_get(&why));
    text_free(&why);
    return status;
}

static phasor_status kernel_make(struct phasor_runtime *runtime, const struct recipe_kernel *wanted,
                                 struct loaded_kernel *kernel, bool *missing)
{
    const char *toolchain = runtime_toolchain(runtime);
    struct compiler *compiler;
    bool found;
    kernel->runtime = runtime;
    if (toolchain) {
        TRY(kernel_find(runtime, wanted, runtime->arch, toolchain, runtime->options.no_compile,
                        kernel, &found));
    } else {
        TRY(kernel_find_any(runtime, wanted, kernel, &found));
    }
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
    return kernel_compile(runtime, compiler, wanted, kernel);
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
