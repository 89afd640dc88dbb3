/* launches.c - a recipe with its kernels loaded -> launches whose arguments are laid out, and
 * filled tables.
 *
 *     kernel mul, arguments q, freqs, output 0   ->   24 bytes: ?, address of freqs, ?   patches: q
 *                                                     at 0, output 0 at 16
 *
 * Addresses of weights and tables are the same in every call and stand in the arguments already.
 * Kernels that depend on no input run here, once, on a stream of their own; when this returns they
 * are done, so that any stream may use the tables.
 */
#include "runtime/runtime.h"

#include "base/log.h"

#include <string.h>

enum { ARGUMENT_BYTES = 8 };

/* The address that never changes; NULL: each call has its own. */
static char *fixed_address(const struct specialisation *spec, const struct recipe_buffer *buffer,
                           struct memory *const *weights)
{
    if (buffer->kind == BUFFER_TABLE)
        return spec->table ? spec->table->bytes + buffer->offset : NULL;
    if (buffer->kind != BUFFER_DATA)
        return NULL;
    const struct node *n = graph_node(program_real(spec->program), (value)buffer->index);
    return weights[buffer->index]->bytes + n->attributes.data->offset * dtype_size(n->dtype);
}

static phasor_status argument_make(const struct specialisation *spec,
                                   const struct recipe_argument *argument, int at,
                                   struct memory *const *weights, struct launch *launch)
{
    int64_t number = argument->size;
    if (argument->is_buffer) {
        const struct recipe_buffer *buffer = &spec->recipe.buffers[argument->buffer];
        if (buffer->kind == BUFFER_DATA && !weights[buffer->index])
            return fail(PHASOR_ERROR_FILE,
                        "the plan in the cache names value %d, which is no weight", buffer->index);
        const char *address = fixed_address(spec, buffer, weights);
        number = (int64_t)(uintptr_t)address;
        if (!address)
            launch->patches[launch->patch_count++] = (struct patch){
                .at = at, .kind = buffer->kind, .index = buffer->index, .offset = buffer->offset};
    }
    memcpy(launch->arguments + at, &number, sizeof number);
    return PHASOR_OK;
}

static phasor_status launch_make(struct specialisation *spec, int k, struct memory *const *weights,
                                 struct launch *launch)
{
    const struct recipe_kernel *kernel = &spec->recipe.kernels[k];
    struct arena *arena = &spec->recipe.arena;
    *launch = (struct launch){.function = spec->kernels[k]->function,
                              .grid = kernel->grid,
                              .block = kernel->block,
                              .argument_bytes = kernel->argument_bytes,
                              .arguments = arena_new(arena, (size_t)kernel->argument_bytes),
                              .patches = NEW(arena, struct patch, kernel->argument_count + 1)};
    if (!launch->arguments || !launch->patches)
        return fail_memory();
    for (int i = 0; i < kernel->argument_count; i++)
        TRY(argument_make(spec, &kernel->arguments[i], ARGUMENT_BYTES * i, weights, launch));
    if (kernel->flag_argument >= 0)
        launch->patches[launch->patch_count++] =
            (struct patch){.at = kernel->flag_argument, .flag = true};
    return PHASOR_OK;
}

/* -- tables ------------------------------------------------------------------------------------ */

/* A table depends on no input: an index out of range in it is a matter of the program, found at
 * once. */
static phasor_status setup_launch(struct specialisation *spec, struct launch *launch, char *work,
                                  void *flag, void *stream)
{
    for (int i = 0; i < launch->patch_count; i++) {
        const struct patch *patch = &launch->patches[i];
        char *address = patch->flag ? flag : work + patch->offset;
        if (!patch->flag && patch->kind != BUFFER_WORK)
            return fail(PHASOR_ERROR_FILE, "a plan computes a table from what a call brings");
        memcpy(launch->arguments + patch->at, &address, sizeof address);
    }
    count_up(&spec->program->runtime->launches, 1);
    return device_launch(spec->program->runtime->device, launch->function, launch->grid,
                         launch->block, 0, launch->arguments, (size_t)launch->argument_bytes,
                         stream);
}

static phasor_status setup_run(struct specialisation *spec, struct launch *setup, void *stream)
{
    struct device *device = spec->program->runtime->device;
    void *work = NULL, *flag = NULL;
    phasor_status status = device_allocate(device, (size_t)spec->recipe.work_bytes, &work, stream);
    if (status == PHASOR_OK)
        status = device_host_allocate(device, sizeof(uint32_t), &flag);
    for (int k = 0; status == PHASOR_OK && k < spec->setup_count; k++)
        status = setup_launch(spec, &setup[k], work, flag, stream);
    if (status == PHASOR_OK)
        status = device_synchronize(device, stream);
    if (status == PHASOR_OK && *(volatile uint32_t *)flag)
        log_line(LOG_WARNING, "%s: an index that depends on sizes alone is out of range",
                 program_logical(spec->program)->name);
    device_free(device, work, stream);
    device_host_free(device, flag);
    return status;
}

static phasor_status setup_all(struct specialisation *spec, struct launch *setup)
{
    struct device *device = spec->program->runtime->device;
    void *stream;
    if (spec->setup_count == 0)
        return PHASOR_OK;
    TRY(device_stream_new(device, &stream));
    const phasor_status status = setup_run(spec, setup, stream);
    device_stream_free(device, stream);
    return status;
}

/* -- all --------------------------------------------------------------------------------------- */

static phasor_status launches_fill(struct specialisation *spec)
{
    const struct recipe *recipe = &spec->recipe;
    struct memory **weights;
    struct launch *setup = NEW(&spec->recipe.arena, struct launch, recipe->kernel_count);
    spec->launches = NEW(&spec->recipe.arena, struct launch, recipe->kernel_count);
    if (!setup || !spec->launches)
        return fail_memory();
    TRY(weights_get(spec->program, &weights));
    if (recipe->table_bytes)
        TRY(memory_lasting(spec->program->runtime->device, (size_t)recipe->table_bytes,
                           &spec->table));
    spec->flight.weight = recipe->table_bytes;
    for (int k = 0; k < recipe->kernel_count; k++) {
        if (recipe->kernels[k].grid == 0)
            continue;
        struct launch *launch = recipe->kernels[k].setup ? &setup[spec->setup_count++]
                                                         : &spec->launches[spec->launch_count++];
        TRY(launch_make(spec, k, weights, launch));
    }
    return setup_all(spec, setup);
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

phasor_status launches_make(struct specialisation *spec)
{
    struct device *device = spec->program->runtime->device;
    struct device_scope scope;
    for (int k = 0; k < spec->recipe.kernel_count; k++)
        TRY(arguments_check(&spec->recipe.kernels[k]));
    TRY(device_enter(device, &scope));
    const phasor_status status = launches_fill(spec);
    device_leave(device, &scope);
    return status;
}
