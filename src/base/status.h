/* status.h - how every function of Phasor says that it failed.
 *
 * A function that can fail returns a phasor_status. The one that finds the trouble calls fail(),
 * which keeps a sentence for this thread (phasor_message() shows it) and returns the status; those
 * above it only pass it on with TRY.
 *
 *     if (rank > RANK_MAX)
 *         return fail(PHASOR_ERROR_FILE, "%s: rank %d; at most %d", name, rank, RANK_MAX);
 *     TRY(graph_verify(g));
 */
#pragma once
#include "phasor.h"

#define TRY(expression)                                 \
    do {                                                \
        const phasor_status try_status_ = (expression); \
        if (try_status_ != PHASOR_OK)                   \
            return try_status_;                         \
    } while (0)

/* What a public function does with an argument that must be there. */
#define NOT_NULL(argument)                                                          \
    do {                                                                            \
        if (!(argument))                                                            \
            return fail(PHASOR_ERROR_USAGE, "%s: %s is NULL", __func__, #argument); \
    } while (0)

/* Keeps the message for this thread and returns the status. The message replaces an earlier one. */
phasor_status fail(phasor_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "text: " before the message of this thread: the caller adds what the callee could not know
 * (a file, an input). */
phasor_status fail_in(phasor_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The `size` of a public struct that the caller has filled in, against what this library knows. */
phasor_status struct_check(const char *name, size_t size, size_t known);

/* The status for an allocation that failed. */
phasor_status fail_memory(void);

/* The message of the last failure on this thread; "" if there was none. Valid until this thread's
 * next failure. */
const char *message_get(void);

/* Static analysis of one file does not see what these give back. */
#ifdef __clang_analyzer__
#define fail(status, ...) ((void)(fail)(status, __VA_ARGS__), (status))
#define fail_in(status, ...) ((void)(fail_in)(status, __VA_ARGS__), (status))
#define fail_memory() ((void)(fail_memory)(), PHASOR_ERROR_MEMORY)
#endif
