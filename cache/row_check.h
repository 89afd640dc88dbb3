/* row_check.h - what a whole row is: the same rules for verify, gc, export and import.
 *
 *     checks_run(&store, &findings)
 *         ->  {BAD_KERNEL, 12, "kernel 12 (map_mul, sm_90): its key is not the hash of ..."}
 *
 * Nothing here writes. */
#pragma once
#include "base/memory.h"
#include "base/text.h"
#include "cache/store.h"

/* FILE: something of the whole file, not of a row. USE: a time of use without its row. */
enum bad_kind { BAD_FILE, BAD_UNIT, BAD_KERNEL, BAD_PLAN, BAD_USE, BAD_COUNTER };

struct finding {
    enum bad_kind kind;
    int64_t id;       /* of the row; of a time of use: its kind comes from `use` */
    int64_t use;      /* last_use.kind */
    struct text line; /* one sentence */
};

struct findings {
    ARRAY(struct finding) list;
    int64_t units, kernels, plans; /* rows looked at */
    bool no_memory;
};
void findings_free(struct findings *findings);

/* Looks at the schema, SQLite's own checks and every row, in one read transaction. An SQLite error
 * that is no damage (busy, out of memory) is returned; damage becomes a finding. */
int checks_run(struct store *store, struct findings *findings);

/* What ties the columns of a row together, and a kernel to its unit: one flipped bit turns an entry
 * name, a toolchain or a unit's number into another valid one. */
struct unit_resources {
    int registers, spill_bytes, shared_bytes; /* -1: unknown */
};
struct hash unit_seal(const char *arch, const char *toolchain, const char *options,
                      struct unit_resources resources, struct hash checksum, const char *source);
struct hash kernel_seal(struct hash key, const char *arch, const char *name, const char *toolchain,
                        const char *options, struct hash checksum);
struct hash plan_seal(struct hash key, const char *stamp, const void *content, size_t nbytes);

const char *row_text(sqlite3_stmt *row, int column);
int row_number(sqlite3_stmt *row, int column); /* -1: NULL */

/* Columns of the rows below; what they are read with. */
enum { UNIT_ID, UNIT_ARCH, UNIT_TOOLCHAIN, UNIT_OPTIONS, UNIT_CREATED, UNIT_MS, UNIT_REGISTERS };
enum { UNIT_SPILL = UNIT_REGISTERS + 1, UNIT_SHARED, UNIT_CHECKSUM, UNIT_SEAL, UNIT_CUBIN };
enum { UNIT_SOURCE = UNIT_CUBIN + 1, UNIT_KERNELS };
extern const char units_sql[];
enum { ROW_ID, ROW_KEY, ROW_CANONICAL };
enum { ROW_UNIT = ROW_CANONICAL + 1, ROW_ARCH, ROW_NAME, ROW_SEAL, ROW_CHECKSUM, ROW_UNIT_ARCH };
enum { ROW_TOOLCHAIN = ROW_UNIT_ARCH + 1, ROW_OPTIONS };
#define KERNEL_ROW_COLUMNS                                                                       \
    "k.id, k.key, k.canonical, k.unit, k.arch, k.name, k.seal, u.checksum, u.arch, u.toolchain," \
    " u.options"
extern const char kernels_sql[];
enum { PLAN_ROW_STAMP = ROW_CANONICAL + 1, PLAN_ROW_SEAL, PLAN_ROW_CONTENT };
extern const char plans_sql[];

/* NULL: whole; else what is wrong, a constant. */
const char *unit_wrong(sqlite3_stmt *row);
const char *kernel_wrong(sqlite3_stmt *row);
const char *plan_wrong(sqlite3_stmt *row);
