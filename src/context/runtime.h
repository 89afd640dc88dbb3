/* runtime.h - what is opened once: device, cache, compiler, loaded kernels.
 *
 * A runtime outlives its programs. Several devices: a runtime is of one device; those of the other
 * devices are its twins (twins.h), which a call goes to whose tensors are there.
 */
#pragma once
#include "base/log.h"
#include "cache/cache.h"
#include "codegen/templates.h"
#include "compile/nvrtc.h"
#include "device/device.h"
#include "kernels/flight.h"
#include "kernels/turn.h"
#include "library/cublaslt.h"
#include "specialise/background.h"

struct phasor_runtime {
    struct phasor_runtime *first;  /* the one that was opened; itself, where it is no twin */
    struct phasor_runtime **twins; /* of the first, by ordinal, atomic, itself among them; NULL: it
                                      has one device */
    int device_count;              /* of twins */
    pthread_mutex_t twins_lock;    /* of making one, also of programs */

    phasor_options options; /* strings are in the arena */
    struct log_target log;
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
    bool other_plans_told; /* atomic: that the cache has plans of another generator */
    struct background background;
    struct cublaslt *cublaslt; /* of this device; NULL: not there, or not looked for yet */
    bool libraries_known;      /* looked for already */
    int libraries;             /* that are there (enum library) */

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
/* The vendor libraries that are there for its device (enum library), looked for once. */
int runtime_libraries(struct phasor_runtime *runtime);
/* Whether its arch multiplies matrices of 16-bit numbers by instructions that templates use. */
bool runtime_has_tensor_cores(const struct phasor_runtime *runtime);
/* What the runtime has for its device, which is open already: arch, names, loaded kernels. */
phasor_status runtime_open_names(struct phasor_runtime *runtime);
/* Those kernels and the device itself. */
void runtime_close_device(struct phasor_runtime *runtime);
/* Asks the caller's function, which may call the library. */
static inline bool runtime_interrupted(const struct phasor_runtime *runtime)
{
    const phasor_options *options = &runtime->options;
    if (!options->interrupted)
        return false;
    struct log_scope *scope = log_suspend();
    const bool interrupted = options->interrupted(options->interrupted_context);
    log_resume(scope);
    return interrupted;
}
/* The module is unloaded when nothing can be running any more. */
void runtime_retire(struct phasor_runtime *runtime, struct device_module *module);
static inline void count_up(uint64_t *counter, uint64_t by)
{
    __atomic_add_fetch(counter, by, __ATOMIC_RELAXED);
}
