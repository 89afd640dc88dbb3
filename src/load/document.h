/* document.h - JSON text to jansson's values.
 *
 *     document_parse("{\"a\": [1]}", 10, flags, &json, &error)
 *         ->  PHASOR_OK and json, to be freed by json_decref;
 *             PHASOR_ERROR_FILE, and error has line, column and text: the caller writes the
 *             message;
 *             PHASOR_ERROR_MEMORY, with its message
 */
#pragma once
#include "base/status.h"

#include <jansson.h>

enum { DOCUMENT_DEPTH_MAX = 2048 };

/* An object or an array, with nothing behind it. A key given twice is an error; so is \u0000,
 * except in strings with JSON_ALLOW_NUL in the flags. */
phasor_status document_parse(const char *text, size_t nbytes, size_t flags, json_t **out,
                             json_error_t *error);
