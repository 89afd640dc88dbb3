/* kernel_attention.c - attention in one kernel: see plan/attention.c for what it is made of.
 *
 *     query(a, b, i, d), key(a, b, j, d), value(a, b, j, d)   where 8 elements lie in memory
 *     score(a, b, i, j, acc)                                  scale, mask, bias: any expression
 *     store(a, b, i, j, acc)                                  what follows, one element
 */
#include "codegen/kernel.h"

#include <string.h>

enum { GROUP = 8, TILE = 64, THREADS = 128 };

struct attending {
    struct kernel_builder *builder;
    const struct node *node;
    struct attention a;
    form batch[RANK_MAX], i, j, d;
    dim rows, keys, head, width;
};

static void attending_begin(struct attending *at, struct kernel_builder *builder)
{
    const struct graph *graph = &builder->plan->graph;
    struct index_pool *index = &builder->trace.index;
    const value v = builder->kernel->special;
    *at = (struct attending){.builder = builder, .node = graph_node(graph, v)};
    attention_match(graph, v, &at->a);
    const struct node *n = at->node;
    at->rows = n->shape[n->rank - 2];
    at->width = n->shape[n->rank - 1];
    at->head = graph_node(graph, at->a.query)->shape[n->rank - 1];
    at->keys = graph_node(graph, at->a.value)->shape[n->rank - 2];
    trace_unravel(&builder->trace,
                  index_variable(index, 'b', kernel_count(builder, n->shape, n->rank - 2)),
                  n->shape, n->rank - 2, at->batch);
    at->i = index_variable(index, 'i', at->rows);
    at->j = index_variable(index, 'j', at->keys);
}

static void coordinates(const struct attending *at, form row, form column, form out[RANK_MAX])
{
    const int rank = at->node->rank;
    memcpy(out, at->batch, (size_t)(rank - 2) * sizeof *out);
    out[rank - 2] = row;
    out[rank - 1] = column;
}

/* The load that an element of an operand is, under its cast; 0: it is none. */
static expr load_find(const struct trace *trace, expr e)
{
    while (e && trace->expressions.at[e].kind == EXPR_MAP &&
           trace->expressions.at[e].argument_count == 1)
        e = trace->expressions.at[e].arguments[0];
    return e && trace->expressions.at[e].kind == EXPR_LOAD ? e : 0;
}

static phasor_status emit_operand(struct attending *at, const char *name, value operand, form row,
                                  bool transposed, dim length)
{
    struct kernel_builder *builder = at->builder;
    struct trace *trace = &builder->trace;
    struct index_pool *index = &trace->index;
    struct emitter emitter;
    form element[RANK_MAX];
    const form d = index_variable(
        index, 'd', size_floordiv(index->sizes, length, size_literal(index->sizes, GROUP)));
    const form along = index_scale(index, d, size_literal(index->sizes, GROUP));
    coordinates(at, transposed ? along : row, transposed ? row : along, element);
    const expr e = load_find(trace, trace_element(trace, operand, element, 0));
    TRY(trace_status(trace));
    if (!e || trace->expressions.at[e].guard)
        return fail(PHASOR_ERROR_COMPILE, "%s of attention is not read from memory", name);
    const int buffer = trace->expressions.at[e].buffer;
    TRY(kernel_pointer(builder, buffer, false));
    TRY(kernel_emitter(builder, &emitter));
    text_format(&builder->functions,
                "DEVICE const void *%s(const args &a, index_t b, index_t %c, index_t d)\n{\n", name,
                strcmp(name, "query") == 0 ? 'i' : 'j');
    const form group =
        index_divide(index, trace->expressions.at[e].index, size_literal(index->sizes, GROUP));
    struct text text = {0};
    emit_form(&emitter, group, &text);
    text_format(&builder->functions, "    return (const vec16 *)a.p%d + (%s);\n}\n",
                builder->pointers[buffer], text_get(&text));
    const phasor_status status = text_status(&text);
    text_free(&text);
    TRY(kernel_emitter_end(builder, &emitter));
    return status;
}

/* The score of a product: traced as if the product were the kernel's reduction. */
static phasor_status emit_score(struct attending *at)
{
    struct kernel_builder *builder = at->builder;
    struct trace *trace = &builder->trace;
    struct kernel inside = *builder->kernel;
    struct emitter emitter;
    char name[NAME_SIZE];
    form element[RANK_MAX];
    inside.special = at->a.product;
    inside.store_count = 0;
    trace->kernel = &inside;
    coordinates(at, at->i, at->j, element);
    const expr e = trace_compute(trace, at->a.scores, element, 0);
    trace->kernel = builder->kernel;
    TRY(trace_status(trace));
    TRY(kernel_pointers(builder));
    TRY(kernel_emitter(builder, &emitter));
    text_add(
        &builder->functions,
        "DEVICE float score(const args &a, index_t b, index_t i, index_t j, float result)\n{\n");
    emit_loads(&emitter, &e, 1);
    emit_value(&emitter, e, name);
    text_format(&builder->functions, "    return %s;\n}\n", name);
    return kernel_emitter_end(builder, &emitter);
}

static phasor_status emit_attended(struct attending *at)
{
    struct kernel_builder *builder = at->builder;
    struct trace *trace = &builder->trace;
    const struct kernel_store *store = &builder->kernel->stores[0];
    struct emitter emitter;
    form element[RANK_MAX];
    const form column = index_variable(&trace->index, 'j', at->width);
    coordinates(at, at->i, column, element);
    const expr e = trace_compute(trace, store->node, element, 0);
    const form address = trace_address(trace, plan_buffer(builder->plan, store->buffer), element);
    TRY(trace_status(trace));
    TRY(kernel_pointers(builder));
    TRY(kernel_pointer(builder, store->buffer, true));
    TRY(kernel_emitter(builder, &emitter));
    text_add(&builder->functions,
             "DEVICE void store(const args &a, index_t b, index_t i, index_t j, float acc)\n{\n");
    emit_result(at->node->dtype, 0, "acc", &builder->functions);
    emit_loads(&emitter, &e, 1);
    emit_store(&emitter, store->buffer, &address, &e, 1);
    text_add(&builder->functions, "}\n");
    return kernel_emitter_end(builder, &emitter);
}

static void attending_geometry(struct attending *at, enum dtype dtype)
{
    struct kernel_builder *builder = at->builder;
    struct sizes *sizes = &builder->plan->sizes;
    const struct node *n = at->node;
    const dim tiles = size_floordiv(sizes, size_add(sizes, at->rows, size_literal(sizes, TILE - 1)),
                                    size_literal(sizes, TILE));
    builder->block = THREADS;
    builder->side = 1;
    builder->runs = size_mul(sizes, kernel_count(builder, n->shape, n->rank - 2), tiles);
    text_format(&builder->defines,
                "#define HEAD %lld\n#define WIDTH %lld\n#define HALF %d\n#define SAFE %d\n"
                "#define SKIPS %d\n",
                (long long)size_value(sizes, at->head), (long long)size_value(sizes, at->width),
                dtype == DT_f16, at->a.safe, at->a.linear);
    kernel_define(builder, "ROWS", at->rows);
    kernel_define(builder, "KEYS", at->keys);
    kernel_define(builder, "TILES_M", tiles);
}

phasor_status kernel_attention(struct kernel_builder *builder)
{
    struct attending at;
    attending_begin(&at, builder);
    TRY(emit_operand(&at, "query", at.a.query, at.i, false, at.head));
    int buffer = 0;
    while (builder->pointers[buffer] < 0)
        buffer++;
    const enum dtype dtype = plan_buffer(builder->plan, buffer)->dtype;
    TRY(emit_operand(&at, "key", at.a.key, at.j, true, at.head));
    TRY(emit_operand(&at, "value", at.a.value, at.j, false, at.width));
    TRY(emit_score(&at));
    attending_geometry(&at, dtype);
    return emit_attended(&at);
}
