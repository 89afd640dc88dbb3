/* cache_row.c - one row of the cache by its key: what phasor cache show KEY prints and extracts.
 *
 *     key           0123abcd...
 *     kind          kernel map_mul
 *     arch          sm_90
 *     COUNT         640u          fields of the key, see cache_key.c
 *     registers     24
 *     source        ...
 */
#include "base/file.h"
#include "base/number.h"
#include "context/runtime.h"
#include "kernels/cache_key.h"

#include "compile/cubin.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* -- which rows -------------------------------------------------------------------------------- */

static void rows_name(const struct cache_rows *rows, struct text *out)
{
    for (int i = 0; i < rows->count; i++)
        if (i == 0 || strcmp(rows->at[i].key, rows->at[i - 1].key) != 0)
            text_format(out, "%s%s", i ? ", " : "", rows->at[i].key);
}

static phasor_status rows_fail(const struct cache_rows *rows, const char *key)
{
    struct text keys = {0};
    rows_name(rows, &keys);
    fail(PHASOR_ERROR_USAGE, "several keys begin with %s: %s", key, text_get(&keys));
    text_free(&keys);
    return PHASOR_ERROR_USAGE;
}

/* All rows of the one key that begins so; of one arch where that was asked for. */
static phasor_status rows_get(struct phasor_runtime *runtime, const char *key,
                              struct cache_rows *rows)
{
    const char *arch = runtime->options.arch;
    TRY(cache_find_rows(runtime->cache, key, rows));
    for (int i = 1; i < rows->count; i++)
        if (strcmp(rows->at[i].key, rows->at[0].key) != 0)
            return rows_fail(rows, key);
    int kept = 0;
    for (int i = 0; i < rows->count; i++)
        if (!arch || rows->at[i].is_plan ||
            (rows->at[i].arch && strcmp(rows->at[i].arch, arch) == 0))
            rows->at[kept++] = rows->at[i];
    rows->count = kept;
    if (kept > 0)
        return PHASOR_OK;
    return fail(PHASOR_ERROR_USAGE, "no key in %s begins with %s%s%s", cache_path(runtime->cache),
                key, arch ? ", for " : "", arch ? arch : "");
}

/* -- printing ---------------------------------------------------------------------------------- */

static void text_print(const char *name, const char *shown, bool json, struct text *out)
{
    if (!json) {
        text_format(out, "%-14s%s\n", name, shown ? shown : "unknown");
        return;
    }
    text_format(out, ", \"%s\": ", name);
    if (shown)
        text_add_json_string(out, shown);
    else
        text_add(out, "null");
}

static void number_print(const char *name, int64_t shown, bool json, struct text *out)
{
    char digits[32];
    if (json && shown >= 0) {
        text_format(out, ", \"%s\": %" PRId64, name, shown);
        return;
    }
    snprintf(digits, sizeof digits, "%" PRId64, shown);
    text_print(name, shown < 0 ? NULL : digits, json, out);
}

static void time_print(const char *name, int64_t milliseconds, bool json, struct text *out)
{
    char text[32] = "";
    const time_t seconds = (time_t)(milliseconds / 1000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    text_print(name, milliseconds > 0 ? text : NULL, json, out);
}

/* What the row does not know, the cubin may say. */
static void resources_print(const struct cache_row *row, bool json, struct text *out)
{
    struct cubin_resources found = {row->registers, row->spill_bytes, row->shared_bytes};
    if (row->registers < 0 && row->name && row->bytes &&
        !cubin_resources(row->bytes, row->nbytes, row->name, &found))
        found = (struct cubin_resources){-1, -1, -1};
    number_print("registers", found.registers, json, out);
    number_print("spill_bytes", found.local_bytes, json, out);
    number_print("shared_bytes", found.shared_bytes, json, out);
}

static void kernel_print(const struct cache_row *row, bool json, struct text *out)
{
    char milliseconds[32];
    text_print("toolchain", row->toolchain, json, out);
    text_print("options", row->options, json, out);
    resources_print(row, json, out);
    number_print("unit_kernels", row->kernels, json, out);
    number_format(milliseconds, sizeof milliseconds, "%.3f", row->compile_ms);
    if (json)
        text_format(out, ", \"compile_ms\": %s", milliseconds);
    else
        text_print("compile_ms", milliseconds, json, out);
}

static void source_print(const struct cache_row *row, bool json, struct text *out)
{
    if (json)
        text_print("source", row->source, json, out);
    else if (row->source)
        text_format(out, "source\n%s\n", row->source);
}

static void row_print(const struct cache_row *row, bool json, struct text *out)
{
    if (json)
        text_format(out, "{\"key\": \"%s\"", row->key);
    else
        text_print("key", row->key, json, out);
    text_print("kind", row->is_plan ? "plan" : "kernel", json, out);
    if (!row->is_plan) {
        text_print("name", row->name, json, out);
        text_print("arch", row->arch, json, out);
    } else {
        text_print("generator", row->stamp, json, out);
    }
    if (json)
        text_add(out, ", \"fields\": {\"key_bytes\": ");
    if (json)
        text_format(out, "%zu", row->key_size);
    cache_key_print(row, json, out);
    text_add(out, json ? "}" : "");
    if (!row->is_plan)
        kernel_print(row, json, out);
    number_print("bytes", row->bytes ? (int64_t)row->nbytes : -1, json, out);
    time_print("created", row->created, json, out);
    time_print("used", row->used, json, out);
    if (!row->is_plan)
        source_print(row, json, out);
    text_add(out, json ? "}" : "");
}

phasor_status cache_row_show(struct phasor_runtime *runtime, const char *key, bool json,
                             struct text *out)
{
    struct cache_rows rows = {0};
    const phasor_status status = rows_get(runtime, key, &rows);
    text_add(out, json ? "{\"rows\": [" : "");
    for (int i = 0; status == PHASOR_OK && i < rows.count; i++) {
        text_add(out, i == 0 ? "" : json ? ",\n" : "\n");
        row_print(&rows.at[i], json, out);
    }
    text_add(out, json ? "]}\n" : "");
    cache_rows_free(&rows);
    return status;
}

/* -- extracting -------------------------------------------------------------------------------- */

static phasor_status row_choose(const struct cache_rows *rows, const char *key)
{
    for (int i = 1; i < rows->count; i++)
        if (!rows->at[i].is_plan && rows->at[i].arch && rows->at[0].arch &&
            strcmp(rows->at[i].arch, rows->at[0].arch) != 0)
            return fail(PHASOR_ERROR_USAGE, "%s is there for %s and %s: name an arch", key,
                        rows->at[0].arch, rows->at[i].arch);
    return rows->at[0].bytes ? PHASOR_OK
                             : fail(PHASOR_ERROR_FILE, "the row of %s has no bytes", key);
}

/* Of several toolchains the newest row. */
phasor_status phasor_cache_extract(phasor_runtime *runtime, const char *key, const char *path)
{
    NOT_NULL(runtime);
    NOT_NULL(key);
    NOT_NULL(path);
    LOG_SCOPE(&runtime->log);
    struct cache_rows rows = {0};
    phasor_status status = rows_get(runtime, key, &rows);
    if (status == PHASOR_OK)
        status = row_choose(&rows, key);
    if (status == PHASOR_OK)
        status = file_write(path, rows.at[0].bytes, rows.at[0].nbytes);
    cache_rows_free(&rows);
    return status;
}
