/* parts.c - see parts.h.
 *
 * The bodies are compared word by word. What differs may be an argument ("a.p1") or a size
 * ("512u"); all threads of a block choose the same. A division by one of several literals is a
 * shift by one of several numbers where they are powers of two; others would become a division by a
 * variable, so that such parts stay apart.
 */
#include "codegen/parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES_MOST = 16 };

struct word {
    const char *at;
    size_t length;
};

/* What the parts have in one place, where that is not the same in all. */
struct choice {
    struct word words[PARTS_ALIKE_MOST];
};

struct merge {
    int count;
    const char *at[PARTS_ALIKE_MOST], *end[PARTS_ALIKE_MOST];
    struct choice choices[CHOICES_MOST];
    int choice_count;
    /* The last character that was no space: '/' or '%' make a divisor of what follows. */
    char before;
    struct text body;
};

/* -- words ------------------------------------------------------------------------------------- */

static bool is_inside(char c)
{
    return is_alphanumeric(c) || c == '_' || c == '.';
}

static struct word word_take(const char **at, const char *end)
{
    struct word word = {*at, 1};
    while (is_inside(*word.at) && word.at + word.length < end && is_inside(word.at[word.length]))
        word.length++;
    *at += word.length;
    return word;
}

static bool same(struct word a, struct word b)
{
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

/* 'p', 'n' or 'm' of "a.p1"; 0: it is no argument. */
static char argument_letter(struct word word)
{
    const bool argument = word.length > 3 && word.at[0] == 'a' && word.at[1] == '.';
    return argument && isdigit((unsigned char)word.at[3]) ? word.at[2] : 0;
}

/* "512u" or "512ull"; NULL for other words. */
static const char *size_suffix(struct word word)
{
    size_t digits = 0;
    while (digits < word.length && isdigit((unsigned char)word.at[digits]))
        digits++;
    return digits > 0 && digits < word.length && word.at[digits] == 'u' ? word.at + digits : NULL;
}

static bool is_power_of_two(struct word word)
{
    const unsigned long long size = strtoull(word.at, NULL, 10);
    return size > 0 && (size & (size - 1)) == 0;
}

/* -- comparing --------------------------------------------------------------------------------- */

static bool can_choose(const struct merge *m, struct word first, struct word other)
{
    const bool divisor = m->before == '/' || m->before == '%';
    const char *suffix = size_suffix(first), *suffix_of_other = size_suffix(other);
    if (argument_letter(first))
        return argument_letter(first) == argument_letter(other);
    if (!suffix || !suffix_of_other)
        return false;
    const struct word a = {suffix, first.length - (size_t)(suffix - first.at)},
                      b = {suffix_of_other, other.length - (size_t)(suffix_of_other - other.at)};
    return same(a, b) && (!divisor || (is_power_of_two(first) && is_power_of_two(other)));
}

/* The number of the choice; -1: too many. */
static int choice_find(struct merge *m, const struct word *words)
{
    for (int c = 0; c < m->choice_count; c++) {
        bool equal = true;
        for (int part = 0; part < m->count; part++)
            equal &= same(m->choices[c].words[part], words[part]);
        if (equal)
            return c;
    }
    if (m->choice_count == CHOICES_MOST)
        return -1;
    memcpy(m->choices[m->choice_count].words, words, (size_t)m->count * sizeof *words);
    return m->choice_count++;
}

/* The next word of all parts. */
static bool word_merge(struct merge *m)
{
    struct word words[PARTS_ALIKE_MOST] = {{0}};
    bool equal = true;
    words[0] = word_take(&m->at[0], m->end[0]); /* the caller has seen that there is one */
    for (int part = 1; part < m->count; part++) {
        if (m->at[part] == m->end[part])
            return false;
        words[part] = word_take(&m->at[part], m->end[part]);
        equal &= same(words[part], words[0]);
    }
    if (equal) {
        text_add_bytes(&m->body, words[0].at, words[0].length);
        m->before = *words[0].at == ' ' ? m->before : *words[0].at;
        return true;
    }
    for (int part = 1; part < m->count; part++)
        if (!can_choose(m, words[0], words[part]))
            return false;
    const int choice = choice_find(m, words);
    text_format(&m->body, "s%d", choice);
    m->before = 's';
    return choice >= 0;
}

static bool bodies_merge(struct merge *m)
{
    while (m->at[0] < m->end[0])
        if (!word_merge(m))
            return false;
    for (int part = 1; part < m->count; part++)
        if (m->at[part] != m->end[part])
            return false;
    return true;
}

/* -- writing ----------------------------------------------------------------------------------- */

static void choice_write(const struct merge *m, int number, struct text *out)
{
    const struct word *words = m->choices[number].words;
    text_format(out, "    const auto s%d = ", number);
    for (int part = 0; part < m->count; part++) {
        if (part < m->count - 1)
            text_format(out, "part == %d ? ", part);
        text_add_bytes(out, words[part].at, words[part].length);
        text_add(out, part < m->count - 1 ? " : " : ";\n");
    }
}

static void merged_write(const struct merge *m, struct text *out)
{
    text_add(out, "DEVICE void body(const args &a, int part, index_t i)\n{\n");
    for (int number = 0; number < m->choice_count; number++)
        choice_write(m, number, out);
    text_add(out, text_get(&m->body));
}

phasor_status parts_merge(struct text *functions, const size_t *starts, int count, bool *alike)
{
    struct merge merge = {.count = count};
    struct text merged = {0};
    *alike = false;
    if (count < 2 || count > PARTS_ALIKE_MOST || functions->failed)
        return PHASOR_OK;
    for (int part = 0; part < count; part++) {
        const char *start = functions->at + starts[part], *brace = strstr(start, "\n{\n");
        if (!brace) /* no body: nothing to be merged */
            return PHASOR_OK;
        merge.at[part] = brace + 3;
        merge.end[part] = functions->at + (part + 1 < count ? starts[part + 1] : functions->length);
    }
    *alike = bodies_merge(&merge);
    if (*alike)
        merged_write(&merge, &merged);
    const bool failed = merge.body.failed || merged.failed;
    text_free(&merge.body);
    if (!*alike || failed) {
        text_free(&merged);
        return failed ? fail_memory() : PHASOR_OK;
    }
    text_free(functions);
    *functions = merged;
    return PHASOR_OK;
}
