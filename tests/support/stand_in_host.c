/* stand_in_host.c - a host with habits of its own, preloaded into a program that has none.
 *
 *     LD_PRELOAD=libphasor_stand_in_host.so PHASOR_HOST_LOCALE=comma PHASOR_HOST_ARITHMETIC=1 program
 *         ->  as if main() began with setlocale(), fesetround(FE_UPWARD) and denormals off
 */
#include <fenv.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

__attribute__((constructor)) static void habits_take_on(void)
{
    const char *locale = getenv("PHASOR_HOST_LOCALE");
    char digits[8];
    if (locale) {
        const char *set = setlocale(LC_ALL, locale);
        snprintf(digits, sizeof digits, "%.1f", 1.5);
        if (!set || strcmp(digits, "1,5") != 0) {
            fprintf(stderr, "stand_in_host: the locale %s is not there, or has no comma\n", locale);
            _Exit(1);
        }
    }
    if (getenv("PHASOR_HOST_ARITHMETIC")) {
        fesetround(FE_UPWARD);
#ifdef __SSE__
        _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
    }
}
