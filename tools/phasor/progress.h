/* progress.h - a bar on a terminal.
 *
 *     [############............]  96/192  31.4/s  3 s left
 *
 * Nothing is printed where stderr is no terminal.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct progress_mark {
    double time; /* seconds */
    uint64_t done;
};

struct progress {
    bool shown, coloured;
    double started; /* seconds */
    struct progress_mark older, newer;
};

double seconds_now(void);
void progress_start(struct progress *progress);
/* Rate and time left are those of the last seconds: what a run finds done goes by much faster than
 * what it has to do. */
void progress_draw(struct progress *progress, uint64_t done, uint64_t total);
void progress_clear(const struct progress *progress); /* before another line, and at the end */
