/* call.c - the slots of a call, checked, and the words that its specialisation depends on.
 *
 *     q: bf16[3, 7, 8, 128] at ...40   start: 4   ->   form   4 16 3 7 8 128 7168 1024 128 1   4
 *
 * A record is rank, alignment, sizes, strides; an integer is itself. Sizes and strides are logical:
 * of complex elements. A warm call does nothing here but compare and copy: no allocation, no lock.
 * Sizes are compared with the program only when these words are new (plan/bind.c).
 */
#include "call/call.h"
#include "specialise/job.h"

#include "base/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT_MAX = 16 };

static const char *kind_text(phasor_kind kind)
{
    static const char *const texts[] = {"None",    "a tensor", "a tensor", "an int",
                                        "a float", "a bool",   "a string"};
    return (unsigned)kind < sizeof texts / sizeof *texts ? texts[kind] : "an unknown kind";
}

/* Which slot a message is about. */
struct place {
    const char *what; /* "input" */
    int index;
    const struct slot *slot;
};

static phasor_status slot_fail(const struct place *place, const char *came, const char *expected)
{
    return fail(PHASOR_ERROR_INPUT, "%s %d (%s): %s; expected %s", place->what, place->index,
                place->slot->name, came, expected);
}

/* -- words ------------------------------------------------------------------------------------- */

static phasor_status words_room(struct call *call, size_t more)
{
    const size_t wanted = call->word_count + more;
    if (wanted <= call->word_capacity)
        return PHASOR_OK;
    int64_t *grown = memory_new(2 * wanted * sizeof *grown);
    if (!grown)
        return fail_memory();
    memcpy(grown, call->words, call->word_count * sizeof *grown);
    if (call->words != call->word_space)
        memory_free(call->words);
    call->words = grown;
    call->word_capacity = 2 * wanted;
    return PHASOR_OK;
}

/* -- tensors ----------------------------------------------------------------------------------- */

bool data_extent(int rank, const int64_t *sizes, const int64_t *strides, int64_t *low,
                 int64_t *high)
{
    *low = *high = 0;
    for (int d = 0; d < rank; d++)
        if (sizes[d] == 0)
            return false;
    for (int d = 0; d < rank; d++)
        *(strides[d] < 0 ? low : high) += (sizes[d] - 1) * strides[d];
    return true;
}

/* Strides that cannot matter may be anything: one beyond this is not kept. */
static const int64_t stride_most = INT64_MAX / 64;

bool tensor_measure(const DLTensor *t, int nbytes, int64_t *sizes, int64_t *strides, int64_t *low,
                    int64_t *high)
{
    int64_t dense = 1, step;
    bool overflow = false, empty = false;
    *low = 0;
    *high = nbytes;
    for (int d = t->ndim - 1; d >= 0; d--) {
        const int64_t size = t->shape[d], beyond_first = size > 1 ? size - 1 : 0;
        int64_t stride = t->strides ? t->strides[d] : dense;
        if (size <= 1 && (stride > stride_most || stride < -stride_most))
            stride = 1;
        sizes[d] = size;
        strides[d] = stride;
        empty |= size == 0;
        overflow |=
            size < 0 || __builtin_mul_overflow(dense, size > 1 ? size : 1, &dense) ||
            __builtin_mul_overflow(stride, beyond_first, &step) ||
            __builtin_mul_overflow(step, nbytes, &step) ||
            __builtin_add_overflow(stride < 0 ? *low : *high, step, stride < 0 ? low : high);
    }
    overflow |= dense > INT64_MAX / 4 / nbytes || *high > INT64_MAX / 4 || *low < -INT64_MAX / 4;
    if (empty)
        *low = *high = 0;
    return !overflow;
}

/* Sizes and strides into the words, and the bytes that the elements take, with all sums known to
 * fit. */
static phasor_status record_tensor(struct call *call, const struct place *place, const DLTensor *t,
                                   struct call_slot *out)
{
    const int rank = place->slot->rank;
    if (rank && !t->shape)
        return slot_fail(place, "shape is NULL", "one size for each dim");
    TRY(words_room(call, 2 + 2 * (size_t)rank));
    int64_t *record = call->words + call->word_count;
    record[0] = rank;
    if (!tensor_measure(t, dtype_size(place->slot->dtype), record + 2, record + 2 + rank, &out->low,
                        &out->high))
        return slot_fail(place, "a size is negative, or sizes and strides are too large",
                         "a tensor that fits in memory");
    out->number = (int)call->word_count;
    call->word_count += 2 + 2 * (size_t)rank;
    return PHASOR_OK;
}

static phasor_status check_type(const struct place *place, const DLTensor *t)
{
    char came[96];
    enum dtype dtype;
    const DLDataType expects = dtype_to_dlpack(place->slot->dtype);
    if (t->ndim == place->slot->rank && t->dtype.code == expects.code &&
        t->dtype.bits == expects.bits && t->dtype.lanes == 1)
        return PHASOR_OK;
    const bool known = dtype_from_dlpack(t->dtype, &dtype);
    if (t->ndim != place->slot->rank) {
        char expected[32];
        snprintf(came, sizeof came, "rank %d", t->ndim);
        snprintf(expected, sizeof expected, "rank %d", place->slot->rank);
        return slot_fail(place, came, expected);
    }
    if (known && (dtype == place->slot->dtype || (dtype == DT_u8 && place->slot->dtype == DT_bool)))
        return PHASOR_OK;
    snprintf(came, sizeof came, "dtype %s", known ? dtype_text(dtype) : "unknown");
    if (!known)
        snprintf(came, sizeof came, "a dtype with DLPack code %d, %d bits, %d lanes", t->dtype.code,
                 t->dtype.bits, t->dtype.lanes);
    return slot_fail(place, came, dtype_text(place->slot->dtype));
}

/* "memory of CUDA device 0, where input 2 (q) is": the one that settles where a call runs. */
static void expected_print(const struct call *call, const struct place *place, char *out,
                           size_t size)
{
    const struct phasor_program *program = call->program;
    const int ordinal = device_ordinal(program->runtime->device),
              devices = program->first->twins ? program->runtime->first->device_count : 0;
    for (int i = 0; i < program->input_count; i++) {
        const DLTensor *t = value_tensor(&call->inputs[i]);
        if (t && t->device.device_type == kDLCUDA && t->device.device_id == ordinal &&
            &program->inputs[i] != place->slot) {
            snprintf(out, size, "host memory or memory of CUDA device %d, where input %d (%s) is",
                     ordinal, i, program->inputs[i].name);
            return;
        }
    }
    if (devices > 1)
        snprintf(out, size, "host memory or memory of one CUDA device, 0 to %d", devices - 1);
    else
        snprintf(out, size, "host memory or memory of CUDA device %d", ordinal);
}

/* Host memory is read by the CPU device, and copied for a CUDA device. */
static phasor_status check_device(const struct call *call, const struct place *place,
                                  const DLTensor *t, bool *host)
{
    const struct device *device = call->program->on_cuda ? call->program->runtime->device : NULL;
    const int type = (int)t->device.device_type;
    char came[64], expected[256] = "host memory";
    const bool is_host = type == kDLCPU || type == kDLCUDAHost;
    *host = device && is_host;
    if (is_host || (device && type == kDLCUDA && t->device.device_id == device_ordinal(device)) ||
        (device && type == kDLCUDAManaged))
        return PHASOR_OK;
    snprintf(came, sizeof came,
             type == kDLCUDA ? "memory of CUDA device %d" : "memory of DLPack device type %d",
             type == kDLCUDA ? t->device.device_id : type);
    if (device)
        expected_print(call, place, expected, sizeof expected);
    return slot_fail(place, came, expected);
}

static int alignment_of(uintptr_t address)
{
    return 1 << __builtin_ctzll(address | ALIGNMENT_MAX);
}

/* A GPU reads a number only at a multiple of its size. A complex one is two of half its size. */
static phasor_status check_alignment(const struct place *place, int alignment)
{
    char came[96];
    const enum dtype dtype = place->slot->dtype;
    const int needed = dtype_size(dtype) / (dtype_is_complex(dtype) ? 2 : 1);
    if (alignment >= needed)
        return PHASOR_OK;
    snprintf(came, sizeof came, "device memory at an address that is a multiple of %d only",
             alignment);
    return slot_fail(place, came,
                     needed == 2   ? "a multiple of 2, as its numbers need"
                     : needed == 4 ? "a multiple of 4, as its numbers need"
                                   : "a multiple of 8, as its numbers need");
}

static phasor_status read_tensor(struct call *call, const struct place *place,
                                 const phasor_value *v, struct call_slot *out)
{
    const DLTensor *t = value_tensor(v);
    if (!t)
        return slot_fail(place,
                         v->kind == PHASOR_TENSOR || v->kind == PHASOR_OWNED ? "a NULL pointer"
                                                                             : kind_text(v->kind),
                         "a tensor");
    TRY(check_type(place, t));
    TRY(record_tensor(call, place, t, out));
    out->tensor = true;
    if (out->low < 0 && !runs_on_cpu(call->program))
        return slot_fail(place, "a stride is negative",
                         "strides that are not: kernels count addresses upwards");
    const uintptr_t address = (uintptr_t)t->data + t->byte_offset;
    out->bytes = (char *)address;
    if (address < t->byte_offset || address + (uintptr_t)out->high < address ||
        address < (uintptr_t)-out->low)
        return slot_fail(place, "data, byte_offset and strides go beyond the address space",
                         "a tensor that fits in memory");
    int alignment = out->low == out->high ? ALIGNMENT_MAX : alignment_of(address);
    if (!call_is_shapes(call)) {
        TRY(check_device(call, place, t, &out->host));
        if (!t->data && out->low != out->high)
            return slot_fail(place, "data is NULL", "memory");
        if (out->host) /* the copy starts at its lowest byte, well aligned */
            alignment = alignment_of((uintptr_t)-out->low);
        else if (call->program->on_cuda)
            TRY(check_alignment(place, alignment));
    }
    call->words[out->number + 1] = alignment;
    return PHASOR_OK;
}

/* -- other values ------------------------------------------------------------------------------ */

static bool same_value(const phasor_value *a, const phasor_value *b)
{
    if (a->kind != b->kind)
        return a->kind == PHASOR_INT && b->kind == PHASOR_FLOAT && (double)a->integer == b->real;
    switch (a->kind) {
    case PHASOR_INT: return a->integer == b->integer;
    case PHASOR_FLOAT: return a->real == b->real || (a->real != a->real && b->real != b->real);
    case PHASOR_BOOL: return a->boolean == b->boolean;
    case PHASOR_STRING: return a->string && b->string && strcmp(a->string, b->string) == 0;
    default: return a->kind == PHASOR_NONE;
    }
}

static void value_print(const phasor_value *v, char *out, size_t size)
{
    switch (v->kind) {
    case PHASOR_INT: snprintf(out, size, "the int %" PRId64, v->integer); break;
    case PHASOR_FLOAT: number_format(out, size, "the float %.17g", v->real); break;
    case PHASOR_BOOL: snprintf(out, size, "the bool %s", v->boolean ? "True" : "False"); break;
    case PHASOR_STRING: snprintf(out, size, "the string '%s'", v->string ? v->string : ""); break;
    default: snprintf(out, size, "%s", kind_text(v->kind));
    }
}

static phasor_status read_constant(const struct place *place, const phasor_value *v)
{
    const phasor_value none = {.kind = PHASOR_NONE};
    const phasor_value *expected =
        place->slot->kind == PHASOR_NONE ? &none : &place->slot->expected;
    char came[160], wanted[160];
    if (v->kind == PHASOR_NONE || same_value(v, expected)) /* None: left out */
        return PHASOR_OK;
    value_print(v, came, sizeof came);
    value_print(expected, wanted, sizeof wanted);
    return slot_fail(place, came, wanted);
}

static phasor_status read_number(struct call *call, const struct place *place,
                                 const phasor_value *v, struct call_slot *out)
{
    const phasor_kind kind = place->slot->kind;
    if (v->kind != kind && !(kind == PHASOR_FLOAT && v->kind == PHASOR_INT))
        return slot_fail(place, kind_text(v->kind), kind_text(kind));
    TRY(words_room(call, 2));
    out->number = (int)call->word_count;
    if (kind == PHASOR_INT) {
        call->words[call->word_count++] = v->integer;
        return PHASOR_OK;
    }
    out->real = v->kind == PHASOR_INT ? (double)v->integer : v->real;
    out->boolean = kind == PHASOR_BOOL && v->boolean;
    out->bytes = kind == PHASOR_BOOL ? (char *)&out->boolean : (char *)&out->real;
    out->high = kind == PHASOR_BOOL ? 1 : (int64_t)sizeof out->real;
    out->host = call->program->on_cuda;
    call->words[call->word_count++] = 0; /* a tensor of rank 0 */
    call->words[call->word_count++] = ALIGNMENT_MAX;
    return PHASOR_OK;
}

static phasor_status read_input(struct call *call, int index)
{
    const struct place place = {"input", index, &call->program->inputs[index]};
    const phasor_value *v = &call->inputs[index];
    if (place.slot->constant)
        return read_constant(&place, v);
    if (place.slot->kind == PHASOR_TENSOR)
        return read_tensor(call, &place, v, &call->in[index]);
    return read_number(call, &place, v, &call->in[index]);
}

/* -- outputs ----------------------------------------------------------------------------------- */

/* Each dim steps over all that the dims with smaller strides reach. */
static bool overlaps_itself(int rank, const int64_t *sizes, const int64_t *strides)
{
    bool taken[RANK_MAX] = {false};
    int64_t reach = 0;
    for (int d = 0; d < rank; d++)
        if (sizes[d] == 0)
            return false;
    for (int k = 0; k < rank; k++) {
        int next = -1;
        for (int d = 0; d < rank; d++)
            if (!taken[d] && sizes[d] > 1 && (next < 0 || llabs(strides[d]) < llabs(strides[next])))
                next = d;
        if (next < 0)
            return false;
        if (llabs(strides[next]) <= reach)
            return true;
        taken[next] = true;
        reach += (sizes[next] - 1) * llabs(strides[next]);
    }
    return false;
}

static bool meets(const struct call_slot *a, const struct call_slot *b)
{
    return a->tensor && b->tensor && a->low != a->high && b->low != b->high &&
           a->bytes + a->low < b->bytes + b->high && b->bytes + b->low < a->bytes + a->high;
}

static bool is_same(const struct call_slot *a, const struct call_slot *b)
{
    return a->bytes == b->bytes && a->low == b->low && a->high == b->high;
}

static phasor_status check_overlap(struct call *call, int index)
{
    const struct phasor_program *program = call->program;
    const struct call_slot *out = &call->out[index];
    for (int i = 0; i < program->input_count; i++) {
        const struct call_slot *in = &call->in[i];
        if (!meets(out, in))
            continue;
        if (!is_same(out, in) || program->inputs[i].written)
            return fail(PHASOR_ERROR_INPUT, "output %d (%s) overlaps input %d (%s)%s", index,
                        program->outputs[index].name, i, program->inputs[i].name,
                        program->inputs[i].written ? ", which the program changes" : " in part");
        call->in_place = true;
    }
    for (int i = 0; i < index; i++)
        if (meets(out, &call->out[i]))
            return fail(PHASOR_ERROR_INPUT, "output %d (%s) overlaps output %d (%s)", index,
                        program->outputs[index].name, i, program->outputs[i].name);
    return PHASOR_OK;
}

phasor_status call_check_in_place(const struct call *call, const struct recipe_pair *pairs,
                                  int count)
{
    const struct phasor_program *program = call->program;
    for (int o = 0; call->in_place && o < program->output_count; o++)
        for (int i = 0; i < program->input_count; i++) {
            /* both in host memory: the input is copied before the output is written */
            bool allowed =
                !meets(&call->out[o], &call->in[i]) || (call->in[i].host && call->out[o].host);
            for (int k = 0; k < count; k++)
                allowed |= pairs[k].output == o && pairs[k].input == i;
            if (!allowed)
                return fail(
                    PHASOR_ERROR_INPUT,
                    "output %d (%s) is the memory of input %d (%s), but elements of it are read "
                    "for more than the element that is written there; give the output memory of "
                    "its own",
                    o, program->outputs[o].name, i, program->inputs[i].name);
        }
    return PHASOR_OK;
}

/* What the program changes lies in memory of its own: what PyTorch would give otherwise depends on
 * the order in which it writes. */
static phasor_status check_written(const struct call *call, int index)
{
    const struct phasor_program *program = call->program;
    for (int i = 0; i < program->input_count; i++)
        if (i != index && meets(&call->in[index], &call->in[i]))
            return fail(
                PHASOR_ERROR_INPUT,
                "input %d (%s), which the program changes, overlaps input %d (%s); expected "
                "memory of its own",
                index, program->inputs[index].name, i, program->inputs[i].name);
    return PHASOR_OK;
}

static phasor_status read_output(struct call *call, int index)
{
    const struct place place = {"output", index, &call->program->outputs[index]};
    struct call_slot *out = &call->out[index];
    if (place.slot->kind != PHASOR_TENSOR)
        return PHASOR_OK;
    TRY(read_tensor(call, &place, &call->outputs[index], out));
    return call_is_shapes(call) ? PHASOR_OK : check_overlap(call, index);
}

phasor_status call_check_strides(const struct call *call)
{
    for (int i = 0; i < call->program->input_count; i++) {
        const struct place place = {"input", i, &call->program->inputs[i]};
        const struct call_slot *in = &call->in[i];
        if (place.slot->written && in->tensor &&
            overlaps_itself(call_rank(call, in), call_sizes(call, in), call_strides(call, in)))
            return slot_fail(&place, "the program changes it, and its elements overlap",
                             "memory of its own for each element");
    }
    for (int i = 0; call_is_into(call) && i < call->program->output_count; i++) {
        const struct place place = {"output", i, &call->program->outputs[i]};
        const struct call_slot *out = &call->out[i];
        if (out->tensor &&
            overlaps_itself(call_rank(call, out), call_sizes(call, out), call_strides(call, out)))
            return slot_fail(&place, "strides with which elements overlap",
                             "memory of its own for each element");
    }
    return PHASOR_OK;
}

/* -- the call ---------------------------------------------------------------------------------- */

static phasor_status slots_room(struct call *call)
{
    const size_t inputs = (size_t)call->program->input_count,
                 outputs = (size_t)call->program->output_count;
    call->words = call->word_space;
    call->word_capacity = CALL_WORDS;
    call->in = inputs <= CALL_SLOTS ? call->in_space : memory_new(inputs * sizeof *call->in);
    call->out = outputs <= CALL_SLOTS ? call->out_space : memory_new(outputs * sizeof *call->out);
    if (!call->in || !call->out)
        return fail_memory();
    if (inputs <= CALL_SLOTS)
        memset(call->in_space, 0, inputs * sizeof *call->in);
    if (outputs <= CALL_SLOTS)
        memset(call->out_space, 0, outputs * sizeof *call->out);
    return PHASOR_OK;
}

static phasor_status check_counts(const struct call *call, int inputs, int outputs)
{
    const struct phasor_program *program = call->program;
    if (inputs != program->input_count)
        return fail(PHASOR_ERROR_INPUT, "%d inputs; %s takes %d", inputs,
                    program_logical(program)->name, program->input_count);
    if (call->form != CALL_SHAPES && outputs != program->output_count)
        return fail(PHASOR_ERROR_INPUT, "room for %d outputs; %s has %d", outputs,
                    program_logical(program)->name, program->output_count);
    return PHASOR_OK;
}

phasor_status call_read(struct call *call, struct phasor_program *program, enum call_form form,
                        const phasor_value *inputs, int input_count, phasor_value *outputs,
                        int output_count)
{
    call->program = program;
    call->inputs = inputs;
    call->outputs = outputs;
    call->form = form;
    call->in_place = call->capturing = false;
    call->word_count = 0;
    TRY(slots_room(call));
    TRY(check_counts(call, input_count, output_count));
    if (input_count && !inputs)
        return fail(PHASOR_ERROR_USAGE, "inputs is NULL");
    if (output_count && !outputs)
        return fail(PHASOR_ERROR_USAGE, "outputs is NULL");
    call->words[call->word_count++] = call_is_into(call);
    for (int i = 0; i < input_count; i++)
        TRY(read_input(call, i));
    for (int i = 0; !call_is_shapes(call) && i < input_count; i++)
        if (program->inputs[i].written)
            TRY(check_written(call, i));
    for (int i = 0; call_is_into(call) && i < output_count; i++)
        TRY(read_output(call, i));
    return PHASOR_OK;
}

void call_free(struct call *call)
{
    if (call->words != call->word_space)
        memory_free(call->words);
    if (call->in != call->in_space)
        memory_free(call->in);
    if (call->out != call->out_space)
        memory_free(call->out);
}

/* -- for the planner --------------------------------------------------------------------------- */

static phasor_status describe_tensor(const struct call *call, const struct slot *slot,
                                     const struct call_slot *in, bool logical,
                                     struct call_tensor *out)
{
    const bool pair = !logical && dtype_is_complex(slot->dtype);
    const int rank = call_rank(call, in);
    if (rank + pair > RANK_MAX)
        return fail(PHASOR_ERROR_INPUT, "%s: rank %d; at most %d", slot->name, rank,
                    RANK_MAX - pair);
    *out = (struct call_tensor){.rank = rank + pair, .alignment = (int)call->words[in->number + 1]};
    for (int d = 0; d < rank; d++) {
        out->sizes[d] = call_sizes(call, in)[d];
        out->strides[d] = call_strides(call, in)[d] * (pair ? 2 : 1);
    }
    if (pair) {
        out->sizes[rank] = 2;
        out->strides[rank] = 1;
    }
    return PHASOR_OK;
}

static phasor_status describe_inputs(const struct call *call, bool logical, struct call_shape *out)
{
    for (int i = 0; i < out->input_count; i++) {
        const struct slot *slot = &call->program->inputs[i];
        out->inputs[i].rank = -1;
        if (slot->constant)
            continue;
        if (slot->kind == PHASOR_INT)
            out->integers[i] = call->words[call->in[i].number];
        else
            TRY(describe_tensor(call, slot, &call->in[i], logical, &out->inputs[i]));
    }
    return PHASOR_OK;
}

phasor_status call_describe(const struct call *call, bool logical, struct arena *arena,
                            struct call_shape *out)
{
    const struct phasor_program *program = call->program;
    *out = (struct call_shape){.input_count = program->input_count,
                               .output_count = program->output_count};
    out->inputs = NEW(arena, struct call_tensor, program->input_count);
    out->integers = NEW(arena, int64_t, program->input_count);
    out->outputs =
        call_is_into(call) ? NEW(arena, struct call_tensor, program->output_count) : NULL;
    if (!out->inputs || !out->integers || (call_is_into(call) && !out->outputs))
        return fail_memory();
    TRY(describe_inputs(call, logical, out));
    for (int i = 0; call_is_into(call) && i < program->output_count; i++) {
        out->outputs[i].rank = -1;
        if (program->outputs[i].kind == PHASOR_TENSOR)
            TRY(describe_tensor(call, &program->outputs[i], &call->out[i], logical,
                                &out->outputs[i]));
    }
    return PHASOR_OK;
}
