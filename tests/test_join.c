/* test_join.c - the source of several kernels: no name collides, and the machine code of each is
 * what NVRTC makes of it alone.
 */
#include "base/embedded.h"
#include "base/memory.h"
#include "codegen/join.h"
#include "compile/nvrtc.h"
#include "support/leak.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

/* -- joined sources ---------------------------------------------------------------------------- */

static struct joined_kernel kernel_of(const char *source, const char *name)
{
    return (struct joined_kernel){.source = source, .name = name};
}

static phasor_status join(struct joined_kernel *kernels, int count, struct text *out,
                          struct arena *arena)
{
    *out = (struct text){0};
    *arena = (struct arena){0};
    return codegen_join(kernels, count, arena, out);
}

Test(join, a_joined_source)
{
    static const char first[] = "device\n#line 1 \"prologue\"\n#define KERNEL mul\n"
                                "  # define COUNT 4u\nbody\n#line 1 \"map.cu\"\nKERNEL COUNT\n",
                      second[] =
                          "device\n#line 1 \"prologue\"\n#define KERNEL mul\n#define PART(N) N\n";
    struct joined_kernel kernels[2] = {kernel_of(first, "mul"), kernel_of(second, "mul")};
    struct arena arena;
    struct text out;
    cr_assert_eq(join(kernels, 2, &out, &arena), PHASOR_OK, "%s", message_get());
    cr_assert_str_eq(text_get(&out),
                     "device\n\n"
                     "namespace kernel_0 {\n#line 1 \"prologue\"\n#define KERNEL mul_0\n"
                     "  # define COUNT 4u\nbody\n#line 1 \"map.cu\"\nKERNEL COUNT\n\n}\n"
                     "#undef KERNEL\n#undef COUNT\n\n"
                     "namespace kernel_1 {\n#line 1 \"prologue\"\n#define KERNEL mul_1\n"
                     "#define PART(N) N\n\n}\n#undef KERNEL\n#undef PART\n");
    cr_assert_str_eq(kernels[1].joined_name, "mul_1");
    text_free(&out);
    arena_free(&arena);
    ASSERT_NO_LEAKS();
}

static void join_expect_failure(const char *source, const char *message)
{
    struct joined_kernel kernel = kernel_of(source, "mul");
    struct arena arena;
    struct text out;
    cr_assert_eq(join(&kernel, 1, &out, &arena), PHASOR_ERROR_COMPILE);
    cr_assert(strstr(message_get(), message), "%s", message_get());
    text_free(&out);
    arena_free(&arena);
}

Test(join, a_source_of_another_shape)
{
    join_expect_failure("device\nvoid mul();\n", "the source of mul has no line");
    join_expect_failure("device\n#line 1 \"prologue\"\n#define KERNEL multiply\n",
                        "the source of mul does not define KERNEL");
    ASSERT_NO_LEAKS();
}

/* -- machine code ------------------------------------------------------------------------------ */

extern const struct embedded_file embedded_templates[];
enum { TEMPLATES_MOST = 16 };

static const char *template_text(const char *name)
{
    for (const struct embedded_file *f = embedded_templates; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f->text;
    cr_assert_fail("no template %s", name);
    return NULL;
}

/* A template with the prologue of sample.cuh, as a generated source has it. */
static void source_make(const struct embedded_file *file, struct text *out)
{
    const char *sample = strstr(template_text("sample.cuh"), "#define BLOCK");
    cr_assert(sample);
    text_format(out,
                "#line 1 \"device.cuh\"\n%s\n#line 1 \"prologue\"\n#define KERNEL sample\n%s\n"
                "#line 1 \"%s\"\n%s",
                template_text("device.cuh"), sample, file->name, file->text);
    cr_assert_eq(text_status(out), PHASOR_OK);
}

/* The bytes of section ".text.NAME". */
static const char *code_find(const struct compile_result *result, const char *name, size_t *nbytes)
{
    const char *image = result->cubin;
    Elf64_Ehdr header;
    char wanted[64];
    memcpy(&header, image, sizeof header);
    snprintf(wanted, sizeof wanted, ".text.%s", name);
    const Elf64_Shdr *sections = (const void *)(image + header.e_shoff);
    const char *names = image + sections[header.e_shstrndx].sh_offset;
    for (int i = 0; i < header.e_shnum; i++)
        if (strcmp(names + sections[i].sh_name, wanted) == 0) {
            *nbytes = sections[i].sh_size;
            return image + sections[i].sh_offset;
        }
    cr_assert_fail("no section %s", wanted);
    return NULL;
}

static void compile(struct compiler *compiler, const char *source, const char *arch,
                    struct compile_result *out)
{
    const struct compile_request request = {"unit", source, arch, false};
    cr_assert_eq(compiler_run(compiler, &request, out), PHASOR_OK, "%s", message_get());
}

static void code_compare(struct compiler *compiler, const struct joined_kernel *kernel,
                         const struct compile_result *unit, const char *arch)
{
    struct compile_result alone;
    size_t size, joined_size;
    compile(compiler, kernel->source, arch, &alone);
    const char *code = code_find(&alone, kernel->name, &size),
               *joined = code_find(unit, kernel->joined_name, &joined_size);
    cr_assert_eq(size, joined_size, "%s for %s", kernel->joined_name, arch);
    cr_assert_arr_eq(code, joined, size, "%s for %s", kernel->joined_name, arch);
    compile_result_free(&alone);
}

/* For sm_120 the assembler orders the instructions of this one, and names its registers, in another
 * way where another kernel stands beside it. Its sums stay in the order of the source. */
static bool is_scheduled_freely(const char *template)
{
    return strcmp(template, "attention.cu") == 0;
}

/* Every other template twice in one unit: each kernel's code is what it is alone, byte for byte. */
Test(join, machine_code_is_that_of_a_kernel_alone)
{
    static const char *const archs[] = {"sm_75", "sm_90", "sm_120"};
    struct text sources[TEMPLATES_MOST] = {{0}}, joined;
    struct joined_kernel kernels[2 * TEMPLATES_MOST];
    struct arena arena;
    struct compiler *compiler;
    int count = 0;
    if (compiler_open(&compiler) != PHASOR_OK) {
        cr_log_info("skipped: %s", message_get());
        return;
    }
    for (const struct embedded_file *f = embedded_templates; f->name; f++)
        if (strcmp(f->name + strlen(f->name) - 3, ".cu") == 0 && !is_scheduled_freely(f->name))
            source_make(f, &sources[count++]);
    for (int i = 0; i < 2 * count; i++)
        kernels[i] = kernel_of(text_get(&sources[i % count]), "sample");
    cr_assert_eq(join(kernels, 2 * count, &joined, &arena), PHASOR_OK, "%s", message_get());
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        struct compile_result unit;
        if (!compiler_knows_arch(compiler, archs[a]))
            continue;
        compile(compiler, text_get(&joined), archs[a], &unit);
        for (int i = 0; i < 2 * count; i++)
            code_compare(compiler, &kernels[i], &unit, archs[a]);
        compile_result_free(&unit);
    }
    for (int i = 0; i < count; i++)
        text_free(&sources[i]);
    text_free(&joined);
    arena_free(&arena);
    compiler_close(compiler);
    ASSERT_NO_LEAKS();
}
