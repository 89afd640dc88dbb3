/* fuzz_class.c - classes of plans as the cache keeps them: expressions, guards, kernels.
 *
 * They are read into a plan of two symbols, three buffers and two kernels. What is accepted is
 * written again and evaluated for several sizes, as a call does.
 */
#include "fuzz.h"

#include "../../src/executable/blob.c"
#include "../../src/specialise/class_blob.c"

enum { BUFFERS = 3, KERNELS = 2 };

static void frame_make(struct plan *plan)
{
    *plan = (struct plan){0};
    EXPECT(sizes_init(&plan->sizes, &plan->arena) == PHASOR_OK);
    const dim n = size_symbol(&plan->sizes, "n", 1, 4096, 3);
    const dim m = size_symbol(&plan->sizes, "m", 0, INT64_MAX, 5);
    size_mul(&plan->sizes, size_add(&plan->sizes, n, 1), m);
    for (int k = 0; k < KERNELS; k++)
        EXPECT(array_push(&plan->kernels, (struct kernel){0}));
    plan->buffers.count = BUFFERS; /* none is looked at */
}

static void kernel_check(const struct plan *plan, const struct kernel *kernel)
{
    EXPECT(kernel->block >= 1 && kernel->block <= BLOCK_MAX);
    EXPECT(kernel->flag_argument < 0 || kernel->flag_argument + 8 <= kernel->argument_bytes);
    EXPECT(kernel->grid < plan->sizes.nodes.count && kernel->bytes < plan->sizes.nodes.count);
    for (int i = 0; i < kernel->argument_count; i++) {
        const struct kernel_argument *argument = &kernel->arguments[i];
        EXPECT(argument->size < plan->sizes.nodes.count);
        EXPECT(argument->kind != ARGUMENT_BUFFER ||
               (argument->buffer >= 0 && argument->buffer < BUFFERS));
    }
}

static void class_check(const struct plan_class *class)
{
    static const int64_t calls[][2] = {
        {3, 5}, {1, 0}, {4096, 1}, {7, INT64_MAX}, {INT64_MAX, INT64_MAX}, {INT64_MIN, -1}};
    const struct plan *plan = class->plan;
    struct text again = {0};
    int64_t *values = malloc(plan->sizes.nodes.count * sizeof *values);
    EXPECT(values && class_write(class, &again) == PHASOR_OK);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (sizes_evaluate(&plan->sizes, calls[i], values))
            sizes_guards_hold(&plan->sizes, values);
    for (size_t k = 0; k < plan->kernels.count; k++)
        kernel_check(plan, &plan->kernels.at[k]);
    free(values);
    text_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct plan plan;
    frame_make(&plan);
    struct plan_class class = {.plan = &plan, .planned = plan.sizes.nodes.count};
    phasor_status status;
    char *copy = text_copy(bytes, nbytes);
    if (class_read(&class, copy, nbytes, &status))
        class_check(&class);
    EXPECT(status == PHASOR_OK);
    free(copy);
    arena_free(&class.recipe.arena);
    array_free(&plan.kernels);
    sizes_free(&plan.sizes);
    arena_free(&plan.arena);
    return 0;
}
