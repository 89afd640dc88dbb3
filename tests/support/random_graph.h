/* random_graph.h - graphs drawn from the operator table: the same seed gives the same graph on
 * every machine.
 *
 *     struct random_graph random = {.seed = 7};
 *     random_graph_grow(&random, &world.graph);
 *
 * Half of the rows are drawn, the others take their turn from seed to seed, so that each occurs.
 * Operands are brought into the domain of their row by operators that are exact (a clamp, a
 * choice), and sums of floats are mostly sums of small integers, which are exact in any order: so
 * nearly every value is the same bit for bit wherever it is computed. What is not - a sum of any
 * floats, a complex function - is read by nobody and has a tolerance.
 */
#pragma once
#include "graph_run.h"

enum { RANDOM_VALUES = 160 };

struct random_graph {
    uint64_t seed;
    bool complex; /* complex tensors and the rows that are defined on them */
    struct run_tolerance tolerances[RUN_SLOTS]; /* by output */
    /* while it grows */
    struct graph *graph;
    uint64_t random;
    value values[RANDOM_VALUES]; /* what may be an operand */
    int count;
    struct run_tolerance loose[1024]; /* by value; not 0: nobody may read it */
    int64_t dims[3];
    dim symbols[3];
};

/* Whether graphs are drawn with the row: it has a kernel; or, complex, any row. */
bool random_graph_has(enum op op, bool complex);
/* Fills an initialised, empty graph. A failure fails the test. */
void random_graph_grow(struct random_graph *random, struct graph *graph);
/* Random numbers of a dtype in row-major order, as a weight or buffer of the graph. */
const struct data *random_data(struct random_graph *random, enum dtype dtype, const int64_t *sizes,
                               int rank);

/* -- for the rows ------------------------------------------------------------------------------ */

/* A row is applied to x; 0 where it does not fit. */
typedef value grow_function(struct random_graph *random, enum op op, value x);
extern grow_function *const random_rows[];

enum { RANDOM_ELEMENTS = 1500 };

int random_pick(struct random_graph *random, int bound);
int64_t random_size_of(const struct random_graph *random, value v, int axis);
int64_t random_count_of(const struct random_graph *random, value v);
dim random_literal(struct random_graph *random, int64_t size);
value random_number(struct random_graph *random, enum dtype dtype, double number); /* a scalar */
value random_add(struct random_graph *random, enum op op, const value *operands, int count,
                 struct attributes at);
/* x as another dtype; floats become integers only where that is defined. */
value random_cast(struct random_graph *random, value x, enum dtype dtype);
/* A value of the dtype that broadcasts to x, and one of just these sizes. */
value random_like(struct random_graph *random, value x, enum dtype dtype);
value random_shaped(struct random_graph *random, enum dtype dtype, const dim *sizes, int rank);
/* low <= x <= high, NaN is 0; and a float of no infinities. */
value random_clamp(struct random_graph *random, value x, double low, double high);
/* Complex numbers near 1: 0.25..2 + 0.125..1.5 i. */
value random_tame(struct random_graph *random, value x);
/* Marks v as read by nobody. */
value random_loosen(struct random_graph *random, value v, double of_f32);
