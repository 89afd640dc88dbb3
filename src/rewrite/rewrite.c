/* rewrite.c - the passes in order, and what they share; see rewrite.h.
 *
 *     complex, symbolic graph -> complex -> fold -> dot -> simplify -> real, symbolic graph
 */
#include "rewrite/rewrite.h"

#include "base/number.h"

#include <string.h>

/* An empty graph beside `to`, for a result in between. */
static phasor_status rewrite_between(const struct graph *to, struct graph *between)
{
    return graph_init(between, to->arena, to->sizes, to->name);
}

/* What follows once there are no complex numbers left. */
static phasor_status rewrite_real(const struct graph *real, struct graph *to)
{
    struct graph folded = {0}, lowered = {0};
    phasor_status status = rewrite_between(to, &folded);
    if (status == PHASOR_OK)
        status = rewrite_between(to, &lowered);
    if (status == PHASOR_OK)
        status = rewrite_fold(real, &folded);
    if (status == PHASOR_OK)
        status = graph_verify_after(&folded, "fold");
    if (status == PHASOR_OK)
        status = rewrite_dot(&folded, &lowered);
    if (status == PHASOR_OK)
        status = graph_verify_after(&lowered, "dot");
    if (status == PHASOR_OK)
        status = rewrite_simplify(&lowered, to);
    if (status == PHASOR_OK)
        status = graph_verify_after(to, "simplify");
    graph_free(&folded);
    graph_free(&lowered);
    return status;
}

phasor_status rewrite_program(const struct graph *from, struct graph *to,
                              const struct rewrite_options *options, struct refusal_list *refusals,
                              bool *rewritten)
{
    struct graph real = {0};
    fenv_t host;
    *rewritten = false;
    arithmetic_enter(&host);
    phasor_status status = rewrite_between(to, &real);
    if (status == PHASOR_OK)
        status = rewrite_complex(from, &real, options, refusals, rewritten);
    if (status == PHASOR_OK && *rewritten)
        status = graph_verify_after(&real, "complex");
    if (status == PHASOR_OK && *rewritten)
        status = rewrite_real(&real, to);
    *rewritten = *rewritten && status == PHASOR_OK;
    arithmetic_leave(&host);
    graph_free(&real);
    return status;
}

phasor_status rewrite_begin(const struct graph *from, struct graph *to)
{
    for (size_t i = 0; i < from->buffers.count; i++) {
        struct graph_buffer buffer = from->buffers.at[i];
        buffer.node = buffer.written = 0;
        if (!array_push(&to->buffers, buffer))
            return fail_memory();
    }
    return PHASOR_OK;
}

bool rewrite_name_is_made(const struct node *node)
{
    const char *name = op_info[node->op].name;
    const size_t length = strlen(name);
    if (strncmp(node->name, name, length) != 0 || node->name[length] != '.')
        return false;
    const char *number = node->name + length + 1;
    return *number && number[strspn(number, "0123456789")] == '\0';
}

value rewrite_copy(const struct graph *from, struct graph *to, value v, const value *map)
{
    struct node *node = &from->nodes.at[v];
    const value copy = graph_copy_node(to, from, v, map);
    if (copy && rewrite_name_is_made(node)) {
        char *name = arena_format(to->arena, "%s.%u", op_info[node->op].name, copy);
        if (!name)
            return graph_fail(to, PHASOR_ERROR_MEMORY, "out of memory");
        to->nodes.at[copy].name = name;
    }
    return copy;
}

void rewrite_mark_pinned(const struct graph *graph, bool *pinned)
{
    memset(pinned, 0, graph->nodes.count * sizeof *pinned);
    for (size_t i = 0; i < graph->outputs.count; i++)
        pinned[graph->outputs.at[i].node] = true;
    for (size_t i = 0; i < graph->inputs.count; i++)
        pinned[graph->inputs.at[i].written] = true;
    for (size_t i = 0; i < graph->buffers.count; i++)
        pinned[graph->buffers.at[i].written] = true;
    for (size_t v = graph->nodes.count; v-- > 1;) {
        const struct node *node = &graph->nodes.at[v];
        if (pinned[v] && op_info[node->op].kind == KIND_VIEW &&
            op_info[node->op].memory != MEMORY_COPY)
            pinned[node->arguments[0]] = true;
    }
}

phasor_status rewrite_end(const struct graph *from, struct graph *to, const value *map)
{
    TRY(graph_status(to));
    return graph_copy_slots(to, from, map);
}
