/* layout_strides.c - strides of one shape: without gaps in an order of dims, as operands vote, as a
 * view has them.
 *
 *     [3, 4] with strides [1, 3]    dense, its order is 1, 0
 *     [12]                          no view of it: its rows do not lie one after the other */
#include "graph/layout_private.h"

#include <string.h>

/* Strides without gaps; order[0] is the outermost dim. */
void strides_dense(const struct layouts *l, const struct node *n, const int *order,
                   struct layout *out)
{
    int64_t stride = 1;
    for (int k = n->rank - 1; k >= 0; k--) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): order has rank entries */
        const int64_t size = extent(l, n, order[k]);
        out->strides[order[k]] = stride;
        stride *= size > 1 ? size : 1;
    }
    out->offset = 0;
    out->root = l->self;
}

void strides_row_major(const struct layouts *l, const struct node *n, struct layout *out)
{
    int order[RANK_MAX];
    for (int d = 0; d < n->rank; d++)
        order[d] = d;
    strides_dense(l, n, order, out);
}

void strides_as(const struct layouts *l, const struct node *n, const int64_t *strides,
                struct layout *out)
{
    *out = (struct layout){.root = l->self};
    memcpy(out->strides, strides, (size_t)n->rank * sizeof *strides);
}

bool strides_are_row_major(const struct layouts *l, const struct node *n, const int64_t *strides)
{
    int64_t expected = 1;
    for (int d = n->rank - 1; d >= 0; d--) {
        if (extent(l, n, d) == 0)
            return true;
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all dims are set */
        if (extent(l, n, d) != 1 && strides[d] != expected)
            return false;
        expected *= extent(l, n, d);
    }
    return true;
}

/* No gaps and no element twice, in some order of dims. */
bool strides_are_dense(const struct layouts *l, const struct node *n, const int64_t *strides)
{
    int64_t expected = 1;
    bool taken[RANK_MAX] = {false};
    for (int left = n->rank; left > 0; left--) {
        int next = -1;
        for (int d = 0; d < n->rank; d++)
            if (!taken[d] && (extent(l, n, d) < 2 || strides[d] == expected)) {
                next = d;
                break;
            }
        if (next < 0)
            return false;
        taken[next] = true;
        expected *= extent(l, n, next) > 1 ? extent(l, n, next) : 1;
    }
    return true;
}

/* Strides of operand k as seen from the result; 0 where it is broadcast. */
void strides_broadcast(const struct layouts *l, const struct node *n, int k, int64_t *strides)
{
    const struct node *a = node_of(l, n->arguments[k]);
    const struct layout *layout = operand_layout(l, n, k);
    for (int d = 0; d < n->rank; d++) {
        const int at = d - (n->rank - a->rank);
        strides[d] =
            at < 0 || (extent(l, a, at) == 1 && extent(l, n, d) != 1) ? 0 : layout->strides[at];
    }
}

/* > 0: dim x belongs outside dim y; 0: no operand says. */
static int dims_vote(const struct layouts *l, const struct node *n, int64_t (*strides)[RANK_MAX],
                     int count, int x, int y)
{
    for (int k = 0; k < count; k++) {
        const int64_t a = strides[k][x], b = strides[k][y];
        if (a == 0 || b == 0)
            continue;
        if (a != b)
            return a > b ? 1 : -1;
        if (extent(l, n, x) > extent(l, n, y))
            return 1;
    }
    return 0;
}

/* The order of dims in which the operands agree, as PyTorch's iterator finds it: insertion from the
 * innermost dim out. */
void strides_vote(const struct layouts *l, const struct node *n, int64_t (*strides)[RANK_MAX],
                  int count, int *order)
{
    int inner_first[RANK_MAX];
    for (int d = 0; d < n->rank; d++)
        inner_first[d] = n->rank - 1 - d;
    for (int i = 1; i < n->rank; i++) {
        int at = i;
        for (int k = i - 1; k >= 0; k--) {
            const int vote = dims_vote(l, n, strides, count, inner_first[k], inner_first[at]);
            if (vote > 0) {
                const int swap = inner_first[k];
                inner_first[k] = inner_first[at];
                inner_first[at] = swap;
                at = k;
            } else if (vote < 0) {
                break;
            }
        }
    }
    for (int d = 0; d < n->rank; d++)
        order[d] = inner_first[n->rank - 1 - d];
}

/* Whether two places are one element: a dim is repeated, or windows overlap. */
bool strides_overlap(const struct layouts *l, const struct node *n, const int64_t *strides)
{
    bool taken[RANK_MAX] = {false};
    int64_t end = 0; /* elements up to the last one of the dims that were taken */
    for (int left = n->rank; left > 0; left--) {
        int next = -1;
        for (int d = 0; d < n->rank; d++)
            if (!taken[d] && (next < 0 || strides[d] < strides[next]))
                next = d;
        taken[next] = true;
        if (extent(l, n, next) < 2)
            continue;
        if (strides[next] <= end)
            return true;
        end += (extent(l, n, next) - 1) * strides[next];
    }
    return false;
}

/* Strides with which the operand's memory has the new shape; false when none do. */
bool strides_viewed(const struct layouts *l, const struct node *a, const int64_t *old,
                    const struct node *n, int64_t *new)
{
    int to = n->rank - 1;
    int64_t chunk_stride = a->rank ? old[a->rank - 1] : 1, chunk = 1, filled = 1;
    for (int d = a->rank - 1; d >= 0; d--) {
        chunk *= extent(l, a, d);
        const bool ends =
            d == 0 || (extent(l, a, d - 1) != 1 && old[d - 1] != chunk * chunk_stride);
        if (!ends)
            continue;
        while (to >= 0 && (filled < chunk || extent(l, n, to) == 1)) {
            new[to] = filled *chunk_stride;
            filled *= extent(l, n, to--);
        }
        if (filled != chunk)
            return false;
        if (d > 0) {
            chunk_stride = old[d - 1];
            chunk = filled = 1;
        }
    }
    for (; to >= 0; to--)
        new[to] = filled *chunk_stride;
    return true;
}
