/* test_symbols.c - size expressions in SymPy's srepr: what they become, and their values for s0 =
 * 12, s1 = 5, u0 = 7. */
#include "load/loader.h"
#include "support/leak.h"

#include <inttypes.h>
#include <string.h>

struct pool {
    struct arena arena;
    struct sizes sizes;
};

static void pool_open(struct pool *pool)
{
    memset(pool, 0, sizeof *pool);
    cr_assert_eq(sizes_init(&pool->sizes, &pool->arena), PHASOR_OK);
    size_symbol(&pool->sizes, "s0", 2, 1000, 12);
    size_symbol(&pool->sizes, "s1", 2, 1000, 5);
}

static void pool_close(struct pool *pool)
{
    sizes_free(&pool->sizes);
    arena_free(&pool->arena);
}

#define S0 "Symbol('s0', integer=True, positive=True)"
#define S1 "Symbol('s1', positive=True, integer=True)"

Test(symbols, values)
{
    static const struct {
        const char *text;
        int64_t number;
        const char *printed; /* NULL: not looked at */
    } rows[] = {
        {S0, 12, "s0"},
        {"s0", 12, "s0"},
        {"7", 7, "7"},
        {"Integer(-1)", -1, "-1"},
        {"Integer(9223372036854775807)", INT64_MAX, NULL},
        {"Symbol('u0', integer=True)", 7, "u0"},
        {"Mul(Integer(2), " S0 ")", 24, "2*s0"},
        {"Add(" S0 ", Mul(Integer(-1), " S1 "), Integer(1))", 8, NULL},
        {"Mul(Rational(1, 2), " S0 ")", 6, NULL},
        {"Mul(Rational(1, 2), Mul(Integer(4), " S0 "))", 24, "2*s0"},
        {"Add(Mul(Rational(1, 3), " S0 "), Rational(1, 2), Rational(1, 2))", 5, NULL},
        {"Mul(" S0 ", Pow(" S0 ", Integer(-1)))", 1, "1"},
        {"Pow(" S0 ", Integer(2))", 144, "s0*s0"},
        {"Pow(Integer(2), " S1 ")", 32, NULL},
        {"FloorDiv(" S0 ", Integer(5))", 2, NULL},
        {"FloorDiv(Integer(-7), Integer(2))", -4, NULL},
        {"CleanDiv(Mul(Integer(6), " S0 "), Integer(3))", 24, "2*s0"},
        {"CeilDiv(" S0 ", Integer(5))", 3, NULL},
        {"Mod(" S0 ", Integer(5))", 2, NULL},
        {"PythonMod(Integer(-7), Integer(4))", 1, NULL},
        {"ModularIndexing(" S0 ", Integer(2), Integer(4))", 2, NULL},
        {"Max(Integer(1), " S0 ", Integer(20))", 20, NULL},
        {"Min(Integer(64), Mul(Integer(64), " S0 "))", 64, "64"},
        {"floor(Mul(Rational(5, 7), " S0 "))", 8, NULL},
        {"ceiling(Mul(Rational(5, 7), " S0 "))", 9, NULL},
        {"CeilToInt(IntTrueDiv(" S0 ", Integer(7)))", 2, NULL},
        {"Abs(Add(" S1 ", Mul(Integer(-1), " S0 ")))", 7, NULL},
        {"Identity(" S1 ")", 5, "s1"},
        {"Equality(" S0 ", " S1 ")", 0, NULL},
        {"Equality(" S0 ", " S0 ")", 1, "1"},
        {"Unequality(" S0 ", " S1 ")", 1, NULL},
        {"StrictGreaterThan(" S0 ", " S1 ")", 1, NULL},
        {"GreaterThan(" S0 ", Integer(2))", 1, NULL},
        {"StrictLessThan(" S0 ", " S1 ")", 0, NULL},
        {"LessThan(Mul(Rational(1, 2), " S0 "), Rational(13, 2))", 1, NULL},
        {"And(true, LessThan(" S1 ", " S0 "))", 1, NULL},
        {"Or(false, Not(LessThan(" S1 ", " S0 ")))", 0, NULL},
        {"Where(LessThan(" S1 ", " S0 "), " S0 ", Integer(3))", 12, NULL},
        {"LShift(" S0 ", Integer(2))", 48, NULL},
        {"RShift(" S0 ", Integer(2))", 3, NULL},
        {" Add( s0 ,\n s1 , evaluate_ ) ", 24, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pool pool;
        struct text text = {0};
        dim d;
        pool_open(&pool);
        cr_assert_eq(symbols_parse(&pool.sizes, rows[i].text, 7, &d), PHASOR_OK, "%s",
                     message_get());
        cr_assert_eq(size_value(&pool.sizes, d), rows[i].number, "%s is %" PRId64, rows[i].text,
                     size_value(&pool.sizes, d));
        size_print(&pool.sizes, d, &text);
        cr_assert(!rows[i].printed || strcmp(text_get(&text), rows[i].printed) == 0, "%s prints %s",
                  rows[i].text, text_get(&text));
        text_free(&text);
        pool_close(&pool);
    }
    ASSERT_NO_LEAKS();
}

Test(symbols, what_is_no_size)
{
    static const char *const rows[] = {
        "",
        "(",
        "Add(",
        "Add(s0",
        "Add(s0,)",
        "s0 s1",
        "Symbol()",
        "Symbol('')",
        "Symbol('a\"",
        "Symbol('a', b)",
        "Integer()",
        "Integer(1.5)",
        "1.5",
        "Integer(9223372036854775808)",
        "Rational(1, 0)",
        "Rational(1, -2)",
        "Float('1.5', precision=53)",
        "oo",
        "-oo",
        "int_oo",
        "nan",
        "Mod(s0)",
        "Nothing(s0)",
        "FloorDiv(s0, Integer(0))",
        "Mod(s0, Integer(0))",
        "Mul(Integer(9223372036854775807), Integer(2))",
        "Pow(Integer(10), Integer(30))",
        "Pow(Integer(0), Integer(-1))",
        "Symbol('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')",
        "s0)",
        "Add(s0))",
        "--",
        "-",
        "\xff",
        "LShift(Integer(1), Integer(70))",
        "Abs(Integer(-9223372036854775808))"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pool pool;
        dim d;
        pool_open(&pool);
        cr_assert_neq(symbols_parse(&pool.sizes, rows[i], 7, &d), PHASOR_OK, "%s is %" PRId64,
                      rows[i], size_value(&pool.sizes, d));
        pool_close(&pool);
    }
    ASSERT_NO_LEAKS();
}
