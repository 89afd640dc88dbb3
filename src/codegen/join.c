/* join.c - see join.h.
 *
 *     #line 1 "prologue"                  namespace kernel_3 {
 *     #define KERNEL mul                  #line 1 "prologue"
 *     #define BLOCK 128            ->     #define KERNEL mul_3
 *     ...                                 #define BLOCK 128
 *                                         ...
 *                                         }
 *                                         #undef KERNEL
 *                                         #undef BLOCK
 *
 * Lines keep their numbers, so that messages still point into the templates.
 */
#include "codegen/join.h"

#include <stdbool.h>
#include <string.h>

static const char prologue_mark[] = "#line 1 \"prologue\"", name_mark[] = "#define KERNEL ";

static size_t word_length(const char *s)
{
    size_t length = 0;
    while (is_alphanumeric(s[length]) || s[length] == '_')
        length++;
    return length;
}

/* The name behind "#define" at the start of this line; NULL where there is none. */
static const char *define_find(const char *line)
{
    line += strspn(line, " \t");
    if (*line++ != '#')
        return NULL;
    line += strspn(line, " \t");
    if (strncmp(line, "define", 6) != 0 || (line[6] != ' ' && line[6] != '\t'))
        return NULL;
    return line + 6 + strspn(line + 6, " \t");
}

/* Macros know no namespace: they end with their kernel. */
static void macros_end(const char *source, struct text *out)
{
    for (const char *line = source; *line;) {
        const char *name = define_find(line);
        if (name) {
            text_add(out, "#undef ");
            text_add_bytes(out, name, word_length(name));
            text_add(out, "\n");
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

static phasor_status kernel_add(struct joined_kernel *kernel, int index, const char *prologue,
                                struct arena *arena, struct text *out)
{
    const char *name = strstr(prologue, name_mark);
    name = name ? name + sizeof name_mark - 1 : NULL;
    if (!name || strncmp(name, kernel->name, strlen(kernel->name)) != 0 ||
        name[strlen(kernel->name)] != '\n')
        return fail(PHASOR_ERROR_COMPILE,
                    "the source of %s does not define KERNEL as its name: it cannot be joined",
                    kernel->name);
    kernel->joined_name = arena_format(arena, "%s_%d", kernel->name, index);
    if (!kernel->joined_name)
        return fail_memory();
    text_format(out, "\nnamespace kernel_%d {\n", index);
    text_add_bytes(out, prologue, (size_t)(name - prologue));
    text_add(out, kernel->joined_name);
    text_add(out, name + strlen(kernel->name));
    text_add(out, "\n}\n");
    macros_end(prologue, out);
    return PHASOR_OK;
}

phasor_status codegen_join(struct joined_kernel *kernels, int count, struct arena *arena,
                           struct text *out)
{
    for (int i = 0; i < count; i++) {
        const char *prologue = strstr(kernels[i].source, prologue_mark);
        if (!prologue)
            return fail(PHASOR_ERROR_COMPILE,
                        "the source of %s has no line %s: it cannot be joined", kernels[i].name,
                        prologue_mark);
        if (i == 0)
            text_add_bytes(out, kernels[i].source, (size_t)(prologue - kernels[i].source));
        TRY(kernel_add(&kernels[i], i, prologue, arena, out));
    }
    return text_status(out);
}
