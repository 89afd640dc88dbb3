/* names.c - names of statuses, the message of this thread, the version, and texts for and from the caller. */
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x

const char *phasor_status_name(phasor_status status)
{
    switch (status) {
    case PHASOR_OK: return "ok";
    case PHASOR_ERROR_USAGE: return "wrong usage";
    case PHASOR_ERROR_REFUSED: return "refused";
    case PHASOR_ERROR_FILE: return "bad file";
    case PHASOR_ERROR_INPUT: return "bad inputs";
    case PHASOR_ERROR_COMPILE: return "compile failure";
    case PHASOR_ERROR_DEVICE: return "device failure";
    case PHASOR_ERROR_MEMORY: return "out of memory";
    case PHASOR_ERROR_INTERRUPTED: return "interrupted";
    case PHASOR_NOT_READY: return "not ready";
    }
    return "unknown status";
}

const char *phasor_message(void)
{
    return message_get();
}

const char *phasor_version(void)
{
    return TEXT(PHASOR_VERSION_MAJOR) "." TEXT(PHASOR_VERSION_MINOR) "." TEXT(PHASOR_VERSION_PATCH);
}

char *phasor_printable(const char *text)
{
    struct text out = {0};
    text_add_printable(&out, text);
    text_add(&out, "");
    if (out.failed)
        text_free(&out);
    return out.at;
}

void phasor_free(void *text)
{
    memory_free(text);
}
