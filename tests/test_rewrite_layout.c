/* test_rewrite_layout.c - strides and shared memory of outputs are those of the complex program:
 * each complex tensor is seen as its real view, with strides of twice as much and 1 for the
 * pair. */
#include "support/rewrite_programs.h"

#include "plan/plan.h"
#include "support/leak.h"

#include <stdio.h>

/* Dense strides of an input; the dims lie in reversed order where `turned`. */
static void strides_dense(struct call_tensor *tensor, bool turned)
{
    int64_t stride = 1;
    for (int i = 0; i < tensor->rank; i++) {
        const int d = turned ? i : tensor->rank - 1 - i;
        tensor->strides[d] = stride;
        stride *= tensor->sizes[d];
    }
}

/* Input k is turned where bit k of `turned` is set. */
static void call_make(const struct graph *graph, unsigned turned, struct call_tensor *tensors)
{
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const struct node *node = graph_node(graph, graph->inputs.at[i].node);
        tensors[i] = (struct call_tensor){.rank = node->rank, .alignment = 16};
        for (int d = 0; d < node->rank; d++)
            tensors[i].sizes[d] = graph_dim(graph, graph->inputs.at[i].node, d);
        strides_dense(&tensors[i], turned >> i & 1);
    }
}

/* What a complex tensor is in the real graph. */
static void call_widen(const struct graph *loaded, struct call_tensor *tensors)
{
    for (size_t i = 0; i < loaded->inputs.count; i++) {
        struct call_tensor *tensor = &tensors[i];
        if (!dtype_is_complex(graph_node(loaded, loaded->inputs.at[i].node)->dtype))
            continue;
        for (int d = 0; d < tensor->rank; d++)
            tensor->strides[d] *= 2;
        tensor->sizes[tensor->rank] = 2;
        tensor->strides[tensor->rank++] = 1;
    }
}

static struct layout *layouts_of(struct rewritten *r, const struct graph *graph,
                                 struct call_tensor *tensors)
{
    int64_t integers[SLOTS_MAX] = {0};
    struct layout *layouts;
    const struct call_shape call = {
        .inputs = tensors, .integers = integers, .input_count = (int)graph->inputs.count};
    cr_assert_eq(layout_infer(graph, &call, &r->arena, &layouts), PHASOR_OK, "%s", message_get());
    return layouts;
}

/* The slot whose memory it is: an input, else the first output with the same root. */
static int memory_of(const struct graph *graph, const struct layout *layouts, value v)
{
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i].node == layouts[v].root)
            return -1 - (int)i;
    for (size_t i = 0; i < graph->outputs.count; i++)
        if (layouts[graph->outputs.at[i].node].root == layouts[v].root)
            return (int)i;
    return -1000;
}

static void check_layouts(struct rewritten *r, const char *text, unsigned turned)
{
    struct call_tensor tensors[SLOTS_MAX];
    call_make(&r->loaded, turned, tensors);
    const struct layout *before = layouts_of(r, &r->loaded, tensors);
    call_widen(&r->loaded, tensors);
    const struct layout *after = layouts_of(r, &r->real, tensors);
    for (size_t i = 0; i < r->loaded.outputs.count; i++) {
        const value v = r->loaded.outputs.at[i].node, w = r->real.outputs.at[i].node;
        const struct node *node = graph_node(&r->loaded, v);
        const int factor = dtype_is_complex(node->dtype) ? 2 : 1;
        for (int d = 0; d < node->rank; d++)
            if (graph_dim(&r->loaded, v, d) > 1)
                cr_assert_eq(after[w].strides[d], factor * before[v].strides[d],
                             "inputs %x: stride %d of %s is %ld, not %ld\n%s", turned, d,
                             node->name, (long)after[w].strides[d],
                             (long)(factor * before[v].strides[d]), text);
        cr_assert_eq(memory_of(&r->loaded, before, v), memory_of(&r->real, after, w),
                     "memory of %s in\n%s", node->name, text);
    }
}

Test(rewrite_layout, outputs_keep_strides_and_memory)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct rewritten r;
        rewritten_open(&r, programs[i].body, PHASOR_RULES_ALL, true);
        cr_assert(r.done);
        for (unsigned turned = 0; turned < 8; turned++)
            check_layouts(&r, programs[i].body, turned);
        rewritten_close(&r);
    }
    ASSERT_NO_LEAKS();
}

Test(rewrite_layout, functions_keep_strides)
{
    for (int op = OP_none + 1; op < OP_COUNT; op++) {
        const struct op_info *info = &op_info[op];
        char text[512];
        struct rewritten r;
        if (info->kind != KIND_MAP || info->complex == COMPLEX_NEVER || info->type == TYPE_CAST ||
            info->type == TYPE_MAKE)
            continue;
        snprintf(text, sizeof text,
                 "phasor 1 \"%s\"\ninput x: c64[4, 3]\ninput y: c64[4, 3]\ninput m: bool[4, 3]\nr "
                 "= %s(%s)\n"
                 "output r\n",
                 info->name, info->name,
                 info->type == TYPE_PICK ? "m, x, y"
                 : info->arity == 2      ? "x, y"
                                         : "x");
        rewritten_open(&r, text, PHASOR_RULES_ALL, true);
        for (unsigned turned = 0; turned < 8; turned++)
            check_layouts(&r, text, turned);
        rewritten_close(&r);
    }
    ASSERT_NO_LEAKS();
}
