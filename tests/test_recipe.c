/* test_recipe.c - a plan as bytes: written and read back the same, and never believed when it is
 * damaged. */
#include "support/leak.h"

#include "../src/executable/blob.c"
#include "../src/executable/recipe.c"
#include "../src/executable/recipe_blob.c"

static const struct recipe_limits limits = {.inputs = 3, .outputs = 2, .states = 1, .values = 20};

static struct recipe sample(void)
{
    static const struct recipe_argument arguments[] = {{true, 0, 0}, {true, 1, 0}, {false, 0, 77}};
    static struct recipe_kernel kernels[] = {{.name = "phasor_mul",
                                              .operators = "mul, cast",
                                              .key_bytes = "key",
                                              .key_size = 3,
                                              .grid = 17,
                                              .block = 128,
                                              .argument_count = 3,
                                              .argument_bytes = 32,
                                              .flag_argument = 24,
                                              .arguments = arguments,
                                              .bytes = 4096},
                                             {.name = "phasor_exp",
                                              .operators = "exp",
                                              .key_bytes = "other",
                                              .key_size = 5,
                                              .grid = 1,
                                              .block = 32,
                                              .argument_bytes = 0,
                                              .flag_argument = -1,
                                              .setup = true}};
    static struct recipe_buffer buffers[] = {{BUFFER_INPUT, 2, 0, 64, 16},
                                             {BUFFER_OUTPUT, 0, 0, 64, 16},
                                             {BUFFER_WORK, 0, 256, 256, 16},
                                             {BUFFER_DATA, 19, 0, 64, 4}};
    static struct plan_output outputs[] = {{.tensor = true,
                                            .memory = MEMORY_FRESH,
                                            .dtype = DT_f32,
                                            .rank = 2,
                                            .sizes = {4, 4},
                                            .strides = {4, 1},
                                            .scalar_buffer = -1},
                                           {.index = -1, .integer = 5, .scalar_buffer = -1}};
    static struct recipe_step steps[] = {{.kind = STEP_KERNEL, .hoisted = true, .kernel = 1},
                                         {.kind = STEP_KERNEL, .kernel = 0},
                                         {.kind = STEP_COPY, .from = 0, .to = 1, .nbytes = 64},
                                         {.kind = STEP_FILL, .to = 1, .nbytes = 64}};
    static int64_t memories[] = {64};
    static struct recipe_pair pairs[] = {{0, 2}};
    return (struct recipe){.kernels = kernels,
                           .steps = steps,
                           .step_count = 4,
                           .buffers = buffers,
                           .outputs = outputs,
                           .memories = memories,
                           .in_place = pairs,
                           .kernel_count = 2,
                           .buffer_count = 4,
                           .output_count = 2,
                           .memory_count = 1,
                           .in_place_count = 1,
                           .work_bytes = 512,
                           .table_bytes = 0};
}

static struct text sample_bytes(void)
{
    const struct recipe recipe = sample();
    struct text bytes = {0};
    cr_assert_eq(recipe_write(&recipe, &bytes), PHASOR_OK);
    return bytes;
}

/* A copy of exactly that size, so that the sanitizer sees a read behind it. */
static bool read_copy(const void *bytes, size_t nbytes, struct recipe *out)
{
    phasor_status status;
    void *copy = malloc(nbytes ? nbytes : 1);
    memcpy(copy, bytes, nbytes);
    const bool read = recipe_read(out, copy, nbytes, &limits, &status);
    cr_assert_eq(status, PHASOR_OK);
    free(copy);
    return read;
}

Test(recipe, comes_back_the_same)
{
    struct text bytes = sample_bytes(), again = {0};
    struct recipe recipe;
    cr_assert(read_copy(bytes.at, bytes.length, &recipe));
    cr_assert_str_eq(recipe.kernels[0].name, "phasor_mul");
    cr_assert_eq(recipe.kernels[0].arguments[2].size, 77);
    cr_assert_eq(recipe.steps[2].kind, STEP_COPY);
    cr_assert_eq(recipe.steps[2].nbytes, 64);
    cr_assert(hash_equal(recipe.kernels[1].key, hash_bytes("other", 5)));
    cr_assert_eq(recipe_write(&recipe, &again), PHASOR_OK);
    cr_assert_eq(again.length, bytes.length);
    cr_assert_eq(memcmp(again.at, bytes.at, bytes.length), 0);
    recipe_free(&recipe);
    text_free(&bytes);
    text_free(&again);
    ASSERT_NO_LEAKS();
}

Test(recipe, cut_short)
{
    struct text bytes = sample_bytes();
    struct recipe recipe;
    for (size_t length = 0; length < bytes.length; length++)
        cr_assert_not(read_copy(bytes.at, length, &recipe), "%zu bytes", length);
    text_add(&bytes, "x");
    cr_assert_not(read_copy(bytes.at, bytes.length, &recipe));
    text_free(&bytes);
    ASSERT_NO_LEAKS();
}

static void check_indices(const struct recipe *recipe)
{
    for (int k = 0; k < recipe->kernel_count; k++) {
        const struct recipe_kernel *kernel = &recipe->kernels[k];
        cr_assert(kernel->flag_argument <= kernel->argument_bytes - 8 || kernel->flag_argument < 0);
        cr_assert(8 * kernel->argument_count <= kernel->argument_bytes);
        for (int i = 0; i < kernel->argument_count; i++)
            cr_assert(!kernel->arguments[i].is_buffer ||
                      (unsigned)kernel->arguments[i].buffer < (unsigned)recipe->buffer_count);
    }
    for (int s = 0; s < recipe->step_count; s++) {
        const struct recipe_step *step = &recipe->steps[s];
        cr_assert(step->kind != STEP_KERNEL || (unsigned)step->kernel < 2);
        cr_assert(step->kind != STEP_COPY || ((unsigned)step->from < 4 && (unsigned)step->to < 4 &&
                                              step->nbytes <= recipe->buffers[step->to].nbytes));
    }
    for (int b = 0; b < recipe->buffer_count; b++) {
        const struct recipe_buffer *buffer = &recipe->buffers[b];
        cr_assert(buffer->kind != BUFFER_INPUT || (unsigned)buffer->index < 3);
        cr_assert(buffer->kind != BUFFER_WORK ||
                  buffer->offset + buffer->nbytes <= recipe->work_bytes);
    }
}

/* Every byte set to several others: refused, or read without an index that leads outside. */
Test(recipe, damaged)
{
    static const unsigned char marks[] = {0, 1, 2, 7, 0x7f, 0x80, 0xff};
    struct text bytes = sample_bytes();
    for (size_t at = 0; at < bytes.length; at++)
        for (size_t m = 0; m < sizeof marks; m++) {
            struct recipe recipe;
            const char kept = bytes.at[at];
            bytes.at[at] = (char)marks[m];
            if (read_copy(bytes.at, bytes.length, &recipe)) {
                check_indices(&recipe);
                recipe_free(&recipe);
            }
            bytes.at[at] = kept;
        }
    text_free(&bytes);
    ASSERT_NO_LEAKS();
}
