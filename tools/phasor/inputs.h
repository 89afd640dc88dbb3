/* inputs.h - the inputs of a program: shapes from names and sizes, values from a file or random.
 *
 *     q.1=17, seed 0         ->  q: f32[2, 17, 4, 64] with random normal numbers, start: the int 5
 *     inputs_0.safetensors   ->  input_0, input_1, ... or q, start, ... of the file
 *
 * A run may write to its inputs: inputs_restore puts back what inputs_keep has kept.
 */
#pragma once
#include "sizes.h"

struct input_slot {
    DLTensor tensor;
    int64_t elements;
    void *memory;  /* the tensor's, packed; NULL as long as there are only shapes */
    void *initial; /* what inputs_keep has kept of it */
    bool open;     /* a float that nothing gives a value */
};

struct inputs {
    int count;
    phasor_value *values;       /* as the library takes them */
    struct input_slot *tensors; /* the tensors among them, by the same places */
};

/* Shapes without data (as phasor_program_prepare takes them), integers and constants, for one
 * combination of the set; the example's sizes fill the rest. path: the program's, for messages. */
int inputs_shape(const phasor_program *program, const char *path, const struct size_set *set,
                 uint64_t combination, struct inputs *out);
/* The same for the one combination that --dim names; several are a usage error. */
int inputs_shape_from(const struct settings *settings, const phasor_program *program,
                      struct inputs *out);
/* Gives the shapes random data: normal floats, integers 0 or 1. The same seed gives the same data.
 */
int inputs_seed(struct inputs *inputs, uint64_t seed);
/* All inputs from a file; what the program takes as a constant may be left out there. */
int inputs_load(const phasor_program *program, const char *path, struct inputs *out);
void inputs_keep(struct inputs *inputs);
void inputs_restore(struct inputs *inputs);
void inputs_free(struct inputs *inputs);

/* For shapes without data: tensors that are aligned to their elements only, or to 16 bytes again.
 */
void inputs_align(struct inputs *inputs, bool aligned);
