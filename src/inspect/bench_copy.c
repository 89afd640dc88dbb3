/* bench_copy.c - see bench.h: the yardstick. A copy of as many bytes as a call must move, half read
 * and half written.
 *
 *     bytes 1 GiB   ->   set 0: [ from 512 MiB | to 512 MiB ], set 1: ...
 *
 * The kernels are made of the same templates as those that are measured against them: map.cu with a
 * body of one load and one store of 16 bytes.
 */
#include "context/runtime.h"
#include "inspect/bench.h"

#include "base/log.h"

#include <string.h>

enum { LINE = 256, GATE_BYTES = 256 << 20 };

struct copy_argument {
    const char *from;
    char *to;
    uint64_t count; /* runs of 16 bytes */
};

static const struct copy_kind {
    const char *name, *store;
    uint32_t block;
} kinds[COPY_KERNELS] = {{"copy_stream", "stream16", 128}, {"copy_store", "store16", 256}};

/* -- kernels ----------------------------------------------------------------------------------- */

static void kernel_print(const struct templates *templates, const struct copy_kind *kind,
                         struct text *out)
{
    text_format(out, "#line 1 \"device.cuh\"\n%s\n#line 1 \"prologue\"\n", templates->device);
    text_format(out, "#define KERNEL %s\n#define BLOCK %u\n#define COUNT a.count\n", kind->name,
                kind->block);
    text_add(out, "typedef u64 index_t;\nstruct args {\n    const void *p0;\n    void *p1;\n    "
                  "u64 count;\n};\n");
    text_format(
        out,
        "DEVICE void body(const args &a, index_t i)\n{\n    %s(a.p1, i, read16(a.p0, i));\n}\n",
        kind->store);
    text_format(out, "\n#line 1 \"map.cu\"\n%s", templates->map);
}

static phasor_status kernel_compile(struct phasor_runtime *runtime, const struct copy_kind *kind,
                                    struct compile_result *result)
{
    struct compiler *compiler;
    struct text source = {0};
    TRY(runtime_compiler(runtime, &compiler));
    kernel_print(&runtime->templates, kind, &source);
    phasor_status status = text_status(&source);
    const struct compile_request request = {
        .name = kind->name, .source = text_get(&source), .arch = runtime->arch};
    if (status == PHASOR_OK)
        status = compiler_run(compiler, &request, result);
    text_free(&source);
    return status;
}

static phasor_status kernel_open(struct bench_copy *copy, int k)
{
    struct device *device = copy->runtime->device;
    struct compile_result result = {0};
    TRY(kernel_compile(copy->runtime, &kinds[k], &result));
    phasor_status status =
        device_module_load(device, result.cubin, result.cubin_size, &copy->modules[k]);
    if (status == PHASOR_OK)
        status = device_module_function(copy->modules[k], kinds[k].name, &copy->functions[k]);
    compile_result_free(&result);
    return status;
}

phasor_status bench_compiler_start(struct phasor_runtime *runtime)
{
    struct compile_result result = {0};
    TRY(kernel_compile(runtime, &kinds[0], &result));
    compile_result_free(&result);
    return PHASOR_OK;
}

/* -- memory ------------------------------------------------------------------------------------ */

int bench_sets(int64_t set_bytes)
{
    enum { SETS_MIN = 2, SETS_MAX = 256 };
    const int64_t together = INT64_C(512) << 20;
    const int64_t sets = set_bytes > 0 ? (together + set_bytes - 1) / set_bytes : SETS_MAX;
    return sets < SETS_MIN ? SETS_MIN : sets > SETS_MAX ? SETS_MAX : (int)sets;
}

/* Fewer sets where there is less memory; at least the gate or one set. */
static phasor_status memory_get(struct bench_copy *copy)
{
    void *base = NULL;
    for (copy->sets = bench_sets(copy->stride);; copy->sets = (copy->sets + 1) / 2) {
        copy->room = copy->sets * copy->stride;
        if (copy->room < GATE_BYTES && copy->sets > 1)
            copy->room = GATE_BYTES;
        const phasor_status status =
            device_allocate(copy->runtime->device, (size_t)copy->room, &base, copy->stream);
        copy->base = base;
        if (status == PHASOR_OK)
            return device_fill_zero(copy->runtime->device, base, (size_t)copy->room, copy->stream);
        if (status != PHASOR_ERROR_MEMORY || copy->sets == 1)
            return status;
    }
}

phasor_status bench_copy_open(struct bench_copy *copy, struct phasor_runtime *runtime,
                              int64_t bytes, void *stream)
{
    const int64_t half = bytes / 2 > LINE ? bytes / 2 : LINE;
    *copy = (struct bench_copy){.runtime = runtime, .stream = stream, .half = half / 16 * 16};
    copy->stride = 2 * ((copy->half + LINE - 1) / LINE * LINE);
    TRY(memory_get(copy));
    for (int k = 0; k < COPY_KERNELS; k++)
        if (kernel_open(copy, k) != PHASOR_OK) {
            log_line(LOG_INFO, "no copy kernel to compare with: %s", message_get());
            copy->functions[k] = NULL;
        }
    return PHASOR_OK;
}

void bench_copy_close(struct bench_copy *copy)
{
    if (!copy->runtime)
        return;
    for (int k = 0; k < COPY_KERNELS; k++)
        device_module_unload(copy->modules[k]);
    device_free(copy->runtime->device, copy->base, copy->stream);
}

/* -- issuing ----------------------------------------------------------------------------------- */

static char *set_base(const struct bench_copy *copy, int turn)
{
    return copy->base + turn % copy->sets * copy->stride;
}

static phasor_status driver_issue(void *context, int turn)
{
    const struct bench_copy *copy = context;
    char *from = set_base(copy, turn);
    return device_copy(copy->runtime->device, from + copy->stride / 2, from, (size_t)copy->half,
                       copy->stream);
}

static phasor_status kernel_issue(void *context, int turn)
{
    const struct bench_way *way = context;
    const struct bench_copy *copy = way->copy;
    char *from = set_base(copy, turn);
    const struct copy_argument argument = {from, from + copy->stride / 2,
                                           (uint64_t)copy->half / 16};
    const uint32_t block = kinds[way->kernel].block;
    return device_launch(copy->runtime->device, copy->functions[way->kernel],
                         (uint32_t)((argument.count + block - 1) / block), block, 0, &argument,
                         sizeof argument, copy->stream);
}

int bench_copy_meters(struct bench_copy *copy, struct meter meters[1 + COPY_KERNELS])
{
    int count = 0;
    meters[count++] = (struct meter){.issue = driver_issue, .context = copy, .launches = 1};
    for (int k = 0; k < COPY_KERNELS; k++) {
        copy->ways[k] = (struct bench_way){copy, k};
        if (copy->functions[k])
            meters[count++] =
                (struct meter){.issue = kernel_issue, .context = &copy->ways[k], .launches = 1};
    }
    return count;
}
