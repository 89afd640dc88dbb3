/* kernel_collect.c - scatters that combine: index_put and scatter with a flag.
 *
 *     scatter(%base, %index, %source) axis=0 flag=1     out[i, j] = base[i, j] + the sum of
 *                                                       source[r, j] where index[r, j] is i
 *
 * Each element of the result looks through all that may be sent to it, in order: no atomics. */
#include "codegen/kernel.h"

#include <stdio.h>
#include <string.h>

static const char *const combinations[] = {
    [SCATTER_ADD] = "%0 + %1", [SCATTER_MULTIPLY] = "%0 * %1"};

struct collection {
    struct kernel_builder *builder;
    const struct node *node, *base;
    form at[RANK_MAX]; /* the element of the result */
    expr value, sent;  /* value r, and whether it was sent here */
    dim length;
};

/* sent = sent && (the index there is the coordinate) */
static void match(struct collection *c, value index, const form *coordinates, form coordinate,
                  dim size)
{
    struct trace *trace = &c->builder->trace;
    const form target = trace_index_value(trace, index, coordinates, size, 0);
    const expr pair[2] = {trace_number(trace, target), trace_number(trace, coordinate)};
    const expr equal = trace_map(trace, OP_eq, DT_bool, pair, 2);
    const expr both[2] = {c->sent, equal};
    c->sent = c->sent ? trace_map(trace, OP_bit_and, DT_bool, both, 2) : equal;
}

/* sent = sent && coordinate < bound, where that is a question at all */
static void match_below(struct collection *c, form coordinate, dim bound)
{
    struct trace *trace = &c->builder->trace;
    const expr pair[2] = {trace_number(trace, coordinate),
                          trace_number(trace, index_constant(&trace->index, bound))};
    const expr below = trace_map(trace, OP_lt, DT_bool, pair, 2);
    const expr both[2] = {c->sent, below};
    c->sent = trace_map(trace, OP_bit_and, DT_bool, both, 2);
}

static form sent_variable(struct collection *c)
{
    struct index_pool *index = &c->builder->trace.index;
    return index_variable(index, 'r', c->length);
}

/* The coordinate, kept inside what is read: where it lies outside nothing is sent. */
static form clamped(struct collection *c, form coordinate, dim bound, dim size)
{
    return bound == size ? coordinate
                         : index_remainder(&c->builder->trace.index, coordinate, bound);
}

/* Along the axis, at the element's other coordinates. */
static void trace_scattered(struct collection *c)
{
    const struct node *n = c->node, *index = graph_node(&c->builder->plan->graph, n->arguments[1]);
    const int axis = n->attributes.axis;
    form there[RANK_MAX];
    c->length = index->shape[axis];
    for (int d = 0; d < index->rank; d++)
        there[d] =
            d == axis ? sent_variable(c) : clamped(c, c->at[d], index->shape[d], c->base->shape[d]);
    match(c, n->arguments[1], there, c->at[axis], c->base->shape[axis]);
    for (int d = 0; d < index->rank; d++)
        if (d != axis && index->shape[d] != c->base->shape[d])
            match_below(c, c->at[d], index->shape[d]);
    c->value = trace_element(&c->builder->trace, n->arguments[2], there, 0);
}

/* At every place of the indices. */
static void trace_put(struct collection *c)
{
    struct trace *trace = &c->builder->trace;
    const struct node *n = c->node;
    const int axis = n->attributes.axis, count = n->argument_count - 2;
    dim shape[RANK_MAX];
    form place[RANK_MAX], there[RANK_MAX];
    int inner;
    const int rank = kernel_put_shape(c->builder, n, shape, &inner);
    c->length = kernel_count(c->builder, shape + axis, inner);
    trace_unravel(trace, sent_variable(c), shape + axis, inner, place);
    for (int i = 0; i < count; i++) {
        form index_at[RANK_MAX];
        kernel_broadcast(c->builder, n->arguments[2 + i], place, inner, index_at);
        match(c, n->arguments[2 + i], index_at, c->at[axis + i], c->base->shape[axis + i]);
    }
    memcpy(there, c->at, (size_t)axis * sizeof *there);
    memcpy(there + axis, place, (size_t)inner * sizeof *there);
    memcpy(there + axis + inner, c->at + axis + count,
           (size_t)(rank - axis - inner) * sizeof *there);
    form values_at[RANK_MAX];
    kernel_broadcast(c->builder, n->arguments[1], there, rank, values_at);
    c->value = trace_element(trace, n->arguments[1], values_at, 0);
}

static phasor_status emit_first(struct collection *c, expr base)
{
    struct emitter emitter;
    char name[NAME_SIZE];
    TRY(kernel_emitter(c->builder, &emitter));
    text_add(&c->builder->functions, "DEVICE acc_t first(const args &a, index_t i)\n{\n");
    emit_loads(&emitter, &base, 1);
    emit_value(&emitter, base, name);
    text_format(&c->builder->functions, "    return (acc_t)%s;\n}\n", name);
    return kernel_emitter_end(c->builder, &emitter);
}

static phasor_status emit_collect(struct collection *c, enum dtype accumulator)
{
    struct emitter emitter;
    struct text *out = &c->builder->functions;
    char sent[NAME_SIZE], name[NAME_SIZE], converted[NAME_SIZE + 16];
    const expr roots[2] = {c->sent, c->value};
    TRY(kernel_emitter(c->builder, &emitter));
    text_add(out, "DEVICE acc_t collect(const args &a, index_t i, index_t r, acc_t acc)\n{\n");
    emit_loads(&emitter, roots, 2);
    emit_value(&emitter, c->sent, sent);
    emit_value(&emitter, c->value, name);
    snprintf(converted, sizeof converted, "(acc_t)%s", name);
    text_format(out, "    return !%s ? acc : ", sent);
    emit_cell(combinations[c->node->attributes.flag], accumulator,
              (const char *const[]){"acc", converted}, out);
    text_add(out, ";\n}\n");
    return kernel_emitter_end(c->builder, &emitter);
}

static phasor_status emit_collected(struct collection *c)
{
    struct kernel_builder *builder = c->builder;
    const struct kernel_store *store = &builder->kernel->stores[0];
    struct emitter emitter;
    const expr result = trace_compute(&builder->trace, store->node, c->at, 0);
    const form address =
        trace_address(&builder->trace, plan_buffer(builder->plan, store->buffer), c->at);
    TRY(kernel_emitter(builder, &emitter));
    text_add(&builder->functions, "DEVICE void store(const args &a, index_t i, acc_t acc)\n{\n");
    emit_result(c->node->dtype, 0, "acc", &builder->functions);
    emit_store(&emitter, store->buffer, &address, &result, 1);
    text_add(&builder->functions, "}\n");
    return kernel_emitter_end(builder, &emitter);
}

phasor_status kernel_collect(struct kernel_builder *builder)
{
    const struct graph *graph = &builder->plan->graph;
    struct index_pool *index = &builder->trace.index;
    struct collection c = {.builder = builder, .node = graph_node(graph, builder->kernel->special)};
    c.base = graph_node(graph, c.node->arguments[0]);
    const enum dtype accumulator =
        c.base->dtype == DT_bool ? DT_bool : dtype_info[c.base->dtype].compute;
    builder->block = 128;
    builder->side = 1;
    builder->runs = kernel_count(builder, c.base->shape, c.base->rank);
    trace_unravel(&builder->trace, index_variable(index, 'i', builder->runs), c.base->shape,
                  c.base->rank, c.at);
    if (c.node->op == OP_index_put)
        trace_put(&c);
    else
        trace_scattered(&c);
    const expr base = trace_element(&builder->trace, c.node->arguments[0], c.at, 0);
    TRY(trace_status(&builder->trace));
    TRY(kernel_pointers(builder));
    TRY(kernel_pointer(builder, builder->kernel->stores[0].buffer, true));
    kernel_define_inside(builder, "LENGTH", c.length);
    text_format(&builder->defines, "typedef %s acc_t;\n", emit_type(accumulator));
    TRY(emit_first(&c, base));
    TRY(emit_collect(&c, accumulator));
    return emit_collected(&c);
}
