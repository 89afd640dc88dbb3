/* recipe.h - a plan without its graph: all that is needed to run it, and nothing that needs
 * planning or generating.
 *
 *     struct plan (graph, sources)  ->  struct recipe  <->  bytes in the cache's table of plans
 *
 * The bytes come from a file that anything may have happened to: the reader checks every count,
 * index and length.
 */
#pragma once
#include "plan/plan.h"

struct recipe_kernel {
    const char *name, *operators;
    struct hash key;
    const void *key_bytes; /* compared on every hit: the head (recipe_make) and the source without
                              device.cuh */
    size_t key_size;
    const char *source; /* NULL when the recipe came from the cache */
    bool setup;
    uint32_t grid, block;
    int argument_count, argument_bytes, flag_argument;
    const struct recipe_argument *arguments;
    int64_t bytes;
};

/* A step of the plan. Operands are buffers; a kernel's stand among its arguments. */
struct recipe_step {
    enum step_kind kind;
    bool hoisted;
    int kernel;     /* KERNEL: which one */
    int from, to;   /* COPY; FILL: to */
    int64_t nbytes; /* COPY, FILL */
    struct step_library library;
};

struct recipe_argument {
    bool is_buffer;
    int buffer;
    int64_t size;
};

struct recipe_buffer {
    enum buffer_kind kind;
    int index;
    int64_t offset, nbytes;
    int alignment;
};

/* The caller's buffer for this slot may be just the memory of this input. */
struct recipe_pair {
    int output, input;
};

struct recipe {
    struct arena arena;
    struct recipe_kernel *kernels;
    struct recipe_step *steps;
    struct recipe_buffer *buffers;
    struct plan_output *outputs;
    int64_t *memories;
    struct recipe_pair *in_place;
    int kernel_count, step_count, buffer_count, output_count, memory_count, in_place_count;
    int64_t work_bytes, table_bytes;
};

/* donation.c: which of the caller's buffers may be the memory of which inputs. Before codegen,
 * which makes one kernel of several parts. */
phasor_status recipe_find_in_place(struct recipe *recipe, const struct plan *plan,
                                   const struct call_shape *call);
/* The rest, of a plan with sources. head: what kernels' keys begin with, a hash that stands for
 * device.cuh and the compiler's options. */
phasor_status recipe_make(struct recipe *recipe, const struct plan *plan, struct hash head);
/* The same for a plan without sources, whose kernels are those of `like`, a recipe of the plan
 * `from`; values: of the expressions of `from` for this plan's sizes. Names, keys and sources stay
 * those of `like`, which must live as long. setup_only: kernels of every call are left without
 * blocks. */
phasor_status recipe_make_like(struct recipe *recipe, const struct plan *plan,
                               const struct recipe *like, const struct plan *from,
                               const int64_t *values, bool setup_only);
void recipe_free(struct recipe *recipe);

struct recipe_limits {
    int inputs, outputs, states, values; /* what indices may say */
};
phasor_status recipe_write(const struct recipe *recipe, struct text *out);
/* false: these bytes are no recipe for such a program (or memory is out: then *status says so). */
bool recipe_read(struct recipe *recipe, const void *bytes, size_t nbytes,
                 const struct recipe_limits *limits, phasor_status *status);
