/* options.h - the command line, by one table of options.
 *
 *     run rope.pt2 --dim q.1=17 --json
 *         ->  operands "run", "rope.pt2"; dims "q.1=17"; json true
 */
#pragma once
#include "command.h"

#include <stdio.h>

/* Which commands take an option: bits. */
enum {
    FOR_RUN = 1,
    FOR_CHECK = 2,
    FOR_SHOW = 4,
    FOR_PREWARM = 8,
    FOR_CACHE = 16,
    FOR_DOCTOR = 32,
    FOR_BENCH = 64,
    FOR_ALL = 127
};

/* Reads all words; options may stand anywhere before "--". *used gets a bit for each option given,
 * by its place in the table. Words that are no options go to settings->operands. */
int options_read(int argc, char **argv, struct settings *settings, uint64_t *used);
/* Fails when one of the used options is not for the command. */
int options_check(uint64_t used, int command_bit, const char *command_name);
/* The lines of --help. */
void options_print(FILE *out, int command_bit);

/* The place of a word among choices "exact|generic|auto"; -1 when it is none of them. */
int choice_find(const char *choices, const char *word);
/* A decimal number and nothing else. */
bool number_read(const char *text, int64_t *out);
