/* sizes.c - see sizes.h. */
#include "sizes.h"

#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 1 << 20 }; /* of one name */

/* -- values ------------------------------------------------------------------------------------ */

static struct size_axis *axis_get(struct size_set *set, const char *name, size_t length)
{
    for (int i = 0; i < set->axis_count; i++)
        if (strlen(set->axes[i].name) == length && memcmp(set->axes[i].name, name, length) == 0)
            return &set->axes[i];
    set->axes = memory_grow(set->axes, (size_t)set->axis_count, sizeof *set->axes);
    struct size_axis *axis = &set->axes[set->axis_count++];
    *axis = (struct size_axis){.name = memory_copy(name, length)};
    return axis;
}

/* Reads up to three numbers with colons between them; 0 when the text is something else. */
static int range_numbers(char *text, int64_t numbers[3])
{
    int count = 0;
    for (char *at = text; at; count++) {
        char *colon = strchr(at, ':');
        if (colon)
            *colon = '\0';
        if (count == 3 || !number_read(at, &numbers[count]) || numbers[count] < 0)
            return 0;
        at = colon ? colon + 1 : NULL;
    }
    return count;
}

/* "17", "1:4096" or "1:4096:64" */
static int range_read(const char *whole, char *text, struct size_axis *axis)
{
    int64_t numbers[3] = {0, 0, 1};
    const int count = range_numbers(text, numbers);
    if (count == 0 || numbers[2] == 0 || (count > 1 && numbers[1] < numbers[0]))
        return report_failure(
            PHASOR_ERROR_USAGE,
            "--dim %s: expected NAME=VALUES with numbers and ranges from:to[:step], such as "
            "q.1=1,2,64:512:64",
            whole);
    const int64_t last = count > 1 ? numbers[1] : numbers[0];
    if ((last - numbers[0]) / numbers[2] >= VALUES_MAX - (int64_t)axis->count)
        return report_failure(PHASOR_ERROR_USAGE, "--dim %s: more than %d values", whole,
                              VALUES_MAX);
    for (int64_t value = numbers[0];; value += numbers[2]) {
        axis->values = memory_grow(axis->values, axis->count, sizeof *axis->values);
        axis->values[axis->count++] = value;
        if (value > last - numbers[2])
            return PHASOR_OK;
    }
}

struct ordered_value {
    int64_t value;
    size_t place;
};

static int value_compare(const void *a, const void *b)
{
    const struct ordered_value *x = a, *y = b;
    return x->value != y->value ? (x->value > y->value) - (x->value < y->value)
                                : (x->place > y->place) - (x->place < y->place);
}

static int place_compare(const void *a, const void *b)
{
    const struct ordered_value *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* Leaves each value once, at its first place. */
static void axis_unite(struct size_axis *axis)
{
    struct ordered_value *values = memory_need(axis->count, sizeof *values);
    size_t kept = 0;
    for (size_t i = 0; i < axis->count; i++)
        values[i] = (struct ordered_value){axis->values[i], i};
    qsort(values, axis->count, sizeof *values, value_compare);
    for (size_t i = 0; i < axis->count; i++)
        if (i == 0 || values[i].value != values[kept - 1].value)
            values[kept++] = values[i];
    qsort(values, kept, sizeof *values, place_compare);
    for (size_t i = 0; i < kept; i++)
        axis->values[i] = values[i].value;
    axis->count = kept;
    free(values);
}

/* "q.1=1,2,64:512:64" */
static int dim_read(const char *word, struct size_set *set)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word)
        return report_failure(PHASOR_ERROR_USAGE, "--dim %s: expected NAME=VALUES, such as q.1=17",
                              word);
    struct size_axis *axis = axis_get(set, word, (size_t)(equals - word));
    char *values = memory_copy(equals + 1, strlen(equals + 1));
    int status = PHASOR_OK;
    for (char *at = values; at && status == PHASOR_OK;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        status = range_read(word, at, axis);
        at = comma ? comma + 1 : NULL;
    }
    free(values);
    return status;
}

/* -- a file of lengths ------------------------------------------------------------------------- */

static void line_free(struct size_line *line)
{
    for (int i = 0; i < line->count; i++)
        free((char *)line->bindings[i].name);
    free(line->bindings);
}

static int line_fail(const char *path, int number, const char *word)
{
    return report_failure(PHASOR_ERROR_FILE, "%s:%d: %s: expected NAME=SIZE, such as q.1=137", path,
                          number, word);
}

/* "q.0=4 q.1=137"; what stands behind # is a comment. */
static int line_read(const char *path, int number, char *text, struct size_set *set)
{
    struct size_line line = {.number = number};
    text[strcspn(text, "#\r\n")] = '\0';
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        char *equals = strchr(word, '=');
        int64_t size = -1;
        if (!equals || equals == word || !number_read(equals + 1, &size) || size < 0) {
            line_free(&line);
            return line_fail(path, number, word);
        }
        line.bindings = memory_grow(line.bindings, (size_t)line.count, sizeof *line.bindings);
        line.bindings[line.count++] =
            (phasor_binding){memory_copy(word, (size_t)(equals - word)), size};
    }
    if (line.count > 0) {
        set->lines = memory_grow(set->lines, set->line_count, sizeof *set->lines);
        set->lines[set->line_count++] = line;
    }
    return PHASOR_OK;
}

static int lines_read(const char *path, struct size_set *set)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return report_failure(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    char *text = NULL;
    size_t room = 0;
    int status = PHASOR_OK;
    for (int number = 1; status == PHASOR_OK && getline(&text, &room, file) >= 0; number++)
        status = line_read(path, number, text, set);
    if (status == PHASOR_OK && ferror(file))
        status = report_failure(PHASOR_ERROR_FILE, "%s: cannot be read", path);
    if (status == PHASOR_OK && set->line_count == 0)
        status = report_failure(PHASOR_ERROR_FILE,
                                "%s: no sizes: expected lines of NAME=SIZE, such as q.1=137", path);
    free(text);
    fclose(file);
    set->has_lines = true;
    set->path = path;
    return status;
}

/* -- the set ----------------------------------------------------------------------------------- */

int size_set_read(const struct settings *settings, struct size_set *out)
{
    *out = (struct size_set){0};
    int status = PHASOR_OK;
    for (int i = 0; i < settings->dims.count && status == PHASOR_OK; i++)
        status = dim_read(settings->dims.at[i], out);
    for (int i = 0; i < out->axis_count; i++)
        axis_unite(&out->axes[i]);
    if (status == PHASOR_OK && settings->lengths)
        status = lines_read(settings->lengths, out);
    if (status != PHASOR_OK)
        size_set_free(out);
    return status;
}

void size_set_free(struct size_set *set)
{
    for (int i = 0; i < set->axis_count; i++) {
        free(set->axes[i].name);
        free(set->axes[i].values);
    }
    for (size_t i = 0; i < set->line_count; i++)
        line_free(&set->lines[i]);
    free(set->axes);
    free(set->lines);
    *set = (struct size_set){0};
}

int size_set_check(const struct settings *settings)
{
    struct size_set set;
    TRY(size_set_read(settings, &set));
    size_set_free(&set);
    return PHASOR_OK;
}

int size_set_count(const struct size_set *set, uint64_t *out)
{
    uint64_t count = set->has_lines ? set->line_count : 1;
    for (int i = 0; i < set->axis_count; i++)
        if (__builtin_mul_overflow(count, set->axes[i].count, &count) || count > INT64_MAX)
            return report_failure(PHASOR_ERROR_USAGE, "--dim: more than 2^63 combinations");
    *out = count;
    return PHASOR_OK;
}

/* The line in a combination; an empty one where there was no file. */
static const struct size_line *line_at(const struct size_set *set, uint64_t index)
{
    static const struct size_line none;
    return set->has_lines ? &set->lines[index % set->line_count] : &none;
}

phasor_binding *size_set_at(const struct size_set *set, uint64_t index, int *count)
{
    const struct size_line *line = line_at(set, index);
    uint64_t rest = index / (set->has_lines ? set->line_count : 1);
    phasor_binding *bindings =
        memory_need((size_t)set->axis_count + (size_t)line->count, sizeof *bindings);
    *count = 0;
    for (int i = 0; i < set->axis_count; i++) {
        const struct size_axis *axis = &set->axes[i];
        bindings[(*count)++] = (phasor_binding){axis->name, axis->values[rest % axis->count]};
        rest /= axis->count;
    }
    for (int i = 0; i < line->count; i++)
        bindings[(*count)++] = line->bindings[i];
    return bindings;
}

int size_set_fail(const struct size_set *set, uint64_t index, const char *program,
                  phasor_status status)
{
    const struct size_line *line = line_at(set, index);
    if (line->number > 0)
        return report_failure(status, "%s:%d: %s: %s", set->path, line->number, program,
                              phasor_message());
    return report_failure(status, "%s: %s", program, phasor_message());
}

/* -- ranges ------------------------------------------------------------------------------------ */

/* What sizes the program allows for a name: any for a name that it does not know or whose size is
 * fixed, for phasor_program_sizes to refuse. */
static phasor_dim range_find(const phasor_program *program, const char *name)
{
    phasor_dim dim;
    if (phasor_program_dim(program, name, &dim) != PHASOR_OK || !dim.symbol)
        return (phasor_dim){.min = 0, .max = INT64_MAX, .step = 1};
    return dim;
}

static bool range_has(const phasor_dim *range, int64_t size)
{
    return size >= range->min && size <= range->max &&
           ((uint64_t)size - (uint64_t)range->min) % (uint64_t)range->step == 0;
}

static void axis_skip(struct size_set *set, struct size_axis *axis, const phasor_program *program)
{
    const phasor_dim range = range_find(program, axis->name);
    size_t kept = 0;
    for (size_t i = 0; i < axis->count; i++)
        if (range_has(&range, axis->values[i]))
            axis->values[kept++] = axis->values[i];
    set->skipped += axis->count - kept;
    axis->count = kept;
}

static bool line_in_range(const struct size_line *line, const phasor_program *program)
{
    bool in_range = true;
    for (int i = 0; i < line->count; i++) {
        const phasor_dim range = range_find(program, line->bindings[i].name);
        in_range &= range_has(&range, line->bindings[i].size);
    }
    return in_range;
}

void size_set_skip(struct size_set *set, const phasor_program *program)
{
    for (int i = 0; i < set->axis_count; i++)
        axis_skip(set, &set->axes[i], program);
    size_t kept = 0;
    for (size_t i = 0; i < set->line_count; i++) {
        if (line_in_range(&set->lines[i], program)) {
            set->lines[kept++] = set->lines[i];
            continue;
        }
        line_free(&set->lines[i]);
        set->skipped++;
    }
    set->line_count = kept;
}
