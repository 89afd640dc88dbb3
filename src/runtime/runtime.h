/* runtime.h - what the files of src/runtime/ share: the runtime, a program, a call, a
 * specialisation, a state.
 *
 *     phasor_run(inputs)
 *       -> call_read()          call.c        slots checked; the words that a specialisation
 *                                             depends on
 *       -> specialisation_get() specialise.c  found by these words, or made: plan, codegen, cache,
 *                                             compile, load
 *       -> cuda_run(), cpu_run()              arguments, launches, outputs
 *
 * Who is alive when: a runtime outlives its programs, a program its calls and states. Outputs
 * outlive all of them: they own their memory (output.h) and nothing else.
 *
 * Several devices: runtime and program are each of one device. Those of the other devices are their
 * twins (twins.h), which a call goes to whose tensors are there.
 */
#pragma once
#include "cache/cache.h"
#include "codegen/codegen.h"
#include "codegen/templates.h"
#include "compile/nvrtc.h"
#include "device/device.h"
#include "load/load.h"
#include "plan/plan.h"
#include "runtime/background.h"
#include "runtime/flight.h"
#include "runtime/output.h"
#include "runtime/classes.h"
#include "runtime/recipe.h"
#include "runtime/turn.h"

/* -- the runtime ------------------------------------------------------------------------------- */

struct phasor_runtime {
    struct phasor_runtime *first;  /* the one that was opened; itself, where it is no twin */
    struct phasor_runtime **twins; /* of the first, by ordinal, atomic, itself among them; NULL: it
                                      has one device */
    int device_count;              /* of twins */
    pthread_mutex_t twins_lock;    /* of making one, also of programs */

    phasor_options options; /* strings are in the arena */
    struct arena arena;
    phasor_device_kind device_kind;        /* CPU, CUDA or NONE: what is in use */
    bool device_is_default;                /* programs that cannot be rewritten go to the CPU */
    struct device *device;                 /* CUDA */
    const char *device_text, *arch, *dump; /* dump: directory for sources and cubins, or NULL */
    struct cache *cache;
    struct templates templates;
    struct flight_table kernels; /* struct loaded_kernel: by source, so that programs share them */

    /* Of the first alone, which has it for its twins too: to retired_lock. */
    struct turns turns;
    pthread_mutex_t compiler_lock;
    struct compiler *compiler; /* opened at the first miss */
    bool compiler_tried;
    char *compiler_message; /* why there is none */
    char *toolchain; /* what counts as ours in the cache; NULL: not known yet, or no compiler */
    bool toolchain_known;
    struct background background;

    pthread_mutex_t retired_lock;
    struct device_module **retired; /* modules that work in flight may still use */
    int retired_count;

    uint64_t compiled, compile_units, compile_failures, specialisations, launches; /* atomic */
};

/* The compiler, opened once. PHASOR_ERROR_COMPILE with the reason, each time, when there is none.
 */
phasor_status runtime_compiler(struct phasor_runtime *runtime, struct compiler **out);
/* The toolchain whose rows are hits, without starting it where the cache has noted its version;
 * NULL: any. */
const char *runtime_toolchain(struct phasor_runtime *runtime);
/* What the runtime has for its device, which is open already: arch, names, loaded kernels. */
phasor_status runtime_open_names(struct phasor_runtime *runtime);
/* Those kernels and the device itself. */
void runtime_close_device(struct phasor_runtime *runtime);
/* The module is unloaded when nothing can be running any more. */
void runtime_retire(struct phasor_runtime *runtime, struct device_module *module);
static inline void count_up(uint64_t *counter, uint64_t by)
{
    __atomic_add_fetch(counter, by, __ATOMIC_RELAXED);
}

/* -- kernels ----------------------------------------------------------------------------------- */

struct loaded_kernel {
    struct flight flight; /* first */
    struct phasor_runtime *runtime;
    struct device_module *module; /* NULL on a runtime that runs nothing */
    struct device_function *function;
};

/* The kernel of a recipe: loaded already, in the cache, or compiled from its source. Without a
 * source a kernel that the cache does not have gives *missing and PHASOR_OK. Release with
 * flight_release(&runtime->kernels, ...). */
phasor_status kernel_get(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                         struct loaded_kernel **out, bool *missing);
/* One that is loaded; PHASOR_NOT_READY: it is not. */
phasor_status kernel_ready(struct phasor_runtime *runtime, const struct recipe_kernel *kernel,
                           struct loaded_kernel **out);
void kernel_destroy(struct flight *entry);

/* -- programs ---------------------------------------------------------------------------------- */

/* The loaded file: outputs that view weights keep it alive. */
struct program_file {
    int references; /* atomic */
    struct loaded_program loaded;
    struct graph real; /* in the loaded arena and pool; empty when it was not rewritten */
};
void program_file_release(void *file);

/* What a slot must be; so that a warm call looks at one short row a slot. */
struct slot {
    const char *name;
    phasor_kind kind;
    enum dtype dtype;
    int rank;      /* logical */
    bool constant; /* an input that must have this value, an output that always has it */
    bool scalar;   /* a FLOAT or BOOL that is computed with */
    bool written;  /* an input that the program changes */
    phasor_value expected;
};

struct phasor_program {
    struct phasor_program *first;  /* the one that was loaded; itself, where it is no twin */
    struct phasor_program **twins; /* as those of the runtime; NULL: it runs on one device */
    struct phasor_runtime *runtime;
    struct program_file *file;
    uint64_t id;
    bool rewritten, unknown; /* unknown: nothing can run it */
    bool on_cuda;
    struct slot *inputs, *outputs;
    phasor_spec *input_specs, *output_specs;
    int input_count, output_count;
    struct flight_table specialisations; /* struct specialisation */
    struct plan_classes classes;         /* of those whose kernels serve many sizes */
    pthread_mutex_t workspace_lock;
    struct workspace *workspaces;
    void *canonical; /* the graph without names, lines and values of weights */
    size_t canonical_size;
    struct hash canonical_hash;

    pthread_mutex_t lock;    /* of the rest */
    struct memory **weights; /* CUDA: by value number of the OP_data node; one memory a storage */
    struct phasor_state *own;
};

void program_open_locks(struct phasor_program *program);
/* Of specialisations; the real graph is there. */
phasor_status program_open_table(struct phasor_program *program);

static inline const struct graph *program_logical(const struct phasor_program *p)
{
    return &p->file->loaded.graph;
}
/* The graph that plans are made of. */
static inline const struct graph *program_real(const struct phasor_program *p)
{
    return p->rewritten ? &p->file->real : &p->file->loaded.graph;
}
/* Canonical bytes of a graph: equal for programs that give the same plans. */
phasor_status canonical_print(const struct graph *graph, struct text *out);
/* PHASOR_ERROR_REFUSED, with all that is unknown, when nothing can run the program; or when an
 * explicit CUDA device cannot. */
phasor_status program_check_runnable(const struct phasor_program *program);
/* Device addresses of weights, uploaded at the first call. */
phasor_status weights_get(struct phasor_program *program, struct memory ***out);
void weights_free(struct phasor_program *program);
/* The extent of strided data in elements: the lowest and highest that it shows; false when it shows
 * none. */
bool data_extent(int rank, const int64_t *sizes, const int64_t *strides, int64_t *low,
                 int64_t *high);

/* -- state ------------------------------------------------------------------------------------- */

struct phasor_state {
    struct phasor_program *owner;   /* the one that was loaded */
    struct phasor_program *program; /* itself or the twin whose device the buffers are on; NULL: not
                                       used yet, and without buffers */
    struct memory **buffers; /* one a buffer of the graph, with the strides of its initial value */
    char **addresses;        /* of their first elements */
    int count;
    uint32_t *flag;       /* an index was out of range; host memory that kernels reach */
    pthread_mutex_t lock; /* CPU device: one call at a time */
};

/* The state itself, which gets its buffers by its first use, or the program's own for NULL. */
phasor_status state_get(struct phasor_program *program, struct phasor_state *state,
                        struct phasor_state **out);
/* Reports an index that was out of range, once. */
phasor_status state_report(struct phasor_state *state);

/* -- a call ------------------------------------------------------------------------------------ */

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
/* No output has two elements in one place. Once for the words: they hold its sizes and strides. */
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

/* -- specialisations --------------------------------------------------------------------------- */

/* A place in a kernel's arguments that each call fills in. */
struct patch {
    int at; /* byte in the arguments */
    enum buffer_kind kind;
    int index;
    int64_t offset; /* bytes */
    bool flag;      /* the address of the out-of-range flag */
};

enum { ARGUMENT_BYTES_MAX = 4096 };

struct launch {
    struct device_function *function;
    uint32_t grid, block;
    int argument_bytes, patch_count;
    char *arguments; /* with what is the same in every call */
    struct patch *patches;
};

struct workspace {
    struct memory *memory;
    struct device_event *event; /* after its last use */
    void *stream;               /* of its last use */
    bool busy, captured;        /* captured: it belongs to graphs captured from `stream` */
    struct workspace *next;
};

struct specialisation {
    struct flight flight; /* first */
    struct phasor_program *program;
    /* CUDA */
    struct recipe recipe;
    struct loaded_kernel **kernels;
    struct launch *launches; /* those of every call */
    int launch_count, setup_count;
    struct memory *table;
    /* CPU */
    struct plan_class
        *class;       /* whose kernels it has, with sizes as arguments; NULL: literal sizes */
    int64_t *symbols; /* for the class */
    struct call_shape *shape; /* for work in the background; NULL: none is wanted */
    bool makes_do;            /* with kernels for any strides and alignments: LATER_CLASS */
    struct upgrade *upgrade;
    bool upgrade_begun, upgraded; /* atomic */
    uint64_t uses;                /* calls, about */
    struct plan bound;            /* the loaded graph for these sizes, and nothing planned */
    struct layout *layouts;
};

static inline uint64_t specialisation_uses(const struct specialisation *spec)
{
    return __atomic_load_n(&spec->uses, __ATOMIC_RELAXED);
}

/* Whether its kernels have literal sizes from the beginning. */
bool program_is_exact(const struct phasor_program *program);

/* What fits the call; made now unless the stream captures. */
phasor_status specialisation_get(struct call *call, struct specialisation **out);
void specialisation_destroy(struct flight *entry);
/* Launches and tables of a finished recipe: bind_launches.c. */
phasor_status launches_make(struct specialisation *spec, bool ready_only);

/* The kernels before codegen makes one of those that go out in one launch. */
struct plan_parts {
    const struct kernel *at;
    size_t count;
};

/* The stages without a cache, for show: a plan with its sources. */
phasor_status specialise_plan(struct call *call, struct plan *plan);
phasor_status specialise_parts(struct call *call, struct plan *plan, struct plan_parts *parts);

phasor_status cpu_run(struct call *call, struct specialisation *spec, struct phasor_state *state);
phasor_status cuda_run(struct call *call, struct specialisation *spec, struct phasor_state *state);
/* Frees what output slots before `count` own. */
void outputs_drop(phasor_value *outputs, int count);
