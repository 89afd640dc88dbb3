/* results.h - what a run returned, on the host: to be written, compared and printed.
 *
 *     outputs of phasor_run
 *         ->  packed host tensors; where each lay: strides, offset, which of them share memory
 */
#pragma once
#include "compare.h"
#include "json.h"

struct result {
    const char *name;   /* belongs to the program */
    phasor_value value; /* TENSOR: &tensor; a string belongs to the program */
    DLTensor tensor;    /* packed, on the host */
    int64_t *strides;   /* as the run gave it, in elements */
    int64_t offset;     /* in elements, from the start of the memory */
    int storage;        /* equal numbers share memory; -1 for what is no tensor */
    struct comparison comparison;
};

struct results {
    int count;
    struct result *at;
    bool compared;
};

/* Copies them from where the run left them. */
int results_take(phasor_runtime *runtime, const phasor_program *program,
                 const phasor_value *outputs, int count, struct results *out);
void results_free(struct results *results);

/* output_0, output_1, ... */
int results_write(const struct results *results, const char *path);
/* Compares with output_0, output_1, ... (or the program's names) of a file; what differs is said on
 * stderr. Exit code EXIT_DIFFERS when something does. */
int results_compare(struct results *results, const phasor_tensors *expected, double rtol,
                    double atol);

void results_print(const struct results *results);
void value_print(const phasor_value *value); /* "f32[2, 17]", "5", "'mean'", "None" */
void results_print_json(const struct results *results, struct json *json);
