/* blocks.h - the blocks after a .phasor program; tests keep there what a pass must give.
 *
 *     phasor 1 "product"
 *     ...
 *     # >>> real                     ends the program (or the block before)
 *     phasor 1 "product"             the block "real", up to the next such line or the end
 *     ...
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The block of that name: *start points into the text, after the marking line. False: none. */
bool graph_block_find(const char *text, const char *name, const char **start, size_t *length);
/* The line that ends the program in the text: its first "# >>> ", or the NUL. */
const char *graph_block_first(const char *text);
