/* run.h - one run of a program, kept for those who look at it afterwards.
 *
 *     --inputs inputs_0.safetensors, "rope.pt2"
 *         ->  the results printed; program, inputs, results and the time of the first call
 */
#pragma once
#include "inputs.h"
#include "open.h"
#include "results.h"

struct run {
    struct opened opened;
    struct inputs inputs;
    struct results results; /* names and strings belong to opened.program */
    double first;           /* microseconds of the first call, until its results are there */
};

/* Runs as the settings say, prints, compares and writes the results. To be freed when it fails too:
 * what was made until then is there. */
int run_once(const struct settings *settings, struct run *out);
void run_free(struct run *run);
