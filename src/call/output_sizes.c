/* output_sizes.c - phasor_program_output_sizes: what the outputs will be, before anything is run.
 *
 *     q: f32[2, s25], called with [2, 7]   ->   output_0: f32[7, 2], strides 1, 7
 *
 * The loaded graph with the sizes of the inputs, and the strides that eager gives: no kernel, no
 * device and no memory of a tensor is looked at. */
#include "call/call.h"
#include "plan/plan.h"

#include <string.h>

_Static_assert((int)PHASOR_RANK_MAX == (int)RANK_MAX, "the header's is the graph's");

static phasor_status graph_for(struct call *call, struct arena *arena, struct plan *bound,
                               struct layout **layouts)
{
    const struct graph *logical = program_logical(call->program);
    int64_t *values = NEW(arena, int64_t, logical->sizes->symbols.count);
    struct call_shape pairs, shape;
    if (!values)
        return fail_memory();
    TRY(call_describe(call, false, arena, &pairs));
    TRY(call_describe(call, true, arena, &shape));
    TRY(bind_symbols(logical, &pairs, values));
    TRY(bind_graph(bound, logical, values, BIND_LITERALS));
    return layout_infer(&bound->graph, &shape, arena, layouts);
}

/* A slot that is copied out of an input has no gaps. */
static void strides_copied(phasor_output_info *out)
{
    int64_t stride = 1;
    for (int d = out->rank - 1; d >= 0; d--) {
        out->strides[d] = stride;
        stride *= out->sizes[d] > 1 ? out->sizes[d] : 1;
    }
}

static bool is_of_input(const struct call *call, const struct graph *graph, value root)
{
    const struct node *n = graph_node(graph, root);
    return n->op == OP_input && call->program->inputs[n->attributes.index].kind == PHASOR_TENSOR;
}

static void output_describe(const struct call *call, const struct graph *graph, int index,
                            const struct layout *layouts, phasor_output_info *out)
{
    const struct graph_output *output = &graph->outputs.at[index];
    out->kind = output->kind;
    if (output->kind == PHASOR_INT && !output->node)
        out->integer = size_value(graph->sizes, output->size);
    if (output->kind == PHASOR_INT && output->constant)
        out->integer = output->expected.integer;
    if (output->kind != PHASOR_TENSOR)
        return;
    const struct node *n = graph_node(graph, output->node);
    out->dtype = dtype_to_dlpack(n->dtype);
    out->rank = n->rank;
    for (int d = 0; d < n->rank; d++) {
        out->sizes[d] = graph_dim(graph, output->node, d);
        out->strides[d] = layouts[output->node].strides[d];
    }
    if (call->program->runtime->options.own_outputs &&
        is_of_input(call, graph, layouts[output->node].root))
        strides_copied(out);
}

phasor_status phasor_program_output_sizes(phasor_program *program, const phasor_value *inputs,
                                          int input_count, phasor_output_info *outputs,
                                          int output_count)
{
    struct call call;
    struct arena arena = {0};
    struct plan bound = {0};
    struct layout *layouts = NULL;
    NOT_NULL(program);
    TRY(program_check_runnable(program));
    if (output_count != program->output_count)
        return fail(PHASOR_ERROR_INPUT, "room for %d outputs; %s has %d", output_count,
                    program_logical(program)->name, program->output_count);
    if (output_count) {
        NOT_NULL(outputs);
        TRY(struct_check("phasor_output_info", outputs[0].size, sizeof *outputs));
    }
    phasor_status status = call_read(&call, program, CALL_SHAPES, inputs, input_count, NULL, 0);
    if (status == PHASOR_OK)
        status = graph_for(&call, &arena, &bound, &layouts);
    for (int i = 0; status == PHASOR_OK && i < output_count; i++) {
        const size_t size = outputs[0].size;
        phasor_output_info info = {.size = size};
        output_describe(&call, &bound.graph, i, layouts, &info);
        memcpy((char *)outputs + (size_t)i * size, &info, size);
    }
    call_free(&call);
    plan_free(&bound);
    arena_free(&arena);
    return status;
}
