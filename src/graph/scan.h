/* scan.h - the words of one line of .phasor text.
 *
 *     start=s25 + 1 : c64[2, s25]     scan_name, scan_take "=", scan_size, scan_take ":", scan_type
 *
 * Blanks before a word are skipped. Functions that fail leave a message "PATH:LINE: ...". */
#pragma once
#include "graph/graph.h"

enum { SCAN_SYMBOLS_MAX = 1024 };

struct scan {
    const char *at; /* the next byte of the line, which ends in NUL */
    const char *path;
    int line;
    struct sizes *sizes;
    struct text word; /* the latest name or string */
    int depth;        /* of brackets in a size */
    bool declare;     /* an unknown symbol is made, not refused */
};

struct scan_tensor {
    enum dtype dtype;
    int rank;
    dim shape[RANK_MAX];
};

phasor_status scan_fail(const struct scan *scan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "expected WHAT, found 'REST'" */
phasor_status scan_expected(const struct scan *scan, const char *what);
/* Puts "PATH:LINE: " before the present message. */
phasor_status scan_fail_in(const struct scan *scan, phasor_status status);

bool scan_at_end(struct scan *scan);                 /* only a comment is left */
bool scan_take(struct scan *scan, const char *mark); /* punctuation */
bool scan_take_word(struct scan *scan, const char *word);
phasor_status scan_expect(struct scan *scan, const char *mark);
phasor_status scan_end(struct scan *scan);

phasor_status scan_name(struct scan *scan, const char *what); /* plain or quoted, to scan->word */
phasor_status scan_string(struct scan *scan, const char *what);
phasor_status scan_integer(struct scan *scan, int64_t low, int64_t high, const char *what,
                           int64_t *out);
phasor_status scan_number(struct scan *scan, enum dtype dtype, struct number *out);
phasor_status scan_size(struct scan *scan, dim *out);
/* "[s25 + 1, 2]" of at most `room` sizes */
phasor_status scan_sizes(struct scan *scan, dim *sizes, int room, int *count);
phasor_status scan_type(struct scan *scan, struct scan_tensor *out);
