/* sizes.h - from --dim and --lengths to combinations of sizes.
 *
 *     --dim q.1=1:9:4 --dim q.0=1,2 --dim q.1=17
 *         ->  q.1 in {1, 5, 9, 17} x q.0 in {1, 2}: 8 combinations
 *     a file of two lines "q.0=4 q.1=137" and "q.0=1 q.1=9"
 *         ->  2 combinations
 *
 * Ranges are from:to[:step], `to` included. Several names combine as a product, the same name twice
 * is a union; a file's lines combine with the names of --dim. Values keep their order, and each
 * stands once.
 */
#pragma once
#include "command.h"

struct size_axis {
    char *name;
    int64_t *values;
    size_t count;
};

struct size_line {
    phasor_binding *bindings;
    int count;
    int number; /* in the file; 0: of no file */
};

struct size_set {
    struct size_axis *axes;
    int axis_count;
    struct size_line *lines;
    size_t line_count;
    const char *path; /* of the lines */
    bool has_lines;   /* a file was read; without one, a single empty line counts */
    uint64_t skipped; /* values that size_set_skip took out, lines with such a value */
};

int size_set_read(const struct settings *settings, struct size_set *out);
/* Only whether they can be read: usage errors come before any work. */
int size_set_check(const struct settings *settings);
void size_set_free(struct size_set *set);

/* Takes out values that the dim they name cannot have (outside its range; odd ones of 2*s25), and
 * counts them. Names that the program does not know are left, for phasor_program_sizes to refuse. */
void size_set_skip(struct size_set *set, const phasor_program *program);

/* How many combinations there are: 1 without any --dim. */
int size_set_count(const struct size_set *set, uint64_t *out);
/* The bindings of one combination. Free with free(); the names belong to the set. */
phasor_binding *size_set_at(const struct size_set *set, uint64_t index, int *count);
/* Says why the library did not take a combination: its last message, behind the program's path and
 * the line that the sizes come from. Returns the status. */
int size_set_fail(const struct size_set *set, uint64_t index, const char *program,
                  phasor_status status);
