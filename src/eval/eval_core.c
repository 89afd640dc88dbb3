/* eval_core.c - sort_index, dot, the leaves, and `unknown`, which fails.
 *
 *     sort_index(f32[3]) axis=0 of 2 nan 1     2 0 1      NaN counts as the largest
 *     dot(f32[2, 3], f32[3, 4])                f32[2, 4], accumulated in double
 */
#include "eval/convert.h"
#include "eval/parts.h"
#include "eval/reference.h"
#include "graph/element.h"

#include <string.h>

/* -- sort_index -------------------------------------------------------------------------------- */

/* Whether element a must come before element b; equal ones keep their order. */
struct order {
    const double *floats; /* or NULL */
    const int64_t *integers;
    bool descending;
};

static bool order_before(const struct order *order, int64_t a, int64_t b)
{
    if (order->descending) {
        const int64_t swap = a;
        a = b;
        b = swap;
    }
    if (!order->floats)
        return order->integers[a] < order->integers[b];
    const double x = order->floats[a], y = order->floats[b];
    return x < y || (y != y && x == x);
}

/* Merges from[first..middle) and from[middle..end) into `to`. */
static void sort_merge(const struct order *order, const int64_t *from, int64_t *to, int64_t first,
                       int64_t middle, int64_t end)
{
    int64_t left = first, right = middle;
    for (int64_t i = first; i < end; i++) {
        const bool take_right =
            right < end && (left == middle || order_before(order, from[right], from[left]));
        to[i] = from[take_right ? right++ : left++];
    }
}

/* Sorts 0 .. length - 1; gives the one of the two arrays in which the result is. */
static int64_t *sort_line(const struct order *order, int64_t length, int64_t *indices,
                          int64_t *other)
{
    for (int64_t i = 0; i < length; i++)
        indices[i] = i;
    for (int64_t width = 1; width < length; width *= 2) {
        for (int64_t first = 0; first < length; first += 2 * width) {
            const int64_t middle = first + width < length ? first + width : length;
            const int64_t end = middle + width < length ? middle + width : length;
            sort_merge(order, indices, other, first, middle, end);
        }
        int64_t *swap = indices;
        indices = other;
        other = swap;
    }
    return indices;
}

phasor_status eval_sort_index(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct eval_tensor *a = eval_argument(eval, node, 0);
    const int axis = node->attributes.axis;
    const int64_t length = a->sizes[axis], inner = eval_product(a, axis + 1, a->rank);
    const int64_t lines = length ? eval_tensor_count(a) / length : 0;
    const bool floats = dtype_is_float(a->dtype);
    int64_t *memory = memory_new(4 * (size_t)length * sizeof *memory);
    if (!memory)
        return fail_memory();
    int64_t *loaded = memory + length;
    const struct order order = {floats ? (const double *)memory : NULL, memory,
                                node->attributes.flag != 0};
    for (int64_t k = 0; k < lines; k++) {
        const int64_t start = k / inner * length * inner + k % inner;
        convert_load(a->dtype, loaded, (const char *)a->bytes + start * dtype_size(a->dtype), inner,
                     (size_t)length);
        convert_compute(floats ? DT_f64 : DT_i64, memory, dtype_info[a->dtype].compute, loaded,
                        (size_t)length);
        const int64_t *sorted = sort_line(&order, length, memory + 2 * length, memory + 3 * length);
        convert_store(DT_i64, (int64_t *)out->bytes + start, inner, sorted, (size_t)length);
    }
    memory_free(memory);
    return PHASOR_OK;
}

/* -- dot --------------------------------------------------------------------------------------- */

/* row[j] += a * b[j] over one of the wide types. */
#define DOT_ROW(suffix, type)                                                               \
    static void dot_row_##suffix(void *row, const void *a, const void *b, int64_t count)    \
    {                                                                                       \
        const bool fused = false;                                                           \
        const type factor = *(const type *)a;                                               \
        for (int64_t j = 0; j < count; j++)                                                 \
            ((type *)row)[j] = plus(((type *)row)[j], times(factor, ((const type *)b)[j])); \
    }
DOT_ROW(i64, int64_t)
DOT_ROW(f64, double)
DOT_ROW(c128, double _Complex)

static void (*const dot_rows[DT_COUNT])(void *row, const void *a, const void *b, int64_t count) = {
    [DT_i64] = dot_row_i64, [DT_f64] = dot_row_f64, [DT_c128] = dot_row_c128};

/* [m, k] x [k, n] in the wide type, one row of the result at a time. */
struct dot {
    int64_t m, k, n;
    enum dtype dtype, compute, wide;
    int size; /* of a wide element */
    char *a, *b, *row, *scratch;
};

static void dot_load(const struct dot *dot, char *wide, const char *bytes, int64_t count)
{
    convert_load(dot->dtype, dot->scratch, bytes, 1, (size_t)count);
    convert_compute(dot->wide, wide, dot->compute, dot->scratch, (size_t)count);
}

static void dot_matrix(const struct dot *dot, const char *a, const char *b, char *out)
{
    const int size = dtype_size(dot->dtype);
    for (int64_t r = 0; r < dot->k; r++)
        dot_load(dot, dot->b + r * dot->n * dot->size, b + r * dot->n * size, dot->n);
    for (int64_t i = 0; i < dot->m; i++) {
        dot_load(dot, dot->a, a + i * dot->k * size, dot->k);
        memset(dot->row, 0, (size_t)(dot->n * dot->size));
        for (int64_t r = 0; r < dot->k; r++)
            dot_rows[dot->wide](dot->row, dot->a + r * dot->size, dot->b + r * dot->n * dot->size,
                                dot->n);
        convert_compute(dot->compute, dot->scratch, dot->wide, dot->row, (size_t)dot->n);
        convert_store(dot->dtype, out + i * dot->n * size, 1, dot->scratch, (size_t)dot->n);
    }
}

/* The scratch memory, in one block: a row of a and of the result, one line as loaded, then b. */
static phasor_status dot_allocate(struct dot *dot)
{
    const size_t longest = (size_t)(dot->k > dot->n ? dot->k : dot->n), size = (size_t)dot->size;
    const size_t lines = (size_t)(dot->k + dot->n) * size + longest * EVAL_ELEMENT_MAX;
    size_t nbytes;
    if (__builtin_mul_overflow((size_t)dot->k * size, (size_t)dot->n, &nbytes) ||
        __builtin_add_overflow(nbytes, lines, &nbytes))
        return fail_memory();
    dot->a = memory_new(nbytes);
    if (!dot->a)
        return fail_memory();
    dot->row = dot->a + dot->k * dot->size;
    dot->scratch = dot->row + dot->n * dot->size;
    dot->b = dot->a + lines;
    return PHASOR_OK;
}

phasor_status eval_dot(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct eval_tensor *a = eval_argument(eval, node, 0), *b = eval_argument(eval, node, 1);
    const int last = a->rank - 1, size = dtype_size(a->dtype);
    struct dot dot = {.m = a->sizes[last - 1],
                      .k = a->sizes[last],
                      .n = b->sizes[last],
                      .dtype = a->dtype,
                      .compute = dtype_info[a->dtype].compute};
    dot.wide = dtype_is_complex(a->dtype) ? DT_c128 : dtype_is_float(a->dtype) ? DT_f64 : DT_i64;
    dot.size = dtype_size(dot.wide);
    TRY(dot_allocate(&dot));
    const int64_t count = eval_product(a, 0, last - 1);
    for (int64_t i = 0; i < count; i++)
        dot_matrix(&dot, (const char *)a->bytes + i * dot.m * dot.k * size,
                   (const char *)b->bytes + i * dot.k * dot.n * size,
                   (char *)out->bytes + i * dot.m * dot.n * size);
    memory_free(dot.a);
    return PHASOR_OK;
}

/* -- leaves ------------------------------------------------------------------------------------ */

/* A view of the caller's memory with the shape that the graph says; in a bool every byte but 0
 * becomes 1. */
static phasor_status copy_view(const struct eval_view *view, struct eval_tensor *out)
{
    const bool byte_for_bool = out->dtype == DT_bool && view->dtype == DT_u8;
    if (view->dtype != out->dtype && !byte_for_bool)
        return fail(PHASOR_ERROR_INPUT, "a tensor of %s is given, not of %s",
                    dtype_text(view->dtype), dtype_text(out->dtype));
    if (!view->bytes && eval_tensor_count(out))
        return fail(PHASOR_ERROR_INPUT, "no memory is given");
    struct strided from = strided_new(out->dtype, out->rank, out->sizes, view->bytes);
    const struct strided to = strided_new(out->dtype, out->rank, out->sizes, out->bytes);
    from.count = -1;
    for (int d = 0; view->strides && d < out->rank; d++)
        from.strides[d] = view->strides[d];
    TRY(strided_copy(&to, &from));
    unsigned char *bytes = out->bytes;
    for (int64_t i = 0; out->dtype == DT_bool && i < eval_tensor_count(out); i++)
        bytes[i] = bytes[i] != 0;
    return PHASOR_OK;
}

phasor_status eval_input(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const int index = node->attributes.index;
    if (!eval->inputs || index < 0 || index >= eval->inputs->input_count)
        return fail(PHASOR_ERROR_USAGE, "input %d has no value here", index);
    return copy_view(&eval->inputs->inputs[index], out);
}

phasor_status eval_state(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const int index = node->attributes.index;
    if (!eval->inputs || index < 0 || index >= eval->inputs->state_count)
        return fail(PHASOR_ERROR_USAGE, "buffer %d has no value here", index);
    return copy_view(&eval->inputs->states[index], out);
}

phasor_status eval_data(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct data *data = node->attributes.data;
    (void)eval;
    if (!data_is_inside(data))
        return fail(PHASOR_ERROR_FILE, "data %s reaches beyond its storage",
                    data->name ? data->name : "");
    if (data_count(data) == 0)
        return PHASOR_OK;
    const char *first = (const char *)data->storage->bytes + data->offset * dtype_size(data->dtype);
    return copy_view(&(struct eval_view){data->dtype, first, data->strides}, out);
}

phasor_status eval_scalar(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    _Alignas(16) char computed[EVAL_ELEMENT_MAX];
    (void)eval;
    convert_number(node->dtype, node->attributes.number, computed);
    convert_store(out->dtype, out->bytes, 1, computed, 1);
    return PHASOR_OK;
}

phasor_status eval_size(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    *(int64_t *)out->bytes = eval_dim(eval, node->attributes.sizes[0]);
    return PHASOR_OK;
}

phasor_status eval_iota(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    (void)eval, (void)node;
    for (int64_t i = 0; i < out->sizes[0]; i++)
        ((int64_t *)out->bytes)[i] = i;
    return PHASOR_OK;
}

phasor_status eval_unknown(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    (void)eval, (void)out;
    return fail(PHASOR_ERROR_REFUSED, "the operator %s is unknown",
                node->attributes.text ? node->attributes.text : "");
}
