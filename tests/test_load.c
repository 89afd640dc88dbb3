/* test_load.c - .pt2 files: what a good one gives, and that a bad one gives a sentence and
 * nothing else.
 *
 * The cases of tests/cases are loaded whole; everything else is an archive made here
 * (support/load_archive.h). */
#include "load/loader.h"
#include "load/safetensors.h"
#include "support/load_archive.h"

#include <glob.h>
#include <unistd.h>

static phasor_status load_bytes(const struct bytes *bytes, struct loaded_program *program)
{
    return load_pt2_memory(bytes->at, bytes->count, "test.pt2", NULL, program);
}

static phasor_status load_edited(const struct edit *edits, struct loaded_program *program)
{
    const struct bytes bytes = archive_make(edits);
    const phasor_status status = load_bytes(&bytes, program);
    free(bytes.at);
    return status;
}

/* -- a good program ---------------------------------------------------------------------------- */

static void expect_program(struct loaded_program *p)
{
    const struct graph *g = &p->graph;
    cr_assert_eq(graph_verify(&p->graph), PHASOR_OK, "%s", message_get());
    cr_assert_eq(g->inputs.count, 2u);
    cr_assert_str_eq(g->inputs.at[0].name, "x");
    cr_assert_eq(graph_node(g, g->inputs.at[0].node)->dtype, DT_c64);
    cr_assert_eq(graph_dim(g, g->inputs.at[0].node, 0), 3);
    cr_assert(g->inputs.at[1].constant && g->inputs.at[1].expected.integer == 3);
    cr_assert_eq(p->sizes.symbols.count, 1u);
    cr_assert_eq(p->sizes.symbols.at[0].low, 2);
    cr_assert_eq(p->sizes.symbols.at[0].high, INT64_MAX);

    cr_assert_eq(g->buffers.count, 1u);
    cr_assert_str_eq(g->buffers.at[0].writer->target, "output");
    cr_assert_str_eq(g->buffers.at[0].writer->node, "b");
    const struct data *d = g->buffers.at[0].initial;
    cr_assert_eq(d->offset, 1);
    cr_assert_eq(d->storage->nbytes, 48u);
    cr_assert_eq((uintptr_t)d->storage->bytes % 64, 0u);
    cr_assert_eq(((const float *)d->storage->bytes)[5], -5.0f);
    const struct origin *origin = graph_node(g, g->buffers.at[0].written)->origin;
    cr_assert_str_eq(origin->line, "rope.py:29 in forward, code: self.b.mul_(2.5)");
    cr_assert_str_eq(origin->target, "aten.mul.Tensor");

    cr_assert_eq(g->outputs.count, 3u);
    cr_assert_str_eq(g->outputs.at[0].name, "mul_1");
    cr_assert_eq(g->outputs.at[1].node, g->inputs.at[0].node);
    cr_assert_eq(g->outputs.at[2].kind, PHASOR_NONE);
    cr_assert_str_eq(g->outputs.at[2].name, "output_2");
}

Test(load, whole_program)
{
    struct loaded_program p;
    cr_assert_eq(load_edited(NULL, &p), PHASOR_OK, "%s", message_get());
    expect_program(&p);
    load_free(&p);
    ASSERT_NO_LEAKS();
}

Test(load, deflated_and_with_other_entries)
{
    const struct edit edits[] = {
        {"m/extra/note.txt", "hello"}, {"m/data/sample_inputs/model.pt", ""}, {0}};
    const struct bytes bytes = archive_make_with(edits, ZIP_CM_DEFLATE);
    struct loaded_program p;
    cr_assert_eq(load_bytes(&bytes, &p), PHASOR_OK, "%s", message_get());
    expect_program(&p);
    load_free(&p);
    free(bytes.at);
    ASSERT_NO_LEAKS();
}

Test(load, newer_minor_and_unknown_fields)
{
    const struct edit edits[] = {{"\"minor\": 17", "\"minor\": 99, \"patch\": [1]"},
                                 {"\"is_param\": false", "\"is_new\": {\"a\": 1}"},
                                 {0}};
    struct loaded_program p;
    cr_assert_eq(load_edited(edits, &p), PHASOR_OK, "%s", message_get());
    load_free(&p);
    ASSERT_NO_LEAKS();
}

Test(load, models_by_name)
{
    const struct edit edits[] = {{"m/models/other.json", "{}"}, {0}};
    const struct bytes bytes = archive_make(edits);
    struct loaded_program p;
    cr_assert_eq(load_pt2_memory(bytes.at, bytes.count, "t", NULL, &p), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "name one: model, other"), "%s", message_get());
    cr_assert_eq(load_pt2_memory(bytes.at, bytes.count, "t", "third", &p), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "no program \"third\""), "%s", message_get());
    cr_assert_eq(load_pt2_memory(bytes.at, bytes.count, "t", "model", &p), PHASOR_OK);
    load_free(&p);
    free(bytes.at);
    ASSERT_NO_LEAKS();
}

/* A dim that only stands in 2*s7 + 1 binds s7. */
Test(load, symbol_from_a_compound_size)
{
    const struct edit edits[] = {
        {SYMBOL, "{\"as_expr\": {\"expr_str\": \"Add(Mul(Integer(2), Symbol('s7')), Integer(1))\", "
                 "\"hint\": {\"as_int\": 9}}}"},
        {"\"torch.ops.aten.mul.Tensor\", \"inputs\": [{\"name\": \"self\", \"arg\": "
         "{\"as_tensor\": {\"name\": \"mul\"}}",
         "\"torch.ops.aten.mul.Tensor\", \"inputs\": [{\"name\": \"self\", \"arg\": "
         "{\"as_complex\": {\"real\": \"Infinity\", "
         "\"imag\": 1}}"},
        {0}};
    struct loaded_program p;
    cr_assert_eq(load_edited(edits, &p), PHASOR_OK, "%s", message_get());
    cr_assert_eq(p.sizes.symbols.at[0].value, 4);
    cr_assert_eq(graph_dim(&p.graph, p.graph.inputs.at[0].node, 0), 9);
    load_free(&p);
    ASSERT_NO_LEAKS();
}

Test(load, dtypes_without_support_are_refused_by_name)
{
    const struct edit edits[] = {{"\"x\": {\"dtype\": 10", "\"x\": {\"dtype\": 30"}, {0}};
    struct loaded_program p;
    cr_assert_eq(load_edited(edits, &p), PHASOR_OK, "%s", message_get());
    cr_assert(p.refusals.count >= 1);
    cr_assert_str_eq(p.refusals.at[0].target, "input");
    cr_assert_str_eq(p.refusals.at[0].node, "x");
    cr_assert_str_eq(p.refusals.at[0].reason, "dtype f8e5m2 is not supported");
    cr_assert(p.refusals.at[0].unknown);
    load_free(&p);
    ASSERT_NO_LEAKS();
}

#define SECOND_CALL                                                                      \
    "{\"name\": \"self\", \"arg\": {\"as_tensor\": {\"name\": \"mul\"}}, \"kind\": 1}, " \
    "{\"name\": \"other\""

/* Every tag can stand in a call of an operator that is unknown: it is decoded and refused, not an
 * error. */
Test(load, every_tag_is_known)
{
    static const char *const arguments[] = {
        "{\"as_none\": true}",
        "{\"as_tensor\": {\"name\": \"x\"}}",
        "{\"as_tensors\": []}",
        "{\"as_tensors\": [{\"name\": \"x\"}, {\"name\": \"mul\"}]}",
        "{\"as_optional_tensors\": [{\"as_none\": true}, {\"as_tensor\": {\"name\": \"x\"}}]}",
        "{\"as_optional_tensor\": {\"as_none\": true}}",
        "{\"as_nested_tensors\": [[{\"name\": \"x\"}], []]}",
        "{\"as_int\": -9223372036854775808}",
        "{\"as_int\": 9223372036854775807}",
        "{\"as_ints\": [1, -1]}",
        "{\"as_int_lists\": [[1], [2, 3]]}",
        "{\"as_float\": \"-Infinity\"}",
        "{\"as_float\": \"NaN\"}",
        "{\"as_float\": -0.0}",
        "{\"as_floats\": [1.0, \"Infinity\"]}",
        "{\"as_float_lists\": [[0.5]]}",
        "{\"as_bool\": true}",
        "{\"as_bools\": [true, false]}",
        "{\"as_string\": \"a\\u00e9\"}",
        "{\"as_strings\": [\"a\"]}",
        "{\"as_complex\": {\"real\": 0.0, \"imag\": 1.0}}",
        "{\"as_sym_int\": {\"as_int\": 5}}",
        "{\"as_sym_ints\": [{\"as_int\": -1}]}",
        "{\"as_sym_float\": {\"as_float\": 0.5}}",
        "{\"as_sym_floats\": [{\"as_float\": 0.5}]}",
        "{\"as_sym_bool\": {\"as_bool\": true}}",
        "{\"as_sym_bools\": [{\"as_bool\": false}]}",
        "{\"as_scalar_type\": 13}",
        "{\"as_memory_format\": 4}",
        "{\"as_layout\": 7}",
        "{\"as_device\": {\"type\": \"cuda\", \"index\": 0}}",
        "{\"as_operator\": \"aten.add\"}",
        "{\"as_graph\": {\"name\": \"g\", \"graph\": {}}}",
        "{\"as_custom_obj\": {\"name\": \"o\", \"class_fqn\": \"c\"}}",
        "{\"as_string_to_argument\": {}}"};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        char other[400];
        snprintf(other, sizeof other,
                 SECOND_CALL ", \"arg\": %s, \"kind\": 1}, {\"name\": \"third\"", arguments[i]);
        const struct edit edits[] = {
            {SECOND_CALL, other}, {"torch.ops.aten.mul.Tensor", "torch.ops.aten.mul.Tensor"}, {0}};
        struct loaded_program p;
        const phasor_status status = load_edited(edits, &p);
        cr_assert_eq(status, PHASOR_OK, "%s: %s", arguments[i], message_get());
        load_free(&p);
    }
    ASSERT_NO_LEAKS();
}

/* -- bad programs ------------------------------------------------------------------------------ */

#define NODE "test.pt2: models/model.json: node mul_1: "
#define WEIGHT "test.pt2: data/weights/model_weights_config.json: node b: "

Test(load, damaged_files_give_a_sentence)
{
    static const struct {
        struct edit edit;
        const char *message;
    } rows[] = {
        {{"\"major\": 8", "\"major\": 7"}, "schema version 7; this Phasor reads 8"},
        {{"\"as_float\": 2.5", "\"as_foat\": 2.5"},
         "node mul: argument \"other\": the tag \"as_foat\" is unknown"},
        {{"\"as_float\": 2.5", "\"as_int\": 9223372036854775808"}, "too big integer"},
        {{"\"as_float\": 2.5", "\"as_float\": \"Inf\""},
         "a number, \"Infinity\", \"-Infinity\" or \"NaN\" is expected"},
        {{"\"as_float\": 2.5", "\"as_float\": NaN"}, "line 1"},
        {{"\"as_float\": 2.5", "\"as_float\": 2.5, \"as_int\": 1"},
         "exactly one key is expected, not with 2"},
        {{"\"as_float\": 2.5", "\"as_tensor\": {\"name\": \"gone\"}"},
         "the name \"gone\" stands for nothing"},
        {{"\"as_float\": 2.5", "\"as_scalar_type\": 20"}, "20 is no dtype"},
        {{"\"as_float\": 2.5", "\"as_memory_format\": 9"}, "9 is no memory format"},
        {{"\"as_float\": 2.5", "\"as_layout\": 0"}, "0 is no layout"},
        {{"\"as_float\": 2.5", "\"as_sym_ints\": [{\"as_name\": \"mul\"}]"},
         "the name \"mul\" stands for nothing"},
        {{"{\"name\": \"mul\"}}, \"kind\": 1}", "{\"name\": \"mul_1\"}}, \"kind\": 1}"},
         NODE "the name \"mul_1\" stands for"},
        {{"[{\"as_tensor\": {\"name\": \"mul_1\"}}], \"metadata\"",
          "[{\"as_tensor\": {\"name\": \"x\"}}], \"metadata\""},
         NODE "the name \"x\" is given twice"},
        {{"\"target\": \"torch.ops.aten.mul.Tensor\"", "\"target\": null"},
         "\"target\": a string is expected, not null"},
        {{"\"nodes\": [", "\"nodes\": [3, "}, "\"nodes\": an object is expected, not an integer"},
        {{"\"nodes\"", "\"nodes\": [], \"nodes\""}, "duplicate object key"},
        {{"\"mul_1\": {\"dtype\": 10", "\"mul_2\": {\"dtype\": 10"},
         NODE "field \"tensor_values\": tensor \"mul_1\" is not"},
        {{"\"x\": {\"dtype\": 10", "\"x\": {\"dtype\": 0"}, "0 is no dtype"},
        {{SYMBOL, "{\"as_int\": -1}"}, "dim 0 is -1"},
        {{SYMBOL, "{\"as_int\": 9223372036854775807}"}, "too many elements"},
        {{"Symbol('s7', positive=True, integer=True)", "Symbol("}, "size expression \"Symbol(\""},
        {{"Symbol('s7', positive=True, integer=True)", "Nothing(Integer(1))"},
         "a function is unknown"},
        {{"\"hint\": {\"as_int\": 3}", "\"hint\": {\"as_int\": -3}"}, "dim 0 is -3"},
        {{"\"min_val\": 2, \"max_val\": null", "\"min_val\": 5, \"max_val\": 4"},
         "empty range 5 to 4"},
        {{"\"constant_input\"", "\"constant_imput\""}, "the kind \"constant_imput\" is unknown"},
        {{"\"buffer_mutation\"", "\"gradient_to_parameter\""}, "is not for inference"},
        {{"\"arg\": {\"name\": \"mul\"}", "\"arg\": {\"name\": \"mul_1\"}"},
         "has another dtype or shape"},
        {{"\"arg\": {\"name\": \"mul\"}, \"buffer_name\": \"b\"",
          "\"arg\": {\"name\": \"mul\"}, \"buffer_name\": \"c\""},
         "the program has no buffer \"c\" to change"},
        {{"\"config\": {\"b\"", "\"config\": {\"c\""}, "\"b\" is neither in"},
        {{"weight_0", "weight_1"}, WEIGHT "field \"path_name\""},
        {{"weight_0", "../weight_0"}, "the archive has no entry"},
        {{"\"use_pickle\": false", "\"use_pickle\": true"}, WEIGHT "a pickled tensor"},
        {{"\"storage_offset\": {\"as_int\": 1}", "\"storage_offset\": {\"as_int\": 3}"},
         "reaches beyond its file"},
        {{"\"storage_offset\": {\"as_int\": 1}",
          "\"storage_offset\": {\"as_int\": 9223372036854775807}"},
         "reaches beyond"},
        {{"\"storage_offset\": {\"as_int\": 1}", "\"storage_offset\": {\"as_int\": -1}"},
         "-1 is negative"},
        {{"\"strides\": [{\"as_int\": 2}, {\"as_int\": 1}], \"storage_offset\": {\"as_int\": 1}",
          "\"strides\": [{\"as_int\": -2}, {\"as_int\": 1}], \"storage_offset\": {\"as_int\": 1}"},
         "-2 is negative"},
        {{"\"sizes\": [{\"as_int\": 2}, {\"as_int\": 2}], \"requires_grad\": false, \"device\": "
          "{\"type\": \"cpu\", "
          "\"index\": null}, \"strides\": [{\"as_int\": 2}, {\"as_int\": 1}], \"storage_offset\": "
          "{\"as_int\": 1}",
          "\"sizes\": [{\"as_int\": 4611686018427387904}, {\"as_int\": 4611686018427387904}], "
          "\"strides\": [{\"as_int\": "
          "4611686018427387904}, {\"as_int\": 3}], \"storage_offset\": {\"as_int\": 1}"},
         "reaches beyond its file"},
        {{"m/data/constants/model_constants_config.json", NULL}, "the archive has no such entry"},
        {{"m/models/model.json", "[1, 2"}, "line 1"},
        {{"m/models/model.json", "[1, 2]"}, "an object is expected"},
        {{"m/models/model.json", ""}, "models/model.json"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct loaded_program p;
        const phasor_status status = load_edited((struct edit[]){rows[i].edit, {0}}, &p);
        cr_assert_eq(status, PHASOR_ERROR_FILE, "row %zu (%s): status %d, %s", i, rows[i].edit.from,
                     status, message_get());
        cr_assert(strstr(message_get(), rows[i].message), "row %zu: %s", i, message_get());
    }
    ASSERT_NO_LEAKS();
}

Test(load, other_archives_say_what_they_are)
{
    static const struct {
        struct part parts[3];
        const char *message;
    } rows[] = {
        {{{"serialized_exported_program.json", "{}", 2}, {"version", "8.2", 3}},
         "torch 2.7 or older"},
        {{{"m/archive_format", "pt2", 3},
          {"m/models/model.json", "{}", 2},
          {"m/data/weights/model.pt", "", 0}},
         "torch 2.8"},
        {{{"m/archive_format", "pt2", 3}, {"m/data/aotinductor/model/x.so", "x", 1}},
         "an AOTInductor package"},
        {{{"m/archive_format", "pt2", 3},
          {"m/models/model.json", "{}", 2},
          {"m/byteorder", "big", 3}},
         "big-endian"},
        {{{"m/archive_format", "pt2", 3},
          {"m/models/model.json", "{}", 2},
          {"m/archive_version", "1", 1}},
         "version \"1\""},
        {{{"m/archive_format", "pt9", 3}}, "format \"pt9\""},
        {{{"m/archive_format", "pt2", 3}, {"m/extra/x", "x", 1}}, "has no program"},
        {{{"m/data.pkl", "x", 1}, {"m/constants.pkl", "x", 1}}, "a TorchScript module"},
        {{{"m/data.pkl", "x", 1}, {"m/data/0", "x", 1}}, "a checkpoint of torch.save"},
        {{{"hello.txt", "x", 1}}, "not an exported program"},
        {{{"m/archive_format", "pt2", 3}, {"m/../x", "x", 1}}, "an unsafe name"},
        {{{"m/archive_format", "pt2", 3}, {"/m/x", "x", 1}}, "an unsafe name"},
        {{{"m/archive_format", "pt2", 3}, {"m\\x", "x", 1}}, "an unsafe name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct loaded_program p;
        const struct bytes bytes = zip_make(rows[i].parts,
                                            rows[i].parts[2].name   ? 3
                                            : rows[i].parts[1].name ? 2
                                                                    : 1,
                                            ZIP_CM_STORE);
        cr_assert_eq(load_bytes(&bytes, &p), PHASOR_ERROR_FILE);
        cr_assert(strstr(message_get(), rows[i].message), "row %zu: %s", i, message_get());
        free(bytes.at);
    }
    ASSERT_NO_LEAKS();
}

Test(load, other_files_say_what_they_are)
{
    static const struct {
        const char *bytes, *message;
    } rows[] = {{"", "an empty file"},
                {"def forward(x):\n", "a text file"},
                {"\x7f"
                 "ELF\2\1\1",
                 "a shared library"},
                {"\x80\x02}q", "a pickle"},
                {"PK\3\4........................", "cut off or damaged"},
                {"\1\2\3\4\5", "no zip archive"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct loaded_program p;
        cr_assert_eq(load_pt2_memory(rows[i].bytes, strlen(rows[i].bytes), "t", NULL, &p),
                     PHASOR_ERROR_FILE);
        cr_assert(strstr(message_get(), rows[i].message), "row %zu: %s", i, message_get());
    }
    struct loaded_program p;
    cr_assert_eq(load_program("/nonexistent/x.pt2", NULL, &p), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "/nonexistent/x.pt2: No such file"), "%s", message_get());
    cr_assert_eq(load_program("/", NULL, &p), PHASOR_ERROR_FILE);
    ASSERT_NO_LEAKS();
}

/* Changes every place of a text of the same length: names stand twice in an archive. */
static void bytes_replace(const struct bytes *bytes, const char *from, const char *to)
{
    for (size_t at = 0; at + strlen(from) <= bytes->count; at++)
        if (memcmp(bytes->at + at, from, strlen(from)) == 0)
            memcpy(bytes->at + at, to, strlen(to));
}

Test(load, entries_twice_and_wrong_checksums)
{
    struct loaded_program p;
    struct bytes bytes =
        archive_make((struct edit[]){{"m/extra/aa", "x"}, {"m/extra/bb", "y"}, {0}});
    bytes_replace(&bytes, "m/extra/bb", "m/extra/aa");
    cr_assert_eq(load_bytes(&bytes, &p), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "two entries \"m/extra/aa\""), "%s", message_get());
    free(bytes.at);

    bytes = archive_make(NULL);
    bytes_replace(&bytes, "2.11.0", "2.12.0");
    cr_assert_eq(load_bytes(&bytes, &p), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "CRC"), "%s", message_get());
    free(bytes.at);
    ASSERT_NO_LEAKS();
}

Test(load, nothing_to_unpack_without_end)
{
    const size_t count = 300u << 20;
    struct part parts[2] = {{"m/archive_format", "pt2", 3}, {"m/zeros", calloc(1, count), count}};
    const struct bytes bytes = zip_make(parts, 2, ZIP_CM_DEFLATE);
    struct loaded_program p;
    free(parts[1].text);
    cr_assert_eq(load_bytes(&bytes, &p),
                 PHASOR_ERROR_FILE); /* not read: it is no part of a program */
    cr_assert(strstr(message_get(), "has no program"), "%s", message_get());
    free(bytes.at);
    ASSERT_NO_LEAKS();
}

Test(load, cut_files_and_flipped_bytes, .timeout = 3600)
{
    const struct bytes bytes = archive_make(NULL);
    struct loaded_program p;
    uint32_t random = 1;
    for (size_t count = 0; count < bytes.count; count += 37) {
        const phasor_status status = load_pt2_memory(bytes.at, count, "t", NULL, &p);
        cr_assert_eq(status, PHASOR_ERROR_FILE);
    }
    for (int round = 0; round < 3000; round++) {
        random = random * 1664525 + 1013904223;
        const size_t at = (random >> 8) % bytes.count;
        const unsigned char old = bytes.at[at];
        bytes.at[at] = (unsigned char)(random >> 3);
        const phasor_status status = load_bytes(&bytes, &p);
        cr_assert(status == PHASOR_OK || status == PHASOR_ERROR_FILE, "%d %s", status,
                  message_get());
        if (status == PHASOR_OK)
            load_free(&p);
        bytes.at[at] = old;
    }
    free(bytes.at);
    ASSERT_NO_LEAKS();
}

/* The JSON itself, with checksums that are right. */
Test(load, flipped_text, .timeout = 3600)
{
    static const char letters[] = "\"{}[]:,0123456789-.eabxmtrue_";
    uint32_t random = 7;
    char *text = strdup(model_json);
    for (int round = 0; round < 3000; round++) {
        struct loaded_program p;
        random = random * 1664525 + 1013904223;
        const size_t at = (random >> 8) % strlen(model_json);
        const char old = text[at];
        text[at] = letters[(random >> 4) % (sizeof letters - 1)];
        const phasor_status status =
            load_edited((struct edit[]){{"m/models/model.json", text}, {0}}, &p);
        cr_assert(status == PHASOR_OK || status == PHASOR_ERROR_FILE, "%d %s", status,
                  message_get());
        if (status == PHASOR_OK)
            load_free(&p);
        text[at] = old;
    }
    free(text);
    ASSERT_NO_LEAKS();
}

Test(load, deep_nesting_is_an_error)
{
    enum { DEPTH = 5000 };
    struct loaded_program p;
    char *text = malloc(2 * DEPTH + 1), expression[8 * 400 + 1] = "";
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    text[2 * DEPTH] = '\0';
    cr_assert_eq(load_edited((struct edit[]){{"m/models/model.json", text}, {0}}, &p),
                 PHASOR_ERROR_FILE);
    for (int i = 0; i < 400; i++)
        strcat(expression, "Add(");
    cr_assert_eq(
        load_edited((struct edit[]){{"Symbol('s7', positive=True, integer=True)", expression}, {0}},
                    &p),
        PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "nested too deep"), "%s", message_get());
    free(text);
    ASSERT_NO_LEAKS();
}

/* -- the cases --------------------------------------------------------------------------------- */

Test(load, cases_load_and_verify, .timeout = 3600)
{
    glob_t found;
    cr_assert_eq(glob(PHASOR_TEST_CASES "/*/*.pt2", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct loaded_program p;
        cr_assert_eq(load_program(found.gl_pathv[i], NULL, &p), PHASOR_OK, "%s", message_get());
        cr_assert_eq(graph_verify(&p.graph), PHASOR_OK, "%s: %s", found.gl_pathv[i], message_get());
        load_free(&p);
    }
    globfree(&found);
    ASSERT_NO_LEAKS();
}

Test(load, changed_tensors_are_the_outputs)
{
    static const char *const files[] = {PHASOR_TEST_CASES "/cache_step/plain.pt2",
                                        PHASOR_TEST_CASES "/cache_step/core.pt2"};
    for (int i = 0; i < 2; i++) {
        struct loaded_program p;
        cr_assert_eq(load_program(files[i], NULL, &p), PHASOR_OK, "%s", message_get());
        cr_assert_eq(p.graph.buffers.count, 1u);
        cr_assert_str_eq(p.graph.buffers.at[0].name, "cache");
        cr_assert_eq(p.graph.outputs.at[1].node, p.graph.buffers.at[0].written);
        load_free(&p);
    }
    ASSERT_NO_LEAKS();
}

Test(load, weights_share_their_storage)
{
    struct loaded_program p;
    cr_assert_eq(load_program(PHASOR_TEST_CASES "/stored_weights/plain.pt2", NULL, &p), PHASOR_OK,
                 "%s", message_get());
    const struct data *found[16] = {0};
    int count = 0;
    for (value v = 1; v < p.graph.nodes.count && count < 16; v++)
        if (graph_node(&p.graph, v)->op == OP_data)
            found[count++] = graph_node(&p.graph, v)->attributes.data;
    cr_assert(count >= 3);
    int shared = 0;
    for (int i = 1; i < count; i++)
        shared += found[i]->storage == found[0]->storage;
    cr_assert(shared >= 1);
    load_free(&p);
    ASSERT_NO_LEAKS();
}

/* -- text programs ----------------------------------------------------------------------------- */

static void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0);
    fclose(file);
}

/* What is printed from a .pt2 loads as text and prints the same; data that is not inline lies
 * beside it. */
Test(load, text_with_data_beside_it)
{
    char folder[] = "/tmp/phasor-load-XXXXXX", program[64], data[64];
    struct loaded_program p, again;
    struct text text = {0}, second = {0};
    cr_assert(mkdtemp(folder));
    snprintf(program, sizeof program, "%s/plain.phasor", folder);
    snprintf(data, sizeof data, "%s/plain.safetensors", folder);
    cr_assert_eq(load_program(PHASOR_TEST_CASES "/qk_rope_f32/plain.pt2", NULL, &p), PHASOR_OK,
                 "%s", message_get());
    graph_print(&p.graph, &text);
    file_write(program, text_get(&text));
    cr_assert_eq(load_program(program, NULL, &again), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "plain.safetensors"), "%s", message_get());

    const struct data *d = NULL;
    for (value v = 1; v < p.graph.nodes.count; v++)
        d = graph_node(&p.graph, v)->op == OP_data ? graph_node(&p.graph, v)->attributes.data : d;
    DLTensor whole = {.data = (void *)d->storage->bytes,
                      .device = {kDLCPU, 0},
                      .ndim = d->rank,
                      .dtype = dtype_to_dlpack(d->dtype),
                      .shape = (int64_t *)d->sizes,
                      .strides = (int64_t *)d->strides};
    cr_assert_eq(
        tensors_write(data, &d->name, &(phasor_value){.kind = PHASOR_TENSOR, .tensor = &whole}, 1),
        PHASOR_OK);
    cr_assert_eq(load_program(program, NULL, &again), PHASOR_OK, "%s", message_get());
    graph_print(&again.graph, &second);
    cr_assert_str_eq(text_get(&text), text_get(&second));
    load_free(&again);
    load_free(&p);
    text_free(&text);
    text_free(&second);
    unlink(program);
    unlink(data);
    rmdir(folder);
    ASSERT_NO_LEAKS();
}

Test(load, text_that_is_no_program)
{
    char path[] = "/tmp/phasor-load-XXXXXX";
    struct loaded_program p;
    const int handle = mkstemp(path);
    cr_assert(handle >= 0);
    close(handle);
    file_write(path, "def forward(x):\n    return x\n");
    cr_assert_eq(load_program(path, NULL, &p), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), path), "%s", message_get());
    file_write(path, "");
    cr_assert_eq(load_program(path, NULL, &p), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "an empty file"), "%s", message_get());
    unlink(path);
    ASSERT_NO_LEAKS();
}
