/* index.c - see index.h. */
#include "codegen/index.h"

#include <string.h>

enum { TERMS_MAX = 48 };

/* A form being built. */
struct sum {
    dim constant;
    int count;
    struct index_term terms[TERMS_MAX];
};

static const struct index_form *form_at(const struct index_pool *pool, form f)
{
    return &pool->forms.at[f];
}

static form index_fail(struct index_pool *pool)
{
    pool->failed = true;
    return 0;
}

static int64_t literal_of(const struct index_pool *pool, dim d, int64_t otherwise)
{
    return size_is_literal(pool->sizes, d) ? size_value(pool->sizes, d) : otherwise;
}

/* a <= b whatever the symbols are. */
static bool at_most(struct index_pool *pool, dim a, dim b)
{
    const dim difference = size_sub(pool->sizes, b, a); /* may move the array of sizes */
    return pool->sizes->nodes.at[difference].low >= 0;
}

static dim minus_one(struct index_pool *pool, dim d)
{
    return size_sub(pool->sizes, d, 1);
}

/* -- interning --------------------------------------------------------------------------------- */

static uint64_t form_hash(const void *forms, uint32_t number)
{
    const struct index_form *f = (const struct index_form *)forms + number;
    uint64_t hash = intern_mix(1, f->constant);
    for (int i = 0; i < f->count; i++)
        hash = intern_mix(intern_mix(hash, f->terms[i].coefficient), f->terms[i].atom);
    return intern_mixed(hash);
}

static bool form_equal(const struct index_form *a, const struct index_form *b)
{
    if (a->constant != b->constant || a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (a->terms[i].coefficient != b->terms[i].coefficient ||
            a->terms[i].atom != b->terms[i].atom)
            return false;
    return true;
}

static void form_bounds(struct index_pool *pool, struct index_form *f)
{
    struct sizes *sizes = pool->sizes;
    f->lowest = f->highest = f->constant;
    for (int i = 0; i < f->count; i++) {
        const dim coefficient = f->terms[i].coefficient;
        const dim span =
            size_mul(sizes, coefficient, minus_one(pool, pool->atoms.at[f->terms[i].atom].extent));
        if (sizes->nodes.at[coefficient].low >= 0)
            f->highest = size_add(sizes, f->highest, span);
        else
            f->lowest = size_add(sizes, f->lowest, span);
    }
}

static form form_intern(struct index_pool *pool, const struct sum *sum)
{
    struct index_form f = {.constant = sum->constant, .count = sum->count, .terms = sum->terms};
    if (!intern_room(&pool->table, pool->forms.count, form_hash, pool->forms.at))
        return index_fail(pool);
    size_t slot = intern_slot(&pool->table, form_hash(&f, 0));
    for (; pool->table.at[slot]; slot = intern_next(&pool->table, slot))
        if (form_equal(&pool->forms.at[pool->table.at[slot] - 1], &f))
            return pool->table.at[slot] - 1;
    form_bounds(pool, &f);
    f.terms = arena_copy(pool->arena, f.terms, (size_t)f.count * sizeof *f.terms);
    if ((f.count && !f.terms) || !array_push(&pool->forms, f))
        return index_fail(pool);
    pool->table.at[slot] = (uint32_t)pool->forms.count;
    return (form)pool->forms.count - 1;
}

phasor_status index_init(struct index_pool *pool, struct sizes *sizes, struct arena *arena)
{
    *pool = (struct index_pool){.arena = arena, .sizes = sizes};
    form_intern(pool, &(struct sum){0});
    return index_status(pool);
}

void index_free(struct index_pool *pool)
{
    array_free(&pool->atoms);
    array_free(&pool->forms);
    intern_free(&pool->table);
    *pool = (struct index_pool){0};
}

phasor_status index_status(const struct index_pool *pool)
{
    return pool->failed ? fail_memory() : sizes_status(pool->sizes);
}

/* -- atoms ------------------------------------------------------------------------------------- */

static form atom_form(struct index_pool *pool, struct index_atom new)
{
    atom at = 0;
    for (; at < pool->atoms.count; at++) {
        const struct index_atom *old = &pool->atoms.at[at];
        if (old->kind == new.kind && old->base == new.base && old->low == new.low &&
            old->high == new.high && old->source == new.source)
            break;
    }
    if (at == pool->atoms.count && !array_push(&pool->atoms, new))
        return index_fail(pool);
    if (new.extent == 1)
        return 0;
    return form_intern(pool, &(struct sum){.count = 1, .terms = {{1, at}}});
}

form index_constant(struct index_pool *pool, dim value)
{
    return form_intern(pool, &(struct sum){.constant = value});
}

form index_literal(struct index_pool *pool, int64_t value)
{
    return index_constant(pool, size_literal(pool->sizes, value));
}

form index_variable(struct index_pool *pool, uint32_t source, dim extent)
{
    return atom_form(
        pool, (struct index_atom){.kind = ATOM_VARIABLE, .extent = extent, .source = source});
}

form index_value(struct index_pool *pool, uint32_t source, dim extent)
{
    return atom_form(pool,
                     (struct index_atom){.kind = ATOM_VALUE, .extent = extent, .source = source});
}

/* The only atom of a form that is just that atom; false otherwise. */
static bool only_atom(const struct index_pool *pool, form f, struct index_atom *out)
{
    const struct index_form *at = form_at(pool, f);
    if (at->count != 1 || at->constant != 0 || at->terms[0].coefficient != 1)
        return false;
    *out = pool->atoms.at[at->terms[0].atom];
    return true;
}

/* A digit of a digit is a digit of its base where the boundaries divide each other. */
static bool digit_compose(struct index_pool *pool, form *base, dim *low, dim *high)
{
    struct sizes *sizes = pool->sizes;
    struct index_atom inner;
    dim rest;
    if (!only_atom(pool, *base, &inner) || inner.kind != ATOM_DIGIT)
        return false;
    const dim new_low = size_mul(sizes, inner.low, *low),
              new_high = *high ? size_mul(sizes, inner.low, *high) : inner.high;
    const bool fits = inner.high == 0 ||
                      size_divide_exactly(sizes, inner.high, *high ? new_high : new_low, &rest);
    if (!fits)
        return false;
    *base = inner.base;
    *low = new_low;
    *high = new_high;
    return true;
}

/* base / low % (high / low); high 0: no remainder. base is not negative. */
static form digit(struct index_pool *pool, form base, dim low, dim high)
{
    struct sizes *sizes = pool->sizes;
    while (digit_compose(pool, &base, &low, &high))
        continue;
    const struct index_form *b = form_at(pool, base);
    const dim highest = b->highest;
    if (high && at_most(pool, highest, minus_one(pool, high)))
        high = 0;
    if (b->count == 0 && size_is_literal(sizes, b->constant)) {
        const dim quotient = size_floordiv(sizes, b->constant, low);
        return index_constant(
            pool, high ? size_binary(sizes, SIZE_MOD, quotient, size_floordiv(sizes, high, low))
                       : quotient);
    }
    if (low == 1 && high == 0)
        return base;
    const dim extent = high ? size_floordiv(sizes, high, low)
                            : size_add(sizes, size_floordiv(sizes, highest, low), 1);
    if (extent == 1)
        return 0;
    return atom_form(
        pool, (struct index_atom){
                  .kind = ATOM_DIGIT, .extent = extent, .base = base, .low = low, .high = high});
}

/* -- sums -------------------------------------------------------------------------------------- */

static void sum_of(const struct index_pool *pool, form f, struct sum *sum)
{
    const struct index_form *at = form_at(pool, f);
    sum->constant = at->constant;
    sum->count = at->count;
    if (at->count)
        memcpy(sum->terms, at->terms, (size_t)at->count * sizeof *at->terms);
}

static bool sum_add_term(struct index_pool *pool, struct sum *sum, dim coefficient, atom a)
{
    int at = 0;
    while (at < sum->count && sum->terms[at].atom < a)
        at++;
    if (at < sum->count && sum->terms[at].atom == a) {
        sum->terms[at].coefficient = size_add(pool->sizes, sum->terms[at].coefficient, coefficient);
        if (sum->terms[at].coefficient == 0)
            memmove(&sum->terms[at], &sum->terms[at + 1],
                    (size_t)(--sum->count - at) * sizeof sum->terms[0]);
        return true;
    }
    if (sum->count == TERMS_MAX)
        return false;
    memmove(&sum->terms[at + 1], &sum->terms[at],
            (size_t)(sum->count++ - at) * sizeof sum->terms[0]);
    sum->terms[at] = (struct index_term){coefficient, a};
    return true;
}

static void sum_drop(struct sum *sum, int at)
{
    memmove(&sum->terms[at], &sum->terms[at + 1],
            (size_t)(--sum->count - at) * sizeof sum->terms[0]);
}

static bool sum_add_form(struct index_pool *pool, struct sum *sum, form f, dim factor)
{
    const struct index_form at = *form_at(pool, f);
    sum->constant =
        size_add(pool->sizes, sum->constant, size_mul(pool->sizes, at.constant, factor));
    for (int i = 0; i < at.count; i++)
        if (!sum_add_term(pool, sum, size_mul(pool->sizes, at.terms[i].coefficient, factor),
                          at.terms[i].atom))
            return false;
    return true;
}

/* Whether terms x (the lower digit) and y (the higher one) are neighbours: then x takes both in. */
static bool digits_join(struct index_pool *pool, struct sum *sum, int x, int y)
{
    const struct index_atom low = pool->atoms.at[sum->terms[x].atom],
                            high = pool->atoms.at[sum->terms[y].atom];
    struct sizes *sizes = pool->sizes;
    dim ratio;
    if (low.kind != ATOM_DIGIT || high.kind != ATOM_DIGIT || low.base != high.base ||
        low.high == 0 || low.high != high.low ||
        !size_divide_exactly(sizes, low.high, low.low, &ratio) ||
        sum->terms[y].coefficient != size_mul(sizes, sum->terms[x].coefficient, ratio))
        return false;
    const dim coefficient = sum->terms[x].coefficient;
    sum_drop(sum, x > y ? x : y);
    sum_drop(sum, x > y ? y : x);
    return sum_add_form(pool, sum, digit(pool, low.base, low.low, high.high), coefficient);
}

static bool sum_join_once(struct index_pool *pool, struct sum *sum)
{
    for (int x = 0; x < sum->count; x++)
        for (int y = 0; y < sum->count; y++)
            if (x != y && digits_join(pool, sum, x, y))
                return true;
    return false;
}

static form sum_intern(struct index_pool *pool, struct sum *sum)
{
    while (sum_join_once(pool, sum))
        continue;
    return form_intern(pool, sum);
}

form index_add(struct index_pool *pool, form a, form b)
{
    struct sum sum;
    sum_of(pool, a, &sum);
    return sum_add_form(pool, &sum, b, 1) ? sum_intern(pool, &sum) : index_fail(pool);
}

form index_scale(struct index_pool *pool, form a, dim factor)
{
    struct sum sum = {0};
    if (factor == 0)
        return 0;
    return sum_add_form(pool, &sum, a, factor) ? sum_intern(pool, &sum) : index_fail(pool);
}

form index_offset(struct index_pool *pool, form a, dim offset)
{
    struct sum sum;
    sum_of(pool, a, &sum);
    sum.constant = size_add(pool->sizes, sum.constant, offset);
    return form_intern(pool, &sum);
}

/* -- division ---------------------------------------------------------------------------------- */

/* The lowest value of the terms without the constant. */
static dim terms_lowest(struct index_pool *pool, const struct sum *sum)
{
    struct sum terms = *sum;
    terms.constant = 0;
    return form_at(pool, form_intern(pool, &terms))->lowest;
}

/* Multiples of the divisor go from the constant to the quotient, but as much stays as keeps the
 * rest from becoming negative: digits are those of non-negative numbers. */
static void take_constant(struct index_pool *pool, struct sum *rest, struct sum *quotient,
                          dim divisor)
{
    struct sizes *sizes = pool->sizes;
    const dim lowest = terms_lowest(pool, rest);
    dim ratio, left = 0;
    if (size_is_literal(sizes, rest->constant) && size_is_literal(sizes, divisor) &&
        size_is_literal(sizes, lowest)) {
        const int64_t d = size_value(sizes, divisor), c = size_value(sizes, rest->constant),
                      low = size_value(sizes, lowest);
        int64_t stays = (c % d + d) % d;
        if (stays + low < 0)
            stays += (d - 1 - low - stays) / d * d;
        ratio = size_literal(sizes, (c - stays) / d);
        left = size_literal(sizes, stays);
    } else if (!at_most(pool, 0, lowest) ||
               !size_divide_exactly(sizes, rest->constant, divisor, &ratio)) {
        return;
    }
    quotient->constant = size_add(sizes, quotient->constant, ratio);
    rest->constant = left;
}

/* Takes the multiples of the divisor out of the sum, into the quotient. */
static bool take_multiples(struct index_pool *pool, struct sum *rest, struct sum *quotient,
                           dim divisor)
{
    struct sizes *sizes = pool->sizes;
    dim ratio;
    for (int i = 0; i < rest->count;)
        if (size_divide_exactly(sizes, rest->terms[i].coefficient, divisor, &ratio)) {
            if (!sum_add_term(pool, quotient, ratio, rest->terms[i].atom))
                return false;
            sum_drop(rest, i);
        } else {
            i++;
        }
    take_constant(pool, rest, quotient, divisor);
    return true;
}

static bool is_digit_of(struct index_pool *pool, form f, dim divisor)
{
    return at_most(pool, 0, form_at(pool, f)->lowest) &&
           at_most(pool, form_at(pool, f)->highest, minus_one(pool, divisor));
}

/* One atom straddles the divisor: its lower digit stays in the rest, its higher one goes to the
 * quotient. */
static bool split_atom(struct index_pool *pool, form rest, dim divisor, form *quotient,
                       form *remainder)
{
    const struct index_form f = *form_at(pool, rest);
    for (int i = 0; i < f.count; i++) {
        dim at;
        if (!at_most(pool, 1, f.terms[i].coefficient) ||
            !size_divide_exactly(pool->sizes, divisor, f.terms[i].coefficient, &at))
            continue;
        struct sum others;
        sum_of(pool, rest, &others);
        sum_drop(&others, i);
        const form whole =
            form_intern(pool, &(struct sum){.count = 1, .terms = {{1, f.terms[i].atom}}});
        const form low = digit(pool, whole, 1, at);
        if (!sum_add_form(pool, &others, low, f.terms[i].coefficient))
            return false;
        const form left = sum_intern(pool, &others);
        if (is_digit_of(pool, left, divisor)) {
            *quotient = digit(pool, whole, at, 0);
            *remainder = left;
            return true;
        }
    }
    return false;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* The greatest literal that divides every coefficient; 0 when there are none or one is not a
 * literal. */
static int64_t common_factor(const struct index_pool *pool, form f)
{
    int64_t common = 0;
    for (int i = 0; i < form_at(pool, f)->count; i++) {
        const int64_t coefficient = literal_of(pool, form_at(pool, f)->terms[i].coefficient, 1);
        common = gcd(common, coefficient);
    }
    return common;
}

static form form_divide_exactly(struct index_pool *pool, form f, int64_t factor, int64_t constant)
{
    struct sum sum;
    sum_of(pool, f, &sum);
    for (int i = 0; i < sum.count; i++)
        size_divide_exactly(pool->sizes, sum.terms[i].coefficient,
                            size_literal(pool->sizes, factor), &sum.terms[i].coefficient);
    sum.constant = size_literal(pool->sizes, constant);
    return sum_intern(pool, &sum);
}

static void divide(struct index_pool *pool, form a, dim divisor, form *quotient, form *remainder);

/* (m*x + r) / (m*y) = x / y for 0 <= r < m. */
static bool cancel_factor(struct index_pool *pool, form rest, dim divisor, form *quotient,
                          form *remainder)
{
    const int64_t d = literal_of(pool, divisor, 0),
                  constant = literal_of(pool, form_at(pool, rest)->constant, -1);
    const int64_t common = d ? gcd(common_factor(pool, rest), d) : 0;
    if (common < 2 || constant < 0)
        return false;
    const form reduced = form_divide_exactly(pool, rest, common, constant / common);
    divide(pool, reduced, size_literal(pool->sizes, d / common), quotient, remainder);
    *remainder =
        index_offset(pool, index_scale(pool, *remainder, size_literal(pool->sizes, common)),
                     size_literal(pool->sizes, constant % common));
    return true;
}

static void divide(struct index_pool *pool, form a, dim divisor, form *quotient, form *remainder)
{
    struct sum rest, multiples = {0};
    if (divisor == 0) { /* a shape without elements: nobody asks where they are */
        *quotient = *remainder = 0;
        return;
    }
    sum_of(pool, a, &rest);
    if (!take_multiples(pool, &rest, &multiples, divisor)) {
        *quotient = *remainder = index_fail(pool);
        return;
    }
    const form left = sum_intern(pool, &rest), taken = sum_intern(pool, &multiples);
    form more;
    if (!at_most(pool, 0, form_at(pool, left)->lowest)) { /* not known: nothing is taken out of a */
        *quotient = digit(pool, a, divisor, 0);
        *remainder = digit(pool, a, 1, divisor);
        return;
    }
    if (is_digit_of(pool, left, divisor)) {
        *quotient = taken;
        *remainder = left;
        return;
    }
    if (!split_atom(pool, left, divisor, &more, remainder) &&
        !cancel_factor(pool, left, divisor, &more, remainder)) {
        more = digit(pool, left, divisor, 0);
        *remainder = digit(pool, left, 1, divisor);
    }
    *quotient = index_add(pool, taken, more);
}

form index_divide(struct index_pool *pool, form a, dim divisor)
{
    form quotient, remainder;
    if (divisor == 1)
        return a;
    divide(pool, a, divisor, &quotient, &remainder);
    return quotient;
}

form index_remainder(struct index_pool *pool, form a, dim divisor)
{
    form quotient, remainder;
    if (divisor == 1)
        return 0;
    divide(pool, a, divisor, &quotient, &remainder);
    return remainder;
}

/* -- questions --------------------------------------------------------------------------------- */

enum index_answer index_below(struct index_pool *pool, form *a, dim *bound)
{
    if (at_most(pool, form_at(pool, *a)->highest, minus_one(pool, *bound)))
        return INDEX_ALWAYS;
    if (at_most(pool, *bound, form_at(pool, *a)->lowest))
        return INDEX_NEVER;
    /* g*x + r < b  is  x < (b - r + g - 1) / g: lanes that differ in r ask the same. */
    const int64_t common = common_factor(pool, *a),
                  constant = literal_of(pool, form_at(pool, *a)->constant, -1);
    const int64_t limit = literal_of(pool, *bound, -1);
    if (common > 1 && constant >= 0 && limit >= 0) {
        const int64_t rest = constant % common;
        *a = form_divide_exactly(pool, *a, common, constant / common);
        *bound = size_literal(pool->sizes, limit > rest ? (limit - rest + common - 1) / common : 0);
    }
    return INDEX_ASK;
}

bool index_split(struct index_pool *pool, form a, form *rest, int64_t *constant)
{
    struct sum sum;
    sum_of(pool, a, &sum);
    if (!size_is_literal(pool->sizes, sum.constant))
        return false;
    *constant = size_value(pool->sizes, sum.constant);
    sum.constant = 0;
    *rest = form_intern(pool, &sum);
    return true;
}

bool index_is_multiple(struct index_pool *pool, form a, int64_t n)
{
    const struct index_form f = *form_at(pool, a);
    for (int i = 0; i < f.count; i++)
        if (!size_is_multiple(pool->sizes, f.terms[i].coefficient, n))
            return false;
    return true;
}

static bool has_variables_alone(const struct index_pool *pool, form a)
{
    const struct index_form *f = form_at(pool, a);
    for (int i = 0; i < f->count; i++)
        if (pool->atoms.at[f->terms[i].atom].kind != ATOM_VARIABLE)
            return false;
    return true;
}

bool index_repeats(const struct index_pool *pool, form a)
{
    const struct index_form *f = form_at(pool, a);
    for (int i = 0; i < f->count; i++) {
        const struct index_atom *digit = &pool->atoms.at[f->terms[i].atom];
        if (digit->kind != ATOM_DIGIT || digit->high == 0 ||
            !has_variables_alone(pool, digit->base))
            return false;
    }
    return f->count > 0;
}
