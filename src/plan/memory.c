/* memory.c - where values that nobody outside sees are kept: the workspace of a call, the tables of
 * a specialisation.
 *
 *     work buffers  a [steps 0..2, 4096 bytes]  b [1..3, 1024]  c [3..4, 4096]     a and c share
 *                                                                  bytes 0..4095
 *
 * First fit by size: the largest first, each at the lowest offset that no buffer alive at the same
 * time occupies. */
#include "plan/plan.h"

#include <stdlib.h>

/* A buffer is alive from the step that writes it to the last one that reads what is there. */
static void find_lives(struct plan *plan)
{
    for (int at = 0; at < (int)plan->steps.count; at++) {
        const struct step *step = &plan->steps.at[at];
        for (int i = 0; i < step->write_count + step->read_count; i++) {
            const bool read = i >= step->write_count;
            struct buffer *b =
                &plan->buffers
                     .at[read ? step->reads[i - step->write_count].buffer : step->writes[i]];
            b->first = b->first < 0 ? at : b->first;
            b->last = at;
        }
    }
}

static bool overlap(const struct buffer *a, const struct buffer *b)
{
    return a->first <= b->last && b->first <= a->last &&
           a->offset < b->offset + plan_round_up(b->nbytes) &&
           b->offset < a->offset + plan_round_up(a->nbytes);
}

/* The lowest offset where `b` meets no placed buffer that lives at the same time. */
static void place(struct plan *plan, struct buffer *b, struct buffer *const *placed, int count)
{
    b->offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < count; i++)
            if (overlap(b, placed[i])) {
                b->offset = placed[i]->offset + plan_round_up(placed[i]->nbytes);
                moved = true;
            }
    }
    const int64_t end = b->offset + plan_round_up(b->nbytes);
    plan->work_bytes = end > plan->work_bytes ? end : plan->work_bytes;
}

static int larger_first(const void *a, const void *b)
{
    const struct buffer *x = *(struct buffer *const *)a, *y = *(struct buffer *const *)b;
    if (x->nbytes != y->nbytes)
        return x->nbytes > y->nbytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

phasor_status plan_memory(struct plan *plan)
{
    struct buffer **work = NEW(&plan->arena, struct buffer *, plan->buffers.count);
    int count = 0;
    if (!work)
        return fail_memory();
    find_lives(plan);
    for (size_t i = 0; i < plan->buffers.count; i++) {
        struct buffer *b = &plan->buffers.at[i];
        if (b->kind == BUFFER_WORK)
            work[count++] = b;
        if (b->kind == BUFFER_TABLE) {
            b->offset = plan->table_bytes;
            plan->table_bytes += plan_round_up(b->nbytes);
        }
    }
    qsort(work, (size_t)count, sizeof *work, larger_first);
    for (int i = 0; i < count; i++)
        place(plan, work[i], work, i);
    return PHASOR_OK;
}

phasor_status plan_make(const struct graph *logical, const struct graph *real,
                        const struct call_shape *call, const struct plan_options *options,
                        struct plan *plan)
{
    struct layout *layouts;
    *plan = (struct plan){0};
    int64_t *values = NEW(&plan->arena, int64_t, real->sizes->symbols.count);
    if (!values)
        return fail_memory();
    TRY(bind_symbols(logical, call, values));
    TRY(bind_graph(plan, real, values,
                   !options->generic ? BIND_LITERALS
                   : options->any    ? BIND_SYMBOLS
                                     : BIND_MULTIPLES));
    TRY(bind_check_outputs(logical, &plan->graph, call));
    TRY(layout_infer(&plan->graph, call, &plan->arena, &layouts));
    TRY(plan_fuse(plan, call, layouts, options));
    TRY(plan_memory(plan));
    return plan_verify_after(plan, call);
}

void plan_free(struct plan *plan)
{
    array_free(&plan->buffers);
    array_free(&plan->kernels);
    array_free(&plan->steps);
    graph_free(&plan->graph);
    sizes_free(&plan->sizes);
    arena_free(&plan->arena);
}
