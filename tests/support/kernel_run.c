/* kernel_run.c - see kernel_run.h. */
#include "kernel_run.h"

#include "base/memory.h"
#include "eval/convert.h"
#include "graph/element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int64_t tensor_count(const DLTensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->ndim; d++)
        count *= t->shape[d];
    return count;
}

bool case_input(const struct case_run *c, int slot, phasor_value *out)
{
    char name[64];
    snprintf(name, sizeof name, "input_%d", slot);
    return tensors_find(c->inputs, name, out);
}

bool case_expected(const struct case_run *c, int slot, phasor_value *out)
{
    char name[64];
    snprintf(name, sizeof name, "output_%d", slot);
    return tensors_find(c->outputs, name, out);
}

/* A complex tensor counts as its pairs. */
static void tensor_shape(const DLTensor *t, struct call_tensor *out)
{
    *out = (struct call_tensor){.rank = t->ndim, .alignment = 16};
    memcpy(out->sizes, t->shape, (size_t)t->ndim * sizeof(int64_t));
    if (t->dtype.code == kDLComplex)
        out->sizes[out->rank++] = 2;
    int64_t stride = 1;
    for (int d = out->rank - 1; d >= 0; d--) {
        out->strides[d] = stride;
        stride *= out->sizes[d] > 1 ? out->sizes[d] : 1;
    }
}

static phasor_status read_call(struct case_run *c)
{
    const int count = (int)c->program.graph.inputs.count;
    c->call.input_count = count;
    c->call.inputs = NEW(&c->arena, struct call_tensor, count);
    c->call.integers = NEW(&c->arena, int64_t, count);
    if (!c->call.inputs || !c->call.integers)
        return fail_memory();
    for (int i = 0; i < count; i++) {
        phasor_value v;
        c->call.inputs[i].rank = -1;
        if (!case_input(c, i, &v))
            return fail(PHASOR_ERROR_FILE, "%s: no input_%d", c->name, i);
        if (v.kind == PHASOR_TENSOR)
            tensor_shape(v.tensor, &c->call.inputs[i]);
        else if (v.kind == PHASOR_INT)
            c->call.integers[i] = v.integer;
    }
    return PHASOR_OK;
}

phasor_status case_open(struct case_run *c, const char *directory, const char *kind, int set,
                        const struct rewrite_options *options)
{
    char path[1024];
    *c = (struct case_run){0};
    const char *slash = strrchr(directory, '/');
    snprintf(c->name, sizeof c->name, "%s/%s/%d", slash ? slash + 1 : directory, kind, set);
    snprintf(path, sizeof path, "%s/%s.pt2", directory, kind);
    TRY(load_program(path, NULL, &c->program));
    snprintf(path, sizeof path, "%s/inputs_%d.safetensors", directory, set);
    TRY(tensors_read(path, &c->inputs));
    snprintf(path, sizeof path, "%s/outputs_%d.safetensors", directory, set);
    TRY(tensors_read(path, &c->outputs));
    TRY(read_call(c));
    for (size_t i = 0; i < c->program.refusals.count; i++)
        if (!array_push(&c->refusals, c->program.refusals.at[i]))
            return fail_memory();
    TRY(graph_init(&c->real, &c->program.arena, &c->program.sizes, c->program.graph.name));
    return rewrite_program(&c->program.graph, &c->real, options, &c->refusals, &c->rewritten);
}

static void free_all(void **blocks, size_t count)
{
    for (size_t i = 0; blocks && i < count; i++)
        memory_free(blocks[i]);
}

void case_close(struct case_run *c)
{
    free_all(c->inputs_copy, c->real.inputs.count);
    free_all(c->states, c->real.buffers.count);
    free_all(c->memories, (size_t)c->plan.memory_count);
    memory_free(c->work);
    memory_free(c->tables);
    plan_free(&c->plan);
    tensors_close(c->inputs);
    tensors_close(c->outputs);
    graph_free(&c->real);
    array_free(&c->refusals);
    load_free(&c->program);
    arena_free(&c->arena);
}

phasor_status case_plan(struct case_run *c, const struct templates *templates)
{
    TRY(plan_make(&c->program.graph, &c->real, &c->call, &c->options, &c->plan));
    return codegen_plan(&c->plan, templates);
}

/* -- running ----------------------------------------------------------------------------------- */

static phasor_status allocate(struct case_run *c)
{
    c->inputs_copy = NEW(&c->arena, void *, c->real.inputs.count);
    c->states = NEW(&c->arena, void *, c->real.buffers.count);
    c->memories = NEW(&c->arena, void *, c->plan.memory_count);
    c->work = memory_new((size_t)c->plan.work_bytes);
    c->tables = memory_new((size_t)c->plan.table_bytes);
    if (!c->inputs_copy || !c->states || !c->memories || !c->work || !c->tables)
        return fail_memory();
    for (int m = 0; m < c->plan.memory_count; m++)
        if (!(c->memories[m] = memory_new((size_t)c->plan.memories[m])))
            return fail_memory();
    for (size_t i = 0; i < c->real.inputs.count; i++) {
        phasor_value v;
        if (!case_input(c, (int)i, &v) || v.kind != PHASOR_TENSOR)
            continue;
        const size_t nbytes = (size_t)tensor_count(v.tensor) * v.tensor->dtype.bits / 8;
        c->inputs_copy[i] = memory_new(nbytes);
        if (!c->inputs_copy[i])
            return fail_memory();
        memcpy(c->inputs_copy[i], (char *)v.tensor->data + v.tensor->byte_offset, nbytes);
    }
    for (size_t i = 0; i < c->real.buffers.count; i++) {
        const struct storage *s = c->real.buffers.at[i].initial->storage;
        if (!(c->states[i] = memory_new(s->nbytes)))
            return fail_memory();
        memcpy(c->states[i], s->bytes, s->nbytes);
    }
    return PHASOR_OK;
}

static char *data_pointer(const struct data *d)
{
    return (char *)d->storage->bytes + d->offset * dtype_size(d->dtype);
}

static void *buffer_pointer(const struct case_run *c, int index)
{
    const struct buffer *b = plan_buffer(&c->plan, index);
    switch (b->kind) {
    case BUFFER_INPUT: return c->inputs_copy[b->index];
    case BUFFER_STATE: {
        const struct data *d = c->real.buffers.at[b->index].initial;
        return (char *)c->states[b->index] + d->offset * dtype_size(d->dtype);
    }
    case BUFFER_DATA:
        return data_pointer(graph_node(&c->plan.graph, (value)b->index)->attributes.data);
    case BUFFER_OUTPUT: return c->memories[b->index];
    case BUFFER_WORK: return c->work + b->offset;
    case BUFFER_TABLE: return c->tables + b->offset;
    case BUFFER_SLOT: return NULL;
    }
    return NULL;
}

static phasor_status kernel_launch(struct case_run *c, struct host_module *module, int at,
                                   const struct kernel *kernel)
{
    char arguments[4096] = {0};
    for (int i = 0; i < kernel->argument_count; i++) {
        const struct kernel_argument *argument = &kernel->arguments[i];
        int64_t bits = kernel_argument_bits(argument, plan_size(&c->plan, argument->size));
        if (argument->kind == ARGUMENT_BUFFER)
            bits = (int64_t)(intptr_t)buffer_pointer(c, argument->buffer);
        memcpy(arguments + 8 * i, &bits, 8);
    }
    if (kernel->flag_argument >= 0) {
        uint32_t *flag = &c->flag;
        memcpy(arguments + kernel->flag_argument, &flag, 8);
    }
    return host_launch(module, at, kernel->name, plan_grid(&c->plan, kernel), kernel->block,
                       arguments)
               ? PHASOR_OK
               : fail(PHASOR_ERROR_DEVICE, "%s: %s", kernel->name, host_error());
}

phasor_status case_launch(struct case_run *c, struct host_module *module, int first)
{
    TRY(allocate(c));
    const struct plan *plan = &c->plan;
    for (size_t s = 0; s < plan->steps.count; s++) {
        const struct step *step = &plan->steps.at[s];
        if (step->kind == STEP_KERNEL)
            TRY(kernel_launch(c, module, first + step->kernel.index,
                              &plan->kernels.at[step->kernel.index]));
        else if (step->kind == STEP_FILL)
            memset(buffer_pointer(c, step->fill.to), 0, (size_t)step->fill.nbytes);
        else
            memmove(buffer_pointer(c, step->copy.to), buffer_pointer(c, step->copy.from),
                    (size_t)step->copy.nbytes);
    }
    return PHASOR_OK;
}

static const char *output_memory(const struct case_run *c, const struct plan_output *o)
{
    switch (o->memory) {
    case MEMORY_FRESH: return c->memories[o->index];
    case MEMORY_INPUT: return c->inputs_copy[o->index];
    case MEMORY_STATE: {
        const struct data *d = c->real.buffers.at[o->index].initial;
        return (char *)c->states[o->index] + d->offset * dtype_size(d->dtype);
    }
    case MEMORY_DATA:
        return data_pointer(graph_node(&c->plan.graph, (value)o->index)->attributes.data);
    }
    return NULL;
}

phasor_status case_output(const struct case_run *c, int slot, struct eval_tensor *out)
{
    const struct plan_output *o = &c->plan.outputs[slot];
    const size_t nbytes = (size_t)dtype_size(o->dtype);
    *out = (struct eval_tensor){.dtype = o->dtype, .rank = o->rank, .owned = true};
    int64_t count = 1;
    for (int d = 0; d < o->rank; d++)
        count *= out->sizes[d] = o->sizes[d];
    if (!(out->bytes = memory_new((size_t)count * nbytes)))
        return fail_memory();
    const char *memory = output_memory(c, o);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = o->offset;
        for (int64_t d = o->rank - 1, rest = i; d >= 0; d--) {
            at += rest % o->sizes[d] * o->strides[d];
            rest /= o->sizes[d];
        }
        memcpy((char *)out->bytes + (size_t)i * nbytes, memory + (size_t)at * nbytes, nbytes);
    }
    return PHASOR_OK;
}

phasor_status case_eval(const struct case_run *c, const struct graph *graph, bool fma,
                        struct eval_results *out)
{
    struct eval_view inputs[64] = {0}, states[64] = {0};
    int64_t strides[64][RANK_MAX];
    bool out_of_range;
    for (size_t i = 0; i < graph->inputs.count && i < 64; i++) {
        phasor_value v;
        if (!case_input(c, (int)i, &v) || v.kind != PHASOR_TENSOR)
            continue;
        inputs[i].bytes = (char *)v.tensor->data + v.tensor->byte_offset;
        inputs[i].dtype = graph_node(graph, graph->inputs.at[i].node)->dtype;
    }
    for (size_t i = 0; i < graph->buffers.count && i < 64; i++) {
        const struct data *d = graph->buffers.at[i].initial;
        memcpy(strides[i], d->strides, (size_t)d->rank * sizeof(int64_t));
        states[i] = (struct eval_view){d->dtype, data_pointer(d), strides[i]};
    }
    const struct eval_inputs all = {inputs, (int)graph->inputs.count, states,
                                    (int)graph->buffers.count};
    return eval_graph(graph, &(struct eval_options){fma}, &all, out, &out_of_range);
}

/* -- comparing --------------------------------------------------------------------------------- */

static bool close_enough(enum dtype dtype, double got, double expected, bool loose)
{
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got);
    if (isinf(expected) || isinf(got))
        return got == expected;
    const double difference = fabs(got - expected);
    switch (dtype) {
    case DT_f64: return difference <= 1e-7 + 1e-7 * fabs(expected);
    case DT_f32:
        return loose ? difference <= 1e-4 + 1e-4 * fabs(expected)
                     : difference <= 1e-5 + 1.3e-6 * fabs(expected);
    case DT_f16: return difference <= 1e-5 + 1e-3 * fabs(expected);
    case DT_bf16: {
        int exponent;
        frexp(expected, &exponent);
        const double unit = ldexp(1, exponent - 8);
        return difference <= (unit > 1e-5 ? unit : 1e-5);
    }
    default: return got == expected;
    }
}

static double number_at(enum dtype dtype, const void *bytes, int64_t i)
{
    const struct number n = element_load(dtype, (const char *)bytes + i * dtype_size(dtype));
    return dtype_is_integer(dtype) ? (double)n.i : n.re;
}

bool case_compare(const struct eval_tensor *got, const DLTensor *expected, bool loose, char *why,
                  size_t size)
{
    struct call_tensor shape;
    enum dtype dtype;
    tensor_shape(expected, &shape);
    if (!dtype_from_dlpack(expected->dtype, &dtype))
        return snprintf(why, size, "a dtype that is none of ours"), false;
    dtype = dtype_info[dtype].real;
    if (got->dtype != dtype || got->rank != shape.rank)
        return snprintf(why, size, "%s of rank %d; expected %s of rank %d", dtype_text(got->dtype),
                        got->rank, dtype_text(dtype), shape.rank),
               false;
    int64_t count = 1;
    for (int d = 0; d < shape.rank; d++) {
        if (got->sizes[d] != shape.sizes[d])
            return snprintf(why, size, "dim %d is %" PRId64 "; expected %" PRId64, d, got->sizes[d],
                            shape.sizes[d]),
                   false;
        count *= shape.sizes[d];
    }
    const char *bytes = (const char *)expected->data + expected->byte_offset;
    for (int64_t i = 0; i < count; i++) {
        const double a = number_at(dtype, got->bytes, i), b = number_at(dtype, bytes, i);
        if (!close_enough(dtype, a, b, loose))
            return snprintf(why, size, "element %" PRId64 " is %.9g; expected %.9g", i, a, b),
                   false;
    }
    return true;
}

bool tensors_equal_bits(const struct eval_tensor *a, const struct eval_tensor *b, char *why,
                        size_t size)
{
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++)
        count *= a->sizes[d];
    const size_t nbytes = (size_t)dtype_size(a->dtype);
    for (int64_t i = 0; i < count; i++) {
        const char *x = (const char *)a->bytes + (size_t)i * nbytes,
                   *y = (const char *)b->bytes + (size_t)i * nbytes;
        const double p = number_at(a->dtype, a->bytes, i), q = number_at(b->dtype, b->bytes, i);
        if (memcmp(x, y, nbytes) != 0 && !(isnan(p) && isnan(q)))
            return snprintf(why, size, "element %" PRId64 " is %.17g; the evaluator has %.17g", i,
                            p, q),
                   false;
    }
    return true;
}

/* -- all cases --------------------------------------------------------------------------------- */

static void folder_each(const char *name, case_function *function)
{
    static const char *const forms[] = {"plain", "core"};
    char directory[1024], path[1100];
    snprintf(directory, sizeof directory, "%s/%s", PHASOR_TEST_CASES, name);
    for (int set = 0; set < 8; set++) {
        snprintf(path, sizeof path, "%s/inputs_%d.safetensors", directory, set);
        if (access(path, R_OK) != 0)
            break;
        for (int form = 0; form < 2; form++) {
            snprintf(path, sizeof path, "%s/%s.pt2", directory, forms[form]);
            if (access(path, R_OK) == 0)
                function(directory, forms[form], set);
        }
    }
}

void cases_each(case_function *function)
{
    struct dirent **entries;
    const int count = scandir(PHASOR_TEST_CASES, &entries, NULL, alphasort);
    const char *only = getenv("PHASOR_TEST_ONLY");
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] != '.' && !strchr(name, '.') && (!only || strcmp(only, name) == 0))
            folder_each(name, function);
        free(entries[i]);
    }
    free(entries);
}
