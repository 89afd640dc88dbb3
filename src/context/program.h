/* program.h - a loaded program: its graphs, slots, weights and specialisations. */
#pragma once
#include "context/runtime.h"
#include "load/load.h"
#include "specialise/classes.h"

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
/* The vendor libraries that plans of the program may call: none are looked for where it has no use
 * for them. */
int program_libraries(const struct phasor_program *program);
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
