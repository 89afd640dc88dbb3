/* ready.c - a recipe with its kernels loaded -> steps whose arguments are laid out, and filled
 * tables. Addresses of weights and tables are the same in every call and stand in the arguments
 * already; the others are relocations: see call/steps.h.
 */
#include "specialise/ready.h"

#include "call/output.h"

#include <string.h>

enum { ARGUMENT_BYTES = 8 };

/* The address that never changes; NULL: each call has its own. */
static char *fixed_address(const struct step_maker *m, const struct recipe_buffer *buffer)
{
    if (buffer->kind == BUFFER_TABLE)
        return m->table ? m->table->bytes + buffer->offset : NULL;
    if (buffer->kind != BUFFER_DATA)
        return NULL;
    const struct node *n = graph_node(program_real(m->program), (value)buffer->index);
    return m->weights[buffer->index]->bytes + n->attributes.data->offset * dtype_size(n->dtype);
}

static phasor_status address_put(const struct step_maker *m, int index, int64_t offset, int at,
                                 struct ready_step *step)
{
    const struct recipe_buffer *buffer = &m->recipe->buffers[index];
    if (buffer->kind == BUFFER_DATA && !m->weights[buffer->index])
        return fail(PHASOR_ERROR_FILE, "the plan in the cache names value %d, which is no weight",
                    buffer->index);
    const char *address = fixed_address(m, buffer);
    const char *operand = address ? address + offset : NULL;
    memcpy(step->arguments + at, &operand, sizeof operand);
    if (!address)
        step->relocations[step->relocation_count++] =
            (struct relocation){.at = at,
                                .kind = buffer->kind,
                                .index = buffer->index,
                                .offset = buffer->offset + offset};
    return PHASOR_OK;
}

static phasor_status step_open(const struct step_maker *m, int argument_bytes, int relocations,
                               struct ready_step *step)
{
    step->argument_bytes = argument_bytes;
    step->arguments = arena_new(m->arena, (size_t)argument_bytes);
    step->relocations = NEW(m->arena, struct relocation, relocations);
    return step->arguments && step->relocations ? PHASOR_OK : fail_memory();
}

static phasor_status kernel_step(const struct step_maker *m, int k, struct ready_step *step)
{
    const struct recipe_kernel *kernel = &m->recipe->kernels[k];
    if (kernel->argument_bytes > ARGUMENT_BYTES_MAX)
        return fail(PHASOR_ERROR_REFUSED, "%s has arguments of %d bytes; a launch takes at most %d",
                    kernel->name, kernel->argument_bytes, ARGUMENT_BYTES_MAX);
    if (kernel->argument_count * ARGUMENT_BYTES > kernel->argument_bytes)
        return fail(PHASOR_ERROR_FILE, "%s has more arguments than their %d bytes", kernel->name,
                    kernel->argument_bytes);
    *step = (struct ready_step){.kind = STEP_KERNEL};
    step->kernel.function = m->kernels[k]->function;
    step->kernel.grid = kernel->grid;
    step->kernel.block = kernel->block;
    TRY(step_open(m, kernel->argument_bytes, kernel->argument_count + 1, step));
    for (int i = 0; i < kernel->argument_count; i++) {
        const struct recipe_argument *argument = &kernel->arguments[i];
        if (argument->is_buffer)
            TRY(address_put(m, argument->buffer, 0, ARGUMENT_BYTES * i, step));
        else
            memcpy(step->arguments + ARGUMENT_BYTES * i, &argument->size, ARGUMENT_BYTES);
    }
    if (kernel->flag_argument >= 0)
        step->relocations[step->relocation_count++] =
            (struct relocation){.at = kernel->flag_argument, .flag = true};
    return PHASOR_OK;
}

static phasor_status copy_step(const struct step_maker *m, const struct recipe_step *from,
                               struct ready_step *step)
{
    *step = (struct ready_step){.kind = STEP_COPY, .nbytes = (size_t)from->nbytes};
    TRY(step_open(m, 2 * ARGUMENT_BYTES, 2, step));
    TRY(address_put(m, from->from, 0, 0, step));
    return address_put(m, from->to, 0, ARGUMENT_BYTES, step);
}

static phasor_status fill_step(const struct step_maker *m, const struct recipe_step *from,
                               struct ready_step *step)
{
    *step = (struct ready_step){.kind = STEP_FILL, .nbytes = (size_t)from->nbytes};
    TRY(step_open(m, ARGUMENT_BYTES, 1, step));
    return address_put(m, from->to, 0, 0, step);
}

static phasor_status library_step_make(const struct step_maker *m, const struct recipe_step *from,
                                       struct ready_step *step)
{
    *step = (struct ready_step){.kind = STEP_LIBRARY};
    step->library.handle = m->program->runtime->cublaslt;
    step->library.call = NEW(m->arena, struct matmul_call, 1);
    if (!step->library.call)
        return fail_memory();
    if (!step->library.handle)
        return fail(PHASOR_NOT_READY, "the plan in the cache calls cuBLASLt, which is not there");
    TRY(step_open(m, 4 * ARGUMENT_BYTES, 4, step));
    for (int i = 0; i < 3; i++)
        TRY(address_put(m, from->library.operands[i], from->library.offsets[i], ARGUMENT_BYTES * i,
                        step));
    TRY(address_put(m, from->library.scratch, 0, 3 * ARGUMENT_BYTES, step));
    return cublaslt_prepare(step->library.handle, &from->library.matmul, step->library.call);
}

static bool is_empty(const struct recipe *recipe, const struct recipe_step *step)
{
    return step->kind == STEP_KERNEL    ? recipe->kernels[step->kernel].grid == 0
           : step->kind == STEP_LIBRARY ? false
                                        : step->nbytes == 0;
}

phasor_status ready_steps(const struct step_maker *m, bool hoisted, struct ready_step **steps,
                          int *count)
{
    const struct recipe *recipe = m->recipe;
    *count = 0;
    *steps = NEW(m->arena, struct ready_step, recipe->step_count);
    if (!*steps)
        return fail_memory();
    for (int i = 0; i < recipe->step_count; i++) {
        const struct recipe_step *step = &recipe->steps[i];
        if (step->hoisted != hoisted || is_empty(recipe, step))
            continue;
        struct ready_step *made = &(*steps)[(*count)++];
        TRY(step->kind == STEP_KERNEL    ? kernel_step(m, step->kernel, made)
            : step->kind == STEP_LIBRARY ? library_step_make(m, step, made)
            : step->kind == STEP_FILL    ? fill_step(m, step, made)
                                         : copy_step(m, step, made));
    }
    return PHASOR_OK;
}

/* -- of a specialisation ----------------------------------------------------------------------- */

static phasor_status steps_fill(struct specialisation *spec, bool ready_only)
{
    struct step_maker maker = {.program = spec->program,
                               .recipe = &spec->recipe,
                               .kernels = spec->kernels,
                               .arena = &spec->recipe.arena,
                               .ready_only = ready_only};
    TRY(weights_get(spec->program, &maker.weights));
    TRY(tables_make(spec, &maker));
    TRY(ready_steps(&maker, false, &spec->steps, &spec->step_count));
    for (int i = 0; i < spec->recipe.step_count; i++) {
        const struct recipe_step *step = &spec->recipe.steps[i];
        if (step->kind != STEP_KERNEL || !spec->recipe.kernels[step->kernel].grid)
            continue;
        spec->setup_count += step->hoisted;
        spec->launch_count += !step->hoisted;
    }
    return PHASOR_OK;
}

phasor_status steps_ready(struct specialisation *spec, bool ready_only)
{
    struct device *device = spec->program->runtime->device;
    struct device_scope scope;
    TRY(device_enter(device, &scope));
    const phasor_status status = steps_fill(spec, ready_only);
    device_leave(device, &scope);
    return status;
}
