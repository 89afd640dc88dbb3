/* test_random.c - random graphs of the operator table: the generated kernels, compiled as C++, give
 * the evaluator's values; and for complex graphs the evaluator gives the same before and after the
 * rewrite.
 *
 * Values are compared bit for bit, but those that random_graph.h marks as loose (read by nobody):
 * sums and products of any floats, complex functions. The C++ run calls the C library that the
 * evaluator calls, so that math functions of real numbers are compared bit for bit too; what they
 * are on a GPU is a question for tests that have one. Every other pair of graphs has kernels that
 * take sizes as arguments.
 *
 * Complex graphs have every row of the table, those that are not defined on complex numbers on real
 * branches; most are small, so that 2000 of them fit into a test run. It prints how many graphs
 * each row is in.
 *
 * PHASOR_TEST_GRAPHS sets the number of graphs, PHASOR_TEST_SEED the first seed. */
#include "support/leak.h"
#include "support/random_graph.h"
#include "support/world.h"

#include "rewrite/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 480, COMPLEX_GRAPHS = 2000, BATCH = 100, OCCURS = 20 };

struct random_case {
    struct world world;
    struct graph real;
    struct refusal_list refusals;
    struct random_graph random;
    struct graph_run run;
    bool rewritten;
};

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static void show(const struct random_case *c, const char *why)
{
    struct text text = {0};
    graph_print(&c->world.graph, &text);
    cr_expect_fail(
        "seed %lu: %s\nalone: PHASOR_TEST_SEED=%lu PHASOR_TEST_GRAPHS=1; as a program that "
        "phasor runs:\n%s",
        (unsigned long)c->random.seed, why, (unsigned long)c->random.seed, text_get(&text));
    text_free(&text);
}

/* Rows that something is computed with: one more graph for each. */
static void count_rows(const struct graph *graph, int *counts)
{
    bool *live = calloc(graph->nodes.count, sizeof *live), occurs[OP_COUNT] = {false};
    cr_assert(live);
    graph_mark_live(graph, live);
    for (value v = 1; v < graph->nodes.count; v++)
        occurs[graph_node(graph, v)->op] |= live[v];
    for (int op = 1; op < OP_COUNT; op++)
        counts[op] += occurs[op];
    free(live);
}

/* Real graphs are planned as they are, every other one after the passes. */
static const struct graph *graph_to_plan(struct random_case *c)
{
    struct world *w = &c->world;
    cr_assert_eq(graph_init(&c->real, &w->arena, &w->sizes, "test"), PHASOR_OK);
    if (!c->random.complex && c->random.seed % 2)
        return &w->graph;
    const struct rewrite_options options = {.rules = PHASOR_RULES_ALL, .fma = true};
    const phasor_status status =
        rewrite_program(&w->graph, &c->real, &options, &c->refusals, &c->rewritten);
    if (status != PHASOR_OK || !c->rewritten) {
        show(c, status != PHASOR_OK ? message_get() : c->refusals.at[0].reason);
        return NULL;
    }
    return &c->real;
}

static void open_inputs(struct random_case *c)
{
    uint64_t random = c->random.seed;
    for (int i = 0; i < c->run.call.input_count; i++) {
        const bool written = c->run.real->inputs.at[i].written != 0;
        int layout =
            random_below(&random, 2) ? random_below(&random, RUN_LAYOUT_COUNT) : RUN_CONTIGUOUS;
        if (written && layout == RUN_EXPANDED)
            layout = RUN_CONTIGUOUS;
        graph_run_input(&c->run, i, (enum run_layout)layout, c->random.seed * 31 + (uint64_t)i);
    }
}

static void open_case(struct random_case *c, uint64_t seed, bool complex, int *counts,
                      const struct templates *templates)
{
    *c = (struct random_case){.random = {.seed = seed, .complex = complex}};
    world_new(&c->world);
    random_graph_grow(&c->random, &c->world.graph);
    check_round_trip(&c->world.graph);
    const struct graph *planned = graph_to_plan(c);
    count_rows(complex ? &c->world.graph : planned ? planned : &c->world.graph, counts);
    if (!planned)
        return;
    graph_run_open(&c->run, &c->world.graph, planned);
    open_inputs(c);
    const struct plan_options options = {.generic = seed / 2 % 2};
    if (graph_run_plan(&c->run, templates, options) != PHASOR_OK)
        show(c, message_get());
}

static void close_case(struct random_case *c)
{
    graph_run_close(&c->run);
    array_free(&c->refusals);
    graph_free(&c->real);
    world_free(&c->world);
}

/* The evaluator on both graphs. */
static bool same_after_rewrite(const struct random_case *c, char *why, size_t size)
{
    struct eval_results before, after;
    if (graph_run_eval(&c->run, c->run.logical, &before) != PHASOR_OK)
        return snprintf(why, size, "before: %s", message_get()), false;
    if (graph_run_eval(&c->run, c->run.real, &after) != PHASOR_OK)
        return eval_free(&before), snprintf(why, size, "after: %s", message_get()), false;
    bool same = true;
    for (size_t i = 0; i < c->run.real->outputs.count && same; i++) {
        char reason[256];
        same = run_tensors_agree(eval_result(&after, c->run.real->outputs.at[i].node),
                                 eval_result(&before, c->run.logical->outputs.at[i].node),
                                 c->random.tolerances[i], reason, sizeof reason);
        if (!same)
            snprintf(why, size, "before and after the rewrite: output %zu: %s", i, reason);
    }
    eval_free(&before);
    eval_free(&after);
    return same;
}

static void check_case(struct random_case *c, struct host_module *module)
{
    char why[512];
    if (!c->run.planned)
        return;
    if (c->rewritten && !same_after_rewrite(c, why, sizeof why))
        show(c, why);
    else if (graph_run_launch(&c->run, module) != PHASOR_OK)
        show(c, message_get());
    else if (!graph_run_check(&c->run, c->run.real, c->random.tolerances, why, sizeof why))
        show(c, why);
}

/* One compiler call for a batch; where it fails, one for each graph says whose kernel it is. */
static void run_batch(struct random_case *cases, int count)
{
    struct graph_run *list[BATCH];
    struct host_module *module;
    for (int i = 0; i < count; i++)
        list[i] = &cases[i].run;
    if (graph_run_compile(list, count, &module)) {
        for (int i = 0; i < count; i++)
            check_case(&cases[i], module);
        host_close(module);
        return;
    }
    for (int i = 0; i < count; i++)
        if (graph_run_compile(&list[i], 1, &module)) {
            check_case(&cases[i], module);
            host_close(module);
        } else {
            show(&cases[i], host_error());
        }
}

static void run_graphs(int graphs, bool complex, int *counts)
{
    struct templates templates;
    struct random_case *cases = calloc(BATCH, sizeof *cases);
    const int first = number_of("PHASOR_TEST_SEED", 1);
    cr_assert(cases);
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    size_t kernels = 0;
    for (int done = 0; done < graphs; done += BATCH) {
        const int count = graphs - done < BATCH ? graphs - done : BATCH;
        for (int i = 0; i < count; i++) {
            open_case(&cases[i], (uint64_t)(first + done + i), complex, counts, &templates);
            kernels += cases[i].run.plan.kernels.count;
        }
        run_batch(cases, count);
        for (int i = 0; i < count; i++)
            close_case(&cases[i]);
    }
    cr_log_info("%d graphs, %zu kernels", graphs, kernels);
    templates_free(&templates);
    free(cases);
}

static void check_counts(const int *counts, bool complex, int least)
{
    int column = 0;
    printf("graphs in which a row occurs, %s:\n", complex ? "complex" : "real");
    for (int op = 1; op < OP_COUNT; op++)
        if (random_graph_has((enum op)op, complex)) {
            printf("%-16s%5d%s", op_info[op].name, counts[op], ++column % 5 ? "   " : "\n");
            cr_expect_geq(counts[op], least, "%s occurs in %d graphs, %d at least",
                          op_info[op].name, counts[op], least);
        }
    printf("\n");
}

Test(random_graphs, real_dtypes, .timeout = 3600)
{
    int counts[OP_COUNT] = {0};
    const int graphs = number_of("PHASOR_TEST_GRAPHS", GRAPHS);
    run_graphs(graphs, false, counts);
    check_counts(counts, false, graphs >= GRAPHS ? OCCURS : 0);
    ASSERT_NO_LEAKS();
}

Test(random_graphs, complex_dtypes, .timeout = 3600)
{
    int counts[OP_COUNT] = {0};
    const int graphs = number_of("PHASOR_TEST_GRAPHS", COMPLEX_GRAPHS);
    run_graphs(graphs, true, counts);
    check_counts(counts, true, graphs >= COMPLEX_GRAPHS ? OCCURS : 0);
    ASSERT_NO_LEAKS();
}
