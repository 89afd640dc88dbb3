/* store.h - one open database: statements by number, bound and run in one call. SQLite is known
 * here and in the files of this folder only. Functions that return int give an SQLite result code.
 */
#pragma once
#include "base/hash.h"
#include "base/status.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum statement {
    FIND_KERNEL,       /* key, arch, canonical, toolchain or NULL -> columns KERNEL_* */
    FIND_PLAN,         /* key, canonical, stamp -> columns PLAN_* */
    COUNT_OTHER_PLANS, /* stamp -> how many are of another, one of those stamps */
    FIND_NOTE,         /* name -> value */
    ADD_UNIT,
    ADD_KERNEL,
    ADD_PLAN,
    DELETE_KERNEL,     /* key, arch, canonical, toolchain: the row that a new one replaces */
    DELETE_UNIT,       /* id */
    DELETE_KERNEL_ROW, /* id */
    DELETE_PLAN,       /* id */
    DELETE_SAME_PLAN,  /* key, canonical, stamp */
    SET_LAST_USE,      /* time, kind, id */
    DELETE_LAST_USE,   /* kind, id */
    ADD_COUNTER,       /* name, increment */
    SET_NOTE,          /* name, value */
    STATEMENTS
};
enum { KERNEL_UNIT, KERNEL_CHECKSUM, KERNEL_CUBIN, KERNEL_TOOLCHAIN, KERNEL_NAME, KERNEL_SEAL };
enum { KERNEL_OPTIONS = KERNEL_SEAL + 1 };
enum { PLAN_ID, PLAN_SEAL, PLAN_CONTENT };
enum { USE_UNIT, USE_PLAN }; /* last_use.kind */

enum { BUSY_WAIT_MS = 10000, BUSY_WAIT_SHORT_MS = 200 };

struct store {
    sqlite3 *db; /* NULL: closed, every call is SQLITE_MISUSE */
    sqlite3_stmt *statements[STATEMENTS];
    int64_t *work_left; /* of the running statement, see store.c */
    bool is_file;       /* that rows can be put into */
    bool broken; /* the file that was just refused is damaged, foreign or older: set it aside */
    bool other;  /* it is of another version, older or newer */
    dev_t device;
    ino_t inode; /* which file this was, whatever its name is now */
};

phasor_status store_open_memory(struct store *store);
/* wal: the file system is local. The file exists (location_make_file); an empty one gets the
 * schema. */
phasor_status store_open_file(struct store *store, const char *path, bool wal);
/* frozen: nobody can write it (location_is_frozen). newer: a file of a newer version will do, with
 * whatever can be found in it. */
phasor_status store_open_read_only(struct store *store, const char *path, bool frozen, bool newer);
/* A file of this version that is only read: frozen when it is marked as an export and no journal
 * waits beside it. */
phasor_status store_open_layer(struct store *store, const char *path);
/* The note of an exported file. Whoever opens such a file to write removes it. */
#define EXPORT_MARK "export"
bool store_is_marked(struct store *store);
/* Of a closed file, of any version. */
bool store_file_is_marked(const char *path);
/* The file's name, or ":memory:". Valid as long as it is open. */
const char *store_name(const struct store *store);
/* tidy: leave nothing but the database itself, if this is its last user. Not for a damaged file,
 * and not before a fork. */
void store_close(struct store *store, bool tidy);
/* Forgets a connection that belongs to another process, without touching its file. */
void store_abandon(struct store *store);

/* Format, a letter an argument: h struct hash; b const void *, size_t; t const char * (NULL: SQL
 * NULL); i int64_t; d double; u int (-1: SQL NULL). Blobs and texts must live until the statement
 * is reset. */
int store_run(struct store *store, enum statement which, const char *format, ...);
/* SQLITE_ROW with *out at the row, or another code with *out NULL. After a row call
 * sqlite3_reset(*out). */
int store_find(struct store *store, enum statement which, sqlite3_stmt **out, const char *format,
               ...);

int store_execute(struct store *store, const char *sql);
void store_roll_back(struct store *store); /* the transaction, if one is open */
/* A statement that the caller steps through and finalizes; it may do as much work as a walk over
 * all rows needs. */
int store_prepare(struct store *store, const char *sql, sqlite3_stmt **out);
/* The first column of the first row of an SQL text; 0 when there is no row. */
int store_number(struct store *store, const char *sql, int64_t *out);
/* The file is damaged, or made so that reading it does not end. */
bool store_code_is_damage(int rc);
enum { WORK_COUNTED = 1000 }; /* instructions between two calls of store_work_count */
int store_work_count(void *left);
/* Bytes that rows take: what the cap counts. */
int store_bytes(struct store *store, int64_t *out);

void store_hash_write(struct hash hash, unsigned char bytes[16]); /* as columns hold it */
bool store_hash_is(sqlite3_stmt *row, int column, struct hash hash);
