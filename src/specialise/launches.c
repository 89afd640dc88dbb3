/* launches.c - a recipe with its kernels loaded -> launches whose arguments are laid out, and
 * filled tables.
 *
 *     kernel mul, arguments q, freqs, output 0   ->   24 bytes: ?, address of freqs, ?   patches: q
 *                                                     at 0, output 0 at 16
 *
 * Addresses of weights and tables are the same in every call and stand in the arguments already.
 */
#include "specialise/launches.h"

#include <string.h>

enum { ARGUMENT_BYTES = 8 };

/* The address that never changes; NULL: each call has its own. */
static char *fixed_address(const struct launcher *l, const struct recipe_buffer *buffer)
{
    if (buffer->kind == BUFFER_TABLE)
        return l->table ? l->table->bytes + buffer->offset : NULL;
    if (buffer->kind != BUFFER_DATA)
        return NULL;
    const struct node *n = graph_node(program_real(l->program), (value)buffer->index);
    return l->weights[buffer->index]->bytes + n->attributes.data->offset * dtype_size(n->dtype);
}

static phasor_status argument_make(const struct launcher *l, const struct recipe_argument *argument,
                                   int at, struct launch *launch)
{
    int64_t number = argument->size;
    if (argument->is_buffer) {
        const struct recipe_buffer *buffer = &l->recipe->buffers[argument->buffer];
        if (buffer->kind == BUFFER_DATA && !l->weights[buffer->index])
            return fail(PHASOR_ERROR_FILE,
                        "the plan in the cache names value %d, which is no weight", buffer->index);
        const char *address = fixed_address(l, buffer);
        number = (int64_t)(uintptr_t)address;
        if (!address)
            launch->patches[launch->patch_count++] = (struct patch){
                .at = at, .kind = buffer->kind, .index = buffer->index, .offset = buffer->offset};
    }
    memcpy(launch->arguments + at, &number, sizeof number);
    return PHASOR_OK;
}

phasor_status launch_make(const struct launcher *l, int k, struct launch *launch)
{
    const struct recipe_kernel *kernel = &l->recipe->kernels[k];
    *launch = (struct launch){.function = l->kernels[k]->function,
                              .grid = kernel->grid,
                              .block = kernel->block,
                              .argument_bytes = kernel->argument_bytes,
                              .arguments = arena_new(l->arena, (size_t)kernel->argument_bytes),
                              .patches = NEW(l->arena, struct patch, kernel->argument_count + 1)};
    if (!launch->arguments || !launch->patches)
        return fail_memory();
    for (int i = 0; i < kernel->argument_count; i++)
        TRY(argument_make(l, &kernel->arguments[i], ARGUMENT_BYTES * i, launch));
    if (kernel->flag_argument >= 0)
        launch->patches[launch->patch_count++] =
            (struct patch){.at = kernel->flag_argument, .flag = true};
    return PHASOR_OK;
}

/* -- all --------------------------------------------------------------------------------------- */

static phasor_status launches_fill(struct specialisation *spec, bool ready_only)
{
    const struct recipe *recipe = &spec->recipe;
    struct launcher launcher = {.program = spec->program,
                                .recipe = recipe,
                                .kernels = spec->kernels,
                                .arena = &spec->recipe.arena,
                                .ready_only = ready_only};
    spec->launches = NEW(&spec->recipe.arena, struct launch, recipe->kernel_count);
    if (!spec->launches)
        return fail_memory();
    TRY(weights_get(spec->program, &launcher.weights));
    TRY(tables_make(spec, &launcher));
    for (int k = 0; k < recipe->kernel_count; k++) {
        if (recipe->kernels[k].grid == 0)
            continue;
        if (recipe->kernels[k].setup)
            spec->setup_count++;
        else
            TRY(launch_make(&launcher, k, &spec->launches[spec->launch_count++]));
    }
    return PHASOR_OK;
}

static phasor_status arguments_check(const struct recipe_kernel *kernel)
{
    if (kernel->argument_bytes > ARGUMENT_BYTES_MAX)
        return fail(PHASOR_ERROR_REFUSED, "%s has arguments of %d bytes; a launch takes at most %d",
                    kernel->name, kernel->argument_bytes, ARGUMENT_BYTES_MAX);
    if (kernel->argument_count * ARGUMENT_BYTES > kernel->argument_bytes)
        return fail(PHASOR_ERROR_FILE, "%s has more arguments than their %d bytes", kernel->name,
                    kernel->argument_bytes);
    return PHASOR_OK;
}

phasor_status launches_make(struct specialisation *spec, bool ready_only)
{
    struct device *device = spec->program->runtime->device;
    struct device_scope scope;
    for (int k = 0; k < spec->recipe.kernel_count; k++)
        TRY(arguments_check(&spec->recipe.kernels[k]));
    TRY(device_enter(device, &scope));
    const phasor_status status = launches_fill(spec, ready_only);
    device_leave(device, &scope);
    return status;
}
