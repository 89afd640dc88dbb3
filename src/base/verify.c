/* verify.c - see verify.h. */
#include "base/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PHASOR_CHECKED
bool verify_is_wanted(void)
{
    return true;
}
#else
bool verify_is_wanted(void)
{
    const char *text = getenv("PHASOR_VERIFY");
    return text && strcmp(text, "1") == 0;
}
#endif

phasor_status verify_result(phasor_status status, const char *stage)
{
    if (status == PHASOR_OK || status == PHASOR_ERROR_MEMORY)
        return status;
    const phasor_status named = fail_in(status, "after %s", stage);
#ifdef PHASOR_CHECKED
    fprintf(stderr, "phasor: fault: %s\n", message_get());
    abort();
#endif
    return named;
}
