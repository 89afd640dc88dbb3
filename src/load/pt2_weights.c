/* pt2_weights.c - the weights of a .pt2 file, as torch 2.9 and newer store them.
 *
 *     data/weights/model_weights_config.json
 *         {"config": {"wq": {"path_name": "weight_0", "tensor_meta": {...}}, ...}}
 *     data/weights/weight_0
 *         the bytes of a storage: any number of tensors view it
 *
 * A storage is read once, however many tensors view it, so that a write to one of them is seen by
 * the others. Only what the program's inputs name is read.
 */
#include "load/load_memory.h"
#include "load/pt2.h"

#include <inttypes.h>
#include <string.h>

/* -- tables ------------------------------------------------------------------------------------ */

static phasor_status table_open(struct pt2 *p, const char *model, const char *folder,
                                json_t **document, const json_t **table, const char **entry)
{
    uint64_t nbytes;
    const char *kind = strcmp(folder, "weights") == 0 ? "param" : "constants";
    *entry = arena_format(&p->scratch, "data/%s/%s_%s_config.json", folder, model, folder);
    const char *older =
        arena_format(&p->scratch, "data/%s/%s_model_%s_config.json", folder, model, kind);
    if (!*entry || !older)
        return fail_memory();
    if (!archive_find(p->archive, *entry, &nbytes) && archive_find(p->archive, older, &nbytes))
        *entry = older;
    TRY(pt2_document(p, *entry, document));
    TRY(pt2_type(p, *document, "(all)", JSON_OBJECT));
    return pt2_field(p, *document, "config", JSON_OBJECT, table);
}

phasor_status pt2_weights_open(struct pt2 *p, const char *model)
{
    TRY(table_open(p, model, "weights", &p->weights, &p->weights_table, &p->weights_entry));
    return table_open(p, model, "constants", &p->constants, &p->constants_table,
                      &p->constants_entry);
}

/* -- storages ---------------------------------------------------------------------------------- */

static phasor_status storage_read(struct pt2 *p, const char *entry, struct storage **out)
{
    uint32_t index;
    uint64_t nbytes;
    void *bytes;
    bool fresh;
    if (string_map_find(&p->storages, entry, &index)) {
        *out = p->storage_list.at[index];
        return PHASOR_OK;
    }
    if (!archive_find(p->archive, entry, &nbytes))
        return pt2_fail(p, "field \"path_name\": the archive has no entry \"%s\"", entry);
    TRY(storage_new(p->program, nbytes, &bytes, out));
    TRY(archive_read(p->archive, entry, bytes, nbytes));
    if (!string_map_add(&p->storages, entry, (uint32_t)p->storage_list.count, &fresh) ||
        !array_push(&p->storage_list, *out))
        return fail_memory();
    return PHASOR_OK;
}

/* -- tensors ----------------------------------------------------------------------------------- */

/* Plain numbers, none negative. */
static phasor_status numbers_read(struct pt2 *p, const json_t *meta, const char *field, int *count,
                                  const int64_t **out)
{
    const json_t *array, *item;
    size_t at;
    TRY(pt2_field(p, meta, field, JSON_ARRAY, &array));
    if (json_array_size(array) > RANK_MAX)
        return pt2_fail(p, "field \"%s\": rank %zu; at most %d", field, json_array_size(array),
                        RANK_MAX);
    int64_t *numbers = NEW(&p->program->arena, int64_t, json_array_size(array));
    if (!numbers)
        return fail_memory();
    json_array_foreach(array, at, item)
    {
        TRY(pt2_integer(p, json_object_get(item, "as_int"), field, &numbers[at]));
        if (numbers[at] < 0)
            return pt2_fail(p, "field \"%s\": %" PRId64 " is negative", field, numbers[at]);
    }
    *count = (int)json_array_size(array);
    *out = numbers;
    return PHASOR_OK;
}

/* The number of elements of storage that the view needs, offset included; false when it is beyond
 * 64 bits. */
static bool view_extent(const struct data *d, int64_t *extent)
{
    *extent = d->offset;
    for (int axis = 0; axis < d->rank; axis++) {
        int64_t step;
        if (d->sizes[axis] == 0) {
            *extent = 0;
            return true;
        }
        if (__builtin_mul_overflow(d->sizes[axis] - 1, d->strides[axis], &step) ||
            __builtin_add_overflow(*extent, step, extent))
            return false;
    }
    return !__builtin_add_overflow(*extent, 1, extent);
}

static phasor_status view_check(struct pt2 *p, const struct data *d)
{
    int64_t extent;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): storage_read gives one */
    const size_t nbytes = d->storage->nbytes, size = (size_t)dtype_size(d->dtype);
    bool empty = false;
    for (int axis = 0; axis < d->rank; axis++)
        empty |= d->sizes[axis] == 0;
    if (empty)
        return PHASOR_OK;
    if (nbytes % size != 0)
        return pt2_fail(
            p, "the file of tensor \"%s\" has %zu bytes, no multiple of %zu, the size of %s",
            d->name, nbytes, size, dtype_text(d->dtype));
    if (!view_extent(d, &extent) || (uint64_t)extent > nbytes / size)
        return pt2_fail(p, "tensor \"%s\" reaches beyond its file, which has %zu elements", d->name,
                        nbytes / size);
    return PHASOR_OK;
}

static phasor_status layout_check(struct pt2 *p, const json_t *meta)
{
    enum { LAYOUT_STRIDED = 7 };
    int64_t layout;
    if (!json_object_get(meta, "layout"))
        return PHASOR_OK;
    TRY(pt2_integer(p, json_object_get(meta, "layout"), "layout", &layout));
    return layout == LAYOUT_STRIDED
               ? PHASOR_OK
               : pt2_fail(p,
                          "field \"layout\": %" PRId64 "; only strided tensors (%d) can be "
                          "read",
                          layout, LAYOUT_STRIDED);
}

static phasor_status data_read(struct pt2 *p, const json_t *item, const char *folder,
                               struct data *d)
{
    const json_t *meta, *pickled;
    const char *path;
    int stride_count = 0;
    TRY(pt2_type(p, item, "config", JSON_OBJECT));
    TRY(pt2_string(p, item, "path_name", &path));
    TRY(pt2_optional(p, item, "use_pickle", JSON_TRUE, &pickled));
    if (json_is_true(pickled))
        return pt2_fail(p, "a pickled tensor or object; Phasor reads plain tensors only: replace "
                           "it in the model by one");
    TRY(pt2_field(p, item, "tensor_meta", JSON_OBJECT, &meta));
    TRY(pt2_dtype(p, json_object_get(meta, "dtype"), &d->dtype));
    TRY(layout_check(p, meta));
    TRY(numbers_read(p, meta, "sizes", &d->rank, &d->sizes));
    TRY(numbers_read(p, meta, "strides", &stride_count, &d->strides));
    if (stride_count != d->rank)
        return pt2_fail(p, "field \"strides\": %d of them for %d sizes", stride_count, d->rank);
    TRY(pt2_integer(p, json_object_get(json_object_get(meta, "storage_offset"), "as_int"),
                    "storage_offset", &d->offset));
    if (d->offset < 0)
        return pt2_fail(p, "field \"storage_offset\": %" PRId64 " is negative", d->offset);
    const char *entry = arena_format(&p->scratch, "data/%s/%s", folder, path);
    struct storage *storage = NULL;
    if (!entry)
        return fail_memory();
    TRY(storage_read(p, entry, &storage));
    d->storage = storage;
    return view_check(p, d);
}

phasor_status pt2_weight(struct pt2 *p, const char *name, bool constant, const struct data **out)
{
    const json_t *item = json_object_get(constant ? p->constants_table : p->weights_table, name);
    bool in_constants = constant;
    if (!item) {
        in_constants = !constant;
        item = json_object_get(in_constants ? p->constants_table : p->weights_table, name);
    }
    if (!item)
        return pt2_fail(p, "\"%s\" is neither in %s nor in %s", name, p->weights_entry,
                        p->constants_entry);
    struct data *d = NEW(&p->program->arena, struct data, 1);
    char *copy = arena_string(&p->program->arena, name);
    if (!d || !copy)
        return fail_memory();
    d->name = copy;
    const char *entry = p->entry, *node = p->node;
    p->entry = in_constants ? p->constants_entry : p->weights_entry;
    p->node = name;
    TRY(data_read(p, item, in_constants ? "constants" : "weights", d));
    p->entry = entry;
    p->node = node;
    *out = d;
    return PHASOR_OK;
}
