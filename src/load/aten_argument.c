/* aten_argument.c - a call's arguments as C values, and PyTorch's promotion.
 *
 *     f32[4] * f64[]     f32     a 0-dim tensor gives way to one with dims of the same category
 *     i64[4] * 2.0       f32     a Python number of a higher category takes the default dtype
 *     bf16[4] * 1j       c64     f16[4] * 1j would be complex32, which is refused */
#include "load/aten.h"

#include "graph/element.h"

#include <string.h>

/* -- arguments --------------------------------------------------------------------------------- */

bool aten_given(const struct aten *a, int index)
{
    return a->arguments[index].kind != ARGUMENT_NONE;
}

tensor aten_tensor(struct aten *a, int index)
{
    const struct argument *g = &a->arguments[index];
    if (g->kind == ARGUMENT_TENSOR || (g->kind == ARGUMENT_TENSORS && g->count == 1))
        return g->tensors[0];
    if (a->graph->status == PHASOR_OK)
        return tensor_new(a->loader, aten_value(a, index));
    return 0;
}

static struct number number_whole(int64_t integer)
{
    return (struct number){.i = integer, .re = (double)integer};
}

static struct number number_real(double real)
{
    const bool fits = real >= -9223372036854775808.0 && real < 9223372036854775808.0;
    return (struct number){.i = fits ? (int64_t)real : 0, .re = real};
}

struct operand operand_of(struct aten *a, value v)
{
    return (struct operand){.value = v, .dtype = aten_type(a, v)};
}

static struct operand operand_size(struct aten *a, dim size)
{
    struct operand out = {.dtype = DT_i64, .is_number = true};
    if (size_is_literal(a->sizes, size))
        out.number = number_whole(size_value(a->sizes, size));
    else
        out.value = graph_size(a->graph, size);
    return out;
}

static struct operand operand_complex(struct number number)
{
    struct operand out = {.dtype = DT_c64, .is_number = true, .number = number_real(number.re)};
    out.number.im = number.im;
    return out;
}

struct operand aten_operand(struct aten *a, int index)
{
    const struct argument *g = &a->arguments[index];
    switch (g->kind) {
    case ARGUMENT_TENSOR: return operand_of(a, tensor_get(a->loader, g->tensors[0]));
    case ARGUMENT_INT: return operand_size(a, g->sizes[0]);
    case ARGUMENT_FLOAT:
        return (struct operand){
            .dtype = DT_f32, .is_number = true, .number = number_real(g->numbers[0].re)};
    case ARGUMENT_BOOL:
        return (struct operand){
            .dtype = DT_bool, .is_number = true, .number = number_whole(g->flag)};
    case ARGUMENT_COMPLEX: return operand_complex(g->numbers[0]);
    default: break;
    }
    aten_refuse(a, "its argument %d is missing or no tensor or number", index);
    return (struct operand){0};
}

value aten_value(struct aten *a, int index)
{
    const struct operand operand = aten_operand(a, index);
    return aten_as(a, operand, operand.dtype);
}

dim aten_size(struct aten *a, int index)
{
    const struct argument *g = &a->arguments[index];
    if (g->kind == ARGUMENT_INT || (g->kind == ARGUMENT_INTS && g->count == 1))
        return g->sizes[0];
    if (g->kind == ARGUMENT_BOOL)
        return g->flag ? 1 : 0;
    if (g->kind == ARGUMENT_TENSOR)
        aten_refuse(a, "a size or place that depends on the values of a tensor; make it an input "
                       "of the program, or take elements by an index tensor");
    else
        aten_refuse(a, "its argument %d is missing or no integer", index);
    return 1;
}

int64_t aten_int(struct aten *a, int index)
{
    const dim size = aten_size(a, index);
    if (!size_is_literal(a->sizes, size))
        aten_refuse(a, "its argument %d depends on a size; it must be a constant", index);
    return size_value(a->sizes, size);
}

double aten_float(struct aten *a, int index)
{
    const struct argument *g = &a->arguments[index];
    return g->kind == ARGUMENT_FLOAT ? g->numbers[0].re : (double)aten_int(a, index);
}

bool aten_flag(struct aten *a, int index)
{
    const struct argument *g = &a->arguments[index];
    return g->kind == ARGUMENT_BOOL ? g->flag : g->kind != ARGUMENT_NONE && aten_int(a, index) != 0;
}

const char *aten_string(struct aten *a, int index)
{
    const struct argument *g = &a->arguments[index];
    return g->kind == ARGUMENT_STRING && g->string ? g->string : "";
}

const struct argument *aten_list(struct aten *a, int index)
{
    static const struct argument empty = {.kind = ARGUMENT_TENSORS};
    const struct argument *g = &a->arguments[index];
    if ((g->kind == ARGUMENT_TENSORS || g->kind == ARGUMENT_TENSOR) && g->count > 0)
        return g;
    aten_refuse(a, "its argument %d is no list of tensors", index);
    return &empty;
}

enum dtype aten_dtype(struct aten *a, int index, enum dtype fallback)
{
    const struct argument *g = &a->arguments[index];
    const enum dtype dtype = g->kind == ARGUMENT_DTYPE ? g->dtype : fallback;
    if (dtype_info[dtype].kind == DTC_NAMED)
        aten_refuse(a, "dtype %s is not supported", dtype_text(dtype));
    return dtype_info[dtype].kind == DTC_NAMED ? DT_f32 : dtype;
}

enum memory_format aten_format(struct aten *a, int index)
{
    const struct argument *g = &a->arguments[index];
    return g->kind == ARGUMENT_FORMAT ? g->format : FORMAT_PRESERVE;
}

int aten_sizes(struct aten *a, int index, dim sizes[RANK_MAX])
{
    const struct argument *g = &a->arguments[index];
    if (g->kind == ARGUMENT_INT) {
        sizes[0] = g->sizes[0];
        return 1;
    }
    if (g->kind == ARGUMENT_NONE || (g->kind == ARGUMENT_TENSORS && g->count == 0))
        return 0;
    if (g->kind != ARGUMENT_INTS)
        aten_refuse(a, "sizes that depend on the values of a tensor; make them inputs of the "
                       "program");
    else if (g->count > RANK_MAX)
        aten_refuse(a, "%d dims; at most %d are supported", g->count, RANK_MAX);
    else
        memcpy(sizes, g->sizes ? g->sizes : sizes, (size_t)g->count * sizeof *sizes);
    return a->reason ? 0 : g->count;
}

int axis_normalise(struct aten *a, int64_t axis, int rank)
{
    const int64_t shown = axis, limit = rank ? rank : 1;
    if (axis < 0)
        axis += limit;
    if (axis >= 0 && axis < limit)
        return (int)axis;
    aten_refuse(a, "dim %lld of a tensor of rank %d", (long long)shown, rank);
    return 0;
}

int aten_axis(struct aten *a, int index, int rank)
{
    return axis_normalise(a, aten_int(a, index), rank);
}

int aten_axes(struct aten *a, int index, int rank, bool empty_is_all, int axes[RANK_MAX])
{
    dim sizes[RANK_MAX];
    const int count = aten_sizes(a, index, sizes);
    if (!aten_given(a, index) || (count == 0 && empty_is_all)) {
        for (int d = 0; d < rank; d++)
            axes[d] = d;
        return rank;
    }
    for (int i = 0; i < count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): aten_sizes fills count of them */
        axes[i] = axis_normalise(a, size_value(a->sizes, sizes[i]), rank);
    return rank ? count : 0;
}

/* -- values ------------------------------------------------------------------------------------ */

value aten_cast(struct aten *a, value v, enum dtype dtype)
{
    if (dtype_info[dtype].kind == DTC_NAMED) {
        aten_refuse(
            a, dtype == DT_c32
                   ? "its result is complex32 (pairs of float16), which is not supported; cast to "
                     "float32 first"
                   : "its result has a dtype that is not supported");
        return v;
    }
    if (aten_type(a, v) == dtype)
        return v;
    if (!a->implied && a->call->origin) {
        struct origin *origin = arena_copy(a->graph->arena, a->call->origin, sizeof *origin);
        if (!origin)
            return graph_fail(a->graph, fail_memory(), "out of memory");
        origin->implied = true;
        a->implied = origin;
    }
    const struct origin *before = a->graph->origin;
    a->graph->origin = a->implied;
    v = graph_cast(a->graph, v, dtype);
    a->graph->origin = before;
    return v;
}

value aten_wide(struct aten *a, value v)
{
    const enum dtype dtype = aten_type(a, v);
    return dtype == DT_f16 || dtype == DT_bf16 ? aten_cast(a, v, DT_f32) : v;
}

enum dtype aten_inexact(enum dtype dtype)
{
    return dtype_is_integer(dtype) ? DT_f32 : dtype;
}

value aten_number(struct aten *a, enum dtype dtype, double number)
{
    return graph_float(a->graph, dtype, number);
}

value aten_clone(struct aten *a, value v, enum memory_format format)
{
    return graph_add(a->graph, OP_clone, DT_bool, &v, 1, &(struct attributes){.flag = format},
                     NULL);
}

value aten_with_axis(struct aten *a, value v)
{
    return aten_rank(a, v) ? v : graph_reshape(a->graph, v, &(dim){1}, 1);
}

bool aten_order(struct aten *a, value v, int order[RANK_MAX])
{
    struct layout layout;
    if (!loader_layout(a->loader, v, &layout) || !layout_is_dense(&a->loader->layouts, v, order))
        return false;
    const int *copy = arena_copy(a->graph->arena, order, (size_t)aten_rank(a, v) * sizeof *order);
    const struct graph_claim claim = {CLAIM_ORDER, v, copy, a->call->origin};
    if ((aten_rank(a, v) && !copy) || !array_push(&a->graph->claims, claim))
        graph_fail(a->graph, fail_memory(), "out of memory");
    return a->graph->status == PHASOR_OK;
}

/* What is written in place keeps the order of dims that it has. */
value aten_row_major(struct aten *a, value v)
{
    return a->in_place ? v : aten_clone(a, v, FORMAT_CONTIGUOUS);
}

/* An insert has the layout of what it is put into; all of that is replaced here. A write in place
 * does without: its memory has that layout, and what reads the base would need a copy of it. */
value aten_laid_out_as(struct aten *a, value pattern, value v)
{
    const struct attributes at = {.step = 1};
    if (a->in_place || aten_rank(a, pattern) == 0)
        return v;
    pattern = aten_clone(a, pattern, FORMAT_PRESERVE); /* an insert would keep gaps, too */
    return graph_add(a->graph, OP_insert, DT_bool, (value[]){pattern, v}, 2, &at, NULL);
}

value aten_full(struct aten *a, value scalar, const dim *sizes, int rank)
{
    const value filled = graph_expand(a->graph, scalar, sizes, rank);
    return filled == scalar ? scalar : aten_clone(a, filled, FORMAT_CONTIGUOUS);
}

dim aten_count(struct aten *a, value v, const int *axes, int count)
{
    dim product = 1;
    for (int i = 0; i < count; i++)
        product = size_mul(a->sizes, product, aten_shape(a, v)[axes[i]]);
    return product;
}

int aten_broadcast(struct aten *a, dim *shape, int rank, const dim *other, int other_rank)
{
    dim merged[RANK_MAX];
    const int result = rank > other_rank ? rank : other_rank;
    for (int d = 1; d <= result; d++) {
        const dim mine = d <= rank ? shape[rank - d] : 1,
                  its = d <= other_rank ? other[other_rank - d] : 1;
        merged[result - d] = size_value(a->sizes, mine) == 1 ? its : mine;
    }
    memcpy(shape, merged, (size_t)result * sizeof *shape);
    return result;
}

/* -- promotion --------------------------------------------------------------------------------- */

#define UNDEFINED DT_COUNT /* no operand of that level */

static bool is_complex(enum dtype dtype)
{
    return dtype_is_complex(dtype) || dtype == DT_c32;
}

/* The dtype of operands with dims wins unless the others are of a higher category. */
static enum dtype promote_levels(enum dtype higher, enum dtype lower)
{
    if (higher == UNDEFINED || lower == UNDEFINED)
        return higher == UNDEFINED ? lower : higher;
    if (is_complex(higher))
        return higher;
    if (dtype_is_float(higher)) {
        if (is_complex(lower))
            return higher == DT_f16 ? DT_c32 : dtype_complex_of(higher);
        return higher;
    }
    if (higher == DT_bool || dtype_is_float(lower) || is_complex(lower))
        return dtype_promote(higher, lower);
    return higher;
}

enum dtype aten_promote(struct aten *a, const struct operand *operands, int count)
{
    enum dtype levels[3] = {UNDEFINED, UNDEFINED, UNDEFINED}; /* with dims, 0-dim, Python numbers */
    for (int i = 0; i < count; i++) {
        const int level = operands[i].is_number ? 2 : aten_rank(a, operands[i].value) == 0;
        levels[level] = levels[level] == UNDEFINED
                            ? operands[i].dtype
                            : dtype_promote(levels[level], operands[i].dtype);
    }
    const enum dtype dtype = promote_levels(levels[0], promote_levels(levels[1], levels[2]));
    return dtype == UNDEFINED ? DT_f32 : dtype;
}

/* A literal rounded to f16 or bf16; one that does not fit stays. */
static struct number number_rounded(struct number number, enum dtype dtype)
{
    char bytes[16];
    const bool narrow = dtype == DT_f16 || dtype == DT_bf16;
    return narrow && element_store(dtype, number, bytes) ? element_load(dtype, bytes) : number;
}

value aten_as(struct aten *a, struct operand operand, enum dtype dtype)
{
    if (!operand.value)
        operand.number = number_rounded(operand.number, dtype);
    return aten_as_written(a, operand, dtype);
}

value aten_as_written(struct aten *a, struct operand operand, enum dtype dtype)
{
    if (operand.value)
        return aten_cast(a, operand.value, dtype);
    if (dtype_info[dtype].kind == DTC_NAMED)
        return aten_cast(a, aten_number(a, DT_f32, 0), dtype);
    if (dtype == DT_bool)
        operand.number = number_whole(operand.number.re != 0 || operand.number.im != 0);
    return graph_scalar(a->graph, dtype, operand.number);
}

enum dtype aten_pair(struct aten *a, int x, int y, int how, value out[2])
{
    const struct operand operands[2] = {aten_operand(a, x), aten_operand(a, y)};
    enum dtype dtype = aten_promote(a, operands, 2);
    if (how & PAIR_INEXACT)
        dtype = aten_inexact(dtype);
    for (int i = 0; i < 2; i++)
        out[i] = how & PAIR_AS_WRITTEN ? aten_as_written(a, operands[i], dtype)
                                       : aten_as(a, operands[i], dtype);
    return dtype;
}
