// sort: a thread an element counts the elements of its row that come before it: that is its place.
// Equal elements keep their order. For rows of up to some thousand elements.
//
// Prologue: KERNEL, BLOCK, index_t, COUNT (elements in all), LENGTH (elements of a row), item_t,
// struct args,
//   load(a, i, r)        element r of row i
//   before(x, y)         whether x belongs before y
//   store(a, i, p, r)    place p of row i is taken by element r
#ifndef KERNEL
#include "sample.cuh"
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) KERNEL(const __grid_constant__ args a)
{
    const index_t element = blockIdx.x * (index_t)BLOCK + threadIdx.x;
    if (element >= COUNT)
        return;
    const index_t i = element / LENGTH, r = element % LENGTH;
    const item_t mine = load(a, i, r);
    index_t place = 0;
    for (index_t other = 0; other < LENGTH; other++) {
        const item_t theirs = load(a, i, other);
        place += other < r ? !before(mine, theirs) : before(theirs, mine);
    }
    store(a, i, place, r);
}
