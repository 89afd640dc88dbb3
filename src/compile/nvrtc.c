/* nvrtc.c - see nvrtc.h. The only file that knows nvrtc.h.
 *
 *     "extern \"C\" __global__ void f(...) {...}", "sm_90"  ->  an ELF image for that arch
 *
 * The options never include fast math or flush to zero, and no contraction: the generator says fma
 * where it wants one.
 */
#include "compile/nvrtc.h"

#include "base/memory.h"
#include "base/text.h"
#include "base/shared_library.h"
#include "compile/workers.h"

#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <time.h>

/* Without the first one NVRTC changes the stack limit of the whole process during a compile. */
#define FIXED_OPTIONS(X)            \
    X("--modify-stack-limit=false") \
    X("--fmad=false")               \
    X("-default-device")            \
    X("--std=c++17")

#ifdef PHASOR_CUDA

#include <dlfcn.h>
#include <nvrtc.h>

/* The functions of NVRTC that are used; all of them are in every version since 11.2. */
/* Not formatted: one name a line. */
// clang-format off
#define NVRTC_FUNCTIONS(X)  \
    X(Version)              \
    X(GetErrorString)       \
    X(GetNumSupportedArchs) \
    X(GetSupportedArchs)    \
    X(CreateProgram)        \
    X(DestroyProgram)       \
    X(CompileProgram)       \
    X(GetPTXSize)           \
    X(GetPTX)               \
    X(GetCUBINSize)         \
    X(GetCUBIN)             \
    X(GetProgramLogSize)    \
    X(GetProgramLog)
// clang-format on

enum { OPTION_COUNT = 6, LISTED_LINES = 200 };

struct compiler {
    struct workers *workers; /* NULL: NVRTC is in this process, and the functions below are there */
    struct shared_library library;
    int major, minor;
    char version[48];
    struct arena arena;
    const char **archs;
    const char **options; /* one string for each arch */
    int arch_count;
#define FIELD(name) __typeof__(&nvrtc##name) name;
    NVRTC_FUNCTIONS(FIELD)
#undef FIELD
};

/* -- opening ----------------------------------------------------------------------------------- */

static phasor_status compiler_resolve(struct compiler *compiler)
{
#define RESOLVE(name)                                                                            \
    compiler->name = (__typeof__(compiler->name))dlsym(compiler->library.handle, "nvrtc" #name); \
    if (!compiler->name)                                                                         \
        return fail(PHASOR_ERROR_COMPILE,                                                        \
                    "%s has no function nvrtc" #name "; NVRTC 12.4 or newer is needed",          \
                    compiler->library.path);
    NVRTC_FUNCTIONS(RESOLVE)
#undef RESOLVE
    return PHASOR_OK;
}

/* The options for one kind of code ("sm_90" or "compute_90"), in the order in which they are
 * passed. */
static int options_list(const struct compiler *compiler, const char *target, char first[48],
                        const char *list[OPTION_COUNT])
{
    int count = 0;
    snprintf(first, 48, "--gpu-architecture=%s", target);
    list[count++] = first;
    if (compiler->major > 12 || (compiler->major == 12 && compiler->minor >= 4))
        list[count++] = "--minimal";
#define LIST(option) list[count++] = option;
    FIXED_OPTIONS(LIST)
#undef LIST
    return count;
}

static phasor_status options_join(struct compiler *compiler, int arch)
{
    char first[48];
    const char *list[OPTION_COUNT];
    struct text text = {0};
    const int count = options_list(compiler, compiler->archs[arch], first, list);
    for (int i = 0; i < count; i++)
        text_format(&text, "%s%s", i ? " " : "", list[i]);
    compiler->options[arch] = text.failed ? NULL : arena_string(&compiler->arena, text_get(&text));
    text_free(&text);
    return compiler->options[arch] ? PHASOR_OK : fail_memory();
}

static phasor_status compiler_list_archs(struct compiler *compiler)
{
    int count = 0, numbers[128];
    if (compiler->GetNumSupportedArchs(&count) != NVRTC_SUCCESS || count < 1 || count > 128 ||
        compiler->GetSupportedArchs(numbers) != NVRTC_SUCCESS)
        return fail(PHASOR_ERROR_COMPILE, "%s does not say which archs it compiles for",
                    compiler->library.path);
    compiler->archs = NEW(&compiler->arena, const char *, count);
    compiler->options = NEW(&compiler->arena, const char *, count);
    if (!compiler->archs || !compiler->options)
        return fail_memory();
    compiler->arch_count = count;
    for (int i = 0; i < count; i++) {
        compiler->archs[i] = arena_format(&compiler->arena, "sm_%d", numbers[i]);
        if (!compiler->archs[i])
            return fail_memory();
        TRY(options_join(compiler, i));
    }
    return PHASOR_OK;
}

/* NVRTC opens its builtins by their bare name, which the loader does not find where no search path
 * leads to this folder; once they are open, it does. */
static void builtins_open(const char *path)
{
    char pattern[PATH_MAX], file[PATH_MAX];
    glob_t found = {0};
    if (!realpath(path, file) ||
        snprintf(pattern, sizeof pattern, "%.*s/libnvrtc-builtins.so*",
                 (int)(strrchr(file, '/') - file), file) >= (int)sizeof pattern)
        return;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (!dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
                dlerror();
    globfree(&found);
}

static const char *const loader_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
static const struct library_search search = {
    .name = "NVRTC",
    .variable = "PHASOR_NVRTC",
    .loader_names = loader_names,
    .loader_name_count = sizeof loader_names / sizeof *loader_names,
    .file = "libnvrtc.so",
    .wheel = "cuda_nvrtc",
    .symbol = "nvrtcVersion",
    .advice = "Kernels in the cache run without it; to compile, install the CUDA toolkit 12.4 or "
              "newer, or run `pip install nvidia-cuda-nvrtc`",
    .missing = PHASOR_ERROR_COMPILE,
    .before = builtins_open};

static phasor_status compiler_setup(struct compiler *compiler)
{
    char prefix[24];
    TRY(shared_library_open(&search, &compiler->library));
    TRY(compiler_resolve(compiler));
    if (compiler->Version(&compiler->major, &compiler->minor) != NVRTC_SUCCESS)
        return fail(PHASOR_ERROR_COMPILE, "%s does not say its version", compiler->library.path);
    const int length = snprintf(prefix, sizeof prefix, "%d.%d.", compiler->major, compiler->minor);
    const char *build = compiler->library.build;
    if (strncmp(build, prefix, (size_t)length) == 0)
        snprintf(compiler->version, sizeof compiler->version, "nvrtc %s", build);
    else
        snprintf(compiler->version, sizeof compiler->version, "nvrtc %d.%d", compiler->major,
                 compiler->minor);
    return compiler_list_archs(compiler);
}

phasor_status compiler_open(struct compiler **out)
{
    *out = NULL;
    struct compiler *compiler = memory_new(sizeof *compiler);
    if (!compiler)
        return fail_memory();
    const phasor_status status = compiler_setup(compiler);
    if (status == PHASOR_OK)
        *out = compiler;
    else
        compiler_close(compiler);
    return status;
}

/* "sm_90\t--gpu-architecture=sm_90 --minimal": an arch and its options. */
static phasor_status arch_take(struct compiler *compiler, char *line)
{
    char *tab = strchr(line, '\t');
    if (!tab)
        return fail(PHASOR_ERROR_COMPILE, "the process that compiles says \"%s\" of an arch", line);
    *tab = '\0';
    compiler->archs[compiler->arch_count] = line;
    compiler->options[compiler->arch_count++] = tab + 1;
    return PHASOR_OK;
}

static phasor_status hello_take(struct compiler *compiler, const struct workers_hello *hello)
{
    size_t count = 0;
    char *rest = NULL, *lines = arena_string(&compiler->arena, hello->archs);
    snprintf(compiler->version, sizeof compiler->version, "%s", hello->version);
    for (const char *s = hello->archs; *s; s++)
        count += *s == '\n';
    compiler->archs = NEW(&compiler->arena, const char *, count);
    compiler->options = NEW(&compiler->arena, const char *, count);
    if (!lines || !compiler->archs || !compiler->options)
        return fail_memory();
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        TRY(arch_take(compiler, line));
    return PHASOR_OK;
}

phasor_status compiler_open_workers(const char *const *command, struct compiler **out)
{
    *out = NULL;
    struct compiler *compiler = memory_new(sizeof *compiler);
    if (!compiler)
        return fail_memory();
    phasor_status status = workers_open(command, &compiler->workers);
    if (status == PHASOR_OK)
        status = hello_take(compiler, workers_hello(compiler->workers));
    if (status == PHASOR_OK)
        *out = compiler;
    else
        compiler_close(compiler);
    return status;
}

void compiler_close(struct compiler *compiler)
{
    if (!compiler)
        return;
    workers_close(compiler->workers);
    shared_library_close(&compiler->library);
    arena_free(&compiler->arena);
    memory_free(compiler);
}

/* -- what it is -------------------------------------------------------------------------------- */

static int arch_find(const struct compiler *compiler, const char *arch)
{
    for (int i = 0; i < compiler->arch_count; i++)
        if (strcmp(compiler->archs[i], arch) == 0)
            return i;
    return -1;
}

const char *compiler_version(const struct compiler *compiler)
{
    return compiler->version;
}

const char *compiler_path(const struct compiler *compiler)
{
    return compiler->workers ? workers_hello(compiler->workers)->path : compiler->library.path;
}

const char *const *compiler_archs(const struct compiler *compiler, int *count)
{
    *count = compiler->arch_count;
    return compiler->archs;
}

bool compiler_knows_arch(const struct compiler *compiler, const char *arch)
{
    return arch_find(compiler, arch) >= 0;
}

const char *compiler_options_text(const struct compiler *compiler, const char *arch)
{
    const int index = arch_find(compiler, arch);
    return index < 0 ? "" : compiler->options[index];
}

/* -- compiling --------------------------------------------------------------------------------- */

static void source_list(struct text *text, const char *source)
{
    for (int line = 1; *source && line <= LISTED_LINES; line++) {
        const size_t length = strcspn(source, "\n");
        text_format(text, "%5d | ", line);
        text_add_bytes(text, source, length);
        text_add(text, "\n");
        source += length + (source[length] == '\n');
    }
    if (*source)
        text_add(text, "  ... | (more lines follow)\n");
}

static void log_add(const struct compiler *compiler, nvrtcProgram program, struct text *text)
{
    size_t size = 0;
    if (!program || compiler->GetProgramLogSize(program, &size) != NVRTC_SUCCESS || size < 2)
        return;
    char *log = memory_new(size + 1);
    if (log && compiler->GetProgramLog(program, log) == NVRTC_SUCCESS) {
        text_add(text, log);
        if (log[strlen(log) - (*log != '\0')] != '\n')
            text_add(text, "\n");
    }
    memory_free(log);
}

static phasor_status compile_fail(const struct compiler *compiler,
                                  const struct compile_request *request, nvrtcProgram program,
                                  nvrtcResult result)
{
    struct text log = {0}, source = {0};
    const char *name = compiler->GetErrorString(result);
    log_add(compiler, program, &log);
    source_list(&source, request->source);
    const phasor_status status =
        result == NVRTC_ERROR_OUT_OF_MEMORY ? PHASOR_ERROR_MEMORY : PHASOR_ERROR_COMPILE;
    fail(status, "%s: %s for %s: %s\n%sthe source:\n%s", request->name, compiler->version,
         request->arch, name ? name : "an unknown error", text_get(&log), text_get(&source));
    text_free(&log);
    text_free(&source);
    return status;
}

/* What NVRTC makes of a program: its size, then its bytes. */
typedef nvrtcResult product_size(nvrtcProgram program, size_t *size);
typedef nvrtcResult product_bytes(nvrtcProgram program, char *bytes);

static phasor_status compile_one(const struct compiler *compiler,
                                 const struct compile_request *request, const char *target,
                                 product_size *get_size, product_bytes *get_bytes, char **bytes,
                                 size_t *nbytes)
{
    char first[48];
    const char *list[OPTION_COUNT];
    nvrtcProgram program = NULL;
    phasor_status status = PHASOR_OK;
    const int count = options_list(compiler, target, first, list);

    nvrtcResult result =
        compiler->CreateProgram(&program, request->source, request->name, 0, NULL, NULL);
    if (result == NVRTC_SUCCESS && !program)
        result = NVRTC_ERROR_INVALID_PROGRAM;
    if (result == NVRTC_SUCCESS)
        result = compiler->CompileProgram(program, count, list);
    if (result == NVRTC_SUCCESS)
        result = get_size(program, nbytes);
    if (result == NVRTC_SUCCESS && *nbytes == 0)
        result = NVRTC_ERROR_INTERNAL_ERROR;
    if (result == NVRTC_SUCCESS) {
        *bytes = memory_new(*nbytes + 1);
        if (!*bytes) {
            status = fail_memory();
            goto done;
        }
        result = get_bytes(program, *bytes);
    }
    if (result != NVRTC_SUCCESS)
        status = compile_fail(compiler, request, program, result);
done:
    if (program)
        compiler->DestroyProgram(&program);
    return status;
}

static phasor_status arch_fail(const struct compiler *compiler,
                               const struct compile_request *request)
{
    struct text known = {0};
    for (int i = 0; i < compiler->arch_count; i++)
        text_format(&known, "%s%s", i ? " " : "", compiler->archs[i]);
    fail(PHASOR_ERROR_COMPILE, "%s: %s does not compile for %s; it knows %s", request->name,
         compiler->version, request->arch, text_get(&known));
    text_free(&known);
    return PHASOR_ERROR_COMPILE;
}

static phasor_status compile_ptx(const struct compiler *compiler,
                                 const struct compile_request *request, struct compile_result *out)
{
    char target[32];
    size_t nbytes;
    snprintf(target, sizeof target, "compute_%s", request->arch + 3);
    return compile_one(compiler, request, target, compiler->GetPTXSize, compiler->GetPTX, &out->ptx,
                       &nbytes);
}

phasor_status compiler_run(struct compiler *compiler, const struct compile_request *request,
                           struct compile_result *out)
{
    struct timespec before, after;
    *out = (struct compile_result){0};
    if (!compiler_knows_arch(compiler, request->arch))
        return arch_fail(compiler, request);
    if (compiler->workers)
        return workers_run(compiler->workers, request, out);

    clock_gettime(CLOCK_MONOTONIC, &before);
    phasor_status status = compile_one(compiler, request, request->arch, compiler->GetCUBINSize,
                                       compiler->GetCUBIN, (char **)&out->cubin, &out->cubin_size);
    clock_gettime(CLOCK_MONOTONIC, &after);
    out->milliseconds = (double)(after.tv_sec - before.tv_sec) * 1e3 +
                        (double)(after.tv_nsec - before.tv_nsec) * 1e-6;
    if (status == PHASOR_OK && request->want_ptx)
        status = compile_ptx(compiler, request, out);
    if (status != PHASOR_OK)
        compile_result_free(out);
    return status;
}

#else /* built without the CUDA headers */

struct compiler {
    char unused;
};

static phasor_status compiler_absent(void)
{
    return fail(PHASOR_ERROR_COMPILE,
                "this Phasor was built without CUDA (PHASOR_CUDA=OFF) and cannot compile kernels; "
                "build it where the CUDA headers are found");
}

phasor_status compiler_open(struct compiler **out)
{
    *out = NULL;
    return compiler_absent();
}

phasor_status compiler_open_workers(const char *const *command, struct compiler **out)
{
    (void)command;
    *out = NULL;
    return compiler_absent();
}

void compiler_close(struct compiler *compiler)
{
    (void)compiler;
}

const char *compiler_version(const struct compiler *compiler)
{
    (void)compiler;
    return "";
}

const char *compiler_path(const struct compiler *compiler)
{
    (void)compiler;
    return "";
}

const char *const *compiler_archs(const struct compiler *compiler, int *count)
{
    (void)compiler;
    *count = 0;
    return NULL;
}

bool compiler_knows_arch(const struct compiler *compiler, const char *arch)
{
    (void)compiler;
    (void)arch;
    return false;
}

const char *compiler_options_text(const struct compiler *compiler, const char *arch)
{
    (void)compiler;
    (void)arch;
    return "";
}

phasor_status compiler_run(struct compiler *compiler, const struct compile_request *request,
                           struct compile_result *out)
{
    (void)compiler;
    (void)request;
    *out = (struct compile_result){0};
    return compiler_absent();
}

#endif

const char *compiler_fixed_options(void)
{
#define JOIN(option) " " option
    return FIXED_OPTIONS(JOIN);
#undef JOIN
}

void compile_result_free(struct compile_result *result)
{
    memory_free(result->cubin);
    memory_free(result->ptx);
    *result = (struct compile_result){0};
}
