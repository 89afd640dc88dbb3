/* capture.h - streams of the stand-in driver, and programs of a few lines.
 *
 *     struct driver driver;
 *     driver_open(&driver);
 *     driver.begin(driver.stream, 2); ... driver.end(driver.stream, &graph);
 *     driver_close(&driver);
 */
#pragma once
#include "support/runtime_case.h"

#include <unistd.h>

struct driver {
    int (*begin)(void *, int), (*end)(void *, void **), (*stream_new)(void **, unsigned),
        (*stream_free)(void *);
    int (*instantiate)(void **, void *, unsigned long long), (*launch)(void *, void *),
        (*graph_free)(void *);
    int (*retain)(void **, int), (*release)(int), (*make_current)(void *);
    void *context, *stream;
};

static inline void driver_open(struct driver *d)
{
    *(void **)&d->begin = stand_in_symbol("cuStreamBeginCapture_v2");
    *(void **)&d->end = stand_in_symbol("cuStreamEndCapture");
    *(void **)&d->stream_new = stand_in_symbol("cuStreamCreate");
    *(void **)&d->stream_free = stand_in_symbol("cuStreamDestroy_v2");
    *(void **)&d->instantiate = stand_in_symbol("cuGraphInstantiateWithFlags");
    *(void **)&d->launch = stand_in_symbol("cuGraphLaunch");
    *(void **)&d->graph_free = stand_in_symbol("cuGraphDestroy");
    *(void **)&d->retain = stand_in_symbol("cuDevicePrimaryCtxRetain");
    *(void **)&d->release = stand_in_symbol("cuDevicePrimaryCtxRelease_v2");
    *(void **)&d->make_current = stand_in_symbol("cuCtxSetCurrent");
    cr_assert_eq(d->retain(&d->context, 0), 0);
    cr_assert_eq(d->make_current(d->context), 0);
    cr_assert_eq(d->stream_new(&d->stream, 1), 0);
}

static inline void driver_close(struct driver *d)
{
    cr_assert_eq(d->stream_free(d->stream), 0);
    cr_assert_eq(d->release(0), 0);
}

/* A program of one text. */
static inline phasor_program *program_of(const struct opened *o, const char *text)
{
    char path[] = "/tmp/phasor-text-XXXXXX.phasor";
    phasor_program *program;
    FILE *file = fdopen(mkstemps(path, 7), "w");
    cr_assert(file);
    fputs(text, file);
    fclose(file);
    ASSERT_OK(phasor_program_load(o->runtime, path, NULL, &program));
    unlink(path);
    return program;
}
