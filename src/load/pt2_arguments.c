/* pt2_arguments.c - arguments and results of a call.
 *
 *     {"name": "size", "arg": {"as_sym_ints": [{"as_name": "sym_size_int"}, {"as_int": -1}]}}
 *     becomes  {.name = "size", .kind = ARGUMENT_INTS, .sizes = {s25, -1}, .count = 2}
 *
 * One row of a table for each tag. Arrays live in the scratch arena, strings in the program's:
 * messages may keep them.
 */
#include "load/pt2.h"

#include <string.h>

typedef phasor_status decode_function(struct pt2 *p, const json_t *json, const char *tag,
                                      struct argument *out);

/* Decodes one item of a list into item `at` of the argument's array. */
typedef phasor_status item_function(struct pt2 *p, const json_t *json, const char *tag, void *item);

/* -- items ------------------------------------------------------------------------------------- */

static phasor_status item_tensor(struct pt2 *p, const json_t *json, const char *tag, void *item)
{
    const char *name;
    TRY(pt2_type(p, json, tag, JSON_OBJECT));
    TRY(pt2_string(p, json, "name", &name));
    return pt2_lookup_tensor(p, name, item);
}

static phasor_status item_optional_tensor(struct pt2 *p, const json_t *json, const char *tag,
                                          void *item)
{
    const char *inner;
    const json_t *content;
    TRY(pt2_union(p, json, tag, &inner, &content));
    if (strcmp(inner, "as_tensor") == 0)
        return item_tensor(p, content, tag, item);
    *(tensor *)item = 0;
    return strcmp(inner, "as_none") == 0
               ? PHASOR_OK
               : pt2_fail(p, "field \"%s\": \"%s\" is no tag of an optional tensor", tag, inner);
}

static phasor_status item_int(struct pt2 *p, const json_t *json, const char *tag, void *item)
{
    int64_t number;
    TRY(pt2_integer(p, json, tag, &number));
    *(dim *)item = size_literal(&p->program->sizes, number);
    return sizes_status(&p->program->sizes);
}

static phasor_status item_bool(struct pt2 *p, const json_t *json, const char *tag, void *item)
{
    bool flag;
    TRY(pt2_boolean(p, json, tag, &flag));
    *(dim *)item = flag;
    return PHASOR_OK;
}

static phasor_status item_float(struct pt2 *p, const json_t *json, const char *tag, void *item)
{
    return pt2_float(p, json, tag, &((struct number *)item)->re);
}

/* {"as_name": ...} or a constant: as_int, as_bool */
static phasor_status item_sym_size(struct pt2 *p, const json_t *json, const char *tag, void *item)
{
    const char *inner;
    const json_t *content;
    TRY(pt2_union(p, json, tag, &inner, &content));
    if (strcmp(inner, "as_int") == 0)
        return item_int(p, content, tag, item);
    if (strcmp(inner, "as_bool") == 0)
        return item_bool(p, content, tag, item);
    if (strcmp(inner, "as_name") != 0)
        return pt2_fail(p, "field \"%s\": \"%s\" is no tag of a symbolic number", tag, inner);
    TRY(pt2_type(p, content, "as_name", JSON_STRING));
    return pt2_lookup_size(p, json_string_value(content), item);
}

static tensor tensor_of_number(struct pt2 *p, enum dtype dtype, double number)
{
    return tensor_new(&p->loader, graph_float(p->loader.graph, dtype, number));
}

/* Whether a symbolic integer was taken from a tensor: it is no size, but a 0-dim tensor. */
static bool is_taken(struct pt2 *p, const json_t *json)
{
    struct binding binding;
    const char *name = json_string_value(json_object_get(json, "as_name"));
    return name && pt2_lookup(p, name, &binding) == PHASOR_OK && !binding.size_known &&
           binding.kind == RESULT_INT && binding.tensor;
}

/* A symbolic number as a 0-dim tensor. */
static phasor_status item_sym_tensor(struct pt2 *p, const json_t *json, const char *tag, void *item)
{
    const char *inner;
    const json_t *content;
    double number;
    bool flag;
    TRY(pt2_union(p, json, tag, &inner, &content));
    if (strcmp(inner, "as_name") == 0) {
        TRY(pt2_type(p, content, "as_name", JSON_STRING));
        return pt2_lookup_tensor(p, json_string_value(content), item);
    }
    if (strcmp(inner, "as_bool") == 0) {
        TRY(pt2_boolean(p, content, tag, &flag));
        *(tensor *)item = tensor_of_number(p, DT_bool, flag);
    } else if (strcmp(inner, "as_float") == 0) {
        TRY(pt2_float(p, content, tag, &number));
        *(tensor *)item = tensor_of_number(p, DT_f64, number);
    } else {
        return pt2_fail(p, "field \"%s\": \"%s\" is no tag of a symbolic number", tag, inner);
    }
    return graph_status(p->loader.graph);
}

/* -- lists ------------------------------------------------------------------------------------- */

static phasor_status list_decode(struct pt2 *p, const json_t *json, const char *tag,
                                 item_function *decode, size_t size, void **items, int *count)
{
    const json_t *item;
    size_t at;
    TRY(pt2_type(p, json, tag, JSON_ARRAY));
    if (json_array_size(json) > INT32_MAX)
        return pt2_fail(p, "field \"%s\" is too long", tag);
    char *array = arena_new_array(&p->scratch, size, json_array_size(json));
    if (!array)
        return fail_memory();
    json_array_foreach(json, at, item) TRY(decode(p, item, tag, array + at * size));
    *items = array;
    *count = (int)json_array_size(json);
    return PHASOR_OK;
}

static phasor_status tensors_decode(struct pt2 *p, const json_t *json, const char *tag,
                                    item_function *item, struct argument *out)
{
    void *items = NULL;
    TRY(list_decode(p, json, tag, item, sizeof(tensor), &items, &out->count));
    out->kind = ARGUMENT_TENSORS;
    out->tensors = items;
    return PHASOR_OK;
}

static phasor_status sizes_decode(struct pt2 *p, const json_t *json, const char *tag,
                                  item_function *item, enum argument_kind kind,
                                  struct argument *out)
{
    void *items = NULL;
    TRY(list_decode(p, json, tag, item, sizeof(dim), &items, &out->count));
    out->kind = kind;
    out->sizes = items;
    return PHASOR_OK;
}

static phasor_status decode_tensors(struct pt2 *p, const json_t *json, const char *tag,
                                    struct argument *out)
{
    return tensors_decode(p, json, tag, item_tensor, out);
}

static phasor_status decode_optional_tensors(struct pt2 *p, const json_t *json, const char *tag,
                                             struct argument *out)
{
    return tensors_decode(p, json, tag, item_optional_tensor, out);
}

static phasor_status decode_ints(struct pt2 *p, const json_t *json, const char *tag,
                                 struct argument *out)
{
    return sizes_decode(p, json, tag, item_int, ARGUMENT_INTS, out);
}

static phasor_status decode_bools(struct pt2 *p, const json_t *json, const char *tag,
                                  struct argument *out)
{
    return sizes_decode(p, json, tag, item_bool, ARGUMENT_BOOLS, out);
}

static phasor_status decode_floats(struct pt2 *p, const json_t *json, const char *tag,
                                   struct argument *out)
{
    void *items = NULL;
    TRY(list_decode(p, json, tag, item_float, sizeof(struct number), &items, &out->count));
    out->kind = ARGUMENT_FLOATS;
    out->numbers = items;
    return PHASOR_OK;
}

/* Symbolic floats or bools: tensors, with the constants among them made ones. */
static phasor_status decode_sym_tensors(struct pt2 *p, const json_t *json, const char *tag,
                                        struct argument *out)
{
    return tensors_decode(p, json, tag, item_sym_tensor, out);
}

/* A list of lists belongs to operators that Phasor does not know: checked, and taken as one list.
 * */
static phasor_status decode_nested(struct pt2 *p, const json_t *json, const char *tag,
                                   struct argument *out)
{
    decode_function *decode = strcmp(tag, "as_nested_tensors") == 0 ? decode_tensors
                              : strcmp(tag, "as_int_lists") == 0    ? decode_ints
                                                                    : decode_floats;
    const json_t *item;
    size_t at;
    TRY(pt2_type(p, json, tag, JSON_ARRAY));
    json_t *flat = json_array();
    phasor_status status = flat ? PHASOR_OK : fail_memory();
    json_array_foreach(json, at, item)
    {
        if (status == PHASOR_OK)
            status = pt2_type(p, item, tag, JSON_ARRAY);
        if (status == PHASOR_OK && json_array_extend(flat, (json_t *)item) != 0)
            status = fail_memory();
    }
    if (status == PHASOR_OK)
        status = decode(p, flat, tag, out);
    json_decref(flat);
    return status;
}

/* -- single values ----------------------------------------------------------------------------- */

static phasor_status decode_none(struct pt2 *p, const json_t *json, const char *tag,
                                 struct argument *out)
{
    (void)p, (void)json, (void)tag;
    out->kind = ARGUMENT_NONE;
    return PHASOR_OK;
}

static phasor_status decode_ignored(struct pt2 *p, const json_t *json, const char *tag,
                                    struct argument *out)
{
    out->kind = ARGUMENT_IGNORED;
    return strcmp(tag, "as_strings") == 0 ? pt2_type(p, json, tag, JSON_ARRAY)
                                          : pt2_type(p, json, tag, JSON_OBJECT);
}

static phasor_status single_tensor(struct pt2 *p, const json_t *json, const char *tag,
                                   item_function *item, struct argument *out)
{
    tensor *t = NEW(&p->scratch, tensor, 1);
    if (!t)
        return fail_memory();
    TRY(item(p, json, tag, t));
    out->kind = *t ? ARGUMENT_TENSOR : ARGUMENT_NONE;
    out->count = 1;
    out->tensors = t;
    return PHASOR_OK;
}

static phasor_status decode_tensor(struct pt2 *p, const json_t *json, const char *tag,
                                   struct argument *out)
{
    return single_tensor(p, json, tag, item_tensor, out);
}

static phasor_status decode_optional_tensor(struct pt2 *p, const json_t *json, const char *tag,
                                            struct argument *out)
{
    return single_tensor(p, json, tag, item_optional_tensor, out);
}

static phasor_status single_size(struct pt2 *p, const json_t *json, const char *tag,
                                 item_function *item, struct argument *out)
{
    dim *size = NEW(&p->scratch, dim, 1);
    if (!size)
        return fail_memory();
    TRY(item(p, json, tag, size));
    out->kind = ARGUMENT_INT;
    out->count = 1;
    out->sizes = size;
    return PHASOR_OK;
}

static phasor_status decode_int(struct pt2 *p, const json_t *json, const char *tag,
                                struct argument *out)
{
    return single_size(p, json, tag, item_int, out);
}

static phasor_status decode_sym_int(struct pt2 *p, const json_t *json, const char *tag,
                                    struct argument *out)
{
    return is_taken(p, json) ? single_tensor(p, json, tag, item_sym_tensor, out)
                             : single_size(p, json, tag, item_sym_size, out);
}

/* With an integer of a tensor among them, they are no sizes: that tensor stands for the list, and
 * whoever asks for sizes refuses it. */
static phasor_status decode_sym_ints(struct pt2 *p, const json_t *json, const char *tag,
                                     struct argument *out)
{
    const json_t *item;
    size_t at;
    json_array_foreach(json, at, item) if (is_taken(p, item)) return single_tensor(
        p, item, tag, item_sym_tensor, out);
    return sizes_decode(p, json, tag, item_sym_size, ARGUMENT_INTS, out);
}

static phasor_status decode_bool(struct pt2 *p, const json_t *json, const char *tag,
                                 struct argument *out)
{
    out->kind = ARGUMENT_BOOL;
    return pt2_boolean(p, json, tag, &out->flag);
}

static phasor_status decode_number(struct pt2 *p, const json_t *json, const char *tag,
                                   struct argument *out)
{
    struct number *number = NEW(&p->scratch, struct number, 1);
    if (!number)
        return fail_memory();
    out->numbers = number;
    out->count = 1;
    out->kind = ARGUMENT_FLOAT;
    if (strcmp(tag, "as_float") == 0)
        return pt2_float(p, json, tag, &number->re);
    out->kind = ARGUMENT_COMPLEX;
    TRY(pt2_type(p, json, tag, JSON_OBJECT));
    TRY(pt2_float(p, json_object_get(json, "real"), "real", &number->re));
    return pt2_float(p, json_object_get(json, "imag"), "imag", &number->im);
}

/* The constant of a symbolic float or bool, when it is one; otherwise a tensor. A bool of sizes
 * is an INT, 0 or 1. */
static phasor_status decode_sym_number(struct pt2 *p, const json_t *json, const char *tag,
                                       struct argument *out)
{
    const char *inner;
    const json_t *content;
    struct binding binding;
    TRY(pt2_union(p, json, tag, &inner, &content));
    if (strcmp(inner, "as_float") == 0)
        return decode_number(p, content, inner, out);
    if (strcmp(inner, "as_bool") == 0)
        return decode_bool(p, content, inner, out);
    if (strcmp(inner, "as_name") == 0 && json_is_string(content)) {
        TRY(pt2_lookup(p, json_string_value(content), &binding));
        if (binding.size_known || binding.kind == RESULT_INT)
            return single_size(p, json, tag, item_sym_size, out);
    }
    return single_tensor(p, json, tag, item_sym_tensor, out);
}

static phasor_status decode_string(struct pt2 *p, const json_t *json, const char *tag,
                                   struct argument *out)
{
    TRY(pt2_type(p, json, tag, JSON_STRING));
    out->kind = ARGUMENT_STRING;
    out->string = arena_string(&p->program->arena, json_string_value(json));
    return out->string ? PHASOR_OK : fail_memory();
}

static phasor_status decode_dtype(struct pt2 *p, const json_t *json, const char *tag,
                                  struct argument *out)
{
    (void)tag;
    out->kind = ARGUMENT_DTYPE;
    return pt2_dtype(p, json, &out->dtype);
}

static phasor_status decode_format(struct pt2 *p, const json_t *json, const char *tag,
                                   struct argument *out)
{
    static const enum memory_format formats[] = {FORMAT_PRESERVE, FORMAT_CONTIGUOUS,
                                                 FORMAT_CHANNELS_LAST, FORMAT_CHANNELS_LAST_3D,
                                                 FORMAT_PRESERVE};
    int64_t number;
    TRY(pt2_integer(p, json, tag, &number));
    if (number < 1 || number > 4)
        return pt2_fail(p, "field \"%s\": %lld is no memory format", tag, (long long)number);
    out->kind = ARGUMENT_FORMAT;
    out->format = formats[number];
    return PHASOR_OK;
}

static phasor_status decode_layout(struct pt2 *p, const json_t *json, const char *tag,
                                   struct argument *out)
{
    enum { LAYOUT_LAST = 7 };
    int64_t number;
    TRY(pt2_integer(p, json, tag, &number));
    if (number < 1 || number > LAYOUT_LAST)
        return pt2_fail(p, "field \"%s\": %lld is no layout", tag, (long long)number);
    out->kind = ARGUMENT_IGNORED;
    return number == LAYOUT_LAST
               ? PHASOR_OK
               : pt2_refuse(p, p->loader.graph->origin,
                            "only strided tensors are supported, not sparse ones");
}

static phasor_status decode_graph(struct pt2 *p, const json_t *json, const char *tag,
                                  struct argument *out)
{
    const json_t *graph;
    TRY(pt2_type(p, json, tag, JSON_OBJECT));
    TRY(pt2_field(p, json, "graph", JSON_OBJECT, &graph));
    out->kind = ARGUMENT_GRAPH;
    out->graph = graph;
    return PHASOR_OK;
}

static const struct {
    const char *tag;
    decode_function *decode;
} tags[] = {
    {"as_none", decode_none},
    {"as_tensor", decode_tensor},
    {"as_tensors", decode_tensors},
    {"as_optional_tensor", decode_optional_tensor},
    {"as_optional_tensors", decode_optional_tensors},
    {"as_nested_tensors", decode_nested},
    {"as_int", decode_int},
    {"as_ints", decode_ints},
    {"as_int_lists", decode_nested},
    {"as_float", decode_number},
    {"as_floats", decode_floats},
    {"as_float_lists", decode_nested},
    {"as_bool", decode_bool},
    {"as_bools", decode_bools},
    {"as_string", decode_string},
    {"as_strings", decode_ignored},
    {"as_complex", decode_number},
    {"as_sym_int", decode_sym_int},
    {"as_sym_ints", decode_sym_ints},
    {"as_sym_float", decode_sym_number},
    {"as_sym_floats", decode_sym_tensors},
    {"as_sym_bool", decode_sym_number},
    {"as_sym_bools", decode_sym_tensors},
    {"as_scalar_type", decode_dtype},
    {"as_memory_format", decode_format},
    {"as_layout", decode_layout},
    {"as_device", decode_ignored},
    {"as_graph", decode_graph},
    {"as_operator", decode_string},
    {"as_custom_obj", decode_ignored},
    {"as_string_to_argument", decode_ignored},
};

phasor_status pt2_argument(struct pt2 *p, const json_t *json, struct argument *out)
{
    const json_t *argument, *content;
    const char *tag;
    *out = (struct argument){0};
    TRY(pt2_type(p, json, "inputs", JSON_OBJECT));
    TRY(pt2_string(p, json, "name", &out->name));
    TRY(pt2_field(p, json, "arg", JSON_OBJECT, &argument));
    TRY(pt2_union(p, argument, "arg", &tag, &content));
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (strcmp(tag, tags[i].tag) == 0)
            return tags[i].decode(p, content, tag, out);
    return pt2_fail(p, "argument \"%s\": the tag \"%s\" is unknown", out->name, tag);
}

/* -- results ----------------------------------------------------------------------------------- */

static phasor_status result_tensor(struct pt2 *p, const json_t *json, struct result *out)
{
    struct meta meta;
    TRY(pt2_type(p, json, "outputs", JSON_OBJECT));
    TRY(pt2_string(p, json, "name", &out->name));
    TRY(pt2_meta(p, out->name, true, &meta));
    out->kind = RESULT_TENSOR;
    out->dtype = meta.dtype;
    out->rank = meta.rank;
    out->sizes = meta.sizes;
    out->strides = meta.strides;
    out->has_strides = meta.has_strides;
    return PHASOR_OK;
}

static phasor_status result_decode(struct pt2 *p, const json_t *json, struct result *out)
{
    static const struct {
        const char *tag;
        enum result_kind kind;
    } numbers[] = {
        {"as_sym_int", RESULT_INT}, {"as_sym_float", RESULT_FLOAT}, {"as_sym_bool", RESULT_BOOL}};
    static const char *const constants[] = {"as_none", "as_int",    "as_float",
                                            "as_bool", "as_string", "as_custom_obj"};
    const char *tag;
    const json_t *content;
    TRY(pt2_union(p, json, "outputs", &tag, &content));
    if (strcmp(tag, "as_tensor") == 0)
        return result_tensor(p, content, out);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(tag, numbers[i].tag) == 0) {
            TRY(pt2_type(p, content, "outputs", JSON_OBJECT));
            out->kind = numbers[i].kind;
            out->name =
                json_string_value(json_object_get(content, "as_name")); /* NULL: a constant */
            return PHASOR_OK;
        }
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (strcmp(tag, constants[i]) == 0)
            return PHASOR_OK;
    return pt2_fail(p, "field \"outputs\": the tag \"%s\" is unknown", tag);
}

/* The array of a Tensor[] result; NULL for other results. */
static const json_t *result_list(const json_t *json)
{
    const json_t *list = json_object_get(json, "as_tensors");
    return json_is_array(list) ? list : NULL;
}

phasor_status pt2_results(struct pt2 *p, const json_t *outputs, struct result **results, int *count)
{
    const json_t *output, *item;
    size_t at, inner, total = 0;
    json_array_foreach(outputs, at, output) total +=
        result_list(output) ? json_array_size(result_list(output)) : 1;
    if (total > INT32_MAX)
        return pt2_fail(p, "field \"outputs\" is too long");
    struct result *array = NEW(&p->scratch, struct result, total);
    if (!array)
        return fail_memory();
    *results = array;
    *count = (int)total;
    json_array_foreach(outputs, at, output)
    {
        if (!result_list(output)) {
            TRY(result_decode(p, output, array++));
            continue;
        }
        json_array_foreach(result_list(output), inner, item) TRY(result_tensor(p, item, array++));
    }
    return PHASOR_OK;
}
