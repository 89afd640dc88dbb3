/* stand_in_cublaslt.c - a stand-in for cuBLASLt: products of matrices on the CPU, through the
 * stand-in driver's streams, so that a capture holds them too.
 *
 * Where the driver is not the stand-in (PHASOR_DRIVER), no handle is given, as without a GPU.
 *
 *   PHASOR_STAND_IN_CUBLASLT_FAIL=Matmul=13,...   functions that fail, and how
 */
#include "library/cublaslt_declarations.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cublasLt.h declares what is defined here. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define EXPORT __attribute__((visibility("default")))

struct layout {
    int type;
    int32_t batch;
    uint64_t rows, columns;
    int64_t stride, batch_stride;
};

struct description {
    int compute, scale;
    int32_t transposed[2];
};

struct product {
    struct product *next;
    struct layout a, b, c;
    struct description how;
    const char *left, *right;
    char *out;
};

enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

static int injected(const char *function)
{
    const char *list = getenv("PHASOR_STAND_IN_CUBLASLT_FAIL");
    const char *at = list ? strstr(list, function) : NULL;
    return at && at[strlen(function)] == '=' ? atoi(at + strlen(function) + 1) : 0;
}

static int (*launch_host)(void *stream, void (*function)(void *), void *data);

EXPORT size_t cublasLtGetVersion(void)
{
    return 130000;
}

EXPORT const char *cublasLtGetStatusString(int status)
{
    return status == NOT_INITIALIZED ? "not initialized" : "a failure of the stand-in";
}

EXPORT int cublasLtCreate(void **handle)
{
    const char *driver = getenv("PHASOR_DRIVER");
    void *library = driver ? dlopen(driver, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (injected("Create"))
        return injected("Create");
    if (!library || !dlsym(library, "stand_in_launches"))
        return NOT_INITIALIZED;
    *(void **)&launch_host = dlsym(library, "cuLaunchHostFunc");
    *handle = malloc(1);
    return 0;
}

EXPORT int cublasLtDestroy(void *handle)
{
    free(handle);
    return 0;
}

EXPORT int cublasLtMatrixLayoutInit_internal(void *layout, size_t size, int type, uint64_t rows,
                                             uint64_t columns, int64_t stride)
{
    if (size < sizeof(struct layout) || rows == 0 || columns == 0 || stride < (int64_t)rows)
        return INVALID_VALUE;
    *(struct layout *)layout = (struct layout){type, 1, rows, columns, stride, 0};
    return 0;
}

EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value,
                                            size_t nbytes)
{
    struct layout *l = layout;
    if (attribute == LAYOUT_BATCH_COUNT && nbytes == sizeof l->batch)
        memcpy(&l->batch, value, nbytes);
    else if (attribute == LAYOUT_BATCH_STRIDE && nbytes == sizeof l->batch_stride)
        memcpy(&l->batch_stride, value, nbytes);
    else
        return INVALID_VALUE;
    return 0;
}

EXPORT int cublasLtMatmulDescInit_internal(void *description, size_t size, int compute, int scale)
{
    if (size < sizeof(struct description))
        return INVALID_VALUE;
    *(struct description *)description = (struct description){compute, scale, {0, 0}};
    return 0;
}

EXPORT int cublasLtMatmulDescSetAttribute(void *description, int attribute, const void *value,
                                          size_t nbytes)
{
    struct description *d = description;
    if ((attribute != DESC_TRANSA && attribute != DESC_TRANSB) || nbytes != sizeof(int32_t))
        return INVALID_VALUE;
    memcpy(&d->transposed[attribute - DESC_TRANSA], value, nbytes);
    return 0;
}

EXPORT int cublasLtMatmulPreferenceInit_internal(void *preference, size_t size)
{
    memset(preference, 0, size);
    return 0;
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                                size_t nbytes)
{
    (void)preference;
    (void)value;
    return attribute >= PREF_WORKSPACE && nbytes ? 0 : INVALID_VALUE;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b,
                                          void *c, void *d, void *preference, int asked,
                                          struct heuristic_result *results, int *found)
{
    const struct layout *x = a, *y = b, *z = c;
    const struct description *how = description;
    (void)handle, (void)d, (void)preference;
    const uint64_t m = how->transposed[0] ? x->columns : x->rows,
                   k = how->transposed[0] ? x->rows : x->columns,
                   l = how->transposed[1] ? y->columns : y->rows,
                   n = how->transposed[1] ? y->rows : y->columns;
    if (injected("MatmulAlgoGetHeuristic"))
        return injected("MatmulAlgoGetHeuristic");
    if (asked < 1 || m != z->rows || n != z->columns || k != l || x->batch != y->batch ||
        x->batch != z->batch)
        return INVALID_VALUE;
    *results = (struct heuristic_result){.algorithm = {1}, .workspace = 1024};
    *found = 1;
    return 0;
}

/* -- the product ------------------------------------------------------------------------------- */

static double element(const struct layout *l, const char *bytes, int64_t b, uint64_t i, uint64_t j)
{
    const int64_t at = b * l->batch_stride + (int64_t)j * l->stride + (int64_t)i;
    float single;
    double wide;
    uint16_t half;
    _Float16 small;
    switch (l->type) {
    case CUDA_R_64F_: memcpy(&wide, bytes + 8 * at, 8); return wide;
    case CUDA_R_32F_: memcpy(&single, bytes + 4 * at, 4); return single;
    case CUDA_R_16F_: memcpy(&small, bytes + 2 * at, 2); return small;
    default:
        memcpy(&half, bytes + 2 * at, 2);
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(&single, &bits, 4);
        return single;
    }
}

static void element_put(const struct layout *l, char *bytes, int64_t at, double sum)
{
    const float single = (float)sum;
    const _Float16 small = (_Float16)sum;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    const uint16_t half = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    if (l->type == CUDA_R_64F_)
        memcpy(bytes + 8 * at, &sum, 8);
    else if (l->type == CUDA_R_32F_)
        memcpy(bytes + 4 * at, &single, 4);
    else if (l->type == CUDA_R_16F_)
        memcpy(bytes + 2 * at, &small, 2);
    else
        memcpy(bytes + 2 * at, &half, 2);
}

static void product_make(void *data)
{
    const struct product *p = data;
    const bool left = p->how.transposed[0], right = p->how.transposed[1];
    const uint64_t length = left ? p->a.rows : p->a.columns;
    for (int64_t b = 0; b < p->c.batch; b++)
        for (uint64_t j = 0; j < p->c.columns; j++)
            for (uint64_t i = 0; i < p->c.rows; i++) {
                double sum = 0;
                for (uint64_t k = 0; k < length; k++)
                    sum += element(&p->a, p->left, b, left ? k : i, left ? i : k) *
                           element(&p->b, p->right, b, right ? j : k, right ? k : j);
                element_put(&p->c, p->out,
                            b * p->c.batch_stride + (int64_t)j * p->c.stride + (int64_t)i, sum);
            }
}

/* A graph may launch a product again at any time: all are kept, where a leak check finds them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct product *kept;
static long products;

/* How many products were asked for. */
EXPORT long stand_in_products(void)
{
    return products;
}

EXPORT int cublasLtMatmul(void *handle, const void *description, const void *alpha, const void *a,
                          const void *a_layout, const void *b, const void *b_layout,
                          const void *beta, const void *c, const void *c_layout, void *d,
                          const void *d_layout, const void *algorithm, void *workspace,
                          size_t workspace_bytes, void *stream)
{
    (void)handle, (void)alpha, (void)beta, (void)c, (void)c_layout;
    if (injected("Matmul"))
        return injected("Matmul");
    if (!algorithm || !workspace || workspace_bytes != 1024)
        return INVALID_VALUE;
    memset(workspace, 0x55, workspace_bytes);
    struct product *p = malloc(sizeof *p);
    *p = (struct product){NULL,
                          *(const struct layout *)a_layout,
                          *(const struct layout *)b_layout,
                          *(const struct layout *)d_layout,
                          *(const struct description *)description,
                          a,
                          b,
                          d};
    pthread_mutex_lock(&lock);
    p->next = kept;
    kept = p;
    products++;
    pthread_mutex_unlock(&lock);
    return launch_host(stream, product_make, p) == 0 ? 0 : NOT_SUPPORTED;
}
