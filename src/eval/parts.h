/* parts.h - what the files of the evaluator share; for nobody else.
 *
 * Each row of ops.def has a function eval_<name> that fills a result of the right dtype and shape,
 * allocated and zeroed; all MAP rows share eval_map, all REDUCE rows eval_reduce. */
#pragma once
#include "eval/eval.h"
#include "eval/strided.h"

struct eval {
    const struct graph *graph;
    const struct eval_options *options;
    const struct eval_inputs *inputs; /* NULL when folding */
    struct eval_tensor *values;       /* by node */
    bool out_of_range;
};

typedef phasor_status eval_function(struct eval *eval, const struct node *node,
                                    struct eval_tensor *out);

eval_function eval_map, eval_reduce;
#define VIEW(name, ...) eval_function eval_##name;
#define LEAF(name, ...) eval_function eval_##name;
#define CORE(name, ...) eval_function eval_##name;
#include "graph/ops.def"

/* The function of a MAP row on operands of a compute type: count results from arrays of operands
 * (those beyond the row's arity are not read). NULL where the row is not defined. */
typedef void map_function(size_t count, void *result, const void *x, const void *y, const void *z,
                          bool fused);
map_function *map_find(enum op op, enum dtype compute);

static inline const struct node *eval_argument_node(const struct eval *eval,
                                                    const struct node *node, int index)
{
    return graph_node(eval->graph, node->arguments[index]);
}
static inline const struct eval_tensor *eval_argument(const struct eval *eval,
                                                      const struct node *node, int index)
{
    return &eval->values[node->arguments[index]];
}
static inline int64_t eval_dim(const struct eval *eval, dim d)
{
    return size_value(eval->graph->sizes, d);
}
static inline struct strided eval_strided(const struct eval_tensor *tensor)
{
    return strided_new(tensor->dtype, tensor->rank, tensor->sizes, tensor->bytes);
}
/* The product of sizes[from..to). */
static inline int64_t eval_product(const struct eval_tensor *tensor, int from, int to)
{
    int64_t count = 1;
    for (int d = from; d < to; d++)
        count *= tensor->sizes[d];
    return count;
}

/* Elements that are loaded, computed and stored at a time. */
enum { EVAL_CHUNK = 1024, EVAL_ELEMENT_MAX = 16 };
