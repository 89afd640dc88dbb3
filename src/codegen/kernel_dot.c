/* kernel_dot.c - products of matrices by a template of ours.
 *
 *     dot(cast(%x), permute(%w)) of bf16 [7, 512] and [512, 64]
 *       left(a, b, i, k), right(a, b, k, j)   elements of the operands, producers applied
 *       store(a, b, i, j, acc)                the consumers, one element
 *
 * Tiles depend on sizes that the program itself fixes, so that the order of sums depends on no mode.
 * f16 and bf16 are multiplied and summed in f32 and rounded once, as matrix units do.
 */
#include "codegen/kernel.h"

#include <string.h>

enum { LEFT, RIGHT };

struct product {
    struct kernel_builder *builder;
    const struct node *node;
    enum dtype accumulator;
    form batch[RANK_MAX], i, j, k;
    dim rows, columns, length;
};

static void product_begin(struct product *p, struct kernel_builder *builder)
{
    const struct graph *graph = &builder->plan->graph;
    struct index_pool *index = &builder->trace.index;
    *p = (struct product){.builder = builder, .node = graph_node(graph, builder->kernel->special)};
    const struct node *n = p->node, *left = graph_node(graph, n->arguments[LEFT]);
    p->accumulator = dtype_info[n->dtype].compute;
    p->rows = n->shape[n->rank - 2];
    p->columns = n->shape[n->rank - 1];
    p->length = left->shape[n->rank - 1];
    const dim batches = kernel_count(builder, n->shape, n->rank - 2);
    trace_unravel(&builder->trace, index_variable(index, 'b', batches), n->shape, n->rank - 2,
                  p->batch);
    p->i = index_variable(index, 'i', p->rows);
    p->j = index_variable(index, 'j', p->columns);
    p->k = index_variable(index, 'k', p->length);
}

static void coordinates(const struct product *p, form row, form column, form out[RANK_MAX])
{
    const int rank = p->node->rank;
    memcpy(out, p->batch, (size_t)(rank - 2) * sizeof *out);
    out[rank - 2] = row;
    out[rank - 1] = column;
}

static phasor_status emit_operand(struct product *p, const char *head, expr element)
{
    struct text *out = &p->builder->functions;
    struct emitter emitter;
    char name[NAME_SIZE];
    TRY(kernel_emitter(p->builder, &emitter));
    text_format(out, "DEVICE acc_t %s\n{\n", head);
    emit_loads(&emitter, &element, 1);
    emit_value(&emitter, element, name);
    text_format(out, "    return (acc_t)%s;\n}\n", name);
    return kernel_emitter_end(p->builder, &emitter);
}

static phasor_status emit_product(struct product *p, expr element, form address)
{
    struct kernel_builder *builder = p->builder;
    struct emitter emitter;
    TRY(kernel_emitter(builder, &emitter));
    text_add(&builder->functions,
             "DEVICE void store(const args &a, index_t b, index_t i, index_t j, acc_t acc)\n{\n");
    emit_result(p->node->dtype, 0, "acc", &builder->functions);
    emit_loads(&emitter, &element, 1);
    emit_store(&emitter, builder->kernel->stores[0].buffer, &address, &element, 1);
    text_add(&builder->functions, "}\n");
    return kernel_emitter_end(builder, &emitter);
}

/* Whether neighbours along the operand's dim `axis` are neighbours in what it shows of memory: with
 * the guess that a value which is computed here lies as a tensor without views would. */
static bool runs_along(const struct product *p, value operand, int axis)
{
    const struct plan *plan = p->builder->plan;
    while (plan->buffer_of[operand] < 0) {
        const struct node *n = graph_node(&plan->graph, operand);
        if (n->op == OP_permute)
            axis = n->attributes.axes[axis];
        else if (n->argument_count == 0 ||
                 graph_node(&plan->graph, n->arguments[0])->rank != n->rank)
            return axis == n->rank - 1;
        operand = n->arguments[0];
    }
    const struct buffer *b = plan_buffer(plan, plan->buffer_of[operand]);
    return b->order[b->rank - 1] == axis;
}

/* Few rows, as in decoding, have tiles of few rows. */
static void product_geometry(struct product *p)
{
    struct kernel_builder *builder = p->builder;
    struct sizes *sizes = &builder->plan->sizes;
    const struct node *n = p->node;
    const bool few = plan_is_fixed(builder->plan, builder->kernel->special, n->rank - 2) &&
                     size_value(sizes, p->rows) <= 16;
    const int tile_m = few ? 16 : 64, tile_n = 64, tile_k = 16, share_m = few ? 2 : 8, share_n = 4;
    const dim tiles_m =
        size_floordiv(sizes, size_add(sizes, p->rows, size_literal(sizes, tile_m - 1)),
                      size_literal(sizes, tile_m));
    const dim tiles_n =
        size_floordiv(sizes, size_add(sizes, p->columns, size_literal(sizes, tile_n - 1)),
                      size_literal(sizes, tile_n));
    builder->block = (uint32_t)(tile_m / share_m * (tile_n / share_n));
    builder->side = 1;
    builder->runs = size_mul(sizes, kernel_count(builder, n->shape, n->rank - 2),
                             size_mul(sizes, tiles_m, tiles_n));
    text_format(&builder->defines,
                "#define TILE_M %d\n#define TILE_N %d\n#define TILE_K %d\n#define SHARE_M %d\n"
                "#define SHARE_N %d\n#define LEFT_ALONG_K %d\n#define RIGHT_ALONG_K %d\n"
                "typedef %s acc_t;\n",
                tile_m, tile_n, tile_k, share_m, share_n,
                runs_along(p, n->arguments[LEFT], n->rank - 1),
                runs_along(p, n->arguments[RIGHT], n->rank - 2), emit_type(p->accumulator));
    kernel_define(builder, "ROWS", p->rows);
    kernel_define(builder, "COLUMNS", p->columns);
    kernel_define(builder, "TILES_M", tiles_m);
    kernel_define(builder, "TILES_N", tiles_n);
    kernel_define_inside(builder, "LENGTH", p->length);
}

phasor_status kernel_dot(struct kernel_builder *builder)
{
    struct trace *trace = &builder->trace;
    const struct kernel_store *store = &builder->kernel->stores[0];
    struct product p;
    form left[RANK_MAX], right[RANK_MAX], result[RANK_MAX];
    product_begin(&p, builder);
    coordinates(&p, p.i, p.k, left);
    coordinates(&p, p.k, p.j, right);
    coordinates(&p, p.i, p.j, result);
    const expr x = trace_element(trace, p.node->arguments[LEFT], left, 0);
    const expr y = trace_element(trace, p.node->arguments[RIGHT], right, 0);
    const expr element = trace_compute(trace, store->node, result, 0);
    const form address = trace_address(trace, plan_buffer(builder->plan, store->buffer), result);
    TRY(trace_status(trace));

    TRY(kernel_pointers(builder));
    TRY(kernel_pointer(builder, store->buffer, true));
    product_geometry(&p);
    TRY(emit_operand(&p, "left(const args &a, index_t b, index_t i, index_t k)", x));
    TRY(emit_operand(&p, "right(const args &a, index_t b, index_t k, index_t j)", y));
    return emit_product(&p, element, address);
}
