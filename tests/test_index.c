/* test_index.c - index arithmetic against plain integers: random chains over one or two variables
 * are evaluated for every value of the variables, as the signed numbers that they mean and as the
 * unsigned ones that kernels compute with. What index.h shows as simplified is simplified.
 *
 *     shape [4, 6] of i -> coordinates -> the second one flipped -> / 3, % 3 -> ...    24 values of
 * i, each right
 */
#include "codegen/index.h"
#include "support/leak.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMS_MAX = 64, PLACES_MAX = 1024, CHAINS = 3000, STEPS_MAX = 24, VARIABLES_MAX = 2 };

/* A form, and what it is at each place: an assignment of the variables. */
struct known {
    form form;
    int64_t at[PLACES_MAX];
};

struct chain {
    struct arena arena;
    struct sizes sizes;
    struct index_pool pool;
    uint64_t random;
    int places, variables;
    int64_t variable[VARIABLES_MAX][PLACES_MAX];
    bool alive[PLACES_MAX]; /* places where every form so far was non-negative: guards keep kernels
                               there */
    struct known known[FORMS_MAX];
    int count;
    bool symbolic;
    char steps[4096];
};

/* -- the value of a form ----------------------------------------------------------------------- */

static uint64_t form_value(const struct chain *c, form f, int place, bool narrow);

static uint64_t atom_value(const struct chain *c, atom a, int place, bool narrow)
{
    const struct index_atom *at = &c->pool.atoms.at[a];
    if (at->kind != ATOM_DIGIT)
        return (uint64_t)c->variable[at->source][place];
    const uint64_t low = (uint64_t)size_value(&c->sizes, at->low),
                   high = (uint64_t)size_value(&c->sizes, at->high);
    const uint64_t quotient = form_value(c, at->base, place, narrow) / low;
    return at->high ? quotient % (high / low) : quotient;
}

/* narrow: as 32-bit kernels compute it. */
static uint64_t form_value(const struct chain *c, form f, int place, bool narrow)
{
    const struct index_form *at = &c->pool.forms.at[f];
    uint64_t sum = (uint64_t)size_value(&c->sizes, at->constant);
    for (int i = 0; i < at->count; i++)
        sum += (uint64_t)size_value(&c->sizes, at->terms[i].coefficient) *
               atom_value(c, at->terms[i].atom, place, narrow);
    return narrow ? (uint32_t)sum : sum;
}

static bool same_value(const struct chain *c, form f, int place, int64_t expected)
{
    return (int64_t)form_value(c, f, place, false) == expected &&
           (int32_t)(uint32_t)form_value(c, f, place, true) == (int32_t)expected;
}

static void check_form(const struct chain *c, const struct known *k)
{
    const struct index_form *f = &c->pool.forms.at[k->form];
    const int64_t lowest = size_value(&c->sizes, f->lowest),
                  highest = size_value(&c->sizes, f->highest);
    for (int p = 0; p < c->places; p++) {
        if (!c->alive[p])
            continue;
        cr_assert(same_value(c, k->form, p, k->at[p]), "place %d: %ld, expected %ld; %s", p,
                  (long)form_value(c, k->form, p, false), (long)k->at[p], c->steps);
        cr_assert(lowest <= k->at[p] && k->at[p] <= highest, "place %d: %ld is not in %ld..%ld; %s",
                  p, (long)k->at[p], (long)lowest, (long)highest, c->steps);
    }
}

/* -- random chains ----------------------------------------------------------------------------- */

static void note(struct chain *c, const char *step, int from, int64_t number)
{
    const size_t length = strlen(c->steps);
    snprintf(c->steps + length, sizeof c->steps - length, "%d: %s of %d with %ld; ", c->count, step,
             from, (long)number);
}

/* A size: a literal, or (where the chain is symbolic) an expression of a symbol with that value. */
static dim make_size(struct chain *c, int64_t size)
{
    if (!c->symbolic || size < 1 || random_below(&c->random, 2))
        return size_literal(&c->sizes, size);
    char name[32];
    const int64_t factor = size % 2 == 0 && random_below(&c->random, 2) ? 2 : 1;
    snprintf(name, sizeof name, "s%d", (int)(size / factor));
    const dim symbol = size_symbol(&c->sizes, name, 1, 1 << 20, size / factor);
    return size_mul(&c->sizes, symbol, size_literal(&c->sizes, factor));
}

static void add_form(struct chain *c, form f, const int64_t *at)
{
    cr_assert_eq(index_status(&c->pool), PHASOR_OK, "%s", message_get());
    struct known *k = &c->known[c->count++];
    k->form = f;
    memcpy(k->at, at, sizeof k->at);
    check_form(c, k);
}

static void open_chain(struct chain *c, uint64_t seed)
{
    static const int extents[] = {1, 2, 3, 7, 8, 12, 16, 24, 32, 60, 128, 360};
    *c = (struct chain){.random = seed * 77 + 5, .places = 1};
    c->symbolic = seed % 3 == 2;
    c->variables = 1 + random_below(&c->random, VARIABLES_MAX);
    int64_t extent[VARIABLES_MAX];
    for (int v = 0; v < c->variables; v++) {
        do
            extent[v] = extents[random_below(&c->random, sizeof extents / sizeof *extents)];
        while (c->places * extent[v] > PLACES_MAX);
        c->places *= (int)extent[v];
    }
    cr_assert_eq(sizes_init(&c->sizes, &c->arena), PHASOR_OK);
    cr_assert_eq(index_init(&c->pool, &c->sizes, &c->arena), PHASOR_OK);
    for (int p = 0; p < c->places; p++) {
        c->alive[p] = true;
        for (int64_t v = 0, rest = p; v < c->variables; rest /= extent[v++])
            c->variable[v][p] = rest % extent[v];
    }
    for (int v = 0; v < c->variables; v++) {
        const dim size = make_size(c, extent[v]);
        const bool loaded = v > 0 && random_below(&c->random, 2);
        add_form(c,
                 loaded ? index_value(&c->pool, (uint32_t)v, size)
                        : index_variable(&c->pool, (uint32_t)v, size),
                 c->variable[v]);
    }
}

static void close_chain(struct chain *c)
{
    index_free(&c->pool);
    sizes_free(&c->sizes);
    arena_free(&c->arena);
}

static int64_t random_divisor(struct chain *c)
{
    static const int divisors[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 96, 128};
    return divisors[random_below(&c->random, sizeof divisors / sizeof *divisors)];
}

static int64_t highest_of(const struct chain *c, const struct known *k)
{
    int64_t highest = 0;
    for (int p = 0; p < c->places; p++)
        highest = c->alive[p] && k->at[p] > highest ? k->at[p] : highest;
    return highest;
}

static void step_divide(struct chain *c, const struct known *k, int from)
{
    const int64_t divisor = random_divisor(c);
    const dim size = make_size(c, divisor);
    int64_t quotient[PLACES_MAX], remainder[PLACES_MAX];
    for (int p = 0; p < c->places; p++) {
        quotient[p] = k->at[p] / divisor;
        remainder[p] = k->at[p] % divisor;
    }
    note(c, "/ and %", from, divisor);
    add_form(c, index_divide(&c->pool, k->form, size), quotient);
    add_form(c, index_remainder(&c->pool, k->form, size), remainder);
}

static void step_scale(struct chain *c, const struct known *k, int from)
{
    const int64_t factor = random_divisor(c), offset = random_below(&c->random, 9);
    int64_t at[PLACES_MAX];
    if (highest_of(c, k) * factor > 1 << 24)
        return;
    for (int p = 0; p < c->places; p++)
        at[p] = k->at[p] * factor + offset;
    note(c, "scale", from, factor);
    add_form(c,
             index_offset(&c->pool, index_scale(&c->pool, k->form, make_size(c, factor)),
                          make_size(c, offset)),
             at);
}

static void step_add(struct chain *c, const struct known *k, int from)
{
    const int other = random_below(&c->random, c->count);
    int64_t at[PLACES_MAX];
    for (int p = 0; p < c->places; p++)
        at[p] = k->at[p] + c->known[other].at[p];
    note(c, "add", from, other);
    add_form(c, index_add(&c->pool, k->form, c->known[other].form), at);
}

/* size - 1 - x */
static void step_flip(struct chain *c, const struct known *k, int from)
{
    const int64_t last = highest_of(c, k);
    int64_t at[PLACES_MAX];
    for (int p = 0; p < c->places; p++)
        at[p] = last - k->at[p];
    note(c, "flip", from, last);
    const form flipped = index_scale(&c->pool, k->form, size_literal(&c->sizes, -1));
    add_form(c, index_offset(&c->pool, flipped, size_literal(&c->sizes, last)), at);
}

/* x - start, under the guard that x >= start. */
static void step_cut(struct chain *c, const struct known *k, int from)
{
    const int64_t start = random_below(&c->random, (int)(highest_of(c, k) % 512) + 1);
    int64_t at[PLACES_MAX];
    int left = 0;
    for (int p = 0; p < c->places; p++)
        left += c->alive[p] && k->at[p] >= start;
    if (left == 0)
        return;
    for (int p = 0; p < c->places; p++) {
        at[p] = k->at[p] - start;
        c->alive[p] &= at[p] >= 0;
    }
    note(c, "cut", from, start);
    add_form(c, index_offset(&c->pool, k->form, size_sub(&c->sizes, 0, make_size(c, start))), at);
}

/* Coordinates of x in a shape, and x from them again. */
static void step_shape(struct chain *c, const struct known *k, int from)
{
    const int64_t inner = random_divisor(c), middle = random_divisor(c);
    const dim inner_size = make_size(c, inner), middle_size = make_size(c, middle);
    struct index_pool *pool = &c->pool;
    const form low = index_remainder(pool, k->form, inner_size),
               rest = index_divide(pool, k->form, inner_size);
    const form mid = index_remainder(pool, rest, middle_size),
               high = index_divide(pool, rest, middle_size);
    int64_t swapped[PLACES_MAX];
    note(c, "shape", from, inner * 1000 + middle);
    form again = index_add(pool, index_scale(pool, high, middle_size), mid);
    again = index_add(pool, index_scale(pool, again, inner_size), low);
    add_form(c, again, k->at);
    for (int p = 0; p < c->places; p++) /* the two inner dims transposed */
        swapped[p] = (k->at[p] / inner / middle * inner + k->at[p] % inner) * middle +
                     k->at[p] / inner % middle;
    form turned = index_add(pool, index_scale(pool, high, inner_size), low);
    turned = index_add(pool, index_scale(pool, turned, middle_size), mid);
    add_form(c, turned, swapped);
}

static void check_below(struct chain *c, const struct known *k)
{
    const int64_t limit = random_below(&c->random, (int)(highest_of(c, k) % 4096) + 3);
    form asked = k->form;
    dim bound = make_size(c, limit);
    const enum index_answer answer = index_below(&c->pool, &asked, &bound);
    for (int p = 0; p < c->places; p++) {
        if (!c->alive[p])
            continue;
        const bool below = k->at[p] < limit;
        const bool said = answer == INDEX_ASK ? (int64_t)form_value(c, asked, p, false) <
                                                    size_value(&c->sizes, bound)
                                              : answer == INDEX_ALWAYS;
        cr_assert_eq(said, below, "place %d: %ld < %ld; %s", p, (long)k->at[p], (long)limit,
                     c->steps);
    }
}

static void check_parts(struct chain *c, const struct known *k)
{
    const int64_t n = random_divisor(c);
    form rest;
    int64_t constant;
    const bool multiple = index_is_multiple(&c->pool, k->form, n);
    if (!index_split(&c->pool, k->form, &rest, &constant))
        return;
    for (int p = 0; p < c->places; p++) {
        if (!c->alive[p])
            continue;
        cr_assert_eq((int64_t)form_value(c, rest, p, false) + constant, k->at[p], "%s", c->steps);
        cr_assert(!multiple || (k->at[p] - constant) % n == 0, "%s", c->steps);
    }
}

static void run_chain(struct chain *c)
{
    static void (*const steps[])(struct chain *, const struct known *,
                                 int) = {step_divide, step_divide, step_scale, step_add,
                                         step_flip,   step_cut,    step_shape, step_shape};
    const int count = 1 + random_below(&c->random, STEPS_MAX);
    for (int s = 0; s < count && c->count + 2 < FORMS_MAX; s++) {
        const int from = random_below(&c->random, c->count);
        const struct known k = c->known[from];
        if (highest_of(c, &k) <= 1 << 24)
            steps[random_below(&c->random, sizeof steps / sizeof *steps)](c, &k, from);
        check_below(c, &c->known[c->count - 1]);
        check_parts(c, &c->known[c->count - 1]);
    }
}

Test(index, random_chains_are_plain_arithmetic, .timeout = 3600)
{
    struct chain *c = malloc(sizeof *c);
    cr_assert(c);
    for (uint64_t seed = 0; seed < CHAINS; seed++) {
        open_chain(c, seed);
        run_chain(c);
        close_chain(c);
    }
    free(c);
    ASSERT_NO_LEAKS();
}

/* -- what the header shows --------------------------------------------------------------------- */

struct facts {
    struct arena arena;
    struct sizes sizes;
    struct index_pool pool;
    form i;
};

static void open_facts(struct facts *f, int64_t extent)
{
    *f = (struct facts){0};
    cr_assert_eq(sizes_init(&f->sizes, &f->arena), PHASOR_OK);
    cr_assert_eq(index_init(&f->pool, &f->sizes, &f->arena), PHASOR_OK);
    f->i = index_variable(&f->pool, 'i', size_literal(&f->sizes, extent));
}

static void close_facts(struct facts *f)
{
    cr_assert_eq(index_status(&f->pool), PHASOR_OK);
    index_free(&f->pool);
    sizes_free(&f->sizes);
    arena_free(&f->arena);
}

/* factor * x + offset, x / divisor, x % divisor */
static form times(struct facts *f, form x, int64_t factor, int64_t offset)
{
    return index_offset(&f->pool, index_scale(&f->pool, x, size_literal(&f->sizes, factor)),
                        size_literal(&f->sizes, offset));
}

static form over(struct facts *f, form x, int64_t divisor)
{
    return index_divide(&f->pool, x, size_literal(&f->sizes, divisor));
}

static form rest_of(struct facts *f, form x, int64_t divisor)
{
    return index_remainder(&f->pool, x, size_literal(&f->sizes, divisor));
}

Test(index, simplifications_of_the_header)
{
    struct facts f;
    open_facts(&f, 1 << 20);
    const form row = over(&f, f.i, 16), column = rest_of(&f, f.i, 16);
    cr_expect_eq(rest_of(&f, times(&f, f.i, 8, 3), 2), index_literal(&f.pool, 1));
    cr_expect_eq(over(&f, times(&f, f.i, 8, 3), 128), row);
    cr_expect_eq(index_add(&f.pool, times(&f, row, 16, 0), column), f.i);
    const form place = index_add(&f.pool, times(&f, row, 128, 0), times(&f, column, 8, 3));
    cr_expect_eq(over(&f, rest_of(&f, place, 128), 2), times(&f, column, 4, 1));
    close_facts(&f);
    ASSERT_NO_LEAKS();
}

Test(index, what_repeats)
{
    struct facts f;
    open_facts(&f, 1 << 20);
    const form row = over(&f, f.i, 512), column = rest_of(&f, f.i, 16);
    const form table = index_add(&f.pool, times(&f, rest_of(&f, row, 256), 32, 0), column);
    cr_expect(index_repeats(&f.pool, column));
    cr_expect(index_repeats(&f.pool, table), "row %% 256 comes 8 times");
    cr_expect_not(index_repeats(&f.pool, rest_of(&f, row, 2048)), "there are no more rows");
    cr_expect_not(index_repeats(&f.pool, index_add(&f.pool, times(&f, row, 32, 0), column)));
    cr_expect_not(index_repeats(&f.pool, f.i));
    cr_expect_not(index_repeats(&f.pool, 0), "one place");
    const form read = index_value(&f.pool, 1, size_literal(&f.sizes, 100));
    cr_expect_not(index_repeats(&f.pool, rest_of(&f, read, 10)), "what was read is anything");
    close_facts(&f);
    ASSERT_NO_LEAKS();
}

Test(index, digits_of_digits)
{
    struct facts f;
    open_facts(&f, 1 << 20);
    cr_expect_eq(over(&f, over(&f, f.i, 4), 8), over(&f, f.i, 32));
    cr_expect_eq(rest_of(&f, rest_of(&f, f.i, 32), 8), rest_of(&f, f.i, 8));
    cr_expect_eq(rest_of(&f, f.i, 1), 0u);
    cr_expect_eq(over(&f, f.i, 1 << 20), 0u);
    cr_expect_eq(rest_of(&f, f.i, 1 << 20), f.i);
    cr_expect_eq(index_variable(&f.pool, 'j', 1), 0u);
    close_facts(&f);
    ASSERT_NO_LEAKS();
}

Test(index, questions_that_lanes_share)
{
    struct facts f;
    open_facts(&f, 64);
    dim bounds[4];
    form asked[4];
    for (int lane = 0; lane < 4; lane++) { /* 4*i + lane < 40 */
        asked[lane] = times(&f, f.i, 4, lane);
        bounds[lane] = size_literal(&f.sizes, 40);
        cr_expect_eq(index_below(&f.pool, &asked[lane], &bounds[lane]), INDEX_ASK);
        cr_expect(asked[lane] == asked[0] && bounds[lane] == bounds[0],
                  "lane %d asks something else", lane);
    }
    form all = f.i, none = times(&f, f.i, 1, 64);
    dim most = size_literal(&f.sizes, 64), least = most;
    cr_expect_eq(index_below(&f.pool, &all, &most), INDEX_ALWAYS);
    cr_expect_eq(index_below(&f.pool, &none, &least), INDEX_NEVER);
    close_facts(&f);
    ASSERT_NO_LEAKS();
}
