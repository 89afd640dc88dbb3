/* archive.c - see archive.h. The only file that knows libzip.
 *
 * The root folder is not fixed: it is the folder of the entry "archive_format", else that of the
 * first entry. Entries outside of it are left alone. Local headers have no sizes in archives that
 * torch wrote; libzip takes the directory's.
 */
#include "load/archive.h"

#include "base/memory.h"
#include "load/string_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zip.h>

enum {
    ENTRIES_MAX = 4000000,
    NAME_MAX_LENGTH = 4096,
    HEAD_SIZE = 64,
    DEFLATE_RATIO_MAX = 1040, /* what deflate can reach */
    LARGE_RATIO_MAX = 200,    /* for entries over LARGE_SIZE */
    LARGE_SIZE = 1 << 30,
    TEXT_RATIO_MAX = 100, /* for JSON over TEXT_SIZE; real documents reach 60. Entries do not
                              overlap, so all JSON has at most 100 times the archive's bytes */
    TEXT_SIZE = 1 << 20
};

struct entry {
    char *name;        /* with the root */
    const char *below; /* without; NULL when it is outside of the root */
    uint64_t nbytes, packed;
    bool stored, readable; /* readable: neither encrypted nor of a method that is unknown */
};

struct archive {
    char *path;
    zip_t *zip;
    struct entry *entries;
    size_t count;
    struct string_map names; /* whole names */
    size_t root_length;      /* with its slash; 0: none */
    const char *root;
};

#define REEXPORT "export it again with torch.export.save of torch 2.9 or newer"

/* -- what is no archive ------------------------------------------------------------------------ */

static bool head_is_text(const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        if (bytes[i] < 0x20 && bytes[i] != '\n' && bytes[i] != '\r' && bytes[i] != '\t')
            return false;
    return nbytes > 0;
}

const char *archive_describe(const unsigned char *bytes, size_t nbytes)
{
    static const struct {
        const char *head;
        size_t length, at;
        const char *what;
    } kinds[] = {
        {"PK\3\4", 4, 0, "a zip archive that is cut off or damaged"},
        {"PK\5\6", 4, 0, "an empty zip archive"},
        {"\x7f"
         "ELF",
         4, 0, "a shared library or program (an AOTInductor model?)"},
        {"GGUF", 4, 0, "a GGUF file"},
        {"\x89HDF", 4, 0, "an HDF5 file"},
        {"\x80\x02", 2, 0, "a pickle (a checkpoint of torch.save?)"},
        {"\x80\x04", 2, 0, "a pickle"},
        {"\x80\x05", 2, 0, "a pickle"},
        {"\x1f\x8b", 2, 0, "a gzip file"},
        {"\x93NUMPY", 6, 0, "a NumPy array"},
        {"SQLite format", 13, 0, "an SQLite database"},
        {"{", 1, 8, "a safetensors file"},
        {"\x08", 1, 0, "no zip archive (an ONNX model?)"},
    };
    if (nbytes == 0)
        return "an empty file";
    if (head_is_text(bytes, nbytes))
        return "a text file";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (nbytes >= kinds[i].at + kinds[i].length &&
            memcmp(bytes + kinds[i].at, kinds[i].head, kinds[i].length) == 0)
            return kinds[i].what;
    return "no zip archive";
}

static phasor_status fail_no_archive(const char *path, const unsigned char *head, size_t nbytes,
                                     const char *detail)
{
    return fail(PHASOR_ERROR_FILE, "%s: %s, not an exported program (%s); " REEXPORT, path,
                archive_describe(head, nbytes), detail);
}

/* -- the directory ----------------------------------------------------------------------------- */

static phasor_status name_check(const struct archive *a, const char *name)
{
    const size_t length = strlen(name);
    if (length == 0 || length > NAME_MAX_LENGTH)
        return fail(PHASOR_ERROR_FILE,
                    "%s: an entry's name has %zu characters; 1 to %d are allowed", a->path, length,
                    NAME_MAX_LENGTH);
    bool bad = name[0] == '/' || strchr(name, '\\');
    for (const char *part = name; part && !bad;
         part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        bad = strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0');
    return bad ? fail(PHASOR_ERROR_FILE, "%s: entry \"%.200s\" has an unsafe name", a->path, name)
               : PHASOR_OK;
}

static phasor_status entry_init(struct archive *a, zip_uint64_t index, struct entry *entry)
{
    zip_stat_t stat;
    zip_stat_init(&stat);
    const zip_uint64_t needed =
        ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(a->zip, index, ZIP_FL_UNCHANGED, &stat) != 0 ||
        (stat.valid & needed) != needed)
        return fail(PHASOR_ERROR_FILE, "%s: entry %" PRIu64 " of the archive is damaged", a->path,
                    (uint64_t)index);
    TRY(name_check(a, stat.name));
    entry->name = memory_new(strlen(stat.name) + 1);
    if (!entry->name)
        return fail_memory();
    strcpy(entry->name, stat.name);
    entry->nbytes = stat.size;
    entry->packed = stat.comp_size;
    entry->stored = stat.comp_method == ZIP_CM_STORE;
    entry->readable =
        (entry->stored || stat.comp_method == ZIP_CM_DEFLATE) &&
        (!(stat.valid & ZIP_STAT_ENCRYPTION_METHOD) || stat.encryption_method == ZIP_EM_NONE);
    return PHASOR_OK;
}

static phasor_status entry_check(const struct archive *a, const struct entry *entry)
{
    if (entry->stored && entry->readable && entry->nbytes != entry->packed)
        return fail(PHASOR_ERROR_FILE, "%s: entry \"%s\" has two sizes, %" PRIu64 " and %" PRIu64,
                    a->path, entry->name, entry->nbytes, entry->packed);
    if (entry->stored)
        return PHASOR_OK;
    const uint64_t ratio = entry->nbytes / (entry->packed ? entry->packed : 1);
    if (ratio > DEFLATE_RATIO_MAX || (entry->nbytes > LARGE_SIZE && ratio > LARGE_RATIO_MAX))
        return fail(PHASOR_ERROR_FILE,
                    "%s: entry \"%s\" unpacks %" PRIu64 " bytes to %" PRIu64
                    ", which no exported program does; save it without compression",
                    a->path, entry->name, entry->packed, entry->nbytes);
    return PHASOR_OK;
}

/* Entries that overlap would let a small file stand for a huge one. */
static phasor_status sizes_check(const struct archive *a, uint64_t file_size)
{
    uint64_t total = 0;
    for (size_t i = 0; i < a->count; i++) {
        TRY(entry_check(a, &a->entries[i]));
        if (__builtin_add_overflow(total, a->entries[i].packed, &total) || total > file_size)
            return fail(PHASOR_ERROR_FILE,
                        "%s: the entries of the archive have more bytes than the file (%" PRIu64
                        ")",
                        a->path, file_size);
    }
    return PHASOR_OK;
}

static void root_find(struct archive *a)
{
    const char *first = strchr(a->entries[0].name, '/');
    a->root = a->entries[0].name;
    a->root_length = first ? (size_t)(first - a->root) + 1 : 0;
    for (size_t i = 0; i < a->count; i++) {
        const char *slash = strchr(a->entries[i].name, '/');
        if (slash && strcmp(slash, "/archive_format") == 0) {
            a->root = a->entries[i].name;
            a->root_length = (size_t)(slash - a->root) + 1;
            break;
        }
    }
    for (size_t i = 0; i < a->count; i++)
        if (strncmp(a->entries[i].name, a->root, a->root_length) == 0)
            a->entries[i].below = a->entries[i].name + a->root_length;
}

static phasor_status directory_read(struct archive *a, uint64_t file_size)
{
    const zip_int64_t count = zip_get_num_entries(a->zip, ZIP_FL_UNCHANGED);
    if (count <= 0 || count > ENTRIES_MAX)
        return fail(PHASOR_ERROR_FILE,
                    "%s: an archive of %" PRId64 " entries is no exported program; " REEXPORT,
                    a->path, (int64_t)count);
    a->entries = memory_new((size_t)count * sizeof *a->entries);
    if (!a->entries)
        return fail_memory();
    for (; a->count < (size_t)count; a->count++) {
        bool fresh;
        struct entry *entry = &a->entries[a->count];
        TRY(entry_init(a, a->count, entry));
        if (!string_map_add(&a->names, entry->name, (uint32_t)a->count, &fresh)) {
            a->count++;
            return fail_memory();
        }
        if (!fresh) {
            a->count++;
            return fail(PHASOR_ERROR_FILE, "%s: the archive has two entries \"%s\"", a->path,
                        entry->name);
        }
    }
    TRY(sizes_check(a, file_size));
    root_find(a);
    return PHASOR_OK;
}

/* -- opening ----------------------------------------------------------------------------------- */

static struct archive *archive_new(const char *path)
{
    struct archive *a = memory_new(sizeof *a);
    if (a)
        a->path = memory_new(strlen(path) + 1);
    if (a && !a->path) {
        memory_free(a);
        return NULL;
    }
    if (a)
        strcpy(a->path, path);
    return a;
}

/* Takes the source, also when it fails. */
static phasor_status archive_open_source(zip_source_t *source, uint64_t file_size,
                                         const unsigned char *head, size_t head_size,
                                         const char *path, struct archive **out)
{
    struct archive *a = archive_new(path);
    if (!a) {
        zip_source_free(source);
        return fail_memory();
    }
    if (file_size == 0) { /* libzip takes it for an archive */
        zip_source_free(source);
        archive_close(a);
        return fail_no_archive(path, head, head_size, "0 bytes");
    }
    zip_error_t error;
    zip_error_init(&error);
    a->zip = zip_open_from_source(source, ZIP_RDONLY, &error);
    phasor_status status;
    if (a->zip)
        status = directory_read(a, file_size);
    else if (zip_error_code_zip(&error) == ZIP_ER_MEMORY)
        status = fail_memory();
    else
        status = fail_no_archive(path, head, head_size, zip_error_strerror(&error));
    if (!a->zip)
        zip_source_free(source);
    zip_error_fini(&error);
    if (status != PHASOR_OK) {
        archive_close(a);
        return status;
    }
    *out = a;
    return PHASOR_OK;
}

phasor_status archive_open(const char *path, struct archive **out)
{
    unsigned char head[HEAD_SIZE];
    *out = NULL;
    FILE *file = fopen(path, "rb");
    if (!file)
        return fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    const size_t head_size = fread(head, 1, sizeof head, file);
    const int trouble = ferror(file) ? errno : 0;
    const off_t size = trouble || fseeko(file, 0, SEEK_END) != 0 ? -1 : ftello(file);
    fclose(file);
    if (trouble || size < 0)
        return fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(trouble ? trouble : errno));

    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_file_create(path, 0, -1, &error);
    zip_error_fini(&error);
    if (!source)
        return fail_memory();
    return archive_open_source(source, (uint64_t)size, head, head_size, path, out);
}

phasor_status archive_open_memory(const void *bytes, size_t nbytes, const char *name,
                                  struct archive **out)
{
    *out = NULL;
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(bytes, nbytes, 0, &error);
    zip_error_fini(&error);
    if (!source)
        return fail_memory();
    return archive_open_source(source, nbytes, bytes, nbytes < HEAD_SIZE ? nbytes : HEAD_SIZE, name,
                               out);
}

void archive_close(struct archive *archive)
{
    if (!archive)
        return;
    if (archive->zip)
        zip_discard(archive->zip);
    for (size_t i = 0; i < archive->count; i++)
        memory_free(archive->entries[i].name);
    string_map_free(&archive->names);
    memory_free(archive->entries);
    memory_free(archive->path);
    memory_free(archive);
}

/* -- reading ----------------------------------------------------------------------------------- */

const char *archive_path(const struct archive *archive)
{
    return archive->path;
}

size_t archive_count(const struct archive *archive)
{
    return archive->count;
}

const char *archive_name(const struct archive *archive, size_t index)
{
    return archive->entries[index].below ? archive->entries[index].below : "";
}

static bool entry_find(const struct archive *a, const char *name, uint32_t *index)
{
    char whole[2 * NAME_MAX_LENGTH + 2];
    const int length = snprintf(whole, sizeof whole, "%.*s%s", (int)a->root_length, a->root, name);
    return length > 0 && (size_t)length < sizeof whole && string_map_find(&a->names, whole, index);
}

bool archive_find(const struct archive *archive, const char *name, uint64_t *nbytes)
{
    uint32_t index;
    if (!entry_find(archive, name, &index))
        return false;
    *nbytes = archive->entries[index].nbytes;
    return true;
}

bool archive_swells(const struct archive *archive, const char *name)
{
    uint32_t index;
    if (!entry_find(archive, name, &index))
        return false;
    const struct entry *entry = &archive->entries[index];
    return entry->nbytes > TEXT_SIZE && entry->nbytes / TEXT_RATIO_MAX > entry->packed;
}

phasor_status archive_read(struct archive *archive, const char *name, void *bytes, uint64_t nbytes)
{
    uint32_t index;
    if (!entry_find(archive, name, &index) || archive->entries[index].nbytes != nbytes)
        return fail(PHASOR_ERROR_FILE, "%s: the archive has no entry \"%s\"", archive->path, name);
    if (!archive->entries[index].readable)
        return fail(PHASOR_ERROR_FILE,
                    "%s: entry \"%s\" is encrypted or packed by a method other than deflate",
                    archive->path, name);
    zip_file_t *file = zip_fopen_index(archive->zip, index, ZIP_FL_UNCHANGED);
    if (!file)
        return fail(PHASOR_ERROR_FILE, "%s: entry \"%s\": %s", archive->path, name,
                    zip_strerror(archive->zip));
    uint64_t done = 0;
    zip_int64_t got = 1;
    while (done < nbytes && (got = zip_fread(file, (char *)bytes + done, nbytes - done)) > 0)
        done += (uint64_t)got;
    char past;
    const bool whole = done == nbytes && got >= 0 &&
                       zip_fread(file, &past, 1) == 0; /* the checksum is known at the end */
    phasor_status status = PHASOR_OK;
    if (!whole)
        status = fail(PHASOR_ERROR_FILE, "%s: entry \"%s\" is damaged: %s", archive->path, name,
                      zip_error_code_zip(zip_file_get_error(file)) ? zip_file_strerror(file)
                                                                   : "it ends too early");
    zip_fclose(file);
    return status;
}

/* -- what the archive holds -------------------------------------------------------------------- */

/* A short text entry, without white space at its end; "" when there is none. */
static phasor_status text_read(struct archive *a, const char *name, char text[HEAD_SIZE])
{
    uint64_t nbytes = 0;
    text[0] = '\0';
    if (!archive_find(a, name, &nbytes))
        return PHASOR_OK;
    if (nbytes >= HEAD_SIZE)
        return fail(PHASOR_ERROR_FILE, "%s: entry \"%s\" has %" PRIu64 " bytes; a word is expected",
                    a->path, name, nbytes);
    TRY(archive_read(a, name, text, nbytes));
    while (nbytes > 0 && (text[nbytes - 1] == '\n' || text[nbytes - 1] == ' '))
        nbytes--;
    text[nbytes] = '\0';
    return PHASOR_OK;
}

static bool has_prefix(const struct archive *a, const char *prefix)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->entries[i].below && strncmp(a->entries[i].below, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

static bool has_pickled_weights(const struct archive *a)
{
    for (size_t i = 0; i < a->count; i++) {
        const char *name = a->entries[i].below ? a->entries[i].below : "";
        const size_t length = strlen(name);
        if (strncmp(name, "data/weights/", 13) == 0 && length > 3 &&
            strcmp(name + length - 3, ".pt") == 0)
            return true;
    }
    return false;
}

/* What an archive is that has no archive_format entry. */
static phasor_status fail_other_archive(const struct archive *a)
{
    uint64_t nbytes;
    uint32_t index;
    if (string_map_find(&a->names, "serialized_exported_program.json", &index))
        return fail(
            PHASOR_ERROR_FILE,
            "%s: an exported program of torch 2.7 or older, whose weights are pickled; " REEXPORT,
            a->path);
    if (archive_find(a, "data.pkl", &nbytes) &&
        (archive_find(a, "constants.pkl", &nbytes) || has_prefix(a, "code/")))
        return fail(PHASOR_ERROR_FILE,
                    "%s: a TorchScript module, not an exported program; export the model with "
                    "torch.export.export and torch.export.save of torch 2.9 or newer",
                    a->path);
    if (archive_find(a, "data.pkl", &nbytes))
        return fail(
            PHASOR_ERROR_FILE,
            "%s: a checkpoint of torch.save, which has weights and no program; export the model "
            "with torch.export.export and torch.export.save of torch 2.9 or newer",
            a->path);
    return fail(PHASOR_ERROR_FILE, "%s: a zip archive, but not an exported program; " REEXPORT,
                a->path);
}

phasor_status archive_check_program(struct archive *archive)
{
    char format[HEAD_SIZE], version[HEAD_SIZE], order[HEAD_SIZE];
    TRY(text_read(archive, "archive_format", format));
    if (!format[0])
        return fail_other_archive(archive);
    if (strcmp(format, "pt2") != 0)
        return fail(PHASOR_ERROR_FILE,
                    "%s: an archive of format \"%s\"; \"pt2\" is expected; " REEXPORT,
                    archive->path, format);
    TRY(text_read(archive, "archive_version", version));
    if (version[0] && strcmp(version, "0") != 0)
        return fail(PHASOR_ERROR_FILE, "%s: archive version \"%s\"; this Phasor reads version 0",
                    archive->path, version);
    TRY(text_read(archive, "byteorder", order));
    if (order[0] && strcmp(order, "little") != 0)
        return fail(
            PHASOR_ERROR_FILE,
            "%s: written on a %s-endian machine; export it again on a little-endian one with "
            "torch.export.save of torch 2.9 or newer",
            archive->path, order);
    if (!has_prefix(archive, "models/"))
        return has_prefix(archive, "data/aotinductor/")
                   ? fail(PHASOR_ERROR_FILE,
                          "%s: an AOTInductor package, which has compiled code and no program; "
                          "save the "
                          "program itself with torch.export.save of torch 2.9 or newer",
                          archive->path)
                   : fail(PHASOR_ERROR_FILE,
                          "%s: the archive has no program (models/NAME.json); " REEXPORT,
                          archive->path);
    if (has_pickled_weights(archive))
        return fail(PHASOR_ERROR_FILE,
                    "%s: an exported program of torch 2.8, whose weights are pickled; " REEXPORT,
                    archive->path);
    return PHASOR_OK;
}
