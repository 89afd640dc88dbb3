/* cublaslt.h - products of matrices by cuBLASLt, opened at run time.
 *
 *     struct matmul  ->  cublaslt_prepare: descriptors and an algorithm  ->  cublaslt_run, any number
 *                                                                           of times
 *
 * The algorithm is the first that the library's heuristics give for just this product: a function of
 * the product, the device and the library's version, never of a timing. Only algorithms are asked
 * for that sum in one order: no atomics.
 */
#pragma once
#include "base/status.h"
#include "library/query.h"

#include <stddef.h>

/* Whether the library is there; its path and version for reports. Does not need a device. */
struct cublaslt_info {
    const char *path; /* lives as long as the process */
    int version;      /* 130101: 13.1.1 */
};
phasor_status cublaslt_find(struct cublaslt_info *out);

/* The library's handle for the current device. */
struct cublaslt;
phasor_status cublaslt_open(struct cublaslt **out);
void cublaslt_close(struct cublaslt *library); /* NULL is fine */

/* A product that is ready: plain bytes, which may lie anywhere and need no freeing. */
struct matmul_call {
    uint64_t description[32], layouts[3][8], algorithm[8];
    int64_t workspace;
    int type;
};
phasor_status cublaslt_prepare(struct cublaslt *library, const struct matmul *matmul,
                               struct matmul_call *out);
/* On the stream; nothing is allocated. workspace: MATMUL_WORKSPACE bytes. */
phasor_status cublaslt_run(struct cublaslt *library, const struct matmul_call *call, const void *a,
                           const void *b, void *c, void *workspace, void *stream);
