/* open.c - see open.h. */
#include "open.h"

#include "options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES_MAX = 64 };

phasor_options options_from(const struct settings *settings)
{
    return (phasor_options){
        .size = sizeof(phasor_options),
        .cache = settings->cache,
        .trust_cache_dir = settings->trust_cache_dir,
        .no_fma = settings->no_fma,
        .wait_for_others = true, /* a command is no server */
        .rules = settings->rules && strcmp(settings->rules, "executorch") == 0
                     ? PHASOR_RULES_EXECUTORCH
                     : PHASOR_RULES_ALL,
        .mode = settings->mode ? (phasor_mode)(PHASOR_MODE_EXACT +
                                               choice_find("exact|generic|auto", settings->mode))
                               : PHASOR_MODE_DEFAULT,
    };
}

int open_runtime(const struct settings *settings, const char *arch, phasor_runtime **out)
{
    phasor_options options = options_from(settings);
    options.device = PHASOR_DEVICE_NONE;
    options.arch = arch;
    return report_library(phasor_open(out, &options));
}

void opened_close(struct opened *opened)
{
    if (opened->program)
        phasor_program_close(opened->program);
    phasor_close(opened->runtime);
    *opened = (struct opened){0};
}

static int opened_load(const struct settings *settings, const char *path, struct opened *out)
{
    const phasor_status status =
        phasor_program_load(out->runtime, path, settings->model, &out->program);
    report_library(status);
    if (status != PHASOR_OK)
        opened_close(out);
    return status;
}

int open_program(const struct settings *settings, const char *arch, const char *path,
                 struct opened *out)
{
    *out = (struct opened){0};
    TRY(open_runtime(settings, arch, &out->runtime));
    return opened_load(settings, path, out);
}

/* -- for running ------------------------------------------------------------------------------- */

static int device_read(const char *text, phasor_options *options)
{
    int64_t ordinal = 0;
    if (!text)
        return PHASOR_OK;
    if (strcmp(text, "cpu") == 0) {
        options->device = PHASOR_DEVICE_CPU;
        return PHASOR_OK;
    }
    const bool is_cuda = strncmp(text, "cuda", 4) == 0;
    const bool has_ordinal = is_cuda && text[4] == ':';
    if (!is_cuda ||
        (has_ordinal && (!number_read(text + 5, &ordinal) || ordinal < 0 || ordinal > INT_MAX)) ||
        (!has_ordinal && text[4]))
        return report_failure(PHASOR_ERROR_USAGE, "--device %s: expected cpu, cuda or cuda:N",
                              text);
    options->device = PHASOR_DEVICE_CUDA;
    options->ordinal = (int)ordinal;
    return PHASOR_OK;
}

static int opened_reopen(const struct settings *settings, const phasor_options *options,
                         const char *path, struct opened *out)
{
    opened_close(out);
    TRY_LIBRARY(phasor_open(&out->runtime, options));
    return opened_load(settings, path, out);
}

/* The program is loaded where --device left the choice open: stay, or go to the CPU. */
static int device_settle(const struct settings *settings, phasor_options *options, const char *path,
                         struct opened *out)
{
    const bool on_cpu = strcmp(phasor_device_name(out->runtime), "cpu") == 0;
    const int refused = phasor_program_refused_count(out->program);
    if (on_cpu)
        report_note("no CUDA device: running on the CPU device");
    if (on_cpu || refused == 0)
        return PHASOR_OK;
    phasor_refusal first = {.size = sizeof first};
    TRY_LIBRARY(phasor_program_refused(out->program, 0, &first));
    report_note("%s was not rewritten (%s): running on the CPU device", path, first.target);
    options->device = PHASOR_DEVICE_CPU;
    return opened_reopen(settings, options, path, out);
}

/* On the CPU all but unknown operators can run; elsewhere what was not rewritten cannot. */
static int refusals_check(const struct opened *opened, const char *path)
{
    const bool on_cpu = strcmp(phasor_device_name(opened->runtime), "cpu") == 0;
    for (int i = 0; i < phasor_program_refused_count(opened->program); i++) {
        phasor_refusal refusal = {.size = sizeof refusal};
        TRY_LIBRARY(phasor_program_refused(opened->program, i, &refusal));
        if (refusal.unknown || !on_cpu)
            return refusals_report(opened->program, path);
    }
    return PHASOR_OK;
}

int open_for_run(const struct settings *settings, const char *path, struct opened *out)
{
    *out = (struct opened){0};
    phasor_options options = options_from(settings);
    TRY(device_read(settings->device, &options));
    TRY_LIBRARY(phasor_open(&out->runtime, &options));
    TRY(opened_load(settings, path, out));
    int status = settings->device ? PHASOR_OK : device_settle(settings, &options, path, out);
    if (status == PHASOR_OK)
        status = refusals_check(out, path);
    if (status != PHASOR_OK)
        opened_close(out);
    return status;
}

/* -- archs and refusals ------------------------------------------------------------------------ */

static bool arch_is_new(char (*archs)[16], int count, const char *arch)
{
    for (int i = 0; i < count; i++)
        if (strcmp(archs[i], arch) == 0)
            return false;
    return true;
}

int archs_find(const struct settings *settings, char (**out)[16], int *count)
{
    phasor_options options = options_from(settings);
    options.device = PHASOR_DEVICE_CUDA;
    options.cache = ":memory:";
    char(*archs)[16] = memory_need(DEVICES_MAX, sizeof *archs);
    *count = 0;
    for (options.ordinal = 0; options.ordinal < DEVICES_MAX; options.ordinal++) {
        phasor_runtime *runtime;
        if (phasor_open(&runtime, &options) != PHASOR_OK)
            break;
        const char *arch = phasor_arch_name(runtime);
        if (strlen(arch) < sizeof *archs && arch_is_new(archs, *count, arch))
            strcpy(archs[(*count)++], arch);
        phasor_close(runtime);
    }
    *out = archs;
    return PHASOR_OK;
}

int refusals_report(const phasor_program *program, const char *path)
{
    const int count = phasor_program_refused_count(program);
    if (count == 0)
        return PHASOR_OK;
    phasor_refusal first = {.size = sizeof first};
    TRY_LIBRARY(phasor_program_refused(program, 0, &first));
    return report_failure(PHASOR_ERROR_REFUSED, "%s: %s (%s): %s%s%s%s", path, first.target,
                          first.node, first.reason, first.line ? ", at " : "",
                          first.line ? first.line : "",
                          count > 1 ? "; phasor check lists the others" : "");
}
