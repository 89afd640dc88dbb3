/* steps.h - the steps of a plan as they are issued on a stream: kernels and copies whose arguments
 * are laid out, but for the addresses that each call brings.
 *
 *     kernel mul, arguments q, freqs, output 0   ->   24 bytes: ?, address of freqs, ?
 *                                                     relocations: q at 0, output 0 at 16
 *     copy input 1 to output 0                   ->   16 bytes: ?, ?    relocations: 0, 8
 */
#pragma once
#include "call/call.h"
#include "device/device.h"
#include "executable/recipe.h"
#include "library/cublaslt.h"

struct memory;

/* A place in a step's arguments that each call fills in. */
struct relocation {
    int at; /* byte in the arguments */
    enum buffer_kind kind;
    int index;
    int64_t offset; /* bytes */
    bool flag;      /* the address of the out-of-range flag */
};

enum { ARGUMENT_BYTES_MAX = 4096 };

struct ready_step {
    enum step_kind kind;
    int argument_bytes, relocation_count;
    char *arguments; /* with what is the same in every call; a copy's are the addresses from, to */
    struct relocation *relocations;
    union {
        struct {
            struct device_function *function;
            uint32_t grid, block;
        } kernel;
        size_t nbytes; /* COPY, FILL */
        struct {
            struct cublaslt *handle;
            struct matmul_call *call;
        } library; /* its arguments are the addresses of a, b, the result and the scratch */
    };
};

/* What the relocations of one call refer to. */
struct step_memory {
    const struct call_slot *inputs, *outputs;
    char *const *states;
    struct memory *const *fresh;
    char *work;
    uint32_t *flag;
};

/* Issues them in order on the stream. */
phasor_status steps_run(struct device *device, void *stream, const struct ready_step *steps,
                        int count, const struct step_memory *memory);
/* Copies without relocations, for this memory: in the arena. */
phasor_status steps_bind(struct arena *arena, const struct ready_step *steps, int count,
                         const struct step_memory *memory, struct ready_step **out);
