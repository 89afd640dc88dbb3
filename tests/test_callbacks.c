/* test_callbacks.c - functions of the caller: each runtime has its own, and they may call the
 * library: from log and compiled everything works, also the call that is just being made; from
 * interrupted that one is an error. Nothing hangs. */
#include "base/log.h"
#include "base/status.h"
#include "support/capture.h"
#include "support/leak.h"

enum { TIMEOUT = 60 };

/* -- what a callback does ---------------------------------------------------------------------- */

enum act { STATS, SHOW, RUN, PREPARE, LOAD, GC, OPEN, ACTS };

static struct {
    struct opened o;
    enum act act;
    bool inside;
    phasor_status status; /* of the latest act */
    int lines, compiled, asked, acted;
} world;

static phasor_status run_once(const struct opened *o)
{
    struct opened own = *o; /* its outputs are others */
    const phasor_status status = opened_run(&own);
    if (status == PHASOR_OK)
        opened_delete(&own);
    return status;
}

static phasor_status load_once(phasor_runtime *runtime)
{
    phasor_program *program;
    const phasor_status status =
        phasor_program_load(runtime, case_path("left_five", "plain.pt2"), NULL, &program);
    phasor_program_close(program);
    return status;
}

static phasor_status cache_once(phasor_runtime *runtime, bool collect)
{
    char *text = NULL;
    const phasor_status status = collect ? phasor_cache_gc(runtime, false, &text)
                                         : phasor_cache_show(runtime, "list", false, &text);
    phasor_free(text);
    return status;
}

static phasor_status open_once(void)
{
    const phasor_options options = options_for(ON_CPU);
    phasor_runtime *runtime;
    const phasor_status status = phasor_open(&runtime, &options);
    phasor_close(runtime);
    return status;
}

static phasor_status act(enum act which)
{
    struct opened *o = &world.o;
    phasor_counters counters = {.size = sizeof counters};
    switch (which) {
    case STATS: return phasor_stats(o->runtime, &counters);
    case SHOW: return cache_once(o->runtime, false);
    case RUN: return run_once(o);
    case PREPARE: return phasor_program_prepare(o->program, o->in, o->in_count);
    case LOAD: return load_once(o->runtime);
    case GC: return cache_once(o->runtime, true);
    default: return open_once();
    }
}

/* Once, where there is a program by now. */
static void act_once(void)
{
    if (world.inside || !world.o.in_count)
        return;
    world.inside = true;
    world.acted++;
    world.status = act(world.act);
    world.inside = false;
}

static void line_got(void *context, int level, const char *line)
{
    (void)level, (void)line;
    ++*(int *)context;
    act_once();
}

static void compile_got(void *context, const char *kernels, const char *reason, double milliseconds)
{
    cr_assert(*kernels && *reason && milliseconds >= 0);
    ++*(int *)context;
    act_once();
}

static bool interrupt_asked(void *context)
{
    ++*(int *)context;
    act_once();
    return false;
}

static void world_open(phasor_options options, enum act which)
{
    memset(&world, 0, sizeof world);
    alarm(TIMEOUT);
    world.act = which;
    opened_with(&world.o, &options, "qk_rope_bf16_dynamic", "plain");
}

static void world_close(void)
{
    opened_expect(&world.o);
    opened_delete(&world.o);
    world.o.in_count = 0;
    opened_close(&world.o);
    alarm(0);
}

/* -- each of them calls everything ------------------------------------------------------------- */

static const phasor_mode modes[] = {PHASOR_MODE_EXACT, PHASOR_MODE_AUTO};

Test(callbacks, log_calls_everything)
{
    for (int k = 0; k < 2 * ACTS; k++) {
        phasor_options options = options_for(ON_CUDA);
        options.mode = modes[k % 2];
        options.log = line_got;
        options.log_context = &world.lines;
        options.log_level = PHASOR_LOG_DEBUG;
        options.background_threads = 0;
        world_open(options, (enum act)(k / 2));
        ASSERT_OK(opened_run(&world.o));
        cr_assert_gt(world.acted, 0, "a compile is a line");
        cr_assert_eq(world.status, PHASOR_OK, "act %d: %s", k / 2,
                     phasor_status_name(world.status));
        world_close();
    }
    ASSERT_NO_LEAKS();
}

Test(callbacks, compiled_calls_everything)
{
    for (int k = 0; k < 2 * ACTS; k++) {
        phasor_options options = options_for(ON_CUDA);
        options.mode = modes[k % 2];
        options.compiled = compile_got;
        options.compiled_context = &world.compiled;
        world_open(options, (enum act)(k / 2));
        ASSERT_OK(opened_run(&world.o));
        cr_assert_gt(world.acted, 0);
        cr_assert_eq(world.status, PHASOR_OK, "act %d: %s", k / 2,
                     phasor_status_name(world.status));
        world_close();
    }
    ASSERT_NO_LEAKS();
}

/* In the middle of a compile: what is being made cannot be had. */
Test(callbacks, interrupted_calls_everything)
{
    for (int k = 0; k < 2 * ACTS; k++) {
        const enum act which = (enum act)(k / 2);
        phasor_options options = options_for(ON_CUDA);
        options.mode = modes[k % 2];
        options.interrupted = interrupt_asked;
        options.interrupted_context = &world.asked;
        world_open(options, which);
        ASSERT_OK(opened_run(&world.o));
        cr_assert_gt(world.acted, 0);
        cr_assert_eq(world.status,
                     which == RUN || which == PREPARE ? PHASOR_ERROR_USAGE : PHASOR_OK,
                     "act %d: %s", which, phasor_status_name(world.status));
        world_close();
    }
    ASSERT_NO_LEAKS();
}

/* -- each runtime has its own ------------------------------------------------------------------ */

static phasor_runtime *runtime_with(int *lines, phasor_log_level level)
{
    phasor_options options = options_for(ON_CPU);
    phasor_runtime *runtime;
    options.log = line_got;
    options.log_context = lines;
    options.log_level = level;
    ASSERT_OK(phasor_open(&runtime, &options));
    *lines = 0;
    return runtime;
}

Test(callbacks, two_logs)
{
    int first = 0, second = 0, off = 0;
    memset(&world, 0, sizeof world);
    phasor_runtime *a = runtime_with(&first, PHASOR_LOG_WARNING);
    phasor_runtime *b = runtime_with(&second, PHASOR_LOG_WARNING);
    phasor_runtime *c = runtime_with(&off, PHASOR_LOG_OFF);
    ASSERT_OK(load_once(a)); /* it is left as it is: one warning */
    cr_assert_eq(first, 1);
    cr_assert_eq(second, 0);
    ASSERT_OK(load_once(b));
    ASSERT_OK(load_once(c));
    cr_assert_eq(first, 1);
    cr_assert_eq(second, 1);
    cr_assert_eq(off, 0);
    phasor_close(b);
    ASSERT_OK(load_once(a));
    cr_assert_eq(first, 2);
    cr_assert_eq(second, 1);
    phasor_close(a);
    phasor_close(c);
    ASSERT_NO_LEAKS();
}

/* -- the message ------------------------------------------------------------------------------- */

static void line_fails(void *context, int level, const char *line)
{
    (void)level, (void)line;
    ++*(int *)context;
    (void)fail(PHASOR_ERROR_USAGE, "of another call");
}

static phasor_status call_that_fails(const struct log_target *target)
{
    LOG_SCOPE(target);
    log_line(LOG_WARNING, "on the way");
    return fail(PHASOR_ERROR_FILE, "what went wrong");
}

Test(callbacks, the_message_is_that_of_the_call)
{
    int lines = 0;
    const struct log_target target = {
        .function = line_fails, .context = &lines, .level = LOG_WARNING};
    cr_assert_eq(call_that_fails(&target), PHASOR_ERROR_FILE);
    cr_assert_str_eq(message_get(), "what went wrong");
    cr_assert_eq(lines, 1);
    ASSERT_NO_LEAKS();
}
