/* state.h - the buffers that a program mutates. */
#pragma once
#include "context/program.h"

struct phasor_state {
    struct phasor_program *owner;   /* the one that was loaded */
    struct phasor_program *program; /* itself or the twin whose device the buffers are on; NULL: not
                                       used yet, and without buffers */
    struct memory **buffers; /* one a buffer of the graph, with the strides of its initial value */
    char **addresses;        /* of their first elements */
    int count;
    uint32_t *flag;       /* an index was out of range; host memory that kernels reach */
    pthread_mutex_t lock; /* CPU device: one call at a time */
};

/* The state itself, which gets its buffers by its first use, or the program's own for NULL. */
phasor_status state_get(struct phasor_program *program, struct phasor_state *state,
                        struct phasor_state **out);
/* Reports an index that was out of range, once. */
phasor_status state_report(struct phasor_state *state);
