/* trace.h - what one element of a result is, as an expression over loads.
 *
 * A kernel asks for elements of its stored values at the coordinates of its threads.
 * trace_element() walks the graph from there to the buffers: views become index arithmetic
 * (index.h), elementwise operators become expressions, a value that is kept in memory becomes a
 * load. Equal expressions are one.
 *
 *     out[b, s, h, 2j+0]  of  flatten(pair(fma(a, c, neg(mul(b, d))), ...))
 *       ->  fma(load q[8*i], load f[16*s + ...], neg(mul(load q[8*i + 1], load f[... + 1])))
 *
 * An element that exists on one side of a boundary only (concat, pad, insert) becomes a choice;
 * loads of each side carry the guard under which they may be done.
 */
#pragma once
#include "codegen/index.h"
#include "plan/plan.h"

typedef uint32_t expr;  /* index of an expression; 0: none */
typedef uint32_t guard; /* index of a guard; 0: always */

enum expr_kind {
    EXPR_LITERAL, /* number */
    EXPR_INDEX,   /* the value of a form, i64 */
    EXPR_LOAD,    /* buffer at index, under guard; 0 where the guard does not hold */
    EXPR_MAP,     /* op over arguments */
    EXPR_CHOOSE,  /* arguments[0] where guard's last question is answered yes, else arguments[1] */
    EXPR_CHECKED, /* arguments[0], an index: wrapped when negative, clamped to size, flag set when
                     out of range; 0 where the guard does not hold */
    EXPR_SPECIAL /* what reduction `buffer` of the kernel gives; of a scan, that element of a run */
};

struct expression {
    enum expr_kind kind;
    enum op op;
    enum dtype dtype;
    int argument_count, buffer;
    expr arguments[3];
    form index;
    guard guard;
    dim size;
    struct number number;
};

/* `a < bound`, or its opposite, besides what the parent says. */
struct guard_question {
    guard parent;
    form a;
    dim bound;
    bool inverted;
};

struct trace {
    const struct plan *plan;
    const struct kernel *kernel;
    struct arena *arena;
    struct index_pool index;
    ARRAY(struct expression) expressions;
    ARRAY(struct guard_question) guards;
    struct intern table; /* of expressions */
    struct memo **memo;
    size_t memo_size;
    bool *visited; /* nodes that were traced, for the kernel's name */
    phasor_status status;
};

phasor_status trace_init(struct trace *trace, const struct plan *plan, const struct kernel *kernel,
                         struct sizes *sizes, struct arena *arena);
void trace_free(struct trace *trace);
phasor_status trace_status(const struct trace *trace);

/* The element of v at these coordinates (rank forms), computed even where v is in memory when it is
 * one of the kernel's own stores. */
expr trace_element(struct trace *trace, value v, const form *coordinates, guard guard);
/* The same, but v itself is always computed. */
expr trace_compute(struct trace *trace, value v, const form *coordinates, guard guard);
/* Where that element is in a buffer. */
form trace_address(struct trace *trace, const struct buffer *buffer, const form *coordinates);
/* An index read from memory: checked against the size. The atom that stands for it. */
form trace_index_value(struct trace *trace, value index, const form *coordinates, dim size,
                       guard guard);
/* Coordinates of a row-major linear index. */
void trace_unravel(struct trace *trace, form linear, const dim *sizes, int rank, form *coordinates);

expr trace_special(struct trace *trace, enum dtype dtype, int number);
expr trace_number(struct trace *trace, form index); /* the value of a form, i64 */
expr trace_literal(struct trace *trace, enum dtype dtype, struct number number);
expr trace_map(struct trace *trace, enum op op, enum dtype dtype, const expr *arguments, int count);
