/* bench.h - what phasor bench found, between those who measure, print and draw.
 *
 *     one set of sizes    ->  struct bench_figures   bench.c
 *     a series of lengths ->  struct series_figures  bench_series.c
 */
#pragma once
#include "command.h"
#include "inputs.h"
#include "json.h"
#include "open.h"

/* Of one set of sizes. Times are in microseconds unless their name says otherwise. */
struct bench_figures {
    const char *device, *title; /* title: the sizes of the inputs, for people */
    double load_ms;             /* reading and rewriting the program */
    phasor_bench_result warm;
    phasor_counters counters; /* of the process */
    /* in new runtimes of this process; 0 where it was not measured */
    double cold, cold_compiler; /* the first call with an empty cache; NVRTC alone */
    double cached;              /* the first call with a filled cache */
};

/* Of calls with one length after the other. */
struct series_figures {
    const char *device, *mode;
    phasor_bench_call *calls;
    int count;
    int lengths;                            /* different ones */
    phasor_times all, first_time, repeated; /* without the very first call */
    double first;                           /* the very first call */
    int slow;                               /* of the others: above 2 ms */
    phasor_counters counters;
};

/* Only whether the lengths can be read: usage errors come before any work. */
int bench_series_check(const struct settings *settings);
int bench_series(const struct settings *settings, struct opened *opened);

/* Bytes in a microsecond, in GB/s; 0 for a time of 0. */
double bench_rate(int64_t nbytes, double microseconds);
void bench_print_times(const char *name, const phasor_times *times);
/* {"count", "p50", "p90", "p99", "max"}; null where nothing was measured. */
void bench_print_json_times(struct json *json, const char *key, const phasor_times *times);
double bench_seconds(void); /* a clock */

/* Writes the figures as an SVG picture: bars for one set of sizes, points over the calls for a
 * series. */
int bench_plot(const struct bench_figures *figures, const char *path);
int bench_plot_series(const struct series_figures *figures, const char *path);
