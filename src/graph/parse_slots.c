/* parse_slots.c - the statements of a .phasor text beside its nodes.
 *
 *     symbol s25 in 1..512 = 33        a symbol of the pool
 *     input q: f32[2, s25, 64]         an input slot and its node
 *     state cache: f32[4] = [1, 2, 3, 4]
 *     output n: int = 3                an output slot */
#include "graph/parse.h"

#include "graph/element.h"
#include "graph/infer.h"

#include <inttypes.h>
#include <string.h>

/* -- symbols and checks ------------------------------------------------------------------------ */

/* "1..512", "1..", "..": each bound may be missing */
static phasor_status symbol_range(struct scan *scan, int64_t *low, int64_t *high)
{
    if (!scan_take(scan, "..")) {
        TRY(scan_integer(scan, INT64_MIN, INT64_MAX, "the lower bound", low));
        TRY(scan_expect(scan, ".."));
    }
    if (scan_at_end(scan) || *scan->at == '=')
        return PHASOR_OK;
    return scan_integer(scan, *low, INT64_MAX, "the upper bound", high);
}

phasor_status parse_symbol(struct parser *parser)
{
    struct scan *scan = &parser->scan;
    int64_t low = INT64_MIN, high = INT64_MAX;
    bool found;
    TRY(scan_name(scan, "the symbol's name"));
    size_find_symbol(scan->sizes, text_get(&scan->word), &found);
    if (found)
        return scan_fail(scan,
                         "symbol '%s' is known already; declare it once, before its first use",
                         text_get(&scan->word));
    if (scan->sizes->symbols.count >= SCAN_SYMBOLS_MAX)
        return scan_fail(scan, "more than %d symbols", SCAN_SYMBOLS_MAX);
    const char *name = parse_word(parser);
    if (!name)
        return fail_memory();
    if (scan_take_word(scan, "in"))
        TRY(symbol_range(scan, &low, &high));
    int64_t example = low > 2 ? low : high < 2 ? high : 2;
    if (scan_take(scan, "="))
        TRY(scan_integer(scan, low, high, "the example", &example));
    size_symbol(scan->sizes, name, low, high, example);
    TRY(sizes_status(scan->sizes));
    return scan_end(scan);
}

phasor_status parse_check(struct parser *parser)
{
    struct scan *scan = &parser->scan;
    struct graph_check check = {0};
    TRY(scan_size(scan, &check.condition));
    if (!scan_at_end(scan)) {
        TRY(scan_string(scan, "a message in quotes"));
        check.message = parse_word(parser);
        if (!check.message)
            return fail_memory();
    }
    if (!array_push(&parser->graph->checks, check))
        return fail_memory();
    return scan_end(scan);
}

/* -- slots ------------------------------------------------------------------------------------- */

/* What stands after "NAME:" of an input or output. */
struct slot {
    phasor_kind kind;
    bool constant;
    phasor_value expected;
    bool typed; /* TENSOR with a type */
    struct scan_tensor type;
    dim size; /* INT */
};

static bool slot_kind(struct scan *scan, phasor_kind *kind)
{
    static const struct {
        const char *word;
        phasor_kind kind;
    } kinds[] = {{"int", PHASOR_INT},
                 {"float", PHASOR_FLOAT},
                 {"bool", PHASOR_BOOL},
                 {"string", PHASOR_STRING},
                 {"none", PHASOR_NONE}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *before = scan->at;
        if (scan_take_word(scan, kinds[i].word) && *scan->at != '[') { /* bool[2] is a tensor */
            *kind = kinds[i].kind;
            return true;
        }
        scan->at = before;
    }
    return false;
}

/* The constant after '='. */
static phasor_status slot_constant(struct parser *parser, struct slot *slot)
{
    struct scan *scan = &parser->scan;
    struct number number;
    slot->constant = true;
    slot->expected.kind = slot->kind;
    switch (slot->kind) {
    case PHASOR_INT:
        return scan_integer(scan, INT64_MIN, INT64_MAX, "a whole number", &slot->expected.integer);
    case PHASOR_FLOAT:
        TRY(scan_number(scan, DT_f64, &number));
        slot->expected.real = number.re;
        return PHASOR_OK;
    case PHASOR_BOOL:
        TRY(scan_number(scan, DT_bool, &number));
        slot->expected.boolean = number.i != 0;
        return PHASOR_OK;
    default:
        TRY(scan_string(scan, "a string"));
        slot->expected.string = parse_word(parser);
        return slot->expected.string ? PHASOR_OK : fail_memory();
    }
}

static phasor_status slot_parse(struct parser *parser, struct slot *slot)
{
    struct scan *scan = &parser->scan;
    if (!slot_kind(scan, &slot->kind)) {
        slot->kind = PHASOR_TENSOR;
        slot->typed = true;
        return scan_type(scan, &slot->type);
    }
    if (slot->kind == PHASOR_NONE) {
        slot->constant = true;
        slot->expected.kind = PHASOR_NONE;
        return PHASOR_OK;
    }
    if (scan_take(scan, "="))
        return slot_constant(parser, slot);
    return slot->kind == PHASOR_INT ? scan_size(scan, &slot->size) : PHASOR_OK;
}

/* "as NODE", or the node is called as what it belongs to. */
static phasor_status slot_node_name(struct parser *parser, const char **name)
{
    if (!scan_take_word(&parser->scan, "as"))
        return PHASOR_OK;
    TRY(scan_name(&parser->scan, "the node's name after 'as'"));
    *name = parse_word(parser);
    return *name ? PHASOR_OK : fail_memory();
}

static phasor_status input_node(struct parser *parser, const struct slot *slot, const char *name,
                                size_t index)
{
    struct graph *graph = parser->graph;
    const bool tensor = slot->kind == PHASOR_TENSOR;
    const struct attributes at = {
        .index = (int)index, .sizes = slot->type.shape, .size_count = tensor ? slot->type.rank : 0};
    const enum dtype dtype = tensor                       ? slot->type.dtype
                             : slot->kind == PHASOR_FLOAT ? DT_f64
                                                          : DT_bool;
    TRY(slot_node_name(parser, &name));
    return parse_add(parser, OP_input, dtype, &at, name, &graph->inputs.at[index].node);
}

phasor_status parse_input(struct parser *parser)
{
    struct scan *scan = &parser->scan;
    struct slot slot = {0};
    TRY(scan_name(scan, "the input's name"));
    const char *name = parse_word(parser);
    if (!name)
        return fail_memory();
    TRY(scan_expect(scan, ":"));
    scan->declare = true;
    const phasor_status status = slot_parse(parser, &slot);
    scan->declare = false;
    TRY(status);
    const struct graph_input input = {.name = name,
                                      .kind = slot.kind,
                                      .size = slot.size,
                                      .constant = slot.constant,
                                      .expected = slot.expected};
    if (!array_push(&parser->graph->inputs, input))
        return fail_memory();
    const bool has_node =
        slot.kind == PHASOR_TENSOR || slot.kind == PHASOR_FLOAT || slot.kind == PHASOR_BOOL;
    if (has_node && !slot.constant)
        TRY(input_node(parser, &slot, name, parser->graph->inputs.count - 1));
    return scan_end(scan);
}

/* -- constants --------------------------------------------------------------------------------- */

static phasor_status data_sizes(struct parser *parser, const struct scan_tensor *type,
                                struct data *data)
{
    const struct scan *scan = &parser->scan;
    int64_t *sizes = NEW(parser->graph->arena, int64_t, type->rank),
            *strides = NEW(parser->graph->arena, int64_t, type->rank);
    if (!sizes || !strides)
        return fail_memory();
    for (int d = 0; d < type->rank; d++) {
        if (!size_is_literal(scan->sizes, type->shape[d]))
            return scan_fail(scan, "dim %d of a constant is symbolic; it must be a number", d);
        sizes[d] = size_value(scan->sizes, type->shape[d]);
    }
    *data = (struct data){.name = data->name,
                          .dtype = type->dtype,
                          .rank = type->rank,
                          .sizes = sizes,
                          .strides = strides};
    if (data_count(data) < 0)
        return scan_fail(scan, "a constant has more elements than 64 bits can count");
    for (int64_t d = type->rank - 1, step = 1; d >= 0; d--) {
        strides[d] = step;
        step *= sizes[d] ? sizes[d] : 1;
    }
    return PHASOR_OK;
}

static phasor_status data_element_parse(struct scan *scan, const struct data *data, char *bytes)
{
    struct number number;
    TRY(scan_number(scan, data->dtype, &number));
    return element_store(data->dtype, number, bytes)
               ? PHASOR_OK
               : scan_fail(scan, "a number does not fit in %s", dtype_text(data->dtype));
}

/* "[1, 2+3j]", in row-major order; a memory of its own */
static phasor_status data_elements(struct parser *parser, struct data *data)
{
    struct scan *scan = &parser->scan;
    const int64_t count = data_count(data);
    const size_t nbytes = (size_t)dtype_size(data->dtype);
    if (dtype_info[data->dtype].kind == DTC_NAMED)
        return scan_fail(scan, "numbers of dtype %s cannot be written; use '@ NAME'",
                         dtype_text(data->dtype));
    TRY(scan_expect(scan, "["));
    if (count > (int64_t)strlen(scan->at))
        return scan_fail(scan, "%" PRId64 " elements are needed, fewer are written", count);
    char *bytes = arena_new(parser->graph->arena, (size_t)count * nbytes);
    struct storage *storage = NEW(parser->graph->arena, struct storage, 1);
    if (!bytes || !storage)
        return fail_memory();
    for (int64_t k = 0; k < count; k++) {
        if (k > 0 && !scan_take(scan, ","))
            return scan_fail(scan, "%" PRId64 " elements are needed, %" PRId64 " are written",
                             count, k);
        TRY(data_element_parse(scan, data, bytes + (size_t)k * nbytes));
    }
    if (!scan_take(scan, "]"))
        return scan_fail(
            scan, "more than the %" PRId64 " elements of the type are written, or ']' is missing",
            count);
    *storage =
        (struct storage){.bytes = bytes, .nbytes = (size_t)count * nbytes, .id = storage_new_id()};
    data->storage = storage;
    return PHASOR_OK;
}

static bool data_same_type(const struct data *a, const struct data *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes) == 0);
}

/* Takes the data that the caller has under that name. */
static phasor_status data_find(struct parser *parser, struct data *data)
{
    struct arena *arena = parser->graph->arena;
    struct data found = {0};
    if (!parser->find)
        return scan_fail(&parser->scan, "no file to take '%s' from; write its elements: = [...]",
                         data->name);
    const phasor_status status = parser->find(parser->context, data->name, &found);
    if (status != PHASOR_OK)
        return scan_fail_in(&parser->scan, status);
    if (!data_same_type(&found, data))
        return scan_fail(&parser->scan,
                         "'%s' in the file of constants has another dtype or shape (%s, rank %d)",
                         data->name, dtype_text(found.dtype), found.rank);
    found.name = data->name;
    found.sizes = data->sizes;
    found.strides = arena_copy(arena, found.strides, (size_t)found.rank * sizeof *found.strides);
    if (!found.strides)
        return fail_memory();
    *data = found;
    return data_is_inside(data)
               ? PHASOR_OK
               : scan_fail(&parser->scan, "'%s' reaches outside of its memory", data->name);
}

/* "[@ NAME] [= [...]]" */
static phasor_status data_parse(struct parser *parser, const struct scan_tensor *type,
                                const char *name, struct data **out)
{
    struct scan *scan = &parser->scan;
    struct data *data = NEW(parser->graph->arena, struct data, 1);
    if (!data)
        return fail_memory();
    data->name = name;
    const bool named = scan_take(scan, "@");
    if (named) {
        TRY(scan_name(scan, "the constant's name after '@'"));
        data->name = parse_word(parser);
        if (!data->name)
            return fail_memory();
    }
    TRY(data_sizes(parser, type, data));
    if (scan_take(scan, "="))
        TRY(data_elements(parser, data));
    else if (named)
        TRY(data_find(parser, data));
    else
        return scan_expected(scan, "'= [ELEMENTS]' or '@ NAME'");
    *out = data;
    return scan_end(scan);
}

/* "NAME: TYPE" */
static phasor_status data_head(struct parser *parser, const char *what, const char **name,
                               struct scan_tensor *type)
{
    TRY(scan_name(&parser->scan, what));
    *name = parse_word(parser);
    if (!*name)
        return fail_memory();
    TRY(scan_expect(&parser->scan, ":"));
    return scan_type(&parser->scan, type);
}

phasor_status parse_data(struct parser *parser)
{
    struct scan_tensor type;
    struct data *data;
    const char *name;
    value node;
    TRY(data_head(parser, "the constant's name", &name, &type));
    TRY(data_parse(parser, &type, name, &data));
    return parse_add(parser, OP_data, type.dtype, &(struct attributes){.data = data}, name, &node);
}

phasor_status parse_state(struct parser *parser)
{
    struct graph *graph = parser->graph;
    struct scan_tensor type;
    struct data *data;
    const char *name, *node_name;
    TRY(data_head(parser, "the buffer's name", &name, &type));
    node_name = name;
    TRY(slot_node_name(parser, &node_name));
    TRY(data_parse(parser, &type, name, &data));
    if (!array_push(&graph->buffers, (struct graph_buffer){.name = name, .initial = data}))
        return fail_memory();
    const int index = (int)graph->buffers.count - 1;
    return parse_add(parser, OP_state, type.dtype, &(struct attributes){.index = index}, node_name,
                     &graph->buffers.at[index].node);
}

/* -- outputs and writes ------------------------------------------------------------------------ */

/* A 0-dim node whose value the output is. */
static phasor_status output_number(struct parser *parser, const struct slot *slot, value *node)
{
    TRY(parse_value(parser, node));
    const struct node *n = graph_node(parser->graph, *node);
    if (n->rank == 0 &&
        (slot->kind == PHASOR_BOOL ? n->dtype == DT_bool : dtype_is_float(n->dtype)))
        return PHASOR_OK;
    return scan_fail(&parser->scan, "'%s' is no 0-dim tensor of %s", n->name,
                     slot->kind == PHASOR_BOOL ? "bool" : "floats");
}

static phasor_status output_check_type(struct parser *parser, const struct slot *slot, value v)
{
    const struct node *n = graph_node(parser->graph, v);
    if (!slot->typed ||
        (n->dtype == slot->type.dtype && n->rank == slot->type.rank &&
         memcmp(n->shape, slot->type.shape, (size_t)n->rank * sizeof *n->shape) == 0))
        return PHASOR_OK;
    struct text given = {0}, is = {0};
    infer_print_type(parser->graph, slot->type.dtype, slot->type.shape, slot->type.rank, &given);
    infer_print_type(parser->graph, n->dtype, n->shape, n->rank, &is);
    const phasor_status status = scan_fail(&parser->scan, "the output is given as %s, '%s' is %s",
                                           text_get(&given), n->name, text_get(&is));
    text_free(&given);
    text_free(&is);
    return status;
}

/* Tensors: "[: TYPE] [= NODE]", the node of the output's name without it. */
static phasor_status output_node(struct parser *parser, const struct slot *slot, const char *name,
                                 value *node)
{
    struct scan *scan = &parser->scan;
    if (slot->kind == PHASOR_FLOAT || slot->kind == PHASOR_BOOL)
        return output_number(parser, slot, node);
    if (slot->kind == PHASOR_STRING)
        return scan_expected(scan, "'= \"TEXT\"'");
    if (slot->kind != PHASOR_TENSOR)
        return PHASOR_OK;
    if (scan_take(scan, "="))
        TRY(parse_value(parser, node));
    else if (!(*node = parse_find(parser, name)))
        return scan_fail(scan, "no value '%s'; write 'output NAME = VALUE'", name);
    return output_check_type(parser, slot, *node);
}

phasor_status parse_output(struct parser *parser)
{
    struct scan *scan = &parser->scan;
    struct slot slot = {.kind = PHASOR_TENSOR};
    value node = 0;
    const char *name;
    if (scan_take(scan, ":")) {
        name = arena_format(parser->graph->arena, "output_%zu", parser->graph->outputs.count);
        TRY(slot_parse(parser, &slot));
    } else {
        TRY(scan_name(scan, "the output's name"));
        name = parse_word(parser);
        if (scan_take(scan, ":"))
            TRY(slot_parse(parser, &slot));
    }
    if (!name)
        return fail_memory();
    if (!slot.constant)
        TRY(output_node(parser, &slot, name, &node));
    const struct graph_output output = {.name = name,
                                        .kind = slot.kind,
                                        .node = node,
                                        .size = slot.size,
                                        .constant = slot.constant,
                                        .expected = slot.expected};
    if (!array_push(&parser->graph->outputs, output))
        return fail_memory();
    return scan_end(scan);
}

/* Where the leaf's buffer or input keeps what is written to it; NULL for other nodes. */
static value *write_slot(struct graph *graph, value leaf, const struct origin ***writer)
{
    const struct node *n = graph_node(graph, leaf);
    const int index = n->attributes.index;
    if (n->op == OP_state) {
        *writer = &graph->buffers.at[index].writer;
        return &graph->buffers.at[index].written;
    }
    if (n->op == OP_input && graph->inputs.at[index].kind == PHASOR_TENSOR) {
        *writer = &graph->inputs.at[index].writer;
        return &graph->inputs.at[index].written;
    }
    return NULL;
}

/* "NAME = VALUE" */
phasor_status parse_write(struct parser *parser)
{
    struct scan *scan = &parser->scan;
    struct graph *graph = parser->graph;
    const struct origin **writer, *origin;
    value leaf, written;
    TRY(parse_value(parser, &leaf));
    value *slot = write_slot(graph, leaf, &writer);
    if (!slot)
        return scan_fail(scan, "'%s' is neither a state nor an input",
                         graph_node(graph, leaf)->name);
    if (*slot)
        return scan_fail(scan, "'%s' is written twice", graph_node(graph, leaf)->name);
    TRY(scan_expect(scan, "="));
    TRY(parse_value(parser, &written));
    if (graph_node(graph, leaf)->dtype != graph_node(graph, written)->dtype ||
        !graph_same_shape(graph, leaf, written))
        return scan_fail(scan, "'%s' and '%s' must have one dtype and shape",
                         graph_node(graph, leaf)->name, graph_node(graph, written)->name);
    TRY(parse_origin(parser, graph_node(graph, written)->name, &origin));
    *slot = written;
    *writer = origin;
    return PHASOR_OK;
}
