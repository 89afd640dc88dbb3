/* string_map.h - from strings to numbers. Keys are borrowed: they must outlive the map.
 *
 *     string_map_add(&map, "mul_3", 17, &fresh);
 *     string_map_find(&map, "mul_3", &number);    number is 17
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct string_map {
    const char **keys;
    uint32_t *numbers;
    size_t size, count; /* size: a power of two */
};

/* False when memory is out. *fresh is false when the key was there already; its number is then
 * kept. */
bool string_map_add(struct string_map *map, const char *key, uint32_t number, bool *fresh);
bool string_map_find(const struct string_map *map, const char *key, uint32_t *number);
void string_map_free(struct string_map *map);
