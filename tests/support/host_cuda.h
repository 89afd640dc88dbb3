/* host_cuda.h - lets generated CUDA text compile as C++17 and run on the CPU; host_run.c puts it
 * before every source.
 *
 *     extern "C" __global__ void K(const __grid_constant__ args a) {...}
 *  -> static void K(const args a) {...}  HOST_KERNEL(K, args)
 *
 * Includes nothing, and no source may: a kernel that needs 10 ms to compile should not wait for
 * headers, and NVRTC has none either. Grids and blocks are one-dimensional, shared memory has fixed
 * sizes, inline assembly has a twin under PHASOR_HOST.
 */
#pragma once
#include "host_state.h"

#define PHASOR_HOST 1

static thread_local host_state *host;

#define HOST_KERNEL(name, type) HOST_KERNEL_1(HOST_PREFIX, name, type)
#define HOST_KERNEL_1(prefix, name, type) HOST_KERNEL_2(prefix, name, type)
#define HOST_KERNEL_2(prefix, name, type)                                  \
    extern "C" void prefix##name(const void *arguments, host_state *state) \
    {                                                                      \
        host = state;                                                      \
        name(*(const type *)arguments);                                    \
    }                                                                      \
    extern "C" unsigned long prefix##name##_size()                         \
    {                                                                      \
        return sizeof(type);                                               \
    }

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict
#define __constant__ static const
#define __shared__ static thread_local
#define __align__(n) alignas(n)
#define __builtin_assume(x) ((void)0)

/* -- where a thread is ------------------------------------------------------------------------- */

struct host_index {
    unsigned x, y, z;
};
#define threadIdx (host_index{host->thread, 0, 0})
#define blockIdx (host_index{host->block, 0, 0})
#define blockDim (host_index{host->threads, 1, 1})
#define gridDim (host_index{host->blocks, 1, 1})
#define warpSize 32

static inline void __syncthreads()
{
    host->wait_block(host);
}
static inline void __syncwarp(unsigned = 0xffffffffu)
{
    host->wait_warp(host);
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __trap()
{
    __builtin_trap();
}

/* -- warps ------------------------------------------------------------------------------------- */

template <class T> static inline T host_exchange(T value, unsigned source)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    const unsigned me = host->thread, first = me & ~31u;
    T result;
    __builtin_memcpy(&host->exchange[me], &value, sizeof value);
    host->wait_warp(host);
    __builtin_memcpy(&result,
                     &host->exchange[source < host->threads && source >= first ? source : me],
                     sizeof result);
    host->wait_warp(host);
    return result;
}
template <class T> static inline T __shfl_sync(unsigned, T value, int lane, int width = 32)
{
    const unsigned me = host->thread, group = me & ~(unsigned)(width - 1);
    return host_exchange(value, group + ((unsigned)lane & (unsigned)(width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned, T value, int mask, int width = 32)
{
    const unsigned me = host->thread, other = me ^ (unsigned)mask;
    return host_exchange(
        value, (other & ~(unsigned)(width - 1)) > (me & ~(unsigned)(width - 1)) ? me : other);
}
template <class T>
static inline T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32)
{
    const unsigned me = host->thread, lane = me & (unsigned)(width - 1);
    return host_exchange(value, lane + delta < (unsigned)width ? me + delta : me);
}
template <class T> static inline T __shfl_up_sync(unsigned, T value, unsigned delta, int width = 32)
{
    const unsigned me = host->thread, lane = me & (unsigned)(width - 1);
    return host_exchange(value, lane >= delta ? me - delta : me);
}
static inline unsigned __ballot_sync(unsigned, int predicate)
{
    const unsigned me = host->thread, first = me & ~31u;
    unsigned result = 0;
    host->exchange[me] = predicate != 0;
    host->wait_warp(host);
    for (unsigned i = first; i < first + 32 && i < host->threads; i++)
        result |= (unsigned)host->exchange[i] << (i - first);
    host->wait_warp(host);
    return result;
}
static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, !predicate) == 0;
}

/* -- vectors ----------------------------------------------------------------------------------- */

#define HOST_VECTOR(type, element, align2, align4)                                   \
    struct alignas(align2) type##2                                                   \
    {                                                                                \
        element x, y;                                                                \
    };                                                                               \
    struct type##3                                                                   \
    {                                                                                \
        element x, y, z;                                                             \
    };                                                                               \
    struct alignas(align4) type##4                                                   \
    {                                                                                \
        element x, y, z, w;                                                          \
    };                                                                               \
    static inline type##2 make_##type##2(element x, element y)                       \
    {                                                                                \
        return {x, y};                                                               \
    }                                                                                \
    static inline type##3 make_##type##3(element x, element y, element z)            \
    {                                                                                \
        return {x, y, z};                                                            \
    }                                                                                \
    static inline type##4 make_##type##4(element x, element y, element z, element w) \
    {                                                                                \
        return {x, y, z, w};                                                         \
    }
HOST_VECTOR(char, signed char, 2, 4)
HOST_VECTOR(uchar, unsigned char, 2, 4)
HOST_VECTOR(short, short, 4, 8)
HOST_VECTOR(ushort, unsigned short, 4, 8)
HOST_VECTOR(int, int, 8, 16)
HOST_VECTOR(uint, unsigned, 8, 16)
HOST_VECTOR(longlong, long long, 16, 16)
HOST_VECTOR(ulonglong, unsigned long long, 16, 16)
HOST_VECTOR(float, float, 8, 16)
HOST_VECTOR(double, double, 16, 16)

/* -- bits and loads ---------------------------------------------------------------------------- */

template <class To, class From> static inline To host_bits(From from)
{
    To to;
    static_assert(sizeof to == sizeof from, "the same bits");
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __uint_as_float(unsigned x)
{
    return host_bits<float>(x);
}
static inline float __int_as_float(int x)
{
    return host_bits<float>(x);
}
static inline unsigned __float_as_uint(float x)
{
    return host_bits<unsigned>(x);
}
static inline int __float_as_int(float x)
{
    return host_bits<int>(x);
}
static inline double __longlong_as_double(long long x)
{
    return host_bits<double>(x);
}
static inline long long __double_as_longlong(double x)
{
    return host_bits<long long>(x);
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline int __mulhi(int a, int b)
{
    return (int)((long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline long long __mul64hi(long long a, long long b)
{
    return (long long)((__int128)a * b >> 64);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector)
{
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)(((unsigned long long)high << 32 | low) << (by & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcs(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldca(const T *p)
{
    return *p;
}
template <class T> static inline void __stcs(T *p, T value)
{
    *p = value;
}
template <class T> static inline void __stcg(T *p, T value)
{
    *p = value;
}
template <class T> static inline void __stwb(T *p, T value)
{
    *p = value;
}

template <class T> static inline T atomicAdd(T *p, T value)
{
    return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicOr(T *p, T value)
{
    return __atomic_fetch_or(p, value, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicAnd(T *p, T value)
{
    return __atomic_fetch_and(p, value, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicExch(T *p, T value)
{
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicCAS(T *p, T expected, T value)
{
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
template <class T> static inline T atomicMax(T *p, T value)
{
    T old = *p;
    while (old < value &&
           !__atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
    return old;
}
template <class T> static inline T atomicMin(T *p, T value)
{
    T old = *p;
    while (value < old &&
           !__atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
    return old;
}

/* -- arithmetic -------------------------------------------------------------------------------- */

#define HOST_MATH_1(name)                     \
    extern "C" double name(double) noexcept;  \
    extern "C" float name##f(float) noexcept; \
    static inline float name(float x)         \
    {                                         \
        return name##f(x);                    \
    }
#define HOST_MATH_2(name)                            \
    extern "C" double name(double, double) noexcept; \
    extern "C" float name##f(float, float) noexcept; \
    static inline float name(float x, float y)       \
    {                                                \
        return name##f(x, y);                        \
    }
/* Not formatted: it takes a macro without a semicolon for the start of a declaration,
 * which the last one ends. */
// clang-format off
HOST_MATH_1(sin) HOST_MATH_1(cos) HOST_MATH_1(tan) HOST_MATH_1(asin) HOST_MATH_1(acos)
HOST_MATH_1(atan) HOST_MATH_1(sinh) HOST_MATH_1(cosh) HOST_MATH_1(tanh) HOST_MATH_1(asinh)
HOST_MATH_1(acosh) HOST_MATH_1(atanh) HOST_MATH_1(exp) HOST_MATH_1(exp2) HOST_MATH_1(expm1)
HOST_MATH_1(log) HOST_MATH_1(log2) HOST_MATH_1(log10) HOST_MATH_1(log1p) HOST_MATH_1(sqrt)
HOST_MATH_1(cbrt) HOST_MATH_1(ceil) HOST_MATH_1(floor) HOST_MATH_1(trunc) HOST_MATH_1(round)
HOST_MATH_1(rint) HOST_MATH_1(nearbyint) HOST_MATH_1(fabs) HOST_MATH_1(erf) HOST_MATH_1(erfc)
HOST_MATH_1(lgamma) HOST_MATH_1(tgamma) HOST_MATH_1(logb) HOST_MATH_2(pow) HOST_MATH_2(atan2)
HOST_MATH_2(fmod) HOST_MATH_2(hypot) HOST_MATH_2(copysign) HOST_MATH_2(fmax) HOST_MATH_2(fmin)
HOST_MATH_2(remainder) HOST_MATH_2(nextafter) HOST_MATH_2(fdim);
// clang-format on
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
static inline float fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
extern "C" double scalbn(double, int) noexcept;
extern "C" float scalbnf(float, int) noexcept;
extern "C" double frexp(double, int *) noexcept;
extern "C" float frexpf(float, int *) noexcept;
extern "C" int ilogb(double) noexcept;
extern "C" int ilogbf(float) noexcept;
extern "C" long long llrint(double) noexcept;
extern "C" long long llrintf(float) noexcept;
extern "C" int abs(int) noexcept;
extern "C" long long llabs(long long) noexcept;
extern "C" void sincos(double, double *, double *) noexcept;
extern "C" void sincosf(float, float *, float *) noexcept;
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x)
{
    return 1.0 / sqrt(x);
}
static inline double cospi(double x)
{
    return cos(x * 3.14159265358979323846);
}
static inline double sinpi(double x)
{
    return sin(x * 3.14159265358979323846);
}

static inline bool isnan(float x)
{
    return __builtin_isnan(x);
}
static inline bool isnan(double x)
{
    return __builtin_isnan(x);
}
static inline bool isinf(float x)
{
    return __builtin_isinf(x);
}
static inline bool isinf(double x)
{
    return __builtin_isinf(x);
}
static inline bool isfinite(float x)
{
    return __builtin_isfinite(x);
}
static inline bool isfinite(double x)
{
    return __builtin_isfinite(x);
}
static inline bool signbit(float x)
{
    return __builtin_signbit(x);
}
static inline bool signbit(double x)
{
    return __builtin_signbit(x);
}

#define HOST_MIN_MAX(type)                 \
    static inline type min(type a, type b) \
    {                                      \
        return a < b ? a : b;              \
    }                                      \
    static inline type max(type a, type b) \
    {                                      \
        return a > b ? a : b;              \
    }
/* Not formatted: as above. */
// clang-format off
HOST_MIN_MAX(int)
HOST_MIN_MAX(unsigned)
HOST_MIN_MAX(long)
HOST_MIN_MAX(unsigned long)
HOST_MIN_MAX(long long)
HOST_MIN_MAX(unsigned long long)
// clang-format on
static inline float min(float a, float b)
{
    return fminf(a, b);
}
static inline float max(float a, float b)
{
    return fmaxf(a, b);
}
static inline double min(double a, double b)
{
    return fmin(a, b);
}
static inline double max(double a, double b)
{
    return fmax(a, b);
}

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __frcp_rn(float a)
{
    return 1.0f / a;
}
static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline double __dsub_rn(double a, double b)
{
    return a - b;
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}
static inline double __ddiv_rn(double a, double b)
{
    return a / b;
}
static inline double __drcp_rn(double a)
{
    return 1.0 / a;
}
static inline double __dsqrt_rn(double a)
{
    return sqrt(a);
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline float __double2float_rn(double x)
{
    return (float)x;
}
static inline float __int2float_rn(int x)
{
    return (float)x;
}
static inline float __uint2float_rn(unsigned x)
{
    return (float)x;
}
static inline float __ll2float_rn(long long x)
{
    return (float)x;
}
static inline double __ll2double_rn(long long x)
{
    return (double)x;
}
