/* document.c - see document.h.
 *
 * jansson's values without its parser, which takes the point of a number from a locale that any
 * thread may change under it, and loses bytes of a string when an allocation fails. Each byte is
 * looked at once and each value is stored once, so that time is linear however values are nested.
 */
#include "load/document.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const char *start, *at, *end;
    size_t flags;
    int depth;
    struct text scratch;  /* the string or number that is being read */
    const char *mistake;  /* NULL: none, or out of memory */
    const char *mistaken; /* where */
};

static bool mistake_at(struct parser *p, const char *at, const char *mistake)
{
    p->mistake = mistake;
    p->mistaken = at;
    return false;
}

static void blanks_skip(struct parser *p)
{
    while (p->at < p->end && strchr(" \t\n\r", *p->at) && *p->at)
        p->at++;
}

static bool next_is(struct parser *p, char c)
{
    blanks_skip(p);
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

/* -- strings ----------------------------------------------------------------------------------- */

/* The four digits of \uXXXX; -1: not there. */
static int hexadecimal_read(struct parser *p)
{
    int unit = 0;
    if (p->end - p->at < 4)
        return -1;
    for (int i = 0; i < 4; i++, p->at++) {
        const char c = *p->at;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        unit = 16 * unit + digit;
    }
    return unit;
}

static bool code_point_read(struct parser *p)
{
    const char *escape = p->at - 2;
    int code = hexadecimal_read(p);
    if (code >= 0xd800 && code < 0xdc00 && p->end - p->at >= 6 && memcmp(p->at, "\\u", 2) == 0) {
        p->at += 2;
        const int low = hexadecimal_read(p);
        code =
            low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + low - 0xdc00 : -1;
    }
    if (code < 0 || (code >= 0xd800 && code < 0xe000))
        return mistake_at(p, escape, "invalid Unicode escape");
    if (code == 0 && !(p->flags & JSON_ALLOW_NUL))
        return mistake_at(p, escape, "\\u0000 is not allowed");
    text_add_code_point(&p->scratch, (uint32_t)code);
    return true;
}

static bool escape_read(struct parser *p)
{
    static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    const char *letter = p->at < p->end && *p->at ? strchr(letters, *p->at) : NULL;
    if (p->at < p->end && *p->at == 'u') {
        p->at++;
        return code_point_read(p);
    }
    if (!letter)
        return mistake_at(p, p->at, "invalid escape");
    text_add_bytes(&p->scratch, &bytes[letter - letters], 1);
    p->at++;
    return true;
}

/* Into scratch. */
static bool string_read(struct parser *p)
{
    p->scratch.length = 0;
    if (!next_is(p, '"'))
        return mistake_at(p, p->at, "a string is expected");
    const char *opening = p->at - 1;
    while (p->at < p->end && *p->at != '"') {
        const char *plain = p->at;
        while (p->at < p->end && *p->at != '"' && *p->at != '\\' && (unsigned char)*p->at >= 0x20) {
            const size_t length = utf8_length(p->at, (size_t)(p->end - p->at));
            if (length == 0)
                return mistake_at(p, p->at, "a string that is no UTF-8");
            p->at += length;
        }
        text_add_bytes(&p->scratch, plain, (size_t)(p->at - plain));
        if (p->at < p->end && (unsigned char)*p->at < 0x20)
            return mistake_at(p, p->at, "a control character in a string");
        if (p->at < p->end && *p->at == '\\') {
            p->at++;
            if (!escape_read(p))
                return false;
        }
    }
    if (p->at == p->end)
        return mistake_at(p, opening, "a string without its end");
    p->at++;
    text_add_bytes(&p->scratch, "", 0); /* also an empty one ends in NUL */
    return !p->scratch.failed;
}

/* -- numbers ----------------------------------------------------------------------------------- */

static bool digits_skip(struct parser *p)
{
    const char *first = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
        p->at++;
    return p->at > first;
}

/* -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? */
static bool number_scan(struct parser *p, bool *real)
{
    *real = false;
    if (*p->at == '-')
        p->at++;
    const bool zero = p->at < p->end && *p->at == '0';
    const char *first = p->at;
    if (!digits_skip(p) || (zero && p->at - first > 1))
        return false;
    if (p->at < p->end && *p->at == '.') {
        *real = true;
        p->at++;
        if (!digits_skip(p))
            return false;
    }
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        *real = true;
        p->at++;
        if (p->at < p->end && (*p->at == '+' || *p->at == '-'))
            p->at++;
        return digits_skip(p);
    }
    return true;
}

static bool number_take(struct parser *p, json_t **out)
{
    const char *first = p->at;
    bool real;
    if (!number_scan(p, &real))
        return mistake_at(p, first, "an invalid number");
    p->scratch.length = 0;
    text_add_bytes(&p->scratch, first, (size_t)(p->at - first));
    if (p->scratch.failed)
        return false;
    if (real) {
        const double number = number_read(p->scratch.at, NULL);
        if (isinf(number))
            return mistake_at(p, first, "real number overflow");
        *out = json_real(number);
        return *out != NULL;
    }
    errno = 0;
    const long long integer = strtoll(p->scratch.at, NULL, 10);
    if (errno == ERANGE)
        return mistake_at(p, first, integer < 0 ? "too big negative integer" : "too big integer");
    *out = json_integer(integer);
    return *out != NULL;
}

/* -- values ------------------------------------------------------------------------------------ */

static bool value_read(struct parser *p, json_t **out);

static bool array_read(struct parser *p, json_t *array)
{
    if (next_is(p, ']'))
        return true;
    do {
        json_t *item;
        if (!value_read(p, &item) || json_array_append_new(array, item) != 0)
            return false;
    } while (next_is(p, ','));
    return next_is(p, ']') || mistake_at(p, p->at, "']' or ',' is expected");
}

static bool member_read(struct parser *p, json_t *object)
{
    json_t *item;
    blanks_skip(p);
    const char *opening = p->at;
    if (!string_read(p))
        return false;
    const char *bytes = p->scratch.at;
    if (strlen(bytes) != p->scratch.length)
        return mistake_at(p, opening, "\\u0000 in a key");
    if (json_object_get(object, bytes))
        return mistake_at(p, opening, "duplicate object key");
    char *key = memory_new(p->scratch.length + 1);
    if (!key)
        return false;
    memcpy(key, bytes, p->scratch.length + 1);
    const bool whole = (next_is(p, ':') || mistake_at(p, p->at, "':' is expected")) &&
                       value_read(p, &item) && json_object_set_new_nocheck(object, key, item) == 0;
    memory_free(key);
    return whole;
}

static bool object_read(struct parser *p, json_t *object)
{
    if (next_is(p, '}'))
        return true;
    do {
        if (!member_read(p, object))
            return false;
    } while (next_is(p, ','));
    return next_is(p, '}') || mistake_at(p, p->at, "'}' or ',' is expected");
}

static bool word_read(struct parser *p, json_t **out)
{
    static const struct {
        const char *word;
        json_t *(*make)(void);
    } words[] = {{"true", json_true}, {"false", json_false}, {"null", json_null}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i].word);
        if ((size_t)(p->end - p->at) < length || memcmp(p->at, words[i].word, length) != 0)
            continue;
        p->at += length;
        *out = words[i].make();
        return true;
    }
    return mistake_at(p, p->at,
                      p->at == p->end ? "the text ends too early" : "a value is expected");
}

/* false: nothing is in out, and either there is a mistake or memory ran out. */
static bool value_read(struct parser *p, json_t **out)
{
    *out = NULL;
    blanks_skip(p);
    const char first = p->at < p->end ? *p->at : '\0';
    if (first == '"') {
        if (string_read(p))
            *out = json_stringn_nocheck(p->scratch.at, p->scratch.length);
        return *out != NULL;
    }
    if (first == '-' || (first >= '0' && first <= '9'))
        return number_take(p, out);
    if (first != '[' && first != '{')
        return word_read(p, out);
    if (p->depth == DOCUMENT_DEPTH_MAX)
        return mistake_at(p, p->at, "nested more than 2048 deep");
    json_t *json = first == '[' ? json_array() : json_object();
    p->at++;
    p->depth++;
    const bool whole = json && (first == '[' ? array_read(p, json) : object_read(p, json));
    p->depth--;
    if (whole)
        *out = json;
    else
        json_decref(json);
    return whole;
}

static bool document_read(struct parser *p, json_t **out)
{
    blanks_skip(p);
    if (p->at == p->end || (*p->at != '[' && *p->at != '{'))
        return mistake_at(p, p->at, "'[' or '{' is expected");
    if (!value_read(p, out))
        return false;
    blanks_skip(p);
    if (p->at == p->end)
        return true;
    json_decref(*out);
    *out = NULL;
    return mistake_at(p, p->at, "the end of the text is expected");
}

phasor_status document_parse(const char *text, size_t nbytes, size_t flags, json_t **out,
                             json_error_t *error)
{
    struct parser p = {.start = text, .at = text, .end = text + nbytes, .flags = flags};
    *out = NULL;
    const bool whole = document_read(&p, out);
    text_free(&p.scratch);
    if (whole)
        return PHASOR_OK;
    if (!p.mistake)
        return fail_memory();
    *error = (json_error_t){.line = 1, .column = 1, .position = (int)(p.mistaken - text)};
    for (const char *at = text; at < p.mistaken; at++) {
        error->column = *at == '\n' ? 1 : error->column + 1;
        error->line += *at == '\n';
    }
    snprintf(error->text, sizeof error->text, "%s", p.mistake);
    return PHASOR_ERROR_FILE;
}
