/* ready.h - from the steps of a recipe to steps that can be issued (ready.c), and the tables that
 * they read (tables.c). */
#pragma once
#include "specialise/specialise.h"

/* What the arguments of steps are filled with. */
struct step_maker {
    struct phasor_program *program;
    const struct recipe *recipe;
    struct loaded_kernel *const *kernels; /* of the recipe */
    struct memory **weights;
    struct memory *table;
    struct arena *arena; /* of what is made */
    bool ready_only;     /* no table may be filled */
};

/* The hoisted steps, or those of every call; what has nothing to do is left out. */
phasor_status ready_steps(const struct step_maker *maker, bool hoisted, struct ready_step **steps,
                          int *count);
/* The specialisation's tables, computed or shared; sets maker->table. */
phasor_status tables_make(struct specialisation *spec, struct step_maker *maker);
