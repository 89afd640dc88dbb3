/* string_map.c - see string_map.h. Open addressing, at most half full. */
#include "load/string_map.h"

#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

enum { SIZE_FIRST = 64 };

/* The slot of the key, or the free one where it would be. */
static size_t slot_of(const char *const *keys, size_t size, const char *key)
{
    size_t slot = hash_bytes(key, strlen(key)).low & (size - 1);
    while (keys[slot] && strcmp(keys[slot], key) != 0)
        slot = (slot + 1) & (size - 1);
    return slot;
}

static bool map_grow(struct string_map *map)
{
    const size_t size = map->size ? map->size * 2 : SIZE_FIRST;
    const char **keys = memory_new(size * sizeof *keys);
    uint32_t *numbers = memory_new(size * sizeof *numbers);
    if (!keys || !numbers) {
        memory_free(keys);
        memory_free(numbers);
        return false;
    }
    for (size_t i = 0; i < map->size; i++)
        if (map->keys[i]) {
            const size_t slot = slot_of(keys, size, map->keys[i]);
            keys[slot] = map->keys[i];
            numbers[slot] = map->numbers[i];
        }
    memory_free(map->keys);
    memory_free(map->numbers);
    *map = (struct string_map){keys, numbers, size, map->count};
    return true;
}

bool string_map_add(struct string_map *map, const char *key, uint32_t number, bool *fresh)
{
    if ((map->count + 1) * 2 > map->size && !map_grow(map))
        return false;
    const size_t slot = slot_of(map->keys, map->size, key);
    *fresh = !map->keys[slot];
    if (*fresh) {
        map->keys[slot] = key;
        map->numbers[slot] = number;
        map->count++;
    }
    return true;
}

bool string_map_find(const struct string_map *map, const char *key, uint32_t *number)
{
    if (map->count == 0)
        return false;
    const size_t slot = slot_of(map->keys, map->size, key);
    if (!map->keys[slot])
        return false;
    *number = map->numbers[slot];
    return true;
}

void string_map_free(struct string_map *map)
{
    memory_free(map->keys);
    memory_free(map->numbers);
    *map = (struct string_map){0};
}
