/* cache.c - phasor cache: the store of compiled kernels.
 *
 *     cache path    ->  /home/anna/.cache/phasor/phasor.db
 *     cache stats   ->  how many kernels, how many bytes, hits, misses
 */
#include "open.h"
#include "options.h"

#include <stdio.h>
#include <string.h>

static int text_show(const struct settings *settings, phasor_runtime *runtime, const char *what)
{
    char *text;
    TRY_LIBRARY(phasor_cache_show(runtime, what, settings->json, &text));
    const size_t length = strlen(text);
    fputs(text, stdout);
    if (length > 0 && text[length - 1] != '\n')
        fputc('\n', stdout);
    phasor_free(text);
    return PHASOR_OK;
}

static int cache_run(const struct settings *settings, phasor_runtime *runtime, const char *what)
{
    if (strcmp(what, "path") == 0) {
        puts(phasor_cache_path(runtime));
        return PHASOR_OK;
    }
    if (strcmp(what, "clear") == 0)
        return report_library(phasor_cache_clear(runtime));
    return text_show(settings, runtime, what);
}

static int usage_check(const struct settings *settings, const char *what)
{
    if (choice_find("show|verify|gc|export|import", what) >= 0)
        return report_failure(PHASOR_ERROR_USAGE, "cache %s is not in this version", what);
    if (choice_find("stats|list|clear|path", what) < 0)
        return report_failure(PHASOR_ERROR_USAGE, "cache %s: expected stats, list, clear or path",
                              what);
    if (settings->operands.count > 1)
        return report_failure(PHASOR_ERROR_USAGE, "cache %s takes nothing more, but got %s", what,
                              settings->operands.at[1]);
    if (settings->json && choice_find("stats|list", what) < 0)
        return report_failure(PHASOR_ERROR_USAGE, "--json goes with cache stats and cache list");
    return PHASOR_OK;
}

int cache_command(const struct settings *settings)
{
    phasor_runtime *runtime;
    const char *what = settings->operands.at[0];
    TRY(usage_check(settings, what));
    TRY(open_runtime(settings, NULL, &runtime));
    const int status = cache_run(settings, runtime, what);
    phasor_close(runtime);
    return status;
}
