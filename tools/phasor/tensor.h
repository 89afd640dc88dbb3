/* tensor.h - packed host tensors as the command needs them: sizes, names, elements one at a time.
 *
 *     {kDLComplex, 64}, [2, 3]
 *         ->  "c64", 8 bytes an element, 6 elements, 12 parts of {kDLFloat, 32}
 *
 * A part is the real or imaginary half of a complex element, or the element itself.
 */
#pragma once
#include "report.h"

#include <stdbool.h>

const char *dtype_name(
    DLDataType dtype); /* as in the text form: "bf16"; "unknown dtype" for others */
size_t dtype_bytes(DLDataType dtype);
int dtype_parts(DLDataType dtype);       /* 2 for complex, else 1 */
DLDataType dtype_part(DLDataType dtype); /* f32 for c64, itself for real ones */
bool dtype_is_float(DLDataType dtype);   /* of real and complex ones: bf16, c64 */
bool dtype_equal(DLDataType a, DLDataType b);

/* The number of elements; exit code 8 when their bytes are more than memory can have. */
int tensor_elements(const DLTensor *tensor, int64_t *out);

/* The value at a position ("input_0") or, when there is none, of a name of the program (NULL: no
 * name). Exit code 4 when the file has it and it cannot be read. */
int tensors_search(const phasor_tensors *file, const char *position, const char *name,
                   phasor_value *out, bool *found);

/* Part i of packed data. part: a dtype that dtype_part gives. */
double part_real(const void *data, DLDataType part, int64_t i);
int64_t part_integer(const void *data, DLDataType part, int64_t i);
void part_store(void *data, DLDataType part, int64_t i, double value);
