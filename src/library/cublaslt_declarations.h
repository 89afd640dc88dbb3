/* cublaslt_declarations.h - what is used of cublasLt.h, so that a build needs no CUDA headers.
 * tests/test_vendor.c compares each of these with the real header where there is one. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
    CUDA_R_32F_ = 0,
    CUDA_R_64F_ = 1,
    CUDA_R_16F_ = 2,
    CUDA_R_16BF_ = 14,
    CUBLAS_COMPUTE_32F_ = 68,
    CUBLAS_COMPUTE_64F_ = 70,
    LAYOUT_BATCH_COUNT = 5,
    LAYOUT_BATCH_STRIDE = 6,
    DESC_TRANSA = 3,
    DESC_TRANSB = 4,
    PREF_WORKSPACE = 1,
    PREF_REDUCTION_SCHEMES = 3,
    PREF_ALIGNMENT_A = 5,
    PREF_ALIGNMENT_B = 6,
    PREF_ALIGNMENT_C = 7,
    PREF_ALIGNMENT_D = 8,
    REDUCTION_NONE = 0,
    REDUCTION_COMPUTE_TYPE = 2
};

struct heuristic_result {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

/* name without cublasLt, type. Descriptors are plain bytes of 64 (a description: 256). */
#define CUBLASLT_FUNCTIONS(X)                                                                      \
    X(GetVersion, size_t (*)(void))                                                                \
    X(GetStatusString, const char *(*)(int))                                                       \
    X(Create, int (*)(void **))                                                                    \
    X(Destroy, int (*)(void *))                                                                    \
    X(MatrixLayoutInit_internal, int (*)(void *, size_t, int, uint64_t, uint64_t, int64_t))        \
    X(MatrixLayoutSetAttribute, int (*)(void *, int, const void *, size_t))                        \
    X(MatmulDescInit_internal, int (*)(void *, size_t, int, int))                                  \
    X(MatmulDescSetAttribute, int (*)(void *, int, const void *, size_t))                          \
    X(MatmulPreferenceInit_internal, int (*)(void *, size_t))                                      \
    X(MatmulPreferenceSetAttribute, int (*)(void *, int, const void *, size_t))                    \
    X(MatmulAlgoGetHeuristic, int (*)(void *, void *, void *, void *, void *, void *, void *, int, \
                                      struct heuristic_result *, int *))                           \
    X(Matmul, int (*)(void *, const void *, const void *, const void *, const void *,              \
                      const void *, const void *, const void *, const void *, const void *,        \
                      void *, const void *, const void *, void *, size_t, void *))
