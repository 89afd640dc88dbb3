/* print.h - what printing and parsing of the text form share. */
#pragma once
#include "base/text.h"

/* The words of a row's attribute letters (ops.def). */
struct attribute_word {
    char letter;
    const char *word;
};
extern const struct attribute_word attribute_words[]; /* ends with letter 0 */

/* A name: as it is when it is plain (letters, digits, '_', '.'; no digit first), else quoted. */
void print_word(const char *word, struct text *out);
/* "..." with \" \\ \n and \xHH for other control characters. */
void print_quoted(const char *string, struct text *out);
bool print_is_plain(const char *word);
