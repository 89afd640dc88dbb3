/* test_refuse.c - what the rule sets leave as it is: node, target and reason, in program order;
 * and that the graph is then as it was. */
#include "support/rewritten.h"

#include "support/leak.h"

#define HEAD "phasor 1 \"program\"\ninput x: f32[3, 4, 2]\ninput y: f32[3, 4, 2]\n"
#define COMPLEX                                                                    \
    HEAD "z = view_as_complex(x) #: aten.view_as_complex.default @ net.py:1\nw = " \
         "view_as_complex(y)\n"

struct expected {
    const char *node, *target, *reason, *line; /* reason: a part of it */
};

static void check_refused(const char *text, phasor_rules rules, const struct expected *expected,
                          size_t count)
{
    struct rewritten r;
    rewritten_open(&r, text, rules, true);
    cr_assert_eq(r.refusals.count, count, "%zu refusals of\n%s", r.refusals.count, text);
    cr_assert_eq(r.done, count == 0);
    for (size_t i = 0; i < count; i++) {
        const struct refusal *refusal = &r.refusals.at[i];
        cr_assert_str_eq(refusal->node, expected[i].node);
        cr_assert_str_eq(refusal->target, expected[i].target);
        cr_assert(strstr(refusal->reason, expected[i].reason), "%s", refusal->reason);
        cr_assert_eq(!refusal->line, !expected[i].line);
        if (refusal->line)
            cr_assert_str_eq(refusal->line, expected[i].line);
    }
    if (count)
        cr_assert_eq(r.real.nodes.count, 1, "something was built");
    rewritten_close(&r);
}

#define REFUSED(text, rules, ...)                                                    \
    do {                                                                             \
        const struct expected expected_[] = {__VA_ARGS__};                           \
        check_refused(text, rules, expected_, sizeof expected_ / sizeof *expected_); \
    } while (0)
#define REFUSED_BY_EXECUTORCH(text, ...)                     \
    do {                                                     \
        REFUSED(text, PHASOR_RULES_EXECUTORCH, __VA_ARGS__); \
        check_refused(text, PHASOR_RULES_ALL, NULL, 0);      \
    } while (0)

Test(refuse, operators_beyond_the_table)
{
    REFUSED_BY_EXECUTORCH(COMPLEX
                          "a = add(z, w) #: aten.add.Tensor @ net.py:2\nm = mul(a, z)\n"
                          "d = div(m, w) #: aten.div.Tensor\nr = view_as_real(d)\noutput r\n",
                          {"a", "aten.add.Tensor", "executorch", "net.py:2"},
                          {"d", "aten.div.Tensor", "executorch", NULL});
    ASSERT_NO_LEAKS();
}

/* mean is a sum and a quotient in the graph, and one operator of the program. */
Test(refuse, an_operator_of_the_file_is_listed_once)
{
    REFUSED_BY_EXECUTORCH(
        COMPLEX "s = sum(z) axes=[0, 1] #: aten.mean.default of mean\nn = scalar value=12 : c64[]\n"
                "d = div(s, n) #: aten.mean.default of mean\nr = view_as_real(d)\noutput r\n",
        {"mean", "aten.mean.default", "sum", NULL});
    ASSERT_NO_LEAKS();
}

Test(refuse, inputs_and_outputs)
{
    REFUSED_BY_EXECUTORCH("phasor 1 \"program\"\ninput z: c64[3]\ninput x: f32[3, 2]\nw = "
                          "view_as_complex(x)\nm = mul(z, w)\n"
                          "output m\n",
                          {"z", "input", "the input \"z\" is complex", NULL},
                          {"m", "output", "the output \"m\" is complex", NULL});
    ASSERT_NO_LEAKS();
}

Test(refuse, casts_to_real)
{
    REFUSED_BY_EXECUTORCH(COMPLEX "r = cast(z) : f32[3, 4] #: aten.to.dtype\noutput r\n",
                          {"r", "aten.to.dtype", "imaginary part", NULL});
    check_refused(COMPLEX "c = cast(z) : c128[3, 4]\nr = view_as_real(c)\noutput r\n",
                  PHASOR_RULES_EXECUTORCH, NULL, 0);
    ASSERT_NO_LEAKS();
}

Test(refuse, channels_last)
{
    static const char *const body =
        "phasor 1 \"program\"\ninput x: f32[2, 3, 4, 5, 2]\nz = view_as_complex(x)\n"
        "c = contiguous(z) flag=2 #: aten.contiguous.default\nr = view_as_real(c)\noutput r\n";
    REFUSED_BY_EXECUTORCH(body, {"c", "aten.contiguous.default", "channels-last", NULL});
    ASSERT_NO_LEAKS();
}

Test(refuse, branches_of_a_cond)
{
    REFUSED_BY_EXECUTORCH(
        HEAD "z = view_as_complex(x) #: aten.view_as_complex.default in cond @ net.py:5\n"
             "m = mul(z, z) #: aten.mul.Tensor in cond\nr = view_as_real(m)\noutput r\n",
        {"cond", "cond", "branch", "net.py:5"});
    ASSERT_NO_LEAKS();
}

Test(refuse, changed_buffers)
{
    REFUSED_BY_EXECUTORCH(HEAD "state memory: c64[3, 1] = [1, 2j, 3]\nz = view_as_complex(x)\n"
                               "s = slice(z) axis=1 start=0 length=1 step=1\nm = mul(memory, s) #: "
                               "aten.mul_.Tensor of mul_\n"
                               "r = view_as_real(m)\noutput r\n"
                               "write memory = m #: aten.mul_.Tensor of mul_\n",
                          {"mul_", "aten.mul_.Tensor", "the complex buffer \"memory\"", NULL});
    ASSERT_NO_LEAKS();
}

Test(refuse, products_along_an_axis_without_a_maximum)
{
    static const char *const body =
        "phasor 1 \"program\"\nsymbol n in 1.. = 4\ninput x: f32[n, 2]\nz = view_as_complex(x)\n"
        "p = cumprod(z) axis=0 #: aten.cumprod.default\nr = view_as_real(p)\noutput r\n";
    REFUSED(body, PHASOR_RULES_ALL, {"p", "aten.cumprod.default", "maximum", NULL});
    ASSERT_NO_LEAKS();
}

Test(refuse, unknown_operators)
{
    struct rewritten r;
    rewritten_open(&r,
                   COMPLEX "f = unknown(z) text=\"aten.fft_fft.default\" sizes=[3, 4] : c64[3, 4] "
                           "#: aten.fft_fft.default\n"
                           "r = view_as_real(f)\noutput r\n",
                   PHASOR_RULES_ALL, true);
    cr_assert_eq(r.refusals.count, 1);
    cr_assert(r.refusals.at[0].unknown && !r.done);
    cr_assert_str_eq(r.refusals.at[0].target, "aten.fft_fft.default");
    rewritten_close(&r);
    ASSERT_NO_LEAKS();
}

/* The loader's refusals stand: none are added. */
Test(refuse, what_is_refused_already)
{
    struct rewritten r;
    bool done = true;
    rewritten_open(&r, COMPLEX "a = add(z, w)\nr = view_as_real(a)\noutput r\n", PHASOR_RULES_ALL,
                   true);
    struct graph to;
    cr_assert_eq(graph_init(&to, &r.arena, &r.sizes, "test"), PHASOR_OK);
    const struct refusal refusal = {
        .node = "fft", .target = "aten.fft_fft.default", .reason = "unknown", .unknown = true};
    cr_assert(array_push(&r.refusals, refusal));
    cr_assert_eq(rewrite_program(&r.loaded, &to,
                                 &(struct rewrite_options){PHASOR_RULES_EXECUTORCH, true},
                                 &r.refusals, &done),
                 PHASOR_OK);
    cr_assert(!done && r.refusals.count == 1 && to.nodes.count == 1);
    graph_free(&to);
    rewritten_close(&r);
    ASSERT_NO_LEAKS();
}

/* The graph that is read is the same before and after, whether it was rewritten or not. */
Test(refuse, the_loaded_graph_stays)
{
    static const char *const body =
        COMPLEX "a = add(z, w)\nm = mul(a, z)\nr = view_as_real(m)\noutput r\n";
    for (int rules = PHASOR_RULES_ALL; rules <= PHASOR_RULES_EXECUTORCH; rules++) {
        struct rewritten r;
        struct text before = {0}, after = {0};
        struct graph again;
        rewritten_open(&r, body, (phasor_rules)rules, true);
        cr_assert_eq(graph_init(&again, &r.arena, &r.sizes, "program"), PHASOR_OK);
        cr_assert_eq(graph_parse(&again, body, "test.phasor", NULL, NULL), PHASOR_OK);
        graph_print(&again, &before);
        graph_print(&r.loaded, &after);
        cr_assert_str_eq(text_get(&before), text_get(&after));
        graph_free(&again);
        text_free(&before);
        text_free(&after);
        rewritten_close(&r);
    }
    ASSERT_NO_LEAKS();
}
