/* test_library.c - products of matrices by a vendor library, which a stand-in takes the place of:
 * which products it makes, with operands where they are, and results as the CPU device has them. */
#include "runtime_case.h"
#include "leak.h"

#include "library/query.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <unistd.h>

enum { ELEMENTS_MAX = 1 << 16 };

static const struct product {
    const char *what, *text;
    int inputs;
    int64_t sizes[2][4];
    int ranks[2], calls;
    const char *lacks; /* an operator that no kernel may have: its operand is taken where it is */
} products[] = {
    {"rows by a transposed weight, through reshape and permute",
     "input x: f32[2, 5, 64]\ninput w: f32[48, 64]\n"
     "a = reshape(x) sizes=[10, 64]\nb = permute(w) axes=[1, 0]\ny = dot(a, b)\noutput y\n",
     2,
     {{2, 5, 64}, {48, 64}},
     {3, 2},
     1,
     "permute"},
    {"a sum is kept in memory first",
     "input x: f32[10, 64]\ninput w: f32[64, 48]\n"
     "a = add(x, x)\ny = dot(a, w)\nz = exp(y)\noutput z\n",
     2,
     {{10, 64}, {64, 48}},
     {2, 2},
     1,
     NULL},
    {"an operand without a dim of stride 1 is copied",
     "input x: f32[10, 128]\ninput w: f32[64, 48]\n"
     "a = slice(x) axis=1 start=0 length=64 step=2\ny = dot(a, w)\noutput y\n",
     2,
     {{10, 128}, {64, 48}},
     {2, 2},
     1,
     NULL},
    {"part of a tensor, from an offset on",
     "input x: f32[12, 96]\ninput w: f32[64, 48]\n"
     "a = slice(x) axis=1 start=5 length=64 step=1\ny = dot(a, w)\noutput y\n",
     2,
     {{12, 96}, {64, 48}},
     {2, 2},
     1,
     "slice"},
    {"batches, one of them shared",
     "input x: f32[3, 4, 64]\ninput w: f32[64, 40]\n"
     "b = expand(w) sizes=[3, 64, 40]\ny = dot(x, b)\noutput y\n",
     2,
     {{3, 4, 64}, {64, 40}},
     {3, 2},
     1,
     "expand"},
    {"a result whose columns are permuted is put aside",
     "input x: f32[10, 64]\ninput w: f32[64, 48]\n"
     "y = dot(x, w)\nz = permute(y) axes=[1, 0]\noutput z\n",
     2,
     {{10, 64}, {64, 48}},
     {2, 2},
     1,
     NULL},
    {"few elements: a kernel of ours",
     "input x: f32[10, 8]\ninput w: f32[8, 48]\ny = dot(x, w)\noutput y\n",
     2,
     {{10, 8}, {8, 48}},
     {2, 2},
     0,
     NULL},
    {"integers: a kernel of ours",
     "input x: i64[10, 64]\ninput w: i64[64, 48]\ny = dot(x, w)\noutput y\n",
     2,
     {{10, 64}, {64, 48}},
     {2, 2},
     0,
     NULL},
    {"nothing to sum over: zeros by a kernel of ours",
     "input x: f32[10, 0]\ninput w: f32[0, 48]\ny = dot(x, w)\noutput y\n",
     2,
     {{10, 0}, {0, 48}},
     {2, 2},
     0,
     NULL},
};

enum { PRODUCTS = sizeof products / sizeof *products };

static void inputs_fill(const struct product *p, DLTensor tensors[2], phasor_value values[2])
{
    static float numbers[2][ELEMENTS_MAX];
    static int64_t integers[2][ELEMENTS_MAX];
    const bool whole = strstr(p->text, "i64") != NULL;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < ELEMENTS_MAX; k++) {
            integers[i][k] = (k * 7 + i * 3) % 11 - 5;
            numbers[i][k] = (float)integers[i][k] * 0.125f;
        }
        tensors[i] = (DLTensor){.data = whole ? (void *)integers[i] : (void *)numbers[i],
                                .device = {kDLCPU, 0},
                                .ndim = p->ranks[i],
                                .dtype = {whole ? kDLInt : kDLFloat, whole ? 64 : 32, 1},
                                .shape = (int64_t *)(uintptr_t)p->sizes[i]};
        values[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &tensors[i]};
    }
}

static void program_open(struct opened *o, enum where where, const struct product *p,
                         phasor_mode mode)
{
    phasor_options options = options_for(where);
    char path[] = "/tmp/product_XXXXXX.phasor";
    FILE *file = fdopen(mkstemps(path, 7), "w");
    cr_assert(file);
    memset(o, 0, sizeof *o);
    options.mode = mode;
    fprintf(file, "phasor 1 \"product\"\n%s", p->text);
    fclose(file);
    ASSERT_OK(phasor_open(&o->runtime, &options));
    ASSERT_OK(phasor_program_load(o->runtime, path, NULL, &o->program));
    unlink(path);
    o->in_count = p->inputs;
    o->out_count = 1;
}

static int library_calls(const struct opened *o, char **plan)
{
    ASSERT_OK(phasor_program_show(o->program, "plan", true, o->in, o->in_count, plan));
    const char *at = strstr(*plan, "\"library_calls\": ");
    cr_assert(at);
    return atoi(at + strlen("\"library_calls\": "));
}

Test(library, products)
{
    for (int k = 0; k < PRODUCTS; k++) {
        struct opened cpu, cuda;
        DLTensor tensors[2];
        char *plan;
        program_open(&cpu, ON_CPU, &products[k], PHASOR_MODE_EXACT);
        program_open(&cuda, ON_CUDA, &products[k], PHASOR_MODE_EXACT);
        inputs_fill(&products[k], tensors, cpu.in);
        memcpy(cuda.in, cpu.in, sizeof cpu.in);
        cr_expect_eq(library_calls(&cuda, &plan), products[k].calls, "%s: %s", products[k].what,
                     plan);
        if (products[k].lacks) {
            const char *kernels_end = strstr(plan, "\"buffers\": [");
            const char *found = strstr(plan, products[k].lacks);
            cr_expect(!found || found > kernels_end, "%s: %s", products[k].what, plan);
        }
        phasor_free(plan);
        const long before = stand_in_get("stand_in_launches");
        ASSERT_OK(opened_run(&cpu));
        ASSERT_OK(opened_run(&cuda));
        cr_expect(products[k].calls || stand_in_get("stand_in_launches") > before);
        tensor_expect(cuda.runtime, &cuda.out[0].owned->dl_tensor, &cpu.out[0].owned->dl_tensor,
                      products[k].what);
        opened_delete(&cpu);
        opened_delete(&cuda);
        opened_close(&cpu);
        opened_close(&cuda);
    }
    ASSERT_NO_LEAKS();
}

Test(library, is_missing)
{
    struct opened o;
    DLTensor tensors[2];
    char *plan;
    program_open(&o, ON_CUDA, &products[0], PHASOR_MODE_EXACT);
    setenv("PHASOR_CUBLASLT", "/there/is/none.so", 1);
    inputs_fill(&products[0], tensors, o.in);
    cr_expect_eq(library_calls(&o, &plan), 0, "%s", plan);
    phasor_free(plan);
    ASSERT_OK(opened_run(&o));
    opened_delete(&o);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(library, fails)
{
    struct opened o;
    DLTensor tensors[2];
    program_open(&o, ON_CUDA, &products[0], PHASOR_MODE_EXACT);
    inputs_fill(&products[0], tensors, o.in);
    setenv("PHASOR_STAND_IN_CUBLASLT_FAIL", "MatmulAlgoGetHeuristic=15", 1);
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_DEVICE, "no algorithm for a product of 10 x 48 x 64");
    setenv("PHASOR_STAND_IN_CUBLASLT_FAIL", "Matmul=13", 1);
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_DEVICE, "a product of matrices");
    unsetenv("PHASOR_STAND_IN_CUBLASLT_FAIL");
    ASSERT_OK(opened_run(&o));
    opened_delete(&o);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(library, a_whole_model_in_each_mode)
{
    static const phasor_mode modes[] = {PHASOR_MODE_EXACT, PHASOR_MODE_GENERIC, PHASOR_MODE_AUTO};
    for (int m = 0; m < 3; m++)
        for (int form = 0; form < 2; form++) {
            struct opened o;
            phasor_options options = options_for(ON_CUDA);
            options.mode = modes[m];
            opened_with(&o, &options, "hf_deepseek_v2_dynamic", form ? "core" : "plain");
            for (int set = 0; set < 2; set++) {
                opened_inputs(&o, "hf_deepseek_v2_dynamic", set);
                ASSERT_OK(opened_run(&o));
                opened_expect(&o);
                opened_delete(&o);
            }
            opened_close(&o);
        }
    ASSERT_NO_LEAKS();
}

/* Matrices as rows and columns with strides. */
Test(library, matrices)
{
    static const struct {
        int64_t rows, columns, row_stride, column_stride, stride;
        bool described, transposed;
    } all[] = {
        {3, 4, 4, 1, 4, true, false},  {3, 4, 9, 1, 9, true, false},  {3, 4, 1, 3, 3, true, true},
        {3, 4, 1, 8, 8, true, true},   {3, 4, 3, 1, 0, false, false}, {3, 4, 8, 2, 0, false, false},
        {1, 4, 77, 1, 4, true, false}, {3, 1, 1, 77, 1, true, false}, {3, 1, 5, 77, 5, true, false},
        {3, 4, 0, 1, 0, false, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct matrix m;
        const bool described = matrix_describe(all[i].rows, all[i].columns, all[i].row_stride,
                                               all[i].column_stride, &m);
        cr_expect_eq(described, all[i].described, "%zu", i);
        if (!described)
            continue;
        cr_expect_eq(m.transposed, all[i].transposed, "%zu", i);
        cr_expect_eq(m.stride, all[i].stride, "%zu: %" PRId64, i, m.stride);
    }
}

/* Zeros need no kernel. */
Test(library, fills)
{
    static const struct product program = {
        "zeros",
        "input x: f32[4, 6]\n"
        "zero = scalar value=0 : f32[]\nz = expand(zero) sizes=[4, 6]\n"
        "output z\n",
        1,
        {{4, 6}, {1}},
        {2, 1},
        0,
        NULL};
    struct opened o;
    DLTensor tensors[2];
    char *plan;
    program_open(&o, ON_CUDA, &program, PHASOR_MODE_EXACT);
    inputs_fill(&program, tensors, o.in);
    cr_expect_eq(library_calls(&o, &plan), 0);
    cr_expect(strstr(plan, "\"kind\": \"fill\""), "%s", plan);
    phasor_free(plan);
    ASSERT_OK(opened_run(&o));
    float numbers[24];
    ASSERT_OK(phasor_copy_to_host(o.runtime, &o.out[0].owned->dl_tensor, numbers, sizeof numbers));
    for (int i = 0; i < 24; i++)
        cr_expect_eq(numbers[i], 0.0f);
    opened_delete(&o);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}
