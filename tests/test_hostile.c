/* test_hostile.c - files made to do harm: each gives a sentence that names the place, in bounded
 * time and memory.
 *
 * Beside what test_load.c, test_text.c and test_safetensors.c hold about single mistakes: every
 * cut, every flipped byte, bombs, a million of anything, numbers near 2^63, cycles, code in
 * pickles.
 */
#include "base/text.h"
#include "load/safetensors.h"
#include "support/leak.h"
#include "support/load_archive.h"
#include "support/repeated.h"
#include "support/runtime_case.h"

#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 1000000 };

#if defined(__SANITIZE_ADDRESS__)
/* Allocations of more than there is give NULL, as they do without the sanitizer. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
#endif

static phasor_status archive_try(const unsigned char *bytes, size_t nbytes)
{
    struct loaded_program p;
    unsigned char *copy = malloc(nbytes ? nbytes : 1); /* so that reading behind it is seen */
    memcpy(copy, bytes, nbytes);
    const phasor_status status = load_pt2_memory(copy, nbytes, "bad.pt2", NULL, &p);
    free(copy);
    if (status == PHASOR_OK) {
        cr_assert_eq(graph_verify(&p.graph), PHASOR_OK, "%s", message_get());
        load_free(&p);
    } else {
        cr_assert_eq(status, PHASOR_ERROR_FILE, "%s", message_get());
        cr_assert(strncmp(message_get(), "bad.pt2: ", 9) == 0, "%s", message_get());
    }
    return status;
}

static void archive_refused(const struct edit *edits, int method, const char *message)
{
    const struct bytes bytes = archive_make_with(edits, method);
    cr_assert_eq(archive_try(bytes.at, bytes.count), PHASOR_ERROR_FILE, "%s", message);
    cr_assert(strstr(message_get(), message), "'%s' instead of '%s'", message_get(), message);
    free(bytes.at);
}

static phasor_status text_try(const char *text, size_t length)
{
    struct loaded_program p = {0};
    char *copy = malloc(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    cr_assert_eq(sizes_init(&p.sizes, &p.arena), PHASOR_OK);
    cr_assert_eq(graph_init(&p.graph, &p.arena, &p.sizes, "bad"), PHASOR_OK);
    const phasor_status status = graph_parse(&p.graph, copy, "bad.phasor", NULL, NULL);
    free(copy);
    if (status == PHASOR_OK)
        cr_assert_eq(graph_verify(&p.graph), PHASOR_OK, "%s", message_get());
    else
        cr_assert(strncmp(message_get(), "bad.phasor:", 11) == 0, "%s", message_get());
    load_free(&p);
    return status;
}

static void text_refused(const char *text, const char *message)
{
    cr_assert_neq(text_try(text, strlen(text)), PHASOR_OK, "%s", text);
    cr_assert(strstr(message_get(), message), "'%s' instead of '%s'", message_get(), message);
}

static phasor_status tensors_try(const unsigned char *bytes, size_t nbytes)
{
    struct tensors_file *file;
    unsigned char *copy = malloc(nbytes ? nbytes : 1);
    memcpy(copy, bytes, nbytes);
    const phasor_status status = tensors_read_memory(copy, nbytes, "bad.safetensors", &file);
    free(copy);
    cr_assert(status == PHASOR_OK || status == PHASOR_ERROR_FILE, "%s", message_get());
    tensors_close(file);
    return status;
}

static struct bytes tensors_make(const char *header, size_t data)
{
    const uint64_t length = strlen(header);
    const struct bytes bytes = {calloc(1, 8 + length + data), 8 + length + data};
    memcpy(bytes.at, &length, 8);
    memcpy(bytes.at + 8, header, length);
    return bytes;
}

static void tensors_refused(const char *header, size_t data, const char *message)
{
    const struct bytes bytes = tensors_make(header, data);
    cr_assert_eq(tensors_try(bytes.at, bytes.count), PHASOR_ERROR_FILE, "%s", header);
    cr_assert(strncmp(message_get(), "bad.safetensors: ", 17) == 0, "%s", message_get());
    cr_assert(strstr(message_get(), message), "'%s' instead of '%s'", message_get(), message);
    free(bytes.at);
}

/* -- every cut, every byte --------------------------------------------------------------------- */

static const char small_text[] = "phasor 1 \"small\"\n"
                                 "symbol n in 1..64 = 3\n"
                                 "input z: c64[n, 2]\n"
                                 "state memory: c64[2] = [1+2j, 3]\n"
                                 "half = scalar value=0.5 : c64[]\n"
                                 "scale = mul(memory, half) : c64[2]\n"
                                 "sum = add(z, scale) : c64[n, 2]\n"
                                 "part = slice(sum) axis=0 start=0 length=min(n, 2) step=1\n"
                                 "output part\n"
                                 "write memory = scale\n";

static const char small_header[] =
    "{\"a\": {\"dtype\": \"F32\", \"shape\": [3, 2], \"data_offsets\": [0, 24]}, \"b\": "
    "{\"dtype\": "
    "\"BF16\", \"shape\": [], \"data_offsets\": [24, 26]}, \"__metadata__\": {\"a\": "
    "\"torch.complex64\", \"n\": \"-4\", \"s\": \"'x'\"}}";

Test(hostile, archives_cut_at_every_byte, .timeout = 3600)
{
    const int methods[] = {ZIP_CM_STORE, ZIP_CM_DEFLATE};
    for (int m = 0; m < 2; m++) {
        const struct bytes bytes = archive_make_with(NULL, methods[m]);
        cr_assert_eq(archive_try(bytes.at, bytes.count), PHASOR_OK, "%s", message_get());
        for (size_t length = 0; length < bytes.count; length++)
            cr_assert_eq(archive_try(bytes.at, length), PHASOR_ERROR_FILE, "%zu bytes", length);
        free(bytes.at);
    }
    ASSERT_NO_LEAKS();
}

Test(hostile, archives_with_every_byte_changed, .timeout = 3600)
{
    static const unsigned char changes[] = {0xff, 0x01, 0x80};
    const int methods[] = {ZIP_CM_STORE, ZIP_CM_DEFLATE};
    for (int m = 0; m < 2; m++) {
        const struct bytes bytes = archive_make_with(NULL, methods[m]);
        for (size_t at = 0; at < bytes.count; at++)
            for (size_t c = 0; c < sizeof changes; c++) {
                bytes.at[at] ^= changes[c];
                archive_try(bytes.at, bytes.count);
                bytes.at[at] ^= changes[c];
            }
        free(bytes.at);
    }
    ASSERT_NO_LEAKS();
}

/* A text that ends early may be a program: its verifier says so. */
Test(hostile, texts_cut_and_changed_at_every_byte)
{
    const size_t length = sizeof small_text - 1;
    char text[sizeof small_text];
    cr_assert_eq(text_try(small_text, length), PHASOR_OK, "%s", message_get());
    for (size_t cut = 0; cut < length; cut++)
        text_try(small_text, cut);
    for (size_t at = 0; at < length; at++)
        for (int letter = 1; letter < 256; letter++) {
            memcpy(text, small_text, sizeof text);
            text[at] = (char)letter;
            text_try(text, length);
        }
    ASSERT_NO_LEAKS();
}

Test(hostile, tensors_cut_and_changed_at_every_byte)
{
    const struct bytes bytes = tensors_make(small_header, 26);
    cr_assert_eq(tensors_try(bytes.at, bytes.count), PHASOR_OK, "%s", message_get());
    for (size_t length = 0; length < bytes.count; length++)
        cr_assert_eq(tensors_try(bytes.at, length), PHASOR_ERROR_FILE, "%zu bytes", length);
    for (size_t at = 0; at < bytes.count; at++)
        for (int change = 1; change < 256; change++) {
            bytes.at[at] ^= (unsigned char)change;
            tensors_try(bytes.at, bytes.count);
            bytes.at[at] ^= (unsigned char)change;
        }
    free(bytes.at);
    ASSERT_NO_LEAKS();
}

/* -- bombs ------------------------------------------------------------------------------------- */

/* Peak memory of this process in MiB. */
static long memory_peak(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

Test(hostile, documents_do_not_unpack_to_much_more_than_they_are)
{
    enum { MEGABYTES = 200 };
    char *spaces = malloc((MEGABYTES << 20) + 1);
    memset(spaces, ' ', MEGABYTES << 20);
    spaces[MEGABYTES << 20] = '\0';
    static const char *const entries[] = {"m/models/model.json",
                                          "m/data/weights/model_weights_config.json",
                                          "m/data/constants/model_constants_config.json"};
    struct bytes bytes[3];
    for (int i = 0; i < 3; i++)
        bytes[i] = archive_make_with((struct edit[]){{entries[i], spaces}, {0}}, ZIP_CM_DEFLATE);
    free(spaces);
    const long before = memory_peak();
    for (int i = 0; i < 3; i++) {
        cr_assert_lt(bytes[i].count, 1u << 20);
        cr_assert_eq(archive_try(bytes[i].at, bytes[i].count), PHASOR_ERROR_FILE);
        cr_assert(strstr(message_get(), entries[i] + 2), "%s", message_get());
        cr_assert(strstr(message_get(), "unpack"), "%s", message_get());
        free(bytes[i].at);
    }
    cr_assert_lt(memory_peak() - before, 64);
    ASSERT_NO_LEAKS();
}

/* 130 times: what text can reach that somebody packed with care. */
Test(hostile, documents_of_an_archive_are_at_most_a_hundred_times_it)
{
    enum { BLOCKS = 4000, RUN = 700, BLOCK = RUN + 4 };
    char *text = malloc(BLOCKS * BLOCK + 16), *at = text;
    uint32_t state = 1;
    *at++ = '[';
    *at++ = '"';
    for (int i = 0; i < BLOCKS; i++, at += BLOCK) {
        state = state * 1664525 + 1013904223;
        memset(at, 'a', RUN);
        snprintf(at + RUN, 5, "%04x", state >> 16);
    }
    strcpy(at, "\"]");
    struct bytes bytes =
        archive_make_with((struct edit[]){{"m/models/model.json", text}, {0}}, ZIP_CM_DEFLATE);
    cr_assert_lt(100 * bytes.count, BLOCKS * BLOCK);
    cr_assert_gt(200 * bytes.count, BLOCKS * BLOCK);
    cr_assert_eq(archive_try(bytes.at, bytes.count), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "model.json: it unpacks to"), "%s", message_get());
    free(bytes.at);
    bytes = archive_make((struct edit[]){{"m/models/model.json", text}, {0}});
    cr_assert_eq(archive_try(bytes.at, bytes.count), PHASOR_ERROR_FILE); /* read, and no program */
    cr_assert(strstr(message_get(), "field"), "%s", message_get());
    free(bytes.at);
    free(text);
    ASSERT_NO_LEAKS();
}

static void number_store(unsigned char *at, uint32_t number)
{
    memcpy(at, &number, sizeof number);
}

/* Sizes in the archive's directory that no byte stands for. */
Test(hostile, sizes_in_the_directory_are_not_believed)
{
    struct bytes bytes = archive_make(NULL);
    for (size_t at = 0; at + 46 < bytes.count; at++)
        if (memcmp(bytes.at + at, "PK\1\2", 4) == 0 &&
            memcmp(bytes.at + at + 46, "m/data/weights/weight_0", 23) == 0) {
            number_store(bytes.at + at + 20, 0xfffffffe);
            number_store(bytes.at + at + 24, 0xfffffffe);
        }
    cr_assert_eq(archive_try(bytes.at, bytes.count), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "more bytes than the file"), "%s", message_get());
    free(bytes.at);

    bytes = archive_make_with(NULL, ZIP_CM_DEFLATE);
    for (size_t at = 0; at + 46 < bytes.count; at++)
        if (memcmp(bytes.at + at, "PK\1\2", 4) == 0 &&
            memcmp(bytes.at + at + 46, "m/data/weights/weight_0", 23) == 0)
            number_store(bytes.at + at + 24, 0xfffffffe);
    cr_assert_eq(archive_try(bytes.at, bytes.count), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "weight_0\" unpacks"), "%s", message_get());
    free(bytes.at);
    ASSERT_NO_LEAKS();
}

Test(hostile, names_that_lead_out_of_the_archive)
{
    static const char *const names[] = {"m/../../etc/passwd", "..", "m/..", "/etc/passwd",
                                        "m/a\\..\\b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct part parts[] = {{"m/archive_format", "pt2", 3}, {names[i], "x", 1}};
        const struct bytes bytes = zip_make(parts, 2, ZIP_CM_STORE);
        cr_assert_eq(archive_try(bytes.at, bytes.count), PHASOR_ERROR_FILE, "%s", names[i]);
        cr_assert(strstr(message_get(), "unsafe name"), "%s", message_get());
        free(bytes.at);
    }
    /* Weights are entries of the archive, whatever path they name. */
    archive_refused((struct edit[]){{"weight_0", "../../../../../../etc/passwd"}, {0}},
                    ZIP_CM_STORE, "the archive has no entry");
    archive_refused((struct edit[]){{"weight_0", "../models/model.json"}, {0}}, ZIP_CM_STORE,
                    "the archive has no entry");
    ASSERT_NO_LEAKS();
}

/* -- a million of anything --------------------------------------------------------------------- */

Test(hostile, a_million_brackets, .timeout = 3600)
{
    static const struct {
        const char *from, *before, *part, *after, *message;
    } rows[] = {
        {"m/models/model.json", "", "[", "", "models/model.json: line 1"},
        {"m/models/model.json", "", "{\"a\":", "", "models/model.json: line 1"},
        {"m/data/weights/model_weights_config.json", "", "[", "", "config.json: line 1"},
        {"Symbol('s7', positive=True, integer=True)", "", "Add(", "", "nested too deep"},
        {"Symbol('s7', positive=True, integer=True)", "", "-", "", "nested too deep"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = repeated(rows[i].before, rows[i].part, MANY, rows[i].after);
        archive_refused((struct edit[]){{rows[i].from, text}, {0}}, ZIP_CM_STORE, rows[i].message);
        memory_free(text);
    }
    char *header = repeated("{\"a\": ", "[", MANY, "");
    tensors_refused(header, 0, "header, line 1");
    memory_free(header);
    /* a whole file, with a product that is refused */
    static const struct {
        const char *before, *part;
    } operands[] = {{"{\"as_ints\": [0", ", 1"},
                    {"{\"as_tensors\": [{\"name\": \"b_b\"}", ", {\"name\": \"b_b\"}"}};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        char *text = repeated(operands[i].before, operands[i].part, MANY, "]}");
        const struct bytes bytes =
            archive_make_with((struct edit[]){{"{\"as_float\": 2.5}", text}, {0}}, ZIP_CM_STORE);
        cr_assert_eq(archive_try(bytes.at, bytes.count), PHASOR_OK, "%s", message_get());
        free(bytes.at);
        memory_free(text);
    }
    static const struct {
        const char *before, *part, *message;
    } texts[] = {
        {"phasor 1 \"x\"\ncheck ", "(", "more than 64 brackets"},
        {"phasor 1 \"x\"\ninput a: f32[2]\nb = concat(a", ", a", "bad.phasor:3: the line has more"},
        {"phasor 1 \"x\"\ndata d: f32[2] = ", "[", "bad.phasor:2: "},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *text = repeated(texts[i].before, texts[i].part, MANY, "\n");
        text_refused(text, texts[i].message);
        memory_free(text);
    }
    ASSERT_NO_LEAKS();
}

/* Regions inside of regions, as many as there are. */
Test(hostile, regions_in_regions)
{
    struct text text = {0};
    for (int i = 0; i < 100; i++)
        text_add(&text,
                 "{\"target\": \"torch.ops.higher_order.wrap_with_set_grad_enabled\", \"inputs\": "
                 "[{\"name\": \"\", \"arg\": {\"as_bool\": true}, \"kind\": 1}, {\"name\": \"\", "
                 "\"arg\": {\"as_graph\": {\"name\": \"g\", \"graph\": {\"inputs\": [], "
                 "\"outputs\": [], \"nodes\": [");
    for (int i = 0; i < 100; i++)
        text_add(&text, "]}}}, \"kind\": 1}], \"outputs\": [], \"metadata\": {}}");
    text_add(&text, ", {\"target\": \"torch.ops.aten.mul.Tensor\"");
    archive_refused(
        (struct edit[]){{"{\"target\": \"torch.ops.aten.mul.Tensor\"", text_get(&text)}, {0}},
        ZIP_CM_STORE, "nested deeper than 64");
    text_free(&text);
    ASSERT_NO_LEAKS();
}

/* -- numbers near 2^63 ------------------------------------------------------------------------- */

#define HUGE_NUMBER "9223372036854775807"
#define LEAST_NUMBER "-9223372036854775808"

Test(hostile, huge_numbers_in_archives)
{
    static const char *const numbers[] = {
        HUGE_NUMBER, LEAST_NUMBER, "4611686018427387904",       "9223372036854775808",
        "1e300",     "-1",         "99999999999999999999999999"};
    static const char *const places[] = {"\"major\": 8",
                                         "\"min_val\": 2",
                                         "\"max_val\": null",
                                         "\"hint\": {\"as_int\": 3}",
                                         "\"dtype\": 10",
                                         "\"layout\": 7",
                                         "{\"as_int\": 2}, {\"as_int\": 1}",
                                         "\"storage_offset\": {\"as_int\": 1}",
                                         "\"as_float\": 2.5",
                                         "\"kind\": 1"};
    for (size_t place = 0; place < sizeof places / sizeof *places; place++)
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
            char changed[128], digits[32];
            const char *number = places[place] + strcspn(places[place], "0123456789n");
            const size_t skip = strncmp(number, "null", 4) == 0 ? 4 : strspn(number, "0123456789.");
            snprintf(digits, sizeof digits, "%s", numbers[n]);
            snprintf(changed, sizeof changed, "%.*s%s%s", (int)(number - places[place]),
                     places[place], digits, number + skip);
            const struct bytes bytes = archive_make((struct edit[]){{places[place], changed}, {0}});
            archive_try(bytes.at, bytes.count);
            free(bytes.at);
        }
    ASSERT_NO_LEAKS();
}

Test(hostile, huge_sizes_of_weights)
{
    static const char sizes[] = "\"tensor_meta\": {\"dtype\": 10, \"sizes\": [{\"as_int\": 2}, "
                                "{\"as_int\": 2}]";
    archive_refused((struct edit[]){{sizes, "\"tensor_meta\": {\"dtype\": 10, \"sizes\": "
                                            "[{\"as_int\": " HUGE_NUMBER "}, {\"as_int\": 2}]"},
                                    {0}},
                    ZIP_CM_STORE, "node b: tensor \"b\" reaches beyond its file");
    archive_refused((struct edit[]){{sizes, "\"tensor_meta\": {\"dtype\": 10, \"sizes\": "
                                            "[{\"as_int\": " LEAST_NUMBER "}, {\"as_int\": 2}]"},
                                    {0}},
                    ZIP_CM_STORE, "is negative");
    ASSERT_NO_LEAKS();
}

Test(hostile, huge_numbers_in_texts_and_tensors)
{
    static const char *const lines[] = {
        "input a: f32[" HUGE_NUMBER ", " HUGE_NUMBER "]\nb = reshape(a) sizes=[1]\noutput b\n",
        "input a: f32[4]\nb = slice(a) axis=0 start=" HUGE_NUMBER " length=" HUGE_NUMBER
        " step=" HUGE_NUMBER "\noutput b\n",
        "input a: f32[4]\nb = slice(a) axis=0 start=1 length=2 step=" LEAST_NUMBER "\noutput b\n",
        "symbol s in " LEAST_NUMBER ".." HUGE_NUMBER " = " HUGE_NUMBER
        "\ncheck s * s\ninput a: f32[s + 1]\noutput a\n",
        "check floordiv(" LEAST_NUMBER ", -1)\n",
        "check pow(2, " HUGE_NUMBER ")\n",
        "check mod(1, 0)\n",
        "input a: f32[2]\nb = concat(a, a) axis=" HUGE_NUMBER "\noutput b\n",
        "data d: f32[" HUGE_NUMBER "] = [1]\noutput d\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[512];
        snprintf(text, sizeof text, "phasor 1 \"x\"\n%s", lines[i]);
        cr_assert_neq(text_try(text, strlen(text)), PHASOR_OK, "%s", text);
    }
    tensors_refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [" HUGE_NUMBER ", 2], "
                    "\"data_offsets\": [0, 8]}}",
                    8, "do not agree");
    tensors_refused(
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, " HUGE_NUMBER "]}}", 8,
        "cut off");
    tensors_refused("{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [" LEAST_NUMBER
                    ", 1]}}",
                    8, "data_offsets");
    tensors_refused("{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [7, 8]}}", 7,
                    "cut off");
    tensors_refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [1.5], \"data_offsets\": [0, 4]}}", 4,
                    "sizes are integers");
    ASSERT_NO_LEAKS();
}

/* Tensors that no memory can hold: a status, on either device, and the runtime goes on. */
Test(hostile, programs_that_need_all_memory)
{
    static const char *const bodies[] = {
        "big = iota sizes=[4611686018427387904]\n",
        "big = iota sizes=[35184372088832]\n",
        "one = scalar value=1 : f32[]\n"
        "big = expand(one) sizes=[1099511627776, 1099511627776]\n",
    };
    FOR_BOTH(where)
    {
        const phasor_options options = options_for(where);
        phasor_runtime *runtime;
        ASSERT_OK(phasor_open(&runtime, &options));
        for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
            char path[] = "/tmp/phasor-hostile-XXXXXX", text[512];
            phasor_program *program;
            phasor_value out;
            const int file = mkstemp(path);
            const int length =
                snprintf(text, sizeof text, "phasor 1 \"x\"\n%stwo = add(big, big)\noutput two\n",
                         bodies[i]);
            cr_assert_eq(write(file, text, (size_t)length), length);
            close(file);
            phasor_status status = phasor_program_load(runtime, path, NULL, &program);
            if (status == PHASOR_OK)
                status = phasor_run(program, NULL, NULL, 0, &out, 1, NULL);
            cr_assert(status == PHASOR_ERROR_MEMORY || status == PHASOR_ERROR_INPUT ||
                          status == PHASOR_ERROR_FILE,
                      "%zu: %s: %s", i, phasor_status_name(status), phasor_message());
            phasor_program_close(program);
            unlink(path);
        }
        phasor_close(runtime);
    }
    ASSERT_NO_LEAKS();
}

/* -- references -------------------------------------------------------------------------------- */

Test(hostile, references_in_circles_and_to_nothing)
{
    archive_refused(
        (struct edit[]){{"{\"as_tensor\": {\"name\": \"mul\"}}, \"kind\": 1}, {\"name\": "
                         "\"other\"",
                         "{\"as_tensor\": {\"name\": \"mul_1\"}}, \"kind\": 1}, "
                         "{\"name\": \"other\""},
                        {0}},
        ZIP_CM_STORE, "node mul_1: the name \"mul_1\" stands for nothing");
    archive_refused(
        (struct edit[]){{"\"arg\": {\"as_tensor\": {\"name\": \"b_b\"}}, \"kind\": 1}, "
                         "{\"name\": \"other\"",
                         "\"arg\": {\"as_tensor\": {\"name\": \"mul_1\"}}, \"kind\": 1}, "
                         "{\"name\": \"other\""},
                        {0}},
        ZIP_CM_STORE, "node mul: the name \"mul_1\" stands for nothing");
    archive_refused(
        (struct edit[]){{"{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"mul_1\"",
                         "{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"none\""},
                        {0}},
        ZIP_CM_STORE, "\"none\"");
    text_refused("phasor 1 \"x\"\na = neg(a) : f32[2]\noutput a\n", "bad.phasor:2: ");
    text_refused("phasor 1 \"x\"\na = neg(b) : f32[2]\nb = neg(a) : f32[2]\noutput a\n",
                 "bad.phasor:2: ");
    text_refused("phasor 1 \"x\"\noutput a\n", "bad.phasor:2: ");
    text_refused("phasor 1 \"x\"\ninput a: f32[2]\nwrite b = a\noutput a\n", "bad.phasor:3: ");
    text_refused("phasor 1 \"x\"\nsymbol n in 1..n = 2\n", "bad.phasor:2: ");
    ASSERT_NO_LEAKS();
}

Test(hostile, keys_and_names_that_stand_twice)
{
    archive_refused((struct edit[]){{"\"schema_version\": {", "\"schema_version\": {\"major\": 8}, "
                                                              "\"schema_version\": {"},
                                    {0}},
                    ZIP_CM_STORE, "models/model.json: line 1");
    archive_refused((struct edit[]){{"{\"config\": {", "{\"config\": {\"b\": {}, "}, {0}},
                    ZIP_CM_STORE, "model_weights_config.json: line 1");
    archive_refused(
        (struct edit[]){{"{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"x\"",
                         "{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"b_b\""},
                        {0}},
        ZIP_CM_STORE, "b_b");
    archive_refused((struct edit[]){{"\"outputs\": [{\"as_tensor\": {\"name\": \"mul_1\"}}], "
                                     "\"metadata\"",
                                     "\"outputs\": [{\"as_tensor\": {\"name\": \"mul\"}}], "
                                     "\"metadata\""},
                                    {0}},
                    ZIP_CM_STORE, "mul");
    text_refused("phasor 1 \"x\"\ninput a: f32[2]\na = neg(a)\noutput a\n", "bad.phasor:3: ");
    tensors_refused("{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}, \"a\": "
                    "{\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}}",
                    1, "duplicate");
    ASSERT_NO_LEAKS();
}

/* -- code in files ----------------------------------------------------------------------------- */

/* A pickle that would make a file, wherever torch puts pickles. */
Test(hostile, pickles_are_never_run)
{
    char mark[] = "/tmp/phasor-pickle-XXXXXX", pickle[128];
    close(mkstemp(mark));
    unlink(mark);
    snprintf(pickle, sizeof pickle, "cos\nsystem\n(S'touch %s'\ntR.", mark);
    archive_refused((struct edit[]){{"\"use_pickle\": false", "\"use_pickle\": true"},
                                    {"m/data/weights/weight_0", pickle},
                                    {0}},
                    ZIP_CM_STORE, "a pickled tensor");
    const struct bytes bytes =
        archive_make((struct edit[]){{"m/data/sample_inputs/model.pt", pickle},
                                     {"m/data/constants/custom_0", pickle},
                                     {"m/data.pkl", pickle},
                                     {0}});
    cr_assert_eq(archive_try(bytes.at, bytes.count), PHASOR_OK, "%s", message_get());
    free(bytes.at);
    cr_assert_neq(access(mark, F_OK), 0);
    ASSERT_NO_LEAKS();
}
