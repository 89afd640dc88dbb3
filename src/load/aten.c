/* aten.c - one call of the file becomes nodes of the graph: finds its row in aten.def, puts the
 * arguments in the row's order with their defaults, runs the builder and names the results.
 *
 *     aten.mul_.Tensor(y, 2.0)              no such row: that of aten.mul.Tensor, written into y
 *     aten.expand_copy.default(x, [4, -1])  no such row: aten.expand.default, sharing no memory
 *     aten.fft_fft.default(z)               no row: an `unknown` node and a refusal */
#include "load/aten.h"

#include "base/number.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct aten_row {
    const char *target, *arguments;
    void (*build)(struct aten *a);
    enum op op;
    int number;
};

static const struct aten_row rows[] = {
#define ATEN(target, arguments, builder, op) {target, arguments, build_##builder, OP_##op, 0},
#define ATEN_NUMBER(target, arguments, builder, number) \
    {target, arguments, build_##builder, OP_none, number},
#define REFUSED(operator, reason)
#include "load/aten.def"
#undef ATEN
#undef ATEN_NUMBER
#undef REFUSED
};

/* Operators that have no row for a reason. */
static const struct {
    const char *operator, * reason;
} refused[] = {
#define ATEN(target, arguments, builder, op)
#define ATEN_NUMBER(target, arguments, builder, number)
#define REFUSED(operator, reason) {operator, reason },
#include "load/aten.def"
#undef ATEN
#undef ATEN_NUMBER
#undef REFUSED
};

/* -- finding the row --------------------------------------------------------------------------- */

static const struct aten_row *row_find_exactly(const char *target)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].target, target) == 0)
            return &rows[i];
    return NULL;
}

/* The row of the target without `suffix` at the end of the operator's name: aten.mul_.Tensor ->
 * aten.mul.Tensor. */
static const struct aten_row *row_find_without(const char *target, const char *suffix)
{
    const char *overload = strrchr(target, '.');
    const size_t removed = strlen(suffix), name = overload ? (size_t)(overload - target) : 0;
    char base[128];
    if (name <= removed || strlen(target) >= sizeof base ||
        memcmp(overload - removed, suffix, removed) != 0)
        return NULL;
    snprintf(base, sizeof base, "%.*s%s", (int)(name - removed), target, overload);
    return row_find_exactly(base);
}

/* aten.__iand__.Tensor -> aten.__and__.Tensor */
static const struct aten_row *row_find_augmented(const char *target)
{
    static const char head[] = "aten.__i";
    char base[128];
    if (strncmp(target, head, sizeof head - 1) != 0 || strlen(target) >= sizeof base)
        return NULL;
    snprintf(base, sizeof base, "aten.__%s", target + sizeof head - 1);
    return row_find_exactly(base);
}

/* aten.pow_.Tensor, which is no other row's: its operator ends in one underscore. */
static bool name_is_in_place(const char *target)
{
    const char *overload = strrchr(target, '.');
    return strncmp(target, "aten.", 5) == 0 && overload - target > 6 && overload[-1] == '_' &&
           overload[-2] != '_';
}

static const struct aten_row *row_find(struct aten *a)
{
    const char *target = a->call->target;
    const struct aten_row *row = row_find_exactly(target);
    a->in_place = row && name_is_in_place(target);
    if (!row) {
        row = row_find_without(target, "_copy");
        a->copy = row != NULL;
    }
    if (!row) {
        row = row_find_without(target, "_");
        row = row ? row : row_find_augmented(target);
        a->in_place = row != NULL;
    }
    return row;
}

/* By the operator, whatever its overload, in place or not: aten.normal_.default is aten.normal. */
static const char *refused_reason(const char *target)
{
    const char *overload = strncmp(target, "aten.", 5) == 0 ? strrchr(target, '.') : NULL;
    const size_t length = overload ? (size_t)(overload - target) : strlen(target);
    const size_t plain = name_is_in_place(target) ? length - 1 : length;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (strlen(refused[i].operator) == plain &&
            strncmp(target, refused[i].operator, plain) == 0)
            return refused[i].reason;
    return plain < length ? "no rule for this operator in place" : "no rule for this operator";
}

void aten_refuse(struct aten *a, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (a->reason || a->graph->status != PHASOR_OK)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    a->reason = arena_string(a->graph->arena, text);
    if (a->reason)
        graph_fail(a->graph, PHASOR_ERROR_REFUSED, "%s", text);
    else
        graph_fail(a->graph, fail_memory(), "out of memory");
}

/* -- arguments --------------------------------------------------------------------------------- */

/* "[0,1]" */
static void default_list(struct aten *a, const char *text, struct argument *out)
{
    dim sizes[RANK_MAX];
    out->kind = ARGUMENT_INTS;
    for (const char *at = text + 1; *at != ']' && out->count < RANK_MAX;) {
        char *end;
        sizes[out->count++] = aten_literal(a, strtoll(at, &end, 10));
        at = *end == ',' ? end + 1 : end;
    }
    if (out->count &&
        !(out->sizes = arena_copy(a->graph->arena, sizes, (size_t)out->count * sizeof *sizes)))
        graph_fail(a->graph, fail_memory(), "out of memory");
}

static void default_number(struct aten *a, const char *text, struct argument *out)
{
    char *end;
    const int64_t integer = strtoll(text, &end, 10);
    const bool whole = *end == 0;
    const dim size = whole ? aten_literal(a, integer) : 0;
    const struct number number = {.i = integer, .re = number_read(text, NULL)};
    out->kind = whole ? ARGUMENT_INT : ARGUMENT_FLOAT;
    out->count = 1;
    out->sizes = arena_copy(a->graph->arena, &size, sizeof size);
    out->numbers = arena_copy(a->graph->arena, &number, sizeof number);
    if (!out->sizes || !out->numbers)
        graph_fail(a->graph, fail_memory(), "out of memory");
}

/* What stands after the = of a row: 1, 1e-5, True, None, [0,1] or a word. */
static void default_parse(struct aten *a, const char *text, struct argument *out)
{
    if (strcmp(text, "None") == 0)
        return;
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
        out->kind = ARGUMENT_BOOL;
        out->flag = text[0] == 'T';
    } else if (text[0] == '[') {
        default_list(a, text, out);
    } else if (strchr("-0123456789", text[0])) {
        default_number(a, text, out);
    } else {
        out->kind = ARGUMENT_STRING;
        out->string = arena_string(a->graph->arena, text);
        if (!out->string)
            graph_fail(a->graph, fail_memory(), "out of memory");
    }
}

static const struct argument *argument_find(const struct call *call, const char *name, int position)
{
    for (int i = 0; i < call->argument_count; i++)
        if (strcmp(call->arguments[i].name, name) == 0)
            return &call->arguments[i];
    return position < call->argument_count && !call->arguments[position].name[0]
               ? &call->arguments[position]
               : NULL;
}

/* Takes the row's next parameter from *text: "alpha=1" gives its name and its default (NULL
 * without one). */
static bool parameter_next(const char **text, char name[64], char value_text[64], bool *has_default)
{
    const char *end = strstr(*text, ", ");
    const size_t length = end ? (size_t)(end - *text) : strlen(*text);
    if (length == 0 || length >= 64)
        return false;
    memcpy(name, *text, length);
    name[length] = 0;
    char *equals = strchr(name, '=');
    *has_default = equals != NULL;
    if (equals) {
        *equals = 0;
        strcpy(value_text, equals + 1);
    }
    *text += end ? length + 2 : length;
    return true;
}

/* Device, layout and the like decide nothing here. */
static bool argument_is_ignored(const struct argument *argument)
{
    static const char *const names[] = {"device", "layout", "pin_memory", "non_blocking",
                                        "generator"};
    if (argument->kind == ARGUMENT_NONE || argument->kind == ARGUMENT_IGNORED)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(argument->name, names[i]) == 0)
            return true;
    return false;
}

static void arguments_bind(struct aten *a, const struct aten_row *row)
{
    char name[64], value_text[64];
    bool has_default;
    int count = 0;
    for (const char *text = row->arguments;
         count < ATEN_ARGUMENTS && parameter_next(&text, name, value_text, &has_default); count++) {
        const struct argument *given = argument_find(a->call, name, count);
        if (given)
            a->arguments[count] = *given;
        else if (has_default)
            default_parse(a, value_text, &a->arguments[count]);
    }
}

static bool row_has_parameter(const struct aten_row *row, const char *wanted)
{
    char name[64], value_text[64];
    bool has_default;
    for (const char *text = row->arguments; parameter_next(&text, name, value_text, &has_default);)
        if (strcmp(name, wanted) == 0)
            return true;
    return false;
}

/* Rows without parameters (higher-order operators) read the call themselves. */
static void arguments_check(struct aten *a, const struct aten_row *row)
{
    for (int i = 0; i < a->call->argument_count && row->arguments[0]; i++) {
        const struct argument *given = &a->call->arguments[i];
        if (given->name[0] && !argument_is_ignored(given) && !row_has_parameter(row, given->name))
            aten_refuse(a, "its argument %s is not supported", given->name);
    }
}

/* -- results ----------------------------------------------------------------------------------- */

static bool dtype_is_refused(enum dtype dtype)
{
    return dtype_info[dtype].kind == DTC_NAMED;
}

static struct result *result_next(struct aten *a)
{
    return a->produced < a->call->result_count ? &a->call->results[a->produced++] : NULL;
}

/* Whether no node of the file reads it: that is how a file names such a result. */
static bool result_is_unused(const struct result *result)
{
    return result->name && strstr(result->name, "_unused_") != NULL;
}

/* What nobody reads need not be computed: zeros stand for it. */
static void results_fill_unused(struct aten *a)
{
    while (!a->reason && a->graph->status == PHASOR_OK && a->produced < a->call->result_count) {
        const struct result *result = &a->call->results[a->produced];
        const bool known = result->kind == RESULT_TENSOR && !dtype_is_refused(result->dtype);
        const value zero = aten_number(a, known ? result->dtype : DT_f32, 0);
        if (result->kind == RESULT_NONE)
            a->produced++;
        else if (!result_is_unused(result))
            break;
        else if (result->kind == RESULT_INT)
            aten_known(a, 0);
        else
            aten_new(a, known ? aten_full(a, zero, result->sizes, result->rank) : zero);
    }
}

/* Nodes that this call added get the file's name. Names of regions repeat those outside: they
 * get a number. */
static void result_name(struct aten *a, const struct result *result, value v)
{
    if (v < a->first || v >= a->graph->nodes.count || !result->name)
        return;
    const char *name = a->loader->regions ? arena_format(a->graph->arena, "%s.%u", result->name, v)
                                          : arena_string(a->graph->arena, result->name);
    if (name)
        a->graph->nodes.at[v].name = name;
    else
        graph_fail(a->graph, fail_memory(), "out of memory");
}

static void result_set(struct aten *a, tensor t)
{
    struct result *result = result_next(a);
    if (!result)
        return;
    result->tensor = t;
    result_name(a, result, tensor_get(a->loader, t));
}

/* The value in argument 0's dtype and shape, in memory that no other tensor has. */
static void result_write(struct aten *a, value v)
{
    const tensor self = aten_tensor(a, 0);
    const value old = tensor_get(a->loader, self);
    v = aten_cast(a, v, aten_type(a, old));
    v = graph_expand(a->graph, v, aten_shape(a, old), aten_rank(a, old));
    if (v < a->first || graph_node(a->graph, v)->op == OP_expand)
        v = aten_clone(a, v, FORMAT_PRESERVE);
    if (a->reason || a->graph->status != PHASOR_OK)
        return;
    tensor_write(a->loader, self, v);
    result_set(a, self);
}

void aten_new(struct aten *a, value v)
{
    if (a->reason || a->graph->status != PHASOR_OK)
        return;
    if (a->in_place && a->produced == 0) {
        result_write(a, v);
        return;
    }
    if (v < a->first)
        v = aten_clone(a, v, FORMAT_PRESERVE);
    result_set(a, tensor_new(a->loader, v));
}

void aten_new_row_major(struct aten *a, value v)
{
    aten_new(a, aten_row_major(a, v));
}

void aten_view(struct aten *a, tensor base, value v)
{
    if (a->reason || a->graph->status != PHASOR_OK)
        return;
    if (a->copy)
        result_set(a, tensor_new(a->loader, aten_clone(a, v, FORMAT_CONTIGUOUS)));
    else
        result_set(a, tensor_view(a->loader, base, v));
}

void aten_fork(struct aten *a, tensor base, value v)
{
    const struct result *result =
        a->produced < a->call->result_count ? &a->call->results[a->produced] : NULL;
    if (a->reason || a->graph->status != PHASOR_OK)
        return;
    if (a->copy)
        aten_view(a, base, v);
    else
        result_set(a, tensor_fork(a->loader, base, v,
                                  result && result->has_strides ? result->strides : NULL));
}

void aten_same(struct aten *a, tensor t)
{
    if (a->reason || a->graph->status != PHASOR_OK)
        return;
    if (a->copy)
        result_set(a,
                   tensor_new(a->loader, aten_clone(a, tensor_get(a->loader, t), FORMAT_PRESERVE)));
    else
        result_set(a, tensor_same(a->loader, t));
}

void aten_known(struct aten *a, dim size)
{
    struct result *result = a->reason ? NULL : result_next(a);
    if (!result)
        return;
    result->size = size;
    result->size_known = true;
}

void aten_results_named(struct aten *a)
{
    for (int i = 0; i < a->call->result_count; i++)
        if (a->call->results[i].tensor)
            result_name(a, &a->call->results[i], tensor_get(a->loader, a->call->results[i].tensor));
    a->produced = a->call->result_count;
}

/* -- calls that are refused -------------------------------------------------------------------- */

/* All tensors of the call, in order, that have a value. */
static value *operands_of(struct aten *a, int *count)
{
    int room = 0;
    for (int i = 0; i < a->call->argument_count; i++)
        room += a->call->arguments[i].count + 1;
    value *operands = NEW(a->graph->arena, value, room);
    *count = 0;
    for (int i = 0; operands && i < a->call->argument_count; i++) {
        const struct argument *given = &a->call->arguments[i];
        const int tensors = given->kind == ARGUMENT_TENSOR    ? 1
                            : given->kind == ARGUMENT_TENSORS ? given->count
                                                              : 0;
        for (int k = 0; k < tensors; k++)
            if (given->tensors[k])
                operands[(*count)++] = tensor_get(a->loader, given->tensors[k]);
    }
    return operands;
}

/* A value of the file's type that nobody can compute. */
static void result_unknown(struct aten *a, struct result *result, const value *operands, int count)
{
    const bool whole = result->kind == RESULT_TENSOR;
    const enum dtype dtype = whole                          ? result->dtype
                             : result->kind == RESULT_FLOAT ? DT_f64
                             : result->kind == RESULT_BOOL  ? DT_bool
                                                            : DT_i64;
    const struct attributes attributes = {.text = a->call->target,
                                          .sizes = whole ? result->sizes : NULL,
                                          .size_count = whole ? result->rank : 0};
    if (result->kind == RESULT_NONE)
        return;
    const value v = graph_add(a->graph, OP_unknown, dtype, operands, count, &attributes, NULL);
    result->tensor = tensor_new(a->loader, v);
    result->size = 1;
    result->size_known = result->kind == RESULT_INT;
    result_name(a, result, v);
}

/* Takes the file's names back from results that were built before the call turned out to be
 * refused: the unknown ones get them. */
static void results_unname(struct aten *a)
{
    for (value v = a->first; v < a->graph->nodes.count; v++)
        for (int i = 0; i < a->produced && i < a->call->result_count; i++) {
            struct node *node = &a->graph->nodes.at[v];
            const char *name = a->call->results[i].name;
            if (!name || strcmp(node->name, name) != 0)
                continue;
            node->name = arena_format(a->graph->arena, "%s.refused.%u", name, v);
            if (!node->name)
                graph_fail(a->graph, fail_memory(), "out of memory");
        }
}

static phasor_status call_refuse(struct aten *a, const char *reason)
{
    int count;
    const value *operands = operands_of(a, &count);
    if (!operands)
        return fail_memory();
    results_unname(a);
    for (int i = 0; i < a->call->result_count; i++)
        result_unknown(a, &a->call->results[i], operands, count);
    if (reason &&
        !array_push(&a->loader->refusals, (struct loader_refusal){a->call->origin, reason}))
        return fail_memory();
    return graph_status(a->graph);
}

static const char *dtype_reason(struct aten *a, enum dtype dtype)
{
    if (dtype == DT_c32)
        return "complex32 (pairs of float16) is not supported; cast to float32 before it becomes "
               "complex";
    const char *text = arena_format(
        a->graph->arena, "dtype %s is not supported; cast it before exporting", dtype_text(dtype));
    return text ? text : "its dtype is not supported";
}

/* Whether an operand or result has a dtype that can only be named. *reason stays NULL where an
 * operand is the result of a call that was refused before: one trouble is told once. */
static bool call_has_refused_dtype(struct aten *a, const char **reason)
{
    int count;
    const value *operands = operands_of(a, &count);
    for (int i = 0; operands && i < count; i++) {
        const struct node *n = graph_node(a->graph, operands[i]);
        if (!dtype_is_refused(n->dtype))
            continue;
        if (n->op != OP_unknown)
            *reason = dtype_reason(a, n->dtype);
        return true;
    }
    for (int i = 0; i < a->call->result_count; i++) {
        const struct result *result = &a->call->results[i];
        if (result->kind != RESULT_TENSOR || !dtype_is_refused(result->dtype) ||
            result_is_unused(result))
            continue;
        *reason = dtype_reason(a, result->dtype);
        return true;
    }
    return false;
}

/* -- one call ---------------------------------------------------------------------------------- */

static bool is_about_operands(phasor_status status)
{
    return status == PHASOR_ERROR_FILE || status == PHASOR_ERROR_INPUT;
}

/* Nodes that cannot be of these operands (a rank, size or dtype that the operator does not take)
 * are no damaged file: whether eager takes them is not known here. The message loses the node and
 * line that a refusal names itself. */
static void operands_refuse(struct aten *a)
{
    const struct origin *origin = a->call->origin;
    if (is_about_operands(a->sizes->status) && !a->damaged) {
        a->sizes->status = PHASOR_OK;
        aten_refuse(a, "%s", message_get());
    }
    if (is_about_operands(a->graph->status) && !a->damaged) {
        const char *why = a->graph->message ? a->graph->message : "operands that do not fit";
        const size_t head = origin ? strlen(origin->node) : 0;
        const char *line = origin && origin->line ? strstr(why, "; at ") : NULL;
        if (head && strncmp(why, origin->node, head) == 0 && strncmp(why + head, ": ", 2) == 0)
            why += head + 2;
        a->graph->status = PHASOR_OK;
        aten_refuse(a, "%.*s", line && line > why ? (int)(line - why) : (int)strlen(why), why);
    }
    if (a->reason && a->graph->status == PHASOR_ERROR_REFUSED)
        a->graph->status = PHASOR_OK;
}

static phasor_status call_build(struct aten *a)
{
    const char *reason = NULL;
    const struct aten_row *row = row_find(a);
    if (!row)
        return call_refuse(a, refused_reason(a->call->target));
    if (call_has_refused_dtype(a, &reason))
        return call_refuse(a, reason);
    a->op = row->op;
    a->number = row->number;
    arguments_bind(a, row);
    arguments_check(a, row);
    if (!a->reason)
        row->build(a);
    results_fill_unused(a);
    if (a->produced < a->call->result_count)
        aten_refuse(a, "it has %d results in the file, and %d here", a->call->result_count,
                    a->produced);
    operands_refuse(a);
    TRY(graph_status(a->graph));
    return a->reason ? call_refuse(a, a->reason) : PHASOR_OK;
}

phasor_status aten_call(struct loader *loader, struct call *call)
{
    struct graph *graph = loader->graph;
    const struct origin *before = graph->origin;
    struct aten a = {.loader = loader,
                     .graph = graph,
                     .sizes = graph->sizes,
                     .call = call,
                     .first = (value)graph->nodes.count};
    TRY(graph_status(graph));
    graph->origin = call->origin;
    phasor_status status = call_build(&a);
    if (status == PHASOR_OK)
        status = graph_status(graph);
    graph->origin = before;
    return status;
}
