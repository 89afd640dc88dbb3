/* intern.h - the hash table of a pool that keeps each thing once: from a thing's hash to its
 * number.
 *
 *     for (size_t slot = intern_slot(&t, hash); t.at[slot]; slot = intern_next(&t, slot))
 *         if (equal(pool[t.at[slot] - 1], thing))
 *             return t.at[slot] - 1;                   it is there; otherwise intern_put at slot
 *
 * Whoever owns the pool compares; the table knows numbers alone. There is always a free slot after
 * intern_room.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intern {
    uint32_t *at; /* number + 1; 0: free */
    size_t size;  /* a power of two */
};

typedef uint64_t intern_hash(const void *pool, uint32_t number);

/* Room for one more than `count` things, whose hashes `hash` finds; false when memory is out. */
bool intern_room(struct intern *table, size_t count, intern_hash *hash, const void *pool);
void intern_free(struct intern *table);

static inline size_t intern_slot(const struct intern *table, uint64_t hash)
{
    return hash & (table->size - 1);
}

static inline size_t intern_next(const struct intern *table, size_t slot)
{
    return (slot + 1) & (table->size - 1);
}

/* One more value in a hash; intern_mixed at the end. */
static inline uint64_t intern_mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29);
}

static inline uint64_t intern_mixed(uint64_t hash)
{
    return hash ^ (hash >> 31);
}
