/* complex.c - complex to real: each complex value becomes one real value with a last dim of 2,
 * each real one stays.
 *
 *     before                                         after
 *     %z = view_as_complex(%x) : c64[n]              (nothing: %z is %x)
 *     %w = data                : c64[n]              %w = data          : f32[n, 2], the same bytes
 *     %y = mul(%z, %w)         : c64[n]              %y = pair(..., ...) : f32[n, 2]
 *     %r = reshape(%y, [1, n]) : c64[1, n]           %r = reshape(%y, [1, n, 2])
 *
 * What is complex is known from dtypes, never from a last dim of 2. All or nothing: refuse.c
 * looks at the whole graph first. What an operator becomes is the complex column of its row in
 * ops.def: PAIR and PARTS rows stay the operator they are, VANISH rows are their operand,
 * FUNCTION rows have pair_<name>() in a pair_*.c file.
 */
#include "rewrite/pair.h"

#include <string.h>

#undef PAIR_PARTS
#undef PAIR_PAIR
#undef PAIR_VANISH
#define PAIR_PARTS(name) [OP_##name] = pair_same_operator,
#define PAIR_PAIR(name) [OP_##name] = pair_same_operator,
#define PAIR_VANISH(name) [OP_##name] = pair_vanished,
#define PAIR_FUNCTION(name) [OP_##name] = pair_##name,
static pair_function *const functions[OP_COUNT] = {
#define MAP(name, n, type, on, complex, ...) PAIR_##complex(name)
#define VIEW(name, n, memory, complex, ...) PAIR_##complex(name)
#define REDUCE(name, type, on, complex, ...) PAIR_##complex(name)
#define CORE(name, n, complex, ...) PAIR_##complex(name)
#include "graph/ops.def"
};

/* -- leaves ------------------------------------------------------------------------------------ */

/* Twice a stride or offset; wraps instead of overflowing where a damaged file has an absurd one
 * in a dim of 1. */
static int64_t twice(int64_t number)
{
    return (int64_t)((uint64_t)number * 2);
}

/* The real view of complex data: the same storage with one more dim. NULL when memory is out. */
static const struct data *data_real(struct arena *arena, const struct data *data)
{
    struct data *real = NEW(arena, struct data, 1);
    int64_t *sizes = NEW(arena, int64_t, data->rank + 1),
            *strides = NEW(arena, int64_t, data->rank + 1);
    if (!real || !sizes || !strides)
        return NULL;
    for (int d = 0; d < data->rank; d++) {
        sizes[d] = data->sizes[d];
        strides[d] = twice(data->strides[d]);
    }
    sizes[data->rank] = 2;
    strides[data->rank] = 1;
    *real = *data;
    real->dtype = dtype_info[data->dtype].real;
    real->rank = data->rank + 1;
    real->sizes = sizes;
    real->strides = strides;
    real->offset = twice(data->offset);
    return real;
}

static value leaf_input(struct pairs *p, const struct node *node)
{
    dim sizes[RANK_MAX];
    struct attributes at = node->attributes;
    memcpy(sizes, node->shape, (size_t)node->rank * sizeof *sizes);
    sizes[node->rank] = size_literal(p->to->sizes, 2);
    at.sizes = sizes;
    at.size_count = node->rank + 1;
    return graph_add(p->to, OP_input, dtype_info[node->dtype].real, NULL, 0, &at, node->name);
}

static value leaf_data(struct pairs *p, const struct node *node)
{
    struct attributes at = node->attributes;
    at.data = data_real(p->to->arena, node->attributes.data);
    if (!at.data)
        return graph_fail(p->to, PHASOR_ERROR_MEMORY, "out of memory");
    return graph_add(p->to, OP_data, at.data->dtype, NULL, 0, &at, node->name);
}

/* Its buffer is real already. */
static value leaf_state(struct pairs *p, const struct node *node)
{
    return graph_add(p->to, OP_state, dtype_info[node->dtype].real, NULL, 0, &node->attributes,
                     node->name);
}

static value leaf_scalar(struct pairs *p, const struct node *node)
{
    const enum dtype real = dtype_info[node->dtype].real;
    return pair_make(p, (struct parts){graph_float(p->to, real, node->attributes.number.re),
                                       graph_float(p->to, real, node->attributes.number.im)});
}

static pair_function *const leaves[OP_COUNT] = {[OP_input] = leaf_input,
                                                [OP_state] = leaf_state,
                                                [OP_data] = leaf_data,
                                                [OP_scalar] = leaf_scalar};

/* -- the walk ---------------------------------------------------------------------------------- */

static bool node_touches_complex(const struct graph *graph, const struct node *node)
{
    bool found = dtype_is_complex(node->dtype);
    for (int i = 0; i < node->argument_count && !found; i++)
        found = dtype_is_complex(graph_node(graph, node->arguments[i])->dtype);
    return found;
}

/* The value that stands for node v gets its name, so that stages can be compared. */
static void keep_name(struct pairs *p, const struct node *node, value result, size_t count_before)
{
    if (result >= count_before && !rewrite_name_is_made(node))
        p->to->nodes.at[result].name = node->name;
}

/* The steps that stand for one operator know each other by a number: see graph/layout.c. */
static void mark_steps(struct pairs *p, size_t count_before)
{
    p->operators++;
    for (size_t i = count_before; i < p->to->nodes.count; i++) {
        struct node *step = &p->to->nodes.at[i];
        if (op_info[step->op].kind == KIND_MAP || step->op == OP_pair)
            step->attributes.index = p->operators;
    }
}

static void pair_node(struct pairs *p, value v)
{
    const struct node *node = graph_node(p->from, v);
    pair_function *const function = functions[node->op] ? functions[node->op] : leaves[node->op];
    if (!node_touches_complex(p->from, node)) {
        p->map[v] = rewrite_copy(p->from, p->to, v, p->map);
    } else if (!function) {
        graph_fail(p->to, PHASOR_ERROR_REFUSED, "%s: %s is not defined on complex numbers",
                   node->name, op_info[node->op].name);
    } else {
        const size_t count = p->to->nodes.count;
        p->to->origin = node->origin;
        p->map[v] = function(p, node);
        p->to->origin = NULL;
        mark_steps(p, count);
        keep_name(p, node, p->map[v], count);
    }
}

static phasor_status buffers_begin(struct pairs *p)
{
    TRY(rewrite_begin(p->from, p->to));
    for (size_t i = 0; i < p->to->buffers.count; i++) {
        struct graph_buffer *buffer = &p->to->buffers.at[i];
        if (dtype_is_complex(buffer->initial->dtype))
            buffer->initial = data_real(p->to->arena, buffer->initial);
        if (!buffer->initial)
            return fail_memory();
    }
    return PHASOR_OK;
}

/* Slots with the new values; buffers keep the real data that buffers_begin gave them. */
static phasor_status slots_finish(struct pairs *p)
{
    const size_t count = p->to->buffers.count;
    const struct data **initials = NEW(p->to->arena, const struct data *, count);
    if (!initials)
        return fail_memory();
    for (size_t i = 0; i < count; i++)
        initials[i] = p->to->buffers.at[i].initial;
    TRY(graph_copy_slots(p->to, p->from, p->map));
    for (size_t i = 0; i < count; i++)
        p->to->buffers.at[i].initial = initials[i];
    return PHASOR_OK;
}

static phasor_status pairs_build(struct pairs *p)
{
    TRY(buffers_begin(p));
    for (size_t v = 1; v < p->from->nodes.count && p->to->status == PHASOR_OK; v++)
        pair_node(p, (value)v);
    TRY(graph_status(p->to));
    return slots_finish(p);
}

phasor_status rewrite_complex(const struct graph *from, struct graph *to,
                              const struct rewrite_options *options, struct refusal_list *refusals,
                              bool *rewritten)
{
    *rewritten = false;
    if (refusals->count == 0)
        TRY(refuse_graph(from, options->rules, refusals));
    if (refusals->count > 0)
        return PHASOR_OK;

    const size_t count = from->nodes.count;
    struct pairs p = {.from = from,
                      .to = to,
                      .fma = options->fma,
                      .map = memory_new(count * sizeof(value)),
                      .real = memory_new(count * sizeof(value)),
                      .parts = memory_new(count * sizeof(struct parts))};
    const bool there = p.map && p.real && p.parts;
    const phasor_status status = there ? pairs_build(&p) : fail_memory();
    memory_free(p.map);
    memory_free(p.real);
    memory_free(p.parts);
    *rewritten = status == PHASOR_OK;
    return status;
}
