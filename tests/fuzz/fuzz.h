/* fuzz.h - what the targets share.
 *
 *     bytes -> LLVMFuzzerTestOneInput() -> 0, whatever the bytes are
 *
 * A target ends the process when the reader breaks a promise: by a sanitizer, or by EXPECT. Built
 * with PHASOR_FUZZ=ON it is a libFuzzer program; in every other build replay.c gives it the files
 * of corpus/NAME. run.sh makes seeds, runs and minimises.
 */
#pragma once
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);
/* libFuzzer's own mutation of a block; targets with a mutator of their own call it. */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t nbytes, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t room, unsigned seed);

/* A promise of the reader that must hold for any input. */
#define EXPECT(condition)                                                                  \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: %s is broken; last message: %s\n", __FILE__, __LINE__, \
                    #condition, message_get());                                            \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

/* A failure has a status that a file can cause, and says why. */
static inline void expect_file_status(phasor_status status)
{
    EXPECT(status == PHASOR_OK || status == PHASOR_ERROR_FILE || status == PHASOR_ERROR_MEMORY);
    EXPECT(status == PHASOR_OK || *message_get());
}

/* A copy of just that size with a NUL behind it: the sanitizer sees each read beyond. */
static inline char *text_copy(const uint8_t *bytes, size_t nbytes)
{
    char *text = malloc(nbytes + 1);
    EXPECT(text);
    if (nbytes)
        memcpy(text, bytes, nbytes);
    text[nbytes] = '\0';
    return text;
}
