/* emit.h - expressions of a trace as lines of CUDA: SSA, one value a line, vector loads and stores.
 *
 *     const vec16 x0 = read16(a.p0, i);
 *     const float v1 = bf16_low(x0.w[0]);
 *     const float v5 = fmaf(v1, v3, v4); // fma
 *     store16(a.p2, i, {{pack_bf16(v5, v6), ...}});
 *
 * An emitter writes the body of one device function. Names are local to it.
 */
#pragma once
#include "codegen/trace.h"

/* What a kernel is given, in the order of its struct. The names say what and which: p0, n1, m2. */
struct arguments {
    ARRAY(struct kernel_argument) list;
    bool sizes_inside; /* a size is more than a number of runs or blocks */
    bool gains;        /* literals would be faster: see kernel.h */
};

/* The number of the argument, which is added when it is not there; -1: out of memory. */
int argument_find(struct arguments *arguments, enum argument_kind kind, int buffer, dim size);

struct emitter {
    struct trace *trace;
    struct text *out;
    struct arguments *arguments;
    bool wide;           /* index_t has 64 bits */
    const int *pointers; /* buffer -> number of its pointer argument; -1 */
    const bool *written; /* buffer -> the kernel stores to it */
    /* what was written already in this function */
    struct emitted {
        bool *at;
        size_t room;
    } atoms, guards, expressions, rounded;
    ARRAY(struct chunk) chunks;
    bool uses_flag;
    phasor_status status;
};

phasor_status emitter_init(struct emitter *emitter, struct trace *trace, struct text *out);
void emitter_free(struct emitter *emitter);

/* Plans the loads of these roots (and what they need) and writes them; values follow where they are
 * asked for. */
void emit_loads(struct emitter *emitter, const expr *roots, int count);
/* The same, and what the addresses need that are read from memory. */
void emit_loads_for(struct emitter *emitter, const expr *roots, int count, const form *addresses,
                    int address_count);
/* Writes what the expression needs; its name, or a literal, goes to `name`. */
enum { NAME_SIZE = 64 };
void emit_value(struct emitter *emitter, expr e, char name[NAME_SIZE]);
/* Stores lanes of a buffer at addresses (forms in elements), as wide as alignment allows. */
void emit_store(struct emitter *emitter, int buffer, const form *addresses, const expr *lanes,
                int count);
/* A form as text: "i / 16 * 32 + 5"; atoms it needs are written first. */
void emit_form(struct emitter *emitter, form f, struct text *out);

const char *emit_type(enum dtype dtype); /* "float" */
void emit_number(enum dtype dtype, struct number number, char name[NAME_SIZE]);
/* A cell of the table with operands put in. */
void emit_cell(const char *cell, enum dtype dtype, const char *const *operands, struct text *out);
/* "const float result2 = round_bf16(x[2]);": what a reduction or scan gives, in its dtype. */
void emit_result(enum dtype dtype, int number, const char *from, struct text *out);
