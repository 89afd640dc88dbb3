/* pt2_json.c - fields of the JSON documents in a .pt2 file.
 *
 *     pt2_field(p, node, "target", JSON_STRING, &target)
 *     "model.pt2: models/model.json: node mul_3: field \"target\": a string is expected, not null"
 *
 * A document is read by its own rules: fields that are unknown are left alone, those that may be
 * missing are optional.
 */
#include "load/document.h"
#include "load/pt2.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DOCUMENT_MAX = 1 << 30 };

static const char *type_name(json_type type)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number",  [JSON_TRUE] = "a bool",
        [JSON_FALSE] = "a bool",       [JSON_NULL] = "null"};
    return names[type];
}

static void place_print(const struct pt2 *p, char *text, size_t size)
{
    snprintf(text, size, "%.300s: %.200s%s%.200s", p->loader.path, p->entry,
             p->node ? ": node " : "", p->node ? p->node : "");
}

phasor_status pt2_fail(const struct pt2 *p, const char *format, ...)
{
    char text[1024], place[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    place_print(p, place, sizeof place);
    return fail(PHASOR_ERROR_FILE, "%s: %s", place, text);
}

phasor_status pt2_fail_in(const struct pt2 *p, phasor_status status)
{
    if (status == PHASOR_OK || status == PHASOR_ERROR_MEMORY)
        return status;
    char place[768], message[2048];
    const size_t length = strlen(p->loader.path);
    place_print(p, place, sizeof place);
    snprintf(message, sizeof message, "%s", message_get());
    const bool has_path =
        strncmp(message, p->loader.path, length) == 0 && strncmp(message + length, ": ", 2) == 0;
    const char *rest = has_path ? message + length + 2 : message;
    if (has_path && strncmp(rest, p->entry, strlen(p->entry)) == 0)
        return status; /* the place of the node is there already */
    return fail(status == PHASOR_ERROR_REFUSED ? status : PHASOR_ERROR_FILE, "%s: %s", place, rest);
}

static bool type_fits(const json_t *json, json_type type)
{
    return json_typeof(json) == type ||
           (json_is_boolean(json) && (type == JSON_TRUE || type == JSON_FALSE));
}

phasor_status pt2_type(const struct pt2 *p, const json_t *json, const char *what, json_type type)
{
    if (!json)
        return pt2_fail(p, "field \"%s\": %s is expected, but it is missing", what,
                        type_name(type));
    if (!type_fits(json, type))
        return pt2_fail(p, "field \"%s\": %s is expected, not %s", what, type_name(type),
                        type_name(json_typeof(json)));
    return PHASOR_OK;
}

phasor_status pt2_field(const struct pt2 *p, const json_t *object, const char *field,
                        json_type type, const json_t **out)
{
    *out = json_object_get(object, field);
    return pt2_type(p, *out, field, type);
}

phasor_status pt2_optional(const struct pt2 *p, const json_t *object, const char *field,
                           json_type type, const json_t **out)
{
    *out = json_object_get(object, field);
    if (json_is_null(*out))
        *out = NULL;
    return *out ? pt2_type(p, *out, field, type) : PHASOR_OK;
}

phasor_status pt2_string(const struct pt2 *p, const json_t *object, const char *field,
                         const char **out)
{
    const json_t *json;
    TRY(pt2_field(p, object, field, JSON_STRING, &json));
    *out = json_string_value(json);
    return PHASOR_OK;
}

phasor_status pt2_integer(const struct pt2 *p, const json_t *json, const char *what, int64_t *out)
{
    TRY(pt2_type(p, json, what, JSON_INTEGER));
    *out = json_integer_value(json);
    return PHASOR_OK;
}

phasor_status pt2_float(const struct pt2 *p, const json_t *json, const char *what, double *out)
{
    if (json_is_number(json)) {
        *out = json_number_value(json);
        return PHASOR_OK;
    }
    static const struct {
        const char *text;
        double number;
    } specials[] = {{"Infinity", INFINITY}, {"-Infinity", -INFINITY}, {"NaN", NAN}};
    for (size_t i = 0; json_is_string(json) && i < sizeof specials / sizeof *specials; i++)
        if (strcmp(json_string_value(json), specials[i].text) == 0) {
            *out = specials[i].number;
            return PHASOR_OK;
        }
    return pt2_fail(p, "field \"%s\": a number, \"Infinity\", \"-Infinity\" or \"NaN\" is expected",
                    what);
}

phasor_status pt2_boolean(const struct pt2 *p, const json_t *json, const char *what, bool *out)
{
    TRY(pt2_type(p, json, what, JSON_TRUE));
    *out = json_is_true(json);
    return PHASOR_OK;
}

phasor_status pt2_union(const struct pt2 *p, const json_t *json, const char *what, const char **tag,
                        const json_t **content)
{
    TRY(pt2_type(p, json, what, JSON_OBJECT));
    void *first = json_object_iter((json_t *)json);
    if (!first || json_object_size(json) != 1)
        return pt2_fail(p, "field \"%s\": an object with exactly one key is expected, not with %zu",
                        what, json_object_size(json));
    *tag = json_object_iter_key(first);
    *content = json_object_iter_value(first);
    return PHASOR_OK;
}

phasor_status pt2_document(struct pt2 *p, const char *entry, json_t **out)
{
    uint64_t nbytes = 0;
    p->entry = entry;
    if (!archive_find(p->archive, entry, &nbytes))
        return pt2_fail(p, "the archive has no such entry");
    if (nbytes > DOCUMENT_MAX)
        return pt2_fail(p, "%" PRIu64 " bytes of JSON; at most %d are read", nbytes, DOCUMENT_MAX);
    if (archive_swells(p->archive, entry))
        return pt2_fail(p,
                        "it unpacks to %" PRIu64 " bytes, which no program's JSON does; save "
                        "it without compression",
                        nbytes);
    char *text = memory_new(nbytes);
    if (!text)
        return fail_memory();
    phasor_status status = archive_read(p->archive, entry, text, nbytes);
    if (status == PHASOR_OK) {
        json_error_t error;
        status = document_parse(text, nbytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, out, &error);
        if (status == PHASOR_ERROR_FILE)
            status = pt2_fail(p, "line %d, column %d: %s", error.line, error.column, error.text);
    }
    memory_free(text);
    return status;
}
