// attention: softmax(score(q k')) v with no matrix of scores in memory. A block makes 64 rows of the
// result, 16 a warp, and goes over the keys in tiles of 64: products on tensor cores, the softmax of
// what was seen so far corrected as it goes on. The order of sums depends on the tiles alone.
//
// The next tile's keys are on their way while this one's scores become weights, its values while the
// next products are made. A tile of which every score is masked is not loaded: SKIPS says that a score
// is -inf for any product where it is for the product 0.
//
// Prologue: KERNEL, BLOCK (128), index_t, COUNT (tiles), TILES_M (of a batch), ROWS, KEYS, HEAD and
//   WIDTH (elements of a key and of a value, multiples of 16), HALF (1: f16, 0: bf16), SAFE (1: a row
//   that is masked whole gives 0), SKIPS, struct args,
//   query(a, b, i, d), key(a, b, j, d), value(a, b, j, d)   where 8 elements from 8 d on are
//   score(a, b, i, j, acc)    what stands between the product of a query and a key and the softmax
//   store(a, b, i, j, acc)    what follows, and the store of element j of row i
#ifndef KERNEL
#include "sample.cuh"
#endif

enum { TILE = 64, PAD = 4, PAIRS = HEAD / 2 + PAD, VALUE_PAIRS = WIDTH / 2 + PAD };

// Rows of a tile, those that there are, and zeros; what is read is there after copies_wait.
#define LOAD_TILE(to, pairs, from, first, rows, length)                                            \
    for (u32 e = threadIdx.x; e < TILE * (length) / 8; e += BLOCK) {                               \
        const u32 r = e / ((length) / 8), d = e % ((length) / 8);                                  \
        const bool there = (first) + r < (rows);                                                   \
        copy_async((to) + r * (pairs) + d * 4, from(a, b, there ? (first) + r : 0, d), there);     \
    }                                                                                              \
    copies_commit();

// The next tile from first_j on in which a score of this block is not masked; KEYS or more: none.
DEVICE index_t tile_find(const args &a, index_t b, index_t first_i, u32 row, u32 pair, index_t first_j)
{
    for (; SKIPS && first_j < KEYS; first_j += TILE) {
        bool seen = false;
        for (u32 e = 0; e < TILE / 8 * 4 && !seen; e++) {
            const index_t i = first_i + row + e % 4 / 2 * 8, j = first_j + e / 4 * 8 + pair * 2 + e % 2;
            seen = i < ROWS && j < KEYS && score(a, b, i, j, 0.0f) != -INFINITE;
        }
        if (any_of_block(seen))
            break;
    }
    return first_j;
}

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    alignas(16) __shared__ u32 keys[TILE * PAIRS];
    alignas(16) __shared__ u32 values[TILE * VALUE_PAIRS];
    const u32 t = threadIdx.x, lane = t % 32, row = t / 32 * 16 + lane / 4, pair = lane % 4;
    const index_t b = blockIdx.x / TILES_M, first_i = blockIdx.x % TILES_M * TILE;

    LOAD_TILE(keys, PAIRS, query, first_i, ROWS, HEAD)
    copies_wait<0>();
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

    index_t first_j = tile_find(a, b, first_i, row, pair, 0);
    __syncthreads(); // the queries are read
    if (first_j < KEYS) {
        LOAD_TILE(keys, PAIRS, key, first_j, KEYS, HEAD)
        LOAD_TILE(values, VALUE_PAIRS, value, first_j, KEYS, WIDTH)
    }
    while (first_j < KEYS) {
        const index_t next_j = tile_find(a, b, first_i, row, pair, first_j + TILE);
        copies_wait<1>(); // the keys
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
        __syncthreads();
        if (next_j < KEYS) {
            LOAD_TILE(keys, PAIRS, key, next_j, KEYS, HEAD)
        } else {
            copies_commit(); // of none
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
        copies_wait<1>(); // the values
        __syncthreads();
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
        __syncthreads();
        if (next_j < KEYS) {
            LOAD_TILE(values, VALUE_PAIRS, value, next_j, KEYS, WIDTH)
        } else {
            copies_commit();
        }
        first_j = next_j;
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
