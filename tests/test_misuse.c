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
