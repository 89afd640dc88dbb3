/* upgrade.c - from generic kernels to exact ones, where literals pay.
 *
 *     generic: softmax over s25 (a loop of a.n3 steps), a rotation (a division by s25)
 *     exact:   softmax over 77 (unrolled),              the same rotation: it is as fast
 *
 * Which kernels gain is said by codegen (struct kernel, gains). The plan with literal sizes has the
 * same buffers and kernels, since plans are made by values in either mode. The new steps are
 * published by one store; the old ones live as long as the specialisation.
 */
#include "specialise/upgrade.h"

#include "specialise/job.h"
#include "specialise/ready.h"

static const struct kernel *class_kernel(const struct specialisation *spec, int k)
{
    return &spec->class->plan->kernels.at[k];
}

static bool kernel_gains(const struct specialisation *spec, int k)
{
    const struct recipe_kernel *kernel = &spec->recipe.kernels[k];
    return class_kernel(spec, k)->gains && !kernel->setup && kernel->grid;
}

bool specialisation_gains(const struct specialisation *spec)
{
    for (int k = 0; spec->class && k < spec->recipe.kernel_count; k++)
        if (kernel_gains(spec, k))
            return true;
    return false;
}

bool upgrade_is_wanted(const struct specialisation *spec)
{
    return spec->shape && !spec->makes_do && specialisation_gains(spec);
}

/* -- the plan ---------------------------------------------------------------------------------- */

static bool same_plan(const struct recipe *a, const struct recipe *b)
{
    bool same = a->kernel_count == b->kernel_count && a->buffer_count == b->buffer_count &&
                a->step_count == b->step_count;
    for (int i = 0; same && i < a->step_count; i++)
        same = a->steps[i].kind == b->steps[i].kind;
    for (int i = 0; same && i < a->buffer_count; i++)
        same =
            a->buffers[i].kind == b->buffers[i].kind && a->buffers[i].index == b->buffers[i].index;
    return same;
}

static phasor_status upgrade_plan_in(struct specialisation *spec, struct upgrade *upgrade)
{
    TRY(recipe_from_plan(spec->program, spec->shape, &upgrade->recipe));
    if (!same_plan(&spec->recipe, &upgrade->recipe))
        return fail(PHASOR_ERROR_COMPILE, "%s: the plan with literal sizes has other kernels",
                    program_logical(spec->program)->name);
    return PHASOR_OK;
}

phasor_status upgrade_plan(struct specialisation *spec)
{
    struct upgrade *upgrade = memory_new(sizeof *upgrade);
    if (!upgrade)
        return fail_memory();
    const phasor_status status = upgrade_plan_in(spec, upgrade);
    spec->upgrade = upgrade;
    if (status != PHASOR_OK) {
        upgrade_free(spec);
        spec->upgrade = NULL;
    }
    return status;
}

const struct recipe_kernel *upgrade_kernel(const struct specialisation *spec, int k)
{
    return kernel_gains(spec, k) ? &spec->upgrade->recipe.kernels[k] : NULL;
}

/* -- kernels and steps ------------------------------------------------------------------------- */

static phasor_status exact_kernels(struct specialisation *spec, struct upgrade *upgrade)
{
    struct recipe *exact = &upgrade->recipe;
    bool missing;
    upgrade->kernels = NEW(&exact->arena, struct loaded_kernel *, exact->kernel_count);
    if (!upgrade->kernels)
        return fail_memory();
    for (int k = 0; k < exact->kernel_count; k++)
        if (kernel_gains(spec, k))
            TRY(kernel_get(spec->program->runtime, &exact->kernels[k], &upgrade->kernels[k],
                           &missing));
    return PHASOR_OK;
}

/* The exact kernels where there are any, and the buffers as the generic ones use them. */
static phasor_status steps_swap(struct specialisation *spec, struct upgrade *upgrade)
{
    struct recipe merged = upgrade->recipe;
    struct arena *arena = &upgrade->recipe.arena;
    struct loaded_kernel **kernels = NEW(arena, struct loaded_kernel *, merged.kernel_count);
    struct ready_step *steps;
    int count;
    if (!kernels)
        return fail_memory();
    struct step_maker maker = {.program = spec->program,
                               .recipe = &merged,
                               .kernels = kernels,
                               .table = spec->table,
                               .arena = arena};
    TRY(weights_get(spec->program, &maker.weights));
    merged.buffers = spec->recipe.buffers;
    for (int k = 0; k < merged.kernel_count; k++) {
        kernels[k] = upgrade->kernels[k] ? upgrade->kernels[k] : spec->kernels[k];
        if (!upgrade->kernels[k])
            merged.kernels[k] = spec->recipe.kernels[k];
    }
    TRY(ready_steps(&maker, false, &steps, &count));
    __atomic_store_n(&spec->steps, steps, __ATOMIC_RELEASE);
    return PHASOR_OK;
}

static phasor_status upgrade_make(struct specialisation *spec)
{
    if (!spec->upgrade)
        TRY(upgrade_plan(spec));
    TRY(exact_kernels(spec, spec->upgrade));
    return spec->program->runtime->device ? steps_swap(spec, spec->upgrade) : PHASOR_OK;
}

/* True for the first who asks. */
static bool upgrade_begin(struct specialisation *spec)
{
    return !__atomic_exchange_n(&spec->upgrade_begun, true, __ATOMIC_ACQ_REL);
}

phasor_status specialisation_upgrade(struct specialisation *spec)
{
    struct device *device = spec->program->runtime->device;
    struct device_scope scope;
    if (!upgrade_begin(spec))
        return PHASOR_OK;
    if (device)
        TRY(device_enter(device, &scope));
    const phasor_status status = upgrade_make(spec);
    if (device)
        device_leave(device, &scope);
    __atomic_store_n(&spec->upgraded, status == PHASOR_OK, __ATOMIC_RELEASE);
    return status;
}

void upgrade_free(struct specialisation *spec)
{
    struct upgrade *upgrade = spec->upgrade;
    if (!upgrade)
        return;
    for (int k = 0; upgrade->kernels && k < upgrade->recipe.kernel_count; k++)
        if (upgrade->kernels[k])
            flight_release(&spec->program->runtime->kernels, &upgrade->kernels[k]->flight);
    recipe_free(&upgrade->recipe);
    memory_free(upgrade);
}
