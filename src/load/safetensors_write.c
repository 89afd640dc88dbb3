/* safetensors_write.c - the writer; see safetensors.h.
 *
 *     names and values -> PATH.tmp -> PATH, so that no reader sees half a file
 *
 * Tensors with larger elements come first, and the header is padded, so that all data is aligned.
 */
#include "load/safetensors.h"

#include "graph/graph.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH_SIZE = 8, ALIGNMENT = 8, LARGEST = 16 };

struct writer {
    const char *const *names;
    const phasor_value *values;
    int count;
    FILE *file;
};

static const DLTensor *tensor_of(const phasor_value *v)
{
    return v->kind == PHASOR_TENSOR  ? v->tensor
           : v->kind == PHASOR_OWNED ? &v->owned->dl_tensor
                                     : NULL;
}

static phasor_status tensor_check(const char *name, const DLTensor *t)
{
    enum dtype dtype;
    uint64_t nbytes;
    if (t->device.device_type != kDLCPU && t->device.device_type != kDLCUDAHost)
        return fail(PHASOR_ERROR_USAGE, "tensor \"%s\" is not in host memory", name);
    if (!dtype_from_dlpack(t->dtype, &dtype) || t->ndim < 0 || t->ndim > RANK_MAX)
        return fail(PHASOR_ERROR_USAGE,
                    "tensor \"%s\" has a dtype or rank (%d) that cannot be written", name, t->ndim);
    nbytes = (uint64_t)dtype_size(dtype);
    for (int axis = 0; axis < t->ndim; axis++)
        if (t->shape[axis] < 0 ||
            __builtin_mul_overflow(nbytes, (uint64_t)t->shape[axis], &nbytes) || nbytes > INT64_MAX)
            return fail(PHASOR_ERROR_USAGE, "tensor \"%s\" has a size that cannot be written",
                        name);
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
        count *= (uint64_t)t->shape[axis];
    return count;
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
    if (!type)
        return fail(PHASOR_ERROR_USAGE, "tensor \"%s\": a safetensors file cannot hold %s", name,
                    dtype_text(dtype));
    const uint64_t end = *offset + count_of(t) * (uint64_t)dtype_size(dtype);
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

static phasor_status file_write(struct writer *w, const char *path, const char *temporary,
                                const struct text *header)
{
    w->file = fopen(temporary, "wb");
    if (!w->file)
        return fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    bool done = length_write(w->file, header->length) &&
                fwrite(header->at, 1, header->length, w->file) == header->length &&
                tensors_data_write(w);
    done = fclose(w->file) == 0 && done;
    if (done && rename(temporary, path) == 0)
        return PHASOR_OK;
    const int trouble = errno;
    unlink(temporary);
    return fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(trouble));
}

phasor_status tensors_write(const char *path, const char *const *names, const phasor_value *values,
                            int count)
{
    struct writer w = {names, values, count, NULL};
    struct text header = {0}, temporary = {0};
    phasor_status status = PHASOR_OK;
    for (int i = 0; i < count && status == PHASOR_OK; i++)
        if (tensor_of(&values[i]))
            status = tensor_check(names[i], tensor_of(&values[i]));
    text_format(&temporary, "%s.%ld.tmp", path, (long)getpid());
    if (status == PHASOR_OK)
        status = text_status(&temporary);
    if (status == PHASOR_OK)
        status = header_print(&w, &header);
    if (status == PHASOR_OK)
        status = file_write(&w, path, temporary.at, &header);
    text_free(&header);
    text_free(&temporary);
    return status;
}
