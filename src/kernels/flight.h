/* flight.h - tables in which each key is made once: specialisations of a program, kernels of a
 * runtime.
 *
 *     thread 1: flight_get("s25=7") -> owner, makes it, flight_done()
 *     thread 2: flight_get("s25=7") -> waits, then has what thread 1 made; or thread 1's
 *         failure and its message
 *
 * An entry is the head of the caller's own struct. The table holds one reference to what is ready,
 * each user another. Where entries are kept, the least recently used ones are dropped beyond the
 * cap; where they are not, an entry goes with its last user.
 */
#pragma once
#include "base/hash.h"
#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>

enum flight_state { FLIGHT_BUILDING, FLIGHT_READY, FLIGHT_FAILED };

struct flight {
    struct hash hash;
    void *key;
    size_t key_size;
    enum flight_state state;
    pthread_t builder; /* BUILDING: the owner's thread */
    int references;
    bool pinned; /* never dropped before the table is closed */
    bool retry;  /* the failure is no answer for those who wait: they try themselves */
    struct flight *newer, *older; /* by use */
    int64_t weight;               /* bytes that count against the table's weight_cap */
    phasor_status status;
    char *message;
    struct flight *next;
};

struct flight_table {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct flight **buckets;
    size_t bucket_count, count;
    int64_t weight;
    struct flight *newest, *oldest; /* by use */
    size_t entry_size;
    bool kept;
    size_t cap;         /* kept: entries */
    int64_t weight_cap; /* kept: bytes */
    void (*destroy)(
        struct flight *entry); /* what the caller's struct owns; called without the lock */
};

phasor_status flight_open(struct flight_table *table, size_t entry_size,
                          void (*destroy)(struct flight *));
/* Nobody uses an entry any more. */
void flight_close(struct flight_table *table);

/* A ready entry, or with create one that is to be made: *owner says so, and flight_done must
 * follow. Without create, *out is NULL when there is none that is ready. A failure of another owner
 * is returned with its message. PHASOR_ERROR_USAGE: the owner is this thread itself, in a function
 * of its caller. */
phasor_status flight_get(struct flight_table *table, struct hash hash, const void *key,
                         size_t key_size, bool create, struct flight **out, bool *owner);
/* The same without waiting: *out is NULL where another owner is at it. */
phasor_status flight_claim(struct flight_table *table, struct hash hash, const void *key,
                           size_t key_size, struct flight **out, bool *owner);
/* The end of making it. On failure the entry leaves the table, and the owner's reference is gone.
 */
void flight_done(struct flight_table *table, struct flight *entry, phasor_status status,
                 bool retry);
void flight_release(struct flight_table *table, struct flight *entry);
/* Takes an entry out of the table: the next who wants it makes it anew. The caller has a reference.
 */
void flight_forget(struct flight_table *table, struct flight *entry);
/* Another reference; the caller has one. */
void flight_retain(struct flight_table *table, struct flight *entry); /* NULL is fine */
void flight_pin(struct flight_table *table, struct flight *entry);
