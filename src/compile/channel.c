/* channel.c - see channel.h. */
#include "compile/channel.h"

#include "base/memory.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* A cubin and a source are far below; a length beyond is no length. */
static const uint64_t field_most = UINT64_C(1) << 30;

/* -- bytes ------------------------------------------------------------------------------------- */

/* MSG_NOSIGNAL: the death of the other end must not be a signal for this one. */
static bool bytes_send(int socket, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        const ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool bytes_receive(int socket, void *bytes, size_t size)
{
    char *at = bytes;
    while (size > 0) {
        const ssize_t received = recv(socket, at, size, 0);
        if (received < 0 && errno == EINTR)
            continue;
        if (received <= 0)
            return false;
        at += received;
        size -= (size_t)received;
    }
    return true;
}

/* -- messages ---------------------------------------------------------------------------------- */

bool channel_send(int socket, const struct channel_field *fields, int count)
{
    const uint64_t number = (uint64_t)count;
    bool ok = bytes_send(socket, &number, sizeof number);
    for (int i = 0; ok && i < count; i++) {
        const uint64_t size = fields[i].size;
        ok = bytes_send(socket, &size, sizeof size) &&
             bytes_send(socket, fields[i].bytes, fields[i].size);
    }
    return ok;
}

static bool field_receive(int socket, struct channel_field *field)
{
    uint64_t size;
    if (!bytes_receive(socket, &size, sizeof size) || size > field_most)
        return false;
    field->size = (size_t)size;
    field->bytes = memory_new(field->size + 1);
    return field->bytes && bytes_receive(socket, field->bytes, field->size);
}

bool channel_receive(int socket, struct channel_field *fields, int count)
{
    uint64_t number;
    memset(fields, 0, (size_t)count * sizeof *fields);
    bool ok = bytes_receive(socket, &number, sizeof number) && number == (uint64_t)count;
    for (int i = 0; ok && i < count; i++)
        ok = field_receive(socket, &fields[i]);
    if (!ok)
        channel_free(fields, count);
    return ok;
}

void channel_free(struct channel_field *fields, int count)
{
    for (int i = 0; i < count; i++) {
        memory_free(fields[i].bytes);
        fields[i] = (struct channel_field){0};
    }
}

struct channel_field channel_text(const char *text)
{
    return (struct channel_field){(char *)text, strlen(text)};
}
