/* aten_strided.c - as_strided: any sizes and strides over the memory of a tensor, as views of that
 * memory as one line. The dims go from the largest stride to the smallest: each but the last are
 * windows of the line that is left.
 *
 *     aten.as_strided.default(x[24], [4, 3], [6, 1])    slice(x, length=21), unfold length=3 step=6
 *     aten.as_strided.default(x[24], [3, 2], [1, 0])    slice(x, length=3), expand to [3, 2] */
#include "load/aten.h"

struct strided {
    dim sizes[RANK_MAX], strides[RANK_MAX], offset;
    int rank;
    bool empty;
    int order[RANK_MAX], count; /* dims of more than one place, largest stride first */
};

/* Arguments first and first + 1: size, stride; and where there is one, storage_offset. */
static struct strided strided_of(struct aten *a, int first, int offset_at)
{
    struct strided s = {0};
    s.rank = aten_sizes(a, first, s.sizes);
    s.offset = offset_at && aten_given(a, offset_at) ? aten_size(a, offset_at) : 0;
    if (aten_sizes(a, first + 1, s.strides) != s.rank)
        aten_refuse(a, "as many strides as sizes are needed");
    for (int d = 0; d < s.rank && !a->reason; d++) {
        s.empty |= size_value(a->sizes, s.sizes[d]) == 0;
        if (s.sizes[d] == 1 || size_value(a->sizes, s.strides[d]) == 0)
            continue;
        if (!size_is_literal(a->sizes, s.strides[d]) || size_value(a->sizes, s.strides[d]) < 0)
            aten_refuse(a, "a stride that depends on a size; use slices, transpose or unfold");
        int at = s.count++;
        for (; at > 0 && size_value(a->sizes, s.strides[s.order[at - 1]]) <
                             size_value(a->sizes, s.strides[d]);
             at--)
            s.order[at] = s.order[at - 1];
        s.order[at] = d;
    }
    return s;
}

/* Elements from the first to the last place of the dims order[from..]. */
static dim span_of(struct aten *a, const struct strided *s, int from)
{
    dim span = 1;
    for (int i = from; i < s->count; i++) {
        const int d = s->order[i];
        span = size_add(a->sizes, span,
                        size_mul(a->sizes, size_sub(a->sizes, s->sizes[d], 1), s->strides[d]));
    }
    return span;
}

/* The line as one dim for each of order[], in that order. */
static value windows_of(struct aten *a, value line, const struct strided *s)
{
    struct graph *g = a->graph;
    for (int i = 0; i + 1 < s->count; i++) {
        const struct attributes at = {.axis = i,
                                      .length = span_of(a, s, i + 1),
                                      .step = size_value(a->sizes, s->strides[s->order[i]])};
        line = graph_add(g, OP_unfold, DT_bool, &line, 1, &at, NULL);
    }
    if (s->count == 0)
        return graph_squeeze(g, line, 0);
    const int last = s->order[s->count - 1];
    const int64_t step = size_value(a->sizes, s->strides[last]);
    return step == 1 ? line : graph_slice(g, line, s->count - 1, 0, s->sizes[last], step);
}

/* The dims in the order of the result, with those of one place or stride 0. */
static value dims_restored(struct aten *a, value v, const struct strided *s)
{
    int axes[RANK_MAX] = {0}, count = 0;
    dim shape[RANK_MAX];
    for (int d = 0; d < s->rank; d++) {
        shape[d] = 1;
        for (int i = 0; i < s->count; i++)
            if (s->order[i] == d) {
                shape[d] = s->sizes[d];
                axes[count++] = i;
            }
    }
    bool moved = false;
    for (int i = 0; i < count; i++)
        moved |= axes[i] != i;
    v = moved ? graph_permute(a->graph, v, axes) : v;
    return graph_expand(a->graph, graph_reshape(a->graph, v, shape, s->rank), s->sizes, s->rank);
}

/* The memory of a tensor as one line of elements of a dtype; 0, and refused: it is not one. */
static value memory_line(struct aten *a, value memory, enum dtype dtype)
{
    const struct node *n = graph_node(a->graph, memory);
    const enum dtype own = n->dtype;
    dim count = graph_count(a->graph, memory);
    int order[RANK_MAX];
    if ((n->op == OP_data && n->attributes.data->offset != 0) || !aten_order(a, memory, order)) {
        aten_refuse(a, "the tensor whose memory it reads has gaps; call contiguous first");
        return 0;
    }
    bool moved = false;
    for (int d = 0; d < n->rank; d++)
        moved |= order[d] != d;
    if (moved)
        memory = graph_permute(a->graph, memory, order);
    if (own != dtype && dtype_is_complex(own))
        memory = graph_map1(a->graph, OP_view_as_real, memory);
    if (own != dtype && dtype_is_complex(dtype)) {
        const dim pairs[2] = {size_floordiv(a->sizes, count, aten_literal(a, 2)),
                              aten_literal(a, 2)};
        memory =
            graph_map1(a->graph, OP_view_as_complex, graph_reshape(a->graph, memory, pairs, 2));
    }
    count = graph_count(a->graph, memory);
    return graph_reshape(a->graph, memory, &count, 1);
}

static value strided_view(struct aten *a, value line, const struct strided *s)
{
    const dim all = aten_shape(a, line)[0];
    if (a->reason)
        return line;
    if (s->empty)
        return graph_reshape(a->graph, graph_slice(a->graph, line, 0, 0, 0, 1), s->sizes, s->rank);
    const dim span = span_of(a, s, 0);
    if (size_value(a->sizes, size_add(a->sizes, s->offset, span)) > size_value(a->sizes, all)) {
        aten_refuse(a, "it reads %lld elements from element %lld on, of %lld",
                    (long long)size_value(a->sizes, span),
                    (long long)size_value(a->sizes, s->offset),
                    (long long)size_value(a->sizes, all));
        return line;
    }
    if (s->offset != 0 || span != all)
        line = graph_slice(a->graph, line, 0, s->offset, span, 1);
    return dims_restored(a, windows_of(a, line, s), s);
}

/* Whether the tensor begins where its memory begins. */
static bool begins_its_memory(const struct loader *loader, tensor t)
{
    for (; loader->tensors.at[t].base; t = loader->tensors.at[t].base) {
        const struct loader_tensor *view = &loader->tensors.at[t];
        if (view->view == OP_imag || view->attributes.start != 0)
            return false;
    }
    return true;
}

/* The reshape that it is on a contiguous tensor: 0 where it is another. */
static value plain_view(struct aten *a, value x, const struct strided *s)
{
    dim count = 1;
    for (int d = s->rank - 1; d >= 0; d--) {
        if (s->sizes[d] != 1 && s->strides[d] != count)
            return 0;
        count = size_mul(a->sizes, count, s->sizes[d]);
    }
    int order[RANK_MAX];
    if (count != graph_count(a->graph, x) || !aten_order(a, x, order))
        return 0;
    for (int d = 0; d < aten_rank(a, x); d++)
        if (order[d] != d)
            return 0;
    return graph_reshape(a->graph, x, s->sizes, s->rank);
}

/* Of the tensor itself where that is enough: its layout need not be known then. */
static bool plain_strided(struct aten *a, tensor t)
{
    struct strided plain = {.rank = aten_sizes(a, 1, plain.sizes)};
    const bool whole =
        !aten_given(a, 3) || (aten_size(a, 3) == 0 && t == tensor_root(a->loader, t));
    if (aten_sizes(a, 2, plain.strides) != plain.rank || !whole || a->reason)
        return false;
    const value view = plain_view(a, tensor_get(a->loader, t), &plain);
    if (view)
        aten_view(a, t, view);
    return view != 0;
}

/* self, size, stride, storage_offset=None */
void build_as_strided(struct aten *a)
{
    const tensor t = aten_tensor(a, 0), root = tensor_root(a->loader, t);
    if (plain_strided(a, t))
        return;
    const struct strided s = strided_of(a, 1, 3);
    if (tensor_has_mark(a->loader, t))
        aten_refuse(a, "strides over a conjugated tensor; call resolve_conj first");
    else if (!aten_given(a, 3) && !begins_its_memory(a->loader, t))
        aten_refuse(a, "strides over a part of a tensor; give storage_offset");
    const enum dtype dtype = aten_type(a, tensor_get(a->loader, t));
    const value line = a->reason ? 0 : memory_line(a, tensor_get(a->loader, root), dtype);
    const value view = line ? strided_view(a, line, &s) : 0;
    if (view)
        aten_view(a, root, view);
}

/* New memory with strides of its own: empty_strided (size, stride, dtype), and new_empty_strided, whose
 * arguments begin with a tensor. number: where they begin */
void build_empty_strided(struct aten *a)
{
    const int first = a->number;
    const struct strided s = strided_of(a, first, 0);
    const enum dtype dtype =
        aten_dtype(a, first + 2, first ? aten_type(a, aten_value(a, 0)) : DT_f32);
    const dim span = s.empty ? 0 : span_of(a, &s, 0);
    const value line = a->reason ? 0 : aten_full(a, aten_number(a, dtype, 0), &span, 1);
    const value view = line ? strided_view(a, line, &s) : 0;
    if (view)
        aten_new(a, view);
}

/* self, src, size, stride, storage_offset=None: a copy with the view of it written */
void build_as_strided_scatter(struct aten *a)
{
    const value x = aten_value(a, 0), source = aten_cast(a, aten_value(a, 1), aten_type(a, x));
    const struct strided s = strided_of(a, 2, 4);
    const value line = a->reason ? 0 : memory_line(a, x, aten_type(a, x));
    const value view = line ? strided_view(a, line, &s) : 0;
    if (!view || a->reason)
        return;
    const tensor copy = tensor_new(a->loader, x);
    tensor_write(a->loader, tensor_view(a->loader, copy, view),
                 graph_expand(a->graph, source, s.sizes, s.rank));
    aten_new(a, tensor_get(a->loader, copy));
}

/* a, stride: a copy with these strides, which leave no gaps */
void build_copy_strided(struct aten *a)
{
    const value x = aten_value(a, 0);
    const int rank = aten_rank(a, x);
    dim strides[RANK_MAX], expected = 1;
    int order[RANK_MAX], inverse[RANK_MAX] = {0};
    if (aten_sizes(a, 1, strides) != rank)
        aten_refuse(a, "as many strides as sizes are needed");
    for (int d = 0; d < rank && !a->reason; d++) {
        int at = d;
        for (; at > 0 &&
               size_value(a->sizes, strides[order[at - 1]]) < size_value(a->sizes, strides[d]);
             at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int k = rank - 1; k >= 0 && !a->reason; k--) {
        const dim size = aten_shape(a, x)[order[k]];
        inverse[order[k]] = k;
        if (size != 1 && size_value(a->sizes, strides[order[k]]) != size_value(a->sizes, expected))
            aten_refuse(a, "strides that leave gaps");
        expected = size_mul(a->sizes, expected, size);
    }
    if (a->reason)
        return;
    const value moved = rank ? graph_permute(a->graph, x, order) : x;
    const value copy = aten_clone(a, moved, FORMAT_CONTIGUOUS);
    aten_new(a, rank ? graph_permute(a->graph, copy, inverse) : copy);
}
