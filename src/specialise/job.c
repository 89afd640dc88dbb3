/* job.c - a specialisation in the making; see job.h.
 *
 * In mode exact:
 *     sizes bound and checked
 *       -> recipe from the cache                         a warm process: nothing is planned,
 *                                                        generated or compiled
 *       or plan -> CUDA sources -> recipe -> cubins      each from the cache or NVRTC; then into
 *                                                        the cache
 * In the others:
 *     plan -> its class -> recipe -> cubins              see classes.c
 */
#include "specialise/job.h"

#include "codegen/codegen.h"
#include "base/log.h"
#include "kernels/cache_key.h"
#include "specialise/upgrade.h"

#include <string.h>

/* -- the key of a plan ------------------------------------------------------------------------- */

/* Everything that a recipe depends on. The graph stands whole in it: a hash alone never decides.
 * Alignments are those of the shape, which may be less than the call's: see job_find_less. */
static phasor_status job_key(struct job *job)
{
    const struct call *call = job->call;
    int64_t *words = arena_copy(&job->arena, call->words, call->word_count * sizeof *words);
    if (!words)
        return fail_memory();
    for (int i = 0; i < job->shape.input_count; i++)
        if (job->shape.inputs[i].rank >= 0)
            words[call->in[i].number + 1] = job->shape.inputs[i].alignment;
    for (int i = 0; job->shape.outputs && i < job->shape.output_count; i++)
        if (job->shape.outputs[i].rank >= 0)
            words[call->out[i].number + 1] = job->shape.outputs[i].alignment;
    text_free(&job->key);
    plan_key_begin(job->runtime, "plan 1", "exact ", &job->key);
    const int libraries = program_libraries(job->program);
    if (libraries)
        text_format(&job->key, " libraries=%d", libraries);
    text_format(&job->key, " %zu\n", call->word_count);
    text_add_bytes(&job->key, words, call->word_count * sizeof *words);
    text_add_bytes(&job->key, job->program->canonical, job->program->canonical_size);
    job->hash = hash_bytes(text_get(&job->key), job->key.length);
    return text_status(&job->key);
}

/* -- stages ------------------------------------------------------------------------------------ */

phasor_status job_bind(struct job *job)
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
    if (!*found) {
        plan_miss_log(job->call, job->key.at, job->key.length);
        if (job->runtime->options.no_compile || !runtime_toolchain(job->runtime))
            other_plans_warn(job->runtime);
    }
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

phasor_status recipe_from_plan(struct phasor_program *program, const struct call_shape *shape,
                               struct recipe *out)
{
    const struct phasor_runtime *runtime = program->runtime;
    const struct plan_options options = {.own_outputs = runtime->options.own_outputs,
                                         .libraries = program_libraries(program),
                                         .tensor_cores =
                                             runtime_has_tensor_cores(program->runtime)};
    struct plan plan = {0};
    phasor_status status =
        plan_make(program_logical(program), program_real(program), shape, &options, &plan);
    if (status == PHASOR_OK && shape->outputs)
        status = recipe_find_in_place(out, &plan, shape);
    if (status == PHASOR_OK)
        status = codegen_plan(&plan, &runtime->templates);
    if (status == PHASOR_OK)
        status = recipe_make(out, &plan, kernel_key_head(runtime));
    plan_free(&plan);
    return status;
}

/* The recipe of a plan in which the sizes are symbols: see classes.c. */
static phasor_status class_recipe_once(struct job *job, enum class_effort effort, bool any,
                                       struct class_recipe *found)
{
    struct phasor_program *program = job->program;
    const struct plan_options options = {.own_outputs = job->runtime->options.own_outputs,
                                         .libraries = program_libraries(program),
                                         .tensor_cores = runtime_has_tensor_cores(program->runtime),
                                         .generic = true,
                                         .any = any};
    struct plan *plan = memory_new(sizeof *plan);
    if (!plan)
        return fail_memory();
    phasor_status status =
        plan_make(program_logical(program), program_real(program), &job->shape, &options, plan);
    if (status == PHASOR_OK && job->shape.outputs)
        status = recipe_find_in_place(&job->spec->recipe, plan, &job->shape);
    if (status == PHASOR_OK)
        status = classes_recipe(program, &plan, effort, &job->spec->recipe, found);
    if (plan)
        plan_free(plan);
    memory_free(plan);
    return status;
}

/* job->spec->class stays NULL when there is none with that effort. */
static phasor_status recipe_from_class(struct job *job, enum class_effort effort, bool any)
{
    struct class_recipe found = {0};
    TRY(class_recipe_once(job, effort, any, &found));
    if (found.again) {
        recipe_free(&job->spec->recipe);
        TRY(class_recipe_once(job, effort == CLASS_FOUND ? CLASS_KNOWN : CLASS_GENERATED, any,
                              &found));
    }
    if (!found.class)
        recipe_free(&job->spec->recipe);
    job->spec->class = found.class;
    job->spec->symbols = found.symbols;
    return PHASOR_OK;
}

static struct call_tensor *tensors_copy(struct arena *arena, const struct call_tensor *from,
                                        int count)
{
    return arena_copy(arena, from, (size_t)count * sizeof *from);
}

/* What work in the background needs to know of the call, where there will be any. */
static phasor_status job_keep_shape(struct job *job)
{
    struct specialisation *spec = job->spec;
    struct arena *arena = &spec->recipe.arena;
    const struct call_shape *from = &job->shape;
    const bool any_is_asked =
        !job->runtime->device || __atomic_load_n(&spec->class->any_asked, __ATOMIC_RELAXED);
    if (job->runtime->options.mode != PHASOR_MODE_AUTO ||
        (!spec->makes_do && !specialisation_gains(spec) && any_is_asked))
        return PHASOR_OK;
    struct call_shape *shape = arena_copy(arena, from, sizeof *from);
    if (!shape)
        return fail_memory();
    shape->inputs = tensors_copy(arena, from->inputs, from->input_count);
    shape->integers =
        arena_copy(arena, from->integers, (size_t)from->input_count * sizeof *from->integers);
    shape->outputs = from->outputs ? tensors_copy(arena, from->outputs, from->output_count) : NULL;
    if (!shape->inputs || !shape->integers || (from->outputs && !shape->outputs))
        return fail_memory();
    spec->shape = shape;
    return PHASOR_OK;
}

void kernels_release(struct specialisation *spec)
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
    for (int k = 0; job->ready_only && k < spec->recipe.kernel_count; k++)
        TRY(kernel_ready(job->runtime, &spec->recipe.kernels[k], &spec->kernels[k]));
    for (int k = 0; !job->ready_only && k < spec->recipe.kernel_count && !*missing; k++)
        TRY(kernel_get(job->runtime, &spec->recipe.kernels[k], &spec->kernels[k], missing));
    return PHASOR_OK;
}

/* Back to before there was a recipe. */
static void job_drop(struct job *job)
{
    kernels_release(job->spec);
    recipe_free(&job->spec->recipe);
    job->spec->shape = NULL;
}

/* Where the class was in the cache and a kernel of it is not, its source is generated after all. */
static phasor_status job_class_kernels(struct job *job, bool any)
{
    bool missing;
    TRY(job_kernels(job, &missing));
    if (!missing)
        return PHASOR_OK;
    classes_forget(&job->program->classes, job->spec->class);
    job_drop(job);
    TRY(recipe_from_class(job, CLASS_GENERATED, any));
    TRY(job_kernels(job, &missing));
    return job_keep_shape(job);
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
    job_drop(job);
    return PHASOR_OK;
}

/* -- in order ---------------------------------------------------------------------------------- */

void job_open(struct job *job, struct call *call, struct specialisation *spec)
{
    *job = (struct job){
        .call = call, .program = call->program, .runtime = call->program->runtime, .spec = spec};
    spec->program = call->program;
}

/* A class that nobody has: where kernels for any strides and alignments are there, they serve until
 * its own are. */
static phasor_status job_begin_new_class(struct job *job)
{
    struct specialisation *spec = job->spec;
    const bool later = job->runtime->options.mode == PHASOR_MODE_AUTO && job->runtime->device &&
                       !job->runtime->options.no_compile;
    if (later)
        TRY(recipe_from_class(job, job->ready_only ? CLASS_KNOWN : CLASS_FOUND, true));
    spec->makes_do = spec->class != NULL;
    if (spec->makes_do)
        return PHASOR_OK;
    if (job->ready_only)
        return fail(PHASOR_NOT_READY, "no kernels for such sizes were made yet");
    return recipe_from_class(job, CLASS_GENERATED, false);
}

static phasor_status job_begin_generic(struct job *job)
{
    TRY(call_describe(job->call, false, &job->arena, &job->shape));
    TRY(recipe_from_class(job, job->ready_only ? CLASS_KNOWN : CLASS_FOUND, false));
    if (!job->spec->class)
        TRY(job_begin_new_class(job));
    return job_keep_shape(job);
}

static phasor_status job_begin_exact(struct job *job)
{
    TRY(job_bind(job));
    TRY(job_key(job));
    TRY(job_from_cache(job, &job->found));
    return job->found ? PHASOR_OK : recipe_from_plan(job->program, &job->shape, &job->spec->recipe);
}

/* A program without dynamic sizes is exact in every mode. */
bool program_is_exact(const struct phasor_program *program)
{
    return program->runtime->options.mode == PHASOR_MODE_EXACT ||
           program_real(program)->sizes->symbols.count == 0;
}

phasor_status job_begin(struct job *job)
{
    return program_is_exact(job->program) ? job_begin_exact(job) : job_begin_generic(job);
}

/* Makes a class ready for the sizes of a specialisation: its kernels compiled, loaded and held. */
static phasor_status class_prepare(struct specialisation *spec, bool any)
{
    struct specialisation probe = {.program = spec->program};
    struct job job = {.program = spec->program,
                      .runtime = spec->program->runtime,
                      .spec = &probe,
                      .shape = *spec->shape};
    phasor_status status = recipe_from_class(&job, CLASS_STORED, any);
    if (status == PHASOR_OK)
        status = job_class_kernels(&job, any);
    if (status == PHASOR_OK)
        status = classes_hold(job.program, probe.class, probe.kernels);
    job_drop(&job);
    return status;
}

phasor_status specialisation_later(struct specialisation *spec, enum later later)
{
    struct device_scope scope;
    TRY(device_enter(spec->program->runtime->device, &scope));
    const phasor_status status = class_prepare(spec, later == LATER_ANY);
    device_leave(spec->program->runtime->device, &scope);
    if (status == PHASOR_OK && later == LATER_CLASS)
        flight_forget(&spec->program->specialisations, &spec->flight);
    return status;
}

/* -- what needs less ---------------------------------------------------------------------------- */

/* A tensor of the caller with more alignment than its elements need. */
struct aligned_tensor {
    struct call_tensor *tensor;
    int own, least;
    bool is_output;
};

struct aligned_tensors {
    struct aligned_tensor *at;
    int count;
};

static void aligned_collect(const struct slot *slots, struct call_tensor *tensors, int count,
                            bool is_output, struct aligned_tensors *out)
{
    for (int i = 0; tensors && i < count; i++) {
        const enum dtype dtype = slots[i].dtype;
        const int least =
            tensors[i].rank < 0 ? 0 : dtype_size(dtype) / (dtype_is_complex(dtype) ? 2 : 1);
        if (least > 0 && tensors[i].alignment > least)
            out->at[out->count++] =
                (struct aligned_tensor){&tensors[i], tensors[i].alignment, least, is_output};
    }
}

static phasor_status job_find_exact(struct job *job, bool *found)
{
    TRY(job_key(job));
    TRY(job_from_cache(job, found));
    job->found = *found;
    return PHASOR_OK;
}

/* A class that the program has, or the cache with all of its kernels. */
static phasor_status job_find_class(struct job *job, bool any, bool *found)
{
    bool missing = false;
    TRY(recipe_from_class(job, CLASS_FOUND, any));
    *found = job->spec->class != NULL;
    if (!*found)
        return PHASOR_OK;
    const phasor_status status = job_kernels(job, &missing);
    *found = status == PHASOR_OK && !missing;
    if (*found)
        return PHASOR_OK;
    if (missing)
        classes_forget(&job->program->classes, job->spec->class);
    job_drop(job);
    job->spec->class = NULL;
    return status == PHASOR_NOT_READY || status == PHASOR_ERROR_COMPILE ? PHASOR_OK : status;
}

/* What was made for tensors of less alignment serves those of more: first as little less as can be,
 * for the inputs alone (buffers for outputs are mostly fresh), then for outputs too, then for some
 * of them. */
static phasor_status job_find_less(struct job *job, const struct aligned_tensors *tensors,
                                   bool exact, bool *found)
{
    enum { ALIGNMENT_MOST = 16, SUBSETS_OF = 4 };
    const int count = tensors->count, subsets = count <= SUBSETS_OF ? (1 << count) - 1 : 0;
    const bool has_outputs = count > 0 && tensors->at[count - 1].is_output;
    *found = false;
    for (int outputs = 0; outputs < (has_outputs ? 2 : 1); outputs++)
        for (int level = ALIGNMENT_MOST; level > 0 && !*found; level /= 2) {
            bool is_new = level == ALIGNMENT_MOST && !outputs;
            for (int i = 0; i < count; i++) {
                const struct aligned_tensor *t = &tensors->at[i];
                const bool is_lower = t->own > level && (!t->is_output || outputs);
                t->tensor->alignment = !is_lower ? t->own : level > t->least ? level : t->least;
                is_new |= is_lower && level >= t->least;
            }
            if (is_new)
                TRY(exact ? job_find_exact(job, found) : job_find_class(job, false, found));
        }
    if (!exact && !*found)
        TRY(job_find_class(job, true, found));
    for (int subset = 1; subset < subsets && !*found; subset++) {
        for (int i = 0; i < count; i++)
            tensors->at[i].tensor->alignment =
                subset >> i & 1 ? tensors->at[i].least : tensors->at[i].own;
        TRY(exact ? job_find_exact(job, found) : job_find_class(job, false, found));
    }
    return PHASOR_OK;
}

/* Where the call's own kernels cannot be had and nothing can be compiled: others that serve it may
 * be there, for less alignment, for sizes as arguments or as literals, for any tensors. All give
 * the same bits. */
static phasor_status job_kernels_other(struct job *job, phasor_status failed)
{
    const struct phasor_program *program = job->program;
    const int slots = program->input_count + program->output_count;
    struct aligned_tensors tensors = {NEW(&job->arena, struct aligned_tensor, slots), 0};
    const bool is_exact = program_is_exact(program);
    struct text why = {0};
    bool found = false;
    text_add(&why, message_get());
    job_drop(job);
    job->spec->class = NULL;
    job->spec->makes_do = false;
    phasor_status status = tensors.at ? PHASOR_OK : fail_memory();
    if (status == PHASOR_OK) {
        aligned_collect(program->inputs, job->shape.inputs, job->shape.input_count, false,
                        &tensors);
        aligned_collect(program->outputs, job->shape.outputs, job->shape.output_count, true,
                        &tensors);
        status = job_find_less(job, &tensors, is_exact, &found);
    }
    if (status == PHASOR_OK && !found)
        status = job_find_less(job, &tensors, !is_exact, &found);
    if (status == PHASOR_OK && !found)
        status = fail(failed, "%s", text_get(&why));
    text_free(&why);
    return status;
}

static phasor_status job_kernels_exact(struct job *job)
{
    bool missing;
    if (job->found)
        return PHASOR_OK;
    TRY(job_kernels(job, &missing));
    return recipe_to_cache(job);
}

phasor_status job_end(struct job *job)
{
    phasor_status status =
        job->spec->class ? job_class_kernels(job, false) : job_kernels_exact(job);
    if (!job->ready_only && (status == PHASOR_ERROR_COMPILE || status == PHASOR_NOT_READY))
        status = job_kernels_other(job, status);
    TRY(status);
    return job->runtime->device ? steps_ready(job->spec, job->ready_only) : PHASOR_OK;
}

void job_close(struct job *job, phasor_status status)
{
    text_free(&job->key);
    arena_free(&job->arena);
    if (status == PHASOR_OK)
        count_up(&job->runtime->specialisations, 1);
}
