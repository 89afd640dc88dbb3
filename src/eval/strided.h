/* strided.h - parts of tensors as sizes, strides and an offset, and walks over them in row-major
 * order.
 *
 *     row-major [2, 3]                            strides 3, 1   offset 0
 *     strided_slice(axis 1, start 1, length 2)    strides 3, 1   offset 1   elements 1 2 4 5
 *
 * Every view of a tensor and every part of a result that an operator writes is such a view. Sizes,
 * strides and offsets are in elements. */
#pragma once
#include "graph/graph.h"

struct strided {
    enum dtype dtype;
    int rank;
    int64_t sizes[RANK_MAX + 1], strides[RANK_MAX + 1];
    int64_t offset;
    char *bytes;   /* of element 0 */
    int64_t count; /* elements behind `bytes`, beyond which no view may reach; -1: not known */
};

/* The whole of a row-major tensor. */
struct strided strided_new(enum dtype dtype, int rank, const int64_t *sizes, const void *bytes);
int64_t strided_count(const struct strided *view); /* elements that it shows */
/* Fails when it reaches beyond its tensor. */
phasor_status strided_check(const struct strided *view);

void strided_slice(struct strided *view, int axis, int64_t start, int64_t length, int64_t step);
void strided_select(struct strided *view, int axis, int64_t index);
void strided_permute(struct strided *view, const int *axes);
void strided_expand(struct strided *view, int rank, const int64_t *sizes);
void strided_append(struct strided *view, int64_t size, int64_t stride); /* a new last dim */
void strided_diagonal(struct strided *view, int axis0, int axis1, int64_t offset, int64_t length);
/* Moves the marked axes behind the others; both keep their order. */
void strided_axes_last(struct strided *view, const bool *marked);

/* A position in a view. Neighbouring dims that lie in memory as one are merged, so that runs are
 * long. */
struct walk {
    int rank;
    int64_t sizes[RANK_MAX + 1], strides[RANK_MAX + 1], coordinates[RANK_MAX + 1];
    int64_t offset;
    enum dtype dtype;
    const char *bytes;
};
struct walk walk_new(const struct strided *view); /* of a view with elements */
/* The next count elements in the compute type of the view's dtype. */
void walk_load(struct walk *walk, void *computed, int64_t count);
/* How many elements follow each other at the walk's last stride. */
int64_t walk_left(const struct walk *walk);
/* Goes on by count elements, at most walk_left; gives where the first of them is. */
int64_t walk_advance(struct walk *walk, int64_t count);

/* Copies all elements; sizes and dtypes must agree, the memory must not overlap. */
phasor_status strided_copy(const struct strided *to, const struct strided *from);
