/* text.c - see text.h. */
#include "base/text.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_add_bytes(struct text *text, const void *bytes, size_t nbytes)
{
    if (text->failed)
        return;
    if (!array_room((void **)&text->at, &text->capacity, text->length + nbytes + 1, 1)) {
        text->failed = true;
        return;
    }
    if (nbytes)
        memcpy(text->at + text->length, bytes, nbytes);
    text->length += nbytes;
    text->at[text->length] = '\0';
}

void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

void text_add_number(struct text *text, int64_t number)
{
    text_add_bytes(text, &number, sizeof number);
}

void text_format(struct text *text, const char *format, ...)
{
    char small[256];
    va_list arguments;
    va_start(arguments, format);
    const int needed = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (needed < 0) {
        text->failed = true;
        return;
    }
    if ((size_t)needed < sizeof small) {
        text_add_bytes(text, small, (size_t)needed);
        return;
    }
    if (text->failed ||
        !array_room((void **)&text->at, &text->capacity, text->length + (size_t)needed + 1, 1)) {
        text->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(text->at + text->length, (size_t)needed + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)needed;
}

size_t utf8_length(const char *string, size_t nbytes)
{
    const unsigned char *s = (const unsigned char *)string;
    if (nbytes == 0 || s[0] > 0xf4 || (s[0] >= 0x80 && s[0] < 0xc2))
        return 0;
    const size_t length = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < length; i++)
        if (i >= nbytes || (s[i] & 0xc0) != 0x80)
            return 0;
    const bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    const bool surrogate = s[0] == 0xed && s[1] > 0x9f;
    return overlong || surrogate || (s[0] == 0xf4 && s[1] > 0x8f) ? 0 : length;
}

void text_add_code_point(struct text *text, uint32_t code)
{
    char bytes[4];
    const int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = length - 1; i > 0; i--, code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(heads[length] | code);
    text_add_bytes(text, bytes, (size_t)length);
}

void text_add_json_string(struct text *text, const char *string)
{
    text_add(text, "\"");
    for (const char *s = string, *end = s + strlen(s); s < end;) {
        const size_t length = utf8_length(s, (size_t)(end - s));
        if (length == 0)
            text_add(text, "\\ufffd");
        else if (*s == '"' || *s == '\\')
            text_format(text, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            text_format(text, "\\u%04x", *s);
        else
            text_add_bytes(text, s, length);
        s += length ? length : 1;
    }
    text_add(text, "\"");
}

/* A terminal takes C1 controls, U+0080 to U+009F, for escapes as well. */
static bool is_control(const char *s)
{
    const unsigned char first = (unsigned char)s[0], second = (unsigned char)s[1];
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f ||
           (first == 0xc2 && second < 0xa0);
}

void text_add_printable(struct text *text, const char *string)
{
    for (const char *s = string, *end = s + strlen(s); s < end;) {
        size_t length = utf8_length(s, (size_t)(end - s));
        const bool plain = length > 0 && !is_control(s);
        length = length ? length : 1;
        for (size_t i = 0; !plain && i < length; i++)
            text_format(text, "\\x%02x", (unsigned char)s[i]);
        if (plain)
            text_add_bytes(text, s, length);
        s += length;
    }
}

const char *text_get(const struct text *text)
{
    return text->at ? text->at : "";
}

phasor_status text_status(const struct text *text)
{
    return text->failed ? fail_memory() : PHASOR_OK;
}

void text_free(struct text *text)
{
    memory_free(text->at);
    *text = (struct text){0};
}
