/* bench_plot.c - the figures of phasor bench as an SVG picture.
 *
 *     device 131 us, copy 128 us, host 4 us, launch 3.5 us   ->   two groups of bars, each with its
 *                                                                 axis in microseconds
 *     1000 calls                                             ->   a point a call over a logarithmic
 *                                                                 axis, first-time lengths coloured
 */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 860, LEFT = 210, RIGHT = 120, TOP = 74, BAR = 24, GAP = 12, PLOT_HEIGHT = 380 };

static const char *const colours[] = {"#1b6ca8", "#9aa5b1", "#c8553d"};

/* -- drawing ----------------------------------------------------------------------------------- */

static void text_draw(FILE *out, double x, double y, const char *anchor, int size, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\" fill=\"#222\">",
            x, y, anchor, size);
    for (const char *c = text; *c; c++)
        if (*c == '&' || *c == '<')
            fputs(*c == '&' ? "&amp;" : "&lt;", out);
        else
            fputc(*c, out);
    fputs("</text>\n", out);
}

static void line_draw(FILE *out, double x1, double y1, double x2, double y2, const char *colour)
{
    fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1,
            x2, y2, colour);
}

static void picture_open(FILE *out, int height)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            WIDTH, height, WIDTH, height);
}

static int picture_write(FILE *out, const char *path)
{
    fputs("</svg>\n", out);
    const bool failed = ferror(out);
    if (fclose(out) != 0 || failed)
        return report_failure(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    return PHASOR_OK;
}

static int picture_start(const char *path, FILE **out)
{
    *out = fopen(path, "w");
    return *out ? PHASOR_OK : report_failure(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
}

/* 1, 2 or 5 times a power of ten: about five of them make up `most`. */
static double step_choose(double most)
{
    const double power = pow(10, floor(log10(most / 5)));
    const double rest = most / 5 / power;
    return power * (rest > 5 ? 10 : rest > 2 ? 5 : rest > 1 ? 2 : 1);
}

/* -- bars -------------------------------------------------------------------------------------- */

struct bar {
    const char *name;
    double value; /* microseconds */
    int colour;
};

static void bar_draw(FILE *out, const struct bar *bar, double y, double scale)
{
    char label[64];
    fprintf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", LEFT, y,
            bar->value * scale, BAR, colours[bar->colour]);
    snprintf(label, sizeof label, "%.4g µs", bar->value);
    text_draw(out, LEFT - 10, y + BAR - 7, "end", 13, bar->name);
    text_draw(out, LEFT + bar->value * scale + 6, y + BAR - 7, "start", 13, label);
}

/* A title, an axis, the bars with a value; returns where the next group starts. */
static double group_draw(FILE *out, const char *title, const struct bar *bars, int count, double y)
{
    double most = 0;
    int shown = 0;
    for (int i = 0; i < count; i++) {
        most = fmax(most, bars[i].value);
        shown += bars[i].value > 0;
    }
    if (shown == 0)
        return y;
    const double scale = (WIDTH - LEFT - RIGHT) / most, step = step_choose(most);
    const double bottom = y + 14 + shown * (BAR + GAP);
    text_draw(out, LEFT, y, "start", 14, title);
    for (int i = 0; i * step <= most * 1.0001; i++) {
        char label[32];
        snprintf(label, sizeof label, "%g", i * step);
        line_draw(out, LEFT + i * step * scale, y + 8, LEFT + i * step * scale, bottom, "#dddddd");
        text_draw(out, LEFT + i * step * scale, bottom + 16, "middle", 11, label);
    }
    text_draw(out, WIDTH - RIGHT + 40, bottom + 16, "start", 11, "µs");
    double at = y + 14;
    for (int i = 0; i < count; i++)
        if (bars[i].value > 0) {
            bar_draw(out, &bars[i], at, scale);
            at += BAR + GAP;
        }
    line_draw(out, LEFT, y + 8, LEFT, bottom, "#222222");
    return bottom + 50;
}

int bench_plot(const struct bench_figures *figures, const char *path)
{
    const phasor_bench_result *warm = &figures->warm;
    const struct bar device[] = {{"program", warm->device.p50, 0},
                                 {"copy, cuMemcpyAsync", warm->copy_driver.p50, 1},
                                 {"copy, kernel", warm->copy_kernel.p50, 1}};
    const struct bar host[] = {{"warm call", warm->host.p50, 0},
                               {"warm call, p99", warm->host.p99, 0},
                               {"bare launch", warm->launch.p50, 1}};
    const struct bar first[] = {{"empty cache", figures->cold, 0},
                                {"NVRTC alone", figures->cold_compiler, 1},
                                {"filled cache", figures->cached, 2}};
    char line[160];
    FILE *out;
    TRY(picture_start(path, &out));
    picture_open(out, TOP + 3 * (64 + 3 * (BAR + GAP)));
    text_draw(out, 20, 26, "start", 16, figures->title);
    snprintf(line, sizeof line, "%s, %s, medians; %.0f GB/s, copy %.0f GB/s", figures->device,
             warm->mode, bench_rate(warm->bytes, warm->device.p50),
             bench_rate(warm->bytes, warm->copy.p50));
    text_draw(out, 20, 46, "start", 12, line);
    double y = TOP;
    y = group_draw(out, "Time on the device, per call", device, 3, y);
    y = group_draw(out, "Time of the host, per call", host, 3, y);
    group_draw(out, "First call", first, 3, y);
    return picture_write(out, path);
}

/* -- points ------------------------------------------------------------------------------------ */

struct frame {
    double left, bottom, width, height;
    int low, high; /* powers of ten */
};

static double frame_y(const struct frame *frame, double value)
{
    const double share = (log10(fmax(value, 1e-3)) - frame->low) / (frame->high - frame->low);
    return frame->bottom - frame->height * fmin(fmax(share, 0), 1);
}

static void frame_draw(FILE *out, const struct frame *frame, int count)
{
    char label[32];
    for (int power = frame->low; power <= frame->high; power++) {
        const double y = frame_y(frame, pow(10, power));
        snprintf(label, sizeof label, "%g", pow(10, power));
        line_draw(out, frame->left, y, frame->left + frame->width, y, "#dddddd");
        text_draw(out, frame->left - 8, y + 4, "end", 11, label);
    }
    const double step = step_choose(count);
    for (double i = 0; i <= count; i += step) {
        snprintf(label, sizeof label, "%g", i);
        text_draw(out, frame->left + frame->width * i / count, frame->bottom + 18, "middle", 11,
                  label);
    }
    line_draw(out, frame->left, frame->bottom, frame->left + frame->width, frame->bottom, "#222");
    text_draw(out, frame->left + frame->width / 2, frame->bottom + 38, "middle", 13, "call");
    fprintf(out,
            "<text transform=\"translate(24 %.1f) rotate(-90)\" text-anchor=\"middle\" "
            "font-size=\"13\" fill=\"#222\">time of the host, µs</text>\n",
            frame->bottom - frame->height / 2);
}

static struct frame frame_choose(const struct series_figures *figures)
{
    double least = figures->first, most = figures->first;
    for (int i = 0; i < figures->count; i++) {
        least = fmin(least, figures->calls[i].host);
        most = fmax(most, figures->calls[i].host);
    }
    struct frame frame = {
        .left = 80, .bottom = TOP + PLOT_HEIGHT, .width = WIDTH - 110, .height = PLOT_HEIGHT};
    frame.low = (int)floor(log10(fmax(least, 1e-3)));
    frame.high = (int)ceil(log10(fmax(most, 1e-2)));
    if (frame.high <= frame.low)
        frame.high = frame.low + 1;
    return frame;
}

int bench_plot_series(const struct series_figures *figures, const char *path)
{
    const struct frame frame = frame_choose(figures);
    char line[160];
    FILE *out;
    TRY(picture_start(path, &out));
    picture_open(out, TOP + PLOT_HEIGHT + 60);
    snprintf(line, sizeof line, "%s, %s: %d calls, %d lengths", figures->device, figures->mode,
             figures->count, figures->lengths);
    text_draw(out, 20, 26, "start", 16, line);
    fprintf(out, "<circle cx=\"26\" cy=\"46\" r=\"4\" fill=\"%s\"/>\n", colours[2]);
    text_draw(out, 36, 50, "start", 12, "length seen for the first time");
    fprintf(out, "<circle cx=\"246\" cy=\"46\" r=\"4\" fill=\"%s\"/>\n", colours[0]);
    text_draw(out, 256, 50, "start", 12, "length seen before");
    frame_draw(out, &frame, figures->count);
    for (int i = 0; i < figures->count; i++)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill=\"%s\"/>\n",
                frame.left + frame.width * (i + 0.5) / figures->count,
                frame_y(&frame, figures->calls[i].host), colours[figures->calls[i].first ? 2 : 0]);
    return picture_write(out, path);
}
