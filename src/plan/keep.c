/* keep.c - which values are kept in memory besides those that somebody outside sees.
 *
 *     cos(angle) [1, s25, 1, 64], read by mul [s37, s25, 8, 64]     kept: dear, and read eight
 *                                                                   times and more
 *     add(x, 1), read by mul of its own shape                       not kept: an addition costs
 *                                                                   less than a load
 */
#include "plan/fusion.h"

enum { DEAR = 8, COST_MAX = 256 };

int64_t fusion_count(const struct fusion *f, value v)
{
    return f->counts[v];
}

bool fusion_is_leaf(const struct fusion *f, value v)
{
    return op_info[fusion_node(f, v)->op].kind == KIND_LEAF;
}

bool fusion_has_memory(const struct fusion *f, value v)
{
    const enum op op = fusion_node(f, v)->op;
    return op == OP_input || op == OP_state || op == OP_data;
}

value fusion_only_user(const struct fusion *f, value v)
{
    if (f->users[v] != 1)
        return 0;
    for (value user = v + 1; user < f->graph->nodes.count; user++)
        for (int i = 0; f->live[user] && i < fusion_node(f, user)->argument_count; i++)
            if (fusion_node(f, user)->arguments[i] == v)
                return user;
    return 0;
}

static const enum kernel_kind kinds[OP_COUNT] = {
#define REDUCE(name, ...) [OP_##name] = KERNEL_REDUCE,
#include "graph/ops.def"
    [OP_cumsum] = KERNEL_SCAN,     [OP_cumprod] = KERNEL_SCAN,  [OP_index_put] = KERNEL_SCATTER,
    [OP_scatter] = KERNEL_SCATTER, [OP_argmax] = KERNEL_SEARCH, [OP_argmin] = KERNEL_SEARCH,
    [OP_sort_index] = KERNEL_SORT, [OP_dot] = KERNEL_DOT,
};

enum kernel_kind fusion_kind(const struct node *n)
{
    const enum kernel_kind kind = kinds[n->op];
    return kind == KERNEL_SCATTER && n->attributes.flag != SCATTER_SET ? KERNEL_COLLECT : kind;
}

/* -- what is kept ------------------------------------------------------------------------------ */

/* The symbols that are inputs of their own, such as a position: they change from call to call. */
static bool *integer_symbols(const struct fusion *f)
{
    const struct graph *program = f->plan->program;
    bool *marked = NEW(&f->plan->arena, bool, program->sizes->symbols.count);
    for (size_t s = 0; marked && s < program->sizes->symbols.count; s++)
        marked[s] = graph_is_integer_input(program, program->sizes->symbols.at[s].size);
    return marked;
}

static bool mentions(const struct graph *program, const struct node *n, const bool *symbols)
{
    const struct attributes *at = &n->attributes;
    bool found = size_mentions(program->sizes, at->start, symbols) ||
                 size_mentions(program->sizes, at->length, symbols);
    for (int i = 0; i < at->size_count && !found; i++)
        found = size_mentions(program->sizes, at->sizes[i], symbols);
    return found;
}

/* What depends on sizes and constants alone, and on no integer that the caller gives: a table for
 * each position would be filled once and read once. */
static void find_setup(struct fusion *f, const bool *integers)
{
    const struct graph *program = f->plan->program;
    for (value v = 1; v < f->graph->nodes.count; v++) {
        const struct node *n = fusion_node(f, v);
        f->setup[v] = n->op != OP_input && n->op != OP_state &&
                      !mentions(program, graph_node(program, v), integers);
        for (int i = 0; i < n->argument_count; i++)
            f->setup[v] &= f->setup[n->arguments[i]];
    }
}

/* What reads an output or a changed input of the call, though that is the same for all calls, is
 * computed at each: a table is filled before there is one. */
static void setup_without_targets(struct fusion *f)
{
    for (value v = 1; v < f->graph->nodes.count; v++) {
        const struct node *n = fusion_node(f, v);
        for (int i = 0; i < n->argument_count; i++) {
            const value a = n->arguments[i];
            f->setup[v] &= f->setup[a] && (fusion_is_leaf(f, a) || f->plan->buffer_of[a] < 0);
        }
    }
}

static void count_elements(struct fusion *f)
{
    for (value v = 1; v < f->graph->nodes.count; v++) {
        const struct node *n = fusion_node(f, v);
        f->counts[v] = 1;
        for (int d = 0; d < n->rank; d++)
            if (__builtin_mul_overflow(f->counts[v], size_value(f->graph->sizes, n->shape[d]),
                                       &f->counts[v]))
                f->counts[v] = INT64_MAX;
    }
}

static void count_users(struct fusion *f)
{
    for (value v = 1; v < f->graph->nodes.count; v++)
        for (int i = 0; f->live[v] && i < fusion_node(f, v)->argument_count; i++)
            f->users[fusion_node(f, v)->arguments[i]]++;
}

value fusion_shown_by(const struct fusion *f, value v)
{
    while (op_info[fusion_node(f, v)->op].kind == KIND_VIEW &&
           op_info[fusion_node(f, v)->op].memory != MEMORY_COPY)
        v = fusion_node(f, v)->arguments[0];
    return v;
}

static bool moves_elements(enum op op)
{
    return op_info[op].kind == KIND_VIEW && op_info[op].memory == MEMORY_COPY && op != OP_clone &&
           op != OP_pair;
}

static bool grows(const struct fusion *f, value from, value to)
{
    return fusion_count(f, to) >= 2 * fusion_count(f, from);
}

/* Whether reading `operand` in `reader` is a reason to keep it. */
static bool worth_keeping(const struct fusion *f, value operand, value reader)
{
    const value shown = fusion_shown_by(f, operand);
    const struct op_info *info = &op_info[fusion_node(f, reader)->op]; /* a pair reads each once */
    const bool once = info->kind == KIND_VIEW && info->memory == MEMORY_COPY;
    const bool broadcast = !once && grows(f, operand, reader);
    const bool moved = moves_elements(fusion_node(f, reader)->op) && f->users[shown] > 1;
    const bool fixed = f->setup[operand] && !f->setup[reader];
    return f->cost[shown] >= DEAR && (broadcast || moved || fixed);
}

static void keep(struct fusion *f, value v)
{
    v = fusion_shown_by(f, v);
    if (!fusion_is_leaf(f, v))
        f->kept[v] = true;
}

/* Parts of any length, read more than once: every reader would ask of every element which part it
 * is in, and a tree of such would grow with each level. */
static bool is_joined_dearly(const struct fusion *f, value v, int64_t cost)
{
    const struct node *n = fusion_node(f, v);
    return n->op == OP_concat && !plan_is_fixed(f->plan, v, n->attributes.axis) && cost >= DEAR &&
           f->users[v] > 1;
}

int64_t fusion_source_bytes(const struct fusion *f, value v)
{
    enum { RUN_BYTES = 16, VALUE_BYTES = 96 };
    return (int64_t)f->length[v] * VALUE_BYTES * RUN_BYTES / dtype_size(fusion_node(f, v)->dtype);
}

int64_t fusion_kernel_bytes(const struct fusion *f, const struct kernel *kernel)
{
    int64_t nbytes = 0;
    for (int s = 0; s < kernel->store_count; s++)
        if (fusion_node(f, kernel->stores[s].node)->op == OP_concat)
            nbytes += fusion_source_bytes(f, kernel->stores[s].node);
    return nbytes;
}

/* A list of parts is as long as all of them together: those that would make it too long are kept. */
static void shorten(struct fusion *f, value v)
{
    const struct node *n = fusion_node(f, v);
    const bool is_list =
        n->op == OP_concat && n->argument_count > 2; /* two have their costs' limit */
    int64_t nbytes = 0;
    for (int i = 0; is_list && i < n->argument_count; i++) {
        const value shown = fusion_shown_by(f, n->arguments[i]);
        nbytes += fusion_source_bytes(f, n->arguments[i]);
        if (nbytes > SOURCE_MAX / 4 && !fusion_is_leaf(f, shown))
            f->kept[shown] = true;
    }
}

static void measure(struct fusion *f, value v)
{
    enum { LENGTH_MOST = 1 << 20 };
    const struct node *n = fusion_node(f, v);
    int64_t length = n->op == OP_concat ? n->argument_count : op_info[n->op].kind == KIND_MAP;
    for (int i = 0; i < n->argument_count; i++) {
        const value shown = fusion_shown_by(f, n->arguments[i]);
        length += f->kept[shown] || fusion_is_leaf(f, shown) ? 0 : f->length[shown];
    }
    f->length[v] = length > LENGTH_MOST ? LENGTH_MOST : (int)length;
}

/* Index operands and sources of special kernels are traced like any other; their result is kept. */
static void weigh(struct fusion *f, value v)
{
    if (f->by_library[v])
        library_keep_operands(f, v);
    if (f->by_attention[v])
        attention_keep_operands(f, v);
    shorten(f, v);
    const struct node *n = fusion_node(f, v);
    int64_t cost = op_info[n->op].kind == KIND_MAP ? op_info[n->op].cost : 0;
    for (int i = 0; i < n->argument_count; i++) {
        if (worth_keeping(f, n->arguments[i], v))
            keep(f, n->arguments[i]);
        const value shown = fusion_shown_by(f, n->arguments[i]);
        cost += f->kept[shown] || fusion_is_leaf(f, shown) ? 0 : f->cost[shown];
    }
    if (fusion_kind(n) != KERNEL_MAP || cost > COST_MAX || is_joined_dearly(f, v, cost))
        f->kept[v] = true;
    f->cost[v] = cost > COST_MAX ? COST_MAX : (int)cost;
    measure(f, v);
}

static phasor_status check_supported(const struct fusion *f, value v)
{
    const struct node *n = fusion_node(f, v);
    const bool core = op_info[n->op].kind == KIND_CORE && n->op != OP_index && n->op != OP_gather &&
                      fusion_kind(n) == KERNEL_MAP;
    if (core)
        return fail(PHASOR_ERROR_REFUSED, "%s: %s has no GPU kernel yet; run with the CPU device",
                    n->name, n->origin ? n->origin->target : op_info[n->op].name);
    return PHASOR_OK;
}

phasor_status keep_choose(struct fusion *f)
{
    setup_without_targets(f);
    TRY(attention_choose(f));
    for (value v = 1; v < f->graph->nodes.count; v++) {
        if (!f->live[v] || fusion_is_leaf(f, v) || f->inner[v])
            continue;
        TRY(check_supported(f, v));
        weigh(f, v);
    }
    return PHASOR_OK;
}

phasor_status keep_prepare(struct fusion *f)
{
    const bool *integers = integer_symbols(f);
    if (!integers)
        return fail_memory();
    find_setup(f, integers);
    count_elements(f);
    count_users(f);
    return library_choose(f);
}
