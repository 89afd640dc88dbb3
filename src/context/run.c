/* run.c - the public functions that run a program or make it ready: slots read, specialisation
 * found, device asked.
 *
 *     phasor_run_into(program, NULL, inputs, 2, outputs, 2, stream)   ->   outputs written; info: 1
 *                                                                     kernel, "exact"
 */
#include "context/twins.h"
#include "specialise/upgrade.h"

#include <string.h>

/* -- what the latest call did ------------------------------------------------------------------ */

enum { INFO_COUNT = 16 };

struct info {
    uint64_t program; /* id; 0: none */
    int kernels, setup_kernels;
    const char *mode;
};
static _Thread_local struct info
    infos[INFO_COUNT]; /* of the programs that this thread called last */
static _Thread_local unsigned info_next;

static const char *mode_of(const struct specialisation *spec)
{
    if (spec->layouts)
        return "cpu";
    const bool upgraded = __atomic_load_n(&spec->upgraded, __ATOMIC_ACQUIRE);
    return spec->class && !upgraded ? "generic" : "exact";
}

static void info_keep(const struct phasor_program *program, const struct specialisation *spec)
{
    struct info *at = NULL;
    for (int i = 0; i < INFO_COUNT && !at; i++)
        if (infos[i].program == program->id)
            at = &infos[i];
    if (!at)
        at = &infos[info_next++ % INFO_COUNT];
    *at = (struct info){program->id, spec->launch_count, spec->setup_count, mode_of(spec)};
}

phasor_status phasor_program_info(const phasor_program *program, phasor_run_info *out)
{
    NOT_NULL(program);
    NOT_NULL(out);
    TRY(struct_check("phasor_run_info", out->size, sizeof *out));
    const size_t size = out->size;
    phasor_run_info info = {.size = size};
    for (int i = 0; i < INFO_COUNT; i++)
        if (infos[i].program == program->id) {
            info.kernels = infos[i].kernels;
            info.setup_kernels = infos[i].setup_kernels;
            info.mode = infos[i].mode;
        }
    if (!info.mode)
        return fail(PHASOR_ERROR_USAGE, "this thread has not run %s lately",
                    program_logical(program)->name);
    memcpy(out, &info, size);
    return PHASOR_OK;
}

/* -- running ----------------------------------------------------------------------------------- */

void outputs_drop(phasor_value *outputs, int count)
{
    for (int i = 0; i < count; i++)
        if (outputs[i].kind == PHASOR_OWNED && outputs[i].owned)
            outputs[i].owned->deleter(outputs[i].owned);
}

static phasor_status run_read(struct call *call, struct phasor_state *state)
{
    struct phasor_program *program = call->program;
    struct specialisation *spec;
    TRY(specialisation_get(call, &spec));
    phasor_status status = state_get(program, state, &state);
    if (status == PHASOR_OK)
        status = state_report(state);
    if (status == PHASOR_OK)
        status = spec->layouts ? cpu_run(call, spec, state) : cuda_run(call, spec, state);
    if (status == PHASOR_OK)
        info_keep(program, spec);
    flight_release(&program->specialisations, &spec->flight);
    return status;
}

static phasor_status run_entered(struct phasor_program *program, struct phasor_state *state,
                                 enum call_form form, const phasor_value *inputs, int input_count,
                                 phasor_value *outputs, int output_count, void *stream)
{
    struct call call;
    call.stream = stream;
    phasor_status status =
        call_read(&call, program, form, inputs, input_count, outputs, output_count);
    call.capturing =
        program->on_cuda && device_stream_is_capturing(program->runtime->device, stream);
    if (status == PHASOR_OK && call.capturing && form == CALL_OWNED)
        status =
            fail(PHASOR_NOT_READY, "the stream is capturing: only phasor_run_into can be captured");
    if (status == PHASOR_OK)
        status = run_read(&call, state);
    call_free(&call);
    return status;
}

static phasor_status run(struct phasor_program *program, struct phasor_state *state,
                         enum call_form form, const phasor_value *inputs, int input_count,
                         phasor_value *outputs, int output_count, void *stream)
{
    struct device_scope scope;
    NOT_NULL(program);
    LOG_SCOPE(&program->runtime->first->log);
    TRY(program_check_runnable(program));
    if (program->runtime->device_kind == PHASOR_DEVICE_NONE)
        return fail(
            PHASOR_ERROR_USAGE,
            "the runtime was opened with the device \"none\": it compiles and runs nothing");
    if (!program->on_cuda)
        return run_entered(program, state, form, inputs, input_count, outputs, output_count,
                           stream);
    if (program->twins && inputs && input_count == program->input_count && outputs &&
        output_count == program->output_count) /* what is wrong is said by call_read */
        TRY(program_for(program, state, inputs, input_count, outputs,
                        form == CALL_INTO ? output_count : 0, stream, &program));
    TRY(device_enter(program->runtime->device, &scope));
    const phasor_status status =
        run_entered(program, state, form, inputs, input_count, outputs, output_count, stream);
    device_leave(program->runtime->device, &scope);
    return status;
}

phasor_status phasor_run(phasor_program *program, phasor_state *state, const phasor_value *inputs,
                         int input_count, phasor_value *outputs, int output_count, void *stream)
{
    return run(program, state, CALL_OWNED, inputs, input_count, outputs, output_count, stream);
}

phasor_status phasor_run_into(phasor_program *program, phasor_state *state,
                              const phasor_value *inputs, int input_count, phasor_value *outputs,
                              int output_count, void *stream)
{
    return run(program, state, CALL_INTO, inputs, input_count, outputs, output_count, stream);
}

/* outputs: NULL for phasor_run, or those that it gives, for phasor_run_into. */
static phasor_status prepare(struct phasor_program *program, const phasor_value *inputs, int count,
                             const struct plan_output *outputs, struct specialisation **spec)
{
    struct call call;
    call.stream = NULL;
    phasor_status status = outputs ? call_read_into(&call, program, inputs, count, outputs)
                                   : call_read(&call, program, CALL_SHAPES, inputs, count, NULL, 0);
    if (status == PHASOR_OK)
        status = specialisation_get(&call, spec);
    call_free(&call);
    TRY(status);
    if (upgrade_is_wanted(*spec))
        status = specialisation_upgrade(*spec);
    if (status != PHASOR_OK)
        flight_release(&program->specialisations, &(*spec)->flight);
    return status;
}

phasor_status phasor_program_prepare(phasor_program *program, const phasor_value *inputs, int count)
{
    struct specialisation *owned, *into;
    phasor_status status = PHASOR_OK;
    NOT_NULL(program);
    LOG_SCOPE(&program->runtime->first->log);
    TRY(program_check_runnable(program));
    TRY(prepare(program, inputs, count, NULL, &owned));
    if (!owned->layouts) {
        status = prepare(program, inputs, count, owned->recipe.outputs, &into);
        if (status == PHASOR_OK)
            flight_release(&program->specialisations, &into->flight);
    }
    info_keep(program, owned);
    flight_release(&program->specialisations, &owned->flight);
    return status;
}
