/* worker_serve.c - the inside of a worker: see workers.h.
 *
 *     a hello -> question -> compiler_run() -> answer -> question -> ... -> the socket is closed
 */
#include "base/memory.h"
#include "base/text.h"
#include "compile/channel.h"
#include "compile/worker_messages.h"
#include "compile/workers.h"

#include <string.h>

static void archs_print(const struct compiler *compiler, struct text *out)
{
    int count;
    const char *const *archs = compiler_archs(compiler, &count);
    for (int i = 0; i < count; i++)
        text_format(out, "%s\t%s\n", archs[i], compiler_options_text(compiler, archs[i]));
}

static bool hello_send(int socket, const struct compiler *compiler, phasor_status status)
{
    struct text archs = {0};
    if (compiler)
        archs_print(compiler, &archs);
    const struct channel_field fields[HELLO_FIELDS] = {
        [HELLO_STATUS] = {&status, sizeof status},
        [HELLO_MESSAGE] = channel_text(message_get()),
        [HELLO_VERSION] = channel_text(compiler ? compiler_version(compiler) : ""),
        [HELLO_PATH] = channel_text(compiler ? compiler_path(compiler) : ""),
        [HELLO_ARCHS] = channel_text(text_get(&archs))};
    const bool sent = !archs.failed && channel_send(socket, fields, HELLO_FIELDS);
    text_free(&archs);
    return sent;
}

static bool question_answer(int socket, struct compiler *compiler,
                            const struct channel_field question[QUESTION_FIELDS])
{
    struct compile_result result;
    const struct compile_request request = {.name = question[QUESTION_NAME].bytes,
                                            .source = question[QUESTION_SOURCE].bytes,
                                            .arch = question[QUESTION_ARCH].bytes,
                                            .want_ptx = question[QUESTION_PTX].size > 0};
    struct worker_answer head;
    memset(&head, 0, sizeof head); /* the padding is sent too */
    head.status = compiler_run(compiler, &request, &result);
    head.has_ptx = result.ptx != NULL;
    head.milliseconds = result.milliseconds;
    const struct channel_field fields[ANSWER_FIELDS] = {
        [ANSWER_HEAD] = {&head, sizeof head},
        [ANSWER_MESSAGE] = channel_text(head.status == PHASOR_OK ? "" : message_get()),
        [ANSWER_CUBIN] = {result.cubin, result.cubin_size},
        [ANSWER_PTX] = channel_text(result.ptx ? result.ptx : "")};
    const bool sent = channel_send(socket, fields, ANSWER_FIELDS);
    compile_result_free(&result);
    return sent;
}

phasor_status workers_serve(int socket)
{
    struct compiler *compiler;
    struct channel_field question[QUESTION_FIELDS];
    const phasor_status status = compiler_open(&compiler);
    if (!hello_send(socket, compiler, status)) {
        compiler_close(compiler);
        return fail(PHASOR_ERROR_COMPILE, "nobody is there to compile for");
    }
    if (status != PHASOR_OK) /* it was told why */
        return PHASOR_OK;
    for (bool going_on = true; going_on && channel_receive(socket, question, QUESTION_FIELDS);) {
        going_on = question_answer(socket, compiler, question);
        channel_free(question, QUESTION_FIELDS);
    }
    compiler_close(compiler);
    return PHASOR_OK;
}
