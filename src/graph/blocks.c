/* blocks.c - see blocks.h. */
#include "graph/blocks.h"

#include <string.h>

static const char MARK[] = "# >>> ";

const char *graph_block_first(const char *text)
{
    while (*text && strncmp(text, MARK, sizeof MARK - 1) != 0) {
        const char *end = strchr(text, '\n');
        text = end ? end + 1 : text + strlen(text);
    }
    return text;
}

/* The line's name is `name`, blanks at its end aside. */
static bool block_is(const char *name_at, size_t length, const char *name)
{
    while (length && strchr(" \t\r", name_at[length - 1]))
        length--;
    return length == strlen(name) && memcmp(name_at, name, length) == 0;
}

bool graph_block_find(const char *text, const char *name, const char **start, size_t *length)
{
    for (text = graph_block_first(text); *text; text = graph_block_first(text)) {
        text += sizeof MARK - 1;
        const size_t line = strcspn(text, "\n");
        const bool found = block_is(text, line, name);
        text += line + (text[line] == '\n');
        if (found) {
            *start = text;
            *length = (size_t)(graph_block_first(text) - text);
            return true;
        }
    }
    return false;
}
