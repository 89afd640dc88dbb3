/* schema.c - see schema.h.
 *
 *     sqlite_master: index, "CREATE INDEX plan_key ON plan (key)"   ->  stands in schema.sql
 *     sqlite_master: view, "CREATE VIEW note AS WITH RECURSIVE ..."  ->  does not
 *
 * SQLite keeps the text of each statement as it was given, so that a file can be compared with
 * schema.sql without making a second database. */
#include "cache/schema.h"

#include "base/embedded.h"

#include <string.h>

extern const struct embedded_file embedded_schema[];

static const char create[] = "\nCREATE ";

/* Whole: from the beginning of a line to the semicolon. */
static bool statement_is_ours(const char *sql)
{
    const char *schema = embedded_schema[0].text;
    const size_t length = strlen(sql);
    for (const char *at = strstr(schema, create); at; at = strstr(at + 1, create))
        if (strncmp(at + 1, sql, length) == 0 && at[1 + length] == ';')
            return true;
    return false;
}

static int statements_count(void)
{
    int count = 0;
    for (const char *at = strstr(embedded_schema[0].text, create); at; at = strstr(at + 1, create))
        count++;
    return count;
}

bool schema_is_ours(struct store *store, int *rc)
{
    sqlite3_stmt *row = NULL;
    int count = 0;
    bool ours = true;
    *rc = store_prepare(store, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL", &row);
    while (*rc == SQLITE_OK && ours && (*rc = sqlite3_step(row)) == SQLITE_ROW) {
        const char *sql = (const char *)sqlite3_column_text(row, 0);
        *rc = sql ? SQLITE_OK : SQLITE_NOMEM;
        ours = sql && statement_is_ours(sql);
        count++;
    }
    sqlite3_finalize(row);
    *rc = *rc == SQLITE_DONE ? SQLITE_OK : *rc;
    return *rc == SQLITE_OK && ours && count == statements_count();
}

int schema_make(struct store *store)
{
    return store_execute(store, embedded_schema[0].text);
}
