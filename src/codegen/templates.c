/* templates.c - see templates.h. */
#include "codegen/templates.h"

#include "base/embedded.h"
#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct embedded_file embedded_templates[];

static const char *find_embedded(const char *name)
{
    for (const struct embedded_file *f = embedded_templates; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f->text;
    return NULL;
}

static phasor_status read_file(const char *path, struct text *out)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return fail(PHASOR_ERROR_FILE, "%s: %s", path, strerror(errno));
    char bytes[4096];
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        text_add_bytes(out, bytes, n);
    const bool failed = ferror(file);
    fclose(file);
    return failed ? fail(PHASOR_ERROR_FILE, "%s: cannot be read", path) : text_status(out);
}

static phasor_status template_get(struct templates *templates, const char *directory,
                                  const char *name, const char **out)
{
    *out = find_embedded(name);
    if (!directory)
        return PHASOR_OK;
    struct text path = {0}, contents = {0};
    text_format(&path, "%s/%s", directory, name);
    phasor_status status = text_status(&path);
    if (status == PHASOR_OK && (access(text_get(&path), F_OK) == 0 || errno != ENOENT)) {
        status = read_file(text_get(&path), &contents);
        if (status == PHASOR_OK && !(*out = arena_string(&templates->arena, text_get(&contents))))
            status = fail_memory();
    }
    text_free(&path);
    text_free(&contents);
    return status;
}

static phasor_status templates_hash(struct templates *templates)
{
    struct text all = {0};
    const char *const parts[] = {templates->device,  templates->map,    templates->maps,
                                 templates->row,     templates->reduce, templates->scan,
                                 templates->collect, templates->dot,    templates->attention,
                                 templates->sort,    templates->search};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): template_get found them all */
        text_format(&all, "%zu:%s", strlen(parts[i]), parts[i]);
    const phasor_status status = text_status(&all);
    templates->hash = hash_bytes(text_get(&all), all.length);
    templates->device_hash = hash_bytes(templates->device, strlen(templates->device));
    text_free(&all);
    return status;
}

phasor_status templates_load(struct templates *templates, const char *directory)
{
    *templates = (struct templates){0};
    if (directory && !*directory)
        directory = NULL;
    if (directory)
        TRY(folder_check("PHASOR_TEMPLATE_DIR", directory));
    TRY(template_get(templates, directory, "device.cuh", &templates->device));
    TRY(template_get(templates, directory, "map.cu", &templates->map));
    TRY(template_get(templates, directory, "maps.cu", &templates->maps));
    TRY(template_get(templates, directory, "row.cu", &templates->row));
    TRY(template_get(templates, directory, "reduce.cu", &templates->reduce));
    TRY(template_get(templates, directory, "scan.cu", &templates->scan));
    TRY(template_get(templates, directory, "collect.cu", &templates->collect));
    TRY(template_get(templates, directory, "dot.cu", &templates->dot));
    TRY(template_get(templates, directory, "attention.cu", &templates->attention));
    TRY(template_get(templates, directory, "sort.cu", &templates->sort));
    TRY(template_get(templates, directory, "search.cu", &templates->search));
    return templates_hash(templates);
}

void templates_free(struct templates *templates)
{
    arena_free(&templates->arena);
}
