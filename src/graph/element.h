/* element.h - elements of constants as numbers: loaded, rounded and stored, printed exactly.
 *
 *     bf16 0x3f80          <->  {.re = 1}                         ->  "1"
 *     c64 {0.1f, -0.0f}    <->  {0.10000000149011612, -0.0}      ->  "0.1-0j"
 */
#pragma once
#include "base/text.h"
#include "graph/graph.h"

/* The dtype must be one that programs may compute with (not DTC_NAMED). */
struct number element_load(enum dtype dtype, const void *bytes);
/* Rounds to the dtype; false when a number does not fit in it (300 in u8, 1e300 in f32). */
bool element_store(enum dtype dtype, struct number number, void *bytes);
/* The fewest digits that give the same value of the dtype; "nan", "-inf", "1.5-2j", "true". */
void element_print(enum dtype dtype, struct number number, struct text *out);

/* Number of elements; -1 when it is negative or does not fit in 64 bits. */
int64_t data_count(const struct data *data);
/* All elements lie inside the storage. */
bool data_is_inside(const struct data *data);
/* Element k in row-major order. data_is_inside() must hold. */
const void *data_element(const struct data *data, int64_t k);
