/* inputs.c - see inputs.h. */
#include "inputs.h"

#include "inputs_random.h"
#include "tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

static int inputs_new(const phasor_program *program, struct inputs *out)
{
    const int count = phasor_program_input_count(program);
    *out = (struct inputs){
        .count = count,
        .values = memory_need((size_t)count, sizeof *out->values),
        .tensors = memory_need((size_t)count, sizeof *out->tensors),
    };
    return PHASOR_OK;
}

void inputs_free(struct inputs *inputs)
{
    for (int i = 0; i < inputs->count; i++) {
        struct input_slot *slot = &inputs->tensors[i];
        free(slot->tensor.shape);
        free(slot->memory);
        free(slot->initial);
        if (inputs->values[i].kind == PHASOR_STRING)
            free((char *)inputs->values[i].string);
    }
    free(inputs->values);
    free(inputs->tensors);
    *inputs = (struct inputs){0};
}

/* Strings are copied: a file's or program's may go before the inputs do. */
static phasor_value value_copy(const phasor_value *value)
{
    phasor_value copy = *value;
    if (copy.kind == PHASOR_STRING)
        copy.string = memory_copy(copy.string, strlen(copy.string));
    return copy;
}

static int slot_set_tensor(struct inputs *inputs, int i, DLDataType dtype, int rank,
                           const int64_t *shape)
{
    struct input_slot *slot = &inputs->tensors[i];
    slot->tensor = (DLTensor){.device = {kDLCPU, 0}, .dtype = dtype, .ndim = rank};
    slot->tensor.shape = memory_need((size_t)rank, sizeof *shape);
    if (rank > 0)
        memcpy(slot->tensor.shape, shape, (size_t)rank * sizeof *shape);
    inputs->values[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &slot->tensor};
    return tensor_elements(&slot->tensor, &slot->elements);
}

static size_t slot_bytes(const struct input_slot *slot)
{
    return (size_t)slot->elements * dtype_bytes(slot->tensor.dtype);
}

/* Aligned as the library likes it best. Large ones in large pages, which come hundreds of times
 * fewer: of several gigabytes, the pages would cost more than the values. */
static int slot_need_memory(struct input_slot *slot)
{
    const size_t alignment = slot_bytes(slot) < HUGE_PAGE ? 64 : HUGE_PAGE;
    const size_t room = (slot_bytes(slot) / alignment + 1) * alignment;
    slot->tensor.data = slot->memory = aligned_alloc(alignment, room);
    if (!slot->memory)
        return report_failure(PHASOR_ERROR_MEMORY, "out of memory: an input of %zu bytes",
                              slot_bytes(slot));
    if (alignment == HUGE_PAGE)
        madvise(slot->memory, room, MADV_HUGEPAGE); /* where there are none, small ones do */
    return PHASOR_OK;
}

void inputs_keep(struct inputs *inputs)
{
    for (int i = 0; i < inputs->count; i++) {
        struct input_slot *slot = &inputs->tensors[i];
        if (!slot->memory)
            continue;
        slot->initial = memory_need(slot_bytes(slot), 1);
        memcpy(slot->initial, slot->memory, slot_bytes(slot));
    }
}

void inputs_restore(struct inputs *inputs)
{
    for (int i = 0; i < inputs->count; i++) {
        const struct input_slot *slot = &inputs->tensors[i];
        if (slot->initial)
            memcpy(slot->memory, slot->initial, slot_bytes(slot));
    }
}

/* -- shapes ------------------------------------------------------------------------------------ */

/* Takes the slot's numbers from `dims`; returns those behind them. */
static int slot_shape(struct inputs *inputs, int i, const phasor_spec *spec, const int64_t **dims)
{
    phasor_value *value = &inputs->values[i];
    switch (spec->kind) {
    case PHASOR_TENSOR:
        TRY(slot_set_tensor(inputs, i, spec->dtype, spec->rank, *dims));
        *dims += spec->rank;
        return PHASOR_OK;
    case PHASOR_INT: *value = (phasor_value){.kind = PHASOR_INT, .integer = *(*dims)++}; break;
    case PHASOR_STRING:
        *value = (phasor_value){.kind = PHASOR_STRING,
                                .string = spec->constant ? NULL : memory_copy("", 0)};
        break;
    default:
        *value = (phasor_value){.kind = spec->kind};
        inputs->tensors[i].open = spec->kind == PHASOR_FLOAT && !spec->constant;
    }
    if (spec->constant)
        *value = value_copy(spec->constant);
    return PHASOR_OK;
}

static int numbers_count(const phasor_program *program, int *out)
{
    *out = 0;
    for (int i = 0; i < phasor_program_input_count(program); i++) {
        phasor_spec spec = {.size = sizeof spec};
        TRY_LIBRARY(phasor_program_input(program, i, &spec));
        *out += spec.kind == PHASOR_TENSOR ? spec.rank : spec.kind == PHASOR_INT;
    }
    return PHASOR_OK;
}

static int slots_shape(const phasor_program *program, const int64_t *dims, struct inputs *out)
{
    for (int i = 0; i < out->count; i++) {
        phasor_spec spec = {.size = sizeof spec};
        TRY_LIBRARY(phasor_program_input(program, i, &spec));
        TRY(slot_shape(out, i, &spec, &dims));
    }
    return PHASOR_OK;
}

static int dims_get(const phasor_program *program, const char *path, const struct size_set *set,
                    uint64_t combination, int64_t *dims, int numbers)
{
    int count;
    phasor_binding *bindings = size_set_at(set, combination, &count);
    const phasor_status status = phasor_program_sizes(program, bindings, count, dims, numbers);
    free(bindings);
    return status == PHASOR_OK ? PHASOR_OK : size_set_fail(set, combination, path, status);
}

int inputs_shape(const phasor_program *program, const char *path, const struct size_set *set,
                 uint64_t combination, struct inputs *out)
{
    int numbers;
    *out = (struct inputs){0};
    TRY(numbers_count(program, &numbers));
    int64_t *dims = memory_need((size_t)numbers, sizeof *dims);
    int status = dims_get(program, path, set, combination, dims, numbers);
    if (status == PHASOR_OK)
        status = inputs_new(program, out);
    if (status == PHASOR_OK)
        status = slots_shape(program, dims, out);
    free(dims);
    if (status != PHASOR_OK)
        inputs_free(out);
    return status;
}

int inputs_shape_from(const struct settings *settings, const phasor_program *program,
                      struct inputs *out)
{
    struct size_set set;
    uint64_t combinations;
    TRY(size_set_read(settings, &set));
    int status = size_set_count(&set, &combinations);
    if (status == PHASOR_OK && combinations != 1)
        status =
            report_failure(PHASOR_ERROR_USAGE, "--dim: one size for each name here, not several");
    if (status == PHASOR_OK)
        status = inputs_shape(program, settings->operands.at[0], &set, 0, out);
    size_set_free(&set);
    return status;
}

void inputs_align(struct inputs *inputs, bool aligned)
{
    for (int i = 0; i < inputs->count; i++) {
        struct input_slot *slot = &inputs->tensors[i];
        const size_t part = dtype_bytes(dtype_part(slot->tensor.dtype));
        if (inputs->values[i].kind == PHASOR_TENSOR)
            slot->tensor.data =
                aligned ? NULL : (void *)(uintptr_t)(4096 + part); /* no memory: an alignment */
    }
}

/* -- random values ----------------------------------------------------------------------------- */

int inputs_seed(struct inputs *inputs, uint64_t seed)
{
    for (int i = 0; i < inputs->count; i++) {
        /* A stream for each slot: the size of one input does not change the values of another. */
        const uint64_t state = seed * 0x2545f4914f6cdd1d + (uint64_t)i;
        struct input_slot *slot = &inputs->tensors[i];
        if (inputs->values[i].kind == PHASOR_TENSOR) {
            const DLDataType dtype = slot->tensor.dtype;
            TRY(slot_need_memory(slot));
            random_fill(slot->memory, dtype_part(dtype), slot->elements * dtype_parts(dtype),
                        random_bits(state, 0));
        } else if (slot->open) {
            inputs->values[i].real = random_normal(state, 0);
        }
    }
    return PHASOR_OK;
}

/* -- values from a file ------------------------------------------------------------------------ */

static int slot_load_tensor(struct inputs *inputs, int i, const DLTensor *from)
{
    TRY(slot_set_tensor(inputs, i, from->dtype, from->ndim, from->shape));
    struct input_slot *slot = &inputs->tensors[i];
    TRY(slot_need_memory(slot));
    if (slot->elements > 0)
        memcpy(slot->memory, (const char *)from->data + from->byte_offset, slot_bytes(slot));
    return PHASOR_OK;
}

static int slot_load(const phasor_program *program, const phasor_tensors *file, const char *path,
                     struct inputs *inputs, int i)
{
    char position[32];
    phasor_spec spec = {.size = sizeof spec};
    phasor_value value;
    TRY_LIBRARY(phasor_program_input(program, i, &spec));
    bool found;
    snprintf(position, sizeof position, "input_%d", i);
    TRY(tensors_search(file, position, spec.name, &value, &found));
    if (!found) {
        if (spec.constant) {
            inputs->values[i] = value_copy(spec.constant);
            return PHASOR_OK;
        }
        return report_failure(PHASOR_ERROR_INPUT,
                              "%s has neither %s nor %s, which the program takes", path, position,
                              spec.name);
    }
    if (value.kind == PHASOR_TENSOR)
        return slot_load_tensor(inputs, i, value.tensor);
    inputs->values[i] = value_copy(&value);
    return PHASOR_OK;
}

/* A file with more inputs than the program has is one for another program. */
static int surplus_check(const phasor_tensors *file, const char *path, int count)
{
    char position[32];
    phasor_value value;
    snprintf(position, sizeof position, "input_%d", count);
    if (!phasor_tensors_find(file, position, &value))
        return PHASOR_OK;
    return report_failure(PHASOR_ERROR_INPUT, "%s has %s, but the program takes %d inputs", path,
                          position, count);
}

int inputs_load(const phasor_program *program, const char *path, struct inputs *out)
{
    phasor_tensors *file;
    *out = (struct inputs){0};
    TRY_LIBRARY(phasor_tensors_read(path, &file));
    int status = inputs_new(program, out);
    if (status == PHASOR_OK)
        status = surplus_check(file, path, out->count);
    for (int i = 0; i < out->count && status == PHASOR_OK; i++)
        status = slot_load(program, file, path, out, i);
    phasor_tensors_close(file);
    if (status != PHASOR_OK)
        inputs_free(out);
    return status;
}
