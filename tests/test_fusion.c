/* test_fusion.c - what becomes one kernel, and what is kept in memory.
 *
 *     view_as_complex, mul, view_as_real, cast of q     one kernel, loads and stores of 16 bytes,
 * nothing kept exp(x) [n, 1], read by two [n, m]                 computed once, kept cumsum of
 * cumsum of cumsum                        workspace for two of them serves all cache[:, pos] = k
 * writes k, not the cache
 */
#include "compile/nvrtc.h"
#include "support/graph_run.h"
#include "support/kernel_run.h"
#include "support/leak.h"
#include "support/rewritten.h"
#include "support/world.h"

#include <stdarg.h>
#include <stdio.h>

enum { DRAWN = 10, CHAIN_STEPS = 9 };

/* -- plans ------------------------------------------------------------------------------------- */

/* A text, its real form and its plan. */
struct planned {
    struct rewritten graphs;
    struct graph_run run;
    struct templates templates;
};

static void planned_open(struct planned *p, const char *text)
{
    cr_assert_eq(templates_load(&p->templates, NULL), PHASOR_OK);
    rewritten_open(&p->graphs, text, PHASOR_RULES_ALL, true);
    cr_assert(p->graphs.done, "%s", text);
    graph_run_open(&p->run, &p->graphs.loaded, &p->graphs.real);
    for (int i = 0; i < p->run.call.input_count; i++)
        graph_run_input(&p->run, i, RUN_CONTIGUOUS, 3 + (uint64_t)i);
    cr_assert_eq(graph_run_plan(&p->run, &p->templates, (struct plan_options){0}), PHASOR_OK,
                 "%s\n%s", message_get(), text);
}

static void planned_close(struct planned *p)
{
    graph_run_close(&p->run);
    rewritten_close(&p->graphs);
    templates_free(&p->templates);
}

/* Runs them all by one compiler call: the evaluator's bits. */
static void planned_check(struct planned *all, int count)
{
    struct graph_run *runs[DRAWN];
    struct host_module *module;
    char why[512];
    for (int i = 0; i < count; i++)
        runs[i] = &all[i].run;
    cr_assert(graph_run_compile(runs, count, &module), "%s", host_error());
    for (int i = 0; i < count; i++) {
        cr_assert_eq(graph_run_launch(runs[i], module), PHASOR_OK, "%s", message_get());
        cr_expect(graph_run_check(runs[i], runs[i]->real, NULL, why, sizeof why), "program %d: %s",
                  i, why);
    }
    host_close(module);
}

static int count_buffers(const struct plan *plan, enum buffer_kind kind)
{
    int count = 0;
    for (size_t b = 0; b < plan->buffers.count; b++)
        count += plan->buffers.at[b].kind == kind;
    return count;
}

static int count_kernels(const struct plan *plan, bool setup)
{
    int count = 0;
    for (size_t k = 0; k < plan->kernels.count; k++)
        count += plan->kernels.at[k].setup == setup;
    return count;
}

static void expect_one_kernel(const struct plan *plan, const char *what)
{
    cr_expect_eq(plan->kernels.count, 1, "%s: %zu kernels", what, plan->kernels.count);
    cr_expect_eq(count_buffers(plan, BUFFER_WORK), 0, "%s: something is kept", what);
    cr_expect_eq(count_buffers(plan, BUFFER_TABLE), 0, "%s: a table is made", what);
}

/* -- PTX --------------------------------------------------------------------------------------- */

/* "ld.global.nc.v4.u32 ..." */
static bool has_access(const char *ptx, const char *access)
{
    for (const char *at = ptx; (at = strstr(at, access)); at += strlen(access)) {
        const char *end = strpbrk(at, " \t\n"), *vector = strstr(at, ".v4");
        if (vector && end && vector < end)
            return true;
    }
    return false;
}

static struct compiler *compiler_here(void)
{
    struct compiler *compiler;
    if (compiler_open(&compiler) == PHASOR_OK)
        return compiler;
    cr_log_info("PTX is not looked at: %s", message_get());
    return NULL;
}

static void expect_vectors(struct compiler *compiler, const struct kernel *kernel, const char *what)
{
    const struct compile_request request = {
        .name = "kernel.cu", .source = kernel->source, .arch = "sm_90", .want_ptx = true};
    struct compile_result result;
    if (!compiler)
        return;
    cr_assert_eq(compiler_run(compiler, &request, &result), PHASOR_OK, "%s: %s", what,
                 message_get());
    cr_expect(has_access(result.ptx, "ld.global"), "%s: no load of 16 bytes\n%s", what, result.ptx);
    cr_expect(has_access(result.ptx, "st.global"), "%s: no store of 16 bytes\n%s", what,
              result.ptx);
    compile_result_free(&result);
}

/* -- rotations --------------------------------------------------------------------------------- */

static const char rotation[] = "phasor 1 \"rotation\"\n"
                               "input q: %s[2, 5, 4, 64]\n"
                               "input f: c64[5, 32]\n"
                               "w = cast(q) : f32[2, 5, 4, 64]\n"
                               "r = reshape(w) sizes=[2, 5, 4, 32, 2]\n"
                               "z = view_as_complex(r)\n"
                               "g = reshape(f) sizes=[5, 1, 32]\n"
                               "m = mul(z, g)\n"
                               "p = view_as_real(m)\n"
                               "s = reshape(p) sizes=[2, 5, 4, 64]\n"
                               "out = cast(s) : %s[2, 5, 4, 64]\n"
                               "output out\n";

Test(fusion, a_rotation_is_one_kernel, .timeout = 3600)
{
    static const char *const dtypes[] = {"bf16", "f16", "f32"};
    struct planned *all = calloc(3, sizeof *all);
    struct compiler *compiler = compiler_here();
    cr_assert(all);
    for (int i = 0; i < 3; i++) {
        char text[1024];
        snprintf(text, sizeof text, rotation, dtypes[i], dtypes[i]);
        planned_open(&all[i], text);
        expect_one_kernel(&all[i].run.plan, dtypes[i]);
        expect_vectors(compiler, &all[i].run.plan.kernels.at[0], dtypes[i]);
    }
    planned_check(all, 3);
    for (int i = 0; i < 3; i++)
        planned_close(&all[i]);
    free(all);
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

/* -- programs drawn at random ------------------------------------------------------------------ */

/* A chain over one tensor of four dims, as text. */
struct chain {
    struct text header, body;
    uint64_t random;
    int64_t sizes[4];
    int steps, inputs;
};

static void chain_line(struct chain *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "v3 = " and the line; v is the value so far, named by its number. */
static void chain_line(struct chain *c, const char *format, ...)
{
    char line[256];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    text_format(&c->body, "v%d = %s\n", ++c->steps, line);
}

static void chain_sizes(const struct chain *c, const char *more, char out[128])
{
    const int64_t *s = c->sizes;
    snprintf(out, 128, "%ld, %ld, %ld, %ld%s", (long)s[0], (long)s[1], (long)s[2],
             more ? (long)s[3] / 2 : (long)s[3], more ? more : "");
}

/* The product with a table of complex numbers: given, of the dims 1 and 3. */
static void chain_product(struct chain *c)
{
    char sizes[128], pairs[128];
    chain_sizes(c, NULL, sizes);
    chain_sizes(c, ", 2", pairs);
    const int table = c->inputs++;
    text_format(&c->header, "input x%d: c64[%ld, 1, %ld]\n", table, (long)c->sizes[1],
                (long)c->sizes[3] / 2);
    chain_line(c, "reshape(v%d) sizes=[%s]", c->steps, pairs);
    chain_line(c, "view_as_complex(v%d)", c->steps);
    chain_line(c, "mul(v%d, x%d)", c->steps, table);
    chain_line(c, "view_as_real(v%d)", c->steps);
    chain_line(c, "reshape(v%d) sizes=[%s]", c->steps, sizes);
}

static void chain_map(struct chain *c)
{
    static const char *const rows[] = {"neg(v%d)", "abs(v%d)", "mul(v%d, v%d)", "floor(v%d)"};
    const int kind = random_below(&c->random, 6);
    char sizes[128];
    chain_sizes(c, NULL, sizes);
    if (kind < 4) {
        char line[64];
        snprintf(line, sizeof line, rows[kind], c->steps, c->steps);
        chain_line(c, "%s", line);
        return;
    }
    const int other = c->inputs++;
    text_format(&c->header, "input x%d: f32[%s]\n", other, sizes);
    chain_line(c, kind == 4 ? "add(v%d, x%d)" : "maximum(v%d, x%d)", c->steps, other);
}

static void chain_view(struct chain *c)
{
    const int axis = random_below(&c->random, 3),
              other = (axis + 1 + random_below(&c->random, 2)) % 3;
    int axes[4] = {0, 1, 2, 3};
    const int64_t size = c->sizes[axis];
    switch (random_below(&c->random, 3)) {
    case 0:
        axes[axis] = other;
        axes[other] = axis;
        c->sizes[axis] = c->sizes[other];
        c->sizes[other] = size;
        chain_line(c, "permute(v%d) axes=[%d, %d, %d, %d]", c->steps, axes[0], axes[1], axes[2],
                   axes[3]);
        break;
    case 1: chain_line(c, "flip(v%d) axes=[%d]", c->steps, axis); break;
    default:
        if (size < 3)
            return;
        c->sizes[axis] = size - 2;
        chain_line(c, "slice(v%d) axis=%d start=1 length=%ld step=1", c->steps, axis,
                   (long)c->sizes[axis]);
    }
}

static void chain_draw(struct chain *c, uint64_t seed)
{
    static void (*const steps[])(struct chain *) = {chain_product, chain_map, chain_view,
                                                    chain_view};
    static const int heads[] = {16, 64, 128, 48};
    char sizes[128];
    *c = (struct chain){.random = seed * 99 + 7, .sizes = {2, 6, 4, 0}, .inputs = 1};
    c->sizes[3] = heads[random_below(&c->random, 4)];
    chain_sizes(c, NULL, sizes);
    const char *dtype = random_below(&c->random, 2) ? "bf16" : "f32";
    text_format(&c->header, "phasor 1 \"chain\"\ninput x0: %s[%s]\n", dtype, sizes);
    chain_line(c, "cast(x0) : f32[%s]", sizes);
    for (int s = 0; s < CHAIN_STEPS && c->inputs < 4; s++)
        steps[s == 1 ? 0 : random_below(&c->random, 4)](c);
    chain_sizes(c, NULL, sizes);
    chain_line(c, "cast(v%d) : %s[%s]", c->steps, dtype, sizes);
    chain_line(c, "contiguous(v%d) flag=1",
               c->steps); /* views of the result alone would run along the input */
    text_format(&c->body, "output v%d\n", c->steps);
    text_add(&c->header, text_get(&c->body));
    text_free(&c->body);
    cr_assert_eq(text_status(&c->header), PHASOR_OK);
}

Test(fusion, ten_drawn_programs_are_one_kernel_each, .timeout = 3600)
{
    struct planned *all = calloc(DRAWN, sizeof *all);
    struct compiler *compiler = compiler_here();
    cr_assert(all);
    for (int i = 0; i < DRAWN; i++) {
        struct chain chain;
        chain_draw(&chain, (uint64_t)i);
        planned_open(&all[i], text_get(&chain.header));
        expect_one_kernel(&all[i].run.plan, text_get(&chain.header));
        expect_vectors(compiler, &all[i].run.plan.kernels.at[0], text_get(&chain.header));
        text_free(&chain.header);
    }
    planned_check(all, DRAWN);
    for (int i = 0; i < DRAWN; i++)
        planned_close(&all[i]);
    free(all);
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}

/* -- several reductions of a row --------------------------------------------------------------- */

static const char *const row_programs[] = {
    "phasor 1 \"softmax\"\n"
    "input x: f32[64, 256]\n"
    "m = amax(x) axes=[1]\nk = reshape(m) sizes=[64, 1]\n"
    "e = sub(x, k)\nf = exp(e)\ns = sum(f) axes=[1]\n"
    "t = reshape(s) sizes=[64, 1]\ny = div(f, t)\noutput y\n",
    "phasor 1 \"layer norm\"\n"
    "input x: bf16[4, 16, 256]\n"
    "c = cast(x) : f32[4, 16, 256]\nn = scalar value=256 : f32[]\n"
    "s = sum(c) axes=[2]\nm = div(s, n)\nk = reshape(m) sizes=[4, 16, 1]\n"
    "d = sub(c, k)\nq = mul(d, d)\nv = sum(q) axes=[2]\nw = div(v, n)\nr = rsqrt(w)\n"
    "u = reshape(r) sizes=[4, 16, 1]\nz = mul(d, u)\ny = cast(z) : bf16[4, 16, 256]\noutput y\n",
    "phasor 1 \"a norm and its statistics\"\n"
    "input x: f32[64, 256]\n"
    "n = scalar value=256 : f32[]\ns = sum(x) axes=[1]\nm = div(s, n)\n"
    "k = reshape(m) sizes=[64, 1]\nd = sub(x, k)\nq = mul(d, d)\nv = sum(q) axes=[1]\n"
    "w = div(v, n)\nr = rsqrt(w)\nu = reshape(r) sizes=[64, 1]\ny = mul(d, u)\n"
    "output y\noutput m\noutput r\noutput v\n",
    "phasor 1 \"three that do not need each other\"\n"
    "input x: f32[64, 128]\n"
    "a = amin(x) axes=[1]\nb = amax(x) axes=[1]\np = mul(x, x)\nq = sum(p) axes=[1]\n"
    "c = reshape(a) sizes=[64, 1]\nd = reshape(b) sizes=[64, 1]\ne = reshape(q) sizes=[64, 1]\n"
    "f = sub(x, c)\ng = sub(d, c)\nh = div(f, g)\ny = mul(h, e)\noutput y\n",
};
enum { ROW_PROGRAMS = sizeof row_programs / sizeof *row_programs };

/* A row is read once and written once, however many statistics of it there are. */
Test(fusion, rows_are_read_once_for_all_their_reductions, .timeout = 3600)
{
    static const struct run_tolerance near[ROW_PROGRAMS] = {
        {1e-5, 1e-6}, {1e-2, 1e-3}, {1e-5, 1e-5}, {1e-5, 0}};
    struct planned all[ROW_PROGRAMS];
    struct graph_run *runs[ROW_PROGRAMS];
    struct host_module *module;
    char why[512];
    for (int i = 0; i < ROW_PROGRAMS; i++) {
        planned_open(&all[i], row_programs[i]);
        runs[i] = &all[i].run;
        const struct plan *plan = &runs[i]->plan;
        expect_one_kernel(plan, row_programs[i]);
        int64_t bytes = 0;
        for (size_t b = 0; b < plan->buffers.count; b++)
            bytes += plan->buffers.at[b].nbytes;
        cr_expect_eq(plan_size(plan, plan->kernels.at[0].bytes), bytes, "%s", row_programs[i]);
    }
    cr_assert(graph_run_compile(runs, ROW_PROGRAMS, &module), "%s", host_error());
    for (int i = 0; i < ROW_PROGRAMS; i++) {
        const struct run_tolerance tolerances[] = {near[i], near[i], near[i], near[i]};
        cr_assert_eq(graph_run_launch(runs[i], module), PHASOR_OK, "%s", message_get());
        cr_expect(graph_run_check(runs[i], runs[i]->real, tolerances, why, sizeof why), "%s%s",
                  row_programs[i], why);
    }
    host_close(module);
    for (int i = 0; i < ROW_PROGRAMS; i++)
        planned_close(&all[i]);
    ASSERT_NO_LEAKS();
}

/* -- exported programs ------------------------------------------------------------------------- */

static void open_case(struct case_run *c, const char *name, const char *kind)
{
    char directory[1024];
    struct templates templates;
    snprintf(directory, sizeof directory, "%s/%s", PHASOR_TEST_CASES, name);
    cr_assert_eq(templates_load(&templates, NULL), PHASOR_OK);
    cr_assert_eq(case_open(c, directory, kind, 0, &(struct rewrite_options){.fma = true}),
                 PHASOR_OK, "%s: %s", name, message_get());
    cr_assert(c->rewritten, "%s", name);
    cr_assert_eq(case_plan(c, &templates), PHASOR_OK, "%s: %s", name, message_get());
    templates_free(&templates);
}

static const char *const kinds[] = {"plain", "core"};

Test(fusion, rotations_by_a_given_table)
{
    static const char *const names[] = {"bench_rope_table_bf16", "bench_rope_table_f32",
                                        "qk_rope_f32", "qk_rope_bf16_dynamic"};
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        struct case_run c;
        open_case(&c, names[i / 2], kinds[i % 2]);
        cr_expect_leq(c.plan.kernels.count, (size_t)c.plan.output_count, "%s: %zu kernels", c.name,
                      c.plan.kernels.count);
        cr_expect_eq(count_buffers(&c.plan, BUFFER_WORK), 0, "%s", c.name);
        cr_expect_eq(count_buffers(&c.plan, BUFFER_TABLE), 0, "%s", c.name);
        case_close(&c);
    }
    ASSERT_NO_LEAKS();
}

Test(fusion, tables_that_depend_on_sizes_alone_are_made_once)
{
    for (int i = 0; i < 2; i++) {
        struct case_run c;
        open_case(&c, "polar_in_graph_dynamic", kinds[i]);
        cr_expect_gt(count_kernels(&c.plan, true), 0);
        cr_expect_gt(count_buffers(&c.plan, BUFFER_TABLE), 0);
        cr_expect_gt(c.plan.table_bytes, 0);
        cr_expect_leq(count_kernels(&c.plan, false), c.plan.output_count);
        for (size_t k = 0; k < c.plan.kernels.count; k++) { /* sin and cos are in the setup alone */
            const struct kernel *kernel = &c.plan.kernels.at[k];
            cr_expect(kernel->setup ||
                          (!strstr(kernel->operators, "cos") && !strstr(kernel->operators, "sin")),
                      "%s", kernel->operators);
        }
        case_close(&c);
    }
    ASSERT_NO_LEAKS();
}

/* What is written of the buffers that the program keeps is less than they are. */
Test(fusion, a_step_does_not_rewrite_the_cache)
{
    for (int i = 0; i < 2; i++) {
        struct case_run c;
        int64_t moved = 0, state = 0;
        open_case(&c, "cache_step", kinds[i]);
        for (size_t b = 0; b < c.real.buffers.count; b++)
            state += (int64_t)c.real.buffers.at[b].initial->storage->nbytes;
        for (size_t k = 0; k < c.plan.kernels.count; k++) {
            const struct kernel *kernel = &c.plan.kernels.at[k];
            const bool into_state =
                plan_buffer(&c.plan, kernel->stores[0].buffer)->kind == BUFFER_STATE;
            cr_expect(!into_state || kernel->kind == KERNEL_SCATTER,
                      "%s: %s writes all of the cache", c.name, kernel->name);
            moved += into_state ? kernel->bytes : 0;
        }
        cr_expect(state > 0 && moved < state, "%s: %ld of %ld bytes", c.name, (long)moved,
                  (long)state);
        cr_expect_eq(count_buffers(&c.plan, BUFFER_WORK), 0, "%s: a copy of the cache", c.name);
        case_close(&c);
    }
    ASSERT_NO_LEAKS();
}

/* -- what is kept ------------------------------------------------------------------------------ */

static int kernels_with(const struct plan *plan, const char *name)
{
    int count = 0;
    for (size_t k = 0; k < plan->kernels.count; k++)
        count += strstr(plan->kernels.at[k].operators, name) != NULL;
    return count;
}

static const char dear[] = "phasor 1 \"dear and broadcast\"\n"
                           "input x: f32[64, 1]\n"
                           "input y: f32[64, 32]\n"
                           "e = exp(x)\n"
                           "a = mul(y, e)\n"
                           "b = add(y, e)\n"
                           "output a\n"
                           "output b\n";

static const char cheap[] = "phasor 1 \"cheap, read twice\"\n"
                            "input x: f32[64, 1]\n"
                            "input y: f32[64, 32]\n"
                            "n = neg(x)\n"
                            "a = mul(y, n)\n"
                            "b = add(y, n)\n"
                            "output a\n"
                            "output b\n";

static const char several[] = "phasor 1 \"results of one shape\"\n"
                              "input x: f32[7, 9]\n"
                              "d = mul(x, x)\n"
                              "n = neg(d)\n"
                              "i = cast(x) : bool[7, 9]\n"
                              "output d\n"
                              "output n\n"
                              "output i\n"
                              "output n\n";

static const char scans[] = "phasor 1 \"one after the other\"\n"
                            "input x: i64[16, 64]\n"
                            "a = cumsum(x) axis=1\n"
                            "b = cumsum(a) axis=0\n"
                            "c = cumsum(b) axis=1\n"
                            "d = cumsum(c) axis=0\n"
                            "output d\n";

static const char write[] = "phasor 1 \"into a buffer\"\n"
                            "input k: f32[2, 8]\n"
                            "state cache: f32[32, 2] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, "
                            "4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5,"
                            " 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, "
                            "9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,"
                            " 0, 1, 2, 3]\n"
                            "data at: i64[2] = [3, -1]\n"
                            "s = slice(k) axis=1 start=0 length=2 step=1\n"
                            "new = index_put(cache, s, at) axis=0 flag=0\n"
                            "output new\n"
                            "write cache = new\n";

Test(fusion, what_is_kept_and_what_is_computed_again, .timeout = 3600)
{
    static const char *const texts[] = {dear, cheap, several, scans, write};
    struct planned *all = calloc(5, sizeof *all);
    cr_assert(all);
    for (int i = 0; i < 5; i++)
        planned_open(&all[i], texts[i]);
    const struct plan *plan = &all[0].run.plan;
    cr_expect_eq(kernels_with(plan, "exp"), 1, "exp is computed by %d kernels",
                 kernels_with(plan, "exp"));
    cr_expect_eq(plan->kernels.count, 2);
    cr_expect_eq(count_buffers(plan, BUFFER_WORK), 1);

    expect_one_kernel(&all[1].run.plan, "neg, read twice");
    cr_expect_eq(all[1].run.plan.kernels.at[0].store_count, 2);

    plan = &all[2].run.plan;
    expect_one_kernel(plan, "three results");
    cr_expect_eq(plan->kernels.at[0].store_count, 3);
    cr_expect_eq(plan->memory_count, 3, "the slot that is shown twice has one memory");
    cr_expect_eq(plan->outputs[1].index, plan->outputs[3].index);

    plan = &all[3].run.plan;
    cr_expect_eq(plan->kernels.count, 4);
    cr_expect_eq(count_buffers(plan, BUFFER_WORK), 3);
    cr_expect_leq(plan->work_bytes, 2 * (int64_t)sizeof(int64_t) * 16 * 64, "%ld bytes",
                  (long)plan->work_bytes);

    expect_one_kernel(&all[4].run.plan, "two rows of a buffer");
    cr_expect_leq(all[4].run.plan.kernels.at[0].bytes, 2 * 2 * 4 * 2 + 2 * 8);
    planned_check(all, 5);
    for (int i = 0; i < 5; i++)
        planned_close(&all[i]);
    free(all);
    ASSERT_NO_LEAKS();
}
