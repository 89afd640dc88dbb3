/* test_strides.c - the strides of results are those of eager PyTorch, for operands of any strides:
 * on the loaded graph, whose layouts the CPU device has, and on the real one, whose layouts a GPU
 * has. data/strides.txt holds programs with eager's strides; make/strides.py made it.
 *
 *     # strides 4 12 *           * : a dim of size 1 that is not held to it
 *     phasor 1 "mul" ...     ->  the output's strides are [4, 12, any]; in the real graph, doubled
 */
#include "support/rewritten.h"

#include "plan/plan.h"
#include "support/leak.h"

#include <stdio.h>

static const char mark[] = "# strides";

/* Contiguous inputs; a complex one has one more dim in the real graph. */
static void inputs_make(const struct graph *loaded, const struct graph *graph,
                        struct call_tensor *tensors)
{
    for (size_t i = 0; i < loaded->inputs.count; i++) {
        const value v = graph->inputs.at[i].node;
        struct call_tensor *tensor = &tensors[i];
        *tensor = (struct call_tensor){.rank = graph_node(graph, v)->rank, .alignment = 16};
        int64_t stride = 1;
        for (int d = tensor->rank - 1; d >= 0; d--) {
            tensor->sizes[d] = graph_dim(graph, v, d);
            tensor->strides[d] = stride;
            stride *= tensor->sizes[d] > 1 ? tensor->sizes[d] : 1;
        }
    }
}

static const struct layout *output_layout(struct rewritten *r, const struct graph *graph)
{
    struct call_tensor tensors[SLOTS_MAX];
    int64_t integers[SLOTS_MAX] = {0};
    struct layout *layouts;
    inputs_make(&r->loaded, graph, tensors);
    const struct call_shape call = {
        .inputs = tensors, .integers = integers, .input_count = (int)graph->inputs.count};
    cr_assert_eq(layout_infer(graph, &call, &r->arena, &layouts), PHASOR_OK, "%s", message_get());
    return &layouts[graph->outputs.at[0].node];
}

struct expectation {
    const char *strides, *text; /* " 4 12 *", the program */
    int rank;
};

/* Returns the number of strides that were compared. */
static int check_strides(const struct expectation *e, const struct layout *layout, int factor,
                         const char *graph)
{
    int compared = 0;
    const char *at = e->strides;
    for (int d = 0; d < e->rank; d++) {
        at += strspn(at, " ");
        if (*at == '*') {
            at++;
            continue;
        }
        char *end;
        const int64_t stride = factor * strtoll(at, &end, 10);
        cr_assert(end > at, "%d strides, not%s, in\n%s", e->rank, e->strides, e->text);
        cr_expect_eq(layout->strides[d], stride,
                     "stride %d of the %s graph is %ld, not %ld, in\n%s", d, graph,
                     (long)layout->strides[d], (long)stride, e->text);
        at = end;
        compared++;
    }
    return compared;
}

static int check_program(const char *strides, const char *text)
{
    struct rewritten r;
    rewritten_open(&r, text, PHASOR_RULES_ALL, true);
    cr_assert(r.done, "%s", text);
    const struct node *node = graph_node(&r.loaded, r.loaded.outputs.at[0].node);
    const struct expectation e = {strides, text, node->rank};
    const int factor = dtype_is_complex(node->dtype) ? 2 : 1;
    const int compared = check_strides(&e, output_layout(&r, &r.loaded), 1, "loaded") +
                         check_strides(&e, output_layout(&r, &r.real), factor, "real");
    rewritten_close(&r);
    return compared;
}

static char *file_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    const size_t size = (size_t)ftell(file);
    char *text = calloc(size + 1, 1);
    rewind(file);
    cr_assert(text && fread(text, 1, size, file) == size);
    fclose(file);
    return text;
}

Test(strides, are_those_of_eager)
{
    char *all = file_text(PHASOR_TEST_CASES "/../data/strides.txt");
    int programs = 0, compared = 0;
    for (char *at = strstr(all, mark), *next; at; at = next, programs++) {
        next = strstr(at + 1, mark);
        if (next)
            next[-1] = '\0';
        char *text = strchr(at, '\n');
        *text++ = '\0';
        compared += check_program(at + strlen(mark), text);
    }
    printf("%d programs, %d strides\n", programs, compared);
    cr_assert_gt(programs, 200);
    cr_assert_gt(compared, 800);
    free(all);
    ASSERT_NO_LEAKS();
}
