/* query.h - what a planner may ask of the vendor libraries, and how it describes a call of one. Pure
 * data: nothing is opened here.
 *
 *     [2048, 4096] x [28672, 4096] transposed, bf16   ->   struct matmul {1, 2048, 28672, 4096, ...}
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Libraries that are there, as bits. */
enum library { LIBRARY_CUBLASLT = 1 };

enum library_type { LIBRARY_F16, LIBRARY_BF16, LIBRARY_F32, LIBRARY_F64, LIBRARY_TYPES };

/* A matrix of a batch in memory: element (i, j) is at i * stride + j, or where transposed at
 * j * stride + i. Elements, not bytes. Batches may share one (0). */
struct matrix {
    int64_t stride, batch_stride;
    bool transposed;
};

/* c[b] = a[b] b[b] for batches of m x k by k x n, summed in f32 (f64 in f64). c is not transposed. */
struct matmul {
    int type; /* enum library_type */
    int64_t batch, m, n, k;
    struct matrix a, b, c;
    int alignment; /* bytes, of every first element */
};

/* Workspace that a product is given. Libraries choose other algorithms with less. */
enum { MATMUL_WORKSPACE = 32 << 20 };

/* Whether a matrix of this many rows and columns with these strides can be described; out has no
 * batch stride yet. */
bool matrix_describe(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                     struct matrix *out);
