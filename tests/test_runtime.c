/* test_runtime.c - opening, what a program says of itself, what it refuses and how, results in both
 * forms; on the CPU device and on the stand-in driver. */
#include "support/leak.h"
#include "support/runtime_case.h"

/* -- names and options ------------------------------------------------------------------------- */

Test(runtime, names)
{
    cr_assert_str_eq(phasor_status_name(PHASOR_OK), "ok");
    cr_assert_str_eq(phasor_status_name((phasor_status)77), "unknown status");
    cr_assert(phasor_message());
    cr_assert_str_eq(phasor_version(), "0.1.0");
}

Test(runtime, options_that_are_refused)
{
    phasor_runtime *runtime;
    phasor_options options = options_for(ON_CPU);
    options.mode = (phasor_mode)7;
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_USAGE, "mode 7");
    options.mode = PHASOR_MODE_EXACT;
    options.arch = "90";
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_USAGE, "sm_90");
    options.arch = "sm_80";
    options.device = PHASOR_DEVICE_CUDA;
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_USAGE, "sm_80");
    options.arch = NULL;
    options.ordinal = 7;
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_DEVICE, "7");
    options.size = sizeof options + 8;
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_USAGE, "size");
    cr_assert_null(runtime);
    phasor_close(NULL);
    phasor_program_close(NULL);
    phasor_state_free(NULL);
    ASSERT_NO_LEAKS();
}

Test(runtime, devices)
{
    phasor_runtime *runtime;
    phasor_options options = options_for(ON_CUDA);
    setenv("PHASOR_DRIVER", "/there/is/none.so", 1);
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_DEVICE, "/there/is/none.so");
    options.device = PHASOR_DEVICE_DEFAULT;
    ASSERT_OK(phasor_open(&runtime, &options));
    cr_assert_str_eq(phasor_device_name(runtime), "cpu");
    cr_assert_str_eq(phasor_arch_name(runtime), "sm_90");
    phasor_close(runtime);
    options.device = PHASOR_DEVICE_NONE;
    options.arch = "sm_75";
    ASSERT_OK(phasor_open(&runtime, &options));
    cr_assert_str_eq(phasor_device_name(runtime), "none");
    cr_assert_str_eq(phasor_arch_name(runtime), "sm_75");
    phasor_close(runtime);
    ASSERT_NO_LEAKS();
}

Test(runtime, two_devices)
{
    setenv("PHASOR_STAND_IN_ARCHS", "sm_80,sm_90", 1);
    phasor_options options = options_for(ON_CUDA);
    struct opened first, second;
    opened_with(&first, &options, "qk_rope_f32", "plain");
    options.ordinal = 1;
    opened_with(&second, &options, "qk_rope_f32", "core");
    cr_assert_str_eq(phasor_arch_name(first.runtime), "sm_80");
    cr_assert_str_eq(phasor_device_name(second.runtime), "cuda:1");
    ASSERT_OK(opened_run(&first));
    ASSERT_OK(opened_run(&second));
    cr_assert_eq(second.out[0].owned->dl_tensor.device.device_id, 1);
    opened_expect(&first);
    opened_expect(&second);
    /* memory of another device is no input */
    phasor_value foreign[2] = {{.kind = PHASOR_TENSOR, .tensor = &first.out[0].owned->dl_tensor},
                               second.in[1]};
    phasor_value out[2];
    ASSERT_FAILS(phasor_run(second.program, NULL, foreign, 2, out, 2, NULL), PHASOR_ERROR_INPUT,
                 "CUDA device 0");
    opened_delete(&first);
    opened_delete(&second);
    opened_close(&first);
    opened_close(&second);
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
    ASSERT_NO_LEAKS();
}

/* -- what a program says ----------------------------------------------------------------------- */

Test(program, slots)
{
    struct opened o;
    phasor_spec spec = {.size = sizeof spec};
    opened_case(&o, ON_CPU, "int_input", "plain");
    ASSERT_OK(phasor_program_input(o.program, 0, &spec));
    cr_assert_str_eq(spec.name, "x");
    cr_assert_eq(spec.kind, PHASOR_TENSOR);
    cr_assert_eq(spec.rank, 4);
    cr_assert_eq(spec.dims[0].size, 2);
    cr_assert_eq(spec.dims[1].size, -1);
    cr_assert_str_eq(spec.dims[1].symbol, "s27");
    cr_assert_eq(spec.dims[1].min, 1);
    cr_assert_eq(spec.dims[1].max, 32);
    cr_assert_eq(spec.dims[1].example, 6);
    ASSERT_OK(phasor_program_input(o.program, 1, &spec));
    cr_assert_eq(spec.kind, PHASOR_INT);
    cr_assert_str_eq(spec.integer->symbol, "s44");
    cr_assert_null(spec.constant);
    ASSERT_OK(phasor_program_output(o.program, 0, &spec));
    cr_assert_eq(spec.rank, 4);
    ASSERT_FAILS(phasor_program_input(o.program, 2, &spec), PHASOR_ERROR_USAGE, "numbered from 0");
    ASSERT_FAILS(phasor_program_output(o.program, -1, &spec), PHASOR_ERROR_USAGE,
                 "numbered from 0");
    cr_assert_eq(phasor_program_refused_count(o.program), 0);
    cr_assert_str_eq(phasor_program_device(o.program), "cpu");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

static phasor_status sizes_of(const struct opened *o, phasor_binding a, phasor_binding b, int count,
                              int64_t *dims)
{
    const phasor_binding bindings[2] = {a, b};
    return phasor_program_sizes(o->program, bindings, count, dims, SLOTS_MAX);
}

Test(program, sizes)
{
    struct opened o;
    int64_t dims[SLOTS_MAX];
    const phasor_binding none = {NULL, 0};
    opened_case(&o, ON_CPU, "int_input", "plain");
    ASSERT_OK(sizes_of(&o, none, none, 0, dims));
    cr_assert_eq(dims[1], 6);
    ASSERT_OK(sizes_of(&o, (phasor_binding){"x.1", 9}, (phasor_binding){"start", 3}, 2, dims));
    cr_assert_eq(dims[1], 9);
    cr_assert_eq(dims[4], 3);
    ASSERT_OK(sizes_of(&o, (phasor_binding){"s27", 4}, (phasor_binding){"x.1", 4}, 2, dims));
    cr_assert_eq(dims[1], 4);
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"s27", 4}, (phasor_binding){"x.1", 5}, 2, dims),
                 PHASOR_ERROR_INPUT, "x.1");
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"x.1", 33}, none, 1, dims), PHASOR_ERROR_INPUT,
                 "1..32");
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"x.0", 3}, none, 1, dims), PHASOR_ERROR_INPUT,
                 "always 2");
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"x.9", 3}, none, 1, dims), PHASOR_ERROR_INPUT,
                 "4 dims");
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"y.1", 3}, none, 1, dims), PHASOR_ERROR_INPUT,
                 "y.1");
    ASSERT_FAILS(phasor_program_sizes(o.program, NULL, 0, dims, 2), PHASOR_ERROR_USAGE,
                 "room for 2");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(program, refusals)
{
    struct opened o;
    phasor_refusal refusal = {.size = sizeof refusal};
    opened_case(&o, ON_CPU, "left_five", "plain");
    cr_assert_eq(phasor_program_refused_count(o.program), 5);
    ASSERT_OK(phasor_program_refused(o.program, 0, &refusal));
    cr_assert_str_eq(refusal.target, "aten.fft_fft.default");
    cr_assert(refusal.line && strstr(refusal.line, "programs.py"));
    ASSERT_FAILS(phasor_program_refused(o.program, 5, &refusal), PHASOR_ERROR_USAGE, "refusal 5");
    if (refusal.unknown)
        ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_REFUSED, "aten.fft_fft.default, 1 time");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* A program that the rules leave runs on the CPU where the device was left open; an explicit one
 * never falls back. */
Test(program, left_as_it_is)
{
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    options.rules = PHASOR_RULES_EXECUTORCH;
    opened_with(&o, &options, "left_complex_add", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_REFUSED, "aten.add.Tensor");
    opened_close(&o);
    options.device = PHASOR_DEVICE_DEFAULT;
    opened_with(&o, &options, "left_complex_add", "plain");
    cr_assert_str_eq(phasor_program_device(o.program), "cpu");
    char *loaded, *real;
    ASSERT_OK(phasor_program_show(o.program, "loaded", false, NULL, 0, &loaded));
    ASSERT_OK(phasor_program_show(o.program, "real", false, NULL, 0, &real));
    cr_assert_str_eq(loaded, real);
    phasor_free(loaded);
    phasor_free(real);
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(program, files_that_are_none)
{
    phasor_runtime *runtime;
    phasor_program *program;
    const phasor_options options = options_for(ON_CPU);
    ASSERT_OK(phasor_open(&runtime, &options));
    ASSERT_FAILS(phasor_program_load(runtime, "/there/is/none.pt2", NULL, &program),
                 PHASOR_ERROR_FILE, "/there/is/none.pt2");
    ASSERT_FAILS(phasor_program_load_memory(runtime, "nothing", 7, "bytes", NULL, &program),
                 PHASOR_ERROR_FILE, "bytes");
    cr_assert_null(program);
    phasor_close(runtime);
    ASSERT_NO_LEAKS();
}

/* -- wrong inputs ------------------------------------------------------------------------------ */

static void wrong_input(struct opened *o, DLTensor tensor, const char *text)
{
    phasor_value in[SLOTS_MAX], out[SLOTS_MAX];
    memcpy(in, o->in, sizeof in);
    in[0] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &tensor};
    memset(out, 0x5a, sizeof out);
    ASSERT_FAILS(phasor_run(o->program, NULL, in, o->in_count, out, o->out_count, NULL),
                 PHASOR_ERROR_INPUT, text);
    cr_assert(strstr(phasor_message(), "x"), "the input's name: %s", phasor_message());
    for (size_t i = 0; i < sizeof out; i++)
        cr_assert_eq(((unsigned char *)out)[i], 0x5a, "nothing was written to outputs");
}

Test(inputs, wrong_ones)
{
    FOR_BOTH(where)
    {
        struct opened o;
        opened_case(&o, where, "int_input", "plain");
        const DLTensor right = *o.in[0].tensor;
        int64_t shape[5] = {2, 33, 2, 16, 1};
        DLTensor t = right;
        t.ndim = 3;
        wrong_input(&o, t, "rank 3; expected rank 4");
        t = right;
        t.dtype.bits = 64;
        wrong_input(&o, t, "dtype f64; expected f32");
        t = right;
        t.dtype.lanes = 4;
        wrong_input(&o, t, "4 lanes");
        t = right;
        t.shape = shape;
        wrong_input(&o, t, "33");
        shape[1] = 6;
        shape[3] = 15;
        wrong_input(&o, t, "dim 3 is 15; expected 16");
        shape[3] = -16;
        wrong_input(&o, t, "negative");
        shape[3] = 16;
        shape[0] = INT64_MAX / 2;
        wrong_input(&o, t, "too large");
        t = right;
        t.data = NULL;
        wrong_input(&o, t, "NULL");
        t = right;
        t.device.device_type = kDLVulkan;
        wrong_input(&o, t, "device type");
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

Test(inputs, wrong_kinds)
{
    struct opened o;
    opened_case(&o, ON_CPU, "int_input", "plain");
    phasor_value in[2] = {o.in[0], {.kind = PHASOR_FLOAT, .real = 5}};
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 2, o.out, 1, NULL), PHASOR_ERROR_INPUT,
                 "start): a float; expected an int");
    in[1] = o.in[1];
    in[0].kind = PHASOR_NONE;
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 2, o.out, 1, NULL), PHASOR_ERROR_INPUT,
                 "None; expected a tensor");
    in[0] = (phasor_value){.kind = PHASOR_TENSOR};
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 2, o.out, 1, NULL), PHASOR_ERROR_INPUT,
                 "NULL pointer");
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 1, o.out, 1, NULL), PHASOR_ERROR_INPUT,
                 "1 inputs; plain takes 2");
    ASSERT_FAILS(phasor_run(o.program, NULL, o.in, 2, o.out, 2, NULL), PHASOR_ERROR_INPUT,
                 "room for 2 outputs");
    in[0] = o.in[0];
    in[1].integer = 63;
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 2, o.out, 1, NULL), PHASOR_ERROR_INPUT, "start");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* -- results ----------------------------------------------------------------------------------- */

static const char *const some_cases[] = {"qk_rope_bf16_dynamic", "nested_inputs",  "int_input",
                                         "stored_weights",       "mix_twenty",     "op_empty_rows",
                                         "op_complex_output",    "video_rope_f64", "joins",
                                         "assign_slice"};

Test(run, owned_outputs)
{
    FOR_BOTH(where)
    {
        for (size_t k = 0; k < sizeof some_cases / sizeof *some_cases; k++) {
            struct opened o;
            phasor_run_info info = {.size = sizeof info};
            opened_case(&o, where, some_cases[k], "plain");
            ASSERT_FAILS(phasor_program_info(o.program, &info), PHASOR_ERROR_USAGE, "has not run");
            for (int i = 0; i < 2; i++) {
                ASSERT_OK(opened_run(&o));
                opened_expect(&o);
                opened_delete(&o);
            }
            ASSERT_OK(phasor_program_info(o.program, &info));
            cr_assert_eq(strcmp(info.mode, "cpu") == 0, where == ON_CPU);
            ASSERT_OK(phasor_state_check(o.program, NULL));
            opened_close(&o);
        }
    }
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    cr_assert_eq(stand_in_get("stand_in_corruptions"), 0);
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
    ASSERT_NO_LEAKS();
}

/* Buffers with a gap behind each row, filled with a mark that must stay. */
struct buffer {
    DLTensor tensor;
    int64_t shape[16], strides[16];
    char *bytes;
    size_t nbytes;
};

static void buffer_make(struct buffer *b, const DLTensor *like, int64_t gap)
{
    int64_t stride = 1;
    for (int d = like->ndim - 1; d >= 0; d--) {
        b->shape[d] = like->shape[d];
        b->strides[d] = stride;
        stride *= like->shape[d];
        if (d == like->ndim - 1)
            stride += gap;
    }
    b->nbytes = (size_t)stride * (like->dtype.bits / 8) + 64;
    b->bytes = malloc(b->nbytes);
    memset(b->bytes, 0x77, b->nbytes);
    b->tensor = (DLTensor){.data = b->bytes,
                           .device = {kDLCPU, 0},
                           .ndim = like->ndim,
                           .dtype = like->dtype,
                           .shape = b->shape,
                           .strides = b->strides};
}

Test(run, into_buffers_with_gaps)
{
    FOR_BOTH(where)
    {
        for (size_t k = 0; k < sizeof some_cases / sizeof *some_cases; k++) {
            struct opened o;
            struct buffer buffers[SLOTS_MAX] = {0};
            phasor_value want[SLOTS_MAX], out[SLOTS_MAX] = {0};
            opened_case(&o, where, some_cases[k], "core");
            values_read(o.expected, "output", o.out_count, want);
            for (int i = 0; i < o.out_count; i++)
                if (want[i].kind == PHASOR_TENSOR) {
                    buffer_make(&buffers[i], want[i].tensor, 3);
                    out[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &buffers[i].tensor};
                }
            ASSERT_OK(phasor_run_into(o.program, NULL, o.in, o.in_count, out, o.out_count, NULL));
            ASSERT_OK(phasor_run_into(o.program, NULL, o.in, o.in_count, out, o.out_count, NULL));
            values_expect(&o, out);
            for (int i = 0; i < o.out_count; i++) {
                const DLTensor *t = &buffers[i].tensor;
                if (buffers[i].bytes && tensor_count(t) && t->ndim)
                    cr_assert_eq(
                        buffers[i].bytes[(size_t)t->shape[t->ndim - 1] * (t->dtype.bits / 8)], 0x77,
                        "the gap");
                free(buffers[i].bytes);
            }
            opened_close(&o);
        }
    }
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    ASSERT_NO_LEAKS();
}

/* Contiguous, transposed, expanded, offset and unaligned inputs of one shape, in turn. */
Test(run, inputs_of_any_strides)
{
    FOR_BOTH(where)
    {
        struct opened o;
        opened_case(&o, where, "twice", "plain");
        const float *x = o.in[0].tensor->data;
        float *memory = malloc(256 * sizeof *memory);
        int64_t strides[5][2] = {{5, 1}, {1, 4}, {0, 1}, {11, 2}, {5, 1}};
        for (int turn = 0; turn < 10; turn++) {
            const int k = turn % 5;
            DLTensor t = *o.in[0].tensor;
            t.data = (char *)memory + (k == 4 ? 1 : 0);
            t.byte_offset = k == 3 ? 12 : 0;
            t.strides = strides[k];
            char *first = (char *)t.data + t.byte_offset;
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 5; j++)
                    memcpy(first + 4 * (i * strides[k][0] + j * strides[k][1]), &x[5 * i + j], 4);
            phasor_value in = {.kind = PHASOR_TENSOR, .tensor = &t};
            ASSERT_OK(phasor_run(o.program, NULL, &in, 1, o.out, 2, NULL));
            float got[20];
            ASSERT_OK(phasor_copy_to_host(o.runtime, &o.out[0].owned->dl_tensor, got, sizeof got));
            for (int i = 0; i < 20; i++) {
                const int row = k == 2 ? 3 : i / 5; /* stride 0: the last row was written last */
                cr_assert_float_eq(got[i], x[5 * row + i % 5] * 2 + 1, 1e-5, "turn %d, element %d",
                                   turn, i);
            }
            opened_delete(&o);
        }
        free(memory);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

Test(run, outputs_that_overlap)
{
    FOR_BOTH(where)
    {
        struct opened o;
        float memory[64], other[64];
        int64_t zero[2] = {0, 1};
        opened_case(&o, where, "twice", "plain");
        memcpy(memory, o.in[0].tensor->data, 80);
        DLTensor in = *o.in[0].tensor, a = in, b = in;
        in.data = memory;
        a.data = memory + 1;
        b.data = other;
        const phasor_value inputs[1] = {{.kind = PHASOR_TENSOR, .tensor = &in}};
        phasor_value out[2] = {{.kind = PHASOR_TENSOR, .tensor = &a},
                               {.kind = PHASOR_TENSOR, .tensor = &b}};
        ASSERT_FAILS(phasor_run_into(o.program, NULL, inputs, 1, out, 2, NULL), PHASOR_ERROR_INPUT,
                     "in part");
        a.data = other + 4;
        ASSERT_FAILS(phasor_run_into(o.program, NULL, inputs, 1, out, 2, NULL), PHASOR_ERROR_INPUT,
                     "overlaps output 0");
        a.data = other + 32;
        a.strides = zero;
        ASSERT_FAILS(phasor_run_into(o.program, NULL, inputs, 1, out, 2, NULL), PHASOR_ERROR_INPUT,
                     "elements overlap");
        a.strides = NULL;
        a.data = memory;
        ASSERT_OK(phasor_run_into(o.program, NULL, inputs, 1, out, 2, NULL));
        values_expect(&o, out);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

Test(run, changed_inputs)
{
    FOR_BOTH(where)
    {
        struct opened o;
        float x[24], y[12];
        int64_t strides[2] = {8, 2};
        opened_case(&o, where, "mutates_input", "plain");
        for (int i = 0; i < 24; i++)
            x[i] = -1;
        for (int i = 0; i < 12; i++)
            x[8 * (i / 4) + 2 * (i % 4)] = (float)i, y[i] = 100;
        DLTensor tx = *o.in[0].tensor, ty = *o.in[1].tensor;
        tx.data = x;
        tx.strides = strides;
        ty.data = y;
        const phasor_value in[2] = {{.kind = PHASOR_TENSOR, .tensor = &tx},
                                    {.kind = PHASOR_TENSOR, .tensor = &ty}};
        ASSERT_OK(phasor_run(o.program, NULL, in, 2, o.out, 2, NULL));
        for (int i = 0; i < 24; i++)
            cr_assert_float_eq(x[i], i % 2 ? -1 : (float)i, 1e-6, "%d is %g", i, (double)x[i]);
        float sum[12];
        ASSERT_OK(phasor_copy_to_host(o.runtime, &o.out[0].owned->dl_tensor, sum, sizeof sum));
        for (int i = 0; i < 12; i++)
            cr_assert_float_eq(sum[i], 100 + 2 * (float)i, 1e-5);
        const DLTensor *same = &o.out[1].owned->dl_tensor; /* the input itself */
        cr_assert_eq(same->data, x);
        cr_assert_eq(same->strides[0], 8);
        cr_assert_eq(same->strides[1], 2);
        opened_delete(&o);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}
