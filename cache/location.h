/* location.h - where the cache is, and whether that place is safe. Nothing here knows SQLite. */
#pragma once
#include "base/text.h"

#include <stdint.h>

/* Appends the directory to use: the option, else the environment, else the password file;
 * ":memory:" when that was named; nothing when there is none. */
phasor_status location_find(const char *option, struct text *directory);

/* Makes the directory with its parents where it is missing. */
phasor_status location_make(const char *directory);

/* PHASOR_ERROR_FILE with the reason when others own or can change the directory or file. With trust
 * only the kind of the entry is checked. */
phasor_status location_check_directory(const char *path, bool trust);
phasor_status location_check_file(const char *path, bool trust);
/* The same for what is only read: it may also belong to root, who can change everything anyway, as
 * the files of an image do. */
phasor_status location_check_layer(const char *path, bool is_directory, bool trust);

/* Makes an empty file with mode 0600; one that exists is left alone, and not even opened. */
phasor_status location_make_file(const char *path);

bool location_is_writable(const char *directory);
/* Nobody can change the file at path while it is read: nothing can be made beside it and no journal
 * waits there. */
bool location_is_frozen(const char *directory, const char *path);

/* A journal waits beside the file: what it holds is part of the file's content. */
bool location_has_journal(const char *path);

/* Locks and shared memory work between all processes that see this directory: never true for a
 * network file system. */
bool location_is_local(const char *directory);
bool location_type_is_local(unsigned long type); /* statfs's f_type */

/* Locks beside the database that the kernel releases when their holder dies, all in one file: a
 * byte is a lock, and byte 0 is for setting files aside. The file is never removed: a waiter would
 * hold a lock on nothing. */
int location_lock_open(const char *directory); /* a descriptor to close, or -1 */
enum lock_result { LOCK_TAKEN, LOCK_BUSY, LOCK_BROKEN };
enum lock_result location_lock_try(int descriptor, int64_t byte);
/* Byte 0; waits at most some seconds. Returns a descriptor to close, or -1. */
int location_lock(const char *directory);

/* Renames the database and its journals to path.broken-N; appends the new name to `aside`. */
phasor_status location_set_aside(const char *path, struct text *aside);
/* Removes what earlier calls set aside; returns how many databases that were. */
int64_t location_remove_aside(const char *directory, const char *path);
