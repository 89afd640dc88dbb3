/* library.c - products that a vendor library makes: which, what their operands must be, and the
 * step.
 *
 *     dot(reshape(%x), permute(%w))   x [4, 512, 4096] and w [1024, 4096] in memory
 *         ->   cublaslt_matmul of 2048 x 1024 x 4096, w transposed: nothing is copied
 *     dot(add(%x, %y), %w)            add(%x, %y) is kept in memory, row-major
 *     dot(%x[:, ::2], %w)             the slice has no row or column without gaps: it is kept too
 *
 * Whether a product is large enough is asked of the sizes that the program itself fixes, so that all
 * modes have the same steps.
 */
#include "plan/fusion.h"

#include <string.h>

enum { LENGTH_LEAST = 32, WIDTH_LEAST = 32 };

static const int types[DT_COUNT] = {[DT_f16] = 1 + LIBRARY_F16,
                                    [DT_bf16] = 1 + LIBRARY_BF16,
                                    [DT_f32] = 1 + LIBRARY_F32,
                                    [DT_f64] = 1 + LIBRARY_F64};

/* -- which ------------------------------------------------------------------------------------- */

static bool is_large(const struct fusion *f, value v, int axis, int64_t least)
{
    return !plan_is_fixed(f->plan, v, axis) || graph_dim(f->graph, v, axis) >= least;
}

static bool fits(int64_t size)
{
    return size > 0 && size <= INT32_MAX;
}

static bool is_wanted(const struct fusion *f, value v)
{
    const struct node *n = fusion_node(f, v);
    if (n->op != OP_dot || !f->live[v] || !types[n->dtype] || f->setup[v] ||
        !(f->options->libraries & LIBRARY_CUBLASLT))
        return false;
    const value left = n->arguments[0], right = n->arguments[1];
    const int64_t length = graph_dim(f->graph, left, n->rank - 1);
    const int64_t batch = f->counts[v] / (f->counts[v] ? graph_dim(f->graph, v, n->rank - 2) *
                                                             graph_dim(f->graph, v, n->rank - 1)
                                                       : 1);
    for (int i = 0; i < 2; i++) {
        const value shown = fusion_shown_by(f, n->arguments[i]);
        if (fusion_is_leaf(f, shown) && !fusion_has_memory(f, shown))
            return false;
    }
    return fits(f->counts[v] ? graph_dim(f->graph, v, n->rank - 2) : 0) && fits(length) &&
           fits(graph_dim(f->graph, v, n->rank - 1)) && fits(batch) &&
           is_large(f, left, n->rank - 1, LENGTH_LEAST) &&
           (is_large(f, v, n->rank - 1, WIDTH_LEAST) || is_large(f, v, n->rank - 2, WIDTH_LEAST)) &&
           fusion_node(f, right)->dtype == n->dtype;
}

phasor_status library_choose(struct fusion *f)
{
    f->by_library = NEW(&f->plan->arena, bool, f->graph->nodes.count);
    f->views =
        NEW(&f->plan->arena, struct layout, f->options->libraries ? f->graph->nodes.count : 1);
    if (!f->by_library || !f->views)
        return fail_memory();
    for (value v = 1; v < f->graph->nodes.count; v++)
        f->by_library[v] = is_wanted(f, v);
    return PHASOR_OK;
}

/* -- where the operands are -------------------------------------------------------------------- */

/* An operand in memory: its buffer's value, and the strides and offset with which it is seen. */
struct operand {
    value root;
    int64_t strides[RANK_MAX], offset;
};

/* false: what the value shows of that memory has no strides. */
static bool operand_find(const struct fusion *f, value v, struct operand *out)
{
    int64_t strides[RANK_MAX];
    value root = v;
    while (f->plan->buffer_of[root] < 0 && !f->kept[root] && !fusion_has_memory(f, root))
        root = fusion_node(f, root)->arguments[0];
    const int buffer = f->plan->buffer_of[root];
    int64_t stride = 1;
    for (int d = fusion_node(f, root)->rank - 1; d >= 0; d--) {
        strides[d] = buffer < 0
                         ? stride
                         : size_value(f->graph->sizes, plan_buffer(f->plan, buffer)->strides[d]);
        stride *= graph_dim(f->graph, root, d) > 1 ? graph_dim(f->graph, root, d) : 1;
    }
    struct layout seen;
    if (!layout_along(f->graph, root, strides, v, f->views, &seen))
        return false;
    out->root = root;
    out->offset = seen.offset;
    memcpy(out->strides, seen.strides, sizeof out->strides);
    return true;
}

/* The matrices of a tensor's last two dims; false where they, or the batches, have no one stride. */
static bool matrices_describe(const struct fusion *f, value v, const int64_t *strides,
                              struct matrix *out)
{
    const int rank = fusion_node(f, v)->rank;
    int64_t expected = -1, batch_stride = 0;
    for (int d = rank - 3; d >= 0; d--) {
        const int64_t size = graph_dim(f->graph, v, d);
        if (size == 1)
            continue;
        if (expected >= 0 && strides[d] != expected)
            return false;
        if (expected < 0)
            batch_stride = strides[d];
        expected = strides[d] * size;
    }
    const bool described =
        matrix_describe(graph_dim(f->graph, v, rank - 2), graph_dim(f->graph, v, rank - 1),
                        strides[rank - 2], strides[rank - 1], out);
    out->batch_stride = batch_stride;
    return described && strides[rank - 2] >= 0 && strides[rank - 1] >= 0 && batch_stride >= 0;
}

void library_keep_operands(struct fusion *f, value v)
{
    const struct node *n = fusion_node(f, v);
    for (int i = 0; i < 2; i++) {
        const value a = n->arguments[i], shown = fusion_shown_by(f, a);
        struct operand operand;
        struct matrix matrix;
        if (!fusion_is_leaf(f, shown))
            f->kept[shown] = true;
        if (!operand_find(f, a, &operand) || !matrices_describe(f, a, operand.strides, &matrix))
            f->kept[a] = true; /* row-major, of its own */
    }
}

/* The result as matrices in a buffer; false where it cannot be put there. */
static bool result_describe(const struct fusion *f, value v, int buffer, struct matrix *out)
{
    int64_t strides[RANK_MAX];
    for (int d = 0; d < fusion_node(f, v)->rank; d++)
        strides[d] = size_value(f->graph->sizes, plan_buffer(f->plan, buffer)->strides[d]);
    return matrices_describe(f, v, strides, out) && !out->transposed;
}

bool library_can_store(const struct fusion *f, value v, int buffer)
{
    struct matrix matrix;
    return result_describe(f, v, buffer, &matrix);
}

/* -- the step ---------------------------------------------------------------------------------- */

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* The largest power of two up to 16 that divides the offset. */
static int offset_alignment(int64_t nbytes)
{
    int alignment = 16;
    while (nbytes % alignment)
        alignment /= 2;
    return alignment;
}

static phasor_status scratch_add(struct fusion *f, int *out)
{
    struct sizes *sizes = f->graph->sizes;
    struct buffer buffer = {.kind = BUFFER_WORK,
                            .nbytes = MATMUL_WORKSPACE,
                            .dtype = DT_u8,
                            .rank = 1,
                            .sizes = {size_literal(sizes, MATMUL_WORKSPACE)},
                            .strides = {size_literal(sizes, 1)},
                            .alignment = 16,
                            .base = (int)f->plan->buffers.count,
                            .first = -1,
                            .last = -1};
    *out = buffer.base;
    return array_push(&f->plan->buffers, buffer) ? PHASOR_OK : fail_memory();
}

phasor_status library_step(struct fusion *f, const struct kernel *kernel, struct step *step)
{
    const value v = kernel->special;
    const struct node *n = fusion_node(f, v);
    struct step_library *call = &step->library;
    struct matmul *m = &call->matmul;
    *call = (struct step_library){.operands = {0, 0, kernel->stores[0].buffer}};
    m->type = types[n->dtype] - 1;
    m->m = graph_dim(f->graph, v, n->rank - 2);
    m->n = graph_dim(f->graph, v, n->rank - 1);
    m->k = graph_dim(f->graph, n->arguments[0], n->rank - 1);
    m->batch = f->counts[v] / (m->m * m->n);
    m->alignment = plan_buffer(f->plan, call->operands[2])->alignment;
    for (int i = 0; i < 2; i++) {
        struct operand operand;
        struct matrix *matrix = i ? &m->b : &m->a;
        if (!operand_find(f, n->arguments[i], &operand) ||
            !matrices_describe(f, n->arguments[i], operand.strides, matrix))
            return fail(PHASOR_ERROR_COMPILE,
                        "%s: operand %d of a product is not in memory as a "
                        "matrix",
                        n->name, i);
        call->operands[i] = f->plan->buffer_of[operand.root];
        call->offsets[i] = operand.offset * dtype_size(n->dtype);
        const struct buffer *b = plan_buffer(f->plan, call->operands[i]);
        m->alignment =
            smaller(m->alignment, smaller(b->alignment, offset_alignment(call->offsets[i])));
    }
    result_describe(f, v, call->operands[2], &m->c);
    step->kind = STEP_LIBRARY;
    TRY(scratch_add(f, &call->scratch));
    step->writes[step->write_count++] = call->scratch;
    return PHASOR_OK;
}
