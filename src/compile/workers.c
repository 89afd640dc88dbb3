/* workers.c - see workers.h: processes that are started, asked and buried. The other side is
 * worker_serve.c.
 */
#include "compile/workers.h"

#include "base/memory.h"
#include "compile/channel.h"
#include "compile/worker_messages.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { ANSWER_SECONDS = 600 };

struct worker {
    pid_t process;
    int socket;
    struct worker *next;
};

struct workers {
    pthread_mutex_t lock;
    pid_t owner; /* the process that started them: after a fork they are not the child's */
    char **command;
    struct arena arena;
    struct workers_hello hello;
    struct worker *idle;
    int users; /* under pools_lock, as the next */
    struct workers *next;
};

/* Runtimes for several archs share their workers. */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct workers *pools;

/* -- the end of a worker ----------------------------------------------------------------------- */

/* Without its socket it ends by itself; one that does not answer is made to. */
static void worker_end(struct worker *worker, bool force, int *status)
{
    *status = 0;
    close(worker->socket);
    if (force)
        kill(worker->process, SIGKILL);
    while (waitpid(worker->process, status, 0) < 0 && errno == EINTR)
        continue;
    memory_free(worker);
}

/* Says why it ended. One that closed its socket is ending, so that waiting for it is short. */
static void worker_bury(struct worker *worker, bool silent, char why[64])
{
    int status;
    worker_end(worker, silent, &status);
    if (silent)
        snprintf(why, 64, "it did not answer in %d seconds", ANSWER_SECONDS);
    else if (WIFSIGNALED(status))
        snprintf(why, 64, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(why, 64, "exit code %d", WEXITSTATUS(status));
}

/* -- the start of a worker --------------------------------------------------------------------- */

/* A process group of its own: an interrupt from the terminal is for the caller to handle. Its
 * standard output goes where the errors go. */
static int worker_spawn(char *const *command, int socket, pid_t *process)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    const int error = posix_spawnp(process, command[0], &actions, &attributes, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

static phasor_status worker_start(const struct workers *workers, struct worker **out)
{
    int ends[2];
    const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    const char *command = workers->command[0];
    struct worker *worker = memory_new(sizeof *worker);
    if (!worker)
        return fail_memory();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        memory_free(worker);
        return fail(PHASOR_ERROR_COMPILE, "no socket for a process of %s: %s", command,
                    strerror(errno));
    }
    const int error = worker_spawn(workers->command, ends[1], &worker->process);
    close(ends[1]);
    worker->socket = ends[0];
    setsockopt(worker->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (error) {
        close(worker->socket);
        memory_free(worker);
        return fail(PHASOR_ERROR_COMPILE, "%s cannot be started to compile: %s", command,
                    strerror(error));
    }
    *out = worker;
    return PHASOR_OK;
}

static phasor_status hello_keep(struct workers *workers, const struct channel_field *fields)
{
    workers->hello =
        (struct workers_hello){arena_string(&workers->arena, fields[HELLO_VERSION].bytes),
                               arena_string(&workers->arena, fields[HELLO_PATH].bytes),
                               arena_string(&workers->arena, fields[HELLO_ARCHS].bytes)};
    return workers->hello.version && workers->hello.path && workers->hello.archs ? PHASOR_OK
                                                                                 : fail_memory();
}

/* The first message, which comes unasked. On failure the worker is gone. */
static phasor_status worker_greet(struct workers *workers, struct worker *worker)
{
    struct channel_field fields[HELLO_FIELDS];
    phasor_status status;
    int ignored;
    if (!channel_receive(worker->socket, fields, HELLO_FIELDS) ||
        fields[HELLO_STATUS].size != sizeof status) {
        char why[64];
        worker_bury(worker, false, why);
        return fail(PHASOR_ERROR_COMPILE, "%s, started to compile, ended at once: %s",
                    workers->command[0], why);
    }
    memcpy(&status, fields[HELLO_STATUS].bytes, sizeof status);
    if (status != PHASOR_OK)
        fail(status, "%s", (const char *)fields[HELLO_MESSAGE].bytes);
    else if (!workers->hello.version)
        status = hello_keep(workers, fields);
    channel_free(fields, HELLO_FIELDS);
    if (status != PHASOR_OK)
        worker_end(worker, false, &ignored);
    return status;
}

static phasor_status worker_new(struct workers *workers, struct worker **out)
{
    TRY(worker_start(workers, out));
    return worker_greet(workers, *out);
}

/* -- taking and giving back -------------------------------------------------------------------- */

/* With the lock held. In a child after a fork: those of the parent are left to it. */
static void workers_disown(struct workers *workers)
{
    while (workers->idle) {
        struct worker *next = workers->idle->next;
        close(workers->idle->socket);
        memory_free(workers->idle);
        workers->idle = next;
    }
    workers->owner = getpid();
}

static phasor_status worker_take(struct workers *workers, struct worker **out)
{
    pthread_mutex_lock(&workers->lock);
    if (workers->owner != getpid())
        workers_disown(workers);
    *out = workers->idle;
    if (*out)
        workers->idle = (*out)->next;
    pthread_mutex_unlock(&workers->lock);
    return *out ? PHASOR_OK : worker_new(workers, out);
}

static void worker_give_back(struct workers *workers, struct worker *worker)
{
    pthread_mutex_lock(&workers->lock);
    worker->next = workers->idle;
    workers->idle = worker;
    pthread_mutex_unlock(&workers->lock);
}

/* -- the pools --------------------------------------------------------------------------------- */

static phasor_status command_copy(struct workers *workers, const char *const *command)
{
    int count = 0;
    while (command[count])
        count++;
    if (count == 0)
        return fail(PHASOR_ERROR_USAGE, "the command that compiles has no words");
    workers->command = NEW(&workers->arena, char *, count + 1);
    for (int i = 0; workers->command && i < count; i++)
        if (!(workers->command[i] = arena_string(&workers->arena, command[i])))
            return fail_memory();
    return workers->command ? PHASOR_OK : fail_memory();
}

static bool command_is(const struct workers *workers, const char *const *command)
{
    int i = 0;
    while (workers->command[i] && command[i] && strcmp(workers->command[i], command[i]) == 0)
        i++;
    return !workers->command[i] && !command[i];
}

static void workers_free(struct workers *workers)
{
    int ignored;
    if (workers->owner != getpid())
        workers_disown(workers);
    while (workers->idle) {
        struct worker *next = workers->idle->next;
        worker_end(workers->idle, false, &ignored);
        workers->idle = next;
    }
    pthread_mutex_destroy(&workers->lock);
    arena_free(&workers->arena);
    memory_free(workers);
}

static phasor_status workers_new(const char *const *command, struct workers **out)
{
    struct worker *first;
    struct workers *workers = memory_new(sizeof *workers);
    if (!workers)
        return fail_memory();
    pthread_mutex_init(&workers->lock, NULL);
    workers->owner = getpid();
    workers->users = 1;
    phasor_status status = command_copy(workers, command);
    if (status == PHASOR_OK)
        status = worker_new(workers, &first);
    if (status != PHASOR_OK) {
        workers_free(workers);
        return status;
    }
    worker_give_back(workers, first);
    *out = workers;
    return PHASOR_OK;
}

/* With the lock of the pools held. */
static phasor_status workers_find(const char *const *command, struct workers **out)
{
    for (struct workers *pool = pools; pool; pool = pool->next)
        if (pool->owner == getpid() && command_is(pool, command)) {
            pool->users++;
            *out = pool;
            return PHASOR_OK;
        }
    TRY(workers_new(command, out));
    (*out)->next = pools;
    pools = *out;
    return PHASOR_OK;
}

phasor_status workers_open(const char *const *command, struct workers **out)
{
    *out = NULL;
    pthread_mutex_lock(&pools_lock);
    const phasor_status status = workers_find(command, out);
    pthread_mutex_unlock(&pools_lock);
    return status;
}

void workers_close(struct workers *workers)
{
    if (!workers)
        return;
    pthread_mutex_lock(&pools_lock);
    const bool last = --workers->users == 0;
    struct workers **at = &pools;
    while (last && *at != workers)
        at = &(*at)->next;
    if (last)
        *at = workers->next;
    pthread_mutex_unlock(&pools_lock);
    if (last)
        workers_free(workers);
}

const struct workers_hello *workers_hello(const struct workers *workers)
{
    return &workers->hello;
}

/* -- compiling --------------------------------------------------------------------------------- */

/* The answer's bytes become the result's. */
static phasor_status answer_take(struct channel_field fields[ANSWER_FIELDS],
                                 struct compile_result *out)
{
    struct worker_answer answer;
    if (fields[ANSWER_HEAD].size != sizeof answer)
        return fail(PHASOR_ERROR_COMPILE, "the process that compiles is of another build");
    memcpy(&answer, fields[ANSWER_HEAD].bytes, sizeof answer);
    if (answer.status != PHASOR_OK)
        return fail(answer.status, "%s", (const char *)fields[ANSWER_MESSAGE].bytes);
    *out = (struct compile_result){.cubin = fields[ANSWER_CUBIN].bytes,
                                   .cubin_size = fields[ANSWER_CUBIN].size,
                                   .milliseconds = answer.milliseconds};
    fields[ANSWER_CUBIN].bytes = NULL;
    if (answer.has_ptx) {
        out->ptx = fields[ANSWER_PTX].bytes;
        fields[ANSWER_PTX].bytes = NULL;
    }
    return PHASOR_OK;
}

static phasor_status worker_lost(struct worker *worker, const struct compile_request *request,
                                 int error)
{
    char why[64];
    worker_bury(worker, error == EAGAIN || error == EWOULDBLOCK, why);
    return fail(PHASOR_ERROR_COMPILE,
                "%s for %s: the process that compiled it ended before it was done (%s)",
                request->name, request->arch, why);
}

phasor_status workers_run(struct workers *workers, const struct compile_request *request,
                          struct compile_result *out)
{
    struct worker *worker;
    struct channel_field fields[ANSWER_FIELDS];
    const struct channel_field question[QUESTION_FIELDS] = {
        [QUESTION_NAME] = channel_text(request->name),
        [QUESTION_SOURCE] = channel_text(request->source),
        [QUESTION_ARCH] = channel_text(request->arch),
        [QUESTION_PTX] = channel_text(request->want_ptx ? "ptx" : "")};
    *out = (struct compile_result){0};
    TRY(worker_take(workers, &worker));
    errno = 0;
    if (!channel_send(worker->socket, question, QUESTION_FIELDS) ||
        !channel_receive(worker->socket, fields, ANSWER_FIELDS))
        return worker_lost(worker, request, errno);
    worker_give_back(workers, worker);
    const phasor_status status = answer_take(fields, out);
    channel_free(fields, ANSWER_FIELDS);
    return status;
}
