/* test_runtime.c - every public function, on the CPU device and on the stand-in driver: what a program says of itself, what
 * it refuses and how, results in both forms, state, capture, the cache, several devices. */
#include "support/leak.h"
#include "support/runtime_case.h"

#include <unistd.h>

static const enum where both[] = {ON_CPU, ON_CUDA};
#define FOR_BOTH(w) for (int b_ = 0; b_ < 2; b_++) for (enum where w = both[b_], *once_ = &w; once_; once_ = NULL)

/* -- names and options ----------------------------------------------------------------------------------------- */

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
    options.mode = PHASOR_MODE_AUTO;
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_USAGE, "exact is the one that exists");
    options.mode = PHASOR_MODE_GENERIC;
    ASSERT_FAILS(phasor_open(&runtime, &options), PHASOR_ERROR_USAGE, "generic");
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
    phasor_value foreign[2] = {{.kind = PHASOR_TENSOR, .tensor = &first.out[0].owned->dl_tensor}, second.in[1]};
    phasor_value out[2];
    ASSERT_FAILS(phasor_run(second.program, NULL, foreign, 2, out, 2, NULL), PHASOR_ERROR_INPUT, "CUDA device 0");
    opened_delete(&first);
    opened_delete(&second);
    opened_close(&first);
    opened_close(&second);
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
    ASSERT_NO_LEAKS();
}

/* -- what a program says --------------------------------------------------------------------------------------- */

Test(program, slots)
{
    struct opened o;
    phasor_spec spec;
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
    ASSERT_FAILS(phasor_program_output(o.program, -1, &spec), PHASOR_ERROR_USAGE, "numbered from 0");
    cr_assert_eq(phasor_program_refused_count(o.program), 0);
    cr_assert_str_eq(phasor_program_device(o.program), "cpu");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

static phasor_status sizes_of(const struct opened *o, phasor_binding a, phasor_binding b, int count, int64_t *dims)
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
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"s27", 4}, (phasor_binding){"x.1", 5}, 2, dims), PHASOR_ERROR_INPUT, "x.1");
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"x.1", 33}, none, 1, dims), PHASOR_ERROR_INPUT, "1..32");
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"x.0", 3}, none, 1, dims), PHASOR_ERROR_INPUT, "always 2");
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"x.9", 3}, none, 1, dims), PHASOR_ERROR_INPUT, "4 dims");
    ASSERT_FAILS(sizes_of(&o, (phasor_binding){"y.1", 3}, none, 1, dims), PHASOR_ERROR_INPUT, "y.1");
    ASSERT_FAILS(phasor_program_sizes(o.program, NULL, 0, dims, 2), PHASOR_ERROR_USAGE, "room for 2");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(program, refusals)
{
    struct opened o;
    phasor_refusal refusal;
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

/* A program that the rules leave runs on the CPU where the device was left open; an explicit one never falls back. */
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
    ASSERT_FAILS(phasor_program_load(runtime, "/there/is/none.pt2", NULL, &program), PHASOR_ERROR_FILE, "/there/is/none.pt2");
    ASSERT_FAILS(phasor_program_load_memory(runtime, "nothing", 7, "bytes", NULL, &program), PHASOR_ERROR_FILE, "bytes");
    cr_assert_null(program);
    phasor_close(runtime);
    ASSERT_NO_LEAKS();
}

/* -- wrong inputs ---------------------------------------------------------------------------------------------- */

static void wrong_input(struct opened *o, DLTensor tensor, const char *text)
{
    phasor_value in[SLOTS_MAX], out[SLOTS_MAX];
    memcpy(in, o->in, sizeof in);
    in[0] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &tensor};
    memset(out, 0x5a, sizeof out);
    ASSERT_FAILS(phasor_run(o->program, NULL, in, o->in_count, out, o->out_count, NULL), PHASOR_ERROR_INPUT, text);
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
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 2, o.out, 1, NULL), PHASOR_ERROR_INPUT, "start): a float; expected an int");
    in[1] = o.in[1];
    in[0].kind = PHASOR_NONE;
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 2, o.out, 1, NULL), PHASOR_ERROR_INPUT, "None; expected a tensor");
    in[0] = (phasor_value){.kind = PHASOR_TENSOR};
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 2, o.out, 1, NULL), PHASOR_ERROR_INPUT, "NULL pointer");
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 1, o.out, 1, NULL), PHASOR_ERROR_INPUT, "1 inputs; plain takes 2");
    ASSERT_FAILS(phasor_run(o.program, NULL, o.in, 2, o.out, 2, NULL), PHASOR_ERROR_INPUT, "room for 2 outputs");
    in[0] = o.in[0];
    in[1].integer = 63;
    ASSERT_FAILS(phasor_run(o.program, NULL, in, 2, o.out, 1, NULL), PHASOR_ERROR_INPUT, "start");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* -- results --------------------------------------------------------------------------------------------------- */

static const char *const some_cases[] = {"qk_rope_bf16_dynamic", "nested_inputs", "int_input", "stored_weights", "mix_twenty",
                                         "op_empty_rows", "op_complex_output", "video_rope_f64", "joins", "assign_slice"};

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
            cr_assert_str_eq(info.mode, where == ON_CPU ? "cpu" : "exact");
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
    b->tensor = (DLTensor){.data = b->bytes, .device = {kDLCPU, 0}, .ndim = like->ndim, .dtype = like->dtype,
                           .shape = b->shape, .strides = b->strides};
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
                    cr_assert_eq(buffers[i].bytes[(size_t)t->shape[t->ndim - 1] * (t->dtype.bits / 8)], 0x77, "the gap");
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
                cr_assert_float_eq(got[i], x[5 * row + i % 5] * 2 + 1, 1e-5, "turn %d, element %d", turn, i);
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
        phasor_value out[2] = {{.kind = PHASOR_TENSOR, .tensor = &a}, {.kind = PHASOR_TENSOR, .tensor = &b}};
        ASSERT_FAILS(phasor_run_into(o.program, NULL, inputs, 1, out, 2, NULL), PHASOR_ERROR_INPUT, "in part");
        a.data = other + 4;
        ASSERT_FAILS(phasor_run_into(o.program, NULL, inputs, 1, out, 2, NULL), PHASOR_ERROR_INPUT, "overlaps output 0");
        a.data = other + 32;
        a.strides = zero;
        ASSERT_FAILS(phasor_run_into(o.program, NULL, inputs, 1, out, 2, NULL), PHASOR_ERROR_INPUT, "elements overlap");
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
        const phasor_value in[2] = {{.kind = PHASOR_TENSOR, .tensor = &tx}, {.kind = PHASOR_TENSOR, .tensor = &ty}};
        ASSERT_OK(phasor_run(o.program, NULL, in, 2, o.out, 2, NULL));
        for (int i = 0; i < 24; i++)
            cr_assert_float_eq(x[i], i % 2 ? -1 : (float)i, 1e-6, "%d is %g", i, (double)x[i]);
        float sum[12];
        ASSERT_OK(phasor_copy_to_host(o.runtime, &o.out[0].owned->dl_tensor, sum, sizeof sum));
        for (int i = 0; i < 12; i++)
            cr_assert_float_eq(sum[i], 100 + 2 * (float)i, 1e-5);
        opened_delete(&o);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

/* -- state ----------------------------------------------------------------------------------------------------- */

static void state_run(struct opened *o, phasor_state *state)
{
    ASSERT_OK(phasor_run(o->program, state, o->in, o->in_count, o->out, o->out_count, NULL));
}

Test(state, each_has_its_own)
{
    FOR_BOTH(where)
    {
        struct opened o;
        phasor_state *a, *b;
        float first[1024], second[1024];
        opened_case(&o, where, "cache_step", "plain");
        ASSERT_OK(phasor_state_new(o.program, &a));
        ASSERT_OK(phasor_state_new(o.program, &b));
        state_run(&o, a);
        opened_expect(&o);
        phasor_value kept = o.out[1]; /* a view of the state */
        value_delete(&o.out[0]);
        ASSERT_OK(phasor_copy_to_host(o.runtime, &kept.owned->dl_tensor, first, sizeof first));
        int64_t later[3] = {7, 8, 9};
        DLTensor positions = *o.in[1].tensor;
        positions.data = later;
        o.in[1].tensor = &positions;
        state_run(&o, a);
        ASSERT_OK(phasor_copy_to_host(o.runtime, &kept.owned->dl_tensor, second, sizeof second));
        cr_assert_neq(memcmp(first, second, sizeof first), 0, "the view changes with the next run");
        opened_delete(&o);
        ASSERT_OK(phasor_state_reset(o.program, a));
        opened_inputs(&o, "cache_step", 0);
        state_run(&o, a);
        opened_expect(&o);
        opened_delete(&o);
        state_run(&o, b);
        opened_expect(&o);
        opened_delete(&o);
        state_run(&o, NULL);
        opened_expect(&o);
        opened_delete(&o);
        ASSERT_OK(phasor_state_reset(o.program, NULL));
        phasor_state_free(a);
        phasor_state_free(b);
        opened_close(&o);
        value_delete(&kept); /* it outlives the state, the program and the runtime */
    }
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    ASSERT_NO_LEAKS();
}

Test(state, index_out_of_range_is_reported_once)
{
    FOR_BOTH(where)
    {
        struct opened o, other;
        int64_t indices[3] = {0, 40, 1};
        opened_case(&o, where, "op_index_select", "plain");
        DLTensor index = *o.in[1].tensor;
        index.data = indices;
        const phasor_value right = o.in[1];
        o.in[1].tensor = &index;
        ASSERT_OK(opened_run(&o));
        opened_delete(&o);
        o.in[1] = right;
        ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_INPUT, "out of range");
        ASSERT_OK(opened_run(&o));
        opened_expect(&o);
        opened_delete(&o);
        ASSERT_OK(phasor_state_check(o.program, NULL));
        o.in[1].tensor = &index;
        ASSERT_OK(opened_run(&o));
        opened_delete(&o);
        ASSERT_FAILS(phasor_state_check(o.program, NULL), PHASOR_ERROR_INPUT, "out of range");
        ASSERT_OK(phasor_state_check(o.program, NULL));
        opened_case(&other, where, "twice", "plain");
        phasor_state *foreign;
        ASSERT_OK(phasor_state_new(other.program, &foreign));
        ASSERT_FAILS(phasor_state_check(o.program, foreign), PHASOR_ERROR_USAGE, "another program");
        phasor_state_free(foreign);
        opened_close(&other);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

/* -- the cache and compiling ----------------------------------------------------------------------------------- */

static void folder_make(char *folder)
{
    strcpy(folder, "/tmp/phasor-runtime-XXXXXX");
    cr_assert(mkdtemp(folder));
}

static void folder_remove(const char *folder)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

static phasor_counters stats_of(const struct opened *o)
{
    phasor_counters counters = {.size = sizeof counters};
    ASSERT_OK(phasor_stats(o->runtime, &counters));
    return counters;
}

Test(cache, a_second_process_compiles_nothing)
{
    char folder[64];
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    folder_make(folder);
    options.cache = folder;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(phasor_cache_require(o.runtime));
    ASSERT_OK(opened_run(&o));
    opened_delete(&o);
    cr_assert_eq(stats_of(&o).compiled, 2);
    opened_close(&o);

    setenv("PHASOR_NVRTC", "/there/is/none.so", 1);
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    const phasor_counters counters = stats_of(&o);
    cr_assert_eq(counters.compiled, 0);
    cr_assert_eq(counters.cache_hits, 2);
    cr_assert_eq(counters.foreign, 2);
    cr_assert_eq(counters.launches, 2);
    char *text;
    ASSERT_OK(phasor_cache_show(o.runtime, "stats", true, &text));
    cr_assert(strstr(text, "\"kernels\""), "%s", text);
    phasor_free(text);
    cr_assert(strstr(phasor_cache_path(o.runtime), folder));
    ASSERT_OK(phasor_cache_clear(o.runtime));
    opened_close(&o);

    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_COMPILE, "/there/is/none.so");
    opened_close(&o);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

Test(cache, damaged_plans_are_made_anew)
{
    char folder[64], command[256];
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    folder_make(folder);
    options.cache = folder;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_delete(&o);
    opened_close(&o);
    options.no_fma = true; /* another key */
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    cr_assert_eq(stats_of(&o).compiled, 2);
    opened_close(&o);
    snprintf(command, sizeof command, "ls %s/phasor.db > /dev/null", folder);
    cr_assert_eq(system(command), 0);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

Test(cache, forbidden_to_compile)
{
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    options.no_compile = true;
    opened_with(&o, &options, "twice", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_NOT_READY, "forbidden");
    ASSERT_FAILS(phasor_program_prepare(o.program, o.in, o.in_count), PHASOR_NOT_READY, "forbidden");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

static bool interrupted(void *context)
{
    return *(bool *)context;
}

static void compiled(void *context, const char *kernels, const char *reason, double milliseconds)
{
    cr_assert(*kernels && *reason && milliseconds >= 0);
    ++*(int *)context;
}

Test(cache, callbacks)
{
    struct opened o;
    bool stop = true;
    int count = 0;
    phasor_options options = options_for(ON_CUDA);
    options.interrupted = interrupted;
    options.interrupted_context = &stop;
    options.compiled = compiled;
    options.compiled_context = &count;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_INTERRUPTED, "interrupted");
    stop = false;
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    cr_assert_eq(count, 2);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* Compiling for an arch without a device; what the runtime then has, it serves. */
Test(cache, prewarmed_without_a_device)
{
    char folder[64];
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    folder_make(folder);
    options.cache = folder;
    options.device = PHASOR_DEVICE_NONE;
    options.arch = "sm_90";
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(phasor_program_prepare(o.program, o.in, o.in_count));
    cr_assert_eq(stats_of(&o).compiled, 2);
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_USAGE, "none");
    opened_close(&o);
    options = options_for(ON_CUDA);
    options.cache = folder;
    options.no_compile = true;
    opened_with(&o, &options, "qk_rope_f32", "plain");
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    opened_close(&o);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

Test(cache, few_specialisations_are_kept)
{
    struct opened o;
    phasor_options options = options_for(ON_CUDA);
    options.specialisations = 2;
    opened_with(&o, &options, "int_input", "plain");
    const int64_t starts[] = {1, 2, 3, 4, 1, 2, 3, 4};
    for (int i = 0; i < 8; i++) {
        o.in[1].integer = starts[i];
        ASSERT_OK(opened_run(&o));
        opened_delete(&o);
    }
    o.in[1].integer = 5;
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    opened_delete(&o);
    cr_assert_eq(stats_of(&o).specialisations, 9);
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_modules"), 0);
    ASSERT_NO_LEAKS();
}

/* -- failures -------------------------------------------------------------------------------------------------- */

Test(failures, device_out_of_memory)
{
    struct opened o;
    setenv("PHASOR_STAND_IN_MEMORY", "60000", 1);
    opened_case(&o, ON_CUDA, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_MEMORY, "out of memory");
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    ASSERT_NO_LEAKS();
}

Test(failures, launch)
{
    struct opened o;
    setenv("PHASOR_STAND_IN_FAIL", "cuLaunchKernel=719", 1);
    opened_case(&o, ON_CUDA, "qk_rope_f32", "plain");
    ASSERT_FAILS(opened_run(&o), PHASOR_ERROR_DEVICE, "launching");
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    ASSERT_NO_LEAKS();
}

/* -- capture --------------------------------------------------------------------------------------------------- */

struct driver {
    int (*begin)(void *, int), (*end)(void *, void **), (*stream_new)(void **, unsigned), (*stream_free)(void *);
    int (*instantiate)(void **, void *, unsigned long long), (*launch)(void *, void *), (*graph_free)(void *);
    int (*retain)(void **, int), (*release)(int), (*make_current)(void *);
    void *context, *stream;
};

static void driver_open(struct driver *d)
{
    *(void **)&d->begin = stand_in_symbol("cuStreamBeginCapture_v2");
    *(void **)&d->end = stand_in_symbol("cuStreamEndCapture");
    *(void **)&d->stream_new = stand_in_symbol("cuStreamCreate");
    *(void **)&d->stream_free = stand_in_symbol("cuStreamDestroy_v2");
    *(void **)&d->instantiate = stand_in_symbol("cuGraphInstantiateWithFlags");
    *(void **)&d->launch = stand_in_symbol("cuGraphLaunch");
    *(void **)&d->graph_free = stand_in_symbol("cuGraphDestroy");
    *(void **)&d->retain = stand_in_symbol("cuDevicePrimaryCtxRetain");
    *(void **)&d->release = stand_in_symbol("cuDevicePrimaryCtxRelease_v2");
    *(void **)&d->make_current = stand_in_symbol("cuCtxSetCurrent");
    cr_assert_eq(d->retain(&d->context, 0), 0);
    cr_assert_eq(d->make_current(d->context), 0);
    cr_assert_eq(d->stream_new(&d->stream, 1), 0);
}

static void driver_close(struct driver *d)
{
    cr_assert_eq(d->stream_free(d->stream), 0);
    cr_assert_eq(d->release(0), 0);
}

/* A host tensor of f32 on the device: what a program returns that copies. */
static phasor_value device_copy(const struct opened *o, const DLTensor *from)
{
    char path[] = "/tmp/phasor-copy-XXXXXX.phasor";
    phasor_program *program;
    phasor_value in = {.kind = PHASOR_TENSOR, .tensor = (DLTensor *)from}, out;
    FILE *file = fdopen(mkstemps(path, 7), "w");
    cr_assert(file);
    fprintf(file, "phasor 1 \"copy\"\ninput x: f32[");
    for (int d = 0; d < from->ndim; d++)
        fprintf(file, "%s%d", d ? ", " : "", (int)from->shape[d]);
    fprintf(file, "]\ny = clone(x) flag=1\noutput y\n");
    fclose(file);
    ASSERT_OK(phasor_program_load(o->runtime, path, NULL, &program));
    ASSERT_OK(phasor_run(program, NULL, &in, 1, &out, 1, NULL));
    phasor_program_close(program);
    unlink(path);
    return out;
}

/* Into device tensors that a first run made; the second has another workspace and the same results. */
static void capture_case(const char *name)
{
    struct opened o;
    struct driver driver;
    phasor_value copies[SLOTS_MAX], in[SLOTS_MAX], out[SLOTS_MAX];
    void *graph, *executable;
    opened_case(&o, ON_CUDA, name, "plain");
    driver_open(&driver);
    for (int i = 0; i < o.in_count; i++) {
        copies[i] = device_copy(&o, o.in[i].tensor);
        in[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &copies[i].owned->dl_tensor};
    }
    ASSERT_OK(phasor_run(o.program, NULL, in, o.in_count, o.out, o.out_count, NULL));
    for (int i = 0; i < o.out_count; i++)
        out[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &o.out[i].owned->dl_tensor};

    cr_assert_eq(driver.begin(driver.stream, 2), 0);
    ASSERT_FAILS(phasor_run_into(o.program, NULL, in, o.in_count, out, o.out_count, driver.stream), PHASOR_NOT_READY, "capturing");
    phasor_value owned[SLOTS_MAX];
    ASSERT_FAILS(phasor_run(o.program, NULL, in, o.in_count, owned, o.out_count, driver.stream), PHASOR_NOT_READY, "phasor_run_into");
    cr_assert_eq(driver.end(driver.stream, &graph), 0);
    cr_assert_eq(driver.graph_free(graph), 0);

    ASSERT_OK(phasor_run_into(o.program, NULL, in, o.in_count, out, o.out_count, driver.stream));
    cr_assert_eq(driver.begin(driver.stream, 2), 0);
    ASSERT_FAILS(phasor_run_into(o.program, NULL, o.in, o.in_count, out, o.out_count, driver.stream), PHASOR_NOT_READY, "host memory");
    ASSERT_OK(phasor_run_into(o.program, NULL, in, o.in_count, out, o.out_count, driver.stream));
    ASSERT_OK(phasor_run_into(o.program, NULL, in, o.in_count, out, o.out_count, driver.stream));
    cr_assert_eq(driver.end(driver.stream, &graph), 0);
    for (int i = 0; i < o.out_count; i++)
        memset((char *)out[i].tensor->data + out[i].tensor->byte_offset, 0x55, 64); /* the stand-in's memory is the host's */
    cr_assert_eq(driver.instantiate(&executable, graph, 0), 0);
    cr_assert_eq(driver.launch(executable, driver.stream), 0);
    opened_expect(&o);
    ASSERT_OK(phasor_run_into(o.program, NULL, in, o.in_count, out, o.out_count, driver.stream));
    opened_expect(&o);
    cr_assert_eq(driver.graph_free(graph), 0);

    for (int i = 0; i < o.in_count; i++)
        value_delete(&copies[i]);
    opened_delete(&o);
    opened_close(&o);
    driver_close(&driver);
}

Test(capture, only_what_is_ready)
{
    capture_case("qk_rope_f32");
    capture_case("op_exp_log_sqrt"); /* with a workspace */
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    ASSERT_NO_LEAKS();
}

/* Once warm, nothing is allocated for tensors of the device. */
Test(capture, warm_calls_allocate_nothing)
{
    struct opened o;
    phasor_value copy, in, out;
    opened_case(&o, ON_CUDA, "op_reciprocal", "plain");
    copy = device_copy(&o, o.in[0].tensor);
    in = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &copy.owned->dl_tensor};
    ASSERT_OK(phasor_run(o.program, NULL, &in, 1, o.out, 1, NULL));
    out = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &o.out[0].owned->dl_tensor};
    ASSERT_OK(phasor_run_into(o.program, NULL, &in, 1, &out, 1, NULL));
    const long before = stand_in_get("stand_in_allocations");
    setenv("PHASOR_STAND_IN_FAIL", "cuMemAllocFromPoolAsync=2,cuMemAlloc_v2=2,cuStreamSynchronize=999", 1);
    for (int i = 0; i < 5; i++)
        ASSERT_OK(phasor_run_into(o.program, NULL, &in, 1, &out, 1, NULL));
    unsetenv("PHASOR_STAND_IN_FAIL");
    cr_assert_eq(stand_in_get("stand_in_allocations"), before);
    value_delete(&copy);
    opened_delete(&o);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* -- stages as text -------------------------------------------------------------------------------------------- */

Test(show, all_stages)
{
    struct opened o;
    char *text;
    opened_case(&o, ON_CUDA, "qk_rope_f32", "plain");
    ASSERT_OK(phasor_program_show(o.program, "loaded", false, NULL, 0, &text));
    cr_assert(strstr(text, "view_as_complex"));
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "real", false, NULL, 0, &text));
    cr_assert(!strstr(text, "c64"), "%s", text);
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "plan", true, o.in, 2, &text));
    cr_assert(strstr(text, "{\"kernels\": [{\"name\": \"phasor_"), "%s", text);
    cr_assert(strstr(text, "\"operators\": ") && strstr(text, "\"bytes\": ") && strstr(text, "\"workspace\": 0"));
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "plan", false, o.in, 2, &text));
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "cuda", false, o.in, 2, &text));
    cr_assert(strstr(text, "aten.mul.Tensor") && strstr(text, "programs.py") && strstr(text, "__global__"));
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "ptx", false, o.in, 2, &text));
    phasor_free(text);
    ASSERT_FAILS(phasor_program_show(o.program, "soup", false, NULL, 0, &text), PHASOR_ERROR_USAGE, "soup");
    ASSERT_FAILS(phasor_program_show(o.program, "cuda", false, NULL, 0, &text), PHASOR_ERROR_USAGE, "shapes");
    ASSERT_FAILS(phasor_program_show(o.program, "cuda", true, o.in, 2, &text), PHASOR_ERROR_USAGE, "JSON");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(show, written_programs_run)
{
    char folder[64], path[128];
    struct opened o;
    const char *const stages[] = {"loaded", "real"};
    folder_make(folder);
    for (int i = 0; i < 2; i++) {
        opened_case(&o, ON_CPU, "stored_weights", "plain");
        snprintf(path, sizeof path, "%s/written.phasor", folder);
        ASSERT_OK(phasor_program_write(o.program, stages[i], path));
        ASSERT_FAILS(phasor_program_write(o.program, "cuda", path), PHASOR_ERROR_USAGE, "cuda");
        phasor_program_close(o.program);
        ASSERT_OK(phasor_program_load(o.runtime, path, NULL, &o.program));
        ASSERT_OK(opened_run(&o));
        opened_expect(&o);
        opened_delete(&o);
        opened_close(&o);
    }
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

Test(show, doctor)
{
    char *text;
    phasor_options options = options_for(ON_CUDA);
    ASSERT_OK(phasor_doctor(&options, true, &text));
    cr_assert(strstr(text, "\"devices\": [{\"ordinal\": 0"), "%s", text);
    phasor_free(text);
    setenv("PHASOR_NVRTC", "/there/is/none.so", 1);
    ASSERT_OK(phasor_doctor(&options, false, &text));
    cr_assert(strstr(text, "/there/is/none.so"), "%s", text);
    phasor_free(text);
    ASSERT_NO_LEAKS();
}

Test(show, tensor_files)
{
    struct opened o;
    char folder[64], path[128];
    phasor_tensors *tensors;
    phasor_value v;
    const char *names[2] = {"a", "b"};
    folder_make(folder);
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    opened_case(&o, ON_CPU, "int_input", "plain");
    ASSERT_OK(phasor_tensors_write(path, names, o.in, 2));
    ASSERT_OK(phasor_tensors_read(path, &tensors));
    cr_assert_eq(phasor_tensors_count(tensors), 2);
    cr_assert(phasor_tensors_find(tensors, "b", &v));
    cr_assert_eq(v.integer, o.in[1].integer);
    cr_assert(phasor_tensors_name(tensors, 0) != NULL);
    cr_assert_not(phasor_tensors_find(tensors, "c", &v));
    phasor_tensors_close(tensors);
    ASSERT_FAILS(phasor_tensors_read("/there/is/none", &tensors), PHASOR_ERROR_FILE, "/there/is/none");
    opened_close(&o);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}
