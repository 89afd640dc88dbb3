/* document.c - see document.h.
 *
 * jansson does not survive an allocation that fails: its lexer goes on without the byte for which
 * there was no room, which gives another string, or, when the byte was the closing quote, reads
 * beyond the block. So no failure is shown to it: its allocator, wrapped here, leaves the parser by
 * longjmp, and what the parser had is freed from a list. Other uses of jansson in the process, and
 * other threads, get what they had before.
 */
#include "load/document.h"

#include "base/memory.h"

#include <pthread.h>
#include <setjmp.h>

/* One parse of this thread, and its blocks in the order in which they were asked for (NULL: freed).
 */
struct parse {
    jmp_buf out_of_memory;
    ARRAY(void *) blocks;
};

static json_malloc_t outer_malloc;
static json_free_t outer_free;
static _Thread_local struct parse *active;

static void *block_new(size_t nbytes)
{
    struct parse *parse = active;
    void *block = outer_malloc(nbytes);
    if (!parse)
        return block;
    if (!block)
        longjmp(parse->out_of_memory, 1);
    if (!array_push(&parse->blocks, block)) {
        outer_free(block);
        longjmp(parse->out_of_memory, 1);
    }
    return block;
}

/* What is freed during a parse was made late in it: the search from the end is short. */
static void block_free(void *block)
{
    struct parse *parse = active;
    outer_free(block);
    if (!parse || !block)
        return;
    size_t at = parse->blocks.count;
    while (at > 0 && parse->blocks.at[at - 1] != block)
        at--;
    if (at > 0)
        parse->blocks.at[at - 1] = NULL;
    while (parse->blocks.count > 0 && !parse->blocks.at[parse->blocks.count - 1])
        parse->blocks.count--;
}

static void allocator_wrap(void)
{
    json_get_alloc_funcs(&outer_malloc, &outer_free);
    json_set_alloc_funcs(block_new, block_free);
}

/* This code may be unloaded, jansson stay. */
__attribute__((destructor)) static void allocator_unwrap(void)
{
    json_malloc_t now_malloc = NULL;
    json_free_t now_free = NULL;
    json_get_alloc_funcs(&now_malloc, &now_free);
    if (now_malloc == block_new)
        json_set_alloc_funcs(outer_malloc, outer_free);
}

static void blocks_free(struct parse *parse)
{
    for (size_t i = 0; i < parse->blocks.count; i++)
        if (parse->blocks.at[i])
            outer_free(parse->blocks.at[i]);
}

phasor_status document_parse(const char *text, size_t nbytes, size_t flags, json_t **out,
                             json_error_t *error)
{
    static pthread_once_t wrapped = PTHREAD_ONCE_INIT;
    struct parse parse = {0};
    volatile phasor_status status = PHASOR_OK; /* outlives the jump */
    *out = NULL;
    pthread_once(&wrapped, allocator_wrap);
    if (setjmp(parse.out_of_memory) == 0) {
        active = &parse;
        *out = json_loadb(text, nbytes, flags, error);
        active = NULL;
        if (!*out)
            status = PHASOR_ERROR_FILE;
    } else {
        active = NULL;
        blocks_free(&parse);
        status = fail_memory();
    }
    array_free(&parse.blocks);
    return status;
}
