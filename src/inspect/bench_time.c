/* bench_time.c - see bench.h: samples to percentiles, and device time by events.
 *
 *     gate copies | event | call call call ... | event        elapsed / calls = one sample
 *
 * A small call takes the device less time than its launch takes the host. So a batch stands behind
 * copies that keep the device busy until all of it is issued: what is measured is the device, never
 * the host. Several meters take turns, so that a clock that changes meanwhile changes it for all of
 * them.
 */
#include "inspect/bench.h"

#include <stdlib.h>
#include <time.h>

enum {
    BATCH_MICROSECONDS = 5000, /* wanted for a batch */
    CALLS_MIN = 4,
    CALLS_MAX = 100,
    LAUNCHES_MAX = 512, /* issued ahead: the driver's queue has room for about a thousand */
    GATES_MAX = 16,
    ROUNDS_MIN = 5,
    ROUNDS_MAX = 200,
    TRIAL_CALLS = 8
};
static const double gate_margin = 1.5; /* of the host's time for a batch */

double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int number_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest sample that a share of all does not exceed. */
static double percentile(const double *sorted, int count, double share)
{
    const int rank = (int)(share * (double)count + 0.999999);
    return sorted[rank < 1 ? 0 : rank > count ? count - 1 : rank - 1];
}

phasor_times bench_times(double *samples, int count)
{
    if (count == 0)
        return (phasor_times){0};
    qsort(samples, (size_t)count, sizeof *samples, number_compare);
    return (phasor_times){count, percentile(samples, count, 0.5), percentile(samples, count, 0.9),
                          percentile(samples, count, 0.99), samples[count - 1]};
}

/* -- one batch --------------------------------------------------------------------------------- */

struct timer {
    struct device *device;
    void *stream;
    char *gate;
    int64_t gate_bytes;
    double gate_time; /* of one gate copy */
    struct device_event *from, *to;
};

static phasor_status gate_issue(const struct timer *timer)
{
    const size_t half = (size_t)(timer->gate_bytes / 2);
    return device_copy(timer->device, timer->gate + half, timer->gate, half, timer->stream);
}

/* Microseconds for one call: on the device, and for issuing it on the host. */
static phasor_status batch_time(const struct timer *timer, struct meter *meter, int calls,
                                int gates, double *on_device, double *on_host)
{
    for (int g = 0; g < gates; g++)
        TRY(gate_issue(timer));
    TRY(device_event_record(timer->from, timer->stream));
    const double before = bench_now();
    for (int i = 0; i < calls; i++)
        TRY(meter->issue(meter->context, meter->turn++));
    *on_host = (bench_now() - before) / calls;
    TRY(device_event_record(timer->to, timer->stream));
    TRY(device_event_synchronize(timer->to));
    double milliseconds;
    TRY(device_event_milliseconds(timer->from, timer->to, &milliseconds));
    *on_device = milliseconds * 1e3 / calls;
    return PHASOR_OK;
}

/* -- how long a batch is ----------------------------------------------------------------------- */

static phasor_status gate_nothing(void *context, int turn)
{
    (void)turn;
    return gate_issue(context);
}

static phasor_status gate_measure(struct timer *timer)
{
    struct meter meter = {.issue = gate_nothing, .context = timer};
    double on_host;
    TRY(batch_time(timer, &meter, 2, 0, &timer->gate_time, &on_host));
    return batch_time(timer, &meter, 4, 0, &timer->gate_time, &on_host);
}

static int clamp(double number, int low, int high)
{
    return number < low ? low : number > high ? high : (int)number;
}

/* Enough calls for a clear reading; as many gates as issuing them takes, fewer calls where that are
 * too many. */
static phasor_status meter_tune(const struct timer *timer, struct meter *meter)
{
    const int launches = meter->launches > 0 ? meter->launches : 1;
    double on_device, on_host;
    TRY(batch_time(timer, meter, TRIAL_CALLS, 0, &on_device, &on_host));
    TRY(batch_time(timer, meter, TRIAL_CALLS, 0, &on_device, &on_host));
    /* NOLINTNEXTLINE(bugprone-integer-division): whole calls */
    const int most = clamp(LAUNCHES_MAX / launches, 1, CALLS_MAX);
    meter->calls =
        clamp(BATCH_MICROSECONDS / (on_device + 0.01), CALLS_MIN < most ? CALLS_MIN : most, most);
    meter->gates = 1;
    if (on_device > 4 * on_host || timer->gate_time <= 0)
        return PHASOR_OK;
    const double host_time = gate_margin * on_host;
    meter->gates = clamp(meter->calls * host_time / timer->gate_time + 1, 1, GATES_MAX);
    meter->calls = clamp(meter->gates * timer->gate_time / host_time,
                         CALLS_MIN < most ? CALLS_MIN : most, meter->calls);
    return PHASOR_OK;
}

/* -- all meters -------------------------------------------------------------------------------- */

static phasor_status rounds_run(const struct timer *timer, struct meter *meters, int count,
                                double seconds)
{
    const double end = bench_now() + seconds * 1e6 * count;
    double on_host;
    int rounds = 0;
    for (int i = 0; i < count; i++)
        TRY(meter_tune(timer, &meters[i]));
    for (; rounds < ROUNDS_MAX && (rounds < ROUNDS_MIN || bench_now() < end); rounds++)
        for (int i = 0; i < count; i++)
            TRY(batch_time(timer, &meters[i], meters[i].calls, meters[i].gates,
                           &meters[i].samples[rounds], &on_host));
    for (int i = 0; i < count; i++)
        meters[i].times = bench_times(meters[i].samples, rounds);
    return PHASOR_OK;
}

phasor_status bench_meters(struct device *device, void *stream, char *gate, int64_t gate_bytes,
                           struct meter *meters, int count, double seconds)
{
    struct timer timer = {
        .device = device, .stream = stream, .gate = gate, .gate_bytes = gate_bytes};
    double *samples = memory_new((size_t)count * ROUNDS_MAX * sizeof *samples);
    phasor_status status = samples ? PHASOR_OK : fail_memory();
    for (int i = 0; samples && i < count; i++)
        meters[i].samples = samples + i * ROUNDS_MAX;
    if (status == PHASOR_OK)
        status = device_event_new(device, true, &timer.from);
    if (status == PHASOR_OK)
        status = device_event_new(device, true, &timer.to);
    if (status == PHASOR_OK)
        status = gate_measure(&timer);
    if (status == PHASOR_OK)
        status = rounds_run(&timer, meters, count, seconds);
    device_event_free(timer.from);
    device_event_free(timer.to);
    memory_free(samples);
    return status;
}
