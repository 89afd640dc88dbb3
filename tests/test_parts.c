/* test_parts.c - parts of a launch that become one body, and those that must not.
 *
 *     read16(a.p1, i) / 512u    read16(a.p4, i) / 128u    ->    read16(s0, i) / s1
 */
#include "codegen/parts.h"
#include "support/leak.h"

#include <criterion/criterion.h>
#include <string.h>

static const char head[] = "DEVICE void body%d(const args &a, index_t i)\n{\n%s}\n";

/* The merged text, to be freed; its text is empty where they stay apart. */
static struct text merge(const char *const *bodies, int count)
{
    struct text functions = {0};
    size_t starts[8];
    bool alike;
    for (int part = 0; part < count; part++) {
        starts[part] = functions.length;
        text_format(&functions, head, part, bodies[part]);
    }
    const size_t before = functions.length;
    cr_assert_eq(parts_merge(&functions, starts, count, &alike), PHASOR_OK);
    if (!alike) {
        cr_assert_eq(functions.length, before, "what stays apart is as it was");
        text_free(&functions);
        functions = (struct text){0};
    }
    return functions;
}

static void expect_merged(const char *first, const char *second, const char *expected)
{
    const char *bodies[] = {first, second};
    struct text merged = merge(bodies, 2);
    cr_assert_str_eq(text_get(&merged), expected);
    text_free(&merged);
}

static void expect_apart(const char *first, const char *second)
{
    const char *bodies[] = {first, second};
    struct text merged = merge(bodies, 2);
    cr_assert_str_empty(text_get(&merged), "%s and %s became one", first, second);
    text_free(&merged);
}

Test(parts, operands_and_sizes_are_chosen)
{
    expect_merged("    const index_t d1 = i / 512u % 129u;\n"
                  "    stream16(a.p0, i, read16(a.p1, d1 + 5u) + read16(a.p2, d1 + 512u));\n",
                  "    const index_t d1 = i / 128u % 129u;\n"
                  "    stream16(a.p3, i, read16(a.p4, d1 + 7u) + read16(a.p2, d1 + 128u));\n",
                  "DEVICE void body(const args &a, int part, index_t i)\n{\n"
                  "    const auto s0 = part == 0 ? 512u : 128u;\n"
                  "    const auto s1 = part == 0 ? a.p0 : a.p3;\n"
                  "    const auto s2 = part == 0 ? a.p1 : a.p4;\n"
                  "    const auto s3 = part == 0 ? 5u : 7u;\n"
                  "    const index_t d1 = i / s0 % 129u;\n"
                  "    stream16(s1, i, read16(s2, d1 + s3) + read16(a.p2, d1 + s0));\n}\n");
    ASSERT_NO_LEAKS();
}

Test(parts, three_parts)
{
    const char *bodies[] = {"    f(a.p0, a.m1, 64ull);\n", "    f(a.p2, a.m3, 32ull);\n",
                            "    f(a.p0, a.m4, 64ull);\n"};
    struct text merged = merge(bodies, 3);
    cr_assert_str_eq(text_get(&merged),
                     "DEVICE void body(const args &a, int part, index_t i)\n{\n"
                     "    const auto s0 = part == 0 ? a.p0 : part == 1 ? a.p2 : a.p0;\n"
                     "    const auto s1 = part == 0 ? a.m1 : part == 1 ? a.m3 : a.m4;\n"
                     "    const auto s2 = part == 0 ? 64ull : part == 1 ? 32ull : 64ull;\n"
                     "    f(s0, s1, s2);\n}\n");
    text_free(&merged);
    ASSERT_NO_LEAKS();
}

/* A division by a literal is a multiplication; by one of two it would be a division. */
Test(parts, divisors_that_are_no_powers_of_two)
{
    expect_apart("    f(i / 96u);\n", "    f(i / 64u);\n");
    expect_apart("    f(i % 64u);\n", "    f(i % 7u);\n");
    expect_apart("    f(i % 0u);\n", "    f(i % 8u);\n");
    ASSERT_NO_LEAKS();
}

Test(parts, what_is_not_alike)
{
    expect_apart("    f(a.p0);\n", "    f(a.p1, i);\n");
    expect_apart("    f(a.p0);\n", "    f(a.p1);\n    g(i);\n");
    expect_apart("    f(a.p0);\n    g(i);\n", "    f(a.p1);\n");
    expect_apart("    f(a.p0);\n", "    g(a.p0);\n");
    expect_apart("    f(a.p0);\n", "    f(a.n1);\n");
    expect_apart("    f(a.p0);\n", "    f(4u);\n");
    expect_apart("    f(4u);\n", "    f(4ull);\n");
    expect_apart("    f(x0.w[0]);\n", "    f(x0.w[1]);\n");
    expect_apart("    f(1.5f);\n", "    f(2.5f);\n");
    expect_apart("    x = across<4>(x);\n", "    x = across<8>(x);\n");
    ASSERT_NO_LEAKS();
}

Test(parts, too_many)
{
    struct text first = {0}, second = {0};
    const char *bodies[] = {"    f(a.p0);\n", "    f(a.p1);\n", "    f(a.p2);\n", "    f(a.p3);\n",
                            "    f(a.p4);\n"};
    struct text merged = merge(bodies, PARTS_ALIKE_MOST);
    cr_assert_not_null(strstr(text_get(&merged), "part == 2 ? a.p2 : a.p3;"));
    text_free(&merged);
    merged = merge(bodies, PARTS_ALIKE_MOST + 1);
    cr_assert_str_empty(text_get(&merged));
    text_free(&merged);
    for (int i = 0; i < 17; i++) {
        text_format(&first, "    f(a.p%d);\n", i);
        text_format(&second, "    f(a.p%d);\n", 20 + i);
    }
    expect_apart(text_get(&first), text_get(&second));
    text_free(&first);
    text_free(&second);
    ASSERT_NO_LEAKS();
}
