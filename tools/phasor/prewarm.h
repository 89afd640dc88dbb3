/* prewarm.h - everything that phasor prewarm compiles, as numbered combinations.
 *
 *     2 archs x 1 program x 3 sizes   ->   combinations 0 .. 5, each aligned and not aligned
 *
 * Making the list (prewarm.c) is apart from working it off (prewarm_jobs.c): by threads that plan,
 * generate and store, each with a process that compiles for it.
 */
#pragma once
#include "command.h"
#include "progress.h"
#include "sizes.h"

#include <pthread.h>
#include <stdatomic.h>

/* One program, for one arch. */
struct prewarm_target {
    phasor_program *program;
    const char *path;
    const struct size_set *sizes;
    uint64_t combinations, batches; /* what a thread takes at once is a batch */
};

struct prewarm {
    /* the list */
    char (*archs)[16];
    phasor_runtime **runtimes; /* one an arch */
    int arch_count;
    struct size_set *sizes; /* one a program */
    int program_count;
    struct prewarm_target *targets; /* arch_count x program_count */
    int target_count;
    uint64_t total, batches; /* total: combinations */
    /* the work */
    _Atomic uint64_t next, done, failed; /* failed: for other reasons than a compile */
    atomic_bool stopped;
    _Atomic int running;  /* threads */
    pthread_mutex_t lock; /* of what follows, and of stderr */
    int status;           /* of the first failure */
    int said;             /* failures that were printed */
    struct progress progress;
};

/* Works all combinations off with this many threads. An interrupt (SIGINT, SIGTERM) ends it after
 * the compiles that run then. */
int prewarm_work(struct prewarm *prewarm, int64_t threads);

/* The signals come here from now on; a second one ends the process. */
void interrupt_catch(void);
bool interrupt_seen(void *context); /* a phasor_interrupt_callback */
