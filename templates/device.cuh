// device.cuh: what generated kernels are made of. Named helpers; each has a C++ twin (PHASOR_HOST)
// for the run on the CPU. Inline assembly and intrinsics stand here and nowhere else. NVRTC brings
// no headers: what is needed is defined here.

typedef unsigned int u32;
typedef unsigned long long u64;
struct vec4 {
    u32 w[1];
};
struct vec8 {
    u32 w[2];
};
struct vec16 {
    u32 w[4];
};

#ifdef PHASOR_HOST
#define DEVICE static inline
#else
#define DEVICE static __device__ __forceinline__
#endif

// ---- bits ----
#ifdef PHASOR_HOST
template <class To, class From> DEVICE To bits_as(From from)
{
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
DEVICE float f32_from(u32 w) { return bits_as<float>(w); }
DEVICE double f64_from(u32 low, u32 high) { return bits_as<double>((u64)high << 32 | low); }
DEVICE u32 bits_of(float x) { return bits_as<u32>(x); }
DEVICE u64 bits_of(double x) { return bits_as<u64>(x); }
#else
DEVICE float f32_from(u32 w) { return __uint_as_float(w); }
DEVICE double f64_from(u32 low, u32 high) { return __hiloint2double((int)high, (int)low); }
DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
DEVICE u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
#endif
DEVICE u32 bits_of(int x) { return (u32)x; }
DEVICE u64 bits_of(long long x) { return (u64)x; }
DEVICE long long i64_from(u32 low, u32 high) { return (long long)((u64)high << 32 | low); }
template <class T> DEVICE u32 low_word(T x) { return (u32)bits_of(x); }
template <class T> DEVICE u32 high_word(T x) { return (u32)(bits_of(x) >> 32); }

#define INFINITE f32_from(0x7f800000u)
#define NOT_A_NUMBER f32_from(0x7fc00000u)

// ---- division by a number that comes as an argument, of numbers below 2^31: shift is the least
// with n <= 2^shift, multiplier is 2^(31 + shift) / n rounded up ----
struct divisor {
    u32 multiplier, shift;
};
#ifdef PHASOR_HOST
DEVICE u32 product_high(u32 x, u32 y) { return (u32)((u64)x * y >> 32); }
#else
DEVICE u32 product_high(u32 x, u32 y) { return __umulhi(x, y); }
#endif
DEVICE u32 quotient(u32 x, divisor n) { return product_high(x << 1, n.multiplier) >> n.shift; }
DEVICE u32 remainder(u32 x, divisor by, u32 n) { return x - quotient(x, by) * n; }

// ---- memory: runs of 1 to 16 bytes, indexed in runs. read: the kernel never writes there; keep:
// the same, read again after much else was read; stream: not read again soon ----
template <class V> DEVICE V load_as(const void *p, u64 i) { return ((const V *)p)[i]; }
DEVICE vec4 load1(const void *p, u64 i) { return vec4{{((const unsigned char *)p)[i]}}; }
DEVICE vec4 load2(const void *p, u64 i) { return vec4{{((const unsigned short *)p)[i]}}; }
DEVICE vec4 load4(const void *p, u64 i) { return vec4{{((const u32 *)p)[i]}}; }
DEVICE void store1(void *p, u64 i, vec4 v) { ((unsigned char *)p)[i] = (unsigned char)v.w[0]; }
DEVICE void store2(void *p, u64 i, vec4 v) { ((unsigned short *)p)[i] = (unsigned short)v.w[0]; }
DEVICE void store4(void *p, u64 i, vec4 v) { ((u32 *)p)[i] = v.w[0]; }
#ifdef PHASOR_HOST
DEVICE vec8 load8(const void *p, u64 i) { return load_as<vec8>(p, i); }
DEVICE vec16 load16(const void *p, u64 i) { return load_as<vec16>(p, i); }
DEVICE void store8(void *p, u64 i, vec8 v) { ((vec8 *)p)[i] = v; }
DEVICE void store16(void *p, u64 i, vec16 v) { ((vec16 *)p)[i] = v; }
#define read1 load1
#define read2 load2
#define read4 load4
#define read8 load8
#define read16 load16
#define keep4 load4
#define keep8 load8
#define keep16 load16
#define stream1 store1
#define stream2 store2
#define stream4 store4
#define stream8 store8
#define stream16 store16
#else
DEVICE vec8 load8(const void *p, u64 i)
{
    const uint2 v = load_as<uint2>(p, i);
    return vec8{{v.x, v.y}};
}
DEVICE vec16 load16(const void *p, u64 i)
{
    const uint4 v = load_as<uint4>(p, i);
    return vec16{{v.x, v.y, v.z, v.w}};
}
DEVICE vec4 read1(const void *p, u64 i) { return vec4{{__ldg((const unsigned char *)p + i)}}; }
DEVICE vec4 read2(const void *p, u64 i) { return vec4{{__ldg((const unsigned short *)p + i)}}; }
DEVICE vec4 read4(const void *p, u64 i) { return vec4{{__ldg((const u32 *)p + i)}}; }
DEVICE vec8 read8(const void *p, u64 i)
{
    const uint2 v = __ldg((const uint2 *)p + i);
    return vec8{{v.x, v.y}};
}
DEVICE vec16 read16(const void *p, u64 i)
{
    const uint4 v = __ldg((const uint4 *)p + i);
    return vec16{{v.x, v.y, v.z, v.w}};
}
#if __CUDA_ARCH__ >= 800
DEVICE u64 kept()
{
    u64 policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
DEVICE vec4 keep4(const void *p, u64 i)
{
    vec4 v;
    asm("ld.global.nc.L2::cache_hint.u32 %0, [%1], %2;"
        : "=r"(v.w[0])
        : "l"((const u32 *)p + i), "l"(kept()));
    return v;
}
DEVICE vec8 keep8(const void *p, u64 i)
{
    vec8 v;
    asm("ld.global.nc.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;"
        : "=r"(v.w[0]), "=r"(v.w[1])
        : "l"((const vec8 *)p + i), "l"(kept()));
    return v;
}
DEVICE vec16 keep16(const void *p, u64 i)
{
    vec16 v;
    asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
        : "l"((const vec16 *)p + i), "l"(kept()));
    return v;
}
#else
#define keep4 read4
#define keep8 read8
#define keep16 read16
#endif
DEVICE void store8(void *p, u64 i, vec8 v) { ((uint2 *)p)[i] = make_uint2(v.w[0], v.w[1]); }
DEVICE void store16(void *p, u64 i, vec16 v)
{
    ((uint4 *)p)[i] = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);
}
DEVICE void stream1(void *p, u64 i, vec4 v)
{
    __stcs((unsigned char *)p + i, (unsigned char)v.w[0]);
}
DEVICE void stream2(void *p, u64 i, vec4 v)
{
    __stcs((unsigned short *)p + i, (unsigned short)v.w[0]);
}
DEVICE void stream4(void *p, u64 i, vec4 v) { __stcs((u32 *)p + i, v.w[0]); }
DEVICE void stream8(void *p, u64 i, vec8 v) { __stcs((uint2 *)p + i, make_uint2(v.w[0], v.w[1])); }
DEVICE void stream16(void *p, u64 i, vec16 v)
{
    __stcs((uint4 *)p + i, make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]));
}
#endif

#define keep1 read1
#define keep2 read2

// ---- bf16 and f16: pairs in a word, rounded to nearest even ----
DEVICE float bf16_low(u32 pair) { return f32_from(pair << 16); }
DEVICE float bf16_high(u32 pair) { return f32_from(pair & 0xffff0000u); }
DEVICE u32 bf16_bits(float x)
{
    const u32 bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fffu;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
#if !defined(PHASOR_HOST) && __CUDA_ARCH__ >= 800
DEVICE u32 pack_bf16(float low, float high)
{
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
#else
DEVICE u32 pack_bf16(float low, float high) { return bf16_bits(low) | bf16_bits(high) << 16; }
#endif
DEVICE float round_bf16(float x) { return bf16_low(pack_bf16(x, 0.0f)); }

#ifdef PHASOR_HOST
DEVICE float f16_value(u32 h) { return (float)bits_as<_Float16>((unsigned short)h); }
DEVICE u32 f16_bits(float x) { return bits_as<unsigned short>((_Float16)x); }
#else
DEVICE float f16_value(u32 h)
{
    float x;
    asm("{ .reg .b16 t; cvt.u16.u32 t, %1; cvt.f32.f16 %0, t; }" : "=f"(x) : "r"(h));
    return x;
}
DEVICE u32 f16_bits(float x)
{
    u32 h;
    asm("{ .reg .b16 t; cvt.rn.f16.f32 t, %1; cvt.u32.u16 %0, t; }" : "=r"(h) : "f"(x));
    return h;
}
#endif
DEVICE float f16_low(u32 pair) { return f16_value(pair & 0xffffu); }
DEVICE float f16_high(u32 pair) { return f16_value(pair >> 16); }
DEVICE u32 pack_f16(float low, float high) { return f16_bits(low) | f16_bits(high) << 16; }
DEVICE float round_f16(float x) { return f16_value(f16_bits(x)); }

// ---- indices read from memory: -size <= v < size, else clamped and noted ----
DEVICE long long check_index(long long v, long long size, u32 *flag)
{
    const long long wrapped = v < 0 ? v + size : v;
    if (wrapped >= 0 && wrapped < size)
        return wrapped;
    *flag = 1;
    return wrapped < 0 ? 0 : size - 1;
}

// ---- functions of the operator table that C++ does not have ----
DEVICE long long to_integer(float x) { return (long long)x; }
DEVICE long long to_integer(double x) { return (long long)x; }
DEVICE float absolute(float x) { return fabsf(x); }
DEVICE double absolute(double x) { return fabs(x); }
DEVICE bool absolute(bool x) { return x; }
template <class T> DEVICE T absolute(T x) { return x < 0 ? (T)(0 - (unsigned long long)x) : x; }
template <class T> DEVICE T sign(T x) { return (T)((x > (T)0) - (x < (T)0)); }
DEVICE float angle(float x) { return x != x ? x : x < 0.0f ? 3.14159265f : 0.0f; }
DEVICE double angle(double x) { return x != x ? x : x < 0.0 ? 3.141592653589793 : 0.0; }
DEVICE bool is_inf(float x) { return fabsf(x) == INFINITE; }
DEVICE bool is_inf(double x) { return fabs(x) == (double)INFINITE; }
DEVICE bool bit_not(bool x) { return !x; }
template <class T> DEVICE T bit_not(T x) { return (T)~x; }
template <class T> DEVICE T maximum(T x, T y) { return x > y || x != x ? x : y; }
template <class T> DEVICE T minimum(T x, T y) { return x < y || x != x ? x : y; }
template <class T> DEVICE T shift_left(T x, T y)
{
    return y < 0 || y >= (T)(8 * sizeof(T)) ? (T)0 : (T)((u64)x << y);
}
template <class T> DEVICE T shift_right(T x, T y)
{
    const T most = (T)(8 * sizeof(T) - 1);
    return (T)(x >> (y < 0 || y > most ? most : y));
}

DEVICE float divide_trunc(float x, float y) { return truncf(x / y); }
DEVICE double divide_trunc(double x, double y) { return trunc(x / y); }
template <class T> DEVICE T divide_trunc(T x, T y)
{
    return y == 0 ? (T)0 : y == -1 ? (T)(0 - (u64)x) : (T)(x / y);
}
DEVICE float remainder_c(float x, float y) { return fmodf(x, y); }
DEVICE double remainder_c(double x, double y) { return fmod(x, y); }
template <class T> DEVICE T remainder_c(T x, T y)
{
    return y == 0 || y == -1 ? (T)0 : (T)(x % y);
}
template <class T> DEVICE T remainder_python(T x, T y)
{
    const T rest = remainder_c(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? (T)(rest + y) : rest;
}
template <class T> DEVICE T real_divide_floor(T x, T y)
{
    if (y == 0)
        return x / y;
    const T rest = remainder_c(x, y);
    T quotient = (x - rest) / y;
    if (rest != 0 && (y < 0) != (rest < 0))
        quotient -= 1;
    if (quotient == 0)
        return (T)copysign((double)0, (double)(x / y));
    const T down = (T)floor((double)quotient);
    return quotient - down > (T)0.5 ? down + 1 : down;
}
DEVICE float divide_floor(float x, float y) { return real_divide_floor(x, y); }
DEVICE double divide_floor(double x, double y) { return real_divide_floor(x, y); }
template <class T> DEVICE T divide_floor(T x, T y)
{
    const T quotient = divide_trunc(x, y);
    return remainder_c(x, y) != 0 && (x < 0) != (y < 0) ? (T)(quotient - 1) : quotient;
}
DEVICE float power(float x, float y) { return powf(x, y); }
DEVICE double power(double x, double y) { return pow(x, y); }
template <class T> DEVICE T power(T x, T y)
{
    if (y < 0)
        return x == 1 ? (T)1 : x == (T)-1 ? (T)(y % 2 ? -1 : 1) : (T)0;
    u64 result = 1, base = (u64)x;
    for (u64 left = (u64)y; left; left >>= 1) {
        if (left & 1)
            result *= base;
        base *= base;
    }
    return (T)result;
}
DEVICE float multiply_add(float x, float y, float z) { return fmaf(x, y, z); }
DEVICE double multiply_add(double x, double y, double z) { return fma(x, y, z); }
template <class T> DEVICE T multiply_add(T x, T y, T z) { return (T)(z + x * y); }
DEVICE float lowest(float) { return -INFINITE; }
DEVICE double lowest(double) { return -(double)INFINITE; }
DEVICE long long lowest(long long) { return -9223372036854775807LL - 1; }
DEVICE bool lowest(bool) { return false; }
DEVICE float highest(float) { return INFINITE; }
DEVICE double highest(double) { return (double)INFINITE; }
DEVICE long long highest(long long) { return 9223372036854775807LL; }
DEVICE bool highest(bool) { return true; }

// ---- order: NaN is above every number, and best in both searches ----
template <class T> DEVICE bool above(T x, T y) { return x > y || (x != x && y == y); }
template <class T> DEVICE bool below(T x, T y) { return x < y || (x != x && y == y); }
template <class T> DEVICE bool below_or_number(T x, T y) { return x < y || (x == x && y != y); }

// ---- a row shared by N neighbouring threads of a warp, N a power of two: all of them get the
// combination of their x ----
#ifdef PHASOR_HOST
template <class T> DEVICE T exchange(T x, int distance)
{
    return __shfl_xor_sync(0xffffffffu, x, distance);
}
#else
DEVICE float exchange(float x, int distance) { return __shfl_xor_sync(0xffffffffu, x, distance); }
DEVICE double exchange(double x, int distance) { return __shfl_xor_sync(0xffffffffu, x, distance); }
DEVICE long long exchange(long long x, int distance)
{
    return __shfl_xor_sync(0xffffffffu, x, distance);
}
DEVICE bool exchange(bool x, int distance)
{
    return __shfl_xor_sync(0xffffffffu, (int)x, distance) != 0;
}
#endif
template <int N, class T, class F> DEVICE T across(T x, F combine)
{
    for (int distance = N / 2; distance > 0; distance /= 2)
        x = combine(x, exchange(x, distance));
    return x;
}

// ---- tensor cores (sm_80 and newer): c += a b, c 16 x 8 in f32, a 16 x 16 and b 16 x 8 in f16 or
// bf16, each thread of a warp with its share as the instruction has it: of c rows lane / 4 (and + 8),
// columns lane % 4 * 2 (and + 1) ----
template <int HALF> DEVICE u32 pack_half(float low, float high)
{
    return HALF ? pack_f16(low, high) : pack_bf16(low, high);
}
DEVICE float exponential(float x) { return exp2f(x * 1.442695041f); }
#ifdef PHASOR_HOST
template <int HALF> DEVICE float half_of(u32 pair, int high)
{
    return HALF ? (high ? f16_high(pair) : f16_low(pair)) : (high ? bf16_high(pair) : bf16_low(pair));
}
template <int HALF> DEVICE void multiply_16x8x16(float *c, const u32 *a, u32 b0, u32 b1)
{
    const int lane = (int)(threadIdx.x % 32), group = lane / 4, pair = lane % 4;
    for (int k = 0; k < 4; k++) {
        u32 left[4], right[2][2];
        for (int r = 0; r < 4; r++)
            left[r] = __shfl_sync(0xffffffffu, a[r], group * 4 + k);
        for (int n = 0; n < 2; n++) {
            right[n][0] = __shfl_sync(0xffffffffu, b0, (pair * 2 + n) * 4 + k);
            right[n][1] = __shfl_sync(0xffffffffu, b1, (pair * 2 + n) * 4 + k);
        }
        for (int r = 0; r < 4; r++)
            for (int half = 0; half < 2; half++)
                for (int h = 0; h < 2; h++)
                    c[r] += half_of<HALF>(left[r / 2 + half * 2], h) *
                            half_of<HALF>(right[r % 2][half], h);
    }
}
DEVICE void load_transposed(u32 *tiles, const u32 *row)
{
    const int lane = (int)(threadIdx.x % 32);
    for (int m = 0; m < 4; m++) {
        u32 halves[2];
        for (int h = 0; h < 2; h++) {
            const u64 at = __shfl_sync(0xffffffffu, (u64)row, m * 8 + lane % 4 * 2 + h);
            halves[h] = ((const unsigned short *)at)[lane / 4];
        }
        tiles[m] = halves[0] | halves[1] << 16;
    }
}
DEVICE void copy_async(u32 *to, const void *from, bool there)
{
    const vec16 zero = {{0, 0, 0, 0}};
    *(vec16 *)to = there ? *(const vec16 *)from : zero;
}
DEVICE void copies_commit() {}
template <int LEFT> DEVICE void copies_wait() {}
DEVICE bool any_of_block(bool x)
{
    __shared__ u32 any[32];
    const int warp = (int)(threadIdx.x / 32);
    const bool mine = __any_sync(0xffffffffu, x);
    __syncthreads();
    any[warp] = mine;
    __syncthreads();
    bool found = false;
    for (int w = 0; w < (int)(blockDim.x / 32); w++)
        found |= any[w] != 0;
    return found;
}
#elif __CUDA_ARCH__ >= 800
template <int HALF> DEVICE void multiply_16x8x16(float *c, const u32 *a, u32 b0, u32 b1)
{
    if (HALF)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Four 8 x 8 tiles of 16-bit elements in shared memory, transposed; each thread names a row.
DEVICE void load_transposed(u32 *tiles, const u32 *row)
{
    const u32 at = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(at));
}
// 16 bytes to shared memory, zeros where there are none; in groups, which end in their order.
DEVICE void copy_async(u32 *to, const void *from, bool there)
{
    const u32 at = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(at), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
DEVICE void copies_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int LEFT> DEVICE void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
}
DEVICE bool any_of_block(bool x) { return __syncthreads_or(x) != 0; }
#else // no kernel that needs them is generated for older ones
template <int HALF> DEVICE void multiply_16x8x16(float *, const u32 *, u32, u32) {}
DEVICE void load_transposed(u32 *, const u32 *) {}
DEVICE void copy_async(u32 *, const void *, bool) {}
DEVICE void copies_commit() {}
template <int LEFT> DEVICE void copies_wait() {}
DEVICE bool any_of_block(bool x) { return __syncthreads_or(x) != 0; }
#endif
