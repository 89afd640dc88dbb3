/* json_mutate.h - changes of a JSON document that leave it one: values move, double, vanish, become
 * special numbers or others of the document, strings change inside.
 *
 *     {"dim": {"as_int": 1}, "dtype": 7}  ->  {"dim": {"as_int": -9223372036854775808}, "dtype": 7}
 */
#pragma once
#include "fuzz.h"

#include <jansson.h>

struct json_place {
    json_t *container;
    const char *key; /* objects */
    size_t index;    /* arrays */
    json_t *content;
};

struct json_places {
    struct json_place *at;
    size_t count, room;
    unsigned random;
};

static inline unsigned json_random(struct json_places *places, size_t limit)
{
    places->random = places->random * 1664525 + 1013904223;
    return limit ? (places->random >> 8) % (unsigned)limit : 0;
}

static inline void json_place_add(struct json_places *places, struct json_place place)
{
    if (places->count == places->room) {
        places->room = places->room ? 2 * places->room : 256;
        places->at = realloc(places->at, places->room * sizeof *places->at);
        EXPECT(places->at);
    }
    places->at[places->count++] = place;
}

static inline void json_places_find(struct json_places *places, json_t *json)
{
    const char *key;
    json_t *item;
    size_t index;
    json_object_foreach(json, key, item)
    {
        json_place_add(places, (struct json_place){json, key, 0, item});
        json_places_find(places, item);
    }
    json_array_foreach(json, index, item)
    {
        json_place_add(places, (struct json_place){json, NULL, index, item});
        json_places_find(places, item);
    }
}

/* Takes the content. */
static inline void json_place_set(const struct json_place *place, json_t *content)
{
    if (place->key)
        json_object_set_new(place->container, place->key, content);
    else
        json_array_set_new(place->container, place->index, content);
}

static inline json_t *json_number_special(struct json_places *places)
{
    static const json_int_t numbers[] = {0,         1,         2,          -1,        -2,
                                         3,         7,         16,         17,        64,
                                         INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN,
                                         1L << 31,  1L << 62,  1L << 40,   1000000,   -100};
    static const double reals[] = {0.5, -0.0, 1e308, 1e-320, -3};
    const unsigned which = json_random(places, 8);
    if (which == 0)
        return json_real(reals[json_random(places, sizeof reals / sizeof *reals)]);
    if (which == 1)
        return json_null();
    if (which == 2)
        return json_boolean(json_random(places, 2));
    return json_integer(numbers[json_random(places, sizeof numbers / sizeof *numbers)]);
}

static inline json_t *json_string_changed(const char *string)
{
    uint8_t text[512];
    size_t length = strlen(string);
    length = length < sizeof text - 64 ? length : sizeof text - 64;
    memcpy(text, string, length);
    length = LLVMFuzzerMutate(text, length, sizeof text - 1);
    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            text[i] = (uint8_t)(0x20 + text[i] % 0x5f);
    return json_stringn((const char *)text, length);
}

static inline json_t *json_scalar_changed(struct json_places *places, const json_t *json)
{
    if (json_is_string(json) && json_random(places, 4))
        return json_string_changed(json_string_value(json));
    if (json_is_integer(json) && json_random(places, 2))
        return json_integer(
            (json_int_t)((uint64_t)json_integer_value(json) + json_random(places, 9) - 4));
    return json_number_special(places);
}

static inline void json_place_remove(const struct json_place *place)
{
    if (place->key)
        json_object_del(place->container, place->key);
    else
        json_array_remove(place->container, place->index);
}

/* One value of the document at another's place, preferably one of the same kind. */
static inline void json_place_copy(struct json_places *places, const struct json_place *place)
{
    const struct json_place *other = &places->at[json_random(places, places->count)];
    for (int tries = 0; tries < 16; tries++) {
        const bool same_key = place->key && other->key && strcmp(place->key, other->key) == 0;
        if (same_key || (!place->key && !other->key))
            break;
        other = &places->at[json_random(places, places->count)];
    }
    json_place_set(place, json_deep_copy(other->content));
}

static inline void json_change(struct json_places *places, json_t *document)
{
    places->count = 0;
    json_places_find(places, document);
    if (places->count == 0)
        return;
    const struct json_place place = places->at[json_random(places, places->count)];
    const unsigned which = json_random(places, 12);
    if (which == 0)
        json_place_remove(&place);
    else if (which < 3 && json_is_array(place.container))
        json_array_insert_new(place.container, json_random(places, 3) ? place.index : 0,
                              json_deep_copy(place.content));
    else if (which < 6 || json_is_object(place.content) || json_is_array(place.content))
        json_place_copy(places, &place);
    else
        json_place_set(&place, json_scalar_changed(places, place.content));
}

/* The new size; 0 when the bytes are no JSON or the result does not fit. */
static inline size_t json_mutate(uint8_t *bytes, size_t nbytes, size_t room, unsigned seed)
{
    struct json_places places = {.random = seed};
    json_t *document = json_loadb((const char *)bytes, nbytes, 0, NULL);
    if (!document)
        return 0;
    for (unsigned i = 0; i <= seed / 7 % 3; i++)
        json_change(&places, document);
    size_t length = json_dumpb(document, (char *)bytes, room, JSON_COMPACT);
    if (length > room) {
        length = 0;
    }
    json_decref(document);
    free(places.at);
    return length;
}
