/* test_rewrite_cases.c - real exported programs: before == after in both dialects, and what the
 * rule set executorch leaves as it is. */
#include "support/rewritten.h"

#include "load/load.h"
#include "support/leak.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

static const char *const dialects[] = {"plain", "core"};

struct case_program {
    struct loaded_program program;
    struct graph real;
    bool done;
};

static void case_open(struct case_program *c, const char *name, const char *dialect,
                      const struct rewrite_options *options)
{
    char path[1024];
    *c = (struct case_program){0};
    snprintf(path, sizeof path, "%s/%s/%s.pt2", PHASOR_TEST_CASES, name, dialect);
    cr_assert_eq(load_pt2(path, NULL, &c->program), PHASOR_OK, "%s: %s", path, message_get());
    struct loaded_program *p = &c->program;
    cr_assert_eq(graph_init(&c->real, &p->arena, &p->sizes, name), PHASOR_OK);
    cr_assert_eq(rewrite_program(&p->graph, &c->real, options, &p->refusals, &c->done), PHASOR_OK,
                 "%s: %s", path, message_get());
    if (c->done)
        cr_assert_eq(graph_verify(&c->real), PHASOR_OK, "%s: %s", path, message_get());
}

static void case_close(struct case_program *c)
{
    graph_free(&c->real);
    load_free(&c->program);
}

static const struct tolerance near = {2e-5, 2e-6};

/* The program with each symbol near `size`, inside its range; false where it has no such sizes. */
static bool bind(const struct graph *from, struct graph *to, struct arena *arena,
                 struct sizes *pool, int64_t size)
{
    dim replacement[16];
    const struct sizes *symbols = from->sizes;
    cr_assert_leq(symbols->symbols.count, 16);
    cr_assert_eq(sizes_init(pool, arena), PHASOR_OK);
    cr_assert_eq(graph_init(to, arena, pool, from->name), PHASOR_OK);
    for (size_t k = 0; k < symbols->symbols.count; k++) {
        const struct size_symbol *symbol = &symbols->symbols.at[k];
        const int64_t wanted = size + (int64_t)k;
        const int64_t inside = wanted < symbol->low    ? symbol->low
                               : wanted > symbol->high ? symbol->high
                                                       : wanted;
        replacement[k] = size_literal(pool, inside);
    }
    return graph_rebind(to, from, replacement) == PHASOR_OK;
}

/* Sizes that the file did not have as its example, in both graphs. */
static void check_size(const struct case_program *c, int64_t size, bool fma)
{
    struct arena arena = {0};
    struct sizes pools[2] = {{0}, {0}};
    struct graph loaded = {0}, real = {0};
    if (bind(&c->program.graph, &loaded, &arena, &pools[0], size)) {
        cr_assert(bind(&c->real, &real, &arena, &pools[1], size), "%s: %s", c->real.name,
                  message_get());
        compare_graphs(&loaded, &real, fma, (struct values){.state = (uint64_t)size}, near);
    }
    graph_free(&loaded);
    graph_free(&real);
    sizes_free(&pools[0]);
    sizes_free(&pools[1]);
    arena_free(&arena);
}

static void check_case(const char *name, const char *dialect, const struct rewrite_options *options)
{
    struct case_program c;
    case_open(&c, name, dialect, options);
    if (c.done)
        compare_graphs(&c.program.graph, &c.real, options->fma, (struct values){.state = 3}, near);
    const bool dynamic = c.done && c.program.sizes.symbols.count > 0;
    for (int64_t size = 1; dynamic && size < 8; size += 2)
        check_size(&c, size, options->fma);
    case_close(&c);
}

/* Every case that can be rewritten, which all but two can. */
Test(rewrite_cases, compute_the_same)
{
    const struct rewrite_options options = {PHASOR_RULES_ALL, true};
    DIR *folder = opendir(PHASOR_TEST_CASES);
    cr_assert(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        for (int d = 0; d < 2 && !strchr(entry->d_name, '.'); d++) {
            char path[1024];
            snprintf(path, sizeof path, "%s/%s/%s.pt2", PHASOR_TEST_CASES, entry->d_name,
                     dialects[d]);
            if (access(path, R_OK) == 0) /* a folder may have one form only */
                check_case(entry->d_name, dialects[d], &options);
        }
    closedir(folder);
    ASSERT_NO_LEAKS();
}

static size_t refused_count(const char *name, const char *dialect, phasor_rules rules,
                            const char *target)
{
    struct case_program c;
    case_open(&c, name, dialect, &(struct rewrite_options){rules, true});
    const size_t count = c.program.refusals.count;
    cr_assert_eq(c.done, count == 0);
    if (target && count)
        cr_assert_str_eq(c.program.refusals.at[0].target, target, "%s %s", name, dialect);
    case_close(&c);
    return count;
}

/* The case, the target of its first refusal in both dialects, and how many the rule set all
 * refuses. */
static const struct left {
    const char *name, *targets[2];
    size_t with_all;
} left[] = {
    {"left_complex_add", {"aten.add.Tensor", "aten.add.Tensor"}, 0},
    {"left_complex_input", {"input", "input"}, 0},
    {"left_complex32", {"aten.view_as_complex.default", "aten.view_as_complex.default"}, 2},
    {"left_cond", {"cond", "cond"}, 0},
    {"left_channels_last", {"aten.contiguous.default", "aten.clone.default"}, 0},
    {"left_cast_to_real", {"aten.to.dtype", "aten._to_copy.default"}, 0},
    {"left_mutated_buffer", {"aten.mul_.Tensor", NULL}, 0},
    {"left_five", {"aten.fft_fft.default", "aten._fft_c2c.default"}, 5},
};

Test(rewrite_cases, left_as_they_are)
{
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        for (int d = 0; d < 2; d++) {
            const char *name = left[i].name;
            cr_assert_gt(
                refused_count(name, dialects[d], PHASOR_RULES_EXECUTORCH, left[i].targets[d]), 0,
                "%s", name);
            cr_assert_eq(refused_count(name, dialects[d], PHASOR_RULES_ALL, NULL), left[i].with_all,
                         "%s", name);
        }
    ASSERT_NO_LEAKS();
}

/* Rotations, and what the ExecuTorch rules name around them. */
static const char *const rotations[] = {"qk_rope_f32",
                                        "qk_rope_bf16_dynamic",
                                        "polar_in_graph_dynamic",
                                        "polar_in_graph_f16",
                                        "gather_rope_dynamic",
                                        "axial_rope",
                                        "video_rope_bf16",
                                        "video_rope_c64",
                                        "video_rope_f64",
                                        "grid_rope_bf16_dynamic",
                                        "joins",
                                        "joins_dynamic",
                                        "cast_in",
                                        "twice",
                                        "twice_complex",
                                        "plain_attribute",
                                        "nested_inputs",
                                        "int_input",
                                        "op_no_grad_region",
                                        "op_index_two"};

Test(rewrite_cases, rewritten_by_both_rule_sets)
{
    for (size_t i = 0; i < sizeof rotations / sizeof *rotations; i++)
        for (int d = 0; d < 2; d++)
            cr_assert_eq(refused_count(rotations[i], dialects[d], PHASOR_RULES_EXECUTORCH, NULL), 0,
                         "%s", rotations[i]);
    ASSERT_NO_LEAKS();
}
