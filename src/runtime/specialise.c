/* specialise.c - the stages of Phasor in order. What a call with new sizes goes through:
 *
 *     sizes bound and checked
 *       -> recipe from the cache                         a warm process: nothing is planned,
 *                                                        generated or compiled
 *       or plan -> CUDA sources -> recipe -> cubins      each from the cache or NVRTC; then into
 *                                                        the cache
 *       -> modules loaded, arguments laid out, tables filled
 *
 * The result is found again by the words of the call (call.c). Of two threads with the same new
 * sizes one works and the other waits; when the work fails, both have the reason.
 */
#include "runtime/runtime.h"

#include "base/log.h"

#include <string.h>

struct job {
    struct call *call;
    struct phasor_program *program;
    struct phasor_runtime *runtime;
    struct specialisation *spec;
    struct arena arena;
    struct call_shape shape;
    int64_t *values; /* of the symbols */
    struct text key; /* of the plan, in the cache */
    struct hash hash;
};

/* -- the key of a plan ------------------------------------------------------------------------- */

/* Everything that a recipe depends on. The graph stands whole in it: a hash alone never decides. */
static phasor_status job_key(struct job *job)
{
    const struct phasor_options *options = &job->runtime->options;
    char templates[HASH_TEXT];
    hash_text(job->runtime->templates.hash, templates);
    text_format(&job->key, "phasor plan 1 %s %s exact rules=%d fma=%d own=%d %zu\n",
                job->runtime->arch, templates, (int)options->rules, !options->no_fma,
                options->own_outputs, job->call->word_count);
    text_add_bytes(&job->key, job->call->words, job->call->word_count * sizeof *job->call->words);
    text_add_bytes(&job->key, job->program->canonical, job->program->canonical_size);
    job->hash = hash_bytes(text_get(&job->key), job->key.length);
    return text_status(&job->key);
}

/* -- stages ------------------------------------------------------------------------------------ */

static phasor_status job_bind(struct job *job)
{
    const struct graph *logical = program_logical(job->program);
    job->values = NEW(&job->arena, int64_t, logical->sizes->symbols.count);
    if (!job->values)
        return fail_memory();
    TRY(call_describe(job->call, false, &job->arena, &job->shape));
    return bind_symbols(logical, &job->shape, job->values);
}

static phasor_status recipe_from_cache(struct job *job, bool *found)
{
    const struct recipe_limits limits = {job->program->input_count, job->program->output_count,
                                         (int)program_real(job->program)->buffers.count,
                                         (int)program_real(job->program)->nodes.count};
    void *blob;
    size_t nbytes;
    phasor_status status = PHASOR_OK;
    TRY(cache_get_plan(job->runtime->cache, job->hash, job->key.at, job->key.length, &blob, &nbytes,
                       found));
    if (*found && !recipe_read(&job->spec->recipe, blob, nbytes, &limits, &status)) {
        *found = false;
        if (status == PHASOR_OK)
            cache_drop_plan(job->runtime->cache, job->hash, job->key.at, job->key.length);
    }
    memory_free(blob);
    return status;
}

static phasor_status recipe_to_cache(struct job *job)
{
    struct text blob = {0};
    const phasor_status status = recipe_write(&job->spec->recipe, &blob);
    if (status == PHASOR_OK)
        cache_put_plan(job->runtime->cache, job->hash, job->key.at, job->key.length,
                       text_get(&blob), blob.length);
    text_free(&blob);
    return status;
}

static phasor_status recipe_from_plan(struct job *job)
{
    struct phasor_program *program = job->program;
    const struct plan_options options = {.own_outputs = job->runtime->options.own_outputs};
    struct plan plan = {0};
    phasor_status status =
        plan_make(program_logical(program), program_real(program), &job->shape, &options, &plan);
    if (status == PHASOR_OK && job->shape.outputs)
        status = recipe_find_in_place(&job->spec->recipe, &plan, &job->shape);
    if (status == PHASOR_OK)
        status = codegen_plan(&plan, &job->runtime->templates);
    if (status == PHASOR_OK)
        status = recipe_make(&job->spec->recipe, &plan, job->runtime->templates.hash);
    plan_free(&plan);
    return status;
}

static void kernels_release(struct specialisation *spec)
{
    for (int k = 0; spec->kernels && k < spec->recipe.kernel_count; k++)
        if (spec->kernels[k])
            flight_release(&spec->program->runtime->kernels, &spec->kernels[k]->flight);
    spec->kernels = NULL;
}

static phasor_status job_kernels(struct job *job, bool *missing)
{
    struct specialisation *spec = job->spec;
    *missing = false;
    spec->kernels = NEW(&spec->recipe.arena, struct loaded_kernel *, spec->recipe.kernel_count);
    if (!spec->kernels)
        return fail_memory();
    for (int k = 0; k < spec->recipe.kernel_count && !*missing; k++)
        TRY(kernel_get(job->runtime, &spec->recipe.kernels[k], &spec->kernels[k], missing));
    return PHASOR_OK;
}

static phasor_status job_from_cache(struct job *job, bool *found)
{
    bool missing = false;
    TRY(recipe_from_cache(job, found));
    if (*found)
        TRY(job_kernels(job, &missing));
    if (!missing)
        return PHASOR_OK;
    *found = false;
    kernels_release(job->spec);
    recipe_free(&job->spec->recipe);
    return PHASOR_OK;
}

static phasor_status job_from_scratch(struct job *job)
{
    bool missing;
    TRY(recipe_from_plan(job));
    TRY(job_kernels(job, &missing));
    return recipe_to_cache(job);
}

/* The stages in order. */
static phasor_status job_run(struct job *job)
{
    bool found;
    TRY(job_bind(job));
    TRY(job_key(job));
    TRY(job_from_cache(job, &found));
    if (!found)
        TRY(job_from_scratch(job));
    return job->runtime->device ? launches_make(job->spec) : PHASOR_OK;
}

/* -- the CPU device ---------------------------------------------------------------------------- */

/* The loaded graph with these sizes, and the strides that eager gives. */
static phasor_status job_run_cpu(struct job *job)
{
    struct specialisation *spec = job->spec;
    struct call_shape shape;
    TRY(job_bind(job));
    TRY(bind_graph(&spec->bound, program_logical(job->program), job->values, false));
    TRY(call_describe(job->call, true, &job->arena, &shape));
    return layout_infer(&spec->bound.graph, &shape, &spec->bound.arena, &spec->layouts);
}

/* -- the table --------------------------------------------------------------------------------- */

static bool runs_on_cpu(const struct phasor_program *program)
{
    return program->runtime->device_kind == PHASOR_DEVICE_CPU ||
           (program->runtime->device && !program->on_cuda);
}

static phasor_status specialisation_make(struct call *call, struct specialisation *spec)
{
    struct job job = {
        .call = call, .program = call->program, .runtime = call->program->runtime, .spec = spec};
    spec->program = call->program;
    pthread_mutex_init(&spec->lock, NULL);
    const phasor_status status = runs_on_cpu(call->program) ? job_run_cpu(&job) : job_run(&job);
    text_free(&job.key);
    arena_free(&job.arena);
    if (status == PHASOR_OK)
        count_up(&job.runtime->specialisations, 1);
    return status;
}

void specialisation_destroy(struct flight *entry)
{
    struct specialisation *spec = (struct specialisation *)(void *)entry;
    if (!spec->program) /* it was never begun */
        return;
    while (spec->workspaces) {
        struct workspace *next = spec->workspaces->next;
        memory_release(spec->workspaces->memory);
        device_event_free(spec->workspaces->event);
        memory_free(spec->workspaces);
        spec->workspaces = next;
    }
    memory_release(spec->table);
    kernels_release(spec);
    recipe_free(&spec->recipe);
    plan_free(&spec->bound);
    pthread_mutex_destroy(&spec->lock);
}

phasor_status specialisation_get(struct call *call, struct specialisation **out)
{
    struct phasor_program *program = call->program;
    const size_t nbytes = call->word_count * sizeof *call->words;
    const bool capturing = program->on_cuda && call->form != CALL_SHAPES &&
                           device_stream_is_capturing(program->runtime->device, call->stream);
    struct flight *entry;
    bool owner;
    *out = NULL;
    TRY(flight_get(&program->specialisations, hash_bytes(call->words, nbytes), call->words, nbytes,
                   !capturing, &entry, &owner));
    if (!entry)
        return fail(
            PHASOR_NOT_READY,
            "%s is not compiled for these sizes, and the stream is capturing: run it once before",
            program_logical(program)->name);
    *out = (struct specialisation *)(void *)entry;
    if (!owner)
        return PHASOR_OK;
    const phasor_status status = specialisation_make(call, *out);
    if (status != PHASOR_OK)
        *out = NULL;
    flight_done(&program->specialisations, entry, status, status == PHASOR_ERROR_INTERRUPTED);
    return status;
}

/* -- for show ---------------------------------------------------------------------------------- */

phasor_status specialise_parts(struct call *call, struct plan *plan, struct plan_parts *parts)
{
    const struct phasor_program *program = call->program;
    const struct plan_options options = {.own_outputs = program->runtime->options.own_outputs};
    struct arena arena = {0};
    struct call_shape shape;
    phasor_status status = call_describe(call, false, &arena, &shape);
    if (status == PHASOR_OK)
        status = plan_make(program_logical(program), program_real(program), &shape, &options, plan);
    if (status == PHASOR_OK) {
        parts->count = plan->kernels.count;
        parts->at = arena_copy(&plan->arena, plan->kernels.at, parts->count * sizeof *parts->at);
        status = parts->at || !parts->count ? PHASOR_OK : fail_memory();
    }
    if (status == PHASOR_OK)
        status = codegen_plan(plan, &program->runtime->templates);
    arena_free(&arena);
    return status;
}

phasor_status specialise_plan(struct call *call, struct plan *plan)
{
    struct plan_parts parts = {0};
    return specialise_parts(call, plan, &parts);
}
