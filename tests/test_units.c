/* test_units.c - kernels of many shapes that are compiled together: one bad one among many, a
 * compiler that dies, threads, interrupts, archs that serve others. test_join.c has their sources.
 */
#include "support/capture.h"
#include "support/leak.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const server[] = {PHASOR_TEST_LIBRARIES "/../phasor", "--compile-server", NULL};

/* -- many shapes ------------------------------------------------------------------------------- */

#define PROGRAM "qk_rope_bf16_dynamic"
enum { SHAPES_MOST = 16, RANK_MOST = 8 };

/* Inputs of the case with other lengths, and no memory. */
struct shapes {
    int64_t sizes[SHAPES_MOST][2][RANK_MOST];
    DLTensor tensors[SHAPES_MOST][2];
    phasor_value values[SHAPES_MOST][2];
    const phasor_value *list[SHAPES_MOST];
    phasor_status statuses[SHAPES_MOST];
    int count;
};

static void shapes_make(struct shapes *s, const struct opened *o, int64_t first, int count)
{
    cr_assert_eq(o->in_count, 2);
    s->count = count;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < 2; k++) {
            DLTensor *t = &s->tensors[i][k];
            *t = *o->in[k].tensor;
            memcpy(s->sizes[i][k], t->shape, (size_t)t->ndim * sizeof(int64_t));
            s->sizes[i][k][1] = first + i;
            t->shape = s->sizes[i][k];
            t->strides = NULL;
            t->data = NULL;
            t->byte_offset = 0;
            s->values[i][k] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = t};
        }
        s->list[i] = s->values[i];
    }
}

static phasor_status shapes_prepare(struct opened *o, struct shapes *s)
{
    return phasor_program_prepare_many(o->program, s->list, 2, s->count, s->statuses);
}

static phasor_counters counters_of(const struct opened *o)
{
    phasor_counters counters = {.size = sizeof counters};
    ASSERT_OK(phasor_stats(o->runtime, &counters));
    return counters;
}

enum { FORMS = 2 }; /* a shape is prepared for phasor_run and for phasor_run_into */

/* Every size is a literal, so that each length has kernels of its own. */
static phasor_options options_exact(void)
{
    phasor_options options = options_for(ON_CUDA);
    options.mode = PHASOR_MODE_EXACT;
    return options;
}

static phasor_options options_none(void)
{
    phasor_options options = options_exact();
    options.device = PHASOR_DEVICE_NONE;
    options.arch = "sm_90";
    return options;
}

/* A line of the last kernel's source for shape i, which no other length has: its count of runs. */
static void text_of_shape(struct opened *o, const struct shapes *s, int i, char out[64])
{
    char *source, *at, *last = NULL;
    ASSERT_OK(phasor_program_show(o->program, "cuda", false, s->list[i], 2, &source));
    for (at = source; (at = strstr(at, "#define COUNT")) != NULL; at++)
        last = at;
    cr_assert(last);
    snprintf(out, 64, "%.*s\n", (int)strcspn(last, "\n"), last);
    phasor_free(source);
}

Test(units, shapes_share_units)
{
    struct opened o;
    struct shapes s;
    char folder[64];
    phasor_options options = options_none();
    folder_make(folder);
    options.cache = folder;
    opened_with(&o, &options, PROGRAM, "plain");
    shapes_make(&s, &o, o.in[0].tensor->shape[1], 12);
    ASSERT_OK(shapes_prepare(&o, &s));
    const phasor_counters counters = counters_of(&o);
    cr_assert_geq(counters.compiled, 12);
    cr_assert_leq(counters.compile_units, (counters.compiled + 7) / 8);
    cr_assert_eq(counters.specialisations, FORMS * 12);
    cr_assert_eq(counters.compile_failures, 0);
    opened_close(&o);

    /* with the first of them are the case's own inputs: run from what was stored */
    options.device = PHASOR_DEVICE_CUDA;
    options.arch = NULL;
    options.no_compile = true;
    opened_with(&o, &options, PROGRAM, "plain");
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    ASSERT_OK(shapes_prepare(&o, &s));
    cr_assert_eq(counters_of(&o).cache_hits, counters.compiled);
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_modules"), 0);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

/* On a device: what was prepared is loaded, and runs without the compiler. */
Test(units, prepared_on_a_device)
{
    struct opened o;
    struct shapes s;
    const phasor_options options = options_exact();
    opened_with(&o, &options, PROGRAM, "plain");
    shapes_make(&s, &o, o.in[0].tensor->shape[1], 4);
    ASSERT_OK(shapes_prepare(&o, &s));
    const uint64_t compiled = counters_of(&o).compiled;
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    cr_assert_eq(counters_of(&o).compiled, compiled);
    ASSERT_OK(shapes_prepare(&o, &s));
    cr_assert_eq(counters_of(&o).compiled, compiled);
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_modules"), 0);
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    ASSERT_NO_LEAKS();
}

/* A sum that keeps its dim is shown through a view by phasor_run, and copied to where phasor_run_into
 * wants it: a kernel more. */
Test(units, both_forms_are_prepared)
{
    static const char text[] = "phasor 1 \"keep\"\nsymbol n in 1..64 = 4    # x.0\n"
                               "input x: f32[n, 4]\noutput z = z\n"
                               "y = sum(x) axes=[1]\nz = reshape(y) sizes=[n, 1]\n";
    float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, z[3] = {0};
    int64_t sizes[] = {3, 4}, out_sizes[] = {3, 1};
    DLTensor in = {.data = x,
                   .device = {kDLCPU, 0},
                   .ndim = 2,
                   .dtype = {kDLFloat, 32, 1},
                   .shape = sizes},
             out = in;
    out.data = z;
    out.shape = out_sizes;
    const phasor_value input = {.kind = PHASOR_TENSOR, .tensor = &in}, *shapes[] = {&input};
    phasor_value output = {.kind = PHASOR_TENSOR, .tensor = &out};
    char folder[64];
    folder_make(folder);
    for (int many = 0; many < 2; many++) {
        struct opened o;
        phasor_options options = options_exact();
        options.cache = many ? ":memory:" : folder;
        opened_with(&o, &options, PROGRAM, "plain");
        phasor_program *program = program_of(&o, text);
        ASSERT_OK(many ? phasor_program_prepare_many(program, shapes, 1, 1, NULL)
                       : phasor_program_prepare(program, &input, 1));
        const uint64_t compiled = counters_of(&o).compiled;
        ASSERT_OK(phasor_run_into(program, NULL, &input, 1, &output, 1, NULL));
        cr_assert_eq(counters_of(&o).compiled, compiled);
        for (int i = 0; i < 3; i++)
            cr_assert_eq(z[i], x[4 * i] + x[4 * i + 1] + x[4 * i + 2] + x[4 * i + 3]);
        phasor_program_close(program);
        opened_close(&o);
    }
    struct opened o; /* and another process has it all in the cache */
    phasor_options options = options_exact();
    options.cache = folder;
    options.no_compile = true;
    opened_with(&o, &options, PROGRAM, "plain");
    phasor_program *program = program_of(&o, text);
    ASSERT_OK(phasor_run_into(program, NULL, &input, 1, &output, 1, NULL));
    phasor_program_close(program);
    opened_close(&o);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

/* Kernels that take the sizes as arguments serve all lengths: there is little to compile. */
Test(units, generic_kernels)
{
    struct opened o;
    struct shapes s;
    phasor_options options = options_none();
    options.mode = PHASOR_MODE_GENERIC;
    opened_with(&o, &options, PROGRAM, "plain");
    shapes_make(&s, &o, 11, 12);
    ASSERT_OK(shapes_prepare(&o, &s));
    const phasor_counters counters = counters_of(&o);
    cr_assert_leq(counters.compiled, 4);
    cr_assert_eq(counters.compile_units, 1);
    cr_assert_eq(counters.specialisations, FORMS * 12);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(units, on_the_cpu_device)
{
    struct opened o;
    struct shapes s;
    opened_case(&o, ON_CPU, PROGRAM, "plain");
    shapes_make(&s, &o, 3, 2);
    ASSERT_OK(shapes_prepare(&o, &s));
    cr_assert_eq(counters_of(&o).compiled, 0);
    ASSERT_OK(phasor_program_prepare_many(o.program, s.list, 2, 0, NULL));
    ASSERT_FAILS(phasor_program_prepare_many(o.program, s.list, 2, -1, NULL), PHASOR_ERROR_USAGE,
                 "-1 shapes");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(units, a_shape_out_of_range_stops_no_other)
{
    struct opened o;
    struct shapes s;
    const phasor_options options = options_none();
    opened_with(&o, &options, PROGRAM, "plain");
    shapes_make(&s, &o, 3, 3);
    s.sizes[1][0][1] = 77; /* q and k differ */
    s.list[2] = s.list[0]; /* one shape twice */
    ASSERT_FAILS(shapes_prepare(&o, &s), PHASOR_ERROR_INPUT, "77");
    cr_assert_eq(s.statuses[0], PHASOR_OK);
    cr_assert_eq(s.statuses[1], PHASOR_ERROR_INPUT);
    cr_assert_eq(s.statuses[2], PHASOR_OK);
    cr_assert_eq(counters_of(&o).specialisations, FORMS);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* -- kernels that fail ------------------------------------------------------------------------- */

static void expect_one_failure(struct opened *o, struct shapes *s, int bad, const char *message)
{
    ASSERT_FAILS(shapes_prepare(o, s), PHASOR_ERROR_COMPILE, message);
    for (int i = 0; i < s->count; i++)
        cr_assert_eq(s->statuses[i], i == bad ? PHASOR_ERROR_COMPILE : PHASOR_OK, "shape %d", i);
    const phasor_counters counters = counters_of(o);
    cr_assert_eq(counters.compile_failures, 1);
    cr_assert_eq(counters.specialisations, FORMS * ((uint64_t)s->count - 1));
}

Test(units, one_bad_kernel_among_many)
{
    struct opened o;
    struct shapes s;
    char text[64];
    const phasor_options options = options_none();
    opened_with(&o, &options, PROGRAM, "plain");
    shapes_make(&s, &o, 11, 6);
    text_of_shape(&o, &s, 3, text);
    setenv("PHASOR_STAND_IN_NVRTC_REFUSE", text, 1);
    expect_one_failure(&o, &s, 3, "told to refuse");
    unsetenv("PHASOR_STAND_IN_NVRTC_REFUSE");
    const uint64_t before = counters_of(&o).compiled;
    ASSERT_OK(shapes_prepare(&o, &s));
    cr_assert_eq(counters_of(&o).compiled, before + 1);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* The process that compiles is killed at one source: in the unit, and again when it is alone. */
Test(units, a_compiler_that_dies)
{
    struct opened o;
    struct shapes s;
    char text[64];
    phasor_options options = options_none();
    options.compiler = server;
    opened_with(&o, &options, PROGRAM, "plain");
    shapes_make(&s, &o, 11, 6);
    text_of_shape(&o, &s, 2, text);
    setenv("PHASOR_STAND_IN_NVRTC_DIE", text, 1);
    expect_one_failure(&o, &s, 2, "signal 9");
    unsetenv("PHASOR_STAND_IN_NVRTC_DIE"); /* a process that was started before still has it */
    opened_close(&o);
    opened_with(&o, &options, PROGRAM, "plain");
    ASSERT_OK(shapes_prepare(&o, &s));
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(units, a_compiler_that_is_none)
{
    static const char *const nothing[] = {"/there/is/nothing", NULL},
                             *const ends[] = {"false", NULL}, *const empty[] = {NULL};
    const char *const *const commands[] = {nothing, ends, empty};
    static const char *const messages[] = {"cannot be started", "exit code 1", "no words"};
    for (int i = 0; i < 3; i++) {
        struct opened o;
        struct shapes s;
        phasor_options options = options_none();
        options.compiler = commands[i];
        opened_with(&o, &options, PROGRAM, "plain");
        shapes_make(&s, &o, 5, 1);
        ASSERT_FAILS(shapes_prepare(&o, &s), PHASOR_ERROR_COMPILE, messages[i]);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

/* A worker's own failure to find NVRTC is told as it is. */
Test(units, a_server_without_a_compiler)
{
    struct opened o;
    struct shapes s;
    phasor_options options = options_none();
    options.compiler = server;
    opened_with(&o, &options, PROGRAM, "plain");
    setenv("PHASOR_NVRTC", "/there/is/none.so", 1);
    shapes_make(&s, &o, 5, 1);
    ASSERT_FAILS(shapes_prepare(&o, &s), PHASOR_ERROR_COMPILE, "/there/is/none.so");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* A child has processes of its own: those of its parent answer to the parent. */
Test(units, after_a_fork)
{
    struct opened o;
    struct shapes s;
    int status;
    phasor_options options = options_none();
    options.compiler = server;
    opened_with(&o, &options, PROGRAM, "plain");
    shapes_make(&s, &o, 5, 1);
    ASSERT_OK(shapes_prepare(&o, &s));
    const pid_t child = fork();
    if (child == 0) {
        shapes_make(&s, &o, 8, 1);
        _exit(shapes_prepare(&o, &s) == PHASOR_OK ? 0 : 1);
    }
    shapes_make(&s, &o, 9, 1);
    ASSERT_OK(shapes_prepare(&o, &s));
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x", status);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* -- interrupts and threads -------------------------------------------------------------------- */

static void count_unit(void *context, const char *kernels, const char *reason, double milliseconds)
{
    cr_assert(*kernels && *reason && milliseconds >= 0);
    ++*(int *)context;
}

static bool after_first_unit(void *context)
{
    return *(int *)context == 1;
}

Test(units, interrupted_and_taken_up_again)
{
    struct opened o;
    struct shapes s;
    int units = 0;
    phasor_options options = options_none();
    options.compiled = count_unit;
    options.compiled_context = options.interrupted_context = &units;
    options.interrupted = after_first_unit;
    options.unit_kernels = 4;
    opened_with(&o, &options, PROGRAM, "plain");
    shapes_make(&s, &o, 11, 8);
    ASSERT_FAILS(shapes_prepare(&o, &s), PHASOR_ERROR_INTERRUPTED, "interrupted");
    const phasor_counters half = counters_of(&o);
    cr_assert_eq(half.compile_units, 1);
    cr_assert_eq(s.statuses[0], PHASOR_OK);
    cr_assert_eq(s.statuses[7], PHASOR_ERROR_INTERRUPTED);
    units = 2;
    ASSERT_OK(shapes_prepare(&o, &s));
    const uint64_t compiled = counters_of(&o).compiled;
    opened_close(&o);

    options.interrupted = NULL;
    opened_with(&o, &options, PROGRAM, "plain"); /* all at once: as many */
    ASSERT_OK(shapes_prepare(&o, &s));
    cr_assert_eq(counters_of(&o).compiled, compiled);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

struct preparing {
    struct opened *o;
    struct shapes *s;
    phasor_status status;
    pthread_t thread;
};

static void *prepare(void *context)
{
    struct preparing *p = context;
    p->status = shapes_prepare(p->o, p->s);
    return NULL;
}

/* Threads that want the same shapes, each in another order: nobody waits for ever, and nothing is
 * compiled twice. */
Test(units, threads_with_the_same_shapes, .timeout = 3600)
{
    enum { THREADS = 4, COUNT = 8 };
    static struct shapes s[THREADS];
    struct preparing p[THREADS];
    struct opened o;
    phasor_options options = options_none();
    options.unit_kernels = 4;
    options.compiler = server;
    opened_with(&o, &options, PROGRAM, "plain");
    for (int t = 0; t < THREADS; t++) {
        shapes_make(&s[t], &o, 21, COUNT);
        for (int i = 0; i < COUNT; i++)
            s[t].list[i] = s[t].values[(i * 3 + t * 2) % COUNT];
        p[t] = (struct preparing){.o = &o, .s = &s[t]};
        cr_assert_eq(pthread_create(&p[t].thread, NULL, prepare, &p[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(p[t].thread, NULL);
        cr_assert_eq(p[t].status, PHASOR_OK);
    }
    const phasor_counters counters = counters_of(&o);
    cr_assert_eq(counters.specialisations, FORMS * COUNT);
    opened_close(&o);

    opened_with(&o, &options, PROGRAM, "plain"); /* one thread alone: as many */
    ASSERT_OK(shapes_prepare(&o, &s[0]));
    cr_assert_eq(counters_of(&o).compiled, counters.compiled);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* -- archs ------------------------------------------------------------------------------------- */

/* What was prepared for sm_86 serves an sm_89 where nothing may be compiled. */
Test(units, a_lower_minor_serves)
{
    struct opened o;
    char folder[64];
    phasor_options options = options_none();
    folder_make(folder);
    options.cache = folder;
    options.arch = "sm_86";
    opened_with(&o, &options, PROGRAM, "plain");
    ASSERT_OK(phasor_program_prepare(o.program, o.in, o.in_count));
    const uint64_t kernels = counters_of(&o).compiled;
    opened_close(&o);

    options = options_exact();
    options.cache = folder;
    options.no_compile = true;
    setenv("PHASOR_STAND_IN_ARCHS", "sm_89", 1);
    for (int again = 0; again < 2;
         again++) { /* the second time from the plan that the first kept */
        opened_with(&o, &options, PROGRAM, "plain");
        cr_assert_str_eq(phasor_arch_name(o.runtime), "sm_89");
        ASSERT_OK(opened_run(&o));
        opened_expect(&o);
        opened_delete(&o);
        cr_assert_eq(counters_of(&o).cache_hits, kernels);
        cr_assert_eq(counters_of(&o).foreign, 0);
        opened_close(&o);
    }
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

Test(units, another_major_does_not_serve)
{
    struct opened o;
    char folder[64];
    phasor_options options = options_none();
    folder_make(folder);
    options.cache = folder;
    options.arch = "sm_89";
    opened_with(&o, &options, PROGRAM, "plain");
    ASSERT_OK(phasor_program_prepare(o.program, o.in, o.in_count));
    opened_close(&o);

    options = options_exact();
    options.cache = folder;
    options.no_compile = true;
    setenv("PHASOR_STAND_IN_ARCHS", "sm_90", 1);
    opened_with(&o, &options, PROGRAM, "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_NOT_READY, "forbidden");
    opened_close(&o);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}
