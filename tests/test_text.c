/* test_text.c - malformed and hostile .phasor text: refused with path and line, never a crash. */
#include "base/memory.h"
#include "graph/blocks.h"
#include "graph/element.h"
#include "graph/graph.h"
#include "support/leak.h"
#include "support/repeated.h"
#include "support/world.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Unlike world_parse(), may fail. */
static phasor_status world_try(struct world *w, const char *text, graph_find_data *find)
{
    *w = (struct world){0};
    phasor_status status = sizes_init(&w->sizes, &w->arena);
    if (status == PHASOR_OK)
        status = graph_init(&w->graph, &w->arena, &w->sizes, "test");
    return status == PHASOR_OK ? graph_parse(&w->graph, text, "x.phasor", find, NULL) : status;
}

/* -- one mistake each -------------------------------------------------------------------------- */

/* Each stands after this line, as lines 2 and following. */
#define FIRST "phasor 1 \"bad\"\n"
#define Q "input q: f32[s0, 4]\n"

static const struct {
    const char *text;
    int line;
    const char *message;
} mistakes[] = {
    /* symbols and sizes */
    {"symbol 5\n", 2, "expected the symbol's name, found '5'"},
    {"symbol s in 5..2\n", 2, "the upper bound is 2; it must be in 5.."},
    {"symbol s in 1..5 = 9\n", 2, "the example is 9; it must be in 1..5"},
    {"symbol s in 1...5\n", 2, "expected the upper bound"},
    {"symbol s = 99999999999999999999\n", 2, "the example is 99999999999999999999"},
    {"symbol s\nsymbol s\n", 3, "symbol 's' is known already"},
    {"symbol s = 4 5\n", 2, "expected the end of the line, found '5'"},
    {"input q: f32[floor(s0, 2)]\n", 2, "no function 'floor'"},
    {"input q: f32[s0 // 0]\n", 2, "divided by zero"},
    {"input q: f32[mod(s0, 0)]\n", 2, "divided by zero"},
    {"input q: f32[9223372036854775807*s0]\n", 2, "64 bits"},
    {"input q: f32[-4]\n", 2, "dim 0 of a tensor is -4; sizes are not negative"},
    {"input q: f32[((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1\n", 2,
     "more than 64 brackets"},
    {"input q: f32[1, 2\n", 2, "expected ',' or ']', found the end of the line"},
    {"input q: f32[1,,2]\n", 2, "expected a size"},
    {"input q: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]\n", 2, "more than 16 sizes"},
    {"input q: f32[s0 *]\n", 2, "expected a size, found ']'"},
    {"input q: f32[min(s0)]\n", 2, "expected ','"},
    {"check s9\n", 2, "no symbol 's9'; declare it"},
    {"check 1 unquoted\n", 2, "expected a message in quotes"},
    /* slots */
    {"input q\n", 2, "expected ':'"},
    {"input q: f31[2]\n", 2, "no dtype 'f31'"},
    {"input q: f32\n", 2, "expected '['"},
    {"input q: f32[2] = 3\n", 2, "expected the end of the line, found '= 3'"},
    {"input q: int = 2.5\n", 2, "expected the end of the line, found '.5'"},
    {"input q: bool = maybe\n", 2, "expected a whole number"},
    {"input q: string = text\n", 2, "expected a string"},
    {"input q: string = \"text\n", 2, "a string does not end"},
    {"input q: string = \"\\q\"\n", 2, "after a backslash"},
    {"input q: string = \"\\x00\"\n", 2, "cannot hold \\x00"},
    {Q Q, 3, "a second value 'q'"},
    {Q "input k: f32[2] as q\n", 3, "a second value 'q'"},
    {Q "output y = z\n", 3, "no value 'z'"},
    {Q "output z\n", 3, "no value 'z'; write 'output NAME = VALUE'"},
    {Q "output y: f32[s0, 5] = q\n", 3, "the output is given as f32[s0, 5], 'q' is f32[s0, 4]"},
    {Q "output y: float q\n", 3, "'q' is no 0-dim tensor of floats"},
    {Q "output y: string\n", 3, "expected '= \"TEXT\"'"},
    {Q "write q = \n", 3, "expected the name of a value"},
    {Q "x = neg(q)\nwrite x = q\n", 4, "'x' is neither a state nor an input"},
    {Q "write q = q\nwrite q = q\n", 4, "'q' is written twice"},
    {Q "input f: float\nwrite f = f\n", 4, "'f' is neither a state nor an input"},
    {Q "x = sum(q) axes=[0]\nwrite q = x\n", 4, "'q' and 'x' must have one dtype and shape"},
    /* constants */
    {"data d: f32[2]\n", 2, "expected '= [ELEMENTS]' or '@ NAME'"},
    {"data d: f32[2] @ d\n", 2, "no file to take 'd' from"},
    {"data d: f32[2] = [1]\n", 2, "2 elements are needed, 1 are written"},
    {"data d: f32[2] = [1, 2, 3]\n", 2, "more than the 2 elements"},
    {"data d: f32[1000000000000] = [1]\n", 2,
     "1000000000000 elements are needed, fewer are written"},
    {"data d: f32[4611686018427387904, 4] = [1]\n", 2, "more elements than 64 bits can count"},
    {"data d: u8[1] = [256]\n", 2, "a number does not fit in u8"},
    {"data d: bool[1] = [2]\n", 2, "a number does not fit in bool"},
    {"data d: f32[1] = [1e39]\n", 2, "a number does not fit in f32"},
    {"data d: f64[1] = [1e999]\n", 2, "the number 1e999 is too large"},
    {"data d: i64[1] = [1.5]\n", 2, "expected the end of the number, found '.5]'"},
    {"data d: f32[1] = [x]\n", 2, "expected a number, found 'x]'"},
    {"data d: c64[1] = [1+2]\n", 2, "expected 'j' after an imaginary part"},
    {"data d: c32[1] = [1]\n", 2, "numbers of dtype c32 cannot be written"},
    {"symbol s\ndata d: f32[s] = [1]\n", 3, "dim 0 of a constant is symbolic"},
    {"state s: f32[2]\n", 2, "expected '= [ELEMENTS]' or '@ NAME'"},
    /* nodes */
    {Q "x = negate(q)\n", 3, "no operator 'negate'"},
    {Q "x = none\n", 3, "no operator 'none'"},
    {Q "x = input index=0\n", 3, "an input is declared: input NAME: TYPE"},
    {Q "x = neg(y)\n", 3, "no value 'y'; a value is defined before it is used"},
    {Q "x = neg(x)\n", 3, "no value 'x'"},
    {Q "x = neg(q\n", 3, "expected ',' or ')'"},
    {Q "x = neg\n", 3, "neg needs operands"},
    {Q "x = index() axis=0\n", 3, "index needs operands"},
    {Q "x = neg(q, q)\n", 3, "wrong number of operands"},
    {Q "x = neg(q) axis=0\n", 3, "neg has no attribute 'axis'"},
    {Q "x = flip(q)\n", 3, "flip needs axes="},
    {Q "x = flip(q) axes=[0] axes=[1]\n", 3, "a second axes="},
    {Q "x = flip(q) axes=[7]\n", 3, "axis out of range"},
    {Q "x = flip(q) axes=[99]\n", 3, "an axis is 99; it must be in 0..15"},
    {Q "x = slice(q) axis=0 length=1 step=0\n", 3, "a step is 0"},
    {Q "x = reshape(q) sizes=[3]\n", 3, "the number of elements must stay the same"},
    {Q "x = neg(q) : f32[s0, 5]\n", 3, "x is given as f32[s0, 5], its operands make it f32[s0, 4]"},
    {Q "x = neg(q) : f16[s0, 4]\n", 3, "x is given as f16[s0, 4]"},
    {Q "x = neg(q) : f32[s1, 4]\n", 3, "no symbol 's1'"},
    {Q "x = cast(q)\n", 3, "cast needs its type"},
    {Q "x = unknown(q) text=\"a\" sizes=[2]\n", 3, "unknown needs its type"},
    {"x = scalar value=1\n", 2, "scalar needs its type"},
    {"x = scalar value=true : f32[]\n", 2, "expected a number"},
    {"x = scalar value=1j : f32[]\n", 2, "expected the end of the number"},
    {"x = scalar value=1 : c32[]\n", 2, "c32 has no numbers"},
    {"x = scalar value=1 : f32[2]\n", 2, "x is given as f32[2]"},
    {"x = scalar value=1 : f32[] trailing\n", 2, "expected the end of the line"},
    {Q "x = neg(q) #: \n", 3, "expected the operator's name after '#:'"},
    {Q "x = neg(q) #: aten.neg of\n", 3, "expected the node's name after 'of'"},
    {Q "x = neg(q) #: aten.neg nonsense\n", 3, "expected the end of the line"},
    {Q "what is this\n", 3, "expected '=' after a name"},
    {Q "\"input\" z: f32[2]\n", 3, "expected '=' after a name"},
    {"\x01\x02\n", 2, "expected a statement"},
};

Test(malformed, each_mistake_names_path_and_line)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        char text[1024], where[32];
        struct world w;
        snprintf(text, sizeof text, "%s%s", FIRST, mistakes[i].text);
        snprintf(where, sizeof where, "x.phasor:%d: ", mistakes[i].line);
        const phasor_status status = world_try(&w, text, NULL);
        cr_expect_neq(status, PHASOR_OK, "accepted: %s", mistakes[i].text);
        cr_expect(strncmp(message_get(), where, strlen(where)) == 0, "'%s' for %s", message_get(),
                  mistakes[i].text);
        cr_expect(strstr(message_get(), mistakes[i].message), "'%s' instead of '%s'", message_get(),
                  mistakes[i].message);
        world_free(&w);
    }
    ASSERT_NO_LEAKS();
}

Test(malformed, first_line)
{
    static const char *const texts[] = {
        "",         "\n\n",       "input q: f32[2]\n",  "phasor 2 \"new\"\n",
        "phasor\n", "PK\x03\x04", "phasor 1 \"a\" b\n", "# >>> real\nphasor 1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct world w;
        cr_assert_eq(world_try(&w, texts[i], NULL), PHASOR_ERROR_FILE, "%s", texts[i]);
        cr_assert(strncmp(message_get(), "x.phasor:", 9) == 0 &&
                      isdigit((unsigned char)message_get()[9]),
                  "%s", message_get());
        world_free(&w);
    }
    ASSERT_NO_LEAKS();
}

/* -- constants from a file --------------------------------------------------------------------- */

static phasor_status find_nothing(void *context, const char *name, struct data *out)
{
    (void)context, (void)out;
    return fail(PHASOR_ERROR_FILE, "x.safetensors has no '%s'", name);
}

static phasor_status find_other(void *context, const char *name, struct data *out)
{
    static const int64_t sizes[1] = {3}, strides[1] = {1};
    (void)context, (void)name;
    *out = (struct data){.dtype = DT_f32, .rank = 1, .sizes = sizes, .strides = strides};
    return PHASOR_OK;
}

Test(malformed, constants_of_the_file)
{
    struct world w;
    cr_assert_eq(world_try(&w, FIRST "data d: f32[2] @ far\n", find_nothing), PHASOR_ERROR_FILE);
    cr_assert_str_eq(message_get(), "x.phasor:2: x.safetensors has no 'far'");
    world_free(&w);
    cr_assert_eq(world_try(&w, FIRST "data d: f32[2] @ far\n", find_other), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(),
                     "x.phasor:2: 'far' in the file of constants has another dtype or shape"));
    world_free(&w);
    cr_assert_eq(world_try(&w, FIRST "data d: f32[3] @ far\n", find_other), PHASOR_ERROR_FILE);
    cr_assert(strstr(message_get(), "x.phasor:2: 'far' reaches outside of its memory"), "%s",
              message_get());
    world_free(&w);
    ASSERT_NO_LEAKS();
}

/* -- too much of everything -------------------------------------------------------------------- */

static void check_refused(char *text, const char *message)
{
    struct world w;
    cr_assert_neq(world_try(&w, text, NULL), PHASOR_OK);
    cr_assert(strncmp(message_get(), "x.phasor:", 9) == 0, "%s", message_get());
    cr_assert(strstr(message_get(), message), "'%s' instead of '%s'", message_get(), message);
    world_free(&w);
    memory_free(text);
}

Test(hostile, too_much_is_refused)
{
    check_refused(repeated(FIRST "input q: f32[", " ", 2000000, "]\n"),
                  "x.phasor:2: the line has more than 1048576 bytes");
    check_refused(repeated(FIRST, "symbol s%d\n", 2000, ""),
                  "x.phasor:1026: more than 1024 symbols");
    check_refused(repeated(FIRST "input q: f32[", "s%d, ", 2000, "1]\n"), "more than 16 sizes");
    check_refused(repeated(FIRST "check ", "-", 1000000, "x\n"), "no symbol 'x'");
    check_refused(repeated(FIRST "symbol s\ncheck ", "max(s + %d, ", 60, "x\n"), "no symbol 'x'");
    check_refused(repeated(FIRST "symbol s\ncheck ", "max(s + %d, ", 100, "1\n"),
                  "more than 64 brackets");
    check_refused(repeated(FIRST "symbol s\ncheck 1", " + mod(s, %d + 3)", 100, "\n"),
                  "x.phasor:3: a size does not fit");
    check_refused(repeated(FIRST "symbol s = 1\ncheck s", "*s", 100, "\n"),
                  "x.phasor:3: a size does not fit");
    ASSERT_NO_LEAKS();
}

/* Sizes that grow from node to node: refused before text or recursion gets long. */
Test(hostile, sizes_that_grow)
{
    check_refused(repeated(FIRST "input x0: f32[s0]\nsymbol big = 1000000\n",
                           "x%2$d = concat(x%1$d, x%1$d) axis=0\n", 70, ""),
                  "64 bits");
    check_refused(repeated(FIRST "symbol s = 1000000\ninput x0: f32[s]\n",
                           "u%1$d = unfold(x%1$d) axis=0 length=1 step=2\n"
                           "r%1$d = select(u%1$d) axis=1 start=0\n"
                           "x%2$d = concat(r%1$d, x%1$d) axis=0\n",
                           60, ""),
                  "a size");
    ASSERT_NO_LEAKS();
}

Test(hostile, long_programs_are_fine)
{
    char *text = repeated(FIRST "input x0: f32[s0]\n",
                          "x%2$d = neg(x%1$d) : f32[s0]    #: aten.neg.default @ line %1$d\n",
                          50000, "output x50000\n");
    struct world w;
    cr_assert_eq(world_try(&w, text, NULL), PHASOR_OK, "%s", message_get());
    cr_assert_eq(graph_verify(&w.graph), PHASOR_OK, "%s", message_get());
    world_free(&w);
    memory_free(text);
    ASSERT_NO_LEAKS();
}

/* -- mutations --------------------------------------------------------------------------------- */

static const char sample[] =
    "phasor 1 \"sample\"\nsymbol s0 in 2..64 = 5\ninput q: f32[s0, 4, 2] as arg0\ninput n: int "
    "s1\ninput x: float\n"
    "input three: int = 3\ninput how: string = \"a\\n\"\noutput y: c64[s0, 4] = mul\noutput c: int "
    "2*s0 + floordiv(s1, 2)\n"
    "state cache: f32[2] = [1.5, -0]\ndata table: c64[2, 1] = [0.1-0j, nan+infj]\ncheck le(s0, 64) "
    "\"long\"\n\n"
    "view = view_as_complex(arg0) : c64[s0, 4]    #: aten.view_as_complex.default @ rope.py:24\n"
    "slice = slice(view) axis=0 start=s0 - 2 length=2 step=1 : c64[2, 4]\ntwo = scalar value=2 : "
    "c64[]\n"
    "sum = sum(view) axes=[0, 1] : c64[]\npad = pad(slice) sizes=[0, 1, 0, 0] value=1j\n"
    "cat = concat(slice, slice, view) axis=0\nmul = mul(view, sum) : c64[s0, 4]\n"
    "index = iota sizes=[s0]\npicked = index(view, index) axis=0 : c64[s0, 4]\nwrite cache = "
    "cache\n# >>> real\nx\n";

/* What is accepted is a right graph that survives its text; the rest is refused with its line. */
static void check_mutation(const char *text)
{
    struct world w, again;
    struct text first = {0}, second = {0};
    if (world_try(&w, text, NULL) != PHASOR_OK) {
        cr_assert(strncmp(message_get(), "x.phasor:", 9) == 0 &&
                      isdigit((unsigned char)message_get()[9]),
                  "'%s' for\n%s", message_get(), text);
        world_free(&w);
        return;
    }
    cr_assert_eq(graph_verify(&w.graph), PHASOR_OK, "%s for\n%s", message_get(), text);
    graph_print(&w.graph, &first);
    cr_assert_eq(world_try(&again, text_get(&first), NULL), PHASOR_OK, "%s for\n%s", message_get(),
                 text_get(&first));
    graph_print(&again.graph, &second);
    cr_assert_str_eq(text_get(&second), text_get(&first));
    text_free(&first);
    text_free(&second);
    world_free(&w);
    world_free(&again);
}

/* Bytes changed, cut out, or copied from elsewhere in the text. */
static void mutate(char *text, size_t room, uint64_t *random)
{
    static const char bytes[] = "0123456789-+*/%=:,.()[]\"\\#@ \n\tsqxj_\x01\x7f\xff";
    for (int changes = 1 + (int)(random_next(random) % 4); changes > 0; changes--) {
        const size_t length = strlen(text), at = random_next(random) % length,
                     from = random_next(random) % length;
        size_t count = 1 + random_next(random) % 12;
        switch (random_next(random) % 3) {
        case 0: text[at] = bytes[random_next(random) % (sizeof bytes - 1)]; break;
        case 1:
            count = count < length - at ? count : length - at;
            memmove(text + at, text + at + count, length - at - count + 1);
            break;
        default:
            count = count < length - from ? count : length - from;
            if (length + count + 1 < room) {
                char part[16];
                memcpy(part, text + from, count);
                memmove(text + at + count, text + at, length - at + 1);
                memcpy(text + at, part, count);
            }
        }
        if (!*text)
            strcpy(text, "p");
    }
}

Test(hostile, mutations, .timeout = 3600)
{
    uint64_t random = 42;
    check_mutation(sample);
    for (int i = 0; i < 20000; i++) {
        char text[4096];
        memcpy(text, sample, sizeof sample);
        mutate(text, sizeof text, &random);
        check_mutation(text);
    }
    ASSERT_NO_LEAKS();
}

/* Every prefix of a text. */
Test(hostile, truncations)
{
    for (size_t length = 0; length < sizeof sample - 1; length++) {
        char text[sizeof sample];
        memcpy(text, sample, length);
        text[length] = '\0';
        check_mutation(text);
    }
    ASSERT_NO_LEAKS();
}

/* -- memory ------------------------------------------------------------------------------------ */

static void *resize_counted(void *context, void *block, size_t nbytes)
{
    int *left = context;
    return (*left)-- > 0 ? realloc(block, nbytes) : NULL;
}

static void free_block(void *context, void *block)
{
    (void)context;
    free(block);
}

/* Each allocation in turn fails: a status, no crash. */
Test(hostile, out_of_memory)
{
    for (int allowed = 0; allowed < 500; allowed++) {
        int left = allowed;
        struct world w;
        memory_set_hooks(&(struct memory_hooks){resize_counted, free_block, &left});
        const phasor_status status = world_try(&w, sample, NULL);
        world_free(&w);
        memory_set_hooks(NULL);
        cr_assert(status == PHASOR_ERROR_MEMORY || (status == PHASOR_OK && left >= 0),
                  "allocation %d: %s", allowed, message_get());
        if (status == PHASOR_OK)
            break;
        cr_assert_lt(allowed, 499);
    }
    ASSERT_NO_LEAKS();
}

/* -- blocks ------------------------------------------------------------------------------------ */

Test(blocks, are_found_by_name)
{
    static const char text[] =
        "phasor 1\n# >>> real \r\none\n# >>> plan\n# two\nthree\n# >>> empty";
    const char *start;
    size_t length;
    cr_assert(graph_block_find(text, "real", &start, &length));
    cr_assert(length == 4 && memcmp(start, "one\n", 4) == 0);
    cr_assert(graph_block_find(text, "plan", &start, &length));
    cr_assert(length == 12 && memcmp(start, "# two\nthree\n", 12) == 0);
    cr_assert(graph_block_find(text, "empty", &start, &length));
    cr_assert_eq(length, 0);
    cr_assert_not(graph_block_find(text, "rea", &start, &length));
    cr_assert_not(graph_block_find("", "real", &start, &length));
    cr_assert_eq(strncmp(graph_block_first(text), "# >>> real", 10), 0);
    ASSERT_NO_LEAKS();
}
