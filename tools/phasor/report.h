/* report.h - how the command says what went wrong: one line on stderr, and a status that becomes
 * the exit code.
 *
 *     phasor_program_load -> PHASOR_ERROR_FILE
 *         ->  "phasor: rope.pt2: no such file" on stderr, exit code 4
 *
 * Whoever finds the trouble reports it at once; those above only pass the status on with TRY.
 */
#pragma once
#include "phasor.h"

/* The exit code for results that differ: the only one that is no phasor_status. */
enum { EXIT_DIFFERS = 1 };

#define TRY(expression)                       \
    do {                                      \
        const int try_status_ = (expression); \
        if (try_status_ != PHASOR_OK)         \
            return try_status_;               \
    } while (0)

/* A call of the library: its message is printed when it fails. */
#define TRY_LIBRARY(expression) TRY(report_library(expression))

int report_failure(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int report_library(phasor_status status);
void report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* printf for people: what comes from files goes through here, and never to a terminal as it is. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Zeroed memory; the command ends with exit code 8 when there is none. 0 bytes are allowed. */
void *memory_need(size_t count, size_t size);
/* Makes room for one more element behind `count` of them; the new room is not zeroed. */
void *memory_grow(void *block, size_t count, size_t size);
char *memory_copy(const char *text, size_t length); /* with a NUL behind it */
