/* aten_symbol.c - numbers: arithmetic on sizes, asserts, values taken from tensors; and regions,
 * which are loaded inline.
 *
 *     _operator.mul(a=2, b=s25)                       the size 2*s25; no node
 *     torch.sym_float(s25)                            cast(size(s25)) : f64
 *     aten._assert_scalar.default(s25 <= 64, "...")   a check of the graph
 *     cond(p, true_graph, false_graph, [x])           both branches, then where(p, a, b) */
#include "load/aten.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- arithmetic -------------------------------------------------------------------------------- */

static bool is_size(const struct aten *a, int index)
{
    const enum argument_kind kind = a->arguments[index].kind;
    return kind == ARGUMENT_INT || kind == ARGUMENT_BOOL;
}

static bool wants_float(const struct aten *a)
{
    return a->call->result_count > 0 && a->call->results[0].kind == RESULT_FLOAT;
}

static value as_double(struct aten *a, int index)
{
    return aten_as(a, aten_operand(a, index), DT_f64);
}

static bool is_whole(struct aten *a, int index)
{
    return !wants_float(a) && dtype_is_integer(aten_operand(a, index).dtype);
}

/* What only a run knows: a 0-dim i64 where all operands from `first` are integers, else f64. */
static void as_numbers(struct aten *a, int first, int count, value *out)
{
    bool whole = true;
    for (int i = 0; i < count; i++)
        whole = whole && is_whole(a, first + i);
    for (int i = 0; i < count; i++)
        out[i] = aten_as(a, aten_operand(a, first + i), whole ? DT_i64 : DT_f64);
}

/* What an operator of the table is on sizes. */
static dim size_of_pair(struct aten *a, dim x, dim y)
{
    static const struct {
        enum op op;
        enum size_kind kind;
        bool swapped;
    } pairs[] = {{OP_div_floor, SIZE_FLOORDIV, false},
                 {OP_remainder, SIZE_MOD, false},
                 {OP_minimum, SIZE_MINIMUM, false},
                 {OP_maximum, SIZE_MAXIMUM, false},
                 {OP_eq, SIZE_EQ, false},
                 {OP_ne, SIZE_NE, false},
                 {OP_lt, SIZE_LT, false},
                 {OP_le, SIZE_LE, false},
                 {OP_gt, SIZE_LT, true},
                 {OP_ge, SIZE_LE, true},
                 {OP_bit_and, SIZE_AND, false},
                 {OP_bit_or, SIZE_OR, false},
                 {OP_pow, SIZE_POW, false}};
    if (a->op == OP_add)
        return size_add(a->sizes, x, y);
    if (a->op == OP_sub)
        return size_sub(a->sizes, x, y);
    if (a->op == OP_mul)
        return size_mul(a->sizes, x, y);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].op == a->op)
            return size_binary(a->sizes, pairs[i].kind, pairs[i].swapped ? y : x,
                               pairs[i].swapped ? x : y);
    aten_refuse(a, "not defined on sizes");
    return 1;
}

static bool wants_int(const struct aten *a)
{
    return a->call->result_count > 0 && a->call->results[0].kind == RESULT_INT;
}

static void pair_of_values(struct aten *a)
{
    value x[2];
    as_numbers(a, 0, 2, x);
    aten_new(a, graph_map2(a->graph, a->op, x[0], x[1]));
}

/* a op b: a size where both are sizes, otherwise a 0-dim i64, f64 or bool */
void build_number_pair(struct aten *a)
{
    if (is_size(a, 0) && is_size(a, 1) && !wants_float(a) && a->op != OP_div)
        aten_known(a, size_of_pair(a, aten_size(a, 0), aten_size(a, 1)));
    else if ((a->op == OP_bit_and || a->op == OP_bit_or) && !wants_int(a))
        aten_new(a, graph_map2(a->graph, a->op, aten_cast(a, aten_value(a, 0), DT_bool),
                               aten_cast(a, aten_value(a, 1), DT_bool)));
    else if (a->op == OP_div)
        aten_new(a, graph_map2(a->graph, a->op, as_double(a, 0), as_double(a, 1)));
    else
        pair_of_values(a);
}

void build_number_negative(struct aten *a)
{
    value x;
    if (is_size(a, 0)) {
        aten_known(a, size_sub(a->sizes, 0, aten_size(a, 0)));
        return;
    }
    as_numbers(a, 0, 1, &x);
    aten_new(a, graph_map1(a->graph, OP_neg, x));
}

/* +x and sym_int of what is an integer already */
void build_number_same(struct aten *a)
{
    if (is_size(a, 0))
        aten_known(a, aten_size(a, 0));
    else if (wants_float(a))
        aten_new(a, as_double(a, 0));
    else /* trunc and int of a float go towards 0, as a cast does */
        aten_new(a, aten_as(a, aten_operand(a, 0), DT_i64));
}

void build_number_not(struct aten *a)
{
    if (is_size(a, 0))
        aten_known(a, size_binary(a->sizes, SIZE_EQ, aten_size(a, 0), 0));
    else
        aten_new(a, graph_map1(a->graph, OP_not, aten_value(a, 0)));
}

/* b ? t : f */
void build_number_choice(struct aten *a)
{
    if (is_size(a, 0) && is_size(a, 1) && is_size(a, 2) && !wants_float(a)) {
        const dim apart = size_sub(a->sizes, aten_size(a, 1), aten_size(a, 2));
        const dim truth = size_binary(a->sizes, SIZE_NE, aten_size(a, 0), 0);
        aten_known(a, size_add(a->sizes, aten_size(a, 2), size_mul(a->sizes, truth, apart)));
    } else {
        const value condition = aten_cast(a, aten_value(a, 0), DT_bool);
        value x[2];
        as_numbers(a, 1, 2, x);
        aten_new(a, graph_map3(a->graph, OP_where, condition, x[0], x[1]));
    }
}

/* sym_float, and functions of floats: the row's operator on it */
void build_number_float(struct aten *a)
{
    const value x = as_double(a, 0);
    aten_new(a, a->op == OP_none ? x : graph_map1(a->graph, a->op, x));
}

/* -- numbers of tensors ------------------------------------------------------------------------ */

void build_size_of(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int axis = aten_axis(a, 1, aten_rank(a, x));
    if (aten_rank(a, x))
        aten_known(a, aten_shape(a, x)[axis]);
    else
        aten_refuse(a, "the size of a 0-dim tensor");
}

void build_count_of(struct aten *a)
{
    aten_known(a, graph_count(a->graph, aten_value(a, 0)));
}

void build_stride_of(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x), axis = aten_axis(a, 1, rank);
    dim stride = 1;
    int order[RANK_MAX];
    if (!aten_order(a, x, order))
        aten_refuse(a, "the stride of a tensor with gaps");
    for (int k = rank - 1; k >= 0 && !a->reason && order[k] != axis; k--)
        stride = size_mul(a->sizes, stride, aten_shape(a, x)[order[k]]);
    aten_known(a, stride);
}

/* item: a 0-dim tensor, of which sizes cannot be made: nobody knows it before the call */
void build_item(struct aten *a)
{
    const value x = aten_value(a, 0);
    const enum result_kind kind = a->call->result_count ? a->call->results[0].kind : RESULT_NONE;
    if (kind == RESULT_FLOAT)
        aten_new(a, graph_reshape(a->graph, aten_cast(a, x, DT_f64), &(dim){0}, 0));
    else if (kind == RESULT_BOOL)
        aten_new(a, graph_reshape(a->graph, aten_cast(a, x, DT_bool), &(dim){0}, 0));
    else if (graph_node(a->graph, x)->op == OP_size)
        aten_known(a, graph_node(a->graph, x)->attributes.sizes[0]);
    else
        aten_new(a, graph_reshape(a->graph, aten_cast(a, x, DT_i64), &(dim){0}, 0));
}

/* -- asserts ----------------------------------------------------------------------------------- */

void aten_check(struct aten *a, dim condition, const char *message)
{
    if (size_is_literal(a->sizes, condition) && size_value(a->sizes, condition) != 0)
        return;
    char *copy = arena_string(a->graph->arena, message);
    if (!copy || !array_push(&a->graph->checks, (struct graph_check){condition, copy}))
        graph_fail(a->graph, fail_memory(), "out of memory");
}

/* Nothing is left to do: metadata that inference finds anew, values that only a run could tell. */
void build_nothing(struct aten *a)
{
    (void)a;
}

void build_assert(struct aten *a)
{
    if (is_size(a, 0))
        aten_check(a, aten_size(a, 0), aten_string(a, 1));
}

/* size, min=None, max=None */
void build_constrain(struct aten *a)
{
    char message[160];
    if (!is_size(a, 0))
        return;
    const dim size = aten_size(a, 0);
    for (int i = 1; i <= 2; i++) {
        if (!aten_given(a, i))
            continue;
        const dim limit = aten_size(a, i);
        snprintf(message, sizeof message, "%s: a size must be %s %" PRId64, a->call->name,
                 i == 1 ? "at least" : "at most", size_value(a->sizes, limit));
        aten_check(a, size_binary(a->sizes, SIZE_LE, i == 1 ? limit : size, i == 1 ? size : limit),
                   message);
    }
}

/* -- regions ----------------------------------------------------------------------------------- */

static int region_find(const struct aten *a)
{
    for (int i = 0; i < a->call->argument_count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are argument_count */
        if (a->call->arguments[i].kind == ARGUMENT_GRAPH)
            return i;
    return -1;
}

/* Arguments from `first` on, lists spread. */
static struct argument *operands_spread(struct aten *a, int first, int *count)
{
    int room = 1;
    for (int i = first; i < a->call->argument_count; i++)
        room += a->call->arguments[i].count + 1;
    struct argument *out = NEW(a->graph->arena, struct argument, room);
    *count = 0;
    for (int i = first; out && i < a->call->argument_count; i++) {
        const struct argument *given = &a->call->arguments[i];
        const bool list = given->kind == ARGUMENT_TENSORS || given->kind == ARGUMENT_INTS;
        for (int k = 0; k < (list ? given->count : 1); k++) {
            struct argument *one = &out[(*count)++];
            *one = *given;
            if (given->kind == ARGUMENT_TENSORS)
                one->kind = ARGUMENT_TENSOR, one->tensors = given->tensors + k, one->count = 1;
            else if (given->kind == ARGUMENT_INTS)
                one->kind = ARGUMENT_INT, one->sizes = given->sizes + k, one->count = 1;
        }
    }
    if (!out)
        graph_fail(a->graph, fail_memory(), "out of memory");
    return out;
}

static bool region_load(struct aten *a, const void *region, const struct argument *operands,
                        int count, struct result *results)
{
    struct loader *loader = a->loader;
    const phasor_status status =
        loader->inline_region(loader, region, operands, count, results, a->call->result_count);
    if (status != PHASOR_OK) {
        a->damaged = true;
        graph_fail(a->graph, status, "%s", message_get());
    }
    return status == PHASOR_OK && a->graph->status == PHASOR_OK;
}

/* A region that is always run. */
void build_region(struct aten *a)
{
    int count;
    const int at = region_find(a);
    if (at < 0 || !a->loader->inline_region) {
        aten_refuse(a, "it has no region");
        return;
    }
    const struct argument *operands = operands_spread(a, at + 1, &count);
    if (operands && region_load(a, a->call->arguments[at].graph, operands, count, a->call->results))
        aten_results_named(a);
}

/* device_type, dtype, enabled, cache_enabled, region, operands: nothing but a region when it is
 * off */
void build_autocast(struct aten *a)
{
    const struct argument *enabled = a->call->argument_count > 2 ? &a->call->arguments[2] : NULL;
    if (enabled && enabled->kind == ARGUMENT_BOOL && enabled->flag)
        aten_refuse(a, "autocast is on in this region; export outside of autocast, or after "
                       "run_decompositions()");
    else
        build_region(a);
}

/* token, operator, its arguments: the operator itself, which is refused by its name where it has no
 * row. What decides no value (print) does nothing; the token comes out as it came in. */
void build_effects(struct aten *a)
{
    const struct call *outer = a->call;
    struct call inner = *outer;
    static const char *const heads[] = {"torch.ops.", "higher_order."};
    if (outer->argument_count < 2 || outer->result_count < 1 ||
        outer->arguments[1].kind != ARGUMENT_STRING) {
        aten_refuse(a, "it names no operator");
        return;
    }
    a->arguments[0] = outer->arguments[0];
    const char *target = outer->arguments[1].string;
    for (int i = 0; i < 2; i++)
        if (strncmp(target, heads[i], strlen(heads[i])) == 0)
            target += strlen(heads[i]);
    struct origin *origin = NEW(a->graph->arena, struct origin, 1);
    char *copy = arena_string(a->graph->arena, target);
    if (!origin || !copy) {
        graph_fail(a->graph, fail_memory(), "out of memory");
        return;
    }
    *origin = outer->origin ? *outer->origin : (struct origin){.node = outer->name};
    origin->target = inner.target = copy;
    inner.origin = origin;
    inner.arguments += 2, inner.argument_count -= 2;
    inner.results++, inner.result_count--;
    aten_same(a, aten_tensor(a, 0));
    const phasor_status status = aten_call(a->loader, &inner);
    if (status != PHASOR_OK) {
        a->damaged = true;
        graph_fail(a->graph, status, "%s", message_get());
    }
    a->produced = outer->result_count;
}

/* How often memory that existed before was written. */
static uint64_t writes_count(const struct loader *loader, size_t tensors)
{
    uint64_t writes = 0;
    for (size_t t = 1; t < tensors; t++)
        writes += loader->tensors.at[t].writes;
    return writes;
}

/* One branch; its results go to a copy of the call's. NULL: failed or refused. */
static struct result *branch_load(struct aten *a, int index, const struct argument *operands,
                                  int count)
{
    struct loader *loader = a->loader;
    const char *outer = loader->branch;
    const size_t tensors = loader->tensors.count;
    const uint64_t writes = writes_count(loader, tensors);
    struct result *results = NEW(a->graph->arena, struct result, a->call->result_count + 1);
    if (!results) {
        graph_fail(a->graph, fail_memory(), "out of memory");
        return NULL;
    }
    for (int i = 0; i < a->call->result_count; i++)
        results[i] = a->call->results[i];
    loader->branch = a->call->name;
    const bool loaded = region_load(a, a->call->arguments[index].graph, operands, count, results);
    loader->branch = outer;
    if (loaded && writes_count(loader, tensors) != writes)
        aten_refuse(a, "a branch writes into a tensor from outside");
    return loaded && !a->reason ? results : NULL;
}

static void choose_result(struct aten *a, value condition, const struct result *yes,
                          const struct result *no)
{
    if (yes->kind == RESULT_NONE) {
        a->produced++;
    } else if (yes->size_known || yes->kind == RESULT_INT) {
        if (yes->size != no->size)
            aten_refuse(a, "its branches give different integers");
        aten_known(a, yes->size);
    } else {
        const value x = tensor_get(a->loader, yes->tensor), y = tensor_get(a->loader, no->tensor);
        if (!x || !y || !graph_same_shape(a->graph, x, y))
            aten_refuse(a, "its branches give different shapes");
        else
            aten_new(
                a, graph_map3(a->graph, OP_where, condition, x, aten_cast(a, y, aten_type(a, x))));
    }
}

/* Whether the predicate is known now, and what it is. */
static bool predicate_known(const struct aten *a, const struct argument *predicate, bool *truth)
{
    if (predicate->kind == ARGUMENT_BOOL)
        return *truth = predicate->flag, true;
    if (predicate->kind != ARGUMENT_INT || !size_is_literal(a->sizes, predicate->sizes[0]))
        return false;
    *truth = size_value(a->sizes, predicate->sizes[0]) != 0;
    return true;
}

/* pred, true_graph, false_graph, operands */
void build_condition(struct aten *a)
{
    int count;
    bool truth;
    const struct call *call = a->call;
    if (call->argument_count < 3 || call->arguments[1].kind != ARGUMENT_GRAPH ||
        call->arguments[2].kind != ARGUMENT_GRAPH || !a->loader->inline_region) {
        aten_refuse(a, "it has no branches");
        return;
    }
    const struct argument *operands = operands_spread(a, 3, &count);
    if (!operands)
        return;
    if (predicate_known(a, &call->arguments[0], &truth)) {
        if (region_load(a, call->arguments[truth ? 1 : 2].graph, operands, count, call->results))
            aten_results_named(a);
        return;
    }
    a->arguments[0] = call->arguments[0];
    const value condition = aten_cast(a, aten_value(a, 0), DT_bool);
    const struct result *yes = branch_load(a, 1, operands, count),
                        *no = yes ? branch_load(a, 2, operands, count) : NULL;
    for (int i = 0; no && i < call->result_count; i++)
        choose_result(a, condition, &yes[i], &no[i]);
}
