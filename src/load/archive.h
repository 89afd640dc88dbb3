/* archive.h - a .pt2 file as a zip archive: what it is, what is in it, its bytes.
 *
 *     model.pt2 -> entries below its one root folder: "models/model.json", "byteorder", ...
 *
 * Anything that is not an exported program of torch 2.9 or newer is refused with a sentence that
 * says what it is and what to do. Nothing in a file is trusted: names, counts and sizes are
 * checked, and each entry's checksum when it is read.
 */
#pragma once
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct archive;

phasor_status archive_open(const char *path, struct archive **out);
/* The bytes must stay until archive_close. name: for messages. */
phasor_status archive_open_memory(const void *bytes, size_t nbytes, const char *name,
                                  struct archive **out);
void archive_close(struct archive *archive); /* NULL is fine */

/* Fails unless the archive holds exported programs in the layout of torch 2.9 and newer. */
phasor_status archive_check_program(struct archive *archive);

const char *archive_path(const struct archive *archive);
size_t archive_count(const struct archive *archive);
const char *archive_name(const struct archive *archive, size_t index); /* below the root */
bool archive_find(const struct archive *archive, const char *name, uint64_t *nbytes);
/* Whether the entry unpacks to more than text that somebody wrote does. */
bool archive_swells(const struct archive *archive, const char *name);
/* Reads the whole entry, which has nbytes. */
phasor_status archive_read(struct archive *archive, const char *name, void *bytes, uint64_t nbytes);

/* What a file is that starts with these bytes and is no zip archive: "a text file". */
const char *archive_describe(const unsigned char *bytes, size_t nbytes);
