/* options.c - see options.h.
 *
 * Adding an option is one row of the table and one field of struct settings. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum option_kind { KIND_FLAG, KIND_TEXT, KIND_LIST, KIND_INTEGER, KIND_REAL };

struct option_row {
    const char *name;
    char letter; /* a short form, or 0 */
    enum option_kind kind;
    size_t offset;        /* of its field in struct settings */
    int commands;         /* FOR_... */
    const char *argument; /* as --help shows it; "a|b|c": one of these words */
    const char *help;
};

#define FIELD(name) offsetof(struct settings, name)

static const struct option_row table[] = {
    {"inputs", 0, KIND_TEXT, FIELD(inputs), FOR_RUN, "FILE",
     "tensors input_0, input_1, ... or the program's names"},
    {"outputs", 0, KIND_TEXT, FIELD(outputs), FOR_RUN, "FILE",
     "write the results there (.safetensors)"},
    {"expect", 0, KIND_TEXT, FIELD(expect), FOR_RUN, "FILE",
     "compare with output_0, output_1, ...; exit 1 when they differ"},
    {"rtol", 0, KIND_REAL, FIELD(rtol), FOR_RUN, "R", "relative tolerance instead of the dtype's"},
    {"atol", 0, KIND_REAL, FIELD(atol), FOR_RUN, "A", "absolute tolerance instead of the dtype's"},
    {"device", 0, KIND_TEXT, FIELD(device), FOR_RUN | FOR_BENCH, "cpu|cuda[:N]", "where to run"},
    {"stage", 0, KIND_TEXT, FIELD(stage), FOR_SHOW, "loaded|real|plan|cuda|ptx",
     "what to show (default: real)"},
    {"dim", 0, KIND_LIST, FIELD(dims), FOR_RUN | FOR_SHOW | FOR_PREWARM | FOR_BENCH, "NAME=VALUES",
     "sizes: q.1=17, q.0=1,2,4, s25=1:4096:64; may be given often"},
    {"lengths", 0, KIND_TEXT, FIELD(lengths), FOR_PREWARM | FOR_BENCH, "FILE",
     "sizes, one combination a line: q.0=4 q.1=137; bench: or q.1=uniform:FROM:TO:COUNT"},
    {"plot", 0, KIND_TEXT, FIELD(plot), FOR_BENCH, "FILE.svg", "draw the figures there"},
    {"seconds", 0, KIND_REAL, FIELD(seconds), FOR_BENCH, "S",
     "spent on each figure (default: 0.3)"},
    {"arch", 0, KIND_TEXT, FIELD(arch), FOR_SHOW | FOR_PREWARM | FOR_CACHE, "sm_90,...",
     "GPU types to compile for; cache show: of which the row is"},
    {"mode", 0, KIND_TEXT, FIELD(mode), FOR_RUN | FOR_SHOW | FOR_PREWARM | FOR_BENCH,
     "exact|generic|auto", "how kernels depend on sizes"},
    {"seed", 0, KIND_INTEGER, FIELD(seed), FOR_RUN | FOR_BENCH, "N",
     "of the random inputs (default: 0)"},
    {"repeat", 0, KIND_INTEGER, FIELD(repeat), FOR_RUN, "N",
     "run N times, each from the initial state"},
    {"jobs", 0, KIND_INTEGER, FIELD(jobs), FOR_PREWARM, "N",
     "threads that compile (default: one a processor)"},
    {"output", 'o', KIND_TEXT, FIELD(file), FOR_SHOW | FOR_CACHE, "FILE",
     "write there; x.phasor gets its weights beside it; cache show: the cubin"},
    {"recompile", 0, KIND_FLAG, FIELD(recompile), FOR_CACHE, NULL,
     "cache verify: compile again and compare byte for byte"},
    {"watch", 0, KIND_FLAG, FIELD(watch), FOR_RUN, NULL,
     "run again when the program, its inputs or a template change; Ctrl-C ends"},
    {"json", 0, KIND_FLAG, FIELD(json), FOR_ALL, NULL, "one JSON document on stdout"},
    {"cache", 0, KIND_TEXT, FIELD(cache), FOR_ALL,
     "DIR|:memory:", "where compiled kernels are kept"},
    {"trust-cache-dir", 0, KIND_FLAG, FIELD(trust_cache_dir), FOR_ALL, NULL,
     "accept a cache that others own or can write"},
    {"rules", 0, KIND_TEXT, FIELD(rules), FOR_ALL, "all|executorch",
     "which operators are rewritten (default: all)"},
    {"no-fma", 0, KIND_FLAG, FIELD(no_fma), FOR_ALL, NULL,
     "complex products with the bits of eager PyTorch's CPU"},
    {"model", 0, KIND_TEXT, FIELD(model), FOR_ALL, "NAME",
     "which program of an archive with several"},
    {"log", 0, KIND_TEXT, FIELD(log), FOR_ALL, "off|error|warning|info|debug",
     "what is logged on stderr"},
    {"help", 'h', KIND_FLAG, FIELD(help), FOR_ALL, NULL, "this text"},
    {"version", 0, KIND_FLAG, FIELD(version), FOR_ALL, NULL, "the version"},
};
enum { ROWS = sizeof table / sizeof table[0] };
_Static_assert(ROWS <= 64, "used options are bits of a uint64_t");

/* -- words ------------------------------------------------------------------------------------- */

int choice_find(const char *choices, const char *word)
{
    const size_t length = strlen(word);
    for (int i = 0; choices; i++) {
        const char *end = strchr(choices, '|');
        const size_t room = end ? (size_t)(end - choices) : strlen(choices);
        if (room == length && memcmp(choices, word, length) == 0)
            return i;
        choices = end ? end + 1 : NULL;
    }
    return -1;
}

bool number_read(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    const char first = text[text[0] == '-'];
    *out = number;
    return errno == 0 && first >= '0' && first <= '9' && *end == '\0';
}

static void words_add(struct words *words, const char *word)
{
    words->at = memory_grow(words->at, (size_t)words->count, sizeof *words->at);
    words->at[words->count++] = word;
}

/* -- one option -------------------------------------------------------------------------------- */

/* Choices are full words only; "cuda[:N]" and "DIR|:memory:" are checked where they are used. */
static bool row_has_choices(const struct option_row *row)
{
    return row->argument && strchr(row->argument, '|') && !strpbrk(row->argument, "[:");
}

static int text_store(const struct option_row *row, const char *value, const char **field)
{
    if (row_has_choices(row) && choice_find(row->argument, value) < 0)
        return report_failure(PHASOR_ERROR_USAGE, "--%s %s: expected one of %s", row->name, value,
                              row->argument);
    if (row->offset == FIELD(cache) && !*value)
        return report_failure(PHASOR_ERROR_USAGE,
                              "--cache \"\": the name of the directory is empty");
    *field = value;
    return PHASOR_OK;
}

static int integer_store(const struct option_row *row, const char *value, int64_t *field)
{
    const int64_t least = row->offset == FIELD(seed) ? 0 : 1;
    if (!number_read(value, field) || *field < least)
        return report_failure(PHASOR_ERROR_USAGE, "--%s %s: expected a number from %d", row->name,
                              value, (int)least);
    return PHASOR_OK;
}

static int real_store(const struct option_row *row, const char *value, double *field)
{
    char *end;
    *field = strtod(value, &end);
    if (end == value || *end || !(*field >= 0) || isinf(*field))
        return report_failure(PHASOR_ERROR_USAGE, "--%s %s: expected a number such as 1e-5",
                              row->name, value);
    return PHASOR_OK;
}

static int value_store(const struct option_row *row, const char *value, struct settings *settings)
{
    void *field = (char *)settings + row->offset;
    switch (row->kind) {
    case KIND_FLAG: *(bool *)field = true; return PHASOR_OK;
    case KIND_TEXT: return text_store(row, value, field);
    case KIND_LIST: words_add(field, value); return PHASOR_OK;
    case KIND_INTEGER: return integer_store(row, value, field);
    case KIND_REAL: return real_store(row, value, field);
    }
    return PHASOR_OK;
}

/* "--dim", "--dim=q.1=17" or "-o"; *value is what stands behind the first "=". */
static const struct option_row *row_find(const char *word, const char **value)
{
    const bool is_long = word[1] == '-';
    const char *name = word + 1 + is_long, *equals = is_long ? strchr(name, '=') : NULL;
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    *value = equals ? equals + 1 : NULL;
    for (int i = 0; i < ROWS; i++) {
        const struct option_row *row = &table[i];
        if (is_long && strlen(row->name) == length && memcmp(row->name, name, length) == 0)
            return row;
        if (!is_long && row->letter && name[0] == row->letter && length == 1)
            return row;
    }
    return NULL;
}

/* Reads the option at argv[*at], and its value from the next word where it stands there. */
static int option_read(int argc, char **argv, int *at, struct settings *settings, uint64_t *used)
{
    const char *word = argv[*at], *value;
    const struct option_row *row = row_find(word, &value);
    if (!row)
        return report_failure(PHASOR_ERROR_USAGE, "unknown option %s; phasor --help lists them",
                              word);
    if (row->kind == KIND_FLAG && value)
        return report_failure(PHASOR_ERROR_USAGE, "--%s takes no value", row->name);
    if (row->kind != KIND_FLAG && !value) {
        if (*at + 1 >= argc)
            return report_failure(PHASOR_ERROR_USAGE, "%s needs a value: %s", word, row->argument);
        value = argv[++*at];
    }
    *used |= (uint64_t)1 << (row - table);
    return value_store(row, value, settings);
}

/* -- the command line -------------------------------------------------------------------------- */

int options_read(int argc, char **argv, struct settings *settings, uint64_t *used)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    *settings = (struct settings){
        .rtol = -1, .atol = -1, .repeat = 1, .jobs = processors > 0 ? processors : 1};
    *used = 0;
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        if (!only_words && strcmp(argv[i], "--") == 0)
            only_words = true;
        else if (!only_words && argv[i][0] == '-' && argv[i][1])
            TRY(option_read(argc, argv, &i, settings, used));
        else
            words_add(&settings->operands, argv[i]);
    }
    return PHASOR_OK;
}

int options_check(uint64_t used, int command_bit, const char *command_name)
{
    for (int i = 0; i < ROWS; i++)
        if (used >> i & 1 && !(table[i].commands & command_bit))
            return report_failure(PHASOR_ERROR_USAGE, "--%s is no option of phasor %s",
                                  table[i].name, command_name);
    return PHASOR_OK;
}

static void row_print(FILE *out, const struct option_row *row)
{
    char left[80], letter[8] = "    ";
    if (row->letter)
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name, row->argument ? " " : "",
             row->argument ? row->argument : "");
    fprintf(out, "  %-39s %s\n", left, row->help);
}

void options_print(FILE *out, int command_bit)
{
    for (int all = 0; all < 2; all++) {
        fputs(all ? "\nOptions of every command:\n" : command_bit ? "\nOptions:\n" : "", out);
        for (int i = 0; i < ROWS; i++)
            if ((table[i].commands == FOR_ALL) == all &&
                table[i].commands & (all ? FOR_ALL : command_bit))
                row_print(out, &table[i]);
    }
}
