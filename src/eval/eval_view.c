/* eval_view.c - operators that move elements: each is one or two copies between strided views.
 *
 *     flip axes=[0] of i64[3]      copy of the operand with stride -1 from its last element
 *     pad [1, 0] of i64[3]         the result is filled, then its elements 1..3 are the operand
 */
#include "eval/convert.h"
#include "eval/parts.h"

#include <string.h>

static struct strided operand_view(const struct eval *eval, const struct node *node, int index)
{
    return eval_strided(eval_argument(eval, node, index));
}

static phasor_status copy_to(struct eval_tensor *out, const struct strided *view)
{
    const struct strided whole = eval_strided(out);
    return strided_copy(&whole, view);
}

/* -- the same bytes ---------------------------------------------------------------------------- */

static phasor_status same_bytes(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct eval_tensor *a = eval_argument(eval, node, 0);
    const int64_t nbytes = eval_tensor_count(a) * dtype_size(a->dtype);
    if (nbytes != eval_tensor_count(out) * dtype_size(out->dtype))
        return fail(PHASOR_ERROR_INPUT, "the result has another number of bytes than the operand");
    memcpy(out->bytes, a->bytes, (size_t)nbytes);
    return PHASOR_OK;
}

/* Layouts of memory are not values: clone and contiguous change nothing here. */
#define SAME_BYTES(name)                                                                           \
    phasor_status eval_##name(struct eval *eval, const struct node *node, struct eval_tensor *out) \
    {                                                                                              \
        return same_bytes(eval, node, out);                                                        \
    }
SAME_BYTES(reshape)
SAME_BYTES(clone)
SAME_BYTES(contiguous)
SAME_BYTES(view_as_real)
SAME_BYTES(view_as_complex)

/* -- one strided view of the operand ----------------------------------------------------------- */

phasor_status eval_permute(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    struct strided view = operand_view(eval, node, 0);
    strided_permute(&view, node->attributes.axes);
    return copy_to(out, &view);
}

phasor_status eval_expand(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    struct strided view = operand_view(eval, node, 0);
    strided_expand(&view, out->rank, out->sizes);
    return copy_to(out, &view);
}

phasor_status eval_slice(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct attributes *at = &node->attributes;
    struct strided view = operand_view(eval, node, 0);
    strided_slice(&view, at->axis, eval_dim(eval, at->start), eval_dim(eval, at->length), at->step);
    return copy_to(out, &view);
}

phasor_status eval_select(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    struct strided view = operand_view(eval, node, 0);
    strided_select(&view, node->attributes.axis, eval_dim(eval, node->attributes.start));
    return copy_to(out, &view);
}

phasor_status eval_diagonal(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct attributes *at = &node->attributes;
    struct strided view = operand_view(eval, node, 0);
    strided_diagonal(&view, at->axes[0], at->axes[1], eval_dim(eval, at->start),
                     out->sizes[out->rank - 1]);
    return copy_to(out, &view);
}

phasor_status eval_unfold(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct attributes *at = &node->attributes;
    struct strided view = operand_view(eval, node, 0);
    const int64_t stride = view.strides[at->axis];
    strided_slice(&view, at->axis, 0, out->sizes[at->axis], at->step);
    strided_append(&view, eval_dim(eval, at->length), stride);
    return copy_to(out, &view);
}

phasor_status eval_flip(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    struct strided view = operand_view(eval, node, 0);
    for (int i = 0; i < node->attributes.axis_count; i++) {
        const int axis = node->attributes.axes[i];
        strided_slice(&view, axis, view.sizes[axis] - 1, view.sizes[axis], -1);
    }
    return copy_to(out, &view);
}

/* Real or imaginary parts: every second number of the operand's bytes. */
static phasor_status copy_parts(struct eval *eval, const struct node *node, struct eval_tensor *out,
                                int part)
{
    struct strided view = operand_view(eval, node, 0);
    view.dtype = out->dtype;
    view.count *= 2;
    view.offset = part;
    for (int d = 0; d < view.rank; d++)
        view.strides[d] *= 2;
    return copy_to(out, &view);
}

phasor_status eval_real(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    return copy_parts(eval, node, out, 0);
}

phasor_status eval_imag(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    return copy_parts(eval, node, out, 1);
}

/* -- parts of the result ----------------------------------------------------------------------- */

/* Each rolled axis is two pieces that change places: copies every combination of them. */
static phasor_status roll_axis(const int64_t *shifts, int axis, struct strided to,
                               struct strided from)
{
    if (axis == to.rank)
        return strided_copy(&to, &from);
    const int64_t size = to.sizes[axis], shift = shifts[axis];
    if (shift == 0)
        return roll_axis(shifts, axis + 1, to, from);
    struct strided to_end = to, from_end = from;
    strided_slice(&to_end, axis, 0, shift, 1);
    strided_slice(&from_end, axis, size - shift, shift, 1);
    TRY(roll_axis(shifts, axis + 1, to_end, from_end));
    strided_slice(&to, axis, shift, size - shift, 1);
    strided_slice(&from, axis, 0, size - shift, 1);
    return roll_axis(shifts, axis + 1, to, from);
}

phasor_status eval_roll(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct strided to = eval_strided(out), from = operand_view(eval, node, 0);
    int64_t shifts[RANK_MAX] = {0};
    for (int i = 0; i < node->attributes.axis_count; i++) {
        const int axis = node->attributes.axes[i];
        const int64_t size = out->sizes[axis];
        if (size)
            shifts[axis] = (eval_dim(eval, node->attributes.sizes[i]) % size + size) % size;
    }
    return roll_axis(shifts, 0, to, from);
}

static void fill(struct eval_tensor *out, struct number number)
{
    _Alignas(16) char computed[EVAL_ELEMENT_MAX], element[EVAL_ELEMENT_MAX];
    const size_t size = (size_t)dtype_size(out->dtype);
    const int64_t count = eval_tensor_count(out);
    convert_number(out->dtype, number, computed);
    convert_store(out->dtype, element, 1, computed, 1);
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)out->bytes + (size_t)i * size, element, size);
}

phasor_status eval_pad(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    struct strided to = eval_strided(out), from = operand_view(eval, node, 0);
    fill(out, node->attributes.number);
    for (int d = 0; d < out->rank; d++) {
        const int64_t before = eval_dim(eval, node->attributes.sizes[2 * d]);
        const int64_t first = before < 0 ? -before : 0; /* of the operand, that is kept */
        const int64_t room = out->sizes[d] - (first + before), rest = from.sizes[d] - first;
        const int64_t length = room < rest ? room : rest;
        if (length <= 0)
            return PHASOR_OK;
        strided_slice(&to, d, first + before, length, 1);
        strided_slice(&from, d, first, length, 1);
    }
    return strided_copy(&to, &from);
}

phasor_status eval_concat(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const int axis = node->attributes.axis;
    int64_t start = 0;
    for (int i = 0; i < node->argument_count; i++) {
        const struct strided from = operand_view(eval, node, i);
        struct strided to = eval_strided(out);
        strided_slice(&to, axis, start, from.sizes[axis], 1);
        TRY(strided_copy(&to, &from));
        start += from.sizes[axis];
    }
    return PHASOR_OK;
}

phasor_status eval_pair(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    for (int i = 0; i < 2; i++) {
        const struct strided from = operand_view(eval, node, i);
        struct strided to = eval_strided(out);
        strided_select(&to, out->rank - 1, i);
        TRY(strided_copy(&to, &from));
    }
    return PHASOR_OK;
}

phasor_status eval_insert(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct attributes *at = &node->attributes;
    const struct strided from = operand_view(eval, node, 1);
    struct strided to = eval_strided(out);
    TRY(same_bytes(eval, node, out));
    strided_slice(&to, at->axis, eval_dim(eval, at->start), from.sizes[at->axis], at->step);
    return strided_copy(&to, &from);
}

phasor_status eval_insert_diagonal(struct eval *eval, const struct node *node,
                                   struct eval_tensor *out)
{
    const struct attributes *at = &node->attributes;
    const struct strided from = operand_view(eval, node, 1);
    struct strided to = eval_strided(out);
    TRY(same_bytes(eval, node, out));
    strided_diagonal(&to, at->axes[0], at->axes[1], eval_dim(eval, at->start),
                     from.sizes[from.rank - 1]);
    return strided_copy(&to, &from);
}
