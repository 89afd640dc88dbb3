/* open.h - from settings to a runtime and a program.
 *
 *     --device cuda:1 --rules executorch, "rope.pt2"
 *         ->  a runtime on cuda:1, the program loaded and rewritten
 */
#pragma once
#include "command.h"

struct opened {
    phasor_runtime *runtime;
    phasor_program *program;
};

/* What the settings say about a runtime; the caller may add to it before phasor_open. */
phasor_options options_from(const struct settings *settings);

/* A runtime that runs nothing, for `arch` (NULL: the first device's, or sm_90). */
int open_runtime(const struct settings *settings, const char *arch, phasor_runtime **out);
/* The same with a program. */
int open_program(const struct settings *settings, const char *arch, const char *path,
                 struct opened *out);
/* A program on the device that --device names. Without it: CUDA where there is a device and the
 * program was rewritten, else the CPU, which is said on stderr. */
int open_for_run(const struct settings *settings, const char *path, struct opened *out);
void opened_close(struct opened *opened);

/* The archs of the CUDA devices of this machine, each once. Free the list; the words are part of
 * it. */
int archs_find(const struct settings *settings, char (**out)[16], int *count);

/* Reports the first place that keeps the program from being rewritten, and how many there are; exit
 * code 3. PHASOR_OK when there is none. */
int refusals_report(const phasor_program *program, const char *path);
