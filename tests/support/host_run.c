/* host_run.c - see host_run.h: how the threads of a kernel run. host_build.c makes the code.
 *
 * A lane is a stack that runs threads one after the other. Lane 0 is the caller's own stack, and a
 * kernel without a barrier needs no other. When a thread waits, its lane stands still and the next
 * lane goes on with the threads not yet started; when all have started, those that may go on are
 * resumed in turn.
 */
#include "host_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_SIZE = 128 * 1024, BLOCK_LARGEST = 1024, WARP = 32 };
enum thread_status { NOT_STARTED, RUNNING, AT_WARP, AT_BLOCK, DONE };

struct lane {
    ucontext_t context;
    unsigned thread; /* the one that it runs */
    bool made;       /* its context is good to resume */
    bool idle;       /* it ran out of threads */
};

struct engine {
    struct host_state state; /* first: kernels give back a pointer to it */
    host_kernel *kernel;
    const void *arguments;
    struct lane *lanes;
    char *stacks;
    unsigned lane_count, current, next; /* next: the first thread not started */
    unsigned char status[BLOCK_LARGEST];
    unsigned long long exchange[BLOCK_LARGEST];
    bool hung;
};

static _Thread_local struct engine *running;

static void lane_main(struct engine *engine, struct lane *lane)
{
    while (engine->next < engine->state.threads) {
        lane->thread = engine->next++;
        engine->status[lane->thread] = RUNNING;
        engine->state.thread = lane->thread;
        engine->kernel(engine->arguments, &engine->state);
        engine->status[lane->thread] = DONE;
    }
    lane->idle = true;
}

/* Lets those go on whose warp, or whose block, waits as a whole. A thread that has ended waits for
 * nothing. */
static bool barrier_release(struct engine *engine, unsigned first, unsigned last,
                            enum thread_status barrier)
{
    bool any = false;
    for (unsigned i = first; i < last; i++) {
        if (engine->status[i] != barrier && engine->status[i] != DONE)
            return false;
        any |= engine->status[i] == barrier;
    }
    for (unsigned i = first; i < last; i++)
        if (engine->status[i] == barrier)
            engine->status[i] = RUNNING;
    return any;
}

static bool barriers_release(struct engine *engine)
{
    const unsigned threads = engine->state.threads;
    bool any = false;
    for (unsigned first = 0; first < threads; first += WARP)
        any |= barrier_release(engine, first, first + WARP < threads ? first + WARP : threads,
                               AT_WARP);
    return barrier_release(engine, 0, threads, AT_BLOCK) || any;
}

static bool all_done(const struct engine *engine)
{
    for (unsigned i = 0; i < engine->state.threads; i++)
        if (engine->status[i] != DONE)
            return false;
    return true;
}

/* A hung block is let go as if every barrier were reached, so that the caller gets its stack back;
 * the launch fails. */
static void hang_break(struct engine *engine)
{
    engine->hung = true;
    for (unsigned i = 0; i < engine->state.threads; i++)
        if (engine->status[i] != DONE)
            engine->status[i] = RUNNING;
}

static unsigned lane_choose(struct engine *engine)
{
    if (engine->next < engine->state.threads)
        return engine->lane_count++;
    for (;;) {
        for (unsigned step = 1; step <= engine->lane_count; step++) {
            const unsigned candidate = (engine->current + step) % engine->lane_count;
            const struct lane *lane = &engine->lanes[candidate];
            if (!lane->idle && engine->status[lane->thread] == RUNNING)
                return candidate;
        }
        if (all_done(engine))
            return 0;
        if (!barriers_release(engine))
            hang_break(engine);
    }
}

static void lane_switch(struct engine *engine);

static void lane_entry(void)
{
    struct engine *engine = running;
    lane_main(engine, &engine->lanes[engine->current]);
    lane_switch(engine); /* an idle lane is never resumed */
}

static void lane_make(struct engine *engine, unsigned index)
{
    struct lane *lane = &engine->lanes[index];
    getcontext(&lane->context);
    lane->context.uc_stack.ss_sp = engine->stacks + (size_t)index * STACK_SIZE;
    lane->context.uc_stack.ss_size = STACK_SIZE;
    lane->context.uc_link = NULL;
    makecontext(&lane->context, lane_entry, 0);
    lane->made = true;
    lane->idle = false;
}

static void lane_switch(struct engine *engine)
{
    struct lane *from = &engine->lanes[engine->current];
    const unsigned chosen = lane_choose(engine);
    if (chosen == engine->current)
        return;
    if (!engine->lanes[chosen].made)
        lane_make(engine, chosen);
    engine->current = chosen;
    swapcontext(&from->context, &engine->lanes[chosen].context);
}

static void thread_wait(struct host_state *state, enum thread_status barrier)
{
    struct engine *engine = (struct engine *)state;
    const struct lane *lane = &engine->lanes[engine->current];
    engine->status[lane->thread] = (unsigned char)barrier;
    lane_switch(engine);
    state->thread = lane->thread;
}

static void wait_block(struct host_state *state)
{
    thread_wait(state, AT_BLOCK);
}

static void wait_warp(struct host_state *state)
{
    thread_wait(state, AT_WARP);
}

static void block_run(struct engine *engine, unsigned block)
{
    engine->state.block = block;
    engine->next = 0;
    engine->current = 0;
    engine->lane_count = 1;
    memset(engine->status, NOT_STARTED, sizeof engine->status);
    for (unsigned i = 0; i < engine->state.threads; i++)
        engine->lanes[i].made = false;
    engine->lanes[0].made = true;
    engine->lanes[0].idle = false;
    lane_main(engine, &engine->lanes[0]);
    while (!all_done(engine))
        lane_switch(engine);
}

bool host_run_kernel(host_kernel *kernel, unsigned grid, unsigned block, const void *arguments)
{
    if (block < 1 || block > BLOCK_LARGEST)
        return false;
    struct engine *engine = calloc(1, sizeof *engine);
    struct lane *lanes = calloc(block, sizeof *lanes);
    char *stacks = mmap(NULL, (size_t)block * STACK_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool ok = engine && lanes && stacks != MAP_FAILED;
    if (ok) {
        *engine = (struct engine){
            .kernel = kernel, .arguments = arguments, .lanes = lanes, .stacks = stacks};
        engine->state = (struct host_state){.blocks = grid,
                                            .threads = block,
                                            .exchange = engine->exchange,
                                            .wait_block = wait_block,
                                            .wait_warp = wait_warp};
        struct engine *outer = running;
        running = engine;
        for (unsigned i = 0; i < grid; i++)
            block_run(engine, i);
        running = outer;
        ok = !engine->hung;
    }
    if (stacks != MAP_FAILED)
        munmap(stacks, (size_t)block * STACK_SIZE);
    free(lanes);
    free(engine);
    return ok;
}
