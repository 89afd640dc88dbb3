/* load.h - from a file to a graph.
 *
 *     rope.pt2 -> load_pt2() -> graph with complex numbers and symbols, weights mapped, refusals
 *
 * The result owns its graph, weights and arena; program_free gives all back.
 */
#pragma once
#include "graph/graph.h"
#include "graph/refusal.h"

struct loaded_program {
    struct arena arena;
    struct sizes sizes;
    struct graph graph;
    struct refusal_list refusals; /* unknown operators and dtypes */
    struct load_memory *memory;   /* mapped or read weights */
};

/* model: NULL for the only one. */
phasor_status load_pt2(const char *path, const char *model, struct loaded_program *out);
phasor_status load_pt2_memory(const void *bytes, size_t nbytes, const char *name, const char *model,
                              struct loaded_program *out);
/* .phasor text with NAME.safetensors beside it. */
phasor_status load_text(const char *path, struct loaded_program *out);
/* By content: zip or text. */
phasor_status load_program(const char *path, const char *model, struct loaded_program *out);
void load_free(struct loaded_program *program);
