/* in_place.c - which outputs may be written over which inputs.
 *
 *     y = x * 2 + 1, y with the strides of x          allowed: a thread reads the elements it
 *                                                     writes
 *     y = flip(x), or z = sum(x) as well as y         not: others still want what was there
 *
 * The kernel that stores the output must be the only one that reads the input from then on: those
 * of its own launch run beside it. It stores nothing else, and every way from what it stores down
 * to the input keeps elements where they are. A value that an earlier launch has stored ends a way.
 * What is not sure is not allowed.
 */
#include "executable/recipe.h"

#include <string.h>

struct ways {
    const struct plan *plan;
    int *launch_of;     /* value -> the first launch that stores it; -1: none */
    signed char *known; /* per value, for one kernel and input */
    value store, input;
    int launch;
};

enum { UNKNOWN, ABSENT, SAME, MOVED }; /* how the input is read below a value */

static bool keeps_elements(const struct node *n)
{
    return n->op == OP_cast || n->op == OP_clone || n->op == OP_contiguous ||
           op_info[n->op].kind == KIND_MAP;
}

static int ways_below(struct ways *w, value v)
{
    const struct graph *graph = &w->plan->graph;
    const struct node *n = graph_node(graph, v);
    const bool same_shape = graph_same_shape(graph, v, w->store);
    if (v == w->input)
        return same_shape ? SAME : MOVED;
    if (v != w->store && w->launch_of[v] >= 0 && w->launch_of[v] < w->launch)
        return ABSENT;
    if (w->known[v] != UNKNOWN)
        return w->known[v];
    int found = ABSENT;
    for (int i = 0; i < n->argument_count; i++) {
        const int below = ways_below(w, n->arguments[i]);
        found = below > found ? below : found;
    }
    if (found == SAME && !(same_shape && keeps_elements(n)))
        found = MOVED;
    w->known[v] = (signed char)found;
    return found;
}

static int ways_of_store(struct ways *w, const struct kernel *kernel, int s, value input)
{
    *w = (struct ways){w->plan, w->launch_of,  w->known, kernel->stores[s].node,
                       input,   kernel->launch};
    if (kernel->stores[s].copy)
        return w->store == input ? SAME : ABSENT;
    memset(w->known, UNKNOWN, w->plan->graph.nodes.count);
    return ways_below(w, w->store);
}

static bool stores_only(const struct kernel *kernel, int buffer)
{
    return kernel->kind == KERNEL_MAP && kernel->store_count == 1 &&
           kernel->stores[0].buffer == buffer;
}

static const struct kernel *kernel_of_slot(const struct plan *plan, int buffer)
{
    for (size_t k = 0; k < plan->kernels.count; k++)
        if (stores_only(&plan->kernels.at[k], buffer))
            return &plan->kernels.at[k];
    return NULL;
}

static bool same_addresses(const struct call_tensor *a, const struct call_tensor *b)
{
    for (int d = 0; d < a->rank && a->rank == b->rank; d++)
        if (a->sizes[d] != b->sizes[d] || (a->sizes[d] > 1 && a->strides[d] != b->strides[d]))
            return false;
    return a->rank == b->rank;
}

static bool pair_is_safe(struct ways *w, const struct call_shape *call, int slot_buffer,
                         int input_buffer)
{
    const struct plan *plan = w->plan;
    const struct buffer *slot = &plan->buffers.at[slot_buffer];
    const struct buffer *input = &plan->buffers.at[input_buffer];
    const struct kernel *writer = kernel_of_slot(plan, slot_buffer);
    if (!writer || dtype_size(slot->dtype) != dtype_size(input->dtype) ||
        !same_addresses(&call->outputs[slot->index], &call->inputs[input->index]))
        return false;
    for (size_t k = 0; k < plan->kernels.count; k++) {
        const struct kernel *kernel = &plan->kernels.at[k];
        for (int s = 0; s < kernel->store_count && kernel->launch >= writer->launch; s++) {
            const int found = ways_of_store(w, kernel, s, input->node);
            if (found == MOVED || (found == SAME && kernel != writer))
                return false;
        }
    }
    return true;
}

static phasor_status pairs_find(struct recipe *recipe, struct ways *w,
                                const struct call_shape *call)
{
    const struct plan *plan = w->plan;
    const size_t most = (size_t)call->output_count * (size_t)call->input_count;
    recipe->in_place = NEW(&recipe->arena, struct recipe_pair, most);
    if (!recipe->in_place)
        return fail_memory();
    for (size_t s = 0; s < plan->buffers.count; s++)
        for (size_t i = 0; i < plan->buffers.count; i++) {
            const struct buffer *slot = &plan->buffers.at[s], *input = &plan->buffers.at[i];
            if (slot->kind == BUFFER_SLOT && input->kind == BUFFER_INPUT &&
                graph_node(&plan->graph, input->node)->op == OP_input &&
                (size_t)recipe->in_place_count < most && pair_is_safe(w, call, (int)s, (int)i))
                recipe->in_place[recipe->in_place_count++] =
                    (struct recipe_pair){slot->index, input->index};
        }
    return PHASOR_OK;
}

phasor_status recipe_find_in_place(struct recipe *recipe, const struct plan *plan,
                                   const struct call_shape *call)
{
    const size_t count = plan->graph.nodes.count;
    struct arena arena = {0};
    struct ways ways = {.plan = plan,
                        .launch_of = NEW(&arena, int, count),
                        .known = NEW(&arena, signed char, count)};
    phasor_status status = ways.launch_of && ways.known ? PHASOR_OK : fail_memory();
    if (status == PHASOR_OK) {
        memset(ways.launch_of, -1, count * sizeof *ways.launch_of);
        for (size_t k = plan->kernels.count; k-- > 0;)
            for (int s = 0; s < plan->kernels.at[k].store_count; s++)
                ways.launch_of[plan->kernels.at[k].stores[s].node] = plan->kernels.at[k].launch;
        status = pairs_find(recipe, &ways, call);
    }
    arena_free(&arena);
    return status;
}
