/* json.h - writes one JSON document to a stream, a value after the other; commas and quotes are its
 * business.
 *
 *     struct json json = {stdout};
 *     json_open(&json, NULL, '{');                            {
 *     json_integer(&json, "kernels", 1);                       "kernels": 1,
 *     json_open(&json, "outputs", '[');                        "outputs": [
 *     json_close(&json, ']');                                  ]
 *     json_close(&json, '}');                                 }
 *
 * The key is NULL for what stands in an array and for the document itself.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    int depth;
    bool filled; /* something stands before, at this depth */
};

void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket); /* the last one ends the line */
void json_string(struct json *json, const char *key, const char *value); /* NULL becomes null */
void json_integer(struct json *json, const char *key, int64_t value);
void json_real(struct json *json, const char *key,
               double value); /* "nan", "inf" and "-inf" are strings */
void json_bool(struct json *json, const char *key, bool value);
void json_integers(struct json *json, const char *key, const int64_t *values, int count);
