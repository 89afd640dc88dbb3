/* test_file.c - files are written whole or not at all, and what stands there keeps being what it
 * is: modes, links, devices, pipes. */
#include "base/file.h"
#include "load/safetensors.h"
#include "support/leak.h"

#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/phasor-file-XXXXXX", path[64], other[64];

static void folder_make(void)
{
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    snprintf(other, sizeof other, "%s/b", folder);
}

/* Nothing is left behind but what the test made. */
static void folder_remove(size_t files)
{
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*", folder);
    glob(pattern, GLOB_PERIOD, NULL, &found);
    cr_assert_eq(found.gl_pathc, files + 2, "%zu entries, with . and ..", found.gl_pathc);
    for (size_t i = 0; i < found.gl_pathc; i++)
        remove(found.gl_pathv[i]);
    globfree(&found);
    cr_assert_eq(rmdir(folder), 0);
}

static mode_t mode_of(const char *file)
{
    struct stat stats;
    cr_assert_eq(lstat(file, &stats), 0);
    return stats.st_mode;
}

static void expect_text(const char *file, const char *expected)
{
    char text[32] = "";
    FILE *stream = fopen(file, "rb");
    cr_assert(stream, "%s", file);
    cr_assert_lt(fread(text, 1, sizeof text - 1, stream), sizeof text);
    fclose(stream);
    cr_assert_str_eq(text, expected);
}

Test(file, keeps_modes_and_links)
{
    folder_make();
    umask(027);
    cr_assert_eq(file_write(path, "one", 3), PHASOR_OK, "%s", message_get());
    cr_assert_eq(mode_of(path), S_IFREG | 0640);
    chmod(path, 0604);
    cr_assert_eq(symlink("a.safetensors", other), 0);
    cr_assert_eq(file_write(other, "two", 3), PHASOR_OK, "%s", message_get());
    cr_assert_eq(mode_of(path), S_IFREG | 0604);
    cr_assert(S_ISLNK(mode_of(other)));
    expect_text(path, "two");

    unlink(path); /* now the link leads to nothing */
    cr_assert_eq(file_write(other, "three", 5), PHASOR_OK, "%s", message_get());
    cr_assert(S_ISLNK(mode_of(other)));
    expect_text(path, "three");

    unlink(other);
    cr_assert_eq(link(path, other), 0); /* a second name of the same file */
    cr_assert_eq(file_write(path, "4", 1), PHASOR_OK, "%s", message_get());
    expect_text(other, "4");
    folder_remove(2);
    ASSERT_NO_LEAKS();
}

static void *pipe_read(void *text)
{
    FILE *stream = fopen(path, "rb");
    ((char *)text)[stream ? fread(text, 1, 15, stream) : 0] = '\0';
    if (stream)
        fclose(stream);
    return NULL;
}

Test(file, writes_into_devices_and_pipes)
{
    char text[16];
    pthread_t reader;
    folder_make();
    const mode_t null = mode_of("/dev/null");
    cr_assert_eq(file_write("/dev/null", "x", 1), PHASOR_OK, "%s", message_get());
    cr_assert_eq(mode_of("/dev/null"), null);
    cr_assert_eq(symlink("/dev/null", other), 0);
    cr_assert_eq(file_write(other, "x", 1), PHASOR_OK, "%s", message_get());
    cr_assert(S_ISLNK(mode_of(other)));
    cr_assert_eq(mode_of("/dev/null"), null);
    cr_assert_eq(file_write("/dev/full", "x", 1), PHASOR_ERROR_FILE);
    cr_assert_eq(file_write(folder, "x", 1), PHASOR_ERROR_FILE);

    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(pthread_create(&reader, NULL, pipe_read, text), 0);
    cr_assert_eq(file_write(path, "through", 7), PHASOR_OK, "%s", message_get());
    pthread_join(reader, NULL);
    cr_assert_str_eq(text, "through");
    cr_assert(S_ISFIFO(mode_of(path)));
    folder_remove(2);
    ASSERT_NO_LEAKS();
}

/* What a shell's > opened is what a descriptor's name writes into. */
Test(file, writes_into_what_is_open)
{
    char name[32];
    folder_make();
    const int handle = open(path, O_RDWR | O_CREAT, 0600);
    snprintf(name, sizeof name, "/dev/fd/%d", handle);
    cr_assert_eq(file_write(name, "open", 4), PHASOR_OK, "%s", message_get());
    cr_assert_eq(lseek(handle, 0, SEEK_END), 4);
    close(handle);
    folder_remove(1);
    ASSERT_NO_LEAKS();
}

/* A limit on sizes, and a reader that has gone, are errors; the signal's action is the host's. */
Test(file, signals_become_errors)
{
    static char bytes[100000];
    int ends[2];
    char name[32];
    folder_make();
    cr_assert_eq(file_write(path, "old", 3), PHASOR_OK);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {50000, 50000};
        setrlimit(RLIMIT_FSIZE, &limit);
        signal(SIGXFSZ, SIG_DFL);
        signal(SIGPIPE, SIG_DFL);
        if (file_write(path, bytes, sizeof bytes) != PHASOR_ERROR_FILE ||
            !strstr(message_get(), "File too large"))
            _exit(1);
        if (pipe(ends) != 0)
            _exit(2);
        snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
        close(ends[0]);
        _exit(file_write(name, bytes, sizeof bytes) == PHASOR_ERROR_FILE ? 0 : 3);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%x", status);
    expect_text(path, "old");
    folder_remove(1);
    ASSERT_NO_LEAKS();
}

/* -- many writers ------------------------------------------------------------------------------ */

enum { WRITES = 50, BYTES = 20000 };

static void *write_many(void *byte)
{
    static const char *const name = "t";
    const int64_t count = BYTES + 100 * *(char *)byte;
    unsigned char *bytes = malloc((size_t)count);
    memset(bytes, *(char *)byte, (size_t)count);
    DLTensor tensor = {.data = bytes,
                       .device = {kDLCPU, 0},
                       .ndim = 1,
                       .dtype = {kDLUInt, 8, 1},
                       .shape = (int64_t[]){count}};
    const phasor_value v = {.kind = PHASOR_TENSOR, .tensor = &tensor};
    long wrong = 0;
    for (int i = 0; i < WRITES; i++) {
        struct tensors_file *file;
        phasor_value back;
        if (tensors_write(path, &name, &v, 1) != PHASOR_OK ||
            tensors_read(path, &file) != PHASOR_OK) {
            wrong++;
            continue;
        }
        wrong += !tensors_find(file, name, &back);
        const unsigned char *at = back.tensor->data;
        for (int64_t k = 0; k < back.tensor->shape[0]; k++)
            wrong += at[k] != at[0];
        tensors_close(file);
    }
    free(bytes);
    return (void *)wrong;
}

Test(file, threads_write_one_file)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    folder_make();
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, write_many, &"abcd"[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        cr_assert_null(wrong, "%ld", (long)wrong);
    }
    folder_remove(1);
    ASSERT_NO_LEAKS();
}

/* -- what the reader would refuse -------------------------------------------------------------- */

Test(file, tensors_that_cannot_be_read_are_not_written)
{
    float number = 1;
    int64_t sizes[2] = {INT64_MAX, INT64_MAX};
    DLTensor good = {.data = &number, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}};
    DLTensor large = good, none = good, odd = good;
    large.ndim = 2;
    large.shape = sizes;
    none.data = NULL;
    odd.dtype.bits = 12;
    const struct {
        const char *names[2];
        phasor_value values[2];
        const char *message;
    } rows[] = {
        {{"a", "a"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_TENSOR, .tensor = &good}}, "twice"},
        {{"a", "__metadata__"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_INT}}, "__metadata__"},
        {{"a", "\xff"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_INT}}, "UTF-8"},
        {{"a", NULL}, {{.kind = PHASOR_INT}, {.kind = PHASOR_INT}}, "name 1"},
        {{"a", "b"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_STRING, .string = "\xff"}}, "UTF-8"},
        {{"a", "b"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_STRING}}, "UTF-8"},
        {{"a", "b"}, {{.kind = PHASOR_INT}, {.kind = 99}}, "kind 99"},
        {{"a", "b"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_TENSOR}}, "NULL"},
        {{"a", "b"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_OWNED}}, "NULL"},
        {{"a", "b"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_TENSOR, .tensor = &none}}, "no data"},
        {{"a", "b"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_TENSOR, .tensor = &large}}, "size"},
        {{"a", "b"}, {{.kind = PHASOR_INT}, {.kind = PHASOR_TENSOR, .tensor = &odd}}, "dtype"},
    };
    folder_make();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(tensors_write(path, rows[i].names, rows[i].values, 2), PHASOR_ERROR_USAGE,
                     "row %zu", i);
        cr_expect(strstr(message_get(), rows[i].message), "row %zu: %s", i, message_get());
    }
    sizes[1] = 0; /* as many as there are, of none */
    const phasor_value empty = {.kind = PHASOR_TENSOR, .tensor = &large};
    struct tensors_file *file;
    cr_assert_eq(tensors_write(path, rows[0].names, &empty, 1), PHASOR_OK, "%s", message_get());
    cr_assert_eq(tensors_read(path, &file), PHASOR_OK, "%s", message_get());
    tensors_close(file);
    folder_remove(1);
    ASSERT_NO_LEAKS();
}
