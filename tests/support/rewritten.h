/* rewritten.h - a .phasor text, its real form, and both of them run on the same random bytes.
 *
 *     struct rewritten r;
 *     rewritten_open(&r, text, PHASOR_RULES_ALL, true);
 *     rewritten_compare(&r, seed, (struct tolerance){0, 0});    before == after, by element
 *     rewritten_close(&r);
 */
#pragma once
#include "eval/eval.h"
#include "graph/element.h"
#include "rewrite/rewrite.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 16 };

struct rewritten {
    struct arena arena;
    struct sizes sizes;
    struct graph loaded, real;
    struct refusal_list refusals;
    struct rewrite_options options;
    bool done;
};

struct tolerance {
    double relative, absolute;
};

/* Where the elements of inputs come from. */
struct values {
    uint64_t state;
    const double *special; /* NULL: random numbers between -2 and 2 */
    int special_count;
};

static double values_next(struct values *values)
{
    values->state = values->state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t bits = values->state >> 33;
    if (values->special)
        return values->special[bits % (uint64_t)values->special_count];
    return (double)bits / (double)(1u << 31) * 4 - 2;
}

static inline void rewritten_open(struct rewritten *r, const char *text, phasor_rules rules,
                                  bool fma)
{
    *r = (struct rewritten){.options = {rules, fma}};
    cr_assert_eq(sizes_init(&r->sizes, &r->arena), PHASOR_OK);
    cr_assert_eq(graph_init(&r->loaded, &r->arena, &r->sizes, "test"), PHASOR_OK);
    cr_assert_eq(graph_init(&r->real, &r->arena, &r->sizes, "test"), PHASOR_OK);
    const phasor_status status = graph_parse(&r->loaded, text, "test.phasor", NULL, NULL);
    cr_assert_eq(status, PHASOR_OK, "%s\n%s", message_get(), text);
    r->real.name = r->loaded.name;
    const phasor_status rewritten =
        rewrite_program(&r->loaded, &r->real, &r->options, &r->refusals, &r->done);
    cr_assert_eq(rewritten, PHASOR_OK, "%s\n%s", message_get(), text);
    if (r->done)
        cr_assert_eq(graph_verify(&r->real), PHASOR_OK, "%s\n%s", message_get(), text);
}

static inline void rewritten_close(struct rewritten *r)
{
    array_free(&r->refusals);
    graph_free(&r->loaded);
    graph_free(&r->real);
    sizes_free(&r->sizes);
    arena_free(&r->arena);
}

static int64_t shape_count(const struct graph *graph, value v)
{
    int64_t count = 1;
    for (int d = 0; d < graph_node(graph, v)->rank; d++)
        count *= graph_dim(graph, v, d);
    return count;
}

/* Random elements of a dtype, real parts before imaginary ones. Integers are 0 to 2, or 0 to 1
 * where they are bool. */
static void fill(enum dtype dtype, int64_t count, struct values *values, void *bytes)
{
    const enum dtype real = dtype_info[dtype].real;
    const int64_t parts = dtype_is_complex(dtype) ? 2 * count : count;
    for (int64_t i = 0; i < parts; i++) {
        const double number = values_next(values);
        struct number n = {.re = (float)number};
        if (real == DT_f64)
            n.re = number;
        else if (dtype_is_integer(real))
            n.i = real == DT_bool ? number > 0 : (int64_t)fabs(number) % 3;
        element_store(real, n, (char *)bytes + i * dtype_size(real));
    }
}

struct memory {
    void *inputs[SLOTS_MAX], *states[SLOTS_MAX];
};

/* Row-major bytes for the slots of the loaded graph; the real graph reads the same. */
static void memory_fill(struct memory *memory, const struct graph *graph, struct values *values)
{
    cr_assert_leq(graph->inputs.count, SLOTS_MAX);
    cr_assert_leq(graph->buffers.count, SLOTS_MAX);
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const value v = graph->inputs.at[i].node; /* 0: no tensor */
        const enum dtype dtype = graph_node(graph, v)->dtype;
        memory->inputs[i] = calloc((size_t)shape_count(graph, v) + 1, (size_t)dtype_size(dtype));
        if (v)
            fill(dtype, shape_count(graph, v), values, memory->inputs[i]);
    }
    for (size_t i = 0; i < graph->buffers.count; i++) {
        const value v = graph->buffers.at[i].node;
        const enum dtype dtype = graph_node(graph, v)->dtype;
        memory->states[i] = calloc((size_t)shape_count(graph, v) + 1, (size_t)dtype_size(dtype));
        fill(dtype, shape_count(graph, v), values, memory->states[i]);
    }
}

static void memory_clear(struct memory *memory)
{
    for (int i = 0; i < SLOTS_MAX; i++) {
        free(memory->inputs[i]);
        free(memory->states[i]);
    }
}

static void run(const struct graph *graph, bool fma, const struct memory *memory,
                struct eval_results *results)
{
    struct eval_view inputs[SLOTS_MAX] = {{0}}, states[SLOTS_MAX] = {{0}};
    for (size_t i = 0; i < graph->inputs.count; i++)
        inputs[i] = (struct eval_view){graph_node(graph, graph->inputs.at[i].node)->dtype,
                                       memory->inputs[i], NULL};
    for (size_t i = 0; i < graph->buffers.count; i++)
        states[i] = (struct eval_view){graph_node(graph, graph->buffers.at[i].node)->dtype,
                                       memory->states[i], NULL};
    const struct eval_inputs slots = {inputs, (int)graph->inputs.count, states,
                                      (int)graph->buffers.count};
    bool out_of_range;
    const phasor_status status =
        eval_graph(graph, &(struct eval_options){.fma = fma}, &slots, results, &out_of_range);
    cr_assert_eq(status, PHASOR_OK, "%s", message_get());
}

static double element(const struct eval_tensor *tensor, int64_t i)
{
    const enum dtype real = dtype_info[tensor->dtype].real;
    const struct number n = element_load(real, (const char *)tensor->bytes + i * dtype_size(real));
    return dtype_is_integer(real) ? (double)n.i : n.re;
}

static bool is_near(double a, double b, struct tolerance tolerance)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= tolerance.absolute + tolerance.relative * fabs(b);
}

/* A program before and after, with the results of one run. */
struct comparison {
    const struct graph *loaded, *real;
    struct eval_results before, after;
    struct tolerance tolerance;
};

static void compare_values(const struct comparison *c, value v, value w)
{
    if (v == 0)
        return;
    const struct eval_tensor *a = eval_result(&c->before, v), *b = eval_result(&c->after, w);
    cr_assert(a && b);
    cr_assert_eq(dtype_info[a->dtype].real, b->dtype);
    const int64_t count = eval_tensor_count(a) * (dtype_is_complex(a->dtype) ? 2 : 1);
    cr_assert_eq(count, eval_tensor_count(b));
    for (int64_t i = 0; i < count; i++)
        if (!is_near(element(b, i), element(a, i), c->tolerance))
            cr_assert_fail("%s: %s: element %ld: before %.9g, after %.9g", c->loaded->name,
                           graph_node(c->loaded, v)->name, (long)i, element(a, i), element(b, i));
}

/* Outputs and what is left in buffers and inputs. */
static void compare_slots(const struct comparison *c)
{
    const struct graph *loaded = c->loaded, *real = c->real;
    for (size_t i = 0; i < loaded->outputs.count; i++)
        compare_values(c, loaded->outputs.at[i].node, real->outputs.at[i].node);
    for (size_t i = 0; i < loaded->buffers.count; i++)
        compare_values(c, loaded->buffers.at[i].written, real->buffers.at[i].written);
    for (size_t i = 0; i < loaded->inputs.count; i++)
        compare_values(c, loaded->inputs.at[i].written, real->inputs.at[i].written);
}

static inline void compare_graphs(const struct graph *loaded, const struct graph *real, bool fma,
                                  struct values values, struct tolerance tolerance)
{
    struct comparison c = {.loaded = loaded, .real = real, .tolerance = tolerance};
    struct memory memory = {{0}, {0}};
    memory_fill(&memory, loaded, &values);
    run(loaded, fma, &memory, &c.before);
    run(real, fma, &memory, &c.after);
    compare_slots(&c);
    eval_free(&c.before);
    eval_free(&c.after);
    memory_clear(&memory);
}

static inline void rewritten_compare_values(const struct rewritten *r, struct values values,
                                            struct tolerance tolerance)
{
    cr_assert(r->done, "%s", r->refusals.count ? r->refusals.at[0].reason : "");
    compare_graphs(&r->loaded, &r->real, r->options.fma, values, tolerance);
}

static inline void rewritten_compare(const struct rewritten *r, uint64_t seed,
                                     struct tolerance tolerance)
{
    rewritten_compare_values(r, (struct values){.state = seed}, tolerance);
}
