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

/* -- structs by tables ------------------------------------------------------------------------- */

static int64_t field_number(const struct blob_field *field, const char *at)
{
    switch (field->type) {
    case BLOB_BOOL: return *(const bool *)at;
    case BLOB_INT: return *(const int *)at;
    case BLOB_UINT32: return *(const uint32_t *)at;
    default: return *(const int64_t *)at;
    }
}

void blob_put(struct text *out, const struct blob_field *fields, int count, const void *object)
{
    for (int i = 0; i < count; i++) {
        const char *at = (const char *)object + fields[i].offset;
        if (fields[i].type == BLOB_STRING)
            put_bytes(out, *(const char *const *)at, strlen(*(const char *const *)at));
        else if (fields[i].type == BLOB_BYTES)
            put_bytes(out, *(const void *const *)at, *(const size_t *)(at + sizeof(void *)));
        else
            text_add_number(out, field_number(&fields[i], at));
    }
}

static void field_set(enum blob_type type, int64_t number, char *at)
{
    switch (type) {
    case BLOB_BOOL: *(bool *)at = number != 0; break;
    case BLOB_INT: *(int *)at = (int)number; break;
    case BLOB_UINT32: *(uint32_t *)at = (uint32_t)number; break;
    default: *(int64_t *)at = number; break;
    }
}

void blob_get(struct blob_reader *reader, const struct blob_field *fields, int count,
              const int64_t *limits, void *object)
{
    for (int i = 0; i < count; i++) {
        const struct blob_field *field = &fields[i];
        char *at = (char *)object + field->offset;
        size_t nbytes;
        if (field->type == BLOB_STRING || field->type == BLOB_BYTES)
            *(const void **)at = blob_bytes(reader, &nbytes);
        else
            field_set(
                field->type,
                blob_number(reader, field->low, field->limit ? limits[field->limit] : field->high),
                at);
        if (field->type == BLOB_BYTES)
            *(size_t *)(at + sizeof(void *)) = nbytes;
    }
}
