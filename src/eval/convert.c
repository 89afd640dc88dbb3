/* convert.c - see convert.h. One row a dtype in CODECS, one row a compute type in CONVERSIONS. */
#include "eval/convert.h"

#include <complex.h>
#include <math.h>
#include <string.h>

/* -- 16-bit floats ----------------------------------------------------------------------------- */

static uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float convert_f16_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    if (exponent == 31)
        return float_from_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0) {
        const float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t convert_float_to_f16(float x)
{
    const uint32_t bits = float_bits(x), magnitude = bits & 0x7fffffff;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000)
        return sign | 0x7e00;
    if (magnitude >= 0x477ff000) /* 65520: halfway between the largest number and the next */
        return sign | 0x7c00;
    /* Below 2^-14: in [0.5, 1) a float has the steps of a subnormal f16, so that adding rounds. */
    if (magnitude < 0x38800000)
        return sign | (uint16_t)(float_bits(float_from_bits(magnitude) + 0.5f) - float_bits(0.5f));
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((rounded - 0x38000000) >> 13);
}

float convert_bf16_to_float(uint16_t bits)
{
    return float_from_bits((uint32_t)bits << 16);
}

uint16_t convert_float_to_bf16(float x)
{
    const uint32_t bits = float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* -- memory <-> compute type ------------------------------------------------------------------- */

/* CODEC(dtype, type in memory, compute type, computed from `stored`, stored from `computed`) */
#define CODECS                                                                                   \
    CODEC(bool, uint8_t, bool, stored != 0, computed)                                            \
    CODEC(u8, uint8_t, int64_t, stored, (uint8_t)computed)                                       \
    CODEC(i8, int8_t, int64_t, stored, (int8_t)computed)                                         \
    CODEC(i16, int16_t, int64_t, stored, (int16_t)computed)                                      \
    CODEC(i32, int32_t, int64_t, stored, (int32_t)computed)                                      \
    CODEC(i64, int64_t, int64_t, stored, computed)                                               \
    CODEC(f16, uint16_t, float, convert_f16_to_float(stored), convert_float_to_f16(computed))    \
    CODEC(bf16, uint16_t, float, convert_bf16_to_float(stored), convert_float_to_bf16(computed)) \
    CODEC(f32, float, float, stored, computed)                                                   \
    CODEC(f64, double, double, stored, computed)                                                 \
    CODEC(c64, float _Complex, float _Complex, stored, computed)                                 \
    CODEC(c128, double _Complex, double _Complex, stored, computed)

#define CODEC(name, memory_type, compute_type, load, store)                                     \
    static void load_##name(void *result, const void *bytes, int64_t stride, size_t count)      \
    {                                                                                           \
        for (size_t i = 0; i < count; i++) {                                                    \
            memory_type stored;                                                                 \
            memcpy(&stored, (const char *)bytes + (int64_t)i * stride * (int64_t)sizeof stored, \
                   sizeof stored);                                                              \
            ((compute_type *)result)[i] = load;                                                 \
        }                                                                                       \
    }                                                                                           \
    static void store_##name(void *bytes, int64_t stride, const void *values, size_t count)     \
    {                                                                                           \
        for (size_t i = 0; i < count; i++) {                                                    \
            const compute_type computed = ((const compute_type *)values)[i];                    \
            const memory_type stored = store;                                                   \
            memcpy((char *)bytes + (int64_t)i * stride * (int64_t)sizeof stored, &stored,       \
                   sizeof stored);                                                              \
        }                                                                                       \
    }
CODECS
#undef CODEC

static const struct {
    void (*load)(void *result, const void *bytes, int64_t stride, size_t count);
    void (*store)(void *bytes, int64_t stride, const void *values, size_t count);
} codecs[DT_COUNT] = {
#define CODEC(name, ...) [DT_##name] = {load_##name, store_##name},
    CODECS
#undef CODEC
};

void convert_load(enum dtype dtype, void *computed, const void *bytes, int64_t stride, size_t count)
{
    codecs[dtype].load(computed, bytes, stride, count);
}

void convert_store(enum dtype dtype, void *bytes, int64_t stride, const void *computed,
                   size_t count)
{
    codecs[dtype].store(bytes, stride, computed, count);
}

/* -- compute type -> compute type -------------------------------------------------------------- */

int64_t convert_double_to_integer(double x)
{
    if (x != x)
        return 0;
    if (x >= 0x1p63)
        return INT64_MAX;
    return x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

#define to_integer(x)                \
    _Generic((x), bool               \
             : (int64_t)(x), int64_t \
             : (x), default          \
             : convert_double_to_integer((double)(x)))

/* CONVERSION(to, type, from, type, expression over x); a C cast of a complex number takes its real
 * part. */
#define FROM_EACH(to, to_type, expression)                   \
    CONVERSION(to, to_type, bit, bool, expression)           \
    CONVERSION(to, to_type, i64, int64_t, expression)        \
    CONVERSION(to, to_type, f32, float, expression)          \
    CONVERSION(to, to_type, f64, double, expression)         \
    CONVERSION(to, to_type, c64, float _Complex, expression) \
    CONVERSION(to, to_type, c128, double _Complex, expression)
#define CONVERSIONS                                   \
    FROM_EACH(bit, bool, x != 0)                      \
    FROM_EACH(i64, int64_t, to_integer(x))            \
    FROM_EACH(f32, float, (float)x)                   \
    FROM_EACH(f64, double, (double)x)                 \
    FROM_EACH(c64, float _Complex, (float _Complex)x) \
    FROM_EACH(c128, double _Complex, (double _Complex)x)

#define CONVERSION(to, to_type, from, from_type, expression)                     \
    static void to##_from_##from(void *result, const void *values, size_t count) \
    {                                                                            \
        to_type *results = result;                                               \
        for (size_t i = 0; i < count; i++) {                                     \
            const from_type x = ((const from_type *)values)[i];                  \
            results[i] = expression;                                             \
        }                                                                        \
    }
CONVERSIONS
#undef CONVERSION

enum { DT_bit = DT_bool }; /* a name that the macro `bool` leaves alone */

static void (*const conversions[DT_COUNT][DT_COUNT])(void *result, const void *values,
                                                     size_t count) = {
#define CONVERSION(to, to_type, from, ...) [DT_##to][DT_##from] = to##_from_##from,
    CONVERSIONS
#undef CONVERSION
};

void convert_compute(enum dtype to, void *result, enum dtype from, const void *computed,
                     size_t count)
{
    conversions[to][from](result, computed, count);
}

void convert_cast(enum dtype to, void *result, enum dtype from, const void *computed, size_t count)
{
    const enum dtype compute = dtype_info[to].compute;
    convert_compute(compute, result, from, computed, count);
    if (compute != DT_i64 || to == DT_i64 || dtype_is_integer(from))
        return;
    int64_t *integers = result;
    for (size_t i = 0; i < count; i++)
        integers[i] = integers[i] > INT32_MAX   ? INT32_MAX
                      : integers[i] < INT32_MIN ? INT32_MIN
                                                : integers[i];
}

void convert_number(enum dtype dtype, struct number number, void *computed)
{
    const double _Complex z = __builtin_complex(number.re, number.im);
    if (dtype_is_integer(dtype))
        convert_compute(dtype_info[dtype].compute, computed, DT_i64, &number.i, 1);
    else
        convert_compute(dtype_info[dtype].compute, computed, DT_c128, &z, 1);
}
