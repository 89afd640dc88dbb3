/* random_graph.c - see random_graph.h: leaves, operands, elementwise rows, outputs. The other rows
 * are in random_rows.c. */
#include "random_graph.h"

#include "graph/element.h"
#include "world.h"

#include <string.h>

static const enum dtype real_dtypes[] = {DT_bool, DT_u8,   DT_i8,  DT_i16, DT_i32, DT_i64,
                                         DT_f16,  DT_bf16, DT_f32, DT_f32, DT_f64};
static const enum dtype complex_dtypes[] = {DT_c64, DT_c64, DT_c64,  DT_c128, DT_c128,
                                            DT_f32, DT_f64, DT_bf16, DT_i64,  DT_bool};

/* -- small words ------------------------------------------------------------------------------- */

int random_pick(struct random_graph *random, int bound)
{
    return random_below(&random->random, bound);
}

int64_t random_size_of(const struct random_graph *random, value v, int axis)
{
    return graph_dim(random->graph, v, axis);
}

int64_t random_count_of(const struct random_graph *random, value v)
{
    int64_t count = 1;
    for (int d = 0; d < graph_node(random->graph, v)->rank; d++)
        count *= graph_dim(random->graph, v, d);
    return count;
}

dim random_literal(struct random_graph *random, int64_t size)
{
    return size_literal(random->graph->sizes, size);
}

static enum dtype dtype_of(const struct random_graph *random, value v)
{
    return graph_node(random->graph, v)->dtype;
}

value random_number(struct random_graph *random, enum dtype dtype, double number)
{
    return graph_float(random->graph, dtype, number);
}

value random_add(struct random_graph *random, enum op op, const value *operands, int count,
                 struct attributes at)
{
    return graph_add(random->graph, op, DT_f32, operands, count, &at, NULL);
}

static value map1(struct random_graph *random, enum op op, value x)
{
    return graph_map1(random->graph, op, x);
}

static value map2(struct random_graph *random, enum op op, value x, value y)
{
    return graph_map2(random->graph, op, x, y);
}

value random_loosen(struct random_graph *random, value v, double of_f32)
{
    static const double units[DT_COUNT] = {
        [DT_f16] = 2e-3, [DT_bf16] = 1.6e-2, [DT_f32] = 1, [DT_f64] = 1e-7};
    const enum dtype real = dtype_info[dtype_of(random, v)].real;
    const double unit = dtype_size(real) == 2 ? units[real] : units[real] * of_f32;
    if (v && v < sizeof random->loose / sizeof *random->loose)
        random->loose[v] = (struct run_tolerance){
            unit, dtype_is_complex(dtype_of(random, v)) || random->complex ? 20 * unit : 0};
    return v;
}

/* -- domains ----------------------------------------------------------------------------------- */

static value without_nan(struct random_graph *random, value x)
{
    return graph_map3(random->graph, OP_where, map2(random, OP_eq, x, x), x,
                      random_number(random, dtype_of(random, x), 0));
}

value random_clamp(struct random_graph *random, value x, double low, double high)
{
    const enum dtype dtype = dtype_of(random, x);
    x = without_nan(random, x);
    x = map2(random, OP_minimum, x, random_number(random, dtype, high));
    return map2(random, OP_maximum, x, random_number(random, dtype, low));
}

value random_tame(struct random_graph *random, value x)
{
    if (!dtype_is_complex(dtype_of(random, x)))
        return random_clamp(random, x, 0.25, 2);
    const value real = random_clamp(random, map1(random, OP_real, x), 0.25, 2);
    const value imaginary = random_clamp(random, map1(random, OP_imag, x), 0.125, 1.5);
    return map2(random, OP_complex, real, imaginary);
}

value random_cast(struct random_graph *random, value x, enum dtype dtype)
{
    const enum dtype from = dtype_of(random, x);
    if (dtype_is_complex(from) && !dtype_is_complex(dtype) && dtype != DT_bool)
        return random_cast(random, map1(random, OP_real, x), dtype);
    if (dtype_is_float(from) && dtype_is_integer(dtype) && dtype != DT_bool)
        x = random_clamp(random, x, -100, 100);
    return graph_cast(random->graph, x, dtype);
}

static value in_domain(struct random_graph *random, value x, enum op_domain domain)
{
    const enum dtype dtype = dtype_of(random, x);
    if (dtype_is_complex(dtype))
        return domain == DOMAIN_ANY ? x : random_tame(random, x);
    if (domain == DOMAIN_SMALL && dtype_is_integer(dtype))
        return map2(random, OP_bit_and, x, random_number(random, dtype, dtype == DT_bool ? 1 : 7));
    if (!dtype_is_float(dtype))
        return x;
    switch (domain) {
    case DOMAIN_POSITIVE: return random_clamp(random, map1(random, OP_abs, x), 0.25, 64);
    case DOMAIN_UNIT: return random_clamp(random, x, -0.875, 0.875);
    case DOMAIN_ONE_UP:
        return map2(random, OP_maximum, map1(random, OP_abs, x), random_number(random, dtype, 1));
    case DOMAIN_NONZERO: {
        const value low = map2(random, OP_minimum, x, random_number(random, dtype, -0.5));
        const value high = map2(random, OP_maximum, x, random_number(random, dtype, 0.5));
        return graph_map3(random->graph, OP_where,
                          map2(random, OP_lt, x, random_number(random, dtype, 0)), low, high);
    }
    default: return x;
    }
}

/* -- operands ---------------------------------------------------------------------------------- */

static bool broadcasts_to(const struct random_graph *random, value v, const dim *sizes, int rank)
{
    const struct node *n = graph_node(random->graph, v);
    if (n->rank > rank)
        return false;
    for (int d = 0; d < n->rank; d++) {
        const int64_t size = graph_dim(random->graph, v, d);
        if (size != 1 && size != size_value(random->graph->sizes, sizes[rank - n->rank + d]))
            return false;
    }
    return true;
}

static value fitting(struct random_graph *random, enum dtype dtype, const dim *sizes, int rank)
{
    for (int attempt = 0; attempt < 12 && random->count; attempt++) {
        const value v = random->values[random_pick(random, random->count)];
        if (broadcasts_to(random, v, sizes, rank))
            return random_cast(random, v, dtype);
    }
    return random_number(random, dtype, dtype == DT_bool ? 1 : random_pick(random, 9) - 3);
}

value random_like(struct random_graph *random, value x, enum dtype dtype)
{
    const struct node *n = graph_node(random->graph, x);
    return fitting(random, dtype, n->shape, n->rank);
}

value random_shaped(struct random_graph *random, enum dtype dtype, const dim *sizes, int rank)
{
    return graph_expand(random->graph, fitting(random, dtype, sizes, rank), sizes, rank);
}

/* -- leaves ------------------------------------------------------------------------------------ */

static enum dtype random_dtype(struct random_graph *random)
{
    return random->complex
               ? complex_dtypes[random_pick(random, sizeof complex_dtypes / sizeof *complex_dtypes)]
               : real_dtypes[random_pick(random, sizeof real_dtypes / sizeof *real_dtypes)];
}

static int random_shape(struct random_graph *random, int64_t *sizes, dim *symbols)
{
    int64_t count = 1;
    int rank = random_pick(random, 5);
    for (int d = 0; d < rank; d++) {
        const int k = random_pick(random, 4);
        sizes[d] = k == 3 ? 1 : random->dims[k];
        symbols[d] = k == 3 ? 1 : random->symbols[k];
        if (count * sizes[d] > RANDOM_ELEMENTS)
            return d;
        count *= sizes[d];
    }
    return rank;
}

const struct data *random_data(struct random_graph *random, enum dtype dtype, const int64_t *sizes,
                               int rank)
{
    struct arena *arena = random->graph->arena;
    const enum dtype part = dtype_info[dtype].real;
    struct data *data = NEW(arena, struct data, 1);
    struct storage *storage = NEW(arena, struct storage, 1);
    int64_t *all = NEW(arena, int64_t, 2 * RANK_MAX), *strides = all + RANK_MAX, count = 1;
    cr_assert(data && storage && all);
    memcpy(all, sizes, (size_t)rank * sizeof *sizes);
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = count;
        count *= sizes[d] > 1 ? sizes[d] : 1;
    }
    *storage =
        (struct storage){.nbytes = (size_t)(count * dtype_size(dtype)), .id = storage_new_id()};
    char *bytes = NEW(arena, char, storage->nbytes);
    cr_assert(bytes);
    for (int64_t i = 0; i < count * (dtype_is_complex(dtype) ? 2 : 1); i++) {
        const int number = random_pick(random, 33) - 16;
        const struct number n = {.i = dtype == DT_bool || dtype == DT_u8 ? number & 1 : number,
                                 .re = number / 8.0};
        element_store(part, n, bytes + i * dtype_size(part));
    }
    storage->bytes = bytes;
    *data = (struct data){.name = arena_format(arena, "w%zu", random->graph->nodes.count),
                          .dtype = dtype,
                          .rank = rank,
                          .sizes = all,
                          .strides = strides,
                          .storage = storage};
    return data;
}

static value leaf_input(struct random_graph *random)
{
    int64_t sizes[RANK_MAX];
    dim symbols[RANK_MAX];
    struct graph *graph = random->graph;
    const int rank = random_shape(random, sizes, symbols);
    const int index = (int)graph->inputs.count;
    const char *name = arena_format(graph->arena, "x%d", index);
    cr_assert(name && array_push(&graph->inputs,
                                 (struct graph_input){.name = name, .kind = PHASOR_TENSOR}));
    const struct attributes at = {.index = index, .sizes = symbols, .size_count = rank};
    return graph->inputs.at[index].node =
               graph_add(graph, OP_input, random_dtype(random), NULL, 0, &at, name);
}

static value leaf_state(struct random_graph *random)
{
    int64_t sizes[RANK_MAX];
    dim symbols[RANK_MAX];
    struct graph *graph = random->graph;
    const int rank = random_shape(random, sizes, symbols), index = (int)graph->buffers.count;
    const enum dtype dtype = random_dtype(random);
    const struct data *initial = random_data(random, dtype, sizes, rank);
    if (!data_is_inline(initial))
        return 0; /* the text of a graph that fails shall be all of it */
    const char *name = arena_format(graph->arena, "memory%d", index);
    const struct graph_buffer buffer = {.name = name, .initial = initial};
    cr_assert(name && array_push(&graph->buffers, buffer));
    return graph->buffers.at[index].node = graph_add(graph, OP_state, dtype, NULL, 0,
                                                     &(struct attributes){.index = index}, name);
}

static value leaf_data(struct random_graph *random)
{
    int64_t sizes[RANK_MAX];
    dim symbols[RANK_MAX];
    const int rank = random_shape(random, sizes, symbols);
    const struct data *data = random_data(random, random_dtype(random), sizes, rank);
    if (!data_is_inline(data))
        return 0;
    return graph_add(random->graph, OP_data, data->dtype, NULL, 0,
                     &(struct attributes){.data = data}, data->name);
}

static value grow_leaf(struct random_graph *random, enum op op, value x)
{
    switch (op) {
    case OP_input: return leaf_input(random);
    case OP_state: return leaf_state(random);
    case OP_data: return leaf_data(random);
    case OP_iota: return graph_iota(random->graph, random->symbols[random_pick(random, 3)]);
    case OP_size:
        return map2(random, OP_add, graph_size(random->graph, random->symbols[0]),
                    random_cast(random, x, DT_i64));
    default:
        if (dtype_is_complex(dtype_of(random, x)))
            return without_nan(random, x);
        return map2(random, OP_maximum, x,
                    random_number(random, dtype_of(random, x), random_pick(random, 5) - 2));
    }
}

/* -- elementwise rows -------------------------------------------------------------------------- */

/* Complex functions are computed from other functions after the rewrite: near, but not the same. */
static bool is_exact(const struct random_graph *random, enum op op, enum dtype dtype)
{
    static const bool exact[OP_COUNT] = {
        [OP_neg] = true,    [OP_conj] = true,    [OP_cast] = true, [OP_add] = true,
        [OP_sub] = true,    [OP_mul] = true,     [OP_eq] = true,   [OP_ne] = true,
        [OP_where] = true,  [OP_complex] = true, [OP_not] = true,  [OP_polar] = true,
        [OP_is_nan] = true, [OP_is_inf] = true};
    return !(random->complex && dtype_is_complex(dtype)) || exact[op];
}

static value grow_cast(struct random_graph *random, value x)
{
    const enum dtype dtype = random_dtype(random);
    if (random->complex && dtype_is_complex(dtype_of(random, x)))
        return graph_cast(random->graph, x, dtype_of(random, x) == DT_c64 ? DT_c128 : DT_c64);
    return dtype == dtype_of(random, x) ? 0 : random_cast(random, x, dtype);
}

/* The dtype in which a row is applied to something of this dtype. */
static enum dtype dtype_for(struct random_graph *random, enum op op, enum dtype dtype)
{
    static const enum dtype floats[] = {DT_f16, DT_bf16, DT_f32, DT_f64},
                            integers[] = {DT_i8, DT_u8, DT_i16, DT_i32, DT_i64};
    const bool integer = dtype_is_integer(dtype);
    if (op_info[op].type == TYPE_MAKE)
        return random_pick(random, 3) ? DT_f32 : DT_f64;
    if (random->complex && op_info[op].complex != COMPLEX_NEVER && random_pick(random, 8))
        return dtype_is_complex(dtype) ? dtype : DT_c64;
    if (op_info[op].complex == COMPLEX_NEVER)
        dtype = dtype_info[dtype].real;
    if (op_info[op].on == ON_F && integer)
        return floats[random_pick(random, 4)];
    if (op_info[op].on == ON_I && !integer)
        return integers[random_pick(random, 5)];
    const bool shift = op == OP_shift_left || op == OP_shift_right; /* of bool: nobody has them */
    return shift && dtype == DT_bool ? DT_i32 : dtype;
}

/* A complex tensor that was a real one: what is added to it or multiplied by it leaves zeros of
 * another sign. */
static bool is_real(const struct random_graph *random, value v)
{
    const struct node *n = graph_node(random->graph, v);
    const enum op_kind kind = op_info[n->op].kind;
    if (kind == KIND_VIEW || kind == KIND_CORE)
        return is_real(random, n->arguments[0]);
    return n->op == OP_scalar ||
           (n->op == OP_cast && !dtype_is_complex(dtype_of(random, n->arguments[0])));
}

static value grow_map(struct random_graph *random, enum op op, value x)
{
    const struct op_info *info = &op_info[op];
    if (op == OP_cast)
        return grow_cast(random, x);
    const enum dtype dtype = dtype_for(random, op, dtype_of(random, x));
    const int first = info->type == TYPE_PICK ? 1 : 0;
    value operands[3];
    x = random_cast(random, x, dtype);
    for (int i = 0; i < info->arity; i++) {
        operands[i] = i == first ? x : random_like(random, x, i < first ? DT_bool : dtype);
        if (i >= first)
            operands[i] = in_domain(random, operands[i], info->domain);
    }
    bool exact = is_exact(random, op, dtype);
    for (int i = first; i < info->arity && dtype_is_complex(dtype) && info->arity == 2; i++)
        exact &= !is_real(random, operands[i]);
    for (int i = first; i < info->arity && !exact; i++)
        operands[i] = random_tame(random, operands[i]);
    if (op == OP_copysign || op == OP_polar) /* the sign of NaN means nothing */
        operands[1] = without_nan(random, operands[1]);
    const value v = random_add(random, op, operands, info->arity, (struct attributes){0});
    return exact ? v : random_loosen(random, v, 5e-5);
}

/* -- growing ----------------------------------------------------------------------------------- */

bool random_graph_has(enum op op, bool complex)
{
    const struct op_info *info = &op_info[op];
    if (info->kind == KIND_NONE || op == OP_unknown)
        return false;
    if (complex) /* rows that are not defined on complex numbers stand on real branches */
        return true;
    const bool of_complex = info->type == TYPE_MAKE || op == OP_real || op == OP_imag ||
                            op == OP_view_as_real || op == OP_view_as_complex;
    return !of_complex && op != OP_dot;
}

static enum op op_of_turn(uint64_t turn, bool complex)
{
    int count = 0;
    for (int op = 0; op < OP_COUNT; op++)
        count += random_graph_has((enum op)op, complex);
    int left = (int)(turn % (uint64_t)count);
    for (int op = 0; op < OP_COUNT; op++)
        if (random_graph_has((enum op)op, complex) && left-- == 0)
            return (enum op)op;
    return OP_none;
}

static enum op random_op(struct random_graph *random, int step)
{
    const uint64_t turn =
        step % 2 ? random_next(&random->random) : random->seed + (uint64_t)step / 2 * 29;
    return op_of_turn(turn, random->complex);
}

static value grow_row(struct random_graph *random, enum op op, value x)
{
    if (op_info[op].kind == KIND_MAP)
        return grow_map(random, op, x);
    if (op_info[op].complex == COMPLEX_NEVER && op_info[op].kind != KIND_LEAF &&
        dtype_is_complex(dtype_of(random, x)))
        x = map1(random, OP_real, x);
    return op_info[op].kind == KIND_LEAF ? grow_leaf(random, op, x)
                                         : random_rows[op](random, op, x);
}

static void keep_value(struct random_graph *random, value v)
{
    if (v == 0 || random_count_of(random, v) > 4 * RANDOM_ELEMENTS ||
        v >= sizeof random->loose / sizeof *random->loose)
        return;
    if (random->loose[v].relative == 0 && random->count < RANDOM_VALUES)
        random->values[random->count++] = v;
}

/* After a few attempts the row gets an input of its own, which may have the dims it needs. */
static value pick_operand(struct random_graph *random, int attempt)
{
    if (attempt >= 4 && random->graph->inputs.count < 5) {
        const value input = leaf_input(random);
        keep_value(random, input);
        return input;
    }
    return random->values[random_pick(random, random->count)];
}

static void grow_once(struct random_graph *random, int step)
{
    const enum op op = random_op(random, step);
    for (int attempt = 0; attempt < 10; attempt++) {
        const value v = grow_row(random, op, pick_operand(random, attempt));
        if (v) {
            keep_value(random, v);
            return;
        }
    }
}

static void choose_dims(struct random_graph *random)
{
    static const int sizes[] = {1, 2, 3, 7, 21, 36, 2, 3, 4, 16};
    for (int k = 0; k < 3; k++) {
        random->dims[k] = random_pick(random, 12) == 0 ? 0 : sizes[random_pick(random, 10)];
        random->symbols[k] = random_literal(random, random->dims[k]);
    }
    if (random_pick(random, 2))
        random->symbols[0] = size_symbol(random->graph->sizes, "n", 0, 64, random->dims[0]);
}

/* -- slots ------------------------------------------------------------------------------------- */

static bool same_type(const struct random_graph *random, value a, value b)
{
    return dtype_of(random, a) == dtype_of(random, b) && graph_same_shape(random->graph, a, b);
}

/* What a buffer or input of this value is after the call; 0: it stays. */
static value random_written(struct random_graph *random, value leaf)
{
    if (random_pick(random, 3) == 0)
        return 0;
    for (int i = random->count - 1; i >= 0 && random_pick(random, 2); i--)
        if (random->values[i] != leaf && same_type(random, random->values[i], leaf) &&
            op_info[graph_node(random->graph, random->values[i])->op].kind != KIND_LEAF)
            return random->values[i];
    const value other = random_like(random, leaf, dtype_of(random, leaf));
    return map2(random, OP_add, leaf, other);
}

static void write_slots(struct random_graph *random)
{
    struct graph *graph = random->graph;
    for (size_t i = 0; i < graph->buffers.count; i++)
        graph->buffers.at[i].written = random_written(random, graph->buffers.at[i].node);
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (random_pick(random, 8) == 0)
            graph->inputs.at[i].written = random_written(random, graph->inputs.at[i].node);
}

/* A result that shows a leaf's memory would show what the call leaves there, not what was there. */
static value own_memory(struct random_graph *random, value v)
{
    const enum op_kind kind = op_info[graph_node(random->graph, v)->op].kind;
    const bool views = kind == KIND_LEAF || kind == KIND_VIEW;
    return views && random_pick(random, 3)
               ? random_add(random, OP_clone, &v, 1, (struct attributes){0})
               : v;
}

static bool shows_leaf(const struct random_graph *random, value v, value leaf)
{
    const struct node *n = graph_node(random->graph, v);
    return v == leaf || (op_info[n->op].kind == KIND_VIEW && n->argument_count &&
                         shows_leaf(random, n->arguments[0], leaf));
}

static bool shows_written(const struct random_graph *random, value v)
{
    const struct graph *graph = random->graph;
    for (size_t i = 0; i < graph->buffers.count; i++)
        if (graph->buffers.at[i].written && (shows_leaf(random, v, graph->buffers.at[i].node)))
            return true;
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i].written && shows_leaf(random, v, graph->inputs.at[i].node))
            return true;
    return false;
}

static void add_output(struct random_graph *random, value v)
{
    struct graph *graph = random->graph;
    if (graph->outputs.count == RUN_SLOTS)
        return;
    const struct run_tolerance tolerance = random->loose[v];
    v = shows_written(random, v) ? random_add(random, OP_clone, &v, 1, (struct attributes){0})
                                 : own_memory(random, v);
    random->tolerances[graph->outputs.count] = tolerance;
    const char *name = arena_format(graph->arena, "out%zu", graph->outputs.count);
    cr_assert(name &&
              array_push(&graph->outputs,
                         (struct graph_output){.name = name, .kind = PHASOR_TENSOR, .node = v}));
}

/* Whatever nobody reads is an output, and some of the rest. */
static void add_outputs(struct random_graph *random)
{
    struct graph *graph = random->graph;
    const size_t count = graph->nodes.count;
    bool *used = calloc(count, sizeof *used);
    cr_assert(used && count < sizeof random->loose / sizeof *random->loose, "%zu nodes", count);
    for (value v = 1; v < count; v++)
        for (int i = 0; i < graph_node(graph, v)->argument_count; i++)
            used[graph_node(graph, v)->arguments[i]] = true;
    for (size_t i = 0; i < graph->buffers.count; i++)
        used[graph->buffers.at[i].written] = true;
    for (value v = 1; v < count; v++)
        if (!used[v] ||
            (op_info[graph_node(graph, v)->op].kind != KIND_LEAF && random_pick(random, 12) == 0))
            add_output(random, v);
    free(used);
}

void random_graph_grow(struct random_graph *random, struct graph *graph)
{
    random->graph = graph;
    random->random = random->seed * 0x9E3779B97F4A7C15u + 12345;
    choose_dims(random);
    const bool small = random->complex && random->seed % 32;
    const int inputs = 1 + random_pick(random, small ? 2 : 3),
              steps = small ? 2 + random_pick(random, 4) : 4 + random_pick(random, 10);
    for (int i = 0; i < inputs; i++)
        keep_value(random, leaf_input(random));
    for (int s = 0; s < steps; s++)
        grow_once(random, s);
    write_slots(random);
    add_outputs(random);
    cr_assert_eq(graph_status(graph), PHASOR_OK, "seed %lu: %s", (unsigned long)random->seed,
                 message_get());
    cr_assert_eq(graph_verify(graph), PHASOR_OK, "seed %lu: %s", (unsigned long)random->seed,
                 message_get());
}
