/* refusal.h - a place that keeps a program from being rewritten or run, and the list of all of
 * them.
 *
 *     {node "add", target "aten.add.Tensor", reason "the rule set executorch has no rule for add on
 *      complex tensors; ...", line "rope.py:29 in forward, code: a + b"}
 */
#pragma once
#include "graph/graph.h"

struct refusal {
    const struct origin *origin;
    const char *target; /* "aten.fft_fft.default"; "input", "output", "cond" */
    const char *node, *reason, *line;
    bool unknown;
};

/* A growable array (array_push, array_free); strings are in the program's arena. */
struct refusal_list {
    struct refusal *at;
    size_t count, capacity;
};
