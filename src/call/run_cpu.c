/* run_cpu.c - a call on the CPU device: evaluated, then laid out as eager PyTorch would have it.
 *
 *     evaluator: row-major results   ->   memory of each root with eager's strides, slots that show
 *                                         it
 *
 * All results exist before anything of the caller's or of the state is written: a call that fails
 * changes nothing, and an output may lie where an input is.
 */
#include "eval/eval.h"
#include "eval/strided.h"
#include "graph/element.h"
#include "call/output.h"
#include "specialise/specialise.h"

#include <string.h>

struct cpu_call {
    struct call *call;
    struct specialisation *spec;
    struct phasor_state *state;
    const struct graph *graph; /* bound */
    struct eval_results results;
    struct memory **fresh; /* by root: memory of this call's outputs */
    phasor_value *outputs;
};

/* -- copying ----------------------------------------------------------------------------------- */

static phasor_status result_write(const struct cpu_call *c, value v, char *bytes,
                                  const int64_t *strides)
{
    const struct eval_tensor *result = eval_result(&c->results, v);
    if (!result)
        return fail(PHASOR_ERROR_FILE, "value %u was not computed", v);
    const struct strided from =
        strided_new(result->dtype, result->rank, result->sizes, result->bytes);
    struct strided to = from;
    to.bytes = bytes;
    to.count = -1;
    if (result->rank)
        memcpy(to.strides, strides, (size_t)result->rank * sizeof *strides);
    return strided_copy(&to, &from);
}

static void node_sizes(const struct cpu_call *c, value v, int64_t *sizes)
{
    for (int d = 0; d < graph_node(c->graph, v)->rank; d++)
        sizes[d] = graph_dim(c->graph, v, d);
}

/* -- where an output lies ---------------------------------------------------------------------- */

struct home {
    enum memory_kind kind;
    int index;
};

static bool same_strides(const struct cpu_call *c, value v, const int64_t *a, const int64_t *b)
{
    for (int d = 0; d < graph_node(c->graph, v)->rank; d++)
        if (graph_dim(c->graph, v, d) > 1 && a[d] != b[d])
            return false;
    return true;
}

/* What the call leaves in an input or in the state is shown there, where its strides are those of
 * that memory. */
static bool home_of_written(const struct cpu_call *c, value root, struct home *out)
{
    const int64_t *strides = c->spec->layouts[root].strides;
    for (size_t i = 0; i < c->graph->inputs.count; i++)
        if (c->graph->inputs.at[i].written == root &&
            same_strides(c, root, strides, call_strides(c->call, &c->call->in[i]))) {
            *out = (struct home){MEMORY_INPUT, (int)i};
            return true;
        }
    for (size_t i = 0; i < c->graph->buffers.count; i++)
        if (c->graph->buffers.at[i].written == root &&
            same_strides(c, root, strides, c->graph->buffers.at[i].initial->strides)) {
            *out = (struct home){MEMORY_STATE, (int)i};
            return true;
        }
    return false;
}

static struct home home_of(const struct cpu_call *c, value root)
{
    const struct node *n = graph_node(c->graph, root);
    struct home home = {MEMORY_FRESH, (int)root};
    if (home_of_written(c, root, &home))
        return home;
    if (n->op == OP_input && c->call->program->inputs[n->attributes.index].kind == PHASOR_TENSOR)
        home = (struct home){MEMORY_INPUT, n->attributes.index};
    if (n->op == OP_state)
        home = (struct home){MEMORY_STATE, n->attributes.index};
    if (n->op == OP_data)
        home = (struct home){MEMORY_DATA, (int)root};
    return home;
}

static phasor_status fresh_memory(struct cpu_call *c, value root, const int64_t *strides,
                                  struct memory **out)
{
    int64_t sizes[RANK_MAX], low, high, nbytes = 0;
    const struct node *n = graph_node(c->graph, root);
    node_sizes(c, root, sizes);
    if (data_extent(n->rank, sizes, strides, &low, &high))
        nbytes = (high + 1) * dtype_size(n->dtype);
    return memory_host((size_t)nbytes, out);
}

/* -- owned outputs ----------------------------------------------------------------------------- */

static phasor_status output_fresh(struct cpu_call *c, value v, value root,
                                  struct output_tensor *tensor, struct memory **memory)
{
    if (!c->fresh[root])
        TRY(fresh_memory(c, root, c->spec->layouts[root].strides, &c->fresh[root]));
    *memory = memory_retain(c->fresh[root]);
    tensor->data = (*memory)->bytes;
    return result_write(c, v, (*memory)->bytes + tensor->byte_offset, tensor->strides);
}

/* A copy of its own, row-major. */
static phasor_status output_copied(struct cpu_call *c, value v, int64_t *strides,
                                   struct output_tensor *tensor, struct memory **memory)
{
    int64_t stride = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all of them are set */
        stride *= tensor->sizes[d] > 1 ? tensor->sizes[d] : 1;
    }
    TRY(fresh_memory(c, v, strides, memory));
    tensor->data = (*memory)->bytes;
    tensor->byte_offset = 0;
    return result_write(c, v, (*memory)->bytes, strides);
}

static phasor_status output_of_weight(struct cpu_call *c, value root, struct output_tensor *tensor,
                                      struct memory **memory)
{
    const struct data *data = graph_node(c->graph, root)->attributes.data;
    struct program_file *file = c->call->program->file;
    TRY(memory_inside((void *)data->storage->bytes, program_file_release, file, memory));
    __atomic_add_fetch(&file->references, 1, __ATOMIC_RELAXED);
    tensor->data = (*memory)->bytes;
    tensor->byte_offset += data->offset * dtype_size(data->dtype);
    return PHASOR_OK;
}

static void output_of_input(const struct cpu_call *c, int index, struct output_tensor *tensor)
{
    const phasor_value *v = &c->call->inputs[index];
    const DLTensor *input = v->kind == PHASOR_OWNED ? &v->owned->dl_tensor : v->tensor;
    tensor->data = input->data;
    tensor->byte_offset += (int64_t)input->byte_offset;
}

static void output_of_state(const struct cpu_call *c, int index, struct output_tensor *tensor,
                            struct memory **memory)
{
    *memory = memory_retain(c->state->buffers[index]);
    tensor->data = (*memory)->bytes;
    tensor->byte_offset += c->state->addresses[index] - (*memory)->bytes;
}

static phasor_status output_tensor_make(struct cpu_call *c, value v, phasor_value *out)
{
    const struct node *n = graph_node(c->graph, v);
    const struct layout *layout = &c->spec->layouts[v];
    int64_t sizes[RANK_MAX], strides[RANK_MAX];
    struct memory *memory = NULL;
    struct output_tensor tensor = {.device = {kDLCPU, 0},
                                   .dtype = n->dtype,
                                   .rank = n->rank,
                                   .sizes = sizes,
                                   .strides = strides,
                                   .byte_offset = layout->offset * dtype_size(n->dtype)};
    const struct home home = home_of(c, layout->root);
    phasor_status status = PHASOR_OK;
    node_sizes(c, v, sizes);
    memcpy(strides, layout->strides, sizeof strides);
    if (home.kind == MEMORY_FRESH)
        status = output_fresh(c, v, layout->root, &tensor, &memory);
    else if (home.kind == MEMORY_DATA)
        status = output_of_weight(c, layout->root, &tensor, &memory);
    else if (home.kind == MEMORY_STATE)
        output_of_state(c, home.index, &tensor, &memory);
    else if (c->call->program->runtime->options.own_outputs)
        status = output_copied(c, v, strides, &tensor, &memory);
    else
        output_of_input(c, home.index, &tensor);
    if (status == PHASOR_OK)
        status = output_new(&tensor, memory, &out->owned);
    memory_release(memory);
    out->kind = status == PHASOR_OK ? PHASOR_OWNED : PHASOR_NONE;
    return status;
}

/* -- outputs of both forms --------------------------------------------------------------------- */

static phasor_status output_number(const struct cpu_call *c, const struct graph_output *output,
                                   phasor_value *out)
{
    *out = (phasor_value){.kind = output->kind};
    if (output->kind == PHASOR_NONE)
        return PHASOR_OK;
    if (output->constant) {
        *out = output->expected;
        return PHASOR_OK;
    }
    if (output->kind == PHASOR_INT && !output->node) {
        out->integer = size_value(c->graph->sizes, output->size);
        return PHASOR_OK;
    }
    const struct eval_tensor *result = eval_result(&c->results, output->node);
    if (!result)
        return fail(PHASOR_ERROR_FILE, "output %s was not computed", output->name);
    const struct number number = element_load(result->dtype, result->bytes);
    const bool integer = dtype_is_integer(result->dtype);
    if (output->kind == PHASOR_INT)
        out->integer = integer ? number.i : (int64_t)number.re;
    else if (output->kind == PHASOR_BOOL)
        out->boolean = integer ? number.i != 0 : number.re != 0;
    else
        out->real = integer ? (double)number.i : number.re;
    return PHASOR_OK;
}

/* Into the caller's buffer later; what is no tensor now. */
static phasor_status output_make(struct cpu_call *c, int index)
{
    const struct graph_output *output = &c->graph->outputs.at[index];
    if (output->kind != PHASOR_TENSOR)
        return output_number(c, output, &c->outputs[index]);
    if (c->call->form == CALL_OWNED)
        return output_tensor_make(c, output->node, &c->outputs[index]);
    c->outputs[index] = c->call->outputs[index];
    return PHASOR_OK;
}

static phasor_status outputs_write(struct cpu_call *c)
{
    for (int i = 0; c->call->form == CALL_INTO && i < c->call->program->output_count; i++)
        if (c->call->program->outputs[i].kind == PHASOR_TENSOR)
            TRY(result_write(c, c->graph->outputs.at[i].node, c->call->out[i].bytes,
                             call_strides(c->call, &c->call->out[i])));
    return PHASOR_OK;
}

static phasor_status changes_write(struct cpu_call *c)
{
    for (size_t i = 0; i < c->graph->inputs.count; i++)
        if (c->graph->inputs.at[i].written)
            TRY(result_write(c, c->graph->inputs.at[i].written, c->call->in[i].bytes,
                             call_strides(c->call, &c->call->in[i])));
    for (size_t i = 0; i < c->graph->buffers.count; i++)
        if (c->graph->buffers.at[i].written)
            TRY(result_write(c, c->graph->buffers.at[i].written, c->state->addresses[i],
                             c->graph->buffers.at[i].initial->strides));
    return PHASOR_OK;
}

/* -- evaluating -------------------------------------------------------------------------------- */

static void inputs_view(const struct cpu_call *c, struct eval_view *views)
{
    const struct phasor_program *program = c->call->program;
    for (int i = 0; i < program->input_count; i++) {
        const struct call_slot *in = &c->call->in[i];
        if (in->tensor)
            views[i] =
                (struct eval_view){program->inputs[i].dtype, in->bytes, call_strides(c->call, in)};
        else
            views[i] = (struct eval_view){program->inputs[i].dtype, in->bytes, NULL};
    }
}

static void states_view(const struct cpu_call *c, struct eval_view *views)
{
    for (int k = 0; k < c->state->count; k++) {
        const struct data *initial = c->graph->buffers.at[k].initial;
        views[k] = (struct eval_view){initial->dtype, c->state->addresses[k], initial->strides};
    }
}

static phasor_status evaluate(struct cpu_call *c, struct arena *scratch)
{
    const struct phasor_program *program = c->call->program;
    const struct eval_options options = {.fma = !program->runtime->options.no_fma};
    struct eval_view *inputs = NEW(scratch, struct eval_view, program->input_count);
    struct eval_view *states = NEW(scratch, struct eval_view, c->state->count);
    bool out_of_range = false;
    c->fresh = NEW(scratch, struct memory *, c->graph->nodes.count);
    c->outputs = NEW(scratch, phasor_value, program->output_count);
    if (!inputs || !states || !c->fresh || !c->outputs)
        return fail_memory();
    inputs_view(c, inputs);
    states_view(c, states);
    const struct eval_inputs given = {inputs, program->input_count, states, c->state->count};
    TRY(eval_graph(c->graph, &options, &given, &c->results, &out_of_range));
    if (out_of_range)
        __atomic_store_n(c->state->flag, 1, __ATOMIC_RELAXED);
    return PHASOR_OK;
}

static phasor_status finish(struct cpu_call *c)
{
    const int count = c->call->program->output_count;
    phasor_status status = PHASOR_OK;
    int made = 0;
    for (; status == PHASOR_OK && made < count; made++)
        status = output_make(c, made);
    if (status == PHASOR_OK)
        status = outputs_write(c);
    if (status == PHASOR_OK)
        status = changes_write(c);
    if (status == PHASOR_OK)
        memcpy(c->call->outputs, c->outputs, (size_t)count * sizeof *c->outputs);
    else if (c->call->form == CALL_OWNED)
        outputs_drop(c->outputs, made);
    return status;
}

phasor_status cpu_run(struct call *call, struct specialisation *spec, struct phasor_state *state)
{
    struct arena scratch = {0};
    struct cpu_call c = {.call = call, .spec = spec, .state = state, .graph = &spec->bound.graph};
    const bool locked = state->count > 0;
    if (locked)
        pthread_mutex_lock(&state->lock);
    phasor_status status = evaluate(&c, &scratch);
    if (status == PHASOR_OK)
        status = finish(&c);
    if (locked)
        pthread_mutex_unlock(&state->lock);
    for (size_t v = 0; c.fresh && v < c.graph->nodes.count; v++)
        memory_release(c.fresh[v]);
    eval_free(&c.results);
    arena_free(&scratch);
    return status;
}
