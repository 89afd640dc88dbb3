/* load_archive.h - .pt2 archives made in a test: a small whole program, with any part of it
 * replaced.
 *
 *     struct bytes b = archive_make((struct edit[]){{"\"dtype\": 10", "\"dtype\": 77"}, {0}});
 *
 * An edit replaces the first place of its text in the entries below; one whose text is the name
 * of an entry replaces that entry (NULL: leaves it out) or adds it.
 */
#pragma once
#include "load/load.h"
#include "support/leak.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

struct bytes {
    unsigned char *at;
    size_t count;
};

struct edit {
    const char *from, *to;
};

#define TENSOR(name, dtype, sizes, strides)                   \
    "\"" name "\": {\"dtype\": " dtype ", \"sizes\": [" sizes \
    "], \"requires_grad\": false, \"device\": {\"type\": "    \
    "\"cpu\", \"index\": null}, \"strides\": [" strides       \
    "], \"storage_offset\": {\"as_int\": 0}, \"layout\": 7}"
#define SYMBOL                                                                               \
    "{\"as_expr\": {\"expr_str\": \"Symbol('s7', positive=True, integer=True)\", \"hint\": " \
    "{\"as_int\": 3}}}"

/* forward(x, n=3): self.b.mul_(x); return self.b * x, x, None.  x: c64[s7, 2], b: a view of 4 c64
 * at offset 1 of 6 */
/* Not formatted: macros among strings. */
// clang-format off
static const char model_json[] =
    "{\"graph_module\": {\"graph\": {\"inputs\": [{\"as_tensor\": {\"name\": \"b_b\"}}, "
    "{\"as_tensor\": {\"name\": \"x\"}}, {\"as_int\": 3}], \"outputs\": [{\"as_tensor\": "
    "{\"name\": \"mul\"}}, {\"as_tensor\": {\"name\": \"mul_1\"}}, {\"as_tensor\": {\"name\": "
    "\"x\"}}, {\"as_none\": true}], \"nodes\": [{\"target\": \"torch.ops.aten.mul.Tensor\", "
    "\"inputs\": [{\"name\": \"self\", \"arg\": {\"as_tensor\": {\"name\": \"b_b\"}}, "
    "\"kind\": 1}, {\"name\": \"other\", \"arg\": {\"as_float\": 2.5}, \"kind\": 1}], "
    "\"outputs\": [{\"as_tensor\": {\"name\": \"mul\"}}], \"metadata\": {\"stack_trace\": "
    "\"File \\\"/a/model.py\\\", line 7, in outer\\n    self.step()\\n"
    "File \\\"/b/rope.py\\\", line 29, in forward\\n    self.b.mul_(2.5)\"}, "
    "\"is_hop_single_tensor_return\": null, \"name\": \"mul\"}, {\"target\": "
    "\"torch.ops.aten.mul.Tensor\", \"inputs\": [{\"name\": \"self\", \"arg\": {\"as_tensor\": "
    "{\"name\": \"mul\"}}, \"kind\": 1}, {\"name\": \"other\", \"arg\": {\"as_tensor\": "
    "{\"name\": \"x\"}}, \"kind\": 1}], \"outputs\": [{\"as_tensor\": {\"name\": \"mul_1\"}}], "
    "\"metadata\": {}, \"is_hop_single_tensor_return\": null, \"name\": \"mul_1\"}], "
    "\"tensor_values\": {"
    TENSOR("b_b", "10", "{\"as_int\": 2}, {\"as_int\": 2}",
           "{\"as_int\": 2}, {\"as_int\": 1}")
    ", "
    TENSOR("x", "10", SYMBOL ", {\"as_int\": 2}, {\"as_int\": 2}",
           "{\"as_int\": 4}, {\"as_int\": 2}, {\"as_int\": 1}")
    ", "
    TENSOR("mul", "10", "{\"as_int\": 2}, {\"as_int\": 2}",
           "{\"as_int\": 2}, {\"as_int\": 1}")
    ", "
    TENSOR("mul_1", "10", SYMBOL ", {\"as_int\": 2}, {\"as_int\": 2}",
           "{\"as_int\": 4}, {\"as_int\": 2}, {\"as_int\": 1}")
    "}, \"sym_int_values\": {}, \"sym_bool_values\": {}, \"is_single_tensor_return\": false, "
    "\"custom_obj_values\": {}, \"sym_float_values\": {}}, \"signature\": {\"input_specs\": "
    "[{\"buffer\": {\"arg\": {\"name\": \"b_b\"}, \"buffer_name\": \"b\", "
    "\"persistent\": true}}, {\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}, "
    "{\"constant_input\": {\"name\": \"n\", \"value\": {\"as_int\": 3}}}], \"output_specs\": "
    "[{\"buffer_mutation\": {\"arg\": {\"name\": \"mul\"}, \"buffer_name\": \"b\"}}, "
    "{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"mul_1\"}}}}, {\"user_output\": "
    "{\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}, {\"user_output\": {\"arg\": "
    "{\"as_none\": true}}}]}, \"module_call_graph\": [], \"metadata\": {}}, \"opset_version\": "
    "{\"aten\": 10}, \"range_constraints\": {\"s7\": {\"min_val\": 2, \"max_val\": null}}, "
    "\"schema_version\": {\"major\": 8, \"minor\": 17}, \"verifiers\": [\"ATEN\"], "
    "\"torch_version\": \"2.11.0\", \"guards_code\": []}";
// clang-format on

static const char weights_json[] =
    "{\"config\": {\"b\": {\"path_name\": \"weight_0\", \"is_param\": false, \"use_pickle\": "
    "false, \"tensor_meta\": "
    "{\"dtype\": 10, \"sizes\": [{\"as_int\": 2}, {\"as_int\": 2}], \"requires_grad\": false, "
    "\"device\": {\"type\": "
    "\"cpu\", \"index\": null}, \"strides\": [{\"as_int\": 2}, {\"as_int\": 1}], "
    "\"storage_offset\": {\"as_int\": 1}, "
    "\"layout\": 7}}}}";

enum { ENTRIES = 12 };
struct part {
    const char *name;
    char *text; /* NULL: left out */
    size_t count;
};

static inline void part_set(struct part *part, const char *name, const char *text)
{
    free(part->text);
    *part = (struct part){name, text ? strdup(text) : NULL, text ? strlen(text) : 0};
}

static inline void part_edit(struct part *part, const struct edit *edit)
{
    const char *place = part->text ? strstr(part->text, edit->from) : NULL;
    if (!place)
        return;
    const size_t before = (size_t)(place - part->text);
    char *text = malloc(part->count + strlen(edit->to) + 1);
    sprintf(text, "%.*s%s%s", (int)before, part->text, edit->to, place + strlen(edit->from));
    free(part->text);
    part->text = text;
    part->count = strlen(text);
}

static inline void parts_edit(struct part parts[ENTRIES], int *count, const struct edit *edit)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(parts[i].name, edit->from) == 0) {
            part_set(&parts[i], edit->from, edit->to);
            return;
        }
    if (strncmp(edit->from, "m/", 2) == 0 || !edit->to) {
        part_set(&parts[(*count)++], edit->from, edit->to);
        return;
    }
    bool found = false;
    for (int i = 0; i < *count && !found; i++) {
        found = parts[i].text && strstr(parts[i].text, edit->from);
        if (found)
            part_edit(&parts[i], edit);
    }
    cr_assert(found, "the edit \"%s\" has no place", edit->from);
}

static inline struct bytes zip_make(const struct part *parts, int count, int method)
{
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *target = zip_source_buffer_create(NULL, 0, 0, &error);
    zip_t *zip = zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, &error);
    cr_assert(zip);
    zip_source_keep(target);
    for (int i = 0; i < count; i++) {
        if (!parts[i].text)
            continue;
        const zip_int64_t index = zip_file_add(
            zip, parts[i].name, zip_source_buffer(zip, parts[i].text, parts[i].count, 0), 0);
        cr_assert(index >= 0, "%s: %s", parts[i].name, zip_strerror(zip));
        zip_set_file_compression(zip, (zip_uint64_t)index, method, 0);
        zip_file_set_mtime(zip, (zip_uint64_t)index, 400000000, 0);
    }
    cr_assert_eq(zip_close(zip), 0);
    zip_stat_t stat;
    zip_stat_init(&stat);
    zip_source_stat(target, &stat);
    struct bytes bytes = {malloc(stat.size + 1), stat.size};
    cr_assert_eq(zip_source_open(target), 0);
    cr_assert_eq(zip_source_read(target, bytes.at, bytes.count), (zip_int64_t)bytes.count);
    zip_source_close(target);
    zip_source_free(target);
    zip_error_fini(&error);
    return bytes;
}

static inline struct bytes archive_make_with(const struct edit *edits, int method)
{
    struct part parts[ENTRIES] = {0};
    int count = 0;
    char weights[49] = "";
    part_set(&parts[count++], "m/data/weights/weight_0", "");
    part_set(&parts[count++], "m/data/weights/model_weights_config.json", weights_json);
    part_set(&parts[count++], "m/data/constants/model_constants_config.json", "{\"config\": {}}");
    part_set(&parts[count++], "m/models/model.json", model_json);
    part_set(&parts[count++], "m/archive_format", "pt2");
    part_set(&parts[count++], "m/archive_version", "0");
    part_set(&parts[count++], "m/byteorder", "little");
    for (int i = 0; i < 12; i++) /* 6 complex numbers: 0-1i, 2-3i, ... */
        memcpy(weights + 4 * i, &(float){(float)(i % 2 ? -i : i)}, 4);
    free(parts[0].text);
    parts[0].text = malloc(48);
    memcpy(parts[0].text, weights, 48);
    parts[0].count = 48;
    for (; edits && edits->from; edits++)
        parts_edit(parts, &count, edits);
    const struct bytes bytes = zip_make(parts, count, method);
    for (int i = 0; i < count; i++)
        free(parts[i].text);
    return bytes;
}

static inline struct bytes archive_make(const struct edit *edits)
{
    return archive_make_with(edits, ZIP_CM_STORE);
}
