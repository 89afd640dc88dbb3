/* rotate.c - runs a program on the inputs of a file: ./rotate rope.pt2 inputs.safetensors */
#include <phasor.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 16 }; /* inputs, and outputs */
#define CHECK(call) ((call) == PHASOR_OK ? (void)0 : (puts(phasor_message()), exit(1)))

int main(int argc, char **argv)
{
    phasor_runtime *runtime;
    phasor_program *program;
    phasor_tensors *file;
    phasor_value inputs[MOST] = {0}, outputs[MOST];
    if (argc != 3)
        return fprintf(stderr, "usage: rotate PROGRAM INPUTS.safetensors\n"), 2;
    CHECK(phasor_open(&runtime, NULL)); /* the first GPU; the CPU where there is none */
    CHECK(phasor_program_load(runtime, argv[1], NULL, &program));
    CHECK(phasor_tensors_read(argv[2], &file));
    const int input_count = phasor_program_input_count(program);
    const int output_count = phasor_program_output_count(program);
    if (input_count > MOST || output_count > MOST)
        return fprintf(stderr, "%s: more than %d inputs or outputs\n", argv[1], MOST), 1;
    for (int i = 0; i < input_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "input_%d", i);
        phasor_tensors_find(file, name, &inputs[i]);
    }
    CHECK(phasor_run(program, NULL, inputs, input_count, outputs, output_count, NULL));
    for (int i = 0; i < output_count; i++) {
        if (outputs[i].kind != PHASOR_OWNED) { /* None, a number or a string */
            printf("output %d is no tensor\n", i);
            continue;
        }
        const DLTensor *tensor = &outputs[i].owned->dl_tensor;
        printf("output %d on %s:", i, phasor_device_name(runtime));
        for (int d = 0; d < tensor->ndim; d++)
            printf(" %lld", (long long)tensor->shape[d]);
        puts("");
        outputs[i].owned->deleter(outputs[i].owned);
    }
    phasor_tensors_close(file);
    phasor_program_close(program);
    phasor_close(runtime);
}
