/* file.h - a file that is written: whole or not at all.
 *
 *     struct file_out f;
 *     TRY(file_begin(&f, "out/a.safetensors"));
 *     const bool written = fwrite(...) == ...;
 *     return file_end(&f, written);        a message with the path when one of the two failed
 *
 * A regular file is replaced when all is written, by one with its mode and owner; a symbolic link
 * stays and leads to the new one. Where that cannot be, the bytes go into what is there: a device,
 * a pipe, a file with several names, a file in a folder that nothing can be added to. The signals
 * of a reader that has gone and of a limit on sizes become errors between the two calls, which are
 * made by one thread.
 */
#pragma once
#include "base/status.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

struct file_out {
    FILE *stream;
    const char *path;         /* the caller's, for messages */
    char *target, *temporary; /* NULL: the bytes go into what is there */
    sigset_t mask;            /* the thread's before */
};

phasor_status file_begin(struct file_out *f, const char *path);
/* written: whether every write into the stream succeeded; otherwise errno says why. */
phasor_status file_end(struct file_out *f, bool written);
/* Both at once. */
phasor_status file_write(const char *path, const void *bytes, size_t nbytes);

/* PHASOR_ERROR_FILE unless path names a folder; what: who named it, "PHASOR_DUMP". */
phasor_status folder_check(const char *what, const char *path);
