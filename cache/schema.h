/* schema.h - the tables that a file must have: those of schema.sql, no others. */
#pragma once
#include "cache/store.h"

enum { SCHEMA_APPLICATION = 1346917202, SCHEMA_VERSION = 2 }; /* as in schema.sql */

/* The file is of this version, and each table, index and trigger in it is a statement of schema.sql
 * word for word; nothing is missing and nothing is more. Views and virtual tables, whose reading
 * would run what their maker wrote, are thereby none. An SQLite code in *rc says that the file
 * could not be read. */
bool schema_is_ours(struct store *store, int *rc);

/* Makes the tables, in the transaction that is open. */
int schema_make(struct store *store);
