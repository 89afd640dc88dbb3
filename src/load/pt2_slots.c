/* pt2_slots.c - what goes into a program and what comes out.
 *
 *     input_specs   {"buffer": {"arg": {"name": "b_cache"}, "buffer_name": "cache", ...}}
 *                   {"user_input": {"arg": {"as_tensor": {"name": "k"}}}}
 *                   {"constant_input": {"name": "scale", "value": {"as_int": 3}}}
 *     output_specs  {"buffer_mutation": {"arg": {"name": "index_put"}, "buffer_name": "cache"}}
 *                   {"user_output": {"arg": {"as_tensor": {"name": "sum_1"}}}}
 *
 * Parameters, buffers and constants are weights; a write makes one a buffer (functional.c).
 * Mutations are written before any user output is taken: an output that is a changed tensor, or a
 * view of one, is then the value that was written.
 */
#include "load/pt2.h"

#include <stdio.h>
#include <string.h>

static struct origin *slot_origin(struct pt2 *p, const char *target, const char *node)
{
    struct origin *origin = NEW(&p->program->arena, struct origin, 1);
    char *copy = arena_string(&p->program->arena, node);
    if (!origin || !copy)
        return NULL;
    *origin = (struct origin){.target = target, .node = copy};
    return origin;
}

/* The name that mutation outputs use for a weight: "buffer:cache". */
static phasor_status target_add(struct pt2 *p, const char *kind, const char *name, tensor t)
{
    bool fresh;
    const char *key = arena_format(&p->scratch, "%s:%s", kind, name);
    if (!key || !string_map_add(&p->targets, key, t, &fresh))
        return fail_memory();
    return PHASOR_OK;
}

/* -- weights ----------------------------------------------------------------------------------- */

static phasor_status weight_input(struct pt2 *p, const json_t *spec, const char *kind,
                                  const char *field, bool constant)
{
    const char *placeholder, *name;
    const json_t *argument;
    const struct data *data;
    TRY(pt2_string(p, spec, field, &name));
    TRY(pt2_field(p, spec, "arg", JSON_OBJECT, &argument));
    TRY(pt2_string(p, argument, "name", &placeholder));
    TRY(pt2_weight(p, name, constant, &data));
    char *copy = arena_string(&p->program->arena, placeholder);
    if (!copy)
        return fail_memory();
    struct graph *graph = p->loader.graph;
    const value v =
        graph_add(graph, OP_data, data->dtype, NULL, 0, &(struct attributes){.data = data}, copy);
    const tensor t = tensor_new(&p->loader, v);
    TRY(graph_status(graph));
    p->loader.tensors.at[t].constant = true;
    p->loader.tensors.at[t].data = data;
    TRY(target_add(p, kind, name, t));
    return pt2_bind(p, placeholder, (struct binding){.kind = RESULT_TENSOR, .tensor = t});
}

static phasor_status input_parameter(struct pt2 *p, const json_t *spec)
{
    return weight_input(p, spec, "parameter", "parameter_name", false);
}

static phasor_status input_buffer(struct pt2 *p, const json_t *spec)
{
    const json_t *persistent;
    TRY(pt2_optional(p, spec, "persistent", JSON_TRUE, &persistent));
    return weight_input(p, spec, "buffer", "buffer_name", json_is_false(persistent));
}

static phasor_status input_constant(struct pt2 *p, const json_t *spec)
{
    return weight_input(p, spec, "constant", "tensor_constant_name", true);
}

/* -- inputs of the call ------------------------------------------------------------------------ */

static phasor_status slot_add(struct pt2 *p, struct graph_input slot)
{
    slot.name = arena_string(&p->program->arena, slot.name);
    return slot.name && array_push(&p->loader.graph->inputs, slot) ? PHASOR_OK : fail_memory();
}

static phasor_status tensor_input(struct pt2 *p, const char *name)
{
    struct graph *graph = p->loader.graph;
    struct meta meta;
    const int index = (int)graph->inputs.count;
    TRY(pt2_meta(p, name, false, &meta));
    char *copy = arena_string(&p->program->arena, name);
    if (!copy)
        return fail_memory();
    if (dtype_info[meta.dtype].kind == DTC_NAMED) {
        const struct origin *origin = slot_origin(p, "input", name);
        if (!origin)
            return fail_memory();
        TRY(pt2_refuse_dtype(p, meta.dtype, origin));
    }
    const struct attributes attributes = {
        .index = index, .sizes = meta.sizes, .size_count = meta.rank};
    const value v = graph_add(graph, OP_input, meta.dtype, NULL, 0, &attributes, copy);
    const tensor t = tensor_new(&p->loader, v);
    TRY(graph_status(graph));
    p->loader.tensors.at[t].input = index + 1;
    TRY(loader_example(&p->loader, index, graph_node(graph, v),
                       meta.has_strides ? meta.strides : NULL));
    TRY(slot_add(p, (struct graph_input){.name = name, .kind = PHASOR_TENSOR, .node = v}));
    return pt2_bind(p, name, (struct binding){.kind = RESULT_TENSOR, .tensor = t});
}

/* An int whose value may change from call to call; one that was specialised after all is a
 * constant. */
static phasor_status integer_input(struct pt2 *p, const char *name)
{
    const json_t *values, *json;
    dim size;
    TRY(pt2_field(p, p->scope->graph, "sym_int_values", JSON_OBJECT, &values));
    json = json_object_get(values, name);
    TRY(pt2_size(p, json, name, &size));
    const struct sizes *sizes = &p->program->sizes;
    struct graph_input slot = {
        .name = name, .kind = PHASOR_INT, .size = size, .constant = size_is_literal(sizes, size)};
    if (slot.constant)
        slot.expected = (phasor_value){.kind = PHASOR_INT, .integer = size_value(sizes, size)};
    TRY(slot_add(p, slot));
    return pt2_bind(p, name,
                    (struct binding){.kind = RESULT_INT, .size = size, .size_known = true});
}

/* as_int, as_float, as_bool, as_string, as_none. false: another tag. */
static phasor_status constant_read(struct pt2 *p, const char *tag, const json_t *content,
                                   phasor_value *out, bool *is_constant)
{
    *is_constant = true;
    *out = (phasor_value){.kind = PHASOR_NONE};
    if (strcmp(tag, "as_none") == 0)
        return PHASOR_OK;
    if (strcmp(tag, "as_int") == 0)
        return out->kind = PHASOR_INT, pt2_integer(p, content, tag, &out->integer);
    if (strcmp(tag, "as_float") == 0)
        return out->kind = PHASOR_FLOAT, pt2_float(p, content, tag, &out->real);
    if (strcmp(tag, "as_bool") == 0)
        return out->kind = PHASOR_BOOL, pt2_boolean(p, content, tag, &out->boolean);
    *is_constant = strcmp(tag, "as_string") == 0;
    if (!*is_constant)
        return PHASOR_OK;
    TRY(pt2_type(p, content, tag, JSON_STRING));
    out->kind = PHASOR_STRING;
    out->string = arena_string(&p->program->arena, json_string_value(content));
    return out->string ? PHASOR_OK : fail_memory();
}

static phasor_status constant_slot(struct pt2 *p, const char *name, const char *tag,
                                   const json_t *content)
{
    phasor_value expected;
    bool is_constant;
    TRY(constant_read(p, tag, content, &expected, &is_constant));
    if (!is_constant)
        return pt2_fail(p, "input \"%s\": the tag \"%s\" is unknown", name, tag);
    return slot_add(
        p, (struct graph_input){
               .name = name, .kind = expected.kind, .constant = true, .expected = expected});
}

static phasor_status input_constant_value(struct pt2 *p, const json_t *spec)
{
    const char *name, *tag;
    const json_t *content;
    TRY(pt2_string(p, spec, "name", &name));
    TRY(pt2_union(p, json_object_get(spec, "value"), "value", &tag, &content));
    return constant_slot(p, name, tag, content);
}

static phasor_status object_input(struct pt2 *p, const json_t *content)
{
    const char *name;
    TRY(pt2_type(p, content, "as_custom_obj", JSON_OBJECT));
    TRY(pt2_string(p, content, "name", &name));
    const struct origin *origin = slot_origin(p, "input", name);
    if (!origin)
        return fail_memory();
    TRY(pt2_refuse(p, origin, "it is a script object; only tensors and numbers are supported"));
    return slot_add(p, (struct graph_input){.name = name, .kind = PHASOR_NONE, .constant = true});
}

static phasor_status input_user(struct pt2 *p, const json_t *spec)
{
    const char *tag, *name;
    const json_t *content;
    char number[32];
    TRY(pt2_union(p, json_object_get(spec, "arg"), "arg", &tag, &content));
    if (strcmp(tag, "as_tensor") == 0) {
        TRY(pt2_type(p, content, tag, JSON_OBJECT));
        TRY(pt2_string(p, content, "name", &name));
        return tensor_input(p, name);
    }
    if (strcmp(tag, "as_sym_int") == 0) {
        TRY(pt2_type(p, content, tag, JSON_OBJECT));
        TRY(pt2_string(p, content, "as_name", &name));
        return integer_input(p, name);
    }
    if (strcmp(tag, "as_custom_obj") == 0)
        return object_input(p, content);
    snprintf(number, sizeof number, "input_%zu", p->loader.graph->inputs.count);
    return constant_slot(p, number, tag, content);
}

/* A token orders effects; nothing reads it but with_effects. */
static phasor_status input_token(struct pt2 *p, const json_t *spec)
{
    const char *name;
    const json_t *argument;
    struct graph *graph = p->loader.graph;
    TRY(pt2_field(p, spec, "arg", JSON_OBJECT, &argument));
    TRY(pt2_string(p, argument, "name", &name));
    const tensor t = tensor_new(&p->loader, graph_float(graph, DT_f32, 0));
    TRY(graph_status(graph));
    return pt2_bind(p, name, (struct binding){.kind = RESULT_TENSOR, .tensor = t});
}

/* Objects that no operator Phasor knows can use. */
static phasor_status input_nothing(struct pt2 *p, const json_t *spec)
{
    (void)p, (void)spec;
    return PHASOR_OK;
}

phasor_status pt2_inputs(struct pt2 *p, const json_t *inputs)
{
    static const struct {
        const char *kind;
        phasor_status (*read)(struct pt2 *p, const json_t *spec);
    } kinds[] = {{"parameter", input_parameter},
                 {"buffer", input_buffer},
                 {"tensor_constant", input_constant},
                 {"user_input", input_user},
                 {"constant_input", input_constant_value},
                 {"custom_obj", input_nothing},
                 {"token", input_token}};
    const json_t *spec, *content;
    const char *kind;
    size_t at;
    TRY(pt2_symbols(p, inputs));
    json_array_foreach(p->input_specs, at, spec)
    {
        TRY(pt2_union(p, spec, "input_specs", &kind, &content));
        TRY(pt2_type(p, content, kind, JSON_OBJECT));
        size_t i = 0;
        while (i < sizeof kinds / sizeof *kinds && strcmp(kind, kinds[i].kind) != 0)
            i++;
        if (i == sizeof kinds / sizeof *kinds)
            return pt2_fail(p, "field \"input_specs\": the kind \"%s\" is unknown", kind);
        TRY(kinds[i].read(p, content));
    }
    return PHASOR_OK;
}

/* -- mutations --------------------------------------------------------------------------------- */

struct mutation {
    const char *name; /* of the buffer, parameter or input */
    tensor target, source;
    value written;
};

static phasor_status mutation_read(struct pt2 *p, const char *kind, const json_t *spec,
                                   struct mutation *out)
{
    const char *source;
    const json_t *argument;
    uint32_t target;
    TRY(pt2_field(p, spec, "arg", JSON_OBJECT, &argument));
    TRY(pt2_string(p, argument, "name", &source));
    TRY(pt2_lookup_tensor(p, source, &out->source));
    if (strcmp(kind, "user_input_mutation") == 0) {
        TRY(pt2_string(p, spec, "user_input_name", &out->name));
        return pt2_lookup_tensor(p, out->name, &out->target);
    }
    const char *word = strcmp(kind, "buffer_mutation") == 0 ? "buffer" : "parameter";
    char field[32], key[1024];
    snprintf(field, sizeof field, "%s_name", word);
    TRY(pt2_string(p, spec, field, &out->name));
    const int length = snprintf(key, sizeof key, "%s:%s", word, out->name);
    if (length < 0 || (size_t)length >= sizeof key || !string_map_find(&p->targets, key, &target))
        return pt2_fail(p, "field \"output_specs\": the program has no %s \"%s\" to change", word,
                        out->name);
    out->target = target;
    return PHASOR_OK;
}

static phasor_status mutation_write(struct pt2 *p, const struct mutation *mutation)
{
    struct graph *graph = p->loader.graph;
    const value old = tensor_get(&p->loader, mutation->target), new = mutation->written;
    TRY(graph_status(graph));
    const struct node *a = graph_node(graph, old), *b = graph_node(graph, new);
    if (a->dtype != b->dtype || a->rank != b->rank || !graph_same_shape(graph, old, new))
        return pt2_fail(
            p, "field \"output_specs\": what is written to \"%s\" has another dtype or shape",
            mutation->name);
    graph->origin = slot_origin(p, "output", mutation->name);
    if (!graph->origin)
        return fail_memory();
    tensor_write(&p->loader, mutation->target, new);
    graph->origin = NULL;
    return graph_status(graph);
}

static bool is_mutation(const char *kind)
{
    return strcmp(kind, "buffer_mutation") == 0 || strcmp(kind, "user_input_mutation") == 0 ||
           strcmp(kind, "parameter_mutation") == 0;
}

/* All values are taken before the first is written: they may be each other's old ones. */
static phasor_status mutations_write(struct pt2 *p)
{
    const json_t *spec, *content;
    const char *kind;
    size_t at, count = 0;
    struct mutation *mutations =
        NEW(&p->scratch, struct mutation, json_array_size(p->output_specs));
    if (!mutations)
        return fail_memory();
    json_array_foreach(p->output_specs, at, spec)
    {
        TRY(pt2_union(p, spec, "output_specs", &kind, &content));
        TRY(pt2_type(p, content, kind, JSON_OBJECT));
        if (!is_mutation(kind))
            continue;
        struct mutation *m = &mutations[count++];
        TRY(mutation_read(p, kind, content, m));
        m->written = tensor_get(&p->loader, m->source);
    }
    for (size_t i = 0; i < count; i++)
        TRY(mutation_write(p, &mutations[i]));
    return PHASOR_OK;
}

/* -- outputs of the call ----------------------------------------------------------------------- */

static phasor_status output_tensor(struct pt2 *p, const char *name, phasor_kind kind,
                                   struct graph_output *slot)
{
    tensor t;
    TRY(pt2_lookup_tensor(p, name, &t));
    slot->kind = kind;
    slot->node = tensor_get(&p->loader, t);
    return graph_status(p->loader.graph);
}

/* An integer is a size; one that was taken from a tensor is refused. */
static phasor_status output_size(struct pt2 *p, const char *name, dim *size)
{
    struct binding binding;
    TRY(pt2_lookup(p, name, &binding));
    if (binding.kind != RESULT_INT || !binding.tensor || binding.size_known)
        return pt2_lookup_size(p, name, size);
    const struct loader_refusal refusal = {
        slot_origin(p, "output", name),
        "an integer taken from the values of a tensor as an output; return the tensor"};
    *size = 0;
    return refusal.origin && array_push(&p->loader.refusals, refusal) ? PHASOR_OK : fail_memory();
}

/* {"as_name": ...} or a constant */
static phasor_status output_symbol(struct pt2 *p, const char *tag, const json_t *content,
                                   struct graph_output *slot, const char **name)
{
    const char *inner;
    const json_t *json;
    TRY(pt2_union(p, content, tag, &inner, &json));
    if (strcmp(inner, "as_name") != 0) {
        TRY(constant_read(p, inner, json, &slot->expected, &slot->constant));
        slot->kind = slot->expected.kind;
        return slot->constant
                   ? PHASOR_OK
                   : pt2_fail(p, "field \"output_specs\": the tag \"%s\" is unknown", inner);
    }
    TRY(pt2_type(p, json, inner, JSON_STRING));
    *name = json_string_value(json);
    if (strcmp(tag, "as_sym_int") == 0) {
        slot->kind = PHASOR_INT;
        return output_size(p, *name, &slot->size);
    }
    return output_tensor(p, *name, strcmp(tag, "as_sym_float") == 0 ? PHASOR_FLOAT : PHASOR_BOOL,
                         slot);
}

static phasor_status output_user(struct pt2 *p, const json_t *spec)
{
    const char *tag, *name = NULL;
    const json_t *content;
    struct graph_output slot = {0};
    TRY(pt2_union(p, json_object_get(spec, "arg"), "arg", &tag, &content));
    if (strcmp(tag, "as_tensor") == 0) {
        TRY(pt2_type(p, content, tag, JSON_OBJECT));
        TRY(pt2_string(p, content, "name", &name));
        TRY(output_tensor(p, name, PHASOR_TENSOR, &slot));
    } else if (strncmp(tag, "as_sym_", 7) == 0) {
        TRY(output_symbol(p, tag, content, &slot, &name));
    } else {
        TRY(constant_read(p, tag, content, &slot.expected, &slot.constant));
        slot.kind = slot.expected.kind;
        if (!slot.constant)
            return pt2_fail(p, "field \"output_specs\": the tag \"%s\" is unknown", tag);
    }
    slot.name = name ? arena_string(&p->program->arena, name)
                     : arena_format(&p->program->arena, "output_%d", p->output_count);
    p->output_count++;
    return slot.name && array_push(&p->loader.graph->outputs, slot) ? PHASOR_OK : fail_memory();
}

phasor_status pt2_outputs(struct pt2 *p)
{
    const json_t *spec, *content;
    const char *kind;
    size_t at;
    TRY(mutations_write(p));
    json_array_foreach(p->output_specs, at, spec)
    {
        TRY(pt2_union(p, spec, "output_specs", &kind, &content));
        if (strcmp(kind, "user_output") == 0)
            TRY(output_user(p, content));
        else if (!is_mutation(kind) && strcmp(kind, "token") != 0)
            return pt2_fail(p,
                            "field \"output_specs\": the kind \"%s\" is not for inference; export "
                            "the model in eval mode",
                            kind);
    }
    return tensor_finish(&p->loader);
}
