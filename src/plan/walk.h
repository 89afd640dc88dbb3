/* walk.h - which nodes of a plan's graph a kernel computes.
 *
 *     kernel stores %9; %9 <- %7, %8; %8 is kept in memory   ->   %9, %7 and what %7 reads
 */
#pragma once
#include "plan/plan.h"

/* Marks them, from the kernel's stores down to what is kept in memory or is a leaf. marked[] may
 * have the marks of other kernels already. */
void walk_mark(const struct plan *plan, const struct kernel *kernel, bool *marked);
