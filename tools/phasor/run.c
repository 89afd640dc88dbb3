/* run.c - phasor run: a program on inputs, its results printed, written, compared.
 *
 *     rope.pt2 --inputs inputs_0.safetensors --expect outputs_0.safetensors
 *         ->  output_0  view_as_real: f32[2, 17, 4, 64]  max abs 1.2e-07, max rel 3.4e-07  matches
 */
#include "run.h"

#include "bench.h"
#include "sizes.h"
#include "watch.h"

#include <stdlib.h>

/* -- inputs ------------------------------------------------------------------------------------ */

static int inputs_random(const struct settings *settings, const phasor_program *program,
                         struct inputs *out)
{
    TRY(inputs_shape_from(settings, program, out));
    const int status = inputs_seed(out, (uint64_t)settings->seed);
    if (status != PHASOR_OK)
        inputs_free(out);
    return status;
}

static int inputs_get(const struct settings *settings, const phasor_program *program,
                      struct inputs *out)
{
    return settings->inputs ? inputs_load(program, settings->inputs, out)
                            : inputs_random(settings, program, out);
}

/* -- running ----------------------------------------------------------------------------------- */

static void outputs_release(phasor_value *outputs, int count)
{
    for (int i = 0; i < count; i++)
        if (outputs[i].kind == PHASOR_OWNED && outputs[i].owned)
            outputs[i].owned->deleter(outputs[i].owned);
    for (int i = 0; i < count; i++)
        outputs[i] = (phasor_value){0};
}

/* The outputs are those of the last run. */
static int program_repeat(const struct settings *settings, struct run *run, phasor_value *outputs,
                          int count)
{
    phasor_program *program = run->opened.program;
    if (settings->repeat > 1)
        inputs_keep(&run->inputs);
    for (int64_t i = 0; i < settings->repeat; i++) {
        if (i > 0) {
            outputs_release(outputs, count);
            TRY_LIBRARY(phasor_state_reset(program, NULL));
            inputs_restore(&run->inputs);
        }
        const double before = bench_seconds();
        TRY_LIBRARY(
            phasor_run(program, NULL, run->inputs.values, run->inputs.count, outputs, count, NULL));
        TRY_LIBRARY(phasor_state_check(program, NULL));
        if (i == 0)
            run->first = (bench_seconds() - before) * 1e6;
    }
    return PHASOR_OK;
}

static int program_run(const struct settings *settings, struct run *run)
{
    const int count = phasor_program_output_count(run->opened.program);
    phasor_value *outputs = memory_need((size_t)count, sizeof *outputs);
    int status = program_repeat(settings, run, outputs, count);
    if (status == PHASOR_OK)
        status =
            results_take(run->opened.runtime, run->opened.program, outputs, count, &run->results);
    outputs_release(outputs, count);
    free(outputs);
    return status;
}

/* -- printing ---------------------------------------------------------------------------------- */

struct run_figures {
    const char *device;
    phasor_run_info info;
    phasor_counters counters;
};

static int figures_get(const struct opened *opened, struct run_figures *out)
{
    *out =
        (struct run_figures){.info.size = sizeof out->info, .counters.size = sizeof out->counters};
    out->device = phasor_device_name(opened->runtime);
    TRY_LIBRARY(phasor_program_info(opened->program, &out->info));
    return report_library(phasor_stats(opened->runtime, &out->counters));
}

static void run_print_json(const struct run_figures *figures, const struct results *results)
{
    struct json json = {.out = stdout};
    json_open(&json, NULL, '{');
    json_string(&json, "device", figures->device);
    json_string(&json, "mode", figures->info.mode);
    json_integer(&json, "kernels", figures->info.kernels);
    json_integer(&json, "setup_kernels", figures->info.setup_kernels);
    json_integer(&json, "compiled", (int64_t)figures->counters.compiled);
    json_integer(&json, "cache_hits", (int64_t)figures->counters.cache_hits);
    results_print_json(results, &json);
    json_close(&json, '}');
}

static void run_print(const struct run_figures *figures, const struct results *results)
{
    results_print(results);
    say("%s, %s: %d kernel%s", figures->device, figures->info.mode, figures->info.kernels,
        figures->info.kernels == 1 ? "" : "s");
    if (figures->info.setup_kernels > 0)
        say(" and %d once for these sizes", figures->info.setup_kernels);
    say(", %llu compiled, %llu from the cache\n", (unsigned long long)figures->counters.compiled,
        (unsigned long long)figures->counters.cache_hits);
}

/* -- the command ------------------------------------------------------------------------------- */

static int results_finish(const struct settings *settings, const struct opened *opened,
                          const phasor_tensors *expected, struct results *results)
{
    struct run_figures figures;
    TRY(figures_get(opened, &figures));
    if (settings->outputs)
        TRY(results_write(results, settings->outputs));
    const int status =
        expected ? results_compare(results, expected, settings->rtol, settings->atol) : PHASOR_OK;
    if (status != PHASOR_OK && status != EXIT_DIFFERS)
        return status;
    if (settings->json)
        run_print_json(&figures, results);
    else
        run_print(&figures, results);
    return status;
}

static int run_opened(const struct settings *settings, const phasor_tensors *expected,
                      struct run *run)
{
    TRY(inputs_get(settings, run->opened.program, &run->inputs));
    TRY(program_run(settings, run));
    return results_finish(settings, &run->opened, expected, &run->results);
}

int run_once(const struct settings *settings, struct run *out)
{
    phasor_tensors *expected = NULL;
    *out = (struct run){0};
    TRY(open_for_run(settings, settings->operands.at[0], &out->opened));
    int status = settings->expect ? report_library(phasor_tensors_read(settings->expect, &expected))
                                  : PHASOR_OK;
    if (status == PHASOR_OK)
        status = run_opened(settings, expected, out);
    if (expected)
        phasor_tensors_close(expected);
    return status;
}

void run_free(struct run *run)
{
    results_free(&run->results);
    inputs_free(&run->inputs);
    opened_close(&run->opened);
    *run = (struct run){0};
}

static int usage_check(const struct settings *settings)
{
    if (settings->watch && settings->json)
        return report_failure(PHASOR_ERROR_USAGE,
                              "--watch and --json: a watch prints more than one document");
    if (settings->inputs && settings->dims.count > 0)
        return report_failure(PHASOR_ERROR_USAGE,
                              "--dim and --inputs: the file gives the sizes already");
    if ((settings->rtol >= 0 || settings->atol >= 0) && !settings->expect)
        return report_failure(PHASOR_ERROR_USAGE, "--rtol and --atol need --expect");
    return size_set_check(settings);
}

int run_command(const struct settings *settings)
{
    struct run run;
    TRY(usage_check(settings));
    if (settings->watch)
        return watch_command(settings);
    const int status = run_once(settings, &run);
    run_free(&run);
    return status;
}
