/* memory.h - all host memory of Phasor: one replaceable allocator, and arenas on top of it.
 *
 * An arena hands out zeroed memory and gives all of it back at once. A program has one, a
 * specialisation has one. Every function here returns NULL when memory is out; callers turn that
 * into fail_memory().
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The allocator; set before anything else is called (phasor_options.allocator). NULL functions mean
 * malloc and so on. */
struct memory_hooks {
    void *(*resize)(void *context, void *block, size_t nbytes); /* as realloc; nbytes > 0 */
    void (*free)(void *context, void *block);
    void *context;
};
void memory_set_hooks(const struct memory_hooks *hooks);

void *memory_new(size_t nbytes);                 /* zeroed; 0 bytes are allowed */
void *memory_resize(void *block, size_t nbytes); /* as realloc, not zeroed */
void memory_free(void *block);                   /* NULL is fine */

struct arena {
    struct arena_block *blocks;
    size_t used, room; /* of the newest block */
    size_t total;      /* bytes of all blocks */
};

void *arena_new(struct arena *arena, size_t nbytes); /* zeroed, aligned to 16 */
void *arena_copy(struct arena *arena, const void *bytes, size_t nbytes);
char *arena_string(struct arena *arena, const char *string);
char *arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void arena_free(struct arena *arena); /* leaves an empty arena */

/* count objects of a type, overflow-checked */
#define NEW(arena, type, count) ((type *)arena_new_array((arena), sizeof(type), (size_t)(count)))
void *arena_new_array(struct arena *arena, size_t size, size_t count);

/* Growable arrays: ARRAY(int) a = {0};  if (!array_push(&a, 7)) return fail_memory();
 * array_free(&a); */
#define ARRAY(type)             \
    struct {                    \
        type *at;               \
        size_t count, capacity; \
    }
#define array_push(array, ...)                                                 \
    (array_room((void **)&(array)->at, &(array)->capacity, (array)->count + 1, \
                sizeof *(array)->at)                                           \
         ? ((array)->at[(array)->count++] = (__VA_ARGS__), true)               \
         : false)
#define array_free(array) \
    (memory_free((array)->at), (array)->at = NULL, (array)->count = (array)->capacity = 0)
/* Makes room for count elements of the size; false when memory is out (the array is unchanged). */
bool array_room(void **at, size_t *capacity, size_t count, size_t size);
