/* cache.c - phasor cache: the store of compiled kernels.
 *
 *     cache path            ->  /home/anna/.cache/phasor/phasor.db
 *     cache stats           ->  how many kernels, how many bytes, hits, misses
 *     cache show 3f0c       ->  one row: its key in words, resources, source; -o F: its cubin
 *     cache verify          ->  every row checked; exit code 1 and a line for each bad one
 *     cache export F        ->  one read-only file; cache import F takes it in elsewhere
 */
#include "open.h"
#include "options.h"

#include <stdio.h>
#include <string.h>

/* -- actions ----------------------------------------------------------------------------------- */

/* What an action works on. */
struct cache_call {
    const struct settings *settings;
    phasor_runtime *runtime;
    const char *operand; /* the key or file; NULL where none belongs */
};

/* Prints the library's text, and frees it. */
static int text_print(phasor_status status, char *text)
{
    TRY_LIBRARY(status);
    const size_t length = strlen(text);
    say("%s", text);
    if (length > 0 && text[length - 1] != '\n')
        fputc('\n', stdout);
    phasor_free(text);
    return PHASOR_OK;
}

static int what_show(const struct cache_call *call, const char *what)
{
    char *text;
    const phasor_status status =
        phasor_cache_show(call->runtime, what, call->settings->json, &text);
    return text_print(status, text);
}

static int stats_run(const struct cache_call *call)
{
    return what_show(call, "stats");
}

static int list_run(const struct cache_call *call)
{
    return what_show(call, "list");
}

static int show_run(const struct cache_call *call)
{
    const char *file = call->settings->file;
    if (file)
        return report_library(phasor_cache_extract(call->runtime, call->operand, file));
    return what_show(call, call->operand);
}

static int path_run(const struct cache_call *call)
{
    say("%s\n", phasor_cache_path(call->runtime));
    return PHASOR_OK;
}

static int clear_run(const struct cache_call *call)
{
    return report_library(phasor_cache_clear(call->runtime));
}

static int verify_run(const struct cache_call *call)
{
    char *text;
    bool good;
    const phasor_status status = phasor_cache_verify(call->runtime, call->settings->recompile,
                                                     call->settings->json, &good, &text);
    TRY(text_print(status, text));
    return good ? PHASOR_OK : EXIT_DIFFERS;
}

static int gc_run(const struct cache_call *call)
{
    char *text;
    const phasor_status status = phasor_cache_gc(call->runtime, call->settings->json, &text);
    return text_print(status, text);
}

static int export_run(const struct cache_call *call)
{
    char *text;
    const phasor_status status =
        phasor_cache_export(call->runtime, call->operand, call->settings->json, &text);
    return text_print(status, text);
}

static int import_run(const struct cache_call *call)
{
    char *text;
    bool good;
    const phasor_status status =
        phasor_cache_import(call->runtime, call->operand, call->settings->json, &good, &text);
    TRY(text_print(status, text));
    return good ? PHASOR_OK : EXIT_DIFFERS;
}

/* -- which action ------------------------------------------------------------------------------ */

struct action {
    const char *name;
    int (*run)(const struct cache_call *call);
    const char *operand; /* what must follow; NULL: nothing */
    bool figures;        /* --json */
};

static const struct action actions[] = {
    {"stats", stats_run, NULL, true},     {"list", list_run, NULL, true},
    {"show", show_run, "KEY", true},      {"verify", verify_run, NULL, true},
    {"gc", gc_run, NULL, true},           {"clear", clear_run, NULL, false},
    {"export", export_run, "FILE", true}, {"import", import_run, "FILE", true},
    {"path", path_run, NULL, false},
};
enum { ACTIONS = sizeof actions / sizeof *actions };

static const struct action *action_find(const char *name)
{
    for (int i = 0; i < ACTIONS; i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

static int operands_check(const struct words *operands, const struct action *action)
{
    const int wanted = action->operand ? 2 : 1;
    if (operands->count < wanted)
        return report_failure(PHASOR_ERROR_USAGE, "cache %s needs a %s", action->name,
                              action->operand);
    if (operands->count > wanted)
        return report_failure(PHASOR_ERROR_USAGE, "cache %s takes nothing more, but got %s",
                              action->name, operands->at[wanted]);
    return PHASOR_OK;
}

static int options_of_action(const struct settings *settings, const struct action *action)
{
    const bool is_show = action->run == show_run;
    if (settings->json && !action->figures)
        return report_failure(PHASOR_ERROR_USAGE,
                              "cache %s prints no figures: --json is for others", action->name);
    if ((settings->file || settings->arch) && !is_show)
        return report_failure(PHASOR_ERROR_USAGE, "--output and --arch go with cache show");
    if (settings->recompile && action->run != verify_run)
        return report_failure(PHASOR_ERROR_USAGE, "--recompile goes with cache verify");
    return PHASOR_OK;
}

int cache_command(const struct settings *settings)
{
    const struct words *operands = &settings->operands;
    const struct action *action = action_find(operands->at[0]);
    struct cache_call call = {.settings = settings};
    if (!action)
        return report_failure(PHASOR_ERROR_USAGE,
                              "cache %s: expected stats, list, show, verify, gc, clear, export, "
                              "import or path",
                              operands->at[0]);
    TRY(operands_check(operands, action));
    TRY(options_of_action(settings, action));
    call.operand = action->operand ? operands->at[1] : NULL;
    TRY(open_runtime(settings, settings->arch, &call.runtime));
    const int status = action->run(&call);
    phasor_close(call.runtime);
    return status;
}
