/* size_print.c - a size as text, in the form that scan_size() reads, and a pool of them as numbers.
 *
 *     "2*s25 + 1", "floordiv(s0 + 1, 2)" */
#include "graph/size.h"

#include "graph/print.h"

#include <inttypes.h>

static void print_sum(const struct sizes *sizes, const struct size_node *n, struct text *out)
{
    for (int i = 0; i < n->count; i++) {
        const int64_t factor = n->terms[i].factor;
        if (i > 0)
            text_add(out, factor < 0 ? " - " : " + ");
        else if (factor < 0)
            text_add(out, "-");
        if (factor != 1 && factor != -1)
            text_format(out, "%" PRIu64 "*", factor < 0 ? -(uint64_t)factor : (uint64_t)factor);
        size_print(sizes, n->terms[i].term, out);
    }
    if (n->literal)
        text_format(out, " %c %" PRIu64, n->literal < 0 ? '-' : '+',
                    n->literal < 0 ? -(uint64_t)n->literal : (uint64_t)n->literal);
}

void size_print(const struct sizes *sizes, dim d, struct text *out)
{
    static const char *const names[] = {[SIZE_FLOORDIV] = "floordiv",
                                        [SIZE_MOD] = "mod",
                                        [SIZE_MINIMUM] = "min",
                                        [SIZE_MAXIMUM] = "max",
                                        [SIZE_EQ] = "eq",
                                        [SIZE_NE] = "ne",
                                        [SIZE_LT] = "lt",
                                        [SIZE_LE] = "le",
                                        [SIZE_AND] = "and",
                                        [SIZE_OR] = "or",
                                        [SIZE_POW] = "pow"};
    const struct size_node *n = &sizes->nodes.at[d];
    switch (n->kind) {
    case SIZE_LITERAL: text_format(out, "%" PRId64, n->literal); break;
    case SIZE_SYMBOL: print_word(sizes->symbols.at[n->symbol].name, out); break;
    case SIZE_SUM: print_sum(sizes, n, out); break;
    case SIZE_PRODUCT:
        for (int i = 0; i < n->count; i++) {
            text_add(out, i ? "*" : "");
            size_print(sizes, n->operands[i], out);
        }
        break;
    default:
        text_format(out, "%s(", names[n->kind]);
        size_print(sizes, n->operands[0], out);
        text_add(out, ", ");
        size_print(sizes, n->operands[1], out);
        text_add(out, ")");
    }
}

static void node_write(const struct size_node *n, struct text *out)
{
    text_add_number(out, n->kind);
    text_add_number(out, n->literal);
    text_add_number(out, n->symbol);
    text_add_number(out, n->count);
    for (int i = 0; i < n->count; i++) {
        text_add_number(out, n->kind == SIZE_SUM ? n->terms[i].term : n->operands[i]);
        text_add_number(out, n->kind == SIZE_SUM ? n->terms[i].factor : 1);
    }
}

void sizes_write(const struct sizes *sizes, size_t first, struct text *out)
{
    text_add_number(out, (int64_t)(sizes->nodes.count - first));
    for (size_t i = first; i < sizes->nodes.count; i++)
        node_write(&sizes->nodes.at[i], out);
}
