/* world.h - a graph with what it lives in, and what must hold for each: its text gives it again. */
#pragma once
#include "graph/graph.h"
#include "graph/infer.h"

#include <criterion/criterion.h>

struct world {
    struct arena arena;
    struct sizes sizes;
    struct graph graph;
};

static inline void world_new(struct world *w)
{
    *w = (struct world){0};
    cr_assert_eq(sizes_init(&w->sizes, &w->arena), PHASOR_OK);
    cr_assert_eq(graph_init(&w->graph, &w->arena, &w->sizes, "test"), PHASOR_OK);
}

static inline void world_free(struct world *w)
{
    graph_free(&w->graph);
    sizes_free(&w->sizes);
    arena_free(&w->arena);
}

static inline void world_parse(struct world *w, const char *text)
{
    world_new(w);
    const phasor_status status = graph_parse(&w->graph, text, "test.phasor", NULL, NULL);
    cr_assert_eq(status, PHASOR_OK, "%s\n%s", message_get(), text);
    cr_assert_eq(graph_verify(&w->graph), PHASOR_OK, "%s\n%s", message_get(), text);
}

/* Prints, parses, verifies and prints again: the same bytes. */
static inline void check_round_trip(const struct graph *graph)
{
    struct world again;
    struct text first = {0}, second = {0};
    graph_print(graph, &first);
    cr_assert_eq(text_status(&first), PHASOR_OK);
    world_parse(&again, text_get(&first));
    graph_print(&again.graph, &second);
    cr_assert_str_eq(text_get(&second), text_get(&first));
    text_free(&first);
    text_free(&second);
    world_free(&again);
}

static inline void check_size_text(struct world *w, dim size, const char *expected)
{
    struct text text = {0};
    size_print(&w->sizes, size, &text);
    cr_assert_str_eq(text_get(&text), expected);
    text_free(&text);
}

static inline void check_type(struct world *w, value v, const char *expected)
{
    struct text text = {0};
    const struct node *n = graph_node(&w->graph, v);
    infer_print_type(&w->graph, n->dtype, n->shape, n->rank, &text);
    cr_assert_str_eq(text_get(&text), expected);
    text_free(&text);
}

static inline value add_input(struct world *w, enum dtype dtype, const dim *sizes, int rank,
                              const char *name)
{
    const struct graph_input input = {.name = name, .kind = PHASOR_TENSOR};
    const struct attributes at = {
        .index = (int)w->graph.inputs.count, .sizes = sizes, .size_count = rank};
    cr_assert(array_push(&w->graph.inputs, input));
    const value v = graph_add(&w->graph, OP_input, dtype, NULL, 0, &at, name);
    w->graph.inputs.at[at.index].node = v;
    return v;
}

/* The same numbers on every machine. */
static inline uint64_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static inline int random_below(uint64_t *state, int bound)
{
    return (int)(random_next(state) % (uint64_t)bound);
}
