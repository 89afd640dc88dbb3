/* intern.c - see intern.h. */
#include "base/intern.h"

#include "base/memory.h"

enum { FIRST_SIZE = 256 };

bool intern_room(struct intern *table, size_t count, intern_hash *hash, const void *pool)
{
    if (count * 2 < table->size)
        return true;
    struct intern grown = {.size = table->size ? table->size * 2 : FIRST_SIZE};
    grown.at = memory_new(grown.size * sizeof *grown.at);
    if (!grown.at)
        return false;
    for (uint32_t number = 0; number < count; number++) {
        size_t slot = intern_slot(&grown, hash(pool, number));
        while (grown.at[slot])
            slot = intern_next(&grown, slot);
        grown.at[slot] = number + 1;
    }
    intern_free(table);
    *table = grown;
    return true;
}

void intern_free(struct intern *table)
{
    memory_free(table->at);
    *table = (struct intern){0};
}
