/* memory.c - see memory.h. Blocks of an arena double in size up to 1 MiB; a larger request gets a
 * block of its own. */
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_FIRST = 4096, BLOCK_LARGEST = 1 << 20, ALIGNMENT = 16 };

struct arena_block {
    struct arena_block *next;
    size_t nbytes;
};
_Static_assert(sizeof(struct arena_block) % ALIGNMENT == 0,
               "the first object of a block is aligned");

static struct memory_hooks hooks;

void memory_set_hooks(const struct memory_hooks *new_hooks)
{
    hooks = new_hooks ? *new_hooks : (struct memory_hooks){0};
}

void *memory_resize(void *block, size_t nbytes)
{
    if (nbytes == 0)
        nbytes = 1;
    return hooks.resize ? hooks.resize(hooks.context, block, nbytes) : realloc(block, nbytes);
}

void *memory_new(size_t nbytes)
{
    if (!hooks.resize)
        return calloc(1, nbytes ? nbytes : 1);
    void *block = memory_resize(NULL, nbytes);
    if (block)
        memset(block, 0, nbytes);
    return block;
}

void memory_free(void *block)
{
    if (!block)
        return;
    if (hooks.free)
        hooks.free(hooks.context, block);
    else
        free(block);
}

static bool block_add(struct arena *arena, size_t nbytes)
{
    size_t room = arena->total < BLOCK_FIRST ? BLOCK_FIRST : arena->total;
    if (room > BLOCK_LARGEST)
        room = BLOCK_LARGEST;
    if (room < nbytes)
        room = nbytes;
    struct arena_block *block = memory_new(sizeof *block + room);
    if (!block)
        return false;
    block->next = arena->blocks;
    block->nbytes = room;
    arena->blocks = block;
    arena->used = 0;
    arena->room = room;
    arena->total += room;
    return true;
}

void *arena_new(struct arena *arena, size_t nbytes)
{
    if (nbytes > SIZE_MAX / 2)
        return NULL;
    nbytes = (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    /* Also the first 0 bytes need a block to point into. */
    if ((!arena->blocks || nbytes > arena->room - arena->used) && !block_add(arena, nbytes))
        return NULL;
    void *result = (char *)(arena->blocks + 1) + arena->used;
    arena->used += nbytes;
    return result;
}

void *arena_new_array(struct arena *arena, size_t size, size_t count)
{
    if (count > SIZE_MAX / 2 / size)
        return NULL;
    return arena_new(arena, size * count);
}

void *arena_copy(struct arena *arena, const void *bytes, size_t nbytes)
{
    void *copy = arena_new(arena, nbytes);
    if (copy && nbytes)
        memcpy(copy, bytes, nbytes);
    return copy;
}

char *arena_string(struct arena *arena, const char *string)
{
    return arena_copy(arena, string, strlen(string) + 1);
}

char *arena_format(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int needed = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *result = needed < 0 ? NULL : arena_new(arena, (size_t)needed + 1);
    if (!result)
        return NULL;
    va_start(arguments, format);
    vsnprintf(result, (size_t)needed + 1, format, arguments);
    va_end(arguments);
    return result;
}

void arena_free(struct arena *arena)
{
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        memory_free(arena->blocks);
        arena->blocks = next;
    }
    *arena = (struct arena){0};
}

bool array_room(void **at, size_t *capacity, size_t count, size_t size)
{
    if (count <= *capacity)
        return true;
    size_t room = *capacity ? *capacity * 2 : 8;
    if (room < count)
        room = count;
    if (room > SIZE_MAX / 2 / size)
        return false;
    void *grown = memory_resize(*at, room * size);
    if (!grown)
        return false;
    *at = grown;
    *capacity = room;
    return true;
}
