/* recipe.c - see recipe.h: from a plan with sources to a recipe.
 *
 * Which outputs may be written over which inputs is decided here, on the graph: a walk from what a kernel stores down to
 * the input, through operators that leave every element where it is. Any other way there, and any other kernel that reads
 * the input, forbids it.
 */
#include "runtime/recipe.h"

#include "runtime/walk.h"

#include <string.h>

void recipe_free(struct recipe *recipe)
{
    arena_free(&recipe->arena);
    *recipe = (struct recipe){0};
}

/* -- kernels --------------------------------------------------------------------------------------------------- */

static phasor_status make_arguments(struct recipe *recipe, const struct plan *plan, const struct kernel *from,
                                    struct recipe_kernel *to)
{
    struct recipe_argument *arguments = NEW(&recipe->arena, struct recipe_argument, from->argument_count);
    if (!arguments)
        return fail_memory();
    for (int i = 0; i < from->argument_count; i++) {
        const struct kernel_argument *argument = &from->arguments[i];
        arguments[i].is_buffer = argument->is_buffer;
        if (argument->is_buffer)
            arguments[i].buffer = argument->buffer;
        else
            arguments[i].size = size_value(&plan->sizes, argument->size);
    }
    to->arguments = arguments;
    to->argument_count = from->argument_count;
    return PHASOR_OK;
}

/* The templates' hash and the source without device.cuh, for which that hash stands. */
static phasor_status make_key(struct recipe *recipe, struct hash templates, struct recipe_kernel *kernel)
{
    static const char mark[] = "#line 1 \"prologue\"";
    const char *rest = strstr(kernel->source, mark);
    rest = rest ? rest : kernel->source;
    const size_t length = strlen(rest);
    char *key = arena_new(&recipe->arena, sizeof templates + length);
    if (!key)
        return fail_memory();
    memcpy(key, &templates, sizeof templates);
    memcpy(key + sizeof templates, rest, length);
    kernel->key_bytes = key;
    kernel->key_size = sizeof templates + length;
    kernel->key = hash_bytes(key, kernel->key_size);
    return PHASOR_OK;
}

static phasor_status make_kernel(struct recipe *recipe, const struct plan *plan, const struct kernel *from,
                                 struct hash templates, struct recipe_kernel *to)
{
    *to = (struct recipe_kernel){.setup = from->setup, .grid = from->grid, .block = from->block, .bytes = from->bytes,
                                 .argument_bytes = from->argument_bytes, .flag_argument = from->flag_argument};
    to->name = arena_string(&recipe->arena, from->name);
    to->operators = arena_string(&recipe->arena, from->operators);
    to->source = arena_string(&recipe->arena, from->source);
    if (!to->name || !to->operators || !to->source)
        return fail_memory();
    TRY(make_arguments(recipe, plan, from, to));
    return make_key(recipe, templates, to);
}

/* -- in place -------------------------------------------------------------------------------------------------- */

static bool kernel_reads(const struct recipe_kernel *kernel, int buffer)
{
    for (int i = 0; i < kernel->argument_count; i++)
        if (kernel->arguments[i].is_buffer && kernel->arguments[i].buffer == buffer)
            return true;
    return false;
}

/* Every way from v down to the input leaves elements where they are. Values that are kept elsewhere end a way. */
static bool reads_only_same(const struct plan *plan, value v, value store, value input, bool *seen)
{
    const struct graph *g = &plan->graph;
    const struct node *n = graph_node(g, v);
    const bool same = n->op == OP_cast || n->op == OP_clone || n->op == OP_contiguous || op_info[n->op].kind == KIND_MAP;
    if (v == input)
        return graph_same_shape(g, v, store);
    if (seen[v] || (v != store && plan->buffer_of[v] >= 0))
        return true;
    seen[v] = true;
    if ((!same || !graph_same_shape(g, v, store)) && walk_reaches(plan, v, input))
        return false;
    for (int i = 0; i < n->argument_count; i++)
        if (!reads_only_same(plan, n->arguments[i], store, input, seen))
            return false;
    return true;
}

static bool same_addresses(const struct call_tensor *a, const struct call_tensor *b)
{
    for (int d = 0; d < a->rank; d++)
        if (a->sizes[d] != b->sizes[d] || (a->sizes[d] > 1 && a->strides[d] != b->strides[d]))
            return false;
    return a->rank == b->rank;
}

/* The only kernel that reads the input stores the slot, and each element of the input is read by its writer alone. */
static bool pair_is_safe(const struct recipe *recipe, const struct plan *plan, const struct call_shape *call, int slot_buffer,
                         int input_buffer)
{
    const struct buffer *slot = &plan->buffers.at[slot_buffer], *input = &plan->buffers.at[input_buffer];
    bool safe = dtype_size(slot->dtype) == dtype_size(input->dtype) &&
                same_addresses(&call->outputs[slot->index], &call->inputs[input->index]);
    bool *seen = safe ? memory_new(plan->graph.nodes.count * sizeof *seen) : NULL;
    safe = seen != NULL;
    for (int k = 0; safe && k < recipe->kernel_count; k++) {
        const struct kernel *kernel = &plan->kernels.at[k];
        if (!kernel_reads(&recipe->kernels[k], input_buffer))
            continue;
        bool stores = false;
        for (int s = 0; s < kernel->store_count; s++)
            stores |= kernel->stores[s].buffer == slot_buffer;
        safe = stores && kernel->kind == KERNEL_MAP;
        for (int s = 0; safe && s < kernel->store_count; s++)
            safe = reads_only_same(plan, kernel->stores[s].node, kernel->stores[s].node, input->node, seen);
    }
    memory_free(seen);
    return safe;
}

static phasor_status make_pairs(struct recipe *recipe, const struct plan *plan, const struct call_shape *call)
{
    const size_t count = plan->buffers.count;
    recipe->in_place = NEW(&recipe->arena, struct recipe_pair, (size_t)call->output_count * (size_t)call->input_count + 1);
    if (!recipe->in_place)
        return fail_memory();
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < count; i++)
            if (plan->buffers.at[s].kind == BUFFER_SLOT && plan->buffers.at[i].kind == BUFFER_INPUT &&
                pair_is_safe(recipe, plan, call, (int)s, (int)i))
                recipe->in_place[recipe->in_place_count++] =
                    (struct recipe_pair){plan->buffers.at[s].index, plan->buffers.at[i].index};
    return PHASOR_OK;
}

/* -- all ------------------------------------------------------------------------------------------------------- */

static phasor_status make_rest(struct recipe *recipe, const struct plan *plan)
{
    recipe->buffers = NEW(&recipe->arena, struct recipe_buffer, plan->buffers.count);
    recipe->outputs = arena_copy(&recipe->arena, plan->outputs, (size_t)plan->output_count * sizeof *plan->outputs);
    recipe->memories = arena_copy(&recipe->arena, plan->memories, (size_t)plan->memory_count * sizeof *plan->memories);
    if (!recipe->buffers || !recipe->outputs || !recipe->memories)
        return fail_memory();
    for (size_t b = 0; b < plan->buffers.count; b++) {
        const struct buffer *from = &plan->buffers.at[b];
        recipe->buffers[b] = (struct recipe_buffer){from->kind, from->index, from->offset, from->nbytes, from->alignment};
    }
    recipe->buffer_count = (int)plan->buffers.count;
    recipe->output_count = plan->output_count;
    recipe->memory_count = plan->memory_count;
    recipe->work_bytes = plan->work_bytes;
    recipe->table_bytes = plan->table_bytes;
    return PHASOR_OK;
}

phasor_status recipe_make(struct recipe *recipe, const struct plan *plan, const struct call_shape *call, struct hash templates)
{
    recipe->kernels = NEW(&recipe->arena, struct recipe_kernel, plan->kernels.count);
    if (!recipe->kernels)
        return fail_memory();
    for (size_t k = 0; k < plan->kernels.count; k++)
        TRY(make_kernel(recipe, plan, &plan->kernels.at[k], templates, &recipe->kernels[k]));
    recipe->kernel_count = (int)plan->kernels.count;
    TRY(make_rest(recipe, plan));
    return call->outputs ? make_pairs(recipe, plan, call) : PHASOR_OK;
}
