/* class_blob.c - a class as bytes, and back: see classes.h.
 *
 *     "phasor class 1\n", expressions that codegen added to the pool, guards, kernels
 *
 * The key of the row has the signature in it, and with it the pool as the planner left it: the
 * expressions of the row go on from there. What is read can be evaluated: operands stand before
 * what is made of them, and indices are of what there is.
 */
#include "executable/blob.h"
#include "specialise/classes.h"

#include <string.h>

static const char magic[] = "phasor class 1\n";
enum { COUNT_MAX = 1 << 20, KERNEL_BYTES_MAX = 4096, BLOCK_MAX = 1024, OPERANDS_MAX = 64 };

/* -- writing ----------------------------------------------------------------------------------- */

static void put_sizes(struct text *out, const struct sizes *sizes, size_t first)
{
    sizes_write(sizes, first, out);
    text_add_number(out, (int64_t)sizes->guards.count);
    for (size_t i = 0; i < sizes->guards.count; i++) {
        const struct size_guard *guard = &sizes->guards.at[i];
        text_add_number(out, guard->kind);
        text_add_number(out, guard->a);
        text_add_number(out, guard->b);
        text_add_number(out, guard->answer);
    }
}

static void put_kernel(struct text *out, const struct kernel *kernel,
                       const struct recipe_kernel *made)
{
    put_bytes(out, made->name, strlen(made->name));
    put_bytes(out, made->operators, strlen(made->operators));
    put_bytes(out, made->key_bytes, made->key_size);
    text_add_number(out, kernel->setup);
    text_add_number(out, kernel->sizes_inside);
    text_add_number(out, kernel->gains);
    text_add_number(out, kernel->block);
    text_add_number(out, kernel->grid);
    text_add_number(out, kernel->bytes);
    text_add_number(out, kernel->argument_bytes);
    text_add_number(out, kernel->flag_argument);
    text_add_number(out, kernel->argument_count);
    for (int i = 0; i < kernel->argument_count; i++) {
        text_add_number(out, kernel->arguments[i].kind);
        text_add_number(out, kernel->arguments[i].buffer);
        text_add_number(out, kernel->arguments[i].size);
    }
}

phasor_status class_write(const struct plan_class *class, struct text *out)
{
    text_add(out, magic);
    put_sizes(out, &class->plan->sizes, class->planned);
    text_add_number(out, class->recipe.kernel_count);
    for (int k = 0; k < class->recipe.kernel_count; k++)
        put_kernel(out, &class->plan->kernels.at[k], &class->recipe.kernels[k]);
    return text_status(out);
}

/* -- reading ----------------------------------------------------------------------------------- */

/* An expression whose operands are among the first `count`. */
static void get_expression(struct blob_reader *reader, const struct sizes *sizes,
                           struct size_node *n)
{
    const int64_t known = (int64_t)sizes->nodes.count;
    *n = (struct size_node){0};
    n->kind = (enum size_kind)blob_number(reader, 0, SIZE_POW);
    n->literal = blob_number(reader, INT64_MIN, INT64_MAX);
    n->symbol = (int)blob_number(reader, 0, INT32_MAX);
    n->count = (int)blob_number(reader, 0, OPERANDS_MAX);
    const bool two = n->kind > SIZE_PRODUCT;
    if ((n->kind == SIZE_SYMBOL && (size_t)n->symbol >= sizes->symbols.count) ||
        (two && n->count != 2))
        reader->bad = true;
    n->terms = blob_array(reader, n->count, sizeof *n->terms);
    n->operands = blob_array(reader, n->count, sizeof *n->operands);
    for (int i = 0; !reader->bad && i < n->count; i++) {
        n->operands[i] = n->terms[i].term = (dim)blob_number(reader, 0, known - 1);
        n->terms[i].factor = blob_number(reader, INT64_MIN, INT64_MAX);
    }
}

static void get_sizes(struct blob_reader *reader, struct sizes *sizes)
{
    const int64_t added = blob_number(reader, 0, COUNT_MAX);
    for (int64_t i = 0; !reader->bad && i < added; i++) {
        struct size_node n;
        get_expression(reader, sizes, &n);
        if (!reader->bad && !array_push(&sizes->nodes, n))
            reader->bad = reader->no_memory = true;
    }
    const int64_t guards = blob_number(reader, 0, COUNT_MAX),
                  last = (int64_t)sizes->nodes.count - 1;
    for (int64_t i = 0; !reader->bad && i < guards; i++) {
        struct size_guard guard = {.kind = blob_number(reader, 0, GUARD_LESS)};
        guard.a = (dim)blob_number(reader, 0, last);
        guard.b = (dim)blob_number(reader, 0, last);
        guard.answer = blob_number(reader, 0, 1) != 0;
        if (!reader->bad && !array_push(&sizes->guards, guard))
            reader->bad = reader->no_memory = true;
    }
}

static void get_arguments(struct blob_reader *reader, const struct plan *plan,
                          struct kernel *kernel, struct recipe_kernel *made)
{
    struct recipe_argument *arguments =
        blob_array(reader, kernel->argument_count, sizeof *arguments);
    kernel->arguments = blob_array(reader, kernel->argument_count, sizeof *kernel->arguments);
    for (int i = 0; !reader->bad && i < kernel->argument_count; i++) {
        struct kernel_argument *argument = &kernel->arguments[i];
        argument->kind = (enum argument_kind)blob_number(reader, 0, ARGUMENT_DIVISOR);
        argument->buffer = (int)blob_number(
            reader, 0,
            argument->kind == ARGUMENT_BUFFER ? (int64_t)plan->buffers.count - 1 : INT32_MAX);
        argument->size = (dim)blob_number(reader, 0, (int64_t)plan->sizes.nodes.count - 1);
        arguments[i] = (struct recipe_argument){.is_buffer = argument->kind == ARGUMENT_BUFFER,
                                                .buffer = argument->buffer};
    }
    made->arguments = arguments;
    made->argument_count = kernel->argument_count;
}

static void get_kernel(struct blob_reader *reader, const struct plan *plan, struct kernel *kernel,
                       struct recipe_kernel *made)
{
    const int64_t last = (int64_t)plan->sizes.nodes.count - 1;
    size_t length;
    made->name = blob_bytes(reader, &length);
    made->operators = blob_bytes(reader, &length);
    made->key_bytes = blob_bytes(reader, &made->key_size);
    if (reader->bad)
        return;
    made->key = hash_bytes(made->key_bytes, made->key_size);
    made->setup = kernel->setup = blob_number(reader, 0, 1) != 0;
    kernel->sizes_inside = blob_number(reader, 0, 1) != 0;
    kernel->gains = blob_number(reader, 0, 1) != 0;
    made->block = kernel->block = (uint32_t)blob_number(reader, 1, BLOCK_MAX);
    kernel->grid = (dim)blob_number(reader, 0, last);
    kernel->bytes = (dim)blob_number(reader, 0, last);
    made->argument_bytes = kernel->argument_bytes = (int)blob_number(reader, 0, KERNEL_BYTES_MAX);
    made->flag_argument = kernel->flag_argument =
        (int)blob_number(reader, -1, kernel->argument_bytes >= 8 ? kernel->argument_bytes - 8 : -1);
    kernel->argument_count = (int)blob_number(reader, 0, kernel->argument_bytes / 8);
    get_arguments(reader, plan, kernel, made);
}

/* The plan's kernels become those of the row. */
static void get_kernels(struct blob_reader *reader, struct plan_class *class)
{
    struct plan *plan = class->plan;
    const int count = (int)blob_number(reader, 0, (int64_t)plan->kernels.count);
    class->recipe.kernels = blob_array(reader, count, sizeof *class->recipe.kernels);
    if (reader->bad)
        return;
    class->recipe.kernel_count = count;
    plan->kernels.count = (size_t)count;
    for (int k = 0; !reader->bad && k < count; k++) {
        plan->kernels.at[k] = (struct kernel){0};
        get_kernel(reader, plan, &plan->kernels.at[k], &class->recipe.kernels[k]);
    }
}

bool class_read(struct plan_class *class, const void *bytes, size_t nbytes, phasor_status *status)
{
    const size_t length = sizeof magic - 1;
    struct blob_reader reader = {.arena = &class->recipe.arena};
    *status = PHASOR_OK;
    if (nbytes < length || memcmp(bytes, magic, length) != 0)
        return false;
    reader.at = (const char *)bytes + length;
    reader.left = nbytes - length;
    get_sizes(&reader, &class->plan->sizes);
    get_kernels(&reader, class);
    if (!reader.bad && reader.left == 0)
        return true;
    if (reader.no_memory)
        *status = fail_memory();
    return false;
}
