/* recipe.c - see recipe.h: from a plan with sources to a recipe.
 */
#include "executable/recipe.h"

#include <string.h>

void recipe_free(struct recipe *recipe)
{
    arena_free(&recipe->arena);
    *recipe = (struct recipe){0};
}

/* -- kernels ----------------------------------------------------------------------------------- */

static phasor_status make_arguments(struct recipe *recipe, const struct plan *plan,
                                    const struct kernel *from, struct recipe_kernel *to)
{
    struct recipe_argument *arguments =
        NEW(&recipe->arena, struct recipe_argument, from->argument_count);
    if (!arguments)
        return fail_memory();
    for (int i = 0; i < from->argument_count; i++) {
        const struct kernel_argument *argument = &from->arguments[i];
        arguments[i].is_buffer = argument->kind == ARGUMENT_BUFFER;
        if (arguments[i].is_buffer)
            arguments[i].buffer = argument->buffer;
        else
            arguments[i].size = kernel_argument_bits(argument, plan_size(plan, argument->size));
    }
    to->arguments = arguments;
    to->argument_count = from->argument_count;
    return PHASOR_OK;
}

/* The head, which stands for what is not in the source's own text, and the source without
 * device.cuh. */
static phasor_status make_key(struct recipe *recipe, struct hash head, struct recipe_kernel *kernel)
{
    static const char mark[] = "#line 1 \"prologue\"";
    const char *rest = strstr(kernel->source, mark);
    rest = rest ? rest : kernel->source;
    const size_t length = strlen(rest);
    char *key = arena_new(&recipe->arena, sizeof head + length);
    if (!key)
        return fail_memory();
    memcpy(key, &head, sizeof head);
    memcpy(key + sizeof head, rest, length);
    kernel->key_bytes = key;
    kernel->key_size = sizeof head + length;
    kernel->key = hash_bytes(key, kernel->key_size);
    return PHASOR_OK;
}

static phasor_status make_kernel(struct recipe *recipe, const struct plan *plan,
                                 const struct kernel *from, struct hash head,
                                 struct recipe_kernel *to)
{
    *to = (struct recipe_kernel){.setup = from->setup,
                                 .grid = plan_grid(plan, from),
                                 .block = from->block,
                                 .bytes = plan_size(plan, from->bytes),
                                 .argument_bytes = from->argument_bytes,
                                 .flag_argument = from->flag_argument};
    to->name = arena_string(&recipe->arena, from->name);
    to->operators = arena_string(&recipe->arena, from->operators);
    to->source = arena_string(&recipe->arena, from->source);
    if (!to->name || !to->operators || !to->source)
        return fail_memory();
    TRY(make_arguments(recipe, plan, from, to));
    return make_key(recipe, head, to);
}

/* -- buffers, outputs, memories ---------------------------------------------------------------- */

static phasor_status make_steps(struct recipe *recipe, const struct plan *plan)
{
    recipe->steps = NEW(&recipe->arena, struct recipe_step, plan->steps.count);
    if (!recipe->steps)
        return fail_memory();
    for (size_t i = 0; i < plan->steps.count; i++) {
        const struct step *from = &plan->steps.at[i];
        struct recipe_step *to = &recipe->steps[i];
        *to = (struct recipe_step){.kind = from->kind, .hoisted = from->hoisted};
        if (from->kind == STEP_KERNEL) {
            to->kernel = from->kernel.index;
        } else if (from->kind == STEP_LIBRARY) {
            to->library = from->library;
        } else if (from->kind == STEP_FILL) {
            to->to = from->fill.to;
            to->nbytes = from->fill.nbytes;
        } else {
            to->from = from->copy.from;
            to->to = from->copy.to;
            to->nbytes = from->copy.nbytes;
        }
    }
    recipe->step_count = (int)plan->steps.count;
    return PHASOR_OK;
}

static phasor_status make_rest(struct recipe *recipe, const struct plan *plan)
{
    recipe->buffers = NEW(&recipe->arena, struct recipe_buffer, plan->buffers.count);
    recipe->outputs = arena_copy(&recipe->arena, plan->outputs,
                                 (size_t)plan->output_count * sizeof *plan->outputs);
    recipe->memories = arena_copy(&recipe->arena, plan->memories,
                                  (size_t)plan->memory_count * sizeof *plan->memories);
    if (!recipe->buffers || !recipe->outputs || !recipe->memories)
        return fail_memory();
    for (size_t b = 0; b < plan->buffers.count; b++) {
        const struct buffer *from = &plan->buffers.at[b];
        recipe->buffers[b] = (struct recipe_buffer){from->kind, from->index, from->offset,
                                                    from->nbytes, from->alignment};
    }
    recipe->buffer_count = (int)plan->buffers.count;
    recipe->output_count = plan->output_count;
    recipe->memory_count = plan->memory_count;
    recipe->work_bytes = plan->work_bytes;
    recipe->table_bytes = plan->table_bytes;
    return make_steps(recipe, plan);
}

/* -- kernels of another plan ------------------------------------------------------------------- */

static phasor_status kernel_like(struct recipe *recipe, const struct recipe_kernel *like,
                                 const struct kernel *from, const int64_t *values,
                                 struct recipe_kernel *to)
{
    const int64_t grid = values[from->grid];
    struct recipe_argument *arguments = arena_copy(
        &recipe->arena, like->arguments, (size_t)like->argument_count * sizeof *like->arguments);
    if (!arguments)
        return fail_memory();
    if (grid > INT32_MAX)
        return fail(PHASOR_ERROR_INPUT, "%s: %lld blocks; a launch has at most %d", like->name,
                    (long long)grid, INT32_MAX);
    *to = *like;
    to->grid = (uint32_t)grid;
    to->bytes = values[from->bytes];
    to->arguments = arguments;
    for (int i = 0; i < like->argument_count; i++)
        if (!arguments[i].is_buffer)
            arguments[i].size =
                kernel_argument_bits(&from->arguments[i], values[from->arguments[i].size]);
    return PHASOR_OK;
}

phasor_status recipe_make_like(struct recipe *recipe, const struct plan *plan,
                               const struct recipe *like, const struct plan *from,
                               const int64_t *values, bool setup_only)
{
    recipe->kernels = NEW(&recipe->arena, struct recipe_kernel, like->kernel_count);
    if (!recipe->kernels)
        return fail_memory();
    for (int k = 0; k < like->kernel_count; k++)
        if (like->kernels[k].setup || !setup_only)
            TRY(kernel_like(recipe, &like->kernels[k], &from->kernels.at[k], values,
                            &recipe->kernels[k]));
    recipe->kernel_count = like->kernel_count;
    return make_rest(recipe, plan);
}

/* -- all --------------------------------------------------------------------------------------- */

phasor_status recipe_make(struct recipe *recipe, const struct plan *plan, struct hash head)
{
    recipe->kernels = NEW(&recipe->arena, struct recipe_kernel, plan->kernels.count);
    if (!recipe->kernels)
        return fail_memory();
    for (size_t k = 0; k < plan->kernels.count; k++)
        TRY(make_kernel(recipe, plan, &plan->kernels.at[k], head, &recipe->kernels[k]));
    recipe->kernel_count = (int)plan->kernels.count;
    return make_rest(recipe, plan);
}
