/* test_large.c - addresses beyond 2^32 elements: the generated kernels, compiled as C++, read the
 * far end of inputs that are larger than any memory, and write outputs whose rows lie far apart.
 *
 *     input x: f32[80000, 65536]         5.2e9 elements in pages that exist only where they are
 *     y = slice(x) ... start=65532       written: the last four are 1, 2, 3, 4
 *
 * What is expected is written beside each program: an evaluator would need all of the input. */
#include "leak.h"
#include "program_run.h"

#include <stdio.h>
#include <sys/mman.h>

#define REGION ((size_t)24 << 30) /* of addresses; pages come when they are touched */

/* An element of the input's real dtype, by its address. */
struct poke {
    int64_t address;
    double number;
};

enum { POKES = 8, EXPECTED = 8, TEXT_SIZE = 1024 };

struct program {
    int64_t n, m; /* symbols of the text; 0: it has none */
    const char *text;
    int64_t strides[RANK_MAX]; /* of input 0 */
    struct poke pokes[POKES];
    int count; /* of expected numbers, of output 0 */
    double expected[EXPECTED];
    int64_t out_strides[RANK_MAX]; /* of the caller's output; none: Phasor makes it */
};

static const struct program programs[] = {
    {0,
     0,
     "input x: u8[3, 1073741824]\ns = slice(x) axis=1 start=1073741820 length=4 step=1\n"
     "r = select(s) axis=0 start=2\nc = cast(r) : f32[4]\noutput c\n",
     {1073741824, 1},
     {{3221225468, 1}, {3221225469, 2}, {3221225470, 3}, {3221225471, 4}},
     4,
     {1, 2, 3, 4},
     {0}},
    {65536,
     70000,
     "input x: bf16[n, m]\nr = select(x) axis=0 start=n - 1\n"
     "s = slice(r) axis=0 start=m - 8 length=8 step=1\nt = scalar value=2 : bf16[]\n"
     "q = mul(s, t)\noutput q\n",
     {70000, 1},
     {{4587519992, 1}, {4587519995, 3}, {4587519999, -4}},
     8,
     {2, 0, 0, 6, 0, 0, 0, -8},
     {0}},
    {2,
     1200000000,
     "input z: c64[n, m]\nc = conj(z)\ns = slice(c) axis=1 start=m - 2 length=2 step=1\n"
     "q = mul(s, s)\nr = select(q) axis=0 start=1\nv = view_as_real(r)\noutput v\n",
     {2400000000, 2, 1},
     {{4799999996, 1}, {4799999997, 2}, {4799999998, -3}, {4799999999, 1}},
     4,
     {-3, -4, 8, 6},
     {0}},
    {80000,
     65536,
     "input x: f32[n, m]\nr = slice(x) axis=0 start=n - 2 length=2 step=1\n"
     "s = sum(r) axes=[1]\noutput s\n",
     {65536, 1},
     {{5242748928, 5}, {5242814463, 2}, {5242814464, 1}, {5242879999, 8}},
     2,
     {7, 9},
     {0}},
    {80000,
     65536,
     "input x: f32[n, m]\ni = iota sizes=[3]\nk = scalar value=26665 : i64[]\n"
     "f = scalar value=26668 : i64[]\nj = mul(i, k)\nl = add(j, f)\n"
     "g = index(x, l) axis=0\ns = slice(g) axis=1 start=m - 1 length=1 step=1\n"
     "output s\n",
     {65536, 1},
     {{1747779583, 1}, {3495297023, 2}, {5242814463, 3}},
     3,
     {1, 2, 3},
     {0}},
    {80000,
     65536,
     "input x: f32[n, m]\nr = select(x) axis=0 start=n - 1\n"
     "s = slice(r) axis=0 start=m - 4 length=4 step=1\nc = cumsum(s) axis=0\noutput c\n",
     {65536, 1},
     {{5242879996, 1}, {5242879997, 2}, {5242879998, 3}, {5242879999, 4}},
     4,
     {1, 3, 6, 10},
     {0}},
    {80000,
     65536,
     "input x: f32[n, m]\nr = select(x) axis=0 start=n - 1\n"
     "s = slice(r) axis=0 start=m - 4 length=4 step=1\np = sort_index(s) axis=0\n"
     "c = cast(p) : f32[4]\noutput c\n",
     {65536, 1},
     {{5242879996, 4}, {5242879997, 1}, {5242879998, 3}, {5242879999, 2}},
     4,
     {1, 3, 2, 0},
     {0}},
    {4587520000,
     1,
     "input x: bf16[n]\nf = flip(x) axes=[0]\nr = roll(f) axes=[0] sizes=[1]\n"
     "s = slice(r) axis=0 start=0 length=3 step=1\nd = pad(s) sizes=[1, 1] value=9\n"
     "output d\n",
     {1},
     {{0, 7}, {4587519999, 1}, {4587519998, 2}},
     5,
     {9, 7, 1, 2, 9},
     {0}},
    {70000,
     70000,
     "input x: f32[n, m]\nd = diagonal(x) axes=[0, 1] start=0\n"
     "s = slice(d) axis=0 start=n - 3 length=3 step=1\n"
     "u = slice(d) axis=0 start=n - 1 length=1 step=1\nc = concat(s, u) axis=0\n"
     "output c\n",
     {70000, 1},
     {{4899859997, 1}, {4899929998, 2}, {4899999999, 3}},
     4,
     {1, 2, 3, 3},
     {0}},
    /* positions beyond 2^32 of elements that share memory, and of none */
    {65536,
     65536,
     "input x: f32[n, m, 2]\nr = reshape(x) sizes=[2*n*m]\n"
     "s = slice(r) axis=0 start=2*n*m - 3 length=3 step=1\nt = neg(s)\noutput t\n",
     {0, 0, 1},
     {{0, 1}, {1, 2}},
     3,
     {-2, -1, -2},
     {0}},
    {65536,
     65536,
     "input x: f32[n, m, 2]\nr = reshape(x) sizes=[n, 2*m]\n"
     "s = slice(r) axis=0 start=n - 1 length=1 step=1\n"
     "t = slice(s) axis=1 start=2*m - 72 length=72 step=1\nu = sum(t) axes=[1]\n"
     "output u\n",
     {0, 0, 1},
     {{0, 1}, {1, 2}},
     1,
     {108},
     {0}},
    {0,
     0,
     "i = iota sizes=[5000000000]\n"
     "s = slice(i) axis=0 start=4999999998 length=2 step=1\nc = cast(s) : f64[2]\n"
     "output c\n",
     {0},
     {{0, 0}},
     2,
     {4999999998, 4999999999},
     {0}},
    /* rows far apart: of the caller's output, of the input */
    {2,
     3,
     "input x: f32[n, m]\nq = neg(x)\noutput q\n",
     {3, 1},
     {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}},
     6,
     {-1, -2, -3, -4, -5, -6},
     {5000000001, 1}},
    {2,
     3,
     "input x: f32[n, m]\nq = neg(x)\noutput q\n",
     {5000000001, 1},
     {{0, 1}, {1, 2}, {2, 3}, {5000000001, 4}, {5000000002, 5}, {5000000003, 6}},
     6,
     {-1, -2, -3, -4, -5, -6},
     {0}},
    {3,
     2,
     "input x: f32[n, m]\ns = amax(x) axes=[1]\noutput s\n",
     {2600000000, 1},
     {{0, 1}, {1, 2}, {2600000000, 3}, {2600000001, 1}, {5200000000, 4}, {5200000001, 5}},
     3,
     {2, 3, 5},
     {0}},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static char *region_open(void)
{
    char *region = mmap(NULL, REGION, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(region != MAP_FAILED, "no %zu bytes of addresses", REGION);
    return region;
}

/* Memory that graph_run_close() does not free. */
static void tensor_place(struct run_tensor *t, const struct graph *real, value v,
                         const int64_t *strides, char *memory)
{
    const struct node *n = graph_node(real, v);
    *t = (struct run_tensor){.dtype = n->dtype, .shape = {.rank = n->rank}, .data = memory};
    for (int d = 0; d < n->rank; d++) {
        t->shape.sizes[d] = graph_dim(real, v, d);
        t->shape.strides[d] = strides[d];
    }
    t->shape.alignment = 16;
}

static void text_fill(const struct program *program, int index, char text[TEXT_SIZE])
{
    int length = snprintf(text, TEXT_SIZE, "phasor 1 \"large %d\"\n", index);
    if (program->n)
        length += snprintf(text + length, TEXT_SIZE - (size_t)length,
                           "symbol n in 1..8589934592 = %lld\nsymbol m in 1..8589934592 = %lld\n",
                           (long long)program->n, (long long)program->m);
    snprintf(text + length, TEXT_SIZE - (size_t)length, "%s", program->text);
}

static void program_start(const struct program *program, struct rewritten *graphs,
                          struct graph_run *run, char *input, char *output)
{
    rewritten_open(graphs, program->text, PHASOR_RULES_ALL, true);
    cr_assert(graphs->done, "%s", program->text);
    graph_run_open(run, &graphs->loaded, &graphs->real);
    if (graphs->real.inputs.count) {
        tensor_place(&run->inputs[0], &graphs->real, graphs->real.inputs.at[0].node,
                     program->strides, input);
        run->call_inputs[0] = run->inputs[0].shape;
    }
    if (program->out_strides[0]) {
        tensor_place(&run->outputs[0], &graphs->real, graphs->real.outputs.at[0].node,
                     program->out_strides, output);
        run->call_outputs[0] = run->outputs[0].shape;
        run->call.outputs = run->call_outputs;
        run->call.output_count = 1;
    }
}

static void check_program(const struct program *program, struct graph_run *run,
                          struct host_module *module)
{
    struct eval_tensor got;
    const struct run_tensor *input = &run->inputs[0];
    for (int i = 0; i < POKES && input->data; i++) {
        const struct number n = {.i = (int64_t)program->pokes[i].number,
                                 .re = program->pokes[i].number};
        if (n.re != 0)
            element_store(input->dtype, n,
                          input->data + program->pokes[i].address * dtype_size(input->dtype));
    }
    cr_assert_eq(graph_run_launch(run, module), PHASOR_OK, "%s\n%s", message_get(), program->text);
    cr_expect_eq(run->flag, 0, "an index out of range\n%s", program->text);
    graph_run_output(run, 0, &got);
    cr_assert_eq(eval_tensor_count(&got), program->count, "%s", program->text);
    for (int i = 0; i < program->count; i++) {
        const struct number n =
            element_load(got.dtype, (const char *)got.bytes + i * dtype_size(got.dtype));
        cr_expect_eq(n.re, program->expected[i], "number %d is %g; expected %g\n%s", i, n.re,
                     program->expected[i], program->text);
    }
    eval_tensor_free(&got);
}

static void check_programs(struct plan_options options)
{
    static struct rewritten graphs[PROGRAMS];
    static struct graph_run runs[PROGRAMS];
    static char texts[PROGRAMS][TEXT_SIZE];
    struct program filled[PROGRAMS];
    struct graph_run *list[PROGRAMS];
    struct templates templates;
    struct host_module *module;
    char *input = region_open(), *output = region_open();
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    for (int i = 0; i < PROGRAMS; i++) {
        filled[i] = programs[i];
        text_fill(&programs[i], i, texts[i]);
        filled[i].text = texts[i];
        list[i] = &runs[i];
        program_start(&filled[i], &graphs[i], &runs[i], input, output);
        cr_assert_eq(graph_run_plan(&runs[i], &templates, options), PHASOR_OK, "%s\n%s",
                     message_get(), texts[i]);
    }
    cr_assert(graph_run_compile(list, PROGRAMS, &module), "%s", host_error());
    for (int i = 0; i < PROGRAMS; i++) {
        check_program(&filled[i], &runs[i], module);
        madvise(input, REGION, MADV_DONTNEED);
        graph_run_close(&runs[i]);
        rewritten_close(&graphs[i]);
    }
    host_close(module);
    templates_free(&templates);
    munmap(input, REGION);
    munmap(output, REGION);
}

Test(large, sizes_as_literals, .timeout = 3600)
{
    check_programs((struct plan_options){0});
    ASSERT_NO_LEAKS();
}

Test(large, sizes_as_arguments, .timeout = 3600)
{
    check_programs((struct plan_options){.generic = true});
    ASSERT_NO_LEAKS();
}
