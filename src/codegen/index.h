/* index.h - index arithmetic: where a thread's elements are, simplified while it is made.
 *
 * A form is a sum  constant + coefficient * atom + ...  over non-negative integers; a pool keeps
 * each once, so that equal forms are equal numbers. Coefficients are sizes (size.h): literals, or
 * expressions of sizes that come as arguments. Atoms are
 *     a variable         the thread's own index, 0 <= i < extent
 *     a digit            base / low % (high / low) of another form: what division and remainder
 *                        leave
 *     a run-time value   an index read from memory
 *
 *     (8*i + 3) % 2                             1
 *     (8*i + 3) / 128                           i/16
 *     (i/16)*16 + i%16                          i            digits that fit together become one
 *                                                            again
 *     ((i/16)*128 + (i%16)*8 + 3) % 128 / 2     (i%16)*4 + 1
 */
#pragma once
#include "graph/size.h"

typedef uint32_t form; /* index in a pool; 0 is the constant 0 */
typedef uint32_t atom;

enum atom_kind { ATOM_VARIABLE, ATOM_DIGIT, ATOM_VALUE };

struct index_atom {
    enum atom_kind kind;
    dim extent;      /* 0 <= atom < extent */
    form base;       /* DIGIT */
    dim low, high;   /* DIGIT: base / low, then % (high / low) unless high is 0 */
    uint32_t source; /* VARIABLE: a number of the caller; VALUE: an expression of the caller */
};

struct index_term {
    dim coefficient;
    atom atom;
};

struct index_form {
    dim constant;
    int count;
    const struct index_term *terms; /* sorted by atom */
    dim lowest, highest;            /* bounds, inclusive */
};

struct index_pool {
    struct arena *arena;
    struct sizes *sizes;
    ARRAY(struct index_atom) atoms;
    ARRAY(struct index_form) forms;
    struct intern table;
    bool failed; /* memory */
};

phasor_status index_init(struct index_pool *pool, struct sizes *sizes, struct arena *arena);
void index_free(struct index_pool *pool);
phasor_status index_status(const struct index_pool *pool);

form index_constant(struct index_pool *pool, dim value);
form index_literal(struct index_pool *pool, int64_t value);
form index_variable(struct index_pool *pool, uint32_t source, dim extent);
form index_value(struct index_pool *pool, uint32_t source, dim extent);

form index_add(struct index_pool *pool, form a, form b);
form index_scale(struct index_pool *pool, form a, dim factor);
form index_offset(struct index_pool *pool, form a, dim offset);
form index_divide(struct index_pool *pool, form a, dim divisor);
form index_remainder(struct index_pool *pool, form a, dim divisor);

/* Whether a < bound: known always, known never, or asked at run time as *a < *bound, in a form that
 * lanes share. */
enum index_answer { INDEX_NEVER, INDEX_ALWAYS, INDEX_ASK };
enum index_answer index_below(struct index_pool *pool, form *a, dim *bound);

/* a without its constant, and the constant when it is a literal; false otherwise. */
bool index_split(struct index_pool *pool, form a, form *rest, int64_t *constant);
/* Whether every coefficient of a (not its constant) is a multiple of the literal n. */
bool index_is_multiple(struct index_pool *pool, form a, int64_t n);
/* Whether a takes the same values over and over while the variables run: i % 64, not i / 64. */
bool index_repeats(const struct index_pool *pool, form a);
