/* step.h - what a plan does, in order: kernels, calls of vendor libraries, copies.
 *
 *     q = rotate(x @ w)        step 0  library  reads x, w       writes work 0
 *     k = x                    step 1  kernel   reads work 0     writes output 0
 *                              step 2  copy     reads x          writes output 1
 *
 * A step says itself what it reads and writes: planning of memory, donation of inputs, and whatever
 * orders or removes steps ask it, and none of them walks the graph again. Reads and writes are
 * numbers of buffers of the plan. A step may come to hold other steps (a branch, a loop): whoever
 * goes over steps goes through the list that it was given.
 */
#pragma once
#include "graph/graph.h"
#include "library/query.h"

/* Kind, and what reports call it. */
#define STEP_KIND_ROWS(X)                                                               \
    X(KERNEL, "kernel")   /* kernels first..first + count of the plan, in one launch */ \
    X(LIBRARY, "library") /* a call of a vendor library */                              \
    X(COPY, "copy")       /* the bytes of a buffer, by the driver */                    \
    X(FILL, "fill")       /* zeros, by the driver */

enum step_kind {
#define STEP_KIND(name, text) STEP_##name,
    STEP_KIND_ROWS(STEP_KIND)
#undef STEP_KIND
        STEP_KINDS
};

/* A buffer that is read. */
struct step_read {
    int buffer;
    value node;      /* what it holds then */
    int elementwise; /* the buffer that the reader writes, when each of its elements comes of just
                        the element of this one in the same place, and nothing else is written by
                        that reader; -1: elements are read for other places too */
};

struct step_kernel {
    int index; /* among the plan's kernel steps: the kernel that codegen makes of the parts */
    int first, count;
};

struct step_fill {
    int to; /* a buffer without gaps */
    int64_t nbytes;
};

struct step_copy {
    int from, to; /* buffers without gaps, in one order of dims */
    int64_t nbytes;
};

/* A product of matrices: operands a, b and the result; offsets in bytes from their buffers' first
 * elements. The scratch is among the writes. */
struct step_library {
    struct matmul matmul;
    int operands[3];
    int64_t offsets[3];
    int scratch;
};

struct step {
    enum step_kind kind;
    bool hoisted; /* once for a specialisation, not once a call */
    struct step_read *reads;
    int *writes;
    int read_count, write_count;
    union {
        struct step_kernel kernel;
        struct step_copy copy;
        struct step_fill fill;
        struct step_library library;
    };
};
