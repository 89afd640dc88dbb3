/* verify.c - does a plan hold what plan.h and step.h promise? One line says what is wrong.
 *
 *     step 1 reads work 0        "rope: step 1 (kernel): reads work buffer 5 (mul), which no step
 *                                before it wrote"
 *
 * It asks the steps and buffers alone, and finds out anew what planning found: lives and places.
 * Buffers are followed through the steps: what each holds, by value of the graph, is what its
 * readers say that they read there. */
#include "plan/plan.h"

#include "base/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FILLED = UINT32_MAX }; /* in `holds`: zeros, whichever value they stand for */

struct checking {
    const struct plan *plan;
    const struct call_shape *call;
    value *holds;      /* by buffer: the value that is there; 0: nothing yet */
    bool *has_changed; /* by buffer: a step wrote the memory that it shows */
    int *first, *last; /* by buffer: steps between which it is used; -1 */
    int step;          /* the one that is looked at */
};

/* -- messages ---------------------------------------------------------------------------------- */

static const char *const kinds[] = {"input", "state", "data", "output", "slot", "work", "table"};
#define STEP_TEXT(kind, text) text,
static const char *const step_kinds[STEP_KINDS] = {STEP_KIND_ROWS(STEP_TEXT)};
#undef STEP_TEXT

static const char *value_name(const struct plan *plan, value v)
{
    return v > 0 && v < plan->graph.nodes.count ? graph_node(&plan->graph, v)->name : "nothing";
}

static phasor_status verify_fail(const struct plan *plan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static phasor_status verify_fail(const struct plan *plan, const char *format, ...)
{
    char what[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return fail(PHASOR_ERROR_COMPILE, "%s: %s", plan->graph.name, what);
}

static phasor_status buffer_fail(const struct plan *plan, int buffer, const char *why)
{
    const struct buffer *b = plan_buffer(plan, buffer);
    return verify_fail(plan, "%s buffer %d (%s): %s", kinds[b->kind], buffer,
                       value_name(plan, b->node), why);
}

static phasor_status step_fail(const struct checking *c, const char *why)
{
    return verify_fail(c->plan, "step %d (%s): %s", c->step,
                       step_kinds[c->plan->steps.at[c->step].kind], why);
}

/* "step 1 (kernel): reads work buffer 5 (mul), which ..." */
static phasor_status step_fail_at(const struct checking *c, const char *does, int buffer,
                                  const char *why)
{
    const struct buffer *b = plan_buffer(c->plan, buffer);
    return verify_fail(c->plan, "step %d (%s): %s %s buffer %d (%s), which %s", c->step,
                       step_kinds[c->plan->steps.at[c->step].kind], does, kinds[b->kind], buffer,
                       value_name(c->plan, b->node), why);
}

/* -- buffers ----------------------------------------------------------------------------------- */

static bool buffer_exists(const struct plan *plan, int buffer)
{
    return buffer >= 0 && (size_t)buffer < plan->buffers.count;
}

static bool is_permutation(const int *order, int rank)
{
    unsigned seen = 0;
    for (int d = 0; d < rank; d++)
        if (order[d] >= 0 && order[d] < rank)
            seen |= 1u << order[d];
    return seen == (1u << rank) - 1;
}

/* The bytes from the first element to the end of the last one. */
static int64_t bytes_needed(const struct plan *plan, const struct buffer *b)
{
    int64_t last = 0;
    for (int d = 0; d < b->rank; d++) {
        const int64_t size = plan_size(plan, b->sizes[d]), stride = plan_size(plan, b->strides[d]);
        if (size == 0)
            return 0;
        last += (size - 1) * (stride > 0 ? stride : 0);
    }
    return (last + 1) * dtype_size(b->dtype);
}

/* Where it is: NULL when that exists. */
static const char *place_trouble(const struct plan *plan, const struct buffer *b)
{
    const struct graph *graph = &plan->graph;
    const int64_t end = b->offset + plan_round_up(b->nbytes);
    const bool own = b->kind == BUFFER_WORK || b->kind == BUFFER_TABLE;
    if (own && (b->offset < 0 || b->offset != plan_round_up(b->offset)))
        return "begins at no multiple of the alignment of buffers";
    if (own && end > (b->kind == BUFFER_WORK ? plan->work_bytes : plan->table_bytes))
        return "ends behind the memory that it is in";
    if ((own || b->kind == BUFFER_OUTPUT) && b->alignment != 16)
        return "is not aligned to 16 bytes, as all of Phasor's memory is";
    const size_t count = b->kind == BUFFER_INPUT    ? graph->inputs.count
                         : b->kind == BUFFER_STATE  ? graph->buffers.count
                         : b->kind == BUFFER_DATA   ? graph->nodes.count
                         : b->kind == BUFFER_OUTPUT ? (size_t)plan->memory_count
                         : b->kind == BUFFER_SLOT   ? graph->outputs.count
                                                    : 0;
    if (!own && (b->index < 0 || (size_t)b->index >= count))
        return "is of a slot, node or memory that there is not";
    if (b->kind == BUFFER_DATA && graph_node(graph, (value)b->index)->op != OP_data)
        return "is of a node that is no data";
    if (b->kind == BUFFER_OUTPUT && b->nbytes > plan->memories[b->index])
        return "is larger than the memory that it is in";
    return NULL;
}

/* What the caller's tensor is like, which the buffer must not contradict. */
static const char *caller_trouble(const struct checking *c, const struct buffer *b)
{
    const bool slot = b->kind == BUFFER_SLOT;
    if (b->kind != BUFFER_INPUT && !slot)
        return NULL;
    if (slot && (!c->call->outputs || b->index >= c->call->output_count))
        return "is of a slot for which the caller gave no memory";
    const struct call_tensor *tensor =
        slot ? &c->call->outputs[b->index] : &c->call->inputs[b->index];
    if (tensor->rank != b->rank)
        return "has another rank than the caller's tensor";
    for (int d = 0; d < b->rank; d++) {
        const int64_t size = plan_size(c->plan, b->sizes[d]);
        if (size != tensor->sizes[d] ||
            (size > 1 && plan_size(c->plan, b->strides[d]) != tensor->strides[d]))
            return "has other sizes or strides than the caller's tensor";
    }
    if (b->alignment > tensor->alignment && b->alignment > dtype_size(b->dtype))
        return "is said to be aligned better than the caller's tensor is";
    return NULL;
}

static phasor_status verify_buffer(const struct checking *c, int index)
{
    const struct plan *plan = c->plan;
    const struct buffer *b = plan_buffer(plan, index);
    if ((int)b->kind < 0 || b->kind > BUFFER_TABLE)
        return verify_fail(plan, "buffer %d: kind %d is none", index, (int)b->kind);
    if (b->rank < 0 || b->rank > RANK_MAX || b->dtype >= DT_COUNT ||
        b->node >= plan->graph.nodes.count)
        return buffer_fail(plan, index, "has no such rank, dtype or node");
    for (int d = 0; d < b->rank; d++)
        if (b->sizes[d] >= plan->sizes.nodes.count || b->strides[d] >= plan->sizes.nodes.count)
            return buffer_fail(plan, index, "has a size or stride that is not in the pool");
    if (!is_permutation(b->order, b->rank))
        return buffer_fail(plan, index, "its order names not every dim once");
    if (b->alignment < 1 || 16 % b->alignment != 0)
        return buffer_fail(plan, index, "its alignment is no power of two up to 16");
    if (b->nbytes != bytes_needed(plan, b))
        return verify_fail(
            plan, "%s buffer %d (%s): has %" PRId64 " bytes; its sizes and strides need %" PRId64,
            kinds[b->kind], index, value_name(plan, b->node), b->nbytes, bytes_needed(plan, b));
    if (!buffer_exists(plan, b->base) || (b->base != index && b->kind != BUFFER_DATA) ||
        plan_buffer(plan, b->base)->kind != b->kind || b->base_offset < 0)
        return buffer_fail(plan, index, "has no such base");
    const char *why = place_trouble(plan, b);
    why = why ? why : caller_trouble(c, b);
    return why ? buffer_fail(plan, index, why) : PHASOR_OK;
}

/* -- steps ------------------------------------------------------------------------------------- */

static bool step_writes(const struct step *step, int buffer)
{
    for (int i = 0; i < step->write_count; i++)
        if (step->writes[i] == buffer)
            return true;
    return false;
}

static bool step_reads(const struct step *step, int buffer)
{
    for (int i = 0; i < step->read_count; i++)
        if (step->reads[i].buffer == buffer)
            return true;
    return false;
}

/* Of a call, and not of the program or the specialisation. */
static bool is_of_call(const struct buffer *b)
{
    return b->kind != BUFFER_DATA && b->kind != BUFFER_TABLE;
}

static bool is_same_memory(const struct buffer *a, const struct buffer *b)
{
    return a->kind == b->kind && (a->kind == BUFFER_INPUT || a->kind == BUFFER_STATE) &&
           a->index == b->index;
}

/* What a kernel leaves in a buffer that it writes; 0: it does not write it. */
static value kernel_leaves(const struct kernel *kernel, int buffer)
{
    if (kernel->stage == STAGE_PARTS || kernel->stage == STAGE_CARRY)
        return buffer == kernel->scratch ? kernel->special : 0;
    for (int s = 0; s < kernel->store_count; s++)
        if (kernel->stores[s].buffer == buffer)
            return kernel->stores[s].node;
    return 0;
}

static int kernel_write_count(const struct kernel *kernel)
{
    return kernel->stage == STAGE_PARTS || kernel->stage == STAGE_CARRY ? 1 : kernel->store_count;
}

static phasor_status verify_kernels(const struct checking *c, const struct step *step)
{
    const struct plan *plan = c->plan;
    const struct step_kernel *k = &step->kernel;
    int writes = 0;
    if (k->first < 0 || k->count < 1 || k->first > (int)plan->kernels.count - k->count)
        return step_fail(c, "is of kernels that there are not");
    for (int i = k->first; i < k->first + k->count; i++) {
        const struct kernel *kernel = &plan->kernels.at[i];
        if (kernel->setup != step->hoisted)
            return step_fail(c, "its kernels and the step differ in how often they run");
        if (k->count > 1 && kernel->kind != KERNEL_MAP)
            return step_fail(c, "launches kernels together that are no maps");
        writes += kernel_write_count(kernel);
    }
    if (writes != step->write_count)
        return step_fail(c, "writes another number of buffers than its kernels store");
    for (int w = 0; w < step->write_count; w++) {
        if (k->count > 1 && step_reads(step, step->writes[w]))
            return step_fail_at(c, "reads", step->writes[w], "another block of its launch writes");
        bool stored = false;
        for (int i = k->first; i < k->first + k->count; i++)
            stored |= kernel_leaves(&plan->kernels.at[i], step->writes[w]) != 0;
        if (!stored)
            return step_fail_at(c, "writes", step->writes[w], "none of its kernels stores");
    }
    return PHASOR_OK;
}

static phasor_status verify_copy(const struct checking *c, const struct step *step)
{
    const struct step_copy *copy = &step->copy;
    if (!step_reads(step, copy->from) || !step_writes(step, copy->to) || copy->from == copy->to)
        return step_fail(c, "copies what it does not read, or to what it does not write");
    const struct buffer *from = plan_buffer(c->plan, copy->from),
                        *to = plan_buffer(c->plan, copy->to);
    if (copy->nbytes != from->nbytes || copy->nbytes != to->nbytes || from->dtype != to->dtype)
        return step_fail(c, "copies between buffers of other sizes or dtypes");
    return PHASOR_OK;
}

static phasor_status verify_fill(const struct checking *c, const struct step *step)
{
    const bool whole = step->write_count == 1 && step_writes(step, step->fill.to) &&
                       step->fill.nbytes == plan_buffer(c->plan, step->fill.to)->nbytes;
    return whole ? PHASOR_OK : step_fail(c, "fills what is not the whole of the buffer it writes");
}

/* Whether a batch of matrices from the offset on ends inside the buffer. */
static bool matrix_is_inside(const struct buffer *b, int64_t offset, const struct matrix *matrix,
                             int64_t batch, int64_t rows, int64_t columns)
{
    const int64_t outer = matrix->transposed ? columns : rows,
                  inner = matrix->transposed ? rows : columns;
    const int64_t last =
        (batch - 1) * matrix->batch_stride + (outer - 1) * matrix->stride + inner - 1;
    return offset >= 0 && offset + (last + 1) * dtype_size(b->dtype) <= b->nbytes;
}

static phasor_status verify_library(const struct checking *c, const struct step *step)
{
    static const enum dtype dtypes[LIBRARY_TYPES] = {[LIBRARY_F16] = DT_f16,
                                                     [LIBRARY_BF16] = DT_bf16,
                                                     [LIBRARY_F32] = DT_f32,
                                                     [LIBRARY_F64] = DT_f64};
    const struct step_library *call = &step->library;
    const struct matmul *m = &call->matmul;
    if (m->type < 0 || m->type >= LIBRARY_TYPES || m->batch < 1 || m->m < 1 || m->n < 1 || m->k < 1)
        return step_fail(c, "is a product of no type or without elements");
    if (!step_reads(step, call->operands[0]) || !step_reads(step, call->operands[1]) ||
        !step_writes(step, call->operands[2]) || !step_writes(step, call->scratch))
        return step_fail(c, "its operands are not among what it reads and writes");
    if (plan_buffer(c->plan, call->scratch)->nbytes < MATMUL_WORKSPACE)
        return step_fail(c, "has less scratch than products are given");
    const struct matrix *matrices[] = {&m->a, &m->b, &m->c};
    const int64_t rows[] = {m->m, m->k, m->m}, columns[] = {m->k, m->n, m->n};
    for (int i = 0; i < 3; i++) {
        const struct buffer *b = plan_buffer(c->plan, call->operands[i]);
        if (b->dtype != dtypes[m->type])
            return step_fail_at(c, "takes", call->operands[i], "has another dtype");
        if (!matrix_is_inside(b, call->offsets[i], matrices[i], m->batch, rows[i], columns[i]))
            return step_fail_at(c, "takes", call->operands[i], "ends before the operand does");
        if (m->alignment > b->alignment || call->offsets[i] % m->alignment)
            return step_fail_at(c, "takes", call->operands[i], "is not aligned as it says");
    }
    return PHASOR_OK;
}

/* Whether the buffer holds v now. */
static bool holds(const struct checking *c, int buffer, value v)
{
    const struct node *n = graph_node(&c->plan->graph, v);
    if (c->holds[buffer] != (value)FILLED)
        return v > 0 && c->holds[buffer] == v;
    while (n->op == OP_expand || n->op == OP_reshape || n->op == OP_cast || n->op == OP_clone)
        n = graph_node(&c->plan->graph, n->arguments[0]);
    return n->op == OP_scalar;
}

/* A scatter finds its base in the buffer that it writes to: it reads nothing of where that came
 * from. */
static bool is_base_of_scatter(const struct checking *c, const struct step *step,
                               const struct step_read *read)
{
    if (step->kind != STEP_KERNEL)
        return false;
    const struct kernel *kernel = &c->plan->kernels.at[step->kernel.first];
    return (kernel->kind == KERNEL_SCATTER || kernel->kind == KERNEL_COLLECT) &&
           kernel->stores[0].buffer == read->buffer &&
           holds(c, read->buffer, graph_node(&c->plan->graph, kernel->special)->arguments[0]);
}

/* Whether the reader may be one that makes each element of the same element of what it reads: a
 * copy, or the kernel of the step that stores that buffer and no other, of that shape. */
static bool is_elementwise(const struct checking *c, const struct step *step,
                           const struct step_read *read)
{
    const struct kernel *kernel = NULL;
    if (step->kind == STEP_COPY)
        return read->elementwise == step->copy.to;
    for (int k = 0; step->kind == STEP_KERNEL && k < step->kernel.count && !kernel; k++)
        if (kernel_leaves(&c->plan->kernels.at[step->kernel.first + k], read->elementwise))
            kernel = &c->plan->kernels.at[step->kernel.first + k];
    return kernel && kernel->kind == KERNEL_MAP && kernel->store_count == 1 &&
           graph_same_shape(&c->plan->graph, read->node, kernel->stores[0].node);
}

static phasor_status verify_read(const struct checking *c, const struct step *step,
                                 const struct step_read *read)
{
    const struct buffer *b = plan_buffer(c->plan, read->buffer);
    if (step->hoisted && is_of_call(b))
        return step_fail_at(c, "is hoisted, but reads", read->buffer, "is of the call");
    if (b->nbytes == 0 || is_base_of_scatter(c, step, read))
        return PHASOR_OK;
    if (c->has_changed[read->buffer] && !holds(c, read->buffer, read->node))
        return step_fail_at(c, "reads", read->buffer, "a step before it has changed");
    if (c->holds[read->buffer] == 0)
        return step_fail_at(c, "reads", read->buffer, "no step before it wrote");
    if (!holds(c, read->buffer, read->node))
        return step_fail_at(c, "reads", read->buffer, "holds another value then");
    if (read->elementwise >= 0 && !is_elementwise(c, step, read))
        return step_fail_at(c, "reads", read->buffer,
                            "is said to be read for the same elements of what the step writes");
    return PHASOR_OK;
}

static phasor_status verify_write(const struct checking *c, const struct step *step, int buffer)
{
    const struct graph *graph = &c->plan->graph;
    const struct buffer *b = plan_buffer(c->plan, buffer);
    if (b->kind == BUFFER_DATA)
        return step_fail_at(c, "writes", buffer, "is a weight");
    if (b->kind == BUFFER_TABLE && !step->hoisted)
        return step_fail_at(c, "writes", buffer, "only hoisted steps may");
    if (step->hoisted && is_of_call(b))
        return step_fail_at(c, "is hoisted, but writes", buffer, "is of the call");
    if ((b->kind == BUFFER_INPUT && !graph->inputs.at[b->index].written) ||
        (b->kind == BUFFER_STATE && !graph->buffers.at[b->index].written))
        return step_fail_at(c, "writes", buffer, "the program does not change");
    for (int i = 0; i < step->read_count; i++)
        if (step->reads[i].buffer != buffer &&
            is_same_memory(b, plan_buffer(c->plan, step->reads[i].buffer)))
            return step_fail_at(c, "writes", buffer, "is the memory of what it reads");
    return PHASOR_OK;
}

/* What the step leaves in the buffer. */
static value step_leaves(const struct checking *c, const struct step *step, int buffer)
{
    if (step->kind == STEP_COPY)
        return c->holds[step->copy.from];
    if (step->kind == STEP_FILL)
        return (value)FILLED;
    if (step->kind == STEP_LIBRARY)
        return plan_buffer(c->plan, buffer)->node;
    value left = 0;
    for (int k = step->kernel.first; k < step->kernel.first + step->kernel.count; k++)
        left = left ? left : kernel_leaves(&c->plan->kernels.at[k], buffer);
    return left;
}

static void write_note(struct checking *c, const struct step *step, int buffer)
{
    const struct buffer *b = plan_buffer(c->plan, buffer);
    c->holds[buffer] = step_leaves(c, step, buffer);
    for (int i = 0; i < (int)c->plan->buffers.count; i++)
        if (i == buffer || is_same_memory(b, plan_buffer(c->plan, i))) {
            c->has_changed[i] = true;
            c->holds[i] = i == buffer ? c->holds[i] : 0;
        }
}

static void use_note(struct checking *c, int buffer)
{
    c->first[buffer] = c->first[buffer] < 0 ? c->step : c->first[buffer];
    c->last[buffer] = c->step;
}

static phasor_status verify_step(struct checking *c, const struct step *step)
{
    if ((int)step->kind < 0 || step->kind >= STEP_KINDS)
        return verify_fail(c->plan, "step %d: kind %d is none", c->step, (int)step->kind);
    for (int i = 0; i < step->read_count; i++)
        if (!buffer_exists(c->plan, step->reads[i].buffer))
            return step_fail(c, "reads a buffer that there is not");
    for (int i = 0; i < step->write_count; i++)
        if (!buffer_exists(c->plan, step->writes[i]))
            return step_fail(c, "writes a buffer that there is not");
    TRY(step->kind == STEP_KERNEL    ? verify_kernels(c, step)
        : step->kind == STEP_LIBRARY ? verify_library(c, step)
        : step->kind == STEP_FILL    ? verify_fill(c, step)
                                     : verify_copy(c, step));
    for (int i = 0; i < step->read_count; i++) {
        TRY(verify_read(c, step, &step->reads[i]));
        use_note(c, step->reads[i].buffer);
    }
    for (int i = 0; i < step->write_count; i++)
        TRY(verify_write(c, step, step->writes[i]));
    for (int i = 0; i < step->write_count; i++) {
        use_note(c, step->writes[i]);
        write_note(c, step, step->writes[i]);
    }
    return PHASOR_OK;
}

/* -- lives ------------------------------------------------------------------------------------- */

static bool share_bytes(const struct buffer *a, const struct buffer *b)
{
    return a->nbytes && b->nbytes && a->offset < b->offset + plan_round_up(b->nbytes) &&
           b->offset < a->offset + plan_round_up(a->nbytes);
}

/* Buffers of the workspace that are in use at the same time share no byte; tables never do. */
static phasor_status verify_lives(const struct checking *c)
{
    const struct plan *plan = c->plan;
    for (int i = 0; i < (int)plan->buffers.count; i++)
        for (int j = 0; j < i; j++) {
            const struct buffer *a = plan_buffer(plan, i), *b = plan_buffer(plan, j);
            const bool together = a->kind == BUFFER_TABLE ||
                                  (a->kind == BUFFER_WORK && c->first[i] >= 0 && c->first[j] >= 0 &&
                                   c->first[i] <= c->last[j] && c->first[j] <= c->last[i]);
            if (a->kind == b->kind && together && share_bytes(a, b))
                return verify_fail(
                    plan, "%s buffers %d (%s) and %d (%s) share bytes in steps %d to %d",
                    kinds[a->kind], j, value_name(plan, b->node), i, value_name(plan, a->node),
                    c->first[i] > c->first[j] ? c->first[i] : c->first[j],
                    c->last[i] < c->last[j] ? c->last[i] : c->last[j]);
        }
    return PHASOR_OK;
}

/* -- results ----------------------------------------------------------------------------------- */

/* After all steps the input or buffer of the program holds what it is to become. */
static phasor_status verify_change(const struct checking *c, enum buffer_kind kind, int index,
                                   value leaf, value written)
{
    bool found = written == 0 || written == leaf;
    for (int i = 0; i < (int)c->plan->buffers.count && !found; i++) {
        const struct buffer *b = plan_buffer(c->plan, i);
        found = b->kind == kind && b->index == index && (b->nbytes == 0 || holds(c, i, written));
    }
    return found ? PHASOR_OK
                 : verify_fail(c->plan, "no step leaves %s in %s %d", value_name(c->plan, written),
                               kinds[kind], index);
}

/* Whether the view of an output ends inside its memory. */
static bool view_is_inside(const struct plan_output *out, int64_t nbytes)
{
    int64_t last = out->offset;
    for (int d = 0; d < out->rank; d++) {
        if (out->sizes[d] == 0)
            return true;
        last += (out->sizes[d] - 1) * out->strides[d];
    }
    return out->offset >= 0 && (last + 1) * dtype_size(out->dtype) <= nbytes;
}

static phasor_status verify_output(const struct checking *c, int slot)
{
    const struct plan *plan = c->plan;
    const struct plan_output *out = &plan->outputs[slot];
    if (out->scalar_buffer >= 0 && (!buffer_exists(plan, out->scalar_buffer) ||
                                    plan_buffer(plan, out->scalar_buffer)->kind != BUFFER_OUTPUT))
        return verify_fail(plan, "output %d: is read back from no memory of the call", slot);
    if (!out->tensor)
        return PHASOR_OK;
    if (c->call->outputs) {
        for (int i = 0; i < (int)plan->buffers.count; i++)
            if (plan_buffer(plan, i)->kind == BUFFER_SLOT && plan_buffer(plan, i)->index == slot)
                return PHASOR_OK;
        return verify_fail(plan, "output %d: no buffer is the caller's memory", slot);
    }
    if (out->memory != MEMORY_FRESH)
        return PHASOR_OK;
    if (out->index < 0 || out->index >= plan->memory_count)
        return verify_fail(plan, "output %d: is in memory %d; there are %d", slot, out->index,
                           plan->memory_count);
    if (!view_is_inside(out, plan->memories[out->index]))
        return verify_fail(plan, "output %d: ends behind its memory", slot);
    return PHASOR_OK;
}

static phasor_status verify_results(const struct checking *c)
{
    const struct plan *plan = c->plan;
    const struct graph *graph = &plan->graph;
    for (int i = 0; i < (int)plan->buffers.count; i++) {
        const struct buffer *b = plan_buffer(plan, i);
        if ((b->kind == BUFFER_OUTPUT || b->kind == BUFFER_SLOT) && b->nbytes > 0 &&
            !holds(c, i, b->node))
            return buffer_fail(plan, i, "no step leaves in it what it is to hold");
    }
    for (int slot = 0; slot < plan->output_count; slot++)
        TRY(verify_output(c, slot));
    for (size_t i = 0; i < graph->inputs.count; i++)
        TRY(verify_change(c, BUFFER_INPUT, (int)i, graph->inputs.at[i].node,
                          graph->inputs.at[i].written));
    for (size_t i = 0; i < graph->buffers.count; i++)
        TRY(verify_change(c, BUFFER_STATE, (int)i, graph->buffers.at[i].node,
                          graph->buffers.at[i].written));
    return PHASOR_OK;
}

/* -- all of it --------------------------------------------------------------------------------- */

static phasor_status verify_all(struct checking *c)
{
    const struct plan *plan = c->plan;
    for (int i = 0; i < (int)plan->buffers.count; i++) {
        TRY(verify_buffer(c, i));
        c->first[i] = c->last[i] = -1;
    }
    for (value v = 1; v < plan->graph.nodes.count; v++) {
        const int buffer = plan->buffer_of[v];
        const enum op op = graph_node(&plan->graph, v)->op;
        if (buffer >= 0 && !buffer_exists(plan, buffer))
            return verify_fail(plan, "%s is in a buffer that there is not", value_name(plan, v));
        if (buffer >= 0 && (op == OP_input || op == OP_state || op == OP_data))
            c->holds[buffer] = v;
    }
    for (c->step = 0; c->step < (int)plan->steps.count; c->step++)
        TRY(verify_step(c, &plan->steps.at[c->step]));
    TRY(verify_lives(c));
    return verify_results(c);
}

phasor_status plan_verify(const struct plan *plan, const struct call_shape *call)
{
    struct arena arena = {0};
    const size_t count = plan->buffers.count;
    struct checking c = {.plan = plan,
                         .call = call,
                         .holds = NEW(&arena, value, count),
                         .has_changed = NEW(&arena, bool, count),
                         .first = NEW(&arena, int, count),
                         .last = NEW(&arena, int, count)};
    const phasor_status status =
        c.holds && c.has_changed && c.first && c.last ? verify_all(&c) : fail_memory();
    arena_free(&arena);
    return status;
}

phasor_status plan_verify_after(const struct plan *plan, const struct call_shape *call)
{
    return verify_is_wanted() ? verify_result(plan_verify(plan, call), "planning") : PHASOR_OK;
}
