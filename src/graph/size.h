/* size.h - sizes as small symbolic expressions over the dims of the inputs.
 *
 * A pool keeps every expression once, in a normal form (a sum of products), so that equal sizes are
 * equal numbers:
 *
 *     size_mul(p, size_add(p, s25, one), two)   and   size_add(p, size_mul(p, two, s25), two)   are
 *                                                     both "2*s25 + 2"
 *
 * Each expression has a value: what it is for the values that the symbols have now (an example at
 * load, the call's sizes in a specialisation). Decisions are made on values; where a symbol is
 * bound to a literal it is gone from the pool. What must hold for other values of the symbols too
 * is asked for: size_is_equal, size_is_less and size_pin prove it or note the answer as a guard.
 * Failure (memory, overflow of 64 bits, division by zero) sticks in the pool; the result is then
 * the size 0.
 */
#pragma once
#include "base/intern.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

typedef uint32_t dim; /* index in a pool; 0 is the literal 0, 1 the literal 1 */

enum size_kind {
    SIZE_LITERAL,
    SIZE_SYMBOL,
    SIZE_SUM,     /* literal + sum of literal * term */
    SIZE_PRODUCT, /* of two or more atoms */
    /* the rest has two operands and is an atom */
    SIZE_FLOORDIV, /* rounds down, as Python's // */
    SIZE_MOD,      /* sign of the divisor, as Python's % */
    SIZE_MINIMUM,
    SIZE_MAXIMUM,
    SIZE_EQ,
    SIZE_NE,
    SIZE_LT,
    SIZE_LE,
    SIZE_AND,
    SIZE_OR,
    SIZE_POW
};

struct size_term {
    int64_t factor;
    dim term; /* a symbol, product or atom */
};

struct size_node {
    enum size_kind kind;
    int64_t value;     /* for the symbols' present values */
    int64_t low, high; /* what it can be, inclusive; INT64_MIN / INT64_MAX: no bound */
    int64_t literal;   /* LITERAL, SUM */
    int count;         /* operands: of a SUM terms[], otherwise operands[] */
    struct size_term *terms;
    dim *operands;
    int symbol; /* SYMBOL: index in symbols */
    int weight; /* number of nodes when it is written out */
};

struct size_symbol {
    const char *name;
    int64_t low, high; /* inclusive range */
    int64_t value;
    dim size;
    bool pinned; /* its present value decided something that no guard says */
};

/* What was answered by looking at values: a == b, or a < b. */
struct size_guard {
    enum { GUARD_EQUAL, GUARD_LESS } kind;
    dim a, b;
    bool answer;
};

struct sizes {
    struct arena *arena;
    ARRAY(struct size_node) nodes;
    ARRAY(struct size_symbol) symbols;
    ARRAY(struct size_guard) guards;
    struct intern table;
    phasor_status status; /* the first failure */
};

phasor_status sizes_init(struct sizes *sizes, struct arena *arena);
void sizes_free(struct sizes *sizes); /* not the arena */

dim size_literal(struct sizes *sizes, int64_t value);
/* The symbol of that name; made on first sight. A later call narrows the range and sets the value.
 */
dim size_symbol(struct sizes *sizes, const char *name, int64_t low, int64_t high, int64_t value);
dim size_find_symbol(const struct sizes *sizes, const char *name, bool *found);

dim size_add(struct sizes *sizes, dim a, dim b);
dim size_sub(struct sizes *sizes, dim a, dim b);
dim size_mul(struct sizes *sizes, dim a, dim b);
dim size_binary(struct sizes *sizes, enum size_kind kind, dim a, dim b); /* FLOORDIV ... POW */
static inline dim size_floordiv(struct sizes *s, dim a, dim b)
{
    return size_binary(s, SIZE_FLOORDIV, a, b);
}
static inline dim size_min(struct sizes *s, dim a, dim b)
{
    return size_binary(s, SIZE_MINIMUM, a, b);
}
static inline dim size_max(struct sizes *s, dim a, dim b)
{
    return size_binary(s, SIZE_MAXIMUM, a, b);
}
/* Whether a == b, a < b: proved, or the answer for the present values, which becomes a guard. */
bool size_is_equal(struct sizes *sizes, dim a, dim b);
bool size_is_less(struct sizes *sizes, dim a, dim b);
/* The present value, which becomes a guard unless it is a literal. */
int64_t size_pin(struct sizes *sizes, dim d);
/* Whether n divides it whatever the symbols are. */
bool size_is_multiple(struct sizes *sizes, dim d, int64_t n);
/* Marks the symbols of an expression as pinned: what was built rests on their present values. */
void size_pin_symbols(struct sizes *sizes, dim d);
/* Whether one of the marked symbols is in the expression. */
bool size_mentions(const struct sizes *sizes, dim d, const bool *symbols);
bool size_has_symbol(const struct sizes *sizes, dim d, int symbol);
/* The values of all expressions for these values of the symbols, in out[nodes.count]. false: one
 * does not fit in 64 bits, or is divided by zero. */
bool sizes_evaluate(const struct sizes *sizes, const int64_t *symbols, int64_t *out);
/* Whether every guard is answered for these values of the expressions as it was. */
bool sizes_guards_hold(const struct sizes *sizes, const int64_t *values);

/* An expression in the one symbol of it that is not known: factor * symbol + rest. factor 0: all are
 * known, or do not matter. */
struct size_affine {
    int symbol;
    int64_t factor, rest;
};

/* known[], values[]: by symbol; known NULL: all are. false: several symbols are not known, the
 * expression is not linear in the one, or it does not fit in 64 bits. */
bool size_affine(const struct sizes *sizes, dim d, const bool *known, const int64_t *values,
                 struct size_affine *out);
/* What its symbol is when it has that size; factor is not 0. false: no whole number in the symbol's
 * range makes it so. */
bool size_affine_solve(const struct sizes *sizes, const struct size_affine *affine, int64_t size,
                       int64_t *value);
/* The range of its symbol when it lies in low..high itself. */
void size_affine_range(const struct size_affine *affine, int64_t low, int64_t high, int64_t *from,
                       int64_t *to);
/* "in 2..16", "at least 2" */
void size_print_range(int64_t low, int64_t high, struct text *out);
/* What the expression could be where `size` does not solve it: "2*s6 with s6 in 1..16, such as 6 or
 * 8". */
void size_print_right(const struct sizes *sizes, dim d, const struct size_affine *affine,
                      int64_t size, struct text *out);

/* a / b when that leaves no rest whatever the symbols are; false otherwise. */
bool size_divide_exactly(struct sizes *sizes, dim a, dim b, dim *quotient);

/* For size_ask.c: what an operator gives; false where it gives nothing. */
bool size_binary_value(enum size_kind kind, int64_t a, int64_t b, int64_t *out);

static inline int64_t size_value(const struct sizes *s, dim d)
{
    return s->nodes.at[d].value;
}
static inline bool size_is_literal(const struct sizes *s, dim d)
{
    return s->nodes.at[d].kind == SIZE_LITERAL;
}

/* Rebuilds an expression of one pool in another, with each symbol replaced by replacement[symbol].
 * memo: one dim for each node of `from`, zeroed before the first call. */
dim size_translate(struct sizes *to, const struct sizes *from, dim d, const dim *replacement,
                   dim *memo);

/* Appends the expressions from number `first` on, as numbers: how many; of each kind, literal,
 * symbol, how many operands, and of each operand number and factor. */
void sizes_write(const struct sizes *sizes, size_t first, struct text *out);
void size_print(const struct sizes *sizes, dim d, struct text *out); /* "2*s25 + 1" */
phasor_status sizes_status(const struct sizes *sizes);
