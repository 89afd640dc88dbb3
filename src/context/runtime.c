/* runtime.c - opening and closing a runtime: options and environment -> device, cache, templates.
 *
 *     {device default}  ->  "cuda:0", "sm_90" where there is a device; else "cpu", "sm_90"
 *
 * Nothing slow is started here: NVRTC waits for the first kernel that the cache does not have.
 */
#include "kernels/kernels.h"
#include "context/twins.h"

#include "base/file.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ARCH_DEFAULT "sm_90"
enum { BACKGROUND_THREADS_DEFAULT = 1, UNIT_KERNELS_DEFAULT = 32, RETIRED_MAX = 64 };
static const int64_t gibibyte = INT64_C(1) << 30;

/* -- options ----------------------------------------------------------------------------------- */

/* A list of words that ends with NULL; NULL is fine. */
static phasor_status words_copy(struct arena *arena, const char *const **words)
{
    size_t count = 0;
    if (!*words)
        return PHASOR_OK;
    while ((*words)[count])
        count++;
    const char **copy = NEW(arena, const char *, count + 1);
    for (size_t i = 0; copy && i < count; i++)
        if (!(copy[i] = arena_string(arena, (*words)[i])))
            return fail_memory();
    *words = copy;
    return copy ? PHASOR_OK : fail_memory();
}

static phasor_status options_copy(struct phasor_runtime *runtime, const phasor_options *options)
{
    phasor_options *copy = &runtime->options;
    if (!options)
        return PHASOR_OK;
    TRY(struct_check("phasor_options", options->size, sizeof *copy));
    memcpy(copy, options, options->size);
    if (copy->arch && !(copy->arch = arena_string(&runtime->arena, copy->arch)))
        return fail_memory();
    if (copy->cache && !(copy->cache = arena_string(&runtime->arena, copy->cache)))
        return fail_memory();
    return words_copy(&runtime->arena, &copy->compiler);
}

/* The number in an environment variable, where the option was left at 0. */
static phasor_status option_number(const char *variable, int64_t given, int64_t otherwise,
                                   int64_t *out)
{
    const char *text = getenv(variable);
    *out = given;
    if (given == 0)
        *out = otherwise;
    if (given != 0 || !text || !*text)
        return PHASOR_OK;
    char *end;
    *out = strtoll(text, &end, 10);
    if (*end || *out < 0)
        return fail(PHASOR_ERROR_USAGE, "%s=%s: a number that is not negative is needed", variable,
                    text);
    return PHASOR_OK;
}

static phasor_status options_complete(phasor_options *options)
{
    int64_t specialisations, threads, unit_kernels;
    TRY(option_number("PHASOR_SPECIALISATIONS", options->specialisations, 0, &specialisations));
    TRY(option_number("PHASOR_BACKGROUND_THREADS", options->background_threads,
                      BACKGROUND_THREADS_DEFAULT, &threads));
    TRY(option_number("PHASOR_UNIT_KERNELS", options->unit_kernels, UNIT_KERNELS_DEFAULT,
                      &unit_kernels));
    TRY(option_number("PHASOR_TABLE_BYTES", options->table_bytes, gibibyte, &options->table_bytes));
    options->specialisations = specialisations < 0           ? 1
                               : specialisations > INT32_MAX ? INT32_MAX
                                                             : (int)specialisations;
    options->background_threads = threads > INT32_MAX ? INT32_MAX : (int)threads;
    options->unit_kernels = unit_kernels < 1 ? 1 : unit_kernels > 256 ? 256 : (int)unit_kernels;
    const char *forbidden = getenv("PHASOR_NO_COMPILE");
    options->no_compile = options->no_compile || (forbidden && strcmp(forbidden, "1") == 0);
    if (options->mode == PHASOR_MODE_DEFAULT)
        options->mode = PHASOR_MODE_AUTO;
    return PHASOR_OK;
}

static phasor_status options_check(const phasor_options *options)
{
    if ((unsigned)options->device > PHASOR_DEVICE_NONE)
        return fail(PHASOR_ERROR_USAGE, "device kind %d; there are 0 (default) to %d (none)",
                    (int)options->device, PHASOR_DEVICE_NONE);
    if ((unsigned)options->rules > PHASOR_RULES_EXECUTORCH)
        return fail(PHASOR_ERROR_USAGE, "rules %d; there are 0 (all) and 1 (executorch)",
                    (int)options->rules);
    if ((unsigned)options->mode > PHASOR_MODE_AUTO)
        return fail(PHASOR_ERROR_USAGE, "mode %d; there are 0 (default) to %d (auto)",
                    (int)options->mode, PHASOR_MODE_AUTO);
    if ((unsigned)options->log_level > PHASOR_LOG_OFF)
        return fail(PHASOR_ERROR_USAGE, "log level %d; there are 0 (default) to %d (off)",
                    (int)options->log_level, PHASOR_LOG_OFF);
    if (options->arch && (strncmp(options->arch, "sm_", 3) != 0 || !options->arch[3]))
        return fail(PHASOR_ERROR_USAGE, "arch \"%s\"; write it as sm_90", options->arch);
    return PHASOR_OK;
}

/* The allocator is of the whole process: the first phasor_open that names one sets it. */
static void allocator_set(const phasor_options *options)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool opened;
    pthread_mutex_lock(&lock);
    if (!opened && options && options->resize && options->free &&
        options->size >= offsetof(phasor_options, allocator_context) + sizeof(void *) &&
        options->size <= sizeof *options)
        memory_set_hooks(
            &(struct memory_hooks){options->resize, options->free, options->allocator_context});
    opened = true;
    pthread_mutex_unlock(&lock);
}

/* -- opening ----------------------------------------------------------------------------------- */

static phasor_status device_choose(struct phasor_runtime *runtime)
{
    const phasor_options *options = &runtime->options;
    runtime->device_kind = options->device;
    runtime->device_is_default = options->device == PHASOR_DEVICE_DEFAULT;
    if (options->device == PHASOR_DEVICE_CPU || options->device == PHASOR_DEVICE_NONE)
        return PHASOR_OK;
    const phasor_status status = device_open(options->ordinal, &runtime->device);
    runtime->device_kind = status == PHASOR_OK ? PHASOR_DEVICE_CUDA : PHASOR_DEVICE_CPU;
    if (status != PHASOR_OK && runtime->device_is_default) {
        log_line(LOG_INFO, "no CUDA device: %s", message_get());
        return PHASOR_OK;
    }
    return status;
}

phasor_status runtime_open_names(struct phasor_runtime *runtime)
{
    const char *given = runtime->options.arch,
               *own = runtime->device ? device_arch(runtime->device) : ARCH_DEFAULT;
    if (runtime->device && given && strcmp(given, own) != 0)
        return fail(PHASOR_ERROR_USAGE,
                    "arch %s: device %d is %s; another arch needs the device \"none\"", given,
                    device_ordinal(runtime->device), own);
    runtime->arch = arena_string(&runtime->arena, given ? given : own);
    runtime->device_text =
        runtime->device ? arena_format(&runtime->arena, "cuda:%d", device_ordinal(runtime->device))
        : runtime->device_kind == PHASOR_DEVICE_NONE ? "none"
                                                     : "cpu";
    const char *dump = getenv("PHASOR_DUMP");
    if (dump && *dump)
        TRY(folder_check("PHASOR_DUMP", dump));
    runtime->dump = dump && *dump ? arena_string(&runtime->arena, dump) : NULL;
    if (!runtime->arch || !runtime->device_text || (dump && *dump && !runtime->dump))
        return fail_memory();
    return flight_open(&runtime->kernels, sizeof(struct loaded_kernel), kernel_destroy);
}

static phasor_status runtime_setup(struct phasor_runtime *runtime, const phasor_options *options)
{
    TRY(options_copy(runtime, options));
    TRY(options_check(&runtime->options));
    TRY(options_complete(&runtime->options));
    runtime->log = (struct log_target){
        .function = runtime->options.log,
        .context = runtime->options.log_context,
        .level = runtime->options.log_level == PHASOR_LOG_OFF ? LOG_OFF
                 : runtime->options.log_level ? (enum log_level)runtime->options.log_level
                                              : log_level_default(),
        .compiled = runtime->options.compiled,
        .compiled_context = runtime->options.compiled_context};
    LOG_SCOPE(&runtime->log);
    TRY(templates_load(&runtime->templates, getenv("PHASOR_TEMPLATE_DIR")));
    TRY(device_choose(runtime));
    TRY(runtime_open_names(runtime));
    TRY(runtime_twins_open(runtime));
    return cache_open(&(struct cache_options){.directory = runtime->options.cache,
                                              .trust_directory = runtime->options.trust_cache_dir,
                                              .max_bytes = runtime->options.cache_bytes,
                                              .stamp = phasor_generator()},
                      &runtime->cache);
}

phasor_status phasor_open(phasor_runtime **out, const phasor_options *options)
{
    NOT_NULL(out);
    *out = NULL;
    allocator_set(options);
    struct phasor_runtime *runtime = memory_new(sizeof *runtime);
    if (!runtime)
        return fail_memory();
    runtime->first = runtime;
    pthread_mutex_init(&runtime->twins_lock, NULL);
    pthread_mutex_init(&runtime->compiler_lock, NULL);
    pthread_mutex_init(&runtime->retired_lock, NULL);
    turns_open(&runtime->turns);
    background_init(&runtime->background);
    const phasor_status status = runtime_setup(runtime, options);
    if (status == PHASOR_OK)
        *out = runtime;
    else
        phasor_close(runtime);
    return status;
}

/* -- modules ----------------------------------------------------------------------------------- */

static void modules_unload(struct phasor_runtime *runtime)
{
    struct device_scope scope;
    if (!runtime->retired_count || device_enter(runtime->device, &scope) != PHASOR_OK)
        return;
    /* Modules whose work cannot be waited for stay loaded. */
    if (device_wait_all(runtime->device) == PHASOR_OK)
        for (int i = 0; i < runtime->retired_count; i++)
            device_module_unload(runtime->retired[i]);
    runtime->retired_count = 0;
    device_leave(runtime->device, &scope);
}

void runtime_retire(struct phasor_runtime *runtime, struct device_module *module)
{
    if (!module)
        return;
    pthread_mutex_lock(&runtime->retired_lock);
    if (!runtime->retired)
        runtime->retired = memory_new(RETIRED_MAX * sizeof *runtime->retired);
    if (runtime->retired_count == RETIRED_MAX)
        modules_unload(runtime);
    if (runtime->retired) {
        runtime->retired[runtime->retired_count++] = module;
    } else { /* no memory for a list: this one now */
        runtime->retired = &module;
        runtime->retired_count = 1;
        modules_unload(runtime);
        runtime->retired = NULL;
    }
    pthread_mutex_unlock(&runtime->retired_lock);
}

static void libraries_close(struct phasor_runtime *runtime)
{
    struct device_scope scope;
    if (!runtime->cublaslt || device_enter(runtime->device, &scope) != PHASOR_OK)
        return;
    cublaslt_close(runtime->cublaslt);
    device_leave(runtime->device, &scope);
}

void runtime_close_device(struct phasor_runtime *runtime)
{
    flight_close(&runtime->kernels);
    modules_unload(runtime);
    memory_free(runtime->retired);
    libraries_close(runtime);
    device_close(runtime->device);
    pthread_mutex_destroy(&runtime->retired_lock);
}

void phasor_close(phasor_runtime *runtime)
{
    if (!runtime)
        return;
    LOG_SCOPE(&runtime->log);
    background_close(&runtime->background);
    runtime_twins_close(runtime);
    runtime_close_device(runtime);
    cache_close(runtime->cache);
    compiler_close(runtime->compiler);
    templates_free(&runtime->templates);
    memory_free(runtime->compiler_message);
    memory_free(runtime->toolchain);
    turns_close(&runtime->turns);
    pthread_mutex_destroy(&runtime->compiler_lock);
    pthread_mutex_destroy(&runtime->twins_lock);
    arena_free(&runtime->arena);
    memory_free(runtime);
}

/* -- the compiler ------------------------------------------------------------------------------ */

static char *string_copy(const char *string)
{
    char *copy = memory_new(strlen(string) + 1);
    return copy ? strcpy(copy, string) : NULL;
}

static const char *note_name(char name[256])
{
    const char *variable = getenv("PHASOR_NVRTC");
    const struct hash hash = hash_bytes(variable ? variable : "", variable ? strlen(variable) : 0);
    char digits[HASH_TEXT];
    hash_text(hash, digits);
    strcpy(name, "nvrtc ");
    return strcat(name, digits);
}

/* "VERSION\tSIZE\tSECONDS\tNANOSECONDS\tPATH": the file behind a version. */
static bool note_print(const char *version, const char *path, struct text *out)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return false;
    text_format(out, "%s\t%" PRId64 "\t%" PRId64 "\t%ld\t%s", version, (int64_t)file.st_size,
                (int64_t)file.st_mtim.tv_sec, (long)file.st_mtim.tv_nsec, path);
    return !out->failed;
}

static void note_put(struct phasor_runtime *runtime)
{
    char name[256];
    struct text note = {0};
    if (note_print(compiler_version(runtime->compiler), compiler_path(runtime->compiler), &note))
        cache_put_note(runtime->cache, note_name(name), text_get(&note));
    text_free(&note);
}

/* The version that the cache has noted, when its file is still what it was. */
static char *note_get(struct phasor_runtime *runtime)
{
    char name[256], *version = NULL;
    bool found = false;
    struct text note = {0}, now = {0};
    if (cache_get_note(runtime->cache, note_name(name), &note, &found) == PHASOR_OK && found &&
        note.length) {
        const char *path = strrchr(note.at, '\t');
        char *end = strchr(note.at, '\t');
        version = end ? memory_new((size_t)(end - note.at) + 1) : NULL;
        if (version)
            memcpy(version, note.at, (size_t)(end - note.at));
        if (!version || !path || !note_print(version, path + 1, &now) ||
            strcmp(text_get(&now), note.at) != 0) {
            memory_free(version);
            version = NULL;
        }
    }
    text_free(&note);
    text_free(&now);
    return version;
}

/* With the lock held. */
static phasor_status compiler_try(struct phasor_runtime *runtime)
{
    if (runtime->compiler_tried)
        return PHASOR_OK;
    const char *const *command = runtime->options.compiler;
    const phasor_status status = command ? compiler_open_workers(command, &runtime->compiler)
                                         : compiler_open(&runtime->compiler);
    runtime->compiler_tried = status != PHASOR_ERROR_MEMORY; /* there may be room next time */
    if (status != PHASOR_OK) {
        if (runtime->compiler_tried)
            runtime->compiler_message = string_copy(message_get());
        return status;
    }
    if (!runtime->toolchain_known)
        runtime->toolchain = string_copy(compiler_version(runtime->compiler));
    note_put(runtime);
    return PHASOR_OK;
}

phasor_status runtime_compiler(struct phasor_runtime *runtime, struct compiler **out)
{
    runtime = runtime->first;
    pthread_mutex_lock(&runtime->compiler_lock);
    const phasor_status status = compiler_try(runtime);
    *out = runtime->compiler;
    pthread_mutex_unlock(&runtime->compiler_lock);
    if (*out || status == PHASOR_ERROR_MEMORY)
        return *out ? PHASOR_OK : status;
    return fail(PHASOR_ERROR_COMPILE, "%s",
                runtime->compiler_message ? runtime->compiler_message : "NVRTC cannot be opened");
}

/* The toolchain is settled once: a compile by another version than the note's is stored under its
 * own. */
const char *runtime_toolchain(struct phasor_runtime *runtime)
{
    runtime = runtime->first;
    pthread_mutex_lock(&runtime->compiler_lock);
    if (!runtime->toolchain_known && !runtime->toolchain)
        runtime->toolchain = note_get(runtime);
    bool settled = true;
    if (!runtime->toolchain_known && !runtime->toolchain && !runtime->options.no_compile)
        settled = compiler_try(runtime) != PHASOR_ERROR_MEMORY;
    runtime->toolchain_known |= settled;
    const char *toolchain = runtime->toolchain;
    pthread_mutex_unlock(&runtime->compiler_lock);
    return toolchain;
}

/* -- what it is -------------------------------------------------------------------------------- */

static void counters_add(const struct phasor_runtime *runtime, phasor_counters *out)
{
    out->compiled += __atomic_load_n(&runtime->compiled, __ATOMIC_RELAXED);
    out->compile_units += __atomic_load_n(&runtime->compile_units, __ATOMIC_RELAXED);
    out->compile_failures += __atomic_load_n(&runtime->compile_failures, __ATOMIC_RELAXED);
    out->specialisations += __atomic_load_n(&runtime->specialisations, __ATOMIC_RELAXED);
    out->launches += __atomic_load_n(&runtime->launches, __ATOMIC_RELAXED);
}

phasor_status phasor_stats(phasor_runtime *runtime, phasor_counters *out)
{
    struct cache_counters cache;
    NOT_NULL(runtime);
    NOT_NULL(out);
    TRY(struct_check("phasor_counters", out->size, sizeof *out));
    cache_get_counters(runtime->cache, &cache);
    const size_t size = out->size;
    phasor_counters counters = {.size = size,
                                .cache_hits = cache.hits,
                                .cache_misses = cache.misses,
                                .foreign = cache.foreign};
    counters_add(runtime, &counters);
    for (int i = 0; runtime->twins && i < runtime->device_count; i++) {
        const struct phasor_runtime *twin = __atomic_load_n(&runtime->twins[i], __ATOMIC_ACQUIRE);
        if (twin && twin != runtime)
            counters_add(twin, &counters);
    }
    memcpy(out, &counters, size);
    return PHASOR_OK;
}

const char *phasor_device_name(const phasor_runtime *runtime)
{
    return runtime ? runtime->device_text : NULL;
}

const char *phasor_arch_name(const phasor_runtime *runtime)
{
    return runtime ? runtime->arch : NULL;
}
