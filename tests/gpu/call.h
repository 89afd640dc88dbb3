/* call.h - a program of tests/cases with inputs and outputs of its own in device memory, filled,
 * called and compared. What the programs of this folder share.
 *
 *     phasor_runtime *runtime = runtime_open(PHASOR_MODE_EXACT, 0);
 *     phasor_program *program = program_open(runtime, "bench_rope_bf16");
 *     rope_new(&call, program, 0, 1, 16);                    batch 1, length 16
 *     call_fill(&call, seed, stream);                        random inputs, no outputs
 *     OK(call_run(&call, NULL, stream));
 *     call_read(&call, stream);                              outputs to the host
 *     reference_check(&reference, &call);                    against the CPU device
 *
 * Every call of Phasor or of the driver that must succeed and does not ends the program with the
 * file, the line and the message. */
#pragma once
#include "driver.h"
#include "phasor.h"

#include <stdbool.h>

enum { SLOTS_MOST = 6, RANK_MOST = 6 };

#define OK(call) status_check((call), #call, __FILE__, __LINE__)
void status_check(phasor_status status, const char *call, const char *file, int line);
/* "threads.c:12: thread 3: ..." and exit 1 */
#define WRONG(...) wrong(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void wrong(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

double seconds_now(void);
uint64_t random_next(uint64_t *state); /* splitmix64 */
/* A whole number from `least` on that is argument `index`; `otherwise` when it is not given. */
long argument_number(int count, char **arguments, int index, long least, long otherwise);

/* -- programs ---------------------------------------------------------------------------------- */

/* The folder of cases: the first argument of each program. */
extern const char *cases_folder;

phasor_options options_for(phasor_mode mode, int ordinal); /* a cache in memory */
phasor_runtime *runtime_open(phasor_mode mode, int ordinal);
phasor_program *program_open(phasor_runtime *runtime, const char *name);
phasor_counters counters_of(phasor_runtime *runtime);

/* -- a call ------------------------------------------------------------------------------------ */

/* A row-major tensor. */
struct buffer {
    DLTensor tensor; /* of the device; its shape is the next one */
    int64_t shape[RANK_MOST];
    size_t nbytes;
    unsigned char *host; /* inputs: what it was filled with; outputs: what was read */
};

struct call {
    phasor_program *program;
    struct buffer in[SLOTS_MOST], out[SLOTS_MOST];
    phasor_value inputs[SLOTS_MOST], outputs[SLOTS_MOST];
    int in_count, out_count;
};

/* Memory for tensors of these sizes, in the current context, which is of this device. Outputs that
 * are no tensors are left to the call. */
void call_new(struct call *call, phasor_program *program, int ordinal, const phasor_binding *sizes,
              int size_count);
/* bench_rope_bf16 */
void rope_new(struct call *call, phasor_program *program, int ordinal, int64_t batch,
              int64_t length);
void call_free(struct call *call); /* twice is fine */

/* Random inputs, the same for the same seed; outputs are overwritten. Waits for the stream. */
void call_fill(struct call *call, uint64_t seed, void *stream);
phasor_status call_run(struct call *call, phasor_state *state, void *stream);
/* Outputs to their host memory. Waits for the stream. */
void call_read(struct call *call, void *stream);
/* Both were read: the same bits in every output. */
void call_same(const struct call *got, const struct call *want, const char *what);

/* -- the CPU device ---------------------------------------------------------------------------- */

struct reference {
    phasor_runtime *runtime;
    phasor_program *program;
};
void reference_open(struct reference *reference, const char *name);
void reference_close(struct reference *reference);
/* The outputs that were read are those of the CPU device for these inputs: f32 within 1e-5, bf16
 * within one unit in the last place or 1e-5. */
void reference_check(const struct reference *reference, const struct call *call, const char *what);
