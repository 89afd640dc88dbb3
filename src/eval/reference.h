/* reference.h - the functions that the C columns of ops.def call, over bool, int64_t, float and
 * double (x, y) and over float _Complex and double _Complex (z, w). What they give is what an
 * operator means; the CUDA columns are checked against it.
 *
 *     divide_floor(x, y)  with double x = -7, y = 2    -4
 *                         with int64_t x = -7, y = 0    0; a remainder by integer 0 is 0 too
 *     complex_mul(z, w)   fused or not, as the variable `fused` says where the macro stands
 *
 * The functions over one precision stand in reference_parts.h, which is read twice. Everything has
 * a suffix of its type (divide_floor_f32); the macros below pick by the type of their operand.
 */
#pragma once
#include <complex.h>
#undef complex /* both are words of ops.def */
#undef I
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* -- integers and bool: arithmetic wraps ------------------------------------------------------- */

static inline int64_t plus_i64(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x + (uint64_t)y);
}
static inline int64_t minus_i64(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x - (uint64_t)y);
}
static inline int64_t times_i64(int64_t x, int64_t y, bool fused)
{
    (void)fused;
    return (int64_t)((uint64_t)x * (uint64_t)y);
}
static inline int64_t negate_i64(int64_t x)
{
    return minus_i64(0, x);
}
static inline int64_t absolute_i64(int64_t x)
{
    return x < 0 ? negate_i64(x) : x;
}
static inline int64_t sign_i64(int64_t x)
{
    return (x > 0) - (x < 0);
}

static inline int64_t divide_trunc_i64(int64_t x, int64_t y)
{
    return y == 0 ? 0 : y == -1 ? negate_i64(x) : x / y;
}
static inline int64_t remainder_c_i64(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}
static inline int64_t remainder_python_i64(int64_t x, int64_t y)
{
    const int64_t rest = remainder_c_i64(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static inline int64_t divide_floor_i64(int64_t x, int64_t y)
{
    const int64_t rest = remainder_c_i64(x, y);
    return divide_trunc_i64(x, y) - (rest != 0 && (rest < 0) != (y < 0));
}

/* A negative power is 0 but for bases 1 and -1. */
static inline int64_t power_i64(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x != -1 ? 0 : y % 2 == 0 ? 1 : -1;
    int64_t result = 1;
    for (; y > 0; y >>= 1, x = times_i64(x, x, false))
        if (y & 1)
            result = times_i64(result, x, false);
    return result;
}

/* Shifts by less than 0 or more than 63 leave nothing but, to the right, the sign. */
static inline int64_t shift_left_i64(int64_t x, int64_t y)
{
    return y < 0 || y > 63 ? 0 : (int64_t)((uint64_t)x << y);
}
static inline int64_t shift_right_i64(int64_t x, int64_t y)
{
    return x >> (y < 0 || y > 63 ? 63 : y);
}
static inline int64_t bit_not_i64(int64_t x)
{
    return ~x;
}

static inline bool plus_bool(bool x, bool y)
{
    return x || y;
}
static inline bool minus_bool(bool x, bool y)
{
    return x != y;
}
static inline bool times_bool(bool x, bool y, bool fused)
{
    (void)fused;
    return x && y;
}
static inline bool negate_bool(bool x)
{
    return x;
}
static inline bool absolute_bool(bool x)
{
    return x;
}
static inline bool sign_bool(bool x)
{
    return x;
}
static inline bool bit_not_bool(bool x)
{
    return !x;
}
static inline bool divide_trunc_bool(bool x, bool y)
{
    return x && y;
}
static inline bool divide_floor_bool(bool x, bool y)
{
    return x && y;
}
static inline bool remainder_c_bool(bool x, bool y)
{
    (void)x, (void)y;
    return false;
}
static inline bool remainder_python_bool(bool x, bool y)
{
    (void)x, (void)y;
    return false;
}
static inline bool power_bool(bool x, bool y)
{
    return x || !y;
}
static inline bool shift_left_bool(bool x, bool y)
{
    (void)y;
    return x;
}
static inline bool shift_right_bool(bool x, bool y)
{
    return x && !y;
}

/* What amin and amax start from. */
static const bool lowest_bool = false, highest_bool = true;
static const int64_t lowest_i64 = INT64_MIN, highest_i64 = INT64_MAX;

/* -- floats and complex numbers ---------------------------------------------------------------- */

#define PART float
#define TYPED(name) name##_f32
#define LIBM(name) name##f
#include "eval/reference_parts.h"
#undef PART
#undef TYPED
#undef LIBM

#define PART double
#define TYPED(name) name##_f64
#define LIBM(name) name
#include "eval/reference_parts.h"
#undef PART
#undef TYPED
#undef LIBM

/* -- by type ----------------------------------------------------------------------------------- */

#define BY_INTEGER(x, name) _Generic((x), bool : name##_bool, int64_t : name##_i64)
#define BY_REAL(x, name) \
    _Generic((x), bool : name##_bool, int64_t : name##_i64, float : name##_f32, double : name##_f64)
#define BY_FLOAT(x, name) _Generic((x), float : name##_f32, double : name##_f64)
#define BY_LIBM(x, name) _Generic((x), float : name##f, double : name)
#define BY_PARTS(z, name) _Generic((z), float _Complex : name##_f32, double _Complex : name##_f64)
#define BY_COMPLEX_LIBM(z, name) _Generic((z), float _Complex : name##f, double _Complex : name)
#define BY_ANY(x, name)                              \
    _Generic((x), bool                               \
             : name##_bool, int64_t                  \
             : name##_i64, float                     \
             : name##_f32, double                    \
             : name##_f64, float _Complex            \
             : complex_##name##_f32, double _Complex \
             : complex_##name##_f64)

#define plus(x, y) BY_ANY(x, plus)(x, y)
#define times(x, y) BY_ANY(x, times)(x, y, fused)
#define minus(x, y) BY_REAL(x, minus)(x, y)
#define negate(x) BY_REAL(x, negate)(x)
#define absolute(x) BY_REAL(x, absolute)(x)
#define sign_of(x) BY_REAL(x, sign)(x)
#define power(x, y) BY_REAL(x, power)(x, y)
#define divide_floor(x, y) BY_REAL(x, divide_floor)(x, y)
#define divide_trunc(x, y) BY_REAL(x, divide_trunc)(x, y)
#define remainder_python(x, y) BY_REAL(x, remainder_python)(x, y)
#define remainder_c(x, y) BY_REAL(x, remainder_c)(x, y)
#define lowest(x) BY_REAL(x, lowest)
#define highest(x) BY_REAL(x, highest)
#define bit_not(x) BY_INTEGER(x, bit_not)(x)
#define bit_and(x, y) ((x) & (y))
#define bit_or(x, y) ((x) | (y))
#define bit_xor(x, y) ((x) ^ (y))
#define shift_left(x, y) BY_INTEGER(x, shift_left)(x, y)
#define shift_right(x, y) BY_INTEGER(x, shift_right)(x, y)

#define real_sqrt(x) BY_LIBM(x, sqrt)(x)
#define real_exp(x) BY_LIBM(x, exp)(x)
#define real_exp2(x) BY_LIBM(x, exp2)(x)
#define real_expm1(x) BY_LIBM(x, expm1)(x)
#define real_log(x) BY_LIBM(x, log)(x)
#define real_log2(x) BY_LIBM(x, log2)(x)
#define real_log10(x) BY_LIBM(x, log10)(x)
#define real_log1p(x) BY_LIBM(x, log1p)(x)
#define real_sin(x) BY_LIBM(x, sin)(x)
#define real_cos(x) BY_LIBM(x, cos)(x)
#define real_tan(x) BY_LIBM(x, tan)(x)
#define real_asin(x) BY_LIBM(x, asin)(x)
#define real_acos(x) BY_LIBM(x, acos)(x)
#define real_atan(x) BY_LIBM(x, atan)(x)
#define real_sinh(x) BY_LIBM(x, sinh)(x)
#define real_cosh(x) BY_LIBM(x, cosh)(x)
#define real_tanh(x) BY_LIBM(x, tanh)(x)
#define real_asinh(x) BY_LIBM(x, asinh)(x)
#define real_acosh(x) BY_LIBM(x, acosh)(x)
#define real_atanh(x) BY_LIBM(x, atanh)(x)
#define real_erf(x) BY_LIBM(x, erf)(x)
#define real_floor(x) BY_LIBM(x, floor)(x)
#define real_ceil(x) BY_LIBM(x, ceil)(x)
#define real_trunc(x) BY_LIBM(x, trunc)(x)
#define real_round(x) BY_LIBM(x, rint)(x)
#define real_is_inf(x) (isinf(x) != 0)
#define real_angle(x) BY_FLOAT(x, angle)(x)
#define real_atan2(x, y) BY_LIBM(x, atan2)(x, y)
#define real_hypot(x, y) BY_LIBM(x, hypot)(x, y)
#define real_copysign(x, y) BY_LIBM(x, copysign)(x, y)
#define real_fma(x, y, z) BY_LIBM(x, fma)(x, y, z)

#define complex_make(x, y) __builtin_complex(x, y)
#define complex_polar(x, y) BY_FLOAT(x, complex_polar)(x, y)
#define complex_mul(z, w) BY_PARTS(z, complex_times)(z, w, fused)
#define complex_div(z, w) BY_PARTS(z, complex_div)(z, w, fused)
#define complex_pow(z, w) BY_PARTS(z, complex_power)(z, w, fused)
#define complex_conj(z) BY_COMPLEX_LIBM(z, conj)(z)
#define complex_abs(z) BY_COMPLEX_LIBM(z, cabs)(z)
#define complex_angle(z) BY_COMPLEX_LIBM(z, carg)(z)
#define complex_sign(z) BY_PARTS(z, complex_sign)(z)
#define complex_reciprocal(z) BY_PARTS(z, complex_reciprocal)(z, fused)
#define complex_is_nan(z) BY_PARTS(z, complex_is_nan)(z)
#define complex_is_inf(z) BY_PARTS(z, complex_is_inf)(z)
#define complex_sqrt(z) BY_COMPLEX_LIBM(z, csqrt)(z)
#define complex_rsqrt(z) complex_reciprocal(complex_sqrt(z))
#define complex_sigmoid(z) complex_reciprocal(1 + complex_exp(-(z)))
#define complex_exp(z) BY_COMPLEX_LIBM(z, cexp)(z)
#define complex_exp2(z) BY_PARTS(z, complex_exp2)(z)
#define complex_expm1(z) BY_PARTS(z, complex_expm1)(z)
#define complex_log(z) BY_COMPLEX_LIBM(z, clog)(z)
#define complex_log2(z) BY_PARTS(z, complex_log2)(z)
#define complex_log10(z) BY_PARTS(z, complex_log10)(z)
#define complex_log1p(z) BY_PARTS(z, complex_log1p)(z)
#define complex_sin(z) BY_COMPLEX_LIBM(z, csin)(z)
#define complex_cos(z) BY_COMPLEX_LIBM(z, ccos)(z)
#define complex_tan(z) BY_COMPLEX_LIBM(z, ctan)(z)
#define complex_asin(z) BY_COMPLEX_LIBM(z, casin)(z)
#define complex_acos(z) BY_COMPLEX_LIBM(z, cacos)(z)
#define complex_atan(z) BY_COMPLEX_LIBM(z, catan)(z)
#define complex_sinh(z) BY_COMPLEX_LIBM(z, csinh)(z)
#define complex_cosh(z) BY_COMPLEX_LIBM(z, ccosh)(z)
#define complex_tanh(z) BY_COMPLEX_LIBM(z, ctanh)(z)
#define complex_asinh(z) BY_COMPLEX_LIBM(z, casinh)(z)
#define complex_acosh(z) BY_COMPLEX_LIBM(z, cacosh)(z)
#define complex_atanh(z) BY_COMPLEX_LIBM(z, catanh)(z)
