/* log.c - see log.h. Lines of several threads do not mix: each goes out in one call. */
#include "base/log.h"

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {"off", "error", "warning", "info", "debug"};

/* A line, or news of a compile: then `text` is the kernels, and the reason is behind its end. */
struct log_notice {
    struct log_notice *next;
    enum log_level level; /* LOG_OFF: of a compile */
    double milliseconds;
    char text[];
};

static struct log_target outside = {.level = (enum log_level) - 1};
static _Thread_local struct log_scope *current;

/* -- levels ------------------------------------------------------------------------------------ */

int log_level_parse(const char *text)
{
    for (int level = LOG_OFF; level <= LOG_DEBUG; level++)
        if (strcmp(text, level_names[level]) == 0)
            return level;
    return -1;
}

enum log_level log_level_default(void)
{
    const char *text = getenv("PHASOR_LOG");
    const int level = text ? log_level_parse(text) : LOG_WARNING;
    return level < 0 ? LOG_WARNING : (enum log_level)level;
}

enum log_level log_get_level(void)
{
    if (current)
        return current->target.level;
    const int level = (int)__atomic_load_n(&outside.level, __ATOMIC_RELAXED);
    return level < 0 ? log_level_default() : (enum log_level)level;
}

void log_set_level(enum log_level level)
{
    __atomic_store_n(&outside.level, level, __ATOMIC_RELAXED);
}

void log_set_function(log_function *function, void *context)
{
    outside.function = function;
    outside.context = context;
}

/* -- scopes ------------------------------------------------------------------------------------ */

void log_enter(struct log_scope *scope, const struct log_target *target)
{
    scope->outer = current;
    if (current)
        return;
    scope->target = *target;
    scope->first = NULL;
    scope->last = &scope->first;
    current = scope;
}

static void notice_give(const struct log_target *target, const struct log_notice *notice)
{
    if (notice->level == LOG_OFF)
        target->compiled(target->compiled_context, notice->text,
                         notice->text + strlen(notice->text) + 1, notice->milliseconds);
    else
        target->function(target->context, (int)notice->level, notice->text);
}

/* The functions may call the library: neither their scopes nor their messages are this call's. */
void log_deliver(void)
{
    struct log_scope *scope = current;
    if (!scope || !scope->first)
        return;
    struct log_notice *notice = scope->first;
    struct text message = {0};
    text_add(&message, message_get());
    scope->first = NULL;
    scope->last = &scope->first;
    current = NULL;
    while (notice) {
        struct log_notice *next = notice->next;
        notice_give(&scope->target, notice);
        memory_free(notice);
        notice = next;
    }
    current = scope;
    (void)fail(PHASOR_OK, "%s", text_get(&message));
    text_free(&message);
}

void log_leave(struct log_scope *scope)
{
    if (scope->outer)
        return;
    log_deliver();
    current = NULL;
}

struct log_scope *log_suspend(void)
{
    struct log_scope *scope = current;
    current = NULL;
    return scope;
}

void log_resume(struct log_scope *scope)
{
    current = scope;
}

/* -- lines ------------------------------------------------------------------------------------- */

/* One that there is no memory for is lost. */
static void notice_keep(enum log_level level, double milliseconds, const char *text,
                        const char *reason)
{
    const size_t length = strlen(text) + 1, more = reason ? strlen(reason) + 1 : 0;
    struct log_notice *notice = memory_new(sizeof *notice + length + more);
    if (!notice)
        return;
    notice->level = level;
    notice->milliseconds = milliseconds;
    memcpy(notice->text, text, length);
    if (reason)
        memcpy(notice->text + length, reason, more);
    *current->last = notice;
    current->last = &notice->next;
}

void log_line(enum log_level level, const char *format, ...)
{
    const struct log_target *target = current ? &current->target : &outside;
    if (level > log_get_level())
        return;
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);

    struct text printable = {0};
    text_add_printable(&printable, line);
    if (!target->function)
        fprintf(stderr, "phasor: %s: %s\n", level_names[level], text_get(&printable));
    else if (current)
        notice_keep(level, 0, text_get(&printable), NULL);
    else
        target->function(target->context, (int)level, text_get(&printable));
    text_free(&printable);
}

void log_compiled(const char *kernels, const char *reason, double milliseconds)
{
    if (current && current->target.compiled)
        notice_keep(LOG_OFF, milliseconds, kernels, reason);
}
