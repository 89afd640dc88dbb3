// reduce: a block reduces SIDE results with BLOCK / SIDE threads each: first along each thread's
// share, then in a tree. The order depends on LENGTH, SIDE and BLOCK alone, so that results are the
// same from run to run.
//
// Prologue: KERNEL, BLOCK and SIDE (powers of two), index_t, COUNT (results), LENGTH (runs of a
// result), acc_t, struct args,
//   identity()                 of the reduction
//   combine(x, y)              two partial results
//   accumulate(a, i, r, acc)   acc and run r of result i, combined
//   store(a, i, acc)           what follows the reduction, and the store of result i
#ifndef KERNEL
#include "sample.cuh"
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    __shared__ acc_t part[BLOCK];
    const u32 t = threadIdx.x;
    const index_t i = blockIdx.x * (index_t)SIDE + t % SIDE;

    acc_t acc = identity();
    if (i < COUNT)
        for (index_t r = t / SIDE; r < LENGTH; r += BLOCK / SIDE)
            acc = accumulate(a, i, r, acc);
    part[t] = acc;
    __syncthreads();
    for (u32 half = BLOCK / 2; half >= SIDE; half /= 2) {
        if (t < half)
            part[t] = combine(part[t], part[t + half]);
        __syncthreads();
    }
    if (t < SIDE && i < COUNT)
        store(a, i, part[t]);
}
