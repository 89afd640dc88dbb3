/* sizes.c - sizes by name to the shapes of all inputs.
 *
 *     q.1=17, start=4   with q: f32[2, s25, 64], start: int s5   ->   s25 = 17, s5 = 4   ->   2 17
 *                                                                     64, 4
 *
 * A name is a symbol of the file, an input and an axis, or an input that is an integer. An axis
 * that is an expression of one symbol (2*s25 + 1) is solved for it.
 */
#include "context/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct solver {
    const struct graph *graph;
    int64_t *values;    /* by symbol */
    const char **given; /* by symbol: the name that gave it */
};

/* literal + factor * symbol */
static bool dim_is_linear(const struct sizes *sizes, dim d, int *symbol, int64_t *factor,
                          int64_t *literal)
{
    const struct size_node *n = &sizes->nodes.at[d];
    *factor = 1;
    *literal = 0;
    if (n->kind == SIZE_SUM && n->count == 1) {
        *factor = n->terms[0].factor;
        *literal = n->literal;
        n = &sizes->nodes.at[n->terms[0].term];
    }
    *symbol = n->symbol;
    return n->kind == SIZE_SYMBOL;
}

static phasor_status symbol_give(struct solver *solver, int symbol, int64_t size, const char *name)
{
    const struct size_symbol *s = &solver->graph->sizes->symbols.at[symbol];
    if (solver->given[symbol] && solver->values[symbol] != size)
        return fail(PHASOR_ERROR_INPUT,
                    "%s and %s are one size (%s), but ask for %" PRId64 " and %" PRId64,
                    solver->given[symbol], name, s->name, solver->values[symbol], size);
    if (size < s->low || size > s->high)
        return fail(PHASOR_ERROR_INPUT,
                    "%s: %" PRId64 " is out of range: %s must be in %" PRId64 "..%" PRId64, name,
                    size, s->name, s->low, s->high);
    solver->values[symbol] = size;
    solver->given[symbol] = name;
    return PHASOR_OK;
}

static phasor_status dim_give(struct solver *solver, dim d, int64_t size, const char *name)
{
    const struct sizes *sizes = solver->graph->sizes;
    int symbol;
    int64_t factor, literal;
    if (size_is_literal(sizes, d)) {
        if (size_value(sizes, d) == size)
            return PHASOR_OK;
        return fail(PHASOR_ERROR_INPUT,
                    "%s: %" PRId64 " was asked for, but this size is always %" PRId64, name, size,
                    size_value(sizes, d));
    }
    struct text expression = {0};
    phasor_status status = PHASOR_OK;
    size_print(sizes, d, &expression);
    if (!dim_is_linear(sizes, d, &symbol, &factor, &literal))
        status = fail(PHASOR_ERROR_INPUT, "%s is %s: give the symbols in it", name,
                      text_get(&expression));
    else if ((size - literal) % factor != 0)
        status = fail(PHASOR_ERROR_INPUT, "%s: %" PRId64 " is impossible, the size is %s", name,
                      size, text_get(&expression));
    else
        status = symbol_give(solver, symbol, (size - literal) / factor, name);
    text_free(&expression);
    return status;
}

static const struct graph_input *input_find(const struct graph *graph, const char *name,
                                            size_t length)
{
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (strlen(graph->inputs.at[i].name) == length &&
            memcmp(graph->inputs.at[i].name, name, length) == 0)
            return &graph->inputs.at[i];
    return NULL;
}

static phasor_status axis_give(struct solver *solver, const struct phasor_binding *binding,
                               bool *known)
{
    const char *dot = strrchr(binding->name, '.');
    const struct graph_input *input =
        dot ? input_find(solver->graph, binding->name, (size_t)(dot - binding->name)) : NULL;
    *known = input && input->kind == PHASOR_TENSOR && dot[1] &&
             dot[1 + strspn(dot + 1, "0123456789")] == '\0';
    if (!*known)
        return PHASOR_OK;
    const struct node *n = graph_node(solver->graph, input->node);
    const long axis = strtol(dot + 1, NULL, 10);
    if (axis >= n->rank)
        return fail(PHASOR_ERROR_INPUT, "%s: input %s has %d dims, numbered from 0", binding->name,
                    input->name, n->rank);
    return dim_give(solver, n->shape[axis], binding->size, binding->name);
}

static void name_list(struct text *list, const char *name)
{
    text_format(list, "%s%s", list->length > 0 ? ", " : "", name);
}

/* Says which names there are. */
static phasor_status fail_unknown(const struct graph *graph, const char *name)
{
    struct text inputs = {0}, symbols = {0};
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const struct graph_input *input = &graph->inputs.at[i];
        if (input->kind == PHASOR_TENSOR || (input->kind == PHASOR_INT && !input->constant))
            name_list(&inputs, input->name);
    }
    for (size_t s = 0; s < graph->sizes->symbols.count; s++)
        name_list(&symbols, graph->sizes->symbols.at[s].name);
    const phasor_status status =
        fail(PHASOR_ERROR_INPUT,
             "%s: neither an input and an axis (q.1), nor an integer input, nor a symbol of %s; "
             "inputs: %s; symbols: %s",
             name, graph->name, inputs.length ? inputs.at : "none",
             symbols.length ? symbols.at : "none");
    text_free(&inputs);
    text_free(&symbols);
    return status;
}

static phasor_status binding_give(struct solver *solver, const struct phasor_binding *binding)
{
    bool known;
    const dim symbol = size_find_symbol(solver->graph->sizes, binding->name, &known);
    if (known)
        return dim_give(solver, symbol, binding->size, binding->name);
    const struct graph_input *input =
        input_find(solver->graph, binding->name, strlen(binding->name));
    if (input && input->kind == PHASOR_INT && !input->constant)
        return dim_give(solver, input->size, binding->size, binding->name);
    TRY(axis_give(solver, binding, &known));
    if (known)
        return PHASOR_OK;
    return fail_unknown(solver->graph, binding->name);
}

/* -- the shapes -------------------------------------------------------------------------------- */

struct shapes {
    struct arena arena;
    struct sizes sizes;
    dim *replacement, *memo;
};

static phasor_status shapes_open(struct shapes *shapes, const struct solver *solver)
{
    const struct sizes *from = solver->graph->sizes;
    TRY(sizes_init(&shapes->sizes, &shapes->arena));
    shapes->replacement = NEW(&shapes->arena, dim, from->symbols.count);
    shapes->memo = NEW(&shapes->arena, dim, from->nodes.count);
    if (!shapes->replacement || !shapes->memo)
        return fail_memory();
    for (size_t s = 0; s < from->symbols.count; s++)
        shapes->replacement[s] = size_literal(&shapes->sizes, solver->values[s]);
    return sizes_status(&shapes->sizes);
}

static int64_t shapes_value(struct shapes *shapes, const struct graph *graph, dim d)
{
    return size_value(&shapes->sizes, size_translate(&shapes->sizes, graph->sizes, d,
                                                     shapes->replacement, shapes->memo));
}

static int64_t input_dims(struct shapes *shapes, const struct graph *graph,
                          const struct graph_input *input, int64_t *dims)
{
    if (input->kind == PHASOR_INT) {
        *dims =
            input->constant ? input->expected.integer : shapes_value(shapes, graph, input->size);
        return 1;
    }
    if (input->kind != PHASOR_TENSOR)
        return 0;
    const struct node *n = graph_node(graph, input->node);
    for (int d = 0; d < n->rank; d++)
        dims[d] = shapes_value(shapes, graph, n->shape[d]);
    return n->rank;
}

static int64_t dims_count(const struct graph *graph)
{
    int64_t count = 0;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const struct graph_input *input = &graph->inputs.at[i];
        count += input->kind == PHASOR_INT      ? 1
                 : input->kind == PHASOR_TENSOR ? graph_node(graph, input->node)->rank
                                                : 0;
    }
    return count;
}

static phasor_status shapes_print(const struct solver *solver, int64_t *dims)
{
    struct shapes shapes = {0};
    phasor_status status = shapes_open(&shapes, solver);
    for (size_t i = 0; status == PHASOR_OK && i < solver->graph->inputs.count; i++) {
        dims += input_dims(&shapes, solver->graph, &solver->graph->inputs.at[i], dims);
        status = sizes_status(&shapes.sizes);
    }
    sizes_free(&shapes.sizes);
    arena_free(&shapes.arena);
    return status;
}

phasor_status phasor_program_sizes(const phasor_program *program, const phasor_binding *bindings,
                                   int count, int64_t *dims, int capacity)
{
    const struct graph *graph = program_logical(program);
    struct arena arena = {0};
    struct solver solver = {graph, NEW(&arena, int64_t, graph->sizes->symbols.count),
                            NEW(&arena, const char *, graph->sizes->symbols.count)};
    phasor_status status = solver.values && solver.given ? PHASOR_OK : fail_memory();
    for (size_t s = 0; status == PHASOR_OK && s < graph->sizes->symbols.count; s++)
        solver.values[s] = graph->sizes->symbols.at[s].value;
    for (int i = 0; status == PHASOR_OK && i < count; i++)
        status = binding_give(&solver, &bindings[i]);
    if (status == PHASOR_OK && dims_count(graph) > capacity)
        status = fail(PHASOR_ERROR_USAGE,
                      "the inputs of %s have %" PRId64 " sizes; there is room for %d", graph->name,
                      dims_count(graph), capacity);
    if (status == PHASOR_OK)
        status = shapes_print(&solver, dims);
    arena_free(&arena);
    return status;
}
