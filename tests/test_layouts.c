/* test_layouts.c - one program, one shape, memory of every kind: inputs that are contiguous,
 * transposed, expanded, offset, unaligned, with gaps or steps, in turn, and the caller's output
 * buffers likewise. Generated code, compiled as C++, gives the evaluator's bits each time, and
 * nothing around a buffer changes. None of the programs has a math function. */
#include "support/graph_run.h"
#include "support/leak.h"
#include "support/rewritten.h"

#include <stdio.h>

static const struct program {
    const char *name, *text;
} programs[] = {
    {"rotation in f32", "phasor 1 \"rotation\"\n"
                        "input q: f32[2, 3, 4, 16]\n"
                        "input f: c64[3, 8]\n"
                        "r = reshape(q) sizes=[2, 3, 4, 8, 2]\n"
                        "z = view_as_complex(r)\n"
                        "g = reshape(f) sizes=[1, 3, 1, 8]\n"
                        "m = mul(z, g)\n"
                        "p = view_as_real(m)\n"
                        "out = reshape(p) sizes=[2, 3, 4, 16]\n"
                        "output out\n"},
    {"rotation in bf16", "phasor 1 \"rotation\"\n"
                         "input q: bf16[2, 3, 4, 16]\n"
                         "input f: c64[3, 8]\n"
                         "w = cast(q) : f32[2, 3, 4, 16]\n"
                         "r = reshape(w) sizes=[2, 3, 4, 8, 2]\n"
                         "z = view_as_complex(r)\n"
                         "g = reshape(f) sizes=[1, 3, 1, 8]\n"
                         "m = mul(z, g)\n"
                         "p = view_as_real(m)\n"
                         "s = reshape(p) sizes=[2, 3, 4, 16]\n"
                         "out = cast(s) : bf16[2, 3, 4, 16]\n"
                         "output out\n"},
    {"odd rotation in f16", "phasor 1 \"rotation of an odd number of pairs\"\n"
                            "input q: f16[5, 3, 6]\n"
                            "input f: f32[5, 1, 3, 2]\n"
                            "w = cast(q) : f32[5, 3, 6]\n"
                            "r = reshape(w) sizes=[5, 3, 3, 2]\n"
                            "z = view_as_complex(r)\n"
                            "g = view_as_complex(f)\n"
                            "m = mul(z, g)\n"
                            "p = view_as_real(m)\n"
                            "s = reshape(p) sizes=[5, 3, 6]\n"
                            "out = cast(s) : f16[5, 3, 6]\n"
                            "output out\n"},
    {"elementwise", "phasor 1 \"elementwise chain\"\n"
                    "input x: f32[4, 6, 8]\n"
                    "input y: f16[6, 8]\n"
                    "input b: bool[4, 1, 8]\n"
                    "c = cast(y) : f32[6, 8]\n"
                    "a = add(x, c)\n"
                    "n = neg(x)\n"
                    "w = where(b, a, n)\n"
                    "h = maximum(w, c)\n"
                    "out = mul(h, a)\n"
                    "t = permute(out) axes=[2, 0, 1]\n"
                    "e = contiguous(t) flag=1\n"
                    "output out\n"
                    "output e\n"},
    {"integers", "phasor 1 \"integers of every width\"\n"
                 "input x: i8[3, 5, 4]\n"
                 "input y: i16[3, 1, 4]\n"
                 "input z: i64[5, 4]\n"
                 "a = cast(x) : i16[3, 5, 4]\n"
                 "s = add(a, y)\n"
                 "w = cast(s) : i64[3, 5, 4]\n"
                 "p = mul(w, z)\n"
                 "u = cast(p) : u8[3, 5, 4]\n"
                 "l = lt(w, z)\n"
                 "output u\n"
                 "output p\n"
                 "output l\n"},
    {"concat", "phasor 1 \"concat along the first and the last dim\"\n"
               "input x: f32[3, 8]\n"
               "input y: f32[3, 5]\n"
               "input z: f32[2, 13]\n"
               "c = concat(x, y) axis=1\n"
               "out = concat(c, z) axis=0\n"
               "output out\n"},
    {"gather", "phasor 1 \"index and gather\"\n"
               "input x: f32[7, 3, 8]\n"
               "data i: i64[4] = [6, -7, 3, 3]\n"
               "data j: i64[7, 3, 2] = [0, 7, 1, -1, 2, -2, 3, -8, 4, 4, 5, 5, 6, 6, 7, 7, 0, 0, "
               "1, 1, 2, 2, 3, 3, 4, 4,"
               " 5, 5, 6, 6, 7, 7, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]\n"
               "a = index(x, i) axis=0\n"
               "b = gather(x, j) axis=2\n"
               "output a\n"
               "output b\n"},
    {"reduction", "phasor 1 \"reductions that any order leaves exact\"\n"
                  "input x: f32[4, 6, 33]\n"
                  "m = amax(x) axes=[2]\n"
                  "l = amin(x) axes=[0]\n"
                  "z = scalar value=0 : f32[]\n"
                  "g = gt(x, z)\n"
                  "c = cast(g) : i64[4, 6, 33]\n"
                  "s = sum(c) axes=[1, 2]\n"
                  "any = any(g) axes=[2]\n"
                  "output m\n"
                  "output l\n"
                  "output s\n"
                  "output any\n"},
    {"groups", "phasor 1 \"flipped rows that do not fit the rows they come from\"\n"
               "input x: f32[12, 2]\n"
               "input y: f16[6, 7]\n"
               "r = reshape(x) sizes=[8, 3]\n"
               "f = flip(r) axes=[0]\n"
               "t = permute(y) axes=[1, 0]\n"
               "s = reshape(t) sizes=[3, 14]\n"
               "g = flip(s) axes=[0, 1]\n"
               "output f\n"
               "output g\n"},
    {"literals", "phasor 1 \"numbers beside narrow dtypes, and read through a view\"\n"
                 "input x: i8[3, 8]\n"
                 "input y: bf16[8]\n"
                 "three = scalar value=3 : i8[]\n"
                 "m = maximum(x, three)\n"
                 "r = remainder(x, three)\n"
                 "p = pow(x, three)\n"
                 "tenth = scalar value=0.1 : bf16[]\n"
                 "s = mul(y, tenth)\n"
                 "e = expand(tenth) sizes=[3, 8]\n"
                 "t = mul(y, e)\n"
                 "output m\n"
                 "output r\n"
                 "output p\n"
                 "output s\n"
                 "output t\n"},
    {"nothing", "phasor 1 \"nothing is scattered\"\n"
                "input x: f32[4, 4]\n"
                "input v: f32[4, 0]\n"
                "i = iota sizes=[4]\n"
                "r = reshape(i) sizes=[4, 1]\n"
                "e = expand(r) sizes=[4, 0]\n"
                "y = scatter(x, e, v) axis=0 flag=0\n"
                "output y\n"},
    {"changes", "phasor 1 \"an input is changed, and shown\"\n"
                "input x: f32[3, 4]\n"
                "input y: f32[4]\n"
                "a = add(x, y)\n"
                "r = select(a) axis=0 start=1\n"
                "output a\n"
                "output r\n"
                "write x = a\n"},
    {"windows", "phasor 1 \"views that move elements\"\n"
                "input x: f32[6, 16]\n"
                "input y: f32[6, 4]\n"
                "f = flip(x) axes=[1]\n"
                "r = roll(f) axes=[0, 1] sizes=[2, -3]\n"
                "p = pad(r) sizes=[1, 0, 2, 2] value=-1\n"
                "i = insert(x, y) axis=1 start=2 step=3\n"
                "u = unfold(x) axis=1 length=4 step=2\n"
                "q = contiguous(u) flag=1\n"
                "output p\n"
                "output i\n"
                "output q\n"},
};
enum { PROGRAM_COUNT = sizeof programs / sizeof *programs, RUNS_MAX = 64 };

/* A program's runs share its graph and one compiler call. */
struct layout_runs {
    struct rewritten graphs;
    struct graph_run runs[RUNS_MAX], *list[RUNS_MAX];
    char names[RUNS_MAX][96];
    int count;
};

/* Memory in which elements share an address cannot be written. */
static bool may_expand(const struct graph *graph, enum run_layout layout)
{
    bool written = false;
    for (size_t i = 0; i < graph->inputs.count; i++)
        written |= graph->inputs.at[i].written != 0;
    return layout != RUN_EXPANDED || !written;
}

/* Every input in layout `in` but the others than `only` contiguous (only -1: all of them); outputs
 * in `out`, or Phasor's. */
static void add_run(struct layout_runs *all, int only, enum run_layout in, int out)
{
    struct graph_run *run = all->list[all->count] = &all->runs[all->count];
    cr_assert_lt(all->count, RUNS_MAX);
    snprintf(all->names[all->count++], sizeof all->names[0], "input %d in layout %d, outputs %d",
             only, (int)in, out);
    graph_run_open(run, &all->graphs.loaded, &all->graphs.real);
    for (int i = 0; i < run->call.input_count; i++)
        graph_run_input(run, i, only < 0 || only == i ? in : RUN_CONTIGUOUS, 7 + (uint64_t)i);
    for (int i = 0; out >= 0 && i < (int)run->real->outputs.count; i++)
        graph_run_slot(run, i, (enum run_layout)out);
}

static void add_runs(struct layout_runs *all)
{
    const int inputs = (int)all->graphs.real.inputs.count;
    for (int layout = 0; layout < RUN_LAYOUT_COUNT; layout++) {
        const enum run_layout other = (enum run_layout)((layout + 3) % RUN_LAYOUT_COUNT);
        if (!may_expand(&all->graphs.real, (enum run_layout)layout))
            continue;
        add_run(all, -1, (enum run_layout)layout, -1);
        for (int i = 0; i < inputs && inputs > 1 && layout != RUN_CONTIGUOUS; i++)
            add_run(all, i, (enum run_layout)layout, -1);
        if (layout != RUN_EXPANDED) {
            add_run(all, -1, RUN_CONTIGUOUS, layout);
            if (may_expand(&all->graphs.real, other))
                add_run(all, -1, other, layout);
        }
    }
}

static void check_run(struct graph_run *run, struct host_module *module, const char *program,
                      const char *name)
{
    char why[512];
    cr_assert_eq(graph_run_launch(run, module), PHASOR_OK, "%s: %s: %s", program, name,
                 message_get());
    cr_expect(graph_run_check(run, run->real, NULL, why, sizeof why), "%s: %s: %s", program, name,
              why);
    cr_expect(graph_run_check(run, run->logical, NULL, why, sizeof why), "%s: %s: as loaded: %s",
              program, name, why);
}

static void check_program(const struct program *program, const struct templates *templates)
{
    struct layout_runs *all = calloc(1, sizeof *all);
    struct host_module *module;
    cr_assert(all);
    rewritten_open(&all->graphs, program->text, PHASOR_RULES_ALL, true);
    cr_assert(all->graphs.done, "%s", program->name);
    add_runs(all);
    for (int i = 0; i < all->count; i++)
        cr_assert_eq(graph_run_plan(all->list[i], templates, (struct plan_options){0}), PHASOR_OK,
                     "%s: %s: %s", program->name, all->names[i], message_get());
    cr_assert(graph_run_compile(all->list, all->count, &module), "%s: %s", program->name,
              host_error());
    for (int i = 0; i < all->count; i++)
        check_run(all->list[i], module, program->name, all->names[i]);
    host_close(module);
    for (int i = 0; i < all->count; i++)
        graph_run_close(all->list[i]);
    rewritten_close(&all->graphs);
    free(all);
}

Test(layouts, strides_offsets_and_alignments, .timeout = 3600)
{
    struct templates templates;
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    for (int i = 0; i < PROGRAM_COUNT; i++)
        check_program(&programs[i], &templates);
    templates_free(&templates);
    ASSERT_NO_LEAKS();
}
