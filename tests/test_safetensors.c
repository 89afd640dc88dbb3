/* test_safetensors.c - tensor files: the rules of the format, complex tensors, single values, and
 * what is written. */
#include "load/safetensors.h"
#include "support/leak.h"

#include <complex.h>
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static phasor_status read_header(const char *header, size_t data_size, struct tensors_file **out)
{
    unsigned char bytes[4096] = {0};
    const uint64_t length = strlen(header);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + length + i] = (unsigned char)i;
    return tensors_read_memory(bytes, 8 + length + data_size, "t.safetensors", out);
}

Test(safetensors, reads_by_name)
{
    struct tensors_file *file;
    phasor_value v;
    cr_assert_eq(read_header("{\"b\": {\"dtype\": \"F32\", \"shape\": [1, 2], \"data_offsets\": "
                             "[3, 11]}, \"a\": {\"dtype\": "
                             "\"U8\", \"shape\": [3], \"data_offsets\": [0, 3]}, \"e\": "
                             "{\"dtype\": \"I64\", \"shape\": [0, 4], "
                             "\"data_offsets\": [11, 11]}, \"s\": {\"dtype\": \"C64\", \"shape\": "
                             "[], \"data_offsets\": [11, "
                             "19]}}   ",
                             19, &file),
                 PHASOR_OK, "%s", message_get());
    cr_assert_eq(tensors_count(file), 4);
    cr_assert_str_eq(tensors_name(file, 0), "b");
    cr_assert_null(tensors_name(file, 4));
    cr_assert(tensors_find(file, "b", &v));
    cr_assert_eq(v.tensor->ndim, 2);
    cr_assert_eq((uintptr_t)v.tensor->data % 4, 0u); /* although it is at byte 3 of the data */
    cr_assert_eq(memcmp(v.tensor->data, (char[]){3, 4, 5, 6, 7, 8, 9, 10}, 8), 0);
    cr_assert(tensors_find(file, "s", &v));
    cr_assert_eq(v.tensor->dtype.code, kDLComplex);
    cr_assert_not(tensors_find(file, "c", &v));
    tensors_close(file);
    ASSERT_NO_LEAKS();
}

Test(safetensors, complex_by_metadata_and_values)
{
    struct tensors_file *file;
    phasor_value v;
    cr_assert_eq(read_header("{\"__metadata__\": {\"z\": \"torch.complex64\", \"n\": \"-4\", "
                             "\"f\": \"2.5\", \"t\": \"True\", "
                             "\"o\": \"None\", \"s\": \"'it\\\\'s'\", \"i\": \"-inf\", \"format\": "
                             "\"pt\"}, \"z\": {\"dtype\": "
                             "\"F32\", \"shape\": [3, 2], \"data_offsets\": [0, 24]}}",
                             24, &file),
                 PHASOR_OK, "%s", message_get());
    cr_assert_eq(tensors_count(file), 7);
    cr_assert(tensors_find(file, "z", &v) && v.tensor->dtype.code == kDLComplex &&
              v.tensor->ndim == 1);
    cr_assert(tensors_find(file, "n", &v) && v.kind == PHASOR_INT && v.integer == -4);
    cr_assert(tensors_find(file, "f", &v) && v.kind == PHASOR_FLOAT && v.real == 2.5);
    cr_assert(tensors_find(file, "t", &v) && v.kind == PHASOR_BOOL && v.boolean);
    cr_assert(tensors_find(file, "o", &v) && v.kind == PHASOR_NONE);
    cr_assert(tensors_find(file, "s", &v) && v.kind == PHASOR_STRING);
    cr_assert_str_eq(v.string, "it's");
    cr_assert(tensors_find(file, "i", &v) && v.kind == PHASOR_FLOAT && v.real == -INFINITY);
    cr_assert_not(tensors_find(file, "format", &v));
    tensors_close(file);
    ASSERT_NO_LEAKS();
}

#define ONE(dtype, shape, offsets) \
    "{\"a\": {\"dtype\": " dtype ", \"shape\": " shape ", \"data_offsets\": " offsets "}}"

Test(safetensors, damaged_files_give_a_sentence)
{
    static const struct {
        const char *header;
        size_t data_size;
        const char *message;
    } rows[] = {
        {"", 0, "no JSON object"},
        {"[]", 0, "no JSON object"},
        {"{", 0, "line 1"},
        {"{\"a\": 1}", 0, "\"dtype\""},
        {"{\"__metadata__\": 3}", 0, "is an object or null"},
        {"{\"a\": {\"dtype\": \"F99\"}}", 0, "two offsets into"},
        {"{\"__metadata__\": {\"a\": 3}}", 0, "is no string"},
        {ONE("\"F99\"", "[1]", "[4, 8]"), 8, "leaves a hole"},
        {ONE("\"F99\"", "[1]", "[0, 4]"), 8, "the tensors have 4"},
        {ONE("\"F32\"", "[-1]", "[0, 4]"), 4, "sizes are integers"},
        {ONE("\"F32\"", "3", "[0, 4]"), 4, "an array of at most"},
        {ONE("\"F32\"", "[1]", "[0, 8]"), 8, "do not agree"},
        {ONE("\"F32\"", "[2]", "[0, 8]"), 4,
         "t.safetensors: the file is cut off: it has 73 bytes, its header asks for 77"},
        {"{\"a\": {\"dtype\": \"U8\", \"shape\": [2], \"data_offsets\": [0, 2]}, \"b\": "
         "{\"dtype\": \"U8\", \"shape\": [9223372036854775805], \"data_offsets\": "
         "[2, 9223372036854775807]}}",
         3, "is cut off"},
        {ONE("\"F32\"", "[1]", "[4, 0]"), 4, "two offsets into"},
        {ONE("\"F32\"", "[1]", "[0]"), 4, "two offsets into"},
        {ONE("\"F32\"", "[1]", "[4, 8]"), 8, "leaves a hole"},
        {ONE("\"F32\"", "[1]", "[0, 4]"), 8, "8 bytes of data, the tensors have 4"},
        {ONE("\"F32\"", "[4611686018427387904, 4]", "[0, 0]"), 0, "do not agree"},
        {"{\"a\": {\"dtype\": \"U8\", \"shape\": [2], \"data_offsets\": [0, 2]}, \"b\": "
         "{\"dtype\": \"U8\", \"shape\": [2], "
         "\"data_offsets\": [1, 3]}}",
         3, "overlaps"},
        {"{\"a\": {\"dtype\": \"U8\", \"shape\": [0], \"data_offsets\": [0, 0]}, \"a\": {}}", 0,
         "duplicate"},
        {"{\"__metadata__\": {\"a\": \"torch.complex64\"}, \"a\": {\"dtype\": \"U8\", \"shape\": "
         "[2], \"data_offsets\": [0, 2]}}",
         2, "calls it complex"},
    };
    struct tensors_file *file;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(read_header(rows[i].header, rows[i].data_size, &file), PHASOR_ERROR_FILE,
                     "row %zu", i);
        cr_assert(strstr(message_get(), rows[i].message), "row %zu: %s", i, message_get());
    }
    cr_assert_eq(tensors_read_memory("\1\0\0\0", 4, "t", &file), PHASOR_ERROR_FILE);
    cr_assert_eq(tensors_read_memory("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "t", &file),
                 PHASOR_ERROR_FILE);
    cr_assert_eq(tensors_read("/nonexistent.safetensors", &file), PHASOR_ERROR_FILE);
    ASSERT_NO_LEAKS();
}

/* What other writers put into files, and nobody asks for here. */
Test(safetensors, what_is_not_asked_for_is_passed_over)
{
    struct tensors_file *file;
    phasor_value v;
    cr_assert_eq(
        read_header("{\"__metadata__\": null, \"a\": {\"dtype\": \"F32\", \"shape\": [2], "
                    "\"data_offsets\": [0, 8]}, \"q\": {\"dtype\": \"F4\", \"shape\": [2, "
                    "2], \"data_offsets\": [8, 10]}, \"b\": {\"dtype\": \"U8\", \"shape\": "
                    "[1], \"data_offsets\": [10, 11]}}",
                    11, &file),
        PHASOR_OK, "%s", message_get());
    cr_assert_eq(tensors_count(file), 3);
    cr_assert(tensors_find(file, "a", &v) && ((unsigned char *)v.tensor->data)[7] == 7);
    cr_assert(tensors_find(file, "b", &v) && ((unsigned char *)v.tensor->data)[0] == 10);
    cr_assert_not(tensors_find(file, "q", &v));
    cr_assert_str_eq(message_get(), "t.safetensors: tensor \"q\": the dtype \"F4\" is not known");
    cr_assert_not(tensors_find(file, "r", &v));
    cr_assert_str_eq(message_get(), "t.safetensors: there is no tensor \"r\"");
    tensors_close(file);
    ASSERT_NO_LEAKS();
}

Test(safetensors, writes_what_it_reads)
{
    char path[] = "/tmp/phasor-tensors-XXXXXX";
    float complex z[6] = {1, 2 * I, 3, 4, 5 - I, 6};
    uint8_t bytes[3] = {7, 8, 9};
    double complex w = 1 + 2 * I;
    DLTensor strided = {.data = z,
                        .device = {kDLCPU, 0},
                        .ndim = 2,
                        .dtype = {kDLComplex, 64, 1},
                        .shape = (int64_t[]){2, 2},
                        .strides = (int64_t[]){1, 3},
                        .byte_offset = 8};
    DLTensor plain = {.data = bytes,
                      .device = {kDLCPU, 0},
                      .ndim = 1,
                      .dtype = {kDLUInt, 8, 1},
                      .shape = (int64_t[]){3}};
    DLTensor wide = {.data = &w, .device = {kDLCPU, 0}, .ndim = 0, .dtype = {kDLComplex, 128, 1}};
    const char *const names[] = {"strided", "plain", "wide", "i", "f", "s", "none", "b"};
    const phasor_value values[] = {{.kind = PHASOR_TENSOR, .tensor = &strided},
                                   {.kind = PHASOR_TENSOR, .tensor = &plain},
                                   {.kind = PHASOR_TENSOR, .tensor = &wide},
                                   {.kind = PHASOR_INT, .integer = INT64_MIN},
                                   {.kind = PHASOR_FLOAT, .real = 0.1},
                                   {.kind = PHASOR_STRING, .string = "a'\\\n\xc3\xa9"},
                                   {.kind = PHASOR_NONE},
                                   {.kind = PHASOR_BOOL, .boolean = false}};
    struct tensors_file *file;
    phasor_value v;
    const int handle = mkstemp(path);
    cr_assert(handle >= 0);
    close(handle);
    cr_assert_eq(tensors_write(path, names, values, 8), PHASOR_OK, "%s", message_get());
    cr_assert_eq(tensors_read(path, &file), PHASOR_OK, "%s", message_get());
    unlink(path);
    cr_assert_eq(tensors_count(file), 8);
    cr_assert(tensors_find(file, "strided", &v) && v.tensor->ndim == 2 &&
              v.tensor->dtype.bits == 64);
    cr_assert_eq(memcmp(v.tensor->data, (float complex[]){z[1], z[4], z[2], z[5]}, 32), 0);
    cr_assert(tensors_find(file, "plain", &v) && memcmp(v.tensor->data, bytes, 3) == 0);
    cr_assert(tensors_find(file, "wide", &v) && v.tensor->dtype.bits == 128 &&
              memcmp(v.tensor->data, &w, 16) == 0);
    cr_assert(tensors_find(file, "i", &v) && v.integer == INT64_MIN);
    cr_assert(tensors_find(file, "f", &v) && v.real == 0.1);
    cr_assert(tensors_find(file, "s", &v));
    cr_assert_str_eq(v.string, values[5].string);
    cr_assert(tensors_find(file, "none", &v) && v.kind == PHASOR_NONE);
    cr_assert(tensors_find(file, "b", &v) && v.kind == PHASOR_BOOL && !v.boolean);
    tensors_close(file);
    ASSERT_NO_LEAKS();
}

Test(safetensors, writing_fails_with_a_reason)
{
    DLTensor device = {.device = {kDLCUDA, 0}, .dtype = {kDLFloat, 32, 1}};
    const phasor_value v = {.kind = PHASOR_TENSOR, .tensor = &device}, none = {.kind = PHASOR_NONE};
    cr_assert_eq(tensors_write("/tmp/x.safetensors", (const char *[]){"a"}, &v, 1),
                 PHASOR_ERROR_USAGE);
    cr_assert_eq(tensors_write("/nonexistent/x.safetensors", (const char *[]){"a"}, &none, 1),
                 PHASOR_ERROR_FILE);
    ASSERT_NO_LEAKS();
}

Test(safetensors, python_floats_are_the_shortest)
{
    static const struct {
        double number;
        const char *text;
    } rows[] = {{1, "1.0"},        {0.1, "0.1"},   {-2.5, "-2.5"},
                {1e300, "1e+300"}, {-0.0, "-0.0"}, {INFINITY, "inf"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text text = {0};
        python_print(&(phasor_value){.kind = PHASOR_FLOAT, .real = rows[i].number}, &text);
        cr_assert_str_eq(text_get(&text), rows[i].text);
        text_free(&text);
    }
    ASSERT_NO_LEAKS();
}

Test(safetensors, files_of_the_cases)
{
    glob_t found;
    cr_assert_eq(glob(PHASOR_TEST_CASES "/*/*.safetensors", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct tensors_file *file;
        cr_assert_eq(tensors_read(found.gl_pathv[i], &file), PHASOR_OK, "%s", message_get());
        tensors_close(file);
    }
    globfree(&found);
    ASSERT_NO_LEAKS();
}
