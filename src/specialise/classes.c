/* classes.c - plans of a program whose kernels serve many sizes.
 *
 *     first call, 4096 tokens     plan -> signature -> no class: CUDA sources, a class
 *     another, 77 tokens          plan -> the same signature, guards hold: its kernels, with 77 in
 *                                 their arguments; nothing is generated
 *
 *     another process             plan -> the class is in the cache
 *
 * A plan is made for each new sizes, since it is cheap; generating sources is not. See
 * plan/signature.c for why equal signatures and answers mean equal sources.
 */
#include "codegen/codegen.h"
#include "context/program.h"
#include "kernels/kernels.h"

#include "kernels/cache_key.h"

#include <string.h>

static void class_free(struct plan_class *class, struct phasor_runtime *runtime)
{
    for (int k = 0; class->held && k < class->recipe.kernel_count; k++)
        flight_release(&runtime->kernels, &class->held[k]->flight);
    memory_free(class->held);
    text_free(&class->signature);
    recipe_free(&class->recipe);
    plan_free(class->plan);
    shared_tables_free(&class->tables);
    memory_free(class->plan);
    memory_free(class);
}

void classes_init(struct plan_classes *classes)
{
    *classes = (struct plan_classes){0};
    pthread_mutex_init(&classes->lock, NULL);
}

void classes_free(struct plan_classes *classes, struct phasor_runtime *runtime)
{
    while (classes->first) {
        struct plan_class *next = classes->first->next;
        class_free(classes->first, runtime);
        classes->first = next;
    }
    pthread_mutex_destroy(&classes->lock);
}

/* -- finding ----------------------------------------------------------------------------------- */

/* Values of the class's expressions for the sizes of this plan; the guards hold. */
static bool class_serves(const struct plan_class *class, const struct text *signature,
                         const int64_t *symbols, int64_t *values)
{
    return !class->stale && class->signature.length == signature->length &&
           memcmp(class->signature.at, signature->at, signature->length) == 0 &&
           sizes_evaluate(&class->plan->sizes, symbols, values) &&
           sizes_guards_hold(&class->plan->sizes, values);
}

static size_t most_expressions(const struct plan_classes *classes)
{
    size_t most = 0;
    for (const struct plan_class *c = classes->first; c; c = c->next)
        most = c->plan->sizes.nodes.count > most ? c->plan->sizes.nodes.count : most;
    return most;
}

static phasor_status recipe_from_class(const struct plan_classes *classes, struct plan *plan,
                                       const struct text *signature, struct recipe *recipe,
                                       struct class_recipe *out)
{
    int64_t *values = NEW(&plan->arena, int64_t, most_expressions(classes));
    if (!values)
        return fail_memory();
    for (struct plan_class *c = classes->first; c; c = c->next)
        if (class_serves(c, signature, out->symbols, values)) {
            out->class = c;
            return recipe_make_like(recipe, plan, &c->recipe, c->plan, values, false);
        }
    return PHASOR_OK;
}

/* -- the cache --------------------------------------------------------------------------------- */

/* Everything that a class depends on. */
static phasor_status class_key(const struct phasor_program *program, const struct text *signature,
                               struct text *out)
{
    plan_key_begin(program->runtime, "class 1", "", out);
    const int libraries = program_libraries(program);
    if (libraries)
        text_format(out, " libraries=%d", libraries);
    text_add(out, "\n");
    text_add_bytes(out, program->canonical, program->canonical_size);
    text_add_bytes(out, signature->at, signature->length);
    return text_status(out);
}

static phasor_status class_load(struct plan_class *class, const struct phasor_program *program,
                                struct class_recipe *out)
{
    struct cache *cache = program->runtime->cache;
    struct text key = {0};
    void *blob = NULL;
    size_t nbytes;
    phasor_status status = class_key(program, &class->signature, &key);
    const struct hash hash = hash_bytes(text_get(&key), key.length);
    if (status == PHASOR_OK)
        status = cache_get_plan(cache, hash, key.at, key.length, &blob, &nbytes, &class->stored);
    if (status == PHASOR_OK && !class->stored &&
        (program->runtime->options.no_compile || !runtime_toolchain(program->runtime)))
        other_plans_warn(program->runtime);
    if (status == PHASOR_OK && class->stored && !class_read(class, blob, nbytes, &status)) {
        out->again = status == PHASOR_OK;
        if (out->again)
            cache_drop_plan(cache, hash, key.at, key.length);
    }
    memory_free(blob);
    text_free(&key);
    return status;
}

static phasor_status class_store(const struct plan_class *class,
                                 const struct phasor_program *program)
{
    struct text key = {0}, blob = {0};
    phasor_status status = class_key(program, &class->signature, &key);
    if (status == PHASOR_OK)
        status = class_write(class, &blob);
    if (status == PHASOR_OK)
        cache_put_plan(program->runtime->cache, hash_bytes(key.at, key.length), key.at, key.length,
                       text_get(&blob), blob.length);
    text_free(&blob);
    text_free(&key);
    return status;
}

/* -- making ------------------------------------------------------------------------------------ */

static phasor_status class_generate(struct plan_class *class, const struct phasor_program *program)
{
    TRY(codegen_plan(class->plan, &program->runtime->templates));
    TRY(recipe_make(&class->recipe, class->plan, kernel_key_head(program->runtime)));
    return class_store(class, program);
}

static phasor_status class_fill(struct plan_class *class, const struct phasor_program *program,
                                enum class_effort effort, struct recipe *recipe,
                                struct class_recipe *out)
{
    const struct sizes *sizes = &class->plan->sizes;
    class->planned = sizes->nodes.count;
    if (effort == CLASS_STORED || effort == CLASS_FOUND)
        TRY(class_load(class, program, out));
    if (out->again || (effort == CLASS_FOUND && !class->stored))
        return PHASOR_OK;
    if (!class->stored)
        TRY(class_generate(class, program));
    shared_tables_init(&class->tables, class->plan);
    int64_t *values = NEW(&recipe->arena, int64_t, sizes->nodes.count);
    if (!values)
        return fail_memory();
    const bool fits = sizes_evaluate(sizes, out->symbols, values);
    if (class->stored && (!fits || !sizes_guards_hold(sizes, values))) {
        out->again = true;
        return PHASOR_OK;
    }
    if (!fits)
        return fail(PHASOR_ERROR_INPUT, "a size does not fit in 64 bits");
    return recipe_make_like(recipe, class->plan, &class->recipe, class->plan, values, false);
}

/* Takes the plan and the signature over. */
static phasor_status class_make(struct phasor_program *program, struct plan **plan,
                                struct text *signature, enum class_effort effort,
                                struct recipe *recipe, struct class_recipe *out)
{
    struct plan_classes *classes = &program->classes;
    struct plan_class *class = memory_new(sizeof *class);
    if (!class)
        return fail_memory();
    pthread_mutex_init(&class->tables.lock, NULL);
    class->plan = *plan;
    class->signature = *signature;
    *plan = NULL;
    *signature = (struct text){0};
    const phasor_status status = class_fill(class, program, effort, recipe, out);
    if (status != PHASOR_OK || out->again || (effort == CLASS_FOUND && !class->stored)) {
        class_free(class, program->runtime);
        return status;
    }
    class->next = classes->first;
    classes->first = class;
    out->class = class;
    return PHASOR_OK;
}

static phasor_status symbols_get(const struct plan *plan, struct arena *arena, int64_t **out)
{
    const size_t count = plan->sizes.symbols.count;
    *out = NEW(arena, int64_t, count);
    if (!*out)
        return fail_memory();
    for (size_t i = 0; i < count; i++)
        (*out)[i] = plan->sizes.symbols.at[i].value;
    return PHASOR_OK;
}

phasor_status classes_recipe(struct phasor_program *program, struct plan **plan,
                             enum class_effort effort, struct recipe *recipe,
                             struct class_recipe *out)
{
    struct plan_classes *classes = &program->classes;
    struct text signature = {0};
    *out = (struct class_recipe){0};
    TRY(symbols_get(*plan, &recipe->arena, &out->symbols));
    phasor_status status = plan_signature(*plan, &signature);
    pthread_mutex_lock(&classes->lock);
    if (status == PHASOR_OK)
        status = recipe_from_class(classes, *plan, &signature, recipe, out);
    if (status == PHASOR_OK && !out->class && effort != CLASS_KNOWN)
        status = class_make(program, plan, &signature, effort, recipe, out);
    pthread_mutex_unlock(&classes->lock);
    text_free(&signature);
    return status;
}

void classes_forget(struct plan_classes *classes, struct plan_class *class)
{
    pthread_mutex_lock(&classes->lock);
    class->stale = true;
    pthread_mutex_unlock(&classes->lock);
}

phasor_status classes_hold(struct phasor_program *program, struct plan_class *class,
                           struct loaded_kernel *const *kernels)
{
    struct flight_table *table = &program->runtime->kernels;
    const int count = class->recipe.kernel_count;
    phasor_status status = PHASOR_OK;
    pthread_mutex_lock(&program->classes.lock);
    if (!class->held) {
        class->held = memory_new((size_t)count * sizeof *class->held);
        status = class->held ? PHASOR_OK : fail_memory();
        for (int k = 0; class->held && k < count; k++) {
            flight_retain(table, &kernels[k]->flight);
            class->held[k] = kernels[k];
        }
    }
    pthread_mutex_unlock(&program->classes.lock);
    return status;
}
