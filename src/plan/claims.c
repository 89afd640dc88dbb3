/* claims.c - what the loader has built on, of strides and shared memory, holds for a call.
 *
 *     y = x.transpose(1, 2).contiguous(); y.mul_(2); return x, y      x: f32[2, s0, 8]
 *
 *     s0 = 5     contiguous copies, as for the example: x is as it was
 *     s0 = 1     it shows x, which eager would change: refused, for the program was loaded with a
 *                copy there
 *
 * A reshape or contiguous of which it does not matter makes no claim. And an output can show a
 * caller's tensor as complex numbers only where its pairs lie together. */
#include "plan/plan.h"

#include <inttypes.h>

/* The call as the loaded graph sees it: complex tensors without their pair dim. */
static phasor_status logical_inputs(const struct graph *logical, const struct call_shape *call,
                                    struct arena *arena, struct call_shape *out)
{
    *out = *call;
    out->inputs = arena_copy(arena, call->inputs, (size_t)call->input_count * sizeof *call->inputs);
    if (call->input_count && !out->inputs)
        return fail_memory();
    for (size_t i = 0; i < logical->inputs.count; i++) {
        const struct graph_input *input = &logical->inputs.at[i];
        struct call_tensor *tensor = &out->inputs[i];
        if (input->kind != PHASOR_TENSOR ||
            !dtype_is_complex(graph_node(logical, input->node)->dtype))
            continue;
        tensor->rank--;
        for (int d = 0; d < tensor->rank; d++)
            tensor->strides[d] /= 2;
    }
    return PHASOR_OK;
}

static phasor_status claim_check(struct layouts *layouts, const struct graph_claim *claim)
{
    static const char *const texts[] = {
        [CLAIM_SHARED] =
            "shows memory of its operand in the example, and copies it for these sizes "
            "and strides; what is written in place would go elsewhere",
        [CLAIM_COPIED] = "copies its operand in the example, and shows its memory for these sizes "
                         "and strides; what is written in place would go elsewhere",
        [CLAIM_ORDER] = "lies in memory in another order than in the example, and the program "
                        "depends on it"};
    const struct node *n = graph_node(layouts->graph, claim->node);
    if (layout_has(layouts, claim))
        return PHASOR_OK;
    return fail(PHASOR_ERROR_INPUT, "%s: %s%s%s %s", layouts->graph->name, n->name,
                claim->origin && claim->origin->line ? ", " : "",
                claim->origin && claim->origin->line ? claim->origin->line : "",
                texts[claim->kind]);
}

/* As eager refuses it. What the program has made itself lies as the exporter saw it. */
static phasor_status pairs_check(struct layouts *layouts, value v)
{
    const struct node *n = graph_node(layouts->graph, v);
    const struct node *a = graph_node(layouts->graph, n->arguments[0]);
    const struct layout *layout = layout_of(layouts, n->arguments[0]);
    if (!layout)
        return fail_memory();
    const struct node *root = graph_node(layouts->graph, layout->root);
    if (root->op != OP_input)
        return PHASOR_OK;
    if (layout->strides[n->rank] != 1)
        return fail(PHASOR_ERROR_INPUT,
                    "input %s: %s needs a last dim of stride 1, and it is %" PRId64
                    " for the strides of this call",
                    root->name, n->name, layout->strides[n->rank]);
    for (int d = 0; d < n->rank; d++)
        if (layout->strides[d] % 2 != 0 && size_value(layouts->graph->sizes, a->shape[d]) > 1)
            return fail(PHASOR_ERROR_INPUT,
                        "input %s: %s needs an even stride in dim %d, and it is %" PRId64
                        " for the strides of this call",
                        root->name, n->name, d, layout->strides[d]);
    return layout->offset % 2 == 0
               ? PHASOR_OK
               : fail(PHASOR_ERROR_INPUT,
                      "input %s: %s begins at element %" PRId64 " of it, between two pairs",
                      root->name, n->name, layout->offset);
}

/* Computing reads pairs wherever they lie; an output that shows them cannot. */
static phasor_status output_check(struct layouts *layouts, value v)
{
    const struct graph *graph = layouts->graph;
    while (v != 0 && op_info[graph_node(graph, v)->op].kind == KIND_VIEW &&
           op_info[graph_node(graph, v)->op].memory != MEMORY_COPY) {
        if (graph_node(graph, v)->op == OP_view_as_complex)
            TRY(pairs_check(layouts, v));
        v = graph_node(graph, v)->arguments[0];
    }
    return PHASOR_OK;
}

static phasor_status check_all(struct layouts *layouts, const struct graph *logical)
{
    for (size_t i = 0; i < logical->claims.count; i++)
        TRY(claim_check(layouts, &logical->claims.at[i]));
    for (size_t i = 0; i < logical->outputs.count; i++)
        TRY(output_check(layouts, logical->outputs.at[i].node));
    return PHASOR_OK;
}

static phasor_status bound_check(const struct graph *logical, const struct call_shape *call,
                                 const int64_t *symbol_values, struct arena *arena)
{
    const size_t symbols = logical->sizes->symbols.count;
    struct sizes sizes = {0};
    struct graph bound = {0};
    struct call_shape shape;
    dim *replacement = NEW(arena, dim, symbols);
    if (!replacement)
        return fail_memory();
    TRY(logical_inputs(logical, call, arena, &shape));
    phasor_status status = sizes_init(&sizes, arena);
    if (status == PHASOR_OK)
        status = graph_init(&bound, arena, &sizes, logical->name);
    for (size_t s = 0; s < symbols; s++)
        replacement[s] = size_literal(&sizes, symbol_values[s]);
    if (status == PHASOR_OK)
        status = graph_rebind(&bound, logical, replacement);
    struct layouts layouts = {.graph = &bound, .call = &shape};
    if (status == PHASOR_OK)
        status = check_all(&layouts, logical);
    else if (status == PHASOR_ERROR_FILE)
        status = PHASOR_OK; /* bind_graph says what these sizes do not fit */
    layouts_free(&layouts);
    graph_free(&bound);
    sizes_free(&sizes);
    return status;
}

static bool is_row_major(const struct call_tensor *tensor)
{
    int64_t expected = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        if (tensor->sizes[d] != 1 && tensor->strides[d] != expected)
            return false;
        expected *= tensor->sizes[d];
    }
    return true;
}

static bool has_view_as_complex(const struct graph *graph)
{
    for (value v = 1; v < graph->nodes.count; v++)
        if (graph_node(graph, v)->op == OP_view_as_complex)
            return true;
    return false;
}

phasor_status claims_check(const struct graph *logical, const struct call_shape *call,
                           const int64_t *symbol_values)
{
    bool plain = true;
    struct arena arena = {0};
    for (int i = 0; i < call->input_count; i++)
        plain = plain && is_row_major(&call->inputs[i]);
    if (logical->claims.count == 0 && (plain || !has_view_as_complex(logical)))
        return PHASOR_OK;
    const phasor_status status = bound_check(logical, call, symbol_values, &arena);
    arena_free(&arena);
    return status;
}
