/* query.c - see query.h. */
#include "library/query.h"

/* A dim of size 1 has no stride of its own. */
bool matrix_describe(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                     struct matrix *out)
{
    *out = (struct matrix){0};
    if ((column_stride == 1 || columns == 1) && (rows == 1 || row_stride >= columns)) {
        out->stride = rows == 1 ? columns : row_stride;
        return true;
    }
    if ((row_stride == 1 || rows == 1) && (columns == 1 || column_stride >= rows)) {
        out->transposed = true;
        out->stride = columns == 1 ? rows : column_stride;
        return true;
    }
    return false;
}
