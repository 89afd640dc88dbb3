/* progress.h - a bar on a terminal.
 *
 *     [############............]  96/192  31.4/s  3 s left
 *
 * Nothing is printed where stderr is no terminal.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown, coloured;
    double started; /* seconds */
};

double seconds_now(void);
void progress_start(struct progress *progress);
void progress_draw(const struct progress *progress, uint64_t done, uint64_t total);
void progress_clear(const struct progress *progress); /* before another line, and at the end */
