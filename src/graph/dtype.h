/* dtype.h - element types and their facts, from dtype.def. */
#pragma once
#include "base/status.h"

#include <stdbool.h>

enum dtype {
#define DTYPE(name, ...) DT_##name,
#include "graph/dtype.def"
#undef DTYPE
    DT_COUNT
};

enum dtype_class { DTC_BOOL, DTC_UINT, DTC_INT, DTC_FLOAT, DTC_COMPLEX, DTC_NAMED };

struct dtype_info {
    const char *text;
    int nbytes;
    enum dtype_class kind;
    enum dtype compute, real;
    int dlpack_code;
};
extern const struct dtype_info dtype_info[DT_COUNT];

static inline bool dtype_is_complex(enum dtype d)
{
    return dtype_info[d].kind == DTC_COMPLEX;
}
static inline bool dtype_is_float(enum dtype d)
{
    return dtype_info[d].kind == DTC_FLOAT;
}
static inline bool dtype_is_integer(enum dtype d)
{
    return dtype_info[d].kind <= DTC_INT;
} /* bool included */
static inline int dtype_size(enum dtype d)
{
    return dtype_info[d].nbytes;
}
static inline const char *dtype_text(enum dtype d)
{
    return dtype_info[d].text;
}

bool dtype_parse(const char *text, size_t length, enum dtype *out);
enum dtype dtype_complex_of(enum dtype real); /* f16, bf16, f32, integers -> c64; f64 -> c128 */
DLDataType dtype_to_dlpack(enum dtype d);
bool dtype_from_dlpack(DLDataType type, enum dtype *out); /* false: none of ours */
/* What two dtypes promote to when both are tensors with dims (NumPy-like, as PyTorch). */
enum dtype dtype_promote(enum dtype a, enum dtype b);

/* A number of any dtype, as written in programs. Integers are exact. */
struct number {
    int64_t i;     /* bool and integer dtypes */
    double re, im; /* the others; im is 0 for real ones */
};
