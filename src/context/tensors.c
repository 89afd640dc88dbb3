/* tensors.c - the public functions for .safetensors files; load/safetensors.h does the work. */
#include "load/safetensors.h"

#include "base/status.h"

static struct tensors_file *file_of(const phasor_tensors *tensors)
{
    return (struct tensors_file *)(void *)tensors;
}

phasor_status phasor_tensors_read(const char *path, phasor_tensors **out)
{
    struct tensors_file *file = NULL;
    NOT_NULL(out);
    *out = NULL;
    NOT_NULL(path);
    TRY(tensors_read(path, &file));
    *out = (phasor_tensors *)(void *)file;
    return PHASOR_OK;
}

void phasor_tensors_close(phasor_tensors *tensors)
{
    tensors_close(file_of(tensors));
}

int phasor_tensors_count(const phasor_tensors *tensors)
{
    return !tensors ? 0 : tensors_count(file_of(tensors));
}

const char *phasor_tensors_name(const phasor_tensors *tensors, int index)
{
    return !tensors ? NULL : tensors_name(file_of(tensors), index);
}

bool phasor_tensors_find(const phasor_tensors *tensors, const char *name, phasor_value *out)
{
    return tensors && name && out && tensors_find(file_of(tensors), name, out);
}

phasor_status phasor_tensors_write(const char *path, const char *const *names,
                                   const phasor_value *values, int count)
{
    NOT_NULL(path);
    if (count < 0)
        return fail(PHASOR_ERROR_USAGE, "%d tensors; the number cannot be negative", count);
    if (count > 0) {
        NOT_NULL(names);
        NOT_NULL(values);
    }
    for (int i = 0; i < count; i++)
        NOT_NULL(names[i]);
    return tensors_write(path, names, values, count);
}
