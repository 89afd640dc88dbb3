/* test_reports.c - programs that other tools got wrong: the right values, as the reports state
 * them, by the evaluator on the loaded graph, by the evaluator on the rewritten one and by the
 * generated code, in both forms.
 *
 *     report_latent_sums, output 0     z + r with z = [1+2i, 3-4i], r = [10, 20]     [11+2i, 23-4i]
 *
 * make/report_programs.py holds the programs. Their other outputs are compared with eager's by
 * test_kernels.c and the rest that goes through all cases. tests/README.md says which report is
 * tested where. */
#include "kernel_run.h"
#include "leak.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/element.h"

#define NUMBERS_MAX 32
#define LIST(...)                                       \
    (sizeof((double[]){__VA_ARGS__}) / sizeof(double)), \
    {                                                   \
        __VA_ARGS__                                     \
    }

/* Parts of complex numbers count one each. */
static const struct right {
    const char *name; /* the case, without "report_" */
    int slot;
    double tolerance; /* relative; 0: exactly */
    const char *what;
    size_t count;
    double numbers[NUMBERS_MAX];
} rights[] = {
    {"latent_sums", 0, 0, "L1: z + r", LIST(11, 2, 23, -4)},
    {"latent_sums", 1, 0, "L2: prod(dim=0)", LIST(-7, 16, -28, -21)},
    {"latent_sums", 2, 0, "L3: roll without dims", LIST(0, -7, 1, 2, 3, -4, 5, 6)},
    {"latent_sums", 3, 0, "L4: where(m, z, 1)", LIST(1, 2, 1, 0)},
    {"latent_sums", 4, 0, "L5: cat of complex and real", LIST(1, 2, 3, -4, 10, 0, 20, 0)},
    {"latent_sums", 5, 0, "L5: stack of complex and real", LIST(1, 2, 10, 0, 3, -4, 20, 0)},
    {"latent_sums", 6, 0, "L6: z + 1j", LIST(1, 3, 3, -3)},
    {"latent_sums", 7, 0, "L6: z * 2j", LIST(-4, 2, 8, 6)},
    {"latent_sums", 8, 0, "L6: r * 1j", LIST(0, 10, 0, 20)},
    {"latent_sums", 9, 2e-7, "L7: r / z", LIST(2, -4, 2.4, 3.2)},
    {"latent_sums", 10, 0, "L8: buffer * r", LIST(10, 10, 40, -20)},
    {"latent_sums", 11, 0, "L13: sum()", LIST(9, -3)},
    {"latent_sums", 12, 0, "L13: sum(dim=None)", LIST(9, -3)},
    {"latent_sums", 13, 0, "L14: add(z, 2z, alpha=2)", LIST(5, 10, 15, -20)},
    {"latent_extremes", 0, 1e-6, "L9: abs, of 1e20+1e20j first",
     LIST(1.41421356e20, 100.005, 1.41421356e30, 5)},
    {"latent_extremes", 3, 1e-6, "L10: tanh(100+1j) is 1",
     LIST(1, 0, 1, 0, 1, 0, -1.00070954, 0.00490825807)},
    {"latent_extremes", 4, 2e-7, "L11: z / z", LIST(1, 0, 1, 0, 1, 0, 1, 0)},
    {"latent_extremes", 6, 0, "L12: (-3+4j)**3", LIST(117, 44)},
    {"pairs", 0, 0, "11: ones + full", LIST(2, 0, 2, 0, 2, 0, 2, 0)},
    {"pairs", 1, 0, "14: 0-dim complex added to itself", LIST(5, 0)},
    {"pairs", 2, 0, "13: z + z",
     LIST(0, 0, 2, -2, 4, -4, 6, -6, 8, -8, 10, -10, 12, -12, 14, -14, 16, -16, 18, -18, 20, -20,
          22, -22, 24, -24, 26, -26, 28, -28, 30, -30)},
    {"pairs", 3, 0, "15: f32 * 1j", LIST(0, 0, 0, 1, 0, 2, 0, 3, 0, 4)},
    {"pairs", 4, 0, "15: f32 * (1+1j)", LIST(0, 0, 1, 1, 2, 2, 3, 3, 4, 4)},
    {"pairs", 5, 0, "16: complex * real", LIST(0, 0, 1, -1, 4, -4, 9, -9, 16, -16)},
    {"pairs", 6, 0, "12: [4, 4] + [4, 1]",
     LIST(0, 0, 1, -1, 2, -2, 3, -3, 8, -8, 9, -9, 10, -10, 11, -11, 16, -16, 17, -17, 18, -18, 19,
          -19, 24, -24, 25, -25, 26, -26, 27, -27)},
    {"layouts", 0, 0, "20: view_as_complex of a transposed tensor", LIST(0, 1, 4, 5, 2, 3, 6, 7)},
    {"layouts", 1, 0, "21: a dim of size 1 with an odd stride", LIST(0, 1, 2, 3, 4, 5)},
    {"layouts", 2, 0, "22: [2] is one complex number", LIST(0, 1)},
    {"conjugates", 0, 0, "27: z + conj(z)", LIST(2, 6, 0, 4)},
    {"conjugates", 1, 0, "26, 28: the conjugate as real numbers", LIST(1, -2, 3, 4, 0, -1, 2, 0)},
    {"numbers", 0, 2e-7, "49: division scaled", LIST(0, 0, 1, 0, 1, 0)},
    {"numbers", 1, 2e-7, "49: abs scaled", LIST(0, 1e20, 1.4142135e30)},
    {"numbers", 2, 1e-6, "46: polar at angles to 131071",
     LIST(1, 0, 1, 0, -0.367459549, 0.930039504, -0.883849273, -0.467771805, -0.817983499,
          -0.575241684, 0.590899426, 0.806745231)},
    {"special", 0, 0, "50: abs(nan+inf j) is inf", LIST(INFINITY, INFINITY, 0, 1, 1)},
    {"special", 1, 0, "51714: 0 ** (1-1j)", LIST(0, 0)},
    {"special", 2, 1e-6, "angle of 0, -1-0j, -1+0j", LIST(0, -M_PI, M_PI)},
    {"special", 3, 0, "sqrt of 0, -1-0j, -1+0j", LIST(0, 0, 0, -1, 0, 1)},
    {"special", 4, 0, "0 ** 2", LIST(0, 0)},
    {"facts", 0, 1e-6, "polar of (-1, 0), (2, inf), (0, inf)", LIST(-1, -0.0, NAN, NAN, NAN, NAN)},
};
enum { RIGHTS = sizeof rights / sizeof *rights };

static double number_at(const struct eval_tensor *t, size_t at)
{
    const enum dtype real = dtype_info[t->dtype].real;
    const struct number n =
        element_load(real, (const char *)t->bytes + at * (size_t)dtype_size(real));
    return dtype_is_integer(real) ? (double)n.i : n.re;
}

static void check_numbers(const struct right *right, const struct eval_tensor *got,
                          const char *link, const char *form)
{
    const size_t parts = (size_t)eval_tensor_count(got) * (dtype_is_complex(got->dtype) ? 2 : 1);
    cr_assert_eq(parts, right->count, "%s: %zu numbers by the %s, %s form", right->what, parts,
                 link, form);
    for (size_t i = 0; i < right->count; i++) {
        const double x = number_at(got, i), y = right->numbers[i];
        const bool same =
            isnan(y) ? isnan(x)
                     : x == y || fabs(x - y) <= right->tolerance * (fabs(y) > 1 ? fabs(y) : 1);
        cr_expect(same, "%s: number %zu is %.9g by the %s, %s form; right is %.9g", right->what, i,
                  x, link, form, y);
    }
}

static void check_right(const struct right *right, const struct case_run *c,
                        const struct eval_results *results, const char *form)
{
    struct eval_tensor got;
    check_numbers(right, eval_result(&results[0], c->program.graph.outputs.at[right->slot].node),
                  "evaluator, as loaded", form);
    check_numbers(right, eval_result(&results[1], c->real.outputs.at[right->slot].node),
                  "evaluator, rewritten", form);
    cr_assert_eq(case_output(c, right->slot, &got), PHASOR_OK);
    check_numbers(right, &got, "generated code", form);
    eval_tensor_free(&got);
}

/* Both forms of the case that rights[first] names; returns where the next case begins. */
static int check_case(int first, const char *form, const struct templates *templates)
{
    struct case_run *c = calloc(1, sizeof *c);
    struct eval_results results[2];
    struct host_module *module = NULL;
    const char *sources[64], *names[64];
    char directory[1024];
    cr_assert(c);
    snprintf(directory, sizeof directory, "%s/report_%s", PHASOR_TEST_CASES, rights[first].name);
    cr_assert_eq(case_open(c, directory, form, 0, &(struct rewrite_options){.fma = true}),
                 PHASOR_OK, "%s", message_get());
    cr_assert(c->rewritten, "%s: %s", c->name, c->refusals.count ? c->refusals.at[0].reason : "");
    cr_assert_eq(case_plan(c, templates), PHASOR_OK, "%s: %s", c->name, message_get());
    cr_assert_leq(c->plan.kernels.count, 64);
    for (size_t k = 0; k < c->plan.kernels.count; k++) {
        sources[k] = c->plan.kernels.at[k].source;
        names[k] = c->plan.kernels.at[k].name;
    }
    cr_assert(host_compile(sources, names, (int)c->plan.kernels.count, &module), "%s",
              host_error());
    cr_assert_eq(case_launch(c, module, 0), PHASOR_OK, "%s", message_get());
    cr_assert_eq(case_eval(c, &c->program.graph, true, &results[0]), PHASOR_OK, "%s",
                 message_get());
    cr_assert_eq(case_eval(c, &c->real, true, &results[1]), PHASOR_OK, "%s", message_get());
    int next = first;
    for (; next < RIGHTS && strcmp(rights[next].name, rights[first].name) == 0; next++)
        check_right(&rights[next], c, results, form);
    eval_free(&results[0]);
    eval_free(&results[1]);
    host_close(module);
    case_close(c);
    free(c);
    return next;
}

static void check_form(const char *form)
{
    struct templates templates;
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    for (int at = 0; at < RIGHTS;)
        at = check_case(at, form, &templates);
    templates_free(&templates);
    ASSERT_NO_LEAKS();
}

Test(reports, right_values_of_plain_programs, .timeout = 3600)
{
    check_form("plain");
}

Test(reports, right_values_of_core_programs, .timeout = 3600)
{
    check_form("core");
}

/* Which outputs of report_outputs share memory with an earlier one, and where they begin in it, in
 * elements. */
static const struct shared {
    int slot, with;
    int64_t offset;
    const char *what;
} shared[] = {
    {1, 0, 0, "1: s and s.contiguous()"},
    {3, 2, 0, "2, 3: y.detach() twice"},
    {4, 2, 0, "y and y.detach()"},
    {5, 4, 0, "6, 7, 8: y, y"},
    {6, 4, 0, "8: y a third time"},
    {10, 4, 4, "y and y[1:]"},
    {11, 4, 0, "9: y and y.T"},
    {13, 12, 0, "w and view_as_real(w)"},
    {14, 13, 0, "w and w.T"},
};

static void check_shared(const struct plan *plan, const char *form)
{
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const struct plan_output *a = &plan->outputs[shared[i].slot],
                                 *b = &plan->outputs[shared[i].with];
        cr_expect(a->memory == b->memory && a->index == b->index &&
                      a->offset - b->offset == shared[i].offset,
                  "%s form: %s share memory", form, shared[i].what);
    }
    const struct plan_output *a = &plan->outputs[7], *b = &plan->outputs[8];
    cr_expect(a->memory != b->memory || a->index != b->index || a->offset != b->offset,
              "%s form: 5: x * 2 and x * 2 are two tensors", form);
    cr_expect_eq(plan->outputs[9].memory, MEMORY_INPUT, "%s form: an input that is an output",
                 form);
}

Test(reports, outputs_that_share_memory)
{
    struct templates templates;
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    for (int form = 0; form < 2; form++) {
        struct case_run c;
        const char *name = form ? "core" : "plain";
        cr_assert_eq(case_open(&c, PHASOR_TEST_CASES "/report_outputs", name, 0,
                               &(struct rewrite_options){.fma = true}),
                     PHASOR_OK);
        cr_assert_eq(case_plan(&c, &templates), PHASOR_OK, "%s", message_get());
        check_shared(&c.plan, name);
        case_close(&c);
    }
    templates_free(&templates);
    ASSERT_NO_LEAKS();
}

/* 4: a buffer that changes and is returned is one write and one output, in both forms. */
Test(reports, a_changed_buffer_that_is_returned)
{
    for (int form = 0; form < 2; form++) {
        struct case_run c;
        cr_assert_eq(case_open(&c, PHASOR_TEST_CASES "/report_counter", form ? "core" : "plain", 0,
                               &(struct rewrite_options){.fma = true}),
                     PHASOR_OK);
        int written = 0;
        for (size_t i = 0; i < c.real.buffers.count; i++)
            written += c.real.buffers.at[i].written != 0;
        cr_expect_eq(written, 2);
        cr_expect_eq(c.real.outputs.count, 4);
        case_close(&c);
    }
    ASSERT_NO_LEAKS();
}
