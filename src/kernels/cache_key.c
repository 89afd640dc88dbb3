/* cache_key.c - see cache_key.h.
 *
 * A kernel's key is kernel_key_head and the source without device.cuh: its #define lines and the
 * index type are fields, the rest is code. A plan's key is a line of words, the words of the call
 * (call.c) and the canonical graphs. Keys come from a file: whatever they hold, only bytes of
 * theirs are read. */
#include "kernels/cache_key.h"

#include "call/call.h"
#include "compile/nvrtc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_MOST = 48, DIFFERENCES_MOST = 6, NAME_SIZE = 40, VALUE_SIZE = 80 };

struct field {
    char name[NAME_SIZE], value[VALUE_SIZE];
};

struct fields {
    struct field at[FIELDS_MOST];
    int count;
    const char *code; /* what stands in no field */
    size_t code_size;
};

/* -- reading ----------------------------------------------------------------------------------- */

static void field_add(struct fields *fields, const char *name, size_t name_size, const char *word,
                      size_t word_size)
{
    if (fields->count == FIELDS_MOST)
        return;
    struct field *field = &fields->at[fields->count++];
    snprintf(field->name, sizeof field->name, "%.*s", (int)name_size, name);
    snprintf(field->value, sizeof field->value, "%.*s", (int)word_size, word);
}

static size_t line_length(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? (size_t)(newline - at) : (size_t)(end - at);
}

/* "#define COUNT 640u", "typedef u32 index_t;", "typedef float acc_t;"; false for other lines. */
static bool define_read(struct fields *fields, const char *line, size_t length)
{
    static const char define[] = "#define ", alias[] = "typedef ";
    const size_t word = sizeof define - 1;
    if (length <= word ||
        (memcmp(line, define, word) != 0 && memcmp(line, alias, sizeof alias - 1) != 0))
        return false;
    const char *first = line + word;
    const char *space = memchr(first, ' ', length - word);
    const size_t size = space ? (size_t)(space - first) : length - word;
    const char *second = first + size + (space != NULL);
    const size_t rest = (size_t)(line + length - second);
    if (line[0] == '#')
        field_add(fields, first, size, second, rest);
    else
        field_add(fields, second, rest - (rest > 0), first, size);
    return true;
}

static void kernel_key_read(const char *key, size_t size, struct fields *fields)
{
    struct hash head;
    char digits[HASH_TEXT];
    *fields = (struct fields){0};
    if (size < sizeof head)
        return;
    memcpy(&head, key, sizeof head);
    hash_text(head, digits);
    field_add(fields, "device.cuh", 10, digits, 12);
    const char *end = key + size;
    const char *at = key + sizeof head;
    while (at < end) {
        const size_t length = line_length(at, end);
        if (!define_read(fields, at, length) && (length == 0 || at[0] != '#'))
            break;
        at += length + (at + length < end);
    }
    fields->code = at;
    fields->code_size = (size_t)(end - at);
}

/* device.cuh, and the options that every compile has: a row made with others is no hit. */
struct hash kernel_key_head(const struct phasor_runtime *runtime)
{
    const char *options = compiler_fixed_options();
    const struct hash parts[] = {runtime->templates.device_hash,
                                 hash_bytes(options, strlen(options))};
    return hash_bytes(parts, sizeof parts);
}

void plan_key_begin(const struct phasor_runtime *runtime, const char *kind, const char *mode,
                    struct text *out)
{
    char templates[HASH_TEXT];
    hash_text(runtime->templates.hash, templates);
    text_format(out, "phasor %s %s %s %srules=%d fma=%d own=%d", kind, runtime->arch, templates,
                mode, (int)runtime->options.rules, !runtime->options.no_fma,
                runtime->options.own_outputs);
}

/* "phasor plan 1 sm_90 3f0c... exact rules=0 fma=1 own=0 12\n": words without a name get one by
 * their place. The last one counts the words of the call, which come behind the line. */
static void plan_key_read(const char *key, size_t size, struct fields *fields, size_t *word_count)
{
    static const char *const places[] = {NULL, NULL, "format", "arch", "templates", "mode"};
    const size_t length = line_length(key, key + size);
    uint64_t count = 0;
    *fields = (struct fields){0};
    *word_count = 0;
    int place = 0;
    for (size_t at = 0; at < length; place++) {
        const char *word = key + at;
        const char *space = memchr(word, ' ', length - at);
        const size_t word_size = space ? (size_t)(space - word) : length - at;
        const char *equals = memchr(word, '=', word_size);
        const char *name = place < 6 ? places[place] : NULL;
        if (equals)
            field_add(fields, word, (size_t)(equals - word), equals + 1,
                      word_size - (size_t)(equals - word) - 1);
        else if (name)
            field_add(fields, name, strlen(name), word, word_size);
        count = 0;
        for (size_t i = 0; i < word_size && word[i] >= '0' && word[i] <= '9' && count < size; i++)
            count = count * 10 + (uint64_t)(word[i] - '0');
        at += word_size + 1;
    }
    const size_t start = length < size ? length + 1 : size;
    if (count > (size - start) / sizeof(int64_t))
        count = 0;
    *word_count = (size_t)count;
    fields->code = key + start;
    fields->code_size = size - start;
}

/* -- in words ---------------------------------------------------------------------------------- */

static int lines_count(const char *text, size_t size)
{
    int lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    return lines + (size > 0 && text[size - 1] != '\n');
}

static void member_print(const char *name, const char *words, bool json, struct text *out)
{
    if (!json) {
        text_format(out, "%-14s%s\n", name, words);
        return;
    }
    text_add(out, ", ");
    text_add_json_string(out, name);
    text_add(out, ": ");
    text_add_json_string(out, words);
}

static void words_print(const struct fields *fields, size_t count, bool json, struct text *out)
{
    struct text words = {0};
    for (size_t i = 0; i < count; i++) {
        int64_t word;
        memcpy(&word, fields->code + i * sizeof word, sizeof word);
        text_format(&words, "%s%" PRId64, i ? " " : "", word);
    }
    member_print("call", text_get(&words), json, out);
    out->failed |= words.failed;
    text_free(&words);
}

void cache_key_print(const struct cache_row *row, bool json, struct text *out)
{
    struct fields fields;
    size_t words = 0;
    char lines[48];
    const char *key = row->key_bytes ? row->key_bytes : "";
    const size_t size = row->key_bytes ? row->key_size : 0;
    if (row->is_plan)
        plan_key_read(key, size, &fields, &words);
    else
        kernel_key_read(key, size, &fields);
    for (int i = 0; i < fields.count; i++)
        member_print(fields.at[i].name, fields.at[i].value, json, out);
    if (row->is_plan)
        words_print(&fields, words, json, out);
    const size_t skipped = words * sizeof(int64_t);
    snprintf(lines, sizeof lines, "%d lines",
             fields.code ? lines_count(fields.code + skipped, fields.code_size - skipped) : 0);
    member_print(row->is_plan ? "graph" : "code", lines, json, out);
}

/* -- differences ------------------------------------------------------------------------------- */

struct differences {
    struct text *out;
    int count;
};

static void difference_begin(struct differences *differences)
{
    text_add(differences->out, differences->count++ ? "; " : "");
}

static bool difference_is_listed(const struct differences *differences)
{
    return differences->count < DIFFERENCES_MOST;
}

static const char *field_find(const struct fields *fields, const char *name)
{
    for (int i = 0; i < fields->count; i++)
        if (strcmp(fields->at[i].name, name) == 0)
            return fields->at[i].value;
    return NULL;
}

static void fields_differ(const struct fields *wanted, const struct fields *stored,
                          struct differences *differences)
{
    for (int i = 0; i < wanted->count && difference_is_listed(differences); i++) {
        const struct field *field = &wanted->at[i];
        const char *other = field_find(stored, field->name);
        if (other && strcmp(other, field->value) == 0)
            continue;
        difference_begin(differences);
        text_format(differences->out, "%s %s, there %s", field->name, field->value,
                    other ? other : "none");
    }
    for (int i = 0; i < stored->count && difference_is_listed(differences); i++) {
        if (field_find(wanted, stored->at[i].name))
            continue;
        difference_begin(differences);
        text_format(differences->out, "no %s, there %s", stored->at[i].name, stored->at[i].value);
    }
}

/* Line by line; the first one that differs is shown. */
static void code_differs(const struct fields *wanted, const struct fields *stored,
                         struct differences *differences)
{
    const char *a = wanted->code, *b = stored->code;
    if (!a || !b ||
        (wanted->code_size == stored->code_size && memcmp(a, b, stored->code_size) == 0))
        return;
    const char *a_end = a + wanted->code_size, *b_end = b + stored->code_size;
    const int total = lines_count(a, wanted->code_size);
    int differing = 0;
    char first[2][VALUE_SIZE] = {"", ""};
    while (a < a_end || b < b_end) {
        const size_t a_size = a < a_end ? line_length(a, a_end) : 0;
        const size_t b_size = b < b_end ? line_length(b, b_end) : 0;
        if ((a_size != b_size || memcmp(a, b, a_size) != 0) && !differing++) {
            snprintf(first[0], VALUE_SIZE, "%.*s", (int)a_size, a < a_end ? a : "");
            snprintf(first[1], VALUE_SIZE, "%.*s", (int)b_size, b < b_end ? b : "");
        }
        a += a < a_end ? a_size + (a + a_size < a_end) : 0;
        b += b < b_end ? b_size + (b + b_size < b_end) : 0;
    }
    difference_begin(differences);
    text_format(differences->out, "code: %d of %d lines, first \"%s\", there \"%s\"", differing,
                total, first[0] + strspn(first[0], " "), first[1] + strspn(first[1], " "));
}

void kernel_key_differ(const void *wanted, size_t wanted_size, const void *stored,
                       size_t stored_size, struct text *out)
{
    struct fields ours, theirs;
    struct differences differences = {out, 0};
    kernel_key_read(wanted, wanted_size, &ours);
    kernel_key_read(stored, stored_size, &theirs);
    fields_differ(&ours, &theirs, &differences);
    code_differs(&ours, &theirs, &differences);
}

/* -- plans ------------------------------------------------------------------------------------- */

static int64_t word_at(const struct fields *fields, size_t index)
{
    int64_t word;
    memcpy(&word, fields->code + index * sizeof word, sizeof word);
    return word;
}

/* "q alignment", "q size 1": what the word at this place of the call is called. */
static void word_name(const struct call *call, size_t index, struct text *out)
{
    const struct phasor_program *program = call->program;
    if (index == 0) {
        text_add(out, "form of the call");
        return;
    }
    for (int i = 0; i < program->input_count; i++) {
        const struct slot *slot = &program->inputs[i];
        const struct call_slot *in = &call->in[i];
        const int64_t rank = slot->rank, place = (int64_t)index - in->number;
        if (slot->constant)
            continue;
        if (slot->kind != PHASOR_TENSOR && place == 0)
            text_add(out, slot->name);
        else if (slot->kind != PHASOR_TENSOR || place < 0 || place >= 2 + 2 * rank)
            continue;
        else if (place < 2)
            text_format(out, "%s %s", slot->name, place ? "alignment" : "rank");
        else
            text_format(out, "%s.%d %s", slot->name, (int)((place - 2) % (rank ? rank : 1)),
                        place - 2 < rank ? "size" : "stride");
        return;
    }
    text_format(out, "word %zu of the call", index);
}

static void words_differ(const struct call *call, const struct fields *ours,
                         const struct fields *theirs, size_t count, struct differences *differences)
{
    for (size_t i = 0; i < count && difference_is_listed(differences); i++)
        if (word_at(ours, i) != word_at(theirs, i)) {
            difference_begin(differences);
            word_name(call, i, differences->out);
            text_format(differences->out, " %" PRId64 ", there %" PRId64, word_at(ours, i),
                        word_at(theirs, i));
        }
}

void plan_key_differ(const struct call *call, const void *wanted, size_t wanted_size,
                     const void *stored, size_t stored_size, struct text *out)
{
    struct fields ours, theirs;
    struct differences differences = {out, 0};
    size_t our_words, their_words;
    plan_key_read(wanted, wanted_size, &ours, &our_words);
    plan_key_read(stored, stored_size, &theirs, &their_words);
    fields_differ(&ours, &theirs, &differences);
    const size_t our_head = our_words * sizeof(int64_t), their_head = their_words * sizeof(int64_t);
    if (ours.code_size - our_head != theirs.code_size - their_head ||
        memcmp(ours.code + our_head, theirs.code + their_head, ours.code_size - our_head) != 0) {
        difference_begin(&differences);
        text_add(out, "another graph");
    } else if (our_words == their_words) {
        words_differ(call, &ours, &theirs, our_words, &differences);
    } else {
        difference_begin(&differences);
        text_format(out, "%zu words of the call, there %zu", our_words, their_words);
    }
}
