/* refuse.c - what a rule set does not rewrite: a graph comes in, a list of refusals in program
 * order goes out.
 *
 *     %3 = add(%1, %2) : c64[3, 4]    aten.add.Tensor, "net.py:7, code: a + b"
 *
 * gives, under the rule set executorch, {node "add", target "aten.add.Tensor", reason "the rule
 * set executorch ...", line "net.py:7, code: a + b"}. An operator of the file that became
 * several nodes is listed once. Inputs come first, outputs last; what a table column says
 * (ops.def: complex, rules) is read from it, the rest stands in the two tables of limits.
 */
#include "rewrite/rewrite.h"

#include "base/hash.h"
#include "base/intern.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The longest axis of a product or a running product: a scan of log2 steps is written out. */
enum { SCAN_SIZE_MAX = 1 << 20 };

struct scan {
    const struct graph *graph;
    bool executorch;
    struct refusal_list *list;
    struct intern listed;   /* operators of the file that this scan has refused: `origins` */
    struct intern branches; /* the same, of the branches of a cond */
    ARRAY(const struct origin *) origins;
    ARRAY(const char *) branch_names;
    phasor_status status;
};

static bool is_named(enum dtype dtype)
{
    return dtype_info[dtype].kind == DTC_NAMED;
}

/* Nodes of one operator of the file. */
static bool is_same_origin(const struct origin *a, const struct origin *b)
{
    return a == b || (a && b && strcmp(a->node, b->node) == 0 && strcmp(a->target, b->target) == 0);
}

static uint64_t text_hash(const char *text)
{
    return hash_bytes(text, strlen(text)).low;
}

static uint64_t origin_hash(const void *pool, uint32_t number)
{
    const struct origin *origin = ((const struct origin *const *)pool)[number];
    return intern_mixed(intern_mix(text_hash(origin->node), text_hash(origin->target)));
}

static uint64_t branch_hash(const void *pool, uint32_t number)
{
    return text_hash(((const char *const *)pool)[number]);
}

static bool is_listed(const struct scan *scan, const struct origin *origin)
{
    const struct intern *table = &scan->listed;
    if (!origin || !table->size)
        return false;
    for (size_t slot = intern_slot(table, origin_hash(&origin, 0)); table->at[slot];
         slot = intern_next(table, slot))
        if (is_same_origin(scan->origins.at[table->at[slot] - 1], origin))
            return true;
    return false;
}

static void list_origin(struct scan *scan, const struct origin *origin)
{
    const size_t count = scan->origins.count;
    if (!origin || is_listed(scan, origin))
        return;
    if (!intern_room(&scan->listed, count, origin_hash, scan->origins.at) ||
        !array_push(&scan->origins, origin)) {
        scan->status = fail_memory();
        return;
    }
    size_t slot = intern_slot(&scan->listed, origin_hash(&origin, 0));
    while (scan->listed.at[slot])
        slot = intern_next(&scan->listed, slot);
    scan->listed.at[slot] = (uint32_t)count + 1;
}

/* Whether the branch is listed already; it is from now on. */
static bool list_branch(struct scan *scan, const char *branch)
{
    const size_t count = scan->branch_names.count;
    if (!intern_room(&scan->branches, count, branch_hash, scan->branch_names.at)) {
        scan->status = fail_memory();
        return true;
    }
    size_t slot = intern_slot(&scan->branches, text_hash(branch));
    for (; scan->branches.at[slot]; slot = intern_next(&scan->branches, slot))
        if (strcmp(scan->branch_names.at[scan->branches.at[slot] - 1], branch) == 0)
            return true;
    if (array_push(&scan->branch_names, branch))
        scan->branches.at[slot] = (uint32_t)count + 1;
    else
        scan->status = fail_memory();
    return false;
}

/* Adds a refusal; the reason is formatted into the arena. */
__attribute__((format(printf, 3, 4))) static void refuse(struct scan *scan, struct refusal refusal,
                                                         const char *format, ...)
{
    char reason[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    refusal.reason = arena_string(scan->graph->arena, reason);
    if (scan->status == PHASOR_OK && (!refusal.reason || !array_push(scan->list, refusal)))
        scan->status = fail_memory();
    if (scan->status == PHASOR_OK)
        list_origin(scan, refusal.origin);
}

static struct refusal refusal_of(const struct node *node)
{
    const struct origin *origin = node->origin;
    return (struct refusal){.origin = origin,
                            .target = origin ? origin->target : op_info[node->op].name,
                            .node = origin ? origin->node : node->name,
                            .line = origin ? origin->line : NULL};
}

/* -- limits ------------------------------------------------------------------------------------ */

typedef const char *limit_function(const struct graph *graph, const struct node *node);

static const char *limit_scatter(const struct graph *graph, const struct node *node)
{
    (void)graph;
    return node->attributes.flag == SCATTER_MULTIPLY
               ? "products of complex numbers cannot be scattered; gather, multiply and write with "
                 "index_put instead"
               : NULL;
}

static const char *limit_axis(const struct graph *graph, dim size)
{
    const int64_t high = graph->sizes->nodes.at[size].high;
    return high > SCAN_SIZE_MAX ? "a product of complex numbers needs an axis with a maximum of "
                                  "1048576 or less; give that dim a max at export"
                                : NULL;
}

static const char *limit_cumprod(const struct graph *graph, const struct node *node)
{
    return limit_axis(graph, graph_node(graph, node->arguments[0])->shape[node->attributes.axis]);
}

static const char *limit_prod(const struct graph *graph, const struct node *node)
{
    for (int i = 0; i < node->attributes.axis_count; i++) {
        const char *reason = limit_axis(
            graph, graph_node(graph, node->arguments[0])->shape[node->attributes.axes[i]]);
        if (reason)
            return reason;
    }
    return NULL;
}

static limit_function *const limits[OP_COUNT] = {
    [OP_scatter] = limit_scatter, [OP_prod] = limit_prod, [OP_cumprod] = limit_cumprod};

static const char *limit_cast(const struct graph *graph, const struct node *node)
{
    (void)graph;
    return dtype_is_complex(node->dtype)
               ? NULL
               : "a cast of a complex tensor to a real dtype drops the imaginary part; take .real "
                 "instead, or use the rule set all";
}

static const char *limit_format(const struct graph *graph, const struct node *node)
{
    (void)graph;
    return node->attributes.flag < FORMAT_CHANNELS_LAST
               ? NULL
               : "a channels-last copy of a complex tensor has no equal for pairs; copy it "
                 "contiguous, or use the rule set all";
}

/* What the rule set executorch refuses although the row's rules column has it. */
static limit_function *const limits_executorch[OP_COUNT] = {
    [OP_cast] = limit_cast, [OP_clone] = limit_format, [OP_contiguous] = limit_format};

/* -- the scan ---------------------------------------------------------------------------------- */

static bool touches(const struct graph *graph, const struct node *node, bool is_kind(enum dtype))
{
    bool found = is_kind(node->dtype);
    for (int i = 0; i < node->argument_count && !found; i++)
        found = is_kind(graph_node(graph, node->arguments[i])->dtype);
    return found;
}

static bool is_complex(enum dtype dtype)
{
    return dtype_is_complex(dtype);
}

/* The changed complex buffer whose last write this node belongs to; NULL: none. */
static const struct graph_buffer *buffer_of(const struct graph *graph, const struct node *node)
{
    for (size_t i = 0; node->origin && i < graph->buffers.count; i++) {
        const struct graph_buffer *buffer = &graph->buffers.at[i];
        if (buffer->written && is_same_origin(buffer->writer, node->origin) &&
            dtype_is_complex(buffer->initial->dtype))
            return buffer;
    }
    return NULL;
}

static void refuse_buffer(struct scan *scan, struct refusal refusal,
                          const struct graph_buffer *buffer)
{
    refuse(scan, refusal,
           "it changes the complex buffer \"%s\", which the rule set executorch leaves as it is; "
           "return the new "
           "value instead, or use the rule set all",
           buffer->name);
}

static bool refuse_branch(struct scan *scan, const struct node *node)
{
    const char *branch = node->origin ? node->origin->branch : NULL;
    if (!scan->executorch || !branch)
        return false;
    if (list_branch(scan, branch))
        return true;
    struct refusal refusal = refusal_of(node);
    refusal.target = "cond";
    refusal.node = branch;
    refuse(scan, refusal,
           "a branch of the cond computes with complex tensors, which the rule set executorch "
           "leaves as they "
           "are; compute with reals in it, or use the rule set all");
    return true;
}

static void refuse_complex(struct scan *scan, const struct node *node)
{
    const struct op_info *info = &op_info[node->op];
    limit_function *const limit = limits[node->op], *const stricter = limits_executorch[node->op];
    const char *reason = limit ? limit(scan->graph, node) : NULL;
    if (!reason && scan->executorch && stricter)
        reason = stricter(scan->graph, node);
    if (info->kind != KIND_LEAF && info->complex == COMPLEX_NEVER)
        refuse(scan, refusal_of(node),
               "%s is not defined on complex numbers; take abs(), real or imag first", info->name);
    else if (scan->executorch && info->rules == RULES_ALL)
        refuse(
            scan, refusal_of(node),
            "the rule set executorch has no rule for %s on complex tensors; use the rule set all",
            info->name);
    else if (reason)
        refuse(scan, refusal_of(node), "%s", reason);
    else if (dtype_is_complex(node->dtype) && node->rank == RANK_MAX)
        refuse(scan, refusal_of(node),
               "a complex tensor of %d dims; a pair needs one more, and %d is the most", node->rank,
               RANK_MAX);
}

static void refuse_node(struct scan *scan, const struct node *node)
{
    struct refusal refusal = refusal_of(node);
    refusal.unknown = true;
    if (is_listed(scan, node->origin))
        return;
    if (node->op == OP_unknown) {
        refusal.target = node->attributes.text ? node->attributes.text : refusal.target;
        refuse(scan, refusal, "an operator that Phasor does not know");
        return;
    }
    if (touches(scan->graph, node, is_named)) {
        refuse(scan, refusal, "a tensor of dtype %s; cast to a dtype that is supported",
               dtype_text(node->dtype));
        return;
    }
    if (!touches(scan->graph, node, is_complex))
        return;
    const struct graph_buffer *buffer = scan->executorch ? buffer_of(scan->graph, node) : NULL;
    if (buffer)
        refuse_buffer(scan, refusal_of(node), buffer);
    else if (!refuse_branch(scan, node))
        refuse_complex(scan, node);
}

static void refuse_inputs(struct scan *scan)
{
    for (size_t i = 0; i < scan->graph->inputs.count; i++) {
        const struct graph_input *input = &scan->graph->inputs.at[i];
        const struct node *node = graph_node(scan->graph, input->node);
        const struct refusal refusal = {.target = "input", .node = input->name};
        if (!input->node || !dtype_is_complex(node->dtype))
            continue;
        if (scan->executorch)
            refuse(scan, refusal,
                   "the input \"%s\" is complex; the rule set executorch takes real inputs: pass "
                   "its real view "
                   "and use view_as_complex in the program, or use the rule set all",
                   input->name);
        else if (node->rank == RANK_MAX)
            refuse(scan, refusal, "the input \"%s\" has %d dims; a complex one may have %d",
                   input->name, RANK_MAX, RANK_MAX - 1);
    }
}

static void refuse_outputs(struct scan *scan)
{
    for (size_t i = 0; scan->executorch && i < scan->graph->outputs.count; i++) {
        const struct graph_output *output = &scan->graph->outputs.at[i];
        if (output->node && dtype_is_complex(graph_node(scan->graph, output->node)->dtype))
            refuse(scan, (struct refusal){.target = "output", .node = output->name},
                   "the output \"%s\" is complex; the rule set executorch returns real tensors: "
                   "return view_as_real of it, or "
                   "use the rule set all",
                   output->name);
    }
}

/* Buffers whose write is no node: the file says at its output that they change. */
static void refuse_buffers(struct scan *scan)
{
    for (size_t i = 0; scan->executorch && i < scan->graph->buffers.count; i++) {
        const struct graph_buffer *buffer = &scan->graph->buffers.at[i];
        const struct origin *writer = buffer->writer;
        if (!buffer->written || !dtype_is_complex(buffer->initial->dtype) ||
            is_listed(scan, writer))
            continue;
        refuse_buffer(scan,
                      (struct refusal){.origin = writer,
                                       .target = writer ? writer->target : "output",
                                       .node = writer ? writer->node : buffer->name,
                                       .line = writer ? writer->line : NULL},
                      buffer);
    }
}

phasor_status refuse_graph(const struct graph *graph, phasor_rules rules,
                           struct refusal_list *refusals)
{
    struct scan scan = {
        .graph = graph, .executorch = rules == PHASOR_RULES_EXECUTORCH, .list = refusals};
    refuse_inputs(&scan);
    for (size_t v = 1; v < graph->nodes.count; v++)
        refuse_node(&scan, &graph->nodes.at[v]);
    refuse_buffers(&scan);
    refuse_outputs(&scan);
    intern_free(&scan.listed);
    intern_free(&scan.branches);
    array_free(&scan.origins);
    array_free(&scan.branch_names);
    return scan.status;
}
