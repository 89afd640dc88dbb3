/* cublaslt.c - see cublaslt.h. The only file that knows cuBLASLt; tests/test_vendor.c compares what
 * is declared here with the real header where there is one.
 *
 * cuBLASLt thinks in columns: a row-major c = a b is the column-major c' = b' a'. Its first operand
 * is therefore b, its m our n.
 */
#include "library/cublaslt.h"

#include "base/memory.h"
#include "base/shared_library.h"
#include "library/cublaslt_declarations.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static const char *const loader_names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                           "libcublasLt.so"};
static const struct library_search search = {
    .name = "cuBLASLt",
    .variable = "PHASOR_CUBLASLT",
    .loader_names = loader_names,
    .loader_name_count = sizeof loader_names / sizeof *loader_names,
    .file = "libcublasLt.so",
    .wheel = "cublas",
    .symbol = "cublasLtGetVersion",
    .advice = "Products of matrices are made by kernels of ours without it, which are slower; "
              "install the CUDA toolkit, or run `pip install nvidia-cublas`",
    .missing = PHASOR_ERROR_DEVICE};

#define DECLARE_FIELD(name, type) __typeof__(type) name;
struct functions {
    CUBLASLT_FUNCTIONS(DECLARE_FIELD)
};

/* Opened once for the process, and never unloaded. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct functions functions;
static struct shared_library library_file;
static bool opened;

static phasor_status functions_open(void)
{
    TRY(shared_library_open(&search, &library_file));
#define RESOLVE(name, type)                                                                  \
    functions.name =                                                                         \
        (__typeof__(functions.name))(uintptr_t)dlsym(library_file.handle, "cublasLt" #name); \
    if (!functions.name)                                                                     \
        return fail(PHASOR_ERROR_DEVICE,                                                     \
                    "%s has no function cublasLt" #name "; cuBLASLt 12 "                     \
                    "or newer is needed",                                                    \
                    library_file.path);
    CUBLASLT_FUNCTIONS(RESOLVE)
#undef RESOLVE
    return PHASOR_OK;
}

phasor_status cublaslt_find(struct cublaslt_info *out)
{
    pthread_mutex_lock(&lock);
    phasor_status status = PHASOR_OK;
    if (!opened) {
        status = functions_open();
        opened = status == PHASOR_OK;
        if (!opened)
            shared_library_close(&library_file);
    }
    pthread_mutex_unlock(&lock);
    if (status == PHASOR_OK)
        *out = (struct cublaslt_info){library_file.path, (int)functions.GetVersion()};
    return status;
}

/* -- the handle -------------------------------------------------------------------------------- */

/* Algorithms that were asked for: many layers have products of one shape. */
enum { CHOICES = 256 };

struct choice {
    struct matmul matmul;
    uint64_t algorithm[8];
    int64_t workspace;
    bool filled;
};

struct cublaslt {
    void *handle;
    pthread_mutex_t lock; /* of the choices */
    struct choice choices[CHOICES];
};

static phasor_status check(int result, const char *what)
{
    return result == 0 ? PHASOR_OK
                       : fail(PHASOR_ERROR_DEVICE, "cuBLASLt: %s: %s, error %d", what,
                              functions.GetStatusString(result), result);
}

phasor_status cublaslt_open(struct cublaslt **out)
{
    struct cublaslt_info info;
    TRY(cublaslt_find(&info));
    struct cublaslt *library = memory_new(sizeof *library);
    if (!library)
        return fail_memory();
    const phasor_status status = check(functions.Create(&library->handle), "opening a handle");
    if (status != PHASOR_OK) {
        memory_free(library);
        return status;
    }
    pthread_mutex_init(&library->lock, NULL);
    *out = library;
    return PHASOR_OK;
}

void cublaslt_close(struct cublaslt *library)
{
    if (!library)
        return;
    functions.Destroy(library->handle);
    pthread_mutex_destroy(&library->lock);
    memory_free(library);
}

/* -- descriptions ------------------------------------------------------------------------------ */

static const struct {
    int data, compute, scale;
} types[LIBRARY_TYPES] = {
    [LIBRARY_F16] = {CUDA_R_16F_, CUBLAS_COMPUTE_32F_, CUDA_R_32F_},
    [LIBRARY_BF16] = {CUDA_R_16BF_, CUBLAS_COMPUTE_32F_, CUDA_R_32F_},
    [LIBRARY_F32] = {CUDA_R_32F_, CUBLAS_COMPUTE_32F_, CUDA_R_32F_},
    [LIBRARY_F64] = {CUDA_R_64F_, CUBLAS_COMPUTE_64F_, CUDA_R_64F_},
};

/* In columns: a matrix of rows x columns in memory, element (i, j) at j * stride + i. */
static phasor_status layout_make(const struct matmul *m, const struct matrix *matrix, int64_t rows,
                                 int64_t columns, uint64_t layout[8])
{
    const int32_t batch = (int32_t)m->batch;
    TRY(check(functions.MatrixLayoutInit_internal(layout, 64, types[m->type].data, (uint64_t)rows,
                                                  (uint64_t)columns, matrix->stride),
              "describing a matrix"));
    TRY(check(functions.MatrixLayoutSetAttribute(layout, LAYOUT_BATCH_COUNT, &batch, sizeof batch),
              "describing a batch"));
    return check(functions.MatrixLayoutSetAttribute(layout, LAYOUT_BATCH_STRIDE,
                                                    &matrix->batch_stride, sizeof(int64_t)),
                 "describing a batch");
}

static phasor_status describe(const struct matmul *m, struct matmul_call *out)
{
    const int32_t first = m->b.transposed, second = m->a.transposed;
    TRY(check(functions.MatmulDescInit_internal(out->description, sizeof out->description,
                                                types[m->type].compute, types[m->type].scale),
              "describing a product"));
    TRY(check(functions.MatmulDescSetAttribute(out->description, DESC_TRANSA, &first, sizeof first),
              "describing a product"));
    TRY(check(
        functions.MatmulDescSetAttribute(out->description, DESC_TRANSB, &second, sizeof second),
        "describing a product"));
    TRY(layout_make(m, &m->b, first ? m->k : m->n, first ? m->n : m->k, out->layouts[0]));
    TRY(layout_make(m, &m->a, second ? m->m : m->k, second ? m->k : m->m, out->layouts[1]));
    return layout_make(m, &m->c, m->n, m->m, out->layouts[2]);
}

static phasor_status preference_make(const struct matmul *m, uint64_t preference[8])
{
    static const int alignments[] = {PREF_ALIGNMENT_A, PREF_ALIGNMENT_B, PREF_ALIGNMENT_C,
                                     PREF_ALIGNMENT_D};
    const uint64_t workspace = MATMUL_WORKSPACE;
    /* Parts of a sum meet in the workspace, in the type that is summed in, or do not. */
    const uint32_t schemes = REDUCTION_NONE | REDUCTION_COMPUTE_TYPE,
                   bytes = (uint32_t)m->alignment;
    TRY(check(functions.MatmulPreferenceInit_internal(preference, 64), "asking for an algorithm"));
    TRY(check(functions.MatmulPreferenceSetAttribute(preference, PREF_WORKSPACE, &workspace,
                                                     sizeof workspace),
              "asking for an algorithm"));
    TRY(check(functions.MatmulPreferenceSetAttribute(preference, PREF_REDUCTION_SCHEMES, &schemes,
                                                     sizeof schemes),
              "asking for an algorithm"));
    for (int i = 0; i < 4; i++)
        TRY(check(
            functions.MatmulPreferenceSetAttribute(preference, alignments[i], &bytes, sizeof bytes),
            "asking for an algorithm"));
    return PHASOR_OK;
}

static phasor_status choose(struct cublaslt *library, const struct matmul *m,
                            struct matmul_call *call)
{
    uint64_t preference[8];
    struct heuristic_result result = {0};
    int found = 0;
    TRY(preference_make(m, preference));
    const int error = functions.MatmulAlgoGetHeuristic(
        library->handle, call->description, call->layouts[0], call->layouts[1], call->layouts[2],
        call->layouts[2], preference, 1, &result, &found);
    if (error == 0 && found > 0 && result.state == 0) {
        memcpy(call->algorithm, result.algorithm, sizeof call->algorithm);
        call->workspace = (int64_t)result.workspace;
        return PHASOR_OK;
    }
    return fail(PHASOR_ERROR_DEVICE,
                "cuBLASLt has no algorithm for a product of %lld x %lld x %lld, batch %lld",
                (long long)m->m, (long long)m->n, (long long)m->k, (long long)m->batch);
}

static struct choice *choice_slot(struct cublaslt *library, const struct matmul *m)
{
    const uint64_t mixed = (uint64_t)m->m * 0x9E3779B97F4A7C15u ^
                           (uint64_t)m->n * 0xC2B2AE3D27D4EB4Fu ^
                           (uint64_t)m->k * 0x165667B19E3779F9u ^ (uint64_t)m->batch;
    return &library->choices[(mixed >> 40 ^ mixed >> 17) % CHOICES];
}

phasor_status cublaslt_prepare(struct cublaslt *library, const struct matmul *matmul,
                               struct matmul_call *out)
{
    phasor_status status = PHASOR_OK;
    *out = (struct matmul_call){.type = matmul->type};
    TRY(describe(matmul, out));
    pthread_mutex_lock(&library->lock);
    struct choice *choice = choice_slot(library, matmul);
    if (choice->filled && memcmp(&choice->matmul, matmul, sizeof *matmul) == 0) {
        memcpy(out->algorithm, choice->algorithm, sizeof out->algorithm);
        out->workspace = choice->workspace;
    } else {
        status = choose(library, matmul, out);
        if (status == PHASOR_OK) {
            memcpy(&choice->matmul, matmul, sizeof *matmul);
            memcpy(choice->algorithm, out->algorithm, sizeof out->algorithm);
            choice->workspace = out->workspace;
            choice->filled = true;
        }
    }
    pthread_mutex_unlock(&library->lock);
    return status;
}

phasor_status cublaslt_run(struct cublaslt *library, const struct matmul_call *call, const void *a,
                           const void *b, void *c, void *workspace, void *stream)
{
    static const float one = 1, zero = 0;
    static const double one_double = 1, zero_double = 0;
    const bool wide = call->type == LIBRARY_F64;
    return check(functions.Matmul(library->handle, call->description,
                                  wide ? (const void *)&one_double : &one, b, call->layouts[0], a,
                                  call->layouts[1], wide ? (const void *)&zero_double : &zero, c,
                                  call->layouts[2], c, call->layouts[2], call->algorithm, workspace,
                                  (size_t)call->workspace, stream),
                 "a product of matrices");
}
