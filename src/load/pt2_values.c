/* pt2_values.c - dtypes, sizes and names of a .pt2 file.
 *
 *     {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s25', ...)", ...}},
 *                            {"as_int": 64}], ...}
 *     becomes  f32[s25, 64]
 *
 * Symbols get their values before any compound expression is built: the pool computes an
 * expression's value once.
 */
#include "load/pt2.h"

#include <inttypes.h>
#include <string.h>

enum {
    SYMBOL_SIZE = 64,
    EXAMPLE = 2 /* for a symbol without one: 0 and 1 are special to many operators */
};

/* -- dtypes and refusals ----------------------------------------------------------------------- */

phasor_status pt2_dtype(const struct pt2 *p, const json_t *json, enum dtype *out)
{
    static const int8_t dtypes[] = {
        [1] = DT_u8,          [2] = DT_i8,          [3] = DT_i16,        [4] = DT_i32,
        [5] = DT_i64,         [6] = DT_f16,         [7] = DT_f32,        [8] = DT_f64,
        [9] = DT_c32,         [10] = DT_c64,        [11] = DT_c128,      [12] = DT_bool,
        [13] = DT_bf16,       [28] = DT_u16,        [29] = DT_f8e4m3fn,  [30] = DT_f8e5m2,
        [31] = DT_f8e4m3fnuz, [32] = DT_f8e5m2fnuz, [33] = DT_f8e8m0fnu, [34] = DT_u32,
        [35] = DT_u64};
    int64_t number;
    TRY(pt2_integer(p, json, "dtype", &number));
    const bool known = (number >= 1 && number <= 13) || (number >= 28 && number <= 35);
    if (!known)
        return pt2_fail(p, "field \"dtype\": %" PRId64 " is no dtype of torch's file format",
                        number);
    *out = (enum dtype)dtypes[number];
    return PHASOR_OK;
}

phasor_status pt2_refuse(struct pt2 *p, const struct origin *origin, const char *reason)
{
    return array_push(&p->loader.refusals, (struct loader_refusal){origin, reason}) ? PHASOR_OK
                                                                                    : fail_memory();
}

phasor_status pt2_refuse_dtype(struct pt2 *p, enum dtype dtype, const struct origin *origin)
{
    if (dtype_info[dtype].kind != DTC_NAMED)
        return PHASOR_OK;
    const size_t count = p->loader.refusals.count;
    if (count > 0 && p->loader.refusals.at[count - 1].origin == origin)
        return PHASOR_OK;
    const char *reason =
        arena_format(&p->program->arena, "dtype %s is not supported", dtype_text(dtype));
    return reason ? pt2_refuse(p, origin, reason) : fail_memory();
}

/* -- symbols ----------------------------------------------------------------------------------- */

/* An end of a range; null, and torch's largest numbers, mean that there is none. */
static phasor_status bound_read(const struct pt2 *p, const json_t *range, const char *field,
                                int64_t *bound)
{
    const json_t *json = json_object_get(range, field);
    int64_t number;
    if (!json || json_is_null(json))
        return PHASOR_OK;
    TRY(pt2_integer(p, json, field, &number));
    if (number < INT64_MAX - 1 && number > INT64_MIN + 1)
        *bound = number;
    return PHASOR_OK;
}

static int64_t clamp(int64_t number, int64_t low, int64_t high)
{
    return number < low ? low : number > high ? high : number;
}

/* The range that range_constraints has for a symbol or an expression; false: it has none. */
static phasor_status range_read(const struct pt2 *p, const char *name, int64_t *low, int64_t *high,
                                bool *found)
{
    const json_t *range = json_object_get(p->ranges, name);
    *low = INT64_MIN;
    *high = INT64_MAX;
    *found = range && !json_is_null(range);
    if (!*found)
        return PHASOR_OK;
    TRY(pt2_type(p, range, name, JSON_OBJECT));
    TRY(bound_read(p, range, "min_val", low));
    return bound_read(p, range, "max_val", high);
}

/* Makes the symbol, or narrows it. example NULL: one is chosen for a symbol that is new. */
static phasor_status symbol_add(struct pt2 *p, const char *name, int64_t low, int64_t high,
                                const int64_t *example, bool is_dim)
{
    struct sizes *sizes = &p->program->sizes;
    if (is_dim && low < 0)
        low = 0;
    if (low > high)
        return pt2_fail(p,
                        "range_constraints: symbol %s has the empty range %" PRId64 " to %" PRId64,
                        name, low, high);
    bool found;
    const dim old = size_find_symbol(sizes, name, &found);
    const int64_t chosen = found     ? size_value(sizes, old)
                           : example ? *example
                                     : clamp(EXAMPLE, low, high);
    if (example && found && chosen != *example)
        return pt2_fail(p, "symbol %s is %" PRId64 " in one place and %" PRId64 " in another", name,
                        chosen, *example);
    size_symbol(sizes, name, low, high, chosen);
    return sizes_status(sizes);
}

/* The example of a SymInt expression; false when it has none. */
static bool example_of(const json_t *expression, int64_t *example)
{
    const json_t *hint = json_object_get(json_object_get(expression, "hint"), "as_int");
    if (!json_is_integer(hint))
        return false;
    *example = json_integer_value(hint);
    return true;
}

/* Makes those symbols of an expression that are not there yet, so that they have range and value
 * before it is built. */
static phasor_status symbols_of(struct pt2 *p, const char *text, bool is_dim)
{
    static const char mark[] = "Symbol('";
    for (const char *at = strstr(text, mark); at; at = strstr(at, mark)) {
        at += sizeof mark - 1;
        char name[SYMBOL_SIZE];
        const size_t length = strcspn(at, "'");
        bool found, has_range;
        int64_t low, high;
        if (length == 0 || length >= sizeof name || at[length] != '\'')
            continue; /* the parser says what is wrong */
        memcpy(name, at, length);
        name[length] = '\0';
        size_find_symbol(&p->program->sizes, name, &found);
        if (found)
            continue;
        TRY(range_read(p, name, &low, &high, &has_range));
        TRY(symbol_add(p, name, low, high, NULL, is_dim));
    }
    return PHASOR_OK;
}

/* -- the symbols that inputs bind -------------------------------------------------------------- */

/* One SymInt of an input. */
struct equation {
    dim size; /* in the pool `trial` */
    int64_t example;
    bool is_dim, done;
};

/* Takes the expressions of the inputs apart. The pool `trial` is used for that: the program's pool
 * must not see them before its symbols have values. */
struct symbol_finder {
    struct pt2 *p;
    struct sizes trial;
    ARRAY(struct equation) equations;
    bool *known;     /* by symbol of `trial` */
    int64_t *values; /* by symbol of `trial` */
};

static phasor_status equation_add(struct symbol_finder *finder, const json_t *json, bool is_dim)
{
    const json_t *expression = json_object_get(json, "as_expr");
    const char *text = json_string_value(json_object_get(expression, "expr_str"));
    struct equation equation = {.is_dim = is_dim};
    if (!text || !example_of(expression, &equation.example))
        return PHASOR_OK;
    if (symbols_parse(&finder->trial, text, equation.example, &equation.size) != PHASOR_OK) {
        if (finder->trial.status != PHASOR_ERROR_MEMORY)
            finder->trial.status = PHASOR_OK; /* what is wrong with it is said when it is built */
        return sizes_status(&finder->trial);
    }
    return array_push(&finder->equations, equation) ? PHASOR_OK : fail_memory();
}

static phasor_status equations_collect(struct symbol_finder *finder, const json_t *inputs)
{
    const struct pt2 *p = finder->p;
    size_t index, axis;
    const json_t *input, *size;
    const json_t *tensors = json_object_get(p->scope->graph, "tensor_values");
    const json_t *integers = json_object_get(p->scope->graph, "sym_int_values");
    json_array_foreach(inputs, index, input)
    {
        const char *name =
            json_string_value(json_object_get(json_object_get(input, "as_tensor"), "name"));
        const char *integer =
            json_string_value(json_object_get(json_object_get(input, "as_sym_int"), "as_name"));
        if (integer)
            TRY(equation_add(finder, json_object_get(integers, integer), false));
        if (!name)
            continue;
        const json_t *sizes = json_object_get(json_object_get(tensors, name), "sizes");
        json_array_foreach(sizes, axis, size) TRY(equation_add(finder, size, true));
    }
    return PHASOR_OK;
}

/* A symbol that is no dim by itself has the least value 2 in PyTorch's files, whatever the program
 * asked for; what it asked for stands at the expression:
 *
 *     "2*s6": {"min_val": 2, "max_val": 32}, "s6": {"min_val": 2, "max_val": 16}     s6 in 1..16 */
static phasor_status derived_range(const struct symbol_finder *finder, int symbol, int64_t *low,
                                   int64_t *high)
{
    const struct sizes *trial = &finder->trial;
    const bool *nothing = NEW(&finder->p->scratch, bool, trial->symbols.count);
    bool found;
    if (!nothing)
        return fail_memory();
    TRY(range_read(finder->p, trial->symbols.at[symbol].name, low, high, &found));
    bool is_default = *low <= EXAMPLE;
    for (size_t i = 0; i < finder->equations.count; i++) {
        const dim size = finder->equations.at[i].size;
        struct size_affine affine;
        struct text text = {0};
        int64_t from, to;
        if (!size_affine(trial, size, nothing, finder->values, &affine) || affine.factor == 0 ||
            affine.symbol != symbol)
            continue;
        size_print(trial, size, &text);
        const phasor_status status = range_read(finder->p, text_get(&text), &from, &to, &found);
        text_free(&text);
        TRY(status);
        if (!found)
            continue;
        size_affine_range(&affine, from, to, &from, &to);
        *low = is_default || from > *low ? from : *low;
        *high = to < *high ? to : *high;
        is_default = false;
    }
    return PHASOR_OK;
}

static phasor_status symbol_found(struct symbol_finder *finder, int symbol, int64_t low,
                                  int64_t high, int64_t number, bool is_dim)
{
    finder->known[symbol] = true;
    finder->values[symbol] = number;
    return symbol_add(finder->p, finder->trial.symbols.at[symbol].name, low, high, &number, is_dim);
}

/* Finds the one symbol that is not known yet, where the example makes it a whole number. */
static phasor_status equation_solve(struct symbol_finder *finder, struct equation *equation)
{
    struct size_affine affine;
    int64_t low, high, number;
    if (!size_affine(&finder->trial, equation->size, finder->known, finder->values, &affine))
        return PHASOR_OK;
    equation->done = true;
    if (affine.factor == 0 ||
        !size_affine_solve(&finder->trial, &affine, equation->example, &number))
        return PHASOR_OK;
    TRY(derived_range(finder, affine.symbol, &low, &high));
    return symbol_found(finder, affine.symbol, low, high, number, equation->is_dim);
}

/* Symbols that are a size by themselves come first. */
static phasor_status equations_solve(struct symbol_finder *finder)
{
    const size_t count = finder->equations.count;
    for (size_t i = 0; i < count; i++) {
        struct equation *equation = &finder->equations.at[i];
        const struct size_node *n = &finder->trial.nodes.at[equation->size];
        int64_t low, high;
        equation->done = n->kind == SIZE_SYMBOL;
        if (!equation->done)
            continue;
        TRY(range_read(finder->p, finder->trial.symbols.at[n->symbol].name, &low, &high,
                       &(bool){false}));
        TRY(symbol_found(finder, n->symbol, low, high, equation->example, equation->is_dim));
    }
    for (size_t open = count, before = count + 1; open > 0 && open < before;) {
        before = open;
        open = 0;
        for (size_t i = 0; i < count; i++) {
            if (!finder->equations.at[i].done)
                TRY(equation_solve(finder, &finder->equations.at[i]));
            open += !finder->equations.at[i].done;
        }
    }
    return PHASOR_OK;
}

phasor_status pt2_symbols(struct pt2 *p, const json_t *inputs)
{
    struct symbol_finder finder = {.p = p};
    phasor_status status = sizes_init(&finder.trial, &p->scratch);
    if (status == PHASOR_OK)
        status = equations_collect(&finder, inputs);
    finder.known = NEW(&p->scratch, bool, finder.trial.symbols.count);
    finder.values = NEW(&p->scratch, int64_t, finder.trial.symbols.count);
    if (status == PHASOR_OK && (!finder.known || !finder.values))
        status = fail_memory();
    if (status == PHASOR_OK)
        status = equations_solve(&finder);
    array_free(&finder.equations);
    sizes_free(&finder.trial);
    return status;
}

/* -- sizes ------------------------------------------------------------------------------------- */

static phasor_status expression_read(struct pt2 *p, const json_t *expression, const char *what,
                                     bool hint, dim *out)
{
    struct sizes *sizes = &p->program->sizes;
    const char *text;
    int64_t example = EXAMPLE;
    TRY(pt2_type(p, expression, what, JSON_OBJECT));
    TRY(pt2_string(p, expression, "expr_str", &text));
    TRY(symbols_of(p, text, strcmp(what, "sizes") == 0));
    const bool has_example = example_of(expression, &example);
    const phasor_status status = symbols_parse(sizes, text, example, out);
    if (status == PHASOR_OK || status == PHASOR_ERROR_MEMORY)
        return status;
    if (!hint || !has_example)
        return pt2_fail_in(p, status);
    sizes->status = PHASOR_OK;
    *out = size_literal(sizes, example);
    return sizes_status(sizes);
}

static phasor_status size_read(struct pt2 *p, const json_t *json, const char *what, bool hint,
                               dim *out)
{
    const char *tag;
    const json_t *content;
    TRY(pt2_union(p, json, what, &tag, &content));
    if (strcmp(tag, "as_expr") == 0)
        return expression_read(p, content, what, hint, out);
    if (strcmp(tag, "as_int") != 0)
        return pt2_fail(p, "field \"%s\": \"%s\" is no tag of a size", what, tag);
    int64_t number;
    TRY(pt2_integer(p, content, what, &number));
    *out = size_literal(&p->program->sizes, number);
    return sizes_status(&p->program->sizes);
}

phasor_status pt2_size(struct pt2 *p, const json_t *json, const char *what, dim *out)
{
    return size_read(p, json, what, false, out);
}

/* An array of sizes. */
static phasor_status sizes_read(struct pt2 *p, const json_t *meta, const char *field, bool hint,
                                int *count, const dim **out)
{
    const json_t *array, *item;
    size_t axis;
    TRY(pt2_field(p, meta, field, JSON_ARRAY, &array));
    if (json_array_size(array) > RANK_MAX)
        return pt2_fail(p, "field \"%s\": rank %zu; at most %d", field, json_array_size(array),
                        RANK_MAX);
    dim *sizes = NEW(&p->scratch, dim, json_array_size(array));
    if (!sizes)
        return fail_memory();
    json_array_foreach(array, axis, item) TRY(size_read(p, item, field, hint, &sizes[axis]));
    *count = (int)json_array_size(array);
    *out = sizes;
    return PHASOR_OK;
}

/* The bytes of the example must fit in 64 bits; complex128 has 16 for an element. */
static phasor_status count_check(const struct pt2 *p, const struct meta *meta)
{
    int64_t nbytes = 16;
    bool fits = true;
    for (int axis = 0; axis < meta->rank; axis++) {
        const int64_t size = size_value(&p->program->sizes, meta->sizes[axis]);
        if (size == 0)
            return PHASOR_OK;
        fits = fits && !__builtin_mul_overflow(nbytes, size, &nbytes);
    }
    return fits ? PHASOR_OK
                : pt2_fail(p, "field \"sizes\": the tensor has too many elements for 64 bits");
}

static phasor_status meta_read(struct pt2 *p, const json_t *json, bool hint, struct meta *out)
{
    *out = (struct meta){0};
    int stride_count = 0;
    TRY(pt2_dtype(p, json_object_get(json, "dtype"), &out->dtype));
    TRY(sizes_read(p, json, "sizes", hint, &out->rank, &out->sizes));
    for (int axis = 0; axis < out->rank; axis++)
        if (size_value(&p->program->sizes, out->sizes[axis]) < 0)
            return pt2_fail(p, "field \"sizes\": dim %d is %" PRId64, axis,
                            size_value(&p->program->sizes, out->sizes[axis]));
    TRY(count_check(p, out));
    if (json_object_get(json, "strides"))
        TRY(sizes_read(p, json, "strides", true, &stride_count, &out->strides));
    out->has_strides = stride_count == out->rank && out->strides;
    return PHASOR_OK;
}

phasor_status pt2_meta(struct pt2 *p, const char *name, bool hint, struct meta *out)
{
    const json_t *values, *json;
    TRY(pt2_field(p, p->scope->graph, "tensor_values", JSON_OBJECT, &values));
    json = json_object_get(values, name);
    if (!json_is_object(json))
        return pt2_fail(p, "field \"tensor_values\": tensor \"%s\" is not described", name);
    return meta_read(p, json, hint, out);
}

/* -- names ------------------------------------------------------------------------------------- */

phasor_status pt2_bind(struct pt2 *p, const char *name, struct binding binding)
{
    bool fresh;
    if (!string_map_add(&p->scope->names, name, (uint32_t)p->scope->bindings.count, &fresh) ||
        !array_push(&p->scope->bindings, binding))
        return fail_memory();
    return fresh ? PHASOR_OK : pt2_fail(p, "the name \"%s\" is given twice", name);
}

phasor_status pt2_lookup(const struct pt2 *p, const char *name, struct binding *out)
{
    uint32_t index;
    *out = (struct binding){0};
    if (!string_map_find(&p->scope->names, name, &index))
        return pt2_fail(p, "the name \"%s\" stands for nothing at this place", name);
    *out = p->scope->bindings.at[index];
    return PHASOR_OK;
}

phasor_status pt2_lookup_tensor(struct pt2 *p, const char *name, tensor *out)
{
    struct binding binding;
    struct graph *graph = p->loader.graph;
    TRY(pt2_lookup(p, name, &binding));
    *out = binding.tensor;
    if (!*out && (binding.kind == RESULT_INT || binding.size_known)) {
        const value number = graph_size(graph, binding.size);
        *out = tensor_new(
            &p->loader, binding.kind == RESULT_BOOL ? graph_cast(graph, number, DT_bool) : number);
        TRY(graph_status(graph));
    }
    return *out ? PHASOR_OK : pt2_fail(p, "the name \"%s\" stands for no tensor", name);
}

phasor_status pt2_lookup_size(const struct pt2 *p, const char *name, dim *out)
{
    struct binding binding;
    TRY(pt2_lookup(p, name, &binding));
    if (binding.size_known || (binding.kind == RESULT_INT && !binding.tensor)) {
        *out = binding.size;
        return PHASOR_OK;
    }
    /* An integer that came into a region among tensors. */
    const value v = binding.tensor ? tensor_get((struct loader *)&p->loader, binding.tensor) : 0;
    const struct node *node = graph_node(p->loader.graph, v);
    if (!v || node->op != OP_size)
        return pt2_fail(p, "the name \"%s\" stands for no size", name);
    *out = node->attributes.sizes[0];
    return PHASOR_OK;
}

void pt2_scope_free(struct scope *scope)
{
    string_map_free(&scope->names);
    array_free(&scope->bindings);
}
