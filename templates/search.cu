// search: a thread walks one row and remembers where the best element was first seen.
//
// Prologue: KERNEL, BLOCK, index_t, COUNT (rows), LENGTH (elements of a row), item_t, struct args,
//   load(a, i, r)      element r of row i
//   better(x, y)       whether x beats y
//   store(a, i, r)     the answer for row i is r
#ifndef KERNEL
#include "sample.cuh"
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    const index_t i = blockIdx.x * (index_t)BLOCK + threadIdx.x;
    if (i >= COUNT)
        return;
    item_t best = load(a, i, 0);
    index_t at = 0;
    for (index_t r = 1; r < LENGTH; r++) {
        const item_t candidate = load(a, i, r);
        if (better(candidate, best)) {
            best = candidate;
            at = r;
        }
    }
    store(a, i, at);
}
