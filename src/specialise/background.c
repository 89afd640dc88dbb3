/* background.c - see background.h. */
#include "specialise/background.h"

#include "base/log.h"
#include "specialise/job.h"
#include "specialise/upgrade.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NICE = 10 };

struct background_work {
    struct specialisation *spec; /* a reference */
    enum later later;
    struct background_work *next;
};

struct background_worker {
    pthread_t thread;
    struct phasor_runtime *runtime;
    const struct phasor_program *busy_with; /* NULL: idle */
};

void background_init(struct background *background)
{
    *background = (struct background){.process = getpid()};
    pthread_mutex_init(&background->lock, NULL);
    pthread_cond_init(&background->wake, NULL);
    pthread_cond_init(&background->idle, NULL);
}

static void work_free(struct background_work *work)
{
    struct specialisation *spec = work->spec;
    flight_release(&spec->program->specialisations, &spec->flight);
    memory_free(work);
}

/* -- threads ----------------------------------------------------------------------------------- */

/* The one that was called most often. */
static struct background_work *work_take(struct background *background)
{
    struct background_work **best = &background->first;
    for (struct background_work **at = best; *at; at = &(*at)->next)
        if (specialisation_uses((*at)->spec) > specialisation_uses((*best)->spec))
            best = at;
    struct background_work *work = *best;
    if (work)
        *best = work->next;
    return work;
}

static void work_do(struct background_worker *worker, struct background_work *work)
{
    struct background *background = &worker->runtime->background;
    worker->busy_with = work->spec->program;
    pthread_mutex_unlock(&background->lock);
    struct log_scope scope;
    log_enter(&scope, &worker->runtime->log);
    const phasor_status status = work->later == LATER_EXACT
                                     ? specialisation_upgrade(work->spec)
                                     : specialisation_later(work->spec, work->later);
    if (status != PHASOR_OK)
        log_line(LOG_INFO, "in the background: %s", message_get());
    work_free(work);
    log_leave(&scope);
    pthread_mutex_lock(&background->lock);
    worker->busy_with = NULL;
    pthread_cond_broadcast(&background->idle);
}

static void *worker_run(void *context)
{
    struct background_worker *worker = context;
    struct background *background = &worker->runtime->background;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE); /* of this thread, on Linux */
    pthread_mutex_lock(&background->lock);
    while (!background->closing) {
        struct background_work *work = work_take(background);
        if (work)
            work_do(worker, work);
        else
            pthread_cond_wait(&background->wake, &background->lock);
    }
    pthread_mutex_unlock(&background->lock);
    return NULL;
}

/* With the lock held: one thread more, up to the number that was asked for. */
static void worker_start(struct phasor_runtime *runtime)
{
    struct background *background = &runtime->background;
    const int most = runtime->options.background_threads;
    if (background->started == most)
        return;
    if (!background->workers)
        background->workers = memory_new((size_t)most * sizeof *background->workers);
    if (!background->workers)
        return;
    struct background_worker *worker = &background->workers[background->started];
    worker->runtime = runtime;
    if (pthread_create(&worker->thread, NULL, worker_run, worker) == 0)
        background->started++;
}

void background_close(struct background *background)
{
    const bool ours = background->process == getpid();
    pthread_mutex_lock(&background->lock);
    background->closing = true;
    pthread_cond_broadcast(&background->wake);
    pthread_mutex_unlock(&background->lock);
    for (int i = 0; ours && i < background->started; i++)
        pthread_join(background->workers[i].thread, NULL);
    memory_free(background->workers);
    pthread_mutex_destroy(&background->lock);
    pthread_cond_destroy(&background->wake);
    pthread_cond_destroy(&background->idle);
}

/* -- the queue --------------------------------------------------------------------------------- */

void background_add(struct phasor_runtime *runtime, struct specialisation *spec, enum later later)
{
    runtime = runtime->first;
    struct background *background = &runtime->background;
    if (background->process != getpid() || runtime->options.background_threads < 1)
        return;
    struct background_work *work = memory_new(sizeof *work);
    if (!work)
        return;
    work->spec = spec;
    work->later = later;
    flight_retain(&spec->program->specialisations, &spec->flight);
    pthread_mutex_lock(&background->lock);
    work->next = background->first;
    background->first = work;
    worker_start(runtime);
    pthread_cond_signal(&background->wake);
    pthread_mutex_unlock(&background->lock);
}

/* A list of the program's work, taken out of the queue. */
static struct background_work *work_of(struct background *background,
                                       const struct phasor_program *program)
{
    struct background_work *list = NULL;
    for (struct background_work **at = &background->first; *at;) {
        struct background_work *work = *at;
        if (work->spec->program != program) {
            at = &work->next;
            continue;
        }
        *at = work->next;
        work->next = list;
        list = work;
    }
    return list;
}

static bool is_busy(const struct background *background, const struct phasor_program *program)
{
    for (int i = 0; i < background->started; i++)
        if (background->workers[i].busy_with == program)
            return true;
    return false;
}

void background_forget(struct phasor_runtime *runtime, const struct phasor_program *program)
{
    struct background *background = &runtime->first->background;
    const bool ours = background->process == getpid();
    pthread_mutex_lock(&background->lock);
    struct background_work *list = work_of(background, program);
    while (ours && is_busy(background, program))
        pthread_cond_wait(&background->idle, &background->lock);
    pthread_mutex_unlock(&background->lock);
    while (list) {
        struct background_work *next = list->next;
        work_free(list);
        list = next;
    }
}
