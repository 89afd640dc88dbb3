/* cache_show.c - the figures and rows of the store, as a table for people or as JSON.
 *
 *     stats   {"generator": "3f0c...", "kernels": 12, "plans": 3, "other_plans": 0, ...,
 *              "last_trouble": null}
 *     list    {"kernels": [{"key": "0123...", "name": "map_0", "arch": "sm_90", ...}], "plans":
 * [...]}
 *
 * Totals are those in the file and what this process has not written yet. */
#include "cache/cache_internal.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

struct figures {
    int64_t kernels, plans, other_plans, bytes; /* other_plans: of those, of other generators */
    struct cache_counters totals;
    struct text trouble;
};

static phasor_status show_fail(struct cache *cache, struct store *store, int rc)
{
    if ((rc & 0xff) == SQLITE_NOMEM)
        return fail_memory();
    cache_respond(cache, store, rc, "reading figures");
    return fail(PHASOR_ERROR_FILE, "%s", cache->trouble);
}

/* -- stats ------------------------------------------------------------------------------------- */

static int total_read(struct store *store, const char *name, uint64_t *value)
{
    char sql[96];
    int64_t stored = 0;
    sqlite3_snprintf(sizeof sql, sql, "SELECT value FROM counter WHERE name = %Q", name);
    const int rc = store_number(store, sql, &stored);
    *value += (uint64_t)stored;
    return rc;
}

static int trouble_read(struct cache *cache, struct store *store, struct text *out)
{
    sqlite3_stmt *row;
    if (cache->trouble[0]) {
        text_add(out, cache->trouble);
        return SQLITE_OK;
    }
    const int rc = store_find(store, FIND_NOTE, &row, "t", "last_trouble");
    if (rc != SQLITE_ROW)
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
    const char *value = (const char *)sqlite3_column_text(row, 0);
    text_add(out, value ? value : "");
    sqlite3_reset(row);
    return SQLITE_OK;
}

static int figures_read(struct cache *cache, struct store *store, struct figures *out)
{
    sqlite3_stmt *row;
    out->totals = cache->pending;
    int rc = store_number(store, "SELECT total(1) FROM kernel", &out->kernels);
    if (rc == SQLITE_OK)
        rc = store_number(store, "SELECT total(1) FROM plan", &out->plans);
    if (rc == SQLITE_OK)
        rc = store_find(store, COUNT_OTHER_PLANS, &row, "t", cache->stamp);
    if (rc == SQLITE_ROW) {
        out->other_plans = sqlite3_column_int64(row, 0);
        rc = sqlite3_reset(row);
    }
    if (rc == SQLITE_OK)
        rc = store_bytes(store, &out->bytes);
#define TOTAL_READ(name) \
    if (rc == SQLITE_OK) \
        rc = total_read(store, #name, &out->totals.name);
    CACHE_COUNTERS(TOTAL_READ)
#undef TOTAL_READ
    return rc == SQLITE_OK ? trouble_read(cache, store, &out->trouble) : rc;
}

static void stats_write_json(struct cache *cache, const struct figures *figures, struct text *out)
{
    text_add(out, "{\"generator\": ");
    text_add_json_string(out, cache->stamp);
    text_format(out,
                ", \"kernels\": %" PRId64 ", \"plans\": %" PRId64 ", \"other_plans\": %" PRId64
                ", \"bytes\": %" PRId64,
                figures->kernels, figures->plans, figures->other_plans, figures->bytes);
#define TOTAL_WRITE(name) text_format(out, ", \"" #name "\": %" PRIu64, figures->totals.name);
    CACHE_COUNTERS(TOTAL_WRITE)
#undef TOTAL_WRITE
    text_add(out, ", \"last_trouble\": ");
    if (figures->trouble.length)
        text_add_json_string(out, figures->trouble.at);
    else
        text_add(out, "null");
    text_add(out, "}\n");
}

static void stats_write_table(struct cache *cache, const struct figures *figures, struct text *out)
{
    text_format(out, "%-14s%s\n", "file", cache->file_is_used ? cache->file : ":memory:");
    text_format(out, "%-14s%s\n", "generator", cache->stamp);
    text_format(out, "%-14s%" PRId64 "\n%-14s%" PRId64 "\n%-14s%" PRId64 "\n%-14s%" PRId64 "\n",
                "kernels", figures->kernels, "plans", figures->plans, "other plans",
                figures->other_plans, "bytes", figures->bytes);
#define TOTAL_WRITE(name) text_format(out, "%-14s%" PRIu64 "\n", #name, figures->totals.name);
    CACHE_COUNTERS(TOTAL_WRITE)
#undef TOTAL_WRITE
    text_format(out, "%-14s%s\n", "last trouble",
                figures->trouble.length ? figures->trouble.at : "none");
}

static phasor_status stats_show(struct cache *cache, bool json, struct text *out)
{
    struct figures figures = {0};
    struct store *store = cache_shown(cache);
    const int rc = figures_read(cache, store, &figures);
    phasor_status status =
        rc == SQLITE_OK ? text_status(&figures.trouble) : show_fail(cache, store, rc);
    if (status == PHASOR_OK && json)
        stats_write_json(cache, &figures, out);
    else if (status == PHASOR_OK)
        stats_write_table(cache, &figures, out);
    text_free(&figures.trouble);
    return status == PHASOR_OK ? text_status(out) : status;
}

/* -- list -------------------------------------------------------------------------------------- */

enum column_kind { COLUMN_TEXT, COLUMN_NUMBER, COLUMN_TIME };

struct column {
    const char *name;
    enum column_kind kind;
};

static const struct column kernel_columns[] = {
    {"key", COLUMN_TEXT},           {"name", COLUMN_TEXT},           {"arch", COLUMN_TEXT},
    {"toolchain", COLUMN_TEXT},     {"bytes", COLUMN_NUMBER},        {"registers", COLUMN_NUMBER},
    {"spill_bytes", COLUMN_NUMBER}, {"shared_bytes", COLUMN_NUMBER}, {"compile_ms", COLUMN_NUMBER},
    {"created", COLUMN_TIME},       {"used", COLUMN_TIME},           {NULL, COLUMN_TEXT},
};
static const char kernel_sql[] =
    "SELECT lower(hex(k.key)), k.name, k.arch, u.toolchain, length(u.cubin), u.registers, "
    "u.spill_bytes, u.shared_bytes,"
    " round(u.compile_ms, 3), u.created, coalesce(l.time, 0) FROM kernel k JOIN unit u ON u.id = "
    "k.unit"
    " LEFT JOIN last_use l ON l.kind = 0 AND l.id = u.id ORDER BY k.id";

static const struct column plan_columns[] = {
    {"key", COLUMN_TEXT},  {"bytes", COLUMN_NUMBER}, {"created", COLUMN_TIME},
    {"used", COLUMN_TIME}, {NULL, COLUMN_TEXT},
};
static const char plan_sql[] =
    "SELECT lower(hex(p.key)), length(p.content), p.created, coalesce(l.time, 0) FROM plan p"
    " LEFT JOIN last_use l ON l.kind = 1 AND l.id = p.id ORDER BY p.id";

/* 2026-01-31T12:00:00Z, for both readers. */
static void time_write(int64_t milliseconds, struct text *out)
{
    char text[32] = "";
    const time_t seconds = (time_t)(milliseconds / 1000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    text_add(out, text);
}

static void value_write_json(sqlite3_stmt *row, int index, const struct column *column,
                             struct text *out)
{
    const char *value = (const char *)sqlite3_column_text(row, index);
    text_format(out, "%s\"%s\": ", index ? ", " : "", column->name);
    if (!value) {
        text_add(out, "null");
    } else if (column->kind == COLUMN_TIME) {
        text_add(out, "\"");
        time_write(sqlite3_column_int64(row, index), out);
        text_add(out, "\"");
    } else if (column->kind == COLUMN_TEXT || sqlite3_column_type(row, index) == SQLITE_BLOB) {
        text_add_json_string(out, value);
    } else {
        text_add(out, value);
    }
}

static void value_write_cell(sqlite3_stmt *row, int index, const struct column *column,
                             struct text *out)
{
    const char *value = (const char *)sqlite3_column_text(row, index);
    if (index)
        text_add(out, "  ");
    if (value && column->kind == COLUMN_TIME)
        time_write(sqlite3_column_int64(row, index), out);
    else
        text_add(out, value ? value : "-");
}

static void row_write(sqlite3_stmt *row, const struct column *columns, bool json, bool first,
                      struct text *out)
{
    if (json)
        text_add(out, first ? "\n  {" : ",\n  {");
    for (int i = 0; columns[i].name; i++)
        (json ? value_write_json : value_write_cell)(row, i, &columns[i], out);
    text_add(out, json ? "}" : "\n");
}

static void heading_write(const char *title, const struct column *columns, bool json,
                          struct text *out)
{
    if (json) {
        text_format(out, "\"%s\": [", title);
        return;
    }
    text_format(out, "%s:", title);
    for (int i = 0; columns[i].name; i++)
        text_format(out, "  %s", columns[i].name);
    text_add(out, "\n");
}

static int rows_write(struct store *store, const char *sql, const char *title,
                      const struct column *columns, bool json, struct text *out)
{
    sqlite3_stmt *row = NULL;
    bool first = true;
    heading_write(title, columns, json, out);
    int rc = store_prepare(store, sql, &row);
    while (rc == SQLITE_OK && (rc = sqlite3_step(row)) == SQLITE_ROW) {
        row_write(row, columns, json, first, out);
        first = false;
        rc = SQLITE_OK;
    }
    sqlite3_finalize(row);
    if (json)
        text_add(out, "]");
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Written to a text of its own first: a failure halfway leaves nothing of a document. */
static phasor_status list_show(struct cache *cache, bool json, struct text *out)
{
    struct text list = {0};
    struct store *store = cache_shown(cache);
    text_add(&list, json ? "{" : "");
    int rc = rows_write(store, kernel_sql, "kernels", kernel_columns, json, &list);
    text_add(&list, json ? ",\n" : "");
    if (rc == SQLITE_OK)
        rc = rows_write(store, plan_sql, "plans", plan_columns, json, &list);
    text_add(&list, json ? "}\n" : "");
    phasor_status status = rc == SQLITE_OK ? text_status(&list) : show_fail(cache, store, rc);
    if (status == PHASOR_OK) {
        text_add(out, text_get(&list));
        status = text_status(out);
    }
    text_free(&list);
    return status;
}

phasor_status cache_show(struct cache *cache, const char *what, bool json, struct text *out)
{
    phasor_status status;
    cache_enter(cache);
    if (strcmp(what, "stats") == 0)
        status = stats_show(cache, json, out);
    else if (strcmp(what, "list") == 0)
        status = list_show(cache, json, out);
    else
        status = fail(
            PHASOR_ERROR_USAGE,
            "cache: \"%s\" cannot be shown; \"stats\" and \"list\" can, and keys: they begin with "
            "hex digits (see cache list)",
            what);
    cache_leave(cache);
    return status;
}
