/* channel.h - messages of several fields over a socket between two processes of Phasor.
 *
 *     {"mul.cu", source, "sm_90"}  ->  count, length, bytes, length, bytes ...  ->  the same fields
 *
 * Both ends are the same build on the same machine; the other one may die in the middle.
 */
#pragma once
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { CHANNEL_FIELDS_MOST = 8 };

struct channel_field {
    void *bytes; /* received: with a NUL behind them, freed by channel_free */
    size_t size;
};

/* false: the other end is gone, or what came is no message. */
bool channel_send(int socket, const struct channel_field *fields, int count);
/* Just this many fields. */
bool channel_receive(int socket, struct channel_field *fields, int count);
void channel_free(struct channel_field *fields, int count);

struct channel_field channel_text(const char *text);
