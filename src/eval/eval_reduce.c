/* eval_reduce.c - reductions over axes, and what goes along one axis: argmax, argmin, cumsum,
 * cumprod.
 *
 *     sum axes=[0, 2] of f32[2, 3, 4]     3 results; each gathers its 8 elements, in
 *                                         row-major order, into a line
 *
 * A line is combined pairwise: halves of halves, 32 elements in sequence at the bottom, in the
 * compute type. The error grows with the logarithm of the length, and the order is always the same.
 * An empty line gives the row's identity. Sums begin with 0, as eager's do: of nothing but -0 they
 * are 0. */
#include "eval/convert.h"
#include "eval/parts.h"
#include "eval/reference.h"

#include <string.h>

enum { DT_bit = DT_bool, PAIRWISE_SEQUENCE = 32 };

/* -- one function a row and compute type ------------------------------------------------------- */

#define EACH_REAL(make, ...)                                                                   \
    make(bit, bool, __VA_ARGS__) make(i64, int64_t, __VA_ARGS__) make(f32, float, __VA_ARGS__) \
        make(f64, double, __VA_ARGS__)
#define EACH_NEVER(make, ...) EACH_REAL(make, __VA_ARGS__)
#define EACH_FUNCTION(make, ...) \
    EACH_REAL(make, __VA_ARGS__) \
    make(c64, float _Complex, __VA_ARGS__) make(c128, double _Complex, __VA_ARGS__)
#define EACH_PARTS EACH_FUNCTION

#define FUNCTION(suffix, type, name, identity, combination)                              \
    static type pairwise_##name##_##suffix(const type *values, size_t count, bool fused) \
    {                                                                                    \
        (void)fused;                                                                     \
        if (count <= PAIRWISE_SEQUENCE) {                                                \
            type a = values[0];                                                          \
            for (size_t i = 1; i < count; i++) {                                         \
                const type b = values[i];                                                \
                a = combination;                                                         \
            }                                                                            \
            return a;                                                                    \
        }                                                                                \
        const size_t half =                                                              \
            (count / 2 + PAIRWISE_SEQUENCE - 1) / PAIRWISE_SEQUENCE * PAIRWISE_SEQUENCE; \
        const type a = pairwise_##name##_##suffix(values, half, fused);                  \
        const type b = pairwise_##name##_##suffix(values + half, count - half, fused);   \
        return combination;                                                              \
    }                                                                                    \
    static void reduce_##name##_##suffix(void *result, const void *values, size_t count, \
                                         bool fused)                                     \
    {                                                                                    \
        type a = 0;                                                                      \
        a = count ? pairwise_##name##_##suffix(values, count, fused) : (identity);       \
        *(type *)result = OP_##name == OP_sum ? a + (type)0 : a;                         \
    }
#define REDUCE(name, type, on, complex_rule, rules, identity, combination, ...) \
    EACH_##complex_rule(FUNCTION, name, identity, combination)
#include "graph/ops.def"
#undef FUNCTION

typedef void reduce_function(void *result, const void *values, size_t count, bool fused);
static reduce_function *const reduce_functions[OP_COUNT][DT_COUNT] = {
#define FUNCTION(suffix, type, name, ...) [OP_##name][DT_##suffix] = reduce_##name##_##suffix,
#define REDUCE(name, type, on, complex_rule, ...) EACH_##complex_rule(FUNCTION, name)
#include "graph/ops.def"
#undef FUNCTION
};

/* -- reductions -------------------------------------------------------------------------------- */

static void reduce_lines(struct eval *eval, const struct node *node, const struct strided *view,
                         int64_t length, void *line, struct eval_tensor *out)
{
    const enum dtype compute = dtype_info[view->dtype].compute;
    const int64_t count = eval_tensor_count(out);
    struct walk walk = {0};
    if (count && length)
        walk = walk_new(view);
    for (int64_t i = 0; i < count; i++) {
        _Alignas(16) char reduced[EVAL_ELEMENT_MAX], result[EVAL_ELEMENT_MAX];
        if (length)
            walk_load(&walk, line, length);
        reduce_functions[node->op][compute](reduced, line, (size_t)length, eval->options->fma);
        convert_compute(dtype_info[out->dtype].compute, result, compute, reduced, 1);
        convert_store(out->dtype, (char *)out->bytes + i * dtype_size(out->dtype), 1, result, 1);
    }
}

phasor_status eval_reduce(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    struct strided view = eval_strided(eval_argument(eval, node, 0));
    const enum dtype compute = dtype_info[view.dtype].compute;
    bool reduced[RANK_MAX] = {false};
    int64_t length = 1;
    for (int i = 0; i < node->attributes.axis_count; i++) {
        reduced[node->attributes.axes[i]] = true;
        length *= view.sizes[node->attributes.axes[i]];
    }
    if (!reduce_functions[node->op][compute])
        return fail(PHASOR_ERROR_REFUSED, "not defined on %s", dtype_text(view.dtype));
    void *line = memory_new((size_t)length * (size_t)dtype_size(compute));
    if (!line)
        return fail_memory();
    strided_axes_last(&view, reduced);
    reduce_lines(eval, node, &view, length, line, out);
    memory_free(line);
    return PHASOR_OK;
}

/* -- lines along one axis ---------------------------------------------------------------------- */

/* Line k of a row-major tensor along an axis: where it starts; its elements lie `inner` apart. */
static int64_t line_start(int64_t k, int64_t length, int64_t inner)
{
    return k / inner * length * inner + k % inner;
}

/* The first largest, by double or int64_t: every real compute type goes into one of them exactly.
 * NaN wins. */
static int64_t line_argmax_f64(const double *line, int64_t length, bool smallest)
{
    int64_t best = 0;
    for (int64_t i = 1; i < length && line[best] == line[best]; i++)
        if (line[i] != line[i] || (smallest ? line[i] < line[best] : line[i] > line[best]))
            best = i;
    return best;
}

static int64_t line_argmax_i64(const int64_t *line, int64_t length, bool smallest)
{
    int64_t best = 0;
    for (int64_t i = 1; i < length; i++)
        if (smallest ? line[i] < line[best] : line[i] > line[best])
            best = i;
    return best;
}

static phasor_status argmax(struct eval *eval, const struct node *node, struct eval_tensor *out,
                            bool smallest)
{
    const struct eval_tensor *a = eval_argument(eval, node, 0);
    const int axis = node->attributes.axis;
    const int64_t length = a->sizes[axis], inner = eval_product(a, axis + 1, a->rank),
                  count = eval_tensor_count(out);
    const enum dtype wide = dtype_is_float(a->dtype) ? DT_f64 : DT_i64,
                     compute = dtype_info[a->dtype].compute;
    if (count && length == 0)
        return fail(PHASOR_ERROR_INPUT, "axis %d has no elements", axis);
    char *line = memory_new(2 * (size_t)length * sizeof(int64_t)),
         *loaded = line ? line + length * 8 : NULL;
    if (!line)
        return fail_memory();
    for (int64_t k = 0; k < count; k++) {
        const char *start =
            (const char *)a->bytes + line_start(k, length, inner) * dtype_size(a->dtype);
        convert_load(a->dtype, loaded, start, inner, (size_t)length);
        convert_compute(wide, line, compute, loaded, (size_t)length);
        ((int64_t *)out->bytes)[k] = wide == DT_f64
                                         ? line_argmax_f64((const double *)line, length, smallest)
                                         : line_argmax_i64((const int64_t *)line, length, smallest);
    }
    memory_free(line);
    return PHASOR_OK;
}

phasor_status eval_argmax(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    return argmax(eval, node, out, false);
}

phasor_status eval_argmin(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    return argmax(eval, node, out, true);
}

/* Running sums and products accumulate in a wider type than they are rounded to, as eager's on the
 * CPU. */
static enum dtype scan_dtype(enum dtype dtype)
{
    return dtype_is_complex(dtype) ? DT_c128
           : dtype_is_float(dtype) ? DT_f64
                                   : dtype_info[dtype].compute;
}

static phasor_status scan(struct eval *eval, const struct node *node, struct eval_tensor *out,
                          enum op op)
{
    const int axis = node->attributes.axis;
    const struct eval_tensor *a = eval_argument(eval, node, 0);
    const int64_t length = a->sizes[axis], inner = eval_product(a, axis + 1, a->rank),
                  count = eval_tensor_count(a);
    const enum dtype wide = scan_dtype(a->dtype), compute = dtype_info[a->dtype].compute;
    const int size = dtype_size(wide);
    map_function *const combine = map_find(op, wide);
    const char zero[EVAL_ELEMENT_MAX] = {0};
    char *line = memory_new(2 * (size_t)length * EVAL_ELEMENT_MAX),
         *loaded = line ? line + length * EVAL_ELEMENT_MAX : NULL;
    if (!line)
        return fail_memory();
    for (int64_t k = 0; length && k < count / length; k++) {
        const int64_t start = line_start(k, length, inner) * dtype_size(a->dtype);
        convert_load(a->dtype, loaded, (const char *)a->bytes + start, inner, (size_t)length);
        convert_compute(wide, line, compute, loaded, (size_t)length);
        if (op == OP_add)
            combine(1, line, zero, line, line, eval->options->fma);
        for (int64_t i = 1; i < length; i++) {
            char *at = line + i * size;
            combine(1, at, at - size, at, at, eval->options->fma);
        }
        convert_compute(compute, loaded, wide, line, (size_t)length);
        convert_store(out->dtype, (char *)out->bytes + start, inner, loaded, (size_t)length);
    }
    memory_free(line);
    return PHASOR_OK;
}

phasor_status eval_cumsum(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    return scan(eval, node, out, OP_add);
}

phasor_status eval_cumprod(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    return scan(eval, node, out, OP_mul);
}
