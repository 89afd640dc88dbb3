/* bench_series.c - phasor bench --lengths: calls with one length after the other, as a server gets
 * them.
 *
 *     q.1=uniform:1:4096:1000
 *         ->  1000 calls; first-time lengths p99 61 us, repeated ones p99 5 us, 0 compiled
 *
 * The lengths are random with the seed of --seed, or the lines of a file in their order; --dim
 * gives other sizes beside them. */
#include "bench.h"

#include "options.h"
#include "sizes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 1000000, SLOW_MICROSECONDS = 2000 };

/* -- lengths ----------------------------------------------------------------------------------- */

struct uniform {
    const char *name;
    int name_length;
    int64_t from, to, count;
};

static const char *uniform_find(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals && strncmp(equals, "=uniform:", 9) == 0 ? equals : NULL;
}

static int uniform_fail(const char *text)
{
    return report_failure(PHASOR_ERROR_USAGE,
                          "--lengths %s: expected NAME=uniform:FROM:TO:COUNT, such as "
                          "q.1=uniform:1:4096:1000, or a file",
                          text);
}

static int uniform_read(const char *text, const char *equals, struct uniform *out)
{
    int64_t *const numbers[] = {&out->from, &out->to, &out->count};
    *out = (struct uniform){.name = text, .name_length = (int)(equals - text)};
    char *copy = memory_copy(equals + 9, strlen(equals + 9)), *rest = copy;
    bool fine = equals != text;
    for (int i = 0; i < 3 && fine; i++) {
        char *word = strsep(&rest, ":");
        fine = word && number_read(word, numbers[i]) && *numbers[i] >= 0;
    }
    fine = fine && !rest && out->from <= out->to && out->count > 0 && out->count <= CALLS_MAX;
    free(copy);
    return fine ? PHASOR_OK : uniform_fail(text);
}

/* splitmix64 */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Sizes of the range that the dim can have: even ones of 2*s25. */
static int lines_draw(const struct uniform *uniform, const phasor_dim *dim, uint64_t seed,
                      struct size_set *set)
{
    const uint64_t step = (uint64_t)dim->step,
                   rest = ((uint64_t)dim->min - (uint64_t)uniform->from) % step;
    if ((uint64_t)(uniform->to - uniform->from) < rest)
        return report_failure(
            PHASOR_ERROR_INPUT, "--lengths %.*s: no size in %" PRId64 "..%" PRId64 " is %s",
            uniform->name_length, uniform->name, uniform->from, uniform->to, dim->symbol);
    const int64_t first = uniform->from + (int64_t)rest;
    const uint64_t range = (uint64_t)(uniform->to - first) / step + 1;
    uint64_t state = seed;
    set->lines = memory_need((size_t)uniform->count, sizeof *set->lines);
    set->line_count = (size_t)uniform->count;
    set->has_lines = true;
    for (size_t i = 0; i < set->line_count; i++) {
        struct size_line *line = &set->lines[i];
        line->bindings = memory_need(1, sizeof *line->bindings);
        line->count = 1;
        line->bindings[0] =
            (phasor_binding){memory_copy(uniform->name, (size_t)uniform->name_length),
                             first + (int64_t)((random_bits(&state) >> 1) % range * step)};
    }
    return PHASOR_OK;
}

/* program NULL: only whether they can be read. */
static int lengths_read(const struct settings *settings, const phasor_program *program,
                        struct size_set *out)
{
    struct settings changed = *settings;
    struct uniform uniform;
    phasor_dim dim = {.step = 1};
    const char *equals = uniform_find(settings->lengths);
    if (!equals)
        return size_set_read(settings, out);
    changed.lengths = NULL;
    TRY(uniform_read(settings->lengths, equals, &uniform));
    TRY(size_set_read(&changed, out));
    if (program) {
        char *name = memory_copy(uniform.name, (size_t)uniform.name_length);
        const phasor_status status = phasor_program_dim(program, name, &dim);
        free(name);
        TRY_LIBRARY(status);
    }
    return lines_draw(&uniform, &dim, (uint64_t)settings->seed, out);
}

int bench_series_check(const struct settings *settings)
{
    struct size_set set;
    TRY(lengths_read(settings, NULL, &set));
    size_set_free(&set);
    return PHASOR_OK;
}

/* -- calls ------------------------------------------------------------------------------------- */

struct series {
    struct size_set sizes;
    struct inputs *inputs; /* of each call */
    phasor_bench_call *calls;
    int count;
};

static void series_free(struct series *series)
{
    for (int i = 0; series->inputs && i < series->count; i++)
        inputs_free(&series->inputs[i]);
    free(series->inputs);
    free(series->calls);
    size_set_free(&series->sizes);
}

static int series_make(const struct settings *settings, const phasor_program *program,
                       struct series *out)
{
    uint64_t count;
    TRY(lengths_read(settings, program, &out->sizes));
    TRY(size_set_count(&out->sizes, &count));
    if (count == 0 || count > CALLS_MAX)
        return report_failure(PHASOR_ERROR_USAGE, "--lengths %s: %" PRIu64 " calls; 1 to %d",
                              settings->lengths, count, CALLS_MAX);
    out->inputs = memory_need(count, sizeof *out->inputs);
    out->calls = memory_need(count, sizeof *out->calls);
    out->count = (int)count;
    for (int i = 0; i < out->count; i++) {
        TRY(inputs_shape(program, settings->operands.at[0], &out->sizes, (uint64_t)i,
                         &out->inputs[i]));
        out->calls[i].inputs = out->inputs[i].values;
    }
    return PHASOR_OK;
}

/* -- figures ----------------------------------------------------------------------------------- */

static int double_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const double *sorted, int count, int percent)
{
    const int64_t rank = ((int64_t)count * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

enum which { ALL, FIRST_TIME, REPEATED };

/* Without the very first call: it starts the compiler. */
static phasor_times times_of(const struct series_figures *figures, enum which which)
{
    double *samples = memory_need((size_t)figures->count, sizeof *samples);
    phasor_times times = {0};
    int count = 0;
    for (int i = 1; i < figures->count; i++)
        if (which == ALL || figures->calls[i].first == (which == FIRST_TIME))
            samples[count++] = figures->calls[i].host;
    qsort(samples, (size_t)count, sizeof *samples, double_compare);
    if (count > 0)
        times =
            (phasor_times){count, percentile(samples, count, 50), percentile(samples, count, 90),
                           percentile(samples, count, 99), samples[count - 1]};
    free(samples);
    return times;
}

static int figures_get(const struct opened *opened, struct series *series,
                       struct series_figures *out)
{
    phasor_run_info info = {.size = sizeof info};
    TRY_LIBRARY(phasor_program_info(opened->program, &info));
    *out = (struct series_figures){.device = phasor_program_device(opened->program),
                                   .mode = info.mode,
                                   .calls = series->calls,
                                   .count = series->count,
                                   .first = series->calls[0].host,
                                   .counters.size = sizeof out->counters};
    for (int i = 0; i < series->count; i++) {
        out->lengths += series->calls[i].first;
        out->slow += i > 0 && series->calls[i].host > SLOW_MICROSECONDS;
    }
    out->all = times_of(out, ALL);
    out->first_time = times_of(out, FIRST_TIME);
    out->repeated = times_of(out, REPEATED);
    return report_library(phasor_stats(opened->runtime, &out->counters));
}

static void line_print(const char *name, const phasor_times *times)
{
    if (times->count == 0)
        return;
    bench_print_times(name, times);
    say("\n");
}

static void series_print(const struct series_figures *figures)
{
    say("%s, %s: %d calls, %d lengths, %" PRIu64 " compiled, %" PRIu64 " from the cache\n",
        figures->device, figures->mode, figures->count, figures->lengths,
        figures->counters.compiled, figures->counters.cache_hits);
    say("%-12s %10.2f us\n", "first call", figures->first);
    line_print("other calls", &figures->all);
    line_print(" first time", &figures->first_time);
    line_print(" repeated", &figures->repeated);
    if (figures->slow > 0)
        say("%-12s %10d calls\n", "over 2 ms", figures->slow);
}

static void series_print_json(const struct series_figures *figures)
{
    struct json json = {.out = stdout};
    json_open(&json, NULL, '{');
    json_string(&json, "device", figures->device);
    json_string(&json, "mode", figures->mode);
    json_integer(&json, "calls", figures->count);
    json_integer(&json, "lengths", figures->lengths);
    json_integer(&json, "compiled", (int64_t)figures->counters.compiled);
    json_integer(&json, "cache_hits", (int64_t)figures->counters.cache_hits);
    json_real(&json, "first_call_us", figures->first);
    json_integer(&json, "over_2_ms", figures->slow);
    bench_print_json_times(&json, "host_us", &figures->all);
    bench_print_json_times(&json, "first_time_us", &figures->first_time);
    bench_print_json_times(&json, "repeated_us", &figures->repeated);
    json_close(&json, '}');
}

/* -- all --------------------------------------------------------------------------------------- */

static int series_measure(const struct settings *settings, struct opened *opened,
                          struct series *series)
{
    struct series_figures figures;
    const phasor_bench_options options = {.size = sizeof options, .seed = (uint64_t)settings->seed};
    TRY(series_make(settings, opened->program, series));
    TRY_LIBRARY(phasor_program_bench_calls(opened->program, series->calls, series->count,
                                           series->inputs[0].count, &options));
    TRY(figures_get(opened, series, &figures));
    if (settings->plot)
        TRY(bench_plot_series(&figures, settings->plot));
    if (settings->json)
        series_print_json(&figures);
    else
        series_print(&figures);
    return PHASOR_OK;
}

int bench_series(const struct settings *settings, struct opened *opened)
{
    struct series series = {0};
    const int status = series_measure(settings, opened, &series);
    series_free(&series);
    return status;
}
