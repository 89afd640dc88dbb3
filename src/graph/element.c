/* element.c - see element.h. */
#include "graph/element.h"

#include "base/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- memory ------------------------------------------------------------------------------------ */

static double bf16_load(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float result;
    memcpy(&result, &wide, sizeof result);
    return result;
}

/* Ties go to the even neighbour; a NaN stays one. */
static uint16_t bf16_store(double number)
{
    const float narrow = (float)number;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (isnan(narrow))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double f16_load(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                        : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                       : ldexp(fraction, -24);
    return copysign(size, bits >> 15 ? -1 : 1);
}

/* As bf16_store. The number is a whole multiple of 2^step; a carry into the exponent is right too.
 */
static uint16_t f16_store(double number)
{
    const unsigned sign = signbit(number) ? 0x8000 : 0;
    const double size = fabs(number);
    if (isnan(number))
        return (uint16_t)(sign | 0x7e00);
    if (size >= 65520)
        return (uint16_t)(sign | 0x7c00);
    const int step = size < ldexp(1, -14) ? -24 : ilogb(size) - 10;
    return (uint16_t)(sign + ((unsigned)(step + 25) << 10) + (unsigned)rint(ldexp(size, -step)) -
                      1024);
}

static double real_load(enum dtype dtype, const void *bytes)
{
    uint16_t bits;
    float single;
    double result;
    switch (dtype) {
    case DT_bf16: memcpy(&bits, bytes, sizeof bits); return bf16_load(bits);
    case DT_f16: memcpy(&bits, bytes, sizeof bits); return f16_load(bits);
    case DT_f32: memcpy(&single, bytes, sizeof single); return single;
    default: memcpy(&result, bytes, sizeof result); return result;
    }
}

static void real_store(enum dtype dtype, double number, void *bytes)
{
    const uint16_t bits = dtype == DT_f16 ? f16_store(number) : bf16_store(number);
    const float single = (float)number;
    switch (dtype) {
    case DT_bf16:
    case DT_f16: memcpy(bytes, &bits, sizeof bits); break;
    case DT_f32: memcpy(bytes, &single, sizeof single); break;
    default: memcpy(bytes, &number, sizeof number); break;
    }
}

static double real_round(enum dtype dtype, double number)
{
    char bytes[sizeof(double)];
    real_store(dtype, number, bytes);
    return real_load(dtype, bytes);
}

/* Integers are stored little-endian, as all machines that CUDA runs on have them. */
static int64_t integer_load(enum dtype dtype, const void *bytes)
{
    uint64_t bits = 0;
    const int unused = 64 - 8 * dtype_size(dtype);
    memcpy(&bits, bytes, (size_t)dtype_size(dtype));
    return dtype_info[dtype].kind == DTC_INT ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

struct number element_load(enum dtype dtype, const void *bytes)
{
    if (dtype_is_integer(dtype))
        return (struct number){.i = integer_load(dtype, bytes)};
    const enum dtype real = dtype_info[dtype].real;
    struct number number = {.re = real_load(real, bytes)};
    if (dtype_is_complex(dtype))
        number.im = real_load(real, (const char *)bytes + dtype_size(real));
    return number;
}

static bool real_fits(enum dtype dtype, double number)
{
    return !isfinite(number) || isfinite(real_round(dtype, number));
}

bool element_store(enum dtype dtype, struct number number, void *bytes)
{
    if (dtype_is_integer(dtype)) {
        const size_t nbytes = (size_t)dtype_size(dtype);
        memcpy(bytes, &number.i, nbytes);
        return integer_load(dtype, bytes) == number.i && (dtype != DT_bool || (number.i | 1) == 1);
    }
    const enum dtype real = dtype_info[dtype].real;
    real_store(real, number.re, bytes);
    if (dtype_is_complex(dtype))
        real_store(real, number.im, (char *)bytes + dtype_size(real));
    return real_fits(real, number.re) && real_fits(real, number.im);
}

/* -- text -------------------------------------------------------------------------------------- */

static void real_print(enum dtype dtype, double number, struct text *out)
{
    char digits[64];
    const double wanted = real_round(dtype, number);
    if (!isfinite(wanted)) {
        text_format(out, "%s%s", signbit(wanted) ? "-" : "", isnan(wanted) ? "nan" : "inf");
        return;
    }
    if (wanted == trunc(wanted) && fabs(wanted) < 1e15) {
        number_format(digits, sizeof digits, "%.0f", wanted);
        text_add(out, digits);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        number_format(digits, sizeof digits, "%.*g", precision, wanted);
        if (real_round(dtype, number_read(digits, NULL)) == wanted)
            break;
    }
    text_add(out, digits);
}

void element_print(enum dtype dtype, struct number number, struct text *out)
{
    const enum dtype real = dtype_info[dtype].real;
    if (dtype == DT_bool) {
        text_add(out, number.i ? "true" : "false");
    } else if (dtype_is_integer(dtype)) {
        text_format(out, "%" PRId64, number.i);
    } else {
        real_print(real, number.re, out);
        if (dtype_is_complex(dtype)) {
            text_add(out, signbit(number.im) ? "" : "+");
            real_print(real, number.im, out);
            text_add(out, "j");
        }
    }
}

/* -- data -------------------------------------------------------------------------------------- */

int64_t data_count(const struct data *data)
{
    int64_t count = 1;
    bool empty = false;
    for (int d = 0; d < data->rank; d++) {
        if (data->sizes[d] < 0)
            return -1;
        empty = empty || data->sizes[d] == 0;
    }
    for (int d = 0; d < data->rank && !empty; d++)
        if (__builtin_mul_overflow(count, data->sizes[d], &count))
            return -1;
    return empty ? 0 : count;
}

bool data_is_inside(const struct data *data)
{
    const int64_t count = data_count(data);
    int64_t low = data->offset, high = data->offset, step;
    if (count <= 0)
        return count == 0;
    if (!data->storage || !data->storage->bytes)
        return false;
    for (int d = 0; d < data->rank; d++) {
        int64_t *end = data->strides[d] < 0 ? &low : &high;
        if (__builtin_mul_overflow(data->strides[d], data->sizes[d] - 1, &step) ||
            __builtin_add_overflow(*end, step, end))
            return false;
    }
    return low >= 0 && (uint64_t)high < data->storage->nbytes / (size_t)dtype_size(data->dtype);
}

const void *data_element(const struct data *data, int64_t k)
{
    int64_t at = data->offset;
    for (int d = data->rank - 1; d >= 0; d--) {
        at += k % data->sizes[d] * data->strides[d];
        k /= data->sizes[d];
    }
    return (const char *)data->storage->bytes + at * dtype_size(data->dtype);
}

bool data_is_inline(const struct data *data)
{
    const int64_t count = data_count(data);
    return count >= 0 && count <= DATA_INLINE && dtype_info[data->dtype].kind != DTC_NAMED &&
           data_is_inside(data);
}

uint64_t storage_new_id(void)
{
    static atomic_uint_least64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}
