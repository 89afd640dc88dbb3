/* hash.h - XXH3-128, of one block or of a sequence of fields.
 *
 * A key of several fields is built with lengths before them, so that ("ab", "c") and ("a", "bc")
 * differ.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t low, high;
};
enum { HASH_TEXT = 33 }; /* 32 hex digits and the NUL */

struct hash hash_bytes(const void *bytes, size_t nbytes);
void hash_text(struct hash hash, char text[HASH_TEXT]);
static inline int hash_equal(struct hash a, struct hash b)
{
    return a.low == b.low && a.high == b.high;
}
