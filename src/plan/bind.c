/* bind.c - the sizes of a call: checked, and put into the graph.
 *
 *     q: bf16[s37, s25, 8, 128], called with [3, 7, 8, 128]     s37 = 3, s25 = 7; every later s25
 *                                                               must be 7 too
 *     k: bf16[s37, s25, 2, 128], called with [3, 9, 2, 128]     input k, dim 1: the size is 9, but
 *                                                               s25 is 7 (input q, dim 1)
 *     x: f32[2*s6], called with [8]                             s6 = 4
 *     output: bf16[s37, s25, 8, 128], a buffer of [1, 1, 1, 1]  output 0 (output): sizes [1, 1, 1,
 *                                                               1]; for these inputs it has ...
 *
 * Symbols that are a dim by themselves are bound first. An expression binds the one symbol in it
 * that is not bound yet, if it is linear in it; this goes on until nothing more is bound. What is
 * unbound then has its example's value.
 */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

enum { WIDTH = 8 }; /* elements of the widest vectors */

/* A size of the program and what the call has there. */
struct equation {
    dim size;
    int64_t given;
    const char *input;
    int axis; /* -1: the input is the integer itself */
    bool done;
};

struct binder {
    const struct graph *graph;
    const struct call_shape *call;
    ARRAY(struct equation) equations;
    bool *known;                     /* by symbol */
    int64_t *values;                 /* by symbol */
    const struct equation **sources; /* by symbol: what bound it */
};

/* -- what is to hold --------------------------------------------------------------------------- */

static phasor_status equation_add(struct binder *binder, dim size, int64_t given, const char *input,
                                  int axis)
{
    const struct sizes *sizes = binder->graph->sizes;
    if (!size_is_literal(sizes, size)) {
        const struct equation equation = {size, given, input, axis, false};
        return array_push(&binder->equations, equation) ? PHASOR_OK : fail_memory();
    }
    if (size_value(sizes, size) == given)
        return PHASOR_OK;
    return fail(PHASOR_ERROR_INPUT, "input %s: dim %d is %" PRId64 "; expected %" PRId64, input,
                axis, given, size_value(sizes, size));
}

static phasor_status equations_collect(struct binder *binder)
{
    for (size_t i = 0; i < binder->graph->inputs.count; i++) {
        const struct graph_input *input = &binder->graph->inputs.at[i];
        const struct call_tensor *tensor = &binder->call->inputs[i];
        if (input->kind == PHASOR_INT && !input->constant)
            TRY(equation_add(binder, input->size, binder->call->integers[i], input->name, -1));
        if (input->kind != PHASOR_TENSOR)
            continue;
        const struct node *n = graph_node(binder->graph, input->node);
        const int rank = tensor->rank - dtype_is_complex(n->dtype);
        if (rank != n->rank)
            return fail(PHASOR_ERROR_INPUT, "input %s: rank %d; expected rank %d", input->name,
                        rank, n->rank);
        for (int d = 0; d < n->rank; d++)
            TRY(equation_add(binder, n->shape[d], tensor->sizes[d], input->name, d));
    }
    return PHASOR_OK;
}

/* -- messages ---------------------------------------------------------------------------------- */

static void place_print(const struct equation *equation, struct text *out)
{
    text_format(out, "input %s", equation->input);
    if (equation->axis >= 0)
        text_format(out, ", dim %d", equation->axis);
}

/* "s6 = 3 from input x, dim 0; s7 = 2, the example's: no input says what it is" */
static void sources_print(const struct binder *binder, dim size, struct text *out)
{
    const struct sizes *sizes = binder->graph->sizes;
    const char *between = "";
    for (size_t s = 0; s < sizes->symbols.count; s++) {
        if (!size_has_symbol(sizes, size, (int)s))
            continue;
        text_format(out, "%s%s = %" PRId64, between, sizes->symbols.at[s].name, binder->values[s]);
        text_add(out, binder->sources[s] ? " from " : ", the example's: no input says what it is");
        if (binder->sources[s])
            place_print(binder->sources[s], out);
        between = "; ";
    }
}

/* The expression is `expected` by what is bound. */
static phasor_status fail_contradiction(const struct binder *binder,
                                        const struct equation *equation, int64_t expected)
{
    const struct sizes *sizes = binder->graph->sizes;
    const struct size_node *n = &sizes->nodes.at[equation->size];
    struct text text = {0};
    place_print(equation, &text);
    text_format(&text, ": the size is %" PRId64 ", but ", equation->given);
    size_print(sizes, equation->size, &text);
    text_format(&text, " is %" PRId64 " (", expected);
    if (n->kind == SIZE_SYMBOL && binder->sources[n->symbol])
        place_print(binder->sources[n->symbol], &text);
    else
        sources_print(binder, equation->size, &text);
    const phasor_status status = fail(PHASOR_ERROR_INPUT, "%s)", text_get(&text));
    text_free(&text);
    return status;
}

/* No value of its symbol does it. */
static phasor_status fail_unsolved(const struct binder *binder, const struct equation *equation,
                                   const struct size_affine *affine)
{
    const struct sizes *sizes = binder->graph->sizes;
    const struct size_symbol *symbol = &sizes->symbols.at[affine->symbol];
    struct text text = {0};
    place_print(equation, &text);
    text_format(&text, ": the size is %" PRId64 "; ", equation->given);
    if (sizes->nodes.at[equation->size].kind == SIZE_SYMBOL) {
        text_format(&text, "%s must be ", symbol->name);
        size_print_range(symbol->low, symbol->high, &text);
    } else {
        text_add(&text, "expected ");
        size_print_right(sizes, equation->size, affine, equation->given, &text);
    }
    const phasor_status status = fail(PHASOR_ERROR_INPUT, "%s", text_get(&text));
    text_free(&text);
    return status;
}

/* -- solving ----------------------------------------------------------------------------------- */

/* Binds the symbol of an equation that has one unknown, checks one that has none, and leaves others
 * for later. known NULL: all are known. */
static phasor_status equation_solve(struct binder *binder, struct equation *equation,
                                    const bool *known)
{
    const struct sizes *sizes = binder->graph->sizes;
    struct size_affine affine;
    int64_t solution;
    if (!size_affine(sizes, equation->size, known, binder->values, &affine)) {
        if (known)
            return PHASOR_OK;
        struct text text = {0};
        place_print(equation, &text);
        text_add(&text, ": ");
        size_print(sizes, equation->size, &text);
        text_add(&text, " cannot be computed with ");
        sources_print(binder, equation->size, &text);
        const phasor_status status = fail(PHASOR_ERROR_INPUT, "%s", text_get(&text));
        text_free(&text);
        return status;
    }
    equation->done = true;
    if (affine.factor == 0)
        return affine.rest == equation->given ? PHASOR_OK
                                              : fail_contradiction(binder, equation, affine.rest);
    if (!size_affine_solve(sizes, &affine, equation->given, &solution))
        return fail_unsolved(binder, equation, &affine);
    binder->known[affine.symbol] = true;
    binder->values[affine.symbol] = solution;
    binder->sources[affine.symbol] = equation;
    return PHASOR_OK;
}

static phasor_status equations_solve(struct binder *binder)
{
    const struct sizes *sizes = binder->graph->sizes;
    const size_t count = binder->equations.count;
    for (size_t i = 0; i < count; i++)
        if (sizes->nodes.at[binder->equations.at[i].size].kind == SIZE_SYMBOL)
            TRY(equation_solve(binder, &binder->equations.at[i], binder->known));
    for (size_t open = count, before = count + 1; open > 0 && open < before;) {
        before = open;
        open = 0;
        for (size_t i = 0; i < count; i++) {
            struct equation *equation = &binder->equations.at[i];
            if (!equation->done)
                TRY(equation_solve(binder, equation, binder->known));
            open += !equation->done;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (!binder->equations.at[i].done)
            TRY(equation_solve(binder, &binder->equations.at[i], NULL));
    return PHASOR_OK;
}

/* -- the caller's buffers ---------------------------------------------------------------------- */

static void sizes_text(int rank, const int64_t *sizes, struct text *out)
{
    text_add(out, "[");
    for (int d = 0; d < rank; d++)
        text_format(out, "%s%" PRId64, d ? ", " : "", sizes[d]);
    text_add(out, "]");
}

static phasor_status fail_output(const struct graph *logical, size_t i, int rank,
                                 const int64_t *came, const int64_t *expected)
{
    struct text text = {0};
    text_format(&text, "output %zu (%s): sizes ", i, logical->outputs.at[i].name);
    sizes_text(rank, came, &text);
    text_add(&text, "; for these inputs it has ");
    sizes_text(rank, expected, &text);
    const phasor_status status = fail(PHASOR_ERROR_INPUT, "%s", text_get(&text));
    text_free(&text);
    return status;
}

phasor_status bind_check_outputs(const struct graph *logical, const struct graph *bound,
                                 const struct call_shape *call)
{
    for (size_t i = 0; call->outputs && i < logical->outputs.count; i++) {
        const value v = bound->outputs.at[i].node;
        const int rank = graph_node(logical, logical->outputs.at[i].node)->rank;
        int64_t expected[RANK_MAX];
        if (logical->outputs.at[i].kind != PHASOR_TENSOR)
            continue;
        for (int d = 0; d < rank; d++)
            expected[d] = graph_dim(bound, v, d);
        if (memcmp(expected, call->outputs[i].sizes, (size_t)rank * sizeof *expected) != 0)
            return fail_output(logical, i, rank, call->outputs[i].sizes, expected);
    }
    return PHASOR_OK;
}

/* -- symbols ----------------------------------------------------------------------------------- */

phasor_status bind_symbols(const struct graph *logical, const struct call_shape *call,
                           int64_t *symbol_values)
{
    const size_t count = logical->sizes->symbols.count;
    struct binder binder = {.graph = logical,
                            .call = call,
                            .known = memory_new(count * sizeof *binder.known),
                            .values = symbol_values,
                            .sources = memory_new(count * sizeof *binder.sources)};
    for (size_t s = 0; s < count; s++)
        symbol_values[s] = logical->sizes->symbols.at[s].value;
    phasor_status status = binder.known && binder.sources ? PHASOR_OK : fail_memory();
    if (status == PHASOR_OK)
        status = equations_collect(&binder);
    if (status == PHASOR_OK)
        status = equations_solve(&binder);
    array_free(&binder.equations);
    memory_free(binder.known);
    memory_free(binder.sources);
    return status == PHASOR_OK ? claims_check(logical, call, symbol_values) : status;
}

/* -- the graph --------------------------------------------------------------------------------- */

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
static bool is_inner_of(const struct graph *real, value v, int symbol)
{
    const struct node *n = graph_node(real, v);
    int64_t inside = 1;
    for (int d = n->rank - 1; v && d >= 0 && inside < WIDTH; d--) {
        if (size_has_symbol(real->sizes, n->shape[d], symbol))
            return true;
        inside *= size_is_literal(real->sizes, n->shape[d]) ? size_value(real->sizes, n->shape[d])
                                                            : WIDTH;
    }
    return false;
}

static bool is_inner(const struct graph *real, int symbol)
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
    if (!replacement || !kinds)
        return fail_memory();
    for (size_t s = 0; s < symbols; s++)
        kinds[s] = kind == BIND_MULTIPLES && !is_inner(real, (int)s) ? BIND_SYMBOLS : kind;
    plan->program = real;
    TRY(bind_once(plan, real, symbol_values, kinds, replacement));
    while (pinned_take(plan, real, kinds)) {
        graph_free(&plan->graph);
        sizes_free(&plan->sizes);
        TRY(bind_once(plan, real, symbol_values, kinds, replacement));
    }
    TRY(check_conditions(&plan->graph));
    return graph_verify_after(&plan->graph, "bind");
}
