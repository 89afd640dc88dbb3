/* test_collect.c - scatters that combine: generated code as C++ against the evaluator. */
#include "kernel_run.h"
#include "leak.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Duplicates among the indices, a negative one, an index smaller than the base, bf16 that
 * accumulates in f32. */
static const char *const programs[] = {
    "phasor 1 \"add\"\n"
    "data base: f32[3, 2] = [1, 2, 3, 4, 5, 6]\n"
    "data index: i64[4, 2] = [0, 1, 0, -1, 2, 0, 0, 0]\n"
    "data source: f32[4, 2] = [10, 20, 30, 40, 50, 60, 70, 80]\n"
    "output y = scatter\n"
    "scatter = scatter(base, index, source) axis=0 flag=1\n",
    "phasor 1 \"multiply\"\n"
    "data base: i32[2, 3] = [1, 2, 3, 4, 5, 6]\n"
    "data index: i64[1, 2] = [2, 2]\n"
    "data source: i32[2, 2] = [3, 5, 7, 9]\n"
    "output y = scatter\n"
    "scatter = scatter(base, index, source) axis=1 flag=2\n",
    "phasor 1 \"put\"\n"
    "data base: bf16[2, 4, 2] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]\n"
    "data index: i64[3] = [3, 0, 3]\n"
    "data values: bf16[3, 2] = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]\n"
    "output y = put\n"
    "put = index_put(base, values, index) axis=1 flag=1\n",
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

Test(collect, generated_code_is_the_evaluator)
{
    struct templates templates;
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    for (int p = 0; p < PROGRAMS; p++) {
        static struct case_run c;
        c = (struct case_run){0};
        cr_assert_eq(sizes_init(&c.program.sizes, &c.program.arena), PHASOR_OK);
        cr_assert_eq(graph_init(&c.program.graph, &c.program.arena, &c.program.sizes, "collect"),
                     PHASOR_OK);
        cr_assert_eq(graph_parse(&c.program.graph, programs[p], "collect.phasor", NULL, NULL),
                     PHASOR_OK, "%s", phasor_message());
        cr_assert_eq(graph_init(&c.real, &c.program.arena, &c.program.sizes, "collect"), PHASOR_OK);
        value same[64];
        for (value v = 0; v < 64; v++)
            same[v] = v;
        for (value v = 1; v < c.program.graph.nodes.count; v++)
            graph_copy_node(&c.real, &c.program.graph, v, same);
        cr_assert_eq(graph_copy_slots(&c.real, &c.program.graph, same), PHASOR_OK);
        cr_assert_eq(case_plan(&c, &templates), PHASOR_OK, "%s", phasor_message());

        const char *sources[8], *names[8];
        for (size_t k = 0; k < c.plan.kernels.count; k++) {
            sources[k] = c.plan.kernels.at[k].source;
            names[k] = c.plan.kernels.at[k].name;
        }
        struct host_module *module;
        cr_assert(host_compile(sources, names, (int)c.plan.kernels.count, &module), "%s",
                  host_error());
        cr_assert_eq(case_launch(&c, module, 0), PHASOR_OK, "%s", phasor_message());
        struct eval_results evaluated;
        struct eval_tensor got;
        char why[256];
        cr_assert_eq(case_eval(&c, &c.plan.graph, true, &evaluated), PHASOR_OK, "%s",
                     phasor_message());
        cr_assert_eq(case_output(&c, 0, &got), PHASOR_OK);
        cr_expect(tensors_equal_bits(&got, eval_result(&evaluated, c.real.outputs.at[0].node), why,
                                     sizeof why),
                  "%s: %s", c.real.name, why);
        eval_tensor_free(&got);
        eval_free(&evaluated);
        host_close(module);
        case_close(&c);
    }
    templates_free(&templates);
    ASSERT_NO_LEAKS();
}
