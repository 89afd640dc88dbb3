/* test_kernels.c - every case by its generated kernels, compiled as C++ and run on the CPU:
 * compared with eager's outputs and with the evaluator. All kernels of all cases go through few
 * compiler calls. */
#include "kernel_run.h"
#include "leak.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 1000, BATCH = 96 };

static struct case_run cases[CASES_MAX];
static int case_count;

static void add_case(const char *directory, const char *kind, int set)
{
    cr_assert_lt(case_count, CASES_MAX);
    struct case_run *c = &cases[case_count];
    const phasor_status status =
        case_open(c, directory, kind, set, &(struct rewrite_options){.fma = true});
    cr_expect_eq(status, PHASOR_OK, "%s: %s", c->name, phasor_message());
    if (status == PHASOR_OK && c->rewritten)
        case_count++;
    else
        case_close(c);
}

static void check_output(const struct case_run *c, int slot, const struct eval_results *evaluated)
{
    struct eval_tensor got;
    phasor_value expected;
    char why[256];
    const bool loose = strncmp(c->name, "hf_", 3) == 0;
    cr_assert_eq(case_output(c, slot, &got), PHASOR_OK);
    cr_expect(case_expected(c, slot, &expected) && expected.kind == PHASOR_TENSOR,
              "%s: output_%d is no tensor", c->name, slot);
    cr_expect(case_compare(&got, expected.tensor, loose, why, sizeof why), "%s: output_%d: %s",
              c->name, slot, why);
    const struct eval_tensor *reference = eval_result(evaluated, c->real.outputs.at[slot].node);
    struct eval_tensor other = *reference;
    DLTensor view = {.data = other.bytes,
                     .ndim = other.rank,
                     .dtype = dtype_to_dlpack(other.dtype),
                     .shape = other.sizes};
    cr_expect(case_compare(&got, &view, loose, why, sizeof why),
              "%s: output_%d against the evaluator: %s", c->name, slot, why);
    eval_tensor_free(&got);
}

static void check_case(struct case_run *c, struct host_module *module, int first)
{
    struct eval_results evaluated;
    cr_expect_eq(case_launch(c, module, first), PHASOR_OK, "%s: %s", c->name, phasor_message());
    cr_assert_eq(case_eval(c, &c->plan.graph, true, &evaluated), PHASOR_OK, "%s: %s", c->name,
                 phasor_message());
    cr_expect_eq(c->flag, 0, "%s: an index out of range", c->name);
    for (int slot = 0; slot < c->plan.output_count; slot++)
        if (c->plan.outputs[slot].tensor)
            check_output(c, slot, &evaluated);
    eval_free(&evaluated);
}

/* Cases first..last in one compiler call. */
static void run_batch(int first, int last)
{
    static const char *sources[4096], *names[4096];
    int count = 0, starts[CASES_MAX];
    for (int i = first; i < last; i++) {
        starts[i] = count;
        for (size_t k = 0; cases[i].planned && k < cases[i].plan.kernels.count; k++) {
            sources[count] = cases[i].plan.kernels.at[k].source;
            names[count++] = cases[i].plan.kernels.at[k].name;
        }
    }
    struct host_module *module = NULL;
    if (count)
        cr_assert(host_compile(sources, names, count, &module), "%s", host_error());
    for (int i = first; i < last; i++)
        if (cases[i].planned)
            check_case(&cases[i], module, starts[i]);
    host_close(module);
}

Test(kernels, cases, .timeout = 3600)
{
    struct templates templates;
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    cases_each(add_case);
    int planned = 0;
    for (int i = 0; i < case_count; i++) {
        cases[i].planned = case_plan(&cases[i], &templates) == PHASOR_OK;
        cr_expect(cases[i].planned, "%s: %s", cases[i].name, phasor_message());
        planned += cases[i].planned;
    }
    for (int first = 0, kernels = 0, i = 0; i < case_count; i++) {
        kernels += (int)cases[i].plan.kernels.count;
        if (kernels >= BATCH || i == case_count - 1) {
            run_batch(first, i + 1);
            first = i + 1;
            kernels = 0;
        }
    }
    for (int i = 0; i < case_count; i++)
        case_close(&cases[i]);
    templates_free(&templates);
    cr_log_info("%d of %d cases were planned and run", planned, case_count);
    ASSERT_NO_LEAKS();
}
