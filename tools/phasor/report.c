/* report.c - see report.h. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(FILE *out, const char *before, const char *format, va_list arguments,
                  const char *after)
{
    char *raw = NULL, *text = NULL;
    if (vasprintf(&raw, format, arguments) >= 0)
        text = phasor_printable(raw);
    if (text)
        fprintf(out, "%s%s%s", before, text, after);
    else
        fputs("phasor: out of memory\n", stderr);
    phasor_free(text);
    free(raw);
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print(stdout, "", format, arguments, "");
    va_end(arguments);
}

static void line_print(const char *format, va_list arguments)
{
    print(stderr, "phasor: ", format, arguments, "\n");
}

int report_failure(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line_print(format, arguments);
    va_end(arguments);
    return status;
}

int report_library(phasor_status status)
{
    if (status == PHASOR_OK)
        return PHASOR_OK;
    const char *message = phasor_message();
    return report_failure(status, "%s", *message ? message : phasor_status_name(status));
}

void report_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line_print(format, arguments);
    va_end(arguments);
}

static void *memory_checked(void *block)
{
    if (block)
        return block;
    fputs("phasor: out of memory\n", stderr);
    exit(PHASOR_ERROR_MEMORY);
}

void *memory_need(size_t count, size_t size)
{
    return memory_checked(calloc(count ? count : 1, size ? size : 1));
}

void *memory_grow(void *block, size_t count, size_t size)
{
    /* Room doubles at powers of two, so the count alone says when there is none left. */
    if (block && (count & (count - 1)) != 0)
        return block;
    return memory_checked(reallocarray(block, count ? 2 * count : 1, size));
}

char *memory_copy(const char *text, size_t length)
{
    char *copy = memory_need(length + 1, 1);
    memcpy(copy, text, length);
    return copy;
}
