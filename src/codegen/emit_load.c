/* emit_load.c - the loads of a device function, which come before everything else.
 *
 *     elements q[8*i + 0] ... q[8*i + 7] of bf16      const vec16 x0 = read16(a.p0, i);
 *     elements f[16*s + 2*d], f[16*s + 2*d + 1]       const vec8 x1 = read8(a.p1, s * 8 + d);
 *
 * All elements that a function reads are grouped by buffer, index without its constant, and guard;
 * the constants of a group are covered by aligned chunks of up to 16 bytes that lie between
 * elements which are read anyway. */
#include "codegen/emit_private.h"

#include <stdlib.h>

/* -- loads ------------------------------------------------------------------------------------- */

struct load {
    expr e;
    int buffer;
    form rest;
    guard guard;
    int64_t constant;
};

static int load_compare(const void *a, const void *b)
{
    const struct load *x = a, *y = b;
    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    if (x->guard != y->guard)
        return x->guard < y->guard ? -1 : 1;
    if (x->rest != y->rest)
        return x->rest < y->rest ? -1 : 1;
    return x->constant < y->constant ? -1 : x->constant > y->constant;
}

static bool same_group(const struct load *a, const struct load *b)
{
    return a->buffer == b->buffer && a->guard == b->guard && a->rest == b->rest;
}

static int64_t floor_to(int64_t n, int64_t multiple)
{
    const int64_t rest = n % multiple;
    return n - (rest < 0 ? rest + multiple : rest);
}

/* The widest aligned chunk around loads[at] that reads no element outside the group's and at least
 * half in vain. */
static struct chunk chunk_choose(struct emitter *emitter, const struct load *group, int count,
                                 int at)
{
    const struct load *load = &group[at];
    const struct buffer *buffer = plan_buffer(emitter->trace->plan, load->buffer);
    const int nbytes = dtype_size(buffer->dtype);
    for (int width = 16 / nbytes; width > 1; width /= 2) {
        const int64_t start = floor_to(load->constant, width);
        if (buffer->alignment < width * nbytes || start < group[0].constant ||
            start + width - 1 > group[count - 1].constant ||
            !index_is_multiple(&emitter->trace->index, load->rest, width))
            continue;
        int used = 0;
        for (int i = 0; i < count; i++)
            used += group[i].constant >= start && group[i].constant < start + width;
        if (2 * used >= width)
            return (struct chunk){load->buffer, width, load->rest, load->guard, start, false};
    }
    return (struct chunk){load->buffer, 1, load->rest, load->guard, load->constant, false};
}

static void chunks_of_group(struct emitter *emitter, const struct load *group, int count)
{
    for (int i = 0; i < count;) {
        const struct chunk chunk = chunk_choose(emitter, group, count, i);
        if (!array_push(&emitter->chunks, chunk)) {
            emitter_fail(emitter, fail_memory());
            return;
        }
        while (i < count && group[i].constant < chunk.start + chunk.width)
            i++;
    }
}

/* Marks what the roots need; an index read from memory needs its own loads. */
static void mark_form(const struct emitter *emitter, form f, bool *needed);

static void mark_needed(const struct emitter *emitter, expr e, bool *needed)
{
    if (needed[e])
        return;
    needed[e] = true;
    const struct expression *at = expression_at(emitter, e);
    for (int i = 0; i < at->argument_count; i++)
        mark_needed(emitter, at->arguments[i], needed);
    if (at->kind == EXPR_LOAD || at->kind == EXPR_INDEX)
        mark_form(emitter, at->index, needed);
    for (guard g = at->guard; g; g = emitter->trace->guards.at[g].parent)
        mark_form(emitter, emitter->trace->guards.at[g].a, needed);
}

static void mark_form(const struct emitter *emitter, form f, bool *needed)
{
    const struct index_form *at = &emitter->trace->index.forms.at[f];
    for (int i = 0; i < at->count; i++) {
        const struct index_atom *a = &emitter->trace->index.atoms.at[at->terms[i].atom];
        if (a->kind == ATOM_DIGIT)
            mark_form(emitter, a->base, needed);
        else if (a->kind == ATOM_VALUE)
            mark_needed(emitter, a->source, needed);
    }
}

static int collect_loads(struct emitter *emitter, const bool *needed, struct load *loads)
{
    int count = 0;
    for (expr e = 1; e < emitter->trace->expressions.count; e++) {
        const struct expression *at = expression_at(emitter, e);
        if (!needed[e] || at->kind != EXPR_LOAD)
            continue;
        struct load load = {e, at->buffer, at->index, at->guard, 0};
        index_split(&emitter->trace->index, at->index, &load.rest, &load.constant);
        loads[count++] = load;
    }
    return count;
}

static void plan_chunks(struct emitter *emitter, struct load *loads, int count)
{
    qsort(loads, (size_t)count, sizeof *loads, load_compare);
    for (int start = 0; start < count;) {
        int end = start + 1;
        while (end < count && same_group(&loads[start], &loads[end]))
            end++;
        chunks_of_group(emitter, loads + start, end - start);
        start = end;
    }
}

int chunk_find(const struct emitter *emitter, const struct expression *load, int *element)
{
    form rest = load->index;
    int64_t constant = 0;
    index_split(&emitter->trace->index, load->index, &rest, &constant);
    for (size_t i = 0; i < emitter->chunks.count; i++) {
        const struct chunk *c = &emitter->chunks.at[i];
        if (c->buffer == load->buffer && c->rest == rest && c->guard == load->guard &&
            constant >= c->start && constant < c->start + c->width) {
            *element = (int)(constant - c->start);
            return (int)i;
        }
    }
    return -1;
}

/* The index of an aligned run of `width` elements, in runs. */
form emit_run_index(struct emitter *emitter, form rest, int64_t start, int width)
{
    struct index_pool *index = &emitter->trace->index;
    const form whole = index_offset(index, rest, size_literal(index->sizes, start));
    return width == 1 ? whole : index_divide(index, whole, size_literal(index->sizes, width));
}

/* What is read again in later passes over the same elements is kept in the cache, before what is
 * read once: a table of angles that all batches share. */
static const char *load_function(const struct emitter *emitter, const struct chunk *c)
{
    if (emitter->written[c->buffer])
        return "load";
    return index_repeats(&emitter->trace->index, c->rest) ? "keep" : "read";
}

void emit_chunk(struct emitter *emitter, int at)
{
    struct chunk *c = &emitter->chunks.at[at];
    if (c->written)
        return;
    c->written = true;
    const int nbytes = c->width * dtype_size(plan_buffer(emitter->trace->plan, c->buffer)->dtype);
    const int words = nbytes < 4 ? 4 : nbytes;
    struct text index = {0};
    emit_guard(emitter, c->guard);
    emit_form(emitter, emit_run_index(emitter, c->rest, c->start, c->width), &index);
    text_format(emitter->out, "    const vec%d x%d = ", words, at);
    if (c->guard)
        text_format(emitter->out, "!g%u ? vec%d{} : ", c->guard, words);
    text_format(emitter->out, "%s%d(a.p%d, %s);\n", load_function(emitter, c), nbytes,
                emitter->pointers[c->buffer], text_get(&index));
    if (index.failed)
        emitter_fail(emitter, fail_memory());
    text_free(&index);
}

void emit_loads(struct emitter *emitter, const expr *roots, int count)
{
    emit_loads_for(emitter, roots, count, NULL, 0);
}

void emit_loads_for(struct emitter *emitter, const expr *roots, int count, const form *addresses,
                    int address_count)
{
    const size_t expressions = emitter->trace->expressions.count;
    bool *needed = memory_new(expressions);
    struct load *loads = memory_new(expressions * sizeof *loads);
    if (needed && loads) {
        for (int i = 0; i < count; i++)
            mark_needed(emitter, roots[i], needed);
        for (int i = 0; i < address_count; i++)
            mark_form(emitter, addresses[i], needed);
        const int load_count = collect_loads(emitter, needed, loads);
        plan_chunks(emitter, loads, load_count);
        for (size_t i = 0; i < emitter->chunks.count; i++)
            emit_chunk(emitter, (int)i);
    } else {
        emitter_fail(emitter, fail_memory());
    }
    memory_free(needed);
    memory_free(loads);
}
