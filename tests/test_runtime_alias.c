/* test_runtime_alias.c - outputs that share memory, with each other or with an input: strides, what
 * is shared, and every order of deletion, on any thread, while program and runtime are open and
 * after they are closed. */
#include "support/leak.h"
#include "support/runtime_case.h"

#include <pthread.h>

/* -- what is shared ---------------------------------------------------------------------------- */

static const DLTensor *tensor_of(const struct opened *o, int i)
{
    cr_assert_eq(o->out[i].kind, PHASOR_OWNED);
    return &o->out[i].owned->dl_tensor;
}

static void strides_expect(const struct opened *o, int i, int64_t offset, int rank,
                           const int64_t *strides)
{
    const DLTensor *t = tensor_of(o, i);
    cr_assert_eq(t->ndim, rank);
    cr_assert_eq(t->byte_offset, (uint64_t)offset, "output %d", i);
    for (int d = 0; d < rank; d++)
        cr_assert_eq(t->strides[d], strides[d], "output %d, dim %d: stride %d", i, d,
                     (int)t->strides[d]);
}

static void mix_expect(const struct opened *o)
{
    const int64_t rows[2] = {6, 1}, columns[2] = {1, 6}, flat[1] = {1};
    strides_expect(o, 0, 0, 2, rows);
    strides_expect(o, 1, 24, 2, rows);
    strides_expect(o, 2, 0, 2, columns);
    strides_expect(o, 3, 0, 2, rows);
    strides_expect(o, 4, 0, 2, rows);
    strides_expect(o, 5, 0, 1, flat);
    for (int i = 1; i < 5; i++)
        if (i != 3)
            cr_assert_eq(tensor_of(o, i)->data, tensor_of(o, 0)->data,
                         "outputs 0 and %d share memory", i);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            cr_assert_neq(o->out[i].owned, o->out[k].owned, "each slot has its own handle");
}

static void mix_run(struct opened *o, enum where where, const char *form, bool own)
{
    phasor_options options = options_for(where);
    options.own_outputs = own;
    opened_with(o, &options, "alias_mix", form);
    ASSERT_OK(opened_run(o));
    opened_expect(o);
}

Test(alias, mix)
{
    const char *const forms[] = {"plain", "core"};
    for (int k = 0; k < 4; k++) {
        struct opened o;
        mix_run(&o, k % 2 ? ON_CUDA : ON_CPU, forms[k / 2], false);
        mix_expect(&o);
        cr_assert_eq(tensor_of(&o, 3)->data, o.in[0].tensor->data, "x itself");
        cr_assert_eq(tensor_of(&o, 5)->data, o.in[0].tensor->data, "a view of x");
        cr_assert_eq((int)tensor_of(&o, 3)->device.device_type, kDLCPU);
        opened_delete(&o);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

Test(alias, mix_owned)
{
    for (int k = 0; k < 2; k++) {
        struct opened o;
        mix_run(&o, k ? ON_CUDA : ON_CPU, "plain", true);
        mix_expect(&o);
        cr_assert_neq(tensor_of(&o, 3)->data, o.in[0].tensor->data);
        cr_assert_neq(tensor_of(&o, 5)->data, o.in[0].tensor->data);
        opened_delete(&o);
        opened_close(&o);
    }
    ASSERT_NO_LEAKS();
}

/* -- every order of deletion ------------------------------------------------------------------- */

enum when { WHILE_OPEN, AFTER_CLOSE, BETWEEN }; /* BETWEEN: half before, half after */

static void *delete_on_thread(void *value)
{
    value_delete(value);
    return NULL;
}

static void delete_one(phasor_value *value, bool on_thread)
{
    pthread_t thread;
    if (!on_thread) {
        value_delete(value);
        return;
    }
    cr_assert_eq(pthread_create(&thread, NULL, delete_on_thread, value), 0);
    pthread_join(thread, NULL);
}

static void case_run(const char *name, enum where where, const int *order, enum when when,
                     bool on_thread)
{
    struct opened o;
    opened_case(&o, where, name, "plain");
    const int count = o.out_count;
    ASSERT_OK(opened_run(&o));
    opened_expect(&o);
    if (when == AFTER_CLOSE)
        opened_close(&o);
    for (int i = 0; i < count; i++) {
        if (when == BETWEEN && i == count / 2)
            opened_close(&o);
        delete_one(&o.out[order[i]], on_thread);
    }
    if (when == WHILE_OPEN)
        opened_close(&o);
}

/* The next order in lexical sequence; false after the last. */
static bool order_next(int *order, int count)
{
    int i = count - 2, k = count - 1;
    while (i >= 0 && order[i] > order[i + 1])
        i--;
    if (i < 0)
        return false;
    while (order[k] < order[i])
        k--;
    int swap = order[i];
    order[i] = order[k];
    order[k] = swap;
    for (int a = i + 1, b = count - 1; a < b; a++, b--) {
        swap = order[a];
        order[a] = order[b];
        order[b] = swap;
    }
    return true;
}

static void all_orders(const char *name, int count, enum where where)
{
    int order[6] = {0, 1, 2, 3, 4, 5};
    int turn = 0;
    do {
        if (count < 3)
            for (int k = 0; k < 6; k++)
                case_run(name, where, order, (enum when)(k % 3), k >= 3);
        else
            case_run(name, where, order, (enum when)(turn % 3), turn % 2 == 1);
        turn++;
    } while (order_next(order, count));
}

Test(alias, orders_on_the_cpu)
{
    all_orders("twice", 2, ON_CPU);
    all_orders("twice_complex", 4, ON_CPU);
    all_orders("alias_mix", 6, ON_CPU);
    ASSERT_NO_LEAKS();
}

/* One runtime's compile would be made 720 times: a cache keeps it. */
static void orders_on_cuda(const char *name, int count)
{
    char folder[] = "/tmp/phasor-alias-XXXXXX", command[64];
    cr_assert(mkdtemp(folder));
    stand_ins_use();
    setenv("PHASOR_CACHE_DIR", folder, 1);
    int order[6] = {0, 1, 2, 3, 4, 5};
    int turn = 0;
    do {
        struct opened o;
        phasor_options options = options_for(ON_CUDA);
        options.cache = NULL;
        opened_with(&o, &options, name, "plain");
        ASSERT_OK(opened_run(&o));
        if (turn % 3 == 1)
            opened_close(&o);
        for (int i = 0; i < count; i++) {
            if (turn % 3 == 2 && i == count / 2)
                opened_close(&o);
            delete_one(&o.out[order[i]], turn % 2 == 1);
        }
        opened_close(&o);
        cr_assert_eq(stand_in_get("stand_in_allocations"), 0, "%s, turn %d", name, turn);
        turn++;
    } while (order_next(order, count));
    cr_assert_eq(stand_in_get("stand_in_corruptions"), 0);
    cr_assert_eq(stand_in_get("stand_in_misuses"), 0);
    cr_assert_eq(stand_in_get("stand_in_contexts"), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

Test(alias, orders_on_cuda)
{
    orders_on_cuda("twice", 2);
    orders_on_cuda("twice_complex", 4);
    orders_on_cuda("alias_mix", 6);
    ASSERT_NO_LEAKS();
}
