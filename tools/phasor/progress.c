/* progress.c - see progress.h. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 32, WINDOW_SECONDS = 5 };

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void progress_start(struct progress *progress)
{
    const char *terminal = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    progress->shown = isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
    progress->coloured = !no_colour || !*no_colour;
    progress->started = seconds_now();
    progress->older = progress->newer = (struct progress_mark){progress->started, 0};
}

/* Over one to two windows; the whole time as long as that is shorter. */
static double rate_get(struct progress *progress, uint64_t done)
{
    const double now = seconds_now();
    if (now - progress->newer.time >= WINDOW_SECONDS) {
        progress->older = progress->newer;
        progress->newer = (struct progress_mark){now, done};
    }
    const double elapsed = now - progress->older.time;
    return elapsed > 0 ? (double)(done - progress->older.done) / elapsed : 0;
}

void progress_draw(struct progress *progress, uint64_t done, uint64_t total)
{
    if (!progress->shown || total == 0)
        return;
    char bar[BAR_WIDTH + 1] = "";
    const double rate = rate_get(progress, done);
    const int filled = (int)((double)done / (double)total * BAR_WIDTH);
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)(filled > BAR_WIDTH ? BAR_WIDTH : filled));
    fprintf(stderr, "\r\033[K[%s%s%s]  %" PRIu64 "/%" PRIu64 "  %.1f/s",
            progress->coloured ? "\033[32m" : "", bar, progress->coloured ? "\033[0m" : "", done,
            total, rate);
    if (rate > 0)
        fprintf(stderr, "  %.0f s left", (double)(total - done) / rate);
    fflush(stderr);
}

void progress_clear(const struct progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
}
