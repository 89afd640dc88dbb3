/* walk.h - walks over the bound graph of a plan: which nodes a kernel computes.
 *
 *     kernel stores %9; %9 <- %7, %8; %8 is kept in memory   ->   %9, %7 and what %7 reads
 */
#pragma once
#include "plan/plan.h"

/* Marks the nodes that the kernel computes: from its stores down to what is kept in memory or is a leaf. */
void walk_mark(const struct plan *plan, const struct kernel *kernel, bool *marked);
/* Whether computing v reads `leaf`, without what is kept in memory in between; true too when memory is out. */
bool walk_reaches(const struct plan *plan, value v, value leaf);
