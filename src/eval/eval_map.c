/* eval_map.c - elementwise operators, as the C and complex C columns of ops.def say.
 *
 *     add(f16[4, 1], f16[3]) : f16[4, 3]      operands are walked with broadcast strides, 1024
 *                                             elements at a time: f16 -> float, row_add_f32(...),
 *                                             float -> f16
 *
 * Each row is expanded to one function for each compute type on which it is defined, and to its
 * line of map_functions. */
#include "eval/convert.h"
#include "eval/parts.h"
#include "eval/reference.h"

enum { DT_bit = DT_bool }; /* a name that the macro `bool` leaves alone */

/* -- one function a row and compute type ------------------------------------------------------- */

/* EACH_<on>, COMPLEX_<complex>: make(compute type, C type, real C type, complex C type, row,
 * cell) */
#define EACH_I(make, ...) \
    make(bit, bool, bool, bool, __VA_ARGS__) make(i64, int64_t, int64_t, int64_t, __VA_ARGS__)
#define EACH_F(make, ...)                                \
    make(f32, float, float, float _Complex, __VA_ARGS__) \
        make(f64, double, double, double _Complex, __VA_ARGS__)
#define EACH_A(make, ...) EACH_I(make, __VA_ARGS__) EACH_F(make, __VA_ARGS__)
#define COMPLEX_NEVER_EACH(make, ...)
#define COMPLEX_PARTS_EACH(make, ...)                             \
    make(c64, float _Complex, float, float _Complex, __VA_ARGS__) \
        make(c128, double _Complex, double, double _Complex, __VA_ARGS__)
#define COMPLEX_FUNCTION_EACH COMPLEX_PARTS_EACH

/* Which of the columns and which types of results and operands the row's type means. */
#define ROW_SAME(name, on, complex_rule, c, complex_c) \
    EACH_##on(MAKE_SAME, name, c) COMPLEX_##complex_rule##_EACH(MAKE_SAME, name, complex_c)
#define ROW_BOOL(name, on, complex_rule, c, complex_c) \
    EACH_##on(MAKE_BOOL, name, c) COMPLEX_##complex_rule##_EACH(MAKE_BOOL, name, complex_c)
#define ROW_REAL(name, on, complex_rule, c, complex_c) \
    EACH_##on(MAKE_REAL, name, c) COMPLEX_##complex_rule##_EACH(MAKE_REAL, name, complex_c)
#define ROW_PICK(name, on, complex_rule, c, complex_c) \
    EACH_##on(MAKE_PICK, name, c) COMPLEX_##complex_rule##_EACH(MAKE_PICK, name, complex_c)
#define ROW_MAKE(name, on, complex_rule, c, complex_c) EACH_##on(MAKE_COMPLEX, name, complex_c)
#define ROW_CAST(name, on, complex_rule, c, complex_c) /* convert.h does it */

#define MAKE_SAME(suffix, type, real, complex_type, name, cell) \
    FUNCTION(suffix, type, type, type, name, cell)
#define MAKE_BOOL(suffix, type, real, complex_type, name, cell) \
    FUNCTION(suffix, bool, type, type, name, cell)
#define MAKE_REAL(suffix, type, real, complex_type, name, cell) \
    FUNCTION(suffix, real, type, type, name, cell)
#define MAKE_PICK(suffix, type, real, complex_type, name, cell) \
    FUNCTION(suffix, type, bool, type, name, cell)
#define MAKE_COMPLEX(suffix, type, real, complex_type, name, cell) \
    FUNCTION(suffix, complex_type, type, type, name, cell)

#define FUNCTION(suffix, result_type, x_type, type, name, cell)                                   \
    static void row_##name##_##suffix(size_t count, void *result, const void *xs, const void *ys, \
                                      const void *zs, bool fused)                                 \
    {                                                                                             \
        result_type *results = result;                                                            \
        (void)fused;                                                                              \
        for (size_t i = 0; i < count; i++) {                                                      \
            const x_type x = ((const x_type *)xs)[i];                                             \
            const type y __attribute__((unused)) = ((const type *)ys)[i];                         \
            const type z __attribute__((unused)) = ((const type *)zs)[i];                         \
            results[i] = cell;                                                                    \
        }                                                                                         \
    }
#define MAP(name, n, type, on, complex_rule, rules, domain, ulp, cost, c, complex_c, ...) \
    ROW_##type(name, on, complex_rule, c, complex_c)
#include "graph/ops.def"
#undef FUNCTION

static map_function *const map_functions[OP_COUNT][DT_COUNT] = {
#define FUNCTION(suffix, result_type, x_type, type, name, cell) \
    [OP_##name][DT_##suffix] = row_##name##_##suffix,
#define MAP(name, n, type, on, complex_rule, rules, domain, ulp, cost, c, complex_c, ...) \
    ROW_##type(name, on, complex_rule, c, complex_c)
#include "graph/ops.def"
#undef FUNCTION
};

map_function *map_find(enum op op, enum dtype compute)
{
    return map_functions[op][compute];
}

/* -- evaluation -------------------------------------------------------------------------------- */

struct operand {
    struct walk walk;
    bool constant; /* a scalar: the chunk is filled once */
    enum dtype compute;
    _Alignas(16) char chunk[EVAL_CHUNK * EVAL_ELEMENT_MAX];
};

static void operand_fill(struct operand *operand, const struct node *scalar)
{
    const size_t size = (size_t)dtype_size(operand->compute);
    _Alignas(16) char element[EVAL_ELEMENT_MAX];
    convert_number(scalar->dtype, scalar->attributes.number, element);
    for (size_t i = 0; i < EVAL_CHUNK; i++)
        for (size_t k = 0; k < size; k++)
            operand->chunk[i * size + k] = element[k];
}

static void operand_start(struct eval *eval, const struct node *node, int index,
                          const struct eval_tensor *out, struct operand *operand)
{
    const struct node *argument = eval_argument_node(eval, node, index);
    operand->compute = dtype_info[argument->dtype].compute;
    operand->constant = argument->op == OP_scalar;
    if (operand->constant) {
        operand_fill(operand, argument);
        return;
    }
    struct strided view = eval_strided(eval_argument(eval, node, index));
    strided_expand(&view, out->rank, out->sizes);
    operand->walk = walk_new(&view);
}

static void map_chunk(struct eval *eval, const struct node *node, struct operand *operands,
                      void *result, int64_t count)
{
    for (int i = 0; i < node->argument_count; i++)
        if (!operands[i].constant)
            walk_load(&operands[i].walk, operands[i].chunk, count);
    if (op_info[node->op].type == TYPE_CAST) {
        convert_cast(node->dtype, result, operands[0].compute, operands[0].chunk, (size_t)count);
        return;
    }
    const int last = node->argument_count - 1;
    map_functions[node->op][operands[last].compute]((size_t)count, result, operands[0].chunk,
                                                    operands[last < 1 ? last : 1].chunk,
                                                    operands[last].chunk, eval->options->fma);
}

static phasor_status map_all(struct eval *eval, const struct node *node, struct operand *operands,
                             struct eval_tensor *out)
{
    _Alignas(16) char result[EVAL_CHUNK * EVAL_ELEMENT_MAX];
    const int64_t total = eval_tensor_count(out);
    const int last = node->argument_count - 1;
    if (total == 0)
        return PHASOR_OK;
    for (int i = 0; i <= last; i++)
        operand_start(eval, node, i, out, &operands[i]);
    if (op_info[node->op].type != TYPE_CAST && !map_functions[node->op][operands[last].compute])
        return fail(PHASOR_ERROR_REFUSED, "not defined on %s",
                    dtype_text(eval_argument_node(eval, node, last)->dtype));
    for (int64_t done = 0; done < total; done += EVAL_CHUNK) {
        const int64_t count = total - done < EVAL_CHUNK ? total - done : EVAL_CHUNK;
        map_chunk(eval, node, operands, result, count);
        convert_store(out->dtype, (char *)out->bytes + done * dtype_size(out->dtype), 1, result,
                      (size_t)count);
    }
    return PHASOR_OK;
}

phasor_status eval_map(struct eval *eval, const struct node *node, struct eval_tensor *out)
{
    struct operand *operands = memory_new((size_t)node->argument_count * sizeof *operands);
    if (!operands)
        return fail_memory();
    const phasor_status status = map_all(eval, node, operands, out);
    memory_free(operands);
    return status;
}
