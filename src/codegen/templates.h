/* templates.h - the text of the kernel templates: embedded, or from PHASOR_TEMPLATE_DIR. */
#pragma once
#include "base/hash.h"
#include "base/memory.h"
#include "base/status.h"

struct templates {
    struct arena arena;
    const char *device; /* device.cuh */
    const char *map, *maps, *row, *reduce, *scan, *collect, *dot, *attention, *sort, *search;
    struct hash hash;        /* of all of them: part of a plan's key */
    struct hash device_hash; /* of device.cuh, which a kernel's key has no text of */
};

/* directory: NULL or a folder with the files; a file that is not there is taken from the program.
 */
phasor_status templates_load(struct templates *templates, const char *directory);
void templates_free(struct templates *templates);
