/* fusion.h - the work of plan_fuse, shared by its files.
 *
 *     place.c   buffers of leaves, of outputs, of what the call changes
 *     keep.c    which other values are kept in memory
 *     row.c     reductions that their reader computes
 *     fuse.c    the kernels that compute them
 *     split.c   reductions and scans of long rows, in stages
 *     attention.c  attention that is one kernel
 *     library.c products that a library makes
 *     reads.c   what a kernel reads
 *     steps.c   the steps: which kernels go out together, which copies need none
 */
#pragma once
#include "plan/plan.h"

struct fusion {
    struct plan *plan;
    struct graph *graph;
    const struct call_shape *call;
    const struct layout *layouts;
    const struct plan_options *options;
    int64_t *counts; /* elements */
    bool *live;
    bool *setup;          /* depends on no input and no state */
    bool *kept;           /* computed into memory by a kernel */
    bool *target;         /* kept because an output or a change shows it */
    int *cost;            /* of computing an element from what is kept */
    int *length;          /* of its expression: how many values are computed from what is kept */
    int *users;           /* live readers */
    int *kernel_of;       /* kept value -> its kernel; -1 */
    bool *by_library;     /* products that a library makes */
    bool *by_attention;   /* second products of attention that is one kernel */
    bool *inner;          /* what such a kernel computes and nobody else wants */
    struct layout *views; /* space for layout_along */
    int *memory_of;       /* root -> index in plan->memories; -1 */
};

/* One store that somebody outside sees. */
struct target {
    value node;
    int buffer;
    bool copy;
};

struct targets {
    ARRAY(struct target) list;
};

static inline const struct node *fusion_node(const struct fusion *f, value v)
{
    return graph_node(f->graph, v);
}

/* An estimate of the source that computes v, which each element of a run writes out. */
enum { SOURCE_MAX = 192 << 10 };
int64_t fusion_source_bytes(const struct fusion *f, value v);
/* The same of the lists that the kernel stores: other expressions have their limit in their cost. */
int64_t fusion_kernel_bytes(const struct fusion *f, const struct kernel *kernel);
int64_t fusion_count(const struct fusion *f, value v); /* elements */
bool fusion_is_leaf(const struct fusion *f, value v);
bool fusion_has_memory(const struct fusion *f, value v); /* input, state, data */
/* The kind of kernel of its own that a node needs; KERNEL_MAP: none. */
enum kernel_kind fusion_kind(const struct node *n);
/* Through views that neither compute nor move: what is worth keeping is what they show. */
value fusion_shown_by(const struct fusion *f, value v);
value fusion_only_user(const struct fusion *f, value v); /* 0: none, or several */

/* place.c: leaves get buffers; targets and copies collect what kernels must store. */
phasor_status place_all(struct fusion *f, struct targets *targets, struct targets *copies);
/* A kept value that nobody outside sees gets workspace, or a table when it is setup. */
phasor_status place_inner(struct fusion *f, value v);

/* keep.c: f->setup, f->users before placing; f->kept and f->cost after it. */
phasor_status keep_prepare(struct fusion *f);
phasor_status keep_choose(struct fusion *f);

/* row.c: reductions that the kernel of their reader computes, which are no longer kept:
 * rows[reader]. */
struct row_roots {
    value at[ROOTS_MAX]; /* operands first */
    int count;
    value shown[STORES_MAX - 1]; /* values of one element a row that somebody outside sees */
    int shown_count;
};
phasor_status row_choose(struct fusion *f, struct row_roots *rows);

/* reads.c: each buffer once, or for the value of a kernel that is not there yet, once for each way
 * to it. Added to what is there. */
struct reads {
    struct step_read *at;
    size_t count, capacity;
};
phasor_status reads_of_value(const struct plan *plan, value v, struct reads *reads);
phasor_status reads_of_kernel(const struct plan *plan, const struct kernel *kernel,
                              struct reads *reads);
/* library.c: which products, once users are counted; what they read is kept in memory; whether the
 * result may be put into a buffer; the step. */
phasor_status library_choose(struct fusion *f);
void library_keep_operands(struct fusion *f, value v);
bool library_can_store(const struct fusion *f, value v, int buffer);
phasor_status library_step(struct fusion *f, const struct kernel *kernel, struct step *step);
/* split.c: adds the kernel of a reduction or scan, or the kernels that share its rows. */
phasor_status split_kernels(struct fusion *f, struct kernel kernel);
/* attention.c: which, once users are counted; what they read is kept in memory. */
phasor_status attention_choose(struct fusion *f);
void attention_keep_operands(struct fusion *f, value v);
/* steps.c: once all kernels are there. */
phasor_status steps_make(struct fusion *f);
