/* reads.c - which buffers a kernel reads, and how: the one walk from what it stores down to what is
 * in memory already.
 *
 *     stores y = mul(cast(x), sum(z)), with x and sum(z) in memory
 *         ->   reads x: elementwise with y, sum(z): not (its elements are read for others too)
 *
 * Values have larger numbers than their operands, so that one pass downwards visits all. A value
 * that the kernel stores itself is computed again for its other readers, with all that it needs.
 */
#include "plan/fusion.h"

#include <string.h>

enum way { ABSENT, SAME, MOVED }; /* how the elements of a value are read for a store */

static bool keeps_elements(const struct node *n)
{
    return n->op == OP_cast || n->op == OP_clone || n->op == OP_contiguous ||
           op_info[n->op].kind == KIND_MAP;
}

static bool is_stored_by(const struct kernel *kernel, value v)
{
    for (int s = 0; kernel && s < kernel->store_count; s++)
        if (kernel->stores[s].node == v)
            return true;
    return false;
}

/* Whether the kernel has the value from what an earlier stage left. */
static bool is_in_scratch(const struct kernel *kernel, value v)
{
    return kernel && kernel->kind == KERNEL_REDUCE && kernel->stage == STAGE_LAST &&
           kernel->special == v;
}

/* kernel: the reader, or NULL while it is not known which one it will be. */
static phasor_status store_reads(const struct plan *plan, const struct kernel *kernel,
                                 const struct kernel_store *store, unsigned char *ways,
                                 struct reads *reads)
{
    const struct graph *graph = &plan->graph;
    const bool alone = kernel && kernel->kind == KERNEL_MAP && kernel->store_count == 1;
    memset(ways, ABSENT, (size_t)(store->node + 1) * sizeof *ways);
    ways[store->node] = SAME;
    for (value v = store->node; v > 0; v--) {
        const struct node *n = graph_node(graph, v);
        const bool computed =
            v == store->node ? !store->copy : plan->buffer_of[v] < 0 || is_stored_by(kernel, v);
        if (ways[v] == ABSENT || is_in_scratch(kernel, v))
            continue;
        if (!computed) {
            const struct step_read read = {plan->buffer_of[v], v,
                                           alone && ways[v] == SAME ? store->buffer : -1};
            if (!array_push(reads, read))
                return fail_memory();
            continue;
        }
        for (int i = 0; i < n->argument_count; i++) {
            const value a = n->arguments[i];
            const bool same =
                ways[v] == SAME && keeps_elements(n) && graph_same_shape(graph, a, store->node);
            const enum way way = same ? SAME : MOVED;
            ways[a] = way > ways[a] ? way : ways[a];
        }
    }
    return PHASOR_OK;
}

phasor_status reads_of_value(const struct plan *plan, value v, struct reads *reads)
{
    unsigned char *ways = memory_new((size_t)v + 1);
    if (!ways)
        return fail_memory();
    const phasor_status status =
        store_reads(plan, NULL, &(struct kernel_store){.node = v}, ways, reads);
    memory_free(ways);
    return status;
}

static void merge_equal(struct reads *reads)
{
    size_t count = 0;
    for (size_t i = 0; i < reads->count; i++) {
        size_t at = 0;
        while (at < count && reads->at[at].buffer != reads->at[i].buffer)
            at++;
        if (at == count)
            reads->at[count++] = reads->at[i];
        else
            reads->at[at].elementwise = -1;
    }
    reads->count = count;
}

phasor_status reads_of_kernel(const struct plan *plan, const struct kernel *kernel,
                              struct reads *reads)
{
    unsigned char *ways = memory_new(plan->graph.nodes.count);
    phasor_status status = ways ? PHASOR_OK : fail_memory();
    const struct kernel_store parts = {.node = kernel->special};
    for (int s = 0; s < kernel->store_count && status == PHASOR_OK; s++)
        if (kernel->stage != STAGE_CARRY)
            status = store_reads(plan, kernel,
                                 kernel->stage == STAGE_PARTS ? &parts : &kernel->stores[s], ways,
                                 reads);
    memory_free(ways);
    const struct step_read scratch = {kernel->scratch, kernel->special, -1};
    if (status == PHASOR_OK && (kernel->stage == STAGE_CARRY || kernel->stage == STAGE_LAST) &&
        !array_push(reads, scratch))
        status = fail_memory();
    merge_equal(reads);
    return status;
}
