/* strided.c - see strided.h. */
#include "eval/strided.h"

#include "eval/convert.h"

#include <inttypes.h>
#include <string.h>

/* -- views ------------------------------------------------------------------------------------- */

struct strided strided_new(enum dtype dtype, int rank, const int64_t *sizes, const void *bytes)
{
    struct strided view = {.dtype = dtype, .rank = rank, .bytes = (char *)bytes, .count = 1};
    for (int d = rank - 1; d >= 0; d--) {
        view.sizes[d] = sizes[d];
        view.strides[d] = view.count;
        view.count *= sizes[d];
    }
    return view;
}

int64_t strided_count(const struct strided *view)
{
    int64_t count = 1;
    for (int d = 0; d < view->rank; d++)
        count *= view->sizes[d];
    return count;
}

phasor_status strided_check(const struct strided *view)
{
    int64_t low = view->offset, high = view->offset;
    for (int d = 0; d < view->rank; d++) {
        if (view->sizes[d] < 0)
            return fail(PHASOR_ERROR_INPUT, "a size of %" PRId64, view->sizes[d]);
        if (view->sizes[d] == 0)
            return PHASOR_OK;
        const int64_t reach = (view->sizes[d] - 1) * view->strides[d];
        *(reach < 0 ? &low : &high) += reach;
    }
    if (view->count >= 0 && (low < 0 || high >= view->count))
        return fail(PHASOR_ERROR_INPUT,
                    "elements %" PRId64 " to %" PRId64 " of a tensor with %" PRId64, low, high,
                    view->count);
    return PHASOR_OK;
}

void strided_slice(struct strided *view, int axis, int64_t start, int64_t length, int64_t step)
{
    view->offset += start * view->strides[axis];
    view->sizes[axis] = length;
    view->strides[axis] *= step;
}

void strided_select(struct strided *view, int axis, int64_t index)
{
    view->offset += index * view->strides[axis];
    view->rank--;
    for (int d = axis; d < view->rank; d++) {
        view->sizes[d] = view->sizes[d + 1];
        view->strides[d] = view->strides[d + 1];
    }
}

void strided_permute(struct strided *view, const int *axes)
{
    const struct strided old = *view;
    for (int d = 0; d < view->rank; d++) {
        view->sizes[d] = old.sizes[axes[d]];
        view->strides[d] = old.strides[axes[d]];
    }
}

void strided_expand(struct strided *view, int rank, const int64_t *sizes)
{
    const struct strided old = *view;
    for (int d = 0; d < rank; d++) {
        const int from = d - (rank - old.rank);
        view->sizes[d] = sizes[d];
        view->strides[d] = from < 0 || old.sizes[from] == 1 ? 0 : old.strides[from];
    }
    view->rank = rank;
}

void strided_append(struct strided *view, int64_t size, int64_t stride)
{
    view->sizes[view->rank] = size;
    view->strides[view->rank++] = stride;
}

void strided_diagonal(struct strided *view, int axis0, int axis1, int64_t offset, int64_t length)
{
    const int64_t stride = view->strides[axis0] + view->strides[axis1];
    view->offset += offset >= 0 ? offset * view->strides[axis1] : -offset * view->strides[axis0];
    strided_select(view, axis0 > axis1 ? axis0 : axis1, 0);
    strided_select(view, axis0 > axis1 ? axis1 : axis0, 0);
    strided_append(view, length, stride);
}

void strided_axes_last(struct strided *view, const bool *marked)
{
    int axes[RANK_MAX + 1], next = 0;
    for (int d = 0; d < view->rank; d++)
        if (!marked[d])
            axes[next++] = d;
    for (int d = 0; d < view->rank; d++)
        if (marked[d])
            axes[next++] = d;
    strided_permute(view, axes);
}

/* -- walks ------------------------------------------------------------------------------------- */

struct walk walk_new(const struct strided *view)
{
    struct walk walk = {.dtype = view->dtype, .bytes = view->bytes, .offset = view->offset};
    for (int d = 0; d < view->rank; d++) {
        if (view->sizes[d] == 1)
            continue;
        const int last = walk.rank - 1;
        if (walk.rank && walk.strides[last] == view->strides[d] * view->sizes[d]) {
            walk.sizes[last] *= view->sizes[d];
            walk.strides[last] = view->strides[d];
        } else {
            walk.sizes[walk.rank] = view->sizes[d];
            walk.strides[walk.rank++] = view->strides[d];
        }
    }
    if (!walk.rank) /* one element */
        walk.sizes[walk.rank++] = 1;
    return walk;
}

int64_t walk_left(const struct walk *walk)
{
    return walk->sizes[walk->rank - 1] - walk->coordinates[walk->rank - 1];
}

int64_t walk_advance(struct walk *walk, int64_t count)
{
    const int64_t first = walk->offset;
    int d = walk->rank - 1;
    walk->coordinates[d] += count;
    walk->offset += count * walk->strides[d];
    for (; d > 0 && walk->coordinates[d] == walk->sizes[d]; d--) {
        walk->offset += walk->strides[d - 1] - walk->sizes[d] * walk->strides[d];
        walk->coordinates[d] = 0;
        walk->coordinates[d - 1]++;
    }
    return first;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void walk_load(struct walk *walk, void *computed, int64_t count)
{
    const int size = dtype_size(walk->dtype),
              computed_size = dtype_size(dtype_info[walk->dtype].compute);
    const int64_t stride = walk->strides[walk->rank - 1];
    for (int64_t done = 0; done < count;) {
        const int64_t run = smaller(count - done, walk_left(walk)), at = walk_advance(walk, run);
        convert_load(walk->dtype, (char *)computed + done * computed_size, walk->bytes + at * size,
                     stride, (size_t)run);
        done += run;
    }
}

/* -- copying ----------------------------------------------------------------------------------- */

#define COPY_RUN(size)                                                              \
    static void copy_run_##size(char *to, int64_t to_stride, const char *from,      \
                                int64_t from_stride, int64_t count)                 \
    {                                                                               \
        for (int64_t i = 0; i < count; i++)                                         \
            memcpy(to + i * to_stride * size, from + i * from_stride * size, size); \
    }
COPY_RUN(1)
COPY_RUN(2)
COPY_RUN(4)
COPY_RUN(8)
COPY_RUN(16)

static void copy_run(int size, char *to, int64_t to_stride, const char *from, int64_t from_stride,
                     int64_t count)
{
    if (to_stride == 1 && from_stride == 1) {
        memcpy(to, from, (size_t)(count * size));
        return;
    }
    switch (size) {
    case 1: copy_run_1(to, to_stride, from, from_stride, count); break;
    case 2: copy_run_2(to, to_stride, from, from_stride, count); break;
    case 4: copy_run_4(to, to_stride, from, from_stride, count); break;
    case 8: copy_run_8(to, to_stride, from, from_stride, count); break;
    default: copy_run_16(to, to_stride, from, from_stride, count); break;
    }
}

static bool same_sizes(const struct strided *a, const struct strided *b)
{
    return a->rank == b->rank &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes) == 0;
}

phasor_status strided_copy(const struct strided *to, const struct strided *from)
{
    if (!same_sizes(to, from) || dtype_size(to->dtype) != dtype_size(from->dtype))
        return fail(PHASOR_ERROR_INPUT, "the part that is written has another shape or dtype");
    TRY(strided_check(to));
    TRY(strided_check(from));
    int64_t count = strided_count(to);
    if (count == 0)
        return PHASOR_OK;
    const int size = dtype_size(to->dtype);
    struct walk target = walk_new(to), source = walk_new(from);
    const int64_t to_stride = target.strides[target.rank - 1],
                  from_stride = source.strides[source.rank - 1];
    while (count) {
        const int64_t run = smaller(walk_left(&target), walk_left(&source));
        char *written = to->bytes + walk_advance(&target, run) * size;
        copy_run(size, written, to_stride, source.bytes + walk_advance(&source, run) * size,
                 from_stride, run);
        count -= run;
    }
    return PHASOR_OK;
}
