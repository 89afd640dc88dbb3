/* cubin.h - what a cubin says of a kernel in it: read from the ELF file, no driver needed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct cubin_resources {
    int registers;    /* of a thread */
    int local_bytes;  /* of a thread: spilled registers and arrays */
    int shared_bytes; /* of a block, fixed */
};

/* false: no such kernel, or not a cubin. Reads inside nbytes, whatever the bytes are. */
bool cubin_resources(const void *cubin, size_t nbytes, const char *kernel,
                     struct cubin_resources *out);
