/* fuzz_sizes.c - values of --dim, and files of lengths.
 *
 *     q.1=1:9:4          one --dim a line, up to an empty line
 *     start=2
 *
 *     q.0=4 q.1=137      the file of lengths
 *
 * Names and ranges are looked up in a small program with an integer and a dynamic dim.
 */
#include "../../tools/phasor/options.c"
#include "../../tools/phasor/report.c"
#include "../../tools/phasor/sizes.c"

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static const char program_text[] = "phasor 1 \"lengths\"\n"
                                   "symbol s in 1..4096 = 3\n"
                                   "symbol n in 0..100 = 2\n"
                                   "input q: f32[2, s]\n"
                                   "input start: int n\n"
                                   "minus = neg(q)\n"
                                   "output minus\n";

static phasor_program *program_get(void)
{
    static phasor_runtime *runtime;
    static phasor_program *program;
    phasor_options options = {.size = sizeof options, .device = PHASOR_DEVICE_CPU};
    char path[64];
    if (program)
        return program;
    options.cache = ":memory:";
    const int file = memfd_create("program", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (write(file, program_text, sizeof program_text - 1) < 0 ||
        phasor_open(&runtime, &options) != PHASOR_OK ||
        phasor_program_load(runtime, path, NULL, &program) != PHASOR_OK) {
        fprintf(stderr, "%s\n", phasor_message());
        abort();
    }
    close(file);
    return program;
}

static void combination_try(const struct size_set *set, uint64_t index)
{
    int count;
    int64_t dims[8];
    phasor_binding *bindings = size_set_at(set, index, &count);
    phasor_program_sizes(program_get(), bindings, count, dims, 8);
    free(bindings);
}

static void set_try(const struct settings *settings)
{
    struct size_set set;
    uint64_t count = 0;
    if (size_set_check(settings) != PHASOR_OK || size_set_read(settings, &set) != PHASOR_OK)
        return;
    size_set_skip(&set, program_get());
    if (size_set_count(&set, &count) == PHASOR_OK && count > 0) {
        combination_try(&set, 0);
        combination_try(&set, count - 1);
        combination_try(&set, count / 2);
    }
    size_set_free(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct settings settings = {0};
    char path[64], *rest = NULL;
    char *text = memory_copy((const char *)bytes, nbytes);
    char *lengths = strstr(text, "\n\n");
    int file = -1;
    if (lengths) {
        *lengths = '\0';
        file = memfd_create("lengths", 0);
        const size_t start = (size_t)(lengths + 2 - text);
        if (file < 0 || write(file, bytes + start, nbytes - start) < 0)
            abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        settings.lengths = path;
    }
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        words_add(&settings.dims, line);
    set_try(&settings);
    if (file >= 0)
        close(file);
    free(settings.dims.at);
    free(text);
    return 0;
}
