/* test_derived.c - dims that stand in an input only as an expression: solved for their symbols, in
 * calls, by name, and when a file is loaded; what is said where they cannot be.
 *
 * The programs cases/fault_derived_* hold the values. */
#include "load/loader.h"
#include "support/leak.h"
#include "support/runtime_case.h"

#include <inttypes.h>
#include <unistd.h>

/* -- expressions in one unknown ---------------------------------------------------------------- */

Test(derived, expressions)
{
    enum { OPEN, SOLVED, NO_NUMBER, KNOWN };
    static const struct {
        const char *text;
        bool s1_known; /* 5 */
        int64_t size;
        int result;
        int64_t number; /* SOLVED: s0; KNOWN: the size */
    } rows[] = {
        {"s0", false, 9, SOLVED, 9},
        {"Mul(Integer(2), Symbol('s0'))", false, 8, SOLVED, 4},
        {"Mul(Integer(2), Symbol('s0'))", false, 7, NO_NUMBER, 0},
        {"Mul(Integer(2), Symbol('s0'))", false, 2002, NO_NUMBER, 0}, /* s0 is in 1..1000 */
        {"Mul(Integer(2), Symbol('s0'))", false, 0, NO_NUMBER, 0},
        {"Add(Mul(Integer(3), Symbol('s0')), Integer(-2))", false, 1, SOLVED, 1},
        {"Add(Integer(22), Mul(Integer(-1), Symbol('s0')))", false, 12, SOLVED, 10},
        {"Add(Integer(22), Mul(Integer(-2), Symbol('s0')))", false, 13, NO_NUMBER, 0},
        {"Add(Symbol('s0'), Symbol('s1'))", false, 7, OPEN, 0},
        {"Add(Symbol('s0'), Symbol('s1'))", true, 7, SOLVED, 2},
        {"Add(Symbol('s0'), Mul(Integer(-1), Symbol('s1')))", true, 7, SOLVED, 12},
        {"Mul(Symbol('s0'), Symbol('s1'))", true, 35, SOLVED, 7},
        {"Mul(Symbol('s0'), Symbol('s1'))", true, 36, NO_NUMBER, 0},
        {"Add(Mul(Symbol('s0'), Symbol('s1')), Mul(Integer(2), Symbol('s0')))", true, 35, SOLVED,
         5},
        {"Pow(Symbol('s0'), Integer(2))", false, 36, OPEN, 0},
        {"FloorDiv(Symbol('s0'), Integer(2))", false, 3, OPEN, 0},
        {"FloorDiv(Symbol('s1'), Integer(2))", true, 3, KNOWN, 2},
        {"Add(FloorDiv(Symbol('s1'), Integer(2)), Mul(Integer(4), Symbol('s0')))", true, 14, SOLVED,
         3},
        {"Mul(Integer(2), Symbol('s1'))", true, 3, KNOWN, 10},
        {"Add(Mul(Symbol('s0'), Symbol('s1')), Mul(Integer(-5), Symbol('s0')), Integer(4))", true,
         9, KNOWN, 4},
        {"Mul(Integer(4611686018427387904), Symbol('s1'))", true, 3, OPEN, 0},
        {"Add(Symbol('s0'), Integer(-9223372036854775807))", false, INT64_MAX, NO_NUMBER, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena arena = {0};
        struct sizes sizes;
        struct size_affine affine;
        int64_t number = 0;
        dim d;
        cr_assert_eq(sizes_init(&sizes, &arena), PHASOR_OK);
        size_symbol(&sizes, "s0", 1, 1000, 1);
        size_symbol(&sizes, "s1", 1, 1000, 1);
        cr_assert_eq(symbols_parse(&sizes, rows[i].text, 1, &d), PHASOR_OK, "%s", message_get());
        const bool known[2] = {false, rows[i].s1_known};
        const int64_t values[2] = {2, 5};
        int result = OPEN;
        if (size_affine(&sizes, d, known, values, &affine)) {
            result = affine.factor == 0                                          ? KNOWN
                     : size_affine_solve(&sizes, &affine, rows[i].size, &number) ? SOLVED
                                                                                 : NO_NUMBER;
            number = result == KNOWN ? affine.rest : number;
        }
        cr_expect_eq(result, rows[i].result, "%s: %d", rows[i].text, result);
        if (result == SOLVED || result == KNOWN)
            cr_expect_eq(number, rows[i].number, "%s: %" PRId64, rows[i].text, number);
        sizes_free(&sizes);
        arena_free(&arena);
    }
    ASSERT_NO_LEAKS();
}

/* The range of a symbol from that of its expression; no bound stays none. */
Test(derived, ranges)
{
    static const struct {
        int64_t factor, rest, low, high, from, to;
    } rows[] = {
        {2, 0, 4, 128, 2, 64},
        {2, 1, 3, 33, 1, 16},
        {3, -2, 2, 46, 2, 16},
        {4, 0, 1, 63, 1, 15},
        {-1, 22, 6, 20, 2, 16},
        {-2, 21, 6, 20, 1, 7},
        {2, 0, 4, INT64_MAX, 2, INT64_MAX},
        {-2, 0, INT64_MIN, -4, 2, INT64_MAX},
        {1, INT64_MAX, INT64_MIN + 1, 5, INT64_MIN, 5 - INT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct size_affine affine = {.factor = rows[i].factor, .rest = rows[i].rest};
        int64_t from, to;
        size_affine_range(&affine, rows[i].low, rows[i].high, &from, &to);
        cr_expect_eq(from, rows[i].from, "row %zu: from %" PRId64, i, from);
        cr_expect_eq(to, rows[i].to, "row %zu: to %" PRId64, i, to);
    }
    ASSERT_NO_LEAKS();
}

/* -- calls ------------------------------------------------------------------------------------- */

static phasor_program *text_program(phasor_runtime *runtime, const char *text)
{
    char path[] = "/tmp/derived_XXXXXX.phasor";
    phasor_program *program = NULL;
    const int file = mkstemps(path, 7);
    cr_assert(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    ASSERT_OK(phasor_program_load(runtime, path, NULL, &program));
    unlink(path);
    return program;
}

/* x has one dim, y another, n is an integer. */
static phasor_status prepare(phasor_program *program, int64_t x, int64_t y, int64_t n)
{
    DLTensor tensors[2] = {{.ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &x},
                           {.ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &y}};
    phasor_value values[3] = {{.kind = PHASOR_TENSOR, .tensor = &tensors[0]},
                              {.kind = PHASOR_TENSOR, .tensor = &tensors[1]},
                              {.kind = PHASOR_INT, .integer = n}};
    for (int i = 0; i < 2; i++)
        tensors[i].device.device_type = kDLCPU;
    return phasor_program_prepare(program, values, 3);
}

Test(derived, calls)
{
    static const struct {
        const char *symbols, *x, *y, *n;
        int64_t sizes[3];
        const char *message; /* NULL: it fits */
    } rows[] = {
        {"symbol a in 1..16 = 3", "2*a", "a + 1", "a", {8, 5, 4}, NULL},
        {"symbol a in 1..16 = 3", "2*a", "a + 1", "3*a", {2, 2, 3}, NULL},
        {"symbol a in 1..16 = 3",
         "2*a",
         "2*a",
         "7",
         {7, 7, 7},
         "input x, dim 0: the size is 7; expected 2*a with a in 1..16, such as 6 or 8"},
        {"symbol a in 1..16 = 3",
         "2*a",
         "2*a",
         "7",
         {40, 40, 7},
         "input x, dim 0: the size is 40; expected 2*a with a in 1..16, such as 32"},
        {"symbol a in 2.. = 3",
         "4*a - 1",
         "1",
         "7",
         {3, 1, 7},
         "input x, dim 0: the size is 3; expected 4*a - 1 with a at least 2, such as 7"},
        {"symbol a in 1..16 = 3",
         "2*a",
         "a + 1",
         "a",
         {8, 6, 4},
         "input y, dim 0: the size is 6, but a + 1 is 5 (a = 4 from input n)"},
        {"symbol a in 1..16 = 3",
         "2*a",
         "a",
         "a",
         {8, 5, 5},
         "input x, dim 0: the size is 8, but 2*a is 10 (a = 5 from input y, dim 0)"},
        {"symbol a in 1..16 = 3",
         "2*a",
         "4*a",
         "5*a",
         {8, 16, 21},
         "input n: the size is 21, but 5*a is 20 (a = 4 from input x, dim 0)"},
        {"symbol a in 1..16 = 3\nsymbol b in 1..16 = 2", "a + b", "b", "9", {7, 3, 9}, NULL},
        {"symbol a in 1..16 = 3\nsymbol b in 1..16 = 2", "a + b", "2*a + b", "b", {7, 11, 3}, NULL},
        {"symbol a in 1..16 = 3\nsymbol b in 1..16 = 2", "a*b", "1", "2*b", {21, 1, 6}, NULL},
        {"symbol a in 1..16 = 3\nsymbol b in 1..16 = 2",
         "a + b",
         "b",
         "b",
         {3, 3, 3},
         "input x, dim 0: the size is 3; expected a + b with a in 1..16, such as 4"},
        {"symbol a in 1..16 = 3\nsymbol b in 1..16 = 2",
         "a + b",
         "2*a + b",
         "b",
         {7, 12, 3},
         "input y, dim 0: the size is 12, but 2*a + b is 11 (a = 4 from input x, dim 0; b = 3 from "
         "input n)"},
        {"symbol a in 1..16 = 3\nsymbol b in 1..16 = 2", "a + b", "1", "1", {5, 1, 1}, NULL},
        {"symbol a in 1..16 = 3\nsymbol b in 1..16 = 2",
         "a + b",
         "1",
         "1",
         {6, 1, 1},
         "input x, dim 0: the size is 6, but a + b is 5 (a = 3, the example's: no input says what "
         "it is; b = 2, the example's: no input says what it is)"},
        {"symbol a in 1..16 = 3", "floordiv(a, 2)", "a", "1", {3, 7, 1}, NULL},
        {"symbol a in 1..16 = 3",
         "floordiv(a, 2)",
         "a",
         "1",
         {4, 7, 1},
         "input x, dim 0: the size is 4, but floordiv(a, 2) is 3 (a = 7 from input y, dim 0)"},
        {"symbol a in 1..16 = 3\nsymbol b in 1..16 = 3",
         "floordiv(a, b - 2)",
         "a",
         "b",
         {4, 7, 2},
         "input x, dim 0: floordiv(a, b - 2) cannot be computed with a = 7 from input y, dim 0; b "
         "= 2 from input n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int where = ON_CPU; where <= ON_CUDA; where++) {
            const phasor_options options = options_for((enum where)where);
            phasor_runtime *runtime;
            char text[512];
            snprintf(text, sizeof text,
                     "phasor 1 \"t\"\n%s\ninput x: f32[%s]\ninput y: f32[%s]\ninput n: int %s\n"
                     "output p\noutput q\n\np = neg(x)\nq = neg(y)\n",
                     rows[i].symbols, rows[i].x, rows[i].y, rows[i].n);
            ASSERT_OK(phasor_open(&runtime, &options));
            phasor_program *program = text_program(runtime, text);
            const int64_t *sizes = rows[i].sizes;
            if (rows[i].message)
                ASSERT_FAILS(prepare(program, sizes[0], sizes[1], sizes[2]), PHASOR_ERROR_INPUT,
                             rows[i].message);
            else
                ASSERT_OK(prepare(program, sizes[0], sizes[1], sizes[2]));
            phasor_program_close(program);
            phasor_close(runtime);
        }
    ASSERT_NO_LEAKS();
}

/* -- by name ----------------------------------------------------------------------------------- */

Test(derived, names)
{
    static const struct {
        phasor_binding names[3];
        int count;
        int64_t dims[3];
        const char *message; /* NULL: these dims */
    } rows[] = {
        {{{"x.0", 7}}, 1, {7, 5, 2}, NULL},
        {{{"a", 5}}, 1, {11, 7, 2}, NULL},
        {{{"y.0", 9}, {"x.0", 9}}, 2, {9, 9, 5}, NULL},
        {{{"n", 4}, {"x.0", 3}}, 2, {3, 5, 4}, NULL},
        {{{"x.0", 8}},
         1,
         {0},
         "x.0: 8 is impossible: expected 2*a + 1 with a in 1..16, such as 7 or 9"},
        {{{"x.0", 35}},
         1,
         {0},
         "x.0: 35 is impossible: expected 2*a + 1 with a in 1..16, such as 33"},
        {{{"y.0", 9}}, 1, {0}, "y.0 is a + b: give the symbols in it, or all but one"},
        {{{"y.0", 9}, {"a", 4}, {"n", 4}}, 3, {0}, "y.0: 9 was asked for, but a + b is 8"},
        {{{"a", 4}, {"x.0", 7}}, 2, {0}, "x.0: 7 was asked for, but 2*a + 1 is 9"},
        {{{"b", 99}}, 1, {0}, "b: 99 is out of range: b must be in 1..16"},
    };
    const phasor_options options = options_for(ON_CPU);
    phasor_runtime *runtime;
    ASSERT_OK(phasor_open(&runtime, &options));
    phasor_program *program = text_program(
        runtime, "phasor 1 \"t\"\nsymbol a in 1..16 = 3\nsymbol b in 1..16 = 2\n"
                 "input x: f32[2*a + 1]\ninput y: f32[a + b]\ninput n: int b\noutput p\n\n"
                 "p = neg(x)\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t dims[3] = {0};
        const phasor_status status =
            phasor_program_sizes(program, rows[i].names, rows[i].count, dims, 3);
        if (rows[i].message) {
            cr_expect_eq(status, PHASOR_ERROR_INPUT, "row %zu", i);
            cr_expect(strstr(phasor_message(), rows[i].message), "row %zu: %s", i,
                      phasor_message());
            continue;
        }
        cr_expect_eq(status, PHASOR_OK, "row %zu: %s", i, phasor_message());
        cr_expect_arr_eq(dims, rows[i].dims, sizeof dims, "row %zu: %" PRId64 " %" PRId64, i,
                         dims[0], dims[1]);
    }
    phasor_program_close(program);
    phasor_close(runtime);
    ASSERT_NO_LEAKS();
}

static void dim_expect(const phasor_dim *got, int64_t size, const char *symbol, int64_t min,
                       int64_t max, int64_t example, int64_t step)
{
    cr_expect_eq(got->size, size);
    cr_expect(symbol ? got->symbol && strcmp(got->symbol, symbol) == 0 : !got->symbol, "%s",
              got->symbol);
    cr_expect_eq(got->min, min, "%s: %" PRId64, symbol, got->min);
    cr_expect_eq(got->max, max, "%s: %" PRId64, symbol, got->max);
    cr_expect_eq(got->example, example, "%s: %" PRId64, symbol, got->example);
    cr_expect_eq(got->step, step, "%s: %" PRId64, symbol, got->step);
}

Test(derived, descriptions)
{
    const phasor_options options = options_for(ON_CPU);
    phasor_runtime *runtime;
    phasor_spec spec = {.size = sizeof spec};
    phasor_dim found;
    ASSERT_OK(phasor_open(&runtime, &options));
    phasor_program *program = text_program(
        runtime, "phasor 1 \"t\"\nsymbol a in 1..16 = 3\nsymbol b in 2.. = 2\n"
                 "input x: f32[6*a + 4*b + 1, 5]\ninput n: int 3*a\noutput p\n\np = neg(x)\n");
    ASSERT_OK(phasor_program_input(program, 0, &spec));
    dim_expect(&spec.dims[0], -1, "6*a + 4*b + 1", 15, INT64_MAX, 27, 2);
    dim_expect(&spec.dims[1], 5, NULL, 5, 5, 5, 1);
    ASSERT_OK(phasor_program_dim(program, "x.0", &found));
    dim_expect(&found, -1, "6*a + 4*b + 1", 15, INT64_MAX, 27, 2);
    ASSERT_OK(phasor_program_dim(program, "n", &found));
    dim_expect(&found, -1, "3*a", 3, 48, 9, 3);
    ASSERT_OK(phasor_program_dim(program, "a", &found));
    dim_expect(&found, -1, "a", 1, 16, 3, 1);
    ASSERT_FAILS(phasor_program_dim(program, "c", &found), PHASOR_ERROR_INPUT, "symbols: a, b");
    ASSERT_FAILS(phasor_program_dim(program, "x.2", &found), PHASOR_ERROR_INPUT, "2 dims");
    phasor_program_close(program);
    phasor_close(runtime);
    ASSERT_NO_LEAKS();
}

/* -- files ------------------------------------------------------------------------------------- */

/* PyTorch writes 2 as the least value of a symbol that is no dim by itself; the program asked for
 * 1, which stands at the expression. */
Test(derived, range_of_a_file)
{
    struct opened o;
    phasor_spec spec = {.size = sizeof spec};
    opened_case(&o, ON_CPU, "fault_derived_multiple", "plain");
    ASSERT_OK(phasor_program_input(o.program, 0, &spec));
    cr_expect_eq(spec.dims[0].min, spec.dims[0].step);
    cr_expect_gt(spec.dims[0].step, 1);
    opened_close(&o);
    ASSERT_NO_LEAKS();
}
