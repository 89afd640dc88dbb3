/* document.h - JSON text to jansson's values, with memory that may run out at any place.
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

phasor_status document_parse(const char *text, size_t nbytes, size_t flags, json_t **out,
                             json_error_t *error);
