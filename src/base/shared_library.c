/* shared_library.c - see shared_library.h.
 *
 * To look in another place, add a row to `places`. A row is an optional variable, a pattern for the
 * folder, and whether the folder of the library's own wheel lies in it.
 */
#include "base/shared_library.h"

#include "base/memory.h"
#include "base/text.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct place {
    const char *variable; /* its value is put before the folder; NULL: the folder is whole */
    const char *folder;
    bool wheel; /* /WHEEL/lib follows */
} places[] = {
    {"CUDA_PATH", "/lib64", false},
    {"CUDA_PATH", "/lib", false},
    {"CUDA_HOME", "/lib64", false},
    {"CUDA_HOME", "/lib", false},
    {NULL, "/usr/local/cuda/lib64", false},
    {NULL, "/usr/local/cuda/lib", false},
    {NULL, "/usr/local/cuda-*/lib64", false},
    {NULL, "/usr/local/cuda-*/lib", false},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/cu1[3-9]/lib", false},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia", true},
    {"CONDA_PREFIX", "/lib", false},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/cu1[3-9]/lib", false},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia", true},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/cu1[3-9]/lib", false},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia", true},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/cu1[3-9]/lib", false},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia", true},
    {NULL, "/usr/lib/python3*/*-packages/nvidia/cu1[3-9]/lib", false},
    {NULL, "/usr/lib/python3*/*-packages/nvidia", true},
};

enum { PLACE_COUNT = sizeof places / sizeof *places };

/* What was tried, for the message; `reason` is the loader's word on the last file that exists but
 * cannot be opened. */
struct search {
    const struct library_search *asked;
    struct text tried, reason;
};

static bool file_open(struct search *search, const char *path, void **handle)
{
    if (search->asked->before)
        search->asked->before(path);
    /* Never unmapped: it leaves state for its threads that would outlive it. */
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
    if (snprintf(pattern, sizeof pattern, "%s/%s*", folder, search->asked->file) >=
        (int)sizeof pattern)
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
    if (snprintf(folder, sizeof folder, place->wheel ? "%s%s/%s/lib" : "%s%s", base, place->folder,
                 search->asked->wheel) >= (int)sizeof folder)
        return NULL;
    return folder_open(search, folder);
}

/* The wheels that the build put beside what it built. */
static void *beside_open(struct search *search)
{
    static const char *const folders[] = {"cuda-wheels/nvidia", "../cuda-wheels/nvidia",
                                          "../../cuda-wheels/nvidia"};
    Dl_info self;
    char folder[PATH_MAX], file[PATH_MAX];
    if (!dladdr((void *)(uintptr_t)shared_library_open, &self) || !self.dli_fname)
        return NULL;
    /* In a program that holds the library itself, this is what the caller typed. */
    if (!realpath(strchr(self.dli_fname, '/') ? self.dli_fname : "/proc/self/exe", file))
        return NULL;
    const int length = (int)(strrchr(file, '/') - file);
    for (size_t i = 0; i < 2 * (sizeof folders / sizeof *folders); i++) {
        const char *inside = i % 2 ? search->asked->wheel : "cu1[3-9]";
        if (snprintf(folder, sizeof folder, "%.*s/%s/%s/lib", length, file, folders[i / 2],
                     inside) >= (int)sizeof folder)
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
    for (int i = 0; i < search->asked->loader_name_count && !handle; i++) {
        handle = dlopen(search->asked->loader_names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
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
static void build_from_wheel(const struct library_search *asked, char build[32], const char *path)
{
    const char *root = strstr(path, "/nvidia/");
    char pattern[PATH_MAX];
    glob_t found = {0};
    if (!root || snprintf(pattern, sizeof pattern, "%.*s/nvidia_%s*.dist-info", (int)(root - path),
                          path, asked->wheel) >= (int)sizeof pattern)
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
static void build_from_toolkit(const struct library_search *asked, char build[32], const char *path)
{
    char name[PATH_MAX], contents[16384], key[64];
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
    snprintf(key, sizeof key, "\"%s\"", asked->wheel);
    const char *at = strstr(contents, key);
    at = at ? strstr(at, "\"version\"") : NULL;
    at = at ? strchr(at, ':') : NULL;
    at = at ? strchr(at, '"') : NULL;
    if (at)
        build_copy(build, at + 1);
}

static void build_find(const struct library_search *asked, struct shared_library *library)
{
    const char *name = strrchr(library->path, '/');
    const char *suffix = strstr(name ? name : library->path, ".so.");
    library->build[0] = '\0';
    if (suffix)
        build_copy(library->build, suffix + 4);
    if (!library->build[0])
        build_from_wheel(asked, library->build, library->path);
    if (!library->build[0])
        build_from_toolkit(asked, library->build, library->path);
}

/* -- opening ----------------------------------------------------------------------------------- */

static phasor_status path_find(const struct library_search *asked, struct shared_library *library)
{
    Dl_info info = {0};
    char resolved[PATH_MAX];
    const void *symbol = dlsym(library->handle, asked->symbol);
    const char *path =
        symbol && dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : asked->file;
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
    const struct library_search *asked = search->asked;
    if (named)
        return fail(asked->missing,
                    "%s=%s cannot be opened: %s. Name %s's file of CUDA 12.4 or newer, or unset %s "
                    "to search for it",
                    asked->variable, named, text_get(&search->reason), asked->file,
                    asked->variable);
    return fail(
        asked->missing,
        "%s not found: %s is neither on the loader's path nor in %s.%s%s %s, or let %s name "
        "the file",
        asked->name, asked->file, text_get(&search->tried),
        search->reason.length ? " The loader said: " : "", text_get(&search->reason), asked->advice,
        asked->variable);
}

phasor_status shared_library_open(const struct library_search *asked, struct shared_library *out)
{
    struct search search = {.asked = asked};
    const char *named = getenv(asked->variable);
    *out = (struct shared_library){0};
    if (named && *named)
        file_open(&search, named, &out->handle);
    else
        out->handle = anywhere_open(&search);

    const phasor_status status =
        out->handle ? path_find(asked, out) : search_fail(&search, named && *named ? named : NULL);
    text_free(&search.tried);
    text_free(&search.reason);
    if (status == PHASOR_OK)
        build_find(asked, out);
    else
        shared_library_close(out);
    return status;
}

void shared_library_close(struct shared_library *library)
{
    if (library->handle)
        dlclose(library->handle);
    memory_free(library->path);
    *library = (struct shared_library){0};
}
