/* test_sums.c - sums, means, variances, norms, products, running sums and products of a million
 * elements along the first, a middle and the last dim, in f32, bf16 and complex64, against numbers
 * computed in double.
 *
 *     sum of f32 [1000000]         off by at most 4 units of 2^-24 of the sum of the magnitudes;
 *                                  one thread that adds them all is off by hundreds
 *     sum of f32 [n, 4], n = 77777  the bits of the same sizes as literals
 *
 * The evaluator on the loaded graph, on the rewritten one and the generated code are held to the
 * same bounds. */
#include "support/kernel_run.h"
#include "support/leak.h"
#include "support/program_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define UNIT 0x1p-24
#define HALF_UNIT 0x1p-8 /* of bf16: its rounding, and as much again for double rounding */

enum { MOST = 1000000 };

enum what { SUM, MEAN, VARIANCE, NORM, PRODUCT, RUNNING_SUM, RUNNING_PRODUCT };

static const struct {
    const char *text; /* T: the dtype; A: the axis; N: elements of a row; K: sizes with 1 there */
    double units;     /* allowed, of 2^-24 */
    bool running;
} kinds[] = {
    [SUM] = {"y = sum(x) axes=[A]\n", 4, false},
    [MEAN] = {"n = scalar value=N : T[]\ns = sum(x) axes=[A]\ny = div(s, n)\n", 5, false},
    [VARIANCE] = {"n = scalar value=N : T[]\ns = sum(x) axes=[A]\nm = div(s, n)\n"
                  "k = reshape(m) sizes=[K]\nd = sub(x, k)\nq = mul(d, d)\n"
                  "t = sum(q) axes=[A]\ny = div(t, n)\n",
                  8, false},
    [NORM] = {"q = mul(x, x)\ns = sum(q) axes=[A]\ny = sqrt(s)\n", 6, false},
    /* each of n products is rounded: no order helps */
    [PRODUCT] = {"y = prod(x) axes=[A]\n", 3000, false},
    [RUNNING_SUM] = {"y = cumsum(x) axis=A\n", 12, true},
    [RUNNING_PRODUCT] = {"y = cumprod(x) axis=A\n", 3000, true},
};

struct shape {
    int sizes[3], axis;
};

static const struct shape first = {{250000, 2, 2}, 0}, middle = {{4, 62500, 4}, 1},
                          last = {{2, 2, 250000}, 2}, one_row = {{1, 1, MOST}, 2},
                          one_column = {{MOST, 1, 1}, 0}, square = {{1, 1000, 1000}, 1},
                          rows = {{1, 1000, 1000}, 2};

static double drawn(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) * 0x1p-24;
}

static void text_write(enum what what, const char *dtype, const struct shape *s, char *text)
{
    int kept[3] = {s->sizes[0], s->sizes[1], s->sizes[2]};
    kept[s->axis] = 1;
    text += sprintf(text, "phasor 1 \"row\"\ninput x: %s[%d, %d, %d]\n", dtype, s->sizes[0],
                    s->sizes[1], s->sizes[2]);
    for (const char *from = kinds[what].text; *from; from++)
        if (*from == 'A')
            text += sprintf(text, "%d", s->axis);
        else if (*from == 'N')
            text += sprintf(text, "%d", s->sizes[s->axis]);
        else if (*from == 'T')
            text += sprintf(text, "%s", dtype);
        else if (*from == 'K')
            text += sprintf(text, "%d, %d, %d", kept[0], kept[1], kept[2]);
        else
            *text++ = *from;
    sprintf(text, "output y\n");
}

/* Factors near 1, whose products neither vanish nor overflow; everything else in 0..1, where sums
 * that go astray go one way. */
static void numbers_draw(enum what what, enum dtype dtype, double *numbers, int64_t count)
{
    uint64_t state = 88172645463325252u + (uint64_t)what;
    for (int64_t i = 0; i < count; i++) {
        const bool product = what == PRODUCT || what == RUNNING_PRODUCT;
        numbers[i] = product ? exp((drawn(&state) - 0.5) * 1e-2) : drawn(&state);
        char bytes[8]; /* as the dtype has it */
        element_store(dtype, (struct number){.re = numbers[i]}, bytes);
        numbers[i] = element_load(dtype, bytes).re;
    }
}

static double row_truth(enum what what, const double *at, int64_t length, int64_t step)
{
    long double sum = 0, squares = 0, product = 1;
    for (int64_t i = 0; i < length; i++) {
        sum += at[i * step];
        squares += (long double)at[i * step] * at[i * step];
        product *= at[i * step];
    }
    const long double mean = sum / length;
    switch (what) {
    case SUM: return (double)sum;
    case MEAN: return (double)mean;
    case VARIANCE: return (double)(squares / length - mean * mean);
    case NORM: return (double)sqrtl(squares);
    default: return (double)product;
    }
}

static void expect_near(const struct program_run *p, int64_t at, double truth, double bound)
{
    for (int link = 0; link < LINK_COUNT; link++) {
        const double got = program_number(p, (enum program_link)link, 0, at);
        cr_assert(fabs(got - truth) <= bound * fabs(truth),
                  "%s: number %ld is %.9g for %.9g, off by %.3g of %.3g\n%s", program_links[link],
                  (long)at, got, truth, fabs(got / truth - 1), bound, p->text);
    }
}

/* Parts of complex numbers are rows of their own. */
static void row_check(const struct program_run *p, enum what what, const double *numbers,
                      int64_t start, int64_t result, int64_t length, int64_t step, double bound)
{
    long double so_far = what == RUNNING_PRODUCT;
    if (!kinds[what].running) {
        expect_near(p, result, row_truth(what, numbers + start, length, step), bound);
        return;
    }
    for (int64_t i = 0; i < length; i++) {
        so_far = what == RUNNING_SUM ? so_far + numbers[start + i * step]
                                     : so_far * numbers[start + i * step];
        if (i % 97 == 0 || i + 2000 > length)
            expect_near(p, start + i * step, (double)so_far, bound);
    }
}

struct trial {
    enum what what;
    const char *dtype;
    const struct shape *shape;
};

static void trial_check(const struct trial *t, const struct program_run *p, const double *numbers,
                        int parts)
{
    const struct shape *s = t->shape;
    int64_t inner = parts, outer = 1;
    for (int d = 0; d < 3; d++)
        if (d < s->axis)
            outer *= s->sizes[d];
        else if (d > s->axis)
            inner *= s->sizes[d];
    const double bound = kinds[t->what].units * UNIT + (t->dtype[0] == 'b' ? HALF_UNIT : 0);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++)
            row_check(p, t->what, numbers, o * s->sizes[s->axis] * inner + i, o * inner + i,
                      s->sizes[s->axis], inner, bound);
}

static void trials_run(const struct trial *trials, int count)
{
    struct program_run *runs[16];
    static char texts[16][1024];
    double *numbers[16];
    struct host_module *module;
    for (int k = 0; k < count; k++) {
        const int parts = trials[k].dtype[0] == 'c' ? 2 : 1;
        runs[k] = calloc(1, sizeof *runs[k]);
        numbers[k] = malloc((size_t)parts * MOST * sizeof(double));
        cr_assert(runs[k] && numbers[k]);
        text_write(trials[k].what, trials[k].dtype, trials[k].shape, texts[k]);
        program_open(runs[k], texts[k]);
        numbers_draw(trials[k].what, trials[k].dtype[0] == 'b' ? DT_bf16 : DT_f32, numbers[k],
                     (int64_t)parts * MOST);
        program_numbers(runs[k], 0, numbers[k], (int64_t)parts * MOST);
    }
    program_build(runs, count, &module);
    for (int k = 0; k < count; k++) {
        program_results(runs[k], module);
        trial_check(&trials[k], runs[k], numbers[k], trials[k].dtype[0] == 'c' ? 2 : 1);
        program_close(runs[k]);
        free(runs[k]);
        free(numbers[k]);
    }
    host_close(module);
    ASSERT_NO_LEAKS();
}
#define RUN(...)                                    \
    trials_run((const struct trial[]){__VA_ARGS__}, \
               sizeof(const struct trial[]){__VA_ARGS__} / sizeof(struct trial))

Test(sums, of_a_million_elements, .timeout = 600)
{
    RUN({SUM, "f32", &first}, {SUM, "f32", &middle}, {SUM, "f32", &last}, {SUM, "f32", &one_row},
        {SUM, "f32", &one_column}, {SUM, "f32", &square}, {SUM, "bf16", &first},
        {SUM, "bf16", &last}, {SUM, "c64", &middle}, {SUM, "c64", &one_row});
}

Test(sums, means_variances_norms_and_products, .timeout = 600)
{
    RUN({MEAN, "f32", &first}, {MEAN, "bf16", &middle}, {VARIANCE, "f32", &one_row},
        {VARIANCE, "f32", &middle}, {NORM, "f32", &last}, {PRODUCT, "f32", &middle},
        {MEAN, "c64", &first});
}

Test(sums, running_sums_and_products, .timeout = 600)
{
    RUN({RUNNING_SUM, "f32", &first}, {RUNNING_SUM, "f32", &middle}, {RUNNING_SUM, "f32", &one_row},
        {RUNNING_SUM, "f32", &square}, {RUNNING_SUM, "f32", &rows}, {RUNNING_SUM, "bf16", &last},
        {RUNNING_SUM, "c64", &one_row}, {RUNNING_PRODUCT, "f32", &last},
        {RUNNING_PRODUCT, "f32", &one_column});
}

/* -- bits -------------------------------------------------------------------------------------- */

/* Sizes at which rows are cut otherwise: few runs, a run for each strand, more, parts; in turn. */
enum { LENGTHS = 2 };
static const int lengths[3][LENGTHS] = {{3, 20001}, {2051, 77777}, {512, 8193}};

static const char *const bodies[] = {
    "input x: f32[n]\ny = sum(x) axes=[0]\noutput y\n",
    "input x: bf16[3, n]\ny = sum(x) axes=[1]\noutput y\n",
    "input x: f32[n, 4]\ny = sum(x) axes=[0]\noutput y\n",
    "input x: f32[2, n, 40]\ny = sum(x) axes=[1]\noutput y\n",
    "input x: f32[n, 5]\ny = prod(x) axes=[0, 1]\noutput y\n",
    "input x: c64[n]\ny = sum(x) axes=[0]\noutput y\n",
    "input x: i32[n, 2]\ny = sum(x) axes=[0]\noutput y\n",
    "input x: f32[n]\ny = amax(x) axes=[0]\noutput y\n",
    "input x: bool[n, 3]\ny = any(x) axes=[0]\noutput y\n",
    "input x: f32[2, n]\ny = cumsum(x) axis=1\noutput y\n",
    "input x: bf16[n]\ny = cumsum(x) axis=0\noutput y\n",
    "input x: f32[n, 40]\ny = cumsum(x) axis=0\noutput y\n",
    "input x: c64[n]\ny = cumsum(x) axis=0\noutput y\n",
    "input x: i64[n, 3]\ny = cumprod(x) axis=0\noutput y\n",
    "input x: f32[20, n]\ny = amin(x) axes=[0]\ns = sum(x) axes=[0]\nz = add(y, s)\noutput z\n",
};
enum { BODIES = sizeof bodies / sizeof *bodies };

/* The length as a number, or as a symbol with that value. */
static void body_write(const char *body, int length, bool symbol, char *text)
{
    text += sprintf(text, "phasor 1 \"row\"\n");
    if (symbol)
        text += sprintf(text, "symbol n in 1..1000000 = %d\n", length);
    for (; *body; body++)
        if (*body == 'n' && !symbol && (body[-1] == '[' || body[-1] == ' ') &&
            (body[1] == ']' || body[1] == ','))
            text += sprintf(text, "%d", length);
        else
            *text++ = *body;
    *text = '\0';
}

static void expect_same_bits(struct program_run *const *runs, int count)
{
    char why[256];
    for (int k = 1; k < count; k++)
        cr_assert(tensors_equal_bits(&runs[0]->outputs[LINK_KERNELS][0],
                                     &runs[k]->outputs[LINK_KERNELS][0], why, sizeof why),
                  "%s\n%s%s", why, runs[0]->text, runs[k]->text);
}

/* Literal in the program; an argument; an argument, for tensors of any kind. */
static void check_bits(const char *body, const int *some)
{
    enum { WAYS = 3, RUNS = WAYS * LENGTHS };
    static const struct plan_options options[WAYS] = {
        {0}, {.generic = true}, {.generic = true, .any = true}};
    struct program_run *runs[RUNS];
    static char texts[RUNS][512];
    struct host_module *module;
    for (int k = 0; k < RUNS; k++) {
        runs[k] = calloc(1, sizeof *runs[k]);
        cr_assert(runs[k]);
        body_write(body, some[k / WAYS], k % WAYS > 0, texts[k]);
        program_open(runs[k], texts[k]);
        graph_run_close(&runs[k]->run);
        graph_run_open(&runs[k]->run, &runs[k]->graphs.loaded, &runs[k]->graphs.real);
        graph_run_input(&runs[k]->run, 0, RUN_CONTIGUOUS, 5);
        runs[k]->options = options[k % WAYS];
    }
    program_build(runs, RUNS, &module);
    for (int k = 0; k < RUNS; k++)
        program_results(runs[k], module);
    for (int k = 0; k < LENGTHS; k++)
        expect_same_bits(runs + WAYS * k, WAYS);
    for (int k = 0; k < RUNS; k++) {
        program_close(runs[k]);
        free(runs[k]);
    }
    host_close(module);
}

Test(sums, have_the_same_bits_in_every_mode, .timeout = 600)
{
    for (int b = 0; b < BODIES; b++)
        check_bits(bodies[b], lengths[b % 3]);
    ASSERT_NO_LEAKS();
}
