/* dtype.c - see dtype.h. */
#include "graph/dtype.h"

#include <string.h>

const struct dtype_info dtype_info[DT_COUNT] = {
#define DTYPE(name, text, nbytes, kind, compute, real, dlpack) \
    [DT_##name] = {text, nbytes, DTC_##kind, DT_##compute, DT_##real, dlpack},
#include "graph/dtype.def"
#undef DTYPE
};

bool dtype_parse(const char *text, size_t length, enum dtype *out)
{
    for (int d = 0; d < DT_COUNT; d++)
        if (strlen(dtype_info[d].text) == length && memcmp(dtype_info[d].text, text, length) == 0) {
            *out = (enum dtype)d;
            return true;
        }
    return false;
}

enum dtype dtype_complex_of(enum dtype real)
{
    if (dtype_is_complex(real))
        return real;
    return real == DT_f64 ? DT_c128 : DT_c64;
}

DLDataType dtype_to_dlpack(enum dtype d)
{
    return (DLDataType){.code = (uint8_t)dtype_info[d].dlpack_code,
                        .bits = (uint8_t)(8 * dtype_info[d].nbytes),
                        .lanes = 1};
}

bool dtype_from_dlpack(DLDataType type, enum dtype *out)
{
    for (int d = 0; d < DT_COUNT; d++) {
        const DLDataType ours = dtype_to_dlpack((enum dtype)d);
        if (type.lanes == 1 && ours.code == type.code && ours.bits == type.bits) {
            *out = (enum dtype)d;
            return true;
        }
    }
    return false;
}

/* Within a class the wider wins; u8 with a signed type needs a signed type that holds both. */
static enum dtype promote_within(enum dtype a, enum dtype b)
{
    if (a == b)
        return a;
    if ((a == DT_f16 && b == DT_bf16) || (a == DT_bf16 && b == DT_f16))
        return DT_f32;
    if ((a == DT_u8 && b == DT_i8) || (a == DT_i8 && b == DT_u8))
        return DT_i16;
    return dtype_size(a) > dtype_size(b) ? a : dtype_size(b) > dtype_size(a) ? b : a > b ? a : b;
}

enum dtype dtype_promote(enum dtype a, enum dtype b)
{
    if (dtype_is_complex(a) != dtype_is_complex(b)) {
        const enum dtype complex = dtype_is_complex(a) ? a : b, real = dtype_is_complex(a) ? b : a;
        return real == DT_f64 ? DT_c128 : complex;
    }
    const enum dtype_class ka = dtype_info[a].kind, kb = dtype_info[b].kind;
    const bool integers =
        dtype_is_integer(a) && dtype_is_integer(b) && ka != DTC_BOOL && kb != DTC_BOOL;
    if (ka == kb || integers)
        return promote_within(a, b);
    return ka > kb ? a : b;
}
