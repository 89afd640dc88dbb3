/* log.c - see log.h. Lines of several threads do not mix: each goes out in one call. */
#include "base/log.h"

#include "base/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {"off", "error", "warning", "info", "debug"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int level_set = -1;
static log_function *sink;
static void *sink_context;

int log_level_parse(const char *text)
{
    for (int level = LOG_OFF; level <= LOG_DEBUG; level++)
        if (strcmp(text, level_names[level]) == 0)
            return level;
    return -1;
}

enum log_level log_get_level(void)
{
    int level = __atomic_load_n(&level_set, __ATOMIC_RELAXED);
    if (level < 0) {
        const char *text = getenv("PHASOR_LOG");
        level = text ? log_level_parse(text) : LOG_WARNING;
        if (level < 0)
            level = LOG_WARNING;
        __atomic_store_n(&level_set, level, __ATOMIC_RELAXED);
    }
    return (enum log_level)level;
}

void log_set_level(enum log_level level)
{
    __atomic_store_n(&level_set, (int)level, __ATOMIC_RELAXED);
}

void log_set_function(log_function *function, void *context)
{
    pthread_mutex_lock(&lock);
    sink = function;
    sink_context = context;
    pthread_mutex_unlock(&lock);
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level > log_get_level())
        return;
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);

    struct text printable = {0};
    text_add_printable(&printable, line);
    pthread_mutex_lock(&lock);
    if (sink)
        sink(sink_context, (int)level, text_get(&printable));
    else
        fprintf(stderr, "phasor: %s: %s\n", level_names[level], text_get(&printable));
    pthread_mutex_unlock(&lock);
    text_free(&printable);
}
