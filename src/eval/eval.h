/* eval.h - the CPU device: a plain evaluator of any graph, complex numbers included.
 *
 *     %2 = mul(%0, %1) : c64[4, 8]      and strided host views of %0 and %1
 *     ->  a row-major tensor of 32 complex numbers
 *
 * It is what every other way of running a graph is compared with, and it folds constants. One node
 * after the other, each result rounded to its dtype:
 *   - f16 and bf16 are computed in float and rounded to nearest even; integers in int64_t, and
 *     wrap;
 *   - a `scalar` operand of a MAP row keeps the precision of the compute type; anywhere else it is
 *     rounded;
 *   - float to integer truncates; beyond int64 (i64) or int32 (the others, before they wrap) it
 *     saturates, NaN gives 0;
 *   - integer division and remainder by zero give 0, the most negative integer divided by -1 wraps;
 *   - reductions are pairwise over lines in row-major order, in the compute type, 32 elements in
 *     sequence at the bottom;
 *   - dot, cumsum and cumprod accumulate floats in double;
 *   - an index out of range is clamped (after the negative wrap) and reported through a flag;
 *     indexing an axis of size 0
 *     gives zeros, writing there changes nothing, and both are reported.
 */
#pragma once
#include "graph/graph.h"

/* Row-major. Not owned: the bytes are those of a weight, live as long as the graph and must not be
 * written. */
struct eval_tensor {
    enum dtype dtype;
    int rank;
    int64_t sizes[RANK_MAX];
    void *bytes; /* NULL: no value here */
    bool owned;
};

/* fma: complex products as fma(a, c, -(b * d)), fma(a, d, b * c), which are eager CUDA's bits;
 * otherwise every product and sum is rounded, which are eager CPU's. */
struct eval_options {
    bool fma;
};

/* Host memory of an operand; its sizes are those that the graph says. No alignment is asked for. */
struct eval_view {
    enum dtype dtype; /* as in the graph; u8 also serves for bool */
    const void *bytes;
    const int64_t *strides; /* in elements; NULL: row-major */
};

struct eval_inputs {
    const struct eval_view *inputs; /* by input slot; only those with an OP_input are read */
    int input_count;
    const struct eval_view *states; /* by buffer slot */
    int state_count;
};

struct eval_results {
    struct eval_tensor *values; /* by node; bytes NULL where it was not asked for */
    size_t count;
};

/* Evaluates what outputs, written inputs and written buffers need; these are the results. Every
 * size must be a literal or have its value bound. index_out_of_range is set to whether one was. On
 * failure there is nothing to free. */
phasor_status eval_graph(const struct graph *graph, const struct eval_options *options,
                         const struct eval_inputs *inputs, struct eval_results *out,
                         bool *index_out_of_range);

/* Evaluates the wanted nodes and what they need, which must be neither an input nor a state: for
 * folding. */
phasor_status eval_values(const struct graph *graph, const struct eval_options *options,
                          const value *wanted, int count, struct eval_results *out,
                          bool *index_out_of_range);
/* The same for one node; free with eval_tensor_free. */
phasor_status eval_value(const struct graph *graph, const struct eval_options *options,
                         value wanted, struct eval_tensor *out, bool *index_out_of_range);

/* The result of a node; NULL when it was not asked for. */
static inline const struct eval_tensor *eval_result(const struct eval_results *results, value v)
{
    return v < results->count && results->values[v].bytes ? &results->values[v] : NULL;
}
int64_t eval_tensor_count(const struct eval_tensor *tensor); /* elements */
void eval_tensor_free(struct eval_tensor *tensor);
void eval_free(struct eval_results *results);
