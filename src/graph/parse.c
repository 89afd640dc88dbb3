/* parse.c - .phasor text to a graph; print.c describes the text. One line is one statement.
 *
 *     phasor 1 "scale"
 *     input q: f32[s0, 64]         a symbol that is not declared: at least 0, with 2 as example
 *     two = scalar value=2 : f32[]
 *     mul = mul(q, two)            a type may be left out, except where nothing else gives it
 *     output mul
 *
 * 1. A type that is given must be the one that infer.c finds.
 * 2. `output` and `write` may stand before the values that they name.
 * 3. Nothing in a text may crash or hang: lines, brackets, lists and symbols are limited, constants
 *    are only as large as the text that holds them. */
#include "graph/parse.h"

#include "base/hash.h"
#include "base/number.h"
#include "graph/blocks.h"
#include "graph/element.h"
#include "graph/infer.h"
#include "graph/print.h"

#include <inttypes.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1 << 20, NODES_MAX = 1 << 22, NAMES_FIRST = 256 };

/* -- names ------------------------------------------------------------------------------------- */

const char *parse_word(struct parser *parser)
{
    return arena_string(parser->graph->arena, text_get(&parser->scan.word));
}

/* The slot of the name, or the free one where it belongs. */
static uint32_t *name_slot(const struct parser *parser, const char *name)
{
    size_t slot = hash_bytes(name, strlen(name)).low & (parser->names_size - 1);
    while (parser->names[slot] &&
           strcmp(graph_node(parser->graph, parser->names[slot])->name, name) != 0)
        slot = (slot + 1) & (parser->names_size - 1);
    return &parser->names[slot];
}

static phasor_status names_grow(struct parser *parser)
{
    uint32_t *old = parser->names;
    const size_t old_size = parser->names_size, size = old_size ? 2 * old_size : NAMES_FIRST;
    uint32_t *names = memory_new(size * sizeof *names);
    if (!names)
        return fail_memory();
    parser->names = names;
    parser->names_size = size;
    for (size_t i = 0; i < old_size; i++)
        if (old[i])
            *name_slot(parser, graph_node(parser->graph, old[i])->name) = old[i];
    memory_free(old);
    return PHASOR_OK;
}

value parse_find(const struct parser *parser, const char *name)
{
    return *name_slot(parser, name);
}

phasor_status parse_value(struct parser *parser, value *out)
{
    TRY(scan_name(&parser->scan, "the name of a value"));
    *out = parse_find(parser, text_get(&parser->scan.word));
    return *out ? PHASOR_OK
                : scan_fail(&parser->scan, "no value '%s'; a value is defined before it is used",
                            text_get(&parser->scan.word));
}

phasor_status parse_add(struct parser *parser, enum op op, enum dtype dtype,
                        const struct attributes *attributes, const char *name, value *out)
{
    struct graph *graph = parser->graph;
    if (!name)
        return fail_memory();
    if (graph->nodes.count * 2 >= parser->names_size)
        TRY(names_grow(parser));
    if (*name_slot(parser, name))
        return scan_fail(&parser->scan, "a second value '%s'; each name is defined once", name);
    if (graph->nodes.count >= NODES_MAX)
        return scan_fail(&parser->scan, "more than %d values", NODES_MAX);
    *out = graph_add(graph, op, dtype, parser->operands.at, (int)parser->operands.count, attributes,
                     name);
    if (*out == 0)
        return scan_fail_in(&parser->scan, graph_status(graph));
    *name_slot(parser, name) = *out;
    return PHASOR_OK;
}

/* -- origins ----------------------------------------------------------------------------------- */

static phasor_status origin_word(struct parser *parser, const char *what, const char **out)
{
    TRY(scan_name(&parser->scan, what));
    *out = parse_word(parser);
    return *out ? PHASOR_OK : fail_memory();
}

static phasor_status origin_line(struct parser *parser, const char **out)
{
    struct scan *scan = &parser->scan;
    scan_take(scan, "");
    if (*scan->at == '"')
        return origin_word(parser, "a source line", out);
    *out = arena_string(parser->graph->arena, scan->at);
    scan->at += strlen(scan->at);
    return *out ? PHASOR_OK : fail_memory();
}

phasor_status parse_origin(struct parser *parser, const char *node, const struct origin **out)
{
    struct scan *scan = &parser->scan;
    *out = NULL;
    if (!scan_take(scan, "#:"))
        return scan_end(scan);
    struct origin *origin = NEW(parser->graph->arena, struct origin, 1);
    if (!origin)
        return fail_memory();
    origin->node = node;
    TRY(origin_word(parser, "the operator's name after '#:'", &origin->target));
    if (scan_take_word(scan, "of"))
        TRY(origin_word(parser, "the node's name after 'of'", &origin->node));
    if (scan_take_word(scan, "in"))
        TRY(origin_word(parser, "the branch's name after 'in'", &origin->branch));
    origin->implied = scan_take_word(scan, "implied");
    if (scan_take(scan, "@"))
        TRY(origin_line(parser, &origin->line));
    *out = origin;
    return scan_end(scan);
}

/* -- nodes ------------------------------------------------------------------------------------- */

/* A node as it is written, before inference. */
struct written_node {
    enum op op;
    const char *name;
    struct attributes attributes;
    int axes[RANK_MAX];
    dim sizes[2 * RANK_MAX];
    const char *number_at; /* read once the dtype is known */
    char seen[8];          /* letters that were given */
    bool typed;
    struct scan_tensor type;
    const struct origin *origin;
};

static phasor_status node_axes(struct scan *scan, struct written_node *node)
{
    int64_t axis;
    TRY(scan_expect(scan, "["));
    node->attributes.axes = node->axes;
    node->attributes.axis_count = 0;
    if (scan_take(scan, "]"))
        return PHASOR_OK;
    do {
        if (node->attributes.axis_count == RANK_MAX)
            return scan_fail(scan, "more than %d axes", RANK_MAX);
        TRY(scan_integer(scan, 0, RANK_MAX - 1, "an axis", &axis));
        node->axes[node->attributes.axis_count++] = (int)axis;
    } while (scan_take(scan, ","));
    return scan_take(scan, "]") ? PHASOR_OK : scan_expected(scan, "',' or ']'");
}

static phasor_status node_integer(struct scan *scan, int64_t high, const char *what, int *out)
{
    int64_t number;
    TRY(scan_integer(scan, 0, high, what, &number));
    *out = (int)number;
    return PHASOR_OK;
}

static phasor_status node_text(struct parser *parser, struct written_node *node)
{
    TRY(scan_string(&parser->scan, "a string"));
    node->attributes.text = parse_word(parser);
    return node->attributes.text ? PHASOR_OK : fail_memory();
}

/* Keeps the place of a number whose dtype is not known yet. */
static phasor_status node_number(struct scan *scan, struct written_node *node)
{
    struct number ignored;
    scan_take(scan, "");
    node->number_at = scan->at;
    if (scan_take_word(scan, "true") || scan_take_word(scan, "false"))
        return PHASOR_OK;
    return scan_number(scan, DT_c128, &ignored);
}

static phasor_status node_attribute(struct parser *parser, struct written_node *node, char letter)
{
    struct scan *scan = &parser->scan;
    struct attributes *at = &node->attributes;
    switch (letter) {
    case 'S':
        at->sizes = node->sizes;
        return scan_sizes(scan, node->sizes, 2 * RANK_MAX, &at->size_count);
    case 'A': return node_axes(scan, node);
    case 'a': return node_integer(scan, RANK_MAX - 1, "an axis", &at->axis);
    case 's': return scan_size(scan, &at->start);
    case 'l': return scan_size(scan, &at->length);
    case 'p': return scan_integer(scan, 1, INT64_MAX, "a step", &at->step);
    case 'v': return node_number(scan, node);
    case 'f': return node_integer(scan, 255, "a flag", &at->flag);
    case 'i': return node_integer(scan, INT32_MAX, "an index", &at->index);
    default: return node_text(parser, node);
    }
}

static const char *attribute_word(char letter)
{
    const struct attribute_word *w = attribute_words;
    while (w->letter && w->letter != letter)
        w++;
    return w->letter ? w->word : "data";
}

/* What may be left out: start and flag are 0, step is 1. */
static phasor_status node_check_attributes(const struct scan *scan, const struct written_node *node)
{
    for (const char *letter = op_info[node->op].attributes; *letter; letter++)
        if (!strchr(node->seen, *letter) && !strchr("spf", *letter))
            return scan_fail(scan, "%s needs %s=", op_info[node->op].name, attribute_word(*letter));
    return PHASOR_OK;
}

/* "axis=0 start=s5" as the row's letters allow */
static phasor_status node_attributes(struct parser *parser, struct written_node *node)
{
    struct scan *scan = &parser->scan;
    const struct op_info *info = &op_info[node->op];
    node->attributes.step = 1;
    while (!scan_at_end(scan) && *scan->at != ':') {
        const struct attribute_word *w = attribute_words;
        TRY(scan_name(scan, "an attribute or ':'"));
        while (w->letter && strcmp(w->word, text_get(&scan->word)) != 0)
            w++;
        if (!w->letter || !strchr(info->attributes, w->letter))
            return scan_fail(scan, "%s has no attribute '%s'", info->name, text_get(&scan->word));
        if (strchr(node->seen, w->letter))
            return scan_fail(scan, "a second %s=", w->word);
        node->seen[strlen(node->seen)] = w->letter;
        TRY(scan_expect(scan, "="));
        TRY(node_attribute(parser, node, w->letter));
    }
    return node_check_attributes(scan, node);
}

static phasor_status node_operands(struct parser *parser)
{
    struct scan *scan = &parser->scan;
    value operand;
    parser->operands.count = 0;
    if (!scan_take(scan, "(") || scan_take(scan, ")"))
        return PHASOR_OK;
    do {
        TRY(parse_value(parser, &operand));
        if (!array_push(&parser->operands, operand))
            return fail_memory();
    } while (scan_take(scan, ","));
    return scan_take(scan, ")") ? PHASOR_OK : scan_expected(scan, "',' or ')'");
}

static phasor_status node_operator(struct parser *parser, struct written_node *node)
{
    struct scan *scan = &parser->scan;
    TRY(scan_name(scan, "an operator"));
    node->op = op_find(text_get(&scan->word), scan->word.length);
    if (node->op == OP_none)
        return scan_fail(
            scan,
            "no operator '%s'; one that Phasor does not know is written unknown(...) text=\"%s\"",
            text_get(&scan->word), text_get(&scan->word));
    if (node->op == OP_input || node->op == OP_state || node->op == OP_data)
        return scan_fail(scan, "an %s is declared: %s NAME: TYPE", op_info[node->op].name,
                         op_info[node->op].name);
    TRY(node_operands(parser));
    if (parser->operands.count == 0 && op_info[node->op].kind != KIND_LEAF &&
        node->op != OP_unknown)
        return scan_fail(scan, "%s needs operands", op_info[node->op].name);
    return PHASOR_OK;
}

/* ": TYPE", which only some operators need. */
static phasor_status node_type(struct parser *parser, struct written_node *node)
{
    struct scan *scan = &parser->scan;
    node->type.dtype = DT_i64;
    node->typed = scan_take(scan, ":");
    if (node->typed)
        return scan_type(scan, &node->type);
    if (op_info[node->op].type == TYPE_CAST || node->op == OP_scalar || node->op == OP_unknown)
        return scan_fail(scan, "%s needs its type: `: f32[]`", op_info[node->op].name);
    return PHASOR_OK;
}

static bool dtype_holds(enum dtype dtype, struct number number)
{
    char bytes[16];
    return element_store(dtype, number, bytes);
}

/* The number, as one of the dtype in which the operator computes. */
static phasor_status node_read_number(struct parser *parser, struct written_node *node)
{
    struct scan *scan = &parser->scan;
    const char *after = scan->at;
    const enum dtype dtype = parser->operands.count
                                 ? graph_node(parser->graph, parser->operands.at[0])->dtype
                                 : node->type.dtype;
    const enum dtype compute = dtype_info[dtype].compute;
    char bytes[16];
    if (!node->number_at)
        return PHASOR_OK;
    if (dtype_info[compute].kind == DTC_NAMED)
        return scan_fail(scan, "%s has no numbers", dtype_text(dtype));
    scan->at = node->number_at;
    TRY(scan_number(scan, compute, &node->attributes.number));
    if (!dtype_holds(compute, node->attributes.number))
        return scan_fail(scan, "the value does not fit in %s", dtype_text(compute));
    element_store(compute, node->attributes.number, bytes);
    node->attributes.number = element_load(compute, bytes);
    scan->at = after;
    return PHASOR_OK;
}

/* The type that was written is the one that was inferred. */
static phasor_status node_check_type(struct parser *parser, const struct written_node *node,
                                     value v)
{
    const struct node *n = graph_node(parser->graph, v);
    if (!node->typed ||
        (n->dtype == node->type.dtype && n->rank == node->type.rank &&
         memcmp(n->shape, node->type.shape, (size_t)n->rank * sizeof *n->shape) == 0))
        return PHASOR_OK;
    struct text given = {0}, inferred = {0};
    infer_print_type(parser->graph, node->type.dtype, node->type.shape, node->type.rank, &given);
    infer_print_type(parser->graph, n->dtype, n->shape, n->rank, &inferred);
    const phasor_status status =
        scan_fail(&parser->scan, "%s is given as %s, its operands make it %s", n->name,
                  text_get(&given), text_get(&inferred));
    text_free(&given);
    text_free(&inferred);
    return status;
}

/* After "NAME =". */
static phasor_status parse_node(struct parser *parser, const char *name)
{
    struct written_node node = {.name = name};
    value v;
    TRY(node_operator(parser, &node));
    TRY(node_attributes(parser, &node));
    TRY(node_type(parser, &node));
    TRY(parse_origin(parser, name, &node.origin));
    TRY(node_read_number(parser, &node));
    parser->graph->origin = node.origin;
    const phasor_status status =
        parse_add(parser, node.op, node.type.dtype, &node.attributes, name, &v);
    parser->graph->origin = NULL;
    TRY(status);
    return node_check_type(parser, &node, v);
}

/* -- lines ------------------------------------------------------------------------------------- */

/* The first statement: phasor 1 "NAME" */
static phasor_status parse_start(struct parser *parser)
{
    struct scan *scan = &parser->scan;
    int64_t version;
    if (!scan_take_word(scan, "phasor"))
        return scan_expected(scan, "phasor 1 \"NAME\" as the first line");
    TRY(scan_integer(scan, 1, 1, "the version of the text", &version));
    if (!scan_at_end(scan)) {
        TRY(scan_name(scan, "the program's name"));
        parser->graph->name = parse_word(parser);
        if (!parser->graph->name)
            return fail_memory();
    }
    parser->started = true;
    return scan_end(scan);
}

struct statement {
    const char *word;
    phasor_status (*parse)(struct parser *parser);
    bool later;
};
static const struct statement statements[] = {
    {"symbol", parse_symbol, false}, {"input", parse_input, false}, {"state", parse_state, false},
    {"data", parse_data, false},     {"check", parse_check, false}, {"output", parse_output, true},
    {"write", parse_write, true},
};

static phasor_status parse_statement(struct parser *parser, bool later)
{
    struct scan *scan = &parser->scan;
    if (scan_at_end(scan))
        return PHASOR_OK;
    if (!parser->started)
        return parse_start(parser);
    const bool quoted = *scan->at == '"';
    TRY(scan_name(scan, "a statement or NAME = OPERATOR(...)"));
    if (scan_take(scan, "=")) {
        const char *name = parse_word(parser);
        return name ? parse_node(parser, name) : fail_memory();
    }
    for (size_t i = 0; i < sizeof statements / sizeof statements[0] && !quoted; i++) {
        if (strcmp(text_get(&scan->word), statements[i].word) != 0)
            continue;
        parser->operands.count = 0;
        if (statements[i].later == later)
            return statements[i].parse(parser);
        const struct parse_later line = {parser->source, scan->line};
        return array_push(&parser->later, line) ? PHASOR_OK : fail_memory();
    }
    return scan_expected(
        scan, "'=' after a name (statements are symbol, input, output, state, data, check, write)");
}

/* later: only what names values that may stand after it. */
static phasor_status parse_line(struct parser *parser, const char *source, int line, bool later)
{
    size_t length = strcspn(source, "\n");
    parser->source = source;
    parser->scan.line = line;
    if (length > LINE_MAX_BYTES)
        return scan_fail(&parser->scan, "the line has more than %d bytes", LINE_MAX_BYTES);
    length -= length && source[length - 1] == '\r';
    parser->line.length = 0;
    text_add_bytes(&parser->line, source, length);
    TRY(text_status(&parser->line));
    parser->scan.at = text_get(&parser->line);
    return parse_statement(parser, later);
}

static phasor_status parse_lines(struct parser *parser, const char *text)
{
    const char *end = graph_block_first(text);
    int line = 1;
    while (text < end) {
        TRY(parse_line(parser, text, line++, false));
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    if (!parser->started)
        return scan_expected(&parser->scan, "phasor 1 \"NAME\" as the first line");
    for (size_t i = 0; i < parser->later.count; i++)
        TRY(parse_line(parser, parser->later.at[i].text, parser->later.at[i].line, true));
    return graph_status(parser->graph);
}

phasor_status graph_parse(struct graph *graph, const char *text, const char *path,
                          graph_find_data *find, void *context)
{
    struct parser parser = {.graph = graph,
                            .find = find,
                            .context = context,
                            .scan = {.at = "", .path = path, .line = 1, .sizes = graph->sizes}};
    fenv_t host;
    arithmetic_enter(&host);
    phasor_status status = names_grow(&parser);
    if (status == PHASOR_OK)
        status = parse_lines(&parser, text);
    arithmetic_leave(&host);
    text_free(&parser.scan.word);
    text_free(&parser.line);
    array_free(&parser.operands);
    array_free(&parser.later);
    memory_free(parser.names);
    /* A size that does not work out is a matter of the call elsewhere; here it stands in the file.
     * */
    return status == PHASOR_ERROR_INPUT ? PHASOR_ERROR_FILE : status;
}
