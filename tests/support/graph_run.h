/* graph_run.h - a graph by its generated kernels, compiled as C++ and run on the CPU, on memory of
 * any strides with sentinels around it.
 *
 *     graph_run_open(&run, &loaded, &real);
 *     graph_run_input(&run, 0, RUN_TRANSPOSED, seed);         memory and values of each input
 *     graph_run_plan(&run, &templates, options)               kernels with sources
 *     graph_run_compile(runs, 40, &module);                   one compiler call for all of them
 *     graph_run_launch(&run, module)
 *     graph_run_check(&run, &run.plan.graph, why, size)       == the evaluator; sentinels unchanged
 *     graph_run_close(&run);
 *
 * Running out of memory fails the test; all else is a status.
 */
#pragma once
#include "codegen/codegen.h"
#include "eval/eval.h"
#include "host_run.h"

enum run_layout {
    RUN_CONTIGUOUS,
    RUN_TRANSPOSED, /* the first dim runs fastest */
    RUN_EXPANDED,   /* the first dim of more than one element has stride 0 */
    RUN_OFFSET,     /* starts three elements after an aligned address */
    RUN_UNALIGNED,  /* starts one element after it */
    RUN_GAPS,       /* rows lie three elements apart */
    RUN_STEPS,      /* every second element */
    RUN_LAYOUT_COUNT
};

/* Memory of one tensor: sentinels, elements, sentinels. */
struct run_tensor {
    enum dtype dtype;
    struct call_tensor shape; /* of the real graph */
    char *block, *before;     /* as it is; as it was before the launch */
    char *data;               /* the first element, in block */
    size_t nbytes;            /* of block */
};

enum { RUN_SLOTS = 48 };

struct graph_run {
    const struct graph *logical, *real;
    struct call_shape call;
    struct call_tensor call_inputs[RUN_SLOTS], call_outputs[RUN_SLOTS];
    int64_t integers[RUN_SLOTS];
    struct run_tensor inputs[RUN_SLOTS], outputs[RUN_SLOTS], states[RUN_SLOTS], memories[RUN_SLOTS];
    struct run_tensor work, tables;
    struct plan_options options;
    struct plan plan;
    bool planned;
    int first; /* of its kernels in the module */
    uint32_t flag;
};

/* real may be the same graph when it has no complex numbers. */
void graph_run_open(struct graph_run *run, const struct graph *logical, const struct graph *real);
void graph_run_close(struct graph_run *run);
/* Memory for input `slot` in this layout with random values of the seed. */
void graph_run_input(struct graph_run *run, int slot, enum run_layout layout, uint64_t seed);
/* The caller's buffer for output `slot`; all slots or none. The layout may not be RUN_EXPANDED. */
void graph_run_slot(struct graph_run *run, int slot, enum run_layout layout);

phasor_status graph_run_plan(struct graph_run *run, const struct templates *templates,
                             struct plan_options options);
bool graph_run_compile(struct graph_run *const *runs, int count, struct host_module **module);
phasor_status graph_run_launch(struct graph_run *run, struct host_module *module);

/* Evaluates the logical, the real or the bound graph on the values that were there before. */
phasor_status graph_run_eval(const struct graph_run *run, const struct graph *graph,
                             struct eval_results *out);
/* What the launch left in output `slot`, as a row-major tensor. */
void graph_run_output(const struct graph_run *run, int slot, struct eval_tensor *out);

/* How far a value may be from the evaluator's: |difference| <= relative * |value| + absolute. */
struct run_tolerance {
    double relative, absolute;
};
/* Outputs, written inputs and written buffers against the evaluator on `graph`; tolerances by
 * output slot (NULL: bit for bit). And all sentinels, and whatever the program may not write. */
bool graph_run_check(const struct graph_run *run, const struct graph *graph,
                     const struct run_tolerance *tolerances, char *why, size_t size);
bool run_tensors_agree(const struct eval_tensor *got, const struct eval_tensor *expected,
                       struct run_tolerance tolerance, char *why, size_t size);
