/* graph_run.c - see graph_run.h. */
#include "graph_run.h"

#include "graph/element.h"
#include "world.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, SENTINEL = 0xa7 };

/* -- memory ------------------------------------------------------------------------------------ */

static int64_t shape_span(const struct call_tensor *shape)
{
    int64_t last = 0;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->sizes[d] == 0)
            return 0;
        last += (shape->sizes[d] - 1) * shape->strides[d];
    }
    return last + 1;
}

static int64_t shape_count(const struct call_tensor *shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape->rank; d++)
        count *= shape->sizes[d];
    return count;
}

static int64_t shape_place(const struct call_tensor *shape, int64_t element)
{
    int64_t place = 0;
    for (int d = shape->rank - 1; d >= 0; d--) {
        place += element % shape->sizes[d] * shape->strides[d];
        element /= shape->sizes[d];
    }
    return place;
}

/* shift: elements between an aligned address and the first one. */
static void tensor_open(struct run_tensor *t, int shift)
{
    const size_t size = (size_t)dtype_size(t->dtype);
    const size_t nbytes = 2 * GUARD + ((size_t)shape_span(&t->shape) + (size_t)shift) * size;
    t->nbytes = (nbytes + 63) / 64 * 64;
    t->block = aligned_alloc(64, t->nbytes);
    t->before = aligned_alloc(64, t->nbytes);
    cr_assert(t->block && t->before);
    memset(t->block, SENTINEL, t->nbytes);
    memset(t->before, SENTINEL, t->nbytes);
    t->data = t->block + GUARD + (size_t)shift * size;
    t->shape.alignment = 1;
    while (t->shape.alignment < 16 && (uintptr_t)t->data % (2 * (uintptr_t)t->shape.alignment) == 0)
        t->shape.alignment *= 2;
}

static void tensor_close(struct run_tensor *t)
{
    free(t->block);
    free(t->before);
}

static char *tensor_before(const struct run_tensor *t)
{
    return t->before + (t->data - t->block);
}

/* Bytes that a kernel may write anywhere. */
static void bytes_open(struct run_tensor *t, int64_t nbytes)
{
    *t = (struct run_tensor){.dtype = DT_u8,
                             .shape = {.rank = 1, .sizes = {nbytes}, .strides = {1}}};
    tensor_open(t, 0);
}

/* Nothing but elements differs from what was there before; nothing at all where nobody may write.
 */
static bool tensor_intact(const struct run_tensor *t, bool written)
{
    if (!written)
        return memcmp(t->block, t->before, t->nbytes) == 0;
    const size_t size = (size_t)dtype_size(t->dtype);
    char *copy = malloc(t->nbytes);
    cr_assert(copy);
    memcpy(copy, t->block, t->nbytes);
    for (int64_t i = 0; i < shape_count(&t->shape); i++) {
        const size_t at = (size_t)(t->data - t->block) + (size_t)shape_place(&t->shape, i) * size;
        memcpy(copy + at, t->before + at, size);
    }
    const bool intact = memcmp(copy, t->before, t->nbytes) == 0;
    free(copy);
    return intact;
}

/* -- values ------------------------------------------------------------------------------------ */

/* Mostly numbers of few digits; some of full precision, zeros of both signs, and what has no finite
 * value. */
static double random_float(uint64_t *state)
{
    static const double special[] = {0, -0.0, 1, INFINITY, -INFINITY, NAN, 1e-40, 65504};
    const int kind = random_below(state, 64);
    if (kind == 0)
        return special[random_below(state, 8)];
    if (kind < 24)
        return (random_below(state, 65) - 32) / 8.0;
    return ((double)random_next(state) / (double)(1u << 31) - 0.5) * 8;
}

static struct number random_number(enum dtype dtype, uint64_t *state)
{
    if (dtype == DT_bool)
        return (struct number){.i = random_below(state, 2)};
    if (dtype == DT_u8)
        return (struct number){.i = random_below(state, 256)};
    if (dtype_is_integer(dtype))
        return (struct number){.i = random_below(state, 4) ? random_below(state, 17) - 8
                                                           : random_below(state, 256) - 128};
    return (struct number){.re = random_float(state)};
}

static void tensor_fill(struct run_tensor *t, uint64_t seed)
{
    const size_t size = (size_t)dtype_size(t->dtype);
    for (int64_t i = 0; i < shape_count(&t->shape); i++)
        element_store(t->dtype, random_number(t->dtype, &seed),
                      t->data + (size_t)shape_place(&t->shape, i) * size);
    memcpy(t->before, t->block, t->nbytes);
}

/* -- layouts ----------------------------------------------------------------------------------- */

static int row_pitch(enum run_layout layout)
{
    return layout == RUN_GAPS ? 3 : 0;
}

static void layout_strides(enum run_layout layout, int rank, const int64_t *sizes, int64_t *strides)
{
    int64_t stride = layout == RUN_STEPS ? 2 : 1;
    for (int k = 0; k < rank; k++) {
        const int d = layout == RUN_TRANSPOSED ? k : rank - 1 - k;
        strides[d] = stride;
        stride *= sizes[d] > 1 ? sizes[d] : 1;
        stride += k == 0 ? row_pitch(layout) : 0;
    }
    for (int d = 0; d < rank && layout == RUN_EXPANDED; d++)
        if (sizes[d] > 1) {
            strides[d] = 0;
            break;
        }
}

/* A complex tensor is laid out as its elements; each is a pair. */
static void tensor_lay_out(struct run_tensor *t, const struct graph *logical, value v,
                           enum run_layout layout)
{
    const struct node *n = graph_node(logical, v);
    struct call_tensor *shape = &t->shape;
    const bool pairs = dtype_is_complex(n->dtype);
    t->dtype = dtype_info[n->dtype].real;
    shape->rank = n->rank;
    for (int d = 0; d < n->rank; d++)
        shape->sizes[d] = graph_dim(logical, v, d);
    layout_strides(layout, n->rank, shape->sizes, shape->strides);
    for (int d = 0; d < n->rank && pairs; d++)
        shape->strides[d] *= 2;
    if (pairs) {
        shape->sizes[shape->rank] = 2;
        shape->strides[shape->rank++] = 1;
    }
    const int shift = layout == RUN_OFFSET ? 3 : layout == RUN_UNALIGNED ? 1 : 0;
    tensor_open(t, pairs ? 2 * shift : shift);
}

void graph_run_input(struct graph_run *run, int slot, enum run_layout layout, uint64_t seed)
{
    struct run_tensor *t = &run->inputs[slot];
    tensor_close(t);
    *t = (struct run_tensor){0};
    tensor_lay_out(t, run->logical, run->logical->inputs.at[slot].node, layout);
    tensor_fill(t, seed);
    run->call_inputs[slot] = t->shape;
}

void graph_run_slot(struct graph_run *run, int slot, enum run_layout layout)
{
    struct run_tensor *t = &run->outputs[slot];
    tensor_close(t);
    *t = (struct run_tensor){0};
    tensor_lay_out(t, run->logical, run->logical->outputs.at[slot].node, layout);
    run->call_outputs[slot] = t->shape;
    run->call.outputs = run->call_outputs;
    run->call.output_count = (int)run->real->outputs.count;
}

/* -- life -------------------------------------------------------------------------------------- */

static void open_states(struct graph_run *run)
{
    for (size_t i = 0; i < run->real->buffers.count; i++) {
        const struct data *d = run->real->buffers.at[i].initial;
        struct run_tensor *t = &run->states[i];
        *t = (struct run_tensor){.dtype = d->dtype, .shape = {.rank = d->rank}};
        memcpy(t->shape.sizes, d->sizes, (size_t)d->rank * sizeof *d->sizes);
        memcpy(t->shape.strides, d->strides, (size_t)d->rank * sizeof *d->strides);
        tensor_open(t, (int)d->offset);
        const size_t offset = (size_t)d->offset * (size_t)dtype_size(d->dtype);
        memcpy(t->data - offset, d->storage->bytes,
               offset + (size_t)shape_span(&t->shape) * (size_t)dtype_size(d->dtype));
        memcpy(t->before, t->block, t->nbytes);
    }
}

void graph_run_open(struct graph_run *run, const struct graph *logical, const struct graph *real)
{
    *run = (struct graph_run){.logical = logical, .real = real};
    cr_assert(real->inputs.count <= RUN_SLOTS && real->outputs.count <= RUN_SLOTS &&
              real->buffers.count <= RUN_SLOTS);
    run->call = (struct call_shape){.inputs = run->call_inputs,
                                    .integers = run->integers,
                                    .input_count = (int)real->inputs.count};
    open_states(run);
}

void graph_run_close(struct graph_run *run)
{
    for (int i = 0; i < RUN_SLOTS; i++) {
        tensor_close(&run->inputs[i]);
        tensor_close(&run->outputs[i]);
        tensor_close(&run->states[i]);
        tensor_close(&run->memories[i]);
    }
    tensor_close(&run->work);
    tensor_close(&run->tables);
    plan_free(&run->plan);
}

/* -- running ----------------------------------------------------------------------------------- */

phasor_status graph_run_plan(struct graph_run *run, const struct templates *templates,
                             struct plan_options options)
{
    run->options = options;
    TRY(plan_make(run->logical, run->real, &run->call, &options, &run->plan));
    TRY(codegen_plan(&run->plan, templates));
    cr_assert_leq(run->plan.memory_count, RUN_SLOTS);
    for (int m = 0; m < run->plan.memory_count; m++)
        bytes_open(&run->memories[m], run->plan.memories[m]);
    bytes_open(&run->work, run->plan.work_bytes);
    bytes_open(&run->tables, run->plan.table_bytes);
    run->planned = true;
    return PHASOR_OK;
}

bool graph_run_compile(struct graph_run *const *runs, int count, struct host_module **module)
{
    size_t total = 0;
    *module = NULL;
    for (int i = 0; i < count; i++)
        total += runs[i]->plan.kernels.count;
    const char **sources = calloc(2 * total + 1, sizeof *sources), **names = sources + total;
    cr_assert(sources);
    int at = 0;
    for (int i = 0; i < count; i++) {
        runs[i]->first = at;
        for (size_t k = 0; runs[i]->planned && k < runs[i]->plan.kernels.count; k++) {
            sources[at] = runs[i]->plan.kernels.at[k].source;
            names[at++] = runs[i]->plan.kernels.at[k].name;
        }
    }
    const bool compiled = at == 0 || host_compile(sources, names, at, module);
    free(sources);
    return compiled;
}

static char *data_pointer(const struct data *d)
{
    return (char *)d->storage->bytes + d->offset * dtype_size(d->dtype);
}

static void *buffer_pointer(const struct graph_run *run, int index)
{
    const struct buffer *b = plan_buffer(&run->plan, index);
    switch (b->kind) {
    case BUFFER_INPUT: return run->inputs[b->index].data;
    case BUFFER_STATE: return run->states[b->index].data;
    case BUFFER_DATA:
        return data_pointer(graph_node(&run->plan.graph, (value)b->index)->attributes.data);
    case BUFFER_OUTPUT: return run->memories[b->index].data;
    case BUFFER_SLOT: return run->outputs[b->index].data;
    case BUFFER_WORK: return run->work.data + b->offset;
    case BUFFER_TABLE: return run->tables.data + b->offset;
    }
    return NULL;
}

static phasor_status kernel_launch(struct graph_run *run, struct host_module *module, int at,
                                   const struct kernel *kernel)
{
    char arguments[4096] = {0};
    for (int i = 0; i < kernel->argument_count; i++) {
        const struct kernel_argument *argument = &kernel->arguments[i];
        int64_t bits = kernel_argument_bits(argument, plan_size(&run->plan, argument->size));
        if (argument->kind == ARGUMENT_BUFFER)
            bits = (int64_t)(intptr_t)buffer_pointer(run, argument->buffer);
        memcpy(arguments + 8 * i, &bits, 8);
    }
    if (kernel->flag_argument >= 0) {
        uint32_t *flag = &run->flag;
        memcpy(arguments + kernel->flag_argument, &flag, 8);
    }
    return host_launch(module, at, kernel->name, plan_grid(&run->plan, kernel), kernel->block,
                       arguments)
               ? PHASOR_OK
               : fail(PHASOR_ERROR_DEVICE, "%s: %s", kernel->name, host_error());
}

phasor_status graph_run_launch(struct graph_run *run, struct host_module *module)
{
    const struct plan *plan = &run->plan;
    for (size_t s = 0; s < plan->steps.count; s++) {
        const struct step *step = &plan->steps.at[s];
        if (step->kind == STEP_KERNEL)
            TRY(kernel_launch(run, module, run->first + step->kernel.index,
                              &plan->kernels.at[step->kernel.index]));
        else if (step->kind == STEP_FILL)
            memset(buffer_pointer(run, step->fill.to), 0, (size_t)step->fill.nbytes);
        else
            memmove(buffer_pointer(run, step->copy.to), buffer_pointer(run, step->copy.from),
                    (size_t)step->copy.nbytes);
    }
    return PHASOR_OK;
}

/* -- results ----------------------------------------------------------------------------------- */

static struct eval_view view_of(const struct graph *graph, value v, const struct run_tensor *t,
                                int64_t strides[RANK_MAX])
{
    const struct node *n = graph_node(graph, v);
    for (int d = 0; d < n->rank; d++)
        strides[d] = dtype_is_complex(n->dtype) ? t->shape.strides[d] / 2 : t->shape.strides[d];
    return (struct eval_view){n->dtype, tensor_before(t), strides};
}

phasor_status graph_run_eval(const struct graph_run *run, const struct graph *graph,
                             struct eval_results *out)
{
    struct eval_view inputs[RUN_SLOTS] = {{0}}, states[RUN_SLOTS] = {{0}};
    int64_t strides[2][RUN_SLOTS][RANK_MAX];
    bool out_of_range;
    for (size_t i = 0; i < graph->inputs.count; i++)
        inputs[i] = view_of(graph, graph->inputs.at[i].node, &run->inputs[i], strides[0][i]);
    for (size_t i = 0; i < graph->buffers.count; i++)
        states[i] = view_of(graph, graph->buffers.at[i].node, &run->states[i], strides[1][i]);
    const struct eval_inputs all = {inputs, (int)graph->inputs.count, states,
                                    (int)graph->buffers.count};
    return eval_graph(graph, &(struct eval_options){.fma = true}, &all, out, &out_of_range);
}

static void read_tensor(enum dtype dtype, const struct call_tensor *shape, const char *data,
                        struct eval_tensor *out)
{
    const size_t size = (size_t)dtype_size(dtype);
    const int64_t count = shape_count(shape);
    *out = (struct eval_tensor){.dtype = dtype, .rank = shape->rank, .owned = true};
    memcpy(out->sizes, shape->sizes, sizeof out->sizes);
    out->bytes = memory_new((size_t)count * size);
    cr_assert(out->bytes);
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)out->bytes + (size_t)i * size, data + shape_place(shape, i) * (int64_t)size,
               size);
}

static const char *output_memory(const struct graph_run *run, const struct plan_output *o, int slot)
{
    switch (o->memory) {
    case MEMORY_FRESH: return o->index < 0 ? run->outputs[slot].data : run->memories[o->index].data;
    case MEMORY_INPUT: return run->inputs[o->index].data;
    case MEMORY_STATE: return run->states[o->index].data;
    case MEMORY_DATA:
        return data_pointer(graph_node(&run->plan.graph, (value)o->index)->attributes.data);
    }
    return NULL;
}

void graph_run_output(const struct graph_run *run, int slot, struct eval_tensor *out)
{
    const struct plan_output *o = &run->plan.outputs[slot];
    struct call_tensor shape = {.rank = o->rank};
    memcpy(shape.sizes, o->sizes, sizeof shape.sizes);
    memcpy(shape.strides, o->strides, sizeof shape.strides);
    read_tensor(o->dtype, &shape, output_memory(run, o, slot) + o->offset * dtype_size(o->dtype),
                out);
}

/* -- comparing --------------------------------------------------------------------------------- */

static double number_at(enum dtype real, const void *bytes, int64_t i)
{
    const struct number n = element_load(real, (const char *)bytes + i * dtype_size(real));
    return dtype_is_integer(real) ? (double)n.i : n.re;
}

static bool elements_agree(double got, double expected, bool same_bits,
                           struct run_tolerance tolerance)
{
    if (same_bits || (isnan(got) && isnan(expected)))
        return true;
    if (tolerance.relative == 0 && tolerance.absolute == 0)
        return false;
    return got == expected ||
           fabs(got - expected) <= tolerance.relative * fabs(expected) + tolerance.absolute;
}

bool run_tensors_agree(const struct eval_tensor *got, const struct eval_tensor *expected,
                       struct run_tolerance tolerance, char *why, size_t size)
{
    const enum dtype real = dtype_info[got->dtype].real;
    const int64_t count = eval_tensor_count(got) * (dtype_is_complex(got->dtype) ? 2 : 1);
    const size_t nbytes = (size_t)dtype_size(real);
    if (real != dtype_info[expected->dtype].real ||
        count != eval_tensor_count(expected) * (dtype_is_complex(expected->dtype) ? 2 : 1))
        return snprintf(why, size, "another dtype or number of elements"), false;
    for (int64_t i = 0; i < count; i++) {
        const char *x = (const char *)got->bytes + (size_t)i * nbytes,
                   *y = (const char *)expected->bytes + (size_t)i * nbytes;
        const double p = number_at(real, got->bytes, i), q = number_at(real, expected->bytes, i);
        if (!elements_agree(p, q, memcmp(x, y, nbytes) == 0, tolerance))
            return snprintf(why, size, "element %" PRId64 " is %.17g; expected %.17g", i, p, q),
                   false;
    }
    return true;
}

static bool check_value(const struct eval_results *results, value v, struct eval_tensor *got,
                        struct run_tolerance tolerance, const char *what, size_t slot, char *why,
                        size_t size)
{
    const struct eval_tensor *expected = eval_result(results, v);
    char reason[256] = "the evaluator has no value";
    const bool agree =
        expected && run_tensors_agree(got, expected, tolerance, reason, sizeof reason);
    if (!agree)
        snprintf(why, size, "%s %zu: %s", what, slot, reason);
    eval_tensor_free(got);
    return agree;
}

static bool check_values(const struct graph_run *run, const struct graph *graph,
                         const struct eval_results *results, const struct run_tolerance *tolerances,
                         char *why, size_t size)
{
    const struct run_tolerance exact = {0, 0};
    struct eval_tensor got;
    for (size_t i = 0; i < graph->outputs.count; i++) {
        if (!run->plan.outputs[i].tensor)
            continue;
        graph_run_output(run, (int)i, &got);
        if (!check_value(results, graph->outputs.at[i].node, &got,
                         tolerances ? tolerances[i] : exact, "output", i, why, size))
            return false;
    }
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i].written) {
            read_tensor(run->inputs[i].dtype, &run->inputs[i].shape, run->inputs[i].data, &got);
            if (!check_value(results, graph->inputs.at[i].written, &got, exact, "written input", i,
                             why, size))
                return false;
        }
    for (size_t i = 0; i < graph->buffers.count; i++)
        if (graph->buffers.at[i].written) {
            read_tensor(run->states[i].dtype, &run->states[i].shape, run->states[i].data, &got);
            if (!check_value(results, graph->buffers.at[i].written, &got, exact, "written buffer",
                             i, why, size))
                return false;
        }
    return true;
}

static bool check_intact(const struct run_tensor *t, bool written, const char *what, int slot,
                         char *why, size_t size)
{
    if (t->block == NULL || tensor_intact(t, written))
        return true;
    snprintf(why, size, "memory %s %s %d was written", written ? "around" : "of", what, slot);
    return false;
}

static bool check_sentinels(const struct graph_run *run, char *why, size_t size)
{
    for (int i = 0; i < RUN_SLOTS; i++) {
        const bool input = i < (int)run->real->inputs.count && run->real->inputs.at[i].written;
        const bool state = i < (int)run->real->buffers.count && run->real->buffers.at[i].written;
        if (!check_intact(&run->inputs[i], input, "input", i, why, size) ||
            !check_intact(&run->states[i], state, "buffer", i, why, size) ||
            !check_intact(&run->outputs[i], true, "the caller's output", i, why, size) ||
            !check_intact(&run->memories[i], true, "fresh memory", i, why, size))
            return false;
    }
    return check_intact(&run->work, true, "the workspace", 0, why, size) &&
           check_intact(&run->tables, true, "the tables", 0, why, size);
}

bool graph_run_check(const struct graph_run *run, const struct graph *graph,
                     const struct run_tolerance *tolerances, char *why, size_t size)
{
    struct eval_results results;
    if (graph_run_eval(run, graph, &results) != PHASOR_OK)
        return snprintf(why, size, "the evaluator: %s", message_get()), false;
    bool right = check_values(run, graph, &results, tolerances, why, size) &&
                 check_sentinels(run, why, size);
    if (right && run->flag) {
        snprintf(why, size, "an index was out of range");
        right = false;
    }
    eval_free(&results);
    return right;
}
