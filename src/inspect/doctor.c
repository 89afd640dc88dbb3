/* doctor.c - what was found on this machine, and what to do about what is missing.
 *
 *     phasor 0.1.0
 *     driver    13.0
 *     device 0  NVIDIA H200, sm_90, 139 GiB
 *     nvrtc     nvrtc 13.0.88, /usr/local/cuda/lib64/libnvrtc.so.13
 *     cache     /home/me/.cache/phasor/phasor.db, ready
 *
 * Nothing here fails because something is missing: that is what it is asked for.
 */

#include "base/text.h"
#include "cache/cache.h"
#include "compile/nvrtc.h"
#include "device/device.h"
#include "library/cublaslt.h"
#include <stdio.h>

#include <string.h>

struct report {
    struct text out;
    bool json, first;
};

/* A field: text, or NULL for what is missing, with the reason. */
static void report_field(struct report *report, const char *name, const char *found,
                         const char *reason)
{
    if (!report->json) {
        text_format(&report->out, "%-13s %s%s\n", name,
                    found ? found : "missing: ", found ? "" : reason);
        return;
    }
    text_add(&report->out, report->first ? "" : ", ");
    report->first = false;
    text_add_json_string(&report->out, name);
    text_add(&report->out, ": ");
    if (found)
        text_add_json_string(&report->out, found);
    else
        text_add(&report->out, "null");
    if (found)
        return;
    text_format(&report->out, ", \"%s_trouble\": ", name);
    text_add_json_string(&report->out, reason);
}

static void report_driver(struct report *report)
{
    int version;
    char text[32];
    if (device_driver_version(&version) != PHASOR_OK) {
        report_field(report, "driver", NULL, message_get());
        return;
    }
    snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    report_field(report, "driver", text, NULL);
}

static void device_print(struct report *report, int ordinal)
{
    struct device_info info;
    if (device_describe(ordinal, &info) != PHASOR_OK)
        return;
    const size_t gibibyte = (size_t)1 << 30;
    if (!report->json) {
        text_format(&report->out, "device %-6d %s, %s, %zu GiB\n", ordinal, info.name, info.arch,
                    (info.memory + gibibyte / 2) / gibibyte);
        return;
    }
    text_format(&report->out, "%s{\"ordinal\": %d, \"name\": ", ordinal ? ", " : "", ordinal);
    text_add_json_string(&report->out, info.name);
    text_format(&report->out, ", \"arch\": \"%s\", \"bytes\": %zu}", info.arch, info.memory);
}

static void report_devices(struct report *report)
{
    int count = 0;
    if (device_count(&count) != PHASOR_OK)
        count = 0;
    if (report->json)
        text_add(&report->out, ", \"devices\": [");
    for (int i = 0; i < count; i++)
        device_print(report, i);
    if (report->json)
        text_add(&report->out, "]");
    else if (count == 0)
        text_add(&report->out, "devices       none: programs run on the CPU device\n");
}

static void report_compiler(struct report *report)
{
    struct compiler *compiler = NULL;
    if (compiler_open(&compiler) != PHASOR_OK) {
        report_field(report, "nvrtc", NULL, message_get());
        return;
    }
    report_field(report, "nvrtc", compiler_version(compiler), NULL);
    report_field(report, "nvrtc_path", compiler_path(compiler), NULL);
    struct text archs = {0};
    int count;
    const char *const *names = compiler_archs(compiler, &count);
    for (int i = 0; i < count; i++)
        text_format(&archs, "%s%s", i ? " " : "", names[i]);
    report_field(report, "archs", text_get(&archs), NULL);
    text_free(&archs);
    compiler_close(compiler);
}

static void report_libraries(struct report *report)
{
    struct cublaslt_info info;
    char version[32];
    if (cublaslt_find(&info) != PHASOR_OK) {
        report_field(report, "cublaslt", NULL, message_get());
        return;
    }
    snprintf(version, sizeof version, "%d.%d.%d", info.version / 10000, info.version / 100 % 100,
             info.version % 100);
    report_field(report, "cublaslt", version, NULL);
    report_field(report, "cublaslt_path", info.path, NULL);
}

static void report_cache(struct report *report, const phasor_options *options)
{
    const struct cache_options cache_options = {.directory = options->cache,
                                                .trust_directory = options->trust_cache_dir,
                                                .max_bytes = options->cache_bytes};
    struct cache *cache;
    if (cache_open(&cache_options, &cache) != PHASOR_OK) {
        report_field(report, "cache", NULL, message_get());
        return;
    }
    report_field(report, "cache", cache_path(cache), NULL);
    const bool usable = cache_require_store(cache) == PHASOR_OK;
    report_field(report, "cache_state", usable ? "ready" : NULL, message_get());
    cache_close(cache);
}

phasor_status phasor_doctor(const phasor_options *options, bool json, char **text)
{
    struct report report = {.json = json, .first = true};
    phasor_options given = {0}; /* what the caller's version of the struct does not have is 0 */
    NOT_NULL(text);
    *text = NULL;
    if (options) {
        TRY(struct_check("phasor_options", options->size, sizeof *options));
        memcpy(&given, options, options->size);
    }
    text_add(&report.out, json ? "{" : "");
    report_field(&report, "phasor", phasor_version(), NULL);
    report_driver(&report);
    report_devices(&report);
    report_compiler(&report);
    report_libraries(&report);
    report_cache(&report, &given);
    text_add(&report.out, json ? "}\n" : "");
    const phasor_status status = text_status(&report.out);
    if (status == PHASOR_OK)
        *text = report.out.at;
    else
        text_free(&report.out);
    return status;
}
