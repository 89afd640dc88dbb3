/* pair.h - what the pair_*.c files share: the rewriting of one program, and short words for real
 * arithmetic.
 *
 * A row of ops.def whose complex column is FUNCTION has a function pair_<name>() here. It gets
 * the node of the complex graph and adds to the real graph what gives the same, with these
 * words:
 *
 *     value pair_conj(struct pairs *p, const struct node *node)
 *     {                                                           conj(c64[n]) -> pair(re, neg(im))
 *         const struct parts z = pair_operand_parts(p, node, 0);
 *         return pair_make(p, (struct parts){z.re, negated(p, z.im)});
 *     }
 */
#pragma once
#include "rewrite/rewrite.h"

#include <math.h>

/* The real and the imaginary part of a complex value: two real values. */
struct parts {
    value re, im;
};

struct pairs {
    const struct graph *from; /* complex */
    struct graph *to;         /* real */
    bool fma;
    value *map; /* old value -> new value; of a complex one, its pair */
    /* By old complex value, 0: nobody asked. The real part of what has no imaginary one; both. */
    value *real;
    struct parts *parts;
    int operators; /* met so far */
};

typedef value pair_function(struct pairs *p, const struct node *node);

/* Declares pair_<name> for each FUNCTION row: one that has no definition does not link. */
#define PAIR_NEVER(name)
#define PAIR_PARTS(name)
#define PAIR_PAIR(name)
#define PAIR_VANISH(name)
#define PAIR_FUNCTION(name) pair_function pair_##name;
#define MAP(name, n, type, on, complex, ...) PAIR_##complex(name)
#define VIEW(name, n, memory, complex, ...) PAIR_##complex(name)
#define REDUCE(name, type, on, complex, ...) PAIR_##complex(name)
#define CORE(name, n, complex, ...) PAIR_##complex(name)
#include "graph/ops.def"
#undef PAIR_FUNCTION

/* PARTS and PAIR rows: the same operator with the dims of the pair; VANISH rows: their operand. */
pair_function pair_same_operator, pair_vanished;

/* -- operands and results ---------------------------------------------------------------------- */

bool pair_operand_is_complex(const struct pairs *p, const struct node *node, int index);
/* A real operand, or the pair of a complex one. */
value pair_operand(const struct pairs *p, const struct node *node, int index);
/* Of a complex operand. */
struct parts pair_operand_parts(struct pairs *p, const struct node *node, int index);
/* The real part of a complex operand that was made from a real tensor or number; 0: it was not. */
value pair_operand_real(struct pairs *p, const struct node *node, int index);
/* The pair of two parts, which are broadcast to one shape. */
value pair_make(struct pairs *p, struct parts parts);
/* A real operand of a pair: one more dim of 1. A 0-dim one stays. */
value pair_widened(struct pairs *p, value real);

/* -- words for real arithmetic ----------------------------------------------------------------- */

static inline value unary(struct pairs *p, enum op op, value a)
{
    return graph_map1(p->to, op, a);
}
static inline value binary(struct pairs *p, enum op op, value a, value b)
{
    return graph_map2(p->to, op, a, b);
}
static inline value negated(struct pairs *p, value a)
{
    return unary(p, OP_neg, a);
}
static inline value magnitude(struct pairs *p, value a)
{
    return unary(p, OP_abs, a);
}
static inline value plus(struct pairs *p, value a, value b)
{
    return binary(p, OP_add, a, b);
}
static inline value minus(struct pairs *p, value a, value b)
{
    return binary(p, OP_sub, a, b);
}
static inline value times(struct pairs *p, value a, value b)
{
    return binary(p, OP_mul, a, b);
}
static inline value over(struct pairs *p, value a, value b)
{
    return binary(p, OP_div, a, b);
}
static inline value both(struct pairs *p, value a, value b)
{
    return binary(p, OP_bit_and, a, b);
} /* bools */
static inline value either(struct pairs *p, value a, value b)
{
    return binary(p, OP_bit_or, a, b);
}
static inline value choose(struct pairs *p, value condition, value yes, value no)
{
    return graph_map3(p->to, OP_where, condition, yes, no);
}
/* A number with the dtype of a value. */
static inline value constant(struct pairs *p, value like, double number)
{
    return graph_float(p->to, graph_node(p->to, like)->dtype, number);
}
static inline value compared(struct pairs *p, enum op op, value a, double number)
{
    return binary(p, op, a, constant(p, a, number));
}
static inline value is_zero(struct pairs *p, value a)
{
    return compared(p, OP_eq, a, 0);
}
/* The condition, with `like` as its first operand: whose strides a result gets is decided by the
 * first. */
static inline value laid_out(struct pairs *p, value like, value condition)
{
    return either(p, binary(p, OP_lt, like, like), condition);
}
static inline value is_infinite(struct pairs *p, value a)
{
    return unary(p, OP_is_inf, a);
}
static inline value scaled(struct pairs *p, value a, double factor)
{
    return times(p, a, constant(p, a, factor));
}
/* The number that fits the width of a value's dtype. */
static inline double by_width(const struct pairs *p, value like, double single, double wide)
{
    return graph_node(p->to, like)->dtype == DT_f64 ? wide : single;
}

/* -- complex arithmetic on parts, shared by rows ----------------------------------------------- */

struct parts parts_product(struct pairs *p, struct parts x, struct parts y);  /* pair_product.c */
struct parts parts_quotient(struct pairs *p, struct parts x, struct parts y); /* pair_quotient.c */
struct parts parts_reciprocal(struct pairs *p, struct parts z);
struct parts parts_sqrt(struct pairs *p, struct parts z); /* pair_exponential.c */
struct parts parts_exp(struct pairs *p, struct parts z);
struct parts parts_log(struct pairs *p, struct parts z);
/* The sign of a number as 1 or -1; that of NaN, which differs between processors, as 1. */
value parts_sign(struct pairs *p, value x);
/* e^a = power * factor; where it is large both are its square root, elsewhere the factor is 1. */
struct power {
    value power, factor, large;
};
struct power power_of_e(struct pairs *p, value a);
/* x * y for a cosine or sine y. Of an infinite angle it is no number: where `kept`, x stays what
 * it is. A sine of 0 gives 0 even of an infinite x. */
value parts_product_real(struct pairs *p, value x, value y, value kept);
value parts_product_imaginary(struct pairs *p, value x, value y, value kept);
