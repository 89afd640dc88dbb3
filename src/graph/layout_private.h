/* layout_private.h - what layout.c and layout_strides.c share. */
#pragma once
#include "graph/layout.h"

static inline const struct node *node_of(const struct layouts *l, value v)
{
    return graph_node(l->graph, v);
}

static inline int64_t extent(const struct layouts *l, const struct node *n, int d)
{
    return size_value(l->graph->sizes, n->shape[d]);
}

static inline const struct layout *operand_layout(const struct layouts *l, const struct node *n,
                                                  int index)
{
    return &l->of.at[n->arguments[index]];
}

void strides_dense(const struct layouts *l, const struct node *n, const int *order,
                   struct layout *out);
void strides_row_major(const struct layouts *l, const struct node *n, struct layout *out);
void strides_as(const struct layouts *l, const struct node *n, const int64_t *strides,
                struct layout *out);
bool strides_are_row_major(const struct layouts *l, const struct node *n, const int64_t *strides);
bool strides_are_dense(const struct layouts *l, const struct node *n, const int64_t *strides);
void strides_broadcast(const struct layouts *l, const struct node *n, int k, int64_t *strides);
void strides_vote(const struct layouts *l, const struct node *n, int64_t (*strides)[RANK_MAX],
                  int count, int *order);
bool strides_overlap(const struct layouts *l, const struct node *n, const int64_t *strides);
bool strides_viewed(const struct layouts *l, const struct node *a, const int64_t *old,
                    const struct node *n, int64_t *new);
