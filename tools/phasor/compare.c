/* compare.c - see compare.h. */
#include "compare.h"

#include "tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- tolerances -------------------------------------------------------------------------------- */

struct tolerance {
    double relative, absolute;
    bool last_place; /* at least one unit in the last place of bf16 */
};

static struct tolerance tolerance_of(DLDataType part, double rtol, double atol)
{
    struct tolerance t = {0, 0, false};
    if (!dtype_is_float(part))
        return t;
    if (part.code == kDLBfloat)
        t = (struct tolerance){0, 1e-5, rtol < 0 && atol < 0};
    else if (part.bits == 64)
        t = (struct tolerance){1e-7, 1e-7, false};
    else if (part.bits == 32)
        t = (struct tolerance){1.3e-6, 1e-5, false};
    else
        t = (struct tolerance){1e-3, 1e-5, false};
    t.relative = rtol >= 0 ? rtol : t.relative;
    t.absolute = atol >= 0 ? atol : t.absolute;
    return t;
}

/* The distance of a finite bf16 number to the next larger one in magnitude. */
static double last_place(double value)
{
    int exponent = 0;
    frexp(value, &exponent);
    return ldexp(1, (value == 0 || exponent < -125 ? -125 : exponent) - 8);
}

static bool real_is_close(double result, double expected, const struct tolerance *t)
{
    if (isnan(expected) || isnan(result))
        return isnan(expected) && isnan(result);
    if (isinf(expected) || isinf(result))
        return expected == result;
    const double distance = fabs(result - expected);
    if (t->last_place)
        return distance <= fmax(t->absolute, last_place(expected));
    return distance <= t->absolute + t->relative * fabs(expected);
}

/* -- tensors ----------------------------------------------------------------------------------- */

static int reason_set(struct comparison *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int reason_set(struct comparison *out, const char *format, ...)
{
    va_list arguments;
    out->match = false;
    va_start(arguments, format);
    vsnprintf(out->reason, sizeof out->reason, format, arguments);
    va_end(arguments);
    return PHASOR_OK;
}

static void shape_print(char *text, size_t room, const DLTensor *tensor)
{
    size_t used = (size_t)snprintf(text, room, "%s[", dtype_name(tensor->dtype));
    for (int i = 0; i < tensor->ndim && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%" PRId64, i ? ", " : "",
                                 tensor->shape[i]);
    if (used < room)
        snprintf(text + used, room - used, "]");
}

static bool shape_equal(const DLTensor *a, const DLTensor *b)
{
    return a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

/* Where part i of a packed tensor is: "[0, 3]", "[0, 3].imag". */
static void place_print(char *text, size_t room, const DLTensor *tensor, int64_t part)
{
    const int parts = dtype_parts(tensor->dtype);
    int64_t rest = part / parts, size = 1;
    for (int i = 0; i < tensor->ndim; i++)
        size *= tensor->shape[i];
    size_t used = (size_t)snprintf(text, room, "[");
    for (int i = 0; i < tensor->ndim && used < room; i++) {
        size /= tensor->shape[i];
        used +=
            (size_t)snprintf(text + used, room - used, "%s%" PRId64, i ? ", " : "", rest / size);
        rest %= size;
    }
    if (used < room)
        snprintf(text + used, room - used, "]%s", parts == 1 ? "" : part % 2 ? ".imag" : ".real");
}

/* A difference of two numbers, for the figures: 0 for equal infinities and for NaN in both. */
static void figures_add(struct comparison *out, double result, double expected)
{
    if (isnan(result) && isnan(expected))
        return;
    const double distance = result == expected ? 0 : fabs(result - expected);
    const double seen = isnan(distance) ? INFINITY : distance;
    out->max_abs = fmax(out->max_abs, seen);
    if (expected != 0)
        out->max_rel = fmax(out->max_rel, seen == 0     ? 0
                                          : isinf(seen) ? INFINITY
                                                        : seen / fabs(expected));
}

/* Integers of 64 bits do not fit a double: they are compared as they are. */
static bool part_is_close(const void *result, const void *expected, DLDataType part, int64_t i,
                          const struct tolerance *t)
{
    if (!dtype_is_float(part))
        return part_integer(result, part, i) == part_integer(expected, part, i);
    return real_is_close(part_real(result, part, i), part_real(expected, part, i), t);
}

static void parts_compare(const DLTensor *result, const DLTensor *expected, int64_t count,
                          const struct tolerance *t, struct comparison *out)
{
    const char *a = (const char *)result->data + result->byte_offset;
    const char *b = (const char *)expected->data + expected->byte_offset;
    const DLDataType part = dtype_part(result->dtype);
    int64_t different = 0, first = 0;
    for (int64_t i = 0; i < count; i++) {
        figures_add(out, part_real(a, part, i), part_real(b, part, i));
        if (part_is_close(a, b, part, i, t))
            continue;
        if (different++ == 0)
            first = i;
    }
    if (different == 0)
        return;
    char place[128];
    place_print(place, sizeof place, result, first);
    reason_set(out, "%" PRId64 " of %" PRId64 " numbers differ, first %s: %.9g, expected %.9g",
               different, count, place, part_real(a, part, first), part_real(b, part, first));
}

static int tensors_compare(const DLTensor *result, const DLTensor *expected, double rtol,
                           double atol, struct comparison *out)
{
    int64_t elements;
    if (!dtype_equal(result->dtype, expected->dtype) || !shape_equal(result, expected)) {
        char is[100], should[100];
        shape_print(is, sizeof is, result);
        shape_print(should, sizeof should, expected);
        return reason_set(out, "%s, expected %s", is, should);
    }
    TRY(tensor_elements(result, &elements));
    const struct tolerance t = tolerance_of(dtype_part(result->dtype), rtol, atol);
    out->measured = true;
    parts_compare(result, expected, elements * dtype_parts(result->dtype), &t, out);
    return PHASOR_OK;
}

/* -- values ------------------------------------------------------------------------------------ */

static int numbers_compare(double result, double expected, bool exact, double rtol, double atol,
                           struct comparison *out)
{
    const struct tolerance t = exact ? (struct tolerance){0, 0, false}
                                     : tolerance_of((DLDataType){kDLFloat, 64, 1}, rtol, atol);
    out->measured = true;
    figures_add(out, result, expected);
    if (!real_is_close(result, expected, &t))
        reason_set(out, "%.17g, expected %.17g", result, expected);
    return PHASOR_OK;
}

int compare_values(const phasor_value *result, const phasor_value *expected, double rtol,
                   double atol, struct comparison *out)
{
    static const char *const kinds[] = {"None",    "a tensor", "a tensor", "an int",
                                        "a float", "a bool",   "a string"};
    *out = (struct comparison){.match = true};
    if (!expected)
        return reason_set(out, "the file has no such output");
    if (result->kind != expected->kind)
        return reason_set(out, "%s, expected %s", kinds[result->kind], kinds[expected->kind]);
    switch (result->kind) {
    case PHASOR_TENSOR: return tensors_compare(result->tensor, expected->tensor, rtol, atol, out);
    case PHASOR_INT:
        TRY(numbers_compare((double)result->integer, (double)expected->integer, true, rtol, atol,
                            out));
        if (result->integer != expected->integer)
            return reason_set(out, "%" PRId64 ", expected %" PRId64, result->integer,
                              expected->integer);
        return PHASOR_OK;
    case PHASOR_FLOAT: return numbers_compare(result->real, expected->real, false, rtol, atol, out);
    case PHASOR_BOOL:
        return numbers_compare(result->boolean, expected->boolean, true, rtol, atol, out);
    case PHASOR_STRING:
        if (strcmp(result->string, expected->string) != 0)
            return reason_set(out, "'%s', expected '%s'", result->string, expected->string);
        return PHASOR_OK;
    default: return PHASOR_OK;
    }
}
