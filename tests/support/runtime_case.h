/* runtime_case.h - a case opened through the public functions, its inputs, and its results
 * compared.
 *
 *     struct opened o;
 *     opened_case(&o, ON_CUDA, "twice", "plain");      the stand-in driver and NVRTC, cache in
 *                                                      memory
 *     cr_assert_eq(phasor_run(o.program, NULL, o.in, o.in_count, o.out, o.out_count, NULL),
 *         PHASOR_OK);
 *     opened_expect(&o);
 *     opened_close(&o);
 */
#pragma once
#include "phasor.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum where { ON_CPU, ON_CUDA };
enum { SLOTS_MAX = 32 };

struct opened {
    phasor_runtime *runtime;
    phasor_program *program;
    phasor_tensors *inputs, *expected;
    phasor_value in[SLOTS_MAX], out[SLOTS_MAX];
    int in_count, out_count;
};

#define ASSERT_OK(call) cr_assert_eq((call), PHASOR_OK, "%s: %s", #call, phasor_message())
/* The status, and that the message has the text. */
#define ASSERT_FAILS(call, status, text)                                                     \
    do {                                                                                     \
        const phasor_status got_ = (call);                                                   \
        cr_assert_eq(got_, (status), "%s gives %s: %s", #call, phasor_status_name(got_),     \
                     phasor_message());                                                      \
        cr_assert(strstr(phasor_message(), (text)), "\"%s\" lacks \"%s\"", phasor_message(), \
                  (text));                                                                   \
    } while (0)

static inline void stand_ins_use(void)
{
    setenv("PHASOR_NVRTC", PHASOR_TEST_LIBRARIES "/libphasor_stand_in_nvrtc.so", 1);
    setenv("PHASOR_DRIVER", PHASOR_TEST_LIBRARIES "/libphasor_stand_in_driver.so", 1);
    setenv("PHASOR_CUBLASLT", PHASOR_TEST_LIBRARIES "/libphasor_stand_in_cublaslt.so", 1);
}

/* A counter or function of the stand-in driver, which this process has open. */
static inline void *stand_in_symbol(const char *name)
{
    void *library =
        dlopen(PHASOR_TEST_LIBRARIES "/libphasor_stand_in_driver.so", RTLD_NOW | RTLD_NOLOAD);
    cr_assert(library, "%s", dlerror());
    void *symbol = dlsym(library, name);
    dlclose(library);
    cr_assert(symbol, "%s", name);
    return symbol;
}

static inline long stand_in_get(const char *name)
{
    long (*function)(void);
    *(void **)&function = stand_in_symbol(name);
    return function();
}

static inline const char *case_path(const char *name, const char *file)
{
    static char path[4][512];
    static int next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s/%s", PHASOR_TEST_CASES, name, file);
    return out;
}

static inline phasor_options options_for(enum where where)
{
    stand_ins_use();
    return (phasor_options){.size = sizeof(phasor_options),
                            .cache = ":memory:",
                            .device = where == ON_CPU ? PHASOR_DEVICE_CPU : PHASOR_DEVICE_CUDA};
}

static inline int values_read(const phasor_tensors *tensors, const char *prefix, int count,
                              phasor_value *out)
{
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%d", prefix, i);
        cr_assert(phasor_tensors_find(tensors, name, &out[i]), "%s", name);
    }
    return count;
}

static inline void opened_inputs(struct opened *o, const char *name, int set)
{
    char file[64];
    phasor_tensors_close(o->inputs);
    phasor_tensors_close(o->expected);
    snprintf(file, sizeof file, "inputs_%d.safetensors", set);
    ASSERT_OK(phasor_tensors_read(case_path(name, file), &o->inputs));
    snprintf(file, sizeof file, "outputs_%d.safetensors", set);
    ASSERT_OK(phasor_tensors_read(case_path(name, file), &o->expected));
    values_read(o->inputs, "input", o->in_count, o->in);
}

static inline void opened_with(struct opened *o, const phasor_options *options, const char *name,
                               const char *form)
{
    char file[64];
    memset(o, 0, sizeof *o);
    ASSERT_OK(phasor_open(&o->runtime, options));
    snprintf(file, sizeof file, "%s.pt2", form);
    ASSERT_OK(phasor_program_load(o->runtime, case_path(name, file), NULL, &o->program));
    o->in_count = phasor_program_input_count(o->program);
    o->out_count = phasor_program_output_count(o->program);
    opened_inputs(o, name, 0);
}

static inline void opened_case(struct opened *o, enum where where, const char *name,
                               const char *form)
{
    const phasor_options options = options_for(where);
    opened_with(o, &options, name, form);
}

static inline void opened_close(struct opened *o)
{
    phasor_tensors_close(o->inputs);
    phasor_tensors_close(o->expected);
    phasor_program_close(o->program);
    phasor_close(o->runtime);
    o->inputs = o->expected = NULL;
    o->program = NULL;
    o->runtime = NULL;
}

static inline int64_t tensor_count(const DLTensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->ndim; d++)
        count *= t->shape[d];
    return count;
}

static inline double number_at(const void *bytes, DLDataType type, int64_t i)
{
    if (type.code == kDLComplex)
        return type.bits == 64 ? (double)((const float *)bytes)[i] : ((const double *)bytes)[i];
    if (type.code == kDLFloat && type.bits != 16)
        return type.bits == 32 ? (double)((const float *)bytes)[i] : ((const double *)bytes)[i];
    if (type.bits == 64)
        return (double)((const int64_t *)bytes)[i];
    return type.bits == 16 ? ((const uint16_t *)bytes)[i] : ((const uint8_t *)bytes)[i];
}

/* Both as row-major host memory, element by element; 16-bit types by their bits, one unit apart. */
static inline void tensor_expect(phasor_runtime *runtime, const DLTensor *got, const DLTensor *want,
                                 const char *what)
{
    const int64_t count = tensor_count(want);
    const size_t size = want->dtype.bits / 8;
    char *a = malloc((size_t)count * size + 1), *b = malloc((size_t)count * size + 1);
    cr_assert_eq(got->ndim, want->ndim, "%s", what);
    cr_assert_eq(got->dtype.code, want->dtype.code, "%s", what);
    for (int d = 0; d < want->ndim; d++)
        cr_assert_eq(got->shape[d], want->shape[d], "%s", what);
    ASSERT_OK(phasor_copy_to_host(runtime, got, a, (size_t)count * size));
    ASSERT_OK(phasor_copy_to_host(runtime, want, b, (size_t)count * size));
    const int64_t numbers = want->dtype.code == kDLComplex ? 2 * count : count;
    for (int64_t i = 0; i < numbers; i++) {
        const double x = number_at(a, want->dtype, i), y = number_at(b, want->dtype, i);
        const double allowed = size == 2 ? 1 : 2e-5 + 2e-5 * fabs(y);
        cr_assert(fabs(x - y) <= allowed || (isnan(x) && isnan(y)),
                  "%s: element %d is %g, expected %g", what, (int)i, x, y);
    }
    free(a);
    free(b);
}

static inline void values_expect(const struct opened *o, const phasor_value *out)
{
    phasor_value want[SLOTS_MAX];
    values_read(o->expected, "output", o->out_count, want);
    for (int i = 0; i < o->out_count; i++) {
        char what[32];
        snprintf(what, sizeof what, "output %d", i);
        if (want[i].kind == PHASOR_TENSOR)
            tensor_expect(o->runtime,
                          out[i].kind == PHASOR_OWNED ? &out[i].owned->dl_tensor : out[i].tensor,
                          want[i].tensor, what);
        else
            cr_assert_eq(out[i].kind, want[i].kind, "%s", what);
    }
}

static inline void opened_expect(const struct opened *o)
{
    values_expect(o, o->out);
}

static inline void value_delete(phasor_value *v)
{
    if (v->kind == PHASOR_OWNED)
        v->owned->deleter(v->owned);
    v->kind = PHASOR_NONE;
}

static inline void opened_delete(struct opened *o)
{
    for (int i = 0; i < o->out_count; i++)
        value_delete(&o->out[i]);
}

static inline phasor_status opened_run(struct opened *o)
{
    return phasor_run(o->program, NULL, o->in, o->in_count, o->out, o->out_count, NULL);
}

static inline void folder_make(char folder[64])
{
    strcpy(folder, "/tmp/phasor-runtime-XXXXXX");
    cr_assert(mkdtemp(folder));
}

static inline void folder_remove(const char *folder)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

static const enum where both[] = {ON_CPU, ON_CUDA};
#define FOR_BOTH(w)                \
    for (int b_ = 0; b_ < 2; b_++) \
        for (enum where w = both[b_], *once_ = &w; once_; once_ = NULL)
