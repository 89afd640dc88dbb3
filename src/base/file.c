/* file.c - see file.h. */
#include "base/file.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* -- signals ----------------------------------------------------------------------------------- */

/* Both are sent to the thread whose write() fails. One that was blocked before is the host's, also
 * when we cause it. */
static void signals_of(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGPIPE);
    sigaddset(set, SIGXFSZ);
}

static void signals_block(sigset_t *mask)
{
    sigset_t ours;
    signals_of(&ours);
    pthread_sigmask(SIG_BLOCK, &ours, mask);
}

static void signals_restore(const sigset_t *mask)
{
    sigset_t ours;
    const struct timespec at_once = {0};
    const int trouble = errno;
    signals_of(&ours);
    if (sigismember(mask, SIGPIPE))
        sigdelset(&ours, SIGPIPE);
    if (sigismember(mask, SIGXFSZ))
        sigdelset(&ours, SIGXFSZ);
    while (sigtimedwait(&ours, NULL, &at_once) > 0)
        continue;
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    errno = trouble;
}

/* -- what is there ----------------------------------------------------------------------------- */

/* Names of what a process has open: a file that they lead to keeps its place. */
static bool is_descriptor(const char *path)
{
    static const char *const heads[] = {"/dev/fd/", "/dev/std", "/proc/"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (strncmp(path, heads[i], strlen(heads[i])) == 0)
            return true;
    return false;
}

/* Whether a new file may take the place of what is there. A link to nothing makes what it names. */
static bool is_replaceable(const char *path, bool there, const struct stat *stats)
{
    struct stat link;
    if (there)
        return S_ISREG(stats->st_mode) && stats->st_nlink == 1 && !is_descriptor(path);
    return errno == ENOENT && lstat(path, &link) != 0;
}

/* In the folder of the target, so that it can be renamed, and of a name that no other thread,
 * process or host gives. Left behind by a process that was killed, its number may come again. */
static int temporary_open(struct file_out *f)
{
    static unsigned last;
    const char *slash = strrchr(f->target, '/');
    const int folder = slash ? (int)(slash - f->target) + 1 : 0;
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    for (int tries = 0; tries < 1000; tries++) {
        struct text name = {0};
        text_format(&name, "%.*s.phasor-%s-%ld-%ld-%u.tmp", folder, f->target, host, (long)getpid(),
                    (long)syscall(SYS_gettid), __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED));
        if (name.failed) {
            text_free(&name);
            errno = ENOMEM;
            return -1;
        }
        const int handle = open(name.at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (handle >= 0) {
            f->temporary = name.at;
            return handle;
        }
        const int trouble = errno;
        text_free(&name);
        errno = trouble;
        if (trouble != EEXIST)
            break;
    }
    return -1;
}

/* The owner first: a change of owner takes bits of the mode away. Who may not give a file to
 * another keeps it. */
static bool likeness_take(int handle, const struct stat *stats)
{
    if (fchown(handle, stats->st_uid, stats->st_gid) != 0 && errno != EPERM)
        return false;
    return fchmod(handle, stats->st_mode & 07777) == 0;
}

/* -1 and errno 0: not to be replaced, but written into. */
static int replacement_open(struct file_out *f)
{
    struct stat stats;
    const bool there = stat(f->path, &stats) == 0;
    errno = there ? 0 : errno;
    if (!is_replaceable(f->path, there, &stats)) {
        errno = 0;
        return -1;
    }
    if (there && access(f->path, W_OK) != 0)
        return -1;
    char *whole = there ? realpath(f->path, NULL) : strdup(f->path);
    f->target = whole;
    if (!whole)
        return -1;
    const int handle = temporary_open(f);
    if (handle < 0 && there && (errno == EACCES || errno == EPERM || errno == EROFS))
        errno = 0;
    if (handle < 0 || !there || likeness_take(handle, &stats))
        return handle;
    const int trouble = errno;
    close(handle);
    errno = trouble;
    return -1;
}

/* -- both -------------------------------------------------------------------------------------- */

static void file_release(struct file_out *f)
{
    free(f->target);
    memory_free(f->temporary);
    signals_restore(&f->mask);
}

phasor_status file_begin(struct file_out *f, const char *path)
{
    *f = (struct file_out){.path = path};
    signals_block(&f->mask);
    int handle = replacement_open(f);
    if (handle < 0 && errno == 0)
        handle = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    f->stream = handle < 0 ? NULL : fdopen(handle, "wb");
    if (f->stream)
        return PHASOR_OK;
    const int trouble = errno;
    if (handle >= 0)
        close(handle);
    if (f->temporary)
        unlink(f->temporary);
    file_release(f);
    return trouble == ENOMEM ? fail_memory()
                             : fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(trouble));
}

phasor_status file_end(struct file_out *f, bool written)
{
    int trouble = written ? 0 : errno ? errno : EIO;
    if (fclose(f->stream) != 0 && !trouble)
        trouble = errno;
    if (!trouble && f->temporary && rename(f->temporary, f->target) != 0)
        trouble = errno;
    if (trouble && f->temporary)
        unlink(f->temporary);
    file_release(f);
    return trouble ? fail(PHASOR_ERROR_FILE, "%s: %s", f->path, strerror(trouble)) : PHASOR_OK;
}

phasor_status file_write(const char *path, const void *bytes, size_t nbytes)
{
    struct file_out f;
    TRY(file_begin(&f, path));
    return file_end(&f, fwrite(bytes, 1, nbytes, f.stream) == nbytes);
}

phasor_status folder_check(const char *what, const char *path)
{
    struct stat stats;
    if (stat(path, &stats) != 0)
        return fail(PHASOR_ERROR_FILE, "%s names %s: %s", what, path, strerror(errno));
    return S_ISDIR(stats.st_mode)
               ? PHASOR_OK
               : fail(PHASOR_ERROR_FILE, "%s names %s: a folder is expected", what, path);
}
