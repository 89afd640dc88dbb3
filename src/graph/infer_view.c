/* infer_view.c - shapes of the views; see infer.c. */
#include "graph/infer_private.h"

#include <string.h>

static dim count_of(struct sizes *sizes, const dim *shape, int rank)
{
    dim count = 1;
    for (int d = 0; d < rank; d++)
        count = size_mul(sizes, count, shape[d]);
    return count;
}

phasor_status infer_check_axis(struct inference *in, int axis, int rank)
{
    return axis >= 0 && axis < rank ? PHASOR_OK : infer_fail(in, "axis out of range");
}

phasor_status infer_check_axes(struct inference *in, int rank)
{
    bool seen[RANK_MAX] = {false};
    for (int i = 0; i < in->node->attributes.axis_count; i++) {
        TRY(infer_check_axis(in, in->node->attributes.axes[i], rank));
        if (seen[in->node->attributes.axes[i]])
            return infer_fail(in, "an axis occurs twice");
        seen[in->node->attributes.axes[i]] = true;
    }
    return PHASOR_OK;
}

phasor_status infer_take_sizes(struct inference *in)
{
    const struct attributes *at = &in->node->attributes;
    if (at->size_count > RANK_MAX)
        return infer_fail(in, "too many dims");
    in->node->rank = at->size_count;
    for (int d = 0; d < at->size_count; d++) {
        if (size_at(in, at->sizes[d]) < 0)
            return infer_fail(in, "a negative size");
        in->shape[d] = at->sizes[d];
    }
    return PHASOR_OK;
}

phasor_status infer_reshape(struct inference *in)
{
    TRY(infer_take_sizes(in));
    struct sizes *sizes = in->graph->sizes;
    const struct node *a = argument(in, 0);
    if (size_at(in, count_of(sizes, a->shape, a->rank)) !=
        size_at(in, count_of(sizes, in->shape, in->node->rank)))
        return infer_fail(in, "the number of elements must stay the same");
    return PHASOR_OK;
}

phasor_status infer_permute(struct inference *in)
{
    const struct node *a = argument(in, 0);
    TRY(infer_check_axes(in, a->rank));
    if (in->node->attributes.axis_count != a->rank)
        return infer_fail(in, "needs each axis once");
    in->node->rank = a->rank;
    for (int d = 0; d < a->rank; d++)
        in->shape[d] = a->shape[in->node->attributes.axes[d]];
    return PHASOR_OK;
}

phasor_status infer_expand(struct inference *in)
{
    TRY(infer_take_sizes(in));
    const struct node *a = argument(in, 0);
    if (a->rank > in->node->rank)
        return infer_fail(in, "fewer dims than the operand");
    for (int d = 1; d <= a->rank; d++) {
        const dim from = a->shape[a->rank - d];
        const int64_t old = size_at(in, from), new = size_at(in, in->shape[in->node->rank - d]);
        if (old != new &&old != 1)
            return infer_fail(in, "only dims of size 1 can grow");
        if (old != new)
            size_pin_symbols(in->graph->sizes, from);
    }
    return PHASOR_OK;
}

/* start + step * (length - 1) must be inside; an empty slice may start at the end. */
static phasor_status check_range(struct inference *in, dim of, int64_t start, int64_t length,
                                 int64_t step)
{
    const int64_t size = size_at(in, of);
    int64_t last;
    if (step < 1 || length < 0 || start < 0 || start > size)
        return infer_fail(in, "slice out of range");
    if (length == 0)
        return PHASOR_OK;
    if (__builtin_mul_overflow(step, length - 1, &last) || last >= size - start)
        return infer_fail(in, "slice out of range");
    return PHASOR_OK;
}

phasor_status infer_slice(struct inference *in)
{
    const struct attributes *at = &in->node->attributes;
    shape_of_argument(in, 0);
    TRY(infer_check_axis(in, at->axis, in->node->rank));
    TRY(check_range(in, in->shape[at->axis], size_at(in, at->start), size_at(in, at->length),
                    at->step));
    in->shape[at->axis] = at->length;
    return PHASOR_OK;
}

void infer_shape_remove(struct inference *in, int axis)
{
    in->node->rank--;
    memmove(in->shape + axis, in->shape + axis + 1,
            (size_t)(in->node->rank - axis) * sizeof *in->shape);
}

static phasor_status shape_append(struct inference *in, dim size)
{
    if (in->node->rank == RANK_MAX)
        return infer_fail(in, "too many dims");
    in->shape[in->node->rank++] = size;
    return PHASOR_OK;
}

phasor_status infer_select(struct inference *in)
{
    const struct attributes *at = &in->node->attributes;
    shape_of_argument(in, 0);
    TRY(infer_check_axis(in, at->axis, in->node->rank));
    if (size_at(in, at->start) < 0 || size_at(in, at->start) >= size_at(in, in->shape[at->axis]))
        return infer_fail(in, "index out of range");
    infer_shape_remove(in, at->axis);
    return PHASOR_OK;
}

/* The length of the diagonal that starts `offset` to the right of (or, negative, below) the first
 * element. */
static dim diagonal_length(struct inference *in, dim rows, dim columns)
{
    struct sizes *sizes = in->graph->sizes;
    const dim offset = in->node->attributes.start;
    const dim right = size_at(in, offset) > 0 ? size_sub(sizes, columns, offset) : columns;
    const dim down = size_at(in, offset) < 0 ? size_add(sizes, rows, offset) : rows;
    return size_max(sizes, size_min(sizes, right, down), 0);
}

phasor_status infer_diagonal(struct inference *in)
{
    const struct attributes *at = &in->node->attributes;
    const struct node *a = argument(in, 0);
    TRY(infer_check_axes(in, a->rank));
    if (at->axis_count != 2)
        return infer_fail(in, "needs two axes");
    for (int d = 0; d < a->rank; d++)
        if (d != at->axes[0] && d != at->axes[1])
            in->shape[in->node->rank++] = a->shape[d];
    return shape_append(in, diagonal_length(in, a->shape[at->axes[0]], a->shape[at->axes[1]]));
}

phasor_status infer_unfold(struct inference *in)
{
    const struct attributes *at = &in->node->attributes;
    struct sizes *sizes = in->graph->sizes;
    shape_of_argument(in, 0);
    TRY(infer_check_axis(in, at->axis, in->node->rank));
    const dim rest = size_sub(sizes, in->shape[at->axis], at->length);
    if (at->step < 1 || size_at(in, at->length) < 0 || size_at(in, rest) < 0)
        return infer_fail(in, "window out of range");
    in->shape[at->axis] =
        size_add(sizes, size_floordiv(sizes, rest, size_literal(sizes, at->step)), 1);
    return shape_append(in, at->length);
}

phasor_status infer_flip(struct inference *in)
{
    shape_of_argument(in, 0);
    return infer_check_axes(in, in->node->rank);
}

phasor_status infer_roll(struct inference *in)
{
    if (in->node->attributes.size_count != in->node->attributes.axis_count)
        return infer_fail(in, "needs one shift for each axis");
    return infer_flip(in);
}

phasor_status infer_pad(struct inference *in)
{
    const struct attributes *at = &in->node->attributes;
    struct sizes *sizes = in->graph->sizes;
    shape_of_argument(in, 0);
    if (at->size_count != 2 * in->node->rank)
        return infer_fail(in, "needs two sizes for each dim");
    for (int d = 0; d < in->node->rank; d++) {
        in->shape[d] =
            size_add(sizes, in->shape[d], size_add(sizes, at->sizes[2 * d], at->sizes[2 * d + 1]));
        if (size_at(in, in->shape[d]) < 0)
            return infer_fail(in, "cuts away more than there is");
    }
    return PHASOR_OK;
}

phasor_status infer_same(struct inference *in)
{
    shape_of_argument(in, 0);
    return PHASOR_OK;
}

phasor_status infer_part(struct inference *in)
{
    shape_of_argument(in, 0);
    if (!dtype_is_complex(in->node->dtype))
        return infer_fail(in, "needs a complex tensor");
    in->node->dtype = dtype_info[in->node->dtype].real;
    return PHASOR_OK;
}

phasor_status infer_view_as_real(struct inference *in)
{
    TRY(infer_part(in));
    return shape_append(in, size_literal(in->graph->sizes, 2));
}

phasor_status infer_view_as_complex(struct inference *in)
{
    shape_of_argument(in, 0);
    if (in->node->dtype != DT_f32 && in->node->dtype != DT_f64)
        return infer_fail(in, "needs f32 or f64");
    if (in->node->rank < 1 || size_at(in, in->shape[in->node->rank - 1]) != 2)
        return infer_fail(in, "needs a last dim of 2");
    in->node->dtype = dtype_complex_of(in->node->dtype);
    in->node->rank--;
    return PHASOR_OK;
}

phasor_status infer_concat(struct inference *in)
{
    const int axis = in->node->attributes.axis;
    struct sizes *sizes = in->graph->sizes;
    shape_of_argument(in, 0);
    TRY(infer_check_axis(in, axis, in->node->rank));
    for (int i = 1; i < in->node->argument_count; i++) {
        const struct node *a = argument(in, i);
        if (a->dtype != in->node->dtype || a->rank != in->node->rank)
            return infer_fail(in, "parts must have one dtype and rank");
        for (int d = 0; d < a->rank; d++)
            if (d != axis && size_at(in, a->shape[d]) != size_at(in, in->shape[d]))
                return infer_fail(in, "parts may differ along the axis only");
        in->shape[axis] = size_add(sizes, in->shape[axis], a->shape[axis]);
    }
    return PHASOR_OK;
}

static bool shapes_agree(const struct inference *in, const struct node *a, const struct node *b)
{
    if (a->rank != b->rank)
        return false;
    for (int d = 0; d < a->rank; d++)
        if (size_at(in, a->shape[d]) != size_at(in, b->shape[d]))
            return false;
    return true;
}

phasor_status infer_pair(struct inference *in)
{
    shape_of_argument(in, 0);
    if (argument(in, 1)->dtype != in->node->dtype ||
        !shapes_agree(in, argument(in, 0), argument(in, 1)))
        return infer_fail(in, "parts must have one dtype and shape");
    return shape_append(in, size_literal(in->graph->sizes, 2));
}

phasor_status infer_insert(struct inference *in)
{
    const struct attributes *at = &in->node->attributes;
    const struct node *base = argument(in, 0), *part = argument(in, 1);
    shape_of_argument(in, 0);
    TRY(infer_check_axis(in, at->axis, base->rank));
    if (part->dtype != base->dtype || part->rank != base->rank)
        return infer_fail(in, "parts must have one dtype and rank");
    for (int d = 0; d < base->rank; d++)
        if (d != at->axis && size_at(in, part->shape[d]) != size_at(in, base->shape[d]))
            return infer_fail(in, "sizes may differ along the axis only");
    return check_range(in, base->shape[at->axis], size_at(in, at->start),
                       size_at(in, part->shape[at->axis]), at->step);
}

phasor_status infer_insert_diagonal(struct inference *in)
{
    const struct attributes *at = &in->node->attributes;
    const struct node *base = argument(in, 0), *part = argument(in, 1);
    TRY(infer_check_axes(in, base->rank));
    if (at->axis_count != 2 || part->rank != base->rank - 1 || part->dtype != base->dtype)
        return infer_fail(in, "needs two axes and a diagonal of one dim less");
    const dim length = diagonal_length(in, base->shape[at->axes[0]], base->shape[at->axes[1]]);
    if (size_at(in, length) != size_at(in, part->shape[part->rank - 1]))
        return infer_fail(in, "the diagonal has another length");
    for (int d = 0, kept = 0; d < base->rank; d++)
        if (d != at->axes[0] && d != at->axes[1] &&
            size_at(in, base->shape[d]) != size_at(in, part->shape[kept++]))
            return infer_fail(in, "the diagonal has another size beside it");
    shape_of_argument(in, 0);
    return PHASOR_OK;
}
