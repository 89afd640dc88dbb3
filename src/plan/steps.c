/* steps.c - the kernels of a plan, and what goes without one, as steps.
 *
 *     kernel 0: rotates q    kernel 1: rotates k, reads nothing of kernel 0    one step with blocks
 *                                                                              for each
 *     kernel 2: a product that a library makes                                 a library call
 *     kernel 3: output 1 is a whole copy of x, in one order of dims            a copy
 *
 * Neighbours that are maps join when none reads what another of them stores, and none changes what
 * the caller sees in place: blocks of one launch run in any order. */
#include "plan/fusion.h"

#include <math.h>
#include <string.h>

enum { PARTS_MAX = 8 };

/* The steps in the making: what each kernel reads. */
struct stepping {
    struct fusion *f;
    struct plan *plan;
    struct reads *reads; /* one a kernel */
};

/* A divisor: see device.cuh. Kernels that use one count below 2^31. */
int64_t kernel_argument_bits(const struct kernel_argument *argument, int64_t size)
{
    if (argument->kind != ARGUMENT_DIVISOR || size < 1 || size > INT32_MAX)
        return size;
    uint64_t shift = 0;
    while ((uint64_t)1 << shift < (uint64_t)size)
        shift++;
    const uint64_t multiplier =
        (((uint64_t)1 << (31 + shift)) + (uint64_t)size - 1) / (uint64_t)size;
    return (int64_t)(multiplier | shift << 32);
}

/* -- which kernels go out together ------------------------------------------------------------- */

static bool stores_in_place(const struct fusion *f, const struct kernel *kernel)
{
    for (int s = 0; s < kernel->store_count; s++) {
        const enum buffer_kind kind = f->plan->buffers.at[kernel->stores[s].buffer].kind;
        if (kind == BUFFER_INPUT || kind == BUFFER_STATE)
            return true;
    }
    return false;
}

/* Whether kernel k goes out with those from `first` to the one before it. */
static bool joins(const struct stepping *s, int first, int k)
{
    const struct kernel *kernel = &s->plan->kernels.at[k], *before = kernel - 1;
    if (k == first || k - first >= PARTS_MAX || before->kind != KERNEL_MAP ||
        kernel->kind != KERNEL_MAP || before->setup != kernel->setup ||
        stores_in_place(s->f, before) || stores_in_place(s->f, kernel))
        return false;
    int64_t nbytes = 0;
    for (int i = first; i <= k; i++)
        nbytes += fusion_kernel_bytes(s->f, &s->plan->kernels.at[i]);
    if (nbytes > SOURCE_MAX)
        return false;
    for (size_t i = 0; i < s->reads[k].count; i++) {
        const int stored_by = s->f->kernel_of[s->reads[k].at[i].node];
        if (stored_by >= first && stored_by != k)
            return false;
    }
    return true;
}

/* -- copies ------------------------------------------------------------------------------------ */

/* Whether the buffer's elements follow each other without gaps. */
static bool is_gapless(struct sizes *sizes, const struct buffer *b)
{
    dim expected = 1;
    for (int k = b->rank - 1; k >= 0; k--) {
        const int d = b->order[k];
        if (b->sizes[d] != 1 && b->strides[d] != expected &&
            size_value(sizes, b->strides[d]) != size_value(sizes, expected))
            return false;
        expected = size_mul(sizes, expected, b->sizes[d]);
    }
    return true;
}

/* Whether the kernel moves the bytes of one buffer to another and nothing else. */
static bool is_copy(const struct plan *plan, struct sizes *sizes, const struct kernel *kernel,
                    struct step_copy *copy)
{
    if (kernel->kind != KERNEL_MAP || kernel->store_count != 1 || !kernel->stores[0].copy)
        return false;
    const int from = plan->buffer_of[kernel->stores[0].node], to = kernel->stores[0].buffer;
    const struct buffer *a = plan_buffer(plan, from), *b = plan_buffer(plan, to);
    for (int d = 0; d < a->rank; d++)
        if (size_value(sizes, a->sizes[d]) > 1 &&
            size_value(sizes, a->strides[d]) != size_value(sizes, b->strides[d]))
            return false;
    *copy = (struct step_copy){from, to, a->nbytes};
    return a->dtype == b->dtype && a->nbytes == b->nbytes && is_gapless(sizes, a) &&
           is_gapless(sizes, b);
}

/* -- fills ------------------------------------------------------------------------------------- */

/* Whether the kernel stores zeros everywhere, whose bytes are zeros, and nothing else. */
static bool is_fill(const struct plan *plan, struct sizes *sizes, const struct kernel *kernel,
                    struct step_fill *fill)
{
    if (kernel->kind != KERNEL_MAP || kernel->store_count != 1)
        return false;
    value v = kernel->stores[0].node;
    const struct node *n = graph_node(&plan->graph, v);
    while (n->op == OP_expand || n->op == OP_reshape || n->op == OP_cast || n->op == OP_clone)
        n = graph_node(&plan->graph, v = n->arguments[0]);
    const struct number *x = &n->attributes.number;
    const struct buffer *b = plan_buffer(plan, kernel->stores[0].buffer);
    *fill = (struct step_fill){kernel->stores[0].buffer, b->nbytes};
    return n->op == OP_scalar && x->i == 0 && x->re == 0 && !signbit(x->re) && x->im == 0 &&
           !signbit(x->im) && is_gapless(sizes, b);
}

/* -- all of them ------------------------------------------------------------------------------- */

static phasor_status reads_and_writes(const struct stepping *s, int first, int count,
                                      struct step *step)
{
    struct arena *arena = &s->plan->arena;
    size_t reads = 0, writes = 0;
    for (int k = first; k < first + count; k++) {
        reads += s->reads[k].count;
        writes += (size_t)s->plan->kernels.at[k].store_count;
    }
    writes++; /* scratch */
    step->reads = NEW(arena, struct step_read, reads);
    step->writes = NEW(arena, int, writes);
    if (!step->reads || !step->writes)
        return fail_memory();
    for (int k = first; k < first + count; k++) {
        const struct kernel *kernel = &s->plan->kernels.at[k];
        if (kernel->stage == STAGE_PARTS || kernel->stage == STAGE_CARRY)
            step->writes[step->write_count++] = kernel->scratch;
        else
            for (int w = 0; w < kernel->store_count; w++)
                step->writes[step->write_count++] = kernel->stores[w].buffer;
        for (size_t i = 0; i < s->reads[k].count; i++) {
            const struct step_read *read = &s->reads[k].at[i];
            int at = 0;
            while (at < step->read_count && step->reads[at].buffer != read->buffer)
                at++;
            if (at < step->read_count)
                step->reads[at].elementwise = -1; /* two parts run side by side */
            else
                step->reads[step->read_count++] = *read;
        }
    }
    return PHASOR_OK;
}

static phasor_status step_add(const struct stepping *s, int first, int count, int *kernel_steps)
{
    const struct kernel *kernel = &s->plan->kernels.at[first];
    struct step step = {.kind = STEP_KERNEL, .hoisted = kernel->setup};
    TRY(reads_and_writes(s, first, count, &step));
    if (kernel->kind == KERNEL_LIBRARY)
        TRY(library_step(s->f, kernel, &step));
    else if (count == 1 && is_copy(s->plan, &s->plan->sizes, kernel, &step.copy))
        step.kind = STEP_COPY;
    else if (count == 1 && is_fill(s->plan, &s->plan->sizes, kernel, &step.fill))
        step.kind = STEP_FILL;
    else
        step.kernel = (struct step_kernel){(*kernel_steps)++, first, count};
    return array_push(&s->plan->steps, step) ? PHASOR_OK : fail_memory();
}

static phasor_status steps_add(const struct stepping *s)
{
    const int count = (int)s->plan->kernels.count;
    int kernel_steps = 0;
    for (int k = 0; k < count; k++)
        TRY(reads_of_kernel(s->plan, &s->plan->kernels.at[k], &s->reads[k]));
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && joins(s, first, end); end++)
            continue;
        TRY(step_add(s, first, end - first, &kernel_steps));
    }
    return sizes_status(&s->plan->sizes);
}

phasor_status steps_make(struct fusion *f)
{
    const size_t count = f->plan->kernels.count;
    struct stepping s = {f, f->plan, memory_new(count * sizeof *s.reads)};
    if (!s.reads)
        return fail_memory();
    const phasor_status status = steps_add(&s);
    for (size_t k = 0; k < count; k++)
        array_free(&s.reads[k]);
    memory_free(s.reads);
    return status;
}
