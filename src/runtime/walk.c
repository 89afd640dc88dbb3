/* walk.c - see walk.h. Values have smaller numbers than their readers, so one pass downwards visits all. */
#include "runtime/walk.h"

static void mark_operands(const struct plan *plan, value from, bool *marked)
{
    for (value v = from; v > 0; v--) {
        const struct node *n = graph_node(&plan->graph, v);
        for (int i = 0; marked[v] && i < n->argument_count; i++) {
            const value a = n->arguments[i];
            marked[a] |= plan->buffer_of[a] < 0;
        }
    }
}

void walk_mark(const struct plan *plan, const struct kernel *kernel, bool *marked)
{
    value highest = 0;
    for (int s = 0; s < kernel->store_count; s++) {
        marked[kernel->stores[s].node] = true;
        highest = kernel->stores[s].node > highest ? kernel->stores[s].node : highest;
    }
    mark_operands(plan, highest, marked);
}

bool walk_reaches(const struct plan *plan, value v, value leaf)
{
    bool *marked = memory_new(plan->graph.nodes.count * sizeof *marked);
    bool reaches = !marked;
    if (marked)
        marked[v] = true;
    for (value at = v; !reaches && at > 0; at--) {
        const struct node *n = graph_node(&plan->graph, at);
        for (int i = 0; marked[at] && i < n->argument_count; i++) {
            reaches |= n->arguments[i] == leaf;
            marked[n->arguments[i]] |= plan->buffer_of[n->arguments[i]] < 0;
        }
    }
    memory_free(marked);
    return reaches;
}
