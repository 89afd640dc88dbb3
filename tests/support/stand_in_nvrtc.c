/* stand_in_nvrtc.c - NVRTC's functions over the C++ compiler: see stand_in.h.
 *
 *     CUDA text, "--gpu-architecture=sm_90"  ->  a shared object for the CPU, a trailer with sm_90
 *
 * Like NVRTC it refuses archs and options that it does not know; "PTX" is the source behind a
 * comment.
 */
#include "host_run.h"
#include "stand_in.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PHASOR_CUDA
#pragma GCC visibility push(default)
#include <nvrtc.h>

struct _nvrtcProgram {
    char *source, *name, *log;
    void *cubin;
    size_t cubin_size;
};

static const int archs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

enum { ARCH_COUNT = sizeof archs / sizeof *archs };

/* The text after "FUNCTION=" in PHASOR_STAND_IN_NVRTC_FAIL, or NULL. */
static const char *injected(const char *function)
{
    const char *list = getenv("PHASOR_STAND_IN_NVRTC_FAIL");
    const size_t length = strlen(function);
    for (const char *s = list; s && *s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
        if (strncmp(s, function, length) == 0 && s[length] == '=')
            return s + length + 1;
    return NULL;
}

#define INJECT(function)                          \
    do {                                          \
        const char *how_ = injected(function);    \
        if (how_ && *how_ >= '0' && *how_ <= '9') \
            return (nvrtcResult)atoi(how_);       \
    } while (0)

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    INJECT("nvrtcVersion");
    const char *version = getenv("PHASOR_STAND_IN_NVRTC_VERSION");
    *major = 13;
    *minor = 0;
    if (version)
        sscanf(version, "%d.%d", major, minor);
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    switch (result) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
    default: return "NVRTC_ERROR_INTERNAL_ERROR";
    }
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    INJECT("nvrtcGetNumSupportedArchs");
    *count = ARCH_COUNT;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *out)
{
    INJECT("nvrtcGetSupportedArchs");
    memcpy(out, archs, sizeof archs);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name,
                               int header_count, const char *const *headers,
                               const char *const *include_names)
{
    (void)header_count;
    (void)headers;
    (void)include_names;
    INJECT("nvrtcCreateProgram");
    *out = NULL;
    if (injected("nvrtcCreateProgram"))
        return NVRTC_SUCCESS;
    struct _nvrtcProgram *program = calloc(1, sizeof *program);
    if (!program)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    program->source = strdup(source);
    program->name = strdup(name ? name : "default_program");
    program->log = strdup("");
    *out = program;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    free((*program)->source);
    free((*program)->name);
    free((*program)->log);
    free((*program)->cubin);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

static void log_set(nvrtcProgram program, const char *text)
{
    free(program->log);
    program->log = strdup(text);
}

static bool arch_known(const char *text)
{
    const char *number = strchr(text, '_');
    for (int i = 0; number && i < ARCH_COUNT; i++)
        if (atoi(number + 1) == archs[i])
            return true;
    return false;
}

static nvrtcResult options_read(nvrtcProgram program, int count, const char *const *options,
                                const char **arch)
{
    static const char *const known[] = {"--minimal", "--modify-stack-limit=false", "--fmad=false",
                                        "-default-device", "--std=c++17"};
    static const char prefix[] = "--gpu-architecture=";
    *arch = "";
    for (int i = 0; i < count; i++) {
        bool ok = strncmp(options[i], prefix, sizeof prefix - 1) == 0 &&
                  arch_known(options[i] + sizeof prefix - 1);
        if (ok)
            *arch = options[i] + sizeof prefix - 1;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            ok |= strcmp(options[i], known[k]) == 0;
        if (!ok) {
            log_set(program, options[i]);
            return NVRTC_ERROR_INVALID_OPTION;
        }
    }
    return NVRTC_SUCCESS;
}

/* -- what was compiled before ------------------------------------------------------------------ */

/* With PHASOR_STAND_IN_KEEP=1 a source is compiled once in a process, for tests that call for the
 * same thing a thousand times. */
struct kept {
    struct kept *next;
    char *source;
    void *object;
    size_t nbytes;
};
static struct kept *kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static bool kept_find(nvrtcProgram program)
{
    pthread_mutex_lock(&kept_lock);
    const struct kept *k = kept;
    while (k && strcmp(k->source, program->source) != 0)
        k = k->next;
    pthread_mutex_unlock(&kept_lock);
    program->cubin = k ? malloc(k->nbytes) : NULL;
    if (!program->cubin)
        return false;
    memcpy(program->cubin, k->object, k->nbytes);
    program->cubin_size = k->nbytes;
    return true;
}

static void kept_add(const struct _nvrtcProgram *program)
{
    struct kept *k = getenv("PHASOR_STAND_IN_KEEP") ? calloc(1, sizeof *k) : NULL;
    if (!k)
        return;
    k->source = strdup(program->source);
    k->object = malloc(program->cubin_size);
    k->nbytes = program->cubin_size;
    memcpy(k->object, program->cubin, program->cubin_size);
    pthread_mutex_lock(&kept_lock);
    k->next = kept;
    kept = k;
    pthread_mutex_unlock(&kept_lock);
}

static nvrtcResult trailer_add(nvrtcProgram program, const char *arch)
{
    struct stand_in_trailer trailer = {.nbytes = program->cubin_size};
    snprintf(trailer.arch, sizeof trailer.arch, "%s", arch);
    char *grown = realloc(program->cubin, program->cubin_size + sizeof trailer);
    if (!grown)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    memcpy(grown + STAND_IN_MARK_AT, STAND_IN_MARK, STAND_IN_MARK_SIZE);
    memcpy(grown + program->cubin_size, &trailer, sizeof trailer);
    program->cubin = grown;
    program->cubin_size += sizeof trailer;
    return NVRTC_SUCCESS;
}

static bool has_text_of(const struct _nvrtcProgram *program, const char *variable)
{
    const char *text = getenv(variable);
    return text && *text && strstr(program->source, text);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
    const char *arch;
    if (injected("nvrtcCompileProgram"))
        log_set(program, "nvrtc: error: it was told to fail\n");
    INJECT("nvrtcCompileProgram");
    if (has_text_of(program, "PHASOR_STAND_IN_NVRTC_DIE"))
        raise(SIGKILL); /* as SIGSEGV, and no core is left */
    if (has_text_of(program, "PHASOR_STAND_IN_NVRTC_REFUSE")) {
        log_set(program, "map.cu(1): error: it was told to refuse this source\n");
        return NVRTC_ERROR_COMPILATION;
    }
    const nvrtcResult result = options_read(program, count, options, &arch);
    if (result != NVRTC_SUCCESS)
        return result;
    if (kept_find(program))
        return trailer_add(program, arch);
    if (!host_build(program->source, program->name, &program->cubin, &program->cubin_size)) {
        log_set(program, host_error());
        return NVRTC_ERROR_COMPILATION;
    }
    kept_add(program);
    return trailer_add(program, arch);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    INJECT("nvrtcGetCUBINSize");
    *size = injected("nvrtcGetCUBINSize") ? 0 : program->cubin_size;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    INJECT("nvrtcGetCUBIN");
    memcpy(cubin, program->cubin, program->cubin_size);
    return NVRTC_SUCCESS;
}

static const char ptx_header[] =
    "// no PTX: the stand-in for NVRTC compiled this source for the CPU\n";

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size)
{
    *size = sizeof ptx_header + strlen(program->source);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx)
{
    strcpy(ptx, ptx_header);
    strcat(ptx, program->source);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    INJECT("nvrtcGetProgramLogSize");
    *size = strlen(program->log) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    strcpy(log, program->log);
    return NVRTC_SUCCESS;
}

#pragma GCC visibility pop
#endif
