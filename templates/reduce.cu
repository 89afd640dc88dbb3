// reduce: a block reduces SIDE rows, or a part of each, with BLOCK / SIDE threads a row. Run r of a
// part is of strand r % STRANDS; a thread has STRANDS * SIDE / BLOCK strands, each with a partial
// result of its own. Then halves of the strands are combined, halves of these, and so on: the order
// depends on LENGTH, CHUNK and LANES alone, neither on SIDE nor on BLOCK.
//
// Prologue: KERNEL, BLOCK, SIDE and STRANDS (powers of two), LANES (elements of a run), ALONG where
//   neighbours in memory are of one row, index_t, COUNT (rows), LENGTH (elements of a row), acc_t,
//   struct args,
//   identity()            of the reduction
//   combine(x, y)         two partial results
//   run(a, i, r)          elements LANES * r and on of row i, combined in pairs, pairs of pairs, ...
//   store(a, i, acc)      what follows the reduction, and the store of result i
// where a row may have elements that no whole run has, REST and
//   element(a, i, e)      element e of row i
// where blocks share a row, ROW_PARTS, CHUNK (runs of a part) and, instead of the other store,
//   store(a, i, part, acc)
#ifndef KERNEL
#include "sample.cuh"
#endif

#ifdef REST
DEVICE acc_t last_run(const args &a, index_t i)
{
    acc_t x[LANES];
    for (int l = 0; l < LANES; l++) {
        const index_t e = LENGTH / LANES * LANES + l;
        x[l] = e < LENGTH ? element(a, i, e) : identity();
    }
    for (int step = 1; step < LANES; step *= 2)
        for (int l = 0; l + step < LANES; l += 2 * step)
            x[l] = combine(x[l], x[l + step]);
    return x[0];
}
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    constexpr u32 width = BLOCK / SIDE, held = STRANDS / width;
    __shared__ acc_t shared[BLOCK];
    const u32 t = threadIdx.x;
#ifdef ALONG
    const u32 side = t / width, position = t % width;
#else
    const u32 side = t % SIDE, position = t / SIDE;
#endif
#ifdef ROW_PARTS
    const index_t part = blockIdx.x % ROW_PARTS, i = blockIdx.x / ROW_PARTS * (index_t)SIDE + side;
    const index_t begin = part * CHUNK, whole = LENGTH / LANES;
    const index_t end = begin + CHUNK < whole ? begin + CHUNK : whole;
#else
    const index_t i = blockIdx.x * (index_t)SIDE + side;
    const index_t begin = 0, end = LENGTH / LANES;
#endif

    acc_t strand[held];
    for (u32 s = 0; s < held; s++)
        strand[s] = identity();
    if (i < COUNT)
        for (index_t r = begin + position; r < end; r += STRANDS) {
            acc_t x[held]; // all reads of a pass before their sums; those beyond the end are void
            for (u32 s = 0; s < held; s++)
                x[s] = run(a, i, r + s * width < end ? r + s * width : r);
            for (u32 s = 0; s < held; s++)
                strand[s] = r + s * width < end ? combine(strand[s], x[s]) : strand[s];
        }
#ifdef REST
    if (i < COUNT && LENGTH % LANES != 0) {
        const index_t last = LENGTH / LANES - begin;
#ifdef ROW_PARTS
        const bool here = LENGTH / LANES >= begin && last < CHUNK;
#else
        const bool here = true;
#endif
        for (u32 s = 0; s < held; s++)
            if (here && last % STRANDS == position + s * width)
                strand[s] = combine(strand[s], last_run(a, i));
    }
#endif

    for (u32 half = held / 2; half > 0; half /= 2)
        for (u32 s = 0; s < half; s++)
            strand[s] = combine(strand[s], strand[s + half]);
    acc_t acc = strand[0];
    shared[position * SIDE + side] = acc;
    __syncthreads();
    for (u32 half = width / 2; half > 0; half /= 2) {
        if (position < half) {
            acc = combine(acc, shared[(position + half) * SIDE + side]);
            shared[position * SIDE + side] = acc;
        }
        __syncthreads();
    }
    if (position == 0 && i < COUNT)
#ifdef ROW_PARTS
        store(a, i, part, acc);
#else
        store(a, i, acc);
#endif
}
