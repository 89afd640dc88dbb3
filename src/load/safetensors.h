/* safetensors.h - files of named tensors and values.
 *
 *     8 bytes N, N bytes of JSON, data
 *     {"output_0": {"dtype": "F32", "shape": [2, 3, 2], "data_offsets": [0, 48]},
 *      "__metadata__": {"output_0": "torch.complex64", "output_1": "4"}}
 *     ->  output_0: c64[2, 3], output_1: the int 4
 *
 * Complex tensors are read as dtype C64, or as a real tensor with a last dim of 2 that the
 * metadata names; they are written in the second form. Values that are no tensors stand in the
 * metadata as Python writes them: 4, 2.5, True, None, 'text'.
 */
#pragma once
#include "base/status.h"

struct tensors_file;

phasor_status tensors_read(const char *path, struct tensors_file **out);
/* The bytes are copied. name: for messages. */
phasor_status tensors_read_memory(const void *bytes, size_t nbytes, const char *name,
                                  struct tensors_file **out);
void tensors_close(struct tensors_file *file); /* NULL is fine */

int tensors_count(const struct tensors_file *file);
const char *tensors_name(const struct tensors_file *file, int index); /* NULL beyond the count */
/* A borrowed host tensor (row-major, aligned to its elements) or another value. PHASOR_ERROR_FILE:
 * there is none of that name, or its dtype is one that Phasor does not know. */
phasor_status tensors_get(const struct tensors_file *file, const char *name, phasor_value *out);
bool tensors_find(const struct tensors_file *file, const char *name, phasor_value *out);

/* Host tensors of any strides, and other values: what tensors_read gives back as it is, or
 * PHASOR_ERROR_USAGE. The file is written as base/file.h does it. */
phasor_status tensors_write(const char *path, const char *const *names, const phasor_value *values,
                            int count);

/* -- shared by the reader and the writer ------------------------------------------------------- */

#include "base/memory.h"
#include "base/text.h"
#include "graph/dtype.h"

enum { TENSORS_HEADER_MAX = 100000000 };

/* The dtype as the format names it: "BF16"; NULL for c128 and c32, which it lacks. */
const char *tensors_dtype_name(enum dtype dtype);
/* A Python literal: 4, 2.5, inf, True, None, 'text'. false: something else. Strings go to the
 * arena. */
bool python_parse(struct arena *arena, const char *text, phasor_value *out);
void python_print(const phasor_value *v, struct text *out);
