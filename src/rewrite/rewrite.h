/* rewrite.h - from the graph as it was loaded to the graph that is planned: complex numbers
 * become pairs of real ones.
 *
 *     loaded                                        real
 *     %1 = view_as_complex(%x) : c64[s25, 64]       %1 = select(%x, axis=2, 0), ...
 *     %2 = mul(%1, %c)         : c64[s25, 64]       %9 = pair(%7, %8) : f32[s25, 64, 2]
 *     %3 = view_as_real(%2)    : f32[s25, 64, 2]    (nothing)
 *
 * Every pass reads one graph and builds another in the same arena and pool of sizes: `to` is
 * initialised and empty. The graph that is read stays exactly as it was.
 */
#pragma once
#include "graph/graph.h"
#include "graph/refusal.h"

struct rewrite_options {
    phasor_rules rules;
    bool fma; /* products in the pattern of eager CUDA; otherwise eager CPU's */
};

/* All passes. *rewritten is false when the rules refuse something: then `to` stays empty and all
 * that they refuse is in refusals, in program order. Refusals that are there already (the
 * loader's) refuse the program, and none are added. */
phasor_status rewrite_program(const struct graph *from, struct graph *to,
                              const struct rewrite_options *options, struct refusal_list *refusals,
                              bool *rewritten);

/* -- the passes, in order ---------------------------------------------------------------------- */

/* Complex values become real ones with a last dim of 2: inputs, outputs, buffers and data too.
 * All or nothing. */
phasor_status rewrite_complex(const struct graph *from, struct graph *to,
                              const struct rewrite_options *options, struct refusal_list *refusals,
                              bool *rewritten);

/* What depends on constants alone becomes data. */
enum { FOLD_BYTES = 64 << 20 }; /* a larger result is computed at run time */
phasor_status rewrite_fold(const struct graph *from, struct graph *to);

/* Products of matrices become sums of products, for programs whose matrices are small. */
phasor_status rewrite_dot(const struct graph *from, struct graph *to);

/* Chains of views become one view, casts and selects that change nothing go, and what nobody
 * reads goes. */
phasor_status rewrite_simplify(const struct graph *from, struct graph *to);

/* -- shared by the passes ---------------------------------------------------------------------- */

/* Adds to refusals what the rules refuse of the graph. */
phasor_status refuse_graph(const struct graph *graph, phasor_rules rules,
                           struct refusal_list *refusals);
/* Puts the buffers of `from` into `to`, before any node: a state node finds its buffer there. */
phasor_status rewrite_begin(const struct graph *from, struct graph *to);
/* graph_copy_node, but a made-up name ("mul.12") is made up anew. */
value rewrite_copy(const struct graph *from, struct graph *to, value v, const value *map);
/* Marks the values whose memory the caller sees: what slots return or leave behind, and what
 * those are views of. A pass must leave them the operators that they are: whether a result is
 * new memory, a view, or its strides, is theirs. */
void rewrite_mark_pinned(const struct graph *graph, bool *pinned);
/* Slots of `from` with values translated, at the end of a pass. */
phasor_status rewrite_end(const struct graph *from, struct graph *to, const value *map);
/* The data that a view operator makes of data: the same storage. NULL: no strides express it, or
 * memory is out (the graph says so). */
const struct data *data_view(struct graph *graph, const struct node *view, const struct data *data,
                             const char *name);
/* True for names that graph_add made up. */
bool rewrite_name_is_made(const struct node *node);
