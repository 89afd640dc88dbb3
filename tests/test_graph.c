/* test_graph.c - sizes, builder, inference and the verifier. */
#include "support/leak.h"
#include "support/world.h"

#include <stdio.h>
#include <string.h>

/* -- sizes ------------------------------------------------------------------------------------- */

Test(sizes, have_one_normal_form)
{
    struct world w;
    world_new(&w);
    struct sizes *s = &w.sizes;
    const dim a = size_symbol(s, "a", 0, 100, 7), b = size_symbol(s, "b", 1, 50, 3),
              two = size_literal(s, 2);
    cr_assert_eq(size_mul(s, size_add(s, a, 1), two), size_add(s, size_mul(s, two, a), two));
    cr_assert_eq(size_sub(s, size_add(s, a, b), b), a);
    cr_assert_eq(size_sub(s, a, a), 0);
    cr_assert_eq(size_mul(s, a, b), size_mul(s, b, a));
    cr_assert_eq(size_mul(s, size_add(s, a, b), size_sub(s, a, b)),
                 size_sub(s, size_mul(s, a, a), size_mul(s, b, b)));
    cr_assert_eq(size_floordiv(s, size_mul(s, a, size_literal(s, 6)), two),
                 size_mul(s, a, size_literal(s, 3)));
    cr_assert_eq(size_binary(s, SIZE_MOD, size_mul(s, a, b), b), 0);
    cr_assert_eq(size_min(s, a, size_literal(s, 1000)), a, "bounds decide");
    cr_assert_eq(size_value(s, size_mul(s, size_add(s, a, 1), b)), 24);
    cr_assert_eq(sizes_status(s), PHASOR_OK);
    world_free(&w);
    ASSERT_NO_LEAKS();
}

/* Text does not depend on what the pool saw before. */
Test(sizes, print_the_same_in_every_pool)
{
    struct world one, other;
    world_new(&one);
    world_new(&other);
    struct sizes *s = &one.sizes, *t = &other.sizes;
    const dim a = size_symbol(s, "a", 0, 9, 3), b = size_symbol(s, "b", 0, 9, 3);
    const dim c = size_symbol(t, "a", 0, 9, 3), d = size_symbol(t, "b", 0, 9, 3);
    const dim five = size_literal(t, 5);
    size_mul(t, d, d);
    size_binary(t, SIZE_MOD, d, five);
    const dim x =
        size_add(s, size_mul(s, a, b),
                 size_add(s, size_mul(s, b, b), size_binary(s, SIZE_MOD, a, size_literal(s, 5))));
    const dim y = size_add(t, size_binary(t, SIZE_MOD, c, five),
                           size_add(t, size_mul(t, d, d), size_mul(t, d, c)));
    check_size_text(&one, x, "a*b + b*b + mod(a, 5)");
    check_size_text(&other, y, "a*b + b*b + mod(a, 5)");
    world_free(&one);
    world_free(&other);
    ASSERT_NO_LEAKS();
}

Test(sizes, print)
{
    struct world w;
    world_new(&w);
    struct sizes *s = &w.sizes;
    const dim a = size_symbol(s, "a", 0, INT64_MAX, 7);
    check_size_text(&w, size_add(s, size_mul(s, a, size_literal(s, -2)), size_literal(s, -3)),
                    "-2*a - 3");
    check_size_text(&w, size_literal(s, INT64_MIN), "-9223372036854775808");
    check_size_text(&w, size_floordiv(s, a, size_literal(s, 2)), "floordiv(a, 2)");
    check_size_text(&w, size_symbol(s, "odd name", 0, 9, 3), "\"odd name\"");
    world_free(&w);
    ASSERT_NO_LEAKS();
}

Test(sizes, failures_stick)
{
    struct world w;
    world_new(&w);
    const dim a = size_symbol(&w.sizes, "a", 0, INT64_MAX, INT64_MAX);
    cr_assert_eq(size_mul(&w.sizes, a, size_literal(&w.sizes, 2)), 0);
    cr_assert_eq(sizes_status(&w.sizes), PHASOR_ERROR_INPUT);
    cr_assert(strstr(message_get(), "64 bits"));
    world_free(&w);
    world_new(&w);
    size_floordiv(&w.sizes, size_symbol(&w.sizes, "a", 0, 9, 3), 0);
    cr_assert(strstr(message_get(), "divided by zero"));
    world_free(&w);
    ASSERT_NO_LEAKS();
}

/* Expressions that would take too long to print are refused. */
Test(sizes, cannot_grow_without_limit)
{
    struct world w;
    world_new(&w);
    dim a = size_symbol(&w.sizes, "a", 0, INT64_MAX, 7);
    for (int i = 0; i < 100; i++)
        a = size_binary(&w.sizes, SIZE_MAXIMUM,
                        size_floordiv(&w.sizes, a, size_literal(&w.sizes, 3 + i)), a);
    cr_assert_eq(sizes_status(&w.sizes), PHASOR_ERROR_INPUT);
    cr_assert(strstr(message_get(), "too long"));
    world_free(&w);
    ASSERT_NO_LEAKS();
}

/* -- builder ----------------------------------------------------------------------------------- */

Test(builder, infers_as_it_adds)
{
    struct world w;
    world_new(&w);
    struct graph *g = &w.graph;
    const dim s0 = size_symbol(&w.sizes, "s0", 1, 512, 33), four = size_literal(&w.sizes, 4);
    const value a = add_input(&w, DT_f32, (dim[]){s0, four}, 2, "a"),
                b = add_input(&w, DT_f32, (dim[]){four}, 1, "b");
    check_type(&w, graph_map2(g, OP_mul, a, b), "f32[s0, 4]");
    check_type(&w, graph_map2(g, OP_polar, a, b), "c64[s0, 4]");
    check_type(&w, graph_map2(g, OP_lt, a, b), "bool[s0, 4]");
    check_type(&w, graph_transpose(g, a, 0, 1), "f32[4, s0]");
    check_type(&w, graph_unsqueeze(g, a, 1), "f32[s0, 1, 4]");
    check_type(&w, graph_concat(g, (value[]){a, a}, 2, 0), "f32[2*s0, 4]");
    check_type(&w, graph_reduce(g, OP_sum, a, (int[]){1}, 1, true), "f32[s0, 1]");
    check_type(&w, graph_slice(g, a, 0, 0, size_sub(&w.sizes, s0, 1), 1), "f32[s0 - 1, 4]");
    cr_assert_eq(graph_cast(g, a, DT_f32), a);
    cr_assert_eq(graph_reshape(g, a, (dim[]){s0, four}, 2), a);
    cr_assert_eq(graph_status(g), PHASOR_OK, "%s", message_get());
    cr_assert_eq(graph_verify(g), PHASOR_OK, "%s", message_get());
    check_round_trip(&w.graph);
    world_free(&w);
    ASSERT_NO_LEAKS();
}

Test(builder, first_failure_sticks)
{
    struct world w;
    world_new(&w);
    const value a = add_input(&w, DT_f32, (dim[]){size_literal(&w.sizes, 3)}, 1, "a");
    const value b = add_input(&w, DT_f32, (dim[]){size_literal(&w.sizes, 4)}, 1, "b");
    cr_assert_eq(graph_map2(&w.graph, OP_add, a, b), 0);
    cr_assert_eq(graph_map1(&w.graph, OP_neg, a), 0, "later ones do nothing");
    cr_assert_eq(graph_status(&w.graph), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "add(f32[3], f32[4])"), "%s", message_get());
    cr_assert_eq(graph_verify(&w.graph), PHASOR_ERROR_FILE);
    world_free(&w);
    ASSERT_NO_LEAKS();
}

/* -- inference --------------------------------------------------------------------------------- */

#define OPERANDS                                                                      \
    "phasor 1\nsymbol s0 in 2..64 = 5\ninput a: f32[s0, 4, 4]\ninput h: f16[s0, 4]\n" \
    "input z: c64[s0, 4]\ninput i: i64[3]\ninput m: bool[4]\ninput w: c32[2]\n"       \
    "input e: f32[0, 3]\n"

static const struct {
    const char *line, *message;
} refused[] = {
    {"add(a, h)", "add(f32[s0, 4, 4], f16[s0, 4]): operands must have one dtype"},
    {"add(h, h, h)", "wrong number of operands"},
    {"neg(w)", "not defined on this dtype"},
    {"floor(z)", "not defined on this dtype"},
    {"sqrt(i)", "not defined on this dtype"},
    {"bit_and(h, h)", "not defined on this dtype"},
    {"where(i, a, a)", "the condition must be bool"},
    {"complex(h, h)", "parts must be f32 or f64"},
    {"cast(a) : c32[s0, 4, 4]", "unsupported dtype"},
    {"reshape(a) sizes=[s0, 15]", "the number of elements must stay the same"},
    {"permute(a) axes=[0, 1]", "needs each axis once"},
    {"permute(a) axes=[0, 1, 1]", "an axis occurs twice"},
    {"expand(a) sizes=[s0, 4]", "fewer dims than the operand"},
    {"expand(a) sizes=[s0, 4, 8]", "only dims of size 1 can grow"},
    {"slice(a) axis=3 length=1", "axis out of range"},
    {"slice(a) axis=0 start=1 length=s0", "slice out of range"},
    {"select(a) axis=0 start=s0", "index out of range"},
    {"diagonal(a) axes=[1] start=0", "needs two axes"},
    {"unfold(a) axis=1 length=5 step=1", "window out of range"},
    {"roll(a) axes=[1] sizes=[1, 2]", "needs one shift for each axis"},
    {"pad(a) sizes=[0, 0] value=0", "needs two sizes for each dim"},
    {"pad(h) sizes=[0, 0, -5, 0] value=0", "cuts away more than there is"},
    {"real(a)", "needs a complex tensor"},
    {"view_as_complex(h)", "needs f32 or f64"},
    {"view_as_complex(a)", "needs a last dim of 2"},
    {"concat(a, h) axis=0", "parts must have one dtype and rank"},
    {"pair(z, h)", "parts must have one dtype and shape"},
    {"insert(a, a) axis=0 start=1 step=1", "slice out of range"},
    {"sum(a) axes=[3]", "axis out of range"},
    {"amax(z) axes=[0]", "not defined on this dtype"},
    {"index(a, h) axis=0", "an index must be i64 or i32"},
    {"index(a, i, i) axis=2", "more indices than dims"},
    {"index(e, i) axis=0", "an index into a dim of no elements"},
    {"argmin(e) axis=0", "a dim of no elements has no largest and no smallest one"},
    {"index_put(a, h, i) axis=0", "the values do not broadcast"},
    {"gather(h, i) axis=0", "index and tensor must have one rank"},
    {"argmax(z) axis=0", "complex numbers have no order"},
    {"dot(h, h)", "the inner sizes differ"},
    {"dot(a, h)", "operands must have one dtype and rank"},
    {"size sizes=[1, 2]", "needs one size"},
    {"iota sizes=[s0 - 6]", "a negative size"},
};

Test(infer, says_what_does_not_fit)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct world w;
        char text[1024];
        snprintf(text, sizeof text, "%sx = %s\n", OPERANDS, refused[i].line);
        world_new(&w);
        cr_expect_neq(graph_parse(&w.graph, text, "x.phasor", NULL, NULL), PHASOR_OK,
                      "accepted: %s", refused[i].line);
        cr_expect(strstr(message_get(), refused[i].message), "'%s' instead of '%s' for %s",
                  message_get(), refused[i].message, refused[i].line);
        world_free(&w);
    }
    ASSERT_NO_LEAKS();
}

/* A bound copy has numbers where the program had symbols, and is a graph like any other. */
Test(rebind, binds_symbols)
{
    struct world w, bound;
    world_parse(&w, "phasor 1 \"r\"\ninput q: f32[s0, 4]\ninput n: int s0\n"
                    "state c: f32[2] = [1, 2]\npart = slice(q) axis=0 length=s0 - 1\n"
                    "output part\noutput: int 2*s0\ncheck le(s0, 9)\nwrite c = c\n");
    world_new(&bound);
    const dim replacement[1] = {size_literal(&bound.sizes, 7)};
    cr_assert_eq(graph_rebind(&bound.graph, &w.graph, replacement), PHASOR_OK, "%s", message_get());
    cr_assert_eq(graph_verify(&bound.graph), PHASOR_OK, "%s", message_get());
    check_type(&bound, bound.graph.outputs.at[0].node, "f32[6, 4]");
    check_size_text(&bound, bound.graph.outputs.at[1].size, "14");
    check_round_trip(&bound.graph);
    world_free(&w);
    world_free(&bound);
    ASSERT_NO_LEAKS();
}

/* -- the verifier ------------------------------------------------------------------------------ */

#define VERIFIED                                                                                   \
    "phasor 1 \"v\"\ninput a: f32[s0, 4]\ninput b: f32[s0, 4]\ninput n: int s0\nstate c: f32[2] "  \
    "= [1, 2]\n"                                                                                   \
    "mul = mul(a, b)\nsum = sum(mul) axes=[0]\ncast = cast(sum) : f16[4]\noutput cast\nwrite a = " \
    "mul\nwrite c = c\n"

static struct node *node_of(struct world *w, const char *name)
{
    for (size_t v = 1; v < w->graph.nodes.count; v++)
        if (strcmp(w->graph.nodes.at[v].name, name) == 0)
            return &w->graph.nodes.at[v];
    cr_assert_fail("no node %s", name);
    return NULL;
}

/* clang-format off: one line each */
static void break_operand(struct world *w)
{
    ((value *)node_of(w, "mul")->arguments)[0] = 7;
}
static void break_no_operand(struct world *w)
{
    ((value *)node_of(w, "mul")->arguments)[1] = 0;
}
static void break_arity(struct world *w)
{
    node_of(w, "mul")->argument_count = 1;
}
static void break_dtype(struct world *w)
{
    node_of(w, "sum")->dtype = DT_f64;
}
static void break_rank(struct world *w)
{
    node_of(w, "sum")->rank = RANK_MAX + 1;
}
static void break_shape(struct world *w)
{
    ((dim *)node_of(w, "mul")->shape)[0] = 1;
}
static void break_pool(struct world *w)
{
    ((dim *)node_of(w, "mul")->shape)[0] = 100000;
}
static void break_axis(struct world *w)
{
    ((int *)node_of(w, "sum")->attributes.axes)[0] = 5;
}
static void break_operator(struct world *w)
{
    node_of(w, "sum")->op = OP_COUNT;
}
static void break_name(struct world *w)
{
    node_of(w, "sum")->name = "mul";
}
static void break_no_name(struct world *w)
{
    node_of(w, "sum")->name = NULL;
}
static void break_input(struct world *w)
{
    w->graph.inputs.at[1].node = w->graph.inputs.at[0].node;
}
static void break_input_size(struct world *w)
{
    w->graph.inputs.at[2].size = 100000;
}
static void break_output(struct world *w)
{
    w->graph.outputs.at[0].node = 1000;
}
static void break_output_kind(struct world *w)
{
    w->graph.outputs.at[0].kind = PHASOR_FLOAT;
}
static void break_write(struct world *w)
{
    w->graph.inputs.at[0].written = w->graph.outputs.at[0].node;
}
static void break_buffer(struct world *w)
{
    w->graph.buffers.at[0].written = 1000;
}
static void break_state(struct world *w)
{
    w->graph.buffers.at[0].node = 1;
}
static void break_data(struct world *w)
{
    ((struct data *)w->graph.buffers.at[0].initial)->offset = 1;
}
static void break_check(struct world *w)
{
    (void)!array_push(&w->graph.checks, (struct graph_check){100000, "far"});
}
/* clang-format on */

static const struct {
    void (*break_it)(struct world *w);
    const char *message;
} breakages[] = {
    {break_operand, "node mul (mul): operand 0 is no earlier value"},
    {break_no_operand, "operand 1 is no earlier value"},
    {break_arity, "node mul (mul): has 1 operands"},
    {break_dtype, "node sum (sum): is f64[4], its operands make it f32[4]"},
    {break_rank, "rank 17"},
    {break_shape, "node mul (mul): is f32[1, 4], its operands make it f32[s0, 4]"},
    {break_pool, "dim 0 is not in the pool"},
    {break_axis, "axis out of range"},
    {break_operator, "is none"},
    {break_name, "two nodes have the name mul"},
    {break_no_name, "has no name"},
    {break_input, "slot 1 has another node"},
    {break_input_size, "input 2 (n): its size is not in the pool"},
    {break_output, "output 0 (cast): has no value"},
    {break_output_kind, "output 0 (cast): its value is no 0-dim tensor"},
    {break_write, "input 0 (a): what is written has another dtype or shape"},
    {break_buffer, "buffer 0 (c): what is written is no value"},
    {break_state, "slot 0 has another node"},
    {break_data, "reaches outside of its memory"},
    {break_check, "check 0 (far)"},
};

Test(verify, names_what_is_broken)
{
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++) {
        struct world w;
        world_parse(&w, VERIFIED);
        breakages[i].break_it(&w);
        cr_assert_eq(graph_verify(&w.graph), PHASOR_ERROR_FILE, "breakage %zu (%s)", i,
                     breakages[i].message);
        cr_assert(strstr(message_get(), breakages[i].message), "'%s' instead of '%s'",
                  message_get(), breakages[i].message);
        world_free(&w);
    }
    ASSERT_NO_LEAKS();
}
