/* codegen.h - a plan's kernels as CUDA: source, name, geometry, arguments.
 *
 *     kernel {map, stores: to -> output 0}  ->  device.cuh + prologue (types, constants, struct
 *                                               args, body) + map.cu
 *
 * The source holds no name of the file, no line and no weight: programs that are the same give the
 * same text.
 */
#pragma once
#include "codegen/templates.h"
#include "plan/plan.h"

/* Fills in what `struct kernel` says codegen adds, for every kernel of the plan, in the plan's
 * arena. */
phasor_status codegen_plan(struct plan *plan, const struct templates *templates);
