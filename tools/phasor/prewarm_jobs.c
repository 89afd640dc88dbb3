/* prewarm_jobs.c - threads that take one job after the other. See prewarm.h. */
#include "prewarm.h"

#include "inputs.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { SAID_MAX = 3, JOBS_OF_COMBINATION = 2 };

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

/* -- one job ----------------------------------------------------------------------------------- */

static const struct prewarm_target *target_find(const struct prewarm *prewarm, uint64_t *job)
{
    const struct prewarm_target *target = prewarm->targets;
    while (*job >= target->combinations * JOBS_OF_COMBINATION) {
        *job -= target->combinations * JOBS_OF_COMBINATION;
        target++;
    }
    return target;
}

/* The last number of the job says how its tensors are aligned; kernels for either are needed where
 * programs are called. */
static int job_run(const struct prewarm *prewarm, uint64_t job, bool *said)
{
    const struct prewarm_target *target = target_find(prewarm, &job);
    struct inputs inputs;
    int count;
    phasor_binding *bindings = size_set_at(target->sizes, job / JOBS_OF_COMBINATION, &count);
    const int shaped = inputs_shape(target->program, bindings, count, &inputs);
    free(bindings);
    *said = shaped != PHASOR_OK;
    TRY(shaped);
    inputs_align(&inputs, job % JOBS_OF_COMBINATION == 0);
    const int status = phasor_program_prepare(target->program, inputs.values, inputs.count);
    inputs_free(&inputs);
    return status;
}

/* Sizes that contradict each other are an error of the command line: nothing more is tried. */
static void job_failed(struct prewarm *prewarm, int status, bool said)
{
    atomic_fetch_add(&prewarm->failed, 1);
    if (status == PHASOR_ERROR_INPUT)
        atomic_store(&prewarm->stopped, true);
    pthread_mutex_lock(&prewarm->lock);
    if (prewarm->status == PHASOR_OK)
        prewarm->status = status;
    if (!said && prewarm->said < SAID_MAX) {
        progress_clear(&prewarm->progress);
        report_library((phasor_status)status);
        if (++prewarm->said == SAID_MAX)
            report_note("further failures are only counted");
    }
    pthread_mutex_unlock(&prewarm->lock);
}

static void *thread_run(void *context)
{
    struct prewarm *prewarm = context;
    while (!atomic_load(&prewarm->stopped) && !interrupt_seen(NULL)) {
        bool said = false;
        const uint64_t job = atomic_fetch_add(&prewarm->next, 1);
        if (job >= prewarm->total)
            break;
        const int status = job_run(prewarm, job, &said);
        if (status == PHASOR_ERROR_INTERRUPTED)
            break;
        if (status != PHASOR_OK)
            job_failed(prewarm, status, said);
        atomic_fetch_add(&prewarm->done, 1);
    }
    atomic_fetch_sub(&prewarm->running, 1);
    return NULL;
}

/* -- all jobs ---------------------------------------------------------------------------------- */

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

int prewarm_work(struct prewarm *prewarm, int64_t threads)
{
    const size_t wanted =
        (uint64_t)threads < prewarm->total ? (size_t)threads : (size_t)prewarm->total;
    pthread_t *started = memory_need(wanted, sizeof *started);
    size_t count = 0;
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
