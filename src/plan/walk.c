/* walk.c - see walk.h. Values have smaller numbers than their readers, so one pass downwards visits
 * all. */
#include "plan/walk.h"

void walk_mark(const struct plan *plan, const struct kernel *kernel, bool *marked)
{
    value highest = 0;
    for (int s = 0; s < kernel->store_count; s++) {
        marked[kernel->stores[s].node] = true;
        if (!kernel->stores[s].copy && kernel->stores[s].node > highest)
            highest = kernel->stores[s].node;
    }
    for (value v = highest; v > 0; v--) {
        const struct node *n = graph_node(&plan->graph, v);
        for (int i = 0; marked[v] && i < n->argument_count; i++)
            marked[n->arguments[i]] |= plan->buffer_of[n->arguments[i]] < 0;
    }
}
