/* unit.c - one NVRTC unit: several kernels in, a row of the cache and loaded kernels out.
 *
 *     mul, add_cast  ->  one source  ->  one cubin with mul_0, add_cast_1
 *
 * The cache finds each kernel by its own key; its row says what it is called in the cubin.
 */
#include "context/runtime.h"
#include "kernels/units.h"

#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "codegen/join.h"
#include "compile/cubin.h"
#include "kernels/cache_key.h"

#include <stdio.h>
#include <string.h>

struct unit {
    struct phasor_runtime *runtime;
    struct compiler *compiler;
    const struct unit_part *parts;
    int count;
    struct arena arena;
    struct text joined; /* the source of several */
    const char *source;
    struct joined_kernel *kernels;
    struct text names; /* as NVRTC's messages and callbacks have them */
    struct compile_result result;
};

/* -- the source -------------------------------------------------------------------------------- */

static phasor_status unit_join(struct unit *unit)
{
    unit->kernels = NEW(&unit->arena, struct joined_kernel, unit->count);
    if (!unit->kernels)
        return fail_memory();
    for (int i = 0; i < unit->count; i++) {
        const struct recipe_kernel *wanted = unit->parts[i].wanted;
        unit->kernels[i] = (struct joined_kernel){wanted->source, wanted->name, wanted->name};
        text_format(&unit->names, "%s%s", i ? " " : "", wanted->name);
    }
    unit->source = unit->kernels[0].source;
    TRY(text_status(&unit->names));
    if (unit->count == 1)
        return PHASOR_OK;
    TRY(codegen_join(unit->kernels, unit->count, &unit->arena, &unit->joined));
    unit->source = text_get(&unit->joined);
    return PHASOR_OK;
}

/* -- PHASOR_DUMP ------------------------------------------------------------------------------- */

static void dump_write(const char *directory, const char *name, const char *ending,
                       const void *bytes, size_t nbytes)
{
    struct text path = {0};
    text_format(&path, "%s/%s.%s", directory, name, ending);
    if (text_status(&path) != PHASOR_OK || file_write(text_get(&path), bytes, nbytes) != PHASOR_OK)
        log_line(LOG_WARNING, "PHASOR_DUMP: it cannot be written: %s", message_get());
    text_free(&path);
}

/* Named after its first kernel. */
static void dump(const struct unit *unit)
{
    const struct recipe_kernel *first = unit->parts[0].wanted;
    const char *directory = unit->runtime->dump;
    char digits[HASH_TEXT], name[256], more[24] = "";
    if (!directory)
        return;
    hash_text(first->key, digits);
    if (unit->count > 1)
        snprintf(more, sizeof more, "-and-%d", unit->count - 1);
    snprintf(name, sizeof name, "%s-%.12s%s.%s", first->name, digits, more, unit->runtime->arch);
    dump_write(directory, name, "cu", unit->source, strlen(unit->source));
    if (unit->result.cubin)
        dump_write(directory, name, "cubin", unit->result.cubin, unit->result.cubin_size);
}

/* -- counting ---------------------------------------------------------------------------------- */

/* Before the unit is stored: the reason is what the cache lacks. Of several kernels the first one's
 * is told. */
static void compile_tell(const struct unit *unit)
{
    struct phasor_runtime *runtime = unit->runtime;
    const double milliseconds = unit->result.milliseconds;
    struct text reason = {0};
    char time[32];
    if (!miss_is_wanted(runtime))
        return;
    kernel_miss_explain(runtime, unit->parts[0].wanted, &reason);
    number_format(time, sizeof time, "%.1f", milliseconds);
    log_line(LOG_INFO, "compiled %s for %s in %s ms; %s", text_get(&unit->names), runtime->arch,
             time, text_get(&reason));
    log_compiled(text_get(&unit->names), text_get(&reason), milliseconds);
    text_free(&reason);
}

static void compile_count(const struct unit *unit)
{
    struct phasor_runtime *runtime = unit->runtime;
    count_up(&runtime->compiled, (uint64_t)unit->count);
    count_up(&runtime->compile_units, 1);
    cache_count_compiles(runtime->cache, unit->count);
    compile_tell(unit);
}

/* -- keeping ----------------------------------------------------------------------------------- */

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Of a unit: the most that one of its kernels takes; -1 where a cubin does not say. */
static struct cubin_resources unit_resources(const struct unit *unit)
{
    struct cubin_resources most = {0};
    for (int i = 0; i < unit->count; i++) {
        struct cubin_resources own;
        if (!cubin_resources(unit->result.cubin, unit->result.cubin_size,
                             unit->kernels[i].joined_name, &own))
            return (struct cubin_resources){-1, -1, -1};
        most = (struct cubin_resources){larger(most.registers, own.registers),
                                        larger(most.local_bytes, own.local_bytes),
                                        larger(most.shared_bytes, own.shared_bytes)};
    }
    return most;
}

static phasor_status unit_keep(struct unit *unit)
{
    const struct phasor_runtime *runtime = unit->runtime;
    const struct cubin_resources resources = unit_resources(unit);
    struct cache_kernel *rows = NEW(&unit->arena, struct cache_kernel, unit->count);
    if (!rows)
        return fail_memory();
    for (int i = 0; i < unit->count; i++) {
        const struct recipe_kernel *wanted = unit->parts[i].wanted;
        rows[i] = (struct cache_kernel){wanted->key, wanted->key_bytes, wanted->key_size,
                                        unit->kernels[i].joined_name};
    }
    const struct cache_unit row = {.arch = runtime->arch,
                                   .toolchain = compiler_version(unit->compiler),
                                   .options = compiler_options_text(unit->compiler, runtime->arch),
                                   .source = unit->source,
                                   .cubin = unit->result.cubin,
                                   .cubin_size = unit->result.cubin_size,
                                   .compile_ms = unit->result.milliseconds,
                                   .registers = resources.registers,
                                   .spill_bytes = resources.local_bytes,
                                   .shared_bytes = resources.shared_bytes,
                                   .kernels = rows,
                                   .kernel_count = unit->count};
    cache_put_unit(runtime->cache, &row);
    return PHASOR_OK;
}

static phasor_status unit_load(struct unit *unit)
{
    for (int i = 0; i < unit->count; i++)
        TRY(kernel_load(unit->runtime, unit->parts[i].kernel, unit->result.cubin,
                        unit->result.cubin_size, unit->kernels[i].joined_name));
    return PHASOR_OK;
}

static void unit_unload(struct unit *unit)
{
    for (int i = 0; i < unit->count; i++) {
        device_module_unload(unit->parts[i].kernel->module);
        unit->parts[i].kernel->module = NULL;
        unit->parts[i].kernel->function = NULL;
    }
}

/* -- all --------------------------------------------------------------------------------------- */

static phasor_status unit_run(struct unit *unit)
{
    TRY(unit_join(unit));
    const struct compile_request request = {
        .name = text_get(&unit->names), .source = unit->source, .arch = unit->runtime->arch};
    const phasor_status compiled = compiler_run(unit->compiler, &request, &unit->result);
    dump(unit);
    if (compiled == PHASOR_ERROR_COMPILE && unit->count == 1)
        count_up(&unit->runtime->compile_failures, 1);
    TRY(compiled);
    compile_count(unit);
    phasor_status status = unit_load(unit);
    if (status == PHASOR_OK)
        status = unit_keep(unit);
    if (status != PHASOR_OK)
        unit_unload(unit);
    return status;
}

phasor_status unit_compile(struct phasor_runtime *runtime, struct compiler *compiler,
                           const struct unit_part *parts, int count)
{
    struct unit unit = {.runtime = runtime, .compiler = compiler, .parts = parts, .count = count};
    if (runtime_interrupted(runtime))
        return fail(PHASOR_ERROR_INTERRUPTED, "interrupted before %s was compiled",
                    parts[0].wanted->name);
    const phasor_status status = unit_run(&unit);
    compile_result_free(&unit.result);
    text_free(&unit.names);
    text_free(&unit.joined);
    arena_free(&unit.arena);
    return status;
}
