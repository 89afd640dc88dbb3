/* stand_in_memory.c - the other half of the stand-in driver: memory, copies, streams, capture and
 * graphs, events.
 *
 * Device memory is host memory between guard bytes, filled with garbage when it is handed out. A
 * stream that captures writes down launches, copies and fills; a graph's launch does them.
 */
#include "stand_in_private.h"

#ifdef PHASOR_CUDA

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GUARD = 256, GUARD_BYTE = 0xa5, FRESH_BYTE = 0xcb };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long allocations, corruptions;

#pragma GCC visibility push(default)
long stand_in_allocations(void);
long stand_in_corruptions(void);
long stand_in_allocations(void)
{
    return __atomic_load_n(&allocations, __ATOMIC_RELAXED);
}

long stand_in_corruptions(void)
{
    return __atomic_load_n(&corruptions, __ATOMIC_RELAXED);
}
#pragma GCC visibility pop

/* -- memory ------------------------------------------------------------------------------------ */

static struct allocation {
    unsigned char *base; /* guard, memory, guard */
    size_t nbytes;
    int device;
    struct allocation *next;
} * live;
static size_t used[8];

size_t stand_in_memory_limit(void)
{
    const char *limit = getenv("PHASOR_STAND_IN_MEMORY");
    return limit ? (size_t)strtoull(limit, NULL, 10) : (size_t)8 << 30;
}

static CUresult memory_allocate(CUdeviceptr *pointer, size_t nbytes)
{
    const int device = stand_in_context_device(stand_in_context());
    const size_t room = (nbytes + GUARD - 1) / GUARD * GUARD;
    if (nbytes == 0)
        return stand_in_misuse(CUDA_ERROR_INVALID_VALUE);
    pthread_mutex_lock(&lock);
    const bool fits =
        nbytes <= stand_in_memory_limit() && used[device] <= stand_in_memory_limit() - nbytes;
    struct allocation *made = fits ? calloc(1, sizeof *made) : NULL;
    unsigned char *base = made ? aligned_alloc(GUARD, room + 2 * (size_t)GUARD) : NULL;
    if (base) {
        *made = (struct allocation){.base = base, .nbytes = nbytes, .device = device, .next = live};
        live = made;
        used[device] += nbytes;
        allocations++;
        memset(base, GUARD_BYTE, GUARD);
        memset(base + GUARD, FRESH_BYTE, nbytes);
        memset(base + GUARD + nbytes, GUARD_BYTE, room - nbytes + GUARD);
        *pointer = (CUdeviceptr)(uintptr_t)(base + GUARD);
    } else {
        free(made);
    }
    pthread_mutex_unlock(&lock);
    return base ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool guards_whole(const struct allocation *a)
{
    const size_t room = (a->nbytes + GUARD - 1) / GUARD * GUARD;
    bool whole = true;
    for (size_t i = 0; i < GUARD; i++)
        whole &= a->base[i] == GUARD_BYTE;
    for (size_t i = GUARD + a->nbytes; i < room + 2 * GUARD; i++)
        whole &= a->base[i] == GUARD_BYTE;
    return whole;
}

static CUresult memory_free_checked(CUdeviceptr pointer)
{
    struct allocation *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct allocation **at = &live; *at && !found; at = &(*at)->next)
        if ((CUdeviceptr)(uintptr_t)((*at)->base + GUARD) == pointer) {
            found = *at;
            *at = found->next;
            break;
        }
    const bool whole = !found || guards_whole(found);
    if (found) {
        used[found->device] -= found->nbytes;
        allocations--;
        corruptions += !whole;
        free(found->base);
        free(found);
    }
    pthread_mutex_unlock(&lock);
    if (!found)
        return stand_in_misuse(CUDA_ERROR_INVALID_VALUE);
    return whole ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t nbytes)
{
    INJECT("cuMemAlloc_v2");
    NEED_CONTEXT();
    if (stand_in_capture_forbids())
        return stand_in_misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return memory_allocate(pointer, nbytes);
}

CUresult cuMemFree(CUdeviceptr pointer)
{
    NEED_CONTEXT();
    if (stand_in_capture_forbids())
        return stand_in_misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return pointer ? memory_free_checked(pointer) : CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *unused, size_t *total)
{
    NEED_CONTEXT();
    *total = stand_in_memory_limit();
    pthread_mutex_lock(&lock);
    *unused = *total - used[stand_in_context_device(stand_in_context())];
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    (void)properties;
    INJECT("cuMemPoolCreate");
    *pool = calloc(1, 1);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    free(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    (void)pool;
    (void)attribute;
    (void)value;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t nbytes)
{
    (void)pool;
    (void)nbytes;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t nbytes, CUmemoryPool pool,
                                 CUstream stream)
{
    (void)pool;
    INJECT("cuMemAllocFromPoolAsync");
    NEED_CONTEXT();
    NEED_STREAM(stream);
    if (stand_in_capturing(stream) || stand_in_capture_forbids())
        return stand_in_misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return memory_allocate(pointer, nbytes);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    NEED_CONTEXT();
    NEED_STREAM(stream);
    if (stand_in_capturing(stream) || stand_in_capture_forbids())
        return stand_in_misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return memory_free_checked(pointer);
}

CUresult cuMemHostAlloc(void **pointer, size_t nbytes, unsigned flags)
{
    (void)flags;
    INJECT("cuMemHostAlloc");
    NEED_CONTEXT();
    if (stand_in_capture_forbids())
        return stand_in_misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    *pointer = malloc(nbytes);
    return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *pointer)
{
    free(pointer);
    return CUDA_SUCCESS;
}

/* -- streams and what they capture ------------------------------------------------------------- */

struct operation {
    CUfunction function; /* NULL: a copy, or a fill when `from` is NULL too */
    CUhostFn host;       /* or a function of the host, of `to` */
    unsigned grid, block;
    void *arguments;
    void *to;
    const void *from;
    size_t nbytes;
    unsigned char value;
    struct operation *next;
};

struct CUgraph_st {
    struct operation *first, **last;
};

struct CUstream_st {
    unsigned long long id;
    bool alive; /* the struct is never freed, so that a dead stream is known as one */
    CUstreamCaptureStatus capture;
    CUstreamCaptureMode mode;
    pthread_t owner;
    CUgraph graph;
    struct CUstream_st *next;
};

static struct CUstream_st *streams;
static unsigned long long next_id = 16;
static int capturing_count;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static bool is_special(CUstream stream)
{
    return (uintptr_t)stream <= 2;
}

bool stand_in_stream_valid(CUstream stream)
{
    bool valid = is_special(stream);
    pthread_mutex_lock(&lock);
    for (struct CUstream_st *s = streams; s && !valid; s = s->next)
        valid = s == stream && s->alive;
    pthread_mutex_unlock(&lock);
    return valid;
}

static CUstreamCaptureStatus capture_get(CUstream stream)
{
    if (is_special(stream))
        return CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_lock(&lock);
    const CUstreamCaptureStatus status = stream->capture;
    pthread_mutex_unlock(&lock);
    return status;
}

bool stand_in_capturing(CUstream stream)
{
    return capture_get(stream) != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Breaks the captures that conflict with a call of this thread; whether there were any. */
static bool captures_break(bool all)
{
    bool any = false;
    if (__atomic_load_n(&capturing_count, __ATOMIC_RELAXED) == 0)
        return false;
    pthread_mutex_lock(&lock);
    for (struct CUstream_st *s = streams; s; s = s->next) {
        const bool mine = pthread_equal(s->owner, pthread_self());
        const bool conflicts = all || s->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
                               (s->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && mine);
        if (s->capture != CU_STREAM_CAPTURE_STATUS_ACTIVE || !conflicts)
            continue;
        s->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        any = true;
    }
    pthread_mutex_unlock(&lock);
    return any;
}

bool stand_in_capture_forbids(void)
{
    return thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED && captures_break(false);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    const CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    INJECT("cuStreamCreate");
    NEED_CONTEXT();
    struct CUstream_st *made = calloc(1, sizeof *made);
    pthread_mutex_lock(&lock);
    made->id = next_id++;
    made->alive = true;
    made->next = streams;
    streams = made;
    pthread_mutex_unlock(&lock);
    *stream = made;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    NEED_STREAM(stream);
    pthread_mutex_lock(&lock);
    if (!is_special(stream))
        stream->alive = false;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    NEED_STREAM(stream);
    *id = is_special(stream) ? (unsigned long long)(uintptr_t)stream : stream->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    INJECT("cuStreamSynchronize");
    NEED_STREAM(stream);
    if (!stand_in_capturing(stream))
        return stand_in_capture_forbids() ? stand_in_misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
                                          : CUDA_SUCCESS;
    stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return stand_in_misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

/* As the driver does: it breaks captures in the relaxed mode too. */
CUresult cuCtxSynchronize(void)
{
    INJECT("cuCtxSynchronize");
    NEED_CONTEXT();
    return captures_break(true) ? stand_in_misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
                                : CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    NEED_STREAM(stream);
    *status = capture_get(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    NEED_STREAM(stream);
    if (is_special(stream) || stream->capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stream->graph = calloc(1, sizeof *stream->graph);
    stream->graph->last = &stream->graph->first;
    pthread_mutex_lock(&lock);
    stream->mode = mode;
    stream->owner = pthread_self();
    stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    capturing_count++;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    NEED_STREAM(stream);
    pthread_mutex_lock(&lock);
    const bool broken = stream->capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
    capturing_count--;
    pthread_mutex_unlock(&lock);
    *graph = stream->graph;
    stream->graph = NULL;
    if (!broken)
        return CUDA_SUCCESS;
    cuGraphDestroy(*graph);
    *graph = NULL;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

static CUresult operation_add(CUstream stream, struct operation operation)
{
    if (capture_get(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct operation *added = malloc(sizeof *added);
    *added = operation;
    added->next = NULL;
    *stream->graph->last = added;
    stream->graph->last = &added->next;
    return CUDA_SUCCESS;
}

static CUresult operation_run(const struct operation *o)
{
    if (o->function)
        return stand_in_launch(o->function, o->grid, o->block, o->arguments);
    if (o->host)
        o->host(o->to);
    else if (o->from)
        memmove(o->to, o->from, o->nbytes);
    else
        memset(o->to, o->value, o->nbytes);
    return CUDA_SUCCESS;
}

CUresult stand_in_capture_launch(CUstream stream, CUfunction function, unsigned grid,
                                 unsigned block, const void *arguments, size_t nbytes)
{
    void *copy = malloc(nbytes);
    memcpy(copy, arguments, nbytes);
    const CUresult result = operation_add(
        stream,
        (struct operation){.function = function, .grid = grid, .block = block, .arguments = copy});
    if (result != CUDA_SUCCESS)
        free(copy);
    return result;
}

static CUresult operation_issue(CUstream stream, struct operation operation)
{
    NEED_CONTEXT();
    NEED_STREAM(stream);
    return stand_in_capturing(stream) ? operation_add(stream, operation)
                                      : operation_run(&operation);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    return operation_issue(stream, (struct operation){.host = function, .to = data});
}

/* -- graphs: an executable one is the graph itself --------------------------------------------- */

CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    *executable = (CUgraphExec)graph;
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    NEED_CONTEXT();
    NEED_STREAM(stream);
    for (const struct operation *o = ((CUgraph)executable)->first; o; o = o->next) {
        const CUresult result = operation_run(o);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    (void)executable;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    while (graph->first) {
        struct operation *next = graph->first->next;
        free(graph->first->arguments);
        free(graph->first);
        graph->first = next;
    }
    free(graph);
    return CUDA_SUCCESS;
}

/* -- copies ------------------------------------------------------------------------------------ */

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t nbytes, CUstream stream)
{
    INJECT("cuMemcpyHtoDAsync_v2");
    return operation_issue(
        stream, (struct operation){.to = (void *)(uintptr_t)to, .from = from, .nbytes = nbytes});
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t nbytes, CUstream stream)
{
    INJECT("cuMemcpyDtoHAsync_v2");
    return operation_issue(
        stream,
        (struct operation){.to = to, .from = (const void *)(uintptr_t)from, .nbytes = nbytes});
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream stream)
{
    INJECT("cuMemcpyDtoDAsync_v2");
    return operation_issue(stream, (struct operation){.to = (void *)(uintptr_t)to,
                                                      .from = (const void *)(uintptr_t)from,
                                                      .nbytes = nbytes});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t nbytes, CUstream stream)
{
    INJECT("cuMemsetD8Async");
    return operation_issue(
        stream, (struct operation){.to = (void *)(uintptr_t)to, .value = value, .nbytes = nbytes});
}

/* -- events ------------------------------------------------------------------------------------ */

struct CUevent_st {
    struct timespec when;
};

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    NEED_CONTEXT();
    *event = calloc(1, sizeof **event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    INJECT("cuEventRecord");
    NEED_CONTEXT();
    NEED_STREAM(stream);
    clock_gettime(CLOCK_MONOTONIC, &event->when);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)event;
    (void)flags;
    NEED_STREAM(stream);
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

#pragma GCC visibility push(default)
/* By the name without a version, which is what Phasor asks for; cuda.h may rename it. */
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to);
CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to)
{
    *milliseconds = (float)(to->when.tv_sec - from->when.tv_sec) * 1e3f +
                    (float)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6f;
    return CUDA_SUCCESS;
}
#pragma GCC visibility pop

#endif
