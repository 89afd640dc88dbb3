/* canonical.c - a graph as bytes in which nothing stands that makes no difference to a plan.
 *
 *     %7 "mul_3" = mul(%4, %5) : f32[s25, 64]   aten.mul.Tensor, rope.py:29   ->   mul 4 5 f32 [s0
 *                                               64]
 *
 * No names, lines, values of weights: two fine-tunes of one model, or one exported from another
 * folder, share all plans. Symbols are numbered as they are met. Scalars stay: they are literals of
 * the sources.
 */
#include "context/program.h"

#include <inttypes.h>
#include <string.h>

struct printer {
    const struct graph *graph;
    struct text *out;
    int *symbols; /* symbol -> its number here, from 1; 0: not met yet */
    int met;
    ARRAY(uint64_t) storages; /* ids of those that were met */
};

static void print_dim(struct printer *p, dim d)
{
    const struct size_node *n = &p->graph->sizes->nodes.at[d];
    if (n->kind == SIZE_LITERAL) {
        text_format(p->out, " %" PRId64, n->literal);
        return;
    }
    if (n->kind == SIZE_SYMBOL) {
        if (!p->symbols[n->symbol])
            p->symbols[n->symbol] = ++p->met;
        text_format(p->out, " s%d", p->symbols[n->symbol]);
        return;
    }
    text_format(p->out, " (%d", (int)n->kind);
    if (n->kind == SIZE_SUM)
        text_format(p->out, " %" PRId64, n->literal);
    for (int i = 0; i < n->count; i++) {
        if (n->kind == SIZE_SUM)
            text_format(p->out, " %" PRId64 "*", n->terms[i].factor);
        print_dim(p, n->kind == SIZE_SUM ? n->terms[i].term : n->operands[i]);
    }
    text_add(p->out, ")");
}

/* Tensors of one storage share a pointer in the kernels: which do is part of the plan. */
static void print_storage(struct printer *p, const struct storage *storage)
{
    size_t k = 0;
    while (k < p->storages.count && p->storages.at[k] != storage->id)
        k++;
    if (k == p->storages.count && !array_push(&p->storages, storage->id))
        p->out->failed = true;
    text_format(p->out, " in %zu", k);
}

static void print_data(struct printer *p, const struct data *data)
{
    print_storage(p, data->storage);
    text_format(p->out, " data %s %" PRId64, dtype_text(data->dtype), data->offset);
    for (int d = 0; d < data->rank; d++)
        text_format(p->out, " %" PRId64 "/%" PRId64, data->sizes[d], data->strides[d]);
}

static void print_attributes(struct printer *p, const struct attributes *a)
{
    uint64_t re, im; /* bits: text would depend on the locale */
    memcpy(&re, &a->number.re, sizeof re);
    memcpy(&im, &a->number.im, sizeof im);
    text_format(p->out, " %d %d %d %" PRId64 " %" PRId64 " %" PRIx64 " %" PRIx64, a->axis, a->flag,
                a->index, a->step, a->number.i, re, im);
    text_add(p->out, " [");
    for (int i = 0; i < a->axis_count; i++)
        text_format(p->out, " %d", a->axes[i]);
    text_add(p->out, "] [");
    for (int i = 0; i < a->size_count; i++)
        print_dim(p, a->sizes[i]);
    text_add(p->out, "]");
    print_dim(p, a->start);
    print_dim(p, a->length);
    if (a->data)
        print_data(p, a->data);
}

static void print_node(struct printer *p, value v)
{
    const struct node *n = graph_node(p->graph, v);
    text_format(p->out, "%s", op_info[n->op].name);
    for (int i = 0; i < n->argument_count; i++)
        text_format(p->out, " %u", n->arguments[i]);
    text_format(p->out, " %s [", dtype_text(n->dtype));
    for (int d = 0; d < n->rank; d++)
        print_dim(p, n->shape[d]);
    text_add(p->out, "]");
    print_attributes(p, &n->attributes);
    text_add(p->out, "\n");
}

static void print_slots(struct printer *p)
{
    const struct graph *g = p->graph;
    for (size_t i = 0; i < g->inputs.count; i++) {
        text_format(p->out, "in %d %u %u %d", (int)g->inputs.at[i].kind, g->inputs.at[i].node,
                    g->inputs.at[i].written, g->inputs.at[i].constant);
        print_dim(p, g->inputs.at[i].size);
        text_add(p->out, "\n");
    }
    for (size_t i = 0; i < g->buffers.count; i++) {
        text_format(p->out, "state %u %u", g->buffers.at[i].node, g->buffers.at[i].written);
        print_data(p, g->buffers.at[i].initial);
        text_add(p->out, "\n");
    }
    for (size_t i = 0; i < g->outputs.count; i++) {
        text_format(p->out, "out %d %u %d", (int)g->outputs.at[i].kind, g->outputs.at[i].node,
                    g->outputs.at[i].constant);
        print_dim(p, g->outputs.at[i].size);
        text_add(p->out, "\n");
    }
}

phasor_status canonical_print(const struct graph *graph, struct text *out)
{
    struct printer printer = {.graph = graph, .out = out};
    printer.symbols = memory_new(graph->sizes->symbols.count * sizeof *printer.symbols);
    if (!printer.symbols)
        return fail_memory();
    for (value v = 1; v < graph->nodes.count; v++)
        print_node(&printer, v);
    print_slots(&printer);
    memory_free(printer.symbols);
    array_free(&printer.storages);
    return text_status(out);
}
