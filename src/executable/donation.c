/* donation.c - which outputs may be written over which inputs.
 *
 *     y = x * 2 + 1, y with the strides of x          allowed: a thread reads the elements it
 *                                                     writes
 *     y = flip(x), or z = sum(x) as well as y         not: others still want what was there
 *
 * From the step that writes the output on, nobody reads the input but that step, and it reads each
 * element for the same element of the output. What is not sure is not allowed.
 */
#include "executable/recipe.h"

static bool same_addresses(const struct call_tensor *a, const struct call_tensor *b)
{
    for (int d = 0; d < a->rank && a->rank == b->rank; d++)
        if (a->sizes[d] != b->sizes[d] || (a->sizes[d] > 1 && a->strides[d] != b->strides[d]))
            return false;
    return a->rank == b->rank;
}

static bool reads_safely(const struct step *step, int input, int slot)
{
    for (int i = 0; i < step->read_count; i++)
        if (step->reads[i].buffer == input && step->reads[i].elementwise != slot)
            return false;
    return true;
}

static bool writes(const struct step *step, int buffer)
{
    for (int i = 0; i < step->write_count; i++)
        if (step->writes[i] == buffer)
            return true;
    return false;
}

/* Whether the program changes this input: its memory is wanted for that. */
static bool is_changed(const struct plan *plan, int index)
{
    for (size_t s = 0; s < plan->steps.count; s++)
        for (int i = 0; i < plan->steps.at[s].write_count; i++) {
            const struct buffer *b = plan_buffer(plan, plan->steps.at[s].writes[i]);
            if (b->kind == BUFFER_INPUT && b->index == index)
                return true;
        }
    return false;
}

static bool pair_is_safe(const struct plan *plan, const struct call_shape *call, int slot,
                         int input)
{
    const struct buffer *to = plan_buffer(plan, slot), *from = plan_buffer(plan, input);
    size_t s = 0;
    if (to->kind != BUFFER_SLOT || from->kind != BUFFER_INPUT ||
        graph_node(&plan->graph, from->node)->op != OP_input ||
        dtype_size(to->dtype) != dtype_size(from->dtype) ||
        !same_addresses(&call->outputs[to->index], &call->inputs[from->index]) ||
        is_changed(plan, from->index))
        return false;
    while (s < plan->steps.count && !writes(&plan->steps.at[s], slot))
        s++;
    if (s == plan->steps.count)
        return false;
    for (bool first = true; s < plan->steps.count; s++, first = false)
        if (!reads_safely(&plan->steps.at[s], input, first ? slot : -2))
            return false;
    return true;
}

phasor_status recipe_find_in_place(struct recipe *recipe, const struct plan *plan,
                                   const struct call_shape *call)
{
    const size_t most = (size_t)call->output_count * (size_t)call->input_count;
    recipe->in_place = NEW(&recipe->arena, struct recipe_pair, most);
    if (!recipe->in_place)
        return fail_memory();
    for (int s = 0; s < (int)plan->buffers.count; s++)
        for (int i = 0; i < (int)plan->buffers.count; i++)
            if ((size_t)recipe->in_place_count < most && pair_is_safe(plan, call, s, i))
                recipe->in_place[recipe->in_place_count++] =
                    (struct recipe_pair){plan_buffer(plan, s)->index, plan_buffer(plan, i)->index};
    return PHASOR_OK;
}
