/* recipe_blob.c - a recipe as bytes, and back; see recipe.h.
 *
 *     "phasor recipe 2\n", counts, buffers, kernels (name, operators, key, geometry,
 *         arguments), steps, memories, outputs, donation pairs
 *
 * Every number is a little-endian int64; bytes have their length before them. The reader takes
 * nothing on trust: what it accepts can be run without reading or writing outside of what the
 * program and the call have. Each struct has one table of fields, which both go by.
 */
#include "executable/recipe.h"

#include "executable/blob.h"

#include <stddef.h>
#include <string.h>

static const char magic[] = "phasor recipe 2\n";
enum { COUNT_MAX = 1 << 20, KERNEL_BYTES_MAX = 4096, BLOCK_MAX = 1024 };

/* Sums of sizes in the recipe stay far from overflow. */
#define BYTES_MOST (INT64_C(1) << 50)

/* Highest values that depend on the program, or on what was read before. */
enum { OF_BUFFERS = 1, OF_INPUTS, OF_OUTPUTS, LIMITS };

#define COUNT_OF(table) ((int)(sizeof(table) / sizeof *(table)))
#define AT(type, field) offsetof(struct type, field)

static const struct blob_field counts[] = {
    {BLOB_INT, AT(recipe, kernel_count), 0, COUNT_MAX, 0},
    {BLOB_INT, AT(recipe, step_count), 0, COUNT_MAX, 0},
    {BLOB_INT, AT(recipe, buffer_count), 0, COUNT_MAX, 0},
    {BLOB_INT, AT(recipe, output_count), 0, COUNT_MAX, 0},
    {BLOB_INT, AT(recipe, memory_count), 0, COUNT_MAX, 0},
    {BLOB_INT, AT(recipe, in_place_count), 0, COUNT_MAX, 0},
    {BLOB_INT64, AT(recipe, work_bytes), 0, BYTES_MOST, 0},
    {BLOB_INT64, AT(recipe, table_bytes), 0, BYTES_MOST, 0},
};
static const struct blob_field buffer_fields[] = {
    {BLOB_INT, AT(recipe_buffer, kind), 0, BUFFER_TABLE, 0},
    {BLOB_INT, AT(recipe_buffer, index), 0, INT32_MAX, 0},
    {BLOB_INT64, AT(recipe_buffer, offset), 0, BYTES_MOST, 0},
    {BLOB_INT64, AT(recipe_buffer, nbytes), 0, BYTES_MOST, 0},
    {BLOB_INT, AT(recipe_buffer, alignment), 1, 16, 0},
};
static const struct blob_field kernel_fields[] = {
    {BLOB_STRING, AT(recipe_kernel, name), 0, 0, 0},
    {BLOB_STRING, AT(recipe_kernel, operators), 0, 0, 0},
    {BLOB_BYTES, AT(recipe_kernel, key_bytes), 0, 0, 0},
    {BLOB_BOOL, AT(recipe_kernel, setup), 0, 1, 0},
    {BLOB_UINT32, AT(recipe_kernel, grid), 0, INT32_MAX, 0},
    {BLOB_UINT32, AT(recipe_kernel, block), 1, BLOCK_MAX, 0},
    {BLOB_INT, AT(recipe_kernel, argument_bytes), 0, KERNEL_BYTES_MAX, 0},
    {BLOB_INT, AT(recipe_kernel, flag_argument), -1, KERNEL_BYTES_MAX, 0},
    {BLOB_INT64, AT(recipe_kernel, bytes), 0, INT64_MAX, 0},
    {BLOB_INT, AT(recipe_kernel, argument_count), 0, KERNEL_BYTES_MAX / 8, 0},
};
static const struct blob_field argument_fields[] = {
    {BLOB_BOOL, AT(recipe_argument, is_buffer), 0, 1, 0},
    {BLOB_INT, AT(recipe_argument, buffer), 0, INT32_MAX, 0},
    {BLOB_INT64, AT(recipe_argument, size), INT64_MIN, INT64_MAX, 0},
};
static const struct blob_field step_fields[] = {
    {BLOB_INT, AT(recipe_step, kind), 0, STEP_KINDS - 1, 0},
    {BLOB_BOOL, AT(recipe_step, hoisted), 0, 1, 0},
    {BLOB_INT, AT(recipe_step, kernel), 0, COUNT_MAX, 0},
    {BLOB_INT, AT(recipe_step, from), 0, COUNT_MAX, 0},
    {BLOB_INT, AT(recipe_step, to), 0, COUNT_MAX, 0},
    {BLOB_INT64, AT(recipe_step, nbytes), 0, BYTES_MOST, 0},
};
static const struct blob_field library_fields[] = {
    {BLOB_INT, AT(step_library, matmul.type), 0, LIBRARY_TYPES - 1, 0},
    {BLOB_INT64, AT(step_library, matmul.batch), 1, INT32_MAX, 0},
    {BLOB_INT64, AT(step_library, matmul.m), 1, INT32_MAX, 0},
    {BLOB_INT64, AT(step_library, matmul.n), 1, INT32_MAX, 0},
    {BLOB_INT64, AT(step_library, matmul.k), 1, INT32_MAX, 0},
    {BLOB_INT64, AT(step_library, matmul.a.stride), 0, BYTES_MOST, 0},
    {BLOB_INT64, AT(step_library, matmul.a.batch_stride), 0, BYTES_MOST, 0},
    {BLOB_BOOL, AT(step_library, matmul.a.transposed), 0, 1, 0},
    {BLOB_INT64, AT(step_library, matmul.b.stride), 0, BYTES_MOST, 0},
    {BLOB_INT64, AT(step_library, matmul.b.batch_stride), 0, BYTES_MOST, 0},
    {BLOB_BOOL, AT(step_library, matmul.b.transposed), 0, 1, 0},
    {BLOB_INT64, AT(step_library, matmul.c.stride), 0, BYTES_MOST, 0},
    {BLOB_INT64, AT(step_library, matmul.c.batch_stride), 0, BYTES_MOST, 0},
    {BLOB_INT, AT(step_library, matmul.alignment), 1, 16, 0},
    {BLOB_INT, AT(step_library, operands[0]), 0, 0, OF_BUFFERS},
    {BLOB_INT, AT(step_library, operands[1]), 0, 0, OF_BUFFERS},
    {BLOB_INT, AT(step_library, operands[2]), 0, 0, OF_BUFFERS},
    {BLOB_INT64, AT(step_library, offsets[0]), 0, BYTES_MOST, 0},
    {BLOB_INT64, AT(step_library, offsets[1]), 0, BYTES_MOST, 0},
    {BLOB_INT64, AT(step_library, offsets[2]), 0, BYTES_MOST, 0},
    {BLOB_INT, AT(step_library, scratch), 0, 0, OF_BUFFERS},
};
static const struct blob_field output_fields[] = {
    {BLOB_BOOL, AT(plan_output, tensor), 0, 1, 0},
    {BLOB_INT, AT(plan_output, memory), 0, MEMORY_DATA, 0},
    {BLOB_INT, AT(plan_output, index), -1, INT32_MAX, 0},
    {BLOB_INT, AT(plan_output, dtype), 0, DT_COUNT - 1, 0},
    {BLOB_INT64, AT(plan_output, offset), 0, BYTES_MOST, 0},
    {BLOB_INT64, AT(plan_output, integer), INT64_MIN, INT64_MAX, 0},
    {BLOB_INT, AT(plan_output, scalar_buffer), -1, 0, OF_BUFFERS},
    {BLOB_INT, AT(plan_output, rank), 0, RANK_MAX, 0},
};
static const struct blob_field pair_fields[] = {
    {BLOB_INT, AT(recipe_pair, output), 0, 0, OF_OUTPUTS},
    {BLOB_INT, AT(recipe_pair, input), 0, 0, OF_INPUTS},
};

/* -- writing ----------------------------------------------------------------------------------- */

static void put_step(struct text *out, const struct recipe_step *step)
{
    blob_put(out, step_fields, COUNT_OF(step_fields), step);
    if (step->kind == STEP_LIBRARY)
        blob_put(out, library_fields, COUNT_OF(library_fields), &step->library);
}

phasor_status recipe_write(const struct recipe *recipe, struct text *out)
{
    text_add(out, magic);
    blob_put(out, counts, COUNT_OF(counts), recipe);
    for (int i = 0; i < recipe->buffer_count; i++)
        blob_put(out, buffer_fields, COUNT_OF(buffer_fields), &recipe->buffers[i]);
    for (int i = 0; i < recipe->kernel_count; i++) {
        const struct recipe_kernel *kernel = &recipe->kernels[i];
        blob_put(out, kernel_fields, COUNT_OF(kernel_fields), kernel);
        for (int a = 0; a < kernel->argument_count; a++)
            blob_put(out, argument_fields, COUNT_OF(argument_fields), &kernel->arguments[a]);
    }
    for (int i = 0; i < recipe->step_count; i++)
        put_step(out, &recipe->steps[i]);
    for (int i = 0; i < recipe->memory_count; i++)
        text_add_number(out, recipe->memories[i]);
    for (int i = 0; i < recipe->output_count; i++) {
        const struct plan_output *output = &recipe->outputs[i];
        blob_put(out, output_fields, COUNT_OF(output_fields), output);
        for (int d = 0; d < output->rank; d++) {
            text_add_number(out, output->sizes[d]);
            text_add_number(out, output->strides[d]);
        }
    }
    for (int i = 0; i < recipe->in_place_count; i++)
        blob_put(out, pair_fields, COUNT_OF(pair_fields), &recipe->in_place[i]);
    return text_status(out);
}

/* -- reading ----------------------------------------------------------------------------------- */

struct reader {
    struct blob_reader blob;
    struct recipe *recipe;
    const struct recipe_limits *limits;
    int64_t highest[LIMITS];
};

static void *get_array(struct reader *reader, int count, size_t size)
{
    return blob_array(&reader->blob, count, size);
}

static void get_fields(struct reader *reader, const struct blob_field *fields, int count,
                       void *object)
{
    blob_get(&reader->blob, fields, count, reader->highest, object);
}

static void require(struct reader *reader, bool holds)
{
    reader->blob.bad |= !holds;
}

static void get_kernel(struct reader *reader, struct recipe_kernel *kernel)
{
    get_fields(reader, kernel_fields, COUNT_OF(kernel_fields), kernel);
    if (reader->blob.bad)
        return;
    kernel->key = hash_bytes(kernel->key_bytes, kernel->key_size);
    require(reader,
            kernel->flag_argument < 0 || kernel->flag_argument <= kernel->argument_bytes - 8);
    require(reader, kernel->argument_count <= kernel->argument_bytes / 8);
    struct recipe_argument *arguments =
        get_array(reader, kernel->argument_count, sizeof *arguments);
    for (int i = 0; !reader->blob.bad && i < kernel->argument_count; i++) {
        get_fields(reader, argument_fields, COUNT_OF(argument_fields), &arguments[i]);
        require(reader,
                !arguments[i].is_buffer || arguments[i].buffer < reader->recipe->buffer_count);
    }
    kernel->arguments = arguments;
}

static int index_limit(const struct reader *reader, enum buffer_kind kind)
{
    switch (kind) {
    case BUFFER_INPUT: return reader->limits->inputs;
    case BUFFER_STATE: return reader->limits->states;
    case BUFFER_DATA: return reader->limits->values;
    case BUFFER_OUTPUT: return reader->recipe->memory_count;
    case BUFFER_SLOT: return reader->limits->outputs;
    default: return INT32_MAX;
    }
}

static void get_buffer(struct reader *reader, struct recipe_buffer *buffer)
{
    get_fields(reader, buffer_fields, COUNT_OF(buffer_fields), buffer);
    const int64_t end = buffer->offset + buffer->nbytes;
    require(reader, buffer->index < index_limit(reader, buffer->kind) &&
                        (buffer->kind != BUFFER_WORK || end <= reader->recipe->work_bytes) &&
                        (buffer->kind != BUFFER_TABLE || end <= reader->recipe->table_bytes));
}

/* The last byte of a matrix that the library reads or writes, behind its first. */
static bool is_inside(const struct matmul *m, const struct matrix *matrix, int64_t rows,
                      int64_t columns, int64_t offset, int64_t nbytes)
{
    static const int sizes[LIBRARY_TYPES] = {2, 2, 4, 8};
    const __int128 outer = matrix->transposed ? columns : rows,
                   inner = matrix->transposed ? rows : columns;
    const __int128 last =
        (m->batch - 1) * (__int128)matrix->batch_stride + (outer - 1) * matrix->stride + inner;
    return matrix->stride >= inner && offset + last * sizes[m->type] <= nbytes;
}

static void get_library(struct reader *reader, struct step_library *call)
{
    get_fields(reader, library_fields, COUNT_OF(library_fields), call);
    if (reader->blob.bad)
        return;
    const struct matmul *m = &call->matmul;
    const struct recipe_buffer *b = reader->recipe->buffers;
    require(reader,
            is_inside(m, &m->a, m->m, m->k, call->offsets[0], b[call->operands[0]].nbytes) &&
                is_inside(m, &m->b, m->k, m->n, call->offsets[1], b[call->operands[1]].nbytes) &&
                is_inside(m, &m->c, m->m, m->n, call->offsets[2], b[call->operands[2]].nbytes) &&
                b[call->scratch].nbytes >= MATMUL_WORKSPACE);
}

static void get_step(struct reader *reader, struct recipe_step *step)
{
    const struct recipe *recipe = reader->recipe;
    get_fields(reader, step_fields, COUNT_OF(step_fields), step);
    if (step->kind == STEP_KERNEL)
        require(reader, step->kernel < recipe->kernel_count);
    else if (step->kind == STEP_COPY)
        require(reader, step->from < recipe->buffer_count && step->to < recipe->buffer_count &&
                            step->nbytes <= recipe->buffers[step->from].nbytes &&
                            step->nbytes <= recipe->buffers[step->to].nbytes);
    else if (step->kind == STEP_FILL)
        require(reader, step->to < recipe->buffer_count &&
                            step->nbytes <= recipe->buffers[step->to].nbytes);
    else
        get_library(reader, &step->library);
}

static int output_limit(const struct reader *reader, enum memory_kind memory)
{
    switch (memory) {
    case MEMORY_INPUT: return reader->limits->inputs;
    case MEMORY_STATE: return reader->limits->states;
    case MEMORY_DATA: return reader->limits->values;
    default: return reader->recipe->memory_count;
    }
}

static void get_output(struct reader *reader, struct plan_output *output)
{
    get_fields(reader, output_fields, COUNT_OF(output_fields), output);
    require(reader, output->index < output_limit(reader, output->memory));
    for (int d = 0; !reader->blob.bad && d < output->rank; d++) {
        output->sizes[d] = blob_number(&reader->blob, 0, BYTES_MOST);
        output->strides[d] = blob_number(&reader->blob, -BYTES_MOST, BYTES_MOST);
    }
}

static void get_all(struct reader *reader)
{
    struct recipe *recipe = reader->recipe;
    get_fields(reader, counts, COUNT_OF(counts), recipe);
    require(reader, recipe->output_count == reader->limits->outputs);
    reader->highest[OF_BUFFERS] = recipe->buffer_count - 1;
    reader->highest[OF_INPUTS] = reader->limits->inputs - 1;
    reader->highest[OF_OUTPUTS] = reader->limits->outputs - 1;
    recipe->buffers = get_array(reader, recipe->buffer_count, sizeof *recipe->buffers);
    for (int i = 0; !reader->blob.bad && i < recipe->buffer_count; i++)
        get_buffer(reader, &recipe->buffers[i]);
    recipe->kernels = get_array(reader, recipe->kernel_count, sizeof *recipe->kernels);
    for (int i = 0; !reader->blob.bad && i < recipe->kernel_count; i++)
        get_kernel(reader, &recipe->kernels[i]);
    recipe->steps = get_array(reader, recipe->step_count, sizeof *recipe->steps);
    for (int i = 0; !reader->blob.bad && i < recipe->step_count; i++)
        get_step(reader, &recipe->steps[i]);
    recipe->memories = get_array(reader, recipe->memory_count, sizeof *recipe->memories);
    for (int i = 0; !reader->blob.bad && i < recipe->memory_count; i++)
        recipe->memories[i] = blob_number(&reader->blob, 0, BYTES_MOST);
    recipe->outputs = get_array(reader, recipe->output_count, sizeof *recipe->outputs);
    for (int i = 0; !reader->blob.bad && i < recipe->output_count; i++)
        get_output(reader, &recipe->outputs[i]);
    recipe->in_place = get_array(reader, recipe->in_place_count, sizeof *recipe->in_place);
    for (int i = 0; !reader->blob.bad && i < recipe->in_place_count; i++)
        get_fields(reader, pair_fields, COUNT_OF(pair_fields), &recipe->in_place[i]);
}

bool recipe_read(struct recipe *recipe, const void *bytes, size_t nbytes,
                 const struct recipe_limits *limits, phasor_status *status)
{
    const size_t length = sizeof magic - 1;
    struct reader reader = {.blob = {.arena = &recipe->arena}, .recipe = recipe, .limits = limits};
    *recipe = (struct recipe){0};
    *status = PHASOR_OK;
    if (nbytes < length || memcmp(bytes, magic, length) != 0)
        return false;
    reader.blob.at = (const char *)bytes + length;
    reader.blob.left = nbytes - length;
    get_all(&reader);
    if (!reader.blob.bad && reader.blob.left == 0)
        return true;
    recipe_free(recipe);
    if (reader.blob.no_memory)
        *status = fail_memory();
    return false;
}
