/* fuzz_recipe.c - plans as the cache keeps them.
 *
 * What is accepted is written back and must give the same bytes, and no index leads outside of what
 * the limits say.
 */
#include "fuzz.h"

#include "../../src/executable/blob.c"
#include "../../src/executable/recipe.c"
#include "../../src/executable/recipe_blob.c"

static const struct recipe_limits limits = {.inputs = 3, .outputs = 2, .states = 1, .values = 20};

static void kernel_check(const struct recipe *recipe, const struct recipe_kernel *kernel)
{
    EXPECT(kernel->block >= 1 && kernel->block <= BLOCK_MAX);
    EXPECT(kernel->flag_argument < 0 || kernel->flag_argument + 8 <= kernel->argument_bytes);
    EXPECT(8 * kernel->argument_count <= kernel->argument_bytes);
    for (int i = 0; i < kernel->argument_count; i++)
        EXPECT(!kernel->arguments[i].is_buffer ||
               (kernel->arguments[i].buffer >= 0 &&
                kernel->arguments[i].buffer < recipe->buffer_count));
}

static void buffer_check(const struct recipe *recipe, const struct recipe_buffer *buffer)
{
    const int64_t end = buffer->offset + buffer->nbytes;
    EXPECT(buffer->index >= 0 && buffer->offset >= 0 && buffer->nbytes >= 0);
    EXPECT(buffer->kind != BUFFER_INPUT || buffer->index < limits.inputs);
    EXPECT(buffer->kind != BUFFER_STATE || buffer->index < limits.states);
    EXPECT(buffer->kind != BUFFER_DATA || buffer->index < limits.values);
    EXPECT(buffer->kind != BUFFER_SLOT || buffer->index < limits.outputs);
    EXPECT(buffer->kind != BUFFER_OUTPUT || buffer->index < recipe->memory_count);
    EXPECT(buffer->kind != BUFFER_WORK || end <= recipe->work_bytes);
    EXPECT(buffer->kind != BUFFER_TABLE || end <= recipe->table_bytes);
}

static void step_check(const struct recipe *recipe, const struct recipe_step *step)
{
    if (step->kind == STEP_KERNEL) {
        EXPECT(step->kernel >= 0 && step->kernel < recipe->kernel_count);
        return;
    }
    if (step->kind == STEP_LIBRARY) {
        for (int i = 0; i < 3; i++)
            EXPECT((unsigned)step->library.operands[i] < (unsigned)recipe->buffer_count);
        return;
    }
    EXPECT(step->from >= 0 && step->from < recipe->buffer_count);
    EXPECT(step->to >= 0 && step->to < recipe->buffer_count);
    EXPECT(step->nbytes >= 0 && step->nbytes <= recipe->buffers[step->to].nbytes);
    EXPECT(step->kind == STEP_FILL || step->nbytes <= recipe->buffers[step->from].nbytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct recipe recipe;
    struct text again = {0};
    phasor_status status;
    char *copy = text_copy(bytes, nbytes);
    if (recipe_read(&recipe, copy, nbytes, &limits, &status)) {
        for (int i = 0; i < recipe.kernel_count; i++)
            kernel_check(&recipe, &recipe.kernels[i]);
        for (int i = 0; i < recipe.buffer_count; i++)
            buffer_check(&recipe, &recipe.buffers[i]);
        for (int i = 0; i < recipe.step_count; i++)
            step_check(&recipe, &recipe.steps[i]);
        for (int i = 0; i < recipe.output_count; i++)
            EXPECT(recipe.outputs[i].rank <= RANK_MAX);
        EXPECT(recipe_write(&recipe, &again) == PHASOR_OK);
        recipe_free(&recipe);
    }
    EXPECT(status == PHASOR_OK);
    free(copy);
    text_free(&again);
    return 0;
}
