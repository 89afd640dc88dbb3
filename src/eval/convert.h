/* convert.h - elements as they lie in memory <-> arrays of the type in which they are computed.
 *
 *     bf16 0x3f81   load ->  float 1.0078125      u8 250   load ->  int64_t 250
 *     float 1.01f   store -> bf16 0x3f81          int64_t 260   store -> u8 4
 *
 * The compute types are bool, int64_t, float, double, float _Complex, double _Complex, named by
 * DT_bool, DT_i64, DT_f32, DT_f64, DT_c64, DT_c128 (dtype_info[].compute). Elements need no
 * alignment.
 */
#pragma once
#include "graph/dtype.h"

float convert_f16_to_float(uint16_t bits);
uint16_t convert_float_to_f16(float x); /* to nearest even; NaN becomes 0x7e00 with x's sign */
float convert_bf16_to_float(uint16_t bits);
uint16_t convert_float_to_bf16(float x); /* to nearest even; NaN becomes 0x7fc0 with x's sign */
/* Towards zero; saturates, NaN gives 0. */
int64_t convert_double_to_integer(double x);

/* count elements of the dtype, stride elements apart, into an array of its compute type. */
void convert_load(enum dtype dtype, void *computed, const void *bytes, int64_t stride,
                  size_t count);
/* The way back; integers wrap, floats are rounded to nearest even. */
void convert_store(enum dtype dtype, void *bytes, int64_t stride, const void *computed,
                   size_t count);
/* One compute type to another: to bool is != 0, a complex number gives its real part to any other
 * type. */
void convert_compute(enum dtype to, void *result, enum dtype from, const void *computed,
                     size_t count);
/* As a `cast` to the dtype does: convert_compute, and from a float to an integer narrower than i64
 * through int32. */
void convert_cast(enum dtype to, void *result, enum dtype from, const void *computed, size_t count);
/* A written number as one element of a compute type. Integers of a float dtype stand in re. */
void convert_number(enum dtype dtype, struct number number, void *computed);
