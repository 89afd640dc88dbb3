/* workspace.h - memory for what kernels hand to each other within a call of phasor_run_into.
 *
 *     stream 1 ─ call ─ call ─     one workspace, its calls in the order of the stream
 *     stream 2 ─ call ─            another
 *
 * A program keeps a few, of sizes that are powers of two. A call takes one that no other call is
 * just issuing work with, first of all the one that its stream used last, and lets the stream wait
 * for the event after the last use: right for any number of threads and streams, also when a stream
 * was destroyed and another has its address. Nothing is allocated but the first time on a stream.
 *
 * What a stream captures keeps its workspace for good: the graph holds its address. Graphs captured
 * from one stream share it, so they must not be replayed at the same time.
 */
#pragma once
#include "specialise/specialise.h"

/* *out is NULL when the specialisation needs none. PHASOR_NOT_READY: the stream captures and there
 * is none. */
phasor_status workspace_take(struct specialisation *spec, void *stream, bool capturing,
                             struct workspace **out);
/* After the launches. */
phasor_status workspace_give(struct phasor_program *program, struct workspace *workspace,
                             void *stream);
void workspaces_free(struct phasor_program *program);
