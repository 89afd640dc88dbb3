/* test_eval.c - the evaluator's MAP rows, number formats, entries and errors; the other rows are in
 * test_eval_rows.c.
 *
 * Every MAP row is evaluated on every dtype on which it is defined, over special values, and must
 * agree with itself: on f16 and bf16 with the rounded f32 result, on narrow integers with the
 * wrapped i64 result. What the rows mean is checked against the C library and against values worked
 * out by hand or given by eager PyTorch. */
#include "support/eval_bench.h"

#include <stdlib.h>

#define JOB(name)                             \
    static void name##_body(struct bench *b); \
    Test(eval, name)                          \
    {                                         \
        struct bench bench;                   \
        bench_open(&bench);                   \
        name##_body(&bench);                  \
        bench_close(&bench);                  \
        ASSERT_NO_LEAKS();                    \
    }                                         \
    static void name##_body(struct bench *b)

static value map1(struct bench *b, enum op op, value x)
{
    return graph_map1(&b->graph, op, x);
}
static value map2(struct bench *b, enum op op, value x, value y)
{
    return graph_map2(&b->graph, op, x, y);
}

/* -- number formats ---------------------------------------------------------------------------- */

JOB(f16_agrees_with_the_compiler)
{
    (void)b;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const uint16_t half = (uint16_t)bits;
        _Float16 native;
        memcpy(&native, &half, sizeof half);
        const float x = convert_f16_to_float(half), y = (float)native;
        cr_assert(same_part((const char *)&x, (const char *)&y, 4), "%04x", bits);
        cr_assert(isnan(x) || convert_float_to_f16(x) == half, "%04x", bits);
    }
    for (uint32_t i = 0; i < 2000000; i++) {
        const uint32_t bits = i * 2147u;
        float x;
        memcpy(&x, &bits, sizeof x);
        const _Float16 native = (_Float16)x;
        uint16_t want;
        memcpy(&want, &native, sizeof want);
        cr_assert(isnan(x) ? isnan(convert_f16_to_float(convert_float_to_f16(x)))
                           : convert_float_to_f16(x) == want,
                  "%08x", bits);
    }
}

JOB(bf16_rounds_to_nearest_even)
{
    (void)b;
    static const struct {
        float x;
        uint16_t bits;
    } facts[] = {{1, 0x3f80},         {-0.0f, 0x8000},         {0x1.01p0f, 0x3f80},
                 {0x1.03p0f, 0x3f82}, {0x1.010002p0f, 0x3f81}, {0x1.fffffep127f, 0x7f80},
                 {INFINITY, 0x7f80},  {0x1p-149f, 0},          {0x1.8p-133f, 2},
                 {0x1p-133f, 1},      {-3.0f, 0xc040}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        cr_assert_eq(convert_float_to_bf16(facts[i].x), facts[i].bits, "%a", (double)facts[i].x);
    cr_assert(isnan(convert_bf16_to_float(convert_float_to_bf16(NAN))));
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const float x = convert_bf16_to_float((uint16_t)bits);
        cr_assert(isnan(x) || convert_float_to_bf16(x) == bits);
    }
}

JOB(cast)
{
    const value x = f32(b, SHAPE(6), 1.9f, -1.9f, NAN, INFINITY, -3e9f, 300);
    expect_i64(b, graph_cast(&b->graph, x, DT_i64), SHAPE(6), 1, -1, 0, INT64_MAX, -3000000000,
               300);
    expect_i32(b, graph_cast(&b->graph, x, DT_i32), SHAPE(6), 1, -1, 0, INT32_MAX, INT32_MIN, 300);
    expect_bytes(b, graph_cast(&b->graph, x, DT_u8), DT_u8, SHAPE(6),
                 (uint8_t[]){1, 255, 0, 255, 0, 44});
    expect_flags(b, graph_cast(&b->graph, f32(b, SHAPE(4), 0, -0.0f, NAN, 0.1f), DT_bool), SHAPE(4),
                 false, false, true, true);
    expect_flags(b, graph_cast(&b->graph, c64(b, SHAPE(2), 0, 1, 0, -0.0f), DT_bool), SHAPE(2),
                 true, false);
    expect_c64(b, graph_cast(&b->graph, f32(b, SHAPE(1), -0.0f), DT_c64), SHAPE(1), -0.0f, 0);
    expect_f32(b, graph_cast(&b->graph, c128(b, SHAPE(1), 0.1, 5), DT_f32), SHAPE(1), 0.1f);
    expect_f32(b, graph_cast(&b->graph, i64(b, SHAPE(1), 0x1000001000000001), DT_f32), SHAPE(1),
               0x1.000002p60f);
    expect_i32(b, graph_cast(&b->graph, i64(b, SHAPE(1), 0x100000002), DT_i32), SHAPE(1), 2);
    expect_bytes(b, graph_cast(&b->graph, flags(b, SHAPE(1), true), DT_bf16), DT_bf16, SHAPE(1),
                 (uint16_t[]){0x3f80});
}

/* -- every MAP row on every dtype -------------------------------------------------------------- */

static const double specials[] = {0,     -0.0,   1,      -1,    0.5,  2,        -3,        7,
                                  1e-40, 1e-310, 100.25, 65504, 1e30, INFINITY, -INFINITY, NAN};
enum { SPECIALS = sizeof specials / sizeof *specials };

static const int64_t integers[] = {0,   1,    -1,  2,         -2,        3,         7,         8,
                                   127, -128, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 5};
_Static_assert(sizeof integers / sizeof *integers == SPECIALS, "as many of both");

/* The special values as column or row of a table; of complex numbers the imaginary part goes the
 * other way round. */
static value operand(struct bench *b, enum dtype dtype, int which)
{
    static const int64_t shapes[3][2] = {{SPECIALS, 1}, {1, SPECIALS}, {1, SPECIALS}};
    if (dtype_is_integer(dtype))
        return graph_cast(&b->graph, bench_data(b, DT_i64, 2, shapes[which], integers), dtype);
    double parts[2 * SPECIALS];
    for (int i = 0; i < SPECIALS; i++) {
        parts[2 * i] = specials[i];
        parts[2 * i + 1] = specials[SPECIALS - 1 - i];
    }
    const value x = dtype_is_complex(dtype) ? bench_data(b, DT_c128, 2, shapes[which], parts)
                                            : bench_data(b, DT_f64, 2, shapes[which], specials);
    return graph_cast(&b->graph, x, dtype);
}

static value row(struct bench *b, enum op op, enum dtype dtype, enum dtype computed)
{
    value arguments[3];
    for (int i = 0; i < op_info[op].arity; i++) {
        const enum dtype kind = i == 0 && op_info[op].type == TYPE_PICK ? DT_bool : dtype;
        arguments[i] = operand(b, kind, i);
        if (kind == dtype)
            arguments[i] = graph_cast(&b->graph, arguments[i], computed);
    }
    return graph_add(&b->graph, op, computed, arguments, op_info[op].arity, NULL, NULL);
}

static bool defined(enum op op, enum dtype dtype)
{
    const struct op_info *info = &op_info[op];
    if (dtype_info[dtype].kind == DTC_NAMED)
        return false;
    if (info->type == TYPE_MAKE)
        return dtype == DT_f32 || dtype == DT_f64;
    return dtype_is_complex(dtype) ? info->complex != COMPLEX_NEVER
           : dtype_is_float(dtype) ? info->on != ON_I
                                   : info->on != ON_F;
}

static void check_row(struct bench *b, enum op op, enum dtype dtype)
{
    const enum dtype compute = dtype_info[dtype].compute;
    const value narrow = row(b, op, dtype, dtype), wide = row(b, op, dtype, compute);
    const enum dtype result = graph_node(&b->graph, narrow)->dtype;
    struct eval_tensor want = bench_run(b, graph_cast(&b->graph, wide, result));
    cr_assert_eq(eval_tensor_count(&want), op_info[op].arity == 1 ? SPECIALS : SPECIALS * SPECIALS);
    expect_bytes(b, narrow, result, (size_t)want.rank, want.sizes, want.bytes);
    eval_tensor_free(&want);
}

ParameterizedTestParameters(eval, map_rows)
{
    static int rows[OP_COUNT];
    size_t count = 0;
    for (int op = 0; op < OP_COUNT; op++)
        if (op_info[op].kind == KIND_MAP)
            rows[count++] = op;
    return cr_make_param_array(int, rows, count);
}

ParameterizedTest(int *op, eval, map_rows)
{
    struct bench b;
    int evaluated = 0;
    bench_open(&b);
    for (int d = 0; d < DT_COUNT; d++)
        for (int fused = 0; fused < 2 && defined((enum op) * op, (enum dtype)d);
             fused++, evaluated++) {
            b.options.fma = fused;
            check_row(&b, (enum op) * op, (enum dtype)d);
        }
    cr_assert_geq(evaluated, 4, "%s was not evaluated", op_info[*op].name);
    bench_close(&b);
    ASSERT_NO_LEAKS();
}

/* -- real rows against the C library ----------------------------------------------------------- */

static double reciprocal(double x)
{
    return 1 / x;
}
static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}
static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}
static double sign_of(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}
static double angle_of(double x)
{
    return isnan(x) ? x : x < 0 ? 3.14159265358979323846 : 0;
}
static double same(double x)
{
    return x;
}
static double minus(double x)
{
    return -x;
}

JOB(unary_rows_are_the_libms)
{
    static const struct {
        enum op op;
        double (*f)(double);
        float (*g)(float);
    } facts[] = {{OP_neg, minus, NULL},        {OP_abs, fabs, fabsf},
                 {OP_sign, sign_of, NULL},     {OP_reciprocal, reciprocal, NULL},
                 {OP_sqrt, sqrt, sqrtf},       {OP_rsqrt, reciprocal_root, NULL},
                 {OP_exp, exp, expf},          {OP_exp2, exp2, exp2f},
                 {OP_expm1, expm1, expm1f},    {OP_log, log, logf},
                 {OP_log2, log2, log2f},       {OP_log10, log10, log10f},
                 {OP_log1p, log1p, log1pf},    {OP_sin, sin, sinf},
                 {OP_cos, cos, cosf},          {OP_tan, tan, tanf},
                 {OP_asin, asin, asinf},       {OP_acos, acos, acosf},
                 {OP_atan, atan, atanf},       {OP_sinh, sinh, sinhf},
                 {OP_cosh, cosh, coshf},       {OP_tanh, tanh, tanhf},
                 {OP_asinh, asinh, asinhf},    {OP_acosh, acosh, acoshf},
                 {OP_atanh, atanh, atanhf},    {OP_erf, erf, erff},
                 {OP_sigmoid, logistic, NULL}, {OP_floor, floor, floorf},
                 {OP_ceil, ceil, ceilf},       {OP_trunc, trunc, truncf},
                 {OP_round, rint, rintf},      {OP_conj, same, NULL},
                 {OP_angle, angle_of, NULL}};
    double want[SPECIALS];
    float narrow[SPECIALS];
    const value x = bench_data(b, DT_f64, SHAPE(SPECIALS), specials);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        for (int k = 0; k < SPECIALS; k++) {
            want[k] = facts[i].f(specials[k]);
            narrow[k] = facts[i].g ? facts[i].g((float)specials[k]) : 0;
        }
        expect_bytes(b, map1(b, facts[i].op, x), DT_f64, SHAPE(SPECIALS), want);
        if (facts[i].g)
            expect_bytes(b, map1(b, facts[i].op, graph_cast(&b->graph, x, DT_f32)), DT_f32,
                         SHAPE(SPECIALS), narrow);
    }
}

JOB(binary_float_rows)
{
    const value x = f64(b, SHAPE(5), 7, -7, 7, 0, INFINITY), y = f64(b, SHAPE(5), 2, 2, -2, 0, 2);
    expect_f64(b, map2(b, OP_div_floor, x, y), SHAPE(5), 3, -4, -4, NAN, NAN);
    expect_f64(b, map2(b, OP_div_trunc, x, y), SHAPE(5), 3, -3, -3, NAN, INFINITY);
    expect_f64(b, map2(b, OP_remainder, x, y), SHAPE(5), 1, 1, -1, NAN, NAN);
    expect_f64(b, map2(b, OP_fmod, x, y), SHAPE(5), 1, -1, 1, NAN, NAN);
    expect_f64(b, map2(b, OP_pow, x, y), SHAPE(5), 49, 49, 1 / 49.0, 1, INFINITY);
    expect_f64(b, map2(b, OP_atan2, y, x), SHAPE(5), atan2(2, 7), atan2(2, -7), atan2(-2, 7), 0, 0);
    expect_f64(b,
               map2(b, OP_hypot, f64(b, SHAPE(2), 3e300, NAN), f64(b, SHAPE(2), 4e300, INFINITY)),
               SHAPE(2), 5e300, INFINITY);
    expect_f64(b, map2(b, OP_copysign, x, f64(b, SHAPE(1), -0.0)), SHAPE(5), -7, -7, -7, -0.0,
               -INFINITY);
    expect_f64(b, map2(b, OP_maximum, f64(b, SHAPE(3), NAN, 1, 1), f64(b, SHAPE(3), 1, NAN, 2)),
               SHAPE(3), NAN, NAN, 2);
    expect_f64(b, map2(b, OP_minimum, f64(b, SHAPE(3), NAN, 1, 1), f64(b, SHAPE(3), 1, NAN, 2)),
               SHAPE(3), NAN, NAN, 1);
    expect_f64(b, map2(b, OP_div_floor, f64(b, SHAPE(1), 1), f64(b, SHAPE(1), 0.1)), SHAPE(1), 9);
    expect_flags(b, map2(b, OP_lt, f64(b, SHAPE(3), NAN, -0.0, 1), f64(b, SHAPE(3), 1, 0, 2)),
                 SHAPE(3), false, false, true);
    expect_flags(b, map2(b, OP_ne, f64(b, SHAPE(2), NAN, -0.0), f64(b, SHAPE(2), NAN, 0)), SHAPE(2),
                 true, false);
    expect_f32(b,
               graph_map3(&b->graph, OP_fma, f32(b, SHAPE(1), 0x1.000002p0f),
                          f32(b, SHAPE(1), 0x1.000002p0f), f32(b, SHAPE(1), -0x1.000004p0f)),
               SHAPE(1), 0x1p-46f);
}

JOB(integer_rows)
{
    const value x = i64(b, SHAPE(6), 7, -7, INT64_MIN, 5, -5, 1),
                y = i64(b, SHAPE(6), 2, 2, -1, 0, -3, INT64_MIN);
    expect_i64(b, map2(b, OP_div_floor, x, y), SHAPE(6), 3, -4, INT64_MIN, 0, 1, -1);
    expect_i64(b, map2(b, OP_div_trunc, x, y), SHAPE(6), 3, -3, INT64_MIN, 0, 1, 0);
    expect_i64(b, map2(b, OP_remainder, x, y), SHAPE(6), 1, 1, 0, 0, -2, INT64_MIN + 1);
    expect_i64(b, map2(b, OP_fmod, x, y), SHAPE(6), 1, -1, 0, 0, -2, 1);
    expect_i64(b,
               map2(b, OP_pow, i64(b, SHAPE(7), 2, 3, 0, -1, 2, 1, 0),
                    i64(b, SHAPE(7), 10, 41, 0, -3, -1, -5, -1)),
               SHAPE(7), 1024, -420491770248316829, 1, -1, 0, 1, 0);
    expect_i64(b, map2(b, OP_add, x, i64(b, SHAPE(1), INT64_MAX)), SHAPE(6), INT64_MIN + 6,
               INT64_MAX - 7, -1, INT64_MIN + 4, INT64_MAX - 5, INT64_MIN);
    expect_i64(b, map1(b, OP_abs, i64(b, SHAPE(2), INT64_MIN, -3)), SHAPE(2), INT64_MIN, 3);
    expect_i64(b, map2(b, OP_shift_left, i64(b, SHAPE(3), 1, 1, 1), i64(b, SHAPE(3), 3, 64, -1)),
               SHAPE(3), 8, 0, 0);
    expect_i64(b, map2(b, OP_shift_right, i64(b, SHAPE(3), -8, -8, 8), i64(b, SHAPE(3), 1, 64, -1)),
               SHAPE(3), -4, -1, 0);
    expect_i64(b, map1(b, OP_bit_not, i64(b, SHAPE(1), 5)), SHAPE(1), -6);
    expect_i64(b, map2(b, OP_bit_xor, i64(b, SHAPE(1), 6), i64(b, SHAPE(1), 3)), SHAPE(1), 5);
    expect_flags(b, map1(b, OP_bit_not, flags(b, SHAPE(2), true, false)), SHAPE(2), false, true);
    expect_flags(b,
                 map2(b, OP_add, flags(b, SHAPE(2), true, false), flags(b, SHAPE(2), true, false)),
                 SHAPE(2), true, false);
    const value bytes = bench_data(b, DT_u8, SHAPE(2), (uint8_t[]){250, 3});
    expect_bytes(b, map2(b, OP_add, bytes, bytes), DT_u8, SHAPE(2), (uint8_t[]){244, 6});
    expect_bytes(b, map1(b, OP_neg, bytes), DT_u8, SHAPE(2), (uint8_t[]){6, 253});
}

/* -- complex numbers: reference values --------------------------------------------------------- */

JOB(complex_arithmetic)
{
    const value z = c64(b, SHAPE(2), 1, 2, 3, -4),
                r = graph_cast(&b->graph, f32(b, SHAPE(2), 10, 20), DT_c64);
    const value one_j = graph_scalar(&b->graph, DT_c64, (struct number){.im = 1});
    expect_c64(b, map2(b, OP_add, z, r), SHAPE(2), 11, 2, 23, -4);
    expect_c64(b, map2(b, OP_add, z, one_j), SHAPE(2), 1, 3, 3, -3);
    expect_c64(b, map2(b, OP_mul, r, one_j), SHAPE(2), 0, 10, 0, 20);
    expect_c64(b, map2(b, OP_div, r, z), SHAPE(2), 2, -4, 2.4f, 3.2f);
    expect_c64(b, map2(b, OP_mul, c64(b, SHAPE(1), 1, -0.0f), c64(b, SHAPE(1), 2, 0)), SHAPE(1), 2,
               0);
    expect_c64(b, map2(b, OP_mul, c64(b, SHAPE(1), INFINITY, 1), c64(b, SHAPE(1), 2, 0)), SHAPE(1),
               INFINITY, NAN);
    expect_c64(
        b,
        graph_map3(&b->graph, OP_where, flags(b, SHAPE(2), true, false), z, c64(b, SHAPE(1), 1, 0)),
        SHAPE(2), 1, 2, 1, 0);
    expect_c64(b, map2(b, OP_complex, f32(b, SHAPE(2), 1, NAN), f32(b, SHAPE(1), -0.0f)), SHAPE(2),
               1, -0.0f, NAN, -0.0f);
    expect_flags(b, map2(b, OP_eq, z, c64(b, SHAPE(2), 1, 2, 3, 4)), SHAPE(2), true, false);
    expect_flags(b, map1(b, OP_not, c64(b, SHAPE(3), 0, -0.0f, 0, 1, NAN, 0)), SHAPE(3), true,
                 false, false);
    expect_flags(b, map1(b, OP_is_nan, c64(b, SHAPE(2), 0, NAN, INFINITY, 0)), SHAPE(2), true,
                 false);
    expect_flags(b, map1(b, OP_is_inf, c64(b, SHAPE(2), NAN, INFINITY, NAN, 0)), SHAPE(2), true,
                 false);
    expect_c64(b, map1(b, OP_conj, z), SHAPE(2), 1, -2, 3, 4);
    expect_c64(b, map1(b, OP_sign, c64(b, SHAPE(2), 3, -4, -0.0f, 0)), SHAPE(2), 0.6f, -0.8f, 0, 0);
}

JOB(complex_products_follow_the_option)
{
    const float a = 0x1.000002p0f, d = 0x1.8p-24f;
    const value z = c64(b, SHAPE(1), a, d), w = c64(b, SHAPE(1), a, -d);
    const value product = map2(b, OP_mul, z, w);
    b->options.fma = false;
    expect_c64(b, product, SHAPE(1), (float)(a * a) - (float)(d * -d),
               (float)(a * -d) + (float)(d * a));
    b->options.fma = true;
    expect_c64(b, product, SHAPE(1), fmaf(a, a, -(float)(d * -d)), fmaf(a, -d, (float)(d * a)));
}

JOB(complex_extremes)
{
    expect_c64(b,
               map2(b, OP_div, c64(b, SHAPE(3), 0, 0, 1e30f, 1e30f, 1e-40f, 0),
                    c64(b, SHAPE(3), 1e-36f, 0, 1e30f, 1e30f, 1e-40f, 0)),
               SHAPE(3), 0, 0, 1, 0, 1, 0);
    expect_c64(b, map1(b, OP_reciprocal, c64(b, SHAPE(2), 0, 2, 0, 0)), SHAPE(2), 0, -0.5f,
               INFINITY, NAN);
    expect_f32(b, map1(b, OP_abs, c64(b, SHAPE(3), 1e20f, 1e20f, NAN, INFINITY, 1e38f, 1e38f)),
               SHAPE(3), hypotf(1e20f, 1e20f), INFINITY, hypotf(1e38f, 1e38f));
    expect_c64(b, map1(b, OP_tanh, c64(b, SHAPE(1), 100, 1)), SHAPE(1), 1, 0);
    expect_c64(b, map1(b, OP_sqrt, c64(b, SHAPE(3), -1, -0.0f, -1, 0, -4, 0)), SHAPE(3), 0, -1, 0,
               1, 0, 2);
    expect_f32(b, map1(b, OP_angle, c64(b, SHAPE(3), -1, 0, -1, -0.0f, 0, 0)), SHAPE(3),
               3.14159274f, -3.14159274f, 0);
    expect_c64(b, map2(b, OP_polar, f32(b, SHAPE(1), -1), f32(b, SHAPE(2), 0, INFINITY)), SHAPE(2),
               -1, -0.0f, NAN, NAN);
    expect_c64(b, map2(b, OP_polar, f32(b, SHAPE(1), 0), f32(b, SHAPE(1), INFINITY)), SHAPE(1), NAN,
               NAN);
    expect_c64(b, map1(b, OP_exp, c64(b, SHAPE(2), 0, 0, -INFINITY, NAN)), SHAPE(2), 1, 0, 0, 0);
    expect_c64(b, map1(b, OP_log, c64(b, SHAPE(1), 0, 0)), SHAPE(1), -INFINITY, 0);
}

JOB(complex_powers)
{
    const value z = c64(b, SHAPE(1), -3, 4),
                w = c64(b, SHAPE(6), 2, 0, 3, 0, 1, 0, 0, 0, -1, 0, -2, 0);
    expect_c64(b, map2(b, OP_pow, z, w), SHAPE(6), -7, -24, 117, 44, -3, 4, 1, 0, -0.12f, -0.16f,
               -0x1.6f006ap-7f, 24 / 625.0f); /* the reciprocal rounds twice */
    expect_c64(
        b, map2(b, OP_pow, c64(b, SHAPE(1), 0, 0), c64(b, SHAPE(4), 1, -1, 2, 0, 0.5f, 0, 0, 0)),
        SHAPE(4), 0, 0, 0, 0, 0, 0, 1, 0);
    expect_c128(b, map2(b, OP_pow, c128(b, SHAPE(1), 0, 1), c128(b, SHAPE(1), 1024, 0)), SHAPE(1),
                1, -0.0);
}

/* Functions with tolerance, against double: |f(z) - right| <= 1e-6 |right|. */
static void expect_near(struct bench *b, enum op op, float re, float im, double want_re,
                        double want_im)
{
    float parts[2] = {re, im}, got[2];
    struct eval_tensor out = bench_run(b, map1(b, op, bench_data(b, DT_c64, SHAPE(1), parts)));
    memcpy(got, out.bytes, sizeof got);
    eval_tensor_free(&out);
    cr_assert_leq(hypot(got[0] - want_re, got[1] - want_im), 1e-6 * hypot(want_re, want_im),
                  "%s(%g%+gj) = %.9g%+.9gj", op_info[op].name, re, im, got[0], got[1]);
}

JOB(complex_functions)
{
    expect_near(b, OP_log, 1e20f, 1e20f, 46.39827544, 0.78539816);
    expect_near(b, OP_sqrt, 1e20f, 1e20f, 1.09868411e10, 4.55089861e9);
    expect_near(b, OP_acosh, -2, 0.5f, 1.3618009,
                2.8638383); /* log(z + sqrt(z^2 - 1)) is on the wrong sheet here */
    expect_near(b, OP_exp2, 3, 0, 8, 0);
    expect_near(b, OP_log2, 8, 0, 3, 0);
    expect_near(b, OP_log10, -1000, 0, 3, 1.36437635);
    expect_near(b, OP_expm1, 1e-6f, 1e-6f, 1e-6, 1.000001e-6);
    expect_near(b, OP_log1p, 1e-8f, 1e-8f, 1e-8, 1e-8);
    expect_near(b, OP_log1p, 3, 4, 1.7328679514, 0.78539816);
    expect_near(b, OP_rsqrt, 0, 2, 0.5, -0.5);
    expect_near(b, OP_sigmoid, 0, 1, 0.5, 0.27315124);
}

/* -- entries and errors ------------------------------------------------------------------------ */

static value strided_input(struct bench *b)
{
    const dim sizes[] = {literal(b, 2), literal(b, 3)};
    return graph_add(&b->graph, OP_input, DT_f32, NULL, 0,
                     &(struct attributes){.index = 0, .sizes = sizes, .size_count = 2}, "x");
}

JOB(graph_with_inputs_and_written_buffers)
{
    const struct data initial = {.name = "s",
                                 .dtype = DT_f32,
                                 .rank = 1,
                                 .sizes = (int64_t[]){3},
                                 .strides = (int64_t[]){1}};
    cr_assert(
        array_push(&b->graph.buffers, (struct graph_buffer){.name = "s", .initial = &initial}));
    const value x = strided_input(b);
    const value s =
        graph_add(&b->graph, OP_state, DT_f32, NULL, 0, &(struct attributes){.index = 0}, "s");
    const value y = map2(b, OP_add, x, s), unused = map1(b, OP_exp, y),
                twice = map2(b, OP_add, y, y);
    b->graph.buffers.at[0].written = graph_select(&b->graph, y, 0, 1);
    cr_assert(array_push(&b->graph.inputs,
                         (struct graph_input){.name = "x", .node = x, .written = twice}));
    for (int i = 0; i < 2; i++)
        cr_assert(array_push(&b->graph.outputs,
                             (struct graph_output){.name = "y", .kind = PHASOR_TENSOR, .node = y}));
    const struct eval_view input = {DT_f32, (float[]){1, 2, 3, 4, 5, 6}, (int64_t[]){1, 2}},
                           state = {DT_f32, (float[]){10, 20, 30}, NULL};
    const struct eval_inputs inputs = {&input, 1, &state, 1};
    struct eval_results results;
    cr_assert_eq(eval_graph(&b->graph, &b->options, &inputs, &results, &b->out_of_range), PHASOR_OK,
                 "%s", message_get());
    cr_assert_arr_eq(eval_result(&results, y)->bytes, ((float[]){11, 23, 35, 12, 24, 36}), 24);
    cr_assert_arr_eq(eval_result(&results, twice)->bytes, ((float[]){22, 46, 70, 24, 48, 72}), 24);
    cr_assert_arr_eq(eval_result(&results, b->graph.buffers.at[0].written)->bytes,
                     ((float[]){12, 24, 36}), 12);
    cr_assert_null(eval_result(&results, unused));
    cr_assert_null(eval_result(&results, x));
    eval_free(&results);
}

JOB(folding_refuses_inputs)
{
    struct eval_tensor out;
    const value y = map1(b, OP_exp, strided_input(b));
    cr_assert_eq(eval_value(&b->graph, &b->options, y, &out, &b->out_of_range), PHASOR_ERROR_USAGE);
    cr_assert(strstr(message_get(), "input 0"), "%s", message_get());
    struct eval_results results;
    const value wanted[] = {graph_iota(&b->graph, literal(b, 3)), f32(b, SHAPE(1), 1)};
    cr_assert_eq(eval_values(&b->graph, &b->options, wanted, 2, &results, &b->out_of_range),
                 PHASOR_OK);
    cr_assert_not_null(eval_result(&results, wanted[0]));
    cr_assert_not(eval_result(&results, wanted[1])->owned);
    eval_free(&results);
}

JOB(inputs_of_another_dtype_are_refused)
{
    const value x = strided_input(b);
    const struct eval_view input = {DT_f64, (double[6]){0}, NULL};
    const struct eval_inputs inputs = {.inputs = &input, .input_count = 1};
    struct eval_results results;
    cr_assert(array_push(&b->graph.outputs,
                         (struct graph_output){.name = "y", .kind = PHASOR_TENSOR, .node = x}));
    cr_assert_eq(eval_graph(&b->graph, &b->options, &inputs, &results, &b->out_of_range),
                 PHASOR_ERROR_INPUT);
    cr_assert(strstr(message_get(), "f64") && strstr(message_get(), "f32"), "%s", message_get());
}

JOB(sizes_beyond_memory_are_a_status)
{
    const dim huge[] = {literal(b, 1ll << 40), literal(b, 1ll << 40)};
    cr_assert_eq(graph_expand(&b->graph, f32(b, SHAPE(1), 1), huge, 2), 0u);
    cr_assert_eq(graph_status(&b->graph), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "64 bits"), "%s", message_get());
}

/* -- memory that is out ------------------------------------------------------------------------ */

static int allocations_left;

static void *limited_resize(void *context, void *block, size_t nbytes)
{
    (void)context;
    return allocations_left-- > 0 ? realloc(block, nbytes) : NULL;
}

static void plain_free(void *context, void *block)
{
    (void)context;
    free(block);
}

JOB(each_allocation_may_fail)
{
    const value z = c64(b, SHAPE(2, 2), 1, 2, 3, 4, 5, 6, 7, 8), index = i64(b, SHAPE(2), 1, 0);
    const struct attributes first = {.axis = 0};
    value v = graph_add(&b->graph, OP_index, DT_bool, (value[]){map2(b, OP_mul, z, z), index}, 2,
                        &first, NULL);
    v = graph_add(&b->graph, OP_dot, DT_bool, (value[]){v, z}, 2, NULL, NULL);
    v = graph_add(&b->graph, OP_cumsum, DT_bool, &v, 1, &first, NULL);
    v = map1(b, OP_abs, graph_reduce(&b->graph, OP_sum, v, (int[]){1}, 1, false));
    v = graph_add(&b->graph, OP_sort_index, DT_bool, &v, 1, &first, NULL);
    v = graph_add(&b->graph, OP_argmax, DT_bool, &v, 1, &first, NULL);
    phasor_status status = PHASOR_ERROR_MEMORY;
    memory_set_hooks(&(struct memory_hooks){limited_resize, plain_free, NULL});
    int limit = 0;
    for (; status != PHASOR_OK && limit < 100; limit++) {
        struct eval_tensor out;
        allocations_left = limit;
        status = eval_value(&b->graph, &b->options, v, &out, &b->out_of_range);
        cr_assert(status == PHASOR_OK || status == PHASOR_ERROR_MEMORY);
        eval_tensor_free(&out);
    }
    memory_set_hooks(NULL);
    cr_assert_gt(limit, 10);
    cr_assert_eq(status, PHASOR_OK);
}
