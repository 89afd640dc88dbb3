/* cache_layers.c - databases that are only read: PHASOR_CACHE_READONLY_DIRS=/a:/b/export.db.
 *
 *     a directory                  ->  its phasor.db
 *     a file                       ->  itself
 *     missing, unsafe, damaged     ->  one warning, and the others serve
 *     of another version           ->  skipped: a warning, and counted
 *
 * They are asked in order when main has no row. An exported file is opened without locks, so that a
 * read-only mount is enough; any other with mode=ro. */
#include "cache/cache_internal.h"
#include "cache/location.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PLACES_VARIABLE "PHASOR_CACHE_READONLY_DIRS"

/* -- the places -------------------------------------------------------------------------------- */

/* Absolute, since the process may change its directory before it opens them again. */
static phasor_status place_add(struct cache *cache, const char *name, size_t length)
{
    struct text path = {0};
    char *current = *name == '/' ? NULL : realpath(".", NULL);
    if (current)
        text_format(&path, "%s/", current);
    free(current);
    text_add_bytes(&path, name, length);
    while (path.length > 1 && path.at[path.length - 1] == '/')
        path.at[--path.length] = '\0';
    if (path.failed || !array_push(&cache->places, path.at)) {
        text_free(&path);
        return fail_memory();
    }
    return PHASOR_OK;
}

phasor_status cache_places_read(struct cache *cache)
{
    const char *list = getenv(PLACES_VARIABLE);
    if (!list || cache->mode == CACHE_OFF)
        return PHASOR_OK;
    for (const char *at = list; *at;) {
        const size_t length = strcspn(at, ":");
        if (length > 0 && cache->places.count == LAYERS_MOST - 1) {
            cache_note_trouble(cache, PLACES_VARIABLE ": only the first %d are used",
                               LAYERS_MOST - 1);
            break;
        }
        if (length > 0)
            TRY(place_add(cache, at, length));
        at += length + (at[length] == ':');
    }
    return PHASOR_OK;
}

void cache_places_free(struct cache *cache)
{
    for (size_t i = 0; i < cache->places.count; i++)
        memory_free(cache->places.at[i]);
    array_free(&cache->places);
}

/* -- opening ----------------------------------------------------------------------------------- */

/* The directory is looked at as well: who can write there can exchange the file. */
static phasor_status layer_check(const char *file, bool trust)
{
    struct text directory = {0};
    const size_t length = (size_t)(strrchr(file, '/') - file);
    text_add_bytes(&directory, file, length ? length : 1);
    phasor_status status = text_status(&directory);
    if (status == PHASOR_OK)
        status = location_check_layer(directory.at, true, trust);
    if (status == PHASOR_OK)
        status = location_check_layer(file, false, trust);
    text_free(&directory);
    return status;
}

/* What is main already would only be asked twice. */
static bool file_is_main(const struct cache *cache, const char *file)
{
    struct stat layer, main;
    return cache->file_is_used && stat(file, &layer) == 0 && stat(cache->file, &main) == 0 &&
           layer.st_dev == main.st_dev && layer.st_ino == main.st_ino;
}

static phasor_status file_attach(struct cache *cache, const char *file)
{
    struct store layer;
    if (file_is_main(cache, file))
        return PHASOR_OK;
    TRY(layer_check(file, cache->trust));
    const phasor_status status = store_open_layer(&layer, file);
    if (layer.other)
        cache_count(cache, &(struct cache_counters){.skipped = 1});
    if (status != PHASOR_OK)
        return status;
    cache->layers[cache->layer_count++] = layer;
    return PHASOR_OK;
}

static phasor_status place_attach(struct cache *cache, const char *place)
{
    struct stat entry;
    struct text file = {0};
    const bool is_file = stat(place, &entry) == 0 && S_ISREG(entry.st_mode);
    text_format(&file, is_file ? "%s" : "%s/phasor.db", place);
    phasor_status status = text_status(&file);
    if (status == PHASOR_OK)
        status = file_attach(cache, file.at);
    text_free(&file);
    return status;
}

phasor_status cache_layers_attach(struct cache *cache)
{
    for (size_t i = 0; i < cache->places.count && cache->layer_count < LAYERS_MOST; i++) {
        const phasor_status status = place_attach(cache, cache->places.at[i]);
        if (status == PHASOR_ERROR_MEMORY)
            return status;
        if (status != PHASOR_OK)
            cache_note_trouble(cache, PLACES_VARIABLE ": %s; it is not used", message_get());
    }
    return PHASOR_OK;
}
