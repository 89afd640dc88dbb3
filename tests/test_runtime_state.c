/* test_runtime_state.c - buffers that a program changes, and capture of streams, on the CPU device
 * and the stand-in driver. */
#include "support/leak.h"
#include "support/capture.h"
#include "support/runtime_case.h"

#include <unistd.h>

/* -- state ------------------------------------------------------------------------------------- */

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

/* -- capture ----------------------------------------------------------------------------------- */

/* A host tensor of f32 on the device: what a program returns that copies. */
static phasor_value device_copy(const struct opened *o, const DLTensor *from)
{
    char text[256];
    phasor_value in = {.kind = PHASOR_TENSOR, .tensor = (DLTensor *)from}, out;
    int length = snprintf(text, sizeof text, "phasor 1 \"copy\"\ninput x: f32[");
    for (int d = 0; d < from->ndim; d++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%d", d ? ", " : "",
                           (int)from->shape[d]);
    snprintf(text + length, sizeof text - (size_t)length, "]\ny = clone(x) flag=1\noutput y\n");
    phasor_program *program = program_of(o, text);
    ASSERT_OK(phasor_run(program, NULL, &in, 1, &out, 1, NULL));
    phasor_program_close(program);
    return out;
}

/* Into device tensors that a first run made; the second has another workspace and the same results.
 */
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
    ASSERT_FAILS(phasor_run_into(o.program, NULL, in, o.in_count, out, o.out_count, driver.stream),
                 PHASOR_NOT_READY, "capturing");
    phasor_value owned[SLOTS_MAX];
    ASSERT_FAILS(phasor_run(o.program, NULL, in, o.in_count, owned, o.out_count, driver.stream),
                 PHASOR_NOT_READY, "phasor_run_into");
    cr_assert_eq(driver.end(driver.stream, &graph), 0);
    cr_assert_eq(driver.graph_free(graph), 0);

    ASSERT_OK(phasor_run_into(o.program, NULL, in, o.in_count, out, o.out_count, driver.stream));
    cr_assert_eq(driver.begin(driver.stream, 2), 0);
    ASSERT_FAILS(
        phasor_run_into(o.program, NULL, o.in, o.in_count, out, o.out_count, driver.stream),
        PHASOR_NOT_READY, "host memory");
    ASSERT_OK(phasor_run_into(o.program, NULL, in, o.in_count, out, o.out_count, driver.stream));
    ASSERT_OK(phasor_run_into(o.program, NULL, in, o.in_count, out, o.out_count, driver.stream));
    cr_assert_eq(driver.end(driver.stream, &graph), 0);
    for (int i = 0; i < o.out_count; i++)
        memset((char *)out[i].tensor->data + out[i].tensor->byte_offset, 0x55,
               64); /* the stand-in's memory is the host's */
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
    setenv("PHASOR_STAND_IN_FAIL",
           "cuMemAllocFromPoolAsync=2,cuMemAlloc_v2=2,cuStreamSynchronize=999", 1);
    for (int i = 0; i < 5; i++)
        ASSERT_OK(phasor_run_into(o.program, NULL, &in, 1, &out, 1, NULL));
    unsetenv("PHASOR_STAND_IN_FAIL");
    cr_assert_eq(stand_in_get("stand_in_allocations"), before);
    value_delete(&copy);
    opened_delete(&o);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

/* -- over an input ----------------------------------------------------------------------------- */

#define TWO "phasor 1 \"two\"\ninput x: f32[4, 5]\ninput w: f32[4, 5]\n"

/* PLANNED: a matter of which kernels there are; right or refused. */
enum over { ALLOWED, REFUSED, PLANNED };

static const struct {
    const char *text;
    enum over over;
} over[] = {
    {TWO "a = add(x, w)\ny = mul(a, x)\noutput y\n", ALLOWED},
    {TWO "a = flip(x) axes=[1]\ny = add(a, w)\noutput y\n", REFUSED},
    {TWO "s = sum(x) axes=[1]\nr = reshape(s) sizes=[4, 1]\ny = add(r, x)\noutput y\n", PLANNED},
    {TWO "y = add(x, w)\nz = mul(x, w)\noutput y\noutput z\n", PLANNED},
    {TWO "y = add(x, w)\nz = exp(y)\noutput y\noutput z\n", PLANNED},
    {TWO "y = add(x, w)\noutput y\noutput w\n", ALLOWED},
};

/* Output 0 over input 0, in device memory. */
Test(over_an_input, only_where_each_element_is_its_own)
{
    struct opened o;
    float values[20], want[20], got[20];
    opened_case(&o, ON_CUDA, "twice", "plain");
    for (size_t k = 0; k < sizeof over / sizeof *over; k++) {
        phasor_program *program = program_of(&o, over[k].text);
        const int count = phasor_program_output_count(program);
        phasor_value x = device_copy(&o, o.in[0].tensor), w = device_copy(&o, o.in[0].tensor);
        phasor_value z = device_copy(&o, o.in[0].tensor), owned[2];
        const phasor_value in[2] = {{.kind = PHASOR_TENSOR, .tensor = &x.owned->dl_tensor},
                                    {.kind = PHASOR_TENSOR, .tensor = &w.owned->dl_tensor}};
        phasor_value out[2] = {{.kind = PHASOR_TENSOR, .tensor = &x.owned->dl_tensor},
                               {.kind = PHASOR_TENSOR, .tensor = &z.owned->dl_tensor}};
        ASSERT_OK(phasor_run(program, NULL, in, 2, owned, count, NULL));
        ASSERT_OK(phasor_copy_to_host(o.runtime, &owned[0].owned->dl_tensor, want, sizeof want));
        const phasor_status status = phasor_run_into(program, NULL, in, 2, out, count, NULL);
        cr_assert(over[k].over == PLANNED || (status == PHASOR_OK) == (over[k].over == ALLOWED),
                  "program %zu: %s", k, phasor_message());
        if (status == PHASOR_OK) {
            ASSERT_OK(phasor_copy_to_host(o.runtime, &x.owned->dl_tensor, got, sizeof got));
            cr_assert_eq(memcmp(got, want, sizeof got), 0, "program %zu", k);
        } else {
            ASSERT_FAILS(status, PHASOR_ERROR_INPUT, "memory of input 0 (x)");
            ASSERT_OK(phasor_copy_to_host(o.runtime, &x.owned->dl_tensor, values, sizeof values));
            cr_assert_eq(memcmp(values, o.in[0].tensor->data, sizeof values), 0, "untouched");
        }
        value_delete(&x);
        value_delete(&w);
        value_delete(&z);
        for (int i = 0; i < count; i++)
            value_delete(&owned[i]);
        phasor_program_close(program);
    }
    opened_close(&o);
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
    ASSERT_NO_LEAKS();
}
