/* infer.c - dtype and shape of a node, by the kind of its row.
 *
 *     mul(f32[4, 1, 64], f32[s25, 64])                  f32[4, s25, 64]
 *     reshape(f32[2, s25, 8, 128], [2, s25, 8, 64, 2])  f32[2, s25, 8, 64, 2]     the number of
 *                                                       elements must agree
 *     index(c64[512, 64], i64[3, 7]) axis=0             c64[3, 7, 64]
 *
 * Sizes are compared by value: expressions that are equal now count as equal. What an operator's
 * shape rule is stands here, in the table `rules`, and nowhere else. */
#include "graph/infer_private.h"

#include <string.h>

void infer_print_type(const struct graph *graph, enum dtype dtype, const dim *shape, int rank,
                      struct text *out)
{
    text_format(out, "%s[", dtype_text(dtype));
    for (int d = 0; d < rank; d++) {
        text_add(out, d ? ", " : "");
        size_print(graph->sizes, shape[d], out);
    }
    text_add(out, "]");
}

/* Fails with "op(types): what". */
phasor_status infer_fail(const struct inference *in, const char *what)
{
    struct text types = {0};
    for (int i = 0; i < in->node->argument_count; i++) {
        const struct node *a = graph_node(in->graph, in->node->arguments[i]);
        text_add(&types, i ? ", " : "");
        infer_print_type(in->graph, a->dtype, a->shape, a->rank, &types);
    }
    const struct origin *origin = in->node->origin;
    const phasor_status status =
        fail(PHASOR_ERROR_FILE, "%s%s%s(%s): %s%s%s", origin ? origin->node : "",
             origin ? ": " : "", op_info[in->node->op].name, text_get(&types), what,
             origin && origin->line ? "; at " : "", origin && origin->line ? origin->line : "");
    text_free(&types);
    return status;
}

/* A dim of size 1 gives way: the literal 1 always, a symbol only because of the value it has. */
static bool broadcast_dim(struct inference *in, dim *mine, dim other)
{
    struct sizes *sizes = in->graph->sizes;
    const int64_t here = size_at(in, *mine), there = size_at(in, other);
    const dim one = here == 1 ? *mine : other;
    if (here != there && here != 1 && there != 1)
        return false;
    if (here != there)
        size_pin_symbols(sizes, one);
    if (here == there ? *mine == 1 || (here != 1 && size_is_literal(sizes, other)) : here == 1)
        *mine = other; /* of two equal sizes the literal says more, unless it is 1 */
    return true;
}

/* Merges a shape into the result's, aligned at the last dim. */
static phasor_status broadcast(struct inference *in, const dim *shape, int rank)
{
    struct node *n = in->node;
    if (rank > n->rank) {
        memmove(in->shape + rank - n->rank, in->shape, (size_t)n->rank * sizeof *in->shape);
        memcpy(in->shape, shape, (size_t)(rank - n->rank) * sizeof *in->shape);
    }
    const int common = rank < n->rank ? rank : n->rank;
    n->rank = rank > n->rank ? rank : n->rank;
    for (int d = 1; d <= common; d++) {
        if (!broadcast_dim(in, &in->shape[n->rank - d], shape[rank - d]))
            return infer_fail(in, "shapes do not broadcast");
    }
    return PHASOR_OK;
}

/* -- MAP --------------------------------------------------------------------------------------- */

static bool defined_on(enum op op, enum dtype dtype)
{
    const struct op_info *info = &op_info[op];
    switch (dtype_info[dtype].kind) {
    case DTC_NAMED: return false;
    case DTC_COMPLEX: return info->complex != COMPLEX_NEVER;
    case DTC_FLOAT: return info->on != ON_I;
    default: return info->on != ON_F;
    }
}

static phasor_status map_dtypes(struct inference *in)
{
    const enum op_type type = op_info[in->node->op].type;
    const int first = type == TYPE_PICK ? 1 : 0;
    const enum dtype dtype = argument(in, first)->dtype;
    if (type == TYPE_PICK && argument(in, 0)->dtype != DT_bool)
        return infer_fail(in, "the condition must be bool");
    for (int i = first; i < in->node->argument_count; i++)
        if (argument(in, i)->dtype != dtype)
            return infer_fail(in, "operands must have one dtype");
    if (!defined_on(in->node->op, dtype))
        return infer_fail(in, "not defined on this dtype");
    switch (type) {
    case TYPE_SAME:
    case TYPE_PICK: in->node->dtype = dtype; break;
    case TYPE_BOOL: in->node->dtype = DT_bool; break;
    case TYPE_REAL: in->node->dtype = dtype_info[dtype].real; break;
    case TYPE_MAKE:
        if (dtype != DT_f32 && dtype != DT_f64)
            return infer_fail(in, "parts must be f32 or f64");
        in->node->dtype = dtype_complex_of(dtype);
        break;
    case TYPE_CAST:
        if (dtype_info[in->node->dtype].kind == DTC_NAMED)
            return infer_fail(in, "unsupported dtype");
        break;
    case TYPE_OWN: break;
    }
    return PHASOR_OK;
}

static phasor_status infer_map(struct inference *in)
{
    TRY(map_dtypes(in));
    for (int i = 0; i < in->node->argument_count; i++)
        TRY(broadcast(in, argument(in, i)->shape, argument(in, i)->rank));
    return PHASOR_OK;
}

/* -- REDUCE, LEAF ------------------------------------------------------------------------------ */

static phasor_status infer_reduce(struct inference *in)
{
    const struct attributes *at = &in->node->attributes;
    const struct node *a = argument(in, 0);
    TRY(infer_check_axes(in, a->rank));
    if (!defined_on(in->node->op, a->dtype))
        return infer_fail(in, "not defined on this dtype");
    bool gone[RANK_MAX] = {false};
    for (int i = 0; i < at->axis_count; i++)
        gone[at->axes[i]] = true;
    for (int d = 0; d < a->rank; d++)
        if (!gone[d])
            in->shape[in->node->rank++] = a->shape[d];
    in->node->dtype = op_info[in->node->op].type == TYPE_BOOL ? DT_bool : a->dtype;
    return PHASOR_OK;
}

static phasor_status infer_data(struct inference *in)
{
    const struct data *data = in->node->attributes.data;
    if (!data || data->rank > RANK_MAX)
        return infer_fail(in, "no data, or too many dims");
    in->node->dtype = data->dtype;
    in->node->rank = data->rank;
    for (int d = 0; d < data->rank; d++)
        in->shape[d] = size_literal(in->graph->sizes, data->sizes[d]);
    return PHASOR_OK;
}

static phasor_status infer_state(struct inference *in)
{
    const int index = in->node->attributes.index;
    if (index < 0 || (size_t)index >= in->graph->buffers.count)
        return infer_fail(in, "no such buffer");
    in->node->attributes.data = in->graph->buffers.at[index].initial;
    return infer_data(in);
}

static phasor_status infer_scalar(struct inference *in)
{
    in->node->rank = 0;
    return PHASOR_OK;
}

static phasor_status infer_size(struct inference *in)
{
    in->node->dtype = DT_i64;
    in->node->rank = 0;
    return in->node->attributes.size_count == 1 ? PHASOR_OK : infer_fail(in, "needs one size");
}

static phasor_status infer_iota(struct inference *in)
{
    TRY(infer_size(in));
    in->node->attributes.size_count = 1;
    return infer_take_sizes(in);
}

/* -- CORE -------------------------------------------------------------------------------------- */

static phasor_status check_indices(struct inference *in, int first)
{
    for (int i = first; i < in->node->argument_count; i++)
        if (argument(in, i)->dtype != DT_i64 && argument(in, i)->dtype != DT_i32)
            return infer_fail(in, "an index must be i64 or i32");
    return PHASOR_OK;
}

/* Any index points at an element. */
static phasor_status check_elements(struct inference *in, int axis, int count, const dim *shape,
                                    int rank)
{
    for (int d = 0; d < rank; d++)
        if (size_at(in, shape[d]) == 0)
            return PHASOR_OK;
    for (int i = 0; i < count; i++)
        if (size_at(in, argument(in, 0)->shape[axis + i]) == 0)
            return infer_fail(in, "an index into a dim of no elements");
    return PHASOR_OK;
}

/* The shape of operand 0 at index operands first..: they broadcast and take the place of axes a, a
 * + 1, ... */
static phasor_status indexed_shape(struct inference *in, int first)
{
    const struct node *a = argument(in, 0);
    const int axis = in->node->attributes.axis, count = in->node->argument_count - first;
    TRY(check_indices(in, first));
    if (count < 1 || axis < 0 || axis > a->rank || axis + count > a->rank)
        return infer_fail(in, "more indices than dims");
    for (int i = first; i < in->node->argument_count; i++)
        TRY(broadcast(in, argument(in, i)->shape, argument(in, i)->rank));
    const int inner = in->node->rank, after = a->rank - axis - count;
    TRY(check_elements(in, axis, count, in->shape, inner));
    if (axis + inner + after > RANK_MAX)
        return infer_fail(in, "too many dims");
    memmove(in->shape + axis, in->shape, (size_t)inner * sizeof *in->shape);
    memcpy(in->shape, a->shape, (size_t)axis * sizeof *in->shape);
    memcpy(in->shape + axis + inner, a->shape + axis + count, (size_t)after * sizeof *in->shape);
    in->node->rank = axis + inner + after;
    return PHASOR_OK;
}

static phasor_status infer_index(struct inference *in)
{
    TRY(indexed_shape(in, 1));
    in->node->dtype = argument(in, 0)->dtype;
    return PHASOR_OK;
}

static phasor_status infer_index_put(struct inference *in)
{
    TRY(indexed_shape(in, 2));
    const struct node *values = argument(in, 1);
    if (values->rank > in->node->rank)
        return infer_fail(in, "the values have more dims than what is indexed");
    for (int d = 1; d <= values->rank; d++) {
        const int64_t size = size_at(in, values->shape[values->rank - d]);
        if (size != 1 && size != size_at(in, in->shape[in->node->rank - d]))
            return infer_fail(in, "the values do not broadcast to what is indexed");
    }
    if (values->dtype != argument(in, 0)->dtype)
        return infer_fail(in, "values must have the dtype of the tensor");
    shape_of_argument(in, 0);
    in->node->dtype = values->dtype;
    return PHASOR_OK;
}

static phasor_status infer_gather(struct inference *in)
{
    const struct node *a = argument(in, 0), *index = argument(in, 1);
    TRY(infer_check_axis(in, in->node->attributes.axis, a->rank));
    if (index->dtype != DT_i64 && index->dtype != DT_i32)
        return infer_fail(in, "an index must be i64 or i32");
    if (index->rank != a->rank)
        return infer_fail(in, "index and tensor must have one rank");
    for (int d = 0; d < a->rank; d++)
        if (d != in->node->attributes.axis &&
            size_at(in, index->shape[d]) > size_at(in, a->shape[d]))
            return infer_fail(in, "the index is larger than the tensor");
    TRY(check_elements(in, in->node->attributes.axis, 1, index->shape, index->rank));
    shape_of_argument(in, 1);
    in->node->dtype = a->dtype;
    return PHASOR_OK;
}

static phasor_status infer_scatter(struct inference *in)
{
    const struct node *a = argument(in, 0), *index = argument(in, 1), *source = argument(in, 2);
    TRY(infer_gather(in));
    if (source->dtype != a->dtype || source->rank != a->rank)
        return infer_fail(in, "source and tensor must have one dtype and rank");
    for (int d = 0; d < a->rank; d++)
        if (size_at(in, index->shape[d]) > size_at(in, source->shape[d]))
            return infer_fail(in, "the index is larger than the source");
    shape_of_argument(in, 0);
    return PHASOR_OK;
}

static phasor_status infer_argmax(struct inference *in)
{
    shape_of_argument(in, 0);
    TRY(infer_check_axis(in, in->node->attributes.axis, in->node->rank));
    if (dtype_is_complex(in->node->dtype))
        return infer_fail(in, "complex numbers have no order");
    if (size_at(in, in->shape[in->node->attributes.axis]) == 0)
        return infer_fail(in, "a dim of no elements has no largest and no smallest one");
    infer_shape_remove(in, in->node->attributes.axis);
    in->node->dtype = DT_i64;
    return PHASOR_OK;
}

static phasor_status infer_scan(struct inference *in)
{
    shape_of_argument(in, 0);
    return infer_check_axis(in, in->node->attributes.axis, in->node->rank);
}

static phasor_status infer_sort_index(struct inference *in)
{
    TRY(infer_scan(in));
    if (dtype_is_complex(in->node->dtype))
        return infer_fail(in, "complex numbers have no order");
    in->node->dtype = DT_i64;
    return PHASOR_OK;
}

static phasor_status infer_dot(struct inference *in)
{
    const struct node *a = argument(in, 0), *b = argument(in, 1);
    if (a->dtype != b->dtype || a->rank != b->rank || a->rank < 2)
        return infer_fail(in, "operands must have one dtype and rank, of 2 or more");
    const int rank = a->rank;
    for (int d = 0; d < rank - 2; d++)
        if (size_at(in, a->shape[d]) != size_at(in, b->shape[d]))
            return infer_fail(in, "leading dims must be equal");
    if (size_at(in, a->shape[rank - 1]) != size_at(in, b->shape[rank - 2]))
        return infer_fail(in, "the inner sizes differ");
    shape_of_argument(in, 0);
    in->shape[rank - 1] = b->shape[rank - 1];
    return PHASOR_OK;
}

/* -- the table of rules ------------------------------------------------------------------------ */

typedef phasor_status infer_function(struct inference *);

#define infer_input infer_take_sizes
#define infer_unknown infer_take_sizes
#define infer_clone infer_same
#define infer_contiguous infer_same
#define infer_real infer_part
#define infer_imag infer_part
#define infer_argmin infer_argmax
#define infer_cumsum infer_scan
#define infer_cumprod infer_scan

static infer_function *const rules[OP_COUNT] = {
#define MAP(name, ...) [OP_##name] = infer_map,
#define VIEW(name, ...) [OP_##name] = infer_##name,
#define REDUCE(name, ...) [OP_##name] = infer_reduce,
#define LEAF(name, ...) [OP_##name] = infer_##name,
#define CORE(name, ...) [OP_##name] = infer_##name,
#include "graph/ops.def"
};

phasor_status infer_node(struct graph *graph, struct node *node, dim shape[RANK_MAX])
{
    struct inference in = {graph, node, shape};
    const struct op_info *info = &op_info[node->op];
    if (node->op <= OP_none || node->op >= OP_COUNT)
        return fail(PHASOR_ERROR_FILE, "%s: no operator", node->name ? node->name : "a node");
    if (info->arity ? node->argument_count != info->arity
                    : info->kind == KIND_LEAF && node->argument_count)
        return infer_fail(&in, "wrong number of operands");
    const int least = node->op == OP_index_put ? 3
                      : node->op == OP_index   ? 2
                                               : info->kind == KIND_VIEW;
    if (node->argument_count < least)
        return infer_fail(&in, "needs more operands");
    node->rank = 0;
    /* Most views and indexed operators keep the dtype of their first operand; MAP and REDUCE rules
     * find their own. */
    if (node->argument_count &&
        (info->kind == KIND_VIEW || (info->kind == KIND_CORE && node->op != OP_unknown)))
        node->dtype = argument(&in, 0)->dtype;
    TRY(rules[node->op](&in));
    return graph->sizes->status;
}
