/* test_eval_rows.c - every VIEW, REDUCE, LEAF and CORE row of ops.def against results worked out by
 * hand. A row without a case does not link; a case that does not evaluate its row fails. */
#include "support/eval_bench.h"

#define ADD(op, attributes_, ...)                                             \
    bench_add(b, op, &(struct attributes)attributes_, (value[]){__VA_ARGS__}, \
              sizeof((value[]){__VA_ARGS__}) / sizeof(value))
#define AT(...)     \
    {               \
        __VA_ARGS__ \
    }

static value bench_add(struct bench *b, enum op op, const struct attributes *at,
                       const value *arguments, size_t count)
{
    return graph_add(&b->graph, op, DT_bool, arguments, (int)count, at, NULL);
}

static value counting(struct bench *b, size_t rank, const int64_t *sizes)
{
    int64_t numbers[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = i;
    return bench_data(b, DT_i64, rank, sizes, numbers);
}

/* -- VIEW -------------------------------------------------------------------------------------- */

static void case_reshape(struct bench *b)
{
    expect_i64(b,
               graph_reshape(&b->graph, counting(b, SHAPE(2, 3)),
                             (dim[]){literal(b, 3), literal(b, 2)}, 2),
               SHAPE(3, 2), 0, 1, 2, 3, 4, 5);
}

static void case_permute(struct bench *b)
{
    expect_i64(b, graph_permute(&b->graph, counting(b, SHAPE(2, 1, 3)), (int[]){2, 0, 1}),
               SHAPE(3, 2, 1), 0, 3, 1, 4, 2, 5);
    expect_c64(b, graph_transpose(&b->graph, c64(b, SHAPE(2, 2), 0, 1, 2, 3, 4, 5, 6, 7), 0, 1),
               SHAPE(2, 2), 0, 1, 4, 5, 2, 3, 6, 7);
}

static void case_expand(struct bench *b)
{
    const dim two = literal(b, 2), three = literal(b, 3);
    expect_i64(b, graph_expand(&b->graph, counting(b, SHAPE(2, 1)), (dim[]){two, two, three}, 3),
               SHAPE(2, 2, 3), 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1);
    expect_bytes(b, graph_expand(&b->graph, counting(b, SHAPE(2, 1)), (dim[]){two, 0}, 2), DT_i64,
                 SHAPE(2, 0), "");
}

static void case_slice(struct bench *b)
{
    const value a = counting(b, SHAPE(2, 5));
    expect_i64(b, graph_slice(&b->graph, a, 1, 1, literal(b, 2), 3), SHAPE(2, 2), 1, 4, 6, 9);
    expect_i64(b, graph_slice(&b->graph, a, 0, 1, 1, 1), SHAPE(1, 5), 5, 6, 7, 8, 9);
    expect_bytes(b, graph_slice(&b->graph, a, 1, literal(b, 5), 0, 1), DT_i64, SHAPE(2, 0), "");
}

static void case_select(struct bench *b)
{
    expect_i64(b, graph_select(&b->graph, counting(b, SHAPE(2, 3)), 1, literal(b, 2)), SHAPE(2), 2,
               5);
    expect_i64(b, graph_select(&b->graph, counting(b, SHAPE(3)), 0, 1), SCALAR_SHAPE, 1);
}

static void case_diagonal(struct bench *b)
{
    const value a = counting(b, SHAPE(2, 2, 3));
    expect_i64(b, ADD(OP_diagonal, AT(.axes = (int[]){1, 2}, .axis_count = 2), a), SHAPE(2, 2), 0,
               4, 6, 10);
    expect_i64(
        b, ADD(OP_diagonal, AT(.axes = (int[]){1, 2}, .axis_count = 2, .start = literal(b, 2)), a),
        SHAPE(2, 1), 2, 8);
    expect_i64(
        b, ADD(OP_diagonal, AT(.axes = (int[]){2, 1}, .axis_count = 2, .start = literal(b, -1)), a),
        SHAPE(2, 2), 1, 5, 7, 11);
}

static void case_unfold(struct bench *b)
{
    expect_i64(
        b, ADD(OP_unfold, AT(.axis = 0, .length = literal(b, 3), .step = 2), counting(b, SHAPE(7))),
        SHAPE(3, 3), 0, 1, 2, 2, 3, 4, 4, 5, 6);
    expect_i64(
        b,
        ADD(OP_unfold, AT(.axis = 0, .length = literal(b, 2), .step = 1), counting(b, SHAPE(3, 2))),
        SHAPE(2, 2, 2), 0, 2, 1, 3, 2, 4, 3, 5);
}

static void case_flip(struct bench *b)
{
    expect_i64(b,
               ADD(OP_flip, AT(.axes = (int[]){0, 1}, .axis_count = 2), counting(b, SHAPE(2, 3))),
               SHAPE(2, 3), 5, 4, 3, 2, 1, 0);
    expect_bytes(b, ADD(OP_flip, AT(.axes = (int[]){0}, .axis_count = 1), counting(b, SHAPE(0, 3))),
                 DT_i64, SHAPE(0, 3), "");
}

static void case_roll(struct bench *b)
{
    const dim shifts[] = {literal(b, 1), literal(b, -1)};
    expect_i64(b,
               ADD(OP_roll,
                   AT(.axes = (int[]){0, 1}, .axis_count = 2, .sizes = shifts, .size_count = 2),
                   counting(b, SHAPE(2, 3))),
               SHAPE(2, 3), 4, 5, 3, 1, 2, 0);
    /* L3: without dims the logical elements roll, not the parts */
    const value z = graph_reshape(&b->graph, c64(b, SHAPE(2, 2), 1, 2, 3, -4, 5, 6, 0, -7),
                                  (dim[]){literal(b, 4)}, 1);
    expect_c64(
        b,
        ADD(OP_roll, AT(.axes = (int[]){0}, .axis_count = 1, .sizes = shifts, .size_count = 1), z),
        SHAPE(4), 0, -7, 1, 2, 3, -4, 5, 6);
}

static void case_pad(struct bench *b)
{
    const dim sizes[] = {literal(b, 1), 0, literal(b, -1), literal(b, 2)};
    const struct number seven = {.i = 7, .re = 7};
    expect_i64(
        b,
        ADD(OP_pad, AT(.sizes = sizes, .size_count = 4, .number = seven), counting(b, SHAPE(2, 3))),
        SHAPE(3, 4), 7, 7, 7, 7, 1, 2, 7, 7, 4, 5, 7, 7);
    expect_c64(
        b,
        ADD(OP_pad, AT(.sizes = sizes, .size_count = 2, .number = seven), c64(b, SHAPE(1), 1, 2)),
        SHAPE(2), 7, 0, 1, 2);
    const dim away[] = {literal(b, -2), literal(b, 2)};
    expect_i64(
        b, ADD(OP_pad, AT(.sizes = away, .size_count = 2, .number = seven), counting(b, SHAPE(1))),
        SHAPE(1), 7);
}

static void case_clone(struct bench *b)
{
    expect_i64(b, ADD(OP_clone, AT(.flag = FORMAT_CHANNELS_LAST), counting(b, SHAPE(1, 2, 2, 1))),
               SHAPE(1, 2, 2, 1), 0, 1, 2, 3);
}

static void case_contiguous(struct bench *b)
{
    expect_i64(b, ADD(OP_contiguous, AT(.flag = FORMAT_CONTIGUOUS), counting(b, SHAPE(2, 2))),
               SHAPE(2, 2), 0, 1, 2, 3);
}

static void case_real(struct bench *b)
{
    expect_f32(b, ADD(OP_real, AT(0), c64(b, SHAPE(2), 1, 2, -0.0f, 4)), SHAPE(2), 1, -0.0f);
}

static void case_imag(struct bench *b)
{
    expect_f64(b, ADD(OP_imag, AT(0), c128(b, SHAPE(2, 1), 1, 2, 3, -4)), SHAPE(2, 1), 2, -4);
}

static void case_view_as_real(struct bench *b)
{
    expect_f32(b, ADD(OP_view_as_real, AT(0), c64(b, SHAPE(2), 1, 2, 3, 4)), SHAPE(2, 2), 1, 2, 3,
               4);
}

static void case_view_as_complex(struct bench *b)
{
    /* 5C#20: of a transposed tensor */
    const value x = f32(b, SHAPE(2, 2, 2), 0, 1, 2, 3, 4, 5, 6, 7);
    expect_c64(b, ADD(OP_view_as_complex, AT(0), graph_transpose(&b->graph, x, 0, 1)), SHAPE(2, 2),
               0, 1, 4, 5, 2, 3, 6, 7);
    expect_c128(b, ADD(OP_view_as_complex, AT(0), f64(b, SHAPE(2), 1, -0.0)), SCALAR_SHAPE, 1,
                -0.0);
}

static void case_concat(struct bench *b)
{
    expect_i64(b,
               graph_concat(&b->graph,
                            (value[]){counting(b, SHAPE(2, 1)), counting(b, SHAPE(2, 0)),
                                      counting(b, SHAPE(2, 2))},
                            3, 1),
               SHAPE(2, 3), 0, 0, 1, 1, 2, 3);
}

static void case_pair(struct bench *b)
{
    expect_f32(b, ADD(OP_pair, AT(0), f32(b, SHAPE(2, 1), 1, 2), f32(b, SHAPE(2, 1), 3, 4)),
               SHAPE(2, 1, 2), 1, 3, 2, 4);
}

static void case_insert(struct bench *b)
{
    expect_i64(b,
               ADD(OP_insert, AT(.axis = 1, .start = 1, .step = 2), counting(b, SHAPE(2, 4)),
                   i64(b, SHAPE(2, 2), -1, -2, -3, -4)),
               SHAPE(2, 4), 0, -1, 2, -2, 4, -3, 6, -4);
}

static void case_insert_diagonal(struct bench *b)
{
    expect_i64(b,
               ADD(OP_insert_diagonal, AT(.axes = (int[]){0, 1}, .axis_count = 2, .start = 1),
                   counting(b, SHAPE(2, 3)), i64(b, SHAPE(2), -1, -2)),
               SHAPE(2, 3), 0, -1, 2, 3, 4, -2);
}

/* -- REDUCE ------------------------------------------------------------------------------------ */

static value reduce(struct bench *b, enum op op, value a, int axis)
{
    return graph_reduce(&b->graph, op, a, &axis, 1, false);
}

/* L2, L13 */
static value matrix(struct bench *b)
{
    return c64(b, SHAPE(2, 2), 1, 2, 3, -4, 5, 6, 0, -7);
}

static void case_sum(struct bench *b)
{
    expect_c64(b, graph_reduce(&b->graph, OP_sum, matrix(b), (int[]){0, 1}, 2, false), SCALAR_SHAPE,
               9, -3);
    expect_i64(b,
               graph_reduce(&b->graph, OP_sum, counting(b, SHAPE(2, 2, 3)), (int[]){2, 0}, 2, true),
               SHAPE(1, 2, 1), 24, 42);
    expect_f32(b, reduce(b, OP_sum, f32(b, SHAPE(0, 2), 0), 0), SHAPE(2), 0, 0);
    expect_bytes(b, reduce(b, OP_sum, bench_data(b, DT_i8, SHAPE(2), (int8_t[]){100, 100}), 0),
                 DT_i8, SCALAR_SHAPE, (int8_t[]){-56});
    /* 300 times 0.1 in bf16: each partial sum in float, rounded once */
    uint16_t tenth[300];
    for (int i = 0; i < 300; i++)
        tenth[i] = 0x3dcd;
    expect_bytes(b, reduce(b, OP_sum, bench_data(b, DT_bf16, SHAPE(300), tenth), 0), DT_bf16,
                 SCALAR_SHAPE, (uint16_t[]){0x41f0});
    /* One float accumulator would stop growing at 2^24. */
    const value ones =
        graph_expand(&b->graph, f32(b, SHAPE(1), 1), (dim[]){literal(b, 20000000)}, 1);
    expect_f32(b, reduce(b, OP_sum, ones, 0), SCALAR_SHAPE, 20000000);
}

static void case_prod(struct bench *b)
{
    expect_c64(b, reduce(b, OP_prod, matrix(b), 0), SHAPE(2), -7, 16, -28, -21);
    expect_i64(b, reduce(b, OP_prod, i64(b, SHAPE(3), INT64_MAX, 2, 3), 0), SCALAR_SHAPE, -6);
    expect_f32(b, reduce(b, OP_prod, f32(b, SHAPE(1, 0), 0), 1), SHAPE(1), 1);
}

static void case_amax(struct bench *b)
{
    expect_f32(b, reduce(b, OP_amax, f32(b, SHAPE(2, 3), 1, NAN, 3, -1, -5, -2), 1), SHAPE(2), NAN,
               -1);
    expect_f32(b, reduce(b, OP_amax, f32(b, SHAPE(0), 0), 0), SCALAR_SHAPE, -INFINITY);
    expect_flags(b, reduce(b, OP_amax, flags(b, SHAPE(2), false, true), 0), SCALAR_SHAPE, true);
}

static void case_amin(struct bench *b)
{
    expect_i32(b, reduce(b, OP_amin, i32(b, SHAPE(3, 2), 1, -2, 3, 4, INT32_MIN, 6), 0), SHAPE(2),
               INT32_MIN, -2);
    expect_f64(b, reduce(b, OP_amin, f64(b, SHAPE(2), 1, NAN), 0), SCALAR_SHAPE, NAN);
}

static void case_any(struct bench *b)
{
    expect_flags(b, reduce(b, OP_any, c64(b, SHAPE(2, 2), 0, 0, 0, 1, 0, 0, -0.0f, 0), 1), SHAPE(2),
                 true, false);
    expect_flags(b, reduce(b, OP_any, f32(b, SHAPE(1), NAN), 0), SCALAR_SHAPE, true);
    expect_flags(b, reduce(b, OP_any, f32(b, SHAPE(0), 0), 0), SCALAR_SHAPE, false);
}

static void case_all(struct bench *b)
{
    expect_flags(b, reduce(b, OP_all, c64(b, SHAPE(1), 1, 0), 0), SCALAR_SHAPE, true);
    expect_flags(b, reduce(b, OP_all, i64(b, SHAPE(2, 2), 1, 2, 3, 0), 1), SHAPE(2), true, false);
    expect_flags(b, reduce(b, OP_all, f32(b, SHAPE(0), 0), 0), SCALAR_SHAPE, true);
}

/* -- LEAF -------------------------------------------------------------------------------------- */

/* Evaluates with one strided input or state. */
static void expect_view(struct bench *b, const struct eval_inputs *inputs, value v,
                        const bool *wanted)
{
    struct eval_results results;
    cr_assert(array_push(&b->graph.outputs,
                         (struct graph_output){.name = "y", .kind = PHASOR_TENSOR, .node = v}));
    cr_assert_eq(eval_graph(&b->graph, &b->options, inputs, &results, &b->out_of_range), PHASOR_OK,
                 "%s", message_get());
    cr_assert_arr_eq(eval_result(&results, v)->bytes, wanted, 4);
    eval_free(&results);
}

static void case_input(struct bench *b)
{
    const dim sizes[] = {literal(b, 2), literal(b, 2)};
    const value x =
        graph_add(&b->graph, OP_input, DT_bool, NULL, 0,
                  &(struct attributes){.index = 1, .sizes = sizes, .size_count = 2}, "x");
    const struct eval_view views[] = {{0}, {DT_u8, (uint8_t[]){0, 2, 9, 255}, (int64_t[]){1, 2}}};
    expect_view(b, &(struct eval_inputs){.inputs = views, .input_count = 2}, x,
                (bool[]){false, true, true, true});
}

static void case_state(struct bench *b)
{
    const struct data initial = {.name = "s",
                                 .dtype = DT_bool,
                                 .rank = 1,
                                 .sizes = (int64_t[]){4},
                                 .strides = (int64_t[]){1}};
    cr_assert(
        array_push(&b->graph.buffers, (struct graph_buffer){.name = "s", .initial = &initial}));
    const value s =
        graph_add(&b->graph, OP_state, DT_bool, NULL, 0, &(struct attributes){.index = 0}, "s");
    const struct eval_view view = {DT_bool, (bool[]){true, false, false, true}, NULL};
    expect_view(b, &(struct eval_inputs){.states = &view, .state_count = 1}, s,
                (bool[]){true, false, false, true});
}

static void case_data(struct bench *b)
{
    expect_f32(b, f32(b, SHAPE(2, 1), 1, 2), SHAPE(2, 1), 1, 2);
    const struct storage storage = {(int64_t[]){0, 1, 2, 3, 4}, 40, 1};
    const struct data data = {"d", DT_i64, 2, (int64_t[]){2, 2}, (int64_t[]){1, -2}, 3, &storage};
    expect_i64(
        b,
        graph_add(&b->graph, OP_data, DT_i64, NULL, 0, &(struct attributes){.data = &data}, NULL),
        SHAPE(2, 2), 3, 1, 4, 2);
    const struct data beyond = {"d", DT_i64, 1, (int64_t[]){3}, (int64_t[]){1}, 3, &storage};
    struct eval_tensor out;
    const value bad =
        graph_add(&b->graph, OP_data, DT_i64, NULL, 0, &(struct attributes){.data = &beyond}, NULL);
    cr_assert_eq(eval_value(&b->graph, &b->options, bad, &out, &b->out_of_range),
                 PHASOR_ERROR_FILE);
}

static void case_scalar(struct bench *b)
{
    expect_bytes(b, graph_float(&b->graph, DT_bf16, 0.1), DT_bf16, SCALAR_SHAPE,
                 (uint16_t[]){0x3dcd});
    expect_c64(b, graph_scalar(&b->graph, DT_c64, (struct number){.re = 0.1, .im = -0.0}),
               SCALAR_SHAPE, 0.1f, -0.0f);
    expect_i64(b, graph_scalar(&b->graph, DT_i64, (struct number){.i = INT64_MAX}), SCALAR_SHAPE,
               INT64_MAX);
    /* As an operand of a MAP row it is not rounded to bf16: 203 * 0.1 is 20.3, 203 * bf16(0.1) is
     * 20.32. */
    const value x = bench_data(b, DT_bf16, SHAPE(1), (uint16_t[]){0x434b});
    expect_f32(b,
               graph_cast(&b->graph,
                          graph_map2(&b->graph, OP_mul, x, graph_float(&b->graph, DT_bf16, 0.1)),
                          DT_f32),
               SHAPE(1), 20.25f);
    expect_f32(b, graph_cast(&b->graph, graph_float(&b->graph, DT_bf16, 0.1), DT_f32), SCALAR_SHAPE,
               0.1f);
}

static void case_size(struct bench *b)
{
    const dim s = size_symbol(&b->sizes, "s0", 1, 100, 7);
    expect_i64(b, graph_size(&b->graph, size_mul(&b->sizes, s, s)), SCALAR_SHAPE, 49);
}

static void case_iota(struct bench *b)
{
    expect_i64(b, graph_iota(&b->graph, literal(b, 3)), SHAPE(3), 0, 1, 2);
}

/* -- CORE -------------------------------------------------------------------------------------- */

static void case_index(struct bench *b)
{
    const value x = counting(b, SHAPE(3, 2, 2));
    expect_i64(b, ADD(OP_index, AT(.axis = 0), x, i64(b, SHAPE(2, 1), 2, -3)), SHAPE(2, 1, 2, 2), 8,
               9, 10, 11, 0, 1, 2, 3);
    expect_i64(b, ADD(OP_index, AT(.axis = 1), x, i32(b, SHAPE(2), 0, 1), i64(b, SHAPE(1), -1)),
               SHAPE(3, 2), 1, 3, 5, 7, 9, 11);
    cr_assert_not(b->out_of_range);
    expect_i64(b, ADD(OP_index, AT(.axis = 0), counting(b, SHAPE(3)), i64(b, SHAPE(2), 3, -4)),
               SHAPE(2), 2, 0);
    cr_assert(b->out_of_range);
}

static void case_index_put(struct bench *b)
{
    const value x = counting(b, SHAPE(2, 3)), rows = i64(b, SHAPE(3), 1, 1, 0);
    expect_i64(b, ADD(OP_index_put, AT(.axis = 0), x, i64(b, SHAPE(3, 1), 7, 8, 9), rows),
               SHAPE(2, 3), 9, 9, 9, 8, 8, 8);
    expect_i64(b, ADD(OP_index_put, AT(.axis = 0, .flag = 1), x, i64(b, SHAPE(1), 10), rows),
               SHAPE(2, 3), 10, 11, 12, 23, 24, 25);
    expect_i64(
        b, ADD(OP_index_put, AT(.axis = 1), x, i64(b, SHAPE(2, 1), -1, -2), i64(b, SHAPE(1), -1)),
        SHAPE(2, 3), 0, 1, -1, 3, 4, -2);
    expect_c64(b,
               ADD(OP_index_put, AT(.axis = 0, .flag = 1), c64(b, SHAPE(2), 1, 1, 2, 2),
                   c64(b, SHAPE(1), 1, -1), i64(b, SHAPE(1), 5)),
               SHAPE(2), 1, 1, 3, 1);
    cr_assert(b->out_of_range);
}

static void case_gather(struct bench *b)
{
    const value x = counting(b, SHAPE(2, 3));
    expect_i64(b, ADD(OP_gather, AT(.axis = 1), x, i64(b, SHAPE(2, 2), 2, 0, 1, -1)), SHAPE(2, 2),
               2, 0, 4, 5);
    expect_i64(b, ADD(OP_gather, AT(.axis = 0), x, i32(b, SHAPE(1, 2), 1, 9)), SHAPE(1, 2), 3, 4);
    cr_assert(b->out_of_range);
}

static void case_scatter(struct bench *b)
{
    const value x = counting(b, SHAPE(2, 3)), index = i64(b, SHAPE(2, 2), 0, 0, 2, 2),
                source = i64(b, SHAPE(2, 3), 10, 20, 0, 30, 40, 0);
    expect_i64(b, ADD(OP_scatter, AT(.axis = 1, .flag = SCATTER_SET), x, index, source),
               SHAPE(2, 3), 20, 1, 2, 3, 4, 40);
    expect_i64(b, ADD(OP_scatter, AT(.axis = 1, .flag = SCATTER_ADD), x, index, source),
               SHAPE(2, 3), 30, 1, 2, 3, 4, 75);
    expect_i64(b, ADD(OP_scatter, AT(.axis = 1, .flag = SCATTER_MULTIPLY), x, index, source),
               SHAPE(2, 3), 0, 1, 2, 3, 4, 6000);
    expect_c64(b,
               ADD(OP_scatter, AT(.axis = 0, .flag = SCATTER_MULTIPLY), c64(b, SHAPE(1), 1, 2),
                   i64(b, SHAPE(1), 0), c64(b, SHAPE(1), 3, 4)),
               SHAPE(1), -5, 10);
}

static void case_argmax(struct bench *b)
{
    expect_i64(b, ADD(OP_argmax, AT(.axis = 1), f32(b, SHAPE(2, 3), 1, NAN, 9, 5, 5, -1)), SHAPE(2),
               1, 0);
    expect_i64(b, ADD(OP_argmax, AT(.axis = 0), flags(b, SHAPE(3), false, true, true)),
               SCALAR_SHAPE, 1);
}

static void case_argmin(struct bench *b)
{
    expect_i64(b, ADD(OP_argmin, AT(.axis = 0), i64(b, SHAPE(3, 2), 1, 2, 0, 3, 0, INT64_MIN)),
               SHAPE(2), 1, 2);
    expect_i64(b, ADD(OP_argmin, AT(.axis = 0), f64(b, SHAPE(3), 1, NAN, NAN)), SCALAR_SHAPE, 1);
}

static void case_cumsum(struct bench *b)
{
    expect_i64(b, ADD(OP_cumsum, AT(.axis = 0), counting(b, SHAPE(3, 2))), SHAPE(3, 2), 0, 1, 2, 4,
               6, 9);
    expect_c64(b, ADD(OP_cumsum, AT(.axis = 0), c64(b, SHAPE(2), 1, 2, 3, -4)), SHAPE(2), 1, 2, 4,
               -2);
}

static void case_cumprod(struct bench *b)
{
    expect_c64(b, ADD(OP_cumprod, AT(.axis = 1), c64(b, SHAPE(1, 2), 1, 2, 5, 6)), SHAPE(1, 2), 1,
               2, -7, 16);
    expect_f32(b, ADD(OP_cumprod, AT(.axis = 0), f32(b, SHAPE(3), 1e30f, 1e30f, 1e-30f)), SHAPE(3),
               1e30f, INFINITY, 1e30f);
}

static void case_sort_index(struct bench *b)
{
    expect_i64(b, ADD(OP_sort_index, AT(.axis = 0), f32(b, SHAPE(5), 2, NAN, 1, 2, -0.0f)),
               SHAPE(5), 4, 2, 0, 3, 1);
    expect_i64(b, ADD(OP_sort_index, AT(.axis = 0, .flag = 1), f32(b, SHAPE(5), 2, NAN, 1, 2, 0)),
               SHAPE(5), 1, 0, 3, 2, 4);
    expect_i64(
        b, ADD(OP_sort_index, AT(.axis = 0), i64(b, SHAPE(3, 2), 3, INT64_MAX, 1, 0, 2, INT64_MIN)),
        SHAPE(3, 2), 1, 2, 2, 1, 0, 0);
}

static void case_dot(struct bench *b)
{
    expect_i64(b, ADD(OP_dot, AT(0), counting(b, SHAPE(2, 3)), counting(b, SHAPE(3, 2))),
               SHAPE(2, 2), 10, 13, 28, 40);
    expect_c64(b,
               ADD(OP_dot, AT(0), c64(b, SHAPE(1, 2), 1, 2, 3, 4), c64(b, SHAPE(2, 1), 5, 6, 7, 8)),
               SHAPE(1, 1), -18, 68);
    expect_f32(b,
               ADD(OP_dot, AT(0), f32(b, SHAPE(2, 1, 1), 2, 3), f32(b, SHAPE(2, 1, 2), 1, 2, 3, 4)),
               SHAPE(2, 1, 2), 2, 4, 9, 12);
    expect_f32(b, ADD(OP_dot, AT(0), f32(b, SHAPE(1, 0), 0), f32(b, SHAPE(0, 1), 0)), SHAPE(1, 1),
               0);
}

static void case_unknown(struct bench *b)
{
    struct eval_tensor out;
    const struct attributes at = {
        .text = "aten.fft_fft.default", .sizes = (dim[]){1}, .size_count = 1};
    const value v =
        graph_add(&b->graph, OP_unknown, DT_c64, (value[]){counting(b, SHAPE(1))}, 1, &at, NULL);
    cr_assert_eq(eval_value(&b->graph, &b->options, v, &out, &b->out_of_range),
                 PHASOR_ERROR_REFUSED);
    cr_assert(strstr(message_get(), "aten.fft_fft.default"), "%s", message_get());
    cr_assert_null(out.bytes);
}

/* -- all of them ------------------------------------------------------------------------------- */

static void (*const cases[OP_COUNT])(struct bench *b) = {
#define VIEW(name, ...) [OP_##name] = case_##name,
#define REDUCE(name, ...) [OP_##name] = case_##name,
#define LEAF(name, ...) [OP_##name] = case_##name,
#define CORE(name, ...) [OP_##name] = case_##name,
#include "graph/ops.def"
};

ParameterizedTestParameters(eval_rows, right)
{
    static int rows[OP_COUNT];
    size_t count = 0;
    for (int op = 0; op < OP_COUNT; op++)
        if (op_info[op].kind != KIND_NONE && op_info[op].kind != KIND_MAP)
            rows[count++] = op;
    return cr_make_param_array(int, rows, count);
}

ParameterizedTest(int *op, eval_rows, right)
{
    struct bench b;
    int evaluated = 0;
    bench_open(&b);
    cases[*op](&b);
    for (size_t v = 1; v < b.graph.nodes.count; v++)
        evaluated += graph_node(&b.graph, (value)v)->op == (enum op) * op;
    cr_assert_gt(evaluated, 0, "%s was not evaluated", op_info[*op].name);
    bench_close(&b);
    ASSERT_NO_LEAKS();
}
