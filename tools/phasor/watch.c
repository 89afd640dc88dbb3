/* watch.c - see watch.h.
 *
 *     rope.phasor, rope.safetensors, inputs, the files of PHASOR_TEMPLATE_DIR
 *         ->  what stat says of each, ten times a second
 *         ->  a file is another than before, and stays so for a tenth of a second
 *         ->  a run; how its results and times differ from those of the last run that worked
 *
 * Files are looked at, not subscribed to: that works on network file systems, and for editors that
 * write a new file and rename it. */
#include "watch.h"

#include "run.h"
#include "tensor.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SETTLE_LOOKS = 50 };
static const struct timespec look_pause = {.tv_nsec = 100000000};
static const double bench_seconds_each = 0.05;

/* -- files ------------------------------------------------------------------------------------- */

struct seen {
    char *path;
    bool named; /* by the command line, so that it must be there */
    bool there;
    struct timespec modified;
    off_t size;
    ino_t inode; /* another one after a rename */
};

struct snapshot {
    struct seen *at;
    int count;
};

static void snapshot_free(struct snapshot *snapshot)
{
    for (int i = 0; i < snapshot->count; i++)
        free(snapshot->at[i].path);
    free(snapshot->at);
    *snapshot = (struct snapshot){0};
}

/* Takes the path. */
static void snapshot_add(struct snapshot *snapshot, char *path, bool named)
{
    struct stat is = {0};
    const bool there = stat(path, &is) == 0;
    snapshot->at = memory_grow(snapshot->at, (size_t)snapshot->count, sizeof *snapshot->at);
    snapshot->at[snapshot->count++] = (struct seen){
        .path = path,
        .named = named,
        .there = there,
        .modified = is.st_mtim,
        .size = is.st_size,
        .inode = is.st_ino,
    };
}

/* What a run writes is no reason for the next one. */
static void snapshot_add_named(struct snapshot *snapshot, const char *path, const char *outputs)
{
    if (path && !(outputs && strcmp(path, outputs) == 0))
        snapshot_add(snapshot, memory_copy(path, strlen(path)), true);
}

/* "rope.phasor" has its larger constants in "rope.safetensors". */
static void snapshot_add_weights(struct snapshot *snapshot, const char *program)
{
    static const char text[] = ".phasor", weights[] = ".safetensors";
    const size_t length = strlen(program), ending = sizeof text - 1;
    if (length <= ending || strcmp(program + length - ending, text) != 0)
        return;
    char *path = memory_need(length + sizeof weights, 1);
    memcpy(path, program, length - ending);
    strcpy(path + length - ending, weights);
    snapshot_add(snapshot, path, false);
}

/* Editors keep their own files beside; those have other endings. */
static bool name_is_template(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && name[0] != '.' && (strcmp(dot, ".cu") == 0 || strcmp(dot, ".cuh") == 0);
}

static void snapshot_add_templates(struct snapshot *snapshot, const char *folder)
{
    DIR *directory = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!name_is_template(entry->d_name))
            continue;
        const size_t room = strlen(folder) + strlen(entry->d_name) + 2;
        char *path = memory_need(room, 1);
        snprintf(path, room, "%s/%s", folder, entry->d_name);
        snapshot_add(snapshot, path, false);
    }
    if (directory)
        closedir(directory);
}

static struct snapshot snapshot_take(const struct settings *settings)
{
    struct snapshot snapshot = {0};
    snapshot_add_named(&snapshot, settings->operands.at[0], settings->outputs);
    snapshot_add_named(&snapshot, settings->inputs, settings->outputs);
    snapshot_add_named(&snapshot, settings->expect, settings->outputs);
    snapshot_add_weights(&snapshot, settings->operands.at[0]);
    snapshot_add_templates(&snapshot, getenv("PHASOR_TEMPLATE_DIR"));
    return snapshot;
}

static bool seen_equal(const struct seen *a, const struct seen *b)
{
    return a->there == b->there && a->size == b->size && a->inode == b->inode &&
           a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec;
}

/* The first file of `a` that is another one in `b`, or is not there; NULL when there is none. */
static const struct seen *snapshot_differs(const struct snapshot *a, const struct snapshot *b)
{
    for (int i = 0; i < a->count; i++) {
        bool same = false;
        for (int j = 0; j < b->count; j++)
            if (strcmp(a->at[i].path, b->at[j].path) == 0)
                same = seen_equal(&a->at[i], &b->at[j]);
        if (!same)
            return &a->at[i];
    }
    return NULL;
}

static const struct seen *snapshot_change(const struct snapshot *before, const struct snapshot *now)
{
    const struct seen *file = snapshot_differs(now, before);
    return file ? file : snapshot_differs(before, now);
}

static bool snapshot_lacks_named(const struct snapshot *snapshot)
{
    for (int i = 0; i < snapshot->count; i++)
        if (snapshot->at[i].named && !snapshot->at[i].there)
            return true;
    return false;
}

/* A file that is being written changes from look to look: wait for its last byte, but not for ever
 * where something writes without end. */
static void snapshot_settle(const struct settings *settings, struct snapshot *now)
{
    for (int i = 0; i < SETTLE_LOOKS; i++) {
        nanosleep(&look_pause, NULL);
        struct snapshot later = snapshot_take(settings);
        const bool settled = !snapshot_change(now, &later);
        snapshot_free(now);
        *now = later;
        if (settled)
            return;
    }
}

/* Waits until a file is another than in *before, says which, and puts the new look there. */
static void change_wait(const struct settings *settings, struct snapshot *before)
{
    for (;;) {
        struct snapshot now = snapshot_take(settings);
        const struct seen *changed = snapshot_change(before, &now);
        if (changed) {
            say("\n%s has changed\n", changed->path);
            fflush(stdout);
            snapshot_settle(settings, &now);
            snapshot_free(before);
            *before = now;
            return;
        }
        snapshot_free(&now);
        nanosleep(&look_pause, NULL);
    }
}

/* -- times ------------------------------------------------------------------------------------- */

/* A run and what calls like it cost. */
struct round {
    struct run run;
    phasor_bench_result times; /* nothing counted: not measured */
};

/* What cannot be timed was run all the same: the reason is said, and that is all. */
static void round_time(const struct settings *settings, struct round *round)
{
    const phasor_bench_options options = {
        .size = sizeof options, .seed = (uint64_t)settings->seed, .seconds = bench_seconds_each};
    phasor_bench_result *times = &round->times;
    *times = (phasor_bench_result){.size = sizeof *times};
    if (report_library(phasor_program_bench(round->run.opened.program, round->run.inputs.values,
                                            round->run.inputs.count, &options, times)) != PHASOR_OK)
        *times = (phasor_bench_result){.size = sizeof *times};
}

static void microseconds_print(double time)
{
    if (time < 1e3)
        say("%.2f us", time);
    else
        say("%.2f ms", time * 1e-3);
}

static void time_print(const char *name, double now, const double *before)
{
    say("%-14s ", name);
    microseconds_print(now);
    if (before && *before > 0) {
        say(", was ");
        microseconds_print(*before);
        say(", %+.0f %%", (now / *before - 1) * 100);
    }
    say("\n");
}

static void times_print(const char *name, const phasor_times *now, const phasor_times *before)
{
    if (now->count > 0)
        time_print(name, now->p50, before && before->count > 0 ? &before->p50 : NULL);
}

/* -- differences ------------------------------------------------------------------------------- */

/* Tolerances play no part: a bit that is another one is a difference, also one of a zero or NaN. */
static int64_t elements_differ(const DLTensor *now, const DLTensor *before, int64_t elements)
{
    const size_t nbytes = dtype_bytes(now->dtype);
    const char *a = now->data, *b = before->data;
    int64_t count = 0;
    for (int64_t i = 0; i < elements; i++, a += nbytes, b += nbytes)
        count += memcmp(a, b, nbytes) != 0;
    return count;
}

/* Of tensors with one shape and dtype. */
static void tensor_print(const DLTensor *now, const DLTensor *before,
                         const struct comparison *comparison)
{
    int64_t elements = 0;
    tensor_elements(now, &elements); /* of a tensor that is in memory */
    const int64_t different = elements_differ(now, before, elements);
    if (different == 0)
        say("the same bits as before\n");
    else
        say("%" PRId64 " of %" PRId64 " elements differ from before, max abs %.3g, max rel %.3g\n",
            different, elements, comparison->max_abs, comparison->max_rel);
}

static int output_print(int i, const phasor_value *now, const phasor_value *before)
{
    struct comparison comparison;
    TRY(compare_values(now, before, 0, 0, &comparison));
    say("output_%-7d ", i);
    if (now->kind == PHASOR_TENSOR && comparison.measured) {
        tensor_print(now->tensor, before->tensor, &comparison);
    } else if (comparison.match) {
        say("the same as before\n");
    } else {
        value_print(now);
        say(", was ");
        value_print(before);
        say("\n");
    }
    return PHASOR_OK;
}

static void outputs_print(const struct results *now, const struct results *before)
{
    const int both = now->count < before->count ? now->count : before->count;
    for (int i = 0; i < both; i++)
        output_print(i, &now->at[i].value, &before->at[i].value);
    for (int i = both; i < now->count; i++)
        say("output_%-7d is new\n", i);
    for (int i = both; i < before->count; i++)
        say("output_%-7d is gone\n", i);
}

/* before: NULL at the first time. */
static void round_print(const struct round *now, const struct round *before)
{
    if (before)
        outputs_print(&now->run.results, &before->run.results);
    time_print("first call", now->run.first, before ? &before->run.first : NULL);
    times_print("warm call", &now->times.host, before ? &before->times.host : NULL);
    times_print("on the device", &now->times.device, before ? &before->times.device : NULL);
}

/* -- the loop ---------------------------------------------------------------------------------- */

/* *last is the last run that worked. It stays open during the next one: the strings among its
 * results belong to its program, and the device's context lives on. After a kernel's fault that
 * context is of no use, and only goes when nobody holds it. */
static int round_next(const struct settings *settings, struct round *last)
{
    struct round now = {0};
    const int status = run_once(settings, &now.run);
    if (status != PHASOR_OK && status != EXIT_DIFFERS) {
        run_free(&now.run);
        if (status == PHASOR_ERROR_DEVICE)
            run_free(&last->run);
        return status;
    }
    round_time(settings, &now);
    round_print(&now, last->run.opened.runtime ? last : NULL);
    run_free(&last->run);
    *last = now;
    return status;
}

/* No edit makes a device or mends a command line. A name without a file is most likely mistyped. */
static bool is_beyond_edits(int status, const struct snapshot *files)
{
    if (status == PHASOR_OK || status == EXIT_DIFFERS)
        return false;
    return status == PHASOR_ERROR_USAGE || status == PHASOR_ERROR_DEVICE ||
           snapshot_lacks_named(files);
}

int watch_command(const struct settings *settings)
{
    struct round last = {0};
    /* Looked at before the run: what changes meanwhile is seen afterwards. */
    struct snapshot files = snapshot_take(settings);
    int status = round_next(settings, &last);
    if (!is_beyond_edits(status, &files)) {
        report_note("watching %d file%s; Ctrl-C ends", files.count, files.count == 1 ? "" : "s");
        while (fflush(stdout) == 0) {
            change_wait(settings, &files);
            status = round_next(settings, &last);
            if (status != PHASOR_OK && status != EXIT_DIFFERS)
                report_note("waiting for the next change");
        }
        status = report_failure(PHASOR_ERROR_FILE, "cannot write to standard output");
    }
    run_free(&last.run);
    snapshot_free(&files);
    return status;
}
