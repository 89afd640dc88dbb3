/* tensor.c - see tensor.h. */
#include "tensor.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* -- dtypes ------------------------------------------------------------------------------------ */

static const struct {
    int code, bits;
    const char *name;
} dtypes[] = {
    {PHASOR_DL_BOOL, 8, "bool"}, {kDLUInt, 8, "u8"},      {kDLUInt, 16, "u16"},
    {kDLUInt, 32, "u32"},        {kDLUInt, 64, "u64"},    {kDLInt, 8, "i8"},
    {kDLInt, 16, "i16"},         {kDLInt, 32, "i32"},     {kDLInt, 64, "i64"},
    {kDLFloat, 16, "f16"},       {kDLBfloat, 16, "bf16"}, {kDLFloat, 32, "f32"},
    {kDLFloat, 64, "f64"},       {kDLComplex, 32, "c32"}, {kDLComplex, 64, "c64"},
    {kDLComplex, 128, "c128"},
};

const char *dtype_name(DLDataType dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (dtypes[i].code == dtype.code && dtypes[i].bits == dtype.bits)
            return dtypes[i].name;
    return "unknown dtype";
}

size_t dtype_bytes(DLDataType dtype)
{
    return ((size_t)dtype.bits * dtype.lanes + 7) / 8;
}

int dtype_parts(DLDataType dtype)
{
    return dtype.code == kDLComplex ? 2 : 1;
}

DLDataType dtype_part(DLDataType dtype)
{
    if (dtype.code != kDLComplex)
        return dtype;
    return (DLDataType){.code = kDLFloat, .bits = dtype.bits / 2, .lanes = dtype.lanes};
}

bool dtype_is_float(DLDataType dtype)
{
    return dtype.code == kDLFloat || dtype.code == kDLBfloat || dtype.code == kDLComplex;
}

bool dtype_equal(DLDataType a, DLDataType b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

int tensor_elements(const DLTensor *tensor, int64_t *out)
{
    int64_t count = 1, nbytes;
    bool too_many = false;
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0) {
            *out = 0;
            return PHASOR_OK;
        }
        too_many |= __builtin_mul_overflow(count, tensor->shape[i], &count);
    }
    too_many |= __builtin_mul_overflow(count, (int64_t)dtype_bytes(tensor->dtype), &nbytes);
    if (too_many)
        return report_failure(PHASOR_ERROR_MEMORY,
                              "out of memory: a tensor of more than 2^63 bytes");
    *out = count;
    return PHASOR_OK;
}

/* -- elements ---------------------------------------------------------------------------------- */

static double half_real(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                            : ldexp(fraction, -24);
    return half >> 15 ? -magnitude : magnitude;
}

/* Rounds to nearest, ties to even: rint() does, once the unit in the last place is 1. */
static uint16_t half_bits(double value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double magnitude = fabs(value);
    if (isnan(value))
        return 0x7e00;
    if (magnitude >= 65520)
        return sign | 0x7c00;
    int exponent = 0;
    frexp(magnitude, &exponent);
    if (exponent < -13)
        return sign | (uint16_t)rint(ldexp(magnitude, 24));
    /* A fraction that rounds up to 2048 carries into the exponent by itself. */
    return sign | (uint16_t)(((exponent + 13) << 10) + (int)rint(ldexp(magnitude, 11 - exponent)));
}

static double bfloat_real(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t bfloat_bits(double value)
{
    const float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (isnan(narrow))
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double part_real(const void *data, DLDataType part, int64_t i)
{
    if (part.code == kDLFloat && part.bits == 64)
        return ((const double *)data)[i];
    if (part.code == kDLFloat && part.bits == 32)
        return ((const float *)data)[i];
    if (part.code == kDLFloat && part.bits == 16)
        return half_real(((const uint16_t *)data)[i]);
    if (part.code == kDLBfloat)
        return bfloat_real(((const uint16_t *)data)[i]);
    return (double)part_integer(data, part, i);
}

int64_t part_integer(const void *data, DLDataType part, int64_t i)
{
    const bool is_signed = part.code == kDLInt;
    switch (part.bits) {
    case 8: return is_signed ? ((const int8_t *)data)[i] : ((const uint8_t *)data)[i];
    case 16: return is_signed ? ((const int16_t *)data)[i] : ((const uint16_t *)data)[i];
    case 32: return is_signed ? ((const int32_t *)data)[i] : (int64_t)((const uint32_t *)data)[i];
    default: return ((const int64_t *)data)[i];
    }
}

static void integer_store(void *data, int bits, int64_t i, int64_t value)
{
    switch (bits) {
    case 8: ((int8_t *)data)[i] = (int8_t)value; break;
    case 16: ((int16_t *)data)[i] = (int16_t)value; break;
    case 32: ((int32_t *)data)[i] = (int32_t)value; break;
    default: ((int64_t *)data)[i] = value;
    }
}

void part_store(void *data, DLDataType part, int64_t i, double value)
{
    if (part.code == kDLFloat && part.bits == 64)
        ((double *)data)[i] = value;
    else if (part.code == kDLFloat && part.bits == 32)
        ((float *)data)[i] = (float)value;
    else if (part.code == kDLFloat && part.bits == 16)
        ((uint16_t *)data)[i] = half_bits(value);
    else if (part.code == kDLBfloat)
        ((uint16_t *)data)[i] = bfloat_bits(value);
    else
        integer_store(data, part.bits, i, (int64_t)value);
}

int tensors_search(const phasor_tensors *file, const char *position, const char *name,
                   phasor_value *out, bool *found)
{
    const char *const keys[] = {position, name};
    *found = false;
    for (int k = 0; k < 2 && keys[k] && !*found; k++) {
        *found = phasor_tensors_find(file, keys[k], out);
        for (int i = 0; !*found && i < phasor_tensors_count(file); i++)
            if (strcmp(phasor_tensors_name(file, i), keys[k]) == 0)
                return report_library(PHASOR_ERROR_FILE);
    }
    return PHASOR_OK;
}
