/* test_sizes.c - sizes 0, 1, 2, 3, 7, 21, 36 and 65536 in every place of the shapes: the generated
 * code, compiled as C++, gives what the evaluator gives on the rewritten and on the loaded graph. 2
 * is the size of the pair; 21 and 7 fill no vector.
 *
 *     input z: c64[a, b]      a of all sizes with b = 3, b of all sizes with a = 3
 */
#include "leak.h"
#include "program_run.h"

#include <stdio.h>

static const long sizes[] = {0, 1, 2, 3, 7, 21, 36, 65536};
enum { SIZES = sizeof sizes / sizeof *sizes, PROGRAMS_MAX = 256, TEXT_SIZE = 2048 };

/* A and B stand for sizes, T for their product, D for twice B, P for A + B. */
static const char *const texts[] = {
    "input z: c64[A, B]\ninput w: c64[B]\nm = mul(z, w)\nr = view_as_real(m)\nf = reshape(r) "
    "sizes=[A, D]\noutput f\n",
    "input q: bf16[A, B, 2]\ninput f: c64[A, 1]\nc = cast(q) : f32[A, B, 2]\nz = "
    "view_as_complex(c)\nm = mul(z, f)\n"
    "r = view_as_real(m)\no = cast(r) : bf16[A, B, 2]\nt = permute(r) axes=[1, 0, 2]\noutput "
    "o\noutput t\n",
    "input z: c64[A, B]\nt = permute(z) axes=[1, 0]\nc = conj(t)\nf = flip(c) axes=[0]\nj = "
    "concat(t, f) axis=1\noutput j\n",
    "input z: c64[A, B]\nx = real(z)\ny = imag(z)\ns = sum(x) axes=[1]\nm = amax(y) axes=[]\na = "
    "add(x, y)\noutput s\noutput a\noutput m\n",
    "input x: f32[A, B]\nc = cumsum(x) axis=0\np = pad(x) sizes=[0, 1, 2, 0] value=1\noutput "
    "c\noutput p\n",
    "input z: c64[A, B]\nr = reshape(z) sizes=[T]\nk = clone(r) flag=1\nn = neg(k)\nv = "
    "view_as_real(n)\noutput v\n",
    "i = iota sizes=[A]\nc = cast(i) : f32[A]\ns = sin(c)\nu = reshape(s) sizes=[A, 1]\ne = "
    "expand(u) sizes=[A, B]\noutput e\n",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static void text_fill(const char *text, long a, long b, char out[TEXT_SIZE])
{
    int length = snprintf(out, TEXT_SIZE, "phasor 1 \"sizes %ld %ld\"\n", a, b);
    for (const char *s = text; *s && length < TEXT_SIZE - 32; s++) {
        const bool name =
            (s[-(s > text)] == '[' || s[-(s > text)] == ' ') && (s[1] == ']' || s[1] == ',');
        const long size = *s == 'A'   ? a
                          : *s == 'B' ? b
                          : *s == 'D' ? 2 * b
                          : *s == 'T' ? a * b
                                      : -1;
        length += name && size >= 0 ? snprintf(out + length, 32, "%ld", size)
                                    : snprintf(out + length, 2, "%c", *s);
    }
}

/* The sums of a long axis differ by their order. */
static void check_numbers(const struct program_run *p, int slot)
{
    for (int64_t i = 0; i < program_count(p, slot); i++) {
        const double x = program_number(p, LINK_KERNELS, slot, i);
        for (int link = LINK_LOADED; link < LINK_KERNELS; link++) {
            const double y = program_number(p, (enum program_link)link, slot, i);
            cr_assert((isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 1e-4 * fabs(y) + 1e-2,
                      "output %d, number %ld: %.9g; %.9g by the %s\n%s", slot, (long)i, x, y,
                      program_links[link], p->text);
        }
    }
}

static void fill_inputs(struct program_run *p)
{
    for (int slot = 0; slot < p->run.call.input_count; slot++) {
        const struct run_tensor *t = &p->run.inputs[slot];
        int64_t count = 1;
        for (int d = 0; d < t->shape.rank; d++)
            count *= t->shape.sizes[d];
        double *numbers = calloc((size_t)count + 1, sizeof *numbers);
        cr_assert(numbers);
        for (int64_t i = 0; i < count; i++)
            numbers[i] = (double)((i * 37 + slot * 11) % 64 - 31) / 16;
        program_numbers(p, slot, numbers, count);
        free(numbers);
    }
}

static void check_text(const char *text)
{
    struct program_run *programs[2 * SIZES];
    char filled[2 * SIZES][TEXT_SIZE];
    struct host_module *module;
    for (int i = 0; i < 2 * SIZES; i++) {
        programs[i] = calloc(1, sizeof *programs[i]);
        cr_assert(programs[i]);
        text_fill(text, i < SIZES ? sizes[i] : 3, i < SIZES ? 3 : sizes[i - SIZES], filled[i]);
        program_open(programs[i], filled[i]);
        fill_inputs(programs[i]);
    }
    program_build(programs, 2 * SIZES, &module);
    for (int i = 0; i < 2 * SIZES; i++) {
        program_results(programs[i], module);
        for (int slot = 0; slot < programs[i]->run.plan.output_count; slot++)
            check_numbers(programs[i], slot);
        program_close(programs[i]);
        free(programs[i]);
    }
    host_close(module);
}

Test(sizes, every_size_in_every_place, .timeout = 600)
{
    for (int i = 0; i < TEXTS; i++)
        check_text(texts[i]);
    ASSERT_NO_LEAKS();
}
