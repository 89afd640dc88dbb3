/* row_check.c - see row_check.h.
 *
 *     unit     nothing is missing, the checksum is the cubin's, the seal that of the rest, some
 *              kernel needs it
 *     kernel   the key is the hash of the canonical key, the seal ties it to key, name and unit
 *     plan     the key as above, the seal ties it to the stamp and the content
 *
 * A kernel's seal is made with the checksum that stands in the unit: a damaged cubin is one bad
 * row, not two. */
#include "cache/row_check.h"

#include "cache/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char units_sql[] =
    "SELECT id, arch, toolchain, options, created, compile_ms, registers, spill_bytes,"
    " shared_bytes, checksum, seal, cubin, source,"
    " (SELECT count(*) FROM kernel WHERE kernel.unit = unit.id) FROM unit WHERE id > ?1"
    " ORDER BY id";
const char kernels_sql[] =
    "SELECT " KERNEL_ROW_COLUMNS " FROM kernel k LEFT JOIN unit u ON u.id = k.unit ORDER BY k.id";
const char plans_sql[] = "SELECT id, key, canonical, stamp, seal, content FROM plan ORDER BY id";

/* -- one row ----------------------------------------------------------------------------------- */

/* Of the parts' hashes: no part can lend a byte to its neighbour. */
static struct hash parts_hash(const struct hash *parts, int count)
{
    unsigned char bytes[16 * 8];
    for (int i = 0; i < count; i++)
        store_hash_write(parts[i], bytes + 16 * i);
    return hash_bytes(bytes, 16 * (size_t)count);
}

static struct hash text_hash(const char *text)
{
    return hash_bytes(text, strlen(text));
}

struct hash unit_seal(const char *arch, const char *toolchain, const char *options,
                      struct unit_resources resources, struct hash checksum, const char *source)
{
    char numbers[64];
    snprintf(numbers, sizeof numbers, "%d %d %d", resources.registers, resources.spill_bytes,
             resources.shared_bytes);
    return parts_hash((struct hash[]){text_hash(arch), text_hash(toolchain), text_hash(options),
                                      text_hash(numbers), checksum, text_hash(source)},
                      6);
}

struct hash kernel_seal(struct hash key, const char *arch, const char *name, const char *toolchain,
                        const char *options, struct hash checksum)
{
    return parts_hash((struct hash[]){key, text_hash(arch), text_hash(name), text_hash(toolchain),
                                      text_hash(options), checksum},
                      6);
}

struct hash plan_seal(struct hash key, const char *stamp, const void *content, size_t nbytes)
{
    return parts_hash((struct hash[]){key, text_hash(stamp), hash_bytes(content, nbytes)}, 3);
}

const char *row_text(sqlite3_stmt *row, int column)
{
    return (const char *)sqlite3_column_text(row, column);
}

int row_number(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? -1 : sqlite3_column_int(row, column);
}

static struct hash column_hash(sqlite3_stmt *row, int column)
{
    const void *bytes = sqlite3_column_blob(row, column);
    return hash_bytes(bytes ? bytes : "", (size_t)sqlite3_column_bytes(row, column));
}

static bool column_is_blob(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_BLOB;
}

static bool column_is_text(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_TEXT;
}

static bool hash_read(sqlite3_stmt *row, int column, struct hash *out)
{
    const unsigned char *bytes = sqlite3_column_blob(row, column);
    *out = (struct hash){0, 0};
    if (!bytes || sqlite3_column_bytes(row, column) != 16)
        return false;
    for (int i = 0; i < 8; i++) {
        out->high = out->high << 8 | bytes[i];
        out->low = out->low << 8 | bytes[8 + i];
    }
    return true;
}

static bool unit_seal_is_right(sqlite3_stmt *row)
{
    const struct unit_resources resources = {
        row_number(row, UNIT_REGISTERS), row_number(row, UNIT_SPILL), row_number(row, UNIT_SHARED)};
    struct hash checksum;
    return hash_read(row, UNIT_CHECKSUM, &checksum) &&
           store_hash_is(row, UNIT_SEAL,
                         unit_seal(row_text(row, UNIT_ARCH), row_text(row, UNIT_TOOLCHAIN),
                                   row_text(row, UNIT_OPTIONS), resources, checksum,
                                   row_text(row, UNIT_SOURCE)));
}

const char *unit_wrong(sqlite3_stmt *row)
{
    if (!column_is_text(row, UNIT_ARCH) || !column_is_text(row, UNIT_TOOLCHAIN) ||
        !column_is_text(row, UNIT_OPTIONS) || !column_is_text(row, UNIT_SOURCE))
        return "its arch, toolchain, options or source is missing";
    if (!column_is_blob(row, UNIT_CUBIN) || !column_is_blob(row, UNIT_CHECKSUM))
        return "its cubin or checksum is missing";
    if (!store_hash_is(row, UNIT_CHECKSUM, column_hash(row, UNIT_CUBIN)))
        return "the checksum is not that of its cubin";
    if (!unit_seal_is_right(row))
        return "its seal is not that of its arch, toolchain, options, resources and source";
    if (sqlite3_column_int64(row, UNIT_KERNELS) == 0)
        return "no kernel belongs to it";
    return NULL;
}

const char *kernel_wrong(sqlite3_stmt *row)
{
    struct hash checksum;
    const char *name = row_text(row, ROW_NAME), *arch = row_text(row, ROW_ARCH);
    const char *unit_arch = row_text(row, ROW_UNIT_ARCH);
    const char *toolchain = row_text(row, ROW_TOOLCHAIN), *options = row_text(row, ROW_OPTIONS);
    if (!column_is_blob(row, ROW_KEY) || !column_is_blob(row, ROW_CANONICAL) || !name || !arch)
        return "its key, canonical key, name or arch is missing";
    if (!store_hash_is(row, ROW_KEY, column_hash(row, ROW_CANONICAL)))
        return "its key is not the hash of its canonical key";
    if (sqlite3_column_type(row, ROW_UNIT_ARCH) == SQLITE_NULL)
        return "its unit is missing";
    if (!unit_arch || strcmp(arch, unit_arch) != 0)
        return "its arch is not that of its unit";
    if (!toolchain || !options || !hash_read(row, ROW_CHECKSUM, &checksum) ||
        !store_hash_is(
            row, ROW_SEAL,
            kernel_seal(column_hash(row, ROW_CANONICAL), arch, name, toolchain, options, checksum)))
        return "its seal is not that of its key, name and unit";
    return NULL;
}

const char *plan_wrong(sqlite3_stmt *row)
{
    if (!column_is_blob(row, ROW_KEY) || !column_is_blob(row, ROW_CANONICAL))
        return "its key or canonical key is missing";
    if (!store_hash_is(row, ROW_KEY, column_hash(row, ROW_CANONICAL)))
        return "its key is not the hash of its canonical key";
    if (!column_is_blob(row, PLAN_ROW_CONTENT) || !column_is_blob(row, PLAN_ROW_SEAL) ||
        !column_is_text(row, PLAN_ROW_STAMP))
        return "its content, stamp or seal is missing";
    if (!store_hash_is(row, PLAN_ROW_SEAL,
                       plan_seal(column_hash(row, ROW_CANONICAL), row_text(row, PLAN_ROW_STAMP),
                                 sqlite3_column_blob(row, PLAN_ROW_CONTENT),
                                 (size_t)sqlite3_column_bytes(row, PLAN_ROW_CONTENT))))
        return "its seal is not that of its key, stamp and content";
    return NULL;
}

/* -- findings ---------------------------------------------------------------------------------- */

void findings_free(struct findings *findings)
{
    for (size_t i = 0; i < findings->list.count; i++)
        text_free(&findings->list.at[i].line);
    array_free(&findings->list);
}

static struct text *finding_add(struct findings *findings, enum bad_kind kind, int64_t id)
{
    static struct text none;
    if (array_push(&findings->list, ((struct finding){.kind = kind, .id = id})))
        return &findings->list.at[findings->list.count - 1].line;
    findings->no_memory = true;
    none = (struct text){.failed = true}; /* takes nothing */
    return &none;
}

static void key_write(sqlite3_stmt *row, struct text *line)
{
    const unsigned char *key = sqlite3_column_blob(row, ROW_KEY);
    const int size = sqlite3_column_bytes(row, ROW_KEY);
    for (int i = 0; key && i < size && i < 4; i++)
        text_format(line, "%02x", key[i]);
    text_add(line, key ? "" : "no key");
}

static const char *text_or(sqlite3_stmt *row, int column)
{
    const char *value = (const char *)sqlite3_column_text(row, column);
    return value ? value : "?";
}

static void unit_check(struct findings *findings, sqlite3_stmt *row)
{
    const char *wrong = unit_wrong(row);
    findings->units++;
    if (wrong) {
        const int64_t id = sqlite3_column_int64(row, UNIT_ID);
        text_format(finding_add(findings, BAD_UNIT, id), "unit %" PRId64 " (%s, %s): %s", id,
                    text_or(row, UNIT_ARCH), text_or(row, UNIT_TOOLCHAIN), wrong);
    }
}

static void kernel_check(struct findings *findings, sqlite3_stmt *row)
{
    const char *wrong = kernel_wrong(row);
    findings->kernels++;
    if (wrong) {
        const int64_t id = sqlite3_column_int64(row, ROW_ID);
        struct text *line = finding_add(findings, BAD_KERNEL, id);
        text_format(line, "kernel %" PRId64 " (", id);
        key_write(row, line);
        text_format(line, ", %s, %s): %s", text_or(row, ROW_NAME), text_or(row, ROW_ARCH), wrong);
    }
}

static void plan_check(struct findings *findings, sqlite3_stmt *row)
{
    const char *wrong = plan_wrong(row);
    findings->plans++;
    if (wrong) {
        const int64_t id = sqlite3_column_int64(row, ROW_ID);
        struct text *line = finding_add(findings, BAD_PLAN, id);
        text_format(line, "plan %" PRId64 " (", id);
        key_write(row, line);
        text_format(line, "): %s", wrong);
    }
}

static void use_check(struct findings *findings, sqlite3_stmt *row)
{
    const int64_t kind = sqlite3_column_int64(row, 0), id = sqlite3_column_int64(row, 1);
    text_format(finding_add(findings, BAD_USE, id), "the time of use of %s %" PRId64 ": %s",
                kind == USE_UNIT   ? "unit"
                : kind == USE_PLAN ? "plan"
                                   : "unknown row",
                id, "its row is missing");
    if (!findings->no_memory)
        findings->list.at[findings->list.count - 1].use = kind;
}

static void counter_check(struct findings *findings, sqlite3_stmt *row)
{
    text_format(finding_add(findings, BAD_COUNTER, 0), "the total \"%s\" is no count",
                text_or(row, 0));
}

static void integrity_check(struct findings *findings, sqlite3_stmt *row)
{
    const char *said = text_or(row, 0);
    if (strcmp(said, "ok") != 0)
        text_format(finding_add(findings, BAD_FILE, 0), "SQLite: %s", said);
}

/* -- all --------------------------------------------------------------------------------------- */

static int rows_check(struct store *store, const char *sql, struct findings *findings,
                      void (*check)(struct findings *, sqlite3_stmt *))
{
    sqlite3_stmt *row = NULL;
    int rc = store_prepare(store, sql, &row);
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(row) == 1)
        rc = sqlite3_bind_int64(row, 1, INT64_MIN);
    while (rc == SQLITE_OK && (rc = sqlite3_step(row)) == SQLITE_ROW) {
        check(findings, row);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(row);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* A table that cannot be read to its end is damage too; the others are still looked at. */
static int damage_note(struct store *store, struct findings *findings, const char *table, int rc)
{
    if (rc == SQLITE_OK || !store_code_is_damage(rc))
        return rc;
    text_format(finding_add(findings, BAD_FILE, 0), "%s: %s", table, sqlite3_errmsg(store->db));
    return SQLITE_OK;
}

static const struct {
    const char *table, *sql;
    void (*check)(struct findings *, sqlite3_stmt *);
} passes[] = {
    {"the file", "PRAGMA integrity_check(20)", integrity_check},
    {"unit", units_sql, unit_check},
    {"kernel", kernels_sql, kernel_check},
    {"plan", plans_sql, plan_check},
    {"last_use",
     "SELECT kind, id FROM last_use WHERE"
     " NOT (kind = 0 AND EXISTS (SELECT 1 FROM unit WHERE unit.id = last_use.id)) AND"
     " NOT (kind = 1 AND EXISTS (SELECT 1 FROM plan WHERE plan.id = last_use.id))",
     use_check},
    {"counter", "SELECT name FROM counter WHERE typeof(value) <> 'integer' OR value < 0",
     counter_check},
};

static int passes_run(struct store *store, struct findings *findings)
{
    int rc;
    if (!schema_is_ours(store, &rc) && rc == SQLITE_OK)
        text_add(finding_add(findings, BAD_FILE, 0),
                 "the tables are not those of this version of Phasor");
    rc = damage_note(store, findings, "the schema", rc);
    for (size_t i = 0; i < sizeof passes / sizeof *passes && rc == SQLITE_OK; i++) {
        rc = rows_check(store, passes[i].sql, findings, passes[i].check);
        rc = damage_note(store, findings, passes[i].table, rc);
    }
    return rc == SQLITE_OK && findings->no_memory ? SQLITE_NOMEM : rc;
}

int checks_run(struct store *store, struct findings *findings)
{
    int rc = store_execute(store, "BEGIN");
    if (rc != SQLITE_OK)
        return rc;
    rc = passes_run(store, findings);
    store_execute(store, "COMMIT");
    return rc;
}
