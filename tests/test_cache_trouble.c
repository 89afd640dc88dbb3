/* test_cache_trouble.c - what goes wrong below the store: full disks, locks that fail, network file
 * systems, clocks that go back, files that vanish, names that are too long. SQLite's system calls
 * are replaced where the machine cannot be made to fail. */
#include "support/cache_rows.h"
#include "support/child.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <time.h>

static void setup_trouble(void);
TestSuite(cache_trouble, .init = setup_trouble, .fini = teardown);

/* -- what fails -------------------------------------------------------------------------------- */

static bool disk_is_full, locks_fail;
static long file_system; /* 0: the real one */

typedef ssize_t write_function(int, const void *, size_t);
typedef ssize_t pwrite_function(int, const void *, size_t, off_t);
typedef int fcntl_function(int, int, ...);
static write_function *real_write;
static pwrite_function *real_pwrite;
static fcntl_function *real_fcntl;

static ssize_t failing_write(int descriptor, const void *bytes, size_t nbytes)
{
    if (disk_is_full) {
        errno = ENOSPC;
        return -1;
    }
    return real_write(descriptor, bytes, nbytes);
}

static ssize_t failing_pwrite(int descriptor, const void *bytes, size_t nbytes, off_t at)
{
    if (disk_is_full) {
        errno = ENOSPC;
        return -1;
    }
    return real_pwrite(descriptor, bytes, nbytes, at);
}

static int failing_fcntl(int descriptor, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (locks_fail && (command == F_SETLK || command == F_SETLKW)) {
        errno = ENOLCK;
        return -1;
    }
    return real_fcntl(descriptor, command, argument);
}

/* false: this SQLite does not use it. */
static bool call_replace(const char *name, sqlite3_syscall_ptr with, void *real)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    const sqlite3_syscall_ptr found = vfs->xGetSystemCall(vfs, name);
    if (!found)
        return false;
    memcpy(real, &found, sizeof found);
    return vfs->xSetSystemCall(vfs, name, with) == SQLITE_OK;
}

static void setup_trouble(void)
{
    setup();
    bool writes = call_replace("write", (sqlite3_syscall_ptr)failing_write, &real_write);
    writes |= call_replace("pwrite", (sqlite3_syscall_ptr)failing_pwrite, &real_pwrite);
    writes |= call_replace("pwrite64", (sqlite3_syscall_ptr)failing_pwrite, &real_pwrite);
    cr_assert(writes);
    cr_assert(call_replace("fcntl", (sqlite3_syscall_ptr)failing_fcntl, &real_fcntl));
}

/* Stands before the C library's in this program. */
int statfs(const char *path, struct statfs *out)
{
    static int (*real)(const char *, struct statfs *);
    if (!real)
        *(void **)(void *)&real = dlsym(RTLD_NEXT, "statfs");
    const int result = real(path, out);
    if (result == 0 && file_system)
        out->f_type = file_system;
    return result;
}

/* -- full disks -------------------------------------------------------------------------------- */

Test(cache_trouble, a_full_disk_keeps_what_is_there)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    disk_is_full = true;
    simple_put(cache, "b");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(simple_is(cache, "b"), 0);
    cr_assert_eq(warnings, 1);
    for (char key[2] = "c"; *key < 'h'; ++*key)
        simple_put(cache, key);
    cr_assert_eq(warnings, 1);
    disk_is_full = false; /* there is room again */
    simple_put(cache, "b");
    cr_assert_eq(simple_is(cache, "b"), 1);
    cache_close(cache);
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a") + simple_is(cache, "b"), 2);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache_trouble, a_disk_that_is_full_from_the_start)
{
    disk_is_full = true;
    struct cache *cache = open_here();
    simple_put(cache, "a");
    const int found = simple_is(cache, "a");
    cr_assert(found == 0 || found == 1);
    cr_assert_eq(warnings, 1);
    cache_close(cache);
    disk_is_full = false;
    warnings = 0;
    cache = open_here();
    simple_put(cache, "a");
    cr_assert_eq(simple_is(cache, "a"), 1);
    cr_assert_eq(warnings, 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

/* A real one of 256 KiB, where this process may mount. */
static int small_disk_is_used(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", top, "tmpfs", 0, "size=256k,mode=0700") != 0)
        return 0;
    struct cache *cache = open_here();
    char key[16];
    bool good = true;
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "%d", i);
        simple_put(cache, key);
        good = good && simple_is(cache, key) >= 0;
    }
    good = good && simple_is(cache, "0") == 1 && warnings == 1;
    cache_close(cache);
    return !good;
}

Test(cache_trouble, a_small_disk_fills_up)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(small_disk_is_used());
    int status = 1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
}

/* -- locks and file systems -------------------------------------------------------------------- */

Test(cache_trouble, locks_that_fail_mean_memory)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cache_close(cache);
    locks_fail = true;
    cache = open_here();
    simple_put(cache, "b");
    cr_assert_eq(simple_is(cache, "b"), 1);
    cr_assert_str_eq(cache_path(cache), ":memory:");
    cr_assert_eq(warnings, 1);
    cache_close(cache);
    locks_fail = false;
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a"), 1); /* nothing was set aside */
    cr_assert_eq(figure(cache, "repairs"), 0);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

Test(cache_trouble, locks_that_fail_while_it_is_open)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    locks_fail = true;
    simple_put(cache, "b");
    for (int i = 0; i < 3; i++)
        cr_assert_neq(simple_is(cache, "a"), -1);
    cr_assert_eq(warnings, 1);
    cache_close(cache);
    locks_fail = false;
    cache = open_here();
    cr_assert_eq(simple_is(cache, "a"), 1);
    cache_close(cache);
    ASSERT_NO_LEAKS();
}

static bool journal_is_wal(void)
{
    unsigned char header[20] = {0};
    FILE *in = fopen(file, "rb");
    cr_assert(in && fread(header, 1, sizeof header, in) == sizeof header);
    fclose(in);
    return header[18] == 2;
}

Test(cache_trouble, no_log_on_a_network_file_system)
{
    const long types[] = {0x6969, 0xff534d42, 0x0bd00bd0, 0x47504653, 0x65735546, 0x01021997};
    struct cache *cache = open_here();
    cr_assert(journal_is_wal() || !location_is_local(directory));
    cache_close(cache);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char key[16];
        snprintf(key, sizeof key, "%lx", types[i]);
        file_system = types[i];
        cache = open_here(); /* the log of before is folded in */
        simple_put(cache, key);
        cr_assert_eq(simple_is(cache, key), 1);
        cr_assert_not(exists("%s-wal", file));
        cache_close(cache);
        cr_assert_not(journal_is_wal());
        file_system = 0;
        cache = open_here();
        cr_assert_eq(simple_is(cache, key), 1);
        cache_close(cache);
    }
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

/* -- clocks ------------------------------------------------------------------------------------ */

Test(cache_trouble, a_clock_that_went_back)
{
    enum { LIMIT = 300 * 1024 };
    char key[16];
    struct cache *cache = open_at(directory, false, LIMIT);
    for (int i = 0; i < 60; i++) {
        snprintf(key, sizeof key, "%d", i);
        simple_put(cache, key);
    }
    cache_close(cache);
    sql_run("UPDATE last_use SET time = time + 86400000; UPDATE unit SET created = created + "
            "86400000");
    cache = open_at(directory, false, LIMIT);
    for (int i = 100; i < 130; i++) { /* each new row survives its own eviction */
        snprintf(key, sizeof key, "%d", i);
        simple_put(cache, key);
        cr_assert_eq(simple_is(cache, key), 1, "%s went first", key);
    }
    snprintf(key, sizeof key, "%d", 100);
    cr_assert_eq(simple_is(cache, key), 1);
    cache_close(cache);
    cr_assert_eq(warnings, 0);
    ASSERT_NO_LEAKS();
}

/* -- what vanishes ----------------------------------------------------------------------------- */

static void expect_usable(struct cache *cache, const char *what)
{
    for (char key[2] = "p"; *key < 't'; ++*key) {
        simple_put(cache, key);
        cr_assert_neq(simple_is(cache, key), -1, "%s", what);
    }
    cr_assert_leq(warnings, 1, "%s: %d warnings", what, warnings);
    cache_close(cache);
    warnings = 0;
    cache = open_here();
    simple_put(cache, "z");
    cr_assert_eq(simple_is(cache, "z"), 1, "%s", what);
    cr_assert_str_eq(cache_path(cache), file, "%s", what);
    cr_assert_eq(warnings, 0, "%s", what);
    cache_close(cache);
}

Test(cache_trouble, files_that_vanish)
{
    char name[800], moved[800];
    struct cache *cache = open_here();
    simple_put(cache, "a");
    unlink(file);
    expect_usable(cache, "the database");
    cache = open_here();
    simple_put(cache, "a");
    snprintf(name, sizeof name, "%s-wal", file);
    unlink(name);
    snprintf(name, sizeof name, "%s-shm", file);
    unlink(name);
    expect_usable(cache, "log and index");
    cache = open_here();
    simple_put(cache, "a");
    snprintf(moved, sizeof moved, "%s/moved", top);
    cr_assert_eq(rename(directory, moved), 0);
    expect_usable(cache, "the directory");
    cache = open_here();
    simple_put(cache, "a");
    nftw(directory, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
    expect_usable(cache, "the directory and all in it");
    cache = open_here();
    cr_assert_eq(truncate(file, 0), 0);
    expect_usable(cache, "all bytes");
    ASSERT_NO_LEAKS();
}

/* -- names ------------------------------------------------------------------------------------- */

/* Directories of 100 letters each. */
static void long_name(char *path, size_t size, size_t length)
{
    size_t at = (size_t)snprintf(path, size, "%s", top);
    while (at + 2 < length) {
        path[at] = at % 101 ? 'x' : '/';
        at++;
    }
    path[at] = '\0';
}

Test(cache_trouble, long_names)
{
    static const size_t lengths[] = {300, 480, 520, 1000, 4000, 4090, 5000};
    char path[6000];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        warnings = 0;
        long_name(path, sizeof path, lengths[i]);
        struct cache *cache = open_at(path, false, 0);
        simple_put(cache, "a");
        cr_assert_eq(simple_is(cache, "a"), 1, "%zu", lengths[i]);
        const bool in_memory = strcmp(cache_path(cache), ":memory:") == 0;
        cr_assert_eq(warnings, in_memory, "%zu: %d warnings", lengths[i], warnings);
        cr_assert(!in_memory || lengths[i] > 480, "%zu is not too long", lengths[i]);
        cache_close(cache);
    }
    ASSERT_NO_LEAKS();
}

/* -- users ------------------------------------------------------------------------------------- */

static int memory_serves(void)
{
    struct cache *cache = NULL;
    if (cache_open(&(struct cache_options){0}, &cache) != PHASOR_OK)
        return 1;
    simple_put(cache, "a");
    const bool good =
        simple_is(cache, "a") == 1 && strcmp(cache_path(cache), ":memory:") == 0 && warnings == 1;
    cache_close(cache);
    return !good;
}

/* A container's random user: in no password file, with no home, or with one it cannot write. */
static int random_user_is_served(void)
{
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    if (geteuid() == 0 && setuid(12345) != 0)
        return 2;
    if (geteuid() != 12345)
        return 0; /* only root can become that user */
    int bad = memory_serves();
    warnings = 0;
    setenv("HOME", "/", 1);
    bad |= memory_serves();
    warnings = 0;
    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    return bad | memory_serves();
}

Test(cache_trouble, a_user_without_a_home)
{
    cr_assert_eq(in_child(random_user_is_served), 0);
}

/* The directory is ours, the file in it another user's: its rows are code that we would run. */
static int foreign_file_is_left_alone(void)
{
    struct cache *cache = open_here();
    simple_put(cache, "b");
    const bool good = simple_is(cache, "a") == 0 && simple_is(cache, "b") == 1 && warnings == 1;
    cache_close(cache);
    return !good;
}

Test(cache_trouble, a_file_that_root_left)
{
    struct cache *cache = open_here();
    simple_put(cache, "a");
    cache_close(cache);
    if (geteuid() == 0)
        cr_assert_eq(chown(top, OTHER_USER, -1) | chown(directory, OTHER_USER, -1), 0);
    else
        cr_assert_eq(chmod(file, 0666), 0);
    cr_assert_eq(run_as_other(foreign_file_is_left_alone), 0);
    cr_assert_not(exists("%s.broken-1", file));
}

/* -- few files --------------------------------------------------------------------------------- */

static int files_counted;

static int file_count(const char *path, const struct stat *entry, int type, struct FTW *where)
{
    (void)path;
    (void)entry;
    (void)where;
    files_counted += type == FTW_F;
    return 0;
}

Test(cache_trouble, few_files_however_many_rows)
{
    char key[16];
    struct cache *cache = open_here();
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "%d", i);
        simple_put(cache, key);
    }
    nftw(directory, file_count, 16, FTW_PHYS);
    cr_assert_leq(files_counted, 4);
    cache_close(cache);
    files_counted = 0;
    nftw(directory, file_count, 16, FTW_PHYS);
    cr_assert_eq(files_counted, 1);
    ASSERT_NO_LEAKS();
}
