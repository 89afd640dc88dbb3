/* emit_private.h - what emit.c and emit_load.c share. */
#pragma once
#include "codegen/emit.h"

struct chunk {
    int buffer, width; /* elements */
    form rest;
    guard guard;
    int64_t start;
    bool written;
};

static inline const struct expression *expression_at(const struct emitter *emitter, expr e)
{
    return &emitter->trace->expressions.at[e];
}

void emitter_fail(struct emitter *emitter, phasor_status status);
void emit_guard(struct emitter *emitter, guard g);   /* "const bool g3 = ...;", once */
void emit_chunk(struct emitter *emitter, int chunk); /* "const vec16 x3 = ...;", once */
int chunk_find(const struct emitter *emitter, const struct expression *load,
               int *element); /* -1: none was planned */
/* The index of an aligned run of `width` elements, in runs. */
form emit_run_index(struct emitter *emitter, form rest, int64_t start, int width);
