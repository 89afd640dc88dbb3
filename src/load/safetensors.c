/* safetensors.c - the reader; see safetensors.h.
 *
 * The rules are those of the format's own library: the data of all tensors, in the order of their
 * offsets, starts at 0, leaves no holes, does not overlap and ends with the file.
 */
#include "load/safetensors.h"

#include "graph/graph.h"
#include "load/document.h"
#include "load/string_map.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_SIZE = 8, ALIGNMENT = 64 };

struct item {
    const char *name;
    const char *unreadable; /* NULL: v is there; otherwise why a tensor is not */
    phasor_value v;
    DLTensor tensor;
    bool in_data;
    uint64_t begin, end; /* in the data */
};

struct tensors_file {
    struct arena arena;
    char *path;
    struct item *items;
    int count;
    struct string_map names;
    void *block;
    unsigned char *data; /* in the block, aligned */
    uint64_t nbytes;     /* of the data */
    uint64_t data_at;    /* where the data begins in the file */
};

static const char *const dtype_names[DT_COUNT] = {[DT_bool] = "BOOL",
                                                  [DT_u8] = "U8",
                                                  [DT_i8] = "I8",
                                                  [DT_i16] = "I16",
                                                  [DT_i32] = "I32",
                                                  [DT_i64] = "I64",
                                                  [DT_f16] = "F16",
                                                  [DT_bf16] = "BF16",
                                                  [DT_f32] = "F32",
                                                  [DT_f64] = "F64",
                                                  [DT_c64] = "C64",
                                                  [DT_u16] = "U16",
                                                  [DT_u32] = "U32",
                                                  [DT_u64] = "U64",
                                                  [DT_f8e4m3fn] = "F8_E4M3",
                                                  [DT_f8e5m2] = "F8_E5M2",
                                                  [DT_f8e8m0fnu] = "F8_E8M0"};

const char *tensors_dtype_name(enum dtype dtype)
{
    return dtype_names[dtype];
}

static bool dtype_find(const char *name, enum dtype *out)
{
    for (int d = 0; d < DT_COUNT; d++)
        if (dtype_names[d] && strcmp(dtype_names[d], name) == 0) {
            *out = (enum dtype)d;
            return true;
        }
    return false;
}

/* -- one tensor -------------------------------------------------------------------------------- */

static phasor_status fail_item(const struct tensors_file *f, const struct item *item,
                               const char *what)
{
    return fail(PHASOR_ERROR_FILE, "%s: tensor \"%.200s\": %s", f->path, item->name, what);
}

static phasor_status shape_read(struct tensors_file *f, struct item *item, const json_t *shape)
{
    const json_t *size;
    size_t axis;
    if (!json_is_array(shape) || json_array_size(shape) > RANK_MAX + 1)
        return fail_item(f, item, "field \"shape\": an array of at most 17 sizes is expected");
    int64_t *sizes = NEW(&f->arena, int64_t, json_array_size(shape));
    if (!sizes)
        return fail_memory();
    json_array_foreach(shape, axis, size)
    {
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return fail_item(f, item, "field \"shape\": sizes are integers from 0 on");
        sizes[axis] = json_integer_value(size);
    }
    item->tensor.ndim = (int)json_array_size(shape);
    item->tensor.shape = sizes;
    return PHASOR_OK;
}

static phasor_status offsets_read(struct tensors_file *f, struct item *item, const json_t *offsets)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return fail_item(f, item,
                         "field \"data_offsets\": two offsets into the file's data are expected");
    item->in_data = true;
    item->begin = (uint64_t)json_integer_value(begin);
    item->end = (uint64_t)json_integer_value(end);
    return PHASOR_OK;
}

static bool bytes_needed(const struct item *item, enum dtype dtype, uint64_t *nbytes)
{
    *nbytes = (uint64_t)dtype_size(dtype);
    bool fits = true;
    for (int axis = 0; axis < item->tensor.ndim; axis++) {
        if (item->tensor.shape[axis] == 0) {
            *nbytes = 0;
            return true;
        }
        fits = fits && !__builtin_mul_overflow(*nbytes, (uint64_t)item->tensor.shape[axis], nbytes);
    }
    return fits;
}

/* A real tensor that the metadata calls complex loses its last dim. */
static phasor_status complex_apply(struct tensors_file *f, struct item *item, const char *note,
                                   enum dtype *dtype)
{
    static const struct {
        const char *note;
        enum dtype real, complex;
    } notes[] = {{"torch.complex64", DT_f32, DT_c64},
                 {"torch.complex128", DT_f64, DT_c128},
                 {"torch.complex32", DT_f16, DT_c32}};
    for (size_t i = 0; note && i < sizeof notes / sizeof *notes; i++) {
        if (strcmp(note, notes[i].note) != 0 || *dtype == notes[i].complex)
            continue;
        DLTensor *t = &item->tensor;
        if (*dtype != notes[i].real || t->ndim == 0 || t->shape[t->ndim - 1] != 2)
            return fail_item(
                f, item,
                "the metadata calls it complex, but it is no real tensor with a last dim of 2");
        *dtype = notes[i].complex;
        t->ndim--;
    }
    return PHASOR_OK;
}

/* A tensor that nobody may ask for. */
static phasor_status tensor_pass(struct tensors_file *f, struct item *item, const char *format,
                                 const char *what)
{
    struct text reason = {0};
    text_format(&reason, format, what);
    item->unreadable = arena_string(&f->arena, text_get(&reason));
    item->v = (phasor_value){.kind = PHASOR_NONE};
    text_free(&reason);
    return item->unreadable ? PHASOR_OK : fail_memory();
}

static phasor_status tensor_read(struct tensors_file *f, struct item *item, const json_t *json,
                                 const char *note)
{
    enum dtype dtype;
    uint64_t nbytes;
    const char *name = json_string_value(json_object_get(json, "dtype"));
    if (!name)
        return fail_item(f, item, "field \"dtype\": a string is expected");
    TRY(offsets_read(f, item, json_object_get(json, "data_offsets")));
    if (!dtype_find(name, &dtype))
        return tensor_pass(f, item, "the dtype \"%.40s\" is not known", name);
    TRY(shape_read(f, item, json_object_get(json, "shape")));
    if (!bytes_needed(item, dtype, &nbytes) || nbytes != item->end - item->begin)
        return fail_item(f, item, "its shape and its data_offsets do not agree");
    TRY(complex_apply(f, item, note, &dtype));
    if (item->tensor.ndim > RANK_MAX)
        return fail_item(f, item, "field \"shape\": rank 17; at most 16");
    item->tensor.dtype = dtype_to_dlpack(dtype);
    item->tensor.device = (DLDevice){kDLCPU, 0};
    item->v = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &item->tensor};
    item->tensor.data = f->data + item->begin;
    const size_t alignment = (size_t)dtype_size(dtype) > 8 ? 8 : (size_t)dtype_size(dtype);
    if (item->begin % alignment != 0 && nbytes > 0) { /* other writers do not align */
        item->tensor.data = arena_copy(&f->arena, f->data + item->begin, nbytes);
        if (!item->tensor.data)
            return fail_memory();
    }
    return PHASOR_OK;
}

/* -- the header -------------------------------------------------------------------------------- */

static int item_compare(const void *a, const void *b)
{
    const struct item *x = *(const struct item *const *)a, *y = *(const struct item *const *)b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1)
                                : (x->end > y->end) - (x->end < y->end);
}

static phasor_status layout_check(const struct tensors_file *f)
{
    const struct item **order = memory_new((size_t)f->count * sizeof *order);
    uint64_t end = 0;
    int count = 0;
    if (!order)
        return fail_memory();
    for (int i = 0; i < f->count; i++)
        if (f->items[i].in_data)
            order[count++] = &f->items[i];
    qsort(order, (size_t)count, sizeof *order, item_compare);
    phasor_status status = PHASOR_OK;
    for (int i = 0; i < count && status == PHASOR_OK; i++) {
        if (order[i]->begin != end)
            status = fail_item(f, order[i],
                               "its data overlaps another tensor's or leaves a hole before it");
        end = order[i]->end;
    }
    if (status == PHASOR_OK && end != f->nbytes)
        status = fail(PHASOR_ERROR_FILE, "%s: %" PRIu64 " bytes of data, the tensors have %" PRIu64,
                      f->path, f->nbytes, end);
    memory_free(order);
    return status;
}

/* Offsets past the end are those of a file that lost its last bytes, on the way or while it was
 * written: asked before the tensors are read, of which the first one may be whole. */
static phasor_status end_check(const struct tensors_file *f, const json_t *header)
{
    const char *key;
    json_t *json;
    uint64_t asked = 0;
    json_object_foreach((json_t *)header, key, json)
    {
        const json_t *end = json_array_get(json_object_get(json, "data_offsets"), 1);
        const json_int_t offset = json_is_integer(end) ? json_integer_value(end) : 0;
        if (offset > 0 && (uint64_t)offset > asked)
            asked = (uint64_t)offset;
    }
    if (asked <= f->nbytes)
        return PHASOR_OK;
    return fail(PHASOR_ERROR_FILE,
                "%s: the file is cut off: it has %" PRIu64 " bytes, its header asks for %" PRIu64,
                f->path, f->data_at + f->nbytes, f->data_at + asked);
}

static struct item *item_add(struct tensors_file *f, const char *name)
{
    bool fresh;
    struct item *item = &f->items[f->count];
    item->name = arena_string(&f->arena, name);
    if (!item->name || !string_map_add(&f->names, item->name, (uint32_t)f->count, &fresh))
        return NULL;
    f->count++;
    return item;
}

static phasor_status tensors_take(struct tensors_file *f, const json_t *header,
                                  const json_t *metadata)
{
    const char *key;
    json_t *json;
    json_object_foreach((json_t *)header, key, json)
    {
        if (strcmp(key, "__metadata__") == 0)
            continue;
        struct item *item = item_add(f, key);
        if (!item)
            return fail_memory();
        TRY(tensor_read(f, item, json, json_string_value(json_object_get(metadata, key))));
    }
    return PHASOR_OK;
}

/* Entries of the metadata that are values; others ("format": "pt") say something about the file. */
static phasor_status values_take(struct tensors_file *f, const json_t *metadata)
{
    const char *key;
    json_t *json;
    json_object_foreach((json_t *)metadata, key, json)
    {
        phasor_value v;
        uint32_t index;
        if (!json_is_string(json))
            return fail(PHASOR_ERROR_FILE, "%s: metadata \"%.200s\" is no string", f->path, key);
        if (string_map_find(&f->names, key, &index) ||
            !python_parse(&f->arena, json_string_value(json), &v))
            continue;
        struct item *item = item_add(f, key);
        if (!item)
            return fail_memory();
        item->v = v;
    }
    return PHASOR_OK;
}

static phasor_status header_take(struct tensors_file *f, const json_t *header)
{
    const json_t *metadata = json_object_get(header, "__metadata__");
    if (json_is_null(metadata))
        metadata = NULL;
    if (metadata && !json_is_object(metadata))
        return fail(PHASOR_ERROR_FILE, "%s: \"__metadata__\" is an object or null", f->path);
    const size_t room = json_object_size(header) + json_object_size(metadata);
    f->items = NEW(&f->arena, struct item, room);
    if (!f->items)
        return fail_memory();
    TRY(end_check(f, header));
    TRY(tensors_take(f, header, metadata));
    TRY(layout_check(f));
    return values_take(f, metadata);
}

static phasor_status header_parse(struct tensors_file *f, const char *text, size_t nbytes)
{
    json_error_t error;
    json_t *header;
    phasor_status status = document_parse(text, nbytes, JSON_REJECT_DUPLICATES, &header, &error);
    if (status == PHASOR_ERROR_FILE)
        return fail(status, "%s: header, line %d, column %d: %s", f->path, error.line, error.column,
                    error.text);
    TRY(status);
    status = header_take(f, header);
    json_decref(header);
    return status;
}

/* -- the file ---------------------------------------------------------------------------------- */

/* Where the bytes come from: a file, or memory. */
struct source {
    FILE *file;
    const unsigned char *bytes;
    uint64_t nbytes, at;
};

static bool source_read(struct source *source, void *bytes, uint64_t nbytes)
{
    if (source->file)
        return fread(bytes, 1, nbytes, source->file) == nbytes;
    if (nbytes)
        memcpy(bytes, source->bytes + source->at, nbytes);
    source->at += nbytes;
    return true;
}

static phasor_status length_read(struct source *source, const char *path, uint64_t *length)
{
    unsigned char bytes[LENGTH_SIZE];
    *length = 0;
    if (source->nbytes < LENGTH_SIZE || !source_read(source, bytes, LENGTH_SIZE))
        return fail(PHASOR_ERROR_FILE, "%s: not a safetensors file: it has %" PRIu64 " bytes", path,
                    source->nbytes);
    for (int i = 0; i < LENGTH_SIZE; i++)
        *length |= (uint64_t)bytes[i] << (8 * i);
    if (*length > TENSORS_HEADER_MAX || *length > source->nbytes - LENGTH_SIZE)
        return fail(PHASOR_ERROR_FILE,
                    "%s: not a safetensors file, or it is cut off: a header of %" PRIu64
                    " bytes in a file of %" PRIu64,
                    path, *length, source->nbytes);
    return PHASOR_OK;
}

static phasor_status source_parse(struct source *source, const char *path, struct tensors_file *f)
{
    uint64_t length;
    TRY(length_read(source, path, &length));
    f->data_at = LENGTH_SIZE + length;
    f->nbytes = source->nbytes - f->data_at;
    f->block = f->nbytes > SIZE_MAX / 2 ? NULL : memory_new(f->nbytes + ALIGNMENT);
    char *header = memory_new(length);
    if (!header || !f->block) {
        memory_free(header);
        return fail_memory();
    }
    f->data = (unsigned char *)(((uintptr_t)f->block + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    phasor_status status;
    if (!source_read(source, header, length) || !source_read(source, f->data, f->nbytes))
        status = fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    else if (length == 0 || header[0] != '{')
        status = fail(PHASOR_ERROR_FILE, "%s: not a safetensors file: its header is no JSON object",
                      path);
    else
        status = header_parse(f, header, length);
    memory_free(header);
    return status;
}

static phasor_status source_load(struct source *source, const char *path, struct tensors_file **out)
{
    *out = NULL;
    struct tensors_file *f = memory_new(sizeof *f);
    if (!f)
        return fail_memory();
    f->path = arena_string(&f->arena, path);
    const phasor_status status = f->path ? source_parse(source, path, f) : fail_memory();
    if (status != PHASOR_OK) {
        tensors_close(f);
        return status;
    }
    *out = f;
    return PHASOR_OK;
}

phasor_status tensors_read(const char *path, struct tensors_file **out)
{
    *out = NULL;
    struct source source = {.file = fopen(path, "rb")};
    if (!source.file)
        return fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    const off_t size = fseeko(source.file, 0, SEEK_END) == 0 ? ftello(source.file) : -1;
    phasor_status status;
    if (size < 0 || size == INT64_MAX || fseeko(source.file, 0, SEEK_SET) != 0) {
        status = fail(PHASOR_ERROR_FILE, "%s: not a regular file", path);
    } else {
        source.nbytes = (uint64_t)size;
        status = source_load(&source, path, out);
    }
    fclose(source.file);
    return status;
}

phasor_status tensors_read_memory(const void *bytes, size_t nbytes, const char *name,
                                  struct tensors_file **out)
{
    struct source source = {.bytes = bytes, .nbytes = nbytes};
    return source_load(&source, name, out);
}

void tensors_close(struct tensors_file *file)
{
    if (!file)
        return;
    string_map_free(&file->names);
    memory_free(file->block);
    arena_free(&file->arena);
    memory_free(file);
}

int tensors_count(const struct tensors_file *file)
{
    return file->count;
}

const char *tensors_name(const struct tensors_file *file, int index)
{
    return index >= 0 && index < file->count ? file->items[index].name : NULL;
}

phasor_status tensors_get(const struct tensors_file *file, const char *name, phasor_value *out)
{
    uint32_t index;
    if (!string_map_find(&file->names, name, &index))
        return fail(PHASOR_ERROR_FILE, "%s: there is no tensor \"%.200s\"", file->path, name);
    if (file->items[index].unreadable)
        return fail_item(file, &file->items[index], file->items[index].unreadable);
    *out = file->items[index].v;
    return PHASOR_OK;
}

bool tensors_find(const struct tensors_file *file, const char *name, phasor_value *out)
{
    return tensors_get(file, name, out) == PHASOR_OK;
}
