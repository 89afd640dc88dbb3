/* trace.c - calls a program twice and writes, for the calls alone, a line for each function of
 * libphasor.so that is entered or left: its thread and where it is in the library. For
 * tools/trace.sh.
 *
 *     trace PROGRAM INPUTS.safetensors LINES
 *
 *     > 1 5a3c0        < 1 5a3c0
 *
 * gcc calls the two functions __cyg_profile_... from code built with -finstrument-functions.
 */
#include <dlfcn.h>
#include <phasor.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 }; /* inputs, and outputs */
#define CHECK(call) ((call) == PHASOR_OK ? (void)0 : (puts(phasor_message()), exit(1)))

static _Atomic(FILE *) lines; /* NULL: nothing is written */
static atomic_int thread_count;
static _Thread_local int thread;

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static void trace(char direction, const void *function)
{
    Dl_info info;
    FILE *file = lines;
    if (!file || !dladdr(function, &info) || !strstr(info.dli_fname, "libphasor.so"))
        return;
    if (!thread)
        thread = ++thread_count;
    fprintf(file, "%c %d %tx\n", direction, thread, (char *)function - (char *)info.dli_fbase);
}

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    trace('>', function);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    trace('<', function);
}

int main(int argc, char **argv)
{
    phasor_runtime *runtime;
    phasor_program *program;
    phasor_tensors *tensors;
    phasor_value inputs[MOST] = {0}, outputs[MOST];
    FILE *file = argc == 4 ? fopen(argv[3], "w") : NULL;
    if (!file)
        return fputs("usage: trace PROGRAM INPUTS.safetensors LINES\n", stderr), 2;
    CHECK(phasor_open(&runtime, NULL));
    CHECK(phasor_program_load(runtime, argv[1], NULL, &program));
    CHECK(phasor_tensors_read(argv[2], &tensors));
    const int input_count = phasor_program_input_count(program);
    const int output_count = phasor_program_output_count(program);
    if (input_count > MOST || output_count > MOST)
        return fputs("more inputs or outputs than this program knows\n", stderr), 1;
    for (int i = 0; i < input_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "input_%d", i);
        phasor_tensors_find(tensors, name, &inputs[i]);
    }
    for (int call = 0; call < 2; call++) {
        lines = file;
        CHECK(phasor_run(program, NULL, inputs, input_count, outputs, output_count, NULL));
        lines = NULL;
        for (int i = 0; i < output_count; i++)
            if (outputs[i].kind == PHASOR_OWNED)
                outputs[i].owned->deleter(outputs[i].owned);
    }
    phasor_tensors_close(tensors);
    phasor_program_close(program);
    phasor_close(runtime); /* waits for its threads, which may be writing */
    return fclose(file) == 0 ? 0 : 1;
}
