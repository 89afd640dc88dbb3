/* aten_create.c - calls that make tensors from sizes and numbers, and those that join or repeat
 * tensors.
 *
 *     aten.ones_like.default(f32[s, 32])       clone(expand(1.0, [s, 32]))
 *     aten.arange.start_step(0, s, 2)          mul(iota((s + 1) / 2), 2) : i64
 *     aten.repeat.default(x[3], [2, 4])        reshape(expand(reshape(x), [2, 4, 3]), [2, 12]) */
#include "load/aten.h"

#include <math.h>
#include <string.h>

/* -- constant tensors -------------------------------------------------------------------------- */

/* A 0-dim value that is rounded to the dtype, as a tensor is and a Python number is not. */
static value element_of(struct aten *a, struct operand number, enum dtype dtype)
{
    const bool narrow = dtype == DT_f16 || dtype == DT_bf16;
    return graph_cast(a->graph, aten_as(a, number, narrow ? DT_f32 : dtype), dtype);
}

static struct operand number_operand(double number)
{
    return (struct operand){
        .number = {.i = (int64_t)number, .re = number}, .dtype = DT_f32, .is_number = true};
}

/* The dims of the result from the outermost in memory to the innermost, by the file's strides. */
static void order_of(struct aten *a, const struct result *result, int *order)
{
    for (int d = 0; d < result->rank; d++) {
        int at = d;
        for (; at > 0 && size_value(a->sizes, result->strides[order[at - 1]]) <
                             size_value(a->sizes, result->strides[d]);
             at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
}

/* Fills a tensor that looks like another: it has its order of dims in memory too. */
static void fill_like(struct aten *a, value element, const dim *sizes, int rank)
{
    const struct result *result = a->call->result_count ? &a->call->results[0] : NULL;
    int order[RANK_MAX], back[RANK_MAX];
    dim permuted[RANK_MAX] = {0};
    bool moved = false;
    if (a->in_place || !result || !result->has_strides || result->rank != rank) {
        aten_new(a, aten_full(a, element, sizes, rank));
        return;
    }
    order_of(a, result, order);
    for (int d = 0; d < rank; d++) {
        permuted[d] = sizes[order[d]];
        back[order[d]] = d;
        moved = moved || order[d] != d;
    }
    const value full = aten_full(a, element, permuted, rank);
    aten_new(a, moved ? graph_permute(a->graph, full, back) : full);
}

/* size, fill_value, dtype */
void build_full(struct aten *a)
{
    dim sizes[RANK_MAX];
    const struct operand number = aten_operand(a, 1);
    const int rank = aten_sizes(a, 0, sizes);
    aten_new(a, aten_full(a, element_of(a, number, aten_dtype(a, 2, number.dtype)), sizes, rank));
}

/* zeros, ones, empty: size, dtype. number: what they are filled with */
void build_filled(struct aten *a)
{
    dim sizes[RANK_MAX];
    const int rank = aten_sizes(a, 0, sizes);
    const enum dtype dtype = aten_dtype(a, 1, DT_f32);
    aten_new(a, aten_full(a, element_of(a, number_operand(a->number), dtype), sizes, rank));
}

/* new_zeros, new_ones, new_empty: self, size, dtype */
void build_new_filled(struct aten *a)
{
    dim sizes[RANK_MAX];
    const int rank = aten_sizes(a, 1, sizes);
    const enum dtype dtype = aten_dtype(a, 2, aten_type(a, aten_value(a, 0)));
    aten_new(a, aten_full(a, element_of(a, number_operand(a->number), dtype), sizes, rank));
}

/* size, physical_layout, dtype: the dims of the result from the outermost in memory on */
void build_empty_permuted(struct aten *a)
{
    dim sizes[RANK_MAX], permuted[RANK_MAX] = {0};
    int order[RANK_MAX], back[RANK_MAX];
    const int rank = aten_sizes(a, 0, sizes), count = aten_axes(a, 1, rank, false, order);
    for (int d = 0; d < count; d++) {
        permuted[d] = sizes[order[d]];
        back[order[d]] = d;
    }
    const value element = element_of(a, number_operand(0), aten_dtype(a, 2, DT_f32));
    const value full = aten_full(a, element, permuted, rank);
    aten_new(a, rank > 1 ? graph_permute(a->graph, full, back) : full);
}

/* self, size, fill_value, dtype */
void build_new_full(struct aten *a)
{
    dim sizes[RANK_MAX];
    const int rank = aten_sizes(a, 1, sizes);
    const enum dtype dtype = aten_dtype(a, 3, aten_type(a, aten_value(a, 0)));
    aten_new(a, aten_full(a, element_of(a, aten_operand(a, 2), dtype), sizes, rank));
}

/* zeros_like, ones_like, empty_like: self, dtype. Also zero_ */
void build_filled_like(struct aten *a)
{
    const value x = aten_value(a, 0);
    const enum dtype dtype = aten_dtype(a, 1, aten_type(a, x));
    fill_like(a, element_of(a, number_operand(a->number), dtype), aten_shape(a, x),
              aten_rank(a, x));
}

/* full_like, fill: self, fill_value, dtype */
void build_full_like(struct aten *a)
{
    const value x = aten_value(a, 0);
    const enum dtype dtype = aten_dtype(a, 2, aten_type(a, x));
    fill_like(a, element_of(a, aten_operand(a, 1), dtype), aten_shape(a, x), aten_rank(a, x));
}

/* s, dtype */
void build_scalar_tensor(struct aten *a)
{
    aten_new(a, element_of(a, aten_operand(a, 0), aten_dtype(a, 1, DT_f32)));
}

/* -- ranges ------------------------------------------------------------------------------------ */

/* start + step * iota in integers: exact, then rounded once. */
static value arange_whole(struct aten *a, struct operand start, struct operand step, dim length,
                          enum dtype dtype)
{
    value line = graph_iota(a->graph, length);
    if (step.value || step.number.i != 1)
        line = graph_map2(a->graph, OP_mul, line, aten_as(a, step, DT_i64));
    if (start.value || start.number.i != 0)
        line = graph_map2(a->graph, OP_add, line, aten_as(a, start, DT_i64));
    return aten_cast(a, line, dtype);
}

static value arange_real(struct aten *a, double start, double step, dim length, enum dtype dtype)
{
    const value line = aten_cast(a, graph_iota(a->graph, length), DT_f64);
    const value scaled = graph_map2(a->graph, OP_mul, line, aten_number(a, DT_f64, step));
    return aten_cast(a, graph_map2(a->graph, OP_add, scaled, aten_number(a, DT_f64, start)), dtype);
}

static bool is_whole(struct operand number)
{
    return number.value ||
           (number.number.re == floor(number.number.re) && fabs(number.number.re) < 0x1p53);
}

/* A number as a size: an operand keeps no dim, so the argument is asked. */
static dim whole_size(struct aten *a, int index, int64_t fallback)
{
    if (index < 0)
        return aten_literal(a, fallback);
    const struct argument *g = &a->arguments[index];
    return g->kind == ARGUMENT_FLOAT ? aten_literal(a, (int64_t)g->numbers[0].re)
                                     : aten_size(a, index);
}

/* ceil((end - start) / step), 0 at least */
static dim arange_length(struct aten *a, dim start, dim end, int64_t step)
{
    const bool down = step < 0;
    const dim span = down ? size_sub(a->sizes, start, end) : size_sub(a->sizes, end, start);
    const int64_t size = down ? -step : step;
    const dim rounded = size_add(a->sizes, span, aten_literal(a, size - 1));
    return size_max(a->sizes,
                    size == 1 ? span : size_floordiv(a->sizes, rounded, aten_literal(a, size)), 0);
}

static void arange(struct aten *a, int start_at, int end_at, int step_at, int dtype_at)
{
    const struct argument *last = &a->arguments[end_at];
    /* needs no node */
    const bool open_end = last->kind == ARGUMENT_INT && !size_is_literal(a->sizes, last->sizes[0]);
    const struct operand start = start_at < 0 ? number_operand(0) : aten_operand(a, start_at);
    const struct operand end =
        open_end ? (struct operand){.dtype = DT_i64, .is_number = true} : aten_operand(a, end_at);
    const struct operand step = step_at < 0 ? number_operand(1) : aten_operand(a, step_at);
    const bool integers = (start_at < 0 || start.dtype == DT_i64) && end.dtype == DT_i64 &&
                          (step_at < 0 || step.dtype == DT_i64);
    const enum dtype dtype = aten_dtype(a, dtype_at, integers ? DT_i64 : DT_f32);
    if (!start.is_number && !start.value && start_at >= 0)
        return;
    if (step.value || step.number.re == 0 || step.number.i == INT64_MIN) {
        aten_refuse(a, "the step must be a constant other than 0");
    } else if (is_whole(start) && is_whole(end) && is_whole(step)) {
        const dim length =
            arange_length(a, whole_size(a, start_at, 0), whole_size(a, end_at, 0), step.number.i);
        aten_new(a, arange_whole(a, start, step, length, dtype));
    } else if (start.value || open_end) {
        aten_refuse(a, "a range of sizes with a step that is no integer");
    } else {
        const double length = ceil((end.number.re - start.number.re) / step.number.re);
        const dim count = aten_literal(a, length > 0 && length < 0x1p62 ? (int64_t)length : 0);
        aten_new(a, arange_real(a, start.number.re, step.number.re, count, dtype));
    }
}

void build_arange_end(struct aten *a)
{
    arange(a, -1, 0, -1, 1);
}

void build_arange_start(struct aten *a)
{
    arange(a, 0, 1, -1, 2);
}

void build_arange_step(struct aten *a)
{
    arange(a, 0, 1, 2, 3);
}

/* Of f16 and bf16 in f32, of integers in f64, and then towards 0. */
static enum dtype linspace_type(enum dtype dtype)
{
    return dtype_is_integer(dtype) ? DT_f64 : dtype == DT_f16 || dtype == DT_bf16 ? DT_f32 : dtype;
}

/* start, end, steps, dtype: each half counts from its own end */
void build_linspace(struct aten *a)
{
    struct graph *g = a->graph;
    const struct operand ends[2] = {aten_operand(a, 0), aten_operand(a, 1)};
    const bool complex = dtype_is_complex(ends[0].dtype) || dtype_is_complex(ends[1].dtype);
    const dim steps = aten_size(a, 2);
    const enum dtype dtype = aten_dtype(a, 3, complex ? DT_c64 : DT_f32),
                     work = linspace_type(dtype);
    const value start = aten_as(a, ends[0], work), end = aten_as(a, ends[1], work),
                line = graph_iota(g, steps);
    const dim last = size_max(a->sizes, size_sub(a->sizes, steps, 1), 1);
    const value step = graph_map2(g, OP_div, graph_map2(g, OP_sub, end, start),
                                  aten_cast(a, graph_size(g, last), work));
    const value places = aten_cast(a, line, work);
    const value forward = dtype_is_float(dtype)
                              ? graph_map3(g, OP_fma, step, places, start)
                              : graph_map2(g, OP_add, start, graph_map2(g, OP_mul, step, places));
    const value rest = graph_map2(g, OP_sub, graph_size(g, last), line);
    const value backward =
        graph_map2(g, OP_sub, end, graph_map2(g, OP_mul, step, aten_cast(a, rest, work)));
    const value half = graph_size(g, size_floordiv(a->sizes, steps, aten_literal(a, 2)));
    const value near = graph_map2(g, OP_lt, line, half);
    const bool one = size_value(a->sizes, steps) == 1;
    aten_new(a,
             aten_cast(a, one ? forward : graph_map3(g, OP_where, near, forward, backward), dtype));
}

/* -- triangles --------------------------------------------------------------------------------- */

/* column - row as i64 [rows, columns] */
static value distance_of(struct aten *a, dim rows, dim columns)
{
    const value row = graph_unsqueeze(a->graph, graph_iota(a->graph, rows), 1);
    return graph_map2(a->graph, OP_sub, graph_iota(a->graph, columns), row);
}

/* n, dtype or n, m, dtype. number: how many sizes */
void build_eye(struct aten *a)
{
    const bool both = a->number == 2;
    const enum dtype dtype = aten_dtype(a, both ? 2 : 1, DT_f32);
    const value distance = distance_of(a, aten_size(a, 0), aten_size(a, both ? 1 : 0));
    aten_new(a,
             aten_cast(a, graph_map2(a->graph, OP_eq, distance, aten_number(a, DT_i64, 0)), dtype));
}

/* tril, triu: self, diagonal=0. op: le or ge, of column - row to the diagonal */
void build_triangle(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x);
    if (rank < 2) {
        aten_refuse(a, "needs a matrix");
        return;
    }
    const value distance = distance_of(a, aten_shape(a, x)[rank - 2], aten_shape(a, x)[rank - 1]);
    const value diagonal = aten_as(a, aten_operand(a, 1), DT_i64);
    const value inside = graph_map2(a->graph, a->op, distance, diagonal);
    aten_new_row_major(
        a, graph_map3(a->graph, OP_where, inside, x, aten_number(a, aten_type(a, x), 0)));
}

/* -- joins ------------------------------------------------------------------------------------- */

/* The tensors of argument 0 in one dtype. NULL: trouble, already told. */
static value *list_promoted(struct aten *a)
{
    const struct argument *list = aten_list(a, 0);
    struct operand *operands = NEW(a->graph->arena, struct operand, list->count + 1);
    value *values = NEW(a->graph->arena, value, list->count + 1);
    if (!operands || !values)
        graph_fail(a->graph, fail_memory(), "out of memory");
    if (a->graph->status != PHASOR_OK)
        return NULL;
    for (int i = 0; i < list->count; i++)
        operands[i] = operand_of(a, tensor_get(a->loader, list->tensors[i]));
    const enum dtype dtype = aten_promote(a, operands, list->count);
    for (int i = 0; i < list->count; i++)
        values[i] = aten_cast(a, operands[i].value, dtype);
    return values;
}

/* Eager skips empty 1-dim tensors among others. */
static int list_without_empty(struct aten *a, value *values, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (aten_rank(a, values[i]) != 1 || aten_shape(a, values[i])[0] != 0)
            values[kept++] = values[i];
    return kept ? kept : 1;
}

void build_cat(struct aten *a)
{
    value *values = list_promoted(a);
    if (!values)
        return;
    const int count = list_without_empty(a, values, a->arguments[0].count);
    aten_new(a, graph_concat(a->graph, values, count, aten_axis(a, 1, aten_rank(a, values[0]))));
}

void build_stack(struct aten *a)
{
    value *values = list_promoted(a);
    if (!values)
        return;
    const int axis = aten_axis(a, 1, aten_rank(a, values[0]) + 1);
    for (int i = 0; i < a->arguments[0].count; i++)
        values[i] = graph_unsqueeze(a->graph, values[i], axis);
    aten_new(a, graph_concat(a->graph, values, a->arguments[0].count, axis));
}

/* hstack, vstack, dstack: tensors of at least 1, 2, 3 dims joined along dim 1 (hstack of lines:
 * 0), 0, 2. number: how many dims at least */
void build_stack_along(struct aten *a)
{
    value *values = list_promoted(a);
    if (!values)
        return;
    const int least = a->number;
    for (int i = 0; i < a->arguments[0].count; i++) {
        if (aten_rank(a, values[i]) == 0)
            values[i] = graph_unsqueeze(a->graph, values[i], 0);
        if (aten_rank(a, values[i]) == 1 && least > 1)
            values[i] = graph_unsqueeze(a->graph, values[i], 0);
        if (aten_rank(a, values[i]) == 2 && least > 2)
            values[i] = graph_unsqueeze(a->graph, values[i], 2);
    }
    const int axis = least == 1 ? aten_rank(a, values[0]) > 1 : least == 2 ? 0 : 2;
    aten_new(a, graph_concat(a->graph, values, a->arguments[0].count, axis));
}

/* -- repeats ----------------------------------------------------------------------------------- */

/* Each dim d becomes [times[d], size] (tiles) or [size, times[d]] (each element), and then one
 * dim. */
static value repeated(struct aten *a, value x, const dim *times, int rank, bool tiles)
{
    dim apart[RANK_MAX], wide[RANK_MAX], joined[RANK_MAX];
    int count = 0;
    for (int d = 0; d < rank; d++) {
        const dim size = aten_shape(a, x)[d];
        joined[d] = size_mul(a->sizes, size, times[d]);
        const int split = times[d] == 1 || size == 1 ? 1 : 2;
        if (count + split > RANK_MAX) {
            aten_refuse(a, "repeats along too many dims");
            return x;
        }
        if (split == 1) {
            apart[count] = size;
            wide[count] = joined[d];
        } else {
            const int outer = tiles ? count : count + 1, inner = tiles ? count + 1 : count;
            apart[outer] = 1, wide[outer] = times[d];
            apart[inner] = wide[inner] = size;
        }
        count += split;
    }
    const value spread =
        graph_expand(a->graph, graph_reshape(a->graph, x, apart, count), wide, count);
    return graph_reshape(a->graph, spread, joined, rank);
}

/* repeat, tile: self, repeats. Missing dims come first, of the tensor or (tile) of the repeats. */
void build_repeat(struct aten *a)
{
    dim given[RANK_MAX], times[RANK_MAX], shape[RANK_MAX];
    const value x = aten_value(a, 0);
    const int old = aten_rank(a, x), count = aten_sizes(a, 1, given),
              rank = count > old ? count : old;
    for (int d = 0; d < rank; d++) {
        times[d] = d < rank - count ? 1 : given[d - (rank - count)];
        shape[d] = d < rank - old ? 1 : aten_shape(a, x)[d - (rank - old)];
    }
    const value result = repeated(a, graph_reshape(a->graph, x, shape, rank), times, rank, true);
    aten_new(a, result == x ? x : aten_clone(a, result, FORMAT_CONTIGUOUS));
}

/* self, repeats, dim=None */
void build_repeat_each(struct aten *a)
{
    value x = aten_value(a, 0);
    dim times[RANK_MAX];
    if (!aten_given(a, 2) || aten_rank(a, x) == 0) {
        const dim count = graph_count(a->graph, x);
        x = graph_reshape(a->graph, x, &count, 1);
    }
    const int rank = aten_rank(a, x), axis = aten_given(a, 2) ? aten_axis(a, 2, rank) : 0;
    for (int d = 0; d < rank; d++)
        times[d] = d == axis ? aten_size(a, 1) : 1;
    aten_new(a, aten_clone(a, repeated(a, x, times, rank, false), FORMAT_CONTIGUOUS));
}

/* -- flips, rolls, pads ------------------------------------------------------------------------ */

void build_flip(struct aten *a)
{
    const value x = aten_value(a, 0);
    int axes[RANK_MAX];
    const int count = aten_axes(a, 1, aten_rank(a, x), false, axes);
    const struct attributes at = {.axes = axes, .axis_count = count};
    aten_new(a, count ? graph_add(a->graph, OP_flip, DT_bool, &x, 1, &at, NULL) : x);
}

static value roll_axes(struct aten *a, value x, const int *axes, const dim *shifts, int count)
{
    const struct attributes at = {
        .axes = axes, .axis_count = count, .sizes = shifts, .size_count = count};
    return graph_add(a->graph, OP_roll, DT_bool, &x, 1, &at, NULL);
}

/* self, shifts, dims=[]: without dims, the flattened tensor rolls */
void build_roll(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x);
    dim shifts[RANK_MAX];
    int axes[RANK_MAX];
    const int count = aten_sizes(a, 1, shifts), named = aten_axes(a, 2, rank, false, axes);
    const int needed = named > 0 ? named : 1; /* without dims, one for all elements */
    if (rank == 0) {
        aten_new(a, x);
    } else if (count != needed) {
        aten_refuse(a, "%d shifts for %d dims", count, needed);
    } else if (named > 0) {
        aten_new(a, roll_axes(a, x, axes, shifts, count));
    } else {
        const dim total = graph_count(a->graph, x);
        axes[0] = 0;
        const value flat = roll_axes(a, graph_reshape(a->graph, x, &total, 1), axes, shifts, 1);
        aten_new(a, graph_reshape(a->graph, flat, aten_shape(a, x), rank));
    }
}

/* fftshift and ifftshift: self, dim=None: by half of each dim. number: 1 rounds the half up */
void build_shift_half(struct aten *a)
{
    const value x = aten_value(a, 0);
    dim shifts[RANK_MAX];
    int axes[RANK_MAX];
    const int count = aten_axes(a, 1, aten_rank(a, x), false, axes);
    for (int i = 0; i < count; i++) {
        const dim size = size_add(a->sizes, aten_shape(a, x)[axes[i]], aten_literal(a, a->number));
        shifts[i] = size_floordiv(a->sizes, size, aten_literal(a, 2));
    }
    aten_new(a, count ? roll_axes(a, x, axes, shifts, count) : x);
}

/* The file lists pairs from the last dim on; the graph from the first. */
static void pad_constant(struct aten *a, struct operand filling)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x);
    dim given[RANK_MAX], sizes[2 * RANK_MAX] = {0};
    const int count = aten_sizes(a, 1, given);
    for (int i = 0; i + 1 < count && i / 2 < rank; i += 2) {
        sizes[2 * (rank - 1 - i / 2)] = given[i];
        sizes[2 * (rank - 1 - i / 2) + 1] = given[i + 1];
    }
    struct attributes at = {.sizes = sizes, .size_count = 2 * rank, .number = filling.number};
    if (aten_type(a, x) == DT_bool)
        at.number.i = filling.number.re != 0;
    if (filling.value)
        aten_refuse(a, "a padding value that is not constant");
    else
        aten_new(a, count ? graph_add(a->graph, OP_pad, DT_bool, &x, 1, &at, NULL) : x);
}

/* self, pad, value=0 */
void build_pad_constant(struct aten *a)
{
    pad_constant(a, aten_operand(a, 2));
}

/* self, pad, mode="constant", value=None */
void build_pad(struct aten *a)
{
    if (strcmp(aten_string(a, 2), "constant") == 0)
        pad_constant(a, aten_given(a, 3) ? aten_operand(a, 3) : number_operand(0));
    else
        pad_by_itself(a, aten_string(a, 2));
}
