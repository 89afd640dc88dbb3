// dot: products of matrices, batch by batch. A block makes a tile of TILE_M x TILE_N results from
// tiles of the operands in shared memory; a thread makes SHARE_M x SHARE_N of them. Products are
// summed over TILE_K elements of k first, and these sums then: the order depends on the tiles alone,
// and a long k loses little. The second bound keeps the compiler from saving registers at the price of
// local memory.
//
// Prologue: KERNEL, BLOCK, TILE_M, TILE_N, TILE_K, SHARE_M, SHARE_N (BLOCK = TILE_M / SHARE_M *
//   TILE_N / SHARE_N), LEFT_ALONG_K and RIGHT_ALONG_K (1 where neighbours along k are neighbours in
//   memory), index_t, COUNT (tiles), ROWS, COLUMNS, LENGTH, TILES_M, TILES_N (tiles of a batch),
//   acc_t, struct args,
//   left(a, b, i, k), right(a, b, k, j)   elements of the operands of batch b
//   store(a, b, i, j, acc)                what follows the product, and the store of result i, j
#ifndef KERNEL
#include "sample.cuh"
#endif

extern "C" __global__ void __launch_bounds__(BLOCK, 2) KERNEL(const __grid_constant__ args a)
{
    __shared__ acc_t lefts[TILE_K][TILE_M + 1], rights[TILE_K][TILE_N + 1];
    const u32 t = threadIdx.x, across = TILE_N / SHARE_N, ti = t / across, tj = t % across;
    const index_t tile = blockIdx.x;
    const index_t b = tile / ((index_t)TILES_M * TILES_N);
    const index_t first_i = tile / TILES_N % TILES_M * TILE_M, first_j = tile % TILES_N * TILE_N;

    acc_t sums[SHARE_M][SHARE_N];
#pragma unroll
    for (u32 x = 0; x < SHARE_M; x++)
#pragma unroll
        for (u32 y = 0; y < SHARE_N; y++)
            sums[x][y] = 0;
    for (index_t first_k = 0; first_k < LENGTH; first_k += TILE_K) {
        for (u32 e = t; e < TILE_M * TILE_K; e += BLOCK) {
            const u32 i = LEFT_ALONG_K ? e / TILE_K : e % TILE_M;
            const u32 k = LEFT_ALONG_K ? e % TILE_K : e / TILE_M;
            lefts[k][i] = first_i + i < ROWS && first_k + k < LENGTH
                              ? left(a, b, first_i + i, first_k + k)
                              : (acc_t)0;
        }
        for (u32 e = t; e < TILE_N * TILE_K; e += BLOCK) {
            const u32 j = RIGHT_ALONG_K ? e / TILE_K : e % TILE_N;
            const u32 k = RIGHT_ALONG_K ? e % TILE_K : e / TILE_N;
            rights[k][j] = first_j + j < COLUMNS && first_k + k < LENGTH
                               ? right(a, b, first_k + k, first_j + j)
                               : (acc_t)0;
        }
        __syncthreads();
        acc_t part[SHARE_M][SHARE_N];
#pragma unroll
        for (u32 x = 0; x < SHARE_M; x++)
#pragma unroll
            for (u32 y = 0; y < SHARE_N; y++)
                part[x][y] = 0;
#pragma unroll
        for (u32 k = 0; k < TILE_K; k++)
#pragma unroll
            for (u32 x = 0; x < SHARE_M; x++)
#pragma unroll
                for (u32 y = 0; y < SHARE_N; y++)
                    part[x][y] = multiply_add(lefts[k][ti + x * (TILE_M / SHARE_M)],
                                              rights[k][tj + y * across], part[x][y]);
#pragma unroll
        for (u32 x = 0; x < SHARE_M; x++)
#pragma unroll
            for (u32 y = 0; y < SHARE_N; y++)
                sums[x][y] += part[x][y];
        __syncthreads();
    }
#pragma unroll
    for (u32 x = 0; x < SHARE_M; x++)
#pragma unroll
        for (u32 y = 0; y < SHARE_N; y++) {
            const index_t i = first_i + ti + x * (TILE_M / SHARE_M), j = first_j + tj + y * across;
            if (i < ROWS && j < COLUMNS)
                store(a, b, i, j, sums[x][y]);
        }
}
