/* location.c - from options and environment to a directory that only its owner can change.
 *
 *     PHASOR_CACHE_DIR unset, XDG_CACHE_HOME=/home/a/c   ->   /home/a/c/phasor, made with mode 0700
 *     PHASOR_CACHE_DIR=/tmp (mode 1777)                  ->   refused: others can write there
 *
 * Never a fallback to a shared directory: whoever can write the cache chooses what code the GPU
 * runs. */
#include "cache/location.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_WAIT_MS = 10000, LOCK_POLL_MS = 20, ASIDE_MOST = 9 };

/* -- which directory --------------------------------------------------------------------------- */

static const char *environment_get(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void home_of_user(struct text *directory)
{
    char buffer[16384];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found &&
        found->pw_dir && *found->pw_dir)
        text_format(directory, "%s/.cache/phasor", found->pw_dir);
}

phasor_status location_find(const char *option, struct text *directory)
{
    const char *chosen = option && *option ? option : environment_get("PHASOR_CACHE_DIR");
    const char *xdg = environment_get("XDG_CACHE_HOME"), *home = environment_get("HOME");
    if (chosen)
        text_add(directory, chosen);
    else if (xdg && *xdg == '/') /* the specification says: a relative one is ignored */
        text_format(directory, "%s/phasor", xdg);
    else if (home)
        text_format(directory, "%s/.cache/phasor", home);
    else
        home_of_user(directory);
    return text_status(directory);
}

/* -- making and checking ----------------------------------------------------------------------- */

static bool directory_exists(const char *path)
{
    struct stat entry;
    return stat(path, &entry) == 0 && S_ISDIR(entry.st_mode);
}

/* Some file systems answer EROFS or EACCES for a directory that exists, and another process may be
 * faster. */
static bool directory_make(const char *path)
{
    if (mkdir(path, 0700) == 0)
        return true;
    const int reason = errno;
    const bool exists = directory_exists(path);
    errno = reason;
    return exists;
}

phasor_status location_make(const char *directory)
{
    struct text path = {0};
    phasor_status status = PHASOR_OK;
    text_add(&path, directory);
    if (text_status(&path) != PHASOR_OK || path.length == 0) {
        text_free(&path);
        return fail_memory();
    }
    for (char *end = path.at; status == PHASOR_OK && *end;) {
        end = strchrnul(end + 1, '/');
        const char kept = *end;
        *end = '\0';
        if (!directory_make(path.at))
            status = fail(PHASOR_ERROR_FILE, "cannot make the directory %s: %m", path.at);
        *end = kept;
    }
    text_free(&path);
    return status;
}

enum { NOBODY_ELSE = -1 }; /* a user that may own an entry as well; root is 0 */

static phasor_status entry_check_owner(const char *path, const struct stat *link,
                                       const struct stat *target, int also)
{
    const uid_t user = geteuid();
    if (S_ISLNK(link->st_mode) && link->st_uid != user && (int64_t)link->st_uid != also)
        return fail(PHASOR_ERROR_FILE, "%s is a symbolic link made by user %u, not by %u", path,
                    (unsigned)link->st_uid, (unsigned)user);
    if (target->st_uid != user && (int64_t)target->st_uid != also)
        return fail(PHASOR_ERROR_FILE, "%s belongs to user %u, not to %u", path,
                    (unsigned)target->st_uid, (unsigned)user);
    if (target->st_mode & (S_IWGRP | S_IWOTH))
        return fail(PHASOR_ERROR_FILE,
                    "%s can be written by others (mode %04o; chmod go-w would do)", path,
                    (unsigned)target->st_mode & 07777u);
    return PHASOR_OK;
}

static phasor_status entry_check(const char *path, bool trust, int also, mode_t kind,
                                 const char *kind_name)
{
    struct stat link, target;
    if (lstat(path, &link) != 0)
        return fail(PHASOR_ERROR_FILE, "cannot look at %s: %m", path);
    if (stat(path, &target) != 0)
        return errno == ENOENT && S_ISLNK(link.st_mode)
                   ? fail(PHASOR_ERROR_FILE, "%s is a symbolic link that leads nowhere", path)
                   : fail(PHASOR_ERROR_FILE, "cannot look at %s: %m", path);
    if ((target.st_mode & S_IFMT) != kind)
        return fail(PHASOR_ERROR_FILE, "%s is not a %s", path, kind_name);
    return trust ? PHASOR_OK : entry_check_owner(path, &link, &target, also);
}

/* lstat follows a link whose name ends in a slash, so those are cut off. */
phasor_status location_check_directory(const char *path, bool trust)
{
    struct text name = {0};
    text_add(&name, path);
    phasor_status status = text_status(&name);
    if (status == PHASOR_OK) {
        while (name.length > 1 && name.at[name.length - 1] == '/')
            name.at[--name.length] = '\0';
        status = entry_check(text_get(&name), trust, NOBODY_ELSE, S_IFDIR, "directory");
    }
    text_free(&name);
    return status;
}

phasor_status location_check_file(const char *path, bool trust)
{
    return entry_check(path, trust, NOBODY_ELSE, S_IFREG, "regular file");
}

phasor_status location_check_layer(const char *path, bool is_directory, bool trust)
{
    return entry_check(path, trust, 0, is_directory ? S_IFDIR : S_IFREG,
                       is_directory ? "directory" : "regular file");
}

/* O_EXCL: closing any descriptor of a database would drop the locks that this process holds on it
 * through SQLite. */
phasor_status location_make_file(const char *path)
{
    const int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor >= 0)
        close(descriptor);
    else if (errno != EEXIST)
        return fail(PHASOR_ERROR_FILE, "cannot make the file %s: %m", path);
    return PHASOR_OK;
}

bool location_is_writable(const char *directory)
{
    return faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0;
}

bool location_has_journal(const char *path)
{
    static const char *const endings[] = {"-wal", "-journal"};
    bool waiting = false;
    for (int i = 0; i < 2 && !waiting; i++) {
        struct text journal = {0};
        struct stat entry;
        text_format(&journal, "%s%s", path, endings[i]);
        waiting = journal.failed || (stat(journal.at, &entry) == 0 && entry.st_size > 0);
        text_free(&journal);
    }
    return waiting;
}

bool location_is_frozen(const char *directory, const char *path)
{
    if (location_is_writable(directory))
        return false;
    const bool read_only_mount = errno == EROFS;
    struct stat entry;
    if (stat(path, &entry) != 0 || (entry.st_uid != geteuid() && !read_only_mount))
        return false;
    return !location_has_journal(path);
}

/* -- file systems ------------------------------------------------------------------------------ */

/* A list of those that are known to be local: an unknown one only costs some speed. */
bool location_type_is_local(unsigned long type)
{
    static const unsigned long local[] = {
        0xef53,     /* ext2, ext3, ext4 */
        0x58465342, /* xfs */
        0x9123683e, /* btrfs */
        0x01021994, /* tmpfs */
        0x858458f6, /* ramfs */
        0x794c7630, /* overlay */
        0x2fc12fc1, /* zfs */
        0xf2f52010, /* f2fs */
        0xca451a4e, /* bcachefs */
        0x3153464a, /* jfs */
        0x52654973, /* reiserfs */
    };
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if ((type & 0xffffffff) == local[i])
            return true;
    return false;
}

bool location_is_local(const char *directory)
{
    struct statfs file_system;
    return statfs(directory, &file_system) == 0 &&
           location_type_is_local((unsigned long)file_system.f_type);
}

/* -- locks ------------------------------------------------------------------------------------- */

/* Of the open file, not of the process: another thread that closes its own descriptor does not drop
 * them. */
enum lock_result location_lock_try(int descriptor, int64_t byte)
{
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
    if (fcntl(descriptor, F_OFD_SETLK, &range) == 0)
        return LOCK_TAKEN;
    return errno == EAGAIN || errno == EACCES || errno == EINTR ? LOCK_BUSY : LOCK_BROKEN;
}

static bool lock_take(int descriptor)
{
    const struct timespec pause = {0, LOCK_POLL_MS * 1000000L};
    for (int waited = 0; waited <= LOCK_WAIT_MS; waited += LOCK_POLL_MS) {
        const enum lock_result result = location_lock_try(descriptor, 0);
        if (result != LOCK_BUSY)
            return result == LOCK_TAKEN;
        nanosleep(&pause, NULL);
    }
    return false;
}

int location_lock_open(const char *directory)
{
    struct text path = {0};
    text_format(&path, "%s/phasor.lock", directory);
    const int descriptor =
        path.failed ? -1
                    : open(path.at, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    text_free(&path);
    return descriptor;
}

int location_lock(const char *directory)
{
    int descriptor = location_lock_open(directory);
    if (descriptor >= 0 && !lock_take(descriptor)) {
        close(descriptor);
        descriptor = -1;
    }
    return descriptor;
}

/* -- setting aside ----------------------------------------------------------------------------- */

/* Two versions of Phasor that take turns must not fill the disk: the last number is used again. */
static phasor_status aside_name(const char *path, struct text *name)
{
    for (int number = 1; number <= ASIDE_MOST; number++) {
        struct stat entry;
        name->length = 0;
        text_format(name, "%s.broken-%d", path, number);
        TRY(text_status(name));
        if (lstat(name->at, &entry) != 0)
            break;
    }
    return PHASOR_OK;
}

/* A journal keeps the name that goes with its database. Journals go first: afterwards one could be
 * the new file's. */
static phasor_status journals_set_aside(const char *path, const char *aside)
{
    static const char *const endings[] = {"-journal", "-wal", "-shm"};
    phasor_status status = PHASOR_OK;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && status == PHASOR_OK; i++) {
        struct text from = {0}, to = {0};
        text_format(&from, "%s%s", path, endings[i]);
        text_format(&to, "%s%s", aside, endings[i]);
        if (from.failed || to.failed)
            status = fail_memory();
        else if (rename(from.at, to.at) != 0 &&
                 (errno != ENOENT || (unlink(to.at) != 0 && errno != ENOENT)))
            status = fail(PHASOR_ERROR_FILE, "cannot rename %s: %m", from.at);
        text_free(&from);
        text_free(&to);
    }
    return status;
}

phasor_status location_set_aside(const char *path, struct text *aside)
{
    struct text name = {0};
    phasor_status status = aside_name(path, &name);
    if (status == PHASOR_OK)
        status = journals_set_aside(path, name.at);
    if (status == PHASOR_OK && rename(path, name.at) != 0 && errno != ENOENT)
        status = fail(PHASOR_ERROR_FILE, "cannot rename %s to %s: %m", path, name.at);
    if (status == PHASOR_OK) {
        text_add(aside, name.at);
        status = text_status(aside);
    }
    text_free(&name);
    return status;
}

/* The numbers have no gaps, but one that is missing ends nothing. */
int64_t location_remove_aside(const char *directory, const char *path)
{
    static const char *const endings[] = {"-journal", "-wal", "-shm", ""};
    int64_t removed = 0;
    const int lock = location_lock(directory);
    for (int number = 1; lock >= 0 && number <= ASIDE_MOST; number++)
        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
            struct text name = {0};
            text_format(&name, "%s.broken-%d%s", path, number, endings[i]);
            removed += !name.failed && unlink(name.at) == 0 && !*endings[i];
            text_free(&name);
        }
    if (lock >= 0)
        close(lock);
    return removed;
}
