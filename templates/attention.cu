// attention: softmax(score(q k')) v with no matrix of scores in memory. A block makes 64 rows of the
// result, 16 a warp, and goes over the keys in tiles of 64: products on tensor cores, the softmax of
// what was seen so far corrected as it goes on. The order of sums depends on the tiles alone.
//
// A tile of which every score is masked is not loaded: SKIPS says that a score is -inf for any product
// where it is for the product 0.
//
// Prologue: KERNEL, BLOCK (128), index_t, COUNT (tiles), TILES_M (of a batch), ROWS, KEYS, HEAD and
//   WIDTH (elements of a key and of a value, multiples of 16), HALF (1: f16, 0: bf16), SAFE (1: a row
//   that is masked whole gives 0), SKIPS, struct args,
//   query(a, b, i, d), key(a, b, j, d), value(a, b, j, d)   8 elements from 8 d on
//   score(a, b, i, j, acc)    what stands between the product of a query and a key and the softmax
//   store(a, b, i, j, acc)    what follows, and the store of element j of row i
#ifndef KERNEL
#include "sample.cuh"
#endif

enum { TILE = 64, PAD = 4, PAIRS = HEAD / 2 + PAD, VALUE_PAIRS = WIDTH / 2 + PAD };

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    alignas(16) __shared__ u32 keys[TILE * PAIRS];
    alignas(16) __shared__ u32 values[TILE * VALUE_PAIRS];
    const u32 t = threadIdx.x, lane = t % 32, row = t / 32 * 16 + lane / 4, pair = lane % 4;
    const index_t b = blockIdx.x / TILES_M, first_i = blockIdx.x % TILES_M * TILE;

    for (u32 e = t; e < TILE * HEAD / 8; e += BLOCK) {
        const u32 i = e / (HEAD / 8), d = e % (HEAD / 8);
        const vec16 v = first_i + i < ROWS ? query(a, b, first_i + i, d) : vec16{{0, 0, 0, 0}};
        store16(keys, (i * PAIRS + d * 4) / 4, v);
    }
    __syncthreads();
    u32 queries[HEAD / 16][4];
#pragma unroll
    for (u32 k = 0; k < HEAD / 16; k++)
#pragma unroll
        for (u32 r = 0; r < 4; r++)
            queries[k][r] = keys[(row + r % 2 * 8) * PAIRS + k * 8 + pair + r / 2 * 4];

    float sums[WIDTH / 8][4];
#pragma unroll
    for (u32 n = 0; n < WIDTH / 8; n++)
        sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
    float most[2] = {-INFINITE, -INFINITE}, total[2] = {0.0f, 0.0f};

    for (index_t first_j = 0; first_j < KEYS; first_j += TILE) {
        bool seen = !SKIPS;
        for (u32 e = 0; SKIPS && e < TILE / 8 * 4 && !seen; e++) {
            const index_t i = first_i + row + e % 4 / 2 * 8, j = first_j + e / 4 * 8 + pair * 2 + e % 2;
            seen = i < ROWS && j < KEYS && score(a, b, i, j, 0.0f) != -INFINITE;
        }
        if (!any_of_block(seen)) // and the last tile has been read by all
            continue;
        for (u32 e = t; e < TILE * HEAD / 8; e += BLOCK) {
            const u32 j = e / (HEAD / 8), d = e % (HEAD / 8);
            const vec16 v = first_j + j < KEYS ? key(a, b, first_j + j, d) : vec16{{0, 0, 0, 0}};
            store16(keys, (j * PAIRS + d * 4) / 4, v);
        }
        for (u32 e = t; e < TILE * WIDTH / 8; e += BLOCK) {
            const u32 j = e / (WIDTH / 8), d = e % (WIDTH / 8);
            const vec16 v = first_j + j < KEYS ? value(a, b, first_j + j, d) : vec16{{0, 0, 0, 0}};
            store16(values, (j * VALUE_PAIRS + d * 4) / 4, v);
        }
        __syncthreads();

        float scores[TILE / 8][4];
#pragma unroll
        for (u32 n = 0; n < TILE / 8; n++) {
            scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0.0f;
#pragma unroll
            for (u32 k = 0; k < HEAD / 16; k++) {
                const u32 *at = keys + (n * 8 + lane / 4) * PAIRS + k * 8 + pair;
                multiply_16x8x16<HALF>(scores[n], queries[k], at[0], at[4]);
            }
        }
        float best[2] = {-INFINITE, -INFINITE};
#pragma unroll
        for (u32 n = 0; n < TILE / 8; n++)
#pragma unroll
            for (u32 r = 0; r < 4; r++) {
                const index_t i = first_i + row + r / 2 * 8, j = first_j + n * 8 + pair * 2 + r % 2;
                scores[n][r] = i < ROWS && j < KEYS ? score(a, b, i, j, scores[n][r]) : -INFINITE;
                best[r / 2] = maximum(best[r / 2], scores[n][r]);
            }
        float base[2], again[2];
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            best[h] = maximum(best[h], exchange(best[h], 1));
            best[h] = maximum(best[h], exchange(best[h], 2));
            best[h] = maximum(best[h], most[h]);
            base[h] = best[h] == -INFINITE ? 0.0f : best[h];
            again[h] = exponential(most[h] - base[h]);
            most[h] = best[h];
            total[h] *= again[h];
        }
#pragma unroll
        for (u32 n = 0; n < WIDTH / 8; n++)
#pragma unroll
            for (u32 r = 0; r < 4; r++)
                sums[n][r] *= again[r / 2];
#pragma unroll
        for (u32 n = 0; n < TILE / 8; n++)
#pragma unroll
            for (u32 r = 0; r < 4; r++) {
                scores[n][r] = exponential(scores[n][r] - base[r / 2]);
                total[r / 2] += scores[n][r];
            }
#pragma unroll
        for (u32 k = 0; k < TILE / 16; k++) {
            const u32 weights[4] = {pack_half<HALF>(scores[2 * k][0], scores[2 * k][1]),
                                    pack_half<HALF>(scores[2 * k][2], scores[2 * k][3]),
                                    pack_half<HALF>(scores[2 * k + 1][0], scores[2 * k + 1][1]),
                                    pack_half<HALF>(scores[2 * k + 1][2], scores[2 * k + 1][3])};
#pragma unroll
            for (u32 n = 0; n < WIDTH / 16; n++) {
                u32 tiles[4];
                load_transposed(tiles,
                                values + (k * 16 + lane % 16) * VALUE_PAIRS + n * 8 + lane / 16 * 4);
                multiply_16x8x16<HALF>(sums[2 * n], weights, tiles[0], tiles[1]);
                multiply_16x8x16<HALF>(sums[2 * n + 1], weights, tiles[2], tiles[3]);
            }
        }
    }
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        total[h] += exchange(total[h], 1);
        total[h] += exchange(total[h], 2);
        if (SAFE && most[h] == -INFINITE)
            total[h] = 1.0f;
    }
#pragma unroll
    for (u32 n = 0; n < WIDTH / 8; n++)
#pragma unroll
        for (u32 r = 0; r < 4; r++) {
            const index_t i = first_i + row + r / 2 * 8;
            if (i < ROWS)
                store(a, b, i, n * 8 + pair * 2 + r % 2, sums[n][r] / total[r / 2]);
        }
}
