/* json.c - see json.h. */
#include "json.h"

#include <inttypes.h>
#include <math.h>

/* The length of the valid UTF-8 sequence at s, 0 when there is none. */
static int sequence_length(const unsigned char *s)
{
    const int length = s[0] < 0x80                   ? 1
                       : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                       : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                       : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                     : 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

static void text_write(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int length = sequence_length(s);
        if (length == 0)
            fputs("\\ufffd", out);
        else if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20)
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)length, out);
        s += length ? length : 1;
    }
    fputc('"', out);
}

static void value_begin(struct json *json, const char *key)
{
    if (json->filled)
        fputs(", ", json->out);
    json->filled = true;
    if (key) {
        text_write(json->out, key);
        fputs(": ", json->out);
    }
}

void json_open(struct json *json, const char *key, char bracket)
{
    value_begin(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->filled = false;
}

void json_close(struct json *json, char bracket)
{
    fputc(bracket, json->out);
    json->depth--;
    json->filled = true;
    if (json->depth == 0)
        fputc('\n', json->out);
}

void json_string(struct json *json, const char *key, const char *value)
{
    value_begin(json, key);
    if (value)
        text_write(json->out, value);
    else
        fputs("null", json->out);
}

void json_integer(struct json *json, const char *key, int64_t value)
{
    value_begin(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void json_real(struct json *json, const char *key, double value)
{
    if (!isfinite(value)) {
        json_string(json, key, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    value_begin(json, key);
    fprintf(json->out, "%.17g", value);
}

void json_bool(struct json *json, const char *key, bool value)
{
    value_begin(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_integers(struct json *json, const char *key, const int64_t *values, int count)
{
    json_open(json, key, '[');
    for (int i = 0; i < count; i++)
        json_integer(json, NULL, values[i]);
    json_close(json, ']');
}
