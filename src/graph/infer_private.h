/* infer_private.h - what infer.c and infer_view.c share. */
#pragma once
#include "graph/infer.h"

#include <string.h>

struct inference {
    struct graph *graph;
    struct node *node;
    dim *shape;
};

static inline const struct node *argument(const struct inference *in, int index)
{
    return graph_node(in->graph, in->node->arguments[index]);
}

static inline int64_t size_at(const struct inference *in, dim d)
{
    return size_value(in->graph->sizes, d);
}

static inline void shape_of_argument(struct inference *in, int index)
{
    const struct node *a = argument(in, index);
    in->node->rank = a->rank;
    memcpy(in->shape, a->shape, (size_t)a->rank * sizeof *in->shape);
}

/* Fails with "operator(types): what". */
phasor_status infer_fail(const struct inference *in, const char *what);

/* The attribute `sizes` as the shape. */
phasor_status infer_take_sizes(struct inference *in);
phasor_status infer_check_axis(struct inference *in, int axis, int rank);
phasor_status infer_check_axes(struct inference *in,
                               int rank); /* the attribute `axes`: inside, each once */
void infer_shape_remove(struct inference *in, int axis);

/* -- rules of the views ------------------------------------------------------------------------ */

phasor_status infer_reshape(struct inference *in);
phasor_status infer_permute(struct inference *in);
phasor_status infer_expand(struct inference *in);
phasor_status infer_slice(struct inference *in);
phasor_status infer_select(struct inference *in);
phasor_status infer_diagonal(struct inference *in);
phasor_status infer_unfold(struct inference *in);
phasor_status infer_flip(struct inference *in);
phasor_status infer_roll(struct inference *in);
phasor_status infer_pad(struct inference *in);
phasor_status infer_same(struct inference *in);
phasor_status infer_part(struct inference *in);
phasor_status infer_view_as_real(struct inference *in);
phasor_status infer_view_as_complex(struct inference *in);
phasor_status infer_concat(struct inference *in);
phasor_status infer_pair(struct inference *in);
phasor_status infer_insert(struct inference *in);
phasor_status infer_insert_diagonal(struct inference *in);
