/* sizes.c - sizes by name to the shapes of all inputs.
 *
 *     q.1=17, start=4   with q: f32[2, s25, 64], start: int s5   ->   s25 = 17, s5 = 4   ->   2 17
 *                                                                     64, 4
 *
 * A name is a symbol of the file, an input and an axis, or an input that is an integer. An axis
 * that is an expression (2*s25 + 1) is solved for the symbol that the other names do not give.
 */
#include "context/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct solver {
    const struct graph *graph;
    bool *known;        /* by symbol */
    int64_t *values;    /* by symbol */
    const char **given; /* by symbol: the name that gave it */
};

static phasor_status fail_other_size(const struct solver *solver, dim d, int64_t size,
                                     int64_t expected, const char *name)
{
    const struct sizes *sizes = solver->graph->sizes;
    const struct size_node *n = &sizes->nodes.at[d];
    if (n->kind == SIZE_LITERAL)
        return fail(PHASOR_ERROR_INPUT,
                    "%s: %" PRId64 " was asked for, but this size is always %" PRId64, name, size,
                    expected);
    if (n->kind == SIZE_SYMBOL)
        return fail(
            PHASOR_ERROR_INPUT, "%s and %s are one size (%s), but ask for %" PRId64 " and %" PRId64,
            solver->given[n->symbol], name, sizes->symbols.at[n->symbol].name, expected, size);
    struct text text = {0};
    text_format(&text, "%s: %" PRId64 " was asked for, but ", name, size);
    size_print(sizes, d, &text);
    text_format(&text, " is %" PRId64, expected);
    for (size_t s = 0; s < sizes->symbols.count; s++)
        if (size_has_symbol(sizes, d, (int)s))
            text_format(&text, ", as %s gives %s = %" PRId64, solver->given[s],
                        sizes->symbols.at[s].name, solver->values[s]);
    const phasor_status status = fail(PHASOR_ERROR_INPUT, "%s", text_get(&text));
    text_free(&text);
    return status;
}

static phasor_status fail_no_size(const struct solver *solver, dim d,
                                  const struct size_affine *affine, int64_t size, const char *name)
{
    const struct sizes *sizes = solver->graph->sizes;
    const struct size_symbol *symbol = &sizes->symbols.at[affine->symbol];
    struct text text = {0};
    text_format(&text, "%s: %" PRId64, name, size);
    if (sizes->nodes.at[d].kind == SIZE_SYMBOL) {
        text_format(&text, " is out of range: %s must be ", symbol->name);
        size_print_range(symbol->low, symbol->high, &text);
    } else {
        text_add(&text, " is impossible: expected ");
        size_print_right(sizes, d, affine, size, &text);
    }
    const phasor_status status = fail(PHASOR_ERROR_INPUT, "%s", text_get(&text));
    text_free(&text);
    return status;
}

/* Leaves *done false where several symbols of the size are not known yet. */
static phasor_status dim_give(struct solver *solver, dim d, int64_t size, const char *name,
                              bool *done)
{
    struct size_affine affine;
    int64_t number;
    *done = size_affine(solver->graph->sizes, d, solver->known, solver->values, &affine);
    if (!*done)
        return PHASOR_OK;
    if (affine.factor == 0)
        return affine.rest == size ? PHASOR_OK
                                   : fail_other_size(solver, d, size, affine.rest, name);
    if (!size_affine_solve(solver->graph->sizes, &affine, size, &number))
        return fail_no_size(solver, d, &affine, size, name);
    solver->known[affine.symbol] = true;
    solver->values[affine.symbol] = number;
    solver->given[affine.symbol] = name;
    return PHASOR_OK;
}

/* -- names ------------------------------------------------------------------------------------- */

/* What a name stands for. */
struct named {
    dim size;
    int input; /* -1: a symbol */
    int axis;  /* -1: the input is the integer itself */
};

static int input_find(const struct graph *graph, const char *name, size_t length)
{
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (strlen(graph->inputs.at[i].name) == length &&
            memcmp(graph->inputs.at[i].name, name, length) == 0)
            return (int)i;
    return -1;
}

/* "q.1" */
static phasor_status axis_find(const struct graph *graph, const char *name, struct named *out,
                               bool *known)
{
    const char *dot = strrchr(name, '.');
    const int at = dot ? input_find(graph, name, (size_t)(dot - name)) : -1;
    *known = at >= 0 && graph->inputs.at[at].kind == PHASOR_TENSOR && dot[1] &&
             dot[1 + strspn(dot + 1, "0123456789")] == '\0';
    if (!*known)
        return PHASOR_OK;
    const struct node *n = graph_node(graph, graph->inputs.at[at].node);
    const long axis = strtol(dot + 1, NULL, 10);
    if (axis >= n->rank)
        return fail(PHASOR_ERROR_INPUT, "%s: input %s has %d dims, numbered from 0", name,
                    graph->inputs.at[at].name, n->rank);
    *out = (struct named){n->shape[axis], at, (int)axis};
    return PHASOR_OK;
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

static phasor_status name_find(const struct graph *graph, const char *name, struct named *out)
{
    bool known;
    *out = (struct named){size_find_symbol(graph->sizes, name, &known), -1, -1};
    if (known)
        return PHASOR_OK;
    const int at = input_find(graph, name, strlen(name));
    const struct graph_input *input = at >= 0 ? &graph->inputs.at[at] : NULL;
    if (input && input->kind == PHASOR_INT && !input->constant) {
        *out = (struct named){input->size, at, -1};
        return PHASOR_OK;
    }
    TRY(axis_find(graph, name, out, &known));
    return known ? PHASOR_OK : fail_unknown(graph, name);
}

/* In rounds, as a size that is an expression may need what a later name gives. */
static phasor_status bindings_give(struct solver *solver, const struct phasor_binding *bindings,
                                   int count)
{
    const char *unsolved = NULL;
    struct named named = {0};
    for (int open = count, before = count + 1; open > 0 && open < before;) {
        before = open;
        open = 0;
        for (int i = 0; i < count; i++) {
            bool done;
            TRY(name_find(solver->graph, bindings[i].name, &named));
            TRY(dim_give(solver, named.size, bindings[i].size, bindings[i].name, &done));
            unsolved = done ? unsolved : bindings[i].name;
            open += !done;
        }
        if (open == 0)
            return PHASOR_OK;
    }
    if (!unsolved)
        return PHASOR_OK;
    struct text text = {0};
    TRY(name_find(solver->graph, unsolved, &named));
    size_print(solver->graph->sizes, named.size, &text);
    const phasor_status status =
        fail(PHASOR_ERROR_INPUT, "%s is %s: give the symbols in it, or all but one", unsolved,
             text_get(&text));
    text_free(&text);
    return status;
}

/* -- the shapes -------------------------------------------------------------------------------- */

static phasor_status shape_value(const struct solver *solver, const struct graph_input *input,
                                 dim d, int64_t *out)
{
    struct size_affine affine;
    if (!size_affine(solver->graph->sizes, d, NULL, solver->values, &affine))
        return fail(PHASOR_ERROR_INPUT, "input %s: a size does not fit in 64 bits", input->name);
    *out = affine.rest;
    if (*out >= 0 || input->kind != PHASOR_TENSOR)
        return PHASOR_OK;
    struct text text = {0};
    size_print(solver->graph->sizes, d, &text);
    const phasor_status status =
        fail(PHASOR_ERROR_INPUT, "input %s: a size is %" PRId64 " (%s) with these sizes",
             input->name, *out, text_get(&text));
    text_free(&text);
    return status;
}

static phasor_status shapes_print(const struct solver *solver, int64_t *dims)
{
    for (size_t i = 0; i < solver->graph->inputs.count; i++) {
        const struct graph_input *input = &solver->graph->inputs.at[i];
        if (input->kind == PHASOR_INT && input->constant)
            *dims++ = input->expected.integer;
        else if (input->kind == PHASOR_INT)
            TRY(shape_value(solver, input, input->size, dims++));
        if (input->kind != PHASOR_TENSOR)
            continue;
        const struct node *n = graph_node(solver->graph, input->node);
        for (int d = 0; d < n->rank; d++)
            TRY(shape_value(solver, input, n->shape[d], dims++));
    }
    return PHASOR_OK;
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

phasor_status phasor_program_sizes(const phasor_program *program, const phasor_binding *bindings,
                                   int count, int64_t *dims, int capacity)
{
    NOT_NULL(program);
    if (count > 0)
        NOT_NULL(bindings);
    if (capacity > 0)
        NOT_NULL(dims);
    for (int i = 0; i < count; i++)
        NOT_NULL(bindings[i].name);
    const struct graph *graph = program_logical(program);
    struct arena arena = {0};
    const size_t symbols = graph->sizes->symbols.count;
    struct solver solver = {graph, NEW(&arena, bool, symbols), NEW(&arena, int64_t, symbols),
                            NEW(&arena, const char *, symbols)};
    phasor_status status =
        solver.known && solver.values && solver.given ? PHASOR_OK : fail_memory();
    for (size_t s = 0; status == PHASOR_OK && s < symbols; s++)
        solver.values[s] = graph->sizes->symbols.at[s].value;
    if (status == PHASOR_OK)
        status = bindings_give(&solver, bindings, count);
    if (status == PHASOR_OK && dims_count(graph) > capacity)
        status = fail(PHASOR_ERROR_USAGE,
                      "the inputs of %s have %" PRId64 " sizes; there is room for %d", graph->name,
                      dims_count(graph), capacity);
    if (status == PHASOR_OK)
        status = shapes_print(&solver, dims);
    arena_free(&arena);
    return status;
}

phasor_status phasor_program_dim(const phasor_program *program, const char *name, phasor_dim *out)
{
    const struct graph *graph = program_logical(program);
    struct named named;
    *out = (phasor_dim){0};
    TRY(name_find(graph, name, &named));
    if (named.input < 0) {
        const struct size_symbol *s =
            &graph->sizes->symbols.at[graph->sizes->nodes.at[named.size].symbol];
        *out = (phasor_dim){-1, s->name, s->low, s->high, s->value, 1};
        return PHASOR_OK;
    }
    const phasor_spec *spec = &program->input_specs[named.input];
    *out = named.axis < 0 ? *spec->integer : spec->dims[named.axis];
    return PHASOR_OK;
}
