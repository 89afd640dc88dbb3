/* test_rewrite.c - the passes on .phasor texts: a real form that is written down, and before ==
 * after on random bytes.
 *
 * tests/text/rewrite_*.phasor hold a program and, after "# >>> real", what it becomes under the
 * rule set all with fused products. PHASOR_BLESS=1 writes those blocks anew: read the difference
 * before keeping it. */
#include "support/rewritten.h"

#include "graph/blocks.h"
#include "support/leak.h"
#include "support/rewrite_programs.h"

#include <stdio.h>

static const struct tolerance exact = {0, 0}, close_to = {2e-6, 1e-37};

/* -- real forms -------------------------------------------------------------------------------- */

static char *file_path(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/rewrite_%s.phasor", PHASOR_TEST_TEXT, name);
    return path;
}

static char *file_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    char *text = calloc(1, 1 << 16);
    fread(text, 1, (1 << 16) - 1, file);
    fclose(file);
    return text;
}

static void file_bless(const char *path, const char *text, const char *real)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file, "%s", path);
    fprintf(file, "%.*s# >>> real\n%s", (int)(graph_block_first(text) - text), text, real);
    fclose(file);
}

static void check_real_form(const char *name)
{
    struct rewritten r;
    struct text printed = {0};
    char *text = file_read(file_path(name));
    rewritten_open(&r, text, PHASOR_RULES_ALL, true);
    cr_assert(r.done);
    graph_print(&r.real, &printed);

    const char *start = "";
    size_t length = 0;
    if (getenv("PHASOR_BLESS"))
        file_bless(file_path(name), text, text_get(&printed));
    else
        cr_assert(graph_block_find(text, "real", &start, &length), "%s has no block real", name);
    if (length)
        cr_assert(length == printed.length && memcmp(start, printed.at, length) == 0,
                  "%s became\n%s", name, text_get(&printed));
    rewritten_compare(&r, 1, exact);
    text_free(&printed);
    free(text);
    rewritten_close(&r);
}

Test(rewrite, real_forms)
{
    static const char *const names[] = {"product", "real_product", "views",
                                        "slots",   "fold",         "simplify"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_real_form(names[i]);
    ASSERT_NO_LEAKS();
}

/* -- every row --------------------------------------------------------------------------------- */

static const double specials[] = {
    0,        -0.0,      1,     -1,    0.5, -2,   1e-30, -1e-30,
    1e20,     -1e20,     3e38,  -3e38, 100, -100, 88.5,  1.5707963267948966,
    INFINITY, -INFINITY, 1e-41, NAN};
enum { SPECIAL_COUNT = sizeof specials / sizeof *specials };

/* "complex numbers in, one operator, its result out" for a MAP row; false where it does not work
 * on complex numbers. */
static bool row_text(enum op op, const char *dtype, char *text, size_t size)
{
    const struct op_info *info = &op_info[op];
    if (info->kind != KIND_MAP || info->complex == COMPLEX_NEVER || info->type == TYPE_CAST ||
        info->type == TYPE_MAKE)
        return false;
    snprintf(text, size,
             "phasor 1 \"%s\"\ninput m: bool[40, 30]\ninput x: %s[40, 30]\ninput y: %s[30]\nr = "
             "%s(%s) \noutput r\n",
             info->name, dtype, dtype, info->name,
             info->type == TYPE_PICK ? "m, x, y"
             : info->arity == 2      ? "x, y"
                                     : "x");
    return true;
}

static void check_row(enum op op, const char *dtype, struct values values,
                      struct tolerance tolerance)
{
    struct rewritten r;
    char text[512];
    if (!row_text(op, dtype, text, sizeof text))
        return;
    for (int fma = 0; fma < 2; fma++) {
        rewritten_open(&r, text, PHASOR_RULES_ALL, fma);
        rewritten_compare_values(&r, values, tolerance);
        rewritten_close(&r);
    }
}

Test(rewrite, rows_on_random_numbers)
{
    for (int op = OP_none + 1; op < OP_COUNT; op++) {
        const bool made_of_others = op_info[op].domain != DOMAIN_ANY || op_info[op].ulp > 0;
        const struct tolerance wide = {1e-5, 1e-5}, fine = {1e-12, 1e-14};
        check_row((enum op)op, "c64", (struct values){.state = (uint64_t)op},
                  made_of_others ? wide : exact);
        check_row((enum op)op, "c128", (struct values){.state = (uint64_t)op},
                  made_of_others ? fine : exact);
    }
    ASSERT_NO_LEAKS();
}

/* Zeros, infinities, NaN, the largest and the smallest numbers: as the C library has them, which
 * eager calls. */
Test(rewrite, rows_on_special_numbers)
{
    for (int op = OP_none + 1; op < OP_COUNT; op++) {
        const struct values values = {
            .state = 7, .special = specials, .special_count = SPECIAL_COUNT};
        if (op != OP_pow)
            check_row((enum op)op, "c64", values, close_to);
    }
    ASSERT_NO_LEAKS();
}

/* -- programs ---------------------------------------------------------------------------------- */

Test(rewrite, programs_compute_the_same)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int fma = 0; fma < 2; fma++) {
            struct rewritten r;
            rewritten_open(&r, programs[i].body, PHASOR_RULES_ALL, fma);
            cr_assert(r.done, "%s: %s", programs[i].body, r.refusals.at[0].reason);
            for (uint64_t seed = 1; seed <= 3; seed++)
                rewritten_compare(&r, seed, programs[i].tolerance);
            rewritten_close(&r);
        }
    ASSERT_NO_LEAKS();
}

/* -- folding ----------------------------------------------------------------------------------- */

/* An index out of range in constants is not hidden in a table: the call reports it. */
Test(rewrite, constants_out_of_range_are_left_to_the_call)
{
    struct rewritten r;
    rewritten_open(&r,
                   "phasor 1 \"program\"\ninput x: f32[2]\ndata w: f32[3] = [1, 2, 3]\n"
                   "data i: i64[2] = [1, 7]\nt = index(w, i) axis=0\nr = add(x, t)\noutput r\n",
                   PHASOR_RULES_ALL, true);
    bool found = false;
    for (size_t v = 1; v < r.real.nodes.count; v++)
        found |= r.real.nodes.at[v].op == OP_index;
    cr_assert(found);
    rewritten_close(&r);
    ASSERT_NO_LEAKS();
}

/* -- memory ------------------------------------------------------------------------------------ */

static int allocations_left;

static void *resize_until(void *context, void *block, size_t nbytes)
{
    (void)context;
    return allocations_left-- > 0 ? realloc(block, nbytes) : NULL;
}

static void free_plainly(void *context, void *block)
{
    (void)context;
    free(block);
}

/* The number-th allocation fails, and all after it; true when the rewrite did not get there. */
static bool rewrite_with(int allocations)
{
    static const char *const text =
        "phasor 1 \"program\"\ninput z: c64[4]\ndata w: c64[2, 2] = [1, 2, 3, 4j]\n"
        "r = reshape(w) sizes=[4]\ne = exp(r)\nm = mul(z, e)\nc = concat(m, z, m, z, "
        "m, z, m, z, m) "
        "axis=0\noutput c\n";
    struct rewritten r;
    struct graph to = {0};
    bool done = false;
    rewritten_open(&r, text, PHASOR_RULES_ALL, true);
    allocations_left = allocations;
    memory_set_hooks(&(struct memory_hooks){resize_until, free_plainly, NULL});
    phasor_status status = graph_init(&to, &r.arena, &r.sizes, "test");
    if (status == PHASOR_OK)
        status = rewrite_program(&r.loaded, &to, &r.options, &r.refusals, &done);
    const bool reached = allocations_left >= 0;
    graph_free(&to);
    rewritten_close(&r);
    memory_set_hooks(NULL);
    cr_assert_eq(status, reached ? PHASOR_OK : PHASOR_ERROR_MEMORY, "allocation %d: %s",
                 allocations, message_get());
    cr_assert_eq(done, reached, "allocation %d", allocations);
    return reached;
}

Test(rewrite, memory_that_is_out)
{
    int allocations = 0;
    while (!rewrite_with(allocations))
        allocations++;
    cr_assert_gt(allocations, 10);
    ASSERT_NO_LEAKS();
}
