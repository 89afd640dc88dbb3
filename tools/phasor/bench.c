/* bench.c - phasor bench: what calls of a program cost, beside a copy of the same bytes and a bare
 * launch in the same run.
 *
 *     rope.pt2 --dim x.0=4 --dim x.1=8192
 *         ->  device  131.2 us  4093 GB/s, 0.98 of a copy
 *             host      4.1 us  0.5 us over the bare launch
 *             first call ...
 *
 * With --lengths it is a series of calls instead (bench_series.c).
 */
#include "bench.h"

#include "sizes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FRESH_RUNS = 3 };

double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double bench_rate(int64_t nbytes, double microseconds)
{
    return microseconds > 0 ? (double)nbytes / microseconds * 1e-3 : 0;
}

/* -- one set of sizes -------------------------------------------------------------------------- */

static int program_measure(const struct settings *settings, phasor_program *program,
                           const phasor_bench_options *options, phasor_bench_result *out)
{
    struct inputs inputs;
    TRY(inputs_shape_from(settings, program, &inputs));
    *out = (phasor_bench_result){.size = sizeof *out};
    const int status =
        report_library(phasor_program_bench(program, inputs.values, inputs.count, options, out));
    inputs_free(&inputs);
    return status;
}

/* The first call of a new program on a new runtime with this cache. */
static int fresh_measure(const struct settings *settings, const char *cache, bool open_compiler,
                         phasor_bench_result *out)
{
    struct settings changed = *settings;
    struct opened opened;
    const phasor_bench_options options = {.size = sizeof options,
                                          .seed = (uint64_t)settings->seed,
                                          .first_only = true,
                                          .open_compiler = open_compiler};
    changed.cache = cache;
    TRY(open_for_run(&changed, settings->operands.at[0], &opened));
    const int status = program_measure(settings, opened.program, &options, out);
    opened_close(&opened);
    return status;
}

static int double_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *samples)
{
    qsort(samples, FRESH_RUNS, sizeof *samples, double_compare);
    return samples[FRESH_RUNS / 2];
}

/* An empty cache in memory, and NVRTC that has compiled something already. */
static int cold_measure(const struct settings *settings, struct bench_figures *out)
{
    double first[FRESH_RUNS], compiler[FRESH_RUNS];
    for (int i = 0; i < FRESH_RUNS; i++) {
        phasor_bench_result result;
        TRY(fresh_measure(settings, ":memory:", true, &result));
        first[i] = result.first;
        compiler[i] = result.compiler;
    }
    out->cold = middle(first);
    out->cold_compiler = middle(compiler);
    return PHASOR_OK;
}

static int cached_measure(const struct settings *settings, struct bench_figures *out)
{
    double first[FRESH_RUNS];
    for (int i = 0; i < FRESH_RUNS; i++) {
        phasor_bench_result result;
        TRY(fresh_measure(settings, settings->cache, false, &result));
        first[i] = result.first;
        if (result.compiled > 0) /* the cache keeps nothing: switched off, or not writable */
            return PHASOR_OK;
    }
    out->cached = middle(first);
    return PHASOR_OK;
}

/* Where there is a compiler it has made the copy kernel by now. */
static int firsts_measure(const struct settings *settings, const struct opened *opened,
                          struct bench_figures *out)
{
    if (out->warm.device.count == 0)
        return PHASOR_OK;
    if (out->warm.copy_kernel.count > 0)
        TRY(cold_measure(settings, out));
    return strcmp(phasor_cache_path(opened->runtime), ":memory:") == 0
               ? PHASOR_OK
               : cached_measure(settings, out);
}

/* -- printing ---------------------------------------------------------------------------------- */

void bench_print_times(const char *name, const phasor_times *times)
{
    if (times->count > 0)
        say("%-12s %10.2f us   p90 %.2f, p99 %.2f, max %.2f (%" PRId64 ")", name, times->p50,
            times->p90, times->p99, times->max, times->count);
}

static void print_device(const phasor_bench_result *warm)
{
    bench_print_times("device", &warm->device);
    say("\n             %.0f GB/s", bench_rate(warm->bytes, warm->device.p50));
    if (warm->copy.count > 0)
        say(", %.3f of a copy", warm->copy.p50 / warm->device.p50);
    say("\n");
    if (warm->copy.count == 0)
        return;
    bench_print_times("copy", &warm->copy);
    say("\n             %.0f GB/s, the faster of cuMemcpyAsync (%.2f us)",
        bench_rate(warm->bytes, warm->copy.p50), warm->copy_driver.p50);
    if (warm->copy_kernel.count > 0)
        say(" and a kernel (%.2f us)", warm->copy_kernel.p50);
    say("\n");
}

static void print_host(const phasor_bench_result *warm)
{
    bench_print_times("host", &warm->host);
    say("\n");
    if (warm->launch.count == 0)
        return;
    bench_print_times("bare launch", &warm->launch);
    say("\n             a call costs %.2f us more\n", warm->host.p50 - warm->launch.p50);
}

static void print_firsts(const struct bench_figures *figures)
{
    say("first call   %10.2f ms   in this process: %" PRIu64 " compiled, %" PRIu64
        " from the cache\n",
        figures->warm.first * 1e-3, figures->warm.compiled, figures->warm.cache_hits);
    if (figures->cold > 0)
        say("             %10.2f ms   with an empty cache; NVRTC alone %.2f ms\n",
            figures->cold * 1e-3, figures->cold_compiler * 1e-3);
    if (figures->cached > 0)
        say("             %10.2f ms   with a filled cache\n", figures->cached * 1e-3);
    say("loading      %10.2f ms   of the program\n", figures->load_ms);
}

static void figures_print(const struct bench_figures *figures)
{
    const phasor_bench_result *warm = &figures->warm;
    say("%s\n%s, %s: %d kernel%s", figures->title, figures->device, warm->mode, warm->kernels,
        warm->kernels == 1 ? "" : "s");
    if (warm->setup_kernels > 0)
        say(" and %d once for these sizes", warm->setup_kernels);
    say(", %" PRId64 " bytes a call, %d set%s of %" PRId64 " bytes in turn\n", warm->bytes,
        warm->sets, warm->sets == 1 ? "" : "s", warm->set_bytes);
    if (warm->device.count > 0)
        print_device(warm);
    print_host(warm);
    print_firsts(figures);
}

void bench_print_json_times(struct json *json, const char *key, const phasor_times *times)
{
    if (times->count == 0) {
        json_string(json, key, NULL);
        return;
    }
    json_open(json, key, '{');
    json_integer(json, "count", times->count);
    json_real(json, "p50", times->p50);
    json_real(json, "p90", times->p90);
    json_real(json, "p99", times->p99);
    json_real(json, "max", times->max);
    json_close(json, '}');
}

static void json_measured(struct json *json, const char *key, double value)
{
    if (value > 0)
        json_real(json, key, value);
    else
        json_string(json, key, NULL);
}

static void json_times(struct json *json, const phasor_bench_result *warm)
{
    bench_print_json_times(json, "host_us", &warm->host);
    bench_print_json_times(json, "launch_us", &warm->launch);
    bench_print_json_times(json, "device_us", &warm->device);
    bench_print_json_times(json, "copy_us", &warm->copy);
    bench_print_json_times(json, "copy_driver_us", &warm->copy_driver);
    bench_print_json_times(json, "copy_kernel_us", &warm->copy_kernel);
    json_measured(json, "gb_per_s", bench_rate(warm->bytes, warm->device.p50));
    json_measured(json, "copy_gb_per_s", bench_rate(warm->bytes, warm->copy.p50));
    json_measured(json, "share_of_copy",
                  warm->device.p50 > 0 ? warm->copy.p50 / warm->device.p50 : 0);
}

static void figures_print_json(const struct bench_figures *figures)
{
    struct json json = {.out = stdout};
    const phasor_bench_result *warm = &figures->warm;
    json_open(&json, NULL, '{');
    json_string(&json, "device", figures->device);
    json_string(&json, "mode", warm->mode);
    json_string(&json, "sizes", figures->title);
    json_integer(&json, "kernels", warm->kernels);
    json_integer(&json, "setup_kernels", warm->setup_kernels);
    json_integer(&json, "compiled", (int64_t)figures->counters.compiled);
    json_integer(&json, "cache_hits", (int64_t)figures->counters.cache_hits);
    json_integer(&json, "bytes", warm->bytes);
    json_integer(&json, "kernel_bytes", warm->kernel_bytes);
    json_integer(&json, "set_bytes", warm->set_bytes);
    json_integer(&json, "sets", warm->sets);
    json_times(&json, warm);
    json_real(&json, "load_ms", figures->load_ms);
    json_real(&json, "first_ms", warm->first * 1e-3);
    json_integer(&json, "first_compiled", (int64_t)warm->compiled);
    json_integer(&json, "first_cache_hits", (int64_t)warm->cache_hits);
    json_measured(&json, "cold_ms", figures->cold * 1e-3);
    json_measured(&json, "nvrtc_ms", figures->cold_compiler * 1e-3);
    json_measured(&json, "cached_ms", figures->cached * 1e-3);
    json_close(&json, '}');
}

/* -- the title --------------------------------------------------------------------------------- */

/* "x[4, 8192, 32, 128] table[8192, 64, 2]". Free it. */
static int title_print(const struct settings *settings, const phasor_program *program, char **out)
{
    struct inputs inputs;
    size_t size;
    TRY(inputs_shape_from(settings, program, &inputs));
    FILE *file = open_memstream(out, &size);
    if (!file) {
        inputs_free(&inputs);
        return report_failure(PHASOR_ERROR_MEMORY, "out of memory");
    }
    for (int i = 0; i < inputs.count; i++) {
        phasor_spec spec = {.size = sizeof spec};
        if (inputs.values[i].kind != PHASOR_TENSOR ||
            phasor_program_input(program, i, &spec) != PHASOR_OK)
            continue;
        fprintf(file, "%s%s[", i ? " " : "", spec.name);
        for (int d = 0; d < spec.rank; d++)
            fprintf(file, "%s%" PRId64, d ? ", " : "", inputs.tensors[i].tensor.shape[d]);
        fputc(']', file);
    }
    fclose(file);
    inputs_free(&inputs);
    return PHASOR_OK;
}

/* -- the command ------------------------------------------------------------------------------- */

static int sizes_measure(const struct settings *settings, struct opened *opened,
                         struct bench_figures *figures)
{
    const phasor_bench_options options = {
        .size = sizeof options, .seed = (uint64_t)settings->seed, .seconds = settings->seconds};
    figures->device = phasor_program_device(opened->program);
    TRY(program_measure(settings, opened->program, &options, &figures->warm));
    figures->counters.size = sizeof figures->counters;
    TRY_LIBRARY(phasor_stats(opened->runtime, &figures->counters));
    return firsts_measure(settings, opened, figures);
}

static int bench_sizes(const struct settings *settings, struct opened *opened, double load_ms)
{
    struct bench_figures figures = {.load_ms = load_ms};
    char *title = NULL;
    TRY(title_print(settings, opened->program, &title));
    figures.title = title;
    int status = sizes_measure(settings, opened, &figures);
    if (status == PHASOR_OK && settings->plot)
        status = bench_plot(&figures, settings->plot);
    if (status == PHASOR_OK && settings->json)
        figures_print_json(&figures);
    else if (status == PHASOR_OK)
        figures_print(&figures);
    free(title);
    return status;
}

/* The second load of the process: the file is in the system's memory by then. */
static int load_measure(const struct settings *settings, const struct opened *opened, double *out)
{
    phasor_program *program;
    const double before = bench_seconds();
    TRY_LIBRARY(
        phasor_program_load(opened->runtime, settings->operands.at[0], settings->model, &program));
    *out = (bench_seconds() - before) * 1e3;
    phasor_program_close(program);
    return PHASOR_OK;
}

int bench_command(const struct settings *settings)
{
    struct opened opened;
    double load_ms = 0;
    TRY(settings->lengths ? bench_series_check(settings) : size_set_check(settings));
    TRY(open_for_run(settings, settings->operands.at[0], &opened));
    int status = settings->lengths ? bench_series(settings, &opened)
                                   : load_measure(settings, &opened, &load_ms);
    if (status == PHASOR_OK && !settings->lengths)
        status = bench_sizes(settings, &opened, load_ms);
    opened_close(&opened);
    return status;
}
