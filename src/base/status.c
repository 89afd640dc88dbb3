/* status.c - the message of this thread. It has a fixed size, so that running out of memory can be
 * reported too. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_SIZE = 64 * 1024 };

static _Thread_local char message[MESSAGE_SIZE];

phasor_status(fail)(phasor_status status, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    const int needed = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);

    if (needed >= 0 && (size_t)needed < sizeof text) {
        memcpy(message, text, (size_t)needed + 1);
        return status;
    }
    /* A long message (a compiler log) is formatted in place: it never quotes the message it
     * replaces. */
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

phasor_status(fail_in)(phasor_status status, const char *format, ...)
{
    char prefix[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);

    const size_t length = strlen(prefix);
    size_t rest = strlen(message);
    if (length + 2 + rest >= sizeof message)
        rest = sizeof message - length - 3;
    memmove(message + length + 2, message, rest);
    memcpy(message, prefix, length);
    memcpy(message + length, ": ", 2);
    message[length + 2 + rest] = '\0';
    return status;
}

phasor_status struct_check(const char *name, size_t size, size_t known)
{
    if (size >= sizeof size && size <= known)
        return PHASOR_OK;
    return fail(PHASOR_ERROR_USAGE,
                "%s.size is %zu; set it to sizeof(%s), of which this library knows %zu bytes", name,
                size, name, known);
}

phasor_status(fail_memory)(void)
{
    return fail(PHASOR_ERROR_MEMORY, "out of memory");
}

const char *message_get(void)
{
    return message;
}
