/* symbols.c - size expressions as SymPy's srepr writes them (torch 2.6 and newer).
 *
 *     Mul(Integer(2), Symbol('s25', integer=True))      2*s25
 *     FloorDiv(Add(Symbol('s0'), Integer(1)), Integer(2))   floordiv(s0 + 1, 2)
 *     Mul(Rational(1, 2), Symbol('s0'))                 s0 / 2, which is exact
 *     s0                                                a bare symbol
 *
 *     expression := name | number | name '(' [argument {',' argument}] ')'
 *
 * While parsing, a value is a quotient of two sizes: SymPy writes a division as a product with
 * Rational(1, n) or Pow(x, -1).
 */
#include "load/loader.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 128, ARGUMENTS_MAX = 48, NAME_SIZE = 64, POWER_MAX = 8 };

struct quotient {
    dim top, bottom;
};

struct parser {
    struct sizes *sizes;
    const char *at;
    int64_t hint;
    int depth;
    const char *error; /* NULL: none yet */
};

struct function {
    const char *name;
    int least, most;
    struct quotient (*call)(struct parser *p, const struct quotient *arguments, int count);
};

static bool expression_parse(struct parser *p, struct quotient *out);

static bool parser_fail(struct parser *p, const char *error)
{
    if (!p->error)
        p->error = error;
    return false;
}

/* -- arithmetic -------------------------------------------------------------------------------- */

static struct quotient whole(dim size)
{
    return (struct quotient){size, 1};
}

static dim rounded_down(struct parser *p, struct quotient q)
{
    return q.bottom == 1 ? q.top : size_floordiv(p->sizes, q.top, q.bottom);
}

static struct quotient call_add(struct parser *p, const struct quotient *a, int count)
{
    struct quotient sum = whole(0);
    for (int i = 0; i < count; i++) {
        if (sum.bottom == a[i].bottom) {
            sum.top = size_add(p->sizes, sum.top, a[i].top);
            continue;
        }
        sum.top = size_add(p->sizes, size_mul(p->sizes, sum.top, a[i].bottom),
                           size_mul(p->sizes, a[i].top, sum.bottom));
        sum.bottom = size_mul(p->sizes, sum.bottom, a[i].bottom);
    }
    return sum;
}

static struct quotient call_mul(struct parser *p, const struct quotient *a, int count)
{
    struct quotient product = whole(1);
    for (int i = 0; i < count; i++) {
        product.top = size_mul(p->sizes, product.top, a[i].top);
        product.bottom = size_mul(p->sizes, product.bottom, a[i].bottom);
    }
    return product;
}

static struct quotient call_divide(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    return (struct quotient){size_mul(p->sizes, a[0].top, a[1].bottom),
                             size_mul(p->sizes, a[0].bottom, a[1].top)};
}

static struct quotient call_floordiv(struct parser *p, const struct quotient *a, int count)
{
    return whole(rounded_down(p, call_divide(p, a, count)));
}

static struct quotient rounded_up(struct parser *p, struct quotient q)
{
    return whole(size_sub(
        p->sizes, 0, rounded_down(p, (struct quotient){size_sub(p->sizes, 0, q.top), q.bottom})));
}

static struct quotient call_ceildiv(struct parser *p, const struct quotient *a, int count)
{
    return rounded_up(p, call_divide(p, a, count));
}

static struct quotient call_floor(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    return whole(rounded_down(p, a[0]));
}

static struct quotient call_ceiling(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    return rounded_up(p, a[0]);
}

static struct quotient call_identity(struct parser *p, const struct quotient *a, int count)
{
    (void)p;
    (void)count;
    return a[0];
}

static struct quotient binary(struct parser *p, enum size_kind kind, struct quotient a,
                              struct quotient b)
{
    return whole(size_binary(p->sizes, kind, rounded_down(p, a), rounded_down(p, b)));
}

static struct quotient fold(struct parser *p, enum size_kind kind, const struct quotient *a,
                            int count)
{
    struct quotient result = whole(rounded_down(p, a[0]));
    for (int i = 1; i < count; i++)
        result = binary(p, kind, result, a[i]);
    return result;
}

static struct quotient call_mod(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    return binary(p, SIZE_MOD, a[0], a[1]);
}

static struct quotient call_modular_indexing(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    return binary(p, SIZE_MOD, binary(p, SIZE_FLOORDIV, a[0], a[1]), a[2]);
}

static struct quotient call_max(struct parser *p, const struct quotient *a, int count)
{
    return fold(p, SIZE_MAXIMUM, a, count);
}

static struct quotient call_min(struct parser *p, const struct quotient *a, int count)
{
    return fold(p, SIZE_MINIMUM, a, count);
}

static struct quotient call_and(struct parser *p, const struct quotient *a, int count)
{
    return fold(p, SIZE_AND, a, count);
}

static struct quotient call_or(struct parser *p, const struct quotient *a, int count)
{
    return fold(p, SIZE_OR, a, count);
}

static struct quotient call_not(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    return binary(p, SIZE_EQ, a[0], whole(0));
}

static struct quotient call_abs(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    const dim x = rounded_down(p, a[0]);
    return whole(size_max(p->sizes, x, size_sub(p->sizes, 0, x)));
}

/* Relations compare a/b with c/d as a*d with c*b: the bottoms of sizes are positive. */
static struct quotient relation(struct parser *p, enum size_kind kind, struct quotient a,
                                struct quotient b)
{
    return whole(size_binary(p->sizes, kind, size_mul(p->sizes, a.top, b.bottom),
                             size_mul(p->sizes, b.top, a.bottom)));
}

#define RELATION(name, kind, first, second)                                                   \
    static struct quotient call_##name(struct parser *p, const struct quotient *a, int count) \
    {                                                                                         \
        (void)count;                                                                          \
        return relation(p, kind, a[first], a[second]);                                        \
    }
RELATION(eq, SIZE_EQ, 0, 1)
RELATION(ne, SIZE_NE, 0, 1)
RELATION(lt, SIZE_LT, 0, 1)
RELATION(le, SIZE_LE, 0, 1)
RELATION(gt, SIZE_LT, 1, 0)
RELATION(ge, SIZE_LE, 1, 0)

/* x ** n with a small literal n becomes a product, the normal form of the pool. */
static struct quotient power(struct parser *p, struct quotient x, struct quotient n)
{
    const dim exponent = rounded_down(p, n);
    const int64_t times = size_value(p->sizes, exponent);
    if (!size_is_literal(p->sizes, exponent) || times > POWER_MAX || times < -POWER_MAX)
        return binary(p, SIZE_POW, x, n);
    struct quotient result = whole(1);
    for (int64_t i = 0; i < (times < 0 ? -times : times); i++)
        result = call_mul(p, (struct quotient[2]){result, x}, 2);
    return times < 0 ? (struct quotient){result.bottom, result.top} : result;
}

static struct quotient call_pow(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    return power(p, a[0], a[1]);
}

static struct quotient call_shift_left(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    return call_mul(p, (struct quotient[2]){a[0], power(p, whole(size_literal(p->sizes, 2)), a[1])},
                    2);
}

static struct quotient call_shift_right(struct parser *p, const struct quotient *a, int count)
{
    return call_floordiv(
        p, (struct quotient[2]){a[0], power(p, whole(size_literal(p->sizes, 2)), a[1])}, count);
}

/* condition ? a : b, as condition * a + (1 - condition) * b */
static struct quotient call_where(struct parser *p, const struct quotient *a, int count)
{
    (void)count;
    const struct quotient yes = binary(p, SIZE_NE, a[0], whole(0)),
                          no = binary(p, SIZE_EQ, a[0], whole(0));
    const struct quotient parts[2] = {call_mul(p, (struct quotient[2]){yes, a[1]}, 2),
                                      call_mul(p, (struct quotient[2]){no, a[2]}, 2)};
    return call_add(p, parts, 2);
}

static const struct function functions[] = {
    {"Add", 0, ARGUMENTS_MAX, call_add},
    {"Mul", 0, ARGUMENTS_MAX, call_mul},
    {"Pow", 2, 2, call_pow},
    {"PowByNatural", 2, 2, call_pow},
    {"Max", 1, ARGUMENTS_MAX, call_max},
    {"Min", 1, ARGUMENTS_MAX, call_min},
    {"FloorDiv", 2, 2, call_floordiv},
    {"CleanDiv", 2, 2, call_floordiv},
    {"CeilDiv", 2, 2, call_ceildiv},
    {"IntTrueDiv", 2, 2, call_divide},
    {"Mod", 2, 2, call_mod},
    {"PythonMod", 2, 2, call_mod},
    {"ModularIndexing", 3, 3, call_modular_indexing},
    {"Where", 3, 3, call_where},
    {"LShift", 2, 2, call_shift_left},
    {"RShift", 2, 2, call_shift_right},
    {"floor", 1, 1, call_floor},
    {"FloorToInt", 1, 1, call_floor},
    {"TruncToInt", 1, 1, call_floor}, /* of a size, which is not negative */
    {"ceiling", 1, 1, call_ceiling},
    {"CeilToInt", 1, 1, call_ceiling},
    {"Identity", 1, 1, call_identity},
    {"Abs", 1, 1, call_abs},
    {"Equality", 2, 2, call_eq},
    {"Eq", 2, 2, call_eq},
    {"Unequality", 2, 2, call_ne},
    {"Ne", 2, 2, call_ne},
    {"StrictLessThan", 2, 2, call_lt},
    {"LessThan", 2, 2, call_le},
    {"StrictGreaterThan", 2, 2, call_gt},
    {"GreaterThan", 2, 2, call_ge},
    {"And", 1, ARGUMENTS_MAX, call_and},
    {"Or", 1, ARGUMENTS_MAX, call_or},
    {"Not", 1, 1, call_not},
};

/* -- grammar ----------------------------------------------------------------------------------- */

static void space_skip(struct parser *p)
{
    while (*p->at == ' ' || (*p->at >= '\t' && *p->at <= '\r'))
        p->at++;
}

static bool sign_take(struct parser *p, char sign)
{
    space_skip(p);
    if (*p->at != sign)
        return false;
    p->at++;
    return true;
}

static bool name_take(struct parser *p, char name[NAME_SIZE])
{
    space_skip(p);
    size_t length = 0;
    while (is_alphanumeric(p->at[length]) || p->at[length] == '_')
        length++;
    if (length == 0)
        return parser_fail(p, "a name or number is expected");
    if (length >= NAME_SIZE)
        return parser_fail(p, "a name is too long");
    memcpy(name, p->at, length);
    name[length] = '\0';
    p->at += length;
    return true;
}

static bool integer_take(struct parser *p, int64_t *out)
{
    space_skip(p);
    char *end;
    errno = 0;
    const long long number = strtoll(p->at, &end, 10);
    if (end == p->at)
        return parser_fail(p, "an integer is expected");
    if (errno || *end == '.')
        return parser_fail(p, *end == '.' ? "a size cannot be a fraction"
                                          : "an integer does not fit in 64 bits");
    p->at = end;
    *out = number;
    return true;
}

static bool close_take(struct parser *p)
{
    return sign_take(p, ')') || parser_fail(p, "')' is expected");
}

static bool symbol_of(struct parser *p, const char *name, struct quotient *out)
{
    bool found;
    dim size = size_find_symbol(p->sizes, name, &found);
    if (!found)
        size = size_symbol(p->sizes, name, INT64_MIN, INT64_MAX, p->hint);
    *out = whole(size);
    return true;
}

/* 's25', integer=True) */
static bool symbol_parse(struct parser *p, struct quotient *out)
{
    char name[NAME_SIZE] = "", word[NAME_SIZE] = "";
    space_skip(p);
    const char quote = *p->at;
    if (quote != '\'' && quote != '"')
        return parser_fail(p, "the name of a Symbol is expected");
    p->at++;
    if (!name_take(p, name))
        return false;
    if (*p->at != quote)
        return parser_fail(p, "the name of a Symbol does not end");
    p->at++;
    while (sign_take(p, ','))
        if (!name_take(p, word) || !sign_take(p, '=') || !name_take(p, word))
            return parser_fail(p, "an assumption of a Symbol is expected");
    return close_take(p) && symbol_of(p, name, out);
}

static bool number_parse(struct parser *p, bool rational, struct quotient *out)
{
    int64_t top = 0, bottom = 1;
    if (!integer_take(p, &top) || (rational && (!sign_take(p, ',') || !integer_take(p, &bottom))) ||
        !close_take(p))
        return parser_fail(p, "a number is damaged");
    if (bottom <= 0)
        return parser_fail(p, "a Rational has no positive denominator");
    *out = (struct quotient){size_literal(p->sizes, top), size_literal(p->sizes, bottom)};
    return true;
}

static bool arguments_parse(struct parser *p, struct quotient *arguments, int *count)
{
    *count = 0;
    if (sign_take(p, ')'))
        return true;
    do {
        if (*count == ARGUMENTS_MAX)
            return parser_fail(p, "a function has too many arguments");
        if (!expression_parse(p, &arguments[*count]))
            return false;
        ++*count;
    } while (sign_take(p, ','));
    return close_take(p);
}

static bool call_parse(struct parser *p, const char *name, struct quotient *out)
{
    if (strcmp(name, "Symbol") == 0)
        return symbol_parse(p, out);
    if (strcmp(name, "Integer") == 0 || strcmp(name, "Rational") == 0)
        return number_parse(p, name[0] == 'R', out);
    struct quotient arguments[ARGUMENTS_MAX] = {{0}};
    int count;
    if (!arguments_parse(p, arguments, &count))
        return false;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const struct function *f = &functions[i];
        if (strcmp(name, f->name) != 0)
            continue;
        if (count < f->least || count > f->most)
            return parser_fail(p, "a function has a wrong number of arguments");
        *out = f->call(p, arguments, count);
        return true;
    }
    return parser_fail(p, "a function is unknown");
}

static bool word_parse(struct parser *p, struct quotient *out)
{
    char name[NAME_SIZE] = "";
    if (!name_take(p, name))
        return false;
    if (sign_take(p, '('))
        return call_parse(p, name, out);
    if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0)
        return *out = whole(name[0] == 't'), true;
    if (strcmp(name, "oo") == 0 || strcmp(name, "int_oo") == 0 || strcmp(name, "nan") == 0)
        return parser_fail(p, "a size cannot be infinite");
    return symbol_of(p, name, out);
}

static bool expression_parse(struct parser *p, struct quotient *out)
{
    if (++p->depth > DEPTH_MAX)
        return parser_fail(p, "it is nested too deep");
    space_skip(p);
    bool done;
    if (isdigit((unsigned char)*p->at) || (*p->at == '-' && isdigit((unsigned char)p->at[1]))) {
        int64_t number = 0;
        done = integer_take(p, &number);
        if (done)
            *out = whole(size_literal(p->sizes, number));
    } else if (sign_take(p, '-')) {
        done = expression_parse(p, out);
        if (done)
            out->top = size_sub(p->sizes, 0, out->top);
    } else {
        done = word_parse(p, out);
    }
    p->depth--;
    return done;
}

phasor_status symbols_parse(struct sizes *sizes, const char *text, int64_t hint, dim *out)
{
    struct parser p = {.sizes = sizes, .at = text, .hint = hint};
    struct quotient result = {0};
    *out = 0;
    bool done = expression_parse(&p, &result);
    space_skip(&p);
    if (done && *p.at)
        done = parser_fail(&p, "there is text after its end");
    if (!done)
        return fail(PHASOR_ERROR_FILE, "size expression \"%.200s\": %s at character %zu", text,
                    p.error, (size_t)(p.at - text));
    *out = rounded_down(&p, result);
    return sizes_status(sizes);
}
