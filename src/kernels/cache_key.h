/* cache_key.h - keys of the cache in words, and what differs between two of them.
 *
 *     a kernel's key   ->  device.cuh 3f0c..., KERNEL map_mul, BLOCK 128, index_t u32, 40 lines
 *     two of them      ->  "COUNT 640u, was 1280u; code: 3 of 40 lines"
 */
#pragma once
#include "base/text.h"
#include "cache/cache.h"

#include <stdbool.h>

struct call;
struct phasor_runtime;
struct recipe_kernel;

/* One a line, "name value", or as members of a JSON object. */
void cache_key_print(const struct cache_row *row, bool json, struct text *out);
/* Appends what a kernel's key has that the stored one has not. */
void kernel_key_differ(const void *wanted, size_t wanted_size, const void *stored,
                       size_t stored_size, struct text *out);
/* The same of a plan's key; the call says what its sizes are called. */
void plan_key_differ(const struct call *call, const void *wanted, size_t wanted_size,
                     const void *stored, size_t stored_size, struct text *out);

/* What a kernel's key begins with: a hash of what changes its code and stands not in its text. */
struct hash kernel_key_head(const struct phasor_runtime *runtime);
/* The line that a plan's or class's key begins with, without its end: all that it depends on
 * besides graph and call. kind: "plan 1"; mode: "exact ", or "" where the kind says it. */
void plan_key_begin(const struct phasor_runtime *runtime, const char *kind, const char *mode,
                    struct text *out);

/* What phasor_cache_show gives for a key. */
phasor_status cache_row_show(struct phasor_runtime *runtime, const char *key, bool json,
                             struct text *out);

/* miss.c: plans of other generators are in the cache, and nothing may be compiled: said once. */
void other_plans_warn(struct phasor_runtime *runtime);
/* miss.c: why a kernel was not found, for the compile callback and the log: the stored key that is
 * most like its own, and what differs. */
void kernel_miss_explain(struct phasor_runtime *runtime, const struct recipe_kernel *wanted,
                         struct text *out);
/* Whether anybody would read that. */
bool miss_is_wanted(const struct phasor_runtime *runtime);
/* Logs at level info why a plan was not found. */
void plan_miss_log(const struct call *call, const void *key_bytes, size_t key_size);
