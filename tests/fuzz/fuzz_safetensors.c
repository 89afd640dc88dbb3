/* fuzz_safetensors.c - files of tensors.
 *
 * The mutator changes the header and sets the length before it right, so that the JSON is reached.
 * All bytes of all tensors of a file that is accepted are read.
 */
#include "fuzz.h"

#include "load/safetensors.h"

enum { LENGTH_SIZE = 8 };
static volatile unsigned sum; /* keeps the reads */

static void tensor_touch(const DLTensor *t)
{
    EXPECT(t->ndim >= 0 && t->ndim <= 16);
    uint64_t nbytes = (uint64_t)t->dtype.bits * t->dtype.lanes / 8;
    for (int axis = 0; axis < t->ndim; axis++)
        nbytes = t->shape[axis] == 0 ? 0 : nbytes * (uint64_t)t->shape[axis];
    for (int axis = 0; axis < t->ndim; axis++)
        if (t->shape[axis] == 0)
            nbytes = 0;
    for (uint64_t i = 0; i < nbytes; i++)
        sum += ((const uint8_t *)t->data)[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct tensors_file *file;
    char *copy = malloc(nbytes ? nbytes : 1);
    EXPECT(copy);
    if (nbytes)
        memcpy(copy, bytes, nbytes);
    const phasor_status status = tensors_read_memory(copy, nbytes, "t", &file);
    free(copy); /* the reader has copied what it keeps */
    expect_file_status(status);
    for (int i = 0; status == PHASOR_OK && i < tensors_count(file); i++) {
        phasor_value v;
        EXPECT(tensors_find(file, tensors_name(file, i), &v));
        if (v.kind == PHASOR_TENSOR)
            tensor_touch(v.tensor);
    }
    if (status == PHASOR_OK)
        EXPECT(!tensors_name(file, tensors_count(file)));
    tensors_close(file);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t room, unsigned seed)
{
    uint64_t length = 0;
    if (nbytes < LENGTH_SIZE || room < LENGTH_SIZE || seed % 8 == 0)
        return LLVMFuzzerMutate(bytes, nbytes, room);
    memcpy(&length, bytes, LENGTH_SIZE);
    if (length > nbytes - LENGTH_SIZE)
        length = nbytes - LENGTH_SIZE;
    const size_t data = nbytes - LENGTH_SIZE - length, most = room - LENGTH_SIZE;
    uint8_t *header = malloc(most ? most : 1);
    if (!header || data > most) {
        free(header);
        return nbytes;
    }
    memcpy(header, bytes + LENGTH_SIZE, length);
    const size_t changed = LLVMFuzzerMutate(header, length, most - data);
    memmove(bytes + LENGTH_SIZE + changed, bytes + LENGTH_SIZE + length, data);
    memcpy(bytes + LENGTH_SIZE, header, changed);
    memcpy(bytes, &(uint64_t){changed}, LENGTH_SIZE);
    free(header);
    return LENGTH_SIZE + changed + data;
}
