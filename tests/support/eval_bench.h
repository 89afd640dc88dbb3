/* eval_bench.h - graphs for the tests of the evaluator: constants in, results compared bit for bit.
 *
 *     struct bench b;
 *     bench_open(&b);
 *     value x = f32(&b, SHAPE(2), 1, 2);
 *     expect_f32(&b, graph_map2(&b.graph, OP_add, x, x), SHAPE(2), 2, 4);
 *     bench_close(&b);
 *
 * Complex numbers are written as pairs of parts. Any NaN equals any NaN; -0 does not equal 0. */
#pragma once
#include "eval/convert.h"
#include "eval/eval.h"
#include "support/leak.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

struct bench {
    struct arena arena;
    struct sizes sizes;
    struct graph graph;
    struct eval_options options;
    bool out_of_range;
};

#define SHAPE(...)                                                  \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]) \
    {                                                               \
        __VA_ARGS__                                                 \
    }
#define SCALAR_SHAPE 0, NULL

static inline void bench_open(struct bench *b)
{
    *b = (struct bench){0};
    cr_assert_eq(sizes_init(&b->sizes, &b->arena), PHASOR_OK);
    cr_assert_eq(graph_init(&b->graph, &b->arena, &b->sizes, "bench"), PHASOR_OK);
}

static inline void bench_close(struct bench *b)
{
    graph_free(&b->graph);
    sizes_free(&b->sizes);
    arena_free(&b->arena);
}

static inline dim literal(struct bench *b, int64_t size)
{
    return size_literal(&b->sizes, size);
}

static inline value bench_data(struct bench *b, enum dtype dtype, size_t rank, const int64_t *sizes,
                               const void *bytes)
{
    int64_t *strides = NEW(&b->arena, int64_t, rank + 1), count = 1;
    for (size_t d = rank; d-- > 0; count *= sizes[d])
        strides[d] = count;
    const size_t nbytes = (size_t)count * (size_t)dtype_size(dtype);
    struct storage *storage = NEW(&b->arena, struct storage, 1);
    struct data *data = NEW(&b->arena, struct data, 1);
    *storage =
        (struct storage){.bytes = arena_copy(&b->arena, bytes, nbytes), .nbytes = nbytes, .id = 1};
    *data = (struct data){.name = "data",
                          .dtype = dtype,
                          .rank = (int)rank,
                          .strides = strides,
                          .storage = storage,
                          .sizes = arena_copy(&b->arena, sizes, rank * sizeof *sizes)};
    return graph_add(&b->graph, OP_data, dtype, NULL, 0, &(struct attributes){.data = data}, NULL);
}

#define f32(b, shape, ...) bench_data(b, DT_f32, shape, (float[]){__VA_ARGS__})
#define f64(b, shape, ...) bench_data(b, DT_f64, shape, (double[]){__VA_ARGS__})
#define c64(b, shape, ...) bench_data(b, DT_c64, shape, (float[]){__VA_ARGS__})
#define c128(b, shape, ...) bench_data(b, DT_c128, shape, (double[]){__VA_ARGS__})
#define i64(b, shape, ...) bench_data(b, DT_i64, shape, (int64_t[]){__VA_ARGS__})
#define i32(b, shape, ...) bench_data(b, DT_i32, shape, (int32_t[]){__VA_ARGS__})
#define flags(b, shape, ...) bench_data(b, DT_bool, shape, (bool[]){__VA_ARGS__})

static inline struct eval_tensor bench_run(struct bench *b, value v)
{
    struct eval_tensor out;
    cr_assert_eq(graph_status(&b->graph), PHASOR_OK, "%s", message_get());
    cr_assert_eq(eval_value(&b->graph, &b->options, v, &out, &b->out_of_range), PHASOR_OK, "%s",
                 message_get());
    return out;
}

/* One number of a float dtype, or part of a complex one. */
static inline bool same_part(const char *a, const char *b, int size)
{
    float x, y;
    double p, q;
    if (size == 4) {
        memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
        return memcmp(a, b, 4) == 0 || (isnan(x) && isnan(y));
    }
    memcpy(&p, a, sizeof p), memcpy(&q, b, sizeof q);
    return memcmp(a, b, 8) == 0 || (isnan(p) && isnan(q));
}

static inline bool same_element(enum dtype dtype, const char *a, const char *b)
{
    const int size = dtype_size(dtype), part = dtype_size(dtype_info[dtype].real);
    if (dtype_is_integer(dtype))
        return memcmp(a, b, (size_t)size) == 0;
    if (part == 2) {
        float x, y;
        convert_load(dtype, &x, a, 1, 1);
        convert_load(dtype, &y, b, 1, 1);
        return same_part((const char *)&x, (const char *)&y, 4);
    }
    for (int at = 0; at < size; at += part)
        if (!same_part(a + at, b + at, part))
            return false;
    return true;
}

static inline void expect_bytes(struct bench *b, value v, enum dtype dtype, size_t rank,
                                const int64_t *sizes, const void *bytes)
{
    struct eval_tensor out = bench_run(b, v);
    const char *name = op_info[graph_node(&b->graph, v)->op].name;
    cr_assert_eq(out.dtype, dtype, "%s: dtype %s", name, dtype_text(out.dtype));
    cr_assert_eq((size_t)out.rank, rank, "%s: rank %d", name, out.rank);
    for (size_t d = 0; d < rank; d++)
        cr_assert_eq(out.sizes[d], sizes[d], "%s: size %zu is %lld", name, d,
                     (long long)out.sizes[d]);
    for (int64_t i = 0; i < eval_tensor_count(&out); i++)
        if (!same_element(dtype, (const char *)out.bytes + i * dtype_size(dtype),
                          (const char *)bytes + i * dtype_size(dtype))) {
            double got[2] = {0}, want[2] = {0};
            const enum dtype compute = dtype_info[dtype].compute;
            char a[16], w[16];
            convert_load(dtype, a, (const char *)out.bytes + i * dtype_size(dtype), 1, 1);
            convert_load(dtype, w, (const char *)bytes + i * dtype_size(dtype), 1, 1);
            convert_compute(DT_c128, got, compute, a, 1);
            convert_compute(DT_c128, want, compute, w, 1);
            cr_assert_fail("%s of %s: element %lld is %.9g%+.9gj, not %.9g%+.9gj", name,
                           dtype_text(dtype), (long long)i, got[0], got[1], want[0], want[1]);
        }
    eval_tensor_free(&out);
}

#define expect_f32(b, v, shape, ...) expect_bytes(b, v, DT_f32, shape, (float[]){__VA_ARGS__})
#define expect_f64(b, v, shape, ...) expect_bytes(b, v, DT_f64, shape, (double[]){__VA_ARGS__})
#define expect_c64(b, v, shape, ...) expect_bytes(b, v, DT_c64, shape, (float[]){__VA_ARGS__})
#define expect_c128(b, v, shape, ...) expect_bytes(b, v, DT_c128, shape, (double[]){__VA_ARGS__})
#define expect_i64(b, v, shape, ...) expect_bytes(b, v, DT_i64, shape, (int64_t[]){__VA_ARGS__})
#define expect_i32(b, v, shape, ...) expect_bytes(b, v, DT_i32, shape, (int32_t[]){__VA_ARGS__})
#define expect_flags(b, v, shape, ...) expect_bytes(b, v, DT_bool, shape, (bool[]){__VA_ARGS__})
