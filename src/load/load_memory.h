/* load_memory.h - the memory of weights: one block for each storage, aligned to 64 bytes, freed
 * with the program. */
#pragma once
#include "load/load.h"

/* A storage of nbytes, zeroed, with an id of its own; *bytes is to be filled. */
phasor_status storage_new(struct loaded_program *program, uint64_t nbytes, void **bytes,
                          struct storage **out);
