/* check.c - phasor check: can a program be rewritten and run?
 *
 *     left_five.pt2  ->  left_five.pt2: cannot be rewritten
 *                            1  aten.fft_fft.default: no rule for complex numbers
 *                               fft_fft, programs.py:12 in forward
 *                        exit code 3
 */
#include "json.h"
#include "open.h"

#include <string.h>

static int refusal_at(const phasor_program *program, int i, phasor_refusal *out)
{
    return report_library(phasor_program_refused(program, i, out));
}

static bool refusal_same(const phasor_refusal *a, const phasor_refusal *b)
{
    return strcmp(a->target, b->target) == 0 && strcmp(a->reason, b->reason) == 0;
}

/* Prints the places of the group that refusal `first` begins; nothing when an earlier one began it.
 */
static int group_print(const phasor_program *program, int first)
{
    phasor_refusal head, other;
    int times = 0;
    TRY(refusal_at(program, first, &head));
    for (int i = 0; i < phasor_program_refused_count(program); i++) {
        TRY(refusal_at(program, i, &other));
        if (!refusal_same(&head, &other))
            continue;
        if (i < first)
            return PHASOR_OK;
        times++;
    }
    printf("%5d  %s: %s\n", times, head.target, head.reason);
    for (int i = first; i < phasor_program_refused_count(program); i++) {
        TRY(refusal_at(program, i, &other));
        if (refusal_same(&head, &other))
            printf("       %s, %s\n", other.node,
                   other.line ? other.line : "the file has no source line for it");
    }
    return PHASOR_OK;
}

static int check_print(const phasor_program *program, const char *path)
{
    const int refused = phasor_program_refused_count(program);
    if (refused == 0) {
        printf("%s: can be rewritten and run\n", path);
        return PHASOR_OK;
    }
    printf("%s: cannot be rewritten\n", path);
    for (int i = 0; i < refused; i++)
        TRY(group_print(program, i));
    return PHASOR_OK;
}

static int check_print_json(const phasor_program *program)
{
    const int refused = phasor_program_refused_count(program);
    struct json json = {.out = stdout};
    json_open(&json, NULL, '{');
    json_bool(&json, "ok", refused == 0);
    json_open(&json, "refused", '[');
    for (int i = 0; i < refused; i++) {
        phasor_refusal refusal;
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
