/* server.h - what the parts of the example server share.
 *
 *     server.c   the runtime, one worker a thread, lengths that come line by line
 *     load.c     the same workers, lengths drawn at random, and how long each answer took
 */
#pragma once
#include <phasor.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS_MAX = 32, DIMS_MAX = 8 * SLOTS_MAX };

/* For what a server cannot go on without; answers that fail are told to who asked. */
#define CHECK(call) \
    ((call) == PHASOR_OK ? (void)0 : (fprintf(stderr, "server: %s\n", phasor_message()), exit(1)))

struct server {
    phasor_runtime *runtime;
    phasor_program *program;
    int inputs, outputs;
    const char *dim;           /* the one that requests vary: "q.1" */
    int64_t shortest, longest; /* lengths that are answered */
};

/* What one thread needs to answer a request after the other. */
struct worker {
    const struct server *server;
    phasor_state *state;
    int64_t dims[DIMS_MAX];      /* the shapes of all inputs for the length at hand */
    DLTensor tensors[SLOTS_MAX]; /* data: as large as the longest request needs */
    phasor_value inputs[SLOTS_MAX], outputs[SLOTS_MAX];
    void *result; /* on the host */
    size_t room;
};

struct answer {
    double call, whole; /* microseconds: until phasor_run returned; until the results were here */
    uint64_t checksum;  /* of all results, never 0 */
};

void *memory_need(size_t count, size_t size); /* zeroed; ends the program where there is none */
void threads_run(int threads, void *(*work)(void *), void *context); /* until all are done */

void worker_open(struct worker *worker, const struct server *server);
void worker_close(struct worker *worker);
phasor_status worker_answer(struct worker *worker, int64_t length, struct answer *out);

/* Answers `count` requests of random lengths with that many threads and prints what they took.
 * False: an answer failed, or two of one length differ. */
bool load_run(const struct server *server, int64_t count, int threads);
