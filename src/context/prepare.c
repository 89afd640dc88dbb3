/* prepare.c - phasor_program_prepare_many: many specialisations at once, their kernels compiled
 * together.
 *
 *     shapes 0..255  ->  each begun: found in the cache and done, or planned, its kernels missing
 *                    ->  whenever about 64 kernels are missing: two NVRTC units of 32,
 *                        and the shapes that waited for them are ended
 *
 * First what phasor_run needs of each shape, then what phasor_run_into needs: mostly the same
 * kernels. A shape that another thread is making, or that was given twice, is taken up again at
 * the end, when this thread owns nothing that others could be waiting for.
 */
#include "compile/workers.h"
#include "specialise/job.h"
#include "kernels/units.h"
#include "specialise/upgrade.h"

#include <unistd.h>

/* A shape whose kernels are not compiled yet. */
struct waiting {
    struct call call;
    struct job job;
    int shape;
    struct waiting *next;
};

struct preparation {
    struct phasor_program *program;
    const phasor_value *const *shapes;
    int count, shape_count;
    phasor_status *statuses;
    bool *elsewhere; /* another thread is making it: to be taken up again */
    bool *settled;   /* what phasor_run needs of it is there, or has failed */
    int into;        /* the shapes before this one were begun for phasor_run_into */
    struct units units;
    struct waiting *first, **last;
    phasor_status status; /* the first failure */
    struct text message;
};

/* -- the end of a shape ------------------------------------------------------------------------ */

/* The message is this thread's last one. */
static void shape_settle(struct preparation *p, int shape, phasor_status status)
{
    if (!p->settled[shape] || status != PHASOR_OK)
        p->statuses[shape] = status;
    p->settled[shape] = true;
    if (status == PHASOR_OK || p->status != PHASOR_OK)
        return;
    p->status = status;
    text_add(&p->message, message_get());
}

static void waiting_close(struct preparation *p, struct waiting *waiting, phasor_status status)
{
    struct flight_table *table = &p->program->specialisations;
    struct flight *entry = &waiting->job.spec->flight;
    job_close(&waiting->job, status);
    call_free(&waiting->call);
    shape_settle(p, waiting->shape, status);
    flight_done(table, entry, status, status == PHASOR_ERROR_INTERRUPTED);
    if (status == PHASOR_OK)
        flight_release(table, entry);
    memory_free(waiting);
}

static phasor_status waiting_end(struct preparation *p, struct waiting *waiting)
{
    const struct recipe *recipe = &waiting->job.spec->recipe;
    for (int k = 0; k < recipe->kernel_count; k++)
        TRY(units_status(&p->units, &recipe->kernels[k]));
    TRY(job_end(&waiting->job));
    return upgrade_is_wanted(waiting->job.spec) ? specialisation_upgrade(waiting->job.spec)
                                                : PHASOR_OK;
}

/* Compiles what was gathered; then all that waited for it is ended. */
static void preparation_flush(struct preparation *p)
{
    const phasor_status status = units_flush(&p->units);
    while (p->first) {
        struct waiting *waiting = p->first;
        p->first = waiting->next;
        waiting_close(p, waiting, status == PHASOR_OK ? waiting_end(p, waiting) : status);
    }
    p->last = &p->first;
    units_clear(&p->units);
}

/* -- the beginning of a shape ------------------------------------------------------------------ */

/* The entry of the table is owned: it is ended here, or waits for its kernels. */
static void waiting_begin(struct preparation *p, struct waiting *waiting, struct flight *entry)
{
    job_open(&waiting->job, &waiting->call, (struct specialisation *)(void *)entry);
    phasor_status status = job_begin(&waiting->job);
    if (status != PHASOR_OK || waiting->job.found) {
        if (status == PHASOR_OK)
            status = job_end(&waiting->job);
        waiting_close(p, waiting, status);
        return;
    }
    const struct recipe *recipe = &waiting->job.spec->recipe;
    for (int k = 0; k < recipe->kernel_count; k++)
        units_add(&p->units, &recipe->kernels[k]);
    if (upgrade_is_wanted(waiting->job.spec) && upgrade_plan(waiting->job.spec) == PHASOR_OK)
        for (int k = 0; k < recipe->kernel_count; k++)
            if (upgrade_kernel(waiting->job.spec, k))
                units_add(&p->units, upgrade_kernel(waiting->job.spec, k));
    *p->last = waiting;
    p->last = &waiting->next;
    /* Those of two units, so that what is left at the end is no unit of a few. */
    if (p->units.list.count >= 2 * (size_t)p->program->runtime->options.unit_kernels)
        preparation_flush(p);
}

/* Buffers as the outputs of phasor_run are, which was prepared before. */
static phasor_status waiting_read_into(struct preparation *p, struct waiting *waiting)
{
    const phasor_value *inputs = p->shapes[waiting->shape];
    struct specialisation *owned = NULL;
    struct call *call = &waiting->call;
    phasor_status status = call_read(call, p->program, CALL_SHAPES, inputs, p->count, NULL, 0);
    if (status == PHASOR_OK)
        status = specialisation_get(call, &owned);
    TRY(status);
    call_free(call);
    status = call_read_into(call, p->program, inputs, p->count, owned->recipe.outputs);
    flight_release(&p->program->specialisations, &owned->flight);
    return status;
}

static phasor_status waiting_claim(struct preparation *p, struct waiting *waiting, bool into,
                                   struct flight **entry, bool *owner)
{
    struct call *call = &waiting->call;
    *owner = false;
    call->stream = NULL;
    TRY(into ? waiting_read_into(p, waiting)
             : call_read(call, p->program, CALL_SHAPES, p->shapes[waiting->shape], p->count, NULL,
                         0));
    const size_t nbytes = call->word_count * sizeof *call->words;
    return flight_claim(&p->program->specialisations, hash_bytes(call->words, nbytes), call->words,
                        nbytes, entry, owner);
}

static void shape_begin(struct preparation *p, int shape, bool into)
{
    struct flight *entry;
    bool owner;
    struct waiting *waiting = memory_new(sizeof *waiting);
    if (!waiting) {
        shape_settle(p, shape, fail_memory());
        return;
    }
    waiting->shape = shape;
    const phasor_status status = waiting_claim(p, waiting, into, &entry, &owner);
    if (status == PHASOR_OK && owner) {
        waiting_begin(p, waiting, entry);
        return;
    }
    call_free(&waiting->call);
    memory_free(waiting);
    if (status == PHASOR_OK && !entry)
        p->elsewhere[shape] = true;
    else
        shape_settle(p, shape, status);
    if (status == PHASOR_OK && entry)
        flight_release(&p->program->specialisations, entry);
}

/* -- all --------------------------------------------------------------------------------------- */

/* What phasor_run_into needs of the shapes that are ready for phasor_run, as far as all before
 * them are settled. */
static void shapes_begin_into(struct preparation *p)
{
    for (; p->into < p->shape_count && (p->settled[p->into] || p->elsewhere[p->into]); p->into++)
        if (p->settled[p->into] && p->statuses[p->into] == PHASOR_OK && !runs_on_cpu(p->program))
            shape_begin(p, p->into, true);
}

static void shapes_begin(struct preparation *p)
{
    for (int i = 0; i < p->shape_count; i++) {
        shapes_begin_into(p);
        if (runtime_interrupted(p->program->runtime))
            shape_settle(p, i, fail(PHASOR_ERROR_INTERRUPTED, "interrupted before shape %d", i));
        else if (runs_on_cpu(p->program))
            shape_settle(p, i, phasor_program_prepare(p->program, p->shapes[i], p->count));
        else
            shape_begin(p, i, false);
    }
    preparation_flush(p);
    shapes_begin_into(p);
    preparation_flush(p);
}

static void shapes_of_others(struct preparation *p)
{
    for (int i = 0; i < p->shape_count; i++)
        if (p->elsewhere[i])
            shape_settle(p, i, phasor_program_prepare(p->program, p->shapes[i], p->count));
}

static phasor_status preparation_run(struct preparation *p)
{
    p->last = &p->first;
    p->elsewhere = memory_new((size_t)p->shape_count * sizeof *p->elsewhere);
    p->settled = memory_new((size_t)p->shape_count * sizeof *p->settled);
    if (!p->elsewhere || !p->settled || !p->statuses)
        return fail_memory();
    shapes_begin(p);
    shapes_of_others(p);
    return p->status == PHASOR_OK ? PHASOR_OK : fail(p->status, "%s", text_get(&p->message));
}

phasor_status phasor_program_prepare_many(phasor_program *program,
                                          const phasor_value *const *shapes, int count,
                                          int shape_count, phasor_status *statuses)
{
    NOT_NULL(program);
    if (shape_count > 0)
        NOT_NULL(shapes);
    LOG_SCOPE(&program->runtime->first->log);
    struct preparation p = {.program = program,
                            .shapes = shapes,
                            .count = count,
                            .shape_count = shape_count,
                            .units = {.runtime = program->runtime}};
    TRY(program_check_runnable(program));
    if (shape_count < 0)
        return fail(PHASOR_ERROR_USAGE, "%d shapes; the number cannot be negative", shape_count);
    p.statuses = statuses ? statuses : memory_new((size_t)shape_count * sizeof *statuses);
    const phasor_status status = preparation_run(&p);
    text_free(&p.message);
    memory_free(p.elsewhere);
    memory_free(p.settled);
    if (!statuses)
        memory_free(p.statuses);
    return status;
}

phasor_status phasor_compile_serve(void)
{
    return workers_serve(STDIN_FILENO);
}
