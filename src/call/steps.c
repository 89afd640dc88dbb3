/* steps.c - see steps.h: the one place where steps are issued. */
#include "call/steps.h"

#include "call/output.h"

#include <string.h>

static char *relocated_address(const struct relocation *r, const struct step_memory *memory)
{
    if (r->flag)
        return (char *)memory->flag;
    switch (r->kind) {
    case BUFFER_INPUT: return memory->inputs[r->index].used + r->offset;
    case BUFFER_STATE: return memory->states[r->index] + r->offset;
    case BUFFER_SLOT: return memory->outputs[r->index].used + r->offset;
    case BUFFER_OUTPUT: return memory->fresh[r->index]->bytes + r->offset;
    case BUFFER_WORK: return memory->work + r->offset;
    default: return NULL; /* a table without bytes */
    }
}

static void relocate(const struct ready_step *step, const struct step_memory *memory,
                     char *arguments)
{
    memcpy(arguments, step->arguments, (size_t)step->argument_bytes);
    for (int i = 0; i < step->relocation_count; i++) {
        const char *address = relocated_address(&step->relocations[i], memory);
        memcpy(arguments + step->relocations[i].at, &address, sizeof address);
    }
}

static phasor_status step_run(struct device *device, void *stream, const struct ready_step *step,
                              const struct step_memory *memory)
{
    _Alignas(16) char space[ARGUMENT_BYTES_MAX];
    const char *arguments = step->arguments;
    if (step->relocation_count) {
        relocate(step, memory, space);
        arguments = space;
    }
    if (step->kind == STEP_KERNEL)
        return device_launch(device, step->kernel.function, step->kernel.grid, step->kernel.block,
                             0, arguments, (size_t)step->argument_bytes, stream);
    if (step->kind == STEP_LIBRARY) {
        char *operands[4];
        memcpy(operands, arguments, sizeof operands);
        return cublaslt_run(step->library.handle, step->library.call, operands[0], operands[1],
                            operands[2], operands[3], stream);
    }
    if (step->kind == STEP_FILL) {
        char *to;
        memcpy(&to, arguments, sizeof to);
        return device_fill_zero(device, to, step->nbytes, stream);
    }
    char *ends[2];
    memcpy(ends, arguments, sizeof ends);
    /* The caller may have given one memory for both. */
    return ends[0] == ends[1] ? PHASOR_OK
                              : device_copy(device, ends[1], ends[0], step->nbytes, stream);
}

phasor_status steps_run(struct device *device, void *stream, const struct ready_step *steps,
                        int count, const struct step_memory *memory)
{
    phasor_status status = PHASOR_OK;
    for (int i = 0; status == PHASOR_OK && i < count; i++)
        status = step_run(device, stream, &steps[i], memory);
    return status;
}

phasor_status steps_bind(struct arena *arena, const struct ready_step *steps, int count,
                         const struct step_memory *memory, struct ready_step **out)
{
    *out = arena_copy(arena, steps, (size_t)count * sizeof *steps);
    if (!*out)
        return fail_memory();
    for (int i = 0; i < count; i++) {
        struct ready_step *step = &(*out)[i];
        step->arguments = arena_new(arena, (size_t)step->argument_bytes);
        if (!step->arguments)
            return fail_memory();
        relocate(&steps[i], memory, step->arguments);
        step->relocation_count = 0;
    }
    return PHASOR_OK;
}
