/* units.h - kernels that are compiled together.
 *
 *     recipe kernels of many specialisations  ->  units_add() ... units_flush()
 *         those that no table, cache or other thread has  ->  NVRTC units of about 32
 *         each unit  ->  one row of the cache, 32 loaded kernels
 */
#pragma once
#include "compile/nvrtc.h"
#include "kernels/kernels.h"
#include "kernels/turn.h"

/* -- one kernel: kernels.c --------------------------------------------------------------------- */

/* From a cubin, whatever its kernel is called there. */
phasor_status kernel_load(struct phasor_runtime *runtime, struct loaded_kernel *kernel,
                          const void *cubin, size_t nbytes, const char *name);
/* From the cache. */
phasor_status kernel_lookup(struct phasor_runtime *runtime, const struct recipe_kernel *wanted,
                            struct loaded_kernel *kernel, bool *found);

/* -- one unit ---------------------------------------------------------------------------------- */

struct unit_part {
    const struct recipe_kernel *wanted; /* with its source */
    struct loaded_kernel *kernel;       /* out */
};

/* Compiles, loads and stores them: all, or none. A single kernel is compiled as it is, several with
 * numbers behind their names. */
phasor_status unit_compile(struct phasor_runtime *runtime, struct compiler *compiler,
                           const struct unit_part *parts, int count);

/* -- many kernels ------------------------------------------------------------------------------ */

struct gathered {
    struct recipe_kernel
        wanted; /* the source is valid until units_flush, the key until units_clear */
    struct loaded_kernel *kernel; /* held until units_clear */
    bool owned;                   /* between the claim and flight_done */
    struct turn turn;             /* as long as it is owned */
    phasor_status status;
    char *message;
};

struct units {
    struct phasor_runtime *runtime;
    struct arena arena;
    ARRAY(struct gathered) list;
};

/* A kernel that is not added, for want of memory, is one that kernel_get makes alone. */
void units_add(struct units *units, const struct recipe_kernel *wanted);
/* Compiles what is missing. Never waits for another thread's kernel: kernel_get does, later. The
 * kernels are kept loaded until units_clear, so that kernel_get finds them; a failure is told by
 * units_status. */
phasor_status units_flush(struct units *units);
/* With its message: PHASOR_OK also for a kernel that another thread is making. */
phasor_status units_status(const struct units *units, const struct recipe_kernel *wanted);
void units_clear(struct units *units);
