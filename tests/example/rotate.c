/* rotate.c - runs a program with float32 or bfloat16 tensors on ones: ./rotate rope.pt2 */
#include <phasor.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) ((call) == PHASOR_OK ? (void)0 : (puts(phasor_message()), exit(1)))
enum { MOST = 8 };

static void *ones(DLDataType type, int64_t count)
{
    uint32_t *data = malloc(4 * (size_t)count + 4);
    for (int64_t i = 0; data && i < count; i++) /* a bfloat16 is the upper half of a float32 */
        data[i] = type.bits == 32 ? 0x3f800000 : 0x3f803f80;
    return data;
}

int main(int argc, char **argv)
{
    phasor_runtime *runtime;
    phasor_program *program;
    phasor_value inputs[MOST], outputs[MOST];
    DLTensor tensors[MOST] = {0};
    int64_t shapes[MOST][MOST];
    CHECK(phasor_open(&runtime, NULL)); /* the first GPU; the CPU where there is none */
    CHECK(phasor_program_load(runtime, argv[argc - 1], NULL, &program));
    const int input_count = phasor_program_input_count(program);
    const int output_count = phasor_program_output_count(program);
    if (input_count > MOST || output_count > MOST)
        return 1;
    for (int i = 0; i < input_count; i++) {
        phasor_spec spec;
        int64_t count = 1;
        CHECK(phasor_program_input(program, i, &spec));
        for (int d = 0; d < spec.rank && d < MOST; d++)
            count *= shapes[i][d] = spec.dims[d].example;
        tensors[i] = (DLTensor){.data = ones(spec.dtype, count), .device = {kDLCPU, 0}, .ndim = spec.rank,
                                .dtype = spec.dtype, .shape = shapes[i]};
        inputs[i] = (phasor_value){.kind = PHASOR_TENSOR, .tensor = &tensors[i]};
    }
    CHECK(phasor_run(program, NULL, inputs, input_count, outputs, output_count, NULL));
    for (int i = 0; i < output_count; i++) {
        const DLTensor *tensor = &outputs[i].owned->dl_tensor;
        printf("output %d on %s:", i, phasor_device_name(runtime));
        for (int d = 0; d < tensor->ndim; d++)
            printf(" %lld", (long long)tensor->shape[d]);
        puts(tensor->dtype.code == kDLBfloat ? " bfloat16" : " float32");
        outputs[i].owned->deleter(outputs[i].owned);
    }
    for (int i = 0; i < input_count; i++)
        free(tensors[i].data);
    phasor_program_close(program);
    phasor_close(runtime);
    return 0;
}
