/* launch.c - which kernels go out together.
 *
 *     kernel 0: rotates q    kernel 1: rotates k, reads nothing of kernel 0    one launch with
 *                            blocks for each
 *
 * Neighbours that are maps join when none reads what another of them stores, and none changes what
 * the caller sees in place: blocks of one launch run in any order. */
#include "plan/fusion.h"

enum { PARTS_MAX = 8 };

/* A divisor: see device.cuh. Kernels that use one count below 2^31. */
int64_t kernel_argument_bits(const struct kernel_argument *argument, int64_t size)
{
    if (argument->kind != ARGUMENT_DIVISOR || size < 1 || size > INT32_MAX)
        return size;
    uint64_t shift = 0;
    while ((uint64_t)1 << shift < (uint64_t)size)
        shift++;
    const uint64_t multiplier =
        (((uint64_t)1 << (31 + shift)) + (uint64_t)size - 1) / (uint64_t)size;
    return (int64_t)(multiplier | shift << 32);
}

static bool stores_in_place(const struct fusion *f, const struct kernel *kernel)
{
    for (int s = 0; s < kernel->store_count; s++) {
        const enum buffer_kind kind = f->plan->buffers.at[kernel->stores[s].buffer].kind;
        if (kind == BUFFER_INPUT || kind == BUFFER_STATE)
            return true;
    }
    return false;
}

/* Whether kernel k reads what kernel `first` or a later one before it stores. */
static phasor_status needs_one_of(const struct fusion *f, int k, int first, bool *needs)
{
    const struct kernel *kernel = &f->plan->kernels.at[k];
    *needs = false;
    for (int s = 0; s < kernel->store_count; s++) {
        const struct kernel_store *store = &kernel->stores[s];
        int latest = f->kernel_of[store->node];
        if (!store->copy)
            TRY(fusion_latest_needed(f, store->node, k, &latest));
        *needs |= latest >= first;
    }
    return PHASOR_OK;
}

phasor_status launch_assign(struct fusion *f)
{
    int launch = -1, first = 0;
    for (int k = 0; k < (int)f->plan->kernels.count; k++) {
        struct kernel *kernel = &f->plan->kernels.at[k];
        const struct kernel *before = k ? &f->plan->kernels.at[k - 1] : NULL;
        bool joins = before && before->kind == KERNEL_MAP && kernel->kind == KERNEL_MAP &&
                     before->setup == kernel->setup && k - first < PARTS_MAX &&
                     !stores_in_place(f, before) && !stores_in_place(f, kernel);
        bool needs = false;
        if (joins)
            TRY(needs_one_of(f, k, first, &needs));
        if (!joins || needs) {
            launch++;
            first = k;
        }
        kernel->launch = launch;
    }
    return PHASOR_OK;
}
