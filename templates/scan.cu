// scan: a thread walks one row from its first element to its last.
//
// Prologue: KERNEL, BLOCK, index_t, COUNT (rows), LENGTH (elements of a row), acc_t, struct args,
//   identity()            of the scan
//   step(a, i, r, acc)    acc combined with element r of row i; stores the result there and returns
//   it
#ifndef KERNEL
#include "sample.cuh"
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    const index_t i = blockIdx.x * (index_t)BLOCK + threadIdx.x;
    if (i >= COUNT)
        return;
    acc_t acc = identity();
    for (index_t r = 0; r < LENGTH; r++)
        acc = step(a, i, r, acc);
}
