/* kernel_run.h - a case from file to values, by the generated kernels compiled as C++ and run on
 * the CPU.
 *
 *     case_open("tests/cases/twice", "plain", 0)  ->  program, real graph, inputs, expected outputs
 *     case_plan(&c, NULL)                         ->  plan with sources
 *     case_run(&c, module, first)                 ->  outputs as row-major tensors
 */
#pragma once
#include "codegen/codegen.h"
#include "eval/eval.h"
#include "host_run.h"
#include "load/load.h"
#include "load/safetensors.h"
#include "rewrite/rewrite.h"

struct case_run {
    char name[256]; /* "twice/plain/0" */
    struct loaded_program program;
    struct arena arena;
    struct graph real;
    struct refusal_list refusals;
    bool rewritten, planned;
    struct tensors_file *inputs, *outputs;
    struct call_shape call;
    struct plan_options options;
    struct plan plan;
    /* memory of a run */
    void **inputs_copy; /* by slot: what the kernels read and write */
    void **states;      /* by buffer */
    void **memories;    /* fresh memory of outputs */
    char *work, *tables;
    uint32_t flag;
};

/* All folders of cases in turn, or the one that PHASOR_TEST_ONLY names: both forms and every input
 * set of each. */
typedef void case_function(const char *directory, const char *kind, int set);
void cases_each(case_function *function);

/* kind: "plain" or "core". real is empty when the rules refuse the program. */
phasor_status case_open(struct case_run *c, const char *directory, const char *kind, int set,
                        const struct rewrite_options *options);
void case_close(struct case_run *c);
/* The value of input or output slot k as the files have it. */
bool case_input(const struct case_run *c, int slot, phasor_value *out);
bool case_expected(const struct case_run *c, int slot, phasor_value *out);
/* With c->options, zero unless they were set after case_open. */
phasor_status case_plan(struct case_run *c, const struct templates *templates);
/* kernels are module entries first, first + 1, ... */
phasor_status case_launch(struct case_run *c, struct host_module *module, int first);
/* Output slot k of the plan as a row-major tensor of the real graph; freed by the caller. */
phasor_status case_output(const struct case_run *c, int slot, struct eval_tensor *out);
/* Evaluates a graph on the inputs of the case. */
phasor_status case_eval(const struct case_run *c, const struct graph *graph, bool fma,
                        struct eval_results *out);

/* Compares two row-major tensors element by element with the tolerances of the cases (bits:
 * exactly). Complex expected values count as pairs. false: `why` says where. */
bool case_compare(const struct eval_tensor *got, const DLTensor *expected, bool loose, char *why,
                  size_t size);
bool tensors_equal_bits(const struct eval_tensor *a, const struct eval_tensor *b, char *why,
                        size_t size);
