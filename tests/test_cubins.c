/* test_cubins.c - every template alone, by NVRTC to cubins for five archs, and every kernel of every
 * case for the oldest and for sm_90: no GPU needed. PHASOR_ALL_ARCHS=1 (tools/test.sh --all-archs):
 * kernels for all five.
 *
 * Kernels are compiled as a prewarm does it, many in one text; when one of them is refused, each
 * alone, so that the message names it.
 *
 * For sm_90 no kernel may keep registers in local memory, but those with sine, cosine or tangent:
 * the C library of CUDA reduces large arguments in an array there. */
#include "base/embedded.h"
#include "codegen/join.h"
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
enum { ARCHS = sizeof archs / sizeof *archs, KERNEL_ARCHS = 2, BATCH = 32, THREADS = 2 };

struct unit {
    struct hash key;
    char *source, *kernel, *from;
    bool trigonometric;
};

/* Units first .. first + count - 1 in one compile. */
struct batch {
    size_t first, count;
    const char *arch;
};

static struct {
    ARRAY(struct unit) units;
    ARRAY(struct batch) batches;
    struct templates templates;
    struct compiler *compiler;
    atomic_size_t next;
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

static void look_at(const struct unit *unit, const char *name, const char *arch,
                    const struct compile_result *result)
{
    struct cubin_resources resources;
    atomic_fetch_add(&all.compiled, 1);
    if (!cubin_resources(result->cubin, result->cubin_size, name, &resources))
        note_failure(unit, arch, "the cubin has no such kernel");
    else if (strcmp(arch, "sm_90") == 0 && resources.local_bytes != 0 && !unit->trigonometric)
        note_failure(unit, arch, "registers are kept in local memory");
}

static void compile_alone(const struct unit *unit, const char *arch)
{
    const struct compile_request request = {
        .name = unit->from, .source = unit->source, .arch = arch};
    struct compile_result result;
    if (compiler_run(all.compiler, &request, &result) != PHASOR_OK) {
        note_failure(unit, arch, message_get());
        return;
    }
    look_at(unit, unit->kernel, arch, &result);
    compile_result_free(&result);
}

static bool compile_joined(const struct batch *batch)
{
    const struct unit *units = &all.units.at[batch->first];
    struct joined_kernel kernels[BATCH];
    struct arena arena = {0};
    struct text source = {0};
    struct compile_result result = {0};
    for (size_t i = 0; i < batch->count; i++)
        kernels[i] = (struct joined_kernel){units[i].source, units[i].kernel, NULL};
    bool done = codegen_join(kernels, (int)batch->count, &arena, &source) == PHASOR_OK;
    const struct compile_request request = {
        .name = "batch", .source = text_get(&source), .arch = batch->arch};
    done = done && compiler_run(all.compiler, &request, &result) == PHASOR_OK;
    for (size_t i = 0; done && i < batch->count; i++)
        look_at(&units[i], kernels[i].joined_name, batch->arch, &result);
    compile_result_free(&result);
    text_free(&source);
    arena_free(&arena);
    return done;
}

static void *compile_all(void *unused)
{
    for (size_t at; (at = atomic_fetch_add(&all.next, 1)) < all.batches.count;) {
        const struct batch *batch = &all.batches.at[at];
        if (!compiler_knows_arch(all.compiler, batch->arch))
            continue;
        if (batch->count > 1 && compile_joined(batch))
            continue;
        for (size_t i = 0; i < batch->count; i++)
            compile_alone(&all.units.at[batch->first + i], batch->arch);
    }
    return unused;
}

static void add_batches(size_t first, size_t most, int arch_count)
{
    for (size_t at = first; at < all.units.count; at += most)
        for (int a = 0; a < arch_count; a++) {
            const size_t left = all.units.count - at;
            const struct batch batch = {at, left < most ? left : most, archs[a]};
            cr_assert(array_push(&all.batches, batch));
        }
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
    array_free(&all.batches);
    text_free(&all.failures);
}

Test(cubins, templates_and_kernels_of_all_cases, .timeout = 3600)
{
    if (compiler_open(&all.compiler) != PHASOR_OK) {
        cr_log_info("skipped: %s", message_get());
        return;
    }
    const char *all_archs = getenv("PHASOR_ALL_ARCHS");
    add_templates();
    const size_t templates = all.units.count;
    add_batches(0, 1, ARCHS);
    add_cases();
    cr_expect_gt(all.units.count, templates + 50);
    add_batches(templates, BATCH, all_archs && strcmp(all_archs, "1") == 0 ? ARCHS : KERNEL_ARCHS);
    run_threads();
    cr_log_info("%zu sources, %d cubins by %s", all.units.count, atomic_load(&all.compiled),
                compiler_version(all.compiler));
    cr_expect_eq(all.failures.length, 0, "%s", text_get(&all.failures));
    free_units();
    compiler_close(all.compiler);
    ASSERT_NO_LEAKS();
}
