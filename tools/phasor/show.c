/* show.c - phasor show: a program at one stage of its way to the GPU.
 *
 *     rope.pt2 --stage cuda --dim q.1=17
 *         ->  the generated CUDA for that size, on stdout or in the file of -o
 */
#include "inputs.h"
#include "open.h"
#include "options.h"
#include "sizes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool stage_needs_sizes(const char *stage)
{
    return choice_find("plan|cuda|ptx", stage) >= 0;
}

static bool path_is_program(const char *path)
{
    const size_t length = path ? strlen(path) : 0;
    return length > 7 && strcmp(path + length - 7, ".phasor") == 0;
}

/* -- text -------------------------------------------------------------------------------------- */

static int text_write(const char *text, const char *path)
{
    if (!path) {
        say("%s", text);
        return PHASOR_OK;
    }
    FILE *file = fopen(path, "w");
    if (!file)
        return report_failure(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    const bool failed = fputs(text, file) < 0;
    if (fclose(file) != 0 || failed)
        return report_failure(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    return PHASOR_OK;
}

static int stage_show(const struct settings *settings, phasor_program *program, const char *stage,
                      const struct inputs *inputs)
{
    char *text;
    TRY_LIBRARY(
        phasor_program_show(program, stage, settings->json, inputs->values, inputs->count, &text));
    const int status = text_write(text, settings->file);
    phasor_free(text);
    return status;
}

/* -- stages ------------------------------------------------------------------------------------ */

static int program_show(const struct settings *settings, phasor_program *program, const char *stage)
{
    struct inputs inputs = {0};
    if (!stage_needs_sizes(stage))
        return path_is_program(settings->file)
                   ? report_library(phasor_program_write(program, stage, settings->file))
                   : stage_show(settings, program, stage, &inputs);
    TRY(refusals_report(program, settings->operands.at[0]));
    TRY(inputs_shape_from(settings, program, &inputs));
    const int status = stage_show(settings, program, stage, &inputs);
    inputs_free(&inputs);
    return status;
}

/* -- the command ------------------------------------------------------------------------------- */

/* Without --arch: that of the first device, or sm_90. Only the later stages depend on it. */
static int arch_choose(const struct settings *settings, const char *stage, char out[16])
{
    char(*archs)[16];
    int count;
    strcpy(out, "sm_90");
    if (settings->arch) {
        if (strchr(settings->arch, ',') || strlen(settings->arch) >= 16)
            return report_failure(PHASOR_ERROR_USAGE, "--arch %s: show takes one, such as sm_90",
                                  settings->arch);
        strcpy(out, settings->arch);
        return PHASOR_OK;
    }
    if (!stage_needs_sizes(stage))
        return PHASOR_OK;
    TRY(archs_find(settings, &archs, &count));
    if (count > 0)
        strcpy(out, archs[0]);
    else
        report_note("no CUDA device and no --arch: for sm_90");
    free(archs);
    return PHASOR_OK;
}

static int usage_check(const struct settings *settings, const char *stage)
{
    if (settings->json && strcmp(stage, "plan") != 0)
        return report_failure(PHASOR_ERROR_USAGE, "--json goes with --stage plan, not with %s",
                              stage);
    if (settings->dims.count > 0 && !stage_needs_sizes(stage))
        return report_failure(PHASOR_ERROR_USAGE,
                              "--dim goes with --stage plan, cuda and ptx: %s has all sizes",
                              stage);
    return size_set_check(settings);
}

int show_command(const struct settings *settings)
{
    struct opened opened;
    char arch[16];
    const char *stage = settings->stage ? settings->stage : "real";
    TRY(usage_check(settings, stage));
    TRY(arch_choose(settings, stage, arch));
    TRY(open_program(settings, arch, settings->operands.at[0], &opened));
    const int status = program_show(settings, opened.program, stage);
    opened_close(&opened);
    return status;
}
