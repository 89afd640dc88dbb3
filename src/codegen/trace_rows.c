/* trace_rows.c - one function a row: from coordinates of a result to an element of it.
 *
 *     slice(%1) axis=1 start=3 step=2, at [b, k]     element of %1 at [b, 2*k + 3]
 *     concat(%1, %2) axis=0, at [i]                  i < 5 ? element of %1 at [i] : element of %2
 *                                                    at [i - 5]
 *
 * The table at the end names them. */
#include "codegen/trace_private.h"

#include "graph/element.h"

#include <string.h>

/* An operand that is a scalar keeps the precision of the compute type; anywhere else it is
 * rounded. */
static expr trace_operand(struct trace *trace, value v, const form *at, int rank, guard g)
{
    const struct node *n = node_at(trace, v);
    return n->op == OP_scalar ? trace_literal(trace, n->dtype, n->attributes.number)
                              : trace_broadcast(trace, v, at, rank, g);
}

static expr trace_elementwise(struct trace *trace, const struct node *n, const form *at, guard g,
                              enum op op)
{
    expr arguments[3];
    for (int i = 0; i < n->argument_count; i++)
        arguments[i] = trace_operand(trace, n->arguments[i], at, n->rank, g);
    return trace_map(trace, op, n->dtype, arguments, n->argument_count);
}

#define MAP(name, ...)                                                                       \
    static expr trace_##name(struct trace *t, const struct node *n, const form *at, guard g) \
    {                                                                                        \
        return trace_elementwise(t, n, at, g, OP_##name);                                    \
    }
#include "graph/ops.def"

static expr trace_clone(struct trace *trace, const struct node *n, const form *at, guard g)
{
    return trace_element(trace, n->arguments[0], at, g);
}
#define trace_contiguous trace_clone

/* Whether the product `mine` is the smaller one and goes on growing: known where one is a multiple
 * of the other, and asked otherwise. */
static bool grows_first(struct sizes *sizes, dim mine, dim theirs)
{
    dim ratio;
    if (mine != 0 && theirs != 0 && mine != theirs) {
        if (size_divide_exactly(sizes, mine, theirs, &ratio))
            return false;
        if (size_divide_exactly(sizes, theirs, mine, &ratio))
            return true;
    }
    return mine == theirs || !size_is_less(sizes, theirs, mine);
}

/* Dims that both sides have are passed on; what lies between two such places is flattened and cut
 * anew. */
static expr trace_reshape(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct node *a = node_at(trace, n->arguments[0]);
    struct sizes *sizes = trace->index.sizes;
    form in[RANK_MAX];
    for (int i = 0, j = 0; i < a->rank || j < n->rank;) {
        int i_end = i, j_end = j;
        dim mine = 1, theirs = 1;
        do { /* take dims until both products agree again */
            const bool more_mine = j_end < n->rank, more_theirs = i_end < a->rank;
            if (more_mine && (!more_theirs || grows_first(sizes, mine, theirs)))
                mine = size_mul(sizes, mine, n->shape[j_end++]);
            else if (more_theirs)
                theirs = size_mul(sizes, theirs, a->shape[i_end++]);
            else
                break;
        } while (mine != theirs);
        trace_unravel(trace, trace_ravel(trace, at + j, n->shape + j, j_end - j), a->shape + i,
                      i_end - i, in + i);
        i = i_end;
        j = j_end;
    }
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_permute(struct trace *trace, const struct node *n, const form *at, guard g)
{
    form in[RANK_MAX];
    for (int d = 0; d < n->rank; d++)
        in[n->attributes.axes[d]] = at[d];
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_expand(struct trace *trace, const struct node *n, const form *at, guard g)
{
    return trace_broadcast(trace, n->arguments[0], at, n->rank, g);
}

static expr trace_slice(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct attributes *a = &n->attributes;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    in[a->axis] = index_offset(
        &trace->index,
        index_scale(&trace->index, at[a->axis], size_literal(trace->index.sizes, a->step)),
        a->start);
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_select(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const int axis = n->attributes.axis;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)axis * sizeof *in);
    in[axis] = index_constant(&trace->index, n->attributes.start);
    memcpy(in + axis + 1, at + axis, (size_t)(n->rank - axis) * sizeof *in);
    return trace_element(trace, n->arguments[0], in, g);
}

/* Row and column where a diagonal with this offset starts. */
static void diagonal_start(struct trace *trace, dim offset, dim start[2])
{
    struct sizes *sizes = trace->index.sizes;
    const bool right = !size_is_less(sizes, offset, 0);
    start[0] = right ? 0 : size_sub(sizes, 0, offset);
    start[1] = right ? offset : 0;
}

static expr trace_diagonal(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const int *axes = n->attributes.axes;
    form in[RANK_MAX];
    dim start[2];
    diagonal_start(trace, n->attributes.start, start);
    for (int d = 0, from = 0; d < n->rank + 1; d++)
        if (d == axes[0] || d == axes[1])
            in[d] = index_offset(&trace->index, at[n->rank - 1], start[d == axes[1]]);
        else
            in[d] = at[from++];
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_unfold(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct attributes *a = &n->attributes;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    in[a->axis] = index_add(
        &trace->index,
        index_scale(&trace->index, at[a->axis], size_literal(trace->index.sizes, a->step)),
        at[n->rank - 1]);
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_flip(struct trace *trace, const struct node *n, const form *at, guard g)
{
    struct sizes *sizes = trace->index.sizes;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    for (int i = 0; i < n->attributes.axis_count; i++) {
        const int axis = n->attributes.axes[i];
        in[axis] = index_offset(&trace->index,
                                index_scale(&trace->index, at[axis], size_literal(sizes, -1)),
                                size_sub(sizes, n->shape[axis], 1));
    }
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_roll(struct trace *trace, const struct node *n, const form *at, guard g)
{
    struct sizes *sizes = trace->index.sizes;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    for (int i = 0; i < n->attributes.axis_count; i++) {
        const int axis = n->attributes.axes[i];
        const dim size = n->shape[axis],
                  back = size_binary(sizes, SIZE_MOD, size_sub(sizes, 0, n->attributes.sizes[i]),
                                     size);
        in[axis] =
            index_remainder(&trace->index, index_offset(&trace->index, at[axis], back), size);
    }
    return trace_element(trace, n->arguments[0], in, g);
}

/* before <= at < before + size on every padded dim, or the pad's number. */
static expr pad_from(struct trace *trace, const struct node *n, const form *at, form *in, int d,
                     guard g)
{
    const struct node *a = node_at(trace, n->arguments[0]);
    struct sizes *sizes = trace->index.sizes;
    if (d == n->rank)
        return trace_element(trace, n->arguments[0], in, g);
    const dim before = n->attributes.sizes[2 * d];
    const expr number = trace_literal(trace, n->dtype, n->attributes.number);
    in[d] = index_offset(&trace->index, at[d], size_sub(sizes, 0, before));
    const struct choice left = choice_make(trace, at[d], before, g);
    if (left.answer == INDEX_ALWAYS)
        return number;
    const struct choice inside =
        choice_make(trace, at[d], size_add(sizes, before, a->shape[d]), left.no);
    const expr element =
        inside.answer == INDEX_NEVER ? number : pad_from(trace, n, at, in, d + 1, inside.yes);
    return choice_join(trace, &left, number, choice_join(trace, &inside, element, number));
}

static expr trace_pad(struct trace *trace, const struct node *n, const form *at, guard g)
{
    form in[RANK_MAX] = {0};
    return pad_from(trace, n, at, in, 0, g);
}

static expr concat_from(struct trace *trace, const struct node *n, const form *at, int part,
                        dim start, guard g)
{
    const int axis = n->attributes.axis;
    struct sizes *sizes = trace->index.sizes;
    const struct node *a = node_at(trace, n->arguments[part]);
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    in[axis] = index_offset(&trace->index, at[axis], size_sub(sizes, 0, start));
    if (part == n->argument_count - 1)
        return trace_element(trace, n->arguments[part], in, g);
    const dim end = size_add(sizes, start, a->shape[axis]);
    const struct choice here = choice_make(trace, at[axis], end, g);
    const expr yes =
        here.answer == INDEX_NEVER ? 0 : trace_element(trace, n->arguments[part], in, here.yes);
    const expr no =
        here.answer == INDEX_ALWAYS ? 0 : concat_from(trace, n, at, part + 1, end, here.no);
    return choice_join(trace, &here, yes, no);
}

static expr trace_concat(struct trace *trace, const struct node *n, const form *at, guard g)
{
    return concat_from(trace, n, at, 0, 0, g);
}

static expr trace_pair(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct choice real = choice_make(trace, at[n->rank - 1], 1, g);
    const expr yes =
        real.answer == INDEX_NEVER ? 0 : trace_element(trace, n->arguments[0], at, real.yes);
    const expr no =
        real.answer == INDEX_ALWAYS ? 0 : trace_element(trace, n->arguments[1], at, real.no);
    return choice_join(trace, &real, yes, no);
}

/* start <= at < start + step * length, and on the step: the part; elsewhere the base. */
static expr trace_insert(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct attributes *a = &n->attributes;
    struct sizes *sizes = trace->index.sizes;
    struct index_pool *index = &trace->index;
    const dim step = size_literal(sizes, a->step),
              length = node_at(trace, n->arguments[1])->shape[a->axis];
    const dim end = size_add(sizes, a->start, size_mul(sizes, step, length));
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);

    const struct choice before = choice_make(trace, at[a->axis], a->start, g);
    if (before.answer == INDEX_ALWAYS || size_is_equal(sizes, length, 0))
        return trace_element(trace, n->arguments[0], at, g);
    const struct choice inside = choice_make(trace, at[a->axis], end, before.no);
    expr part = 0;
    if (inside.answer != INDEX_NEVER) {
        const form shifted = index_offset(index, at[a->axis], size_sub(sizes, 0, a->start));
        const struct choice on_step =
            choice_make(trace, index_remainder(index, shifted, step), 1, inside.yes);
        in[a->axis] = index_divide(index, shifted, step);
        part = choice_join(
            trace, &on_step,
            on_step.answer == INDEX_NEVER ? 0
                                          : trace_element(trace, n->arguments[1], in, on_step.yes),
            on_step.answer == INDEX_ALWAYS ? 0
                                           : trace_element(trace, n->arguments[0], at, on_step.no));
    }
    const expr after =
        inside.answer == INDEX_ALWAYS ? 0 : trace_element(trace, n->arguments[0], at, inside.no);
    const expr rest = choice_join(trace, &inside, part, after);
    return choice_join(
        trace, &before,
        before.answer == INDEX_NEVER ? 0 : trace_element(trace, n->arguments[0], at, before.yes),
        rest);
}

/* On the diagonal row - start and column - start are equal: neither is below the other. */
static expr trace_insert_diagonal(struct trace *trace, const struct node *n, const form *at,
                                  guard g)
{
    struct sizes *sizes = trace->index.sizes;
    struct index_pool *index = &trace->index;
    const int row = n->attributes.axes[0], column = n->attributes.axes[1];
    const dim offset = n->attributes.start, size = n->shape[column];
    const dim length =
        node_at(trace, n->arguments[1])->shape[node_at(trace, n->arguments[1])->rank - 1];
    /* column - row - offset + size is size just there */
    const form distance = index_offset(
        index, index_add(index, at[column], index_scale(index, at[row], size_literal(sizes, -1))),
        size_sub(sizes, size_add(sizes, size, n->shape[row]), offset));
    const dim here = size_add(sizes, size, n->shape[row]);
    const expr base = trace_element(trace, n->arguments[0], at, g);
    const struct choice below = choice_make(trace, distance, here, g);
    const struct choice on = choice_make(trace, distance, size_add(sizes, here, 1), below.no);
    dim start[2];
    form in[RANK_MAX];
    int to = 0;
    diagonal_start(trace, offset, start);
    for (int d = 0; d < n->rank; d++)
        if (d != row && d != column)
            in[to++] = at[d];
    in[to] = index_offset(index, at[row], size_sub(sizes, 0, start[0]));
    if (size_is_equal(sizes, length, 0) || below.answer == INDEX_ALWAYS || on.answer == INDEX_NEVER)
        return base;
    const expr part = trace_element(trace, n->arguments[1], in, on.yes);
    return choice_join(trace, &below, base, choice_join(trace, &on, part, base));
}

static expr trace_index(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct node *a = node_at(trace, n->arguments[0]);
    const int axis = n->attributes.axis, count = n->argument_count - 1,
              inner = n->rank - a->rank + count;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)axis * sizeof *in);
    for (int i = 0; i < count; i++) {
        form index_at[RANK_MAX];
        trace_broadcast_coordinates(trace, n->arguments[1 + i], at + axis, inner, index_at);
        in[axis + i] =
            trace_index_value(trace, n->arguments[1 + i], index_at, a->shape[axis + i], g);
    }
    memcpy(in + axis + count, at + axis + inner, (size_t)(a->rank - axis - count) * sizeof *in);
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_gather(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const int axis = n->attributes.axis;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    in[axis] = trace_index_value(trace, n->arguments[1], at,
                                 node_at(trace, n->arguments[0])->shape[axis], g);
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_scalar(struct trace *trace, const struct node *n, const form *at, guard g)
{
    (void)at, (void)g;
    char element[16];
    element_store(n->dtype, n->attributes.number, element);
    return trace_literal(trace, n->dtype, element_load(n->dtype, element));
}

static expr trace_size(struct trace *trace, const struct node *n, const form *at, guard g)
{
    struct index_pool *index = &trace->index;
    const dim size = n->attributes.sizes[0];
    (void)at, (void)g;
    if (index->sizes->nodes.at[size].low >= 0)
        return trace_number(trace, index_constant(index, size));
    /* forms are not negative, but n - m may be: max(n - m, 0) - max(m - n, 0) */
    const dim above = size_max(index->sizes, size, 0),
              below = size_max(index->sizes, size_sub(index->sizes, 0, size), 0);
    const expr parts[2] = {trace_number(trace, index_constant(index, above)),
                           trace_number(trace, index_constant(index, below))};
    return trace_map(trace, OP_sub, DT_i64, parts, 2);
}

static expr trace_iota(struct trace *trace, const struct node *n, const form *at, guard g)
{
    (void)n, (void)g;
    return trace_number(trace, at[0]);
}

/* Rows whose values the planner keeps in memory: to be asked for one here is a mistake of the
 * planner. */
static expr trace_never(struct trace *trace, const struct node *n, const form *at, guard g)
{
    (void)at, (void)g;
    return trace_fail(trace, fail(PHASOR_ERROR_REFUSED, "%s: no kernel for %s on this path",
                                  n->name, op_info[n->op].name));
}

#define trace_real trace_never /* complex tensors are gone after the rewrite */
#define trace_imag trace_never
#define trace_view_as_real trace_never
#define trace_view_as_complex trace_never
#define trace_input trace_never
#define trace_state trace_never
#define trace_data trace_never
#define trace_index_put trace_never
#define trace_scatter trace_never
#define trace_argmax trace_never
#define trace_argmin trace_never
#define trace_cumsum trace_never
#define trace_cumprod trace_never
#define trace_sort_index trace_never
#define trace_dot trace_never
#define trace_unknown trace_never

trace_function *const trace_rows[OP_COUNT] = {
#define MAP(name, ...) [OP_##name] = trace_##name,
#define VIEW(name, ...) [OP_##name] = trace_##name,
#define REDUCE(name, ...) [OP_##name] = trace_never,
#define LEAF(name, ...) [OP_##name] = trace_##name,
#define CORE(name, ...) [OP_##name] = trace_##name,
#include "graph/ops.def"
};
