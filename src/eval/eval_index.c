/* eval_index.c - operators whose operands say where to read or write: index, index_put, gather,
 * scatter.
 *
 *     index(f32[10, 4], i64[3]) axis=0     row by row: position of each index (negative
 *                                          ones wrap, others are clamped and noted), then a copy
 *                                          of 4 elements
 *
 * Elements are combined (index_put flag 1, scatter modes) in row-major order of the indices,
 * rounded each time. */
#include "eval/convert.h"
#include "eval/parts.h"

#include <string.h>

/* The position that an index means in an axis; -1 where there is none because the axis is empty. */
static int64_t index_position(struct eval *eval, int64_t index, int64_t size)
{
    const int64_t position = index < 0 ? index + size : index;
    if (position >= 0 && position < size)
        return position;
    eval->out_of_range = true;
    return position < 0 && size ? 0 : size - 1;
}

/* -- index, index_put -------------------------------------------------------------------------- */

/* A tensor as [outer, middle, inner], where the indexed axes are the middle, and the positions in
 * it. */
struct indexed {
    int rank; /* of the broadcast indices */
    int64_t sizes[RANK_MAX];
    int64_t outer, middle, inner, count;
    int64_t *positions; /* count of them; -1: nowhere */
};

static void indexed_broadcast(const struct eval *eval, const struct node *node, int first,
                              struct indexed *indexed)
{
    for (int i = first; i < node->argument_count; i++) {
        const struct eval_tensor *a = eval_argument(eval, node, i);
        if (a->rank > indexed->rank) {
            memmove(indexed->sizes + a->rank - indexed->rank, indexed->sizes,
                    (size_t)indexed->rank * sizeof(int64_t));
            for (int d = 0; d < a->rank - indexed->rank; d++)
                indexed->sizes[d] = 1;
            indexed->rank = a->rank;
        }
        for (int d = 0; d < a->rank; d++)
            if (a->sizes[d] != 1)
                indexed->sizes[indexed->rank - a->rank + d] = a->sizes[d];
    }
    indexed->count = 1;
    for (int d = 0; d < indexed->rank; d++)
        indexed->count *= indexed->sizes[d];
}

/* Folds the index operand of one axis into the positions. */
static void indexed_add_axis(struct eval *eval, const struct eval_tensor *index, int64_t size,
                             struct indexed *indexed)
{
    int64_t chunk[EVAL_CHUNK];
    struct strided view = eval_strided(index);
    strided_expand(&view, indexed->rank, indexed->sizes);
    struct walk walk = walk_new(&view);
    for (int64_t done = 0; done < indexed->count; done += EVAL_CHUNK) {
        const int64_t count =
            indexed->count - done < EVAL_CHUNK ? indexed->count - done : EVAL_CHUNK;
        walk_load(&walk, chunk, count);
        for (int64_t i = 0; i < count; i++) {
            int64_t *position = &indexed->positions[done + i];
            const int64_t here = index_position(eval, chunk[i], size);
            *position = *position < 0 || here < 0 ? -1 : *position * size + here;
        }
    }
}

static phasor_status indexed_new(struct eval *eval, const struct node *node, int first,
                                 struct indexed *indexed)
{
    const struct eval_tensor *a = eval_argument(eval, node, 0);
    const int axis = node->attributes.axis, axes = node->argument_count - first;
    *indexed = (struct indexed){.outer = eval_product(a, 0, axis),
                                .middle = eval_product(a, axis, axis + axes),
                                .inner = eval_product(a, axis + axes, a->rank)};
    indexed_broadcast(eval, node, first, indexed);
    indexed->positions = memory_new((size_t)indexed->count * sizeof *indexed->positions);
    if (!indexed->positions)
        return fail_memory();
    for (int i = 0; indexed->count && i < axes; i++)
        indexed_add_axis(eval, eval_argument(eval, node, first + i), a->sizes[axis + i], indexed);
    return PHASOR_OK;
}

phasor_status eval_index(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    struct indexed indexed;
    TRY(indexed_new(eval, node, 1, &indexed));
    const int64_t nbytes = indexed.inner * dtype_size(out->dtype);
    const char *from = eval_argument(eval, node, 0)->bytes;
    char *to = out->bytes;
    for (int64_t outer = 0; outer < indexed.outer; outer++)
        for (int64_t i = 0; i < indexed.count; i++, to += nbytes)
            if (indexed.positions[i] >= 0)
                memcpy(to, from + (outer * indexed.middle + indexed.positions[i]) * nbytes,
                       (size_t)nbytes);
    memory_free(indexed.positions);
    return PHASOR_OK;
}

/* How an element is written: NULL sets it. */
struct writer {
    enum dtype dtype;
    map_function *combine;
    bool fma;
};

/* Writes count neighbouring elements, computed in the compute type. */
static void write_elements(const struct writer *writer, char *to, void *computed, int64_t count)
{
    _Alignas(16) char old[EVAL_CHUNK * EVAL_ELEMENT_MAX];
    if (writer->combine) {
        convert_load(writer->dtype, old, to, 1, (size_t)count);
        writer->combine((size_t)count, computed, old, computed, computed, writer->fma);
    }
    convert_store(writer->dtype, to, 1, computed, (size_t)count);
}

/* The values, broadcast to the shape of what is indexed. */
static struct walk put_values(const struct eval *eval, const struct node *node,
                              const struct indexed *indexed)
{
    const struct eval_tensor *a = eval_argument(eval, node, 0);
    const int axis = node->attributes.axis, axes = node->argument_count - 2;
    int64_t sizes[RANK_MAX];
    int rank = 0;
    for (int d = 0; d < axis; d++)
        sizes[rank++] = a->sizes[d];
    for (int d = 0; d < indexed->rank; d++)
        sizes[rank++] = indexed->sizes[d];
    for (int d = axis + axes; d < a->rank; d++)
        sizes[rank++] = a->sizes[d];
    struct strided view = eval_strided(eval_argument(eval, node, 1));
    strided_expand(&view, rank, sizes);
    return walk_new(&view);
}

static void put_all(const struct writer *writer, const struct indexed *indexed, struct walk *values,
                    char *to)
{
    _Alignas(16) char chunk[EVAL_CHUNK * EVAL_ELEMENT_MAX];
    const int size = dtype_size(writer->dtype);
    for (int64_t k = 0; k < indexed->outer * indexed->count; k++) {
        const int64_t position = indexed->positions[k % indexed->count];
        const int64_t start = (k / indexed->count * indexed->middle + position) * indexed->inner;
        for (int64_t done = 0; done < indexed->inner; done += EVAL_CHUNK) {
            const int64_t count =
                indexed->inner - done < EVAL_CHUNK ? indexed->inner - done : EVAL_CHUNK;
            walk_load(values, chunk, count);
            if (position >= 0)
                write_elements(writer, to + (start + done) * size, chunk, count);
        }
    }
}

phasor_status eval_index_put(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct eval_tensor *a = eval_argument(eval, node, 0);
    const struct writer writer = {
        out->dtype, node->attributes.flag ? map_find(OP_add, dtype_info[out->dtype].compute) : NULL,
        eval->options->fma};
    struct indexed indexed;
    TRY(indexed_new(eval, node, 2, &indexed));
    memcpy(out->bytes, a->bytes, (size_t)(eval_tensor_count(a) * dtype_size(a->dtype)));
    if (indexed.outer * indexed.count * indexed.inner > 0) {
        struct walk values = put_values(eval, node, &indexed);
        put_all(&writer, &indexed, &values, out->bytes);
    }
    memory_free(indexed.positions);
    return PHASOR_OK;
}

/* -- gather, scatter --------------------------------------------------------------------------- */

/* Walks the index of a gather or scatter: for each of its elements, where the tensor is read or
 * written. */
struct along {
    struct walk index, tensor; /* the tensor's walk stands at position 0 of the axis */
    int64_t stride, size;      /* of the axis */
};

static struct along along_new(const struct eval_tensor *tensor, const struct eval_tensor *index,
                              int axis)
{
    struct strided indices = eval_strided(index), view = eval_strided(tensor);
    struct along along = {.stride = view.strides[axis], .size = tensor->sizes[axis]};
    for (int d = 0; d < view.rank; d++)
        strided_slice(&view, d, 0, index->sizes[d], 1);
    view.strides[axis] = 0;
    along.index = walk_new(&indices);
    along.tensor = walk_new(&view);
    return along;
}

/* The element of the tensor that belongs to the next element of the index; -1: none. */
static int64_t along_next(struct eval *eval, struct along *along)
{
    int64_t index;
    walk_load(&along->index, &index, 1);
    const int64_t base = walk_advance(&along->tensor, 1),
                  position = index_position(eval, index, along->size);
    return position < 0 ? -1 : base + position * along->stride;
}

phasor_status eval_gather(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct eval_tensor *a = eval_argument(eval, node, 0);
    const int64_t count = eval_tensor_count(out);
    const size_t size = (size_t)dtype_size(out->dtype);
    if (count == 0)
        return PHASOR_OK;
    struct along along = along_new(a, eval_argument(eval, node, 1), node->attributes.axis);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = along_next(eval, &along);
        if (at >= 0)
            memcpy((char *)out->bytes + (size_t)i * size,
                   (const char *)a->bytes + (size_t)at * size, size);
    }
    return PHASOR_OK;
}

/* By enum scatter_mode. */
static const enum op scatter_operators[] = {
    [SCATTER_SET] = OP_none, [SCATTER_ADD] = OP_add, [SCATTER_MULTIPLY] = OP_mul};

phasor_status eval_scatter(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    const struct eval_tensor *a = eval_argument(eval, node, 0),
                             *index = eval_argument(eval, node, 1);
    const int64_t count = eval_tensor_count(index);
    const int size = dtype_size(out->dtype), mode = node->attributes.flag;
    if (mode < SCATTER_SET || mode > SCATTER_MULTIPLY)
        return fail(PHASOR_ERROR_FILE, "no scatter mode %d", mode);
    const enum op op = scatter_operators[mode];
    const struct writer writer = {
        out->dtype, op ? map_find(op, dtype_info[out->dtype].compute) : NULL, eval->options->fma};
    memcpy(out->bytes, a->bytes, (size_t)(eval_tensor_count(a) * size));
    if (count == 0)
        return PHASOR_OK;
    struct along along = along_new(a, index, node->attributes.axis);
    struct strided source = eval_strided(eval_argument(eval, node, 2));
    for (int d = 0; d < source.rank; d++)
        strided_slice(&source, d, 0, index->sizes[d], 1);
    struct walk values = walk_new(&source);
    for (int64_t i = 0; i < count; i++) {
        _Alignas(16) char computed[EVAL_ELEMENT_MAX];
        const int64_t at = along_next(eval, &along);
        walk_load(&values, computed, 1);
        if (at >= 0)
            write_elements(&writer, (char *)out->bytes + at * size, computed, 1);
    }
    return PHASOR_OK;
}
