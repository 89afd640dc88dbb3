/* loader.h - what the parts of the loader share: calls as the file has them, tensors that can be
 * written in place.
 *
 *     pt2.c          .pt2 -> JSON and weights -> inputs, calls in order, outputs, slots
 *     symbols.c      "Mul(Integer(2), Symbol('s25', ...))" -> a size expression
 *     aten.c/.def    one call -> nodes of the graph: argument names, defaults, promotion
 *     functional.c   tensors that alias and are written -> values that are not
 *     sharing.c      whether reshape and contiguous copy, and whether that matters
 *
 * The file's program writes in place and through views; the graph does not. So a name in the file
 * stands for a `tensor`, which knows what it is a view of, and tensor_get() gives its value as of
 * now:
 *
 *     y = x[..., 2:]        tensor y: view of x by a slice          slice(%x)
 *     y.mul_(z)             write y: %3 = mul(slice, z), and %4 = insert(%x, %3) becomes x's value
 *     return x, y           x: %4, y: slice(%4)
 */
#pragma once
#include "graph/layout.h"

typedef uint32_t tensor; /* index in loader->tensors; 0: none */

struct loader_tensor {
    tensor base;                  /* what it is a view of; 0: it has memory of its own */
    enum op view;                 /* the alias operator that makes it from the base ... */
    struct attributes attributes; /* ... and its attributes */
    value index;                  /* OP_index: where, along the axis */
    value value;                  /* its value when its memory had `version` */
    uint64_t version;             /* of the root's memory */
    uint64_t writes;              /* roots: how often the memory was written */
    int buffer,
        input; /* roots: index + 1 of the buffer or input slot whose memory it is; 0: neither */
    const struct origin *writer; /* roots: the operator that wrote it last */
    bool constant;               /* roots: a weight; a first write makes it a buffer */
    const struct data *data;     /* roots that are weights */
    const dim *strides;          /* that the file has of it; NULL: none */
    bool forked;                 /* a view that would be a copy with other strides */
    tensor family;               /* sides of forks: the next one towards the family's first; 0 */
    uint64_t changed;            /* sides of forks: when they were written last */
};

/* A reshape or contiguous, which is a view or a copy as the strides are. */
struct loader_fork {
    tensor from, to; /* its sides */
    value node;
    bool shared;   /* in the example it is a view */
    bool matters;  /* a read on one side came after a write on the other */
    bool doubtful; /* the file has other strides */
    uint64_t time;
    const struct origin *origin;
};

enum argument_kind {
    ARGUMENT_NONE,    /* None, or not given */
    ARGUMENT_TENSOR,  /* tensors[0] */
    ARGUMENT_TENSORS, /* tensors[0..count); 0 among them: None */
    ARGUMENT_INT,     /* sizes[0]: literal or symbolic */
    ARGUMENT_INTS,    /* sizes[0..count) */
    ARGUMENT_FLOAT,   /* numbers[0] */
    ARGUMENT_FLOATS,
    ARGUMENT_BOOL,    /* flag */
    ARGUMENT_BOOLS,   /* sizes[0..count): 0 or 1 */
    ARGUMENT_STRING,  /* string */
    ARGUMENT_DTYPE,   /* dtype */
    ARGUMENT_FORMAT,  /* format */
    ARGUMENT_COMPLEX, /* numbers[0] */
    ARGUMENT_GRAPH,   /* graph: a region's JSON, known to pt2.c alone */
    ARGUMENT_IGNORED  /* device, layout */
};

/* A symbolic float or bool of the file is an ARGUMENT_TENSOR: a 0-dim f64 or bool node. */
struct argument {
    const char *name; /* "self", "dim"; "" for the positional ones of higher-order operators */
    enum argument_kind kind;
    int count;
    const tensor *tensors;
    const dim *sizes;
    const struct number *numbers;
    const char *string;
    bool flag;
    enum dtype dtype;
    enum memory_format format;
    const void *graph;
};

enum result_kind { RESULT_NONE, RESULT_TENSOR, RESULT_INT, RESULT_FLOAT, RESULT_BOOL };

/* One result of a call. Names and file types come in, tensor or size goes out. */
struct result {
    enum result_kind kind;
    const char *name;
    /* what the file says of a tensor (a hint; needed for unknown operators and for which reshape is
     * a view) */
    enum dtype dtype;
    int rank;
    const dim *sizes, *strides;
    bool has_strides;
    tensor tensor; /* out: RESULT_TENSOR, RESULT_FLOAT and RESULT_BOOL (0-dim f64, bool) */
    dim size;      /* out: RESULT_INT; RESULT_BOOL of sizes: 0 or 1, with size_known */
    bool size_known;
};

struct call {
    const char
        *target;      /* "aten.mul.Tensor", "_operator.mul", "cond", "wrap_with_set_grad_enabled" */
    const char *name; /* of the node */
    const struct argument *arguments;
    int argument_count;
    struct result *results; /* a Tensor[] result is spread: one entry a tensor */
    int result_count;
    const struct origin *origin;
};

/* A place that cannot be loaded: kept, so that all of them can be listed. */
struct loader_refusal {
    const struct origin *origin;
    const char *reason;
};

struct loader {
    struct graph *graph;
    const char *path;                    /* for messages */
    ARRAY(struct loader_tensor) tensors; /* [0] is none */
    ARRAY(struct loader_refusal) refusals;
    const char *branch; /* the cond whose branch is being loaded; for origins */
    int regions;        /* depth of regions being inlined: their names repeat those outside */
    ARRAY(struct call_tensor) example; /* the example's inputs, one a slot */
    struct call_shape call;
    struct layouts layouts; /* of all nodes so far, for the example */
    ARRAY(struct loader_fork) forks;
    uint64_t clock; /* writes so far */
    /* Loads a region inline: parameters bound to tensors or sizes, results filled in. Set by pt2.c.
     */
    phasor_status (*inline_region)(struct loader *, const void *graph,
                                   const struct argument *operands, int operand_count,
                                   struct result *results, int result_count);
};

/* -- functional.c ------------------------------------------------------------------------------ */

tensor tensor_new(struct loader *loader,
                  value v); /* memory of its own; 0 when memory is out (graph->status says so) */
tensor tensor_view(struct loader *loader, tensor base,
                   value v); /* v: alias nodes over tensor_get(base); conj, neg and an index by a
                                0-dim tensor count */
tensor tensor_root(const struct loader *loader, tensor t); /* whose memory it is */
/* Whether it is seen through a conj or neg. */
bool tensor_has_mark(const struct loader *loader, tensor t);
tensor tensor_same(struct loader *loader,
                   tensor t); /* another name for it: detach, alias, to of its own dtype */
value tensor_get(struct loader *loader, tensor t);           /* its value now */
void tensor_write(struct loader *loader, tensor t, value v); /* v has t's dtype and shape */
/* Puts written buffers and inputs into graph->buffers and graph->inputs; a written weight becomes a
 * buffer. */
phasor_status tensor_finish(struct loader *loader);

/* -- sharing.c --------------------------------------------------------------------------------- */

/* Of a value in the example; zero, and false, when the graph has failed. */
bool loader_layout(struct loader *loader, value v, struct layout *out);
/* v lies as an earlier value, whatever its operator says. */
void loader_layout_as(struct loader *loader, value earlier, value v);
/* An input of the example, in slot order. strides NULL: row-major. */
phasor_status loader_example(struct loader *loader, int slot, const struct node *input,
                             const dim *strides);
/* v, a reshape or contiguous of base's value: a view of base or memory of its own, as the strides
 * of the example are. strides: what the file says that v has; NULL: nothing. */
tensor tensor_fork(struct loader *loader, tensor base, value v, const dim *strides);
/* v, or a value equal to it, with the strides that `old` has in memory. */
value written_as(struct loader *loader, value old, value v);
void forks_read(struct loader *loader, tensor t);
void forks_written(struct loader *loader, tensor t);
/* Forks that matter become claims of the graph. */
phasor_status forks_finish(struct loader *loader);
void loader_free(struct loader *loader);

/* -- aten.c ------------------------------------------------------------------------------------ */

/* Adds the nodes of a call and fills in its results. An operator without a row becomes `unknown`
 * nodes of the file's types and a refusal; only a damaged file or memory is a failure. */
phasor_status aten_call(struct loader *loader, struct call *call);

/* -- symbols.c --------------------------------------------------------------------------------- */

/* A size expression in SymPy's srepr (torch 2.6 and newer) or a bare symbol. Symbols must be in the
 * pool already or are added with the range of all integers and `hint` as value. */
phasor_status symbols_parse(struct sizes *sizes, const char *text, int64_t hint, dim *out);
