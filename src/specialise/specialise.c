/* specialise.c - what a call with new sizes goes through, and the table in which it is found again.
 *
 *     sizes bound -> plan -> kernels -> cubins -> steps           job.c, with its cache; ready.c
 *     on the CPU device: sizes bound -> eager's strides
 *
 * The result is found again by the words of the call (call.c). Of two threads with the same new
 * sizes one works and the other waits; when the work fails, both have the reason.
 */
#include "call/output.h"
#include "codegen/codegen.h"
#include "specialise/job.h"

#include "specialise/upgrade.h"

#include <string.h>

/* -- the CPU device ---------------------------------------------------------------------------- */

/* The loaded graph with these sizes, and the strides that eager gives. */
static phasor_status job_run_cpu(struct job *job)
{
    struct specialisation *spec = job->spec;
    struct call_shape shape;
    TRY(job_bind(job));
    TRY(bind_graph(&spec->bound, program_logical(job->program), job->values, BIND_LITERALS));
    TRY(call_describe(job->call, true, &job->arena, &shape));
    TRY(bind_check_outputs(program_logical(job->program), &spec->bound.graph, &shape));
    return layout_infer(&spec->bound.graph, &shape, &spec->bound.arena, &spec->layouts);
}

/* -- the table --------------------------------------------------------------------------------- */

bool runs_on_cpu(const struct phasor_program *program)
{
    return program->runtime->device_kind == PHASOR_DEVICE_CPU ||
           (program->runtime->device && !program->on_cuda);
}

static phasor_status specialisation_make(struct call *call, struct specialisation *spec,
                                         bool ready_only)
{
    struct job job;
    job_open(&job, call, spec);
    job.ready_only = ready_only;
    phasor_status status = call_check_strides(call);
    if (status == PHASOR_OK)
        status = runs_on_cpu(call->program) ? job_run_cpu(&job) : job_begin(&job);
    if (status == PHASOR_OK && !runs_on_cpu(call->program))
        status = job_end(&job);
    job_close(&job, status);
    return status;
}

void specialisation_destroy(struct flight *entry)
{
    struct specialisation *spec = (struct specialisation *)(void *)entry;
    if (!spec->program) /* it was never begun */
        return;
    upgrade_free(spec);
    memory_release(spec->table);
    kernels_release(spec);
    recipe_free(&spec->recipe);
    plan_free(&spec->bound);
}

/* Once for a class: from its second call on. */
static void any_ask(struct specialisation *spec)
{
    if (!spec->makes_do && !__atomic_exchange_n(&spec->class->any_asked, true, __ATOMIC_RELAXED))
        background_add(spec->program->runtime, spec, LATER_ANY);
}

static bool has_later_work(const struct specialisation *spec)
{
    return spec->class && spec->shape && spec->program->runtime->device;
}

static void specialisation_made(struct specialisation *spec)
{
    if (!has_later_work(spec))
        return;
    if (spec->makes_do)
        background_add(spec->program->runtime, spec, LATER_CLASS);
    else if (__atomic_fetch_add(&spec->class->specialisations, 1, __ATOMIC_RELAXED) > 0)
        any_ask(spec);
}

/* Sizes that come again are worth literals. A count that two threads raise at once may lose one. */
static void specialisation_used(struct specialisation *spec)
{
    if (!has_later_work(spec))
        return;
    const uint64_t uses = specialisation_uses(spec) + 1;
    __atomic_store_n(&spec->uses, uses, __ATOMIC_RELAXED);
    if (uses != 1)
        return;
    any_ask(spec);
    if (upgrade_is_wanted(spec))
        background_add(spec->program->runtime, spec, LATER_EXACT);
}

/* While a stream captures nothing is waited for. Sizes that no kernel was made for can still be
 * served by the kernels of their class. */
static phasor_status entry_get(struct call *call, struct flight **entry, bool *owner)
{
    struct phasor_program *program = call->program;
    const size_t nbytes = call->word_count * sizeof *call->words;
    const struct hash hash = hash_bytes(call->words, nbytes);
    if (call->capturing && !program_is_exact(program))
        TRY(flight_claim(&program->specialisations, hash, call->words, nbytes, entry, owner));
    else
        TRY(flight_get(&program->specialisations, hash, call->words, nbytes, !call->capturing,
                       entry, owner));
    return *entry ? PHASOR_OK : fail(PHASOR_NOT_READY, "nothing was made for them");
}

static phasor_status fail_captured(const struct phasor_program *program)
{
    return fail_in(PHASOR_NOT_READY,
                   "%s is not compiled for these sizes, and the stream is capturing: run it once "
                   "before",
                   program_logical(program)->name);
}

phasor_status specialisation_get(struct call *call, struct specialisation **out)
{
    struct phasor_program *program = call->program;
    const bool capturing = call->capturing;
    struct flight *entry;
    bool owner;
    *out = NULL;
    phasor_status status = entry_get(call, &entry, &owner);
    if (status != PHASOR_OK)
        return status == PHASOR_NOT_READY && capturing ? fail_captured(program) : status;
    *out = (struct specialisation *)(void *)entry;
    if (!owner) {
        specialisation_used(*out);
        return PHASOR_OK;
    }
    status = specialisation_make(call, *out, capturing);
    if (status == PHASOR_NOT_READY && capturing)
        status = fail_captured(program);
    if (status != PHASOR_OK)
        *out = NULL;
    if (status == PHASOR_OK && !capturing && !call_is_shapes(call))
        specialisation_made(*out);
    flight_done(&program->specialisations, entry, status,
                capturing || status == PHASOR_ERROR_INTERRUPTED);
    return status;
}

/* -- for show ---------------------------------------------------------------------------------- */

phasor_status specialise_plan(struct call *call, struct plan *plan)
{
    const struct phasor_program *program = call->program;
    const phasor_options *asked = &program->runtime->options;
    const struct plan_options options = {.own_outputs = asked->own_outputs,
                                         .libraries = program_libraries(program),
                                         .tensor_cores = runtime_has_tensor_cores(program->runtime),
                                         .generic = !program_is_exact(program)};
    struct arena arena = {0};
    struct call_shape shape;
    phasor_status status = call_describe(call, false, &arena, &shape);
    if (status == PHASOR_OK)
        status = plan_make(program_logical(program), program_real(program), &shape, &options, plan);
    if (status == PHASOR_OK)
        status = codegen_plan(plan, &program->runtime->templates);
    arena_free(&arena);
    return status;
}
