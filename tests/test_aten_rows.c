/* test_aten_rows.c - every row of aten.def, in each of its spellings, called with operands of
 * whatever rank, size and dtype: the call is built or refused, the graph stays whole, and what was
 * built can be evaluated. No operand makes a file a damaged one (exit 4), and none crashes.
 *
 *     aten.gather.default self=f32[3] dim=-1 index=i64[]      built: gather, reshaped to []
 *     aten.gather.default self=c64[2, 3] dim=2 index=bool[4]  refused: dim 2 of a tensor of rank 2
 *
 * Most arguments are drawn as their names suggest, some as anything at all. */
#include "eval/eval.h"
#include "load/loader.h"
#include "support/leak.h"
#include "support/world.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *target, *arguments;
} rows[] = {
#define ATEN(target, arguments, builder, op) {target, arguments},
#define ATEN_NUMBER(target, arguments, builder, number) {target, arguments},
#define REFUSED(operator, reason)
#include "load/aten.def"
#undef ATEN
#undef ATEN_NUMBER
#undef REFUSED
};
enum {
    ROWS = sizeof rows / sizeof rows[0],
    DRAWS = 96, /* a row */
    OPERANDS = 64,
    ARGUMENTS = 16
};

/* -- drawing ----------------------------------------------------------------------------------- */

static uint32_t state;

static int draw(int below)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (uint32_t)below);
}

/* Tensors of ones and of small integers, ranks 0 to 4, sizes 0 to 3. */
static value operand_node(struct graph *graph)
{
    static const enum dtype dtypes[] = {DT_f32, DT_f32, DT_i64,  DT_i64, DT_bool, DT_bf16,
                                        DT_f16, DT_f64, DT_c128, DT_c64, DT_i32,  DT_u8};
    const enum dtype dtype = dtypes[draw(sizeof dtypes / sizeof dtypes[0])];
    static const int ranks[] = {0, 1, 1, 2, 2, 2, 3, 3, 4};
    const int rank = ranks[draw(sizeof ranks / sizeof ranks[0])], kind = draw(8);
    dim sizes[RANK_MAX];
    for (int d = 0; d < rank; d++)
        sizes[d] = size_literal(graph->sizes, kind == 0 ? draw(3) : kind < 6 ? 2 : 1 + draw(3));
    const value scalar = graph_float(graph, dtype, draw(2));
    const value wide = graph_expand(graph, scalar, sizes, rank);
    return wide == scalar ? wide
                          : graph_add(graph, OP_clone, DT_bool, &wide, 1,
                                      &(struct attributes){.flag = FORMAT_CONTIGUOUS}, NULL);
}

struct memory {
    tensor tensors[4];
    dim sizes[4];
    struct number numbers[4];
};

static void draw_tensors(struct argument *out, struct memory *memory, int count, bool one)
{
    out->kind = one ? ARGUMENT_TENSOR : ARGUMENT_TENSORS;
    out->count = one ? 1 : count;
    out->tensors = memory->tensors;
    for (int i = 0; i < out->count; i++)
        memory->tensors[i] = !one && draw(8) == 0 ? 0 : 1 + (tensor)draw(OPERANDS);
}

static void draw_sizes(struct sizes *sizes, struct argument *out, struct memory *memory, int count,
                       bool one)
{
    static const int64_t likely[] = {0, 1, 2, 2, 3, -1, -1, -2, 5, 0};
    out->kind = one ? ARGUMENT_INT : ARGUMENT_INTS;
    out->count = one ? 1 : count;
    out->sizes = memory->sizes;
    for (int i = 0; i < out->count; i++)
        memory->sizes[i] = size_literal(sizes, likely[draw(sizeof likely / sizeof likely[0])]);
}

static void draw_number(struct argument *out, struct memory *memory)
{
    static const double likely[] = {0, 1, 0.5, -2, 3, 1e-5, 1e300};
    out->kind = draw(4) ? ARGUMENT_FLOAT : ARGUMENT_COMPLEX;
    out->count = 1;
    out->numbers = memory->numbers;
    memory->numbers[0] = (struct number){.re = likely[draw(sizeof likely / sizeof likely[0])],
                                         .im = out->kind == ARGUMENT_COMPLEX ? draw(3) : 0};
}

static void draw_anything(struct sizes *sizes, struct argument *out, struct memory *memory)
{
    static const char *const strings[] = {"mean", "sum",     "fro",       "ij",      "tanh",
                                          "none", "reflect", "replicate", "constant"};
    switch (draw(11)) {
    case 0: draw_tensors(out, memory, 1, true); break;
    case 1: draw_tensors(out, memory, draw(4), false); break;
    case 2: draw_sizes(sizes, out, memory, 1, true); break;
    case 3: draw_sizes(sizes, out, memory, draw(4), false); break;
    case 4: draw_number(out, memory); break;
    case 5: out->kind = ARGUMENT_BOOL, out->flag = draw(2); break;
    case 6: out->kind = ARGUMENT_STRING, out->string = strings[draw(9)]; break;
    case 7: out->kind = ARGUMENT_DTYPE, out->dtype = (enum dtype)draw(DT_COUNT); break;
    case 8: out->kind = ARGUMENT_FORMAT, out->format = FORMAT_CONTIGUOUS; break;
    case 9: out->kind = ARGUMENT_IGNORED; break;
    default: break; /* None */
    }
}

static bool is_among(const char *name, const char *names)
{
    const char *found = strstr(names, name);
    const size_t length = strlen(name);
    while (found &&
           ((found > names && found[-1] != ' ') || (found[length] && found[length] != ' ')))
        found = strstr(found + 1, name);
    return found != NULL;
}

/* As the parameter's name suggests. */
static void draw_likely(const char *name, struct sizes *sizes, struct argument *out,
                        struct memory *memory)
{
    static const char tensors[] =
        "self other query key tensor1 tensor2 input weight bias mask index "
        "src source mat2 mat1 vec vec1 vec2 end a b x y condition values "
        "batch1 batch2 tensor real imag abs angle exponent attn_mask";
    static const char lists[] = "tensors indices";
    static const char integers[] = "dim dim0 dim1 dim2 axis0 axis1 start length step offset "
                                   "diagonal n m k steps start_dim end_dim sections chunks "
                                   "split_size decimals num_groups index dimension";
    static const char shapes[] = "size shape normalized_shape pad repeats shifts dims sizes stride "
                                 "dims_self dims_other split_sizes source destination indices dim";
    if (is_among(name, lists) && draw(2))
        draw_tensors(out, memory, 1 + draw(3), false);
    else if (is_among(name, shapes) && draw(2))
        draw_sizes(sizes, out, memory, draw(4), false);
    else if (is_among(name, integers) && draw(2))
        draw_sizes(sizes, out, memory, 1, true);
    else if (is_among(name, tensors))
        draw_tensors(out, memory, 1, true);
    else
        draw_anything(sizes, out, memory);
}

/* -- one call ---------------------------------------------------------------------------------- */

struct drawn {
    char target[128], names[ARGUMENTS][64];
    struct argument arguments[ARGUMENTS];
    struct memory memory[ARGUMENTS];
    struct result results[4];
    struct origin origin;
    struct call call;
};

/* aten.mul.Tensor as itself, as aten.mul_.Tensor or as aten.mul_copy.Tensor */
static void draw_target(const char *target, char out[128])
{
    static const char *const suffixes[] = {"", "", "", "_", "_copy"};
    const char *dot = strrchr(target, '.'), *suffix = suffixes[draw(5)];
    if (dot && strncmp(target, "aten.", 5) == 0)
        snprintf(out, 128, "%.*s%s%s", (int)(dot - target), target, suffix, dot);
    else
        snprintf(out, 128, "%s", target);
}

static void call_draw(struct drawn *d, struct sizes *sizes, const char *target,
                      const char *parameters)
{
    static const enum result_kind kinds[] = {RESULT_TENSOR, RESULT_TENSOR, RESULT_TENSOR,
                                             RESULT_TENSOR, RESULT_INT,    RESULT_FLOAT,
                                             RESULT_BOOL,   RESULT_NONE};
    static const char *const names[] = {"r0", "r1", "r2", "r3"};
    *d = (struct drawn){.origin = {.target = "test", .node = "call"}};
    draw_target(target, d->target);
    int count = 0;
    for (const char *at = parameters; *at && count < ARGUMENTS;) {
        const size_t length = strcspn(at, ","), name = strcspn(at, ",=");
        struct argument *argument = &d->arguments[count];
        const bool optional = name < length;
        snprintf(d->names[count], sizeof d->names[count], "%.*s", (int)name, at);
        at += length + strspn(at + length, ", ");
        if (optional ? draw(2) : draw(24) == 0)
            continue;
        argument->name = d->names[count];
        if (draw(5) == 0)
            draw_anything(sizes, argument, &d->memory[count]);
        else
            draw_likely(argument->name, sizes, argument, &d->memory[count]);
        argument->name = d->names[count++];
    }
    const int results = draw(3) ? 1 : draw(4);
    for (int i = 0; i < results; i++)
        d->results[i] = (struct result){.kind = kinds[draw(8)], .name = names[i], .dtype = DT_f32};
    d->call = (struct call){.target = d->target,
                            .name = "call",
                            .arguments = d->arguments,
                            .argument_count = count,
                            .results = d->results,
                            .result_count = results,
                            .origin = &d->origin};
}

static void results_evaluate(struct loader *loader, const struct drawn *d)
{
    struct graph *graph = loader->graph;
    for (int i = 0; i < d->call.result_count; i++) {
        struct eval_tensor out;
        bool outside;
        const value v = tensor_get(loader, d->results[i].tensor);
        if (!v)
            continue;
        const phasor_status status =
            eval_value(graph, &(struct eval_options){0}, v, &out, &outside);
        cr_assert_eq(status, PHASOR_OK, "%s: %s", d->target, message_get());
        eval_tensor_free(&out);
    }
}

/* Whether the call was built. */
static bool call_try(const char *target, const char *parameters, uint32_t seed)
{
    struct world w;
    struct drawn d;
    state = seed;
    world_new(&w);
    struct loader loader = {.graph = &w.graph, .path = "test"};
    for (int i = 0; i < OPERANDS; i++)
        tensor_new(&loader, operand_node(&w.graph));
    call_draw(&d, &w.sizes, target, parameters);
    const phasor_status status = aten_call(&loader, &d.call);
    cr_assert_eq(status, PHASOR_OK, "%s, seed %u: status %d, %s", d.target, seed, (int)status,
                 message_get());
    cr_assert_eq(graph_verify(&w.graph), PHASOR_OK, "%s, seed %u: %s", d.target, seed,
                 message_get());
    const bool built = loader.refusals.count == 0;
    if (built)
        results_evaluate(&loader, &d);
    else
        cr_assert(loader.refusals.at[0].reason[0], "%s, seed %u", d.target, seed);
    loader_free(&loader);
    world_free(&w);
    return built;
}

Test(aten_rows, no_operands_make_a_damaged_file)
{
    int built = 0; /* rows */
    for (int row = 0; row < ROWS; row++) {
        int here = 0;
        for (int k = 0; k < DRAWS; k++)
            here += call_try(rows[row].target, rows[row].arguments, (uint32_t)(row * 7919 + k));
        built += here > 0;
    }
    cr_assert_gt(built, ROWS * 9 / 10); /* the draws are likely enough to get far */
    ASSERT_NO_LEAKS();
}
