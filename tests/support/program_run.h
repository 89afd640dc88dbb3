/* program_run.h - a program given as text, run three ways on given numbers: by the evaluator as it
 * was loaded, by the evaluator after the rewrite, and by its generated kernels compiled as C++.
 *
 *     program_open(&p, "phasor 1 \"sum\"\ninput x: c64[2]\n...");
 *     program_numbers(&p, 0, (double[]){1, 2, 3, -4}, 4);        1+2i, 3-4i
 *     program_build((struct program_run *[]){&p}, 1, &module);   one compiler call for many
 *                                                                programs
 *     program_results(&p, module);
 *     program_number(&p, LINK_KERNELS, 0, 3)                     the fourth number of output 0;
 *                                                                parts count one each
 */
#pragma once
#include "graph_run.h"
#include "rewritten.h"

enum program_link { LINK_LOADED, LINK_REWRITTEN, LINK_KERNELS, LINK_COUNT };

extern const char *const program_links[LINK_COUNT]; /* for messages */

struct program_run {
    struct rewritten graphs;
    struct graph_run run;
    struct plan_options options; /* may be set before program_build */
    struct eval_tensor outputs[LINK_COUNT][RUN_SLOTS];
    const char *text;
};

/* Inputs of no other value are all zero bytes. */
void program_open(struct program_run *p, const char *text);
void program_close(struct program_run *p);
/* Row-major numbers of an input of any dtype; a complex one takes two each. */
void program_numbers(struct program_run *p, int slot, const double *numbers, int64_t count);
void program_bytes(struct program_run *p, int slot, const void *bytes, size_t nbytes);

/* Plans and compiles; fails the test when a program cannot be. */
void program_build(struct program_run *const *programs, int count, struct host_module **module);
/* Runs all three ways. Every output must have the same dtype and size in each. */
void program_results(struct program_run *p, struct host_module *module);

int64_t program_count(const struct program_run *p, int slot); /* numbers of an output */
double program_number(const struct program_run *p, enum program_link link, int slot, int64_t at);
