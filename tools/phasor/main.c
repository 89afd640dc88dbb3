/* main.c - the command phasor: finds the command that the first word names and runs it.
 *
 *     phasor run rope.pt2 --dim q.1=17
 *         ->  run_command(settings)  ->  exit code: a phasor_status, or 1 for results that differ
 */
#include "options.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    int bit;
    int (*function)(const struct settings *settings);
    int least, most; /* operands; most -1: any number */
    const char *operands;
    const char *help;
};

static const struct command commands[] = {
    {"run", FOR_RUN, run_command, 1, 1, "PROGRAM",
     "run a program on given or random inputs, compare its results"},
    {"check", FOR_CHECK, check_command, 1, 1, "PROGRAM",
     "can it be rewritten and run; what not, and why"},
    {"show", FOR_SHOW, show_command, 1, 1, "PROGRAM",
     "print a stage: loaded, real, plan, cuda or ptx"},
    {"prewarm", FOR_PREWARM, prewarm_command, 1, -1, "PROGRAM...",
     "compile for many sizes and GPU types into the cache"},
    {"cache", FOR_CACHE, cache_command, 1, -1, "stats|list|show KEY|...",
     "the store of compiled kernels: also verify, gc, clear, export FILE, import FILE, path"},
    {"doctor", FOR_DOCTOR, doctor_command, 0, 0, "",
     "what was found on this machine, and what to do about the rest"},
    {"bench", FOR_BENCH, bench_command, 1, 1, "PROGRAM",
     "what calls cost, beside a copy of the same bytes and a bare launch"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

/* -- help -------------------------------------------------------------------------------------- */

static void help_print(FILE *out)
{
    fputs("usage: phasor COMMAND ... [OPTIONS]\n\n"
          "Runs PyTorch exported programs that compute with complex numbers on NVIDIA GPUs.\n"
          "PROGRAM is a .pt2 or a .phasor text file.\n\n",
          out);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %-22s %s\n", commands[i].name, commands[i].operands, commands[i].help);
    options_print(out, 0);
    fputs("\nphasor COMMAND --help lists the options of a command.\n", out);
}

static void command_help_print(const struct command *command, FILE *out)
{
    fprintf(out, "usage: phasor %s %s [OPTIONS]\n\n%s\n", command->name, command->operands,
            command->help);
    options_print(out, command->bit);
}

/* -- running ----------------------------------------------------------------------------------- */

static const struct command *command_find(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int operands_check(const struct command *command, int count)
{
    if (count >= command->least && (command->most < 0 || count <= command->most))
        return PHASOR_OK;
    return report_failure(PHASOR_ERROR_USAGE, "usage: phasor %s %s [OPTIONS]; see phasor %s --help",
                          command->name, command->operands, command->name);
}

static int command_run(struct settings *settings, uint64_t used)
{
    const char *name = settings->operands.at[0];
    const struct command *command = command_find(name);
    if (!command)
        return report_failure(PHASOR_ERROR_USAGE, "unknown command %s; phasor --help lists them",
                              name);
    if (settings->help) {
        command_help_print(command, stdout);
        return PHASOR_OK;
    }
    settings->operands.at++;
    settings->operands.count--;
    TRY(options_check(used, command->bit, command->name));
    TRY(operands_check(command, settings->operands.count));
    if (settings->log)
        setenv("PHASOR_LOG", settings->log, 1); /* the library reads its level there */
    return command->function(settings);
}

static int settings_run(struct settings *settings, uint64_t used)
{
    if (settings->version) {
        printf("phasor %s\ngenerator %s\n", phasor_version(), phasor_generator());
        return PHASOR_OK;
    }
    if (settings->operands.count > 0)
        return command_run(settings, used);
    help_print(settings->help ? stdout : stderr);
    return settings->help ? PHASOR_OK : PHASOR_ERROR_USAGE;
}

static int line_run(int argc, char **argv)
{
    struct settings settings;
    uint64_t used;
    int status = options_read(argc, argv, &settings, &used);
    const char **operands = settings.operands.at; /* settings_run moves on in them */
    if (status == PHASOR_OK)
        status = settings_run(&settings, used);
    free(operands);
    free(settings.dims.at);
    return status;
}

/* Nothing half done needs care: the cache stores in transactions, files are replaced when they are
 * whole. */
static void interrupted(int signal_number)
{
    (void)signal_number;
    static const char message[] = "phasor: interrupted\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0)
        _exit(PHASOR_ERROR_INTERRUPTED);
    _exit(PHASOR_ERROR_INTERRUPTED);
}

/* What prewarm starts to compile for it: no command for people, so no help names it. */
static bool is_compile_server(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "--compile-server") == 0;
}

int main(int argc, char **argv)
{
    if (is_compile_server(argc, argv))
        return report_library(phasor_compile_serve());
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    signal(SIGXFSZ, SIG_IGN); /* a limit on sizes is an error of the write: EFBIG */
    const int status = line_run(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == PHASOR_OK)
        return report_failure(PHASOR_ERROR_FILE, "cannot write to standard output");
    return status;
}
