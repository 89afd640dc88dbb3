/* test_sizes.c - sizes 0, 1, 2, 3, 7, 21, 36 and 65536 in every place of the shapes, for every kind
 * of row and template: the generated code, compiled as C++, gives what the evaluator gives on the
 * rewritten and on the loaded graph, with sizes as literals and as arguments. 2 is the size of the
 * pair; 21 and 7 fill no vector.
 *
 *     input z: c64[A, B]      A of all sizes with B = 3, B of all sizes with A = 3
 *
 * Where a size is not allowed, the program is refused with a message that says so. */
#include "leak.h"
#include "program_run.h"

#include <ctype.h>
#include <stdio.h>

static const long sizes[] = {0, 1, 2, 3, 7, 21, 36, 65536};
enum { SIZES = sizeof sizes / sizeof *sizes, SHAPES = 2 * SIZES, TEXT_SIZE = 2048 };
enum { LARGE = 1031 }; /* more than the threads of a block */

enum limits {
    WHOLE,
    SQUARED,  /* takes a time of size * size: LARGE instead of 65536 */
    LITERALS, /* one kernel of the steps for all sizes of the range takes minutes to compile */
};

struct program {
    const char *text;
    int least_a, least_b; /* smaller sizes are refused */
    double tolerance;     /* of sums whose order differs; the rest is the same bit for bit */
    enum limits limits;
};

static const struct program programs[] = {
    /* maps and views of pairs */
    {"input z: c64[A, B]\ninput w: c64[B]\nm = mul(z, w)\nr = view_as_real(m)\n"
     "f = reshape(r) sizes=[A, 2*B]\noutput f\n",
     0, 0, 0, WHOLE},
    {"input q: bf16[A, B, 2]\ninput f: c64[A, 1]\nc = cast(q) : f32[A, B, 2]\n"
     "z = view_as_complex(c)\nm = mul(z, f)\nr = view_as_real(m)\n"
     "o = cast(r) : bf16[A, B, 2]\nt = permute(r) axes=[1, 0, 2]\noutput o\noutput t\n",
     0, 0, 0, WHOLE},
    {"input z: c64[A, B]\nt = permute(z) axes=[1, 0]\nc = conj(t)\nf = flip(c) axes=[0]\n"
     "j = concat(t, f) axis=1\noutput j\n",
     0, 0, 0, WHOLE},
    {"input z: c64[A, B]\nr = reshape(z) sizes=[A*B]\nk = clone(r) flag=1\nn = neg(k)\n"
     "v = view_as_real(n)\noutput v\n",
     0, 0, 0, WHOLE},
    {"input x: f32[A, 1]\ninput y: f32[1, B]\nl = lt(x, y)\nw = where(l, x, y)\n"
     "e = expand(w) sizes=[2, A, B]\noutput e\noutput l\n",
     0, 0, 0, WHOLE},
    {"i = iota sizes=[A]\nc = cast(i) : f32[A]\ns = sin(c)\nu = reshape(s) sizes=[A, 1]\n"
     "e = expand(u) sizes=[A, B]\ninput x: f32[A, B]\np = add(e, x)\noutput e\noutput p\n",
     0, 0, 0, WHOLE},
    {"input x: f32[A, B]\nk = size sizes=[A - B]\nf = cast(k) : f32[]\nm = mul(x, f)\n"
     "output m\n",
     0, 0, 0, WHOLE},
    {"input x: f32[A, B]\nr = roll(x) axes=[0, 1] sizes=[1, -2]\n"
     "p = pad(r) sizes=[1, -1, -1, 2] value=7\noutput p\n",
     0, 0, 0, WHOLE},
    {"input x: c64[A, B]\np = pad(x) sizes=[2, 0, 1, 1] value=1\n"
     "d = diagonal(p) axes=[0, 1] start=1\nu = unfold(p) axis=0 length=2 step=2\noutput d\n"
     "output u\n",
     0, 0, 0, WHOLE},
    {"input x: f32[A, B]\ninput y: f32[A, 2*B + 1]\ni = insert(y, x) axis=1 start=1 step=2\n"
     "output i\n",
     0, 0, 0, WHOLE},
    {"input x: f32[A + 3, B]\ninput y: f32[A, B]\ni = insert(x, y) axis=0 start=2 step=1\n"
     "s = slice(i) axis=0 start=1 length=A + 1 step=1\noutput i\noutput s\n",
     0, 0, 0, WHOLE},
    {"input x: c64[A, B]\ninput y: c64[min(A, B)]\n"
     "d = insert_diagonal(x, y) axes=[0, 1] start=0\noutput d\n",
     0, 0, 0, WHOLE},
    {"input x: f32[A, B]\ns = select(x) axis=0 start=A - 1\nt = select(x) axis=1 start=0\n"
     "output s\noutput t\n",
     1, 1, 0, WHOLE},
    /* joins */
    {"input x: c64[A, 3]\ninput y: f32[B, 3]\nc = cast(y) : c64[B, 3]\n"
     "j = concat(x, c, x) axis=0\nt = concat(j, j) axis=1\noutput j\noutput t\n",
     0, 0, 0, WHOLE},
    /* reductions */
    {"input z: c64[A, B]\nx = real(z)\ny = imag(z)\ns = sum(x) axes=[1]\n"
     "t = sum(z) axes=[0]\nu = sum(z) axes=[0, 1]\na = add(x, y)\noutput s\noutput t\n"
     "output u\noutput a\n",
     0, 0, 0, WHOLE},
    {"input z: c64[A, B]\na = any(z) axes=[1]\nb = all(z) axes=[0]\nn = sign(z)\n"
     "x = real(z)\ny = sign(x)\np = prod(y) axes=[1]\nq = prod(y) axes=[0]\noutput a\n"
     "output b\noutput p\noutput q\n",
     0, 0, 0, WHOLE},
    {"input x: f32[A, B]\nm = amax(x) axes=[1]\nn = amin(x) axes=[0]\n"
     "u = reshape(m) sizes=[A, 1]\nd = sub(x, u)\noutput n\noutput d\n",
     0, 0, 0, WHOLE},
    {"input z: c64[A, B]\np = prod(z) axes=[0]\nq = prod(z) axes=[1]\noutput p\noutput q\n", 0, 0,
     1e-3, LITERALS},
    /* rows with a norm: what reduces and what uses it are one kernel */
    {"input x: f32[A, B]\nq = mul(x, x)\ns = sum(q) axes=[1]\ne = scalar value=0.5 : f32[]\n"
     "a = add(s, e)\nr = rsqrt(a)\nu = reshape(r) sizes=[A, 1]\ny = mul(x, u)\noutput y\n",
     0, 0, 1e-5, WHOLE},
    {"input x: bf16[A, B, 2]\ninput f: c64[B]\nc = cast(x) : f32[A, B, 2]\nq = mul(c, c)\n"
     "s = sum(q) axes=[1, 2]\ne = scalar value=0.5 : f32[]\na = add(s, e)\nr = rsqrt(a)\n"
     "u = reshape(r) sizes=[A, 1, 1]\ny = mul(c, u)\nz = view_as_complex(y)\nm = mul(z, f)\n"
     "v = view_as_real(m)\no = cast(v) : bf16[A, B, 2]\noutput o\n",
     0, 0, 1e-2, WHOLE},
    {"input x: f32[A, B]\nm = amax(x) axes=[1]\nu = reshape(m) sizes=[A, 1]\nd = sub(x, u)\n"
     "e = exp(d)\ns = sum(e) axes=[1]\nt = reshape(s) sizes=[A, 1]\ny = div(e, t)\noutput y\n",
     0, 0, 1e-5, WHOLE},
    /* scans, orders, places */
    {"input x: f32[A, B]\nc = cumsum(x) axis=0\nd = cumsum(x) axis=1\ns = sign(x)\n"
     "e = cumprod(s) axis=0\nf = cumprod(s) axis=1\noutput c\noutput d\noutput e\noutput f\n",
     0, 0, 0, WHOLE},
    {"input z: c64[A, B]\nc = cumsum(z) axis=0\nd = cumsum(z) axis=1\noutput c\noutput d\n", 0, 0,
     0, WHOLE},
    {"input x: f32[A, B]\ni = sort_index(x) axis=0\nj = sort_index(x) axis=1 flag=1\n"
     "g = gather(x, i) axis=0\nh = gather(x, j) axis=1\noutput i\noutput j\noutput g\n"
     "output h\n",
     0, 0, 0, SQUARED},
    {"input x: f32[A, B]\ni = argmax(x) axis=0\nj = argmin(x) axis=1\noutput i\noutput j\n", 1, 1,
     0, WHOLE},
    /* indices */
    {"input z: c64[A, 3]\nk = iota sizes=[B]\nn = scalar value=5 : i64[]\nm = mul(k, n)\n"
     "a = size sizes=[A]\ni = remainder(m, a)\ng = index(z, i) axis=0\noutput g\n",
     1, 0, 0, WHOLE},
    {"input x: f32[A, B]\ninput y: f32[A, 2]\nk = iota sizes=[2]\nb = size sizes=[B]\n"
     "i = remainder(k, b)\np = index_put(x, y, i) axis=1 flag=1\noutput p\n",
     0, 1, 0, WHOLE},
    {"input x: c64[A]\ninput y: c64[B]\nk = iota sizes=[B]\na = size sizes=[A]\n"
     "i = remainder(k, a)\np = index_put(x, y, i) axis=0 flag=1\noutput p\n",
     1, 0, 1e-5, WHOLE},
    {"input x: f32[A, B]\ninput y: f32[A, B]\nk = iota sizes=[A]\nf = flip(k) axes=[0]\n"
     "u = reshape(f) sizes=[A, 1]\ni = expand(u) sizes=[A, B]\ns = scatter(x, i, y) axis=0\n"
     "t = scatter(x, i, y) axis=0 flag=1\ng = gather(x, i) axis=0\noutput s\noutput t\n"
     "output g\n",
     0, 0, 0, SQUARED},
    /* products of matrices */
    {"input x: c64[A, B]\ninput y: c64[B, 3]\nd = dot(x, y)\noutput d\n", 0, 0, 1e-5, WHOLE},
    {"input x: f32[2, A, 3]\ninput y: f32[2, 3, B]\nd = dot(x, y)\noutput d\n", 0, 0, 1e-5, WHOLE},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* A and B as numbers, or declared as symbols. */
static void text_fill(const struct program *program, long a, long b, bool symbols,
                      char out[TEXT_SIZE])
{
    int length = snprintf(out, TEXT_SIZE, "phasor 1 \"sizes %ld %ld\"\n", a, b);
    if (symbols)
        length += snprintf(out + length, TEXT_SIZE - (size_t)length,
                           "symbol A in 0..65536 = %ld\nsymbol B in 0..65536 = %ld\n", a, b);
    for (const char *s = program->text; *s && length < TEXT_SIZE - 32; s++) {
        const bool alone = s > program->text && !isalnum((unsigned char)s[-1]) &&
                           !isalnum((unsigned char)s[1]) && !symbols;
        length += alone && (*s == 'A' || *s == 'B')
                      ? snprintf(out + length, 32, "%ld", *s == 'A' ? a : b)
                      : snprintf(out + length, 2, "%c", *s);
    }
}

static bool numbers_agree(double x, double y, double tolerance)
{
    return (isnan(x) && isnan(y)) || x == y || fabs(x - y) <= tolerance * (1 + fabs(y));
}

static void check_numbers(const struct program_run *p, int slot, double tolerance)
{
    for (int64_t i = 0; i < program_count(p, slot); i++) {
        const double x = program_number(p, LINK_KERNELS, slot, i);
        for (int link = LINK_LOADED; link < LINK_KERNELS; link++) {
            const double y = program_number(p, (enum program_link)link, slot, i);
            cr_assert(numbers_agree(x, y, tolerance),
                      "output %d, number %ld: %.9g; %.9g by the %s\n%s", slot, (long)i, x, y,
                      program_links[link], p->text);
        }
    }
}

static void fill_inputs(struct program_run *p)
{
    for (int slot = 0; slot < p->run.call.input_count; slot++) {
        const struct run_tensor *t = &p->run.inputs[slot];
        int64_t count = 1;
        for (int d = 0; d < t->shape.rank; d++)
            count *= t->shape.sizes[d];
        double *numbers = calloc((size_t)count + 1, sizeof *numbers);
        cr_assert(numbers);
        for (int64_t i = 0; i < count; i++)
            numbers[i] = (double)((i * 37 + slot * 11) % 64 - 31) / 16;
        program_numbers(p, slot, numbers, count);
        free(numbers);
    }
}

/* The message names the operator; there is no result. */
static void check_refused(const char *text)
{
    struct arena arena = {0};
    struct sizes pool;
    struct graph graph;
    cr_assert_eq(sizes_init(&pool, &arena), PHASOR_OK);
    cr_assert_eq(graph_init(&graph, &arena, &pool, "test"), PHASOR_OK);
    cr_expect_eq(graph_parse(&graph, text, "test.phasor", NULL, NULL), PHASOR_ERROR_FILE, "%s",
                 text);
    cr_expect(strstr(message_get(), "no elements") || strstr(message_get(), "out of range"),
              "%s\n%s", message_get(), text);
    graph_free(&graph);
    sizes_free(&pool);
    arena_free(&arena);
}

/* All shapes of a program, in one compiler call. */
static void check_program(const struct program *program, struct plan_options options)
{
    struct program_run *runs[SHAPES];
    static char texts[SHAPES][TEXT_SIZE];
    struct host_module *module;
    const bool small = program->limits == SQUARED || options.generic;
    int count = 0;
    for (int i = 0; i < SHAPES; i++) {
        const long all = sizes[i % SIZES], size = all > LARGE && small ? LARGE : all;
        const long a = i < SIZES ? size : 3, b = i < SIZES ? 3 : size;
        text_fill(program, a, b, options.generic, texts[count]);
        if (a < program->least_a || b < program->least_b) {
            check_refused(texts[count]);
            continue;
        }
        runs[count] = calloc(1, sizeof *runs[count]);
        cr_assert(runs[count]);
        program_open(runs[count], texts[count]);
        runs[count]->options = options;
        fill_inputs(runs[count++]);
    }
    program_build(runs, count, &module);
    for (int i = 0; i < count; i++) {
        program_results(runs[i], module);
        for (int slot = 0; slot < runs[i]->run.plan.output_count; slot++)
            check_numbers(runs[i], slot, program->tolerance);
        program_close(runs[i]);
        free(runs[i]);
    }
    host_close(module);
}

Test(sizes, every_size_in_every_place, .timeout = 3600)
{
    for (int i = 0; i < PROGRAMS; i++)
        check_program(&programs[i], (struct plan_options){0});
    ASSERT_NO_LEAKS();
}

Test(sizes, every_size_as_an_argument, .timeout = 3600)
{
    for (int i = 0; i < PROGRAMS; i++)
        if (programs[i].limits != LITERALS)
            check_program(&programs[i], (struct plan_options){.generic = true});
    ASSERT_NO_LEAKS();
}
