/* command.h - what the parts of the command phasor share: its settings and its commands.
 *
 *     argv -> options.c -> struct settings -> one of the functions below -> exit code
 *
 * Commands print their result on stdout and everything else on stderr.
 */
#pragma once
#include "report.h"

#include <stdbool.h>
#include <stdint.h>

/* A list of words of the command line. */
struct words {
    const char **at;
    int count;
};

/* What the command line says; NULL, 0 and false for what it leaves open, except where the comment
 * names another value. */
struct settings {
    /* of every command */
    const char *cache, *rules, *model, *log;
    bool trust_cache_dir, no_fma, help, version;
    /* of some */
    const char *inputs, *outputs, *expect, *device, *mode, *stage, *arch, *lengths, *file, *plot;
    double rtol, atol; /* -1: by dtype */
    double seconds;
    struct words dims;
    int64_t seed, repeat /* 1 */, jobs /* the number of processors */;
    bool json, watch, recompile;
    /* behind the name of the command */
    struct words operands;
};

int run_command(const struct settings *settings);
int check_command(const struct settings *settings);
int show_command(const struct settings *settings);
int prewarm_command(const struct settings *settings);
int cache_command(const struct settings *settings);
int doctor_command(const struct settings *settings);
int bench_command(const struct settings *settings);
