/* sharing.c - whether reshape and contiguous show the memory of their operand or copy it, and
 * whether that matters.
 *
 *     k = y.contiguous()     a fork: k is a view of y where y's strides in the example are row-major
 *     k.mul_(2)              k's side of the fork has been written
 *     return y               y's side is read: what it is depends on the fork. It becomes a claim of
 *                            the graph, which is checked for the sizes and strides of each call
 *
 * A side is a tensor with its views up to the next fork. The sides that forks connect are a family;
 * a read on one side after a write on another makes all forks of the family claims, for what is
 * written reaches the reader over any of them. */
#include "load/loader.h"

#include <string.h>

static struct loader_tensor *tensor_at(const struct loader *loader, tensor t)
{
    return &loader->tensors.at[t];
}

static tensor side_of(const struct loader *loader, tensor t)
{
    while (tensor_at(loader, t)->base && !tensor_at(loader, t)->forked)
        t = tensor_at(loader, t)->base;
    return t;
}

static tensor family_of(const struct loader *loader, tensor side)
{
    while (tensor_at(loader, side)->family)
        side = tensor_at(loader, side)->family;
    return side;
}

/* -- layouts of the example -------------------------------------------------------------------- */

/* It moves when the layout of a later node is asked for. */
static struct layout *layout_at(struct loader *loader, value v)
{
    loader->call.inputs = loader->example.at;
    loader->call.input_count = (int)loader->example.count;
    loader->layouts.graph = loader->graph;
    loader->layouts.call = &loader->call;
    struct layout *layout =
        loader->graph->status == PHASOR_OK ? layout_of(&loader->layouts, v) : NULL;
    if (!layout && loader->graph->status == PHASOR_OK)
        graph_fail(loader->graph, fail_memory(), "out of memory");
    return layout;
}

bool loader_layout(struct loader *loader, value v, struct layout *out)
{
    const struct layout *layout = layout_at(loader, v);
    *out = layout ? *layout : (struct layout){0};
    return layout != NULL;
}

void loader_layout_as(struct loader *loader, value earlier, value v)
{
    struct layout copy;
    const bool known = loader_layout(loader, earlier, &copy);
    struct layout *layout = known ? layout_at(loader, v) : NULL;
    if (layout)
        *layout = copy;
}

phasor_status loader_example(struct loader *loader, int slot, const struct node *input,
                             const dim *strides)
{
    struct call_tensor shape = {.rank = input->rank};
    int64_t stride = 1;
    for (int d = input->rank - 1; d >= 0; d--) {
        shape.sizes[d] = size_value(loader->graph->sizes, input->shape[d]);
        shape.strides[d] = strides ? size_value(loader->graph->sizes, strides[d]) : stride;
        stride *= shape.sizes[d] > 1 ? shape.sizes[d] : 1;
    }
    while (loader->example.count < (size_t)slot)
        if (!array_push(&loader->example, (struct call_tensor){.rank = -1}))
            return fail_memory();
    return array_push(&loader->example, shape) ? PHASOR_OK : fail_memory();
}

/* Whether a value has these strides in its dims of more than one place. */
static bool has_strides(struct loader *loader, value v, const dim *strides)
{
    struct layout layout;
    const int rank = loader_layout(loader, v, &layout) ? graph_node(loader->graph, v)->rank : 0;
    bool equal = true, empty = false;
    for (int d = 0; d < rank; d++) {
        const int64_t size = graph_dim(loader->graph, v, d);
        empty |= size == 0;
        equal &= size == 1 || layout.strides[d] == size_value(loader->graph->sizes, strides[d]);
    }
    return equal || empty;
}

/* What is written into memory keeps its strides. A value that would have others is put into the old
 * one, all of which it replaces. */
value written_as(struct loader *loader, value old, value v)
{
    struct layout before, after;
    const bool known = loader_layout(loader, old, &before) && loader_layout(loader, v, &after);
    const int rank = known ? graph_node(loader->graph, old)->rank : 0;
    bool equal = true, empty = false;
    for (int d = 0; d < rank; d++) {
        const int64_t size = graph_dim(loader->graph, old, d);
        empty |= size == 0;
        equal &= size == 1 || before.strides[d] == after.strides[d];
    }
    return equal || empty ? v
                          : graph_add(loader->graph, OP_insert, DT_bool, (value[]){old, v}, 2,
                                      &(struct attributes){.step = 1}, NULL);
}

/* -- forks ------------------------------------------------------------------------------------- */

tensor tensor_fork(struct loader *loader, tensor base, value v, const dim *strides)
{
    const value x = tensor_get(loader, base);
    struct layout layout;
    if (v == x || !loader_layout(loader, v, &layout))
        return base;
    struct loader_fork fork = {.shared = layout.root != v,
                               .node = v,
                               .from = side_of(loader, base),
                               .time = loader->clock,
                               .origin = loader->graph->origin};
    const dim *known = tensor_at(loader, base)->strides;
    fork.doubtful =
        (known && !has_strides(loader, x, known)) || (strides && !has_strides(loader, v, strides));
    const tensor t = fork.shared ? tensor_view(loader, base, v) : tensor_new(loader, v);
    if (loader->graph->status != PHASOR_OK)
        return t;
    fork.to = t;
    tensor_at(loader, t)->forked = fork.shared;
    tensor_at(loader, t)->family = family_of(loader, fork.from);
    if (!array_push(&loader->forks, fork))
        return (tensor)graph_fail(loader->graph, fail_memory(), "out of memory");
    return t;
}

static bool side_changed(const struct loader *loader, const struct loader_fork *fork, tensor reader)
{
    return (fork->from != reader && tensor_at(loader, fork->from)->changed > fork->time) ||
           (fork->to != reader && tensor_at(loader, fork->to)->changed > fork->time);
}

void forks_read(struct loader *loader, tensor t)
{
    if (loader->clock == 0 || loader->forks.count == 0)
        return;
    const tensor side = side_of(loader, t), family = family_of(loader, side);
    bool matters = false;
    for (size_t i = 0; i < loader->forks.count && !matters; i++)
        matters = family_of(loader, loader->forks.at[i].from) == family &&
                  side_changed(loader, &loader->forks.at[i], side);
    for (size_t i = 0; i < loader->forks.count && matters; i++)
        if (family_of(loader, loader->forks.at[i].from) == family)
            loader->forks.at[i].matters = true;
}

void forks_written(struct loader *loader, tensor t)
{
    tensor_at(loader, side_of(loader, t))->changed = ++loader->clock;
}

static phasor_status fork_claim(struct loader *loader, const struct loader_fork *fork)
{
    struct graph *graph = loader->graph;
    const struct graph_claim claim = {.kind = fork->shared ? CLAIM_SHARED : CLAIM_COPIED,
                                      .node = fork->node,
                                      .origin = fork->origin};
    static const char *const doubt =
        "whether it copies decides what a write in place changes, and the strides that the file "
        "has are not those that its operators give; call clone or view instead";
    if (fork->doubtful &&
        !array_push(&loader->refusals, (struct loader_refusal){fork->origin, doubt}))
        return fail_memory();
    return array_push(&graph->claims, claim) ? PHASOR_OK : fail_memory();
}

/* Whoever holds inputs and buffers reads them after the call. */
phasor_status forks_finish(struct loader *loader)
{
    for (tensor t = 1; t < loader->tensors.count; t++)
        if (tensor_at(loader, t)->input || tensor_at(loader, t)->buffer ||
            tensor_at(loader, t)->constant)
            forks_read(loader, t);
    for (size_t i = 0; i < loader->forks.count; i++)
        if (loader->forks.at[i].matters)
            TRY(fork_claim(loader, &loader->forks.at[i]));
    return PHASOR_OK;
}

void loader_free(struct loader *loader)
{
    layouts_free(&loader->layouts);
    array_free(&loader->tensors);
    array_free(&loader->refusals);
    array_free(&loader->forks);
    array_free(&loader->example);
}
