/* program_run.c - see program_run.h. */
#include "program_run.h"

const char *const program_links[LINK_COUNT] = {"evaluator, as loaded", "evaluator, rewritten",
                                               "generated code"};

void program_open(struct program_run *p, const char *text)
{
    *p = (struct program_run){.text = text};
    rewritten_open(&p->graphs, text, PHASOR_RULES_ALL, true);
    cr_assert(p->graphs.done, "%s\n%s",
              p->graphs.refusals.count ? p->graphs.refusals.at[0].reason : "", text);
    graph_run_open(&p->run, &p->graphs.loaded, &p->graphs.real);
    for (size_t i = 0; i < p->graphs.loaded.inputs.count; i++) {
        graph_run_input(&p->run, (int)i, RUN_CONTIGUOUS, 1);
        program_numbers(p, (int)i, NULL, 0);
    }
}

void program_close(struct program_run *p)
{
    for (int link = 0; link < LINK_COUNT; link++)
        for (int i = 0; i < RUN_SLOTS; i++)
            eval_tensor_free(&p->outputs[link][i]);
    graph_run_close(&p->run);
    rewritten_close(&p->graphs);
}

static int64_t input_count(const struct run_tensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->shape.rank; d++)
        count *= t->shape.sizes[d];
    return count;
}

void program_bytes(struct program_run *p, int slot, const void *bytes, size_t nbytes)
{
    struct run_tensor *t = &p->run.inputs[slot];
    cr_assert_eq(nbytes, (size_t)input_count(t) * (size_t)dtype_size(t->dtype), "input %d of\n%s",
                 slot, p->text);
    memcpy(t->data, bytes, nbytes);
    memcpy(t->before, t->block, t->nbytes);
}

void program_numbers(struct program_run *p, int slot, const double *numbers, int64_t count)
{
    struct run_tensor *t = &p->run.inputs[slot];
    cr_assert(!numbers || count == input_count(t), "input %d has %ld numbers:\n%s", slot,
              (long)input_count(t), p->text);
    for (int64_t i = 0; i < input_count(t); i++) {
        const double number = numbers ? numbers[i] : 0;
        const struct number n = dtype_is_integer(t->dtype) ? (struct number){.i = (int64_t)number}
                                                           : (struct number){.re = number};
        element_store(t->dtype, n, t->data + i * dtype_size(t->dtype));
    }
    memcpy(t->before, t->block, t->nbytes);
}

void program_build(struct program_run *const *programs, int count, struct host_module **module)
{
    struct graph_run **runs = calloc((size_t)count, sizeof *runs);
    struct templates templates;
    cr_assert(runs);
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    for (int i = 0; i < count; i++) {
        runs[i] = &programs[i]->run;
        const phasor_status status = graph_run_plan(runs[i], &templates, programs[i]->options);
        cr_assert_eq(status, PHASOR_OK, "%s\n%s", message_get(), programs[i]->text);
    }
    cr_assert(graph_run_compile(runs, count, module), "%s", host_error());
    templates_free(&templates);
    free(runs);
}

/* Takes the tensor out of the results. */
static struct eval_tensor result_take(struct eval_results *results, value v)
{
    struct eval_tensor *t = &results->values[v], copy = *t;
    const size_t nbytes = (size_t)eval_tensor_count(t) * (size_t)dtype_size(t->dtype);
    copy.bytes = memory_new(nbytes);
    cr_assert(copy.bytes);
    memcpy(copy.bytes, t->bytes, nbytes);
    copy.owned = true;
    return copy;
}

static void evaluate(struct program_run *p, enum program_link link, const struct graph *graph)
{
    struct eval_results results;
    cr_assert_eq(graph_run_eval(&p->run, graph, &results), PHASOR_OK, "%s\n%s", message_get(),
                 p->text);
    for (size_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].node)
            p->outputs[link][i] = result_take(&results, graph->outputs.at[i].node);
    eval_free(&results);
}

void program_results(struct program_run *p, struct host_module *module)
{
    evaluate(p, LINK_LOADED, &p->graphs.loaded);
    evaluate(p, LINK_REWRITTEN, &p->graphs.real);
    cr_assert_eq(graph_run_launch(&p->run, module), PHASOR_OK, "%s\n%s", message_get(), p->text);
    for (int i = 0; i < p->run.plan.output_count; i++) {
        if (!p->run.plan.outputs[i].tensor)
            continue;
        graph_run_output(&p->run, i, &p->outputs[LINK_KERNELS][i]);
        const struct eval_tensor *loaded = &p->outputs[LINK_LOADED][i];
        for (int link = LINK_REWRITTEN; link < LINK_COUNT; link++)
            cr_assert(p->outputs[link][i].dtype == dtype_info[loaded->dtype].real &&
                          eval_tensor_count(&p->outputs[link][i]) == program_count(p, i),
                      "output %d has another dtype or size by the %s\n%s", i, program_links[link],
                      p->text);
    }
}

int64_t program_count(const struct program_run *p, int slot)
{
    const struct eval_tensor *t = &p->outputs[LINK_LOADED][slot];
    return eval_tensor_count(t) * (dtype_is_complex(t->dtype) ? 2 : 1);
}

double program_number(const struct program_run *p, enum program_link link, int slot, int64_t at)
{
    const struct eval_tensor *t = &p->outputs[link][slot];
    const enum dtype real = dtype_info[t->dtype].real;
    const struct number n = element_load(real, (const char *)t->bytes + at * dtype_size(real));
    return dtype_is_integer(real) ? (double)n.i : n.re;
}
