// map: each thread computes one run of up to 16 bytes of every result.
//
// Prologue: KERNEL, BLOCK, index_t, COUNT (runs), struct args,
//   body(a, i)   loads, computes and stores run i
#ifndef KERNEL
#include "sample.cuh"
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    const index_t i = blockIdx.x * (index_t)BLOCK + threadIdx.x;
    if (i < COUNT)
        body(a, i);
}
