/* layout.h - strides and shared memory of every value, as eager PyTorch has them.
 *
 *     graph + strides of its inputs -> layout.c -> a struct layout for each node
 *
 * The plan asks it for the call's sizes. The loader asks it for the example's, while the graph
 * grows: whether `contiguous` and `reshape` copy decides what a write in place changes. */
#pragma once
#include "graph/graph.h"

/* What a plan depends on of one tensor of the call. Dims and strides are those of the real graph: a
 * complex tensor has its pair dim. Strides in elements. */
struct call_tensor {
    int rank;
    int64_t sizes[RANK_MAX], strides[RANK_MAX];
    int alignment; /* of the first element's address, in bytes: 1, 2, 4, 8 or 16 */
};

struct call_shape {
    struct call_tensor *inputs; /* one a slot; rank -1 for what is no tensor */
    int64_t *integers;          /* one a slot: value of an INT slot */
    int input_count;
    struct call_tensor *outputs; /* one a slot for the caller's buffers; NULL: Phasor allocates */
    int output_count;
};

/* Strides, offset and memory of a value as eager PyTorch has them. */
struct layout {
    int64_t strides[RANK_MAX], offset;
    value root; /* the node whose memory it is: itself when it is fresh */
    bool half;  /* a part of complex numbers, which have half of its strides */
};

/* One for each node, in the arena. Dead nodes are left zero. */
phasor_status layout_infer(const struct graph *graph, const struct call_shape *call,
                           struct arena *arena, struct layout **out);

/* Of v alone, which is made by views of root, when root has these strides; false where it would be
 * a copy. space: one for each node, whose values are lost. */
bool layout_along(const struct graph *graph, value root, const int64_t *strides, value v,
                  struct layout *space, struct layout *out);

/* Those of a graph that grows, dead nodes too; what is asked for is inferred then. */
struct layouts {
    const struct graph *graph;
    const struct call_shape *call;
    ARRAY(struct layout) of; /* [0] is no value */
    value self;              /* the node in work */
};
/* NULL: memory is out. It may be written to, before a later node is asked for. */
struct layout *layout_of(struct layouts *layouts, value v);
void layouts_free(struct layouts *layouts);

/* Whether the value lies in its memory without gaps and no element twice; then its dims from the
 * outermost in, those of size 1 where they stand. */
bool layout_is_dense(struct layouts *layouts, value v, int order[RANK_MAX]);
/* What a claim says of a value (graph.h), as its layout is. */
bool layout_has(struct layouts *layouts, const struct graph_claim *claim);
