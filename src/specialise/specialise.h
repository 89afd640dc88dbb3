/* specialise.h - a program for the sizes, strides and alignments of a call, ready to run.
 *
 * Who is alive when: a program outlives its calls and specialisations. Outputs outlive all of them:
 * they own their memory (output.h) and nothing else.
 */
#pragma once
#include "call/call.h"
#include "call/steps.h"
#include "kernels/kernels.h"

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
    struct ready_step *steps;                  /* those of every call */
    int step_count, launch_count, setup_count; /* launches: of kernels, of every call */
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
/* Steps and tables of a finished recipe: ready.c, tables.c. */
phasor_status steps_ready(struct specialisation *spec, bool ready_only);

/* The stages without a cache, for show: a plan with its sources. */
phasor_status specialise_plan(struct call *call, struct plan *plan);
