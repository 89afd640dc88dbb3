/* blob.h - numbers and bytes of a row of the cache: written, and read with nothing taken on trust.
 *
 *     text_add_number(out, 3), put_bytes(out, "mul", 3)
 *         ->  3 as 8 bytes, little-endian; 3 and "mul"
 *
 * A reader that finds something wrong stays bad, and gives zeros from there on. */
#pragma once
#include "base/memory.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline void put_bytes(struct text *out, const void *bytes, size_t nbytes)
{
    text_add_number(out, (int64_t)nbytes);
    text_add_bytes(out, bytes, nbytes);
}

struct blob_reader {
    struct arena *arena; /* of what is read */
    const char *at;
    size_t left;
    bool bad, no_memory;
};

/* A number in low..high. */
int64_t blob_number(struct blob_reader *reader, int64_t low, int64_t high);
/* A copy with a NUL behind it. */
const char *blob_bytes(struct blob_reader *reader, size_t *nbytes);
/* count objects of which each takes at least 8 bytes of what is left: a wrong count cannot ask for
 * much memory. */
void *blob_array(struct blob_reader *reader, int64_t count, size_t size);

/* -- structs by tables ------------------------------------------------------------------------- */

enum blob_type { BLOB_BOOL, BLOB_INT, BLOB_UINT32, BLOB_INT64, BLOB_STRING, BLOB_BYTES };

/* One row a field: the same table writes and reads. Enums are INT. A highest value that depends on
 * what was read before is limits[limit] of the reader. STRING: a const char * with its NUL; BYTES: a
 * const void *, followed by its size_t. */
struct blob_field {
    enum blob_type type;
    size_t offset;
    int64_t low, high;
    int limit; /* 0: `high` */
};

void blob_put(struct text *out, const struct blob_field *fields, int count, const void *object);
void blob_get(struct blob_reader *reader, const struct blob_field *fields, int count,
              const int64_t *limits, void *object);
