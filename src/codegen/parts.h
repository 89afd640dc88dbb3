/* parts.h - parts of a launch that compute the same of other operands become one body, which is
 * half of the text to compile.
 *
 *     void body0(const args &a, index_t i)         void body(const args &a, int part, index_t i)
 *     {                                            {
 *         const vec16 x0 = read16(a.p1, i);            const auto s0 = part == 0 ? a.p1 : a.p4;
 *         ... i / 512u % 129u ...            ->        const auto s1 = part == 0 ? 512u : 128u;
 *     }                                                const vec16 x0 = read16(s0, i);
 *     void body1(const args &a, index_t i)             ... i / s1 % 129u ...
 *     {                                            }
 *         const vec16 x0 = read16(a.p4, i);
 *         ... i / 128u % 129u ...
 *     }
 */
#pragma once
#include "base/text.h"

#include <stdbool.h>

/* Kernels of more parts stay as they are: each thread would choose among too many. */
enum { PARTS_ALIKE_MOST = 4 };

/* The functions of `count` parts stand in one text, each from its start on. Where they are alike,
 * text becomes the one body. */
phasor_status parts_merge(struct text *functions, const size_t *starts, int count, bool *alike);
