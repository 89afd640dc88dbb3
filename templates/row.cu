// row: a map whose threads share rows: those of a row combine what they read before they store.
// Without the second bound the compiler saves registers by reading late what is only used after the
// combination, and each thread waits for memory twice.
//
// Prologue: KERNEL, BLOCK, RESIDENT (blocks that a multiprocessor holds, as far as registers go),
//   index_t, COUNT (runs), struct args,
//   body(a, i)   loads, combines, computes and stores run i
#ifndef KERNEL
#include "sample.cuh"
#endif

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT) KERNEL(const __grid_constant__ args a)
{
    const index_t i = blockIdx.x * (index_t)BLOCK + threadIdx.x;
    if (i < COUNT)
        body(a, i);
}
