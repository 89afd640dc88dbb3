/* miss.c - why a kernel or plan was not found in the cache, in words.
 *
 *     "not in the cache for sm_90; no kernel is there"
 *     "it is there by nvrtc 12.8.93, this is nvrtc 13.0.88"
 *     "nearest 0123abcd: COUNT 1280u, there 640u; code: 2 of 40 lines"
 *
 * Looked for only when somebody reads it: the compile callback, or a log at level info. */
#include "base/log.h"
#include "kernels/cache_key.h"
#include "call/call.h"

#include <string.h>

bool miss_is_wanted(const struct phasor_runtime *runtime)
{
    return runtime->options.compiled || log_get_level() >= LOG_INFO;
}

static bool key_is_equal(const struct cache_near *near, const void *bytes, size_t size)
{
    return near->key_size == size && memcmp(near->key_bytes, bytes, size) == 0;
}

static void near_explain(const struct phasor_runtime *runtime, const struct cache_near *near,
                         const struct recipe_kernel *wanted, struct text *out)
{
    const char *arch = near->arch ? near->arch : "?";
    const char *toolchain = near->toolchain ? near->toolchain : "?";
    const char *ours = runtime->first->toolchain;
    if (!key_is_equal(near, wanted->key_bytes, wanted->key_size)) {
        text_format(out, "nearest %.8s: ", near->key);
        if (strcmp(arch, runtime->arch) != 0)
            text_format(out, "arch %s, there %s; ", runtime->arch, arch);
        kernel_key_differ(wanted->key_bytes, wanted->key_size, near->key_bytes, near->key_size,
                          out);
    } else if (strcmp(arch, runtime->arch) != 0) {
        text_format(out, "it is there for %s, this is for %s", arch, runtime->arch);
    } else {
        text_format(out, "it is there by %s, this is %s", toolchain,
                    ours ? ours : "an unknown compiler");
    }
}

void kernel_miss_explain(struct phasor_runtime *runtime, const struct recipe_kernel *wanted,
                         struct text *out)
{
    const struct cache_key_query query = {
        wanted->key, wanted->key_bytes, wanted->key_size, runtime->arch, NULL, true};
    struct cache_near near;
    text_format(out, "not in the cache for %s", runtime->arch);
    if (cache_near_kernel(runtime->cache, &query, wanted->name, &near) == PHASOR_OK) {
        text_add(out, "; ");
        if (near.found)
            near_explain(runtime, &near, wanted, out);
        else
            text_add(out, "no kernel is there");
    }
    cache_near_free(&near);
}

/* Counted only on a miss, and once: a service that is not to compile learns why it is slow, or fails,
 * after an upgrade. Kernels whose source is the same are hits all the same. */
void other_plans_warn(struct phasor_runtime *runtime)
{
    struct text stamp = {0};
    int64_t count = 0;
    runtime = runtime->first;
    if (__atomic_exchange_n(&runtime->other_plans_told, true, __ATOMIC_RELAXED))
        return;
    if (cache_other_plans(runtime->cache, &stamp, &count) == PHASOR_OK && count > 0)
        log_line(LOG_WARNING,
                 "%lld plan%s in %s made by generator %s, this is %s, and compiling is not "
                 "possible: prewarm again with this version",
                 (long long)count, count == 1 ? " was" : "s were", cache_path(runtime->cache),
                 text_get(&stamp), phasor_generator());
    text_free(&stamp);
}

void plan_miss_log(const struct call *call, const void *key_bytes, size_t key_size)
{
    struct phasor_runtime *runtime = call->program->runtime;
    struct cache_near near;
    struct text why = {0};
    if (log_get_level() < LOG_INFO)
        return;
    if (cache_near_plan(runtime->cache, key_bytes, key_size, &near) == PHASOR_OK && near.found) {
        text_format(&why, "nearest %.8s: ", near.key);
        plan_key_differ(call, key_bytes, key_size, near.key_bytes, near.key_size, &why);
    } else {
        text_add(&why, "the cache has no plan");
    }
    log_line(LOG_INFO, "planning %s, which is not in the cache; %s",
             program_logical(call->program)->name, text_get(&why));
    cache_near_free(&near);
    text_free(&why);
}
