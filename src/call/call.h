/* call.h - one call of a program: its slots as they were read, and the key of what serves it.
 *
 *     phasor_run(inputs)
 *       -> call_read()          slots checked; the words that a specialisation depends on
 *       -> specialisation_get() found by these words, or made
 *       -> cuda_run(), cpu_run()  arguments, launches, outputs
 */
#pragma once
#include "call/state.h"
#include "context/program.h"

struct specialisation;

enum { CALL_WORDS = 512, CALL_SLOTS = 32 };

struct call_slot {
    char *bytes;       /* of the first element, as the caller has it; scalars: of `number` */
    char *used;        /* CUDA: the address that kernels use */
    bool tensor, host; /* host memory on a CUDA device */
    int64_t low, high; /* bytes of its elements, relative to `bytes`; equal when it has none */
    int number;        /* of its record in the words: index of its rank */
    double real;       /* FLOAT */
    uint8_t boolean;   /* BOOL */
};

/* SHAPES: prepare and show; nothing is read or written. */
enum call_form { CALL_OWNED, CALL_INTO, CALL_SHAPES, CALL_SHAPES_INTO };

struct call {
    struct phasor_program *program;
    const phasor_value *inputs;
    phasor_value *outputs;
    enum call_form form;
    void *stream;
    struct call_slot *in, *out; /* out: call_is_into */
    int64_t *words; /* what a specialisation depends on; call.c says how they are laid out */
    size_t word_count, word_capacity;
    bool in_place;  /* an output is just the memory of an input */
    bool capturing; /* the stream is being captured into a graph; asked once */
    int64_t word_space[CALL_WORDS];
    struct call_slot in_space[CALL_SLOTS], out_space[CALL_SLOTS];
};

/* The tensor of a value; NULL where it has none. */
static inline const DLTensor *value_tensor(const phasor_value *v)
{
    return v->kind == PHASOR_TENSOR              ? v->tensor
           : v->kind == PHASOR_OWNED && v->owned ? &v->owned->dl_tensor
                                                 : NULL;
}
static inline bool call_is_into(const struct call *c)
{
    return c->form == CALL_INTO || c->form == CALL_SHAPES_INTO;
}
static inline bool call_is_shapes(const struct call *c)
{
    return c->form == CALL_SHAPES || c->form == CALL_SHAPES_INTO;
}
/* Sizes, strides (NULL: row-major), and the bytes of the elements beside the first one; equal for
 * an empty tensor. All sums of them fit; false where they would not, or a size is negative. */
bool tensor_measure(const DLTensor *tensor, int nbytes, int64_t *sizes, int64_t *strides,
                    int64_t *low, int64_t *high);
/* Checks the slots: count, kind, dtype, rank, device, overlaps. Sizes are checked by the
 * specialisation. call_free always. */
phasor_status call_read(struct call *call, struct phasor_program *program, enum call_form form,
                        const phasor_value *inputs, int input_count, phasor_value *outputs,
                        int output_count);
/* CALL_SHAPES_INTO with buffers like these outputs: their order of dims, without gaps. */
phasor_status call_read_into(struct call *call, struct phasor_program *program,
                             const phasor_value *inputs, int input_count,
                             const struct plan_output *outputs);
void call_free(struct call *call);
/* Strides without gaps for dims in the order of the given ones, the largest first; equal ones as
 * they stand. */
void strides_close(int rank, const int64_t *sizes, const int64_t *order, int64_t *strides);
/* Nothing that is written has two elements in one place. Once for the words: they hold sizes and
 * strides. */
phasor_status call_check_strides(const struct call *call);
/* What the planner wants to know; logical: a complex tensor has no pair dim. In the arena. */
phasor_status call_describe(const struct call *call, bool logical, struct arena *arena,
                            struct call_shape *out);
static inline int call_rank(const struct call *c, const struct call_slot *s)
{
    return (int)c->words[s->number];
}
static inline const int64_t *call_sizes(const struct call *c, const struct call_slot *s)
{
    return c->words + s->number + 2;
}
static inline const int64_t *call_strides(const struct call *c, const struct call_slot *s)
{
    return call_sizes(c, s) + call_rank(c, s);
}
/* Each output that is just the memory of an input is one of the pairs that allow that. */
phasor_status call_check_in_place(const struct call *call, const struct recipe_pair *pairs,
                                  int count);

/* -- running it -------------------------------------------------------------------------------- */

phasor_status cpu_run(struct call *call, struct specialisation *spec, struct phasor_state *state);
phasor_status cuda_run(struct call *call, struct specialisation *spec, struct phasor_state *state);
/* Frees what output slots before `count` own. */
void outputs_drop(phasor_value *outputs, int count);
