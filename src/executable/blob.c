/* blob.c - see blob.h. */
#include "executable/blob.h"

#include <string.h>

int64_t blob_number(struct blob_reader *reader, int64_t low, int64_t high)
{
    int64_t number = 0;
    if (reader->bad || reader->left < sizeof number) {
        reader->bad = true;
        return 0;
    }
    memcpy(&number, reader->at, sizeof number);
    reader->at += sizeof number;
    reader->left -= sizeof number;
    if (number >= low && number <= high)
        return number;
    reader->bad = true;
    return 0;
}

const char *blob_bytes(struct blob_reader *reader, size_t *nbytes)
{
    *nbytes = (size_t)blob_number(reader, 0, (int64_t)reader->left);
    if (reader->bad || *nbytes > reader->left) {
        reader->bad = true;
        return NULL;
    }
    char *copy = arena_new(reader->arena, *nbytes + 1);
    if (!copy) {
        reader->bad = reader->no_memory = true;
        return NULL;
    }
    if (*nbytes)
        memcpy(copy, reader->at, *nbytes);
    reader->at += *nbytes;
    reader->left -= *nbytes;
    return copy;
}

void *blob_array(struct blob_reader *reader, int64_t count, size_t size)
{
    if (reader->bad || count < 0 || (size_t)count > reader->left / sizeof(int64_t)) {
        reader->bad = true;
        return NULL;
    }
    void *array = arena_new_array(reader->arena, size, (size_t)count);
    if (!array)
        reader->bad = reader->no_memory = true;
    return array;
}
