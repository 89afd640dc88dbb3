/* bench.c - what calls of a program cost. phasor_program_bench and phasor_program_bench_calls.
 *
 *     q: bf16[4, 8192, 32, 128]
 *       -> data on the device, several sets of it
 *       -> the first call, by the host's clock; NVRTC alone on the same sources
 *       -> warm calls and bare launches in turn, by the host's clock
 *       -> warm calls and copies of the same bytes in turn, by events
 *
 * Host times are those of a server that never fills the launch queue: the stream is waited for
 * after a few calls, outside of what is timed.
 */
#include "inspect/bench.h"

#include "specialise/specialise.h"
#include <string.h>

enum {
    SAMPLES_MAX = 4096,
    SAMPLES_MIN = 5,
    CHUNK_MAX = 32,
    CHUNK_LAUNCHES = 512,
    COMPILER_RUNS = 3,
    METERS_MAX = 2 + COPY_KERNELS,
    LINE = 256
};
static const double seconds_default = 0.3;

struct bench {
    phasor_program *program;
    struct device *device; /* NULL: the CPU device */
    void *stream;
    phasor_bench_options options;
    phasor_bench_result result;
    struct bench_data data;
    struct bench_shape *shapes;
    struct plan plan; /* CUDA: of the very calls that are timed */
    /* with their addresses: those that were there then, whatever is swapped in later */
    struct specialisation *spec;
    struct ready_step *steps;
    struct arena arena;
    void *scratch;
};

static phasor_status wait(const struct bench *bench)
{
    return bench->device ? device_synchronize(bench->device, bench->stream) : PHASOR_OK;
}

static phasor_status call_run(struct bench *bench, double *microseconds)
{
    struct bench_data *data = &bench->data;
    const double before = bench_now();
    const phasor_status status =
        phasor_run_into(bench->program, NULL, data->values, data->input_count,
                        data->values + data->input_count, data->output_count, bench->stream);
    *microseconds = bench_now() - before;
    return status;
}

/* -- opening ----------------------------------------------------------------------------------- */

static phasor_status options_read(struct bench *bench, const phasor_bench_options *options)
{
    if (options) {
        TRY(struct_check("phasor_bench_options", options->size, sizeof *options));
        memcpy(&bench->options, options, options->size);
    }
    if (!(bench->options.seconds > 0))
        bench->options.seconds = seconds_default;
    return PHASOR_OK;
}

static phasor_status bench_open(struct bench *bench, phasor_program *program,
                                const phasor_bench_options *options)
{
    TRY(program_check_runnable(program));
    if (program->runtime->device_kind == PHASOR_DEVICE_NONE)
        return fail(
            PHASOR_ERROR_USAGE,
            "the runtime was opened with the device \"none\": it compiles and runs nothing");
    TRY(options_read(bench, options));
    bench->program = program;
    bench->device = program->on_cuda ? program->runtime->device : NULL;
    if (bench->device)
        TRY(device_stream_new(bench->device, &bench->stream));
    bench->data = (struct bench_data){.program = program,
                                      .device = bench->device,
                                      .stream = bench->stream,
                                      .input_count = program->input_count,
                                      .output_count = program->output_count};
    return PHASOR_OK;
}

static struct bench_shape *shapes_new(const phasor_program *program, size_t count)
{
    return memory_new((size_t)(program->input_count + program->output_count + 1) * count *
                      sizeof(struct bench_shape));
}

static void bench_close(struct bench *bench)
{
    if (!bench->program)
        return;
    wait(bench);
    if (bench->spec)
        flight_release(&bench->program->specialisations, &bench->spec->flight);
    arena_free(&bench->arena);
    if (bench->device)
        device_free(bench->device, bench->scratch, bench->stream);
    plan_free(&bench->plan);
    bench_data_free(&bench->data);
    memory_free(bench->shapes);
    wait(bench);
    if (bench->device)
        device_stream_free(bench->device, bench->stream);
}

/* -- the call's plan --------------------------------------------------------------------------- */

static phasor_status call_open(struct bench *bench, struct call *call)
{
    struct bench_data *data = &bench->data;
    call->stream = bench->stream;
    return call_read(call, bench->program, CALL_INTO, data->values, data->input_count,
                     data->values + data->input_count, data->output_count);
}

static int64_t buffer_bytes(const struct plan *plan, const struct buffer *buffer)
{
    int64_t nbytes = dtype_size(buffer->dtype);
    for (int d = 0; d < buffer->rank; d++)
        nbytes *= size_value(&plan->sizes, buffer->sizes[d]);
    return nbytes;
}

static bool buffer_is_used(const struct plan *plan, size_t buffer)
{
    bool used = false;
    for (size_t s = 0; s < plan->steps.count && !used; s++) {
        const struct step *step = &plan->steps.at[s];
        for (int i = 0; !step->hoisted && i < step->read_count; i++)
            used |= step->reads[i].buffer == (int)buffer;
        for (int i = 0; !step->hoisted && i < step->write_count; i++)
            used |= step->writes[i] == (int)buffer;
    }
    return used;
}

/* What kernels hand to each other need not be moved, what two of them read needs to be once; what a
 * gather leaves out of a table need not be read. */
static void bytes_count(struct bench *bench)
{
    const struct plan *plan = &bench->plan;
    int64_t outside = 0, moved = 0;
    for (size_t s = 0; s < plan->steps.count; s++)
        moved += plan->steps.at[s].hoisted ? 0 : step_bytes(plan, &plan->steps.at[s]);
    for (size_t b = 0; b < plan->buffers.count; b++)
        if (plan->buffers.at[b].kind != BUFFER_WORK && buffer_is_used(plan, b))
            outside += buffer_bytes(plan, &plan->buffers.at[b]);
    bench->result.kernel_bytes = moved;
    bench->result.bytes = outside < moved ? outside : moved;
}

/* On the CPU device: all inputs and outputs. */
static void bytes_add(struct bench *bench)
{
    for (int i = 0; i < bench->data.input_count + bench->data.output_count; i++)
        bench->result.bytes += bench->shapes[i].rank >= 0 ? bench->shapes[i].nbytes : 0;
    bench->result.kernel_bytes = bench->result.bytes;
}

static phasor_status plan_read(struct bench *bench)
{
    struct call call;
    if (!bench->device) {
        bytes_add(bench);
        return PHASOR_OK;
    }
    phasor_status status = call_open(bench, &call);
    if (status == PHASOR_OK)
        status = specialise_plan(&call, &bench->plan);
    call_free(&call);
    if (status == PHASOR_OK)
        bytes_count(bench);
    return status;
}

/* -- the first call ---------------------------------------------------------------------------- */

static phasor_status compiler_time(struct bench *bench, struct compiler *compiler,
                                   double *microseconds)
{
    *microseconds = 0;
    for (size_t k = 0; k < bench->plan.kernels.count; k++) {
        const struct kernel *kernel = &bench->plan.kernels.at[k];
        const struct compile_request request = {
            .name = kernel->name, .source = kernel->source, .arch = bench->program->runtime->arch};
        struct compile_result result = {0};
        const double before = bench_now();
        TRY(compiler_run(compiler, &request, &result));
        *microseconds += bench_now() - before;
        compile_result_free(&result);
    }
    return PHASOR_OK;
}

/* The middle of several runs; the first call had one. */
static phasor_status compiler_measure(struct bench *bench)
{
    struct compiler *compiler;
    double samples[COMPILER_RUNS];
    TRY(runtime_compiler(bench->program->runtime, &compiler));
    for (int i = 0; i < COMPILER_RUNS; i++)
        TRY(compiler_time(bench, compiler, &samples[i]));
    bench->result.compiler = bench_times(samples, COMPILER_RUNS).p50;
    return PHASOR_OK;
}

static phasor_status first_measure(struct bench *bench)
{
    struct phasor_runtime *runtime = bench->program->runtime;
    phasor_counters before = {.size = sizeof before}, after = before;
    phasor_run_info info = {.size = sizeof info};
    if (bench->device && bench->options.open_compiler)
        TRY(bench_compiler_start(runtime));
    TRY(phasor_stats(runtime, &before));
    TRY(call_run(bench, &bench->result.first));
    TRY(wait(bench));
    TRY(phasor_stats(runtime, &after));
    TRY(phasor_program_info(bench->program, &info));
    bench->result.compiled = after.compiled - before.compiled;
    bench->result.cache_hits = after.cache_hits - before.cache_hits;
    bench->result.kernels = info.kernels;
    bench->result.setup_kernels = info.setup_kernels;
    bench->result.mode = info.mode;
    return bench->device && bench->result.compiled ? compiler_measure(bench) : PHASOR_OK;
}

/* -- bare launches ----------------------------------------------------------------------------- */

static phasor_status scratch_get(struct bench *bench)
{
    int64_t nbytes = bench->spec->recipe.work_bytes;
    for (int i = 0; i < bench->spec->recipe.memory_count; i++)
        nbytes += bench->spec->recipe.memories[i] + LINE;
    return nbytes ? device_allocate(bench->device, (size_t)nbytes, &bench->scratch, bench->stream)
                  : PHASOR_OK;
}

/* The steps of a call with its addresses filled in. Results that the caller has no memory for go
 * behind the workspace. */
static phasor_status steps_prepare(struct bench *bench, const struct call *call,
                                   const struct phasor_state *state)
{
    const struct recipe *recipe = &bench->spec->recipe;
    struct memory *blocks = NEW(&bench->arena, struct memory, recipe->memory_count),
                  **fresh = NEW(&bench->arena, struct memory *, recipe->memory_count);
    char *next = (char *)bench->scratch + recipe->work_bytes;
    if (!blocks || !fresh)
        return fail_memory();
    for (int i = 0; i < recipe->memory_count; i++) {
        blocks[i].bytes = next;
        fresh[i] = &blocks[i];
        next += (recipe->memories[i] + LINE - 1) / LINE * LINE;
    }
    const struct step_memory memory = {.inputs = call->in,
                                       .outputs = call->out,
                                       .states = state->addresses,
                                       .fresh = fresh,
                                       .work = bench->scratch,
                                       .flag = state->flag};
    for (int i = 0; i < bench->program->input_count; i++)
        call->in[i].used = call->in[i].bytes;
    for (int i = 0; i < bench->program->output_count; i++)
        call->out[i].used = call->out[i].bytes;
    return steps_bind(&bench->arena, __atomic_load_n(&bench->spec->steps, __ATOMIC_ACQUIRE),
                      bench->spec->step_count, &memory, &bench->steps);
}

static phasor_status launches_prepare(struct bench *bench)
{
    struct call call;
    struct phasor_state *state = NULL;
    phasor_status status = call_open(bench, &call);
    if (status == PHASOR_OK)
        status = specialisation_get(&call, &bench->spec);
    if (status == PHASOR_OK)
        status = state_get(bench->program, NULL, &state);
    if (status == PHASOR_OK)
        status = scratch_get(bench);
    if (status == PHASOR_OK)
        status = steps_prepare(bench, &call, state);
    call_free(&call);
    return status;
}

static phasor_status launches_run(const struct bench *bench, double *microseconds)
{
    const double before = bench_now();
    TRY(steps_run(bench->device, bench->stream, bench->steps, bench->spec->step_count, NULL));
    *microseconds = bench_now() - before;
    return PHASOR_OK;
}

/* -- host time --------------------------------------------------------------------------------- */

static phasor_status calls_chunk(struct bench *bench, int count, double *samples)
{
    for (int i = 0; i < count; i++) {
        bench_data_select(&bench->data, i % bench->data.sets);
        TRY(call_run(bench, &samples[i]));
    }
    return wait(bench);
}

static phasor_status launches_chunk(struct bench *bench, int count, double *samples)
{
    for (int i = 0; i < count; i++)
        TRY(launches_run(bench, &samples[i]));
    return wait(bench);
}

static int chunk_size(const struct bench *bench)
{
    const int launches = bench->result.kernels > 0 ? bench->result.kernels : 1;
    const int most = CHUNK_LAUNCHES / launches;
    return !bench->device || most < 1 ? 1 : most < CHUNK_MAX ? most : CHUNK_MAX;
}

/* Calls and launches take turns, so that a clock that changes changes it for both. The first chunks
 * warm up. */
static phasor_status host_loop(struct bench *bench, double *calls, double *launches)
{
    const int chunk = chunk_size(bench);
    const double end = bench_now() + bench->options.seconds * 1e6 * (bench->device ? 2 : 1);
    int count = -chunk;
    while (count + chunk <= SAMPLES_MAX && (count < SAMPLES_MIN || bench_now() < end)) {
        double *const at = calls + (count < 0 ? 0 : count);
        TRY(calls_chunk(bench, chunk, at));
        if (bench->device)
            TRY(launches_chunk(bench, chunk, launches + (at - calls)));
        count += chunk;
    }
    bench->result.host = bench_times(calls, count);
    bench->result.launch = bench_times(launches, bench->device ? count : 0);
    return PHASOR_OK;
}

static phasor_status host_measure(struct bench *bench)
{
    double *samples = memory_new(2 * SAMPLES_MAX * sizeof *samples);
    if (!samples)
        return fail_memory();
    phasor_status status = bench->device ? launches_prepare(bench) : PHASOR_OK;
    if (status == PHASOR_OK)
        status = host_loop(bench, samples, samples + SAMPLES_MAX);
    memory_free(samples);
    return status;
}

/* -- device time ------------------------------------------------------------------------------- */

static phasor_status call_issue(void *context, int turn)
{
    struct bench *bench = context;
    double unused;
    bench_data_select(&bench->data, turn % bench->data.sets);
    return call_run(bench, &unused);
}

static phasor_status device_measure(struct bench *bench)
{
    phasor_bench_result *result = &bench->result;
    struct bench_copy copy = {0};
    struct meter meters[METERS_MAX] = {
        {.issue = call_issue, .context = bench, .launches = result->kernels}};
    int count = 1;
    phasor_status status =
        bench_copy_open(&copy, bench->program->runtime, result->bytes, bench->stream);
    if (status == PHASOR_OK)
        count += bench_copy_meters(&copy, meters + 1);
    if (status == PHASOR_OK)
        status = bench_meters(bench->device, bench->stream, copy.base, copy.room, meters, count,
                              bench->options.seconds);
    wait(bench);
    bench_copy_close(&copy);
    if (status != PHASOR_OK)
        return status;
    result->device = meters[0].times;
    result->copy_driver = result->copy = meters[1].times;
    for (int i = 2; i < count; i++)
        if (i == 2 || meters[i].times.p50 < result->copy_kernel.p50)
            result->copy_kernel = meters[i].times;
    if (result->copy_kernel.count && result->copy_kernel.p50 < result->copy.p50)
        result->copy = result->copy_kernel;
    if (result->bytes == 0)
        result->copy = result->copy_driver = result->copy_kernel = (phasor_times){0};
    return PHASOR_OK;
}

/* -- one set of shapes ------------------------------------------------------------------------- */

static phasor_status bench_run(struct bench *bench, const phasor_value *inputs, int count)
{
    bench->shapes = shapes_new(bench->program, 1);
    if (!bench->shapes)
        return fail_memory();
    TRY(bench_shapes(bench->program, inputs, count, bench->shapes));
    TRY(bench_data_make(&bench->data, bench->shapes, 1, bench->options.first_only || !bench->device,
                        bench->options.seed));
    bench_data_shape(&bench->data, bench->shapes, inputs);
    bench->result.set_bytes = bench->data.set_bytes;
    bench->result.sets = bench->data.sets;
    TRY(plan_read(bench));
    TRY(first_measure(bench));
    if (bench->options.first_only)
        return PHASOR_OK;
    TRY(host_measure(bench));
    if (bench->device)
        TRY(device_measure(bench));
    return phasor_state_check(bench->program, NULL);
}

static phasor_status scope_enter(const phasor_program *program, struct device_scope *scope)
{
    return program->on_cuda ? device_enter(program->runtime->device, scope) : PHASOR_OK;
}

static void scope_leave(const phasor_program *program, const struct device_scope *scope)
{
    if (program->on_cuda)
        device_leave(program->runtime->device, scope);
}

phasor_status phasor_program_bench(phasor_program *program, const phasor_value *inputs, int count,
                                   const phasor_bench_options *options, phasor_bench_result *out)
{
    NOT_NULL(program);
    NOT_NULL(out);
    LOG_SCOPE(&program->runtime->first->log);
    struct bench bench = {0};
    struct device_scope scope;
    TRY(struct_check("phasor_bench_result", out->size, sizeof *out));
    const size_t size = out->size;
    TRY(scope_enter(program, &scope));
    phasor_status status = bench_open(&bench, program, options);
    if (status == PHASOR_OK)
        status = bench_run(&bench, inputs, count);
    bench_close(&bench);
    scope_leave(program, &scope);
    bench.result.size = size;
    if (status == PHASOR_OK)
        memcpy(out, &bench.result, size);
    return status;
}

/* -- a series of calls ------------------------------------------------------------------------- */

static bool shapes_equal(const struct bench_shape *a, const struct bench_shape *b, int count)
{
    for (int i = 0; i < count; i++)
        if (a[i].rank >= 0 && memcmp(a[i].sizes, b[i].sizes, sizeof a[i].sizes) != 0)
            return false;
    return true;
}

/* Also what is no tensor makes another call: an integer that is a size. */
static bool values_equal(const phasor_value *a, const phasor_value *b, int count)
{
    for (int i = 0; i < count; i++)
        if (a[i].kind == PHASOR_INT && a[i].integer != b[i].integer)
            return false;
    return true;
}

static bool call_is_first(const struct bench *bench, const phasor_bench_call *calls, int at)
{
    const int inputs = bench->data.input_count, slots = inputs + bench->data.output_count;
    for (int k = 0; k < at; k++)
        if (shapes_equal(bench->shapes + k * slots, bench->shapes + at * slots, inputs) &&
            values_equal(calls[k].inputs, calls[at].inputs, inputs))
            return false;
    return true;
}

static phasor_status series_call(struct bench *bench, struct bench_shape *shapes,
                                 phasor_bench_call *call)
{
    phasor_counters before = {.size = sizeof before}, after = before;
    bench_data_shape(&bench->data, shapes, call->inputs);
    TRY(phasor_stats(bench->program->runtime, &before));
    TRY(call_run(bench, &call->host));
    TRY(phasor_stats(bench->program->runtime, &after));
    call->compiled = after.compiled - before.compiled;
    return PHASOR_OK;
}

/* All that depends on sizes is settled before the first call. */
static phasor_status series_run(struct bench *bench, phasor_bench_call *calls, int count,
                                int input_count)
{
    const int slots = bench->program->input_count + bench->program->output_count;
    bench->shapes = shapes_new(bench->program, (size_t)count);
    if (!bench->shapes)
        return fail_memory();
    for (int k = 0; k < count; k++)
        TRY(bench_shapes(bench->program, calls[k].inputs, input_count, bench->shapes + k * slots));
    for (int k = 0; k < count; k++)
        calls[k].first = call_is_first(bench, calls, k);
    TRY(bench_data_make(&bench->data, bench->shapes, count, 1, bench->options.seed));
    for (int k = 0; k < count; k++) {
        TRY(series_call(bench, bench->shapes + k * slots, &calls[k]));
        if (k % CHUNK_MAX == 0)
            TRY(wait(bench));
    }
    return phasor_state_check(bench->program, NULL);
}

phasor_status phasor_program_bench_calls(phasor_program *program, phasor_bench_call *calls,
                                         int count, int input_count,
                                         const phasor_bench_options *options)
{
    NOT_NULL(program);
    LOG_SCOPE(&program->runtime->first->log);
    struct bench bench = {0};
    struct device_scope scope;
    if (count < 0)
        return fail(PHASOR_ERROR_USAGE, "a series of %d calls", count);
    if (count > 0)
        NOT_NULL(calls);
    TRY(scope_enter(program, &scope));
    phasor_status status = bench_open(&bench, program, options);
    if (status == PHASOR_OK)
        status = series_run(&bench, calls, count, input_count);
    bench_close(&bench);
    scope_leave(program, &scope);
    return status;
}
