/* launches.h - from kernels of a recipe to launches (launches.c), and the tables that they read
 * (tables.c). */
#pragma once
#include "call/output.h"
#include "specialise/specialise.h"

/* What the arguments of a kernel are filled with. */
struct launcher {
    struct phasor_program *program;
    const struct recipe *recipe;
    struct loaded_kernel *const *kernels; /* of the recipe */
    struct memory **weights;
    struct memory *table;
    struct arena *arena; /* of what is made */
    bool ready_only;     /* no table may be filled */
};

phasor_status launch_make(const struct launcher *launcher, int kernel, struct launch *launch);
/* The specialisation's tables, computed or shared; sets launcher->table. */
phasor_status tables_make(struct specialisation *spec, struct launcher *launcher);
