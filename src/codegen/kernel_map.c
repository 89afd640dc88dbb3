/* kernel_map.c - maps, rows and scatters: a thread computes one run of lanes of every store.
 *
 *     stores: to -> bf16 [4, 8192, 32, 128]    8 lanes; i counts runs; coordinates of lane l are
 *                                              those of element 8*i + l
 *
 * Elements are counted in the order of the first store's memory, so that runs are contiguous there.
 */
#include "codegen/kernel.h"

#include <stdio.h>
#include <string.h>

struct map {
    struct kernel_builder *builder;
    int order[RANK_MAX]; /* k-th dim of the iteration -> dim of the value */
    dim sizes[RANK_MAX]; /* in that order */
    int rank;
    int lane_count;    /* of a thread: the builder's lanes, times runs */
    int threads, runs; /* ROW: of a row, of a thread; otherwise 1, 1 */
    expr lanes[STORES_MAX][LANES_MAX];
    form addresses[STORES_MAX][LANES_MAX];
    expr reduced[ROOTS_MAX][LANES_MAX]; /* ROW: what each root reduces */
    int store_count; /* of all elements; in a ROW, the others are of one element a row: lane 0 */
};

/* The linear index of a thread's lane: runs of a row are as far apart as its threads. */
static form lane_element(struct map *map, form run, int lane)
{
    struct index_pool *index = &map->builder->trace.index;
    const int lanes = map->builder->lanes;
    const dim threads = size_literal(index->sizes, map->threads),
              width = size_literal(index->sizes, lanes);
    form piece = run;
    if (map->runs > 1) {
        const form row = index_divide(index, run, threads);
        piece = index_add(
            index, index_scale(index, row, size_literal(index->sizes, map->threads * map->runs)),
            index_remainder(index, run, threads));
        piece = index_offset(index, piece, size_literal(index->sizes, lane / lanes * map->threads));
    }
    return index_offset(index, index_scale(index, piece, width),
                        size_literal(index->sizes, lane % lanes));
}

static void lane_coordinates(struct map *map, form run, int lane, form coordinates[RANK_MAX])
{
    form ordered[RANK_MAX];
    trace_unravel(&map->builder->trace, lane_element(map, run, lane), map->sizes, map->rank,
                  ordered);
    for (int d = 0; d < map->rank; d++)
        coordinates[map->order[d]] = ordered[d];
}

static form run_variable(struct kernel_builder *builder)
{
    return index_variable(&builder->trace.index, 'i', builder->runs);
}

static enum dtype root_accumulator(const struct kernel_builder *builder, int root)
{
    const struct graph *graph = &builder->plan->graph;
    const struct node *n = graph_node(graph, builder->kernel->roots[root]);
    return plan_accumulator(n->op, graph_node(graph, n->arguments[0])->dtype);
}

/* ROW: acc of this thread's elements, then of the row's threads. */
static void emit_root(struct map *map, struct emitter *emitter, int root)
{
    struct kernel_builder *builder = map->builder;
    const char *n = kernel_suffix(root);
    char acc[NAME_SIZE];
    snprintf(acc, sizeof acc, "acc%s", n);
    text_format(&builder->functions, "    acc%s_t %s = identity%s();\n", n, acc, n);
    for (int l = 0; l < map->lane_count; l++)
        kernel_accumulate(builder, emitter, root_accumulator(builder, root), root,
                          map->reduced[root][l]);
    text_format(&builder->functions, "    %s = across<%d>(%s, combine%s);\n", acc, map->threads,
                acc, n);
    emit_result(graph_node(&builder->plan->graph, builder->kernel->roots[root])->dtype, root, acc,
                &builder->functions);
}

/* Writes body(): all loads, then lane by lane, then the stores. */
static phasor_status emit_body(struct map *map)
{
    struct kernel_builder *builder = map->builder;
    const struct kernel *kernel = builder->kernel;
    struct emitter emitter;
    expr roots[(STORES_MAX + ROOTS_MAX) * LANES_MAX];
    int count = 0;
    for (int s = 0; s < kernel->store_count; s++)
        for (int l = 0; l < (s < map->store_count ? map->lane_count : 1); l++)
            roots[count++] = map->lanes[s][l];
    for (int k = 0; k < kernel->root_count; k++)
        for (int l = 0; l < map->lane_count; l++)
            roots[count++] = map->reduced[k][l];
    TRY(kernel_pointers(builder));
    TRY(kernel_emitter(builder, &emitter));
    if (builder->part < 0)
        text_add(&builder->functions, "DEVICE void body(const args &a, index_t i)\n{\n");
    else
        text_format(&builder->functions, "DEVICE void body%d(const args &a, index_t i)\n{\n",
                    builder->part);
    /* Where a scatter writes is read from memory too; it has one store. */
    emit_loads_for(&emitter, roots, count, map->addresses[0],
                   kernel->store_count ? map->lane_count : 0);
    for (int k = 0; k < kernel->root_count; k++)
        emit_root(map, &emitter, k);
    for (int s = 0; s < map->store_count; s++)
        for (int run = 0; run < map->runs; run++)
            emit_store(&emitter, kernel->stores[s].buffer, map->addresses[s] + run * builder->lanes,
                       map->lanes[s] + run * builder->lanes, builder->lanes);
    if (map->store_count < kernel->store_count)
        text_format(&builder->functions, "    if (i %% %du == 0) {\n", map->threads);
    for (int s = map->store_count; s < kernel->store_count; s++)
        emit_store(&emitter, kernel->stores[s].buffer, map->addresses[s], map->lanes[s], 1);
    text_add(&builder->functions, map->store_count < kernel->store_count ? "    }\n}\n" : "}\n");
    return kernel_emitter_end(builder, &emitter);
}

/* Dims of the iteration are those of the shape, in the order of the buffer's memory. */
static void map_begin(struct map *map, struct kernel_builder *builder, const dim *shape, int rank)
{
    const struct buffer *first = plan_buffer(builder->plan, builder->kernel->stores[0].buffer);
    *map = (struct map){.builder = builder,
                        .rank = rank,
                        .threads = 1,
                        .runs = 1,
                        .store_count = builder->kernel->store_count};
    memcpy(map->order, first->order, sizeof map->order);
    for (int d = 0; d < rank; d++)
        map->sizes[d] = shape[map->order[d]];
}

static bool store_is_gapless(const struct map *map, const struct buffer *buffer)
{
    struct sizes *sizes = map->builder->trace.index.sizes;
    dim expected = 1;
    for (int d = map->rank - 1; d >= 0; d--) {
        if (map->sizes[d] != 1 && buffer->strides[map->order[d]] != expected)
            return false;
        expected = size_mul(sizes, expected, map->sizes[d]);
    }
    return true;
}

/* 16 bytes of the largest element, where the first store runs along the innermost dim at all. */
static int map_lanes(const struct map *map)
{
    const struct kernel *kernel = map->builder->kernel;
    struct sizes *sizes = map->builder->trace.index.sizes;
    int largest = 1;
    bool gapless = true;
    for (int s = 0; s < kernel->store_count; s++) {
        const struct buffer *b = plan_buffer(map->builder->plan, kernel->stores[s].buffer);
        largest = dtype_size(b->dtype) > largest ? dtype_size(b->dtype) : largest;
        gapless &= store_is_gapless(map, b);
    }
    const struct buffer *first = plan_buffer(map->builder->plan, kernel->stores[0].buffer);
    if (map->rank == 0)
        return 1;
    const dim stride = first->strides[map->order[map->rank - 1]];
    if (!size_is_literal(sizes, stride) || size_value(sizes, stride) > 1)
        return 1;
    const int most = 16 / largest < 8 ? 16 / largest : 8;
    return kernel_lanes(map->builder, map->sizes, map->rank, most, gapless);
}

static phasor_status map_trace(struct map *map)
{
    struct kernel_builder *builder = map->builder;
    const form run = run_variable(builder);
    for (int l = 0; l < map->lane_count; l++) {
        form at[RANK_MAX];
        lane_coordinates(map, run, l, at);
        for (int s = 0; s < map->store_count; s++) {
            const struct kernel_store *store = &builder->kernel->stores[s];
            map->lanes[s][l] = store->copy ? trace_element(&builder->trace, store->node, at, 0)
                                           : trace_compute(&builder->trace, store->node, at, 0);
            map->addresses[s][l] =
                trace_address(&builder->trace, plan_buffer(builder->plan, store->buffer), at);
        }
    }
    return trace_status(&builder->trace);
}

static void map_geometry(struct map *map, dim count)
{
    struct kernel_builder *builder = map->builder;
    map->lane_count = builder->lanes * map->runs;
    builder->runs = size_floordiv(builder->trace.index.sizes, count,
                                  size_literal(builder->trace.index.sizes, map->lane_count));
    builder->block = 128;
    builder->side = 1;
}

phasor_status kernel_map(struct kernel_builder *builder)
{
    struct map map;
    const struct node *n = graph_node(&builder->plan->graph, builder->kernel->stores[0].node);
    map_begin(&map, builder, n->shape, n->rank);
    builder->lanes = map_lanes(&map);
    map_geometry(&map, kernel_count(builder, map.sizes, map.rank));
    TRY(map_trace(&map));
    for (int s = 0; s < builder->kernel->store_count; s++)
        TRY(kernel_pointer(builder, builder->kernel->stores[s].buffer, true));
    return emit_body(&map);
}

/* -- row --------------------------------------------------------------------------------------- */

/* The thread's elements of what a root reduces: as many, in the same rows. */
static void root_trace(struct map *map, int root)
{
    struct kernel_builder *builder = map->builder;
    const struct graph *graph = &builder->plan->graph;
    const value operand = graph_node(graph, builder->kernel->roots[root])->arguments[0];
    const struct node *a = graph_node(graph, operand);
    const form run = run_variable(builder);
    for (int l = 0; l < map->lane_count; l++) {
        form at[RANK_MAX];
        trace_unravel(&builder->trace, lane_element(map, run, l), a->shape, a->rank, at);
        map->reduced[root][l] = trace_element(&builder->trace, operand, at, 0);
    }
}

/* An element of a value that has one a row. */
static void row_value_trace(struct map *map, int s)
{
    struct kernel_builder *builder = map->builder;
    struct index_pool *index = &builder->trace.index;
    const struct kernel_store *store = &builder->kernel->stores[s];
    const struct node *n = graph_node(&builder->plan->graph, store->node);
    const form row =
        index_divide(index, run_variable(builder), size_literal(index->sizes, map->threads));
    form at[RANK_MAX];
    trace_unravel(&builder->trace, row, n->shape, n->rank, at);
    map->lanes[s][0] = trace_compute(&builder->trace, store->node, at, 0);
    map->addresses[s][0] =
        trace_address(&builder->trace, plan_buffer(builder->plan, store->buffer), at);
}

/* Registers for 8 blocks, or for fewer where a thread has more than 32 bytes of a row. */
static void define_resident(struct map *map, enum dtype accumulator)
{
    const int resident = 8 * 32 / (map->lane_count * dtype_size(accumulator));
    text_format(&map->builder->defines, "#define RESIDENT %d\n", resident < 8 ? resident : 8);
}

phasor_status kernel_row(struct kernel_builder *builder)
{
    struct map map;
    const struct graph *graph = &builder->plan->graph;
    const struct node *n = graph_node(graph, builder->kernel->stores[0].node);
    map_begin(&map, builder, n->shape, n->rank);
    map.store_count = 1;
    for (int d = 0; d < n->rank; d++) { /* the planner chose a row-major store */
        map.order[d] = d;
        map.sizes[d] = n->shape[d];
    }
    const struct node *a =
        graph_node(graph, graph_node(graph, builder->kernel->special)->arguments[0]);
    row_shape(size_pin(graph->sizes, a->shape[a->rank - 1]), dtype_size(n->dtype), &builder->lanes,
              &map.threads, &map.runs);
    map_geometry(&map, kernel_count(builder, map.sizes, map.rank));
    TRY(map_trace(&map));
    for (int k = 0; k < builder->kernel->root_count; k++)
        root_trace(&map, k);
    for (int s = map.store_count; s < builder->kernel->store_count; s++)
        row_value_trace(&map, s);
    TRY(trace_status(&builder->trace));
    for (int s = 0; s < builder->kernel->store_count; s++)
        TRY(kernel_pointer(builder, builder->kernel->stores[s].buffer, true));
    for (int k = 0; k < builder->kernel->root_count; k++)
        kernel_combination(builder, graph_node(graph, builder->kernel->roots[k])->op,
                           root_accumulator(builder, k), k);
    define_resident(&map, root_accumulator(builder, 0));
    return emit_body(&map);
}

/* -- scatter ----------------------------------------------------------------------------------- */

/* Where element `at` of the values goes: index_put. */
static void put_target(struct kernel_builder *builder, const struct node *n, const form *at,
                       int inner, form *target)
{
    struct trace *trace = &builder->trace;
    const struct node *base = graph_node(&builder->plan->graph, n->arguments[0]);
    const int axis = n->attributes.axis, count = n->argument_count - 2;
    memcpy(target, at, (size_t)axis * sizeof *target);
    for (int i = 0; i < count; i++) {
        form index_at[RANK_MAX];
        kernel_broadcast(builder, n->arguments[2 + i], at + axis, inner, index_at);
        target[axis + i] =
            trace_index_value(trace, n->arguments[2 + i], index_at, base->shape[axis + i], 0);
    }
    memcpy(target + axis + count, at + axis + inner,
           (size_t)(base->rank - axis - count) * sizeof *target);
}

/* The shape that is written: that of the base with the indexed dims replaced by those of the
 * indices. */
int kernel_put_shape(struct kernel_builder *builder, const struct node *n, dim shape[RANK_MAX],
                     int *inner)
{
    const struct graph *graph = &builder->plan->graph;
    const struct node *base = graph_node(graph, n->arguments[0]);
    const int axis = n->attributes.axis, count = n->argument_count - 2;
    *inner = 0;
    for (int i = 0; i < count; i++)
        *inner = graph_node(graph, n->arguments[2 + i])->rank > *inner
                     ? graph_node(graph, n->arguments[2 + i])->rank
                     : *inner;
    memcpy(shape, base->shape, (size_t)axis * sizeof *shape);
    for (int d = 0; d < *inner; d++) {
        shape[axis + d] = 1;
        for (int i = 0; i < count; i++) {
            const struct node *index = graph_node(graph, n->arguments[2 + i]);
            const int at = d - (*inner - index->rank);
            if (at >= 0 && index->shape[at] != 1)
                shape[axis + d] = index->shape[at];
        }
    }
    const int after = base->rank - axis - count;
    memcpy(shape + axis + *inner, base->shape + axis + count, (size_t)after * sizeof *shape);
    return axis + *inner + after;
}

void kernel_broadcast(const struct kernel_builder *builder, value v, const form *at, int rank,
                      form *out)
{
    const struct node *n = graph_node(&builder->plan->graph, v);
    for (int d = 0; d < n->rank; d++)
        out[d] = n->shape[d] == 1 ? 0 : at[rank - n->rank + d];
}

static expr broadcast_element(struct kernel_builder *builder, value v, const form *at, int rank)
{
    form in[RANK_MAX];
    kernel_broadcast(builder, v, at, rank, in);
    return trace_element(&builder->trace, v, in, 0);
}

static void scatter_lane(struct map *map, const struct node *n, int inner, const form *at, int lane)
{
    struct kernel_builder *builder = map->builder;
    const struct buffer *buffer = plan_buffer(builder->plan, builder->kernel->stores[0].buffer);
    form target[RANK_MAX];
    if (n->op == OP_index_put) {
        put_target(builder, n, at, inner, target);
        map->lanes[0][lane] = broadcast_element(builder, n->arguments[1], at, map->rank);
    } else {
        const struct node *base = graph_node(&builder->plan->graph, n->arguments[0]);
        memcpy(target, at, (size_t)map->rank * sizeof *target);
        target[n->attributes.axis] = trace_index_value(&builder->trace, n->arguments[1], at,
                                                       base->shape[n->attributes.axis], 0);
        map->lanes[0][lane] = trace_element(&builder->trace, n->arguments[2], at, 0);
    }
    map->addresses[0][lane] = trace_address(&builder->trace, buffer, target);
}

phasor_status kernel_scatter(struct kernel_builder *builder)
{
    struct map map = {.builder = builder, .threads = 1, .runs = 1, .store_count = 1};
    const struct node *n = graph_node(&builder->plan->graph, builder->kernel->special);
    int inner = 0;
    if (n->op == OP_index_put) {
        map.rank = kernel_put_shape(builder, n, map.sizes, &inner);
    } else {
        const struct node *index = graph_node(&builder->plan->graph, n->arguments[1]);
        map.rank = index->rank;
        memcpy(map.sizes, index->shape, (size_t)index->rank * sizeof *index->shape);
    }
    for (int d = 0; d < map.rank; d++)
        map.order[d] = d;
    const struct buffer *buffer = plan_buffer(builder->plan, builder->kernel->stores[0].buffer);
    const bool trailing = n->op == OP_index_put && n->attributes.axis + inner < map.rank;
    const bool runs = trailing && buffer->strides[buffer->rank - 1] == 1;
    const int most = 16 / dtype_size(buffer->dtype) < 8 ? 16 / dtype_size(buffer->dtype) : 8;
    builder->lanes = runs ? kernel_lanes(builder, map.sizes + map.rank - 1, 1, most, false) : 1;
    map_geometry(&map, kernel_count(builder, map.sizes, map.rank));

    const form run = run_variable(builder);
    for (int l = 0; l < builder->lanes; l++) {
        form at[RANK_MAX];
        lane_coordinates(&map, run, l, at);
        scatter_lane(&map, n, inner, at, l);
    }
    TRY(trace_status(&builder->trace));
    TRY(kernel_pointer(builder, builder->kernel->stores[0].buffer, true));
    return emit_body(&map);
}
