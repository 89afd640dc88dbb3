/* trace_private.h - what trace.c and trace_rows.c share. */
#pragma once
#include "codegen/trace.h"

/* Two continuations of an element: `yes` where a < bound, `no` elsewhere. */
struct choice {
    enum index_answer answer;
    guard yes, no;
};

static inline const struct node *node_at(const struct trace *trace, value v)
{
    return graph_node(&trace->plan->graph, v);
}

expr trace_fail(struct trace *trace, phasor_status status); /* 0 */
expr expression_intern(struct trace *trace, struct expression e);

/* Asks whether a < bound, unless bounds or the guard say. */
struct choice choice_make(struct trace *trace, form a, dim bound, guard g);
/* The element: of both continuations the one that holds. A side that never holds may be 0. */
expr choice_join(struct trace *trace, const struct choice *choice, expr yes, expr no);

/* The coordinates of an operand that is broadcast to `rank` dims, and its element there. */
void trace_broadcast_coordinates(const struct trace *trace, value operand, const form *coordinates,
                                 int rank, form *out);
expr trace_broadcast(struct trace *trace, value operand, const form *coordinates, int rank,
                     guard g);
/* The row-major linear index of coordinates. */
form trace_ravel(struct trace *trace, const form *coordinates, const dim *sizes, int rank);

typedef expr trace_function(struct trace *, const struct node *, const form *, guard);
extern trace_function *const trace_rows[OP_COUNT];
