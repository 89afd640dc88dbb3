/* safetensors_write.c - the writer; see safetensors.h.
 *
 *     names and values -> a header, data -> base/file.h, so that no reader sees half a file
 *
 * Tensors with larger elements come first, and the header is padded, so that all data is aligned.
 */
#include "load/safetensors.h"

#include "base/file.h"
#include "graph/graph.h"
#include "load/string_map.h"

#include <inttypes.h>
#include <string.h>

enum { LENGTH_SIZE = 8, ALIGNMENT = 8, LARGEST = 16 };

struct writer {
    const char *const *names;
    const phasor_value *values;
    int count;
    FILE *file;
};

static const DLTensor *tensor_of(const phasor_value *v)
{
    return v->kind == PHASOR_TENSOR              ? v->tensor
           : v->kind == PHASOR_OWNED && v->owned ? &v->owned->dl_tensor
                                                 : NULL;
}

static bool size_fits(const DLTensor *t, enum dtype dtype)
{
    uint64_t nbytes = (uint64_t)dtype_size(dtype);
    bool fits = true, empty = false;
    for (int axis = 0; axis < t->ndim; axis++) {
        if (t->shape[axis] < 0)
            return false;
        empty |= t->shape[axis] == 0;
        fits = fits && !__builtin_mul_overflow(nbytes, (uint64_t)t->shape[axis], &nbytes) &&
               nbytes <= INT64_MAX;
    }
    return fits || empty;
}

static phasor_status tensor_check(const char *name, const DLTensor *t)
{
    enum dtype dtype;
    if (!t)
        return fail(PHASOR_ERROR_USAGE, "tensor \"%s\" is NULL", name);
    if (t->device.device_type != kDLCPU && t->device.device_type != kDLCUDAHost)
        return fail(PHASOR_ERROR_USAGE, "tensor \"%s\" is not in host memory", name);
    if (!dtype_from_dlpack(t->dtype, &dtype) || t->ndim < 0 || t->ndim > RANK_MAX)
        return fail(PHASOR_ERROR_USAGE,
                    "tensor \"%s\" has a dtype or rank (%d) that cannot be written", name, t->ndim);
    if (!tensors_dtype_name(dtype_info[dtype].real))
        return fail(PHASOR_ERROR_USAGE, "tensor \"%s\": a safetensors file cannot hold %s", name,
                    dtype_text(dtype));
    if ((t->ndim > 0 && !t->shape) || !size_fits(t, dtype))
        return fail(PHASOR_ERROR_USAGE, "tensor \"%s\" has a size that cannot be written", name);
    return PHASOR_OK;
}

static enum dtype dtype_of(const DLTensor *t)
{
    enum dtype dtype = DT_u8;
    dtype_from_dlpack(t->dtype, &dtype);
    return dtype;
}

static bool is_complex(enum dtype dtype)
{
    return dtype_info[dtype].real != dtype;
}

static uint64_t count_of(const DLTensor *t)
{
    uint64_t count = 1;
    for (int axis = 0; axis < t->ndim; axis++)
        if (t->shape[axis] == 0)
            return 0;
    for (int axis = 0; axis < t->ndim; axis++)
        count *= (uint64_t)t->shape[axis];
    return count;
}

static bool is_utf8(const char *string)
{
    const size_t nbytes = strlen(string);
    for (size_t at = 0, length; at < nbytes; at += length)
        if ((length = utf8_length(string + at, nbytes - at)) == 0)
            return false;
    return true;
}

static phasor_status value_check(const char *name, const phasor_value *v)
{
    if (v->kind == PHASOR_TENSOR || v->kind == PHASOR_OWNED) {
        TRY(tensor_check(name, tensor_of(v)));
        return count_of(tensor_of(v)) == 0 || tensor_of(v)->data
                   ? PHASOR_OK
                   : fail(PHASOR_ERROR_USAGE, "tensor \"%s\" has no data", name);
    }
    if (v->kind == PHASOR_STRING && (!v->string || !is_utf8(v->string)))
        return fail(PHASOR_ERROR_USAGE, "value \"%s\": a string is UTF-8", name);
    if (v->kind != PHASOR_INT && v->kind != PHASOR_FLOAT && v->kind != PHASOR_BOOL &&
        v->kind != PHASOR_STRING && v->kind != PHASOR_NONE)
        return fail(PHASOR_ERROR_USAGE, "value \"%s\" is of kind %d, which there is not", name,
                    (int)v->kind);
    return PHASOR_OK;
}

static phasor_status name_check(const char *name, int index, struct string_map *names)
{
    bool fresh;
    if (!name || !is_utf8(name))
        return fail(PHASOR_ERROR_USAGE, "name %d is no UTF-8 text", index);
    if (strcmp(name, "__metadata__") == 0)
        return fail(PHASOR_ERROR_USAGE, "no tensor can have the name __metadata__ in a file");
    if (!string_map_add(names, name, (uint32_t)index, &fresh))
        return fail_memory();
    return fresh ? PHASOR_OK : fail(PHASOR_ERROR_USAGE, "the name \"%.200s\" is given twice", name);
}

/* What the reader would refuse, or take for something else, is not written. */
static phasor_status values_check(const struct writer *w)
{
    struct string_map names = {0};
    phasor_status status = PHASOR_OK;
    if (w->count < 0 || (w->count > 0 && (!w->names || !w->values)))
        return fail(PHASOR_ERROR_USAGE, "%d names and values, and no list of them", w->count);
    for (int i = 0; i < w->count && status == PHASOR_OK; i++) {
        status = name_check(w->names[i], i, &names);
        if (status == PHASOR_OK)
            status = value_check(w->names[i], &w->values[i]);
    }
    string_map_free(&names);
    return status;
}

/* -- the header -------------------------------------------------------------------------------- */

static void metadata_print(const struct writer *w, struct text *header)
{
    const char *separator = "";
    text_add(header, "{\"__metadata__\":{");
    for (int i = 0; i < w->count; i++) {
        const DLTensor *t = tensor_of(&w->values[i]);
        struct text python = {0};
        if (t && !is_complex(dtype_of(t)))
            continue;
        if (t)
            text_format(&python, "torch.complex%d", 8 * dtype_size(dtype_of(t)));
        else
            python_print(&w->values[i], &python);
        text_add(header, separator);
        text_add_json_string(header, w->names[i]);
        text_add(header, ":");
        text_add_json_string(header, text_get(&python));
        header->failed |= python.failed;
        text_free(&python);
        separator = ",";
    }
    text_add(header, "}");
}

static phasor_status tensor_print(const char *name, const DLTensor *t, uint64_t *offset,
                                  struct text *header)
{
    const enum dtype dtype = dtype_of(t);
    const char *type = tensors_dtype_name(dtype_info[dtype].real);
    const uint64_t end = *offset + count_of(t) * (uint64_t)dtype_size(dtype);
    if (end > INT64_MAX)
        return fail(PHASOR_ERROR_USAGE, "tensor \"%s\" ends beyond 2^63 bytes of data", name);
    text_add(header, ",");
    text_add_json_string(header, name);
    text_format(header, ":{\"dtype\":\"%s\",\"shape\":[", type);
    for (int axis = 0; axis < t->ndim; axis++)
        text_format(header, "%s%" PRId64, axis ? "," : "", t->shape[axis]);
    if (is_complex(dtype))
        text_add(header, t->ndim ? ",2" : "2");
    text_format(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *offset, end);
    *offset = end;
    return PHASOR_OK;
}

static phasor_status header_print(const struct writer *w, struct text *header)
{
    uint64_t offset = 0;
    metadata_print(w, header);
    for (int size = LARGEST; size > 0; size--)
        for (int i = 0; i < w->count; i++) {
            const DLTensor *t = tensor_of(&w->values[i]);
            if (t && dtype_size(dtype_of(t)) == size)
                TRY(tensor_print(w->names[i], t, &offset, header));
        }
    text_add(header, "}");
    while (!header->failed && header->length % ALIGNMENT != 0)
        text_add(header, " ");
    if (header->length > TENSORS_HEADER_MAX)
        return fail(PHASOR_ERROR_USAGE,
                    "names, sizes and values make a header of %zu bytes; a file has at most %d",
                    header->length, TENSORS_HEADER_MAX);
    return text_status(header);
}

/* -- the data ---------------------------------------------------------------------------------- */

/* Writes the elements in row-major order; a row that is contiguous goes out in one call. */
static bool rows_write(FILE *file, const DLTensor *t, int axis, const char *at, size_t size)
{
    if (axis == t->ndim)
        return fwrite(at, size, 1, file) == 1;
    const int64_t length = t->shape[axis];
    int64_t stride = t->strides ? t->strides[axis] : 1;
    for (int inner = axis + 1; !t->strides && inner < t->ndim; inner++)
        stride *= t->shape[inner];
    if (axis == t->ndim - 1 && stride == 1)
        return fwrite(at, size, (size_t)length, file) == (size_t)length;
    for (int64_t i = 0; i < length; i++)
        if (!rows_write(file, t, axis + 1, at + i * stride * (int64_t)size, size))
            return false;
    return true;
}

static bool tensors_data_write(const struct writer *w)
{
    for (int size = LARGEST; size > 0; size--)
        for (int i = 0; i < w->count; i++) {
            const DLTensor *t = tensor_of(&w->values[i]);
            if (t && dtype_size(dtype_of(t)) == size && count_of(t) > 0 &&
                !rows_write(w->file, t, 0, (const char *)t->data + t->byte_offset, (size_t)size))
                return false;
        }
    return true;
}

static bool length_write(FILE *file, uint64_t length)
{
    unsigned char bytes[LENGTH_SIZE];
    for (int i = 0; i < LENGTH_SIZE; i++)
        bytes[i] = (unsigned char)(length >> (8 * i));
    return fwrite(bytes, LENGTH_SIZE, 1, file) == 1;
}

phasor_status tensors_write(const char *path, const char *const *names, const phasor_value *values,
                            int count)
{
    struct writer w = {names, values, count, NULL};
    struct text header = {0};
    struct file_out file;
    phasor_status status = values_check(&w);
    if (status == PHASOR_OK)
        status = header_print(&w, &header);
    if (status == PHASOR_OK)
        status = file_begin(&file, path);
    if (status == PHASOR_OK) {
        w.file = file.stream;
        status = file_end(&file, length_write(w.file, header.length) &&
                                     fwrite(header.at, 1, header.length, w.file) == header.length &&
                                     tensors_data_write(&w));
    }
    text_free(&header);
    return status;
}
