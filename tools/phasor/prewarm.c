/* prewarm.c - phasor prewarm: compiles programs for many sizes and GPU types into the cache, with
 * or without a GPU.
 *
 *     rope.pt2 --dim q.1=1:4096:64 --arch sm_80,sm_90   ->   64 sizes x 2 archs in phasor.db
 *
 * Every combination is stored twice: for tensors aligned to 16 bytes and for tensors aligned to
 * their elements only. What is in the cache already is found and not compiled again, so an
 * interrupted run goes on where it stopped. The compiler runs in processes of its own: when one
 * dies, its kernels are tried once more, each alone, and those it dies of again count as failed.
 */
#include "prewarm.h"

#include "json.h"
#include "open.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* -- archs ------------------------------------------------------------------------------------- */

static bool arch_is_listed(const struct prewarm *prewarm, const char *arch)
{
    for (int i = 0; i < prewarm->arch_count; i++)
        if (strcmp(prewarm->archs[i], arch) == 0)
            return true;
    return false;
}

static int archs_read(const char *text, struct prewarm *prewarm)
{
    for (const char *at = text; at;) {
        char arch[16] = "";
        const size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof arch)
            return report_failure(PHASOR_ERROR_USAGE,
                                  "--arch %s: expected GPU types such as sm_80,sm_90", text);
        memcpy(arch, at, length);
        if (!arch_is_listed(prewarm, arch)) {
            prewarm->archs = memory_grow(prewarm->archs, (size_t)prewarm->arch_count, sizeof arch);
            strcpy(prewarm->archs[prewarm->arch_count++], arch);
        }
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return PHASOR_OK;
}

static int archs_choose(const struct settings *settings, struct prewarm *prewarm)
{
    if (settings->arch)
        return archs_read(settings->arch, prewarm);
    TRY(archs_find(settings, &prewarm->archs, &prewarm->arch_count));
    if (prewarm->arch_count == 0) {
        strcpy(prewarm->archs[prewarm->arch_count++], "sm_90");
        report_note("no CUDA device and no --arch: for sm_90");
    }
    return PHASOR_OK;
}

/* -- runtimes and programs --------------------------------------------------------------------- */

/* This command again, as a process that compiles: each thread gets one. */
static const char *const *compiler_command(void)
{
    static char path[PATH_MAX];
    static const char *command[] = {path, "--compile-server", NULL};
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    return length > 0 ? command : NULL;
}

/* Each kernel that is being compiled holds a lock, by a descriptor; many threads hold many. */
static void descriptors_allow(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int runtimes_open(const struct settings *settings, struct prewarm *prewarm)
{
    prewarm->runtimes = memory_need((size_t)prewarm->arch_count, sizeof *prewarm->runtimes);
    for (int i = 0; i < prewarm->arch_count; i++) {
        phasor_options options = options_from(settings);
        options.device = PHASOR_DEVICE_NONE;
        options.arch = prewarm->archs[i];
        options.interrupted = interrupt_seen;
        options.compiler = compiler_command();
        TRY_LIBRARY(phasor_open(&prewarm->runtimes[i], &options));
    }
    TRY_LIBRARY(phasor_cache_require(prewarm->runtimes[0]));
    if (strcmp(phasor_cache_path(prewarm->runtimes[0]), ":memory:") == 0)
        return report_failure(PHASOR_ERROR_FILE,
                              "the cache is in memory only: what prewarm compiles would be lost; "
                              "--cache DIR names a place for it");
    return PHASOR_OK;
}

static int target_open(const struct settings *settings, struct prewarm *prewarm, int program,
                       int arch)
{
    struct prewarm_target *target = &prewarm->targets[prewarm->target_count++];
    const char *path = target->path = settings->operands.at[program];
    TRY_LIBRARY(
        phasor_program_load(prewarm->runtimes[arch], path, settings->model, &target->program));
    TRY(refusals_report(target->program, path));
    if (arch == 0)
        size_set_skip(&prewarm->sizes[program], target->program);
    target->sizes = &prewarm->sizes[program];
    TRY(size_set_count(target->sizes, &target->combinations));
    if (target->combinations > (uint64_t)INT64_MAX / 4 || prewarm->total > (uint64_t)INT64_MAX / 4)
        return report_failure(PHASOR_ERROR_USAGE,
                              "--dim: more combinations than can ever be compiled");
    prewarm->total += target->combinations;
    return PHASOR_OK;
}

static int targets_open(const struct settings *settings, struct prewarm *prewarm)
{
    const int programs = settings->operands.count;
    prewarm->sizes = memory_need((size_t)programs, sizeof *prewarm->sizes);
    prewarm->targets =
        memory_need((size_t)programs * (size_t)prewarm->arch_count, sizeof *prewarm->targets);
    for (int i = 0; i < programs; i++) {
        TRY(size_set_read(settings, &prewarm->sizes[i]));
        prewarm->program_count++;
        for (int arch = 0; arch < prewarm->arch_count; arch++)
            TRY(target_open(settings, prewarm, i, arch));
    }
    return PHASOR_OK;
}

static void prewarm_close(struct prewarm *prewarm)
{
    for (int i = 0; i < prewarm->target_count; i++)
        if (prewarm->targets[i].program)
            phasor_program_close(prewarm->targets[i].program);
    for (int i = 0; prewarm->runtimes && i < prewarm->arch_count; i++)
        phasor_close(prewarm->runtimes[i]);
    for (int i = 0; i < prewarm->program_count; i++)
        size_set_free(&prewarm->sizes[i]);
    free(prewarm->targets);
    free(prewarm->sizes);
    free(prewarm->runtimes);
    free(prewarm->archs);
    pthread_mutex_destroy(&prewarm->lock);
}

/* -- the summary ------------------------------------------------------------------------------- */

struct prewarm_figures {
    uint64_t compiled, cache_hits, failed, skipped;
    double seconds;
};

static int figures_get(struct prewarm *prewarm, struct prewarm_figures *out)
{
    *out = (struct prewarm_figures){.failed = prewarm->failed,
                                    .seconds = seconds_now() - prewarm->progress.started};
    for (int i = 0; i < prewarm->arch_count; i++) {
        phasor_counters counters = {.size = sizeof counters};
        TRY_LIBRARY(phasor_stats(prewarm->runtimes[i], &counters));
        out->compiled += counters.compiled;
        out->cache_hits += counters.cache_hits;
        out->failed += counters.compile_failures;
    }
    for (int i = 0; i < prewarm->program_count; i++)
        out->skipped += prewarm->sizes[i].skipped;
    return PHASOR_OK;
}

static void figures_print_json(const struct prewarm_figures *figures)
{
    struct json json = {.out = stdout};
    json_open(&json, NULL, '{');
    json_integer(&json, "compiled", (int64_t)figures->compiled);
    json_integer(&json, "cache_hits", (int64_t)figures->cache_hits);
    json_integer(&json, "failed", (int64_t)figures->failed);
    json_integer(&json, "skipped", (int64_t)figures->skipped);
    json_real(&json, "seconds", figures->seconds);
    json_close(&json, '}');
}

static void figures_print(const struct prewarm_figures *figures)
{
    printf("%llu kernels compiled, %llu found in the cache, %llu failed, "
           "%llu sizes out of range skipped, %.1f s\n",
           (unsigned long long)figures->compiled, (unsigned long long)figures->cache_hits,
           (unsigned long long)figures->failed, (unsigned long long)figures->skipped,
           figures->seconds);
}

/* -- the command ------------------------------------------------------------------------------- */

static int prewarm_run(const struct settings *settings, struct prewarm *prewarm)
{
    struct prewarm_figures figures;
    TRY(size_set_check(settings));
    TRY(archs_choose(settings, prewarm));
    descriptors_allow();
    TRY(runtimes_open(settings, prewarm));
    TRY(targets_open(settings, prewarm));
    interrupt_catch();
    const int status = prewarm_work(prewarm, settings->jobs);
    if (status == PHASOR_ERROR_INTERRUPTED)
        report_note(
            "interrupted after %llu of %llu sizes: what is done is kept, the same command goes on",
            (unsigned long long)prewarm->done, (unsigned long long)prewarm->total);
    TRY(figures_get(prewarm, &figures));
    if (settings->json)
        figures_print_json(&figures);
    else
        figures_print(&figures);
    return status;
}

int prewarm_command(const struct settings *settings)
{
    struct prewarm prewarm = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const int status = prewarm_run(settings, &prewarm);
    prewarm_close(&prewarm);
    return status;
}
