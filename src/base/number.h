/* number.h - numbers and their digits, whatever the host's locale and floating-point state are.
 *
 *     setlocale(LC_ALL, "de_DE.UTF-8"); fesetround(FE_UPWARD);        (the host's business)
 *     number_read("0.1", &end)                          ->  0.1, the nearest double
 *     number_format(digits, sizeof digits, "%.3g", 2.5)  ->  "2.5", never "2,5"
 *
 * No other file of the library reads or prints a floating-point number: strtod and printf take the
 * point from the locale of the thread and round as its floating-point environment says.
 */
#pragma once
#include <fenv.h>
#include <stddef.h>

/* As strtod and strtof do it in the C locale. */
double number_read(const char *text, char **end);
float number_read_single(const char *text, char **end);
/* As snprintf does it in the C locale. */
void number_format(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Arithmetic of ours: to nearest, with denormal numbers, without traps. What the host had set, its
 * flags too, is as it was afterwards. */
void arithmetic_enter(fenv_t *host);
void arithmetic_leave(const fenv_t *host);
