/* test_document.c - JSON text becomes the values that jansson's own parser makes of it, or is
 * refused where that refuses it; in time that is linear, however values are nested. */
#include "load/document.h"
#include "support/leak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const texts[] = {
    "{}",
    "[]",
    " \t\r\n[ 1 , -0 , -12 , 9223372036854775807 , -9223372036854775808 ] ",
    "[0.1, -2.5e-3, 1E5, 1e+2, 4.9e-324, 1e-400, 123456789012345678901234567890.5, -0.0]",
    "[true, false, null, \"\", \"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
    "[\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\\uFFFF\", \"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"]",
    "[\"a\\u0000b\"]",
    "{\"a\": {\"b\": [{}, [[]], {\"\": null}]}, \"b\": 1, \"\\u0061b\": 2}",
};

/* Each is refused; line and column are those of the mistake. */
static const struct {
    const char *text;
    int line, column;
} wrong[] = {
    {"", 1, 1},
    {"1", 1, 1},
    {"\"a\"", 1, 1},
    {"[1,]", 1, 4},
    {"[1\n, 2", 2, 4},
    {"[1] 2", 1, 5},
    {"{\"a\": 1,}", 1, 9},
    {"{\"a\" 1}", 1, 6},
    {"{a: 1}", 1, 2},
    {"{\"a\": 1,\n \"a\": 2}", 2, 2},
    {"{\"a\\u0000\": 1}", 1, 4},
    {"[01]", 1, 2},
    {"[-]", 1, 2},
    {"[1.]", 1, 2},
    {"[.5]", 1, 2},
    {"[1e]", 1, 2},
    {"[+1]", 1, 2},
    {"[1e999]", 1, 2},
    {"[9223372036854775808]", 1, 2},
    {"[-9223372036854775809]", 1, 2},
    {"[nan]", 1, 2},
    {"[truth]", 1, 2},
    {"[\"a", 1, 2},
    {"[\"a\nb\"]", 1, 4},
    {"[\"\\x41\"]", 1, 4},
    {"[\"\\u12g4\"]", 1, 3},
    {"[\"\\ud800\"]", 1, 3},
    {"[\"\\udc00\"]", 1, 3},
    {"[\"\\ud800\\u0041\"]", 1, 3},
    {"[\"\xff\"]", 1, 3},
    {"[\"\xc0\xaf\"]", 1, 3},
    {"[\"\xed\xa0\x80\"]", 1, 3},
    {"[\"\xf4\x90\x80\x80\"]", 1, 3},
    {"[\"\xe2\x82\"]", 1, 3},
    {"[1}", 1, 3},
};

/* Exactly nbytes are there, so that a sanitizer sees the byte behind them. */
static bool agrees(const char *text, size_t nbytes, bool *accepted)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t error;
    json_t *ours;
    char *exact = malloc(nbytes ? nbytes : 1);
    memcpy(exact, text, nbytes);
    json_t *theirs = json_loadb(exact, nbytes, flags, &error);
    *accepted = document_parse(exact, nbytes, flags, &ours, &error) == PHASOR_OK;
    const bool same = *accepted ? theirs && json_equal(ours, theirs) : !theirs;
    json_decref(ours);
    json_decref(theirs);
    free(exact);
    return same;
}

Test(document, gives_the_values_that_jansson_gives)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool accepted;
        cr_expect(agrees(texts[i], strlen(texts[i]), &accepted), "%s", texts[i]);
        cr_expect(accepted, "%s", texts[i]);
    }
    json_t *json;
    json_error_t error;
    cr_assert_eq(document_parse("[\"a\\u0000b\"]", 11, 0, &json, &error), PHASOR_ERROR_FILE);
    cr_assert_eq(document_parse("[0.1, -2.5e-3]", 14, 0, &json, &error), PHASOR_OK);
    cr_assert(json_real_value(json_array_get(json, 0)) == 0.1);
    cr_assert(json_real_value(json_array_get(json, 1)) == -2.5e-3);
    json_decref(json);
    ASSERT_NO_LEAKS();
}

Test(document, says_where_a_mistake_is)
{
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *text = wrong[i].text;
        json_error_t error = {0};
        json_t *json;
        cr_expect_eq(document_parse(text, strlen(text), JSON_REJECT_DUPLICATES, &json, &error),
                     PHASOR_ERROR_FILE, "%s", text);
        cr_expect(error.line == wrong[i].line && error.column == wrong[i].column, "%s: %d:%d %s",
                  text, error.line, error.column, error.text);
        cr_expect(*error.text);
        cr_expect_null(json);
    }
    ASSERT_NO_LEAKS();
}

/* Bytes changed, put in and taken out of texts that are right. */
Test(document, agrees_with_jansson_on_damaged_texts)
{
    static const char bytes[] = "\"\\{}[],:0123456789.eE+-u \n\x80\xc3\xe2\xf4\x01tfnaD";
    uint32_t state = 12345;
    int right = 0, count = 0;
    for (int round = 0; round < 20000; round++) {
        char text[256];
        const char *from = texts[round % (sizeof texts / sizeof *texts)];
        size_t nbytes = strlen(from);
        memcpy(text, from, nbytes);
        for (int change = 0; change < 1 + round % 3; change++) {
            state = state * 1664525 + 1013904223;
            const size_t at = (state >> 8) % nbytes;
            const char byte = bytes[(state >> 20) % (sizeof bytes - 1)];
            if (state & 64) {
                memmove(text + at + 1, text + at, nbytes - at);
                nbytes++;
            }
            text[at] = byte;
        }
        bool accepted;
        cr_assert(agrees(text, nbytes, &accepted), "%.*s", (int)nbytes, text);
        right += accepted;
        count++;
    }
    cr_assert(right > count / 20 && right < count / 2, "%d of %d", right, count);
    ASSERT_NO_LEAKS();
}

/* -- depth and size ---------------------------------------------------------------------------- */

/* [[[...[1,1,1,...]...]]], or as many brackets one after the other. */
static double seconds_of(int depth, int ones, bool nested)
{
    const size_t nbytes = 3 * (size_t)depth + 2 * (size_t)ones + 8;
    char *text = malloc(nbytes), *at = text;
    json_error_t error;
    json_t *json;
    struct timespec begin, end;
    *at++ = '[';
    for (int i = 0; i < depth; i++) {
        *at++ = '[';
        if (!nested)
            *at++ = ']';
        if (!nested)
            *at++ = ',';
    }
    at[0] = '1';
    at++;
    for (int i = 1; i < ones; i++) {
        *at++ = ',';
        *at++ = '1';
    }
    for (int i = 0; nested && i < depth; i++)
        *at++ = ']';
    *at++ = ']';
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    cr_assert_eq(document_parse(text, (size_t)(at - text), 0, &json, &error), PHASOR_OK, "%s",
                 error.text);
    json_decref(json);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    free(text);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

/* Compared with itself: how fast the machine is does not matter. Time of depth x size is 300 times
 * as much. */
Test(document, takes_linear_time)
{
    const int depth = DOCUMENT_DEPTH_MAX - 1, ones = 1000000;
    double flat = 1e9, nested = 1e9;
    for (int i = 0; i < 3; i++) {
        const double one = seconds_of(depth, ones, false), other = seconds_of(depth, ones, true);
        flat = one < flat ? one : flat;
        nested = other < nested ? other : nested;
    }
    cr_assert(nested < 10 * flat, "%g s, flat %g s", nested, flat);
    ASSERT_NO_LEAKS();
}

Test(document, has_a_depth)
{
    char text[2 * DOCUMENT_DEPTH_MAX + 2];
    json_error_t error;
    json_t *json;
    memset(text, '[', DOCUMENT_DEPTH_MAX + 1);
    memset(text + DOCUMENT_DEPTH_MAX + 1, ']', DOCUMENT_DEPTH_MAX + 1);
    cr_assert_eq(document_parse(text, sizeof text, 0, &json, &error), PHASOR_ERROR_FILE);
    cr_assert(strstr(error.text, "2048"), "%s", error.text);
    cr_assert_eq(document_parse(text + 1, sizeof text - 2, 0, &json, &error), PHASOR_OK);
    json_decref(json);
    ASSERT_NO_LEAKS();
}
