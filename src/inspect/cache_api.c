/* cache_api.c - the public functions about the cache: what cache/ found, as text for people or as
 * JSON.
 *
 *     {dropped 1, evicted 3}  ->  "1 damaged row dropped, 3 evicted, ..." or {"dropped": 1, ...}
 */
#include "context/runtime.h"
#include "kernels/cache_key.h"

#include <inttypes.h>
#include <string.h>

const char *phasor_cache_path(const phasor_runtime *runtime)
{
    return runtime ? cache_path(runtime->cache) : NULL;
}

phasor_status phasor_cache_require(phasor_runtime *runtime)
{
    NOT_NULL(runtime);
    LOG_SCOPE(&runtime->log);
    return cache_require_store(runtime->cache);
}

phasor_status phasor_cache_clear(phasor_runtime *runtime)
{
    NOT_NULL(runtime);
    LOG_SCOPE(&runtime->log);
    return cache_clear(runtime->cache);
}

/* The text goes to the caller, or is freed when something failed. */
static phasor_status text_give(phasor_status status, struct text *out, char **text)
{
    *text = NULL;
    text_add(out, "");
    if (status == PHASOR_OK)
        status = text_status(out);
    if (status == PHASOR_OK)
        *text = out->at;
    else
        text_free(out);
    return status;
}

phasor_status phasor_cache_show(phasor_runtime *runtime, const char *what, bool json, char **text)
{
    NOT_NULL(text);
    *text = NULL;
    NOT_NULL(runtime);
    NOT_NULL(what);
    LOG_SCOPE(&runtime->log);
    struct text out = {0};
    const bool is_key = what[0] && what[strspn(what, "0123456789abcdefABCDEF")] == '\0';
    return text_give(is_key ? cache_row_show(runtime, what, json, &out)
                            : cache_show(runtime->cache, what, json, &out),
                     &out, text);
}

/* -- figures ----------------------------------------------------------------------------------- */

struct figure {
    const char *name; /* in JSON */
    int64_t value;
    const char *words; /* behind the number, for people */
};

static void figures_print(const struct figure *figures, int count, bool json, struct text *out)
{
    for (int i = 0; i < count; i++)
        if (json)
            text_format(out, "%s\"%s\": %" PRId64, i ? ", " : "{", figures[i].name,
                        figures[i].value);
        else
            text_format(out, "%s%" PRId64 " %s", i ? ", " : "", figures[i].value, figures[i].words);
}

#define FIGURES_PRINT(figures, json, out) \
    figures_print(figures, (int)(sizeof(figures) / sizeof *(figures)), json, out)

/* Each line of a text as a string of a JSON list. */
static void lines_print_json(const char *name, const struct text *lines, struct text *out)
{
    const char *at = text_get(lines);
    text_format(out, ", \"%s\": [", name);
    for (int i = 0; *at; i++) {
        struct text line = {0};
        const size_t length = strcspn(at, "\n");
        text_add_bytes(&line, at, length);
        text_add(out, i ? ", " : "");
        text_add_json_string(out, text_get(&line));
        out->failed |= line.failed;
        text_free(&line);
        at += length + (at[length] == '\n');
    }
    text_add(out, "]");
}

/* -- verify ------------------------------------------------------------------------------------ */

struct verification {
    struct phasor_runtime *runtime;
    struct cache_report report;
    int64_t recompiled, skipped;
};

static void unit_bad(struct verification *v, const struct cache_row *unit, const char *wrong)
{
    v->report.bad++;
    text_format(&v->report.lines, "%s: unit %" PRId64 " (%s, %s): %s\n",
                cache_path(v->runtime->cache), unit->id, unit->name ? unit->name : "?",
                unit->arch ? unit->arch : "?", wrong);
}

static bool unit_is_ours(const struct compiler *compiler, const struct cache_row *unit)
{
    return unit->source && *unit->source && unit->arch && unit->toolchain && unit->options &&
           strcmp(unit->toolchain, compiler_version(compiler)) == 0 &&
           strcmp(unit->options, compiler_options_text(compiler, unit->arch)) == 0;
}

/* NVRTC that cannot compile what it has compiled before is a finding, not an end. */
static phasor_status unit_recompile(struct verification *v, struct compiler *compiler,
                                    const struct cache_row *unit)
{
    const struct compile_request request = {
        .name = unit->name ? unit->name : "unit", .source = unit->source, .arch = unit->arch};
    struct compile_result result = {0};
    if (!unit_is_ours(compiler, unit)) {
        v->skipped++;
        return PHASOR_OK;
    }
    const phasor_status status = compiler_run(compiler, &request, &result);
    if (status == PHASOR_ERROR_MEMORY)
        return status;
    v->recompiled++;
    if (status != PHASOR_OK)
        unit_bad(v, unit, "its source does not compile any more");
    else if (result.cubin_size != unit->nbytes ||
             memcmp(result.cubin, unit->bytes, unit->nbytes) != 0)
        unit_bad(v, unit, "compiled again, its cubin is another one");
    compile_result_free(&result);
    return PHASOR_OK;
}

/* compiler: NULL: only what the bytes show without one. */
static phasor_status units_verify(struct verification *v, struct compiler *compiler)
{
    phasor_status status = PHASOR_OK;
    int64_t after = INT64_MIN;
    for (int count = 1; status == PHASOR_OK && count > 0;) {
        struct cache_rows rows;
        TRY(cache_next_unit(v->runtime->cache, after, &rows));
        count = rows.count;
        if (count > 0) {
            const struct cache_row *unit = &rows.at[0];
            after = unit->id;
            if (unit->whole && (unit->nbytes < 4 || memcmp(unit->bytes, "\177ELF", 4) != 0))
                unit_bad(v, unit, "its cubin is no ELF file");
            else if (compiler && unit->whole) /* else it is bad already */
                status = unit_recompile(v, compiler, unit);
        }
        cache_rows_free(&rows);
    }
    return status;
}

static void verification_print(const struct verification *v, bool recompile, bool json,
                               struct text *out)
{
    const struct figure figures[] = {
        {"units", v->report.units, "units"},
        {"kernels", v->report.kernels, "kernels"},
        {"plans", v->report.plans, "plans checked"},
        {"bad", v->report.bad, "bad"},
        {"recompiled", v->recompiled, "compiled again"},
        {"skipped", v->skipped, "skipped: another toolchain"},
    };
    if (!json)
        text_add(out, text_get(&v->report.lines));
    figures_print(figures, recompile || json ? 6 : 4, json, out);
    if (json)
        lines_print_json("problems", &v->report.lines, out);
    text_add(out, json ? "}\n" : "\n");
}

/* A cache that is in memory only because of some trouble has nothing to verify. */
static phasor_status file_check(struct phasor_runtime *runtime)
{
    const char *path = cache_path(runtime->cache);
    return strcmp(path, ":memory:") == 0 ? cache_require_store(runtime->cache) : PHASOR_OK;
}

phasor_status phasor_cache_verify(phasor_runtime *runtime, bool recompile, bool json, bool *good,
                                  char **text)
{
    NOT_NULL(runtime);
    NOT_NULL(good);
    NOT_NULL(text);
    LOG_SCOPE(&runtime->log);
    struct verification v = {.runtime = runtime};
    struct compiler *compiler = NULL;
    struct text out = {0};
    *text = NULL;
    *good = false;
    TRY(file_check(runtime));
    if (recompile)
        TRY(runtime_compiler(runtime, &compiler));
    phasor_status status = cache_verify(runtime->cache, &v.report);
    if (status == PHASOR_OK)
        status = units_verify(&v, compiler);
    if (status == PHASOR_ERROR_FILE && v.report.bad)
        status = PHASOR_OK; /* what cannot be read is told already */
    if (status == PHASOR_OK)
        verification_print(&v, recompile, json, &out);
    *good = status == PHASOR_OK && v.report.bad == 0;
    cache_report_free(&v.report);
    return text_give(status, &out, text);
}

/* -- gc, export, import ------------------------------------------------------------------------ */

phasor_status phasor_cache_gc(phasor_runtime *runtime, bool json, char **text)
{
    NOT_NULL(runtime);
    NOT_NULL(text);
    LOG_SCOPE(&runtime->log);
    struct cache_collected c;
    struct text out = {0};
    *text = NULL;
    TRY(cache_gc(runtime->cache, &c));
    const struct figure figures[] = {
        {"dropped", c.dropped, "damaged rows dropped"},
        {"evicted", c.evicted, "rows evicted"},
        {"set_aside", c.set_aside, "broken files removed"},
        {"bytes_before", c.bytes_before, "bytes before"},
        {"bytes", c.bytes, "now"},
    };
    FIGURES_PRINT(figures, json, &out);
    text_add(&out, json ? "}\n" : "\n");
    return text_give(PHASOR_OK, &out, text);
}

phasor_status phasor_cache_export(phasor_runtime *runtime, const char *path, bool json, char **text)
{
    NOT_NULL(runtime);
    NOT_NULL(path);
    NOT_NULL(text);
    LOG_SCOPE(&runtime->log);
    struct cache_shipped s;
    struct text out = {0};
    *text = NULL;
    TRY(cache_export(runtime->cache, path, &s));
    const struct figure figures[] = {
        {"kernels", s.kernels, "kernels"},
        {"plans", s.plans, "plans written"},
        {"refused", s.refused, "damaged rows left out"},
        {"bytes", s.bytes, "bytes"},
    };
    FIGURES_PRINT(figures, json, &out);
    text_add(&out, json ? "}\n" : "\n");
    return text_give(PHASOR_OK, &out, text);
}

phasor_status phasor_cache_import(phasor_runtime *runtime, const char *path, bool json, bool *good,
                                  char **text)
{
    NOT_NULL(runtime);
    NOT_NULL(path);
    NOT_NULL(good);
    NOT_NULL(text);
    LOG_SCOPE(&runtime->log);
    struct cache_shipped s;
    struct text out = {0};
    *text = NULL;
    *good = false;
    TRY(cache_import(runtime->cache, path, &s));
    const struct figure figures[] = {
        {"kernels", s.kernels, "kernels"},           {"plans", s.plans, "plans imported"},
        {"present", s.present, "rows here already"}, {"refused", s.refused, "refused"},
        {"evicted", s.evicted, "evicted"},
    };
    FIGURES_PRINT(figures, json, &out);
    text_add(&out, json ? "}\n" : "\n");
    *good = s.refused == 0;
    return text_give(PHASOR_OK, &out, text);
}
