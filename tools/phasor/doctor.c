/* doctor.c - phasor doctor: what was found on this machine, and what to do about what is not.
 *
 *     options  ->  versions, libraries and where they are, devices, the health of the cache
 */
#include "open.h"

#include <stdio.h>
#include <string.h>

int doctor_command(const struct settings *settings)
{
    char *text;
    const phasor_options options = options_from(settings);
    TRY_LIBRARY(phasor_doctor(&options, settings->json, &text));
    say("%s", text);
    if (*text && text[strlen(text) - 1] != '\n')
        fputc('\n', stdout);
    phasor_free(text);
    return PHASOR_OK;
}
