/* print.c - a graph as .phasor text, which parse.c reads back to the same graph.
 *
 *     phasor 1 "attention"
 *     symbol s25 in 1..512 = 33    # q.1             range, example; where it binds
 *     input q: f32[2, s25, 64]
 *     input start: int s5                            an integer that is a size
 *     input scale: int = 3                           only this value is taken
 *     output out: f32[2, s25, 64] = mul.1            `= VALUE` where the value has another name
 *     state cache: f32[2] @ k_cache = [0, -0]        a buffer that the program changes
 *     data freqs: c64[512, 64] @ model.freqs         over DATA_INLINE elements: in a file beside it
 *     check le(s25, s5) "too long"                   must not be 0
 *
 *     slice = slice(freqs) axis=0 start=0 length=s25 step=1 : c64[s25, 64]
 *     mul.1 = mul(q, two) : f32[2, s25, 64]    #: aten.mul_.Tensor of mul_ implied @ rope.py:29
 *     write cache = index_put
 *
 * 1. All of the header stands first, so that two stages of one program can be compared at a glance.
 * 2. Attributes are printed by the letters of the operator's row; nothing here knows an operator,
 *    leaves aside.
 * 3. The comment `#: TARGET [of NODE] [in BRANCH] [implied] [@ LINE]` is the node's origin and is
 *    read back; `of` stands where the file's node has another name. Other comments are for people.
 * 4. A name that differs from the node's follows as `as NODE` (inputs, states) or `@ DATA` (the
 * name
 *    of the constant).
 * 5. Printing what was parsed gives the same bytes: nothing here depends on how values or sizes are
 *    numbered. */
#include "graph/print.h"

#include "base/number.h"
#include "graph/element.h"
#include "graph/infer.h"

#include <inttypes.h>
#include <string.h>

const struct attribute_word attribute_words[] = {
    {'S', "sizes"}, {'A', "axes"}, {'a', "axis"},  {'s', "start"}, {'l', "length"}, {'p', "step"},
    {'v', "value"}, {'f', "flag"}, {'i', "index"}, {'t', "text"},  {0, NULL},
};

struct printer {
    const struct graph *graph;
    struct text *out;
};

/* -- words ------------------------------------------------------------------------------------- */

bool print_is_plain(const char *word)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.0123456789";
    return *word && !strchr("0123456789.", *word) && word[strspn(word, letters)] == '\0';
}

void print_quoted(const char *string, struct text *out)
{
    text_add(out, "\"");
    for (const char *s = string; *s; s++) {
        if (*s == '"' || *s == '\\')
            text_format(out, "\\%c", *s);
        else if (*s == '\n')
            text_add(out, "\\n");
        else if ((unsigned char)*s < 0x20 || *s == 0x7f)
            text_format(out, "\\x%02x", (unsigned)(unsigned char)*s);
        else
            text_add_bytes(out, s, 1);
    }
    text_add(out, "\"");
}

void print_word(const char *word, struct text *out)
{
    if (print_is_plain(word))
        text_add(out, word);
    else
        print_quoted(word, out);
}

static const char *node_name(const struct printer *p, value v)
{
    const char *name = v && v < p->graph->nodes.count ? p->graph->nodes.at[v].name : NULL;
    return name ? name : "";
}

static void print_type(const struct printer *p, value v)
{
    const struct node *n = graph_node(p->graph, v);
    infer_print_type(p->graph, n->dtype, n->shape, n->rank, p->out);
}

/* Text that runs to the end of its line, quoted only when it must be. */
static void print_rest(const char *rest, struct text *out)
{
    bool plain = *rest && *rest != '"' && *rest != ' ' && rest[strlen(rest) - 1] != ' ';
    for (const char *s = rest; *s; s++)
        plain = plain && (unsigned char)*s >= 0x20 && *s != 0x7f;
    if (plain)
        text_add(out, rest);
    else
        print_quoted(rest, out);
}

static void print_origin(const struct printer *p, const struct origin *origin, const char *node)
{
    if (!origin)
        return;
    text_add(p->out, "    #: ");
    print_word(origin->target ? origin->target : "", p->out);
    if (origin->node && strcmp(origin->node, node) != 0) {
        text_add(p->out, " of ");
        print_word(origin->node, p->out);
    }
    if (origin->branch) {
        text_add(p->out, " in ");
        print_word(origin->branch, p->out);
    }
    text_add(p->out, origin->implied ? " implied" : "");
    if (origin->line) {
        text_add(p->out, " @ ");
        print_rest(origin->line, p->out);
    }
}

/* -- the header -------------------------------------------------------------------------------- */

static void print_bound(const struct printer *p, int *found, const char *name, int axis, dim size)
{
    text_add(p->out, (*found)++ ? ", " : "    # ");
    print_word(name, p->out);
    if (axis >= 0)
        text_format(p->out, ".%d", axis);
    if (p->graph->sizes->nodes.at[size].kind == SIZE_SYMBOL)
        return;
    text_add(p->out, " = ");
    size_print(p->graph->sizes, size, p->out);
}

/* "    # q.1, k.1": the inputs that give the symbol its value; "    # x.0 = 2*s25" where none is the
 * symbol itself */
static void print_bindings(const struct printer *p, int symbol)
{
    const struct sizes *sizes = p->graph->sizes;
    int found = 0;
    for (int derived = 0; derived < 2 && !found; derived++)
        for (size_t i = 0; i < p->graph->inputs.count; i++) {
            const struct graph_input *input = &p->graph->inputs.at[i];
            const struct node *n = graph_node(p->graph, input->node);
            const bool is_integer = input->kind == PHASOR_INT && !input->constant;
            const int rank = input->kind == PHASOR_TENSOR ? n->rank : is_integer;
            for (int d = 0; d < rank; d++) {
                const dim size = is_integer ? input->size : n->shape[d];
                if (derived ? size_has_symbol(sizes, size, symbol)
                            : size == sizes->symbols.at[symbol].size)
                    print_bound(p, &found, input->name, is_integer ? -1 : d, size);
            }
        }
}

static void print_symbol(const struct printer *p, const struct size_symbol *symbol)
{
    text_add(p->out, "symbol ");
    size_print(p->graph->sizes, symbol->size, p->out);
    if (symbol->low != INT64_MIN || symbol->high != INT64_MAX) {
        text_add(p->out, " in ");
        if (symbol->low != INT64_MIN)
            text_format(p->out, "%" PRId64, symbol->low);
        text_add(p->out, "..");
        if (symbol->high != INT64_MAX)
            text_format(p->out, "%" PRId64, symbol->high);
    }
    text_format(p->out, " = %" PRId64, symbol->value);
    print_bindings(p, p->graph->sizes->nodes.at[symbol->size].symbol);
    text_add(p->out, "\n");
}

static const char *kind_text(phasor_kind kind)
{
    static const char *const names[] = {
        [PHASOR_NONE] = "none",    [PHASOR_TENSOR] = "tensor", [PHASOR_OWNED] = "tensor",
        [PHASOR_INT] = "int",      [PHASOR_FLOAT] = "float",   [PHASOR_BOOL] = "bool",
        [PHASOR_STRING] = "string"};
    return names[kind];
}

static void print_constant(const struct printer *p, const phasor_value *expected)
{
    if (expected->kind == PHASOR_NONE)
        return;
    text_add(p->out, " = ");
    switch (expected->kind) {
    case PHASOR_INT: text_format(p->out, "%" PRId64, expected->integer); break;
    case PHASOR_FLOAT: element_print(DT_f64, (struct number){.re = expected->real}, p->out); break;
    case PHASOR_BOOL: text_add(p->out, expected->boolean ? "true" : "false"); break;
    case PHASOR_STRING: print_quoted(expected->string ? expected->string : "", p->out); break;
    default: break;
    }
}

/* What inputs and outputs have in common: "NAME: TYPE", "NAME: int s5", "NAME: float = 2.5". */
static void print_slot(const struct printer *p, const char *word, const char *name,
                       phasor_kind kind, value node, dim size)
{
    text_format(p->out, "%s ", word);
    print_word(name ? name : "", p->out);
    text_add(p->out, ": ");
    if (kind == PHASOR_TENSOR && node)
        print_type(p, node);
    else
        text_add(p->out, kind_text(kind));
    if (kind == PHASOR_INT && size != UINT32_MAX) {
        text_add(p->out, " ");
        size_print(p->graph->sizes, size, p->out);
    }
}

/* " as NODE" or " = NODE" where the node is not called `name`. */
static void print_other_name(const struct printer *p, const char *mark, value node,
                             const char *name)
{
    if (!node || (name && strcmp(node_name(p, node), name) == 0))
        return;
    text_format(p->out, " %s ", mark);
    print_word(node_name(p, node), p->out);
}

static void print_input(const struct printer *p, const struct graph_input *input)
{
    print_slot(p, "input", input->name, input->kind, input->node,
               input->constant ? UINT32_MAX : input->size);
    if (input->constant)
        print_constant(p, &input->expected);
    else
        print_other_name(p, "as", input->node, input->name);
    text_add(p->out, "\n");
}

static void print_output(const struct printer *p, const struct graph_output *output)
{
    print_slot(p, "output", output->name, output->kind, output->node,
               output->constant ? UINT32_MAX : output->size);
    if (output->constant)
        print_constant(p, &output->expected);
    else if (output->kind == PHASOR_TENSOR)
        print_other_name(p, "=", output->node, output->name);
    else if (output->node) {
        text_add(p->out, " ");
        print_word(node_name(p, output->node), p->out);
    }
    text_add(p->out, "\n");
}

/* " @ NAME", " = [1, 2+3j]" or both. */
static void print_data(const struct printer *p, const struct data *data, const char *name)
{
    const bool here = data_is_inline(data);
    if (!here || (data->name && strcmp(data->name, name) != 0)) {
        text_add(p->out, " @ ");
        print_word(data->name ? data->name : "", p->out);
    }
    if (here) {
        text_add(p->out, " = [");
        for (int64_t k = 0; k < data_count(data); k++) {
            text_add(p->out, k ? ", " : "");
            element_print(data->dtype, element_load(data->dtype, data_element(data, k)), p->out);
        }
        text_add(p->out, "]");
    }
    text_add(p->out, "\n");
}

static void print_state(const struct printer *p, const struct graph_buffer *buffer)
{
    const char *name = buffer->name ? buffer->name : "";
    text_add(p->out, "state ");
    print_word(name, p->out);
    text_add(p->out, ": ");
    print_type(p, buffer->node);
    print_other_name(p, "as", buffer->node, name);
    print_data(p, buffer->initial, name);
}

static void print_data_node(const struct printer *p, value v)
{
    text_add(p->out, "data ");
    print_word(node_name(p, v), p->out);
    text_add(p->out, ": ");
    print_type(p, v);
    print_data(p, graph_node(p->graph, v)->attributes.data, node_name(p, v));
}

static void print_check(const struct printer *p, const struct graph_check *check)
{
    text_add(p->out, "check ");
    size_print(p->graph->sizes, check->condition, p->out);
    if (check->message) {
        text_add(p->out, " ");
        print_quoted(check->message, p->out);
    }
    text_add(p->out, "\n");
}

static void print_header(const struct printer *p)
{
    const struct graph *g = p->graph;
    text_add(p->out, "phasor 1 ");
    print_quoted(g->name, p->out);
    text_add(p->out, "\n");
    for (size_t i = 0; i < g->sizes->symbols.count; i++)
        print_symbol(p, &g->sizes->symbols.at[i]);
    for (size_t i = 0; i < g->inputs.count; i++)
        print_input(p, &g->inputs.at[i]);
    for (size_t i = 0; i < g->outputs.count; i++)
        print_output(p, &g->outputs.at[i]);
    for (size_t i = 0; i < g->buffers.count; i++)
        print_state(p, &g->buffers.at[i]);
    for (size_t v = 1; v < g->nodes.count; v++)
        if (g->nodes.at[v].op == OP_data)
            print_data_node(p, (value)v);
    for (size_t i = 0; i < g->checks.count; i++)
        print_check(p, &g->checks.at[i]);
}

/* -- nodes ------------------------------------------------------------------------------------- */

static void print_sizes(const struct printer *p, const struct attributes *at)
{
    text_add(p->out, "[");
    for (int i = 0; i < at->size_count; i++) {
        text_add(p->out, i ? ", " : "");
        size_print(p->graph->sizes, at->sizes[i], p->out);
    }
    text_add(p->out, "]");
}

static void print_axes(const struct printer *p, const struct attributes *at)
{
    text_add(p->out, "[");
    for (int i = 0; i < at->axis_count; i++)
        text_format(p->out, "%s%d", i ? ", " : "", at->axes[i]);
    text_add(p->out, "]");
}

static void print_attribute(const struct printer *p, const struct node *n, char letter)
{
    const struct attributes *at = &n->attributes;
    switch (letter) {
    case 'S': print_sizes(p, at); break;
    case 'A': print_axes(p, at); break;
    case 'a': text_format(p->out, "%d", at->axis); break;
    case 's': size_print(p->graph->sizes, at->start, p->out); break;
    case 'l': size_print(p->graph->sizes, at->length, p->out); break;
    case 'p': text_format(p->out, "%" PRId64, at->step); break;
    case 'v': element_print(dtype_info[n->dtype].compute, at->number, p->out); break;
    case 'f': text_format(p->out, "%d", at->flag); break;
    case 'i': text_format(p->out, "%d", at->index); break;
    case 't': print_quoted(at->text ? at->text : "", p->out); break;
    default: break;
    }
}

static void print_node(const struct printer *p, value v)
{
    const struct node *n = graph_node(p->graph, v);
    print_word(node_name(p, v), p->out);
    text_format(p->out, " = %s", op_info[n->op].name);
    for (int i = 0; i < n->argument_count; i++) {
        text_add(p->out, i ? ", " : "(");
        print_word(node_name(p, n->arguments[i]), p->out);
    }
    text_add(p->out, n->argument_count ? ")" : "");
    for (const char *letter = op_info[n->op].attributes; *letter; letter++)
        for (const struct attribute_word *w = attribute_words; w->letter; w++)
            if (w->letter == *letter) {
                text_format(p->out, " %s=", w->word);
                print_attribute(p, n, *letter);
            }
    text_add(p->out, " : ");
    print_type(p, v);
    if (op_info[n->op].kind != KIND_LEAF)
        print_origin(p, n->origin, node_name(p, v));
    text_add(p->out, "\n");
}

static void print_write(const struct printer *p, value leaf, value written,
                        const struct origin *writer)
{
    if (!written)
        return;
    text_add(p->out, "write ");
    print_word(node_name(p, leaf), p->out);
    text_add(p->out, " = ");
    print_word(node_name(p, written), p->out);
    print_origin(p, writer, node_name(p, written));
    text_add(p->out, "\n");
}

void graph_print(const struct graph *graph, struct text *out)
{
    const struct printer p = {graph, out};
    fenv_t host;
    arithmetic_enter(&host);
    print_header(&p);
    text_add(out, "\n");
    for (size_t v = 1; v < graph->nodes.count; v++) {
        const enum op op = graph->nodes.at[v].op;
        if (op != OP_input && op != OP_state && op != OP_data)
            print_node(&p, (value)v);
    }
    for (size_t i = 0; i < graph->buffers.count; i++)
        print_write(&p, graph->buffers.at[i].node, graph->buffers.at[i].written,
                    graph->buffers.at[i].writer);
    for (size_t i = 0; i < graph->inputs.count; i++)
        print_write(&p, graph->inputs.at[i].node, graph->inputs.at[i].written,
                    graph->inputs.at[i].writer);
    arithmetic_leave(&host);
}
