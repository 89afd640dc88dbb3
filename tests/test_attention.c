/* test_attention.c - attention as one kernel, by the generated code run on the CPU: against results
 * in float64, with an error that is hardly larger than the rounding of weights and results alone gives.
 *
 * The programs and what they should give come from make/attention_programs.py. */
#include "runtime_case.h"
#include "leak.h"

#include <criterion/criterion.h>

static const char *const programs[] = {"full",   "half", "widths", "causal", "cache",
                                       "padded", "bias", "capped", "window", "fused"};

enum { PROGRAMS = sizeof programs / sizeof *programs };

static const char *program_path(const char *name, const char *suffix)
{
    static char path[2][512];
    static int next;
    char *out = path[next++ % 2];
    snprintf(out, sizeof path[0], "%s/../attention/%s%s", PHASOR_TEST_CASES, name, suffix);
    return out;
}

/* The inputs where a framework would have them: a file's tensors are aligned to their elements. */
static void inputs_align(struct opened *o, DLTensor tensors[SLOTS_MAX])
{
    for (int i = 0; i < o->in_count; i++) {
        const DLTensor *from = o->in[i].tensor;
        const size_t nbytes = (size_t)tensor_count(from) * from->dtype.bits / 8;
        tensors[i] = *from;
        tensors[i].data = aligned_alloc(64, (nbytes + 63) / 64 * 64);
        memcpy(tensors[i].data, (const char *)from->data + from->byte_offset, nbytes);
        tensors[i].byte_offset = 0;
        o->in[i].tensor = &tensors[i];
    }
}

static void inputs_free(struct opened *o)
{
    for (int i = 0; i < o->in_count; i++)
        free(o->in[i].tensor->data);
}

static void program_open(struct opened *o, const char *name, phasor_mode mode, const char *arch,
                         DLTensor tensors[SLOTS_MAX])
{
    phasor_options options = options_for(ON_CUDA);
    options.mode = mode;
    if (arch)
        setenv("PHASOR_STAND_IN_ARCHS", arch, 1);
    memset(o, 0, sizeof *o);
    ASSERT_OK(phasor_open(&o->runtime, &options));
    ASSERT_OK(phasor_program_load(o->runtime, program_path(name, ".pt2"), NULL, &o->program));
    ASSERT_OK(phasor_tensors_read(program_path(name, ".safetensors"), &o->inputs));
    o->in_count = phasor_program_input_count(o->program);
    o->out_count = 1;
    values_read(o->inputs, "input", o->in_count, o->in);
    inputs_align(o, tensors);
}

static double number(const DLTensor *t, const void *bytes, int64_t i)
{
    uint16_t half;
    float single;
    _Float16 small;
    if (t->dtype.bits == 64)
        return ((const double *)bytes)[i];
    memcpy(&half, (const char *)bytes + 2 * i, 2);
    memcpy(&small, &half, 2);
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&single, &bits, 4);
    return t->dtype.code == kDLFloat ? (double)small : single;
}

/* The norm of what differs over the norm of what is right. */
static double relative_error(phasor_runtime *runtime, const DLTensor *got, const DLTensor *exact)
{
    const int64_t count = tensor_count(exact);
    const size_t nbytes = (size_t)count * got->dtype.bits / 8;
    char *a = malloc(nbytes);
    const double *b = (const double *)((const char *)exact->data + exact->byte_offset);
    double off = 0, all = 0;
    cr_assert_eq(tensor_count(got), count);
    ASSERT_OK(phasor_copy_to_host(runtime, got, a, nbytes));
    for (int64_t i = 0; i < count; i++) {
        const double x = number(got, a, i);
        off += (x - b[i]) * (x - b[i]);
        all += b[i] * b[i];
    }
    free(a);
    return sqrt(off / all);
}

static int attention_kernels(struct opened *o)
{
    char *plan;
    int count = 0;
    ASSERT_OK(phasor_program_show(o->program, "plan", true, o->in, o->in_count, &plan));
    const char *end = strstr(plan, "\"buffers\": [");
    for (const char *at = plan; (at = strstr(at, "\"phasor_attention\"")) && at < end; at++)
        count++;
    phasor_free(plan);
    return count;
}

static void program_check(const char *name, phasor_mode mode)
{
    struct opened o;
    DLTensor tensors[SLOTS_MAX];
    phasor_value rounded, exact;
    program_open(&o, name, mode, NULL, tensors);
    cr_assert(phasor_tensors_find(o.inputs, "rounded", &rounded));
    cr_assert(phasor_tensors_find(o.inputs, "exact", &exact));
    cr_expect_eq(attention_kernels(&o), 1, "%s", name);
    ASSERT_OK(opened_run(&o));
    const double error = relative_error(o.runtime, &o.out[0].owned->dl_tensor, exact.tensor),
                 allowed = relative_error(o.runtime, rounded.tensor, exact.tensor);
    cr_expect(error <= 1.25 * allowed, "%s: error %g, rounding alone %g", name, error, allowed);
    opened_delete(&o);
    inputs_free(&o);
    opened_close(&o);
}

Test(attention, programs)
{
    for (int k = 0; k < PROGRAMS; k++)
        program_check(programs[k], PHASOR_MODE_EXACT);
    ASSERT_NO_LEAKS();
}

/* Lengths that vary are arguments of the kernel. */
Test(attention, any_length)
{
    program_check("cache", PHASOR_MODE_GENERIC);
    ASSERT_NO_LEAKS();
}

/* Without tensor cores, products and a softmax of their own. */
Test(attention, older_devices)
{
    struct opened o;
    DLTensor tensors[SLOTS_MAX];
    program_open(&o, "full", PHASOR_MODE_EXACT, "sm_75", tensors);
    cr_expect_eq(attention_kernels(&o), 0);
    inputs_free(&o);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}
