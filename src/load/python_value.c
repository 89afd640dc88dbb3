/* python_value.c - single values as Python's repr() writes them.
 *
 *     4   2.5   1e-05   inf   nan   True   None   'text'
 */
#include "base/number.h"
#include "load/safetensors.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- reading ----------------------------------------------------------------------------------- */

static void utf8_add(struct text *out, unsigned long code)
{
    char bytes[4];
    size_t count;
    if (code < 0x80) {
        bytes[0] = (char)code;
        count = 1;
    } else if (code < 0x800) {
        bytes[0] = (char)(0xc0 | code >> 6);
        count = 2;
    } else if (code < 0x10000) {
        bytes[0] = (char)(0xe0 | code >> 12);
        count = 3;
    } else {
        bytes[0] = (char)(0xf0 | code >> 18);
        count = 4;
    }
    for (size_t i = 1; i < count; i++)
        bytes[i] = (char)(0x80 | (code >> (6 * (count - 1 - i)) & 0x3f));
    text_add_bytes(out, bytes, count);
}

/* What stands after a backslash; returns the character after it, NULL for an escape that is
 * unknown. */
static const char *escape_parse(const char *at, struct text *out)
{
    static const char letters[] = "ntr\\'\"", meanings[] = "\n\t\r\\'\"";
    const char *letter = *at ? strchr(letters, *at) : NULL;
    if (letter) {
        text_add_bytes(out, &meanings[letter - letters], 1);
        return at + 1;
    }
    const int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
    char number[9] = "", *end;
    for (int i = 0; i < digits && isxdigit((unsigned char)at[1 + i]); i++)
        number[i] = at[1 + i];
    const unsigned long code = strtoul(number, &end, 16);
    if (digits == 0 || end - number != digits || code == 0 || code > 0x10ffff)
        return NULL;
    utf8_add(out, code);
    return at + 1 + digits;
}

static bool string_parse(struct arena *arena, const char *text, phasor_value *out)
{
    const char quote = text[0];
    struct text string = {0};
    const char *at = text + 1;
    while (at && *at && *at != quote) {
        if (*at == '\\')
            at = escape_parse(at + 1, &string);
        else
            text_add_bytes(&string, at++, 1);
    }
    const bool whole = at && *at == quote && at[1] == '\0' && !string.failed;
    *out = (phasor_value){.kind = PHASOR_STRING,
                          .string = whole ? arena_string(arena, text_get(&string)) : NULL};
    text_free(&string);
    return out->string != NULL;
}

static bool number_parse(const char *text, phasor_value *out)
{
    char *end;
    const bool numeric = isdigit((unsigned char)text[text[0] == '-']) ||
                         strcmp(text + (text[0] == '-'), "inf") == 0 || strcmp(text, "nan") == 0;
    if (!numeric || text[strspn(text, "0123456789+-.einfa")])
        return false;
    errno = 0;
    const long long integer = strtoll(text, &end, 10);
    if (*end == '\0' && end != text) {
        *out = (phasor_value){.kind = PHASOR_INT, .integer = integer};
        return errno == 0;
    }
    *out = (phasor_value){.kind = PHASOR_FLOAT, .real = number_read(text, &end)};
    return *end == '\0';
}

bool python_parse(struct arena *arena, const char *text, phasor_value *out)
{
    if (strcmp(text, "None") == 0)
        return *out = (phasor_value){.kind = PHASOR_NONE}, true;
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0)
        return *out = (phasor_value){.kind = PHASOR_BOOL, .boolean = text[0] == 'T'}, true;
    if (text[0] == '\'' || text[0] == '"')
        return string_parse(arena, text, out);
    return number_parse(text, out);
}

/* -- writing ----------------------------------------------------------------------------------- */

/* The shortest digits that read back as the same number, with a point or an exponent. */
static void float_print(double number, struct text *out)
{
    char digits[40];
    if (isnan(number) || isinf(number)) {
        text_add(out, isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        number_format(digits, sizeof digits, "%.*g", precision, number);
        if (number_read(digits, NULL) == number)
            break;
    }
    text_add(out, digits);
    if (!strpbrk(digits, ".e"))
        text_add(out, ".0");
}

static void string_print(const char *string, struct text *out)
{
    text_add(out, "'");
    for (const char *at = string; *at; at++) {
        if (*at == '\'' || *at == '\\')
            text_format(out, "\\%c", *at);
        else if ((unsigned char)*at < 0x20)
            text_format(out, "\\x%02x", (unsigned char)*at);
        else
            text_add_bytes(out, at, 1);
    }
    text_add(out, "'");
}

void python_print(const phasor_value *v, struct text *out)
{
    switch (v->kind) {
    case PHASOR_INT: text_format(out, "%" PRId64, v->integer); break;
    case PHASOR_FLOAT: float_print(v->real, out); break;
    case PHASOR_BOOL: text_add(out, v->boolean ? "True" : "False"); break;
    case PHASOR_STRING: string_print(v->string, out); break;
    default: text_add(out, "None");
    }
}
