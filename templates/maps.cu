// maps: several independent maps in one launch; each has blocks of its own.
//
// Prologue: KERNEL, BLOCK, index_t, PARTS (2 to 8), struct args, and for each part N from 0 on
//   BLOCKSN, COUNTN    its blocks and runs
//   bodyN(a, i)        loads, computes and stores its run i
// or, with ALIKE and at most 4 parts, for all of them
//   body(a, N, i)
#ifndef KERNEL
#include "sample.cuh"
#endif

#ifdef ALIKE
#define PASS(N, NEXT)                      \
    if (part == N && block >= BLOCKS##N) { \
        block -= BLOCKS##N;                \
        count = COUNT##NEXT;               \
        part = NEXT;                       \
    }

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    u32 block = blockIdx.x;
    index_t count = COUNT0;
    int part = 0;
    PASS(0, 1)
#if PARTS > 2
    PASS(1, 2)
#endif
#if PARTS > 3
    PASS(2, 3)
#endif
    const index_t i = block * (index_t)BLOCK + threadIdx.x;
    if (i < count)
        body(a, part, i);
}
#else
#define PART(N)                                                 \
    if (block < BLOCKS##N) {                                    \
        const index_t i = block * (index_t)BLOCK + threadIdx.x; \
        if (i < COUNT##N)                                       \
            body##N(a, i);                                      \
        return;                                                 \
    }                                                           \
    block -= BLOCKS##N;

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    u32 block = blockIdx.x;
    PART(0)
    PART(1)
#if PARTS > 2
    PART(2)
#endif
#if PARTS > 3
    PART(3)
#endif
#if PARTS > 4
    PART(4)
#endif
#if PARTS > 5
    PART(5)
#endif
#if PARTS > 6
    PART(6)
#endif
#if PARTS > 7
    PART(7)
#endif
}
#endif
