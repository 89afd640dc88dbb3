/* test_aten.c - calls of the file become nodes: each sample is a few calls as text and lines
 * that the printed graph must have.
 *
 *     "y = aten.add.Tensor self=x other=x alpha=2"      "y = fma(x, scalar.10, x) : f32[s, 4]"
 *
 * A word is a name, a number (1, 0.5, 2j), True, False, None, a dtype, a "string" or a [list].
 * Results are tensors; #n is an integer, !n a bool, ~n a float. */
#include "base/number.h"
#include "load/loader.h"
#include "support/leak.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER                                                                                    \
    "phasor 1 \"aten\"\nsymbol s in 2..64 = 5\n"                                                  \
    "input x: f32[s, 4]\ninput b: bf16[4]\ninput i: i64[4]\ninput z: c64[s, 2]\ninput p: f32[s, " \
    "4, 2]\n"                                                                                     \
    "input m: bool[4]\ninput h: f16[4, 2]\ninput d: f64[]\ninput w: f32[1, 4]\n"
enum { NAMES = 64, WORDS = 16 };

struct name {
    char text[32];
    tensor tensor;
    dim size;
    bool is_size;
};

struct program {
    struct world world;
    struct loader loader;
    struct origin origin;
    struct name names[NAMES];
    int name_count;
};

/* -- a program made of calls ------------------------------------------------------------------- */

static void name_add(struct program *p, const char *text, tensor t, dim size, bool is_size)
{
    cr_assert_lt(p->name_count, NAMES);
    struct name *name = &p->names[p->name_count++];
    *name = (struct name){.tensor = t, .size = size, .is_size = is_size};
    snprintf(name->text, sizeof name->text, "%s", text);
}

static const struct name *name_find(const struct program *p, const char *text, size_t length)
{
    for (int k = p->name_count; k-- > 0;)
        if (strlen(p->names[k].text) == length && memcmp(p->names[k].text, text, length) == 0)
            return &p->names[k];
    return NULL;
}

static void program_open(struct program *p)
{
    *p = (struct program){0};
    world_parse(&p->world, HEADER);
    struct graph *graph = &p->world.graph;
    p->loader = (struct loader){.graph = graph, .path = "test"};
    for (size_t k = 0; k < graph->inputs.count; k++) {
        const tensor t = tensor_new(&p->loader, graph->inputs.at[k].node);
        p->loader.tensors.at[t].input = (int)k + 1;
        cr_assert_eq(
            loader_example(&p->loader, (int)k, graph_node(graph, graph->inputs.at[k].node), NULL),
            PHASOR_OK);
        name_add(p, graph->inputs.at[k].name, t, 0, false);
    }
    bool found;
    name_add(p, "s", 0, size_find_symbol(&p->world.sizes, "s", &found), true);
    cr_assert(found);
}

static void program_close(struct program *p)
{
    loader_free(&p->loader);
    world_free(&p->world);
    ASSERT_NO_LEAKS();
}

/* What a word needs memory for. */
struct word {
    tensor tensors[WORDS];
    dim sizes[WORDS];
    struct number number;
    char string[64];
};

/* "[x, None, 2]" without spaces */
static void list_read(struct program *p, const char *text, struct word *word, struct argument *out)
{
    out->kind = ARGUMENT_INTS;
    for (const char *at = text + 1; *at && *at != ']';) {
        const size_t length = strcspn(at, ",]");
        const struct name *name = name_find(p, at, length);
        if ((name && !name->is_size) || strncmp(at, "None", 4) == 0) {
            out->kind = ARGUMENT_TENSORS;
            word->tensors[out->count++] = name ? name->tensor : 0;
        } else {
            word->sizes[out->count++] =
                name ? name->size : size_literal(&p->world.sizes, atoll(at));
        }
        at += length + (at[length] == ',');
    }
    out->tensors = word->tensors;
    out->sizes = word->sizes;
}

static void number_take(struct program *p, const char *text, struct word *word,
                        struct argument *out)
{
    const double number = number_read(text, NULL);
    out->count = 1;
    out->numbers = &word->number;
    out->sizes = word->sizes;
    if (text[strlen(text) - 1] == 'j') {
        out->kind = ARGUMENT_COMPLEX;
        word->number.im = number;
    } else if (strchr(text, '.') || strchr(text, 'e')) {
        out->kind = ARGUMENT_FLOAT;
        word->number.re = number;
    } else {
        out->kind = ARGUMENT_INT;
        word->sizes[0] = size_literal(&p->world.sizes, atoll(text));
    }
}

static void word_read(struct program *p, const char *text, struct word *word, struct argument *out)
{
    const struct name *name = name_find(p, text, strlen(text));
    if (name) {
        word->tensors[0] = name->tensor;
        word->sizes[0] = name->size;
        *out = (struct argument){.name = out->name,
                                 .kind = name->is_size ? ARGUMENT_INT : ARGUMENT_TENSOR,
                                 .count = 1,
                                 .tensors = word->tensors,
                                 .sizes = word->sizes};
    } else if (text[0] == '[') {
        list_read(p, text, word, out);
    } else if (text[0] == '"') {
        out->kind = ARGUMENT_STRING;
        snprintf(word->string, sizeof word->string, "%.*s", (int)strlen(text) - 2, text + 1);
        out->string = word->string;
    } else if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
        out->kind = ARGUMENT_BOOL;
        out->flag = text[0] == 'T';
    } else if (dtype_parse(text, strlen(text), &out->dtype)) {
        out->kind = ARGUMENT_DTYPE;
    } else if (strcmp(text, "None") != 0) {
        number_take(p, text, word, out);
    }
}

static int results_read(char *text, struct result *results)
{
    int count = 0;
    for (char *at = strtok(text, ","); at; at = strtok(NULL, ",")) {
        const bool marked = strchr("#!~", at[0]) != NULL;
        const enum result_kind kind = at[0] == '#'   ? RESULT_INT
                                      : at[0] == '!' ? RESULT_BOOL
                                                     : RESULT_FLOAT;
        results[count++] = (struct result){
            .kind = marked ? kind : RESULT_TENSOR, .name = at + marked, .dtype = DT_f32};
    }
    return count;
}

/* "y = aten.neg.default self=x"; without results: "aten...". */
static phasor_status call_run(struct program *p, const char *line)
{
    char text[512], *words[WORDS], *at = text;
    struct argument arguments[WORDS] = {0};
    struct word memory[WORDS] = {0};
    struct result results[WORDS] = {0};
    struct call call = {
        .arguments = arguments, .results = results, .name = "call", .origin = &p->origin};
    snprintf(text, sizeof text, "%s", line);
    char *equals = strstr(text, " = ");
    if (equals) {
        *equals = 0;
        at = equals + 3;
    }
    int count = 0;
    for (char *word = strtok(at, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    cr_assert_gt(count, 0, "no call in \"%s\"", line);
    call.target = words[0];
    for (int k = 1; k < count; k++) {
        char *split = strchr(words[k], '=');
        *split = 0;
        arguments[call.argument_count].name = words[k];
        word_read(p, split + 1, &memory[k], &arguments[call.argument_count++]);
    }
    call.result_count = equals ? results_read(text, results) : 0;
    p->origin = (struct origin){.target = "test", .node = "call"};
    const phasor_status status = aten_call(&p->loader, &call);
    for (int k = 0; k < call.result_count && status == PHASOR_OK; k++)
        name_add(p, results[k].name, results[k].tensor, results[k].size, results[k].size_known);
    return status;
}

/* Lines of text, one call each. */
static void calls_run(struct program *p, const char *calls)
{
    char text[2048];
    snprintf(text, sizeof text, "%s", calls);
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        cr_assert_eq(call_run(p, line), PHASOR_OK, "%s\n%s", line, message_get());
    }
}

/* -- nodes ------------------------------------------------------------------------------------- */

struct sample {
    const char *calls, *lines;
};

/* Each line of `lines` begins a line of the printed graph. */
static void check_lines(struct program *p, const struct sample *sample)
{
    struct text printed = {0};
    graph_print(&p->world.graph, &printed);
    cr_assert_eq(graph_verify(&p->world.graph), PHASOR_OK, "%s", message_get());
    for (const char *line = sample->lines; *line;) {
        const size_t length = strcspn(line, "\n");
        char wanted[512];
        snprintf(wanted, sizeof wanted, "\n%.*s", (int)length, line);
        cr_assert(strstr(text_get(&printed), wanted), "%s\nlacks%s\nin\n%s", sample->calls, wanted,
                  text_get(&printed));
        line += length + (line[length] == '\n');
    }
    text_free(&printed);
}

static void check_samples(const struct sample *samples, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        struct program p;
        program_open(&p);
        calls_run(&p, samples[k].calls);
        cr_assert_eq(p.loader.refusals.count, 0, "%s", samples[k].calls);
        check_lines(&p, &samples[k]);
        program_close(&p);
    }
}
#define CHECK(samples) check_samples(samples, sizeof samples / sizeof samples[0])

Test(aten, elementwise)
{
    static const struct sample samples[] = {
        {"y = aten.exp.default self=x", "y = exp(x) : f32[s, 4]"},
        {"y = aten.exp.default self=i", "cast.10 = cast(i) : f32[4]\ny = exp(cast.10)"},
        {"y = aten.add.Tensor self=x other=x", "y = add(x, x) : f32[s, 4]"},
        {"y = aten.add.Tensor self=x other=x alpha=2",
         "scalar.10 = scalar value=2 : f32[]\ny = fma(x, scalar.10, x)"},
        {"y = aten.sub.Tensor self=i other=i alpha=2", "y = sub(i, mul.11) : i64[4]"},
        {"y = aten.rsub.Scalar self=x other=1", "y = sub(scalar.10, x)"},
        {"y = aten.div.Tensor self=i other=2", "y = div(cast.10, scalar.11) : f32[4]"},
        {"y = aten.div.Tensor_mode self=i other=2 rounding_mode=\"floor\"",
         "y = div_floor(i, scalar.10) : i64[4]"},
        {"y = aten.pow.Tensor_Scalar self=x exponent=2", "y = mul(x, x)"},
        {"y = aten.pow.Tensor_Scalar self=x exponent=0.5", "y = sqrt(x)"},
        {"y = aten.pow.Tensor_Scalar self=i exponent=3", "y = pow(i, scalar.10) : i64[4]"},
        {"y = aten.clamp.default self=x min=0.0", "y = maximum(x, scalar.10)"},
        {"y = aten.where.ScalarOther condition=m self=x other=0.0", "y = where(m, x, scalar.10)"},
        {"y = aten.floor.default self=i", "y = clone(i) flag=0 : i64[4]"},
        {"y = aten.logical_and.default self=x other=m", "y = bit_and(cast.10, m) : bool[s, 4]"},
        {"y = aten._conj.default self=z", "y = conj(z) : c64[s, 2]"},
    };
    CHECK(samples);
}

Test(aten, promotion)
{
    static const struct sample samples[] = {
        {"y = aten.mul.Tensor self=b other=x",
         "cast.10 = cast(b) : f32[4]\ny = mul(cast.10, x) : f32[s, 4]"},
        {"y = aten.mul.Tensor self=b other=d",
         "cast.10 = cast(d) : bf16[]\ny = mul(b, cast.10) : bf16[4]"},
        {"y = aten.mul.Tensor self=i other=d", "y = mul(cast.10, d) : f64[4]"},
        {"y = aten.mul.Tensor self=i other=0.5", "y = mul(cast.10, scalar.11) : f32[4]"},
        {"y = aten.mul.Tensor self=m other=2", "y = mul(cast.10, scalar.11) : i64[4]"},
        {"y = aten.mul.Tensor self=b other=1j", "y = mul(cast.10, scalar.11) : c64[4]"},
        {"y = aten.mul.Tensor self=d other=1j", "y = mul(cast.10, scalar.11) : c128[]"},
        {"y = aten.mul.Tensor self=z other=d",
         "cast.10 = cast(d) : c64[]\ny = mul(z, cast.10) : c64[s, 2]"},
        {"y = aten.mul.Tensor self=b other=0.3", "scalar.10 = scalar value=0.3 : bf16[]"},
        {"y = aten.gt.Scalar self=b other=0.3", "scalar.10 = scalar value=0.30078125 : bf16[]"},
        {"y = aten.mul.Tensor self=x other=s",
         "size.10 = size sizes=[s]\ncast.11 = cast(size.10) : f32[]"},
        {"y = aten.cat.default tensors=[x,z] dim=1", "y = concat(cast.10, z) axis=1 : c64[s, 6]"},
        {"y = aten.sum.default self=m",
         "cast.10 = cast(m) : i64[4]\ny = sum(cast.10) axes=[0] : i64[]"},
        {"y = aten.to.dtype self=x dtype=f64", "y = cast(x) : f64[s, 4]"},
        {"y = aten._to_copy.default self=x dtype=f32", "y = clone(x) flag=0 : f32[s, 4]"},
        {"y = prims.convert_element_type.default a=b dtype=c64", "y = cast(b) : c64[4]"},
        {"y = aten.polar.default abs=x angle=x", "y = polar(x, x) : c64[s, 4]"},
    };
    CHECK(samples);
}

Test(aten, views)
{
    static const struct sample samples[] = {
        {"y = aten.view.default self=x size=[s,2,-1]", "y = reshape(x) sizes=[s, 2, 2]"},
        {"y = aten.view.default self=x size=[-1]", "y = reshape(x) sizes=[4*s]"},
        {"y = aten.flatten.using_ints self=p start_dim=0 end_dim=1",
         "y = reshape(p) sizes=[4*s, 2]"},
        {"y = aten.unflatten.int self=x dim=-1 sizes=[-1,2]", "y = reshape(x) sizes=[s, 2, 2]"},
        {"y = aten.unsqueeze.default self=x dim=-1", "y = reshape(x) sizes=[s, 4, 1]"},
        {"y = aten.squeeze.dim self=w dim=0", "y = reshape(w) sizes=[4]"},
        {"y = aten.expand.default self=w size=[s,-1]", "y = expand(w) sizes=[s, 4]"},
        {"y = aten.permute.default self=p dims=[-1,0,1]",
         "y = permute(p) axes=[2, 0, 1] : f32[2, s, 4]"},
        {"y = aten.t.default self=x", "y = permute(x) axes=[1, 0]"},
        {"y = aten.slice.Tensor self=x dim=1 start=1 end=9223372036854775807 step=2",
         "y = slice(x) axis=1 start=1 length=2 step=2 : f32[s, 2]"},
        {"y = aten.slice.Tensor self=x dim=0 start=-2",
         "y = slice(x) axis=0 start=s - 2 length=2 step=1"},
        {"y = aten.select.int self=x dim=0 index=-1", "y = select(x) axis=0 start=s - 1"},
        {"a,c = aten.split_with_sizes.default self=x split_sizes=[1,3] dim=1",
         "c = slice(x) axis=1 start=1 length=3 step=1"},
        {"a,c = aten.chunk.default self=x chunks=2 dim=-1",
         "c = slice(x) axis=1 start=2 length=2 step=1"},
        {"a,c = aten.unbind.int self=p dim=-1", "c = select(p) axis=2 start=1"},
        {"y = aten.view_as_complex.default self=p", "y = view_as_complex(p) : c64[s, 4]"},
        {"y = aten.imag.default self=z", "y = imag(z) : f32[s, 2]"},
        {"y = aten.view_as_real_copy.default self=z",
         "y = clone(view_as_real.10) flag=1 : f32[s, 2, 2]"},
        {"y = aten.slice_scatter.default self=x src=w dim=0 start=1 end=2",
         "y = insert(x, w) axis=0 start=1 step=1"},
    };
    CHECK(samples);
}

Test(aten, creation_and_joins)
{
    static const struct sample samples[] = {
        {"y = aten.ones_like.default self=x",
         "expand.11 = expand(scalar.10) sizes=[s, 4]\ny = clone(expand.11) flag=1"},
        {"y = aten.full.default size=[2] fill_value=1 dtype=c64",
         "scalar.10 = scalar value=1+0j : c64[]"},
        {"y = aten.arange.default end=s", "y = iota sizes=[s] : i64[s]"},
        {"y = aten.arange.start_step start=0 end=s step=2 dtype=f32",
         "iota.10 = iota sizes=[floordiv(s + 1, 2)]\ny = cast(mul.12)"},
        {"y = aten.tril.default self=x diagonal=-1",
         "where.17 = where(le.15, x, scalar.16) : f32[s, 4]"},
        {"y = aten.stack.default tensors=[x,x] dim=-1",
         "y = concat(reshape.10, reshape.11) axis=2 : f32[s, 4, 2]"},
        {"y = aten.repeat.default self=b repeats=[2,3]",
         "expand.12 = expand(reshape.11) sizes=[2, 3, 4]"},
        {"y = aten.pad.default self=x pad=[1,2]",
         "y = pad(x) sizes=[0, 0, 1, 2] value=0 : f32[s, 7]"},
        {"y = aten.roll.default self=x shifts=[1] dims=[0]", "y = roll(x) axes=[0] sizes=[1]"},
        {"y = aten.flip.default self=x dims=[-1]", "y = flip(x) axes=[1]"},
    };
    CHECK(samples);
}

Test(aten, reductions_and_products)
{
    static const struct sample samples[] = {
        {"y = aten.sum.dim_IntList self=x dim=[1] keepdim=True",
         "y = reshape(sum.10) sizes=[s, 1]"},
        {"y = aten.mean.dim self=b dim=[0]",
         "sum.11 = sum(cast.10) axes=[0] : f32[]\ny = cast(div.13) : bf16[]"},
        {"a,c = aten.max.dim self=x dim=1",
         "a = amax(x) axes=[1] : f32[s]\nc = argmax(x) axis=1 : i64[s]"},
        {"a,c = aten.topk.default self=x k=2 dim=1", "a = gather(x, c) axis=1 : f32[s, 2]"},
        {"y = aten.cumsum.default self=m dim=0", "y = cumsum(cast.10) axis=0 : i64[4]"},
        {"y = aten.softmax.int self=x dim=-1", "div.16 = div(exp.13, reshape.15) : f32[s, 4]"},
        {"y = aten.linear.default input=p weight=h", ""},
        {"y = aten.matmul.default self=x other=z", ""},
        {"y = aten.outer.default self=b vec2=b", "y = mul(reshape.10, b) : bf16[4, 4]"},
        {"y = aten.index.Tensor self=x indices=[None,i]", "y = index(x, i) axis=1 : f32[s, 4]"},
        {"y = aten.index.Tensor self=p indices=[i,None,i]",
         "permute.10 = permute(p) axes=[0, 2, 1]\ny = index(permute.10, i, i) axis=0 : f32[4, 4]"},
        {"y = aten.index_put.default self=b indices=[m] values=d",
         "where.11 = where(m, cast.10, b) : bf16[4]"},
        {"y = aten.embedding.default weight=x indices=i", "y = index(x, i) axis=0 : f32[4, 4]"},
        {"y = aten.einsum.default equation=\"ij,kj->ik\" tensors=[x,x]",
         "y = dot(x, permute.10) : f32[s, s]"},
    };
    for (size_t k = 0; k < sizeof samples / sizeof samples[0]; k++)
        if (samples[k].lines[0])
            check_samples(&samples[k], 1);
}

/* Eager's strides: row-major, or those of the operand; in place nothing moves. */
Test(aten, layouts_of_results)
{
    static const struct sample samples[] = {
        {"y = aten.softmax.int self=x dim=-1", "y = clone(div.16) flag=1 : f32[s, 4]"},
        {"y = aten._log_softmax.default self=b dim=0 half_to_float=False",
         "cast.19 = cast(sub.18) : bf16[4]\ny = clone(cast.19) flag=1"},
        {"y = aten.masked_fill.Scalar self=b mask=m value=0",
         "where.11 = where(m, scalar.10, b) : bf16[4]\ny = clone(where.11) flag=1"},
        {"y = aten.clone.default self=b\nu = aten.masked_fill_.Scalar self=y mask=m value=0",
         "u = where(m, scalar.11, y) : bf16[4]"},
        {"y = aten.tril.default self=x", "y = clone(where.17) flag=1 : f32[s, 4]"},
        {"y = aten.angle.default self=z",
         "angle.10 = angle(z) : f32[s, 2]\ny = clone(angle.10) flag=1"},
        {"y = aten.angle.default self=x", "y = angle(x) : f32[s, 4]"},
        {"y = aten.scatter_add.default self=b dim=0 index=i src=b",
         "clone.10 = clone(b) flag=1 : bf16[4]\ny = scatter(clone.10, i, b) axis=0 flag=1"},
        {"y = aten.clone.default self=b\nu = aten.scatter_add_.default self=y dim=0 index=i src=b",
         "u = scatter(y, i, b) axis=0 flag=1"},
        {"y = aten.index_add.default self=b dim=0 index=i source=b",
         "clone.10 = clone(b) flag=1 : bf16[4]\ny = index_put(clone.10, b, i) axis=0 flag=1"},
        {"y = aten.index_fill.int_Scalar self=b dim=0 index=i value=0",
         "y = index_put(b, scalar.10, i) axis=0 flag=0"},
        {"o,l = aten._scaled_dot_product_flash_attention_for_cpu.default query=p key=p value=p",
         "l = permute(clone.32) axes=[1, 0] : f32[s, 4]"},
        {"y = aten.index_add.default self=d dim=0 index=d source=d", "y = reshape(index_put.14)"},
        {"y = aten.empty_strided.default size=[3,2] stride=[2,8]",
         "y = permute(slice.14) axes=[1, 0] : f32[3, 2]"},
        {"y = aten.new_empty_strided.default self=b size=[2,s] stride=[0,3] dtype=i64",
         "y = expand(reshape.14) sizes=[2, s] : i64[2, s]"},
        {"y = aten.index_put.default self=b indices=[m] values=d",
         "where.11 = where(m, cast.10, b) : bf16[4]\ny = insert(clone.12, where.11) axis=0 start=0 "
         "step=1"},
        {"a,c = aten.sort.default self=x dim=1",
         "gather.11 = gather(x, c) axis=1 : f32[s, 4]\n"
         "a = insert(clone.12, gather.11) axis=0 start=0 step=1"},
    };
    CHECK(samples);
}

/* -- memory ------------------------------------------------------------------------------------ */

Test(aten, writes_through_views)
{
    static const struct sample samples[] = {
        {"y = aten.clone.default self=x\nv = aten.slice.Tensor self=y dim=1 start=2\nu = "
         "aten.mul_.Tensor self=v other=2\n"
         "t = aten.neg.default self=y",
         "insert.14 = insert(y, mul.13) axis=1 start=2 step=1\nu = slice(insert.14) axis=1 start=2 "
         "length=2 step=1\n"
         "t = neg(insert.14)"},
        {"y = aten.clone.default self=z\nr = aten.imag.default self=y\nu = aten.neg_.default "
         "self=r\n"
         "t = aten.neg.default self=y",
         "complex.14 = complex(real.13, neg.12) : c64[s, 2]\nt = neg(complex.14)"},
        {"y = aten.clone.default self=x\nr = aten.view.default self=y size=[-1]\nv = "
         "aten.select.int self=r dim=0 index=3\n"
         "u = aten.fill_.Scalar self=v value=7\nt = aten.neg.default self=y",
         "insert.15 = insert(r, reshape.14) axis=0 start=3 step=1\nreshape.16 = reshape(insert.15) "
         "sizes=[s, 4]\n"
         "t = neg(reshape.16)"},
        {"y = aten.clone.default self=p\nc = aten.view_as_complex.default self=y\nu = "
         "aten.mul_.Tensor self=c other=1j\n"
         "t = aten.neg.default self=y",
         "view_as_real.14 = view_as_real(mul.13)\nt = neg(view_as_real.14)"},
        /* windows 0 and 3, of 1: what no window covers stays */
        {"y = aten.clone.default self=x\nu = aten.unfold.default self=y dimension=1 size=1 step=3\n"
         "v = aten.mul_.Tensor self=u other=2\nt = aten.neg.default self=y",
         "pad.23 = pad(permute.22) sizes=[0, 0, 0, 0, 0, 2] value=0 : f32[s, 2, 3]\n"
         "pad.25 = pad(reshape.24) sizes=[0, 0, 0, -2] value=0 : f32[s, 4]\n"
         "where.26 = where(bit_and.21, pad.25, y)\nt = neg(where.26)"},
        {"y = aten.clone.default self=z\nc = aten._conj.default self=y\n"
         "v = aten.mul_.Tensor self=c other=2\nt = aten.neg.default self=y",
         "conj.14 = conj(mul.13)\nt = neg(conj.14)"},
    };
    CHECK(samples);
}

Test(aten, written_input_is_an_output_of_its_slot)
{
    struct program p;
    program_open(&p);
    calls_run(&p, "v = aten.select.int self=x dim=0 index=0\nu = aten.zero_.default self=v");
    cr_assert_eq(tensor_finish(&p.loader), PHASOR_OK);
    const value written = p.world.graph.inputs.at[0].written;
    cr_assert_eq(graph_node(&p.world.graph, written)->op, OP_insert);
    cr_assert_eq(p.world.graph.inputs.at[1].written, 0);
    program_close(&p);
}

Test(aten, written_weight_becomes_a_buffer)
{
    static const float numbers[4] = {1, 2, 3, 4};
    static const struct storage storage = {numbers, sizeof numbers, 1};
    static const int64_t sizes[1] = {4}, strides[1] = {1};
    static const struct data data = {"weight", DT_f32, 1, sizes, strides, 0, &storage};
    struct program p;
    program_open(&p);
    const value v = graph_add(&p.world.graph, OP_data, DT_f32, NULL, 0,
                              &(struct attributes){.data = &data}, "weight");
    const tensor t = tensor_new(&p.loader, v);
    p.loader.tensors.at[t].constant = true;
    p.loader.tensors.at[t].data = &data;
    name_add(&p, "weight", t, 0, false);
    calls_run(&p, "u = aten.add_.Tensor self=weight other=1");
    cr_assert_eq(tensor_finish(&p.loader), PHASOR_OK);
    cr_assert_eq(graph_node(&p.world.graph, v)->op, OP_state);
    cr_assert_eq(p.world.graph.buffers.count, 1);
    cr_assert_eq(p.world.graph.buffers.at[0].node, v);
    cr_assert_eq(graph_node(&p.world.graph, p.world.graph.buffers.at[0].written)->op, OP_add);
    cr_assert_eq(graph_verify(&p.world.graph), PHASOR_OK, "%s", message_get());
    program_close(&p);
}

/* -- sizes ------------------------------------------------------------------------------------- */

Test(aten, sizes_are_no_nodes)
{
    struct program p;
    program_open(&p);
    const size_t before = p.world.graph.nodes.count;
    calls_run(&p,
              "#n = aten.sym_size.int self=x dim=0\n#k = _operator.mul a=2 b=n\n#r = "
              "_operator.floordiv a=k b=2\n"
              "!e = _operator.eq a=r b=s\n#o = _operator.sub a=n b=1\n!l = _operator.gt a=n b=100");
    cr_assert_eq(p.world.graph.nodes.count, before);
    check_size_text(&p.world, name_find(&p, "k", 1)->size, "2*s");
    check_size_text(&p.world, name_find(&p, "r", 1)->size, "s");
    check_size_text(&p.world, name_find(&p, "e", 1)->size, "1");
    check_size_text(&p.world, name_find(&p, "o", 1)->size, "s - 1");
    program_close(&p);
}

Test(aten, asserts_are_checks_or_dropped)
{
    struct program p;
    program_open(&p);
    calls_run(
        &p,
        "!e = _operator.le a=s b=32\naten._assert_scalar.default self=e assert_msg=\"too_long\"\n"
        "!t = _operator.eq a=s b=s\naten._assert_scalar.default self=t assert_msg=\"never\"\n"
        "aten._assert_tensor_metadata.default a=x dtype=f32\n"
        "aten.sym_constrain_range_for_size.default size=s max=48");
    cr_assert_eq(p.world.graph.checks.count, 2);
    cr_assert_str_eq(p.world.graph.checks.at[0].message, "too_long");
    program_close(&p);
}

/* -- refusals ---------------------------------------------------------------------------------- */

Test(aten, refusals)
{
    static const struct {
        const char *call, *reason;
    } samples[] = {
        {"y = aten.no_such_operator.default self=x", "no rule for this operator"},
        {"y = aten.fft_fft.default self=z", "Fourier transforms are not supported"},
        {"y = aten._linalg_det.default A=z", "solvers and decompositions"},
        {"y = aten.linalg_eigvals.default self=z", "solvers and decompositions"},
        {"y = aten.linalg_none_such.default self=z", "no rule for this operator"},
        {"y = aten.fft_none_such.default self=z", "no rule for this operator"},
        {"y = aten.normal_.default self=x", "random numbers are not supported"},
        {"y = aten.nonzero.default self=x", "the size of its result depends on values"},
        {"y = aten.nonzero_static.default self=x size=2", "places of what is not zero"},
        {"y = aten.repeat_interleave.Tensor repeats=i", "give the repeats as one integer"},
        {"y = aten.matrix_power.default self=p n=-1", "the inverse of a matrix"},
        {"y = aten.mul.Tensor self=h other=1j", "complex32"},
        {"y = aten.complex.default real=h imag=h", "complex32"},
        {"y = aten.view_as_complex.default self=h",
         "complex numbers are made of f32 or f64, not of f16"},
        {"y = aten.to.dtype self=x dtype=u16", "u16"},
        {"y = aten.index.Tensor self=b indices=[m]", "a mask as index"},
        {"y = aten.lt.Tensor self=z other=z", "not defined on complex numbers"},
        {"y = aten.argmax.default self=z", "complex numbers have no order"},
        {"y = aten.transpose_.default self=x dim0=0 dim1=1", "no rule for this operator in place"},
        {"y = aten.feature_dropout_.default self=x p=0.5 train=True", "dropout in training mode"},
        {"y = aten.mse_loss.default self=x target=x", "only its decomposition is supported"},
        {"y = aten.atleast_1d.Sequence tensors=[x,x]", "only its decomposition is supported"},
        {"y = aten.median.default self=x", "selection by rank"},
        {"y = aten.dropout.default input=x p=0.5 train=True", "dropout in training mode"},
        {"y = aten.neg.default self=x colour=3", "its argument colour is not supported"},
        {"y = aten.arange.default end=i", "a size or place that depends on the values of a tensor"},
    };
    for (size_t k = 0; k < sizeof samples / sizeof samples[0]; k++) {
        struct program p;
        program_open(&p);
        calls_run(&p, samples[k].call);
        cr_assert_eq(p.loader.refusals.count, 1, "%s", samples[k].call);
        cr_assert(strstr(p.loader.refusals.at[0].reason, samples[k].reason), "%s: %s",
                  samples[k].call, p.loader.refusals.at[0].reason);
        cr_assert_eq(graph_node(&p.world.graph, (value)p.world.graph.nodes.count - 1)->op,
                     OP_unknown);
        program_close(&p);
    }
}

/* A reason stands for operators that have no row, but for these, whose other overloads have none. */
Test(aten, reasons_are_of_operators_without_a_row)
{
    static const char *const rows[] = {
#define ATEN(target, arguments, builder, op) target,
#define ATEN_NUMBER(target, arguments, builder, number) target,
#define REFUSED(operator, reason)
#include "load/aten.def"
#undef ATEN
#undef ATEN_NUMBER
#undef REFUSED
    };
    static const char *const refused[] = {
#define ATEN(target, arguments, builder, op)
#define ATEN_NUMBER(target, arguments, builder, number)
#define REFUSED(operator, reason) operator".",
#include "load/aten.def"
#undef ATEN
#undef ATEN_NUMBER
#undef REFUSED
    };
    static const char some_overloads[] = " aten.atleast_1d. aten.atleast_2d. aten.atleast_3d. "
                                         "aten.linspace. aten.repeat_interleave. "
                                         "aten.tensor_split. ";
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
            cr_assert(strncmp(rows[k], refused[i], strlen(refused[i])) != 0 ||
                          strstr(some_overloads, refused[i]),
                      "%s", rows[k]);
}

/* An operator with an effect is refused as itself; one whose effect is on no value is run. */
Test(aten, effects)
{
    struct program p;
    program_open(&p);
    calls_run(&p, "t = with_effects token=d op=\"torch.ops.higher_order.print\" s=\"hello\"\n"
                  "u,y = with_effects token=t op=\"torch.ops.my.effect.default\" a=x\n"
                  "v = with_effects token=u op=\"torch.ops.aten._print.default\" s=\"hello\"");
    cr_assert_eq(p.loader.refusals.count, 1);
    cr_assert_str_eq(p.loader.refusals.at[0].origin->target, "my.effect.default");
    cr_assert_eq(name_find(&p, "v", 1)->tensor, name_find(&p, "d", 1)->tensor);
    program_close(&p);
}

/* One trouble is told once: what only uses a refused result is no refusal. */
Test(aten, refused_dtypes_do_not_cascade)
{
    struct program p;
    program_open(&p);
    calls_run(&p, "y = aten.mul.Tensor self=h other=1j");
    p.world.graph.nodes.at[p.world.graph.nodes.count - 1].dtype = DT_c32;
    calls_run(&p, "t = aten.neg.default self=y");
    cr_assert_eq(p.loader.refusals.count, 1);
    program_close(&p);
}

/* Whatever the operands are, the file is whole: what they do not fit is told. */
Test(aten, operands_that_do_not_fit_are_refused)
{
    static const struct {
        const char *call, *reason;
    } samples[] = {
        {"y = aten.mul.Tensor self=x", "its argument 1 is missing or no tensor or number"},
        {"y = aten.permute.default self=x dims=[0]", "needs each of 2 dims"},
        {"y = aten.select.int self=x dim=7 index=0", "dim 7 of a tensor of rank 2"},
        {"y = aten.view.default self=x size=[3]", "reshape(f32[s, 4]): the number of elements"},
        {"y = aten.add.Tensor self=x other=p",
         "add(f32[s, 4], f32[s, 4, 2]): shapes do not broadcast"},
        {"y = aten.cat.default tensors=[]", "its argument 0 is no list of tensors"},
        {"y = aten.slice.Tensor self=d dim=0", "a 0-dim tensor"},
        {"y = aten.diagonal_scatter.default self=p src=h dim1=1 dim2=2",
         "the diagonal has another size beside it"},
        {"a,c = aten.neg.default self=x", "it has 2 results in the file, and 1 here"},
        {"y,r = aten.max.dim self=x dim=[0,1]", "its argument 1 is missing or no integer"},
        {"y = aten.roll.default self=x shifts=[] dims=[]", "0 shifts for 1 dims"},
    };
    for (size_t k = 0; k < sizeof samples / sizeof samples[0]; k++) {
        struct program p;
        program_open(&p);
        calls_run(&p, samples[k].call);
        cr_assert_eq(p.loader.refusals.count, 1, "%s", samples[k].call);
        cr_assert(strstr(p.loader.refusals.at[0].reason, samples[k].reason), "%s: %s",
                  samples[k].call, p.loader.refusals.at[0].reason);
        cr_assert_eq(graph_verify(&p.world.graph), PHASOR_OK, "%s", message_get());
        program_close(&p);
    }
}

/* A file names so what none of its nodes reads: zeros, whatever it would be. */
Test(aten, results_that_nobody_reads_are_zeros)
{
    static const struct sample samples[] = {
        {"y,y_unused_1,n_unused_2,#k_unused_3 = "
         "aten._scaled_dot_product_flash_attention.default query=p key=p value=p",
         "y = dot(div.26, p)\ny_unused_1 = scalar value=0 : f32[]\n"},
    };
    CHECK(samples);
}
