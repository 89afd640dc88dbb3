/* infer.h - dtype and shape of a node from its operands and attributes. */
#pragma once
#include "graph/graph.h"

/* Fills node->dtype (except where the caller gives it), node->rank and shape[]. Operands are in the
 * graph; the node is not yet. Fails with a message that names the operator and the shapes. */
phasor_status infer_node(struct graph *graph, struct node *node, dim shape[RANK_MAX]);

/* "c64[1, s25, 64]" */
void infer_print_type(const struct graph *graph, enum dtype dtype, const dim *shape, int rank,
                      struct text *out);
