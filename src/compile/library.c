/* library.c - see library.h.
 *
 * To look in another place, add a row to `places`. A row is an optional variable, and a pattern for
 * the folder.
 */
#include "compile/library.h"

#include "base/memory.h"
#include "base/text.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const loader_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

enum { NAME_COUNT = sizeof loader_names / sizeof *loader_names };

static const struct place {
    const char *variable; /* its value is put before the folder; NULL: the folder is whole */
    const char *folder;
} places[] = {
    {"CUDA_PATH", "/lib64"},
    {"CUDA_PATH", "/lib"},
    {"CUDA_HOME", "/lib64"},
    {"CUDA_HOME", "/lib"},
    {NULL, "/usr/local/cuda/lib64"},
    {NULL, "/usr/local/cuda/lib"},
    {NULL, "/usr/local/cuda-*/lib64"},
    {NULL, "/usr/local/cuda-*/lib"},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/cu1[3-9]/lib"},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib"},
    {"CONDA_PREFIX", "/lib"},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/cu1[3-9]/lib"},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib"},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/cu1[3-9]/lib"},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib"},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/cu1[3-9]/lib"},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/cuda_nvrtc/lib"},
    {NULL, "/usr/lib/python3*/*-packages/nvidia/cu1[3-9]/lib"},
    {NULL, "/usr/lib/python3*/*-packages/nvidia/cuda_nvrtc/lib"},
};

enum { PLACE_COUNT = sizeof places / sizeof *places };

/* What was tried, for the message; `reason` is the loader's word on the last file that exists but
 * cannot be opened. */
struct search {
    struct text tried, reason;
};

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

static bool file_open(struct search *search, const char *path, void **handle)
{
    builtins_open(path);
    /* Never unmapped: NVRTC leaves state for its threads that would outlive it. */
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (*handle)
        return true;
    const char *reason = dlerror();
    text_free(&search->reason);
    text_add(&search->reason, reason ? reason : path);
    return false;
}

static void *folder_open(struct search *search, const char *folder)
{
    char pattern[PATH_MAX];
    glob_t found = {0};
    void *handle = NULL;
    text_format(&search->tried, "%s%s", search->tried.length ? ", " : "", folder);
    if (snprintf(pattern, sizeof pattern, "%s/libnvrtc.so*", folder) >= (int)sizeof pattern)
        return NULL;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; i > 0 && !handle; i--) /* the newest name first */
            file_open(search, found.gl_pathv[i - 1], &handle);
    globfree(&found);
    return handle;
}

static void *place_open(struct search *search, const struct place *place)
{
    char folder[PATH_MAX];
    const char *base = place->variable ? getenv(place->variable) : "";
    if (!base || (place->variable && !*base))
        return NULL;
    if (snprintf(folder, sizeof folder, "%s%s", base, place->folder) >= (int)sizeof folder)
        return NULL;
    return folder_open(search, folder);
}

/* The wheels that the build put beside what it built. */
static void *beside_open(struct search *search)
{
    static const char *const folders[] = {
        "cuda-wheels/nvidia/cu1[3-9]/lib",       "cuda-wheels/nvidia/cuda_nvrtc/lib",
        "../cuda-wheels/nvidia/cu1[3-9]/lib",    "../cuda-wheels/nvidia/cuda_nvrtc/lib",
        "../../cuda-wheels/nvidia/cu1[3-9]/lib", "../../cuda-wheels/nvidia/cuda_nvrtc/lib"};
    Dl_info self;
    char folder[PATH_MAX], file[PATH_MAX];
    if (!dladdr((void *)(uintptr_t)library_open, &self) || !self.dli_fname)
        return NULL;
    /* In a program that holds the library itself, this is what the caller typed. */
    if (!realpath(strchr(self.dli_fname, '/') ? self.dli_fname : "/proc/self/exe", file))
        return NULL;
    const int length = (int)(strrchr(file, '/') - file);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (snprintf(folder, sizeof folder, "%.*s/%s", length, file, folders[i]) >=
            (int)sizeof folder)
            continue;
        void *handle = folder_open(search, folder);
        if (handle)
            return handle;
    }
    return NULL;
}

static void *anywhere_open(struct search *search)
{
    void *handle = NULL;
    for (int i = 0; i < NAME_COUNT && !handle; i++) {
        handle = dlopen(loader_names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!handle)
            dlerror();
    }
    for (int i = 0; i < PLACE_COUNT && !handle; i++)
        handle = place_open(search, &places[i]);
    return handle ? handle : beside_open(search);
}

/* -- the build number -------------------------------------------------------------------------- */

/* "13.0.88" at the start of text, three numbers; "" when it is no such text. */
static void build_copy(char build[32], const char *text)
{
    int major, minor, patch;
    if (sscanf(text, "%d.%d.%d", &major, &minor, &patch) == 3)
        snprintf(build, 32, "%d.%d.%d", major, minor, patch);
}

/* A wheel says its version in the name of a folder: nvidia_cuda_nvrtc-13.0.88.dist-info. */
static void build_from_wheel(char build[32], const char *path)
{
    const char *root = strstr(path, "/nvidia/");
    char pattern[PATH_MAX];
    glob_t found = {0};
    if (!root || snprintf(pattern, sizeof pattern, "%.*s/nvidia_cuda_nvrtc*.dist-info",
                          (int)(root - path), path) >= (int)sizeof pattern)
        return;
    if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1) {
        const char *name = strrchr(found.gl_pathv[0], '/');
        const char *dash = name ? strchr(name, '-') : NULL;
        if (dash)
            build_copy(build, dash + 1);
    }
    globfree(&found);
}

/* A toolkit has version.json in its root: "cuda_nvrtc" : { ... "version" : "13.0.88" }. */
static void build_from_toolkit(char build[32], const char *path)
{
    char name[PATH_MAX], contents[16384];
    const char *root = strstr(path, "/targets/");
    if (!root)
        root = strstr(path, "/lib");
    if (!root || snprintf(name, sizeof name, "%.*s/version.json", (int)(root - path), path) >=
                     (int)sizeof name)
        return;
    FILE *file = fopen(name, "r");
    if (!file)
        return;
    contents[fread(contents, 1, sizeof contents - 1, file)] = '\0';
    fclose(file);
    const char *at = strstr(contents, "\"cuda_nvrtc\"");
    at = at ? strstr(at, "\"version\"") : NULL;
    at = at ? strchr(at, ':') : NULL;
    at = at ? strchr(at, '"') : NULL;
    if (at)
        build_copy(build, at + 1);
}

static void build_find(struct library *library)
{
    const char *name = strrchr(library->path, '/');
    const char *suffix = strstr(name ? name : library->path, ".so.");
    library->build[0] = '\0';
    if (suffix)
        build_copy(library->build, suffix + 4);
    if (!library->build[0])
        build_from_wheel(library->build, library->path);
    if (!library->build[0])
        build_from_toolkit(library->build, library->path);
}

/* -- opening ----------------------------------------------------------------------------------- */

static phasor_status path_find(struct library *library)
{
    Dl_info info = {0};
    char resolved[PATH_MAX];
    const void *symbol = dlsym(library->handle, "nvrtcVersion");
    const char *path =
        symbol && dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "libnvrtc.so";
    if (realpath(path, resolved))
        path = resolved;
    library->path = memory_new(strlen(path) + 1);
    if (!library->path)
        return fail_memory();
    memcpy(library->path, path, strlen(path) + 1);
    return PHASOR_OK;
}

static phasor_status search_fail(const struct search *search, const char *named)
{
    if (named)
        return fail(PHASOR_ERROR_COMPILE,
                    "PHASOR_NVRTC=%s cannot be opened: %s. Name libnvrtc's file of CUDA 12.4 or "
                    "newer, or unset PHASOR_NVRTC to search for it",
                    named, text_get(&search->reason));
    return fail(
        PHASOR_ERROR_COMPILE,
        "NVRTC not found: neither libnvrtc.so.13, libnvrtc.so.12 nor libnvrtc.so on the "
        "loader's path, nor in %s.%s%s Install the CUDA toolkit 12.4 or newer, or run `pip install "
        "nvidia-cuda-nvrtc`, or let PHASOR_NVRTC name the file; kernels in the "
        "cache run without it",
        text_get(&search->tried), search->reason.length ? " The loader said: " : "",
        text_get(&search->reason));
}

phasor_status library_open(struct library *out)
{
    struct search search = {0};
    const char *named = getenv("PHASOR_NVRTC");
    *out = (struct library){0};
    if (named && *named)
        file_open(&search, named, &out->handle);
    else
        out->handle = anywhere_open(&search);

    const phasor_status status =
        out->handle ? path_find(out) : search_fail(&search, named && *named ? named : NULL);
    text_free(&search.tried);
    text_free(&search.reason);
    if (status == PHASOR_OK)
        build_find(out);
    else
        library_close(out);
    return status;
}

void library_close(struct library *library)
{
    if (library->handle)
        dlclose(library->handle);
    memory_free(library->path);
    *library = (struct library){0};
}
