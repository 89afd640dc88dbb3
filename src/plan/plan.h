/* plan.h - what a call with these sizes does: kernels, buffers, outputs.
 *
 *     real graph, symbolic + the call's sizes, strides and alignments
 *       -> bind.c     sizes checked, graph with literals
 *       -> claims.c   what the loader has built on, of strides, holds for the call's
 *       -> layout_infer: strides and shared memory of every value, as eager PyTorch has them
 *       -> fuse.c     which values are kept in memory, which kernel computes each of them
 *       -> steps.c    kernels and copies in order, with what each reads and writes
 *       -> memory.c   where values are kept
 *       -> verify.c   while developing: whether all that holds
 *       -> struct plan; codegen adds source, name and geometry to each kernel
 *
 * For one rotation:  view_as_complex, mul, view_as_real, to  ->  one kernel "mul_to_bf16", buffers:
 * q, freqs, the output.
 *
 * A plan holds no value of a weight and no address: it is kept in the cache and serves every
 * program of the same graph.
 */
#pragma once
#include "base/hash.h"
#include "graph/layout.h"
#include "plan/step.h"

/* -- the call ---------------------------------------------------------------------------------- */

struct plan_options {
    bool own_outputs;
    bool generic;  /* sizes of the call stay symbols with these values; else they are literals */
    int libraries; /* that are there: enum library */
    bool tensor_cores; /* of the device: sm_80 and newer */
    bool any;          /* generic, and so are strides and alignments of the caller's tensors */
};

/* -- buffers ----------------------------------------------------------------------------------- */

enum buffer_kind {
    BUFFER_INPUT,  /* memory of input slot `index` */
    BUFFER_STATE,  /* of program buffer `index` */
    BUFFER_DATA,   /* of the OP_data node `index` */
    BUFFER_OUTPUT, /* fresh memory `index` of this call: plan->memories */
    BUFFER_SLOT,   /* the caller's memory for output slot `index` */
    BUFFER_WORK,   /* workspace of the call, at byte `offset` */
    BUFFER_TABLE   /* memory of the specialisation, filled once, at byte `offset` */
};

struct buffer {
    enum buffer_kind kind;
    int index;
    int64_t offset, nbytes;
    enum dtype dtype;
    int rank;
    dim sizes[RANK_MAX], strides[RANK_MAX]; /* elements */
    int order[RANK_MAX];                    /* dims as memory runs, largest stride first */
    int alignment;                          /* bytes, of the first element */
    value node; /* what it holds (its last value, where it is written in place) */
    int base;   /* DATA of one storage: the buffer whose pointer serves for it; itself otherwise */
    int64_t base_offset; /* elements from there */
    int first, last;     /* WORK: steps between which it is alive */
};

/* -- kernels ----------------------------------------------------------------------------------- */

enum kernel_kind {
    KERNEL_MAP,     /* stores[]: each element by one expression; all stores have one shape */
    KERNEL_ROW,     /* a map whose threads share rows: the reductions `roots` of a row are computed
                       among them */
    KERNEL_REDUCE,  /* stores[0]: an expression of the reduction `reduce` */
    KERNEL_SCATTER, /* writes the values of `scatter` (index_put, scatter) into a buffer that has
                       the base already */
    KERNEL_COLLECT, /* the same where values combine: adds what is sent to each element */
    KERNEL_DOT,     /* a product of matrices */
    KERNEL_ATTENTION, /* softmax(score(q k')) v: `special` is the second product */
    KERNEL_LIBRARY,   /* the same by a vendor library: a step without source */
    KERNEL_SCAN,      /* cumsum, cumprod */
    KERNEL_SORT,      /* sort_index: a thread an element */
    KERNEL_SEARCH     /* argmax, argmin: a thread a row */
};

/* Rows of a reduction or scan that are long are done by several kernels: see split.c. */
enum kernel_stage {
    STAGE_WHOLE, /* all of it */
    STAGE_PARTS, /* REDUCE: what each part of a row gives, into scratch */
    STAGE_CARRY, /* SCAN: of these, in their place */
    STAGE_LAST   /* REDUCE: of these, into the store. SCAN: each part, from what is before it on */
};

struct kernel_store {
    value node;
    int buffer;
    bool copy; /* the node is in memory already: it is loaded, not computed again */
};

/* One argument of a kernel, in the order of its struct; each takes 8 bytes. */
enum argument_kind {
    ARGUMENT_BUFFER, /* an address */
    ARGUMENT_SIZE,   /* a size that does not stand in the source */
    ARGUMENT_DIVISOR /* a size as what device.cuh divides by it with */
};

struct kernel_argument {
    enum argument_kind kind;
    int buffer;
    dim size;
};

/* The 8 bytes of an argument that is no buffer. */
int64_t kernel_argument_bits(const struct kernel_argument *argument, int64_t size);

enum { STORES_MAX = 8, ROOTS_MAX = 4 };

struct kernel {
    enum kernel_kind kind;
    bool setup; /* runs once for a specialisation */
    int store_count;
    struct kernel_store stores[STORES_MAX];
    value special;          /* the node that gives the kernel its kind; 0 for MAP */
    value roots[ROOTS_MAX]; /* ROW: its reductions, operands first; the first is `special` */
    int root_count;
    enum kernel_stage stage;
    dim parts, chunk; /* of a row in stages: how many, and elements of each */
    int scratch;      /* buffer [rows, parts] of the stages; -1 */
    /* what codegen adds */
    const char *name;      /* "mul_to_bf16" */
    const char *operators; /* "mul, cast" */
    value *values;         /* that it computes or copies, in the graph's order */
    int value_count;
    const char *source;
    struct hash key;
    uint32_t block;
    dim grid; /* blocks */
    int argument_count;
    struct kernel_argument *arguments;
    int argument_bytes;
    bool sizes_inside; /* elements depend on a size that is an argument, and not only how many
                          there are */
    bool gains;        /* with literal sizes it would be faster */
    int flag_argument; /* byte offset of the pointer to the out-of-range flag; -1: none */
    dim bytes;         /* that it must move: each operand read once, each result written once */
};

/* -- outputs ----------------------------------------------------------------------------------- */

enum memory_kind { MEMORY_FRESH, MEMORY_INPUT, MEMORY_STATE, MEMORY_DATA };

/* The memory that an output slot shows, by eager's rules. */
struct plan_output {
    bool tensor;
    enum memory_kind memory;
    int index;        /* FRESH: in memories; INPUT: slot; STATE: buffer; DATA: node */
    enum dtype dtype; /* of the real graph */
    int rank;
    int64_t sizes[RANK_MAX], strides[RANK_MAX],
        offset;        /* elements from the start of that memory's tensor */
    int64_t integer;   /* INT slots */
    int scalar_buffer; /* FLOAT, BOOL slots computed by the program: buffer to read back; -1 */
};

struct plan {
    struct arena arena;
    struct sizes sizes;
    struct graph graph;          /* bound */
    const struct graph *program; /* the real graph, with the same numbers of values */
    ARRAY(struct buffer) buffers;
    ARRAY(struct kernel) kernels;
    ARRAY(struct step) steps;
    int *buffer_of; /* value -> index in buffers that holds it; -1 */
    struct plan_output *outputs;
    int output_count;
    int64_t *memories; /* bytes of each fresh memory */
    int memory_count;
    int64_t work_bytes, table_bytes;
};

/* -- stages ------------------------------------------------------------------------------------ */

/* Binds the symbols to the call's sizes and checks them: each dim against the program, ranges, what
 * symbols say elsewhere. logical: the loaded graph, whose inputs name what the user sees.
 * PHASOR_ERROR_INPUT names the input and both sizes. */
phasor_status bind_symbols(const struct graph *logical, const struct call_shape *call,
                           int64_t *symbol_values);
/* Whether what the loader has built on holds for these sizes and strides; of bind_symbols. */
phasor_status claims_check(const struct graph *logical, const struct call_shape *call,
                           const int64_t *symbol_values);
/* What becomes of a symbol with a value: a literal, or a symbol with this value. MULTIPLES: where
 * vectors of the caller's tensors would lie along it and divide it, a multiple of a symbol, so that
 * kernels have vectors: 8*s25, in a class of its own. */
enum binding_kind { BIND_LITERALS, BIND_SYMBOLS, BIND_MULTIPLES };
/* The graph for these values of the symbols, in the plan's arena. */
phasor_status bind_graph(struct plan *plan, const struct graph *real, const int64_t *symbol_values,
                         enum binding_kind kind);

/* The caller's buffers, if the call has any, have the sizes of the outputs in the bound graph.
 * PHASOR_ERROR_INPUT names the output and both shapes. Before anything else is made of them. */
phasor_status bind_check_outputs(const struct graph *logical, const struct graph *bound,
                                 const struct call_shape *call);

phasor_status plan_fuse(struct plan *plan, const struct call_shape *call,
                        const struct layout *layouts, const struct plan_options *options);
phasor_status plan_memory(struct plan *plan);

/* All of the above, in order. */
phasor_status plan_make(const struct graph *logical, const struct graph *real,
                        const struct call_shape *call, const struct plan_options *options,
                        struct plan *plan);
/* Everything that a plan promises: reads written before, lives, places, sizes, results complete
 * (verify.c). The message names the step or the buffer. The second ends plan_make: nothing, unless
 * stages are verified (base/verify.h). */
phasor_status plan_verify(const struct plan *plan, const struct call_shape *call);
phasor_status plan_verify_after(const struct plan *plan, const struct call_shape *call);
void plan_free(struct plan *plan);
/* Appends all that codegen reads of a plan but the values of its symbols. Before codegen. */
phasor_status plan_signature(const struct plan *plan, struct text *out);

/* How a row of `length` elements is shared (row.c): lanes of up to 16 bytes, a power of two of
 * threads, runs of a thread. false: it does not divide so. */
bool row_shape(int64_t length, int nbytes, int *lanes, int *threads, int *runs);

/* How rows of a reduction or scan are cut (split.c). */
enum rows_order {
    ROWS_ALONG,  /* the last dim is among those that go: neighbours in memory are of one row */
    ROWS_ACROSS, /* neighbours are of other rows */
    ROWS_NARROW  /* the same, but no more than ROWS_NARROW_MOST; of scans */
};
enum {
    ROWS_NARROW_MOST = 8,
    ROWS_SIDE = 32, /* rows across that a block takes together */
    REDUCE_ALONG_STRANDS = 512,
    REDUCE_ACROSS_STRANDS = 128,
    SCAN_ACROSS_RUN = 8,
    SCAN_ALONG_RUNS = 512, /* of a tile */
    SCAN_ACROSS_RUNS = 16,
    SCAN_NARROW_RUNS = 128
};
struct rows {
    enum rows_order order;
    int axes[RANK_MAX], axis_count; /* that go, in the operand's order */
    dim count, length;              /* rows; elements of each */
    dim inner;                      /* rows that are neighbours in memory; 1 along it */
    int run;                        /* elements that are combined first */
    int64_t strands;                /* of a reduction; of a scan, the runs of a tile */
};
/* Of the operand of `special`; scan: as a scan cuts them, else as a reduction does. */
void plan_rows(struct plan *plan, value special, bool scan, struct rows *rows);
/* The dtype in which a reduction or scan of that operand combines. */
enum dtype plan_accumulator(enum op op, enum dtype operand);

/* Bytes up to where the next buffer of a workspace or table may begin. */
static inline int64_t plan_round_up(int64_t nbytes)
{
    enum { ALIGNMENT = 256 };
    return (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* For the sizes of the call. */
static inline int64_t plan_size(const struct plan *plan, dim size)
{
    return size_value(&plan->sizes, size);
}
/* What a step must move: each operand read once, each result written once. */
static inline int64_t step_bytes(const struct plan *plan, const struct step *step)
{
    int64_t nbytes = 0;
    if (step->kind == STEP_KERNEL)
        return plan_size(plan, plan->kernels.at[step->kernel.index].bytes);
    for (int i = 0; i < step->read_count; i++)
        nbytes += plan->buffers.at[step->reads[i].buffer].nbytes;
    return nbytes + plan->buffers.at[step->writes[0]].nbytes;
}
static inline uint32_t plan_grid(const struct plan *plan, const struct kernel *kernel)
{
    return (uint32_t)plan_size(plan, kernel->grid);
}

/* Whether the program itself, and not only this call, says how large axis d of v is. What decides
 * the order of a reduction's sums rests on this alone, so that the bits of a result do not depend
 * on the mode. */
static inline bool plan_is_fixed(const struct plan *plan, value v, int axis)
{
    return size_is_literal(plan->program->sizes, graph_node(plan->program, v)->shape[axis]);
}

/* What attention is made of (attention.c): values of the graph. */
struct attention {
    value query, key, value; /* operands of the products; the key is transposed */
    value product, scores;   /* q k', and what the softmax is of */
    bool safe;               /* a row that is masked whole gives 0 */
    bool linear;             /* a score is -inf for any product where it is for the product 0 */
};
/* Whether v is the second product of an attention. */
bool attention_match(const struct graph *graph, value v, struct attention *out);

/* -- the plan's parts, for codegen ------------------------------------------------------------- */

static inline const struct buffer *plan_buffer(const struct plan *p, int index)
{
    return &p->buffers.at[index];
}
