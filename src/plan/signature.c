/* signature.c - all that codegen reads of a plan but the values of its symbols.
 *
 *     rope, lengths 7 and 4096       one signature: the same expressions of s25 everywhere
 *     rope, k without a gap or with  two: a stride is 8*s25*128, or an argument of its own
 *
 * The source of a plan is a function of its signature and of the answers that became guards: where
 * both are the same, the kernels are the same. The pool of sizes stands whole in it, so that equal
 * numbers of expressions mean equal expressions. */
#include "plan/plan.h"

static void put_many(struct text *out, const void *bytes, size_t nbytes)
{
    if (nbytes)
        text_add_bytes(out, bytes, nbytes);
}

/* Attributes follow from the program and the pool. */
static void put_nodes(const struct graph *graph, struct text *out)
{
    for (value v = 1; v < graph->nodes.count; v++) {
        const struct node *n = graph_node(graph, v);
        text_add_number(out, n->rank);
        put_many(out, n->shape, (size_t)n->rank * sizeof *n->shape);
    }
}

static void put_buffer(const struct buffer *b, struct text *out)
{
    const int64_t numbers[] = {b->kind, b->index, b->dtype,       b->rank,
                               b->node, b->base,  b->base_offset, b->alignment};
    put_many(out, numbers, sizeof numbers);
    put_many(out, b->sizes, (size_t)b->rank * sizeof *b->sizes);
    put_many(out, b->strides, (size_t)b->rank * sizeof *b->strides);
    put_many(out, b->order, (size_t)b->rank * sizeof *b->order);
}

static void put_kernel(const struct kernel *kernel, struct text *out)
{
    const int64_t numbers[] = {kernel->kind,  kernel->setup, kernel->special, kernel->stage,
                               kernel->parts, kernel->chunk, kernel->scratch, kernel->store_count};
    put_many(out, numbers, sizeof numbers);
    put_many(out, kernel->roots, sizeof kernel->roots);
    for (int s = 0; s < kernel->store_count; s++) {
        const struct kernel_store *store = &kernel->stores[s];
        text_add_number(out,
                        (int64_t)store->node << 32 | (int64_t)store->copy << 31 | store->buffer);
    }
}

phasor_status plan_signature(const struct plan *plan, struct text *out)
{
    sizes_write(&plan->sizes, 0, out);
    text_add_number(out, (int64_t)plan->sizes.symbols.count);
    put_nodes(&plan->graph, out);
    text_add_number(out, (int64_t)plan->buffers.count);
    for (size_t b = 0; b < plan->buffers.count; b++)
        put_buffer(&plan->buffers.at[b], out);
    text_add_number(out, (int64_t)plan->kernels.count);
    for (size_t k = 0; k < plan->kernels.count; k++)
        put_kernel(&plan->kernels.at[k], out);
    text_add_number(out, (int64_t)plan->steps.count);
    for (size_t i = 0; i < plan->steps.count; i++) {
        const struct step *step = &plan->steps.at[i];
        text_add_number(out, step->kind);
        text_add_number(out, step->kind == STEP_KERNEL ? step->kernel.count : 1);
    }
    put_many(out, plan->buffer_of, plan->graph.nodes.count * sizeof *plan->buffer_of);
    return text_status(out);
}
