/* test_print.c - the text form: each row of the operator table, random graphs, slots, constants.
 *
 * What must hold for all: verified, printed, parsed again, and printed to the same bytes. */
#include "graph/element.h"
#include "support/leak.h"
#include "support/world.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- every row --------------------------------------------------------------------------------- */

#define HEADER                                                                                   \
    "phasor 1 \"rows\"\n"                                                                        \
    "symbol s0 in 2..64 = 5\nsymbol s1 in 0.. = 3\n"                                             \
    "input a: f32[s0, 4, 4]\ninput b: f32[s0, 4, 4]\ninput z: c64[s0, 4]\ninput p: f32[s0, 2]\n" \
    "input m: bool[s0, 4, 4]\ninput i: i64[3]\ninput j: i64[s0, 4, 4]\ninput k: i64[s0, 4, 4]\n" \
    "input one: f32[1, 4]\ninput part: f32[s0, 2, 4]\ninput diagonal: f32[s0, 4]\ninput v: "     \
    "f32[s0, 3, 4]\n"                                                                            \
    "state buffer: f32[2] as buffer.node = [1.5, -0]\n"                                          \
    "data weight: c64[2] @ model.weight = [1+2j, nan-infj]\n"

/* A line for each row that has a shape rule of its own. */
static const char *const samples[OP_COUNT] = {
    [OP_reshape] = "reshape(a) sizes=[4*s0, 4]",
    [OP_permute] = "permute(a) axes=[2, 0, 1]",
    [OP_expand] = "expand(one) sizes=[s0 + 1, 3, 4]",
    [OP_slice] = "slice(a) axis=0 start=1 length=floordiv(s0, 2) step=2",
    [OP_select] = "select(a) axis=0 start=s0 - 1",
    [OP_diagonal] = "diagonal(a) axes=[1, 2] start=-1",
    [OP_unfold] = "unfold(a) axis=0 length=2 step=3",
    [OP_flip] = "flip(a) axes=[0, 2]",
    [OP_roll] = "roll(a) axes=[1] sizes=[-3]",
    [OP_pad] = "pad(a) sizes=[s1, 0, -1, 2, 0, 0] value=-0",
    [OP_clone] = "clone(a) flag=2",
    [OP_contiguous] = "contiguous(a) flag=1",
    [OP_real] = "real(z)",
    [OP_imag] = "imag(z)",
    [OP_view_as_real] = "view_as_real(z)",
    [OP_view_as_complex] = "view_as_complex(p)",
    [OP_concat] = "concat(a, b, a) axis=0",
    [OP_pair] = "pair(a, b)",
    [OP_insert] = "insert(a, part) axis=1 start=0 step=2",
    [OP_insert_diagonal] = "insert_diagonal(a, diagonal) axes=[1, 2] start=0",
    [OP_input] = "neg(a)",
    [OP_state] = "neg(buffer.node)",
    [OP_data] = "neg(weight)",
    [OP_scalar] = "scalar value=0.1 : bf16[]",
    [OP_size] = "size sizes=[mod(s0, 3) + 2*s1]",
    [OP_iota] = "iota sizes=[s0]",
    [OP_index] = "index(a, i) axis=1",
    [OP_index_put] = "index_put(a, v, i) axis=1 flag=1",
    [OP_gather] = "gather(a, j) axis=2",
    [OP_scatter] = "scatter(a, j, b) axis=0 flag=1",
    [OP_argmax] = "argmax(a) axis=1",
    [OP_argmin] = "argmin(a) axis=0",
    [OP_cumsum] = "cumsum(a) axis=2",
    [OP_cumprod] = "cumprod(a) axis=0",
    [OP_sort_index] = "sort_index(a) axis=0 flag=1",
    [OP_dot] = "dot(a, b)",
    [OP_unknown] =
        "unknown(a, z) text=\"aten.\\\"odd\\\".default\" sizes=[s0*s1, 3] : f16[s0*s1, 3]",
};

static void sample_map(enum op op, char *line, size_t room)
{
    const struct op_info *info = &op_info[op];
    const char *first = info->type == TYPE_PICK ? "m" : info->on == ON_I ? "j" : "a";
    const char *rest = info->on == ON_I ? "k" : "b";
    snprintf(line, room, "%s(%s%s%s%s%s)%s", info->name, first, info->arity > 1 ? ", " : "",
             info->arity > 1 ? rest : "", info->arity > 2 ? ", " : "", info->arity > 2 ? rest : "",
             info->type == TYPE_CAST ? " : c128[s0, 4, 4]" : "");
}

Test(text, every_row_round_trips)
{
    for (enum op op = OP_none + 1; op < OP_COUNT; op++) {
        char line[256], text[4096];
        struct world w;
        if (op_info[op].kind == KIND_MAP)
            sample_map(op, line, sizeof line);
        else if (op_info[op].kind == KIND_REDUCE)
            snprintf(line, sizeof line, "%s(a) axes=[0, 2]", op_info[op].name);
        else
            snprintf(line, sizeof line, "%s", samples[op] ? samples[op] : "");
        cr_assert(*line, "ops.def has a new row, %s: add a sample", op_info[op].name);
        snprintf(text, sizeof text, "%sx = %s\noutput y = x\n", HEADER, line);
        world_parse(&w, text);
        check_round_trip(&w.graph);
        world_free(&w);
    }
    ASSERT_NO_LEAKS();
}

/* -- random graphs ----------------------------------------------------------------------------- */

static dim random_size(struct world *w, uint64_t *random)
{
    const dim symbol = w->sizes.symbols.at[random_below(random, (int)w->sizes.symbols.count)].size;
    const dim small = size_literal(&w->sizes, 1 + random_below(random, 4));
    switch (random_below(random, 7)) {
    case 0: return symbol;
    case 1: return size_add(&w->sizes, symbol, small);
    case 2: return size_mul(&w->sizes, symbol, random_size(w, random));
    case 3: return size_floordiv(&w->sizes, symbol, small);
    case 4: return size_binary(&w->sizes, SIZE_MOD, random_size(w, random), small);
    case 5: return size_max(&w->sizes, symbol, small);
    default: return small;
    }
}

/* Tries a random row on random operands; what does not fit leaves the graph as it was. */
static void random_node(struct world *w, uint64_t *random)
{
    struct graph *g = &w->graph;
    const enum op op = (enum op)(1 + random_below(random, OP_COUNT - 1));
    if (op == OP_input || op == OP_state || op == OP_data)
        return;
    value operands[3];
    int axes[4];
    dim sizes[8];
    const int count = op_info[op].kind == KIND_LEAF ? 0
                      : op_info[op].arity           ? op_info[op].arity
                                                    : 1 + random_below(random, 3);
    for (int i = 0; i < count; i++)
        operands[i] = (value)(1 + random_below(random, (int)g->nodes.count - 1));
    const int rank = count ? graph_node(g, operands[0])->rank : 0;
    for (int i = 0; i < 4; i++)
        axes[i] = random_below(random, 3);
    for (int i = 0; i < 8; i++)
        sizes[i] = random_size(w, random);
    struct attributes at = {
        .axis = random_below(random, 3),
        .flag = random_below(random, 3),
        .axes = axes,
        .axis_count = random_below(random, 4),
        .sizes = sizes,
        .size_count = random_below(random, 8),
        .start = random_size(w, random),
        .length = random_size(w, random),
        .step = 1 + random_below(random, 3),
        .number = {.i = random_below(random, 2), .re = random_below(random, 1000) / 8.0 - 60},
        .text = "aten.odd"};
    if (op == OP_pad)
        at.size_count = 2 * rank < 8 ? 2 * rank : 8;
    if (op == OP_size || op == OP_iota)
        at.size_count = 1;
    if (op == OP_reshape && rank) {
        for (int d = 0; d < rank; d++)
            sizes[d] = graph_node(g, operands[0])->shape[rank - 1 - d];
        at.size_count = rank;
    }
    const enum dtype dtype = (enum dtype)random_below(random, DT_c128 + 1);
    if (graph_add(g, op, dtype, operands, count, &at, NULL) == 0) {
        g->status = PHASOR_OK;
        w->sizes.status = PHASOR_OK;
    }
}

static void random_graph(struct world *w, uint64_t seed, bool *seen)
{
    uint64_t random = seed * 7919 + 1;
    world_new(w);
    const dim shape[3] = {size_symbol(&w->sizes, "s9", 1, 64, 3),
                          size_symbol(&w->sizes, "s1", 0, 64, 2), size_literal(&w->sizes, 2)};
    static const enum dtype dtypes[] = {DT_f32, DT_f32, DT_c64, DT_i64, DT_bool, DT_bf16};
    static const char *const names[] = {"q", "k", "odd \"name\"", "i", "input", "h"};
    for (int i = 0; i < 6; i++)
        add_input(w, dtypes[i], shape, 1 + random_below(&random, 3), names[i]);
    for (int i = 0; i < 400; i++)
        random_node(w, &random);
    const value last = (value)w->graph.nodes.count - 1;
    const struct graph_output output = {.name = "y", .kind = PHASOR_TENSOR, .node = last};
    cr_assert(array_push(&w->graph.outputs, output));
    for (value v = 1; v <= last; v++)
        seen[graph_node(&w->graph, v)->op] = true;
}

Test(text, random_graphs_round_trip)
{
    bool seen[OP_COUNT] = {false};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world w;
        random_graph(&w, seed, seen);
        cr_assert_eq(graph_verify(&w.graph), PHASOR_OK, "seed %d: %s", (int)seed, message_get());
        check_round_trip(&w.graph);
        world_free(&w);
    }
    int missing = 0;
    for (enum op op = OP_none + 1; op < OP_COUNT; op++)
        missing += !seen[op];
    cr_assert_lt(missing, 12, "%d rows never occur", missing);
    ASSERT_NO_LEAKS();
}

/* -- slots, origins, constants ----------------------------------------------------------------- */

Test(text, is_stable_byte_for_byte)
{
    static const char text[] =
        "phasor 1 \"all of it\"\n"
        "symbol s0 in 2..64 = 5    # q.0, n\n"
        "symbol free = -3\n"
        "input q: f32[s0, 2] as arg0\n"
        "input flag: bool\n"
        "input x: float as x.1\n"
        "input n: int s0\n"
        "input three: int = 3\n"
        "input half: float = 0.5\n"
        "input yes: bool = true\n"
        "input how: string = \"a \\\"b\\\"\\n\"\n"
        "input nothing: none\n"
        "output mul: f32[s0, 2]\n"
        "output twice: f32[s0, 2] = mul\n"
        "output count: int 2*s0 + 1\n"
        "output seven: int = 7\n"
        "output number: float x.1\n"
        "output nan: float = nan\n"
        "output truth: bool flag\n"
        "output word: string = \"\"\n"
        "output empty: none\n"
        "state cache: i8[3] = [-128, 0, 127]\n"
        "state other: f64[] as other_node @ model.other = [-inf]\n"
        "data table: c64[2, 1] @ \"odd name\" = [0.1-0j, nan+infj]\n"
        "data none: bf16[0] = []\n"
        "check le(s0, 64) \"too \\x01 long\"\n"
        "check 1\n"
        "\n"
        "two = scalar value=2.5 : f32[]\n"
        "mul = mul(arg0, two) : f32[s0, 2]    #: aten.mul_.Tensor of mul_ in true_graph_0 implied "
        "@ rope.py:29, code: q *= 2.5\n"
        "\"odd name\" = neg(mul) : f32[s0, 2]    #: aten.neg.default @ \"ends with a blank \"\n"
        "neg.2 = neg(\"odd name\") : f32[s0, 2]    #: \"odd target\"\n"
        "write cache = cache\n"
        "write arg0 = neg.2    #: aten.copy_.default of copy_\n";
    struct world w;
    struct text printed = {0};
    world_parse(&w, text);
    graph_print(&w.graph, &printed);
    cr_assert_str_eq(text_get(&printed), text);
    const struct node *mul = graph_node(&w.graph, w.graph.outputs.at[0].node);
    cr_assert_str_eq(mul->origin->target, "aten.mul_.Tensor");
    cr_assert_str_eq(mul->origin->node, "mul_");
    cr_assert_str_eq(mul->origin->branch, "true_graph_0");
    cr_assert_str_eq(mul->origin->line, "rope.py:29, code: q *= 2.5");
    cr_assert(mul->origin->implied);
    cr_assert_str_eq(w.graph.inputs.at[7].expected.string, "a \"b\"\n");
    text_free(&printed);
    world_free(&w);
    ASSERT_NO_LEAKS();
}

/* What a person writes: no types, no declarations, any order of outputs. */
Test(text, is_pleasant_to_write)
{
    struct world w;
    world_parse(&w,
                "# a comment\n\nphasor 1\noutput y = mul\noutput mul\noutput: int s0*2 // 2\r\n"
                "input q: f32[s0, 64]\ninput start: int s1\ncheck s0 >= 1 \"empty\"\n"
                "two = scalar value=2 : f32[]   # of f32\nmul=mul( q ,two )\n"
                "part = slice(mul) axis=1 length=(64 - 2*2) % 100\n# >>> real\nnot a program\n");
    check_type(&w, w.graph.outputs.at[0].node, "f32[s0, 64]");
    check_size_text(&w, w.graph.outputs.at[2].size, "s0");
    cr_assert_eq(w.sizes.symbols.at[0].value, 2);
    check_round_trip(&w.graph);
    world_free(&w);
    ASSERT_NO_LEAKS();
}

/* Every finite value of every dtype comes back bit for bit. */
static void check_bits(enum dtype dtype, uint64_t seed)
{
    unsigned char bytes[DATA_INLINE * 16], *again;
    uint64_t random = seed;
    struct world w, parsed;
    const int64_t sizes[1] = {DATA_INLINE}, strides[1] = {1};
    const size_t nbytes = (size_t)DATA_INLINE * (size_t)dtype_size(dtype);
    for (size_t i = 0; i < nbytes; i++)
        bytes[i] = (unsigned char)(dtype == DT_bool ? random_next(&random) & 1
                                                    : random_next(&random) >> 7);
    for (int i = 0; i < DATA_INLINE; i++) { /* a NaN's payload is not kept */
        const struct number n = element_load(dtype, bytes + i * dtype_size(dtype));
        if (isnan(n.re) || isnan(n.im))
            memset(bytes + i * dtype_size(dtype), 0, (size_t)dtype_size(dtype));
    }
    const struct storage storage = {.bytes = bytes, .nbytes = nbytes, .id = storage_new_id()};
    const struct data data = {.name = "d",
                              .dtype = dtype,
                              .rank = 1,
                              .sizes = sizes,
                              .strides = strides,
                              .storage = &storage};
    struct text text = {0};
    world_new(&w);
    graph_add(&w.graph, OP_data, dtype, NULL, 0, &(struct attributes){.data = &data}, "d");
    graph_print(&w.graph, &text);
    world_parse(&parsed, text_get(&text));
    again = (unsigned char *)parsed.graph.nodes.at[1].attributes.data->storage->bytes;
    cr_assert_eq(memcmp(again, bytes, nbytes), 0, "%s: %s", dtype_text(dtype), text_get(&text));
    text_free(&text);
    world_free(&w);
    world_free(&parsed);
}

Test(text, numbers_are_exact)
{
    for (enum dtype dtype = DT_bool; dtype <= DT_c128; dtype++)
        for (uint64_t seed = 1; seed <= 20; seed++)
            check_bits(dtype, seed);
    ASSERT_NO_LEAKS();
}

/* A strided view is printed as what it shows; larger data by name, and found again. */
static phasor_status find_table(void *context, const char *name, struct data *out)
{
    cr_assert_str_eq(name, "model.table");
    *out = *(const struct data *)context;
    return PHASOR_OK;
}

Test(text, data_by_view_and_by_name)
{
    static const float numbers[200] = {1, 2, 3, 4, 5, 6};
    const struct storage storage = {
        .bytes = numbers, .nbytes = sizeof numbers, .id = storage_new_id()};
    const int64_t sizes[2] = {2, 3}, strides[2] = {1, 2}, many[1] = {100}, two[1] = {2};
    const struct data view = {"view", DT_f32, 2, sizes, strides, 0, &storage};
    const struct data table = {"model.table", DT_f32, 1, many, two, 1, &storage};
    struct world w, again;
    struct text text = {0}, second = {0};
    world_new(&w);
    graph_add(&w.graph, OP_data, DT_f32, NULL, 0, &(struct attributes){.data = &view}, "view");
    graph_add(&w.graph, OP_data, DT_f32, NULL, 0, &(struct attributes){.data = &table}, "table");
    graph_print(&w.graph, &text);
    cr_assert(strstr(text_get(&text), "data view: f32[2, 3] = [1, 3, 5, 2, 4, 6]\n"), "%s",
              text_get(&text));
    cr_assert(strstr(text_get(&text), "data table: f32[100] @ model.table\n"), "%s",
              text_get(&text));
    world_new(&again);
    cr_assert_eq(graph_parse(&again.graph, text_get(&text), "t", find_table, (void *)&table),
                 PHASOR_OK, "%s", message_get());
    graph_print(&again.graph, &second);
    cr_assert_str_eq(text_get(&second), text_get(&text));
    cr_assert_eq(again.graph.nodes.at[2].attributes.data->storage, &storage);
    text_free(&text);
    text_free(&second);
    world_free(&w);
    world_free(&again);
    ASSERT_NO_LEAKS();
}

/* A process with another decimal point prints and reads the same. */
Test(text, does_not_depend_on_the_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ru_RU.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !setlocale(LC_ALL, names[i]); i++)
        continue;
    struct world w;
    struct text text = {0};
    world_parse(&w, "phasor 1\ndata d: f32[2] = [1.5, -0.25]\n");
    graph_print(&w.graph, &text);
    cr_assert(strstr(text_get(&text), "[1.5, -0.25]"));
    text_free(&text);
    world_free(&w);
    ASSERT_NO_LEAKS();
}
