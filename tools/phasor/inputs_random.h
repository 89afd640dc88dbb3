/* inputs_random.h - streams of random numbers for inputs.
 *
 *     state 5, 3 parts of f32     ->  0.31, -1.2, 0.04: normal numbers
 *     state 5, 6 parts of u8      ->  0, 1, 1, 0, 1, 0
 *
 * Number k of a stream is found without those before it, so that large inputs are filled by many
 * threads: the values are those of one.
 */
#pragma once
#include "tensor.h"

uint64_t random_bits(uint64_t state, uint64_t k); /* number k of the stream */
double random_normal(uint64_t state, uint64_t k); /* of numbers 2k and 2k + 1 */
/* Fills packed data: normal floats, integers 0 or 1. part: a dtype that dtype_part gives. */
void random_fill(void *data, DLDataType part, int64_t parts, uint64_t state);
