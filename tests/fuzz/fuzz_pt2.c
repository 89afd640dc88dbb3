/* fuzz_pt2.c - .pt2 files as they are: the zip archive, its entries, weights.
 *
 * The mutator unpacks the archive, changes, doubles, renames or removes one entry and packs it
 * again with right checksums; one time in four it changes the archive's own bytes.
 */
#include "json_mutate.h"
#include "zip_write.h"

#include "load/load.h"

#include <zip.h>

enum { ENTRIES_MOST = 24, ENTRY_MOST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct loaded_program p;
    char *copy = malloc(nbytes ? nbytes : 1);
    EXPECT(copy);
    if (nbytes)
        memcpy(copy, bytes, nbytes);
    const phasor_status status = load_pt2_memory(copy, nbytes, "m.pt2", NULL, &p);
    free(copy);
    expect_file_status(status);
    if (status == PHASOR_OK) {
        EXPECT(graph_verify(&p.graph) == PHASOR_OK);
        load_free(&p);
    }
    return 0;
}

struct entry {
    char name[128];
    uint8_t bytes[ENTRY_MOST];
    size_t nbytes;
};

static bool entry_read(zip_t *zip, zip_uint64_t index, struct entry *entry)
{
    const char *name = zip_get_name(zip, index, 0);
    zip_file_t *file = name ? zip_fopen_index(zip, index, 0) : NULL;
    if (!file)
        return false;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    const zip_int64_t got = zip_fread(file, entry->bytes, ENTRY_MOST);
    entry->nbytes = got > 0 ? (size_t)got : 0;
    zip_fclose(file);
    return true;
}

static int entries_read(const uint8_t *bytes, size_t nbytes, struct entry *entries)
{
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(bytes, nbytes, 0, &error);
    zip_t *zip = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    zip_error_fini(&error);
    if (!zip) {
        zip_source_free(source);
        return 0;
    }
    int count = 0;
    const zip_int64_t total = zip_get_num_entries(zip, 0);
    for (zip_int64_t i = 0; i < total && count < ENTRIES_MOST; i++)
        count += entry_read(zip, (zip_uint64_t)i, &entries[count]);
    zip_discard(zip);
    return count;
}

static void entry_change(struct entry *entry, unsigned seed)
{
    const size_t length = strlen(entry->name);
    if (seed % 8 == 0) { /* another name */
        const size_t changed =
            LLVMFuzzerMutate((uint8_t *)entry->name, length, sizeof entry->name - 1);
        entry->name[changed] = '\0';
        return;
    }
    const bool is_json = length > 5 && strcmp(entry->name + length - 5, ".json") == 0;
    const size_t changed =
        is_json && seed % 8 > 2 ? json_mutate(entry->bytes, entry->nbytes, ENTRY_MOST, seed) : 0;
    entry->nbytes = changed ? changed : LLVMFuzzerMutate(entry->bytes, entry->nbytes, ENTRY_MOST);
}

static size_t archive_pack(const struct entry *entries, int count, uint8_t *bytes, size_t room)
{
    struct zip_part parts[ENTRIES_MOST + 1];
    for (int i = 0; i < count; i++)
        parts[i] = (struct zip_part){entries[i].name, entries[i].bytes, entries[i].nbytes};
    struct zip_bytes zip = zip_write(parts, count);
    const size_t nbytes = zip.count <= room ? zip.count : 0;
    memcpy(bytes, zip.at, nbytes);
    free(zip.at);
    return nbytes;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t room, unsigned seed)
{
    static struct entry entries[ENTRIES_MOST + 1];
    int count = seed % 4 ? entries_read(bytes, nbytes, entries) : 0;
    if (count == 0)
        return LLVMFuzzerMutate(bytes, nbytes, room);
    const int which = (int)(seed / 4 % (unsigned)count);
    if (seed / 128 % 16 == 0) /* an entry less */
        entries[which] = entries[--count];
    else if (seed / 128 % 16 == 1 && count < ENTRIES_MOST) /* one twice */
        entries[count++] = entries[which];
    else
        entry_change(&entries[which], seed / 128);
    const size_t changed = archive_pack(entries, count, bytes, room);
    return changed ? changed : LLVMFuzzerMutate(bytes, nbytes, room);
}
