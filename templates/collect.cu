// collect: a thread an element of the result starts from the element of the base and takes in, in
// order, what was sent to it. No atomics: results are the same from run to run.
//
// Prologue: KERNEL, BLOCK, index_t, COUNT (elements), LENGTH (what may have been sent to one of
// them), acc_t, struct args,
//   first(a, i)             the element of the base
//   collect(a, i, r, acc)   acc with value r, if that was sent to element i
//   store(a, i, acc)        the result
#ifndef KERNEL
#include "sample.cuh"
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    const index_t i = blockIdx.x * (index_t)BLOCK + threadIdx.x;
    if (i >= COUNT)
        return;
    acc_t acc = first(a, i);
    for (index_t r = 0; r < LENGTH; r++)
        acc = collect(a, i, r, acc);
    store(a, i, acc);
}
