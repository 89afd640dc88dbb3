/* text.h - a growing string. Failure sticks: after the last append, text_status() says whether all
 * of it is there. */
#pragma once
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *at; /* NUL-terminated once anything was appended */
    size_t length, capacity;
    bool failed;
};

void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const void *bytes, size_t nbytes);
void text_add_number(struct text *text, int64_t number); /* 8 bytes, as they are in memory */
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_code_point(struct text *text, uint32_t code); /* in UTF-8 */
void text_add_json_string(
    struct text *text, const char *string); /* quoted and escaped; invalid UTF-8 becomes U+FFFD */
/* What comes from outside, for a terminal: control characters but newlines and tabs, and bytes that
 * are no UTF-8, as \x1b. */
void text_add_printable(struct text *text, const char *string);
const char *text_get(const struct text *text); /* "" when empty */
phasor_status text_status(const struct text *text);
void text_free(struct text *text);

/* isalpha and isalnum as the C locale has them. */
static inline bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool is_alphanumeric(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9');
}

/* Of the valid UTF-8 sequence at the start of string; 0: there is none. */
size_t utf8_length(const char *string, size_t nbytes);
