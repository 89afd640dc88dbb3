/* cubin.c - see cubin.h.
 *
 *     section .nv.info: records (format 4, attribute, size, {symbol, value})
 *         0x2f {8, 24}   the kernel with symbol 8 has 24 registers
 *         0x11 {8, 0}    and a frame of no bytes
 *     section .nv.shared.NAME: its size is the shared memory of NAME
 */
#include "compile/cubin.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

enum { FORMAT_SIZED = 4, ATTRIBUTE_FRAME = 0x11, ATTRIBUTE_REGISTERS = 0x2f };

struct image {
    const char *bytes;
    size_t nbytes;
    Elf64_Ehdr header;
};

static bool image_read(const struct image *image, uint64_t at, void *out, size_t nbytes)
{
    if (at > image->nbytes || nbytes > image->nbytes - at)
        return false;
    memcpy(out, image->bytes + at, nbytes);
    return true;
}

static bool image_open(struct image *image, const void *cubin, size_t nbytes)
{
    *image = (struct image){.bytes = cubin, .nbytes = nbytes};
    return image_read(image, 0, &image->header, sizeof image->header) &&
           memcmp(image->header.e_ident, ELFMAG, SELFMAG) == 0 &&
           image->header.e_shentsize == sizeof(Elf64_Shdr);
}

static bool section_read(const struct image *image, unsigned index, Elf64_Shdr *out)
{
    const uint64_t at = image->header.e_shoff + (uint64_t)index * sizeof *out;
    return index < image->header.e_shnum && image_read(image, at, out, sizeof *out);
}

/* A string of a string section; "" when it does not end inside the image. */
static const char *string_at(const struct image *image, unsigned section, uint64_t offset)
{
    Elf64_Shdr strings;
    if (!section_read(image, section, &strings) || offset >= strings.sh_size ||
        strings.sh_offset > image->nbytes || strings.sh_size > image->nbytes - strings.sh_offset)
        return "";
    const char *string = image->bytes + strings.sh_offset + offset;
    return memchr(string, '\0', strings.sh_size - offset) ? string : "";
}

static bool section_find(const struct image *image, const char *prefix, const char *name,
                         Elf64_Shdr *out)
{
    const size_t length = strlen(prefix);
    for (unsigned i = 0; section_read(image, i, out); i++) {
        const char *found = string_at(image, image->header.e_shstrndx, out->sh_name);
        if (strncmp(found, prefix, length) == 0 && strcmp(found + length, name) == 0)
            return true;
    }
    return false;
}

/* The name of a symbol of the table that belongs to the info section. */
static const char *symbol_name(const struct image *image, const Elf64_Shdr *info, uint32_t index)
{
    Elf64_Shdr table;
    Elf64_Sym symbol;
    if (!section_read(image, info->sh_link, &table) || index >= table.sh_size / sizeof symbol)
        return "";
    const uint64_t at = table.sh_offset + (uint64_t)index * sizeof symbol;
    if (!image_read(image, at, &symbol, sizeof symbol))
        return "";
    return string_at(image, table.sh_link, symbol.st_name);
}

static bool info_read(const struct image *image, const Elf64_Shdr *info, const char *kernel,
                      struct cubin_resources *out)
{
    struct {
        uint8_t format, attribute;
        uint16_t nbytes;
    } record;
    uint32_t pair[2];
    bool found = false;
    uint64_t step;
    for (uint64_t at = 0; at < info->sh_size; at += step) {
        if (!image_read(image, info->sh_offset + at, &record, sizeof record))
            return false;
        step = sizeof record + (record.format == FORMAT_SIZED ? record.nbytes : 0);
        if (record.format != FORMAT_SIZED || record.nbytes != sizeof pair ||
            (record.attribute != ATTRIBUTE_REGISTERS && record.attribute != ATTRIBUTE_FRAME))
            continue;
        if (!image_read(image, info->sh_offset + at + sizeof record, pair, sizeof pair))
            return false;
        if (strcmp(symbol_name(image, info, pair[0]), kernel) != 0)
            continue;
        *(record.attribute == ATTRIBUTE_FRAME ? &out->local_bytes : &out->registers) = (int)pair[1];
        found = true;
    }
    return found;
}

bool cubin_resources(const void *cubin, size_t nbytes, const char *kernel,
                     struct cubin_resources *out)
{
    struct image image;
    Elf64_Shdr section;
    *out = (struct cubin_resources){0};
    if (!image_open(&image, cubin, nbytes) || !section_find(&image, ".nv.info", "", &section) ||
        !info_read(&image, &section, kernel, out))
        return false;
    if (section_find(&image, ".nv.shared.", kernel, &section))
        out->shared_bytes = (int)section.sh_size;
    return true;
}
