/* test_mix.c - the programs cases/mix_* use, between them, every operator of the complex algebra
 * and the real ones around it. That they give eager's values is what test_kernels.c and the others
 * that go through all cases say. */
#include "leak.h"
#include "load/archive.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const operators[] = {
    /* arithmetic and functions */
    "add",
    "sub",
    "rsub",
    "neg",
    "mul",
    "div",
    "reciprocal",
    "_conj",
    "_conj_physical",
    "resolve_conj",
    "_neg_view",
    "real",
    "imag",
    "complex",
    "polar",
    "abs",
    "angle",
    "sgn",
    "exp",
    "expm1",
    "exp2",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "pow",
    "float_power",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "square",
    /* reductions, scans, products of matrices */
    "sum",
    "mean",
    "prod",
    "cumsum",
    "cumprod",
    "var",
    "std",
    "linalg_vector_norm",
    "mm",
    "bmm",
    "addmm",
    "matmul",
    "dot",
    "vdot",
    "outer",
    "mv",
    "einsum",
    "tensordot",
    "inner",
    "kron",
    "addr",
    "linear",
    /* comparing and choosing */
    "eq",
    "ne",
    "isnan",
    "isinf",
    "isfinite",
    "isclose",
    "isreal",
    "any",
    "all",
    "where",
    "masked_fill",
    "masked_scatter",
    "logical_not",
    /* places */
    "index",
    "index_put",
    "index_select",
    "gather",
    "scatter",
    "scatter_add",
    "index_copy",
    "index_add",
    "index_fill",
    "slice_scatter",
    "select_scatter",
    "diagonal_scatter",
    "copy",
    "fill",
    "zero",
    "pad",
    "constant_pad_nd",
    "tril",
    "triu",
    "diagonal",
    "unfold",
    "as_strided",
    "as_strided_scatter",
    "diag",
    "diag_embed",
    "diagflat",
    "trace",
    "rot90",
    "roll",
    "flip",
    "repeat_interleave",
    "repeat",
    "split",
    "split_with_sizes",
    "chunk",
    "unbind",
    "tensor_split",
    "meshgrid",
    "movedim",
    "cat",
    "stack",
    "hstack",
    "vstack",
    "permute",
    "transpose",
    "select",
    "slice",
    "reshape",
    "view",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "expand",
    "take",
    "take_along_dim",
    /* made of nothing, cast */
    "zeros",
    "ones",
    "full",
    "empty",
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "scalar_tensor",
    "eye",
    "to",
    "_to_copy",
    "type_as",
    "view_as_complex",
    "view_as_real",
    /* real numbers */
    "maximum",
    "minimum",
    "clamp",
    "floor",
    "ceil",
    "trunc",
    "round",
    "remainder",
    "fmod",
    "floor_divide",
    "atan2",
    "hypot",
    "copysign",
    "lt",
    "le",
    "gt",
    "ge",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "__lshift__",
    "__rshift__",
    "logical_and",
    "logical_or",
    "logical_xor",
    "amax",
    "amin",
    "max",
    "argmax",
    "argmin",
    "arange",
    "linspace",
    "softmax",
    "silu",
    "gelu",
    "logsumexp",
    "lerp",
    "sort",
    "topk",
    "erf",
    "sym_size",
};
enum { OPERATORS = sizeof operators / sizeof *operators };

static bool is_used(const char *json, const char *operator)
{
    char name[64], in_place[64];
    snprintf(name, sizeof name, "\"torch.ops.aten.%s.", operator);
    snprintf(in_place, sizeof in_place, "\"torch.ops.aten.%s_.", operator);
    return strstr(json, name) || strstr(json, in_place);
}

/* Ticks off what the program uses. */
static void read_program(const char *path, bool *used)
{
    struct archive *archive;
    cr_assert_eq(archive_open(path, &archive), PHASOR_OK, "%s", phasor_message());
    for (size_t i = 0; i < archive_count(archive); i++) {
        const char *name = archive_name(archive, i);
        uint64_t nbytes;
        if (strncmp(name, "models/", 7) != 0 || !archive_find(archive, name, &nbytes))
            continue;
        char *json = calloc(nbytes + 1, 1);
        cr_assert(json);
        cr_assert_eq(archive_read(archive, name, json, nbytes), PHASOR_OK, "%s", phasor_message());
        for (int k = 0; k < OPERATORS; k++)
            used[k] |= is_used(json, operators[k]);
        free(json);
    }
    archive_close(archive);
}

Test(mix, every_operator_is_in_a_program)
{
    struct dirent **entries;
    bool used[OPERATORS] = {false};
    const int count = scandir(PHASOR_TEST_CASES, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        for (int form = 0; form < 2 && strncmp(entries[i]->d_name, "mix_", 4) == 0; form++) {
            char path[1024];
            snprintf(path, sizeof path, "%s/%s/%s.pt2", PHASOR_TEST_CASES, entries[i]->d_name,
                     form ? "core" : "plain");
            if (access(path, R_OK) == 0)
                read_program(path, used);
        }
        free(entries[i]);
    }
    free(entries);
    for (int k = 0; k < OPERATORS; k++)
        cr_expect(used[k], "no program uses aten.%s", operators[k]);
    ASSERT_NO_LEAKS();
}
