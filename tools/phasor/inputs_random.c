/* inputs_random.c - see inputs_random.h. */
#include "inputs_random.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

/* Fewer parts for a thread are drawn sooner than it starts. */
enum { THREAD_PARTS = 1 << 20, THREADS_MAX = 64 };

/* splitmix64 */
uint64_t random_bits(uint64_t state, uint64_t k)
{
    uint64_t z = state + (k + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* In (0, 1]: its logarithm is finite. */
static double random_unit(uint64_t state, uint64_t k)
{
    return (double)((random_bits(state, k) >> 11) + 1) * 0x1p-53;
}

double random_normal(uint64_t state, uint64_t k)
{
    const double radius = sqrt(-2 * log(random_unit(state, 2 * k)));
    return radius * cos(2 * M_PI * random_unit(state, 2 * k + 1));
}

/* -- filling ----------------------------------------------------------------------------------- */

struct share {
    void *data;
    DLDataType part;
    uint64_t state;
    int64_t from, to;
};

static void share_fill(const struct share *s)
{
    uint8_t *bytes = s->data;
    if (dtype_is_float(s->part))
        for (int64_t i = s->from; i < s->to; i++)
            part_store(s->data, s->part, i, random_normal(s->state, (uint64_t)i));
    else if (s->part.bits == 8) /* the dtype of the largest inputs */
        for (int64_t i = s->from; i < s->to; i++)
            bytes[i] = random_bits(s->state, (uint64_t)i) >> 63;
    else
        for (int64_t i = s->from; i < s->to; i++)
            part_store(s->data, s->part, i, (double)(random_bits(s->state, (uint64_t)i) >> 63));
}

static void *share_run(void *share)
{
    share_fill(share);
    return NULL;
}

static int threads_wanted(int64_t parts)
{
    const int64_t processors = sysconf(_SC_NPROCESSORS_ONLN), most = parts / THREAD_PARTS;
    const int64_t wanted = processors < most ? processors : most;
    return wanted < 1 ? 1 : wanted > THREADS_MAX ? THREADS_MAX : (int)wanted;
}

/* The first share is this thread's own, and so is each for which no thread is to be had. */
void random_fill(void *data, DLDataType part, int64_t parts, uint64_t state)
{
    struct share shares[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    bool started[THREADS_MAX] = {false};
    const int count = threads_wanted(parts);
    const int64_t each = parts / count;
    for (int t = 0; t < count; t++) {
        shares[t] = (struct share){data, part, state, t * each, (t + 1) * each};
        if (t == count - 1)
            shares[t].to = parts;
        started[t] = t > 0 && pthread_create(&threads[t], NULL, share_run, &shares[t]) == 0;
    }
    for (int t = 0; t < count; t++)
        if (!started[t])
            share_fill(&shares[t]);
    for (int t = 0; t < count; t++)
        if (started[t])
            pthread_join(threads[t], NULL);
}
