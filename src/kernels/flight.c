/* flight.c - see flight.h. */
#include "kernels/flight.h"

#include "base/memory.h"

#include <string.h>

enum { BUCKETS_FIRST = 64 };

phasor_status flight_open(struct flight_table *table, size_t entry_size,
                          void (*destroy)(struct flight *))
{
    *table = (struct flight_table){.entry_size = entry_size,
                                   .destroy = destroy,
                                   .bucket_count = BUCKETS_FIRST,
                                   .cap = SIZE_MAX,
                                   .weight_cap = INT64_MAX};
    table->buckets = memory_new(BUCKETS_FIRST * sizeof *table->buckets);
    if (!table->buckets)
        return fail_memory();
    pthread_mutex_init(&table->lock, NULL);
    pthread_cond_init(&table->changed, NULL);
    return PHASOR_OK;
}

static void entry_free(struct flight_table *table, struct flight *entry)
{
    table->destroy(entry);
    memory_free(entry->key);
    memory_free(entry->message);
    memory_free(entry);
}

/* A list of entries without references, chained by next. */
static void entries_free(struct flight_table *table, struct flight *list)
{
    while (list) {
        struct flight *next = list->next;
        entry_free(table, list);
        list = next;
    }
}

void flight_close(struct flight_table *table)
{
    if (!table->buckets)
        return;
    for (size_t b = 0; b < table->bucket_count; b++)
        entries_free(table, table->buckets[b]);
    memory_free(table->buckets);
    pthread_mutex_destroy(&table->lock);
    pthread_cond_destroy(&table->changed);
    table->buckets = NULL;
}

static struct flight **bucket_of(const struct flight_table *table, struct hash hash)
{
    return &table->buckets[hash.low & (table->bucket_count - 1)];
}

static struct flight *entry_find(const struct flight_table *table, struct hash hash,
                                 const void *key, size_t key_size)
{
    for (struct flight *entry = *bucket_of(table, hash); entry; entry = entry->next)
        if (hash_equal(entry->hash, hash) && entry->key_size == key_size &&
            memcmp(entry->key, key, key_size) == 0)
            return entry;
    return NULL;
}

/* A table that cannot grow still works. */
static void table_grow(struct flight_table *table)
{
    if (table->count < table->bucket_count)
        return;
    struct flight **old = table->buckets,
                  **grown = memory_new(2 * table->bucket_count * sizeof *grown);
    const size_t count = table->bucket_count;
    if (!grown)
        return;
    table->buckets = grown;
    table->bucket_count = 2 * count;
    for (size_t b = 0; b < count; b++)
        while (old[b]) {
            struct flight *entry = old[b];
            old[b] = entry->next;
            entry->next = *bucket_of(table, entry->hash);
            *bucket_of(table, entry->hash) = entry;
        }
    memory_free(old);
}

static void use_unlink(struct flight_table *table, struct flight *entry)
{
    *(entry->newer ? &entry->newer->older : &table->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &table->oldest) = entry->newer;
    entry->newer = entry->older = NULL;
}

static void use_link(struct flight_table *table, struct flight *entry)
{
    entry->older = table->newest;
    *(table->newest ? &table->newest->newer : &table->oldest) = entry;
    table->newest = entry;
}

static struct flight *entry_new(struct flight_table *table, struct hash hash, const void *key,
                                size_t key_size)
{
    struct flight *entry = memory_new(table->entry_size);
    void *copy = memory_new(key_size);
    if (!entry || !copy) {
        memory_free(entry);
        memory_free(copy);
        return NULL;
    }
    memcpy(copy, key, key_size);
    entry->hash = hash;
    entry->key = copy;
    entry->key_size = key_size;
    entry->references = 2; /* the table and the owner */
    entry->builder = pthread_self();
    table_grow(table);
    entry->next = *bucket_of(table, hash);
    *bucket_of(table, hash) = entry;
    use_link(table, entry);
    table->count++;
    return entry;
}

static bool entry_is_listed(const struct flight_table *table, const struct flight *entry)
{
    for (const struct flight *at = *bucket_of(table, entry->hash); at; at = at->next)
        if (at == entry)
            return true;
    return false;
}

/* One that was dropped from the table meanwhile has no place in its order. */
static void entry_used(struct flight_table *table, struct flight *entry)
{
    if (table->newest == entry || !entry_is_listed(table, entry))
        return;
    use_unlink(table, entry);
    use_link(table, entry);
}

static void entry_remove(struct flight_table *table, struct flight *entry)
{
    struct flight **at = bucket_of(table, entry->hash);
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    entry->next = NULL;
    use_unlink(table, entry);
    table->count--;
    table->weight -= entry->weight;
}

/* Gives up a reference; the entry when it was the last one. */
static struct flight *entry_drop(struct flight *entry)
{
    return --entry->references == 0 ? entry : NULL;
}

/* Waits until the entry is no longer being made; true when it is ready. Otherwise the reference is
 * gone, and *status says why, or is PHASOR_OK when the caller shall try itself. */
static bool entry_wait(struct flight_table *table, struct flight *entry, phasor_status *status)
{
    if (entry->state == FLIGHT_BUILDING && pthread_equal(entry->builder, pthread_self())) {
        entry->references--; /* the owner's keeps it alive */
        *status = fail(PHASOR_ERROR_USAGE,
                       "the call in which the interrupt callback runs is making just this: it "
                       "can be had when that call has returned");
        return false;
    }
    while (entry->state == FLIGHT_BUILDING)
        pthread_cond_wait(&table->changed, &table->lock);
    if (entry->state == FLIGHT_READY)
        return true;
    *status =
        entry->retry ? PHASOR_OK : fail(entry->status, "%s", entry->message ? entry->message : "");
    struct flight *gone = entry_drop(entry);
    if (gone) {
        pthread_mutex_unlock(&table->lock);
        entry_free(table, gone);
        pthread_mutex_lock(&table->lock);
    }
    return false;
}

/* With the lock held. */
static phasor_status entry_get(struct flight_table *table, struct hash hash, const void *key,
                               size_t key_size, bool create, struct flight **out, bool *owner)
{
    phasor_status status = PHASOR_OK;
    for (struct flight *entry; status == PHASOR_OK;) {
        entry = entry_find(table, hash, key, key_size);
        if (!create && (!entry || entry->state != FLIGHT_READY))
            return PHASOR_OK;
        if (!entry) {
            *out = entry_new(table, hash, key, key_size);
            *owner = *out != NULL;
            return *out ? PHASOR_OK : fail_memory();
        }
        entry->references++;
        if (!entry_wait(table, entry, &status))
            continue;
        entry_used(table, entry);
        *out = entry;
        return PHASOR_OK;
    }
    return status;
}

phasor_status flight_get(struct flight_table *table, struct hash hash, const void *key,
                         size_t key_size, bool create, struct flight **out, bool *owner)
{
    *out = NULL;
    *owner = false;
    pthread_mutex_lock(&table->lock);
    const phasor_status status = entry_get(table, hash, key, key_size, create, out, owner);
    pthread_mutex_unlock(&table->lock);
    return status;
}

phasor_status flight_claim(struct flight_table *table, struct hash hash, const void *key,
                           size_t key_size, struct flight **out, bool *owner)
{
    phasor_status status = PHASOR_OK;
    *out = NULL;
    *owner = false;
    pthread_mutex_lock(&table->lock);
    const struct flight *entry = entry_find(table, hash, key, key_size);
    if (!entry || entry->state != FLIGHT_BUILDING)
        status = entry_get(table, hash, key, key_size, true, out, owner);
    pthread_mutex_unlock(&table->lock);
    return status;
}

static struct flight *entry_oldest(const struct flight_table *table, const struct flight *but)
{
    struct flight *entry = table->oldest;
    while (entry && (entry == but || entry->state != FLIGHT_READY || entry->pinned))
        entry = entry->newer;
    return entry;
}

/* Drops the least recently used entries beyond the caps; gives those that nobody uses. */
static struct flight *table_shrink(struct flight_table *table, const struct flight *newest)
{
    struct flight *list = NULL;
    while (table->kept && (table->count > table->cap || table->weight > table->weight_cap)) {
        struct flight *oldest = entry_oldest(table, newest);
        if (!oldest)
            break;
        entry_remove(table, oldest);
        struct flight *gone = entry_drop(oldest);
        if (gone) {
            gone->next = list;
            list = gone;
        }
    }
    return list;
}

static struct flight *entry_fail(struct flight_table *table, struct flight *entry,
                                 phasor_status status, bool retry)
{
    const size_t length = strlen(message_get());
    entry->message = memory_new(length + 1);
    if (entry->message)
        memcpy(entry->message, message_get(), length);
    entry->state = FLIGHT_FAILED;
    entry->status = status;
    entry->retry = retry;
    entry->weight = 0; /* it was never added */
    entry_remove(table, entry);
    entry->references--;
    return entry_drop(entry);
}

void flight_done(struct flight_table *table, struct flight *entry, phasor_status status, bool retry)
{
    struct flight *gone;
    pthread_mutex_lock(&table->lock);
    if (status == PHASOR_OK) {
        entry->state = FLIGHT_READY;
        entry_used(table, entry);
        table->weight += entry->weight;
        gone = table_shrink(table, entry);
    } else {
        gone = entry_fail(table, entry, status, retry);
    }
    pthread_cond_broadcast(&table->changed);
    pthread_mutex_unlock(&table->lock);
    entries_free(table, gone);
}

void flight_forget(struct flight_table *table, struct flight *entry)
{
    pthread_mutex_lock(&table->lock);
    if (!entry->pinned && entry_is_listed(table, entry)) {
        entry_remove(table, entry);
        entry->references--; /* the caller's keeps it alive */
    }
    pthread_mutex_unlock(&table->lock);
}

void flight_retain(struct flight_table *table, struct flight *entry)
{
    pthread_mutex_lock(&table->lock);
    entry->references++;
    pthread_mutex_unlock(&table->lock);
}

void flight_release(struct flight_table *table, struct flight *entry)
{
    if (!entry)
        return;
    pthread_mutex_lock(&table->lock);
    struct flight *gone = entry_drop(entry);
    if (!gone && !table->kept && entry->references == 1 && entry->state == FLIGHT_READY) {
        entry_remove(table, entry);
        gone = entry_drop(entry);
    }
    pthread_mutex_unlock(&table->lock);
    if (gone)
        entry_free(table, gone);
}

/* The caller has a reference; another thread may have dropped the entry from the table meanwhile.
 */
void flight_pin(struct flight_table *table, struct flight *entry)
{
    pthread_mutex_lock(&table->lock);
    if (!entry->pinned && !entry_is_listed(table, entry)) {
        entry->next = *bucket_of(table, entry->hash);
        *bucket_of(table, entry->hash) = entry;
        use_link(table, entry);
        entry->references++;
        table->count++;
        table->weight += entry->weight;
    }
    entry->pinned = true;
    pthread_mutex_unlock(&table->lock);
}
