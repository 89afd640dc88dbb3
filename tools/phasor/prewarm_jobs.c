/* prewarm_jobs.c - threads that take some combinations after the other. See prewarm.h.
 *
 *     combinations 32..47  ->  32 shapes, one call of phasor_program_prepare_many
 */
#include "prewarm.h"

#include "inputs.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { SAID_MAX = 3, SHAPES_OF_COMBINATION = 2, COMBINATIONS_MOST = 16, TURNS_OF_THREAD = 4 };

/* -- interrupts -------------------------------------------------------------------------------- */

static atomic_bool interrupt_flag;

static void interrupt_note(int signal_number)
{
    (void)signal_number;
    atomic_store(&interrupt_flag, true);
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = interrupt_note,
                               .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupt_seen(void *context)
{
    (void)context;
    return atomic_load(&interrupt_flag);
}

/* -- some combinations ------------------------------------------------------------------------- */

/* The shapes of combinations of one target. */
struct batch {
    struct inputs *inputs;
    const phasor_value **shapes;
    phasor_status *statuses;
    int count; /* of shapes */
};

static void batch_free(struct batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        inputs_free(&batch->inputs[i]);
    free(batch->inputs);
    free(batch->shapes);
    free(batch->statuses);
}

/* Aligned tensors and others: kernels for either are needed where programs are called. */
static int shape_add(const struct prewarm_target *target, uint64_t combination, bool aligned,
                     struct batch *batch)
{
    struct inputs *inputs = &batch->inputs[batch->count];
    TRY(inputs_shape(target->program, target->path, target->sizes, combination, inputs));
    inputs_align(inputs, aligned);
    batch->shapes[batch->count++] = inputs->values;
    return PHASOR_OK;
}

static int batch_make(const struct prewarm_target *target, uint64_t first, uint64_t count,
                      struct batch *out)
{
    const size_t shapes = (size_t)count * SHAPES_OF_COMBINATION;
    *out = (struct batch){memory_need(shapes, sizeof *out->inputs),
                          memory_need(shapes, sizeof *out->shapes),
                          memory_need(shapes, sizeof *out->statuses), 0};
    for (uint64_t i = 0; i < count; i++)
        for (int aligned = 0; aligned < SHAPES_OF_COMBINATION; aligned++)
            TRY(shape_add(target, first + i, aligned == 0, out));
    return PHASOR_OK;
}

/* -- failures ---------------------------------------------------------------------------------- */

static void failure_note(struct prewarm *prewarm, int status)
{
    pthread_mutex_lock(&prewarm->lock);
    if (prewarm->status == PHASOR_OK)
        prewarm->status = status;
    pthread_mutex_unlock(&prewarm->lock);
}

/* Of the library's last call on this thread. */
static void failure_say(struct prewarm *prewarm, phasor_status status)
{
    pthread_mutex_lock(&prewarm->lock);
    if (prewarm->said < SAID_MAX) {
        progress_clear(&prewarm->progress);
        report_library(status);
        if (++prewarm->said == SAID_MAX)
            report_note("further failures are only counted");
    }
    pthread_mutex_unlock(&prewarm->lock);
}

/* The library counts kernels that could not be compiled; the rest are shapes. */
static void batch_count(struct prewarm *prewarm, const struct batch *batch, phasor_status status)
{
    bool say = false;
    for (int i = 0; i < batch->count; i++) {
        const phasor_status own = batch->statuses[i];
        if (own == PHASOR_OK || own == PHASOR_ERROR_INTERRUPTED)
            continue;
        if (own != PHASOR_ERROR_COMPILE)
            atomic_fetch_add(&prewarm->failed, 1);
        failure_note(prewarm, own);
        say = true;
    }
    if (say)
        failure_say(prewarm, status);
}

/* -- working ----------------------------------------------------------------------------------- */

/* Sizes that contradict each other are an error of the command line: nothing more is tried. */
static void combinations_run(struct prewarm *prewarm, const struct prewarm_target *target,
                             uint64_t first, uint64_t count)
{
    struct batch batch;
    const int shaped = batch_make(target, first, count, &batch);
    if (shaped != PHASOR_OK) {
        atomic_fetch_add(&prewarm->failed, 1);
        atomic_store(&prewarm->stopped, true);
        failure_note(prewarm, shaped);
    } else {
        const phasor_status status = phasor_program_prepare_many(
            target->program, batch.shapes, batch.inputs[0].count, batch.count, batch.statuses);
        batch_count(prewarm, &batch, status);
        if (status != PHASOR_ERROR_INTERRUPTED)
            atomic_fetch_add(&prewarm->done, count);
    }
    batch_free(&batch);
}

/* The target of a batch; its number becomes that in the target. */
static const struct prewarm_target *target_find(const struct prewarm *prewarm, uint64_t *number)
{
    const struct prewarm_target *target = prewarm->targets;
    while (*number >= target->batches) {
        *number -= target->batches;
        target++;
    }
    return target;
}

/* The first combination of a batch: batches of a target differ by one combination at most. */
static uint64_t batch_start(const struct prewarm_target *target, uint64_t number)
{
    const uint64_t each = target->combinations / target->batches,
                   longer = target->combinations % target->batches;
    return number * each + (number < longer ? number : longer);
}

static bool goes_on(const struct prewarm *prewarm)
{
    return !atomic_load(&prewarm->stopped) && !interrupt_seen(NULL);
}

static void *thread_run(void *context)
{
    struct prewarm *prewarm = context;
    uint64_t number = atomic_fetch_add(&prewarm->next, 1);
    while (number < prewarm->batches && goes_on(prewarm)) {
        const struct prewarm_target *target = target_find(prewarm, &number);
        const uint64_t first = batch_start(target, number);
        combinations_run(prewarm, target, first, batch_start(target, number + 1) - first);
        number = atomic_fetch_add(&prewarm->next, 1);
    }
    atomic_fetch_sub(&prewarm->running, 1);
    return NULL;
}

/* -- all combinations -------------------------------------------------------------------------- */

static void progress_watch(struct prewarm *prewarm)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    while (prewarm->progress.shown && atomic_load(&prewarm->running) > 0) {
        pthread_mutex_lock(&prewarm->lock);
        progress_draw(&prewarm->progress, atomic_load(&prewarm->done), prewarm->total);
        pthread_mutex_unlock(&prewarm->lock);
        nanosleep(&pause, NULL);
    }
    progress_clear(&prewarm->progress);
}

/* Of so few combinations that the threads end together, and of as many as make a full unit of the
 * compiler where there are enough. */
static void batches_cut(struct prewarm *prewarm, size_t threads)
{
    const uint64_t share = threads ? prewarm->total / (threads * TURNS_OF_THREAD) : 0,
                   most = share < 1                   ? 1
                          : share > COMBINATIONS_MOST ? COMBINATIONS_MOST
                                                      : share;
    prewarm->batches = 0;
    for (int i = 0; i < prewarm->target_count; i++) {
        struct prewarm_target *target = &prewarm->targets[i];
        target->batches = target->combinations / most + (target->combinations % most != 0);
        prewarm->batches += target->batches;
    }
}

int prewarm_work(struct prewarm *prewarm, int64_t threads)
{
    const size_t wanted =
        (uint64_t)threads < prewarm->total ? (size_t)threads : (size_t)prewarm->total;
    pthread_t *started = memory_need(wanted, sizeof *started);
    size_t count = 0;
    batches_cut(prewarm, wanted);
    progress_start(&prewarm->progress);
    while (count < wanted) {
        atomic_fetch_add(&prewarm->running, 1);
        if (pthread_create(&started[count], NULL, thread_run, prewarm) != 0) {
            atomic_fetch_sub(&prewarm->running, 1);
            break;
        }
        count++;
    }
    if (count == 0 && wanted > 0) { /* no thread to be had: this one does it */
        atomic_fetch_add(&prewarm->running, 1);
        thread_run(prewarm);
    }
    progress_watch(prewarm);
    for (size_t i = 0; i < count; i++)
        pthread_join(started[i], NULL);
    free(started);
    return interrupt_seen(NULL) ? PHASOR_ERROR_INTERRUPTED : prewarm->status;
}
