/* test_vendor.c - what src/library declares of vendor libraries is what their headers say, where
 * those are; elsewhere there is nothing to compare. */
#include "library/cublaslt_declarations.h"

#include <criterion/criterion.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#define SAME(ours, theirs) cr_expect_eq((long long)(ours), (long long)(theirs), #ours)

/* A function with these parameters, by the compiler. */
#define CALLABLE(call) ((void)sizeof(call))

Test(vendor, cublaslt)
{
    SAME(CUDA_R_32F_, CUDA_R_32F);
    SAME(CUDA_R_64F_, CUDA_R_64F);
    SAME(CUDA_R_16F_, CUDA_R_16F);
    SAME(CUDA_R_16BF_, CUDA_R_16BF);
    SAME(CUBLAS_COMPUTE_32F_, CUBLAS_COMPUTE_32F);
    SAME(CUBLAS_COMPUTE_64F_, CUBLAS_COMPUTE_64F);
    SAME(LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
    SAME(LAYOUT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
    SAME(DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
    SAME(DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
    SAME(PREF_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
    SAME(PREF_REDUCTION_SCHEMES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
    SAME(PREF_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    SAME(PREF_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
    SAME(PREF_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
    SAME(PREF_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
    SAME(REDUCTION_NONE, CUBLASLT_REDUCTION_SCHEME_NONE);
    SAME(REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    SAME(CUBLAS_OP_N, 0);
    SAME(CUBLAS_OP_T, 1);
    SAME(sizeof(cublasLtMatrixLayoutOpaque_t), 64);
    SAME(sizeof(cublasLtMatmulPreferenceOpaque_t), 64);
    SAME(sizeof(cublasLtMatmulAlgo_t), 64);
    cr_expect_leq(sizeof(cublasLtMatmulDescOpaque_t), 256);
    SAME(sizeof(struct heuristic_result), sizeof(cublasLtMatmulHeuristicResult_t));
    SAME(offsetof(struct heuristic_result, workspace),
         offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
    SAME(offsetof(struct heuristic_result, state),
         offsetof(cublasLtMatmulHeuristicResult_t, state));
    CALLABLE(cublasLtMatmul(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, (size_t)0, 0));
    CALLABLE(cublasLtMatmulAlgoGetHeuristic(0, 0, 0, 0, 0, 0, 0, 1, 0, 0));
    CALLABLE(cublasLtMatrixLayoutInit_internal(0, 64, CUDA_R_32F, 1, 1, (int64_t)1));
    CALLABLE(cublasLtMatmulDescInit_internal(0, 64, CUBLAS_COMPUTE_32F, CUDA_R_32F));
}
#else
Test(vendor, no_header) {}
#endif
