/* log.h - one line of diagnosis, to the caller's log function or to stderr. Levels as in PHASOR_LOG
 * and --log. */
#pragma once

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

typedef void log_function(void *context, int level, const char *line);

void log_set_level(enum log_level level); /* default LOG_WARNING, or PHASOR_LOG */
enum log_level log_get_level(void);
int log_level_parse(const char *text); /* "off|error|warning|info|debug", -1 for another word */
void log_set_function(log_function *function, void *context); /* NULL: stderr */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
