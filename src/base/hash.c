/* hash.c - see hash.h. */
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

struct hash hash_bytes(const void *bytes, size_t nbytes)
{
    const XXH128_hash_t h = XXH3_128bits(bytes, nbytes);
    return (struct hash){h.low64, h.high64};
}

void hash_text(struct hash hash, char text[HASH_TEXT])
{
    snprintf(text, HASH_TEXT, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}
