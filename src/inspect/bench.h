/* bench.h - what the files of the measurement share: data to run on, and clocks.
 *
 *     shapes of the inputs -> bench_data.c  sets of random inputs and room for outputs
 *                          -> bench.c       calls and bare launches by the host's clock
 *                          -> bench_time.c  batches of calls and of copies by events
 */
#pragma once
#include "graph/graph.h"
#include "compile/nvrtc.h"
#include "call/output.h"

/* -- data -------------------------------------------------------------------------------------- */

/* The shape of one slot; rank -1 for what is no tensor. Logical: a complex tensor has no pair dim.
 */
struct bench_shape {
    int rank;
    int64_t sizes[RANK_MAX], strides[RANK_MAX];
    int64_t nbytes;
};

struct bench_data {
    phasor_program *program;
    struct device *device; /* NULL: host memory */
    void *stream;
    int input_count, output_count;
    phasor_value *values; /* inputs, then outputs */
    DLTensor *tensors;    /* of the values */
    int64_t *offsets;     /* of each slot in a set */
    struct memory *host;  /* host memory */
    char *base;           /* set after set */
    int64_t set_bytes;
    int sets;
};

/* The shapes of all slots of a call: inputs as given, then outputs, without gaps, in eager's order
 * of dims. */
phasor_status bench_shapes(phasor_program *program, const phasor_value *inputs, int count,
                           struct bench_shape *shapes);
/* Memory in which each of shape_count calls (shapes one after the other) has room; as many sets of
 * it as are wanted and fit, the inputs of each filled with the same random values. bench_data_free
 * always. */
phasor_status bench_data_make(struct bench_data *data, const struct bench_shape *shapes,
                              int shape_count, int sets_wanted, uint64_t seed);
void bench_data_free(struct bench_data *data);
/* The values show these shapes from now on; inputs: those that are no tensors are taken from there.
 */
void bench_data_shape(struct bench_data *data, struct bench_shape *shapes,
                      const phasor_value *inputs);
void bench_data_select(struct bench_data *data, int set);

/* Sets of so many bytes that together they are several times as large as any GPU's L2 cache, and at
 * least two. */
int bench_sets(int64_t set_bytes);

/* -- times ------------------------------------------------------------------------------------- */

double bench_now(void); /* microseconds */
/* Sorts the samples. */
phasor_times bench_times(double *samples, int count);

/* Something that is issued on a stream again and again. */
struct meter {
    phasor_status (*issue)(void *context, int turn); /* turn: 0, 1, 2, ... */
    void *context;
    int launches; /* of one issue */
    /* found by the measurement */
    int turn, calls, gates;
    double *samples;
    phasor_times times;
};

/* Times the meters in turn, one batch of each in a round, by events on the stream. gate: memory
 * that is copied in front of a batch, so that the host is ahead of the device; fails with what an
 * issue fails with. */
phasor_status bench_meters(struct device *device, void *stream, char *gate, int64_t gate_bytes,
                           struct meter *meters, int count, double seconds);

/* -- copies ------------------------------------------------------------------------------------ */

enum { COPY_KERNELS = 2 };

struct bench_copy;
struct bench_way {
    struct bench_copy *copy;
    int kernel;
};

/* A copy of half of `bytes` to the other half, by each of the ways. */
struct bench_copy {
    struct phasor_runtime *runtime;
    void *stream;
    char *base;
    int64_t half, stride, room; /* stride: from one set to the next; room: of all */
    int sets;
    struct device_module *modules[COPY_KERNELS];
    struct device_function *functions[COPY_KERNELS]; /* NULL: no NVRTC */
    struct bench_way ways[COPY_KERNELS];
};

/* bench_copy_close always. */
phasor_status bench_copy_open(struct bench_copy *copy, struct phasor_runtime *runtime,
                              int64_t bytes, void *stream);
void bench_copy_close(struct bench_copy *copy);
/* The ways: cuMemcpyAsync, then the kernels. The number of meters that were set. */
int bench_copy_meters(struct bench_copy *copy, struct meter meters[1 + COPY_KERNELS]);
/* Compiles a copy kernel and forgets it: NVRTC's own start is over then. */
phasor_status bench_compiler_start(struct phasor_runtime *runtime);
