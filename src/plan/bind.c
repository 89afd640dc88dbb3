/* bind.c - the sizes of a call: checked, and put into the graph.
 *
 *     q: bf16[s37, s25, 8, 128], called with [3, 7, 8, 128]     s37 = 3, s25 = 7; every later s25
 *                                                               must be 7 too
 *     k: bf16[s37, s25, 2, 128], called with [3, 9, 2, 128]     input k: dim 1 is 9, but s25 is 7
 *                                                               (input q, dim 1)
 */
#include "plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 8 }; /* elements of the widest vectors */

/* Where a symbol got its value. */
struct binding {
    bool bound;
    int64_t value;
    const char *input;
    int axis; /* -1: the input is the integer itself */
};

struct binder {
    const struct graph *graph;
    const struct call_shape *call;
    struct binding *bindings;
};

static const struct size_symbol *symbol_of(const struct binder *binder, dim d, int *index)
{
    const struct size_node *n = &binder->graph->sizes->nodes.at[d];
    if (n->kind != SIZE_SYMBOL)
        return NULL;
    *index = n->symbol;
    return &binder->graph->sizes->symbols.at[n->symbol];
}

static void place_text(const char *input, int axis, char *out, size_t size)
{
    if (axis < 0)
        snprintf(out, size, "input %s", input);
    else
        snprintf(out, size, "input %s, dim %d", input, axis);
}

/* An unbounded end is shown as such. */
static void range_text(int64_t low, int64_t high, char *out, size_t size)
{
    if (high == INT64_MAX)
        snprintf(out, size, "at least %" PRId64, low == INT64_MIN ? 0 : low);
    else
        snprintf(out, size, "in %" PRId64 "..%" PRId64, low, high);
}

static phasor_status bind_symbol(struct binder *binder, dim d, int64_t size, const char *input,
                                 int axis)
{
    int index = 0;
    char here[160], there[160], range[64];
    const struct size_symbol *symbol = symbol_of(binder, d, &index);
    struct binding *binding = &binder->bindings[index];
    place_text(input, axis, here, sizeof here);
    if (binding->bound && binding->value != size) {
        place_text(binding->input, binding->axis, there, sizeof there);
        return fail(PHASOR_ERROR_INPUT, "%s: the size is %" PRId64 ", but %s is %" PRId64 " (%s)",
                    here, size, symbol->name, binding->value, there);
    }
    if (size < symbol->low || size > symbol->high) {
        range_text(symbol->low, symbol->high, range, sizeof range);
        return fail(PHASOR_ERROR_INPUT, "%s: the size is %" PRId64 "; %s must be %s", here, size,
                    symbol->name, range);
    }
    *binding = (struct binding){true, size, input, axis};
    return PHASOR_OK;
}

/* Literals are compared and bare symbols bound; what is built from symbols is checked afterwards.
 */
static phasor_status bind_dims(struct binder *binder, const struct graph_input *input,
                               const struct call_tensor *tensor)
{
    const struct graph *graph = binder->graph;
    const struct node *n = graph_node(graph, input->node);
    const int rank = tensor->rank - dtype_is_complex(n->dtype);
    if (rank != n->rank)
        return fail(PHASOR_ERROR_INPUT, "input %s: rank %d; expected rank %d", input->name, rank,
                    n->rank);
    for (int d = 0; d < n->rank; d++) {
        int index;
        if (symbol_of(binder, n->shape[d], &index))
            TRY(bind_symbol(binder, n->shape[d], tensor->sizes[d], input->name, d));
        else if (size_is_literal(graph->sizes, n->shape[d]) &&
                 size_value(graph->sizes, n->shape[d]) != tensor->sizes[d])
            return fail(PHASOR_ERROR_INPUT, "input %s: dim %d is %" PRId64 "; expected %" PRId64,
                        input->name, d, tensor->sizes[d], size_value(graph->sizes, n->shape[d]));
    }
    return PHASOR_OK;
}

static phasor_status bind_inputs(struct binder *binder)
{
    for (size_t i = 0; i < binder->graph->inputs.count; i++) {
        const struct graph_input *input = &binder->graph->inputs.at[i];
        int index;
        if (input->kind == PHASOR_TENSOR)
            TRY(bind_dims(binder, input, &binder->call->inputs[i]));
        else if (input->kind == PHASOR_INT && !input->constant &&
                 symbol_of(binder, input->size, &index))
            TRY(bind_symbol(binder, input->size, binder->call->integers[i], input->name, -1));
    }
    return PHASOR_OK;
}

/* Dims that are built from symbols, now that these are known. */
static phasor_status check_dims(const struct binder *binder, struct sizes *bound,
                                const dim *replacement, dim *memo)
{
    const struct graph *graph = binder->graph;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const struct graph_input *input = &graph->inputs.at[i];
        const struct node *n = graph_node(graph, input->node);
        for (int d = 0; input->kind == PHASOR_TENSOR && d < n->rank; d++) {
            const dim size = size_translate(bound, graph->sizes, n->shape[d], replacement, memo);
            TRY(sizes_status(bound));
            if (size_value(bound, size) == binder->call->inputs[i].sizes[d])
                continue;
            struct text expression = {0};
            size_print(graph->sizes, n->shape[d], &expression);
            const phasor_status status =
                fail(PHASOR_ERROR_INPUT, "input %s: dim %d is %" PRId64 "; expected %s = %" PRId64,
                     input->name, d, binder->call->inputs[i].sizes[d], text_get(&expression),
                     size_value(bound, size));
            text_free(&expression);
            return status;
        }
    }
    return PHASOR_OK;
}

static phasor_status check_all(const struct binder *binder, const int64_t *values)
{
    const struct sizes *from = binder->graph->sizes;
    struct arena arena = {0};
    struct sizes bound = {0};
    phasor_status status = sizes_init(&bound, &arena);
    dim *replacement = NEW(&arena, dim, from->symbols.count),
        *memo = NEW(&arena, dim, from->nodes.count);
    if (status == PHASOR_OK && (!replacement || !memo))
        status = fail_memory();
    for (size_t s = 0; status == PHASOR_OK && s < from->symbols.count; s++)
        replacement[s] = size_literal(&bound, values[s]);
    if (status == PHASOR_OK)
        status = check_dims(binder, &bound, replacement, memo);
    sizes_free(&bound);
    arena_free(&arena);
    return status;
}

phasor_status bind_symbols(const struct graph *logical, const struct call_shape *call,
                           int64_t *symbol_values)
{
    const size_t count = logical->sizes->symbols.count;
    struct binder binder = {logical, call, memory_new(count * sizeof *binder.bindings)};
    if (!binder.bindings)
        return fail_memory();
    phasor_status status = bind_inputs(&binder);
    for (size_t s = 0; s < count; s++)
        symbol_values[s] = binder.bindings[s].bound ? binder.bindings[s].value
                                                    : logical->sizes->symbols.at[s].value;
    if (status == PHASOR_OK)
        status = check_all(&binder, symbol_values);
    memory_free(binder.bindings);
    return status;
}

static phasor_status check_conditions(const struct graph *graph)
{
    for (size_t i = 0; i < graph->checks.count; i++)
        if (size_value(graph->sizes, graph->checks.at[i].condition) == 0)
            return fail(PHASOR_ERROR_INPUT, "these sizes do not fit the program: %s",
                        graph->checks.at[i].message);
    return PHASOR_OK;
}

/* A symbol stays one in a generic plan unless it was found that its value decides. A dim of 0
 * always does: there is nothing to launch. */
static dim bind_one(struct plan *plan, const struct graph *real, const struct size_symbol *symbol,
                    int64_t size, enum binding_kind kind)
{
    struct sizes *sizes = &plan->sizes;
    int64_t low = symbol->low, width = 1;
    if (!graph_is_integer_input(real, symbol->size)) {
        kind = size < 1 ? BIND_LITERALS : kind;
        low = low > 1 ? low : 1;
        width = kind == BIND_MULTIPLES && size % WIDTH == 0 ? WIDTH : 1;
    }
    if (kind == BIND_LITERALS)
        return size_literal(sizes, size);
    return size_mul(sizes, size_literal(sizes, width),
                    size_symbol(sizes, symbol->name, (low + width - 1) / width,
                                symbol->high / width, size / width));
}

static bool pinned_take(const struct plan *plan, const struct graph *real, enum binding_kind *kinds)
{
    bool any = false;
    for (size_t i = 0; i < plan->sizes.symbols.count; i++)
        for (size_t s = 0; s < real->sizes->symbols.count; s++)
            if (plan->sizes.symbols.at[i].pinned &&
                strcmp(plan->sizes.symbols.at[i].name, real->sizes->symbols.at[s].name) == 0) {
                kinds[s] = BIND_LITERALS;
                any = true;
            }
    return any;
}

static phasor_status bind_once(struct plan *plan, const struct graph *real, const int64_t *values,
                               const enum binding_kind *kinds, dim *replacement)
{
    TRY(sizes_init(&plan->sizes, &plan->arena));
    TRY(graph_init(&plan->graph, &plan->arena, &plan->sizes, real->name));
    for (size_t s = 0; s < real->sizes->symbols.count; s++)
        replacement[s] = bind_one(plan, real, &real->sizes->symbols.at[s], values[s], kinds[s]);
    const phasor_status status = graph_rebind(&plan->graph, real, replacement);
    /* What does not work out for these sizes is a matter of the call, not of the file. */
    return status == PHASOR_ERROR_FILE ? fail_in(PHASOR_ERROR_INPUT, "with these sizes") : status;
}

/* Whether vectors of a tensor of the caller would lie along a dim with this symbol: it is the
 * innermost, but for dims that have less than a vector together. */
static bool is_inner_of(const struct graph *real, value v, const bool *symbol)
{
    const struct node *n = graph_node(real, v);
    int64_t inside = 1;
    for (int d = n->rank - 1; v && d >= 0 && inside < WIDTH; d--) {
        if (size_mentions(real->sizes, n->shape[d], symbol))
            return true;
        inside *= size_is_literal(real->sizes, n->shape[d]) ? size_value(real->sizes, n->shape[d])
                                                            : WIDTH;
    }
    return false;
}

static bool is_inner(const struct graph *real, const bool *symbol)
{
    for (size_t i = 0; i < real->inputs.count; i++)
        if (is_inner_of(real, real->inputs.at[i].node, symbol))
            return true;
    for (size_t i = 0; i < real->outputs.count; i++)
        if (is_inner_of(real, real->outputs.at[i].node, symbol))
            return true;
    return false;
}

phasor_status bind_graph(struct plan *plan, const struct graph *real, const int64_t *symbol_values,
                         enum binding_kind kind)
{
    const size_t symbols = real->sizes->symbols.count;
    dim *replacement = NEW(&plan->arena, dim, symbols);
    enum binding_kind *kinds = NEW(&plan->arena, enum binding_kind, symbols);
    bool *one = NEW(&plan->arena, bool, symbols);
    if (!replacement || !kinds || !one)
        return fail_memory();
    for (size_t s = 0; s < symbols; s++) {
        one[s] = true;
        kinds[s] = kind == BIND_MULTIPLES && !is_inner(real, one) ? BIND_SYMBOLS : kind;
        one[s] = false;
    }
    plan->program = real;
    TRY(bind_once(plan, real, symbol_values, kinds, replacement));
    while (pinned_take(plan, real, kinds)) {
        graph_free(&plan->graph);
        sizes_free(&plan->sizes);
        TRY(bind_once(plan, real, symbol_values, kinds, replacement));
    }
    return check_conditions(&plan->graph);
}
