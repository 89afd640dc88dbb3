/* results.c - see results.h. */
#include "results.h"

#include "tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* -- taking ------------------------------------------------------------------------------------ */

static int64_t *integers_copy(const int64_t *values, int count)
{
    int64_t *copy = memory_need((size_t)count, sizeof *copy);
    if (count > 0)
        memcpy(copy, values, (size_t)count * sizeof *copy);
    return copy;
}

static int64_t *strides_take(const DLTensor *tensor)
{
    if (tensor->strides)
        return integers_copy(tensor->strides, tensor->ndim);
    int64_t *strides = memory_need((size_t)tensor->ndim, sizeof *strides), stride = 1;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= tensor->shape[i];
    }
    return strides;
}

static int tensor_take(phasor_runtime *runtime, const DLTensor *from, struct result *out)
{
    int64_t elements;
    TRY(tensor_elements(from, &elements));
    const size_t nbytes = (size_t)elements * dtype_bytes(from->dtype);
    out->tensor = (DLTensor){.device = {kDLCPU, 0}, .dtype = from->dtype, .ndim = from->ndim};
    out->tensor.shape = integers_copy(from->shape, from->ndim);
    out->strides = strides_take(from);
    out->offset = (int64_t)(from->byte_offset / dtype_bytes(from->dtype));
    out->tensor.data = memory_need(nbytes, 1);
    out->value = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &out->tensor};
    return report_library(phasor_copy_to_host(runtime, from, out->tensor.data, nbytes));
}

/* The number of the memory that output i shows: that of an earlier output with the same one, or the
 * next free number. */
static int storage_number(const phasor_value *outputs, const struct results *results, int i)
{
    int next = 0;
    for (int j = 0; j < i; j++) {
        if (outputs[j].kind != PHASOR_OWNED)
            continue;
        const void *data = outputs[j].owned->dl_tensor.data;
        if (data && data == outputs[i].owned->dl_tensor.data)
            return results->at[j].storage;
        next = results->at[j].storage >= next ? results->at[j].storage + 1 : next;
    }
    return next;
}

int results_take(phasor_runtime *runtime, const phasor_program *program,
                 const phasor_value *outputs, int count, struct results *out)
{
    *out = (struct results){.count = count, .at = memory_need((size_t)count, sizeof *out->at)};
    for (int i = 0; i < count; i++) {
        phasor_spec spec = {.size = sizeof spec};
        struct result *result = &out->at[i];
        TRY_LIBRARY(phasor_program_output(program, i, &spec));
        result->name = spec.name;
        result->value = outputs[i];
        result->storage = -1;
        if (outputs[i].kind != PHASOR_OWNED)
            continue;
        result->storage = storage_number(outputs, out, i);
        TRY(tensor_take(runtime, &outputs[i].owned->dl_tensor, result));
    }
    return PHASOR_OK;
}

void results_free(struct results *results)
{
    for (int i = 0; i < results->count; i++) {
        free(results->at[i].tensor.data);
        free(results->at[i].tensor.shape);
        free(results->at[i].strides);
    }
    free(results->at);
    *results = (struct results){0};
}

/* -- files ------------------------------------------------------------------------------------- */

int results_write(const struct results *results, const char *path)
{
    const size_t count = (size_t)results->count;
    char(*names)[24] = memory_need(count, sizeof *names);
    const char **pointers = memory_need(count, sizeof *pointers);
    phasor_value *values = memory_need(count, sizeof *values);
    for (int i = 0; i < results->count; i++) {
        snprintf(names[i], sizeof names[i], "output_%d", i);
        pointers[i] = names[i];
        values[i] = results->at[i].value;
    }
    const int status = report_library(phasor_tensors_write(path, pointers, values, results->count));
    free(values);
    free(pointers);
    free(names);
    return status;
}

int results_compare(struct results *results, const phasor_tensors *expected, double rtol,
                    double atol)
{
    phasor_value value;
    char position[24];
    bool found, same = true;
    results->compared = true;
    for (int i = 0; i < results->count; i++) {
        struct result *result = &results->at[i];
        snprintf(position, sizeof position, "output_%d", i);
        TRY(tensors_search(expected, position, result->name, &value, &found));
        TRY(compare_values(&result->value, found ? &value : NULL, rtol, atol, &result->comparison));
        if (!result->comparison.match)
            report_note("output_%d (%s): %s", i, result->name, result->comparison.reason);
        same &= result->comparison.match;
    }
    snprintf(position, sizeof position, "output_%d", results->count);
    if (phasor_tensors_find(expected, position, &value)) {
        report_note("output_%d is expected, but the program has %d outputs", results->count,
                    results->count);
        same = false;
    }
    return same ? PHASOR_OK : EXIT_DIFFERS;
}

/* -- printing ---------------------------------------------------------------------------------- */

void value_print(const phasor_value *value)
{
    switch (value->kind) {
    case PHASOR_INT: say("%" PRId64, value->integer); break;
    case PHASOR_FLOAT: say("%.17g", value->real); break;
    case PHASOR_BOOL: say("%s", value->boolean ? "True" : "False"); break;
    case PHASOR_STRING: say("'%s'", value->string); break;
    case PHASOR_TENSOR:
        say("%s[", dtype_name(value->tensor->dtype));
        for (int i = 0; i < value->tensor->ndim; i++)
            say("%s%" PRId64, i ? ", " : "", value->tensor->shape[i]);
        say("]");
        break;
    default: say("None");
    }
}

void results_print(const struct results *results)
{
    for (int i = 0; i < results->count; i++) {
        const struct result *result = &results->at[i];
        say("output_%d  %s: ", i, result->name);
        value_print(&result->value);
        if (results->compared && result->comparison.measured)
            say("  max abs %.3g, max rel %.3g", result->comparison.max_abs,
                result->comparison.max_rel);
        if (results->compared)
            say("%s", result->comparison.match ? "  matches" : "  DIFFERS");
        say("\n");
    }
}

static void value_print_json(const phasor_value *value, struct json *json)
{
    switch (value->kind) {
    case PHASOR_INT: json_integer(json, "value", value->integer); break;
    case PHASOR_FLOAT: json_real(json, "value", value->real); break;
    case PHASOR_BOOL: json_bool(json, "value", value->boolean); break;
    default: json_string(json, "value", value->kind == PHASOR_STRING ? value->string : NULL);
    }
}

static void tensor_print_json(const struct result *result, struct json *json)
{
    json_string(json, "dtype", dtype_name(result->tensor.dtype));
    json_integers(json, "shape", result->tensor.shape, result->tensor.ndim);
    json_integers(json, "strides", result->strides, result->tensor.ndim);
    json_integer(json, "offset", result->offset);
    json_integer(json, "storage", result->storage);
}

static void comparison_print_json(const struct comparison *comparison, struct json *json)
{
    json_bool(json, "match", comparison->match);
    if (!comparison->measured) {
        json_string(json, "max_abs", NULL);
        json_string(json, "max_rel", NULL);
        return;
    }
    json_real(json, "max_abs", comparison->max_abs);
    json_real(json, "max_rel", comparison->max_rel);
}

void results_print_json(const struct results *results, struct json *json)
{
    static const char *const kinds[] = {"none",  "tensor", "tensor", "int",
                                        "float", "bool",   "string"};
    json_open(json, "outputs", '[');
    for (int i = 0; i < results->count; i++) {
        const struct result *result = &results->at[i];
        json_open(json, NULL, '{');
        json_string(json, "name", result->name);
        json_string(json, "kind", kinds[result->value.kind]);
        if (result->value.kind == PHASOR_TENSOR)
            tensor_print_json(result, json);
        else
            value_print_json(&result->value, json);
        if (results->compared)
            comparison_print_json(&result->comparison, json);
        json_close(json, '}');
    }
    json_close(json, ']');
}
