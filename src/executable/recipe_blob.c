/* recipe_blob.c - a recipe as bytes, and back; see recipe.h.
 *
 *     "phasor recipe 1\n", counts, kernels (name, operators, key, geometry, arguments),
 *         buffers, outputs, memories
 *
 * Every number is a little-endian int64; bytes have their length before them. The reader takes
 * nothing on trust: what it accepts can be run without reading or writing outside of what the
 * program and the call have.
 */
#include "executable/recipe.h"

#include "executable/blob.h"

#include <string.h>

static const char magic[] = "phasor recipe 1\n";
enum { COUNT_MAX = 1 << 20, KERNEL_BYTES_MAX = 4096, BLOCK_MAX = 1024 };

/* -- writing ----------------------------------------------------------------------------------- */

static void put_kernel(struct text *out, const struct recipe_kernel *kernel)
{
    put_bytes(out, kernel->name, strlen(kernel->name));
    put_bytes(out, kernel->operators, strlen(kernel->operators));
    put_bytes(out, kernel->key_bytes, kernel->key_size);
    text_add_number(out, kernel->setup);
    text_add_number(out, kernel->grid);
    text_add_number(out, kernel->block);
    text_add_number(out, kernel->argument_bytes);
    text_add_number(out, kernel->flag_argument);
    text_add_number(out, kernel->bytes);
    text_add_number(out, kernel->argument_count);
    for (int i = 0; i < kernel->argument_count; i++) {
        text_add_number(out, kernel->arguments[i].is_buffer);
        text_add_number(out, kernel->arguments[i].is_buffer ? kernel->arguments[i].buffer
                                                            : kernel->arguments[i].size);
    }
}

static void put_buffer(struct text *out, const struct recipe_buffer *buffer)
{
    text_add_number(out, buffer->kind);
    text_add_number(out, buffer->index);
    text_add_number(out, buffer->offset);
    text_add_number(out, buffer->nbytes);
    text_add_number(out, buffer->alignment);
}

static void put_output(struct text *out, const struct plan_output *output)
{
    text_add_number(out, output->tensor);
    text_add_number(out, output->memory);
    text_add_number(out, output->index);
    text_add_number(out, output->dtype);
    text_add_number(out, output->offset);
    text_add_number(out, output->integer);
    text_add_number(out, output->scalar_buffer);
    text_add_number(out, output->rank);
    for (int d = 0; d < output->rank; d++) {
        text_add_number(out, output->sizes[d]);
        text_add_number(out, output->strides[d]);
    }
}

phasor_status recipe_write(const struct recipe *recipe, struct text *out)
{
    text_add(out, magic);
    text_add_number(out, recipe->kernel_count);
    text_add_number(out, recipe->buffer_count);
    text_add_number(out, recipe->output_count);
    text_add_number(out, recipe->memory_count);
    text_add_number(out, recipe->in_place_count);
    text_add_number(out, recipe->work_bytes);
    text_add_number(out, recipe->table_bytes);
    for (int i = 0; i < recipe->buffer_count; i++)
        put_buffer(out, &recipe->buffers[i]);
    for (int i = 0; i < recipe->kernel_count; i++)
        put_kernel(out, &recipe->kernels[i]);
    for (int i = 0; i < recipe->memory_count; i++)
        text_add_number(out, recipe->memories[i]);
    for (int i = 0; i < recipe->output_count; i++)
        put_output(out, &recipe->outputs[i]);
    for (int i = 0; i < recipe->in_place_count; i++) {
        text_add_number(out, recipe->in_place[i].output);
        text_add_number(out, recipe->in_place[i].input);
    }
    return text_status(out);
}

/* -- reading ----------------------------------------------------------------------------------- */

struct reader {
    struct blob_reader blob;
    struct recipe *recipe;
    const struct recipe_limits *limits;
};

static int64_t get_number(struct reader *reader, int64_t low, int64_t high)
{
    return blob_number(&reader->blob, low, high);
}

static int get_int(struct reader *reader, int64_t low, int64_t high)
{
    return (int)blob_number(&reader->blob, low, high);
}

static const char *get_bytes(struct reader *reader, size_t *nbytes)
{
    return blob_bytes(&reader->blob, nbytes);
}

static void *get_array(struct reader *reader, int count, size_t size)
{
    return blob_array(&reader->blob, count, size);
}

static void get_arguments(struct reader *reader, struct recipe_kernel *kernel)
{
    struct recipe_argument *arguments =
        get_array(reader, kernel->argument_count, sizeof *arguments);
    for (int i = 0; !reader->blob.bad && i < kernel->argument_count; i++) {
        arguments[i].is_buffer = get_number(reader, 0, 1) != 0;
        if (arguments[i].is_buffer)
            arguments[i].buffer = get_int(reader, 0, reader->recipe->buffer_count - 1);
        else
            arguments[i].size = get_number(reader, INT64_MIN, INT64_MAX);
    }
    kernel->arguments = arguments;
}

static void get_kernel(struct reader *reader, struct recipe_kernel *kernel)
{
    size_t length;
    kernel->name = get_bytes(reader, &length);
    kernel->operators = get_bytes(reader, &length);
    kernel->key_bytes = get_bytes(reader, &kernel->key_size);
    if (reader->blob.bad)
        return;
    kernel->key = hash_bytes(kernel->key_bytes, kernel->key_size);
    kernel->setup = get_number(reader, 0, 1) != 0;
    kernel->grid = (uint32_t)get_number(reader, 0, INT32_MAX);
    kernel->block = (uint32_t)get_number(reader, 1, BLOCK_MAX);
    kernel->argument_bytes = get_int(reader, 0, KERNEL_BYTES_MAX);
    kernel->flag_argument =
        get_int(reader, -1, kernel->argument_bytes >= 8 ? kernel->argument_bytes - 8 : -1);
    kernel->bytes = get_number(reader, 0, INT64_MAX);
    kernel->argument_count = get_int(reader, 0, kernel->argument_bytes / 8);
    get_arguments(reader, kernel);
}

/* Sums of sizes in the recipe stay far from overflow. */
enum { BYTES_MAX_SHIFT = 50 };
static const int64_t bytes_max = INT64_C(1) << BYTES_MAX_SHIFT;

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
    buffer->kind = (enum buffer_kind)get_number(reader, 0, BUFFER_TABLE);
    buffer->index = get_int(reader, 0, (int64_t)index_limit(reader, buffer->kind) - 1);
    buffer->offset = get_number(reader, 0, bytes_max);
    buffer->nbytes = get_number(reader, 0, bytes_max);
    buffer->alignment = get_int(reader, 1, 16);
    const int64_t end = buffer->offset + buffer->nbytes;
    if ((buffer->kind == BUFFER_WORK && end > reader->recipe->work_bytes) ||
        (buffer->kind == BUFFER_TABLE && end > reader->recipe->table_bytes))
        reader->blob.bad = true;
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
    output->tensor = get_number(reader, 0, 1) != 0;
    output->memory = (enum memory_kind)get_number(reader, 0, MEMORY_DATA);
    output->index = get_int(reader, -1, (int64_t)output_limit(reader, output->memory) - 1);
    output->dtype = (enum dtype)get_number(reader, 0, DT_COUNT - 1);
    output->offset = get_number(reader, 0, bytes_max);
    output->integer = get_number(reader, INT64_MIN, INT64_MAX);
    output->scalar_buffer = get_int(reader, -1, reader->recipe->buffer_count - 1);
    output->rank = get_int(reader, 0, RANK_MAX);
    for (int d = 0; !reader->blob.bad && d < output->rank; d++) {
        output->sizes[d] = get_number(reader, 0, bytes_max);
        output->strides[d] = get_number(reader, -bytes_max, bytes_max);
    }
}

static void get_counts(struct reader *reader)
{
    struct recipe *recipe = reader->recipe;
    recipe->kernel_count = get_int(reader, 0, COUNT_MAX);
    recipe->buffer_count = get_int(reader, 0, COUNT_MAX);
    recipe->output_count = get_int(reader, reader->limits->outputs, reader->limits->outputs);
    recipe->memory_count = get_int(reader, 0, COUNT_MAX);
    recipe->in_place_count = get_int(reader, 0, COUNT_MAX);
    recipe->work_bytes = get_number(reader, 0, bytes_max);
    recipe->table_bytes = get_number(reader, 0, bytes_max);
}

static void get_all(struct reader *reader)
{
    struct recipe *recipe = reader->recipe;
    get_counts(reader);
    recipe->buffers = get_array(reader, recipe->buffer_count, sizeof *recipe->buffers);
    for (int i = 0; !reader->blob.bad && i < recipe->buffer_count; i++)
        get_buffer(reader, &recipe->buffers[i]);
    recipe->kernels = get_array(reader, recipe->kernel_count, sizeof *recipe->kernels);
    for (int i = 0; !reader->blob.bad && i < recipe->kernel_count; i++)
        get_kernel(reader, &recipe->kernels[i]);
    recipe->memories = get_array(reader, recipe->memory_count, sizeof *recipe->memories);
    for (int i = 0; !reader->blob.bad && i < recipe->memory_count; i++)
        recipe->memories[i] = get_number(reader, 0, bytes_max);
    recipe->outputs = get_array(reader, recipe->output_count, sizeof *recipe->outputs);
    for (int i = 0; !reader->blob.bad && i < recipe->output_count; i++)
        get_output(reader, &recipe->outputs[i]);
    recipe->in_place = get_array(reader, recipe->in_place_count, sizeof *recipe->in_place);
    for (int i = 0; !reader->blob.bad && i < recipe->in_place_count; i++) {
        recipe->in_place[i].output = get_int(reader, 0, reader->limits->outputs - 1);
        recipe->in_place[i].input = get_int(reader, 0, reader->limits->inputs - 1);
    }
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
