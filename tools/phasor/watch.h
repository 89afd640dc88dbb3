/* watch.h - phasor run --watch: runs again when one of its files changes.
 *
 *     run rope.phasor --watch, and someone saves rope.phasor
 *         ->  another run, and what it changed: output_0: the same bits; first call 3.1 ms, ...
 */
#pragma once
#include "command.h"

/* Returns only when the first run shows that no edit would help; Ctrl-C ends it with exit code 9.
 */
int watch_command(const struct settings *settings);
