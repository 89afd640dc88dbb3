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

/* One for each kind; they fill functions, defines, runs and geometry. */
phasor_status kernel_map(struct kernel_builder *builder);
phasor_status kernel_row(struct kernel_builder *builder);
phasor_status kernel_scatter(struct kernel_builder *builder);
phasor_status kernel_reduce(struct kernel_builder *builder);
phasor_status kernel_scan(struct kernel_builder *builder);
phasor_status kernel_collect(struct kernel_builder *builder);
phasor_status kernel_dot(struct kernel_builder *builder);
phasor_status kernel_sort(struct kernel_builder *builder);
phasor_status kernel_search(struct kernel_builder *builder);

/* -- shared ------------------------------------------------------------------------------------ */

/* The number of lanes for elements of these dims in this order: a power of two up to `most` so that
 * lanes never leave the innermost dims they start in, or any that divides the count where the
 * buffer has no gaps. */
int kernel_lanes(struct kernel_builder *builder, const dim *sizes, int rank, int most,
                 bool gapless);
/* Functions identity() and combine(x, y) of the reduction row, and the typedef acc_t. */
void kernel_combination(struct kernel_builder *builder, enum op reduction, enum dtype accumulator);
/* "acc = combine(acc, (acc_t)v7);" */
void kernel_accumulate(struct kernel_builder *builder, struct emitter *emitter,
                       enum dtype accumulator, expr element);
enum dtype kernel_accumulator(const struct node *reduction, enum dtype operand);
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
/* LENGTH: what is computed depends on it. */
void kernel_define_length(struct kernel_builder *builder, dim length);
/* An emitter over the builder's functions; its end says whether it failed. */
phasor_status kernel_emitter(struct kernel_builder *builder, struct emitter *emitter);
phasor_status kernel_emitter_end(struct kernel_builder *builder, struct emitter *emitter);
uint32_t kernel_power_of_two(int64_t at_least, uint32_t most);
