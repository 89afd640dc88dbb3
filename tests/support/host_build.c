/* host_build.c - see host_run.h: CUDA text -> C++ text -> shared object -> symbols.
 *
 *     #define KERNEL mul
 *     extern "C" __global__ void KERNEL(const args a) {...}
 *  ->
 *     namespace source_0 {
 *     #define HOST_PREFIX host_0_
 *     #line 1 "mul.cu"
 *     #define KERNEL mul
 *     __global__ void KERNEL(const args a) {...} HOST_KERNEL(KERNEL, args)
 *     }
 *     #undef KERNEL
 *
 * Many sources stand in one file: the compiler's start costs more than a kernel. Each has a
 * namespace of its own and its macros end with it, so that all of them may define the same names.
 * What they begin with alike, up to a #line (the helpers of device.cuh), stands before them once. A
 * source includes nothing.
 *
 * Objects are kept by a hash of their text, of host_cuda.h, of the options and of the compiler, since
 * many programs compile the same text, and those under a sanitizer too: kernels are not instrumented.
 * PHASOR_TEST_OBJECTS names the folder; empty: nothing is kept.
 */
#include "host_run.h"

#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

extern char **environ;

enum { PARTS_MOST = 16, ERROR_SIZE = 32 * 1024, FOLDER_SIZE = 1024 };

static _Thread_local char error_text[ERROR_SIZE];

const char *host_error(void)
{
    return error_text;
}

static bool build_fail(const char *text, const char *detail)
{
    snprintf(error_text, sizeof error_text, "%s%s%s", text, *detail ? ":\n" : "", detail);
    return false;
}

void host_symbol(char symbol[256], int index, const char *name)
{
    snprintf(symbol, 256, "host_%d_%s", index, name);
}

/* -- rewriting --------------------------------------------------------------------------------- */

/* The end of the comment, string, character or directive that starts at s; s itself when none does.
 */
static const char *skip_opaque(const char *s)
{
    if (s[0] == '/' && s[1] == '/')
        return s + strcspn(s, "\n");
    if (s[0] == '/' && s[1] == '*') {
        const char *end = strstr(s + 2, "*/");
        return end ? end + 2 : s + strlen(s);
    }
    if (*s == '"' || *s == '\'') {
        const char quote = *s++;
        while (*s && *s != quote)
            s += s[0] == '\\' && s[1] ? 2 : 1;
        return *s ? s + 1 : s;
    }
    if (*s == '#') {
        while (*s && *s != '\n')
            s += s[0] == '\\' && s[1] ? 2 : 1;
        return s;
    }
    return s;
}

/* The matching bracket of the one at s. */
static const char *skip_brackets(const char *s, char open, char close)
{
    int depth = 0;
    while (*s) {
        const char *end = skip_opaque(s);
        if (end != s) {
            s = end;
            continue;
        }
        depth += (*s == open) - (*s == close);
        if (depth == 0)
            return s;
        s++;
    }
    return s;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const char *skip_space(const char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    return s;
}

struct word {
    const char *at;
    int length;
};

/* Reads "void __launch_bounds__(N) NAME(const __grid_constant__ TYPE a)": the name, the type and
 * what is behind it. */
static const char *signature_read(const char *s, struct word *name, struct word *type)
{
    struct word words[2] = {{0}};
    *name = *type = (struct word){0};
    for (s = skip_space(s); is_word(*s); s = skip_space(s)) {
        const char *start = s;
        while (is_word(*s))
            s++;
        *name = (struct word){start, (int)(s - start)};
        s = skip_space(s);
        if (*s == '(' && name->length == 17 && strncmp(start, "__launch_bounds__", 17) == 0)
            s = skip_brackets(s, '(', ')') + 1;
    }
    if (*s != '(')
        return s;
    const char *end = skip_brackets(s, '(', ')');
    for (s++; s < end; s++) {
        if (!is_word(*s))
            continue;
        words[0] = words[1];
        words[1].at = s;
        while (is_word(*s) || *s == ':') /* the type may be qualified */
            s++;
        words[1].length = (int)(s - words[1].at);
    }
    *type = words[0];
    return skip_space(end + (*end == ')'));
}

/* Copies up to the marker, without an `extern "C"` right before it. */
static void copy_without_linkage(FILE *out, const char *from, const char *to)
{
    static const char linkage[] = "extern \"C\"";
    const char *end = to;
    while (end > from && isspace((unsigned char)end[-1]))
        end--;
    const size_t length = sizeof linkage - 1;
    if ((size_t)(end - from) >= length && memcmp(end - length, linkage, length) == 0) {
        fwrite(from, 1, (size_t)(end - from) - length, out);
        fwrite(end, 1, (size_t)(to - end), out);
    } else {
        fwrite(from, 1, (size_t)(to - from), out);
    }
}

/* Ends the macros of a source, so that the next one may define them anew. */
static void macros_end(FILE *out, const char *source)
{
    for (const char *line = source; *line;
         line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n')) {
        const char *s = line + strspn(line, " \t");
        if (*s++ != '#')
            continue;
        s += strspn(s, " \t");
        if (strncmp(s, "define", 6) != 0)
            continue;
        s += 6 + strspn(s + 6, " \t");
        int length = 0;
        while (is_word(s[length]))
            length++;
        fprintf(out, "#undef %.*s\n", length, s);
    }
}

static void kernels_rewrite(FILE *out, const char *source)
{
    static const char marker[] = "__global__";
    const char *copied = source;
    for (const char *s = source; *s;) {
        const char *end = skip_opaque(s);
        if (end != s || strncmp(s, marker, sizeof marker - 1) != 0 ||
            (s > source && is_word(s[-1]))) {
            s = end != s ? end : s + 1;
            continue;
        }
        struct word kernel, type;
        const char *body = signature_read(s + sizeof marker - 1, &kernel, &type);
        copy_without_linkage(out, copied, s);
        copied = s;
        s = body;
        if (*body != '{' || !type.at)
            continue;
        s = skip_brackets(body, '{', '}');
        s += *s == '}';
        fwrite(copied, 1, (size_t)(s - copied), out);
        fprintf(out, " HOST_KERNEL(%.*s, %.*s)", kernel.length, kernel.at, type.length, type.at);
        copied = s;
    }
    fputs(copied, out);
}

static void source_rewrite(FILE *out, const char *source, const char *name, int index)
{
    fprintf(out, "namespace source_%d {\n#define HOST_PREFIX host_%d_\n#line 1 \"%s\"\n", index,
            index, name);
    kernels_rewrite(out, source);
    fputs("\n}\n#undef HOST_PREFIX\n", out);
    macros_end(out, source);
}

/* -- compiling --------------------------------------------------------------------------------- */

/* Some of the sources, compiled as one file. */
struct part {
    int first, count;
    pid_t compiler;
    char source[PATH_MAX], object[PATH_MAX], log[PATH_MAX];
    bool found;
    char kept[PATH_MAX]; /* where the object is kept; "": nowhere */
};

static bool folder_make(char folder[FOLDER_SIZE])
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, FOLDER_SIZE, "%s/phasor-host-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(folder) != NULL || build_fail("no temporary folder can be made", folder);
}

static void folder_remove(const char *folder, const struct part *parts, int part_count)
{
    for (int i = 0; i < part_count; i++) {
        unlink(parts[i].source);
        unlink(parts[i].object);
        unlink(parts[i].log);
    }
    rmdir(folder);
}

/* The length of what all sources of a part begin with, up to the last #line in it. */
static size_t common_length(const struct part *part, const char *const *sources)
{
    const char *first = sources[part->first];
    size_t length = part->count > 1 ? strlen(first) : 0;
    for (int i = part->first + 1; i < part->first + part->count; i++) {
        size_t same = 0;
        while (same < length && sources[i][same] == first[same])
            same++;
        length = same;
    }
    while (length > 0 && (first[length - 1] != '\n' || strncmp(first + length, "#line", 5) != 0))
        length--;
    return length;
}

static bool part_write(const struct part *part, const char *const *sources,
                       const char *const *names)
{
    FILE *file = fopen(part->source, "w");
    if (!file)
        return build_fail("a source cannot be written", part->source);
    const size_t common = common_length(part, sources);
    fputs("#include \"host_cuda.h\"\n", file);
    fwrite(sources[part->first], 1, common, file);
    for (int i = part->first; i < part->first + part->count; i++)
        source_rewrite(file, sources[i] + common, names[i], i);
    return fclose(file) == 0 || build_fail("a source cannot be written", part->source);
}

/* The folder of this file, where host_cuda.h is. */
static void include_option(char option[PATH_MAX])
{
#ifdef PHASOR_TEST_SUPPORT
    snprintf(option, PATH_MAX, "-I%s", PHASOR_TEST_SUPPORT);
#else
    const char *here = __FILE__, *slash = strrchr(here, '/');
    snprintf(option, PATH_MAX, "-I%.*s", slash ? (int)(slash - here) : 1, slash ? here : ".");
#endif
}

static bool file_copy(const char *from, const char *to)
{
    char bytes[65536];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    bool ok = in && out;
    for (size_t n; ok && (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        ok = fwrite(bytes, 1, n, out) == n;
    ok = ok && !ferror(in);
    if (in)
        fclose(in);
    if (out)
        ok &= fclose(out) == 0;
    if (!ok)
        unlink(to);
    return ok;
}

/* -fno-builtin: asinf(0.5f) is the C library's, as the evaluator's is. */
#define OPTIONS                                                                             \
    "-O1", "-std=c++17", "-ffp-contract=off", "-fno-builtin", "-fno-strict-aliasing", "-w", \
        "-pipe", "-shared", "-fPIC"

static bool file_hash(XXH3_state_t *state, const char *path)
{
    char bytes[65536];
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        XXH3_128bits_update(state, bytes, n);
    const bool read = !ferror(file);
    fclose(file);
    return read;
}

/* The first line of `c++ --version`, with the file's time: asked once. */
static const char *compiler_version(void)
{
    static _Thread_local char version[256];
    FILE *pipe = version[0] ? NULL : popen("c++ --version", "r");
    if (pipe && !fgets(version, sizeof version, pipe))
        version[0] = '\0';
    if (pipe)
        pclose(pipe);
    return version;
}

/* "" where there is no folder, or something cannot be read. */
static void part_name_kept(struct part *part)
{
    static const char *const options[] = {OPTIONS};
    char header[PATH_MAX];
    const char *folder = getenv("PHASOR_TEST_OBJECTS"), *version = compiler_version();
    XXH3_state_t *state = XXH3_createState();
#ifdef PHASOR_TEST_OBJECTS
    folder = folder ? folder : PHASOR_TEST_OBJECTS;
#endif
    part->kept[0] = '\0';
    include_option(header);
    strncat(header, "/host_cuda.h", sizeof header - strlen(header) - 1);
    if (state && folder && *folder && *version) {
        XXH3_128bits_reset(state);
        XXH3_128bits_update(state, version, strlen(version));
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            XXH3_128bits_update(state, options[i], strlen(options[i]) + 1);
        const bool read = file_hash(state, header + 2) && file_hash(state, part->source);
        const XXH128_hash_t hash = XXH3_128bits_digest(state);
        mkdir(folder, 0777);
        if (read)
            snprintf(part->kept, sizeof part->kept, "%s/%016llx%016llx.so", folder,
                     (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    }
    XXH3_freeState(state);
}

/* A copy: the loader takes two names of one file for one object, and its variables would be shared. */
static bool part_find_kept(struct part *part)
{
    part_name_kept(part);
    return part->kept[0] && access(part->kept, R_OK) == 0 && file_copy(part->kept, part->object);
}

/* Under another name first: who finds an object finds all of it. */
static void part_keep(const struct part *part)
{
    char name[PATH_MAX + 32];
    snprintf(name, sizeof name, "%s.%ld", part->kept, (long)getpid());
    if (part->kept[0] && file_copy(part->object, name) && rename(name, part->kept) != 0)
        unlink(name);
}

static bool part_start(struct part *part)
{
    char include[PATH_MAX];
    posix_spawn_file_actions_t actions;
    include_option(include);
    char *arguments[] = {"c++", OPTIONS, include, "-o", part->object, part->source, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, part->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 2, 1);
    const bool ok = posix_spawnp(&part->compiler, "c++", &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    if (ok)
        return true;
    part->compiler = 0;
    return build_fail("the compiler c++ cannot be started", "");
}

static bool part_finish(struct part *part)
{
    int status = 0;
    if (part->found)
        return true;
    if (part->compiler <= 0)
        return false;
    while (waitpid(part->compiler, &status, 0) < 0)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        part_keep(part);
        return true;
    }
    char log[ERROR_SIZE / 2] = "";
    FILE *file = fopen(part->log, "r");
    if (file) {
        log[fread(log, 1, sizeof log - 1, file)] = '\0';
        fclose(file);
    }
    return build_fail("c++ does not compile it", log);
}

/* Writes and compiles the sources into the folder, the parts at the same time. */
static bool parts_build(const char *folder, const char *const *sources, const char *const *names,
                        int count, struct part *parts, int part_count)
{
    bool ok = true;
    for (int i = 0; i < part_count; i++) {
        struct part *part = &parts[i];
        part->first = (int)((long)count * i / part_count);
        part->count = (int)((long)count * (i + 1) / part_count) - part->first;
        snprintf(part->source, sizeof part->source, "%s/%d.cpp", folder, i);
        snprintf(part->object, sizeof part->object, "%s/%d.so", folder, i);
        snprintf(part->log, sizeof part->log, "%s/%d.log", folder, i);
        ok &= part_write(part, sources, names);
        part->found = ok && part_find_kept(part);
        ok = ok && (part->found || part_start(part));
    }
    for (int i = 0; i < part_count; i++)
        ok &= part_finish(&parts[i]);
    return ok;
}

/* -- one source, as bytes ---------------------------------------------------------------------- */

static bool file_read(const char *path, void **bytes, size_t *nbytes)
{
    FILE *file = fopen(path, "r");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        return build_fail("no file", path);
    const long size = ftell(file);
    rewind(file);
    *bytes = malloc(size > 0 ? (size_t)size : 1);
    *nbytes = *bytes && size > 0 ? fread(*bytes, 1, (size_t)size, file) : 0;
    fclose(file);
    return (size > 0 && *nbytes == (size_t)size) || build_fail("cannot be read", path);
}

bool host_build(const char *source, const char *name, void **bytes, size_t *nbytes)
{
    char folder[FOLDER_SIZE];
    struct part part = {0};
    *bytes = NULL;
    *nbytes = 0;
    if (!folder_make(folder))
        return false;
    const bool ok =
        parts_build(folder, &source, &name, 1, &part, 1) && file_read(part.object, bytes, nbytes);
    folder_remove(folder, &part, 1);
    return ok;
}

/* -- many sources, opened ---------------------------------------------------------------------- */

struct host_module {
    int part_count;
    struct part parts[PARTS_MOST];
    void *handles[PARTS_MOST];
};

static bool module_open(struct host_module *module)
{
    for (int i = 0; i < module->part_count; i++) {
        module->handles[i] = dlopen(module->parts[i].object, RTLD_NOW | RTLD_LOCAL);
        if (!module->handles[i])
            return build_fail("the compiled kernels cannot be opened", dlerror());
    }
    return true;
}

bool host_compile(const char *const *sources, const char *const *names, int count,
                  struct host_module **out)
{
    char folder[FOLDER_SIZE];
    *out = NULL;
    struct host_module *module = calloc(1, sizeof *module);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!module || !folder_make(folder)) {
        free(module);
        return false;
    }
    module->part_count = cores < 1 ? 1 : cores > PARTS_MOST ? PARTS_MOST : (int)cores;
    if (module->part_count > count)
        module->part_count = count;
    const bool ok = parts_build(folder, sources, names, count, module->parts, module->part_count) &&
                    module_open(module);
    folder_remove(folder, module->parts, module->part_count);
    if (ok)
        *out = module;
    else
        host_close(module);
    return ok;
}

void host_close(struct host_module *module)
{
    if (!module)
        return;
    for (int i = 0; i < module->part_count; i++)
        if (module->handles[i])
            dlclose(module->handles[i]);
    free(module);
}

bool host_launch(struct host_module *module, int index, const char *name, unsigned grid,
                 unsigned block, const void *arguments)
{
    char symbol[256];
    host_kernel *kernel = NULL;
    host_symbol(symbol, index, name);
    for (int i = 0; i < module->part_count; i++)
        if (index >= module->parts[i].first &&
            index < module->parts[i].first + module->parts[i].count)
            kernel = (host_kernel *)dlsym(module->handles[i], symbol);
    if (!kernel)
        return build_fail("there is no such kernel", symbol);
    return host_run_kernel(kernel, grid, block, arguments) ||
           build_fail("threads of a block wait at different places, or the block's size is wrong",
                      symbol);
}
