/* reference_parts.h - the functions of reference.h over one precision: PART is float or double,
 * TYPED adds its suffix, LIBM the suffix of the C library. Read twice by reference.h; for nobody
 * else. */

static const PART TYPED(lowest) = -(PART)INFINITY, TYPED(highest) = (PART)INFINITY;

static inline PART TYPED(plus)(PART x, PART y)
{
    return x + y;
}
static inline PART TYPED(minus)(PART x, PART y)
{
    return x - y;
}
static inline PART TYPED(times)(PART x, PART y, bool fused)
{
    (void)fused;
    return x * y;
}
static inline PART TYPED(negate)(PART x)
{
    return -x;
}
static inline PART TYPED(absolute)(PART x)
{
    return LIBM(fabs)(x);
}
static inline PART TYPED(sign)(PART x)
{
    return (PART)((x > 0) - (x < 0));
}
static inline PART TYPED(power)(PART x, PART y)
{
    return LIBM(pow)(x, y);
}
static inline PART TYPED(divide_trunc)(PART x, PART y)
{
    return LIBM(trunc)(x / y);
}
static inline PART TYPED(remainder_c)(PART x, PART y)
{
    return LIBM(fmod)(x, y);
}

static inline PART TYPED(remainder_python)(PART x, PART y)
{
    const PART rest = LIBM(fmod)(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/* From the remainder, because x / y may round up to the next integer. */
static inline PART TYPED(divide_floor)(PART x, PART y)
{
    if (y == 0)
        return x / y;
    const PART rest = LIBM(fmod)(x, y);
    PART quotient = (x - rest) / y;
    if (rest != 0 && (rest < 0) != (y < 0))
        quotient -= 1;
    if (quotient == 0)
        return LIBM(copysign)(0, x / y);
    const PART floored = LIBM(floor)(quotient);
    return quotient - floored > (PART)0.5 ? floored + 1 : floored;
}

static inline PART TYPED(angle)(PART x)
{
    return x != x ? x : x < 0 ? (PART)3.14159265358979323846 : 0;
}

/* -- complex ----------------------------------------------------------------------------------- */

static inline PART _Complex TYPED(complex_plus)(PART _Complex z, PART _Complex w)
{
    return z + w;
}

/* C's own product turns some NaN into infinities; PyTorch's does not. */
static inline PART _Complex TYPED(complex_times)(PART _Complex z, PART _Complex w, bool fused)
{
    const PART a = LIBM(creal)(z), b = LIBM(cimag)(z), c = LIBM(creal)(w), d = LIBM(cimag)(w);
    if (fused)
        return __builtin_complex(LIBM(fma)(a, c, -(b * d)), LIBM(fma)(a, d, b * c));
    return __builtin_complex(a * c - b * d, a * d + b * c);
}

static inline PART TYPED(times_plus)(PART x, PART y, PART z, bool fused)
{
    return fused ? LIBM(fma)(x, y, z) : x * y + z;
}

/* Scaled by the larger part of the divisor, so that no square overflows or vanishes. */
static inline PART _Complex TYPED(complex_div)(PART _Complex z, PART _Complex w, bool fused)
{
    const PART a = LIBM(creal)(z), b = LIBM(cimag)(z), c = LIBM(creal)(w), d = LIBM(cimag)(w);
    if (c == 0 && d == 0)
        return __builtin_complex(a / LIBM(fabs)(c), b / LIBM(fabs)(d));
    if (LIBM(fabs)(c) >= LIBM(fabs)(d)) {
        const PART ratio = d / c, divisor = TYPED(times_plus)(d, ratio, c, fused);
        return __builtin_complex(TYPED(times_plus)(b, ratio, a, fused) / divisor,
                                 TYPED(times_plus)(-a, ratio, b, fused) / divisor);
    }
    const PART ratio = c / d, divisor = TYPED(times_plus)(c, ratio, d, fused);
    return __builtin_complex(TYPED(times_plus)(a, ratio, b, fused) / divisor,
                             TYPED(times_plus)(b, ratio, -a, fused) / divisor);
}

/* 1 / s, which overflows for denormal z, times the parts: eager's reciprocal is NaN there. */
static inline PART _Complex TYPED(complex_reciprocal)(PART _Complex z, bool fused)
{
    const PART c = LIBM(creal)(z), d = LIBM(cimag)(z);
    if (c == 0 && d == 0)
        return TYPED(complex_div)(1, z, fused);
    if (LIBM(fabs)(c) >= LIBM(fabs)(d)) {
        const PART ratio = d / c, scale = 1 / TYPED(times_plus)(d, ratio, c, fused);
        return __builtin_complex(TYPED(times_plus)(0, ratio, 1, fused) * scale,
                                 TYPED(times_plus)(-1, ratio, 0, fused) * scale);
    }
    const PART ratio = c / d, scale = 1 / TYPED(times_plus)(c, ratio, d, fused);
    return __builtin_complex(TYPED(times_plus)(1, ratio, 0, fused) * scale,
                             TYPED(times_plus)(0, ratio, -1, fused) * scale);
}

static inline PART _Complex TYPED(complex_polar)(PART magnitude, PART angle)
{
    return __builtin_complex(magnitude * LIBM(cos)(angle), magnitude * LIBM(sin)(angle));
}

static inline PART _Complex TYPED(complex_scale)(PART _Complex z, PART factor)
{
    return __builtin_complex(LIBM(creal)(z) * factor, LIBM(cimag)(z) * factor);
}

static inline PART _Complex TYPED(complex_sign)(PART _Complex z)
{
    const PART magnitude = LIBM(cabs)(z);
    if (magnitude == 0)
        return 0;
    return __builtin_complex(LIBM(creal)(z) / magnitude, LIBM(cimag)(z) / magnitude);
}

static inline bool TYPED(complex_is_nan)(PART _Complex z)
{
    return isnan(LIBM(creal)(z)) || isnan(LIBM(cimag)(z));
}

static inline bool TYPED(complex_is_inf)(PART _Complex z)
{
    return isinf(LIBM(creal)(z)) || isinf(LIBM(cimag)(z));
}

static inline PART _Complex TYPED(complex_exp2)(PART _Complex z)
{
    return LIBM(cexp)(TYPED(complex_scale)(z, (PART)0.693147180559945309417));
}

/* exp(x) cos y - 1 = expm1(x) cos y - 2 sin(y / 2)^2, which loses nothing near 0. */
static inline PART _Complex TYPED(complex_expm1)(PART _Complex z)
{
    const PART x = LIBM(creal)(z), y = LIBM(cimag)(z), half = LIBM(sin)(y / 2);
    return __builtin_complex(LIBM(expm1)(x) * LIBM(cos)(y) - 2 * half * half,
                             LIBM(exp)(x) * LIBM(sin)(y));
}

static inline PART _Complex TYPED(complex_log2)(PART _Complex z)
{
    return TYPED(complex_scale)(LIBM(clog)(z), (PART)1.44269504088896340736);
}

static inline PART _Complex TYPED(complex_log10)(PART _Complex z)
{
    return TYPED(complex_scale)(LIBM(clog)(z), (PART)0.434294481903251827651);
}

/* |1 + z|^2 - 1 = x (2 + x) + y^2, which loses nothing near 0. */
static inline PART _Complex TYPED(complex_log1p)(PART _Complex z)
{
    const PART x = LIBM(creal)(z), y = LIBM(cimag)(z), angle = LIBM(atan2)(y, x + 1);
    const PART square = x * (2 + x) + y * y;
    if (LIBM(cabs)(z) < (PART)0.5)
        return __builtin_complex(square == 0 ? x : (PART)0.5 * LIBM(log1p)(square), angle);
    return __builtin_complex(LIBM(log)(LIBM(hypot)(x + 1, y)), angle);
}

/* By products, so that small powers are exact; from the highest bit, so that z**3 is (z * z) *
 * z. */
static inline PART _Complex TYPED(complex_power_integer)(PART _Complex z, int exponent, bool fused)
{
    if (exponent == 0)
        return 1;
    const unsigned count = exponent < 0 ? 0u - (unsigned)exponent : (unsigned)exponent;
    PART _Complex result = z;
    for (unsigned bit = (1u << (31 - __builtin_clz(count))) >> 1; bit; bit >>= 1) {
        result = TYPED(complex_times)(result, result, fused);
        if (count & bit)
            result = TYPED(complex_times)(result, z, fused);
    }
    return exponent < 0 ? TYPED(complex_reciprocal)(result, fused) : result;
}

static inline PART _Complex TYPED(complex_power)(PART _Complex z, PART _Complex w, bool fused)
{
    const PART exponent = LIBM(creal)(w);
    if (LIBM(cimag)(w) == 0 && LIBM(fabs)(exponent) <= 1024 && exponent == LIBM(trunc)(exponent))
        return TYPED(complex_power_integer)(z, (int)exponent, fused);
    if (LIBM(cimag)(w) == 0 && LIBM(fabs)(exponent) == (PART)0.5) {
        const PART _Complex root = LIBM(csqrt)(z);
        return exponent > 0 ? root : TYPED(complex_reciprocal)(root, fused);
    }
    return LIBM(cexp)(TYPED(complex_times)(LIBM(clog)(z), w, fused));
}
