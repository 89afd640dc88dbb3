/* kernel_row.c - kernels that walk along one axis: sorts, searches for the largest or smallest
 * element.
 *
 *     sort_index(%1) axis=1                  sort: load(a, i, r), before(x, y), store(a, i,
 *                                            position, r)
 *     argmax(%1) axis=1                      search: load(a, i, r), better(x, best), store(a, i,
 *                                            at)
 *
 * What an operator does with two elements stands in `cells`, and nowhere else. */
#include "codegen/kernel.h"

/* CUDA cells: whether element 0 goes before element 1. */
static const char *const cells[OP_COUNT] = {
    [OP_argmax] = "above(%0, %1)",
    [OP_argmin] = "below(%0, %1)",
    [OP_sort_index] = "comes_before(%0, %1)",
};

struct row_kernel {
    struct kernel_builder *builder;
    const struct node *node, *operand;
    int axis;
    form row[RANK_MAX]; /* coordinates of the operand without the axis */
    expr element;       /* of the operand at row i, element r */
    expr result;        /* what is stored, and where: traced before an emitter counts expressions */
    form address;
};

static void row_coordinates(const struct row_kernel *k, form at_axis, form *out)
{
    for (int d = 0, from = 0; d < k->operand->rank; d++)
        out[d] = d == k->axis ? at_axis : k->row[from++];
}

static form element_variable(struct row_kernel *k, char name)
{
    return index_variable(&k->builder->trace.index, (uint32_t)name, k->operand->shape[k->axis]);
}

static phasor_status row_begin(struct row_kernel *k, struct kernel_builder *builder)
{
    const struct graph *graph = &builder->plan->graph;
    struct index_pool *index = &builder->trace.index;
    *k = (struct row_kernel){.builder = builder,
                             .node = graph_node(graph, builder->kernel->special)};
    k->operand = graph_node(graph, k->node->arguments[0]);
    k->axis = k->node->attributes.axis;
    dim sizes[RANK_MAX];
    int rank = 0;
    for (int d = 0; d < k->operand->rank; d++)
        if (d != k->axis)
            sizes[rank++] = k->operand->shape[d];
    builder->block = 128;
    builder->side = 1;
    builder->runs = kernel_count(builder, sizes, rank);
    trace_unravel(&builder->trace, index_variable(index, 'i', builder->runs), sizes, rank, k->row);
    form at[RANK_MAX];
    row_coordinates(k, element_variable(k, 'r'), at);
    k->element = trace_element(&builder->trace, k->node->arguments[0], at, 0);
    TRY(kernel_pointers(builder));
    TRY(kernel_pointer(builder, builder->kernel->stores[0].buffer, true));
    return trace_status(&builder->trace);
}

static void define_length(struct row_kernel *k, const char *type_name, enum dtype type)
{
    kernel_define_inside(k->builder, "LENGTH", k->operand->shape[k->axis]);
    text_format(&k->builder->defines, "typedef %s %s;\n", emit_type(type), type_name);
}

/* A function of the prologue whose body `write` fills in. */
typedef void body_function(struct row_kernel *, struct emitter *);

static phasor_status emit_function(struct row_kernel *k, const char *head, body_function *write)
{
    struct emitter emitter;
    TRY(kernel_emitter(k->builder, &emitter));
    text_format(&k->builder->functions, "DEVICE %s\n{\n", head);
    write(k, &emitter);
    text_add(&k->builder->functions, "}\n");
    return kernel_emitter_end(k->builder, &emitter);
}

static void emit_two(struct row_kernel *k, const char *head, enum dtype dtype)
{
    struct text *out = &k->builder->functions;
    text_format(out, "DEVICE %s { return ", head);
    emit_cell(cells[k->node->op], dtype, (const char *const[]){"x", "y"}, out);
    text_add(out, "; }\n");
}

static void write_load(struct row_kernel *k, struct emitter *emitter)
{
    char name[NAME_SIZE];
    emit_loads(emitter, &k->element, 1);
    emit_value(emitter, k->element, name);
    text_format(&k->builder->functions, "    return %s;\n", name);
}

/* What is stored at these coordinates, with `result` in it. */
static phasor_status trace_result(struct row_kernel *k, const form *at)
{
    struct trace *trace = &k->builder->trace;
    const struct kernel_store *store = &k->builder->kernel->stores[0];
    k->result = trace_compute(trace, store->node, at, 0);
    k->address = trace_address(trace, plan_buffer(k->builder->plan, store->buffer), at);
    return trace_status(trace);
}

static phasor_status trace_result_along(struct row_kernel *k, char name)
{
    form at[RANK_MAX];
    row_coordinates(k, element_variable(k, name), at);
    return trace_result(k, at);
}

static void store_result(struct row_kernel *k, struct emitter *emitter)
{
    emit_store(emitter, k->builder->kernel->stores[0].buffer, &k->address, &k->result, 1);
}

/* -- sort and search --------------------------------------------------------------------------- */

static void write_store_position(struct row_kernel *k, struct emitter *emitter)
{
    text_add(&k->builder->functions, "    const long long result = (long long)r;\n");
    store_result(k, emitter);
}

static void write_store_found(struct row_kernel *k, struct emitter *emitter)
{
    text_add(&k->builder->functions, "    const long long result = (long long)r;\n");
    store_result(k, emitter);
}

phasor_status kernel_sort(struct kernel_builder *builder)
{
    struct row_kernel k;
    TRY(row_begin(&k, builder));
    define_length(&k, "item_t", k.operand->dtype);
    text_format(&builder->defines, "#define comes_before %s\n",
                k.node->attributes.flag ? "above" : "below_or_number");
    builder->runs = size_mul(builder->trace.index.sizes, builder->runs, k.operand->shape[k.axis]);
    TRY(emit_function(&k, "item_t load(const args &a, index_t i, index_t r)", write_load));
    emit_two(&k, "bool before(item_t x, item_t y)", k.operand->dtype);
    TRY(trace_result_along(&k, 'p'));
    return emit_function(&k, "void store(const args &a, index_t i, index_t p, index_t r)",
                         write_store_position);
}

phasor_status kernel_search(struct kernel_builder *builder)
{
    struct row_kernel k;
    TRY(row_begin(&k, builder));
    define_length(&k, "item_t", k.operand->dtype);
    TRY(emit_function(&k, "item_t load(const args &a, index_t i, index_t r)", write_load));
    emit_two(&k, "bool better(item_t x, item_t y)", k.operand->dtype);
    TRY(trace_result(&k, k.row));
    return emit_function(&k, "void store(const args &a, index_t i, index_t r)", write_store_found);
}
