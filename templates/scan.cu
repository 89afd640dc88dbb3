// scan: a block goes through SIDE rows, or a part of each, tile by tile, with BLOCK / SIDE threads a
// row; each has one run of a tile. Runs are added up one element after another, their sums in a
// tree of distances 1, 2, 4, ..., tiles one after another: the order depends on the shape of a tile
// alone. A row that is shorter than a tile may have fewer threads.
//
// Prologue: KERNEL, BLOCK, SIDE (powers of two), LANES (elements of a run), ALONG where neighbours
//   in memory are of one row, index_t, COUNT (rows), LENGTH (elements of a row), acc_t, struct args,
//   identity(), combine(x, y)     of the scan
//   load(a, i, r, x)              elements LANES * r and on of row i
//   store(a, i, r, x)
// where a row may have elements that no whole run has, REST and
//   element(a, i, e), store_element(a, i, e, x)
// where blocks share a row, ROW_PARTS, CHUNK (runs of a part) and
//   carry(a, i, part)             what the elements before a part give
#ifndef KERNEL
#include "sample.cuh"
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    constexpr u32 width = BLOCK / SIDE;
    __shared__ acc_t sums[2][BLOCK];
    const u32 t = threadIdx.x;
#ifdef ALONG
    const u32 side = t / width, position = t % width;
#else
    const u32 side = t % SIDE, position = t / SIDE;
#endif
    const u32 slot = position * SIDE + side;
    const index_t runs = LENGTH / LANES + (LENGTH % LANES != 0);
#ifdef ROW_PARTS
    const index_t part = blockIdx.x % ROW_PARTS, i = blockIdx.x / ROW_PARTS * (index_t)SIDE + side;
    const index_t begin = part * CHUNK, end = begin + CHUNK < runs ? begin + CHUNK : runs;
    acc_t before = i < COUNT ? carry(a, i, part) : identity();
#else
    const index_t i = blockIdx.x * (index_t)SIDE + side;
    const index_t begin = 0, end = runs;
    acc_t before = identity();
#endif

    for (index_t tile = begin; tile < end; tile += width) {
        const index_t r = tile + position;
        const bool whole = i < COUNT && r < LENGTH / LANES;
        acc_t x[LANES];
        if (whole)
            load(a, i, r, x);
#ifdef REST
        if (!whole)
            for (int l = 0; l < LANES; l++)
                x[l] = i < COUNT && r < runs && r * LANES + l < LENGTH
                           ? element(a, i, r * LANES + l)
                           : identity();
#else
        if (!whole)
            for (int l = 0; l < LANES; l++)
                x[l] = identity();
#endif
        for (int l = 1; l < LANES; l++)
            x[l] = combine(x[l - 1], x[l]);

        acc_t sum = x[LANES - 1];
        u32 from = 0;
        sums[0][slot] = sum;
        __syncthreads();
        for (u32 distance = 1; distance < width; distance *= 2) {
            if (position >= distance)
                sum = combine(sums[from][slot - distance * SIDE], sum);
            from ^= 1;
            sums[from][slot] = sum;
            __syncthreads();
        }
        const acc_t base = position ? combine(before, sums[from][slot - SIDE]) : before;
        before = combine(before, sums[from][(width - 1) * SIDE + side]);
        __syncthreads();

        for (int l = 0; l < LANES; l++)
            x[l] = combine(base, x[l]);
        if (whole)
            store(a, i, r, x);
#ifdef REST
        if (!whole && i < COUNT && r < runs)
            for (int l = 0; l < LANES; l++)
                if (r * LANES + l < LENGTH)
                    store_element(a, i, r * LANES + l, x[l]);
#endif
    }
}
