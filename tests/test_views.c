/* test_views.c - what copies and what shows memory depends on strides: a program is refused for the
 * sizes and strides of a call where a write in place would reach other tensors than in the example,
 * and where a caller's tensor cannot be seen as complex numbers.
 *
 * The programs cases/views_* (make/view_programs.py) and cases/fault_copy_not_view_* hold values. */
#include "support/leak.h"
#include "support/runtime_case.h"

static float numbers[256];

/* A caller's tensor of f32. */
struct given {
    DLTensor tensor;
    int64_t sizes[4], strides[4];
    phasor_value value;
};

static void give(struct given *g, int rank, const int64_t *sizes, const int64_t *strides)
{
    memcpy(g->sizes, sizes, (size_t)rank * sizeof *sizes);
    memcpy(g->strides, strides, (size_t)rank * sizeof *strides);
    for (int i = 0; i < 256; i++)
        numbers[i] = (float)i;
    g->tensor = (DLTensor){.data = numbers,
                           .device = {kDLCPU, 0},
                           .ndim = rank,
                           .dtype = {kDLFloat, 32, 1},
                           .shape = g->sizes,
                           .strides = g->strides};
    g->value = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &g->tensor};
}

static phasor_status run(struct opened *o, const phasor_value *in)
{
    return phasor_run(o->program, NULL, in, 1, o->out, o->out_count, NULL);
}

Test(views, a_copy_of_the_example_that_is_a_view_for_these_sizes)
{
    static const int64_t one[] = {2, 1, 8}, strides[] = {8, 8, 1};
    for (int k = 0; k < 2; k++) {
        struct opened o;
        struct given g;
        give(&g, 3, one, strides);
        opened_case(&o, k ? ON_CUDA : ON_CPU, "views_dynamic", "plain");
        ASSERT_FAILS(run(&o, &g.value), PHASOR_ERROR_INPUT,
                     "contiguous copies its operand in the example, and shows its memory");
        ASSERT_OK(run(&o, o.in));
        opened_expect(&o);
        opened_delete(&o);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

/* Where nobody can tell, every size is served: views_dead has a set of length 1. */
Test(views, a_fork_that_does_not_matter_is_no_claim)
{
    for (int k = 0; k < 2; k++) {
        struct opened o;
        opened_case(&o, k ? ON_CUDA : ON_CPU, "views_dead", "plain");
        for (int set = 0; set < 3; set++) {
            opened_inputs(&o, "views_dead", set);
            ASSERT_OK(run(&o, o.in));
            opened_expect(&o);
            opened_delete(&o);
        }
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

Test(views, a_view_of_the_example_that_copies_for_these_strides)
{
    static const int64_t sizes[] = {4, 6}, strides[] = {1, 4}, plain[] = {6, 1};
    for (int k = 0; k < 2; k++) {
        struct opened o;
        struct given g;
        opened_case(&o, k ? ON_CUDA : ON_CPU, "views_callers", "plain");
        give(&g, 2, sizes, strides);
        ASSERT_FAILS(run(&o, &g.value), PHASOR_ERROR_INPUT,
                     "flatten shows memory of its operand in the example, and copies it");
        give(&g, 2, sizes, plain);
        ASSERT_OK(run(&o, &g.value));
        opened_delete(&o);
        cr_assert_eq(numbers[5], 10, "%g", (double)numbers[5]);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

/* z = view_as_complex(a) f32[2, 3, 2], of which view_as_real is the output */
Test(views, pairs_that_do_not_lie_together)
{
    static const int64_t sizes[] = {2, 3, 2};
    static const struct {
        int64_t strides[3];
        const char *trouble; /* NULL: none */
    } rows[] = {
        {{6, 2, 1}, NULL},
        {{20, 4, 1}, NULL},
        {{2, 4, 1}, NULL},
        {{0, 2, 1}, NULL},
        {{6, 1, 3}, "needs a last dim of stride 1, and it is 3"},
        {{24, 6, 2}, "needs a last dim of stride 1, and it is 2"},
        {{6, 2, 7}, "needs a last dim of stride 1, and it is 7"},
        {{15, 4, 1}, "needs an even stride in dim 0, and it is 15"},
        {{20, 5, 1}, "needs an even stride in dim 1, and it is 5"},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        struct opened o = {.out_count = 1};
        struct given g;
        const phasor_options options = options_for(i % 2 ? ON_CUDA : ON_CPU);
        const int64_t *strides = rows[i / 2].strides;
        ASSERT_OK(phasor_open(&o.runtime, &options));
        ASSERT_OK(phasor_program_load(o.runtime, PHASOR_TEST_CASES "/../text/pairs.phasor", NULL,
                                      &o.program));
        give(&g, 3, sizes, strides);
        if (rows[i / 2].trouble) {
            ASSERT_FAILS(run(&o, &g.value), PHASOR_ERROR_INPUT, rows[i / 2].trouble);
        } else {
            ASSERT_OK(run(&o, &g.value));
            tensor_expect(o.runtime, &o.out[0].owned->dl_tensor, &g.tensor, "pairs");
            opened_delete(&o);
        }
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

/* k1 = k1.fill_(0.5) is the same for all calls, and is an output: what else it is written to is no
 * table. */
Test(views, an_input_is_filled_with_a_constant_that_is_an_output)
{
    for (int k = 0; k < 2; k++) {
        struct opened o;
        opened_case(&o, k ? ON_CUDA : ON_CPU, "views_05", "plain");
        ASSERT_OK(phasor_run(o.program, NULL, o.in, o.in_count, o.out, o.out_count, NULL));
        opened_expect(&o);
        opened_delete(&o);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}
