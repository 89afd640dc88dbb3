/* zip_write.h - a zip archive of stored entries, made without libzip so that it costs nothing.
 *
 *     {"m/byteorder", "little", 6}, ... -> the archive's bytes, checksums right
 */
#pragma once
#include "fuzz.h"

struct zip_part {
    const char *name;
    const void *bytes;
    size_t nbytes;
};

struct zip_bytes {
    uint8_t *at;
    size_t count, room;
};

static inline uint32_t zip_checksum(const uint8_t *bytes, size_t nbytes)
{
    static uint32_t table[256];
    uint32_t sum = 0xffffffff;
    for (uint32_t i = 0; !table[255] && i < 256; i++) {
        uint32_t row = i;
        for (int bit = 0; bit < 8; bit++)
            row = row >> 1 ^ (row & 1 ? 0xedb88320 : 0);
        table[i] = row;
    }
    for (size_t i = 0; i < nbytes; i++)
        sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 255];
    return ~sum;
}

static inline void zip_put(struct zip_bytes *zip, const void *bytes, size_t nbytes)
{
    if (zip->count + nbytes > zip->room) {
        zip->room = 2 * (zip->count + nbytes);
        zip->at = realloc(zip->at, zip->room);
        EXPECT(zip->at);
    }
    if (nbytes)
        memcpy(zip->at + zip->count, bytes, nbytes);
    zip->count += nbytes;
}

static inline void zip_number(struct zip_bytes *zip, uint32_t number, size_t nbytes)
{
    zip_put(zip, &number, nbytes); /* little-endian, as the machines that this runs on */
}

/* Time, checksum, sizes and lengths, which both headers have. */
static inline void zip_facts(struct zip_bytes *zip, const struct zip_part *part)
{
    zip_number(zip, 0, 4); /* flags, stored */
    zip_number(zip, 0x21 << 16, 4);
    zip_number(zip, zip_checksum(part->bytes, part->nbytes), 4);
    zip_number(zip, (uint32_t)part->nbytes, 4);
    zip_number(zip, (uint32_t)part->nbytes, 4);
    zip_number(zip, (uint32_t)strlen(part->name), 4); /* no extra field */
}

/* Free zip.at with free(). */
static inline struct zip_bytes zip_write(const struct zip_part *parts, int count)
{
    struct zip_bytes zip = {0};
    uint32_t places[64];
    EXPECT(count <= 64);
    for (int i = 0; i < count; i++) {
        places[i] = (uint32_t)zip.count;
        zip_put(&zip, "PK\3\4\x14\0", 6);
        zip_facts(&zip, &parts[i]);
        zip_put(&zip, parts[i].name, strlen(parts[i].name));
        zip_put(&zip, parts[i].bytes, parts[i].nbytes);
    }
    const uint32_t directory = (uint32_t)zip.count;
    for (int i = 0; i < count; i++) {
        zip_put(&zip, "PK\1\2\x14\0\x14\0", 8);
        zip_facts(&zip, &parts[i]);
        zip_put(&zip, "\0\0\0\0\0\0\0\0\0\0", 10); /* comment, disk, attributes */
        zip_number(&zip, places[i], 4);
        zip_put(&zip, parts[i].name, strlen(parts[i].name));
    }
    const uint32_t size = (uint32_t)zip.count - directory;
    zip_put(&zip, "PK\5\6\0\0\0\0", 8);
    zip_number(&zip, (uint32_t)(count | count << 16), 4);
    zip_number(&zip, size, 4);
    zip_number(&zip, directory, 4);
    zip_number(&zip, 0, 2);
    return zip;
}
