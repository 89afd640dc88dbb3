/* compare.h - is a result what it should be?
 *
 *     bf16[2, 3] and bf16[2, 3], --rtol -1 --atol -1   ->   match, max_abs 0.0039, max_rel 0.0052
 *
 * Tolerances by dtype, |result - expected| <= absolute + relative * |expected|:
 *     f64, c128   1e-7 relative, 1e-7 absolute
 *     f32, c64    1.3e-6, 1e-5
 *     f16         1e-3, 1e-5
 *     bf16        one unit in the last place or 1e-5, whichever is larger
 *     others      equal
 * NaN must stand where NaN is expected, an infinity where it is expected; complex numbers are
 * compared part by part.
 */
#pragma once
#include "report.h"

struct comparison {
    bool match;
    bool measured;           /* shape and dtype are the same: the figures below hold */
    double max_abs, max_rel; /* relative: where the expected value is not 0 */
    char reason[256];        /* when it does not match */
};

/* rtol, atol: -1 means by dtype; with one of them given, bf16 has 0 and 1e-5 for the other. Tensors
 * are packed and on the host. expected NULL: there is none. */
int compare_values(const phasor_value *result, const phasor_value *expected, double rtol,
                   double atol, struct comparison *out);
