/* cache_open.c - from options to open stores, and what becomes of them when something goes wrong.
 *
 *     a safe directory         -> main is its phasor.db
 *     one that is only read    -> main is in memory, the file is a layer
 *     none, unsafe, unusable   -> main is in memory, one warning
 *     a newer version's file   -> main is in memory, the file is a layer, one warning
 *     a damaged or older file  -> renamed to phasor.db.broken-1, main is a new file
 *
 * A fork: SQLite's locks belong to a process while its tables of them are copied, so a child would
 * take a lock for its own that is its parent's. Connections are closed before a fork and opened
 * again when next used. */
#include "base/log.h"
#include "cache/cache_internal.h"
#include "cache/location.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pthread_mutex_t caches_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cache *caches; /* all open ones */

/* -- trouble ----------------------------------------------------------------------------------- */

void cache_note_trouble(struct cache *cache, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cache->trouble, sizeof cache->trouble, format, arguments);
    va_end(arguments);
    cache->trouble_pending = true;
    log_line(cache->warned ? LOG_INFO : LOG_WARNING, "cache: %s", cache->trouble);
    cache->warned = true;
}

static void counters_add_repair(struct cache *cache)
{
    cache->counters.repairs++;
    cache->pending.repairs++;
    cache->set_aside++;
}

/* Whether the file's name is still that of the file which was opened last. */
static bool file_is_the_same(const struct cache *cache)
{
    struct stat entry;
    return stat(cache->file, &entry) == 0 && entry.st_dev == cache->main.device &&
           entry.st_ino == cache->main.inode;
}

/* Two processes find the same damage: the file is renamed only while it is the one that was found
 * damaged. */
static phasor_status file_set_aside(struct cache *cache, const char *reason)
{
    struct text aside = {0};
    const int lock = location_lock(cache->directory);
    if (lock < 0)
        return fail(PHASOR_ERROR_FILE, "%s is damaged and %s/phasor.lock cannot be locked",
                    cache->file, cache->directory);
    phasor_status status = PHASOR_OK;
    if (file_is_the_same(cache)) {
        status = location_set_aside(cache->file, &aside);
        if (status == PHASOR_OK) {
            counters_add_repair(cache);
            cache_note_trouble(cache, "%s: renamed to %s, a new file is made", reason, aside.at);
        }
    }
    text_free(&aside);
    close(lock);
    return status;
}

/* -- attaching --------------------------------------------------------------------------------- */

static phasor_status file_open_once(struct cache *cache)
{
    TRY(location_make(cache->directory));
    TRY(location_check_directory(cache->directory, cache->trust));
    if (!location_is_writable(cache->directory))
        return fail(PHASOR_ERROR_FILE, "%s cannot be written", cache->directory);
    TRY(location_make_file(cache->file));
    TRY(location_check_file(cache->file, cache->trust));
    return store_open_file(&cache->main, cache->file, location_is_local(cache->directory));
}

/* Another try is for the new file after a damaged one, and for a name that another process took
 * away or gave to another file between two steps of this one. */
static phasor_status file_open(struct cache *cache)
{
    phasor_status status = file_open_once(cache);
    for (int tries = 1; tries < OPEN_TRIES && status == PHASOR_ERROR_FILE; tries++) {
        char reason[TROUBLE_SIZE];
        snprintf(reason, sizeof reason, "%s", message_get());
        if (cache->main.broken)
            TRY(file_set_aside(cache, reason));
        else if (file_is_the_same(cache))
            break;
        status = file_open_once(cache);
    }
    cache->file_is_used = status == PHASOR_OK;
    return status;
}

/* The file itself, to be read only. */
static phasor_status layer_open(struct cache *cache, const char *directory, const char *file)
{
    struct store layer;
    TRY(location_check_directory(directory, cache->trust));
    TRY(location_check_file(file, cache->trust));
    TRY(store_open_read_only(&layer, file, location_is_frozen(directory, file), true));
    cache->layers[cache->layer_count++] = layer;
    return PHASOR_OK;
}

static bool file_exists(const char *path)
{
    struct stat entry;
    return path && lstat(path, &entry) == 0;
}

/* Rows go to memory; the file still serves what it has, if it can be read. */
static phasor_status memory_attach(struct cache *cache)
{
    if (file_exists(cache->file)) {
        const phasor_status status = layer_open(cache, cache->directory, cache->file);
        if (status == PHASOR_ERROR_MEMORY)
            return status;
        cache->file_is_used = status == PHASOR_OK;
        if (status != PHASOR_OK && cache->mode == CACHE_READ_ONLY)
            cache_note_trouble(cache, "%s; new kernels are kept in memory only", message_get());
    }
    return cache->main.db ? PHASOR_OK : store_open_memory(&cache->main);
}

/* main may be there already: a memory database outlives a fork. */
static phasor_status main_attach(struct cache *cache)
{
    cache->file_is_used = false;
    if (cache->file && cache->mode == CACHE_READ_WRITE && !cache->main.db) {
        const phasor_status status = file_open(cache);
        if (status != PHASOR_ERROR_FILE)
            return status;
        cache_note_trouble(cache, "%s; new kernels are kept in memory only", message_get());
    }
    return memory_attach(cache);
}

static phasor_status cache_attach(struct cache *cache)
{
    TRY(main_attach(cache));
    return cache_layers_attach(cache);
}

static void files_close(struct cache *cache, bool tidy)
{
    if (cache->main.is_file)
        store_close(&cache->main, tidy);
    for (int i = 0; i < cache->layer_count; i++)
        store_close(&cache->layers[i], tidy);
    cache->layer_count = 0;
}

struct store *cache_shown(struct cache *cache)
{
    return cache->file_is_used && !cache->main.is_file && cache->layer_count ? &cache->layers[0]
                                                                             : &cache->main;
}

/* -- responding -------------------------------------------------------------------------------- */

static void fall_back_to_memory(struct cache *cache)
{
    store_close(&cache->main, false);
    cache->file_is_used = false;
    cache->touched.count = 0;
    if (store_open_memory(&cache->main) != PHASOR_OK)
        cache->main.db = NULL; /* every get is a miss */
}

static void reopen(struct cache *cache)
{
    files_close(cache, false);
    cache->touched.count = 0; /* they name rows of the file that was left */
    if (cache_attach(cache) != PHASOR_OK)
        cache->main.db = NULL;
}

void cache_replace_file(struct cache *cache, const char *reason)
{
    const struct store damaged = cache->main;
    store_close(&cache->main, false);
    cache->main.device = damaged.device;
    cache->main.inode = damaged.inode;
    if (file_set_aside(cache, reason) == PHASOR_OK)
        reopen(cache);
    else {
        cache_note_trouble(cache, "%s; new kernels are kept in memory only", message_get());
        fall_back_to_memory(cache);
    }
}

static void layer_close(struct cache *cache, struct store *layer)
{
    if (layer == cache_shown(cache))
        cache->file_is_used = false;
    store_close(layer, false);
    cache->layer_count--;
    memmove(layer, layer + 1, (size_t)(cache->layers + cache->layer_count - layer) * sizeof *layer);
}

static bool main_respond(struct cache *cache, int rc, const char *reason)
{
    const int kind = rc & 0xff;
    const bool is_file = cache->main.is_file;
    if (is_file && store_code_is_damage(rc)) {
        cache_replace_file(cache, reason);
        return true;
    }
    cache_note_trouble(cache, "%s", reason);
    if (is_file && rc == SQLITE_READONLY_DBMOVED) {
        reopen(cache);
        return true;
    }
    if (is_file && (kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_PROTOCOL))
        fall_back_to_memory(cache);
    return false;
}

bool cache_respond(struct cache *cache, struct store *store, int rc, const char *doing)
{
    char reason[TROUBLE_SIZE];
    const int kind = rc & 0xff;
    if (!store->db)
        return false;
    snprintf(reason, sizeof reason, "%s: %s: %s", store_name(store), doing,
             sqlite3_errmsg(store->db));
    if (kind == SQLITE_BUSY || kind == SQLITE_LOCKED) {
        cache->was_busy = true;
        sqlite3_busy_timeout(store->db, BUSY_WAIT_SHORT_MS);
    }
    if (store == &cache->main)
        return main_respond(cache, rc, reason);
    cache_note_trouble(cache, "%s", reason);
    if (kind != SQLITE_BUSY && kind != SQLITE_NOMEM)
        layer_close(cache, store);
    return false;
}

/* -- entering and forks ------------------------------------------------------------------------ */

/* A process made without fork()'s handlers has connections that are not its own; their tables of
 * locks are wrong for good. */
static void leave_other_process(struct cache *cache)
{
    store_abandon(&cache->main);
    for (int i = 0; i < cache->layer_count; i++)
        store_abandon(&cache->layers[i]);
    cache->layer_count = 0;
    cache->process = getpid();
    cache_note_trouble(
        cache, "this process was cloned while the cache was open; kernels are kept in memory only");
    fall_back_to_memory(cache);
}

void cache_enter(struct cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    if (cache->process != getpid())
        leave_other_process(cache);
    if (!cache->asleep)
        return;
    cache->asleep = false;
    if (cache_attach(cache) != PHASOR_OK)
        cache->main.db = NULL;
}

void cache_leave(struct cache *cache)
{
    pthread_mutex_unlock(&cache->lock);
}

/* A memory database has no locks: a child goes on with its copy. */
static void fork_prepare(void)
{
    pthread_mutex_lock(&caches_lock);
    for (struct cache *cache = caches; cache; cache = cache->next) {
        pthread_mutex_lock(&cache->lock);
        if ((cache->file_is_used || cache->layer_count) && cache->process == getpid()) {
            files_close(cache, false);
            cache->asleep = true;
        }
    }
}

static void fork_parent(void)
{
    for (struct cache *cache = caches; cache; cache = cache->next)
        pthread_mutex_unlock(&cache->lock);
    pthread_mutex_unlock(&caches_lock);
}

/* What is pending is the parent's to write. */
static void fork_child(void)
{
    for (struct cache *cache = caches; cache; cache = cache->next) {
        cache->process = getpid();
        cache->pending = (struct cache_counters){0};
        cache->touched.count = 0;
        cache->trouble_pending = false;
        pthread_mutex_unlock(&cache->lock);
    }
    pthread_mutex_unlock(&caches_lock);
}

static void fork_watch(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* -- opening ----------------------------------------------------------------------------------- */

static enum cache_mode mode_read(struct cache *cache)
{
    const char *text = getenv("PHASOR_CACHE");
    if (!text || !*text || strcmp(text, "rw") == 0)
        return CACHE_READ_WRITE;
    if (strcmp(text, "ro") == 0)
        return CACHE_READ_ONLY;
    if (strcmp(text, "off") == 0)
        return CACHE_OFF;
    cache_note_trouble(cache, "PHASOR_CACHE=%s: should be rw, ro or off; taken as rw", text);
    return CACHE_READ_WRITE;
}

/* "512M", "1GiB", "4000000": both kinds of suffix are powers of 1024. -1 for anything else. */
static int64_t size_parse(const char *text)
{
    static const char units[] = "kmgt";
    char *end;
    const long long number = strtoll(text, &end, 10);
    int shift = 0;
    if (end == text || number < 0)
        return -1;
    const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
    if (unit) {
        shift = 10 * (int)(unit - units + 1);
        end++;
    }
    if (strcmp(end, "") != 0 && strcmp(end, "B") != 0 &&
        (!unit || (strcmp(end, "i") != 0 && strcmp(end, "iB") != 0)))
        return -1;
    return number > INT64_MAX >> shift ? -1 : (int64_t)number << shift;
}

static int64_t limit_read(struct cache *cache, int64_t option)
{
    const int64_t usual = (int64_t)1 << 30;
    const char *text = getenv("PHASOR_CACHE_MAX_SIZE");
    if (option != 0)
        return option < 0 ? 0 : option;
    if (!text || !*text)
        return usual;
    const int64_t size = size_parse(text);
    if (size < 0)
        cache_note_trouble(cache, "PHASOR_CACHE_MAX_SIZE=%s: should be a size as 512M; 1G is used",
                           text);
    return size < 0 ? usual : size;
}

/* Absolute, since the process may change its directory and SQLite reads "file:" in front of a name
 * as an address. */
static phasor_status location_set(struct cache *cache, const char *directory)
{
    struct text kept = {0}, file = {0};
    char *current = *directory == '/' ? NULL : realpath(".", NULL);
    if (current)
        text_format(&kept, "%s/", current);
    free(current);
    text_add(&kept, directory);
    while (kept.length > 1 && kept.at[kept.length - 1] == '/')
        kept.at[--kept.length] = '\0';
    text_format(&file, "%s/phasor.db", text_get(&kept));
    cache->directory = kept.at;
    cache->file = file.at;
    return kept.failed || file.failed ? fail_memory() : PHASOR_OK;
}

static phasor_status cache_locate(struct cache *cache, const char *option)
{
    struct text directory = {0};
    phasor_status status = PHASOR_OK;
    if (cache->mode != CACHE_OFF)
        status = location_find(option, &directory);
    cache->wants_memory = strcmp(text_get(&directory), ":memory:") == 0;
    if (status == PHASOR_OK && directory.length && !cache->wants_memory)
        status = location_set(cache, directory.at);
    else if (status == PHASOR_OK && cache->mode != CACHE_OFF && !cache->wants_memory)
        cache_note_trouble(cache, "no directory: PHASOR_CACHE_DIR, XDG_CACHE_HOME and HOME are not "
                                  "set and the user has no "
                                  "home; kernels are kept in memory only");
    text_free(&directory);
    return status;
}

static void cache_free(struct cache *cache)
{
    files_close(cache, true);
    store_close(&cache->main, true);
    pthread_mutex_destroy(&cache->lock);
    memory_free(cache->directory);
    memory_free(cache->file);
    cache_places_free(cache);
    array_free(&cache->touched);
    memory_free(cache);
}

phasor_status cache_open(const struct cache_options *options, struct cache **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_watch);
    *out = NULL;
    struct cache *cache = memory_new(sizeof *cache);
    if (!cache)
        return fail_memory();
    pthread_mutex_init(&cache->lock, NULL);
    pthread_mutex_lock(&caches_lock);
    cache->process = getpid();
    cache->trust = options->trust_directory;
    cache->stamp = options->stamp ? options->stamp : "";
    cache->mode = mode_read(cache);
    cache->max_bytes = limit_read(cache, options->max_bytes);
    phasor_status status = cache_locate(cache, options->directory);
    if (status == PHASOR_OK)
        status = cache_places_read(cache);
    if (status == PHASOR_OK)
        status = cache_attach(cache);
    if (status == PHASOR_OK) {
        cache->next = caches;
        caches = cache;
        *out = cache;
    } else {
        cache_free(cache);
    }
    pthread_mutex_unlock(&caches_lock);
    return status;
}

static void caches_remove(struct cache *cache)
{
    for (struct cache **at = &caches; *at; at = &(*at)->next)
        if (*at == cache) {
            *at = cache->next;
            return;
        }
}

/* Where others write all the time, counters and times of use are lost: they are worth neither a long
 * wait nor a warning. */
static void counters_flush(struct cache *cache)
{
    int rc = cache_write_begin(cache);
    if (rc == SQLITE_OK)
        rc = cache_write_commit(cache);
    if ((rc & 0xff) == SQLITE_BUSY) {
        log_line(LOG_INFO, "cache: %s: counters were not written: it is busy", cache->file);
        store_roll_back(&cache->main);
    } else if (rc != SQLITE_OK) {
        cache_write_end(cache, rc, "writing counters");
    }
}

/* Under the lock of the list, so that no fork comes between. */
void cache_close(struct cache *cache)
{
    if (!cache)
        return;
    pthread_mutex_lock(&caches_lock);
    if (cache_has_pending(cache)) {
        cache_enter(cache);
        if (cache->main.db && cache->main.is_file) {
            sqlite3_busy_timeout(cache->main.db, BUSY_WAIT_SHORT_MS);
            counters_flush(cache);
        }
        cache_leave(cache);
    }
    caches_remove(cache);
    cache_free(cache);
    pthread_mutex_unlock(&caches_lock);
}

const char *cache_path(struct cache *cache)
{
    cache_enter(cache);
    const char *path = cache->file_is_used ? cache->file : ":memory:";
    cache_leave(cache);
    return path;
}

phasor_status cache_require_store(struct cache *cache)
{
    phasor_status status = PHASOR_OK;
    cache_enter(cache);
    if (cache->mode != CACHE_READ_WRITE)
        status = fail(PHASOR_ERROR_FILE, "nothing can be stored: PHASOR_CACHE is %s",
                      cache->mode == CACHE_OFF ? "off" : "ro");
    else if (!cache->wants_memory && !cache->main.is_file)
        status = fail(PHASOR_ERROR_FILE, "nothing can be stored: %s", cache->trouble);
    cache_leave(cache);
    return status;
}
