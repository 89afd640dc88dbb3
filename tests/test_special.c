/* test_special.c - every MAP row at zeros of both signs, infinities, NaN, denormal, tiny and huge
 * numbers: the evaluator on the complex graph, the evaluator on the rewritten one and the generated
 * code give what eager PyTorch gives.
 *
 *     exp.c64 of data/special_cpu.safetensors, data/special_cuda.safetensors   <-
 *         make/special_values.py
 *
 * A number must be eager's on the CPU or on CUDA: where those two agree there is one answer. NaN,
 * infinities and signs of zeros must be the same; other numbers may differ by units in the last
 * place of the complex value. `exceptions` says where Phasor differs from both, and why. */
#include "leak.h"
#include "load/safetensors.h"
#include "program_run.h"

#include <stdio.h>

enum { PROGRAMS_MAX = 512, TEXT_SIZE = 512 };

struct special {
    struct program_run program;
    char key[64], text[TEXT_SIZE]; /* "exp.c64" */
    enum op op;
    enum dtype dtype;
    int failures, arity;
    const DLTensor *operands[2], *eager[2]; /* eager: on the CPU, on CUDA */
};

static struct tensors_file *files[2];
static struct special *all[PROGRAMS_MAX];
static int count;

static const DLTensor *stored(int file, const char *name, enum dtype dtype)
{
    char key[96];
    phasor_value found;
    snprintf(key, sizeof key, "%s.%s", name, dtype_text(dtype));
    cr_assert(tensors_find(files[file], key, &found) && found.kind == PHASOR_TENSOR,
              "no %s in the data", key);
    return found.tensor;
}

static int64_t parts_of(const DLTensor *t)
{
    int64_t parts = 1;
    for (int d = 0; d < t->ndim; d++)
        parts *= t->shape[d];
    return parts;
}

static double part_at(const DLTensor *t, int64_t at)
{
    if (t->dtype.bits == 64)
        return ((const double *)t->data)[at];
    return t->dtype.bits == 32 ? ((const float *)t->data)[at] : ((const uint8_t *)t->data)[at];
}

/* -- programs ---------------------------------------------------------------------------------- */

static void add_program(enum op op, enum dtype dtype, const char *name, const char *number)
{
    struct special *s = calloc(1, sizeof *s);
    cr_assert(s && count < PROGRAMS_MAX);
    all[count++] = s;
    s->op = op;
    s->dtype = dtype;
    s->arity = number ? 1 : op_info[op].arity;
    snprintf(s->key, sizeof s->key, "%s.%s", name, dtype_text(dtype));
    s->operands[0] = stored(0, s->arity == 1 ? "unary" : "left", dtype);
    s->operands[1] = s->arity == 1 ? NULL : stored(0, "right", dtype);
    for (int file = 0; file < 2; file++)
        s->eager[file] = stored(file, name, dtype);

    const long n = (long)(parts_of(s->operands[0]) / (dtype_is_complex(dtype) ? 2 : 1));
    const char *type = dtype_text(dtype), *row = op_info[op].name;
    int length =
        snprintf(s->text, TEXT_SIZE, "phasor 1 \"%s\"\ninput x: %s[%ld]\n", s->key, type, n);
    if (number)
        length += snprintf(s->text + length, (size_t)(TEXT_SIZE - length),
                           "y = scalar value=%s : %s[]\n", number, type);
    else if (s->arity == 2)
        length +=
            snprintf(s->text + length, (size_t)(TEXT_SIZE - length), "input y: %s[%ld]\n", type, n);
    snprintf(s->text + length, (size_t)(TEXT_SIZE - length), "z = %s(x%s)\noutput z\n", row,
             s->arity == 2 || number ? ", y" : "");
    program_open(&s->program, s->text);
    for (int i = 0; i < s->arity; i++)
        program_bytes(&s->program, i, s->operands[i]->data,
                      (size_t)parts_of(s->operands[i]) * s->operands[i]->dtype.bits / 8);
}

static bool is_defined(enum op op, enum dtype dtype)
{
    const struct op_info *row = &op_info[op];
    if (row->kind != KIND_MAP || row->arity > 2 || row->type == TYPE_CAST || row->on == ON_I)
        return false;
    return !dtype_is_complex(dtype) || (row->complex != COMPLEX_NEVER && row->type != TYPE_MAKE);
}

static const struct {
    const char *name, *exponent;
} powers[] = {{"pow_2", "2"},        {"pow_3", "3"},      {"pow_minus_1", "-1"},
              {"pow_minus_2", "-2"}, {"pow_half", "0.5"}, {"pow_0", "0"}};

static void add_programs(void)
{
    static const enum dtype dtypes[] = {DT_f32, DT_f64, DT_c64, DT_c128};
    for (int d = 0; d < 4; d++) {
        for (int op = 0; op < OP_COUNT; op++)
            if (is_defined((enum op)op, dtypes[d]))
                add_program((enum op)op, dtypes[d], op_info[op].name, NULL);
        /* Of real numbers the loader makes products and roots of these. */
        for (size_t i = 0; dtype_is_complex(dtypes[d]) && i < sizeof powers / sizeof *powers; i++)
            add_program(OP_pow, dtypes[d], powers[i].name, powers[i].exponent);
    }
}

/* -- comparing --------------------------------------------------------------------------------- */

/* One number against eager's; `size` is the length of eager's complex value. */
static bool agrees(const struct special *s, double got, double expected, double size)
{
    const bool wide = dtype_info[s->dtype].real == DT_f64;
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected);
    if (isinf(got) || isinf(expected) || expected == 0)
        return got == expected && signbit(got) == signbit(expected);
    if (!isfinite(size))
        size = fabs(expected);
    const double unit = wide ? 0x1p-52 : 0x1p-23, least = wide ? 0x1p-1074 : 0x1p-149;
    return fabs(got - expected) <= (op_info[s->op].ulp + 16) * unit * size + 4 * least;
}

static bool number_agrees(const struct special *s, double got, int64_t at)
{
    const bool pairs = program_count(&s->program, 0) > 0 &&
                       dtype_is_complex(s->program.outputs[LINK_LOADED][0].dtype);
    for (int file = 0; file < 2; file++) {
        const double expected = part_at(s->eager[file], at);
        const double size =
            pairs ? hypot(expected, part_at(s->eager[file], at ^ 1)) : fabs(expected);
        if (agrees(s, got, expected, size))
            return true;
    }
    return false;
}

/* -- exceptions -------------------------------------------------------------------------------- */

static double operand_part(const struct special *s, int operand, int64_t at)
{
    return part_at(s->operands[operand], at);
}

/* Eager multiplies the second operand by alpha, which is 1+0i, also where it is left out: an
 * infinite part of it makes the other part NaN, and -0 may become 0. Phasor adds. */
static bool is_sum_with_alpha(const struct special *s, enum program_link link, int64_t at,
                              double got)
{
    (void)link;
    const double eager = part_at(s->eager[0], at);
    return (isnan(eager) && !isfinite(operand_part(s, 1, at ^ 1))) || (got == 0 && eager == 0);
}

/* Whole powers are products: where one of them overflows, infinities meet and their signs, or that
 * they become NaN, depend on the order of operations, which is another one in each of eager's
 * devices. */
static bool is_overflown_product(const struct special *s, enum program_link link, int64_t at,
                                 double got)
{
    (void)link;
    return !isfinite(got) && !isfinite(part_at(s->eager[0], at)) &&
           !isfinite(part_at(s->eager[1], at));
}

/* The evaluator makes products of any whole exponent, for a tensor of exponents too, where eager
 * and the rewritten graph go through the logarithm: exact, and another infinity or NaN at an
 * infinite base. */
static bool is_whole_power(const struct special *s, enum program_link link, int64_t at, double got)
{
    (void)got;
    return link == LINK_LOADED && operand_part(s, 1, at | 1) == 0 &&
           isfinite(operand_part(s, 1, at & ~1));
}

/* The last place of the angle is more than a turn: signs are as they fall. */
static bool is_power_of_any_angle(const struct special *s, enum program_link link, int64_t at,
                                  double got)
{
    (void)link;
    const double largest = fmax(fabs(operand_part(s, 1, at)), fabs(operand_part(s, 1, at ^ 1)));
    return largest >= 1e30 && fabs(got) == fabs(part_at(s->eager[0], at));
}

static const struct {
    const char *key; /* how it starts */
    bool (*holds)(const struct special *s, enum program_link link, int64_t at, double got);
} exceptions[] = {
    {"add.c", is_sum_with_alpha},      {"sub.c", is_sum_with_alpha},
    {"pow.c", is_whole_power},         {"pow.c", is_power_of_any_angle},
    {"pow_2.c", is_overflown_product}, {"pow_3.c", is_overflown_product},
};

static bool is_exception(const struct special *s, enum program_link link, int64_t at, double got)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (strncmp(s->key, exceptions[i].key, strlen(exceptions[i].key)) == 0 &&
            exceptions[i].holds(s, link, at, got))
            return true;
    return false;
}

static void describe(const struct special *s, int64_t at, char *text, size_t size)
{
    const bool pairs = dtype_is_complex(s->dtype);
    const int64_t element =
        dtype_is_complex(s->program.outputs[LINK_LOADED][0].dtype) ? at / 2 : at;
    int length = 0;
    for (int i = 0; i < s->arity; i++) {
        const DLTensor *t = s->operands[i];
        length += snprintf(text + length, size - (size_t)length, pairs ? "%s(%g, %g)" : "%s%g",
                           i ? ", " : "", part_at(t, pairs ? 2 * element : element),
                           pairs ? part_at(t, 2 * element + 1) : 0);
    }
}

static void check_special(struct special *s)
{
    enum { SHOWN = 8 };
    for (int link = 0; link < LINK_COUNT; link++) {
        s->failures = 0;
        for (int64_t i = 0; i < program_count(&s->program, 0); i++) {
            const double got = program_number(&s->program, (enum program_link)link, 0, i);
            if (number_agrees(s, got, i) || is_exception(s, (enum program_link)link, i, got))
                continue;
            char operands[160];
            describe(s, i, operands, sizeof operands);
            cr_expect(s->failures++ >= SHOWN,
                      "%s(%s), part %d, by the %s: %.9g; eager %.9g (CPU), %.9g (CUDA)", s->key,
                      operands, (int)(i % 2), program_links[link], got, part_at(s->eager[0], i),
                      part_at(s->eager[1], i));
        }
    }
}

Test(special, rows_at_special_numbers, .timeout = 3600)
{
    enum { BATCH = 64 };
    cr_assert_eq(tensors_read(PHASOR_TEST_CASES "/../data/special_cpu.safetensors", &files[0]),
                 PHASOR_OK);
    cr_assert_eq(tensors_read(PHASOR_TEST_CASES "/../data/special_cuda.safetensors", &files[1]),
                 PHASOR_OK);
    add_programs();
    for (int first = 0; first < count; first += BATCH) {
        struct program_run *batch[BATCH];
        struct host_module *module;
        const int size = count - first < BATCH ? count - first : BATCH;
        for (int i = 0; i < size; i++)
            batch[i] = &all[first + i]->program;
        program_build(batch, size, &module);
        for (int i = 0; i < size; i++) {
            program_results(batch[i], module);
            check_special(all[first + i]);
        }
        host_close(module);
    }
    for (int i = 0; i < count; i++) {
        program_close(&all[i]->program);
        free(all[i]);
    }
    tensors_close(files[0]);
    tensors_close(files[1]);
    ASSERT_NO_LEAKS();
}
