/* test_misuse.c - what a caller gives wrong is an error with a reason, and nothing is written:
 * outputs of other sizes, strides of no use, memory that is shared. On both devices, in every mode.
 * gpu/misuse.c does the same with device memory. */
#include "support/capture.h"
#include "support/leak.h"

enum { MARK = 0x5a };

/* -- sizes of outputs -------------------------------------------------------------------------- */

#define TWO_FORMS                                                                      \
    "phasor 1 \"forms\"\ninput x: f32[3, 4]\ny = neg(x)\nz = permute(y) axes=[1, 0]\n" \
    "o = contiguous(z) flag=1\ns = sum(x) axes=[1]\noutput o\noutput s\n"

struct given {
    DLTensor tensor[2];
    int64_t shape[2][2], strides[2][2];
    float values[2][256];
    phasor_value out[2];
};

static void given_right(struct given *g)
{
    *g = (struct given){.shape = {{4, 3}, {3}}, .strides = {{3, 1}, {1}}};
    memset(g->values, MARK, sizeof g->values);
    for (int i = 0; i < 2; i++) {
        g->tensor[i] = (DLTensor){.data = g->values[i] + 64,
                                  .device = {kDLCPU, 0},
                                  .ndim = 2 - i,
                                  .dtype = {kDLFloat, 32, 1},
                                  .shape = g->shape[i],
                                  .strides = g->strides[i]};
        g->out[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &g->tensor[i]};
    }
}

static void given_refused(const struct opened *o, phasor_program *program, struct given *g,
                          const char *text)
{
    ASSERT_FAILS(phasor_run_into(program, NULL, o->in, 1, g->out, 2, NULL), PHASOR_ERROR_INPUT,
                 text);
    for (size_t i = 0; i < sizeof g->values; i++)
        cr_assert_eq(((unsigned char *)g->values)[i], MARK, "byte %zu was written", i);
}

static void sizes_are_checked(const struct opened *o, phasor_program *program)
{
    static const int64_t wrong[][2] = {{3, 4}, {1, 1}, {4, 4}, {4, 2}, {0, 3}, {8, 3}, {2, 6}};
    struct given g;
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        given_right(&g);
        memcpy(g.shape[0], wrong[k], sizeof wrong[k]);
        g.strides[0][0] = wrong[k][1] ? wrong[k][1] : 1;
        given_refused(o, program, &g, "for these inputs it has [4, 3]");
    }
    given_right(&g);
    g.shape[1][0] = 1;
    given_refused(o, program, &g, "sizes [1]; for these inputs it has [3]");
    given_right(&g);
    ASSERT_OK(phasor_run_into(program, NULL, o->in, 1, g.out, 2, NULL));
    cr_assert_eq(g.values[0][64 + 5], -((const float *)o->in[0].tensor->data)[2 * 4 + 1]);
    for (int i = 0; i < 256; i++)
        if (i < 64 || i >= 64 + 12)
            cr_assert_eq(((unsigned char *)&g.values[0][i])[0], MARK, "beside the first output");
    /* warm, and wrong again */
    given_right(&g);
    g.shape[0][0] = 5;
    given_refused(o, program, &g, "sizes [5, 3]");
}

/* x: f32[3, 4], on the host. */
static void with_program(enum where where, phasor_mode mode, const char *text,
                         void (*act)(const struct opened *, phasor_program *))
{
    struct opened o = {0};
    phasor_options options = options_for(where);
    int64_t shape[2] = {3, 4};
    float values[12];
    DLTensor x = {.data = values,
                  .device = {kDLCPU, 0},
                  .ndim = 2,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape};
    for (int i = 0; i < 12; i++)
        values[i] = (float)i;
    options.mode = mode;
    ASSERT_OK(phasor_open(&o.runtime, &options));
    o.in[0] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &x};
    phasor_program *program = program_of(&o, text);
    act(&o, program);
    phasor_program_close(program);
    phasor_close(o.runtime);
}

static void in_every_mode(const char *text, void (*act)(const struct opened *, phasor_program *))
{
    FOR_BOTH(where)
    {
        for (phasor_mode mode = PHASOR_MODE_EXACT; mode <= PHASOR_MODE_AUTO; mode++)
            with_program(where, mode, text, act);
    }
    ASSERT_NO_LEAKS();
}

Test(misuse, sizes_of_outputs)
{
    in_every_mode(TWO_FORMS, sizes_are_checked);
}

/* -- strides and memory ------------------------------------------------------------------------ */

static void memory_is_checked(const struct opened *o, phasor_program *program)
{
    struct given g;
    given_right(&g);
    g.strides[0][0] = 1;
    given_refused(o, program, &g, "elements overlap");
    given_right(&g);
    g.strides[0][0] = INT64_MIN;
    given_refused(o, program, &g, "too large");
    given_right(&g);
    g.shape[0][0] = INT64_MIN;
    given_refused(o, program, &g, "negative");
    given_right(&g);
    g.tensor[0].byte_offset = UINT64_MAX - 15;
    given_refused(o, program, &g, "address space");
    given_right(&g);
    g.tensor[0].shape = NULL;
    given_refused(o, program, &g, "shape is NULL");
    given_right(&g);
    g.tensor[1].data = g.values[0] + 70;
    given_refused(o, program, &g, "overlaps output 0");
    given_right(&g);
    g.tensor[0].data = (float *)o->in[0].tensor->data + 1;
    given_refused(o, program, &g, "overlaps input 0");
}

Test(misuse, strides_and_memory_of_outputs)
{
    in_every_mode(TWO_FORMS, memory_is_checked);
}

/* What the program changes: writing one place twice has no right value. */
static void written_is_checked(const struct opened *o, phasor_program *program)
{
    int64_t strides[2] = {0, 1};
    DLTensor x = *o->in[0].tensor, shifted = x;
    phasor_value in[2] = {{.kind = PHASOR_TENSOR, .tensor = &x},
                          {.kind = PHASOR_TENSOR, .tensor = &shifted}};
    float before[12];
    memcpy(before, x.data, sizeof before);
    shifted.byte_offset = 4;
    phasor_value out;
    ASSERT_FAILS(phasor_run(program, NULL, in, 2, &out, 1, NULL), PHASOR_ERROR_INPUT,
                 "which the program changes, overlaps input 1");
    float other[12] = {0};
    shifted.data = other;
    shifted.byte_offset = 0;
    x.strides = strides;
    ASSERT_FAILS(phasor_run(program, NULL, in, 2, &out, 1, NULL), PHASOR_ERROR_INPUT,
                 "its elements overlap");
    cr_assert_eq(memcmp(before, o->in[0].tensor->data, sizeof before), 0);
}

Test(misuse, inputs_that_the_program_changes)
{
    in_every_mode("phasor 1 \"changed\"\ninput x: f32[3, 4]\ninput w: f32[3, 4]\n"
                  "y = add(x, w)\nwrite x = y\noutput y\n",
                  written_is_checked);
}

/* -- copies ------------------------------------------------------------------------------------ */

Test(misuse, copies_to_the_host)
{
    phasor_runtime *runtime;
    const phasor_options options = options_for(ON_CPU);
    int64_t shape[2] = {INT64_C(1) << 33, INT64_C(1) << 33};
    float values[4] = {1, 2, 3, 4};
    DLTensor t = {.data = values,
                  .device = {kDLCPU, 0},
                  .ndim = 2,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape};
    ASSERT_OK(phasor_open(&runtime, &options));
    ASSERT_FAILS(phasor_copy_to_host(runtime, &t, values, 0), PHASOR_ERROR_USAGE, "too large");
    shape[0] = -1;
    shape[1] = -2;
    ASSERT_FAILS(phasor_copy_to_host(runtime, &t, values, 8), PHASOR_ERROR_USAGE, "negative");
    shape[0] = shape[1] = 2;
    t.data = NULL;
    ASSERT_FAILS(phasor_copy_to_host(runtime, &t, values, 16), PHASOR_ERROR_USAGE, "NULL");
    ASSERT_FAILS(phasor_copy_to_host(runtime, NULL, values, 16), PHASOR_ERROR_USAGE,
                 "from is NULL");
    phasor_close(runtime);
    ASSERT_NO_LEAKS();
}

/* -- what the outputs will be ------------------------------------------------------------------ */

static void outputs_are_foretold(const struct opened *o, const char *name, bool own)
{
    phasor_output_info info[SLOTS_MAX];
    phasor_value shapes[SLOTS_MAX];
    DLTensor tensors[SLOTS_MAX];
    memcpy(shapes, o->in, sizeof shapes);
    for (int i = 0; i < o->in_count; i++)
        if (shapes[i].kind == PHASOR_TENSOR) { /* no memory is looked at */
            tensors[i] = *shapes[i].tensor;
            tensors[i].data = NULL;
            shapes[i].tensor = &tensors[i];
        }
    info[0].size = sizeof *info;
    ASSERT_OK(phasor_program_output_sizes(o->program, shapes, o->in_count, info, o->out_count));
    for (int i = 0; i < o->out_count; i++) {
        const phasor_value *out = &o->out[i];
        cr_assert_eq(info[i].kind, out->kind == PHASOR_OWNED ? PHASOR_TENSOR : out->kind);
        if (out->kind == PHASOR_INT)
            cr_assert_eq(info[i].integer, out->integer, "%s, output %d", name, i);
        if (out->kind != PHASOR_OWNED)
            continue;
        const DLTensor *t = &out->owned->dl_tensor;
        cr_assert_eq(info[i].rank, t->ndim);
        cr_assert_eq(memcmp(&info[i].dtype, &t->dtype, sizeof t->dtype), 0);
        for (int d = 0; d < t->ndim; d++) {
            cr_assert_eq(info[i].sizes[d], t->shape[d], "%s, output %d, dim %d", name, i, d);
            cr_assert_eq(info[i].strides[d], t->strides[d], "%s, output %d, dim %d%s", name, i, d,
                         own ? ", own outputs" : "");
        }
    }
}

Test(output_sizes, are_those_of_a_run)
{
    static const char *const names[] = {
        "qk_rope_bf16_dynamic", "nested_inputs",     "int_input",    "alias_mix", "joins",
        "op_empty_rows",        "op_complex_output", "assign_slice", "cache_step"};
    FOR_BOTH(where)
    {
        for (size_t k = 0; k < 2 * sizeof names / sizeof *names; k++) {
            struct opened o;
            phasor_options options = options_for(where);
            options.own_outputs = k % 2;
            opened_with(&o, &options, names[k / 2], "plain");
            ASSERT_OK(opened_run(&o));
            outputs_are_foretold(&o, names[k / 2], k % 2);
            opened_delete(&o);
            opened_close(&o);
        }
    }
    ASSERT_NO_LEAKS();
}

Test(output_sizes, wrong_ones)
{
    struct opened o;
    phasor_output_info info[2] = {{.size = 0}};
    int64_t shape[4] = {3, 7, 8, 100};
    phasor_options options = options_for(ON_CPU);
    options.device = PHASOR_DEVICE_NONE;
    opened_with(&o, &options, "qk_rope_bf16_dynamic", "plain");
    ASSERT_FAILS(phasor_program_output_sizes(o.program, o.in, 2, info, 2), PHASOR_ERROR_USAGE,
                 "phasor_output_info.size is 0");
    info[0].size = sizeof *info;
    ASSERT_FAILS(phasor_program_output_sizes(o.program, o.in, 2, info, 1), PHASOR_ERROR_INPUT,
                 "room for 1 outputs");
    DLTensor wrong = *o.in[0].tensor;
    wrong.shape = shape;
    const phasor_value in[2] = {{.kind = PHASOR_TENSOR, .tensor = &wrong}, o.in[1]};
    ASSERT_FAILS(phasor_program_output_sizes(o.program, in, 2, info, 2), PHASOR_ERROR_INPUT,
                 "expected 128");
    ASSERT_OK(phasor_program_output_sizes(o.program, o.in, 2, info, 2));
    cr_assert_eq(info[1].sizes[1], o.in[1].tensor->shape[1]);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* -- arguments that are not there -------------------------------------------------------------- */

#define IS_USAGE(call) ASSERT_FAILS(call, PHASOR_ERROR_USAGE, "NULL")

Test(misuse, null_is_wrong_usage)
{
    struct opened o;
    phasor_program *program;
    phasor_state *state;
    phasor_tensors *tensors;
    phasor_spec spec = {.size = sizeof spec};
    phasor_counters counters = {.size = sizeof counters};
    phasor_bench_result result = {.size = sizeof result};
    char *text;
    bool good;
    opened_case(&o, ON_CPU, "twice", "plain");
    IS_USAGE(phasor_open(NULL, NULL));
    IS_USAGE(phasor_stats(NULL, &counters));
    IS_USAGE(phasor_stats(o.runtime, NULL));
    IS_USAGE(phasor_program_load(NULL, "x", NULL, &program));
    IS_USAGE(phasor_program_load(o.runtime, NULL, NULL, &program));
    IS_USAGE(phasor_program_load(o.runtime, "x", NULL, NULL));
    IS_USAGE(phasor_program_load_memory(o.runtime, NULL, 0, "x", NULL, &program));
    IS_USAGE(phasor_program_load_memory(o.runtime, "x", 1, NULL, NULL, &program));
    IS_USAGE(phasor_program_input(NULL, 0, &spec));
    IS_USAGE(phasor_program_input(o.program, 0, NULL));
    IS_USAGE(phasor_program_output(NULL, 0, &spec));
    IS_USAGE(phasor_program_output(o.program, 0, NULL));
    IS_USAGE(phasor_program_refused(o.program, 0, NULL));
    IS_USAGE(phasor_program_sizes(NULL, NULL, 0, NULL, 0));
    IS_USAGE(phasor_program_sizes(o.program, NULL, 1, NULL, 0));
    IS_USAGE(phasor_program_sizes(o.program, &(phasor_binding){NULL, 1}, 1, NULL, 0));
    IS_USAGE(phasor_program_output_sizes(NULL, NULL, 0, NULL, 0));
    IS_USAGE(phasor_program_prepare(NULL, o.in, 1));
    IS_USAGE(phasor_program_prepare(o.program, NULL, o.in_count));
    IS_USAGE(phasor_program_prepare_many(NULL, NULL, 1, 1, NULL));
    IS_USAGE(phasor_program_prepare_many(o.program, NULL, 1, 1, NULL));
    IS_USAGE(phasor_program_show(NULL, "loaded", false, NULL, 0, &text));
    IS_USAGE(phasor_program_show(o.program, NULL, false, NULL, 0, &text));
    IS_USAGE(phasor_program_show(o.program, "loaded", false, NULL, 0, NULL));
    IS_USAGE(phasor_program_write(o.program, "loaded", NULL));
    IS_USAGE(phasor_program_write(o.program, NULL, "x"));
    IS_USAGE(phasor_state_new(NULL, &state));
    IS_USAGE(phasor_state_new(o.program, NULL));
    IS_USAGE(phasor_state_reset(NULL, NULL));
    IS_USAGE(phasor_state_check(NULL, NULL));
    IS_USAGE(phasor_run(NULL, NULL, o.in, 1, o.out, 1, NULL));
    IS_USAGE(phasor_run(o.program, NULL, NULL, o.in_count, o.out, o.out_count, NULL));
    IS_USAGE(phasor_run(o.program, NULL, o.in, o.in_count, NULL, o.out_count, NULL));
    IS_USAGE(phasor_run_into(o.program, NULL, o.in, o.in_count, NULL, o.out_count, NULL));
    IS_USAGE(phasor_copy_to_host(NULL, o.in[0].tensor, &good, 1));
    IS_USAGE(phasor_program_info(o.program, NULL));
    IS_USAGE(phasor_program_bench(NULL, o.in, 1, NULL, &result));
    IS_USAGE(phasor_program_bench(o.program, o.in, 1, NULL, NULL));
    IS_USAGE(phasor_program_bench_calls(o.program, NULL, 1, 1, NULL));
    IS_USAGE(phasor_cache_require(NULL));
    IS_USAGE(phasor_cache_show(o.runtime, NULL, false, &text));
    IS_USAGE(phasor_cache_extract(o.runtime, NULL, "x"));
    IS_USAGE(phasor_cache_clear(NULL));
    IS_USAGE(phasor_cache_verify(o.runtime, false, false, NULL, &text));
    IS_USAGE(phasor_cache_gc(o.runtime, false, NULL));
    IS_USAGE(phasor_cache_export(o.runtime, NULL, false, &text));
    IS_USAGE(phasor_cache_import(o.runtime, NULL, false, &good, &text));
    IS_USAGE(phasor_doctor(NULL, false, NULL));
    IS_USAGE(phasor_tensors_read(NULL, &tensors));
    IS_USAGE(phasor_tensors_read("x", NULL));
    IS_USAGE(phasor_tensors_write(NULL, NULL, NULL, 0));
    IS_USAGE(phasor_tensors_write("x", NULL, o.in, 1));
    cr_assert_eq(phasor_program_input_count(NULL), 0);
    cr_assert_eq(phasor_program_output_count(NULL), 0);
    cr_assert_eq(phasor_program_refused_count(NULL), 0);
    cr_assert_null(phasor_program_device(NULL));
    cr_assert_null(phasor_device_name(NULL));
    cr_assert_null(phasor_arch_name(NULL));
    cr_assert_null(phasor_cache_path(NULL));
    cr_assert_eq(phasor_tensors_count(NULL), 0);
    cr_assert_not(phasor_tensors_find(NULL, "x", o.out));
    phasor_close(NULL);
    phasor_program_close(NULL);
    phasor_state_free(NULL);
    phasor_tensors_close(NULL);
    phasor_free(NULL);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(misuse, structs_have_their_size)
{
    struct opened o;
    phasor_runtime *runtime;
    char *text;
    static const size_t wrong[] = {0, 3, 1 << 20, SIZE_MAX};
    opened_case(&o, ON_CPU, "twice", "plain");
    ASSERT_OK(opened_run(&o));
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        phasor_options options = {.size = wrong[k]};
        phasor_counters counters = {.size = wrong[k]};
        phasor_spec spec = {.size = wrong[k]};
        phasor_run_info info = {.size = wrong[k]};
        phasor_bench_options bench = {.size = wrong[k]};
        phasor_bench_result result = {.size = wrong[k]};
        ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_USAGE, "phasor_options.size");
        ASSERT_FAILS(phasor_doctor(&options, false, &text), PHASOR_ERROR_USAGE, "options.size");
        ASSERT_FAILS(phasor_stats(o.runtime, &counters), PHASOR_ERROR_USAGE, "counters.size");
        ASSERT_FAILS(phasor_program_input(o.program, 0, &spec), PHASOR_ERROR_USAGE, "spec.size");
        ASSERT_FAILS(phasor_program_output(o.program, 0, &spec), PHASOR_ERROR_USAGE, "spec.size");
        ASSERT_FAILS(phasor_program_info(o.program, &info), PHASOR_ERROR_USAGE, "info.size");
        ASSERT_FAILS(phasor_program_bench(o.program, o.in, o.in_count, NULL, &result),
                     PHASOR_ERROR_USAGE, "result.size");
        result.size = sizeof result;
        ASSERT_FAILS(phasor_program_bench(o.program, o.in, o.in_count, &bench, &result),
                     PHASOR_ERROR_USAGE, "bench_options.size");
    }
    opened_delete(&o);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}
