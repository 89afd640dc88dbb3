// sample.cuh: a prologue by hand, so that each template can be read, checked and compiled alone:
//   nvcc -std=c++17 -arch=sm_90 --fmad=false -cubin map.cu
#include "device.cuh"
#define KERNEL sample
#define BLOCK 128
#define SIDE 1
#define STRANDS 512
#define LANES 1
#define ALONG
#define RESIDENT 8
#define COUNT a.n
#define LENGTH a.length
#define PARTS 2
#define BLOCKS0 4
#define COUNT0 512
#define BLOCKS1 4
#define COUNT1 512
typedef u32 index_t;
typedef float acc_t;
typedef float item_t;
struct args {
    const void *p0;
    void *p1;
    index_t n, length;
};

DEVICE void body(const args &a, index_t i) { store16(a.p1, i, load16(a.p0, i)); }
#define body0 body
#define body1 body
DEVICE acc_t identity() { return 0; }
DEVICE acc_t combine(acc_t x, acc_t y) { return x + y; }
DEVICE acc_t element(const args &a, index_t i, index_t e)
{
    return f32_from(load4(a.p0, i * a.length + e).w[0]);
}
DEVICE acc_t run(const args &a, index_t i, index_t r) { return element(a, i, r); }
DEVICE void store(const args &a, index_t i, acc_t acc) { store4(a.p1, i, vec4{{bits_of(acc)}}); }
DEVICE void load(const args &a, index_t i, index_t r, acc_t *x) { x[0] = element(a, i, r); }
DEVICE void store(const args &a, index_t i, index_t r, const acc_t *x)
{
    store4(a.p1, i * a.length + r, vec4{{bits_of(x[0])}});
}
DEVICE item_t load(const args &a, index_t i, index_t r)
{
    return f32_from(load4(a.p0, i * a.length + r).w[0]);
}
DEVICE bool before(item_t x, item_t y) { return below_or_number(x, y); }
DEVICE bool better(item_t x, item_t y) { return above(x, y); }
DEVICE void store(const args &a, index_t i, index_t r) { store4(a.p1, i, vec4{{(u32)r}}); }
DEVICE void store(const args &a, index_t i, index_t p, index_t r) { store(a, i * a.length + p, r); }
DEVICE acc_t first(const args &a, index_t i) { return f32_from(load4(a.p0, i).w[0]); }
DEVICE acc_t collect(const args &a, index_t i, index_t r, acc_t acc)
{
    return r == i ? combine(acc, first(a, r)) : acc;
}
#define TILE_M 64
#define TILE_N 64
#define TILE_K 16
#define SHARE_M 8
#define SHARE_N 4
#define LEFT_ALONG_K 1
#define RIGHT_ALONG_K 0
#define ROWS a.n
#define COLUMNS a.n
#define TILES_M (a.n / 64)
#define TILES_N (a.n / 64)
DEVICE acc_t left(const args &a, index_t b, index_t i, index_t k)
{
    return f32_from(load4(a.p0, (b * a.n + i) * a.length + k).w[0]);
}
DEVICE acc_t right(const args &a, index_t b, index_t k, index_t j) { return left(a, b, j, k); }
DEVICE void store(const args &a, index_t b, index_t i, index_t j, acc_t acc)
{
    store(a, (b * a.n + i) * a.n + j, acc);
}
#define HEAD 64
#define WIDTH 64
#define KEYS a.n
#define HALF 0
#define SAFE 1
#define SKIPS 1
DEVICE const void *query(const args &a, index_t b, index_t i, index_t d)
{
    return (const vec16 *)a.p0 + (b * a.n + i) * 8 + d;
}
#define key query
#define value query
DEVICE float score(const args &a, index_t b, index_t i, index_t j, float acc)
{
    return i >= j ? acc * 0.125f : -INFINITE;
}
