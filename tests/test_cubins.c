/* test_cubins.c - every template alone, and every kernel of every case, by NVRTC to cubins for five
 * archs: no GPU needed.
 *
 * For sm_90 no kernel may keep registers in local memory, but those with sine, cosine or tangent:
 * the C library of CUDA reduces large arguments in an array there. */
#include "base/embedded.h"
#include "compile/cubin.h"
#include "compile/nvrtc.h"
#include "support/kernel_run.h"
#include "support/leak.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct embedded_file embedded_templates[];

static const char *const archs[] = {"sm_90", "sm_75", "sm_80", "sm_100", "sm_120"};
enum { ARCHS = sizeof archs / sizeof *archs, THREADS = 2 };

struct unit {
    struct hash key;
    char *source, *kernel, *from;
    bool trigonometric;
};

static struct {
    ARRAY(struct unit) units;
    struct templates templates;
    struct compiler *compiler;
    atomic_int next; /* job: unit * ARCHS + arch */
    atomic_int compiled;
    pthread_mutex_t lock;
    struct text failures;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_trigonometric(const char *operators)
{
    return strstr(operators, "sin") || strstr(operators, "cos") || strstr(operators, "tan");
}

static void add_unit(const char *source, const char *kernel, const char *from,
                     const char *operators)
{
    const struct hash key = hash_bytes(source, strlen(source));
    for (size_t i = 0; i < all.units.count; i++)
        if (hash_equal(all.units.at[i].key, key))
            return;
    const struct unit unit = {key, strdup(source), strdup(kernel), strdup(from),
                              is_trigonometric(operators)};
    cr_assert(unit.source && unit.kernel && unit.from && array_push(&all.units, unit));
}

/* -- templates --------------------------------------------------------------------------------- */

static const char *template_text(const char *name)
{
    for (const struct embedded_file *f = embedded_templates; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f->text;
    cr_assert_fail("no template %s", name);
    return NULL;
}

/* What `nvcc map.cu` sees: NVRTC has no files, so that sample.cuh and what it includes stand
 * before. */
static void add_template(const struct embedded_file *file)
{
    struct text source = {0};
    const char *sample = template_text("sample.cuh"),
               *include = strstr(sample, "#include \"device.cuh\"\n");
    cr_assert(include, "sample.cuh includes device.cuh");
    text_add_bytes(&source, sample, (size_t)(include - sample));
    text_add(&source, template_text("device.cuh"));
    text_add(&source, strchr(include, '\n'));
    text_format(&source, "\n#line 1 \"%s\"\n%s", file->name, file->text);
    cr_assert_eq(text_status(&source), PHASOR_OK);
    add_unit(text_get(&source), "sample", file->name, "");
    text_free(&source);
}

static void add_templates(void)
{
    for (const struct embedded_file *f = embedded_templates; f->name; f++)
        if (strlen(f->name) > 3 && strcmp(f->name + strlen(f->name) - 3, ".cu") == 0)
            add_template(f);
}

/* -- cases ------------------------------------------------------------------------------------- */

static void add_case(const char *directory, const char *kind, int set)
{
    struct case_run c;
    const phasor_status status =
        case_open(&c, directory, kind, set, &(struct rewrite_options){.fma = true});
    cr_expect_eq(status, PHASOR_OK, "%s: %s", c.name, message_get());
    if (status == PHASOR_OK && c.rewritten) {
        const phasor_status planned = case_plan(&c, &all.templates);
        cr_expect_eq(planned, PHASOR_OK, "%s: %s", c.name, message_get());
        for (size_t k = 0; planned == PHASOR_OK && k < c.plan.kernels.count; k++)
            if (c.plan.kernels.at[k].source)
                add_unit(c.plan.kernels.at[k].source, c.plan.kernels.at[k].name, c.name,
                         c.plan.kernels.at[k].operators);
    }
    case_close(&c);
}

static void add_cases(void)
{
    cr_assert_eq(templates_load(&all.templates, NULL), PHASOR_OK);
    cases_each(add_case);
    templates_free(&all.templates);
}

/* -- compiling --------------------------------------------------------------------------------- */

static void note_failure(const struct unit *unit, const char *arch, const char *why)
{
    pthread_mutex_lock(&all.lock);
    text_format(&all.failures, "%s: %s for %s: %s\n", unit->from, unit->kernel, arch, why);
    pthread_mutex_unlock(&all.lock);
}

static void compile(const struct unit *unit, const char *arch)
{
    const struct compile_request request = {
        .name = unit->from, .source = unit->source, .arch = arch};
    struct compile_result result;
    struct cubin_resources resources;
    if (!compiler_knows_arch(all.compiler, arch))
        return;
    if (compiler_run(all.compiler, &request, &result) != PHASOR_OK) {
        note_failure(unit, arch, message_get());
        return;
    }
    atomic_fetch_add(&all.compiled, 1);
    const bool read = cubin_resources(result.cubin, result.cubin_size, unit->kernel, &resources);
    if (!read)
        note_failure(unit, arch, "the cubin has no such kernel");
    else if (strcmp(arch, "sm_90") == 0 && resources.local_bytes != 0 && !unit->trigonometric)
        note_failure(unit, arch, "registers are kept in local memory");
    compile_result_free(&result);
}

static void *compile_all(void *unused)
{
    const int jobs = (int)all.units.count * ARCHS;
    for (int job; (job = atomic_fetch_add(&all.next, 1)) < jobs;)
        compile(&all.units.at[job / ARCHS], archs[job % ARCHS]);
    return unused;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        cr_assert_eq(pthread_create(&threads[t], NULL, compile_all, NULL), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
}

static void free_units(void)
{
    for (size_t i = 0; i < all.units.count; i++) {
        free(all.units.at[i].source);
        free(all.units.at[i].kernel);
        free(all.units.at[i].from);
    }
    array_free(&all.units);
    text_free(&all.failures);
}

Test(cubins, templates_and_kernels_of_all_cases, .timeout = 600)
{
    if (compiler_open(&all.compiler) != PHASOR_OK) {
        cr_log_info("skipped: %s", message_get());
        return;
    }
    add_templates();
    add_cases();
    cr_expect_gt(all.units.count, 50);
    run_threads();
    cr_log_info("%zu sources, %d cubins by %s", all.units.count, atomic_load(&all.compiled),
                compiler_version(all.compiler));
    cr_expect_eq(all.failures.length, 0, "%s", text_get(&all.failures));
    free_units();
    compiler_close(all.compiler);
    ASSERT_NO_LEAKS();
}
