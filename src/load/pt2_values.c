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

/* Makes the symbol, or narrows it. example NULL: one is chosen for a symbol that is new. */
static phasor_status symbol_add(struct pt2 *p, const char *name, const int64_t *example,
                                bool is_dim, dim *out)
{
    struct sizes *sizes = &p->program->sizes;
    int64_t low = INT64_MIN, high = INT64_MAX;
    const json_t *range = json_object_get(p->ranges, name);
    if (range && !json_is_null(range)) {
        TRY(pt2_type(p, range, name, JSON_OBJECT));
        TRY(bound_read(p, range, "min_val", &low));
        TRY(bound_read(p, range, "max_val", &high));
    }
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
    *out = size_symbol(sizes, name, low, high, chosen);
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
        bool found;
        dim size;
        if (length == 0 || length >= sizeof name || at[length] != '\'')
            continue; /* the parser says what is wrong */
        memcpy(name, at, length);
        name[length] = '\0';
        size_find_symbol(&p->program->sizes, name, &found);
        if (!found)
            TRY(symbol_add(p, name, NULL, is_dim, &size));
    }
    return PHASOR_OK;
}

/* The symbol s of an expression a * s + b, and what it is when the whole is `example`. */
static bool symbol_solve(const struct sizes *sizes, dim d, int64_t example, const char **name,
                         int64_t *number)
{
    const struct size_node *n = &sizes->nodes.at[d];
    struct size_term term = {1, d};
    int64_t literal = 0;
    if (n->kind == SIZE_SUM && n->count == 1) {
        term = n->terms[0];
        literal = n->literal;
    }
    const struct size_node *symbol = &sizes->nodes.at[term.term];
    if (symbol->kind != SIZE_SYMBOL || term.factor == 0 ||
        __builtin_sub_overflow(example, literal, number) ||
        (term.factor == -1 && *number == INT64_MIN) || *number % term.factor != 0)
        return false;
    *number /= term.factor;
    *name = sizes->symbols.at[symbol->symbol].name;
    return true;
}

/* Finds the symbol that one SymInt of an input binds. bare: only where the expression is the
 * symbol itself. The pool `trial` takes the expression apart; the program's pool must not see it
 * before its symbols have values. */
static phasor_status symbol_bind(struct pt2 *p, struct sizes *trial, const json_t *json, bool bare,
                                 bool is_dim)
{
    const json_t *expression = json_object_get(json, "as_expr");
    const char *text = json_string_value(json_object_get(expression, "expr_str")), *name;
    int64_t example, number;
    dim d;
    bool found;
    if (!text || !example_of(expression, &example))
        return PHASOR_OK;
    if (symbols_parse(trial, text, example, &d) != PHASOR_OK) {
        trial->status = trial->status == PHASOR_ERROR_MEMORY ? trial->status : PHASOR_OK;
        return sizes_status(trial);
    }
    if (!symbol_solve(trial, d, example, &name, &number))
        return PHASOR_OK;
    size_find_symbol(&p->program->sizes, name, &found);
    const bool is_bare = trial->nodes.at[d].kind == SIZE_SYMBOL;
    if (is_bare != bare || (!bare && found))
        return PHASOR_OK;
    return symbol_add(p, name, &number, is_dim, &d);
}

static phasor_status symbols_bind(struct pt2 *p, struct sizes *trial, const json_t *inputs,
                                  bool bare)
{
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
            TRY(symbol_bind(p, trial, json_object_get(integers, integer), bare, false));
        if (!name)
            continue;
        const json_t *sizes = json_object_get(json_object_get(tensors, name), "sizes");
        json_array_foreach(sizes, axis, size) TRY(symbol_bind(p, trial, size, bare, true));
    }
    return PHASOR_OK;
}

phasor_status pt2_symbols(struct pt2 *p, const json_t *inputs)
{
    struct sizes trial;
    phasor_status status = sizes_init(&trial, &p->scratch);
    if (status == PHASOR_OK)
        status = symbols_bind(p, &trial, inputs, true);
    if (status == PHASOR_OK)
        status = symbols_bind(p, &trial, inputs, false);
    sizes_free(&trial);
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
