/* fold.c - what depends on constants alone is computed now, on the host, and becomes data.
 *
 *     before                                      after
 *     %1 = iota [64]                              %3 = data : f32[64]
 *     %2 = cast(%1) : f32[64]                     %5 = mul(%x, %3)
 *     %3 = exp(%2)
 *     %4 = slice(%w, axis=0, 3, 5)                %4 = data : the same storage as %w, offset 192
 *     %5 = mul(%x, %3)
 *
 * 1. Constant: no input, no state, no symbol beneath.
 * 2. Only where a table is worth reading: cheap arithmetic that makes a tensor larger is done
 *    again each time.
 * 3. Numbers, tables and views of weights stay what they are. What is computed from numbers
 *    alone and has no dims is a number; what was read from a weight never is one: generated code
 *    holds numbers, and serves all weights.
 * 4. What the caller sees the memory of stays computed: it must be new at each call.
 */
#include "rewrite/rewrite.h"

#include "eval/eval.h"
#include "graph/element.h"

#include <string.h>

enum { TABLE_BYTES = 1 << 18, COST_LARGE = 1 << 20, COST_WORTH = 8 };

struct fold {
    const struct graph *from;
    struct graph *to;
    value *map;
    bool *pinned, *constant;
    bool *computed;        /* constant, and its result is worth keeping */
    bool *needed;          /* `to` has it */
    int64_t *cost, *bytes; /* of one element; of the constants beneath */
    struct eval_results results;
    bool evaluated;
};

/* -- what is constant, and worth it ------------------------------------------------------------ */

static bool sizes_are_literal(const struct graph *graph, const dim *sizes, int count)
{
    for (int i = 0; i < count; i++)
        if (!size_is_literal(graph->sizes, sizes[i]))
            return false;
    return true;
}

static bool node_is_constant(const struct fold *f, const struct node *node)
{
    const struct attributes *at = &node->attributes;
    const dim range[] = {at->start, at->length};
    if (node->op == OP_input || node->op == OP_state || node->op == OP_unknown)
        return false;
    for (int i = 0; i < node->argument_count; i++)
        if (!f->constant[node->arguments[i]])
            return false;
    return sizes_are_literal(f->from, node->shape, node->rank) &&
           sizes_are_literal(f->from, at->sizes, at->size_count) &&
           sizes_are_literal(f->from, range, 2);
}

/* More than COST_LARGE counts as much. */
static int64_t limited(int64_t number)
{
    return number < COST_LARGE ? number : COST_LARGE;
}

/* The number of bytes of a literal shape; INT64_MAX when it does not fit. */
static int64_t bytes_of(const struct fold *f, const struct node *node)
{
    int64_t nbytes = dtype_size(node->dtype);
    for (int d = 0; d < node->rank; d++)
        if (__builtin_mul_overflow(nbytes, size_value(f->from->sizes, node->shape[d]), &nbytes))
            return INT64_MAX;
    return nbytes;
}

static void weigh(struct fold *f, value v)
{
    const struct node *node = graph_node(f->from, v);
    const struct op_info *info = &op_info[node->op];
    f->cost[v] = info->kind == KIND_MAP                                 ? info->cost
                 : info->kind == KIND_REDUCE || info->kind == KIND_CORE ? COST_WORTH
                                                                        : 0;
    f->bytes[v] = node->op == OP_data ? bytes_of(f, node) : 0;
    for (int i = 0; i < node->argument_count; i++) {
        f->cost[v] = limited(f->cost[v] + f->cost[node->arguments[i]]);
        if (__builtin_add_overflow(f->bytes[v], f->bytes[node->arguments[i]], &f->bytes[v]))
            f->bytes[v] = INT64_MAX;
    }
}

static bool is_view(const struct node *node)
{
    return op_info[node->op].kind == KIND_VIEW && op_info[node->op].memory != MEMORY_COPY;
}

static bool is_worth_it(const struct fold *f, value v)
{
    const struct node *node = graph_node(f->from, v);
    const int64_t nbytes = bytes_of(f, node);
    if (op_info[node->op].kind == KIND_LEAF || is_view(node) || f->pinned[v] || nbytes > FOLD_BYTES)
        return false;
    if (f->bytes[v] == 0 && node->rank > 0)
        return f->cost[v] >= COST_WORTH; /* numbers in the code rather than a table of them */
    return nbytes <= TABLE_BYTES || nbytes <= f->bytes[v] || f->cost[v] >= COST_WORTH;
}

/* What `to` must have: results, inputs and states, and operands of what is not computed now. */
static void fold_mark_needed(struct fold *f)
{
    rewrite_mark_pinned(f->from, f->needed);
    for (size_t v = f->from->nodes.count; v-- > 1;) {
        const struct node *node = graph_node(f->from, (value)v);
        f->needed[v] = f->needed[v] || node->op == OP_input || node->op == OP_state;
        for (int i = 0; f->needed[v] && !f->computed[v] && i < node->argument_count; i++)
            f->needed[node->arguments[i]] = true;
    }
    f->needed[0] = false;
}

static void fold_mark(struct fold *f)
{
    rewrite_mark_pinned(f->from, f->pinned);
    for (size_t v = 1; v < f->from->nodes.count; v++) {
        f->constant[v] = node_is_constant(f, graph_node(f->from, (value)v));
        weigh(f, (value)v);
        f->computed[v] = f->constant[v] && is_worth_it(f, (value)v);
    }
    fold_mark_needed(f);
}

/* -- computing --------------------------------------------------------------------------------- */

static phasor_status fold_compute(struct fold *f, value *wanted, bool *out_of_range)
{
    int count = 0;
    for (size_t v = 1; v < f->from->nodes.count; v++)
        if (f->computed[v] && f->needed[v])
            wanted[count++] = (value)v;
    if (count == 0)
        return PHASOR_OK;
    TRY(eval_values(f->from, &(struct eval_options){.fma = true}, wanted, count, &f->results,
                    out_of_range));
    f->evaluated = true;
    return PHASOR_OK;
}

/* An index that is out of range is for the call to report: nothing is folded then. */
static phasor_status fold_evaluate(struct fold *f)
{
    const size_t count = f->from->nodes.count;
    value *wanted = memory_new(count * sizeof *wanted);
    if (!wanted)
        return fail_memory();
    bool out_of_range = false;
    const phasor_status status = fold_compute(f, wanted, &out_of_range);
    memory_free(wanted);
    if (status == PHASOR_OK && out_of_range) {
        memset(f->computed, 0, count * sizeof *f->computed);
        fold_mark_needed(f);
    }
    return status;
}

/* A name for what stands for the node now; made-up ones name an operator that it no longer is. */
static const char *name_of(struct fold *f, const struct node *node, const char *kind)
{
    return rewrite_name_is_made(node)
               ? arena_format(f->to->arena, "%s.%zu", kind, f->to->nodes.count)
               : node->name;
}

/* The bytes are copied: they live as long as the graph. */
static const struct data *data_of(struct graph *graph, const struct eval_tensor *tensor,
                                  const char *name)
{
    struct arena *arena = graph->arena;
    const size_t nbytes = (size_t)eval_tensor_count(tensor) * (size_t)dtype_size(tensor->dtype);
    struct storage *storage = NEW(arena, struct storage, 1);
    struct data *data = NEW(arena, struct data, 1);
    int64_t *sizes = arena_copy(arena, tensor->sizes, (size_t)tensor->rank * sizeof *sizes);
    int64_t *strides = NEW(arena, int64_t, tensor->rank);
    void *bytes = arena_copy(arena, tensor->bytes, nbytes);
    if (!storage || !data || !sizes || !strides || !bytes)
        return NULL;
    for (int64_t d = tensor->rank - 1, stride = 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= sizes[d] > 1 ? sizes[d] : 1;
    }
    *storage = (struct storage){.bytes = bytes, .nbytes = nbytes, .id = storage_new_id()};
    *data = (struct data){.name = name,
                          .dtype = tensor->dtype,
                          .rank = tensor->rank,
                          .sizes = sizes,
                          .strides = strides,
                          .storage = storage};
    return data;
}

static value add_data(struct graph *graph, const struct data *data)
{
    if (!data || !data->name)
        return graph_fail(graph, PHASOR_ERROR_MEMORY, "out of memory");
    return graph_add(graph, OP_data, data->dtype, NULL, 0, &(struct attributes){.data = data},
                     data->name);
}

static value add_result(struct fold *f, value v)
{
    const struct node *node = graph_node(f->from, v);
    const struct eval_tensor *result = eval_result(&f->results, v);
    if (node->rank > 0 || f->bytes[v] > 0)
        return add_data(f->to, data_of(f->to, result, name_of(f, node, "data")));
    const struct attributes at = {.number = element_load(result->dtype, result->bytes)};
    return graph_add(f->to, OP_scalar, result->dtype, NULL, 0, &at, name_of(f, node, "scalar"));
}

static value fold_node(struct fold *f, value v)
{
    const struct node *node = graph_node(f->from, v);
    if (f->computed[v])
        return add_result(f, v);
    if (is_view(node) && f->constant[v] && !f->pinned[v]) {
        const struct node *operand = graph_node(f->to, f->map[node->arguments[0]]);
        const char *name = name_of(f, node, "data");
        const struct data *view =
            operand->op == OP_data ? data_view(f->to, node, operand->attributes.data, name) : NULL;
        if (view)
            return add_data(f->to, view);
    }
    return rewrite_copy(f->from, f->to, v, f->map);
}

static phasor_status fold_build(struct fold *f)
{
    TRY(fold_evaluate(f));
    TRY(rewrite_begin(f->from, f->to));
    for (size_t v = 1; v < f->from->nodes.count && f->to->status == PHASOR_OK; v++)
        if (f->needed[v])
            f->map[v] = fold_node(f, (value)v);
    return rewrite_end(f->from, f->to, f->map);
}

phasor_status rewrite_fold(const struct graph *from, struct graph *to)
{
    const size_t count = from->nodes.count;
    struct fold f = {.from = from,
                     .to = to,
                     .map = memory_new(count * sizeof(value)),
                     .pinned = memory_new(count),
                     .constant = memory_new(count),
                     .computed = memory_new(count),
                     .needed = memory_new(count),
                     .cost = memory_new(count * sizeof(int64_t)),
                     .bytes = memory_new(count * sizeof(int64_t))};
    phasor_status status = fail_memory();
    if (f.map && f.pinned && f.constant && f.computed && f.needed && f.cost && f.bytes) {
        fold_mark(&f);
        status = fold_build(&f);
    }
    if (f.evaluated)
        eval_free(&f.results);
    memory_free(f.map);
    memory_free(f.pinned);
    memory_free(f.constant);
    memory_free(f.computed);
    memory_free(f.needed);
    memory_free(f.cost);
    memory_free(f.bytes);
    return status;
}
