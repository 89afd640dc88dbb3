/* trace.c - see trace.h. One function a view row turns coordinates of the result into an element; the table at the end
 * names them. */
#include "codegen/trace.h"

#include <string.h>

/* What was traced before: an element of a value. */
struct memo {
    struct memo *next;
    value node;
    guard guard;
    expr result;
    int rank;
    form coordinates[];
};

enum { MEMO_SLOTS = 1024, TABLE_FIRST = 256, EXPRESSIONS_MAX = 200000 };

static expr trace_fail(struct trace *trace, phasor_status status)
{
    if (trace->status == PHASOR_OK)
        trace->status = status;
    return 0;
}

phasor_status trace_init(struct trace *trace, const struct plan *plan, const struct kernel *kernel, struct sizes *sizes,
                         struct arena *arena)
{
    *trace = (struct trace){.plan = plan, .kernel = kernel, .arena = arena};
    TRY(index_init(&trace->index, sizes, arena));
    trace->memo = memory_new(MEMO_SLOTS * sizeof(struct memo *));
    trace->memo_size = MEMO_SLOTS;
    trace->visited = memory_new(plan->graph.nodes.count * sizeof *trace->visited);
    if (!trace->memo || !trace->visited || !array_push(&trace->expressions, (struct expression){0}) ||
        !array_push(&trace->guards, (struct guard_question){0}))
        return fail_memory();
    return PHASOR_OK;
}

void trace_free(struct trace *trace)
{
    index_free(&trace->index);
    array_free(&trace->expressions);
    array_free(&trace->guards);
    memory_free(trace->table);
    memory_free(trace->memo);
    memory_free(trace->visited);
    *trace = (struct trace){0};
}

phasor_status trace_status(const struct trace *trace)
{
    return trace->status != PHASOR_OK ? trace->status : index_status(&trace->index);
}

static const struct node *node_at(const struct trace *trace, value v)
{
    return graph_node(&trace->plan->graph, v);
}

/* -- expressions ----------------------------------------------------------------------------------------------- */

static uint64_t expression_hash(const struct expression *e)
{
    uint64_t bits[2];
    memcpy(&bits[0], &e->number.re, 8);
    memcpy(&bits[1], &e->number.im, 8);
    const uint64_t parts[] = {(uint64_t)e->kind << 32 | (uint64_t)e->op << 16 | (uint64_t)e->dtype,
                              (uint64_t)e->buffer << 32 | e->index, (uint64_t)e->guard << 32 | e->size,
                              (uint64_t)e->arguments[0] << 32 | e->arguments[1], e->arguments[2],
                              (uint64_t)e->number.i, bits[0], bits[1]};
    uint64_t hash = 7;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * 0x9E3779B97F4A7C15u + (hash >> 29);
    return hash ^ (hash >> 31);
}

static bool expression_equal(const struct expression *a, const struct expression *b)
{
    return a->kind == b->kind && a->op == b->op && a->dtype == b->dtype && a->buffer == b->buffer && a->index == b->index &&
           a->guard == b->guard && a->size == b->size && a->number.i == b->number.i &&
           memcmp(a->arguments, b->arguments, sizeof a->arguments) == 0 &&
           memcmp(&a->number.re, &b->number.re, 2 * sizeof(double)) == 0;
}

static bool table_grow(struct trace *trace)
{
    const size_t size = trace->table_size ? trace->table_size * 2 : TABLE_FIRST;
    uint32_t *table = memory_new(size * sizeof *table);
    if (!table)
        return false;
    for (uint32_t i = 1; i < trace->expressions.count; i++) {
        size_t slot = expression_hash(&trace->expressions.at[i]) & (size - 1);
        while (table[slot])
            slot = (slot + 1) & (size - 1);
        table[slot] = i;
    }
    memory_free(trace->table);
    trace->table = table;
    trace->table_size = size;
    return true;
}

static expr expression_intern(struct trace *trace, struct expression e)
{
    if (trace->expressions.count * 2 >= trace->table_size && !table_grow(trace))
        return trace_fail(trace, fail_memory());
    size_t slot = expression_hash(&e) & (trace->table_size - 1);
    for (; trace->table[slot]; slot = (slot + 1) & (trace->table_size - 1))
        if (expression_equal(&trace->expressions.at[trace->table[slot]], &e))
            return trace->table[slot];
    if (trace->expressions.count >= EXPRESSIONS_MAX)
        return trace_fail(trace, fail(PHASOR_ERROR_COMPILE, "a kernel of more than %d operations", EXPRESSIONS_MAX));
    if (!array_push(&trace->expressions, e))
        return trace_fail(trace, fail_memory());
    trace->table[slot] = (uint32_t)trace->expressions.count - 1;
    return trace->table[slot];
}

expr trace_literal(struct trace *trace, enum dtype dtype, struct number number)
{
    return expression_intern(trace, (struct expression){.kind = EXPR_LITERAL, .dtype = dtype, .number = number});
}

expr trace_map(struct trace *trace, enum op op, enum dtype dtype, const expr *arguments, int count)
{
    struct expression e = {.kind = EXPR_MAP, .op = op, .dtype = dtype, .argument_count = count};
    memcpy(e.arguments, arguments, (size_t)count * sizeof *arguments);
    return expression_intern(trace, e);
}

static expr trace_form(struct trace *trace, form index)
{
    return expression_intern(trace, (struct expression){.kind = EXPR_INDEX, .dtype = DT_i64, .index = index});
}

/* -- guards and choices ---------------------------------------------------------------------------------------- */

static guard guard_add(struct trace *trace, struct guard_question question)
{
    for (guard g = 1; g < trace->guards.count; g++) {
        const struct guard_question *old = &trace->guards.at[g];
        if (old->parent == question.parent && old->a == question.a && old->bound == question.bound &&
            old->inverted == question.inverted)
            return g;
    }
    if (!array_push(&trace->guards, question))
        trace_fail(trace, fail_memory());
    return (guard)trace->guards.count - 1;
}

/* Whether the guard already answers the question. */
static enum index_answer guard_answers(const struct trace *trace, guard g, form a, dim bound)
{
    for (; g; g = trace->guards.at[g].parent) {
        const struct guard_question *q = &trace->guards.at[g];
        if (q->a == a && q->bound == bound)
            return q->inverted ? INDEX_NEVER : INDEX_ALWAYS;
    }
    return INDEX_ASK;
}

/* Two continuations of an element: `yes` where a < bound, `no` elsewhere. */
struct choice {
    enum index_answer answer;
    guard yes, no;
};

static struct choice choice_make(struct trace *trace, form a, dim bound, guard g)
{
    struct choice choice = {.answer = index_below(&trace->index, &a, &bound), .yes = g, .no = g};
    if (choice.answer == INDEX_ASK)
        choice.answer = guard_answers(trace, g, a, bound);
    if (choice.answer != INDEX_ASK)
        return choice;
    choice.yes = guard_add(trace, (struct guard_question){g, a, bound, false});
    choice.no = guard_add(trace, (struct guard_question){g, a, bound, true});
    return choice;
}

static expr choice_join(struct trace *trace, const struct choice *choice, expr yes, expr no)
{
    if (choice->answer != INDEX_ASK)
        return choice->answer == INDEX_ALWAYS ? yes : no;
    if (yes == no)
        return yes;
    return expression_intern(trace, (struct expression){.kind = EXPR_CHOOSE, .dtype = trace->expressions.at[yes].dtype,
                                                        .argument_count = 2, .arguments = {yes, no}, .guard = choice->yes});
}

/* -- coordinates ----------------------------------------------------------------------------------------------- */

void trace_unravel(struct trace *trace, form linear, const dim *sizes, int rank, form *coordinates)
{
    for (int d = rank - 1; d > 0; d--) {
        coordinates[d] = index_remainder(&trace->index, linear, sizes[d]);
        linear = index_divide(&trace->index, linear, sizes[d]);
    }
    if (rank > 0)
        coordinates[0] = linear;
}

static form ravel(struct trace *trace, const form *coordinates, const dim *sizes, int rank)
{
    form linear = 0;
    for (int d = 0; d < rank; d++)
        linear = index_add(&trace->index, index_scale(&trace->index, linear, sizes[d]), coordinates[d]);
    return linear;
}

form trace_address(struct trace *trace, const struct buffer *buffer, const form *coordinates)
{
    form address = 0;
    for (int d = 0; d < buffer->rank; d++)
        address = index_add(&trace->index, address, index_scale(&trace->index, coordinates[d], buffer->strides[d]));
    return address;
}

/* The coordinates of an operand that is broadcast to `rank` dims. */
static void broadcast_coordinates(const struct trace *trace, value operand, const form *coordinates, int rank, form *out)
{
    const struct node *n = node_at(trace, operand);
    for (int d = 0; d < n->rank; d++)
        out[d] = size_value(trace->index.sizes, n->shape[d]) == 1 ? 0 : coordinates[rank - n->rank + d];
}

static expr trace_broadcast(struct trace *trace, value operand, const form *coordinates, int rank, guard g)
{
    form at[RANK_MAX];
    broadcast_coordinates(trace, operand, coordinates, rank, at);
    return trace_element(trace, operand, at, g);
}

form trace_index_value(struct trace *trace, value index, const form *coordinates, dim size, guard g)
{
    const expr raw = trace_element(trace, index, coordinates, g);
    const struct expression checked = {.kind = EXPR_CHECKED, .dtype = DT_i64, .argument_count = 1, .arguments = {raw}, .size = size};
    return index_value(&trace->index, expression_intern(trace, checked), size);
}

/* -- one function a row ---------------------------------------------------------------------------------------- */

typedef expr trace_function(struct trace *, const struct node *, const form *, guard);

static expr trace_elementwise(struct trace *trace, const struct node *n, const form *at, guard g, enum op op)
{
    expr arguments[3];
    for (int i = 0; i < n->argument_count; i++)
        arguments[i] = trace_broadcast(trace, n->arguments[i], at, n->rank, g);
    return trace_map(trace, op, n->dtype, arguments, n->argument_count);
}

#define MAP(name, ...)                                                                                                 \
    static expr trace_##name(struct trace *t, const struct node *n, const form *at, guard g)                           \
    {                                                                                                                  \
        return trace_elementwise(t, n, at, g, OP_##name);                                                              \
    }
#include "graph/ops.def"

static expr trace_clone(struct trace *trace, const struct node *n, const form *at, guard g)
{
    return trace_element(trace, n->arguments[0], at, g);
}
#define trace_contiguous trace_clone

/* Dims that both sides have are passed on; what lies between two such places is flattened and cut anew. */
static expr trace_reshape(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct node *a = node_at(trace, n->arguments[0]);
    struct sizes *sizes = trace->index.sizes;
    form in[RANK_MAX];
    for (int i = 0, j = 0; i < a->rank || j < n->rank;) {
        int i_end = i, j_end = j;
        dim mine = 1, theirs = 1;
        do { /* take dims until both products agree again */
            const bool more_mine = j_end < n->rank, more_theirs = i_end < a->rank;
            if (more_mine && (size_value(sizes, mine) <= size_value(sizes, theirs) || !more_theirs))
                mine = size_mul(sizes, mine, n->shape[j_end++]);
            else if (more_theirs)
                theirs = size_mul(sizes, theirs, a->shape[i_end++]);
            else
                break;
        } while (size_value(sizes, mine) != size_value(sizes, theirs));
        trace_unravel(trace, ravel(trace, at + j, n->shape + j, j_end - j), a->shape + i, i_end - i, in + i);
        i = i_end;
        j = j_end;
    }
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_permute(struct trace *trace, const struct node *n, const form *at, guard g)
{
    form in[RANK_MAX];
    for (int d = 0; d < n->rank; d++)
        in[n->attributes.axes[d]] = at[d];
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_expand(struct trace *trace, const struct node *n, const form *at, guard g)
{
    return trace_broadcast(trace, n->arguments[0], at, n->rank, g);
}

static expr trace_slice(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct attributes *a = &n->attributes;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    in[a->axis] = index_offset(&trace->index, index_scale(&trace->index, at[a->axis], size_literal(trace->index.sizes, a->step)), a->start);
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_select(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const int axis = n->attributes.axis;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)axis * sizeof *in);
    in[axis] = index_constant(&trace->index, n->attributes.start);
    memcpy(in + axis + 1, at + axis, (size_t)(n->rank - axis) * sizeof *in);
    return trace_element(trace, n->arguments[0], in, g);
}

/* Row and column where a diagonal with this offset starts. */
static void diagonal_start(struct trace *trace, dim offset, dim start[2])
{
    struct sizes *sizes = trace->index.sizes;
    const bool right = size_value(sizes, offset) >= 0;
    start[0] = right ? 0 : size_sub(sizes, 0, offset);
    start[1] = right ? offset : 0;
}

static expr trace_diagonal(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const int *axes = n->attributes.axes;
    form in[RANK_MAX];
    dim start[2];
    diagonal_start(trace, n->attributes.start, start);
    for (int d = 0, from = 0; d < n->rank + 1; d++)
        if (d == axes[0] || d == axes[1])
            in[d] = index_offset(&trace->index, at[n->rank - 1], start[d == axes[1]]);
        else
            in[d] = at[from++];
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_unfold(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct attributes *a = &n->attributes;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    in[a->axis] = index_add(&trace->index, index_scale(&trace->index, at[a->axis], size_literal(trace->index.sizes, a->step)),
                            at[n->rank - 1]);
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_flip(struct trace *trace, const struct node *n, const form *at, guard g)
{
    struct sizes *sizes = trace->index.sizes;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    for (int i = 0; i < n->attributes.axis_count; i++) {
        const int axis = n->attributes.axes[i];
        in[axis] = index_offset(&trace->index, index_scale(&trace->index, at[axis], size_literal(sizes, -1)),
                                size_sub(sizes, n->shape[axis], 1));
    }
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_roll(struct trace *trace, const struct node *n, const form *at, guard g)
{
    struct sizes *sizes = trace->index.sizes;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    for (int i = 0; i < n->attributes.axis_count; i++) {
        const int axis = n->attributes.axes[i];
        const dim size = n->shape[axis], back = size_binary(sizes, SIZE_MOD, size_sub(sizes, 0, n->attributes.sizes[i]), size);
        in[axis] = index_remainder(&trace->index, index_offset(&trace->index, at[axis], back), size);
    }
    return trace_element(trace, n->arguments[0], in, g);
}

/* before <= at < before + size on every padded dim, or the pad's number. */
static expr pad_from(struct trace *trace, const struct node *n, const form *at, form *in, int d, guard g)
{
    const struct node *a = node_at(trace, n->arguments[0]);
    struct sizes *sizes = trace->index.sizes;
    if (d == n->rank)
        return trace_element(trace, n->arguments[0], in, g);
    const dim before = n->attributes.sizes[2 * d];
    const expr number = trace_literal(trace, n->dtype, n->attributes.number);
    in[d] = index_offset(&trace->index, at[d], size_sub(sizes, 0, before));
    const struct choice left = choice_make(trace, at[d], before, g);
    if (left.answer == INDEX_ALWAYS)
        return number;
    const struct choice inside = choice_make(trace, at[d], size_add(sizes, before, a->shape[d]), left.no);
    const expr element = inside.answer == INDEX_NEVER ? number : pad_from(trace, n, at, in, d + 1, inside.yes);
    return choice_join(trace, &left, number, choice_join(trace, &inside, element, number));
}

static expr trace_pad(struct trace *trace, const struct node *n, const form *at, guard g)
{
    form in[RANK_MAX];
    return pad_from(trace, n, at, in, 0, g);
}

static expr concat_from(struct trace *trace, const struct node *n, const form *at, int part, dim start, guard g)
{
    const int axis = n->attributes.axis;
    struct sizes *sizes = trace->index.sizes;
    const struct node *a = node_at(trace, n->arguments[part]);
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    in[axis] = index_offset(&trace->index, at[axis], size_sub(sizes, 0, start));
    if (part == n->argument_count - 1)
        return trace_element(trace, n->arguments[part], in, g);
    const dim end = size_add(sizes, start, a->shape[axis]);
    const struct choice here = choice_make(trace, at[axis], end, g);
    const expr yes = here.answer == INDEX_NEVER ? 0 : trace_element(trace, n->arguments[part], in, here.yes);
    const expr no = here.answer == INDEX_ALWAYS ? 0 : concat_from(trace, n, at, part + 1, end, here.no);
    return choice_join(trace, &here, yes, no);
}

static expr trace_concat(struct trace *trace, const struct node *n, const form *at, guard g)
{
    return concat_from(trace, n, at, 0, 0, g);
}

static expr trace_pair(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct choice real = choice_make(trace, at[n->rank - 1], 1, g);
    const expr yes = real.answer == INDEX_NEVER ? 0 : trace_element(trace, n->arguments[0], at, real.yes);
    const expr no = real.answer == INDEX_ALWAYS ? 0 : trace_element(trace, n->arguments[1], at, real.no);
    return choice_join(trace, &real, yes, no);
}

/* start <= at < start + step * length, and on the step: the part; elsewhere the base. */
static expr trace_insert(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct attributes *a = &n->attributes;
    struct sizes *sizes = trace->index.sizes;
    struct index_pool *index = &trace->index;
    const dim step = size_literal(sizes, a->step), length = node_at(trace, n->arguments[1])->shape[a->axis];
    const dim end = size_add(sizes, a->start, size_mul(sizes, step, length));
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);

    const struct choice before = choice_make(trace, at[a->axis], a->start, g);
    if (before.answer == INDEX_ALWAYS || size_value(sizes, length) == 0)
        return trace_element(trace, n->arguments[0], at, g);
    const struct choice inside = choice_make(trace, at[a->axis], end, before.no);
    expr part = 0;
    if (inside.answer != INDEX_NEVER) {
        const form shifted = index_offset(index, at[a->axis], size_sub(sizes, 0, a->start));
        const struct choice on_step = choice_make(trace, index_remainder(index, shifted, step), 1, inside.yes);
        in[a->axis] = index_divide(index, shifted, step);
        part = choice_join(trace, &on_step,
                           on_step.answer == INDEX_NEVER ? 0 : trace_element(trace, n->arguments[1], in, on_step.yes),
                           on_step.answer == INDEX_ALWAYS ? 0 : trace_element(trace, n->arguments[0], at, on_step.no));
    }
    const expr after = inside.answer == INDEX_ALWAYS ? 0 : trace_element(trace, n->arguments[0], at, inside.no);
    const expr rest = choice_join(trace, &inside, part, after);
    return choice_join(trace, &before,
                       before.answer == INDEX_NEVER ? 0 : trace_element(trace, n->arguments[0], at, before.yes), rest);
}

/* On the diagonal row - start and column - start are equal: neither is below the other. */
static expr trace_insert_diagonal(struct trace *trace, const struct node *n, const form *at, guard g)
{
    struct sizes *sizes = trace->index.sizes;
    struct index_pool *index = &trace->index;
    const int row = n->attributes.axes[0], column = n->attributes.axes[1];
    const dim offset = n->attributes.start, size = n->shape[column];
    const dim length = node_at(trace, n->arguments[1])->shape[node_at(trace, n->arguments[1])->rank - 1];
    /* column - row - offset + size is size just there */
    const form distance = index_offset(index, index_add(index, at[column], index_scale(index, at[row], size_literal(sizes, -1))),
                                       size_sub(sizes, size_add(sizes, size, n->shape[row]), offset));
    const dim here = size_add(sizes, size, n->shape[row]);
    const expr base = trace_element(trace, n->arguments[0], at, g);
    const struct choice below = choice_make(trace, distance, here, g);
    const struct choice on = choice_make(trace, distance, size_add(sizes, here, 1), below.no);
    dim start[2];
    form in[RANK_MAX];
    int to = 0;
    diagonal_start(trace, offset, start);
    for (int d = 0; d < n->rank; d++)
        if (d != row && d != column)
            in[to++] = at[d];
    in[to] = index_offset(index, at[row], size_sub(sizes, 0, start[0]));
    if (size_value(sizes, length) == 0 || below.answer == INDEX_ALWAYS || on.answer == INDEX_NEVER)
        return base;
    const expr part = trace_element(trace, n->arguments[1], in, on.yes);
    return choice_join(trace, &below, base, choice_join(trace, &on, part, base));
}

static expr trace_index(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const struct node *a = node_at(trace, n->arguments[0]);
    const int axis = n->attributes.axis, count = n->argument_count - 1, inner = n->rank - a->rank + count;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)axis * sizeof *in);
    for (int i = 0; i < count; i++) {
        form index_at[RANK_MAX];
        broadcast_coordinates(trace, n->arguments[1 + i], at + axis, inner, index_at);
        in[axis + i] = trace_index_value(trace, n->arguments[1 + i], index_at, a->shape[axis + i], g);
    }
    memcpy(in + axis + count, at + axis + inner, (size_t)(a->rank - axis - count) * sizeof *in);
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_gather(struct trace *trace, const struct node *n, const form *at, guard g)
{
    const int axis = n->attributes.axis;
    form in[RANK_MAX];
    memcpy(in, at, (size_t)n->rank * sizeof *in);
    in[axis] = trace_index_value(trace, n->arguments[1], at, node_at(trace, n->arguments[0])->shape[axis], g);
    return trace_element(trace, n->arguments[0], in, g);
}

static expr trace_scalar(struct trace *trace, const struct node *n, const form *at, guard g)
{
    (void)at, (void)g;
    return trace_literal(trace, n->dtype, n->attributes.number);
}

static expr trace_size(struct trace *trace, const struct node *n, const form *at, guard g)
{
    (void)at, (void)g;
    return trace_form(trace, index_constant(&trace->index, n->attributes.sizes[0]));
}

static expr trace_iota(struct trace *trace, const struct node *n, const form *at, guard g)
{
    (void)n, (void)g;
    return trace_form(trace, at[0]);
}

/* Rows whose values the planner keeps in memory: to be asked for one here is a mistake of the planner. */
static expr trace_never(struct trace *trace, const struct node *n, const form *at, guard g)
{
    (void)at, (void)g;
    return trace_fail(trace, fail(PHASOR_ERROR_REFUSED, "%s: no kernel for %s on this path", n->name, op_info[n->op].name));
}

#define trace_real trace_never /* complex tensors are gone after the rewrite */
#define trace_imag trace_never
#define trace_view_as_real trace_never
#define trace_view_as_complex trace_never
#define trace_input trace_never
#define trace_state trace_never
#define trace_data trace_never
#define trace_index_put trace_never
#define trace_scatter trace_never
#define trace_argmax trace_never
#define trace_argmin trace_never
#define trace_cumsum trace_never
#define trace_cumprod trace_never
#define trace_sort_index trace_never
#define trace_dot trace_never
#define trace_unknown trace_never

static trace_function *const functions[OP_COUNT] = {
#define MAP(name, ...) [OP_##name] = trace_##name,
#define VIEW(name, ...) [OP_##name] = trace_##name,
#define REDUCE(name, ...) [OP_##name] = trace_never,
#define LEAF(name, ...) [OP_##name] = trace_##name,
#define CORE(name, ...) [OP_##name] = trace_##name,
#include "graph/ops.def"
};

/* -- elements -------------------------------------------------------------------------------------------------- */

static struct memo *memo_find(struct trace *trace, value v, const form *at, guard g)
{
    const int rank = node_at(trace, v)->rank;
    uint64_t hash = v * 0x9E3779B97F4A7C15u + g;
    for (int d = 0; d < rank; d++)
        hash = (hash ^ at[d]) * 0x9E3779B97F4A7C15u + (hash >> 29);
    struct memo **slot = &trace->memo[(hash ^ (hash >> 31)) % trace->memo_size];
    for (struct memo *m = *slot; m; m = m->next)
        if (m->node == v && m->guard == g && memcmp(m->coordinates, at, (size_t)rank * sizeof *at) == 0)
            return m;
    struct memo *m = arena_new(trace->arena, sizeof *m + (size_t)rank * sizeof *at);
    if (!m) {
        trace_fail(trace, fail_memory());
        return NULL;
    }
    m->node = v;
    m->guard = g;
    m->rank = rank;
    memcpy(m->coordinates, at, (size_t)rank * sizeof *at);
    m->next = *slot;
    *slot = m;
    return m;
}

expr trace_compute(struct trace *trace, value v, const form *at, guard g)
{
    if (trace->status != PHASOR_OK)
        return 0;
    struct memo *memo = memo_find(trace, v, at, g);
    if (!memo || memo->result)
        return memo ? memo->result : 0;
    trace->visited[v] = true;
    const struct node *n = node_at(trace, v);
    expr result;
    if (v == trace->kernel->special && trace->kernel->kind != KERNEL_SCATTER)
        result = expression_intern(trace, (struct expression){.kind = EXPR_SPECIAL, .dtype = n->dtype});
    else
        result = functions[n->op](trace, n, at, g);
    return memo->result = result;
}

static bool is_stored_here(const struct trace *trace, value v)
{
    for (int i = 0; i < trace->kernel->store_count; i++)
        if (trace->kernel->stores[i].node == v && !trace->kernel->stores[i].copy)
            return true;
    return false;
}

expr trace_element(struct trace *trace, value v, const form *at, guard g)
{
    const int buffer = trace->plan->buffer_of[v];
    if (buffer < 0 || is_stored_here(trace, v) || trace->status != PHASOR_OK)
        return trace_compute(trace, v, at, g);
    const struct buffer *b = plan_buffer(trace->plan, buffer);
    struct expression load = {.kind = EXPR_LOAD, .dtype = b->dtype, .buffer = b->base, .guard = g};
    load.index = index_offset(&trace->index, trace_address(trace, b, at), size_literal(trace->index.sizes, b->base_offset));
    return expression_intern(trace, load);
}
