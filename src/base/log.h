/* log.h - lines of diagnosis and news of compiles, to the caller's functions or to stderr. Levels as
 * in PHASOR_LOG and --log.
 *
 *     phasor_run(program)
 *         LOG_SCOPE(&runtime->log);       from here on this thread's lines are the runtime's
 *         ...log_line(LOG_INFO, ...)      kept: a lock may be held, something is being made
 *     its end, nothing is held            the caller's functions have the lines, and may call
 *                                         whatever they like
 *
 * What goes to stderr is written at once. */
#pragma once
#include "phasor.h"

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

typedef phasor_log_callback log_function;

/* Of a runtime. */
struct log_target {
    log_function *function; /* NULL: stderr */
    void *context;
    enum log_level level;
    phasor_compile_callback *compiled; /* NULL: nobody is told */
    void *compiled_context;
};

struct log_notice;
struct log_scope {
    struct log_target target;
    struct log_scope *outer;
    struct log_notice *first, **last;
};

/* Inside of another scope it changes nothing: the outermost call's end is the one that counts. */
void log_enter(struct log_scope *scope, const struct log_target *target);
void log_leave(struct log_scope *scope);
#define LOG_SCOPE(target)                                            \
    struct log_scope log_scope_ __attribute__((cleanup(log_leave))); \
    log_enter(&log_scope_, (target))
/* What was kept so far; for long calls, where no lock is held. */
void log_deliver(void);
/* Around a function of the caller that is called while something is being made: what it calls has
 * scopes of its own. */
struct log_scope *log_suspend(void);
void log_resume(struct log_scope *scope);

enum log_level log_get_level(void); /* here and now */
/* Of PHASOR_LOG; LOG_WARNING without it. */
enum log_level log_level_default(void);
int log_level_parse(const char *text); /* "off|error|warning|info|debug", -1 for another word */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_compiled(const char *kernels, const char *reason, double milliseconds);

/* Of what is logged outside of every scope: tests. */
void log_set_level(enum log_level level);
void log_set_function(log_function *function, void *context); /* NULL: stderr */
