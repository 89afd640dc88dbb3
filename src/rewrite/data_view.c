/* data_view.c - views of constants as strides: no element moves.
 *
 *     slice(data[512, 64], axis=0, 3, 5)    data[5, 64], offset 192
 *     permute(data[5, 64], [1, 0])          data[64, 5], strides [1, 64]
 *     reshape(data[64, 5], [320])           no strides give this: it stays a reshape
 *
 * What repeats elements (expand, unfold) stays a node: data that is written to a file holds each
 * element once.
 */
#include "rewrite/rewrite.h"

#include <string.h>

struct view {
    const struct sizes *pool;
    const struct attributes *attributes;
    const struct data *data;
    int rank;
    int64_t sizes[RANK_MAX], strides[RANK_MAX], offset;
};

typedef bool view_function(struct view *view);

static int64_t number(const struct view *view, dim size)
{
    return size_value(view->pool, size);
}

static void view_add(struct view *view, int64_t size, int64_t stride)
{
    view->sizes[view->rank] = size;
    view->strides[view->rank++] = stride;
}

static void view_remove(struct view *view, int axis)
{
    const size_t after = (size_t)(--view->rank - axis);
    memmove(view->sizes + axis, view->sizes + axis + 1, after * sizeof *view->sizes);
    memmove(view->strides + axis, view->strides + axis + 1, after * sizeof *view->strides);
}

static bool view_permute(struct view *view)
{
    for (int d = 0; d < view->rank; d++) {
        view->sizes[d] = view->data->sizes[view->attributes->axes[d]];
        view->strides[d] = view->data->strides[view->attributes->axes[d]];
    }
    return true;
}

static bool view_slice(struct view *view)
{
    const int axis = view->attributes->axis;
    view->offset += number(view, view->attributes->start) * view->strides[axis];
    view->sizes[axis] = number(view, view->attributes->length);
    view->strides[axis] *= view->attributes->step;
    return true;
}

static bool view_select(struct view *view)
{
    view->offset += number(view, view->attributes->start) * view->strides[view->attributes->axis];
    view_remove(view, view->attributes->axis);
    return true;
}

static bool view_diagonal(struct view *view)
{
    const int *axes = view->attributes->axes;
    const int64_t start = number(view, view->attributes->start);
    const int64_t rows = view->sizes[axes[0]] + (start < 0 ? start : 0);
    const int64_t columns = view->sizes[axes[1]] - (start > 0 ? start : 0);
    const int64_t length = rows < columns ? rows : columns;
    const int64_t stride = view->strides[axes[0]] + view->strides[axes[1]];
    view->offset += start > 0 ? start * view->strides[axes[1]] : -start * view->strides[axes[0]];
    view_remove(view, axes[0] > axes[1] ? axes[0] : axes[1]);
    view_remove(view, axes[0] > axes[1] ? axes[1] : axes[0]);
    view_add(view, length > 0 ? length : 0, stride);
    return length > 0;
}

/* The dims of the data merged where they lie evenly one in the other; dims of 1 go. */
static void view_merge(struct view *view)
{
    view->rank = 0;
    for (int d = 0; d < view->data->rank; d++) {
        const int64_t size = view->data->sizes[d], stride = view->data->strides[d];
        const int last = view->rank - 1;
        if (size == 1)
            continue;
        if (last >= 0 && view->strides[last] == size * stride) {
            view->sizes[last] *= size;
            view->strides[last] = stride;
        } else {
            view_add(view, size, stride);
        }
    }
}

/* New dims are cut out of merged ones, from the last to the first: each merged dim must be used
 * up exactly. */
static bool view_reshape(struct view *view)
{
    view_merge(view);
    const struct view merged = *view;
    int from = merged.rank - 1;
    int64_t left = from >= 0 ? merged.sizes[from] : 1,
            stride = from >= 0 ? merged.strides[from] : 1;
    view->rank = view->attributes->size_count;
    for (int d = view->rank - 1; d >= 0; d--) {
        const int64_t size = number(view, view->attributes->sizes[d]);
        if (left == 1 && size != 1 && from > 0) {
            left = merged.sizes[--from];
            stride = merged.strides[from];
        }
        if (size == 0 || left % size != 0)
            return false;
        view->sizes[d] = size;
        view->strides[d] = stride;
        stride *= size;
        left /= size;
    }
    return left == 1 && from <= 0;
}

static view_function *const functions[OP_COUNT] = {
    [OP_reshape] = view_reshape, [OP_permute] = view_permute,   [OP_slice] = view_slice,
    [OP_select] = view_select,   [OP_diagonal] = view_diagonal,
};

static const struct data *view_data(struct graph *graph, const struct view *view, const char *name)
{
    struct arena *arena = graph->arena;
    struct data *data = NEW(arena, struct data, 1);
    int64_t *sizes = arena_copy(arena, view->sizes, (size_t)view->rank * sizeof *sizes);
    int64_t *strides = arena_copy(arena, view->strides, (size_t)view->rank * sizeof *strides);
    if (!data || !sizes || !strides) {
        graph_fail(graph, PHASOR_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    *data = *view->data;
    data->name = name;
    data->rank = view->rank;
    data->sizes = sizes;
    data->strides = strides;
    data->offset = view->offset;
    return data;
}

const struct data *data_view(struct graph *graph, const struct node *node, const struct data *data,
                             const char *name)
{
    struct view view = {.pool = graph->sizes,
                        .attributes = &node->attributes,
                        .data = data,
                        .rank = data->rank,
                        .offset = data->offset};
    memcpy(view.sizes, data->sizes, (size_t)data->rank * sizeof *view.sizes);
    memcpy(view.strides, data->strides, (size_t)data->rank * sizeof *view.strides);
    for (int d = 0; d < data->rank; d++)
        if (data->sizes[d] == 0)
            return NULL; /* nothing is read; strides of empty tensors are not worth a rule */
    if (!functions[node->op] || !functions[node->op](&view))
        return NULL;
    return view_data(graph, &view, name);
}
