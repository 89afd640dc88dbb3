/* bench_data.c - see bench.h: what a measured call runs on.
 *
 *     q: bf16[1, 7, 4, 64], output: the same   ->   set 0: q 3584 bytes, output 3584 bytes; set 1:
 * ...; 256 sets
 *
 * All sets are one allocation; taking the next set changes the addresses in the tensors and nothing
 * else.
 */
#include "specialise/specialise.h"
#include "inspect/bench.h"

#include "graph/element.h"

#include <math.h>
#include <string.h>

enum { LINE = 256, BLOCK_BYTES = 1 << 20 };

/* -- shapes ------------------------------------------------------------------------------------ */

static phasor_status shape_finish(struct bench_shape *shape, enum dtype dtype, const char *name)
{
    shape->nbytes = dtype_size(dtype);
    for (int d = 0; d < shape->rank; d++)
        if (__builtin_mul_overflow(shape->nbytes, shape->sizes[d], &shape->nbytes))
            return fail(PHASOR_ERROR_MEMORY, "%s has more bytes than memory can have", name);
    return PHASOR_OK;
}

static phasor_status shape_input(const struct slot *slot, const phasor_value *v,
                                 struct bench_shape *shape)
{
    const DLTensor *t = v->kind == PHASOR_OWNED ? &v->owned->dl_tensor : v->tensor;
    static const int64_t none[RANK_MAX];
    *shape = (struct bench_shape){.rank = t->ndim};
    for (int d = 0; d < t->ndim; d++)
        shape->sizes[d] = t->shape[d];
    strides_close(shape->rank, shape->sizes, none, shape->strides);
    return shape_finish(shape, slot->dtype, slot->name);
}

/* The plan's dims: a complex tensor has its pair. */
static phasor_status shape_output(const struct slot *slot, const struct plan_output *output,
                                  struct bench_shape *shape)
{
    *shape = (struct bench_shape){.rank = output->rank - dtype_is_complex(slot->dtype)};
    memcpy(shape->sizes, output->sizes, (size_t)shape->rank * sizeof *shape->sizes);
    strides_close(shape->rank, shape->sizes, output->strides, shape->strides);
    return shape_finish(shape, slot->dtype, slot->name);
}

static phasor_status outputs_by_plan(struct call *call, struct bench_shape *shapes)
{
    struct plan plan = {0};
    phasor_status status = specialise_plan(call, &plan);
    for (int i = 0; status == PHASOR_OK && i < call->program->output_count; i++)
        if (call->program->outputs[i].kind == PHASOR_TENSOR)
            status = shape_output(&call->program->outputs[i], &plan.outputs[i], &shapes[i]);
    plan_free(&plan);
    return status;
}

/* The evaluator needs no plan: the bound graph has the shapes. */
static phasor_status outputs_by_layout(struct call *call, struct bench_shape *shapes)
{
    struct phasor_program *program = call->program;
    struct specialisation *spec;
    phasor_status status = PHASOR_OK;
    TRY(specialisation_get(call, &spec));
    for (int i = 0; status == PHASOR_OK && i < program->output_count; i++) {
        if (program->outputs[i].kind != PHASOR_TENSOR)
            continue;
        const value v = spec->bound.graph.outputs.at[i].node;
        const struct node *n = graph_node(&spec->bound.graph, v);
        shapes[i] = (struct bench_shape){.rank = n->rank};
        for (int d = 0; d < n->rank; d++)
            shapes[i].sizes[d] = size_value(spec->bound.graph.sizes, n->shape[d]);
        strides_close(n->rank, shapes[i].sizes, spec->layouts[v].strides, shapes[i].strides);
        status = shape_finish(&shapes[i], program->outputs[i].dtype, program->outputs[i].name);
    }
    flight_release(&program->specialisations, &spec->flight);
    return status;
}

static phasor_status shapes_read(struct call *call, struct bench_shape *shapes)
{
    struct phasor_program *program = call->program;
    for (int i = 0; i < program->input_count; i++)
        if (program->inputs[i].kind == PHASOR_TENSOR && !program->inputs[i].constant)
            TRY(shape_input(&program->inputs[i], &call->inputs[i], &shapes[i]));
    return program->on_cuda ? outputs_by_plan(call, shapes + program->input_count)
                            : outputs_by_layout(call, shapes + program->input_count);
}

phasor_status bench_shapes(phasor_program *program, const phasor_value *inputs, int count,
                           struct bench_shape *shapes)
{
    struct call call;
    call.stream = NULL;
    for (int i = 0; i < program->input_count + program->output_count; i++)
        shapes[i].rank = -1;
    phasor_status status = call_read(&call, program, CALL_SHAPES, inputs, count, NULL, 0);
    if (status == PHASOR_OK)
        status = shapes_read(&call, shapes);
    call_free(&call);
    return status;
}

/* -- memory ------------------------------------------------------------------------------------ */

static int slot_count(const struct bench_data *data)
{
    return data->input_count + data->output_count;
}

/* A place for each slot that is large enough in all calls. */
static phasor_status places_make(struct bench_data *data, const struct bench_shape *shapes,
                                 int shape_count)
{
    const int slots = slot_count(data);
    for (int i = 0; i < slots; i++) {
        int64_t most = 0;
        for (int k = 0; k < shape_count; k++)
            if (shapes[k * slots + i].rank >= 0 && shapes[k * slots + i].nbytes > most)
                most = shapes[k * slots + i].nbytes;
        data->offsets[i] = data->set_bytes;
        if (most > INT64_MAX / 1024 - data->set_bytes)
            return fail(PHASOR_ERROR_MEMORY, "inputs and outputs of more than 2^53 bytes");
        data->set_bytes += (most + LINE - 1) / LINE * LINE;
    }
    data->offsets[slots] = data->set_bytes;
    return PHASOR_OK;
}

static phasor_status memory_try(struct bench_data *data)
{
    const size_t nbytes = (size_t)(data->sets * data->set_bytes);
    if (data->device) {
        void *base = NULL;
        const phasor_status status = device_allocate(data->device, nbytes, &base, data->stream);
        data->base = base;
        return status;
    }
    TRY(memory_host(nbytes, &data->host));
    data->base = data->host->bytes;
    return PHASOR_OK;
}

static phasor_status memory_get(struct bench_data *data, int sets_wanted)
{
    for (data->sets = sets_wanted;; data->sets = (data->sets + 1) / 2) {
        const phasor_status status = memory_try(data);
        if (status != PHASOR_ERROR_MEMORY || data->sets == 1)
            return status;
    }
}

/* -- random values ----------------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static double random_normal(uint64_t *state)
{
    const double unit = (double)((random_bits(state) >> 11) + 1) * 0x1p-53,
                 turn = (double)(random_bits(state) >> 11) * 0x1p-53;
    return sqrt(-2 * log(unit)) * cos(6.283185307179586 * turn);
}

static void block_fill(char *bytes, int64_t nbytes, enum dtype dtype, uint64_t state)
{
    const bool exact = dtype_is_integer(dtype);
    for (int64_t at = 0; at + dtype_size(dtype) <= nbytes; at += dtype_size(dtype)) {
        const struct number number = {.i = exact ? (int64_t)(random_bits(&state) >> 63) : 0,
                                      .re = exact ? 0 : random_normal(&state),
                                      .im = dtype_is_complex(dtype) ? random_normal(&state) : 0};
        element_store(dtype, number, bytes + at);
    }
}

static phasor_status data_copy(const struct bench_data *data, char *to, const char *from,
                               int64_t nbytes)
{
    if (data->device)
        return device_copy(data->device, to, from, (size_t)nbytes, data->stream);
    memcpy(to, from, (size_t)nbytes);
    return PHASOR_OK;
}

/* A block of random values stands again and again in a large input: making each would take the host
 * minutes. */
static phasor_status slot_fill(const struct bench_data *data, int slot, char *block, uint64_t seed)
{
    const int64_t room = data->offsets[slot + 1] - data->offsets[slot];
    int64_t done = room < BLOCK_BYTES ? room : BLOCK_BYTES;
    char *first = data->base + data->offsets[slot];
    block_fill(block, done, data->program->inputs[slot].dtype,
               seed * 0x2545f4914f6cdd1d + (uint64_t)slot);
    if (!data->device)
        memcpy(first, block, (size_t)done);
    else
        TRY(device_upload(data->device, first, block, (size_t)done, data->stream));
    for (; done < room; done *= 2)
        TRY(data_copy(data, first + done, first, done < room - done ? done : room - done));
    for (int s = 1; s < data->sets; s++)
        TRY(data_copy(data, first + s * data->set_bytes, first, room));
    return data->device ? device_synchronize(data->device, data->stream) : PHASOR_OK;
}

static phasor_status inputs_fill(const struct bench_data *data, uint64_t seed)
{
    char *block = memory_new(BLOCK_BYTES);
    phasor_status status = block ? PHASOR_OK : fail_memory();
    for (int i = 0; status == PHASOR_OK && i < data->input_count; i++)
        if (data->offsets[i + 1] > data->offsets[i])
            status = slot_fill(data, i, block, seed);
    memory_free(block);
    return status;
}

/* -- all --------------------------------------------------------------------------------------- */

phasor_status bench_data_make(struct bench_data *data, const struct bench_shape *shapes,
                              int shape_count, int sets_wanted, uint64_t seed)
{
    const size_t slots = (size_t)slot_count(data);
    data->values = memory_new((slots + 1) * sizeof *data->values);
    data->tensors = memory_new((slots + 1) * sizeof *data->tensors);
    data->offsets = memory_new((slots + 1) * sizeof *data->offsets);
    if (!data->values || !data->tensors || !data->offsets)
        return fail_memory();
    TRY(places_make(data, shapes, shape_count));
    TRY(memory_get(data, sets_wanted ? sets_wanted : bench_sets(data->set_bytes)));
    return inputs_fill(data, seed);
}

void bench_data_free(struct bench_data *data)
{
    if (data->device)
        device_free(data->device, data->base, data->stream);
    else
        memory_release(data->host);
    memory_free(data->values);
    memory_free(data->tensors);
    memory_free(data->offsets);
}

void bench_data_shape(struct bench_data *data, struct bench_shape *shapes,
                      const phasor_value *inputs)
{
    const struct phasor_program *program = data->program;
    const DLDevice device = {data->device ? kDLCUDA : kDLCPU,
                             data->device ? device_ordinal(data->device) : 0};
    for (int i = 0; i < slot_count(data); i++) {
        const int output = i - data->input_count;
        const struct slot *slot = output < 0 ? &program->inputs[i] : &program->outputs[output];
        if (output < 0)
            data->values[i] = inputs[i];
        if (shapes[i].rank < 0)
            continue;
        data->tensors[i] = (DLTensor){.device = device,
                                      .dtype = dtype_to_dlpack(slot->dtype),
                                      .ndim = shapes[i].rank,
                                      .shape = shapes[i].sizes,
                                      .strides = shapes[i].strides};
        data->values[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &data->tensors[i]};
    }
    bench_data_select(data, 0);
}

void bench_data_select(struct bench_data *data, int set)
{
    for (int i = 0; i < slot_count(data); i++)
        data->tensors[i].data = data->base + set * data->set_bytes + data->offsets[i];
}
