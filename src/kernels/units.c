/* units.c - see units.h: gathers kernels, and compiles those that nobody has in units.
 *
 *     60 kernels  ->  3 found, 1 being made by another thread, 56 missing
 *                 ->  2 units of 28
 *
 * A unit that fails is tried again kernel by kernel, so that one bad kernel, or one that the
 * compiler dies of, is the only one that fails.
 *
 * Kernels are claimed right before they are compiled, and given up right after it, without waiting
 * for others in between: two threads that gather the same kernels cannot wait for each other.
 */
#include "kernels/units.h"

#include "base/log.h"

#include "context/runtime.h"
#include <string.h>

/* -- the list ---------------------------------------------------------------------------------- */

static struct gathered *find(const struct units *units, const struct recipe_kernel *wanted)
{
    for (size_t i = 0; i < units->list.count; i++) {
        const struct recipe_kernel *other = &units->list.at[i].wanted;
        if (hash_equal(other->key, wanted->key) && other->key_size == wanted->key_size &&
            memcmp(other->key_bytes, wanted->key_bytes, wanted->key_size) == 0)
            return &units->list.at[i];
    }
    return NULL;
}

void units_add(struct units *units, const struct recipe_kernel *wanted)
{
    struct gathered gathered = {.wanted = *wanted, .turn = TURN_NONE};
    if (find(units, wanted))
        return;
    gathered.wanted.key_bytes = arena_copy(&units->arena, wanted->key_bytes, wanted->key_size);
    if (gathered.wanted.key_bytes)
        (void)array_push(&units->list, gathered);
}

phasor_status units_status(const struct units *units, const struct recipe_kernel *wanted)
{
    const struct gathered *gathered = find(units, wanted);
    if (!gathered || gathered->status == PHASOR_OK)
        return PHASOR_OK;
    return fail(gathered->status, "%s", gathered->message ? gathered->message : "");
}

void units_clear(struct units *units)
{
    for (size_t i = 0; i < units->list.count; i++) {
        struct gathered *gathered = &units->list.at[i];
        if (gathered->kernel)
            flight_release(&units->runtime->kernels, &gathered->kernel->flight);
        memory_free(gathered->message);
    }
    array_free(&units->list);
    arena_free(&units->arena);
}

/* -- claiming ---------------------------------------------------------------------------------- */

/* The end of an owned kernel; the message of a failure is this thread's last one. */
static void settle(struct units *units, struct gathered *gathered, phasor_status status)
{
    const bool retry = status == PHASOR_ERROR_INTERRUPTED;
    if (status != PHASOR_OK) {
        const size_t length = strlen(message_get());
        gathered->message = memory_new(length + 1);
        if (gathered->message)
            memcpy(gathered->message, message_get(), length);
    }
    gathered->owned = false;
    gathered->status = status;
    turn_give(&gathered->turn);
    flight_done(&units->runtime->kernels, &gathered->kernel->flight, status, retry);
    if (status != PHASOR_OK)
        gathered->kernel = NULL;
}

/* Owned afterwards: the kernel must be compiled. */
static phasor_status claim(struct units *units, struct gathered *gathered)
{
    const struct recipe_kernel *wanted = &gathered->wanted;
    struct flight *entry;
    bool found;
    TRY(flight_claim(&units->runtime->kernels, wanted->key, wanted->key_bytes, wanted->key_size,
                     &entry, &gathered->owned));
    gathered->kernel = (struct loaded_kernel *)(void *)entry;
    if (!gathered->owned)
        return PHASOR_OK;
    const phasor_status status = kernel_lookup(units->runtime, wanted, gathered->kernel, &found);
    if (status != PHASOR_OK || found)
        settle(units, gathered, status);
    return status;
}

/* Left to whoever wants it next: kernel_get, of this call or another. */
static void leave(struct units *units, struct gathered *gathered)
{
    turn_give(&gathered->turn);
    gathered->owned = false;
    flight_done(&units->runtime->kernels, &gathered->kernel->flight, PHASOR_NOT_READY, true);
    gathered->kernel = NULL;
}

/* What another device's thread or another process is compiling is left to kernel_get, which waits
 * for it. */
static void claim_among_others(struct units *units, struct gathered *gathered)
{
    bool again, found;
    if (!turn_try(units->runtime, &gathered->wanted, &gathered->turn, &again)) {
        leave(units, gathered);
        return;
    }
    if (!again)
        return;
    const phasor_status status =
        kernel_lookup(units->runtime, &gathered->wanted, gathered->kernel, &found);
    if (status != PHASOR_OK || found)
        settle(units, gathered, status);
}

/* -- compiling --------------------------------------------------------------------------------- */

static phasor_status compile_together(struct units *units, struct compiler *compiler,
                                      struct gathered *const *some, int count)
{
    struct unit_part *parts = memory_new((size_t)count * sizeof *parts);
    if (!parts)
        return fail_memory();
    for (int i = 0; i < count; i++)
        parts[i] = (struct unit_part){&some[i]->wanted, some[i]->kernel};
    const phasor_status status = unit_compile(units->runtime, compiler, parts, count);
    memory_free(parts);
    return status;
}

static void compile_some(struct units *units, struct compiler *compiler,
                         struct gathered *const *some, int count)
{
    phasor_status status = compile_together(units, compiler, some, count);
    const bool apart = count > 1 && status != PHASOR_OK && status != PHASOR_ERROR_INTERRUPTED;
    for (int i = 0; i < count; i++) {
        if (apart)
            status = compile_together(units, compiler, &some[i], 1);
        settle(units, some[i], status);
    }
}

/* Units of one size: 50 kernels are 25 and 25, not 32 and 18. */
static void compile_all(struct units *units, struct compiler *compiler,
                        struct gathered *const *missing, int count)
{
    const int most = units->runtime->options.unit_kernels,
              parts = count < most ? 1 : (count + most / 2) / most;
    for (int part = 0, done = 0; part < parts; part++) {
        const int end = (int)((int64_t)count * (part + 1) / parts);
        compile_some(units, compiler, missing + done, end - done);
        done = end;
        log_deliver(); /* it takes long, and whoever counts may want to stop it */
    }
}

static phasor_status missing_compile(struct units *units, struct compiler *compiler)
{
    struct gathered **missing = memory_new(units->list.count * sizeof *missing);
    int count = 0;
    if (!missing)
        return fail_memory();
    for (size_t i = 0; i < units->list.count; i++) {
        struct gathered *gathered = &units->list.at[i];
        if (gathered->owned)
            claim_among_others(units, gathered);
        if (gathered->owned && gathered->wanted.source)
            missing[count++] = gathered;
    }
    if (count > 0)
        compile_all(units, compiler, missing, count);
    memory_free(missing);
    return PHASOR_OK;
}

/* Where nothing can be compiled, kernel_get finds what may serve instead, or says why not. */
phasor_status units_flush(struct units *units)
{
    const struct phasor_runtime *runtime = units->runtime;
    struct compiler *compiler;
    phasor_status status = PHASOR_OK;
    size_t owned = 0;
    for (size_t i = 0; i < units->list.count && status != PHASOR_ERROR_MEMORY; i++) {
        status = claim(units, &units->list.at[i]);
        owned += units->list.at[i].owned;
    }
    if (status != PHASOR_ERROR_MEMORY)
        status = PHASOR_OK;
    if (status == PHASOR_OK && owned && !runtime->options.no_compile &&
        runtime_compiler(units->runtime, &compiler) == PHASOR_OK)
        status = missing_compile(units, compiler);
    for (size_t i = 0; i < units->list.count; i++)
        if (units->list.at[i].owned)
            leave(units, &units->list.at[i]);
    return status;
}
