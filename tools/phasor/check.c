/* check.c - phasor check: can a program be rewritten and run?
 *
 *     left_five.pt2  ->  left_five.pt2: cannot be rewritten
 *                            1  aten.fft_fft.default: no rule for complex numbers
 *                               fft_fft, programs.py:12 in forward
 *                        exit code 3
 */
#include "json.h"
#include "open.h"

#include <stdlib.h>
#include <string.h>

static int refusal_at(const phasor_program *program, int i, phasor_refusal *out)
{
    return report_library(phasor_program_refused(program, i, out));
}

/* A refusal and the group it is listed in, which its first place names. */
struct place {
    phasor_refusal refusal;
    int index, first;
};

static int reason_compare(const struct place *a, const struct place *b)
{
    const int order = strcmp(a->refusal.target, b->refusal.target);
    return order ? order : strcmp(a->refusal.reason, b->refusal.reason);
}

/* Those of a group side by side, in program order. */
static int place_compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    const int order = reason_compare(x, y);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Groups by their first places. */
static int group_compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : (x->index > y->index) - (x->index < y->index);
}

static int places_collect(const phasor_program *program, struct place *places, int count)
{
    for (int i = 0; i < count; i++) {
        places[i].index = i;
        places[i].refusal.size = sizeof places[i].refusal;
        TRY(refusal_at(program, i, &places[i].refusal));
    }
    qsort(places, (size_t)count, sizeof *places, place_compare);
    for (int i = 0; i < count; i++)
        places[i].first = i > 0 && reason_compare(&places[i - 1], &places[i]) == 0
                              ? places[i - 1].first
                              : places[i].index;
    qsort(places, (size_t)count, sizeof *places, group_compare);
    return PHASOR_OK;
}

static void places_print(const struct place *places, int count)
{
    for (int i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && places[end].first == places[i].first; end++)
            continue;
        say("%5d  %s: %s\n", end - i, places[i].refusal.target, places[i].refusal.reason);
        for (int k = i; k < end; k++)
            say("       %s, %s\n", places[k].refusal.node,
                places[k].refusal.line ? places[k].refusal.line
                                       : "the file has no source line for it");
    }
}

static int check_print(const phasor_program *program, const char *path)
{
    const int refused = phasor_program_refused_count(program);
    if (refused == 0) {
        say("%s: can be rewritten and run\n", path);
        return PHASOR_OK;
    }
    struct place *places = memory_need((size_t)refused, sizeof *places);
    const int status = places_collect(program, places, refused);
    if (status == PHASOR_OK) {
        say("%s: cannot be rewritten\n", path);
        places_print(places, refused);
    }
    free(places);
    return status;
}

static int check_print_json(const phasor_program *program)
{
    const int refused = phasor_program_refused_count(program);
    struct json json = {.out = stdout};
    json_open(&json, NULL, '{');
    json_bool(&json, "ok", refused == 0);
    json_open(&json, "refused", '[');
    for (int i = 0; i < refused; i++) {
        phasor_refusal refusal = {.size = sizeof refusal};
        TRY(refusal_at(program, i, &refusal));
        json_open(&json, NULL, '{');
        json_string(&json, "node", refusal.node);
        json_string(&json, "target", refusal.target);
        json_string(&json, "reason", refusal.reason);
        json_string(&json, "line", refusal.line);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    return PHASOR_OK;
}

int check_command(const struct settings *settings)
{
    struct opened opened;
    const char *path = settings->operands.at[0];
    TRY(open_program(settings, NULL, path, &opened));
    int status =
        settings->json ? check_print_json(opened.program) : check_print(opened.program, path);
    if (status == PHASOR_OK && phasor_program_refused_count(opened.program) > 0)
        status = PHASOR_ERROR_REFUSED;
    opened_close(&opened);
    return status;
}
