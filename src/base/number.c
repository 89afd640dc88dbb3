/* number.c - see number.h. The locale and the floating-point environment belong to the thread, and
 * are the host's again before anything else of the host can run on it. */
#include "base/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct host {
    locale_t locale;
    fenv_t arithmetic;
};

static locale_t c_locale;

static void c_locale_make(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a constant of the C library */
}

static void host_leave(struct host *host)
{
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    pthread_once(&made, c_locale_make);
    host->locale = uselocale(c_locale);
    arithmetic_enter(&host->arithmetic);
}

static void host_return(const struct host *host)
{
    arithmetic_leave(&host->arithmetic);
    uselocale(host->locale);
}

void arithmetic_enter(fenv_t *host)
{
    fegetenv(host);
    fesetenv(FE_DFL_ENV);
}

void arithmetic_leave(const fenv_t *host)
{
    fesetenv(host);
}

double number_read(const char *text, char **end)
{
    struct host host;
    host_leave(&host);
    const double number = strtod(text, end);
    host_return(&host);
    return number;
}

float number_read_single(const char *text, char **end)
{
    struct host host;
    host_leave(&host);
    const float number = strtof(text, end);
    host_return(&host);
    return number;
}

void number_format(char *out, size_t size, const char *format, ...)
{
    struct host host;
    va_list arguments;
    va_start(arguments, format);
    host_leave(&host);
    vsnprintf(out, size, format, arguments);
    host_return(&host);
    va_end(arguments);
}
