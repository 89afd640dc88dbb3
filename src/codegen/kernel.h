/* kernel.h - what the kinds of kernels share while their source is made. */
#pragma once
#include "codegen/codegen.h"
#include "codegen/emit.h"
#include "codegen/parts.h"

enum { LANES_MAX = 32 };

/* Where literal sizes pay: loops of a known length, runs of lanes that are known to divide a dim,
 * and 64-bit divisions. A 32-bit division by an argument costs two instructions, which a kernel
 * that waits for memory does not notice. */

struct kernel_builder {
    struct plan *plan;
    struct kernel *launch; /* gets name, source, arguments, geometry */
    struct kernel *kernel; /* the part in work: the launch itself where it is alone */
    int part;              /* its number; -1: alone */
    const struct templates *templates;
    struct arena scratch; /* of this kernel */
    struct trace trace;
    int *pointers;                   /* buffer -> number of its pointer argument; -1 */
    bool *written;                   /* buffer -> stored to */
    struct text functions;           /* body or accumulate, store, ... */
    size_t starts[PARTS_ALIKE_MOST]; /* of the first parts' functions */
    bool alike;                      /* one body serves all parts */
    struct text defines;             /* COUNT, LENGTH, ... */
    bool wide, uses_flag;
    int lanes;
    dim runs; /* COUNT */
    struct arguments arguments;
    uint32_t block, side;
    bool *visited; /* nodes that any part computes */
    dim blocks, bytes;
};

/* The rows of a reduction or scan, and their elements in terms of the kernel's variables. */
struct row_parts {
    const struct node *node, *operand;
    enum dtype accumulator;
    struct rows rows;
    form at[RANK_MAX];   /* coordinates of row i: the operand's without the dims that go */
    expr run[LANES_MAX]; /* the elements of run r; 0: no run is whole */
    bool rest;           /* elements may be left that no whole run has: */
    expr element;        /* element e */
};

/* One for each kind; they fill functions, defines, runs and geometry. */
phasor_status kernel_map(struct kernel_builder *builder);
phasor_status kernel_row(struct kernel_builder *builder);
phasor_status kernel_scatter(struct kernel_builder *builder);
phasor_status kernel_reduce(struct kernel_builder *builder);
phasor_status kernel_scan(struct kernel_builder *builder);
phasor_status kernel_collect(struct kernel_builder *builder);
phasor_status kernel_dot(struct kernel_builder *builder);
phasor_status kernel_attention(struct kernel_builder *builder);
phasor_status kernel_sort(struct kernel_builder *builder);
phasor_status kernel_search(struct kernel_builder *builder);

/* -- shared ------------------------------------------------------------------------------------ */

/* The number of lanes for elements of these dims in this order: a power of two up to `most` so that
 * lanes never leave the innermost dims they start in, or any that divides the count where the
 * buffer has no gaps. */
int kernel_lanes(struct kernel_builder *builder, const dim *sizes, int rank, int most,
                 bool gapless);
/* Functions identity() and combine(x, y) of the reduction row, and the typedef acc_t; of another
 * reduction of the kernel identity1(), combine1(x, y) and acc1_t. */
void kernel_combination(struct kernel_builder *builder, enum op reduction, enum dtype accumulator,
                        int number);
/* "acc = combine(acc, (acc_t)v7);" */
void kernel_accumulate(struct kernel_builder *builder, struct emitter *emitter,
                       enum dtype accumulator, int number, expr element);
/* What stands in the names of a reduction: "", "1", ... */
const char *kernel_suffix(int number);
/* Cuts the rows of the kernel's special node and counts them. */
void kernel_rows(struct kernel_builder *builder, bool scan, struct row_parts *parts);
/* Traces the elements of a run of `lanes`, and one; function element(a, i, e), where needed. */
phasor_status kernel_row_trace(struct kernel_builder *builder, struct row_parts *parts);
phasor_status kernel_row_element(struct kernel_builder *builder, const struct row_parts *parts);
/* Coordinates of the operand at an element of row i. */
void kernel_row_coordinates(struct kernel_builder *builder, const struct row_parts *parts,
                            form element, form *out);
/* ROW_PARTS and CHUNK, in runs. */
void kernel_define_parts(struct kernel_builder *builder, int run);
/* The shape that an index_put writes: that of the base with the indexed dims replaced by the
 * `inner` dims of the indices. */
int kernel_put_shape(struct kernel_builder *builder, const struct node *n, dim shape[RANK_MAX],
                     int *inner);
/* Coordinates of an operand that is broadcast to `rank` dims. */
void kernel_broadcast(const struct kernel_builder *builder, value v, const form *at, int rank,
                      form *out);
/* Gives numbers to the pointers of all buffers that expressions load from, and of `buffer` as
 * written. */
phasor_status kernel_pointer(struct kernel_builder *builder, int buffer, bool written);
phasor_status kernel_pointers(struct kernel_builder *builder);
/* Whether an address or count needs 64 bits. */
bool kernel_is_wide(const struct kernel_builder *builder);
dim kernel_count(const struct kernel_builder *builder, const dim *sizes, int rank);
/* "#define NAME 77u", or the argument that brings the size: a number of runs or blocks. */
void kernel_define(struct kernel_builder *builder, const char *name, dim size);
/* The same for a size on which it depends what is computed. */
void kernel_define_inside(struct kernel_builder *builder, const char *name, dim size);
/* An emitter over the builder's functions; its end says whether it failed. */
phasor_status kernel_emitter(struct kernel_builder *builder, struct emitter *emitter);
phasor_status kernel_emitter_end(struct kernel_builder *builder, struct emitter *emitter);
uint32_t kernel_power_of_two(int64_t at_least, uint32_t most);
