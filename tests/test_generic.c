/* test_generic.c - plans whose sizes are arguments.
 *
 *     every case with dynamic sizes, every input set      the bits of the plan with literal sizes
 *     bench_rope_bf16 with lengths 1, 2, 77, 4096         one and the same source
 *
 * The kernels are compiled as C++ and run on the CPU. */
#include "kernel_run.h"
#include "leak.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 1000, BATCH = 64 };

/* The same case twice. */
struct both {
    struct case_run exact, generic;
};

static struct both cases[CASES_MAX];
static int case_count;

static bool has_symbols(const struct case_run *c)
{
    return c->rewritten && c->real.sizes->symbols.count > 0;
}

static void add_case(const char *directory, const char *kind, int set)
{
    cr_assert_lt(case_count, CASES_MAX);
    struct both *b = &cases[case_count];
    const struct rewrite_options options = {.fma = true};
    cr_assert_eq(case_open(&b->exact, directory, kind, set, &options), PHASOR_OK, "%s",
                 phasor_message());
    if (has_symbols(&b->exact)) {
        cr_assert_eq(case_open(&b->generic, directory, kind, set, &options), PHASOR_OK);
        b->generic.options.generic = true;
        case_count++;
    } else {
        case_close(&b->exact);
    }
}

static void check_case(struct both *b, struct host_module *module, int exact, int generic)
{
    char why[256];
    cr_assert_eq(case_launch(&b->exact, module, exact), PHASOR_OK, "%s", phasor_message());
    cr_assert_eq(case_launch(&b->generic, module, generic), PHASOR_OK, "%s", phasor_message());
    cr_expect_eq(b->exact.flag, b->generic.flag);
    for (int slot = 0; slot < b->exact.plan.output_count; slot++) {
        struct eval_tensor x, y;
        if (!b->exact.plan.outputs[slot].tensor)
            continue;
        cr_assert_eq(case_output(&b->exact, slot, &x), PHASOR_OK);
        cr_assert_eq(case_output(&b->generic, slot, &y), PHASOR_OK);
        cr_expect(tensors_equal_bits(&x, &y, why, sizeof why), "%s: output_%d: %s", b->exact.name,
                  slot, why);
        eval_tensor_free(&x);
        eval_tensor_free(&y);
    }
}

static int add_sources(const struct plan *plan, const char **sources, const char **names, int count)
{
    for (size_t k = 0; k < plan->kernels.count; k++) {
        sources[count] = plan->kernels.at[k].source;
        names[count++] = plan->kernels.at[k].name;
    }
    return count;
}

static void run_batch(int first, int last)
{
    static const char *sources[4096], *names[4096];
    int count = 0, exact[CASES_MAX], generic[CASES_MAX];
    struct host_module *module = NULL;
    for (int i = first; i < last; i++) {
        exact[i] = count;
        count = add_sources(&cases[i].exact.plan, sources, names, count);
        generic[i] = count;
        count = add_sources(&cases[i].generic.plan, sources, names, count);
    }
    cr_assert(host_compile(sources, names, count, &module), "%s", host_error());
    for (int i = first; i < last; i++)
        check_case(&cases[i], module, exact[i], generic[i]);
    host_close(module);
}

Test(generic, cases_have_the_bits_of_literal_sizes, .timeout = 3600)
{
    struct templates templates;
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    cases_each(add_case);
    cr_assert(case_count > 0);
    for (int i = 0; i < case_count; i++) {
        struct both *b = &cases[i];
        cr_assert_eq(case_plan(&b->exact, &templates), PHASOR_OK, "%s: %s", b->exact.name,
                     phasor_message());
        cr_assert_eq(case_plan(&b->generic, &templates), PHASOR_OK, "%s: %s", b->exact.name,
                     phasor_message());
    }
    for (int first = 0, kernels = 0, i = 0; i < case_count; i++) {
        kernels += (int)cases[i].exact.plan.kernels.count;
        if (kernels >= BATCH || i == case_count - 1) {
            run_batch(first, i + 1);
            first = i + 1;
            kernels = 0;
        }
    }
    cr_log_info("%d input sets of programs with dynamic sizes", case_count);
    for (int i = 0; i < case_count; i++) {
        case_close(&cases[i].exact);
        case_close(&cases[i].generic);
    }
    templates_free(&templates);
    ASSERT_NO_LEAKS();
}
