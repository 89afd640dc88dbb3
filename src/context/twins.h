/* twins.h - several devices in one runtime: each call goes to the device of its tensors.
 *
 *     a program on a runtime of cuda:0, called with tensors on cuda:1
 *         -> a twin of the runtime: the second device, its arch, the kernels loaded there
 *         -> a twin of the program: specialisations, weights, tables and state there
 *         -> the call runs on these, as it would on a runtime of cuda:1 alone
 *
 * Shared with the first: the graphs and all that was made of the file, options, templates, the
 * cache, the compiler, the threads in the background. Twins are made at the first call that needs
 * them, and closed with the first. A failure to make one is that call's; the next one tries again.
 */
#pragma once
#include "call/state.h"

/* Room for twins, where the caller named no device and there are several. */
phasor_status runtime_twins_open(struct phasor_runtime *first);
void runtime_twins_close(struct phasor_runtime *first);
phasor_status program_twins_open(struct phasor_program *first);
void program_twins_close(struct phasor_program *first);

/* The runtime itself for memory of its own device or of none, else its twin on that device. */
phasor_status runtime_for(struct phasor_runtime *first, const DLTensor *tensor,
                          struct phasor_runtime **out);
/* The twin on that device if there is one by now; NULL otherwise. */
static inline struct phasor_program *program_twin(const struct phasor_program *first, int ordinal)
{
    return __atomic_load_n(&first->twins[ordinal], __ATOMIC_ACQUIRE);
}
/* What a call runs on, of a program with twins: of the device of its first CUDA tensor, of inputs
 * before outputs; else of its state; else the first. */
phasor_status program_for(struct phasor_program *first, const struct phasor_state *state,
                          const phasor_value *inputs, int input_count, const phasor_value *outputs,
                          int output_count, void *stream, struct phasor_program **out);
