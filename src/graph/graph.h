/* graph.h - a program as an SSA graph: one array of nodes in topological order; a value is the
 * index of its node.
 *
 *     %3 = mul(%1, %2) : c64[1, s25, 1, 64]       aten.mul.Tensor, "rope.py:29, code: c * f"
 *
 * Every node has one result: a tensor with a dtype and dims, which are size expressions (size.h).
 * Shapes are inferred when a node is added. Operands of one elementwise operator have one dtype
 * (the loader writes casts); they broadcast.
 *
 * Builder functions never need a check: the first failure sticks in graph->status, later ones
 * return the value 0, which is a harmless operand. Whoever builds asks graph_status() at the end.
 *
 * The graph is functional. What a program changes stands beside the nodes:
 * graph->buffers[k].written is the value that buffer k has after the call, graph->inputs[k].written
 * the same for an input (0: unchanged).
 */
#pragma once
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "graph/dtype.h"
#include "graph/ops.h"
#include "graph/size.h"

enum { RANK_MAX = 16 };

typedef uint32_t value; /* index of a node; 0: none */

enum memory_format {
    FORMAT_PRESERVE,
    FORMAT_CONTIGUOUS,
    FORMAT_CHANNELS_LAST,
    FORMAT_CHANNELS_LAST_3D
};
enum scatter_mode { SCATTER_SET, SCATTER_ADD, SCATTER_MULTIPLY };
enum { SELECT_HALF = 1 }; /* flag of a select: a part of complex numbers; not printed */

/* Where a node comes from; for messages. */
struct origin {
    const char *target; /* "aten.mul_.Tensor" */
    const char *node;   /* the file's name for it: "mul_" */
    const char *line;   /* "rope.py:29 in forward, code: c * f"; NULL when the file has none */
    const char *branch; /* name of the cond in whose branch it stood; NULL otherwise */
    bool implied;       /* added by the loader (promotion, broadcast): not what the user wrote */
};

/* The memory of a weight, shared by all tensors that view it. */
struct storage {
    const void *bytes;
    size_t nbytes;
    uint64_t id; /* equal: the same memory. Unique in the process */
};

/* A weight, constant or initial buffer: a strided view of a storage; strides and offset in
 * elements. */
struct data {
    const char *name;
    enum dtype dtype;
    int rank;
    const int64_t *sizes, *strides;
    int64_t offset;
    const struct storage *storage;
};

/* What a node says beside its operands. The letters of ops.def name what a row uses:
 * S sizes, A axes, a axis, s start, l length, p step, v number, f flag, d data, i index, t text. */
struct attributes {
    int axis, flag, index, axis_count, size_count;
    const int *axes; /* non-negative */
    const dim *sizes;
    dim start, length;
    int64_t step;
    struct number number;
    const struct data *data;
    const char *text;
};

struct node {
    enum op op;
    enum dtype dtype;
    int rank, argument_count;
    const value *arguments;
    const dim *shape; /* rank sizes */
    struct attributes attributes;
    const char *name;            /* unique in the graph: "mul_1" */
    const struct origin *origin; /* NULL for leaves */
};

/* An input slot of the call. */
struct graph_input {
    const char *name;
    phasor_kind kind; /* TENSOR; INT, FLOAT, BOOL, STRING, NONE */
    value
        node; /* TENSOR: its OP_input. FLOAT, BOOL without constant: a 0-dim OP_input f64 / bool */
    dim size; /* INT without constant: its symbol */
    bool constant; /* the caller must give just this value */
    phasor_value expected;
    value written; /* TENSOR: what the program leaves in its memory; 0: it does not change it */
    const struct origin *writer;
};

/* An output slot of the call. */
struct graph_output {
    const char *name;
    phasor_kind kind; /* TENSOR; INT: size; FLOAT, BOOL: a 0-dim node or a constant; STRING, NONE */
    value node;
    dim size;
    bool constant;
    phasor_value expected;
};

/* A buffer that the program changes (a buffer that it only reads is an OP_data node). */
struct graph_buffer {
    const char *name;
    const struct data *initial;
    value node;    /* its OP_state */
    value written; /* what it is after the call */
    const struct origin *writer;
};

/* A check of the sizes that the file asks for: `condition` must not be 0. */
struct graph_check {
    dim condition;
    const char *message;
};

/* What the loader has built on: it holds for the example's sizes and strides, and is checked for
 * those of each call. */
enum claim_kind {
    CLAIM_SHARED, /* a reshape or contiguous shows the memory of its operand */
    CLAIM_COPIED, /* it has memory of its own */
    CLAIM_ORDER   /* the value lies in memory without gaps, its dims in this order */
};

struct graph_claim {
    enum claim_kind kind;
    value node;
    const int *order;
    const struct origin *origin; /* of the operator that needs it */
};

struct graph {
    const char *name; /* of the program; for messages */
    struct arena *arena;
    struct sizes *sizes;      /* its pool */
    ARRAY(struct node) nodes; /* [0] is no value */
    ARRAY(struct graph_input) inputs;
    ARRAY(struct graph_output) outputs;
    ARRAY(struct graph_buffer) buffers;
    ARRAY(struct graph_check) checks;
    ARRAY(struct graph_claim) claims; /* of the loaded graph alone: no copy has them */
    uint32_t *names;                  /* hash table of names: node index + 1 */
    size_t names_size;
    const struct origin *origin; /* given to nodes that are added now */
    phasor_status status;        /* of the first builder function that failed; `message` says why */
    char *message;
};

/* -- life -------------------------------------------------------------------------------------- */

/* All memory of the graph's contents comes from the arena; graph_free frees the arrays. */
phasor_status graph_init(struct graph *graph, struct arena *arena, struct sizes *sizes,
                         const char *name);
void graph_free(struct graph *graph);
/* The first failure of a builder function or of the size pool, with its message put back. */
phasor_status graph_status(struct graph *graph);
/* Keeps the present failure if there is none yet; returns 0 so that builders can return it. */
value graph_fail(struct graph *graph, phasor_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* -- building ---------------------------------------------------------------------------------- */

/* Adds a node: checks operands and attributes, infers dtype and shape (infer.c), copies everything
 * to the arena. dtype matters for LEAF rows, cast, and unknown; others find their own. name NULL:
 * one is made from the operator's name. */
value graph_add(struct graph *graph, enum op op, enum dtype dtype, const value *arguments,
                int argument_count, const struct attributes *attributes, const char *name);

/* Short forms. */
value graph_map1(struct graph *graph, enum op op, value a);
value graph_map2(struct graph *graph, enum op op, value a, value b);
value graph_map3(struct graph *graph, enum op op, value a, value b, value c);
value graph_cast(struct graph *graph, value a,
                 enum dtype dtype); /* a itself when it has that dtype */
value graph_scalar(struct graph *graph, enum dtype dtype, struct number number);
value graph_float(struct graph *graph, enum dtype dtype,
                  double number); /* dtype may be any; integers truncate */
value graph_size(struct graph *graph, dim size);
value graph_iota(struct graph *graph, dim size);
value graph_reshape(struct graph *graph, value a, const dim *sizes,
                    int rank); /* a itself when nothing changes */
value graph_expand(struct graph *graph, value a, const dim *sizes,
                   int rank); /* a itself when nothing changes */
value graph_permute(struct graph *graph, value a, const int *axes);
value graph_transpose(struct graph *graph, value a, int axis0, int axis1);
value graph_slice(struct graph *graph, value a, int axis, dim start, dim length, int64_t step);
value graph_select(struct graph *graph, value a, int axis, dim index);
value graph_unsqueeze(struct graph *graph, value a, int axis); /* axis in 0..rank */
value graph_squeeze(struct graph *graph, value a, int axis);   /* the size must be 1 */
value graph_concat(struct graph *graph, const value *parts, int count, int axis);
value graph_reduce(struct graph *graph, enum op op, value a, const int *axes, int count, bool keep);

static inline const struct node *graph_node(const struct graph *g, value v)
{
    return &g->nodes.at[v];
}
static inline int64_t graph_dim(const struct graph *g, value v, int axis)
{
    return size_value(g->sizes, g->nodes.at[v].shape[axis]);
}
dim graph_count(struct graph *graph, value v);                      /* number of elements */
bool graph_same_shape(const struct graph *graph, value a, value b); /* by values */

/* -- checking and text ------------------------------------------------------------------------- */

/* Everything that a graph promises: operands before use, dtypes, ranks, attributes, shapes as
 * inferred, names unique, outputs and written values of the right dtype and shape. The message
 * names the node. */
phasor_status graph_verify(struct graph *graph);
/* What each pass ends with: nothing, unless stages are verified (base/verify.h). The message names
 * the pass too. */
phasor_status graph_verify_after(struct graph *graph, const char *pass);

/* Prints the graph as .phasor text. Data that is not inline is referred to by its name; the caller
 * writes it, contiguous. */
enum { DATA_INLINE = 64 };
void graph_print(const struct graph *graph, struct text *out);
bool data_is_inline(const struct data *data); /* at most DATA_INLINE elements, of a dtype that can
                                                 be written as numbers */
uint64_t storage_new_id(void);                /* for struct storage; never 0 */

/* Parses .phasor text into an initialised graph. find_data resolves names of data that is not
 * inline (NULL: an error). */
typedef phasor_status graph_find_data(void *context, const char *name, struct data *out);
phasor_status graph_parse(struct graph *graph, const char *text, const char *path,
                          graph_find_data *find, void *context);

/* -- copying ----------------------------------------------------------------------------------- */

/* A copy of `from` in which each symbol k of its pool is replacement[k] of the new pool: a literal
 * binds it. Shapes are inferred anew. `to` must be initialised, with its own pool; outputs, inputs,
 * buffers and checks are copied too. Value numbers stay the same. */
phasor_status graph_rebind(struct graph *to, const struct graph *from, const dim *replacement);
/* Copies node v of `from` (same pool) to the end of `to`, operands translated by map[]; returns the
 * new value. */
value graph_copy_node(struct graph *to, const struct graph *from, value v, const value *map);
/* Copies inputs, outputs, buffers and checks, with values translated by map[] (0 stays 0). Same
 * pool. */
phasor_status graph_copy_slots(struct graph *to, const struct graph *from, const value *map);
/* Whether this size is the value of an integer input, such as a position. */
bool graph_is_integer_input(const struct graph *graph, dim size);
/* Marks what outputs, written buffers and written inputs need: live[v]. */
void graph_mark_live(const struct graph *graph, bool *live);
