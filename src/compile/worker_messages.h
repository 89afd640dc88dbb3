/* worker_messages.h - the fields of the messages between workers.c and worker_serve.c. */
#pragma once
#include "phasor.h"

/* Sent by a worker when it has started: a phasor_status, then texts. */
enum { HELLO_STATUS, HELLO_MESSAGE, HELLO_VERSION, HELLO_PATH, HELLO_ARCHS, HELLO_FIELDS };

/* To a worker: texts. */
enum { QUESTION_NAME, QUESTION_SOURCE, QUESTION_ARCH, QUESTION_PTX, QUESTION_FIELDS };

/* Back: struct worker_answer, a text, bytes, a text. */
enum { ANSWER_HEAD, ANSWER_MESSAGE, ANSWER_CUBIN, ANSWER_PTX, ANSWER_FIELDS };
struct worker_answer {
    phasor_status status;
    bool has_ptx;
    double milliseconds;
};
