/* emit.c - see emit.h. */
#include "base/number.h"
#include "codegen/emit_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *type, *suffix;
} types[DT_COUNT] = {
    [DT_bool] = {"bool", ""},  [DT_u8] = {"unsigned char", ""}, [DT_i8] = {"signed char", ""},
    [DT_i16] = {"short", ""},  [DT_i32] = {"int", ""},          [DT_i64] = {"long long", ""},
    [DT_f16] = {"float", "f"}, [DT_bf16] = {"float", "f"},      [DT_f32] = {"float", "f"},
    [DT_f64] = {"double", ""},
};

/* CUDA cells of the operator table. */
static const char *const cells[OP_COUNT] = {
#define NONE NULL
#define MAP(name, n, type, on, complex, rules, domain, ulp, cost, c, complex_c, cuda) \
    [OP_##name] = cuda,
#include "graph/ops.def"
#undef NONE
};

const char *emit_type(enum dtype dtype)
{
    return types[dtype].type;
}

void emitter_fail(struct emitter *emitter, phasor_status status)
{
    if (emitter->status == PHASOR_OK)
        emitter->status = status;
}

/* Emission divides forms: there is room for some atoms more. */
enum { EMISSION_ADDS = 4096 };

static bool emitted_init(struct emitted *emitted, size_t count)
{
    *emitted = (struct emitted){memory_new(count + EMISSION_ADDS), count + EMISSION_ADDS};
    return emitted->at;
}

phasor_status emitter_init(struct emitter *emitter, struct trace *trace, struct text *out)
{
    *emitter = (struct emitter){.trace = trace, .out = out};
    const bool room = emitted_init(&emitter->atoms, trace->index.atoms.count) &&
                      emitted_init(&emitter->guards, trace->guards.count) &&
                      emitted_init(&emitter->expressions, trace->expressions.count) &&
                      emitted_init(&emitter->rounded, trace->expressions.count);
    if (room)
        return PHASOR_OK;
    emitter_free(emitter);
    return fail_memory();
}

/* True the first time: the line is to be written now. */
static bool emit_first(struct emitter *emitter, struct emitted *emitted, uint32_t number)
{
    if (number >= emitted->room) {
        emitter_fail(emitter,
                     fail(PHASOR_ERROR_COMPILE, "a kernel that grows while it is written"));
        return false;
    }
    const bool first = !emitted->at[number];
    emitted->at[number] = true;
    return first;
}

void emitter_free(struct emitter *emitter)
{
    memory_free(emitter->atoms.at);
    memory_free(emitter->guards.at);
    memory_free(emitter->expressions.at);
    memory_free(emitter->rounded.at);
    array_free(&emitter->chunks);
}

/* -- numbers and cells ------------------------------------------------------------------------- */

static void real_text(double x, bool single, char name[NAME_SIZE])
{
    if (isnan(x)) {
        snprintf(name, NAME_SIZE, single ? "NOT_A_NUMBER" : "(double)NOT_A_NUMBER");
        return;
    }
    if (isinf(x)) {
        snprintf(name, NAME_SIZE, "(%s%s)", x < 0 ? "-" : "",
                 single ? "INFINITE" : "(double)INFINITE");
        return;
    }
    char digits[32];
    for (int precision = 1; precision <= 17; precision++) {
        number_format(digits, sizeof digits, "%.*g", precision, x);
        if (single ? number_read_single(digits, NULL) == (float)x : number_read(digits, NULL) == x)
            break;
    }
    const bool whole = !strpbrk(digits, ".e");
    const bool negative = signbit(x);
    snprintf(name, NAME_SIZE, "%s%s%s%s%s", negative ? "(" : "", digits, whole ? ".0" : "",
             single ? "f" : "", negative ? ")" : "");
}

void emit_number(enum dtype dtype, struct number number, char name[NAME_SIZE])
{
    if (dtype == DT_bool)
        snprintf(name, NAME_SIZE, number.i ? "true" : "false");
    else if (dtype == DT_i64 && number.i == INT64_MIN)
        snprintf(name, NAME_SIZE, "(-9223372036854775807LL - 1)");
    else if (dtype_size(dtype) < 4 && dtype_is_integer(dtype))
        snprintf(name, NAME_SIZE, "(%s)%" PRId64, types[dtype].type, number.i);
    else if (dtype_is_integer(dtype))
        snprintf(name, NAME_SIZE, number.i < 0 ? "(%" PRId64 "%s)" : "%" PRId64 "%s", number.i,
                 dtype == DT_i64 ? "LL" : "");
    else
        real_text(dtype == DT_f64 ? number.re : (float)number.re, dtype != DT_f64, name);
}

void emit_cell(const char *cell, enum dtype dtype, const char *const *operands, struct text *out)
{
    for (const char *c = cell; *c; c++) {
        if (*c != '%') {
            text_add_bytes(out, c, 1);
            continue;
        }
        c++;
        if (*c == 'f')
            text_add(out, types[dtype].suffix);
        else if (*c == 'T')
            text_add(out, types[dtype].type);
        else
            text_add(out, operands[*c - '0']);
    }
}

/* -- index forms ------------------------------------------------------------------------------- */

int argument_find(struct arguments *arguments, enum argument_kind kind, int buffer, dim size)
{
    for (size_t i = 0; i < arguments->list.count; i++) {
        const struct kernel_argument *old = &arguments->list.at[i];
        if (old->kind == kind && old->buffer == buffer && old->size == size)
            return (int)i;
    }
    const struct kernel_argument new = {kind, buffer, size};
    return array_push(&arguments->list, new) ? (int)arguments->list.count - 1 : -1;
}

static void emit_argument(struct emitter *emitter, enum argument_kind kind, dim size,
                          struct text *out)
{
    const int number = argument_find(emitter->arguments, kind, 0, size);
    if (number < 0)
        emitter_fail(emitter, fail_memory());
    emitter->arguments->sizes_inside = true;
    text_format(out, kind == ARGUMENT_SIZE ? "a.n%d" : "a.m%d", number);
}

static void emit_size(struct emitter *emitter, dim d, struct text *out)
{
    if (!size_is_literal(emitter->trace->index.sizes, d)) {
        emit_argument(emitter, ARGUMENT_SIZE, d, out);
        return;
    }
    const int64_t size = size_value(emitter->trace->index.sizes, d);
    text_format(out, size < 0 ? "(index_t)%" PRId64 "%s" : "%" PRId64 "%s", size,
                emitter->wide ? "LL"
                : size < 0    ? ""
                              : "u");
}

static void atom_name(struct emitter *emitter, atom a, char name[NAME_SIZE]);

static void emit_term(struct emitter *emitter, struct index_term term, bool first, struct text *out)
{
    char name[NAME_SIZE];
    atom_name(emitter, term.atom, name);
    text_add(out, first ? "" : " + ");
    text_add(out, name);
    if (term.coefficient != 1) {
        text_add(out, " * ");
        emit_size(emitter, term.coefficient, out);
    }
}

void emit_form(struct emitter *emitter, form f, struct text *out)
{
    const struct index_form at = emitter->trace->index.forms.at[f];
    for (int i = 0; i < at.count; i++)
        emit_term(emitter, at.terms[i], i == 0, out);
    if (at.constant || at.count == 0) {
        text_add(out, at.count ? " + " : "");
        emit_size(emitter, at.constant, out);
    }
}

/* A form that can stand before an operator of higher rank. */
static void emit_form_closed(struct emitter *emitter, form f, struct text *out)
{
    const struct index_form *at = &emitter->trace->index.forms.at[f];
    const bool closed =
        at->count == 0 || (at->count == 1 && at->constant == 0 && at->terms[0].coefficient == 1);
    text_add(out, closed ? "" : "(");
    emit_form(emitter, f, out);
    text_add(out, closed ? "" : ")");
}

/* "(i / 16 % a.n3)"; by a size that comes as an argument: quotient(i, a.m4), remainder(i, a.m4,
 * a.n3). A 64-bit index divides as the machine does. */
static void emit_division(struct emitter *emitter, const char *operator, dim divisor,
                          struct text *line)
{
    const bool by_argument =
        !emitter->wide && !size_is_literal(emitter->trace->index.sizes, divisor);
    if (!by_argument) {
        emitter->arguments->gains |= !size_is_literal(emitter->trace->index.sizes, divisor);
        text_format(line, " %s ", operator);
        emit_size(emitter, divisor, line);
        return;
    }
    struct text whole = {0};
    text_add(&whole, *operator== '/' ? "quotient(" : "remainder(");
    text_add(&whole, text_get(line));
    text_add(&whole, ", ");
    emit_argument(emitter, ARGUMENT_DIVISOR, divisor, &whole);
    if (*operator!= '/') {
        text_add(&whole, ", ");
        emit_argument(emitter, ARGUMENT_SIZE, divisor, &whole);
    }
    text_add(&whole, ")");
    if (whole.failed || line->failed)
        emitter_fail(emitter, fail_memory());
    text_free(line);
    *line = whole;
}

static void emit_digit(struct emitter *emitter, atom a)
{
    const struct index_atom at = emitter->trace->index.atoms.at[a];
    struct sizes *sizes = emitter->trace->index.sizes;
    struct text line = {0};
    emit_form_closed(emitter, at.base, &line);
    if (at.low != 1)
        emit_division(emitter, "/", at.low, &line);
    if (at.high)
        emit_division(emitter, "%", size_floordiv(sizes, at.high, at.low), &line);
    text_format(emitter->out, "    const index_t d%u = %s;\n", a, text_get(&line));
    if (line.failed)
        emitter_fail(emitter, fail_memory());
    text_free(&line);
}

static void atom_name(struct emitter *emitter, atom a, char name[NAME_SIZE])
{
    const struct index_atom at = emitter->trace->index.atoms.at[a];
    if (at.kind == ATOM_VARIABLE) {
        snprintf(name, NAME_SIZE, "%c", (char)at.source);
        return;
    }
    snprintf(name, NAME_SIZE, "d%u", a);
    if (!emit_first(emitter, &emitter->atoms, a))
        return;
    if (at.kind == ATOM_DIGIT) {
        emit_digit(emitter, a);
        return;
    }
    char value_name[NAME_SIZE];
    emit_value(emitter, at.source, value_name);
    text_format(emitter->out, "    const index_t d%u = (index_t)%s;\n", a, value_name);
}

/* The question of a guard alone: "i < 16". */
static void emit_question(struct emitter *emitter, guard g, struct text *out)
{
    const struct guard_question *q = &emitter->trace->guards.at[g];
    emit_form(emitter, q->a, out);
    text_add(out, q->inverted ? " >= " : " < ");
    emit_size(emitter, q->bound, out);
}

void emit_guard(struct emitter *emitter, guard g)
{
    if (g == 0 || !emit_first(emitter, &emitter->guards, g))
        return;
    const guard parent = emitter->trace->guards.at[g].parent;
    emit_guard(emitter, parent);
    struct text line = {0};
    emit_question(emitter, g, &line);
    if (parent)
        text_format(emitter->out, "    const bool g%u = g%u && %s;\n", g, parent, text_get(&line));
    else
        text_format(emitter->out, "    const bool g%u = %s;\n", g, text_get(&line));
    if (line.failed)
        emitter_fail(emitter, fail_memory());
    text_free(&line);
}

/* -- values ------------------------------------------------------------------------------------ */

/* Element `at` of chunk variable x as a value of the dtype. */
static void element_text(enum dtype dtype, int x, int at, struct text *out)
{
    const int nbytes = dtype_size(dtype), word = at * nbytes / 4, shift = at * nbytes % 4 * 8;
    switch (dtype) {
    case DT_f32: text_format(out, "f32_from(x%d.w[%d])", x, word); break;
    case DT_f64: text_format(out, "f64_from(x%d.w[%d], x%d.w[%d])", x, word, x, word + 1); break;
    case DT_i64: text_format(out, "i64_from(x%d.w[%d], x%d.w[%d])", x, word, x, word + 1); break;
    case DT_bf16: text_format(out, "bf16_%s(x%d.w[%d])", shift ? "high" : "low", x, word); break;
    case DT_f16: text_format(out, "f16_%s(x%d.w[%d])", shift ? "high" : "low", x, word); break;
    case DT_bool: text_format(out, "(x%d.w[%d] >> %d & 255u) != 0", x, word, shift); break;
    default: text_format(out, "(%s)(x%d.w[%d] >> %d)", types[dtype].type, x, word, shift); break;
    }
}

static bool is_half(enum dtype dtype)
{
    return dtype == DT_f16 || dtype == DT_bf16;
}

/* Whether the line of e holds a value that is not yet rounded to f16 or bf16. */
static bool is_unrounded(const struct expression *e)
{
    return is_half(e->dtype) && e->kind == EXPR_MAP;
}

static void emit_map(struct emitter *emitter, expr e, struct text *line)
{
    const struct expression *at = expression_at(emitter, e);
    char names[3][NAME_SIZE];
    const char *operands[3] = {names[0], names[1], names[2]};
    for (int i = 0; i < at->argument_count; i++)
        emit_value(emitter, at->arguments[i], names[i]);
    enum dtype dtype = at->dtype;
    if (op_info[at->op].type == TYPE_BOOL) /* the cell is about the operands */
        dtype = expression_at(emitter, at->arguments[0])->dtype;
    if (at->op == OP_cast && at->dtype == DT_bool)
        text_format(line, "%s != 0", operands[0]);
    else if (at->op == OP_cast && dtype_is_integer(at->dtype) &&
             !dtype_is_integer(expression_at(emitter, at->arguments[0])->dtype))
        text_format(line, "(%s)to_integer(%s)", types[dtype].type, operands[0]);
    else
        emit_cell(cells[at->op], dtype, operands, line);
}

static void emit_checked(struct emitter *emitter, const struct expression *at, struct text *line)
{
    char name[NAME_SIZE];
    emit_guard(emitter, at->guard);
    emit_value(emitter, at->arguments[0], name);
    if (at->guard) /* elsewhere nobody wants it, and it may be anything */
        text_format(line, "!g%u ? 0LL : ", at->guard);
    text_format(line, "check_index(%s, ", name);
    if (size_is_literal(emitter->trace->index.sizes, at->size)) {
        text_format(line, "%" PRId64 "LL", size_value(emitter->trace->index.sizes, at->size));
    } else {
        text_add(line, "(long long)");
        emit_size(emitter, at->size, line);
    }
    text_add(line, ", a.flag)");
    emitter->uses_flag = true;
}

static void emit_choose(struct emitter *emitter, const struct expression *at, struct text *line)
{
    char yes[NAME_SIZE], no[NAME_SIZE];
    emit_value(emitter, at->arguments[0], yes);
    emit_value(emitter, at->arguments[1], no);
    emit_question(emitter, at->guard, line);
    text_format(line, " ? %s : %s", yes, no);
}

static void emit_load(struct emitter *emitter, const struct expression *at, struct text *line)
{
    int element = 0;
    const int chunk = chunk_find(emitter, at, &element);
    if (chunk < 0) {
        emitter_fail(emitter, fail(PHASOR_ERROR_COMPILE,
                                   "internal: an element that no load was planned for"));
        return;
    }
    emit_chunk(emitter, chunk);
    element_text(at->dtype, chunk, element, line);
}

static const char *line_comment(const struct expression *at)
{
    return at->kind == EXPR_MAP ? op_info[at->op].name : NULL;
}

/* The line of e: "const float v7 = ...;" */
static void result_name(int number, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, number ? "result%d" : "result", number);
}

static void emit_line(struct emitter *emitter, expr e)
{
    const struct expression *at = expression_at(emitter, e);
    struct text line = {0};
    if (at->kind == EXPR_MAP)
        emit_map(emitter, e, &line);
    else if (at->kind == EXPR_LOAD)
        emit_load(emitter, at, &line);
    else if (at->kind == EXPR_CHECKED)
        emit_checked(emitter, at, &line);
    else if (at->kind == EXPR_CHOOSE)
        emit_choose(emitter, at, &line);
    else if (at->kind == EXPR_INDEX) {
        text_add(&line, "(long long)(");
        emit_form(emitter, at->index, &line);
        text_add(&line, ")");
    } else {
        char name[NAME_SIZE];
        result_name(at->buffer, name);
        text_add(&line, name);
    }
    const char *comment = line_comment(at);
    text_format(emitter->out, "    const %s v%u = %s;%s%s\n", types[at->dtype].type, e,
                text_get(&line), comment ? " // " : "", comment ? comment : "");
    if (line.failed)
        emitter_fail(emitter, fail_memory());
    text_free(&line);
}

/* A cast between types that are one in C: bf16 to f32, and f32 to bf16 before it is rounded. */
static bool is_renaming(const struct emitter *emitter, const struct expression *at)
{
    return at->kind == EXPR_MAP && at->op == OP_cast &&
           strcmp(types[at->dtype].type,
                  types[expression_at(emitter, at->arguments[0])->dtype].type) == 0;
}

static void emit_unrounded(struct emitter *emitter, expr e, char name[NAME_SIZE])
{
    const struct expression *at = expression_at(emitter, e);
    if (is_renaming(emitter, at)) {
        emit_value(emitter, at->arguments[0], name);
        return;
    }
    if (at->kind == EXPR_LITERAL) {
        emit_number(at->dtype, at->number, name);
        return;
    }
    if (emit_first(emitter, &emitter->expressions, e))
        emit_line(emitter, e);
    snprintf(name, NAME_SIZE, "v%u", e);
}

void emit_value(struct emitter *emitter, expr e, char name[NAME_SIZE])
{
    const struct expression *at = expression_at(emitter, e);
    emit_unrounded(emitter, e, name);
    if (!is_unrounded(at))
        return;
    if (emit_first(emitter, &emitter->rounded, e))
        text_format(emitter->out, "    const float r%u = round_%s(%s);\n", e, dtype_text(at->dtype),
                    name);
    snprintf(name, NAME_SIZE, "r%u", e);
}

void emit_result(enum dtype dtype, int number, const char *from, struct text *out)
{
    char name[NAME_SIZE];
    result_name(number, name);
    if (is_half(dtype))
        text_format(out, "    const float %s = round_%s(%s);\n", name, dtype_text(dtype), from);
    else
        text_format(out, "    const %s %s = (%s)%s;\n", types[dtype].type, name, types[dtype].type,
                    from);
}

/* -- stores ------------------------------------------------------------------------------------ */

/* Word `word` of a run of lanes. */
static void word_text(enum dtype dtype, char (*names)[NAME_SIZE], int word, int lanes,
                      struct text *out)
{
    const int nbytes = dtype_size(dtype);
    if (nbytes == 8) {
        text_format(out, "%s_word(%s)", word % 2 ? "high" : "low", names[word / 2]);
        return;
    }
    const int first = word * 4 / nbytes, per_word = 4 / nbytes;
    if (nbytes == 4) {
        text_format(out, "bits_of(%s)", names[first]);
        return;
    }
    if (is_half(dtype)) {
        text_format(out, "pack_%s(%s, %s)", dtype_text(dtype), names[first],
                    first + 1 < lanes ? names[first + 1] : "0.0f");
        return;
    }
    for (int i = 0; i < per_word && first + i < lanes; i++)
        text_format(out, i ? " | (u32)(unsigned %s)%s << %d" : "(u32)(unsigned %s)%s",
                    nbytes == 1 ? "char" : "short", names[first + i], 8 * nbytes * i);
}

static void emit_run(struct emitter *emitter, int buffer, form index, char (*names)[NAME_SIZE],
                     int lanes)
{
    const struct buffer *b = plan_buffer(emitter->trace->plan, buffer);
    const int nbytes = lanes * dtype_size(b->dtype), words = nbytes < 4 ? 1 : nbytes / 4;
    /* What the kernel's caller reads next is not kept in the cache; what the next kernel reads is.
     */
    const bool streams = b->kind == BUFFER_OUTPUT || b->kind == BUFFER_SLOT;
    struct text text = {0};
    emit_form(emitter, index, &text);
    text_format(emitter->out, "    %s%d(a.p%d, %s, vec%d{{", streams ? "stream" : "store", nbytes,
                emitter->pointers[buffer], text_get(&text), words * 4);
    for (int word = 0; word < words; word++) {
        text_add(emitter->out, word ? ", " : "");
        word_text(b->dtype, names, word, lanes, emitter->out);
    }
    text_add(emitter->out, "}});\n");
    if (text.failed)
        emitter_fail(emitter, fail_memory());
    text_free(&text);
}

/* Whether lanes 0..count stand one after another in memory. */
static bool addresses_run(struct emitter *emitter, const form *addresses, int count, form *rest,
                          int64_t *start)
{
    for (int i = 0; i < count; i++) {
        form this_rest;
        int64_t constant;
        if (!index_split(&emitter->trace->index, addresses[i], &this_rest, &constant))
            return false;
        if (i == 0) {
            *rest = this_rest;
            *start = constant;
        } else if (this_rest != *rest || constant != *start + i) {
            return false;
        }
    }
    return true;
}

static int store_width(struct emitter *emitter, const struct buffer *buffer, form rest,
                       int64_t start, int count)
{
    const int nbytes = dtype_size(buffer->dtype);
    int width = 16 / nbytes;
    while (width > 1 && (count % width || buffer->alignment < width * nbytes || start % width ||
                         !index_is_multiple(&emitter->trace->index, rest, width)))
        width /= 2;
    return width;
}

void emit_store(struct emitter *emitter, int buffer, const form *addresses, const expr *lanes,
                int count)
{
    char names[16][NAME_SIZE];
    form rest = 0;
    int64_t start = 0;
    for (int i = 0; i < count; i++)
        emit_unrounded(emitter, lanes[i], names[i]);
    if (!addresses_run(emitter, addresses, count, &rest, &start)) {
        for (int i = 0; i < count; i++)
            emit_run(emitter, buffer, addresses[i], names + i, 1);
        return;
    }
    const int width =
        store_width(emitter, plan_buffer(emitter->trace->plan, buffer), rest, start, count);
    for (int i = 0; i < count; i += width)
        emit_run(emitter, buffer, emit_run_index(emitter, rest, start + i, width), names + i,
                 width);
}
