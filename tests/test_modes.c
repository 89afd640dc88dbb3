/* test_modes.c - one program called with many lengths, in every mode, on the stand-in driver.
 *
 *     generic   1, 2, 77, 4096 ...   compiled by the first call only; the bits of mode exact
 *     auto      a length again       literal kernels are swapped in where they pay; the same bits
 */
#include "support/capture.h"
#include "support/leak.h"
#include "support/runtime_case.h"

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

enum { LONGEST = 300 };

/* exp(x) + arange: an innermost dim that is dynamic, and a table that grows with it. */
static const char *const program_text = "phasor 1 \"lengths\"\n"
                                        "symbol n in 1..100000 = 8\n"
                                        "input x: f32[n]\n"
                                        "output y: f32[n]\n"
                                        "output total: f32[1]\n"
                                        "\n"
                                        "i = iota sizes=[n] : i64[n]\n"
                                        "f = cast(i) : f32[n]\n"
                                        "table = cos(f) : f32[n]\n"
                                        "e = exp(x) : f32[n]\n"
                                        "y = mul(e, table) : f32[n]\n"
                                        "s = sum(e) axes=[0] : f32[]\n"
                                        "total = reshape(s) sizes=[1] : f32[1]\n";

struct lengths {
    char folder[64], path[128];
    phasor_runtime *runtime;
    phasor_program *program;
};

static void lengths_open_with(struct lengths *l, const phasor_options *options)
{
    folder_make(l->folder);
    snprintf(l->path, sizeof l->path, "%s/lengths.phasor", l->folder);
    FILE *file = fopen(l->path, "w");
    cr_assert(file && fputs(program_text, file) >= 0 && fclose(file) == 0);
    ASSERT_OK(phasor_open(&l->runtime, options));
    ASSERT_OK(phasor_program_load(l->runtime, l->path, NULL, &l->program));
}

static void lengths_open(struct lengths *l, phasor_mode mode)
{
    phasor_options options = options_for(ON_CUDA);
    options.mode = mode;
    lengths_open_with(l, &options);
}

static void lengths_close(struct lengths *l)
{
    phasor_program_close(l->program);
    phasor_close(l->runtime);
    folder_remove(l->folder);
}

/* y and total, one after the other. */
static void lengths_run(const struct lengths *l, int64_t length, float *out)
{
    static float x[LONGEST];
    DLTensor t = {
        .data = x, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &length};
    const phasor_value in = {.kind = PHASOR_TENSOR, .tensor = &t};
    phasor_value got[2];
    for (int i = 0; i < LONGEST; i++)
        x[i] = 0.01f * (float)i - 1.0f;
    ASSERT_OK(phasor_run(l->program, NULL, &in, 1, got, 2, NULL));
    ASSERT_OK(phasor_copy_to_host(l->runtime, &got[0].owned->dl_tensor, out,
                                  (size_t)length * sizeof *out));
    ASSERT_OK(phasor_copy_to_host(l->runtime, &got[1].owned->dl_tensor, out + length, sizeof *out));
    value_delete(&got[0]);
    value_delete(&got[1]);
}

static phasor_counters counters_of(const struct lengths *l)
{
    phasor_counters counters = {.size = sizeof counters};
    ASSERT_OK(phasor_stats(l->runtime, &counters));
    return counters;
}

static const char *mode_of(const struct lengths *l)
{
    phasor_run_info info = {.size = sizeof info};
    ASSERT_OK(phasor_program_info(l->program, &info));
    return info.mode;
}

static void same_bits(const struct lengths *a, const struct lengths *b, int64_t length)
{
    float x[LONGEST + 1], y[LONGEST + 1];
    lengths_run(a, length, x);
    lengths_run(b, length, y);
    cr_assert_eq(memcmp(x, y, (size_t)(length + 1) * sizeof *x), 0, "length %d", (int)length);
}

Test(modes, generic_serves_all_lengths)
{
    static const int64_t first[] = {8, 12, 10, 7}; /* multiples of 4, of 2, of 1 */
    struct lengths exact, generic;
    lengths_open(&exact, PHASOR_MODE_EXACT);
    lengths_open(&generic, PHASOR_MODE_GENERIC);
    for (int i = 0; i < 4; i++)
        same_bits(&exact, &generic, first[i]);
    cr_assert_str_eq(mode_of(&exact), "exact");
    cr_assert_str_eq(mode_of(&generic), "generic");
    const uint64_t compiled = counters_of(&generic).compiled;
    for (int64_t length = 1; length < LONGEST; length += length < 20 ? 1 : 37)
        same_bits(&exact, &generic, length);
    cr_assert_eq(counters_of(&generic).compiled, compiled);
    lengths_close(&exact);
    lengths_close(&generic);
    ASSERT_NO_LEAKS();
}

/* A table is filled for the first length, and not again for one that it has. */
Test(modes, shorter_tables_are_the_beginning_of_longer_ones)
{
    struct lengths l;
    float out[LONGEST + 1];
    lengths_open(&l, PHASOR_MODE_GENERIC);
    lengths_run(&l, 100, out);
    const uint64_t first = counters_of(&l).launches;
    lengths_run(&l, 100, out);
    const uint64_t warm = counters_of(&l).launches - first;
    cr_assert(warm < first);
    lengths_run(&l, 52, out);
    lengths_run(&l, 204, out); /* no multiple of 8 either: the same class */
    cr_assert_eq(counters_of(&l).launches, first + 3 * warm);
    lengths_close(&l);
    ASSERT_NO_LEAKS();
}

Test(modes, auto_swaps_exact_kernels_in)
{
    struct lengths exact, l;
    lengths_open(&exact, PHASOR_MODE_EXACT);
    lengths_open(&l, PHASOR_MODE_DEFAULT);
    same_bits(&exact, &l, 33);
    cr_assert_str_eq(mode_of(&l), "generic");
    for (int tries = 0; strcmp(mode_of(&l), "exact") != 0; tries++) {
        cr_assert(tries < 600, "no exact kernels after a minute");
        same_bits(&exact, &l, 33);
        usleep(100000);
    }
    same_bits(&exact, &l, 33);
    same_bits(&exact, &l, 34); /* a length that was not called twice */
    cr_assert_str_eq(mode_of(&l), "generic");
    lengths_close(&exact);
    lengths_close(&l);
    ASSERT_NO_LEAKS();
}

/* Work that is queued or under way when the program is closed. */
Test(modes, auto_is_closed_at_any_time)
{
    for (int pause = 0; pause < 6; pause++) {
        struct lengths l;
        float out[LONGEST + 1];
        lengths_open(&l, PHASOR_MODE_AUTO);
        for (int64_t length = 30; length < 34; length++)
            for (int again = 0; again < 2; again++)
                lengths_run(&l, length, out);
        usleep((useconds_t)(pause * 40000));
        lengths_close(&l);
    }
    ASSERT_NO_LEAKS();
}

/* The launches that a bench repeats by itself are those whose arguments it made, whatever is swapped
 * in meanwhile: with the cache filled, exact kernels come while it runs. */
Test(modes, a_bench_meets_exact_kernels, .timeout = 3600)
{
    static const char text[] = "phasor 1 \"two\"\nsymbol n in 1..64 = 5    # q.0\n"
                               "symbol m in 1..64 = 11    # k.1\ninput q: f32[n, 7]\n"
                               "input k: f32[3, m]\noutput a = a\noutput b = b\n"
                               "one = scalar value=1 : f32[]\na = add(q, one)\nb = add(k, one)\n";
    static float data[64];
    int64_t q_sizes[] = {5, 7}, k_sizes[] = {3, 11};
    DLTensor q = {.data = data,
                  .device = {kDLCPU, 0},
                  .ndim = 2,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = q_sizes},
             k = q;
    k.shape = k_sizes;
    const phasor_value in[2] = {{.kind = PHASOR_TENSOR, .tensor = &q},
                                {.kind = PHASOR_TENSOR, .tensor = &k}};
    phasor_options options = options_for(ON_CUDA);
    char folder[64];
    options.mode = PHASOR_MODE_AUTO;
    folder_make(folder);
    options.cache = folder;
    for (int run = 0; run < 4; run++) {
        struct opened o;
        phasor_bench_result result = {.size = sizeof result};
        const phasor_bench_options bench = {.size = sizeof bench, .seconds = run ? 0.1 : 0.5};
        opened_with(&o, &options, "bench_rope_f32", "plain");
        phasor_program *program = program_of(&o, text);
        ASSERT_OK(phasor_program_bench(program, in, 2, &bench, &result));
        cr_assert_gt(result.launch.count, 0);
        phasor_program_close(program);
        opened_close(&o);
    }
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

/* -- capture ----------------------------------------------------------------------------------- */

struct captured {
    phasor_value x, y, total; /* of the device */
    int64_t length;
};

/* The stand-in's device memory is the host's. */
static void captured_open(struct captured *c, const struct lengths *l, int64_t length)
{
    static float zeros[LONGEST];
    phasor_value got[2];
    DLTensor t = {.data = zeros,
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = &length};
    const phasor_value in = {.kind = PHASOR_TENSOR, .tensor = &t};
    phasor_program *other;
    ASSERT_OK(phasor_program_load(l->runtime, l->path, NULL, &other));
    ASSERT_OK(phasor_run(other, NULL, &in, 1, got, 2, NULL));
    c->x = got[0];
    value_delete(&got[1]);
    ASSERT_OK(phasor_run(other, NULL, &in, 1, got, 2, NULL));
    c->y = got[0];
    c->total = got[1];
    c->length = length;
    phasor_program_close(other);
}

static void captured_close(struct captured *c)
{
    value_delete(&c->x);
    value_delete(&c->y);
    value_delete(&c->total);
}

static phasor_status captured_run(const struct captured *c, const struct lengths *l, void *stream)
{
    const phasor_value in = {.kind = PHASOR_TENSOR, .tensor = &c->x.owned->dl_tensor};
    phasor_value out[2] = {{.kind = PHASOR_TENSOR, .tensor = &c->y.owned->dl_tensor},
                           {.kind = PHASOR_TENSOR, .tensor = &c->total.owned->dl_tensor}};
    return phasor_run_into(l->program, NULL, &in, 1, out, 2, stream);
}

/* A length that no call had: captured with the kernels of its class, once those are there. */
Test(modes, a_new_length_is_captured_with_generic_kernels)
{
    struct lengths l;
    struct captured first, other;
    struct driver driver;
    void *graph, *executable;
    float want[LONGEST];
    lengths_open(&l, PHASOR_MODE_GENERIC);
    driver_open(&driver);
    captured_open(&first, &l, 100);
    captured_open(&other, &l, 60);

    cr_assert_eq(driver.begin(driver.stream, 2), 0);
    ASSERT_FAILS(captured_run(&other, &l, driver.stream), PHASOR_NOT_READY, "capturing");
    cr_assert_eq(driver.end(driver.stream, &graph), 0);
    cr_assert_eq(driver.graph_free(graph), 0);

    ASSERT_OK(captured_run(&first, &l, driver.stream));
    const uint64_t compiled = counters_of(&l).compiled;
    cr_assert_eq(driver.begin(driver.stream, 2), 0);
    ASSERT_OK(captured_run(&other, &l, driver.stream));
    cr_assert_eq(driver.end(driver.stream, &graph), 0);
    cr_assert_eq(counters_of(&l).compiled, compiled);
    float *y = other.y.owned->dl_tensor.data;
    ASSERT_OK(captured_run(&other, &l, driver.stream));
    memcpy(want, y, 60 * sizeof *want);
    memset(y, 0x55, 60 * sizeof *y);
    cr_assert_eq(driver.instantiate(&executable, graph, 0), 0);
    cr_assert_eq(driver.launch(executable, driver.stream), 0);
    cr_assert_eq(memcmp(y, want, 60 * sizeof *y), 0);
    cr_assert_eq(driver.graph_free(graph), 0);

    captured_close(&first);
    captured_close(&other);
    lengths_close(&l);
    driver_close(&driver);
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
    ASSERT_NO_LEAKS();
}

/* -- programs of a few lines ------------------------------------------------------------------- */

/* What a program with one symbol n, input x and output y gives for n = 5, x all ones. */
static void texts_run(enum where where, phasor_mode mode, const char *text, float out[32])
{
    static float ones[625];
    struct opened o = {0};
    phasor_options options = options_for(where);
    options.mode = mode;
    ASSERT_OK(phasor_open(&o.runtime, &options));
    phasor_program *program = program_of(&o, text);
    phasor_spec spec = {.size = sizeof spec};
    ASSERT_OK(phasor_program_input(program, 0, &spec));
    int64_t shape[4] = {5, 5, 5, 5};
    DLTensor x = {.data = ones,
                  .device = {kDLCPU, 0},
                  .ndim = spec.rank,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape};
    const phasor_value in = {.kind = PHASOR_TENSOR, .tensor = &x};
    phasor_value y;
    for (int i = 0; i < 625; i++)
        ones[i] = 1.0f;
    ASSERT_OK(phasor_run(program, NULL, &in, 1, &y, 1, NULL));
    const int64_t count = tensor_count(&y.owned->dl_tensor);
    cr_assert_leq(count, 32);
    ASSERT_OK(
        phasor_copy_to_host(o.runtime, &y.owned->dl_tensor, out, (size_t)count * sizeof *out));
    ASSERT_OK(phasor_state_check(program, NULL)); /* no index was out of range */
    value_delete(&y);
    phasor_program_close(program);
    phasor_close(o.runtime);
}

#define TABLE "i = iota sizes=[n] : i64[n]\nf = cast(i) : f32[n]\ntable = cos(f) : f32[n]\n"

/* Tables that cannot be made for more rows than are needed, and indices that only some elements
 * have. */
static const char *const texts[] = {
    "phasor 1 \"many blocks\"\nsymbol n in 1..100000000 = 8\ninput x: f32[n, n, n]\noutput "
    "s\n" TABLE "y = mul(x, table)\ns = sum(y) axes=[0, 1]\n",
    "phasor 1 \"no such size\"\nsymbol n in 1..1000000 = 8\ninput x: f32[n, n, n, n]\noutput "
    "s\n" TABLE "y = mul(x, table)\ns = sum(y) axes=[0, 1, 2]\n",
    "phasor 1 \"index in a join\"\nsymbol n in 1..70 = 3\ninput x: f32[n]\noutput y\n"
    "i = iota sizes=[n]\nf = flip(i) axes=[0]\nv = index(x, f) axis=0\n"
    "y = concat(x, v) axis=0\n",
    "phasor 1 \"index in a pad\"\nsymbol n in 1..70 = 3\ninput x: f32[n]\noutput y\n"
    "i = iota sizes=[n]\nf = flip(i) axes=[0]\nv = index(x, f) axis=0\n"
    "y = pad(v) sizes=[2, 2] value=0\n",
};

Test(modes, what_only_larger_sizes_or_other_elements_have)
{
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        float want[32] = {0}, exact[32] = {0}, generic[32] = {0};
        texts_run(ON_CPU, PHASOR_MODE_DEFAULT, texts[k], want);
        texts_run(ON_CUDA, PHASOR_MODE_EXACT, texts[k], exact);
        texts_run(ON_CUDA, PHASOR_MODE_GENERIC, texts[k], generic);
        cr_assert_eq(memcmp(exact, generic, sizeof exact), 0, "%s", texts[k]);
        for (int i = 0; i < 32; i++)
            cr_assert_float_eq(generic[i], want[i], 1e-4f, "%s: element %d", texts[k], i);
    }
    ASSERT_NO_LEAKS();
}

/* -- another class ----------------------------------------------------------------------------- */

/* Of a buffer on the device, from element `first` on: aligned to 16 bytes or not. */
static phasor_status run_from(const struct captured *c, const struct lengths *l, int64_t length,
                              int first)
{
    DLTensor x = c->x.owned->dl_tensor, y = c->y.owned->dl_tensor;
    x.shape = y.shape = &length;
    x.byte_offset += (uint64_t)first * sizeof(float);
    y.byte_offset += (uint64_t)first * sizeof(float);
    const phasor_value in = {.kind = PHASOR_TENSOR, .tensor = &x};
    phasor_value out[2] = {{.kind = PHASOR_TENSOR, .tensor = &y},
                           {.kind = PHASOR_TENSOR, .tensor = &c->total.owned->dl_tensor}};
    return phasor_run_into(l->program, NULL, &in, 1, out, 2, NULL);
}

static void same_from(const struct lengths *exact, const struct captured *a,
                      const struct lengths *l, const struct captured *b, int64_t length, int first)
{
    const float *x = a->y.owned->dl_tensor.data, *y = b->y.owned->dl_tensor.data;
    ASSERT_OK(run_from(a, exact, length, first));
    ASSERT_OK(run_from(b, l, length, first));
    cr_assert_eq(memcmp(x + first, y + first, (size_t)length * sizeof *x), 0, "%d from %d",
                 (int)length, first);
}

/* Compiles of the thread that calls. */
static pthread_t caller;
static int waited;

static void compile_seen(void *context, const char *kernels, const char *reason,
                         double milliseconds)
{
    (void)context, (void)kernels, (void)reason, (void)milliseconds;
    waited += pthread_equal(pthread_self(), caller) != 0;
}

/* Tensors that are not aligned come when kernels for any tensors are ready: nobody waits, and after
 * a while they have kernels of their own. */
Test(modes, auto_does_not_wait_for_another_class)
{
    struct lengths exact, l;
    struct captured a, b;
    phasor_options options = options_for(ON_CUDA);
    options.mode = PHASOR_MODE_AUTO;
    options.compiled = compile_seen;
    caller = pthread_self();
    lengths_open(&exact, PHASOR_MODE_EXACT);
    lengths_open_with(&l, &options);
    captured_open(&a, &exact, 200);
    captured_open(&b, &l, 200);
    same_from(&exact, &a, &l, &b, 100, 0);
    const uint64_t first = counters_of(&l).compiled;
    same_from(&exact, &a, &l, &b, 60, 0);
    for (int tries = 0; counters_of(&l).compiled == first; tries++) {
        cr_assert(tries < 600, "no kernels for any tensors after a minute");
        usleep(100000);
    }
    usleep(300000); /* until they are loaded as well */
    const int waited_before = waited;
    for (int again = 0; again < 30; again++) {
        same_from(&exact, &a, &l, &b, 61, 1);
        same_from(&exact, &a, &l, &b, 90, 3);
        same_from(&exact, &a, &l, &b, 64, 0);
        usleep(30000);
    }
    cr_assert(waited_before > 0);
    cr_assert_eq(waited, waited_before);
    captured_close(&a);
    captured_close(&b);
    lengths_close(&exact);
    lengths_close(&l);
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
    ASSERT_NO_LEAKS();
}

/* -- memory ------------------------------------------------------------------------------------ */

static int64_t live_bytes;

static void *counted_resize(void *context, void *block, size_t nbytes)
{
    (void)context;
    live_bytes -= block ? (int64_t)malloc_usable_size(block) : 0;
    void *resized = realloc(block, nbytes);
    live_bytes += resized ? (int64_t)malloc_usable_size(resized) : 0;
    return resized;
}

static void counted_free(void *context, void *block)
{
    (void)context;
    live_bytes -= block ? (int64_t)malloc_usable_size(block) : 0;
    free(block);
}

static void prepare_random(const struct lengths *l, int count)
{
    for (int i = 0; i < count; i++) {
        int64_t length = 1 + rand() % 100000;
        DLTensor t = {.ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &length};
        const phasor_value in = {.kind = PHASOR_TENSOR, .tensor = &t};
        ASSERT_OK(phasor_program_prepare(l->program, &in, 1));
    }
}

/* What is kept of lengths is bounded: 20000 of them take what 1000 took. */
Test(modes, memory_stays_flat)
{
    struct lengths l;
    phasor_options options = options_for(ON_CUDA);
    options.device = PHASOR_DEVICE_NONE;
    options.mode = PHASOR_MODE_GENERIC;
    options.specialisations = 300;
    options.resize = counted_resize;
    options.free = counted_free;
    lengths_open_with(&l, &options);
    srand(3);
    prepare_random(&l, 1000);
    const int64_t after_some = live_bytes;
    const uint64_t compiled = counters_of(&l).compiled;
    prepare_random(&l, 20000);
    cr_assert_leq(live_bytes, after_some + after_some / 100);
    cr_assert_eq(counters_of(&l).compiled, compiled);
    lengths_close(&l);
    cr_assert_eq(live_bytes, 0);
    ASSERT_NO_LEAKS();
}
