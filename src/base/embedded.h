/* embedded.h - files that the build puts into the program (tools/embed.c). The table ends with a
 * NULL name. */
#pragma once

struct embedded_file {
    const char *name, *text;
};
