/* trace.c - see trace.h. What each row of the table does is in trace_rows.c. */
#include "codegen/trace_private.h"

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

enum { MEMO_SLOTS = 1024, EXPRESSIONS_MAX = 200000 };

expr trace_fail(struct trace *trace, phasor_status status)
{
    if (trace->status == PHASOR_OK)
        trace->status = status;
    return 0;
}

phasor_status trace_init(struct trace *trace, const struct plan *plan, const struct kernel *kernel,
                         struct sizes *sizes, struct arena *arena)
{
    *trace = (struct trace){.plan = plan, .kernel = kernel, .arena = arena};
    TRY(index_init(&trace->index, sizes, arena));
    trace->memo = memory_new(MEMO_SLOTS * sizeof(struct memo *));
    trace->memo_size = MEMO_SLOTS;
    trace->visited = memory_new(plan->graph.nodes.count * sizeof *trace->visited);
    if (!trace->memo || !trace->visited ||
        !array_push(&trace->expressions, (struct expression){0}) ||
        !array_push(&trace->guards, (struct guard_question){0}))
        return fail_memory();
    return PHASOR_OK;
}

void trace_free(struct trace *trace)
{
    index_free(&trace->index);
    array_free(&trace->expressions);
    array_free(&trace->guards);
    intern_free(&trace->table);
    memory_free(trace->memo);
    memory_free(trace->visited);
    *trace = (struct trace){0};
}

phasor_status trace_status(const struct trace *trace)
{
    return trace->status != PHASOR_OK ? trace->status : index_status(&trace->index);
}

/* -- expressions ------------------------------------------------------------------------------- */

static uint64_t expression_hash(const void *expressions, uint32_t number)
{
    const struct expression *e = (const struct expression *)expressions + number;
    uint64_t bits[2];
    memcpy(&bits[0], &e->number.re, 8);
    memcpy(&bits[1], &e->number.im, 8);
    const uint64_t parts[] = {(uint64_t)e->kind << 32 | (uint64_t)e->op << 16 | (uint64_t)e->dtype,
                              (uint64_t)e->buffer << 32 | e->index,
                              (uint64_t)e->guard << 32 | e->size,
                              (uint64_t)e->arguments[0] << 32 | e->arguments[1],
                              e->arguments[2],
                              (uint64_t)e->number.i,
                              bits[0],
                              bits[1]};
    uint64_t hash = 7;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = intern_mix(hash, parts[i]);
    return intern_mixed(hash);
}

static bool expression_equal(const struct expression *a, const struct expression *b)
{
    return a->kind == b->kind && a->op == b->op && a->dtype == b->dtype && a->buffer == b->buffer &&
           a->index == b->index && a->guard == b->guard && a->size == b->size &&
           a->number.i == b->number.i &&
           memcmp(a->arguments, b->arguments, sizeof a->arguments) == 0 &&
           memcmp(&a->number.re, &b->number.re, 2 * sizeof(double)) == 0;
}

expr expression_intern(struct trace *trace, struct expression e)
{
    if (!intern_room(&trace->table, trace->expressions.count, expression_hash,
                     trace->expressions.at))
        return trace_fail(trace, fail_memory());
    size_t slot = intern_slot(&trace->table, expression_hash(&e, 0));
    for (; trace->table.at[slot]; slot = intern_next(&trace->table, slot)) {
        const expr old = trace->table.at[slot] - 1; /* expression 0 is none */
        if (old && expression_equal(&trace->expressions.at[old], &e))
            return old;
    }
    if (trace->expressions.count >= EXPRESSIONS_MAX)
        return trace_fail(trace, fail(PHASOR_ERROR_COMPILE, "a kernel of more than %d operations",
                                      EXPRESSIONS_MAX));
    if (!array_push(&trace->expressions, e))
        return trace_fail(trace, fail_memory());
    trace->table.at[slot] = (uint32_t)trace->expressions.count;
    return (expr)trace->expressions.count - 1;
}

expr trace_literal(struct trace *trace, enum dtype dtype, struct number number)
{
    return expression_intern(
        trace, (struct expression){.kind = EXPR_LITERAL, .dtype = dtype, .number = number});
}

expr trace_map(struct trace *trace, enum op op, enum dtype dtype, const expr *arguments, int count)
{
    struct expression e = {.kind = EXPR_MAP, .op = op, .dtype = dtype, .argument_count = count};
    memcpy(e.arguments, arguments, (size_t)count * sizeof *arguments);
    return expression_intern(trace, e);
}

expr trace_number(struct trace *trace, form index)
{
    return expression_intern(
        trace, (struct expression){.kind = EXPR_INDEX, .dtype = DT_i64, .index = index});
}

/* -- guards and choices ------------------------------------------------------------------------ */

static guard guard_add(struct trace *trace, struct guard_question question)
{
    for (guard g = 1; g < trace->guards.count; g++) {
        const struct guard_question *old = &trace->guards.at[g];
        if (old->parent == question.parent && old->a == question.a &&
            old->bound == question.bound && old->inverted == question.inverted)
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

struct choice choice_make(struct trace *trace, form a, dim bound, guard g)
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

expr choice_join(struct trace *trace, const struct choice *choice, expr yes, expr no)
{
    if (choice->answer != INDEX_ASK)
        return choice->answer == INDEX_ALWAYS ? yes : no;
    if (yes == no)
        return yes;
    return expression_intern(trace, (struct expression){.kind = EXPR_CHOOSE,
                                                        .dtype = trace->expressions.at[yes].dtype,
                                                        .argument_count = 2,
                                                        .arguments = {yes, no},
                                                        .guard = choice->yes});
}

expr trace_special(struct trace *trace, enum dtype dtype, int number)
{
    return expression_intern(
        trace, (struct expression){.kind = EXPR_SPECIAL, .dtype = dtype, .buffer = number});
}

/* -- coordinates ------------------------------------------------------------------------------- */

void trace_unravel(struct trace *trace, form linear, const dim *sizes, int rank, form *coordinates)
{
    for (int d = rank - 1; d > 0; d--) {
        coordinates[d] = index_remainder(&trace->index, linear, sizes[d]);
        linear = index_divide(&trace->index, linear, sizes[d]);
    }
    if (rank > 0)
        coordinates[0] = linear;
}

form trace_ravel(struct trace *trace, const form *coordinates, const dim *sizes, int rank)
{
    form linear = 0;
    for (int d = 0; d < rank; d++)
        linear =
            index_add(&trace->index, index_scale(&trace->index, linear, sizes[d]), coordinates[d]);
    return linear;
}

form trace_address(struct trace *trace, const struct buffer *buffer, const form *coordinates)
{
    form address = 0;
    for (int d = 0; d < buffer->rank; d++)
        address = index_add(&trace->index, address,
                            index_scale(&trace->index, coordinates[d], buffer->strides[d]));
    return address;
}

/* The coordinates of an operand that is broadcast to `rank` dims. */
void trace_broadcast_coordinates(const struct trace *trace, value operand, const form *coordinates,
                                 int rank, form *out)
{
    const struct node *n = node_at(trace, operand);
    for (int d = 0; d < n->rank; d++)
        out[d] = n->shape[d] == 1 ? 0 : coordinates[rank - n->rank + d];
}

expr trace_broadcast(struct trace *trace, value operand, const form *coordinates, int rank, guard g)
{
    form at[RANK_MAX];
    trace_broadcast_coordinates(trace, operand, coordinates, rank, at);
    return trace_element(trace, operand, at, g);
}

form trace_index_value(struct trace *trace, value index, const form *coordinates, dim size, guard g)
{
    const expr raw = trace_element(trace, index, coordinates, g);
    const struct expression checked = {.kind = EXPR_CHECKED,
                                       .dtype = DT_i64,
                                       .argument_count = 1,
                                       .arguments = {raw},
                                       .guard = g,
                                       .size = size};
    return index_value(&trace->index, expression_intern(trace, checked), size);
}

/* -- elements ---------------------------------------------------------------------------------- */

static struct memo *memo_find(struct trace *trace, value v, const form *at, guard g)
{
    const int rank = node_at(trace, v)->rank;
    uint64_t hash = v * 0x9E3779B97F4A7C15u + g;
    for (int d = 0; d < rank; d++)
        hash = (hash ^ at[d]) * 0x9E3779B97F4A7C15u + (hash >> 29);
    struct memo **slot = &trace->memo[(hash ^ (hash >> 31)) % trace->memo_size];
    for (struct memo *m = *slot; m; m = m->next)
        if (m->node == v && m->guard == g &&
            memcmp(m->coordinates, at, (size_t)rank * sizeof *at) == 0)
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

/* Which of the kernel's results a value is; -1: none, it is computed. */
static int special_number(const struct kernel *kernel, value v)
{
    for (int k = 0; k < kernel->root_count; k++)
        if (kernel->roots[k] == v)
            return k;
    return v == kernel->special && kernel->kind != KERNEL_SCATTER ? 0 : -1;
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
    const int special = special_number(trace->kernel, v);
    if (special >= 0)
        result = trace_special(trace, n->dtype, special);
    else
        result = trace_rows[n->op](trace, n, at, g);
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
    load.index = index_offset(&trace->index, trace_address(trace, b, at),
                              size_literal(trace->index.sizes, b->base_offset));
    return expression_intern(trace, load);
}
