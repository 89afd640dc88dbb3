/* job.h - a specialisation in the making, in two steps: those who prepare many of them compile the
 * kernels of all between the steps.
 *
 *     job_open -> job_begin: sizes bound, recipe from the cache or from a plan
 *              -> job_end:   kernels (job_begin has them already where job.found), launches
 *              -> job_close
 */
#pragma once
#include "specialise/specialise.h"

struct job {
    struct call *call;
    struct phasor_program *program;
    struct phasor_runtime *runtime;
    struct specialisation *spec;
    struct arena arena;
    struct call_shape shape;
    int64_t *values; /* of the symbols */
    struct text key; /* of the plan, in the cache */
    struct hash hash;
    bool ready_only; /* nothing may be compiled, loaded or launched: a stream is capturing */
    bool found;      /* the recipe and all of its kernels were in the cache */
};

/* The specialisation is a fresh entry of its program's table. */
void job_open(struct job *job, struct call *call, struct specialisation *spec);
phasor_status job_begin(struct job *job);
phasor_status job_end(struct job *job);
/* status: of the job as a whole. */
void job_close(struct job *job, phasor_status status);

phasor_status job_bind(struct job *job);
/* With literal sizes: plan, sources, and what a call needs of them. */
phasor_status recipe_from_plan(struct phasor_program *program, const struct call_shape *shape,
                               struct recipe *out);
void kernels_release(struct specialisation *spec);

/* Work in the background other than an upgrade. */
phasor_status specialisation_later(struct specialisation *spec, enum later later);

/* Nothing is compiled for it: the CPU device runs the program. */
bool runs_on_cpu(const struct phasor_program *program);
