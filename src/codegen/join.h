/* join.h - several kernels' sources as one text for NVRTC.
 *
 *     device.cuh + prologue + map.cu   of "mul"            device.cuh
 *     device.cuh + prologue + map.cu   of "mul"     ->     namespace kernel_0 { ... "mul_0" ... }
 *                                                          namespace kernel_1 { ... "mul_1" ... }
 *
 * Reading device.cuh and starting the compiler cost more than a small kernel does. Each kernel's
 * machine code is what it would be alone.
 */
#pragma once
#include "base/memory.h"
#include "base/text.h"

struct joined_kernel {
    const char *source, *name; /* of the kernel alone */
    const char *joined_name;   /* out: its entry in the unit, in the arena */
};

/* All sources have the same device.cuh. */
phasor_status codegen_join(struct joined_kernel *kernels, int count, struct arena *arena,
                           struct text *out);
