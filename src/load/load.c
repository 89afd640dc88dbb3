/* load.c - which reader a file needs, text programs, and the memory of weights.
 *
 *     rope.pt2      -> load_pt2()
 *     rope.phasor   -> graph_parse(), with data that is not inline from rope.safetensors
 */
#include "load/load.h"

#include "load/archive.h"
#include "load/load_memory.h"
#include "load/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 64, HEAD_SIZE = 64, TEXT_MAX = 1 << 30 };

/* -- memory of weights ------------------------------------------------------------------------- */

struct load_memory {
    struct load_memory *next;
    void *block;
};

phasor_status storage_new(struct loaded_program *program, uint64_t nbytes, void **bytes,
                          struct storage **out)
{
    struct load_memory *memory = NEW(&program->arena, struct load_memory, 1);
    struct storage *storage = NEW(&program->arena, struct storage, 1);
    if (!memory || !storage || nbytes > SIZE_MAX / 2)
        return fail_memory();
    memory->block = memory_new((size_t)nbytes + ALIGNMENT);
    if (!memory->block)
        return fail_memory();
    memory->next = program->memory;
    program->memory = memory;
    *bytes = (void *)(((uintptr_t)memory->block + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    *storage = (struct storage){*bytes, (size_t)nbytes, storage_new_id()};
    *out = storage;
    return PHASOR_OK;
}

void load_free(struct loaded_program *program)
{
    for (const struct load_memory *memory = program->memory; memory; memory = memory->next)
        memory_free(memory->block);
    array_free(&program->refusals);
    graph_free(&program->graph);
    sizes_free(&program->sizes);
    arena_free(&program->arena);
    *program = (struct loaded_program){0};
}

/* -- text programs ----------------------------------------------------------------------------- */

struct text_data {
    struct loaded_program *program;
    const char *path; /* of the .safetensors file */
    struct tensors_file *tensors;
};

static phasor_status file_read(const char *path, char **text)
{
    FILE *file = fopen(path, "rb");
    *text = NULL;
    if (!file)
        return fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    const off_t size = fseeko(file, 0, SEEK_END) == 0 ? ftello(file) : -1;
    phasor_status status = PHASOR_OK;
    if (size < 0 || size > TEXT_MAX || fseeko(file, 0, SEEK_SET) != 0)
        status = fail(PHASOR_ERROR_FILE, "%s: not a text file of at most %d bytes", path, TEXT_MAX);
    else if (!(*text = memory_new((size_t)size + 1)))
        status = fail_memory();
    else if (fread(*text, 1, (size_t)size, file) != (size_t)size)
        status = fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    else if (memchr(*text, '\0', (size_t)size))
        status = fail(PHASOR_ERROR_FILE, "%s: not a program: it is neither a .pt2 archive nor text",
                      path);
    fclose(file);
    return status;
}

static phasor_status find_data(void *context, const char *name, struct data *out)
{
    struct text_data *data = context;
    struct arena *arena = &data->program->arena;
    phasor_value found;
    if (!data->tensors)
        TRY(tensors_read(data->path, &data->tensors));
    TRY(tensors_get(data->tensors, name, &found));
    if (found.kind != PHASOR_TENSOR)
        return fail(PHASOR_ERROR_FILE, "%s: there is no tensor \"%s\"", data->path, name);
    const DLTensor *t = found.tensor;
    if (t->ndim > RANK_MAX || !dtype_from_dlpack(t->dtype, &out->dtype))
        return fail(PHASOR_ERROR_FILE, "%s: tensor \"%s\" has rank %d; at most %d", data->path,
                    name, t->ndim, RANK_MAX);
    int64_t count = 1, *strides = NEW(arena, int64_t, t->ndim);
    void *bytes;
    struct storage *storage;
    out->name = arena_string(arena, name);
    out->sizes = arena_copy(arena, t->shape, (size_t)t->ndim * sizeof(int64_t));
    if (!out->name || !out->sizes || !strides)
        return fail_memory();
    for (int axis = t->ndim - 1; axis >= 0; axis--) {
        strides[axis] = count;
        count *= t->shape[axis]; /* fits: the file has that many elements, or one size is 0 */
    }
    TRY(storage_new(data->program, (uint64_t)count * (uint64_t)dtype_size(out->dtype), &bytes,
                    &storage));
    if (count)
        memcpy(bytes, t->data, storage->nbytes);
    out->rank = t->ndim;
    out->strides = strides;
    out->storage = storage;
    return PHASOR_OK;
}

/* A text can hold what no rule knows, too. */
static phasor_status refusals_find(struct loaded_program *program)
{
    const struct graph *graph = &program->graph;
    for (value v = 1; v < graph->nodes.count; v++) {
        const struct node *n = graph_node(graph, v);
        if (n->op != OP_unknown)
            continue;
        const struct refusal refusal = {.origin = n->origin,
                                        .target = n->attributes.text,
                                        .node = n->name,
                                        .reason = "no rule for this operator",
                                        .line = n->origin ? n->origin->line : NULL,
                                        .unknown = true};
        if (!array_push(&program->refusals, refusal))
            return fail_memory();
    }
    return PHASOR_OK;
}

/* "dir/rope.phasor" with ending ".safetensors" -> "dir/rope.safetensors" */
static char *path_with(struct arena *arena, const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path,
               *dot = strrchr(base, '.');
    return arena_format(arena, "%.*s%s", (int)(dot && dot != base ? dot - path : (int)strlen(path)),
                        path, ending);
}

static phasor_status text_load(const char *path, const char *text, struct loaded_program *out)
{
    struct text_data data = {.program = out, .path = path_with(&out->arena, path, ".safetensors")};
    const char *name = path_with(&out->arena, path, "");
    if (!data.path || !name)
        return fail_memory();
    name = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    TRY(sizes_init(&out->sizes, &out->arena));
    TRY(graph_init(&out->graph, &out->arena, &out->sizes, name));
    const phasor_status status = graph_parse(&out->graph, text, path, find_data, &data);
    tensors_close(data.tensors);
    TRY(status);
    TRY(graph_status(&out->graph));
    TRY(graph_verify_after(&out->graph, "load"));
    return refusals_find(out);
}

phasor_status load_text(const char *path, struct loaded_program *out)
{
    char *text;
    *out = (struct loaded_program){0};
    phasor_status status = file_read(path, &text);
    if (status == PHASOR_OK)
        status = text_load(path, text, out);
    if (status != PHASOR_OK && out->sizes.status == PHASOR_ERROR_MEMORY)
        status = fail_memory(); /* sizes of 0 that stand for none misled it */
    memory_free(text);
    if (status != PHASOR_OK)
        load_free(out);
    return status;
}

/* -- either ------------------------------------------------------------------------------------ */

phasor_status load_program(const char *path, const char *model, struct loaded_program *out)
{
    unsigned char head[HEAD_SIZE];
    *out = (struct loaded_program){0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    errno = 0;
    const size_t nbytes = fread(head, 1, sizeof head, file);
    const int trouble = ferror(file) ? errno : 0;
    fclose(file);
    if (trouble)
        return fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(trouble));
    const bool is_text = strcmp(archive_describe(head, nbytes), "a text file") == 0;
    return is_text ? load_text(path, out) : load_pt2(path, model, out);
}
