/* test_twins.c - a runtime whose device nobody named, on a machine with two: each call runs where
 * its tensors are. On the stand-in driver, whose device memory is host memory, so that a tensor is
 * moved by saying so. Threads and contexts: gpu/devices.c.
 *
 *     inputs on cuda:1  ->  outputs on cuda:1, and the state there
 */
#include "support/capture.h"
#include "support/leak.h"

/* -- a case on a device ------------------------------------------------------------------------ */

enum { HOST = -1 };

struct twins {
    struct opened o;
    DLTensor moved[SLOTS_MAX];
};

static phasor_options options_of(const char *archs)
{
    phasor_options options = options_for(ON_CUDA);
    setenv("PHASOR_STAND_IN_ARCHS", archs, 1);
    options.device = PHASOR_DEVICE_DEFAULT;
    return options;
}

static void twins_open(struct twins *t, const phasor_options *options, const char *name)
{
    opened_with(&t->o, options, name, "plain");
}

static void input_move(struct twins *t, int i, int ordinal)
{
    if (t->o.in[i].kind != PHASOR_TENSOR)
        return;
    t->moved[i] = *t->o.in[i].tensor;
    t->moved[i].device = ordinal == HOST ? (DLDevice){kDLCPU, 0} : (DLDevice){kDLCUDA, ordinal};
    t->o.in[i].tensor = &t->moved[i];
}

static void inputs_move(struct twins *t, int ordinal)
{
    for (int i = 0; i < t->o.in_count; i++)
        input_move(t, i, ordinal);
}

/* Right, and where it should be. */
static void run_expect(struct twins *t, phasor_state *state, int inputs_on, int outputs_on)
{
    struct opened *o = &t->o;
    inputs_move(t, inputs_on);
    ASSERT_OK(phasor_run(o->program, state, o->in, o->in_count, o->out, o->out_count, NULL));
    for (int i = 0; i < o->out_count; i++)
        cr_assert_eq(o->out[i].owned->dl_tensor.device.device_id, outputs_on, "output %d", i);
}

static void case_expect(struct twins *t, int inputs_on, int outputs_on)
{
    run_expect(t, NULL, inputs_on, outputs_on);
    opened_expect(&t->o);
    opened_delete(&t->o);
}

static phasor_counters counters_of(const struct twins *t)
{
    phasor_counters counters = {.size = sizeof counters};
    ASSERT_OK(phasor_stats(t->o.runtime, &counters));
    return counters;
}

static void twins_close(struct twins *t)
{
    opened_close(&t->o);
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    cr_assert_eq(stand_in_get("stand_in_modules"), 0);
    cr_assert_eq(stand_in_get("stand_in_contexts"), 0);
    ASSERT_NO_LEAKS();
}

/* -- where calls run --------------------------------------------------------------------------- */

static char last_reason[512];

static void reason_keep(void *context, const char *kernels, const char *reason, double milliseconds)
{
    (void)context, (void)kernels, (void)milliseconds;
    snprintf(last_reason, sizeof last_reason, "%s", reason);
}

Test(twins, calls_go_where_their_tensors_are)
{
    struct twins t;
    phasor_options options = options_of("sm_80,sm_90");
    phasor_run_info first = {.size = sizeof first}, second = {.size = sizeof second};
    options.compiled = reason_keep;
    twins_open(&t, &options, "qk_rope_f32");
    case_expect(&t, HOST, 0);
    cr_assert(strstr(last_reason, "for sm_80"), "%s", last_reason);
    const phasor_counters alone = counters_of(&t);
    ASSERT_OK(phasor_program_info(t.o.program, &first));
    case_expect(&t, 1, 1);
    cr_assert(strstr(last_reason, "for sm_90"), "%s", last_reason);
    const phasor_counters together = counters_of(&t);
    cr_assert_gt(alone.compiled, 0);
    cr_assert_eq(together.compiled, 2 * alone.compiled);
    cr_assert_eq(together.launches, 2 * alone.launches);
    cr_assert_eq(together.specialisations, 2 * alone.specialisations);
    ASSERT_OK(phasor_program_info(t.o.program, &second));
    cr_assert_eq(first.kernels, second.kernels);
    case_expect(&t, 0, 0);
    case_expect(&t, 1, 1);
    cr_assert_str_eq(phasor_device_name(t.o.runtime), "cuda:0");
    cr_assert_str_eq(phasor_arch_name(t.o.runtime), "sm_80");
    twins_close(&t);
}

/* The second device is the first one of the runtime. */
Test(twins, the_first_device_has_any_ordinal)
{
    struct twins t;
    phasor_options options = options_of("sm_80,sm_90,sm_90");
    options.ordinal = 1;
    options.arch = "sm_90";
    twins_open(&t, &options, "qk_rope_f32");
    case_expect(&t, HOST, 1);
    case_expect(&t, 0, 0);
    case_expect(&t, 2, 2);
    case_expect(&t, 1, 1);
    twins_close(&t);
}

/* Host inputs, and outputs that are on the second device. */
Test(twins, outputs_decide_where_no_input_does)
{
    struct twins t;
    float room[2][2 * 17 * 4 * 64];
    DLTensor tensors[2];
    phasor_value out[2];
    const phasor_options options = options_of("sm_90,sm_90");
    twins_open(&t, &options, "qk_rope_f32");
    phasor_value want[2];
    values_read(t.o.expected, "output", 2, want);
    for (int i = 0; i < 2; i++) {
        tensors[i] = *want[i].tensor;
        tensors[i].data = room[i];
        tensors[i].byte_offset = 0;
        tensors[i].strides = NULL;
        tensors[i].device = (DLDevice){kDLCUDA, 1};
        out[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &tensors[i]};
    }
    inputs_move(&t, HOST);
    ASSERT_OK(phasor_run_into(t.o.program, NULL, t.o.in, 2, out, 2, NULL));
    for (int i = 0; i < 2; i++)
        tensors[i].device = (DLDevice){kDLCPU, 0};
    values_expect(&t.o, out);
    tensors[1].device = (DLDevice){kDLCUDA, 1};
    inputs_move(&t, 0);
    ASSERT_FAILS(phasor_run_into(t.o.program, NULL, t.o.in, 2, out, 2, NULL), PHASOR_ERROR_INPUT,
                 "output 1 (type_as_1): memory of CUDA device 1; expected host memory or memory of "
                 "CUDA device 0, where input 0 (q) is");
    twins_close(&t);
}

Test(twins, what_is_refused)
{
    struct twins t;
    phasor_options options = options_of("sm_90,sm_90");
    twins_open(&t, &options, "qk_rope_f32");
    inputs_move(&t, 5);
    ASSERT_FAILS(opened_run(&t.o), PHASOR_ERROR_INPUT,
                 "input 0 (q): memory of CUDA device 5; expected host memory or memory of one CUDA "
                 "device, 0 to 1");
    inputs_move(&t, -3);
    ASSERT_FAILS(opened_run(&t.o), PHASOR_ERROR_INPUT, "memory of CUDA device -3");
    inputs_move(&t, 1);
    input_move(&t, 1, 0);
    ASSERT_FAILS(opened_run(&t.o), PHASOR_ERROR_INPUT,
                 "input 1 (k): memory of CUDA device 0; expected host memory or memory of CUDA "
                 "device 1, where input 0 (q) is");
    case_expect(&t, 1, 1);
    opened_close(&t.o);
    options.device = PHASOR_DEVICE_CUDA; /* one that was named takes no other */
    twins_open(&t, &options, "qk_rope_f32");
    inputs_move(&t, 1);
    ASSERT_FAILS(opened_run(&t.o), PHASOR_ERROR_INPUT,
                 "expected host memory or memory of CUDA "
                 "device 0");
    twins_close(&t);
}

/* A program that is not rewritten runs on the CPU device, with host memory alone. */
Test(twins, the_cpu_device_has_none)
{
    struct twins t;
    phasor_options options = options_of("sm_90,sm_90");
    options.rules = PHASOR_RULES_EXECUTORCH;
    twins_open(&t, &options, "left_complex_add");
    inputs_move(&t, 1);
    ASSERT_FAILS(opened_run(&t.o), PHASOR_ERROR_INPUT, "expected host memory");
    case_expect(&t, HOST, 0);
    twins_close(&t);
}

/* -- compiles ---------------------------------------------------------------------------------- */

Test(twins, one_compile_for_each_arch)
{
    static const phasor_mode modes[] = {PHASOR_MODE_EXACT, PHASOR_MODE_GENERIC, PHASOR_MODE_AUTO};
    struct twins t;
    for (int m = 0; m < 3; m++) {
        phasor_options options = options_of("sm_90,sm_90,sm_90");
        options.mode = modes[m];
        twins_open(&t, &options, "int_input");
        inputs_move(&t, 2); /* kernels are prepared for the first device, wherever tensors are */
        ASSERT_OK(phasor_program_prepare(t.o.program, t.o.in, t.o.in_count));
        const uint64_t compiled = counters_of(&t).compiled;
        cr_assert_gt(compiled, 0);
        for (int ordinal = 0; ordinal < 3; ordinal++)
            case_expect(&t, ordinal, ordinal);
        if (modes[m] != PHASOR_MODE_AUTO) /* which goes on in the background */
            cr_assert_eq(counters_of(&t).compiled, compiled);
        for (int i = 0; i < 6; i++)
            case_expect(&t, i % 3, i % 3);
        opened_close(&t.o);
    }
    twins_open(&t,
               &(phasor_options){.size = sizeof(phasor_options),
                                 .device = PHASOR_DEVICE_CPU,
                                 .cache = ":memory:"},
               "int_input");
    twins_close(&t);
}

/* -- states ------------------------------------------------------------------------------------ */

/* The program adds 1 to a buffer that begins with 3, and gives it. */
static void count_expect(struct twins *t, phasor_state *state, int inputs_on, int outputs_on,
                         int64_t count)
{
    int64_t got[2];
    run_expect(t, state, inputs_on, outputs_on);
    ASSERT_OK(phasor_copy_to_host(t->o.runtime, &t->o.out[0].owned->dl_tensor, got, sizeof got));
    cr_assert_eq(got[0], count, "%d, not %d", (int)got[0], (int)count);
    opened_delete(&t->o);
}

Test(twins, a_state_is_of_the_device_of_its_first_call)
{
    struct twins t;
    phasor_state *state, *unused;
    const phasor_options options = options_of("sm_90,sm_80");
    twins_open(&t, &options, "report_counter");
    ASSERT_OK(phasor_state_new(t.o.program, &state));
    ASSERT_OK(phasor_state_new(t.o.program, &unused));
    ASSERT_OK(phasor_state_check(t.o.program, state));
    ASSERT_OK(phasor_state_reset(t.o.program, state));
    count_expect(&t, state, 1, 1, 4);
    count_expect(&t, state, 1, 1, 5);
    count_expect(&t, state, HOST, 1, 6); /* no tensor says where */
    inputs_move(&t, 0);
    ASSERT_FAILS(phasor_run(t.o.program, state, t.o.in, t.o.in_count, t.o.out, t.o.out_count, NULL),
                 PHASOR_ERROR_INPUT,
                 "the state is on CUDA device 1, where it was first used; the tensors of this call "
                 "are on CUDA device 0");
    count_expect(&t, state, 1, 1, 7);
    ASSERT_OK(phasor_state_reset(t.o.program, state));
    count_expect(&t, state, 1, 1, 4);
    ASSERT_OK(phasor_state_check(t.o.program, state));
    phasor_state_free(unused);
    phasor_state_free(state);
    twins_close(&t);
}

Test(twins, each_device_has_the_program_s_own_state)
{
    struct twins t;
    phasor_state *other;
    const phasor_options options = options_of("sm_90,sm_90");
    twins_open(&t, &options, "report_counter");
    count_expect(&t, NULL, 0, 0, 4);
    count_expect(&t, NULL, 0, 0, 5);
    count_expect(&t, NULL, 1, 1, 4);
    count_expect(&t, NULL, HOST, 0, 6);
    count_expect(&t, NULL, 1, 1, 5);
    ASSERT_OK(phasor_state_reset(t.o.program, NULL));
    count_expect(&t, NULL, 1, 1, 4);
    count_expect(&t, NULL, 0, 0, 4);
    ASSERT_OK(phasor_state_check(t.o.program, NULL));
    phasor_program *again;
    ASSERT_OK(
        phasor_program_load(t.o.runtime, case_path("report_counter", "plain.pt2"), NULL, &again));
    ASSERT_OK(phasor_state_new(again, &other));
    ASSERT_FAILS(phasor_run(t.o.program, other, t.o.in, t.o.in_count, t.o.out, t.o.out_count, NULL),
                 PHASOR_ERROR_USAGE, "another program");
    ASSERT_FAILS(phasor_state_check(t.o.program, other), PHASOR_ERROR_USAGE, "another program");
    phasor_state_free(other);
    phasor_program_close(again);
    twins_close(&t);
}

Test(twins, an_index_out_of_range_is_found_on_any_device)
{
    struct twins t;
    int64_t indices[3] = {0, 40, 1};
    const phasor_options options = options_of("sm_90,sm_90");
    twins_open(&t, &options, "op_index_select");
    case_expect(&t, 0, 0);
    const phasor_value right = t.o.in[1];
    DLTensor wrong = *t.o.in[1].tensor;
    wrong.data = indices;
    wrong.byte_offset = 0;
    t.o.in[1].tensor = &wrong;
    run_expect(&t, NULL, 1, 1);
    opened_delete(&t.o);
    t.o.in[1] = right;
    ASSERT_FAILS(phasor_state_check(t.o.program, NULL), PHASOR_ERROR_INPUT, "out of range");
    ASSERT_OK(phasor_state_check(t.o.program, NULL));
    opened_inputs(&t.o, "op_index_select", 0);
    case_expect(&t, 1, 1);
    twins_close(&t);
}

/* -- trouble ----------------------------------------------------------------------------------- */

Test(twins, a_device_that_cannot_be_opened_now)
{
    static const struct {
        const char *fault;
        phasor_status status;
    } faults[] = {{"cuDevicePrimaryCtxRetain=2", PHASOR_ERROR_MEMORY},
                  {"cuMemPoolCreate=999", PHASOR_ERROR_DEVICE},
                  {"cuMemAlloc_v2=2", PHASOR_ERROR_MEMORY}};
    struct twins t;
    const phasor_options options = options_of("sm_90,sm_90");
    twins_open(&t, &options, "qk_rope_f32");
    case_expect(&t, 0, 0);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        setenv("PHASOR_STAND_IN_FAIL", faults[i].fault, 1);
        inputs_move(&t, 1);
        const phasor_status status = opened_run(&t.o);
        cr_assert_eq(status, faults[i].status, "%s: %s", faults[i].fault, phasor_message());
        run_expect(&t, NULL, 0, 0);
        unsetenv("PHASOR_STAND_IN_FAIL");
        opened_expect(&t.o);
        opened_delete(&t.o);
    }
    case_expect(&t, 1, 1);
    twins_close(&t);
}

/* The driver of the second device, and a call into memory there. */
struct captured {
    struct twins t;
    struct driver driver;
    void *context, *stream; /* of the second device */
    float room[2][2 * 17 * 4 * 64];
    DLTensor tensors[2];
    phasor_value out[2];
};

static void captured_open(struct captured *c)
{
    const phasor_options options = options_of("sm_90,sm_90");
    twins_open(&c->t, &options, "qk_rope_f32");
    driver_open(&c->driver);
    cr_assert_eq(c->driver.retain(&c->context, 1), 0);
    cr_assert_eq(c->driver.make_current(c->context), 0);
    cr_assert_eq(c->driver.stream_new(&c->stream, 1), 0);
    phasor_value want[2];
    values_read(c->t.o.expected, "output", 2, want);
    inputs_move(&c->t, 1);
    for (int i = 0; i < 2; i++) {
        c->tensors[i] = *want[i].tensor;
        c->tensors[i].data = c->room[i];
        c->tensors[i].byte_offset = 0;
        c->tensors[i].strides = NULL;
        c->tensors[i].device = (DLDevice){kDLCUDA, 1};
        c->out[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &c->tensors[i]};
    }
}

static phasor_status captured_run(struct captured *c, void *stream)
{
    return phasor_run_into(c->t.o.program, NULL, c->t.o.in, 2, c->out, 2, stream);
}

static void captured_close(struct captured *c)
{
    cr_assert_eq(c->driver.stream_free(c->stream), 0);
    cr_assert_eq(c->driver.make_current(NULL), 0);
    cr_assert_eq(c->driver.release(1), 0);
    driver_close(&c->driver);
    twins_close(&c->t);
}

Test(twins, a_capture_opens_no_device)
{
    static struct captured c;
    void *graph, *ready;
    captured_open(&c);
    cr_assert_eq(c.driver.begin(c.stream, 0), 0);
    ASSERT_FAILS(captured_run(&c, c.stream), PHASOR_NOT_READY, "has not run on CUDA device 1");
    cr_assert_eq(c.driver.end(c.stream, &graph), 0, "the capture is whole");
    cr_assert_eq(c.driver.graph_free(graph), 0);
    ASSERT_OK(captured_run(&c, c.stream));
    memset(c.room, 0, sizeof c.room);
    cr_assert_eq(c.driver.begin(c.stream, 0), 0);
    ASSERT_OK(captured_run(&c, c.stream));
    cr_assert_eq(c.driver.end(c.stream, &graph), 0);
    cr_assert_eq(c.room[0][0], 0.0f, "captured, not run");
    cr_assert_eq(c.driver.instantiate(&ready, graph, 0), 0);
    cr_assert_eq(c.driver.launch(ready, c.stream), 0);
    for (int i = 0; i < 2; i++)
        c.tensors[i].device = (DLDevice){kDLCPU, 0};
    values_expect(&c.t.o, c.out);
    cr_assert_eq(c.driver.graph_free(graph), 0);
    int (*exec_free)(void *);
    *(void **)&exec_free = stand_in_symbol("cuGraphExecDestroy");
    cr_assert_eq(exec_free(ready), 0);
    captured_close(&c);
}

/* The thread captures a stream of the first device, in the strictest mode. */
Test(twins, a_device_is_opened_beside_a_capture)
{
    static struct captured c;
    void *graph;
    captured_open(&c);
    cr_assert_eq(c.driver.begin(c.driver.stream, 0), 0);
    ASSERT_OK(captured_run(&c, c.stream));
    cr_assert_eq(c.driver.end(c.driver.stream, &graph), 0, "the capture is whole");
    cr_assert_eq(c.driver.graph_free(graph), 0);
    captured_close(&c);
}

/* -- memory ------------------------------------------------------------------------------------ */

static long until_failure; /* 1: the next allocation fails; 0: none does */
static long blocks;        /* that are not freed */
static bool failed;

static void *block_resize(void *context, void *block, size_t nbytes)
{
    (void)context;
    if (until_failure > 0 && --until_failure == 0) {
        failed = true;
        return NULL;
    }
    void *resized = realloc(block, nbytes);
    blocks += resized && !block;
    return resized;
}

static void block_free(void *context, void *block)
{
    (void)context;
    blocks -= block != NULL;
    free(block);
}

static void log_nothing(void *context, int level, const char *line)
{
    (void)context, (void)level, (void)line;
}

/* The n-th allocation of a program's first call on the second device; false when there is none.
 * What stays usable: the call itself, the first device, and closing. */
static bool allocation_fails(const phasor_options *options, long n)
{
    struct twins t;
    twins_open(&t, options, "report_counter");
    count_expect(&t, NULL, 0, 0, 4);
    inputs_move(&t, 1);
    failed = false;
    until_failure = n;
    const phasor_status status = opened_run(&t.o);
    const bool reached = failed;
    until_failure = 0;
    cr_assert(status == PHASOR_OK || status == PHASOR_ERROR_MEMORY, "failure %ld: %s: %s", n,
              phasor_status_name(status), phasor_message());
    if (status == PHASOR_OK)
        opened_delete(&t.o);
    else
        cr_assert(strstr(phasor_message(), "memory"), "failure %ld: %s", n, phasor_message());
    count_expect(&t, NULL, 0, 0, 5);
    if (n % 3) /* else it is closed as the failure has left it */
        count_expect(&t, NULL, 1, 1, status == PHASOR_OK ? 5 : 4);
    opened_close(&t.o);
    return reached;
}

static void every_allocation(const char *archs)
{
    phasor_options options = options_of(archs);
    setenv("PHASOR_STAND_IN_KEEP", "1", 1);
    options.resize = block_resize;
    options.free = block_free;
    options.log = log_nothing;
    long n = 0, kept = 0;
    for (bool reached = true; reached; n++) {
        reached = allocation_fails(&options, n);
        if (n == 0) { /* without a failure: what stays for the whole process */
            reached = true;
            kept = blocks;
        }
        cr_assert_eq(blocks, kept, "failure %ld: %ld blocks are left", n, blocks - kept);
    }
    cr_log_info("%ld allocations", n);
    cr_assert_gt(n, 20);
    cr_assert_eq(stand_in_get("stand_in_allocations"), 0);
    cr_assert_eq(stand_in_get("stand_in_modules"), 0);
    cr_assert_eq(stand_in_get("stand_in_contexts"), 0);
    ASSERT_NO_LEAKS();
}

Test(twins, every_allocation_with_one_arch, .timeout = 3600)
{
    every_allocation("sm_90,sm_90");
}

Test(twins, every_allocation_with_two_archs, .timeout = 3600)
{
    every_allocation("sm_90,sm_80");
}
