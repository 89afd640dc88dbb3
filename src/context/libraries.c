/* libraries.c - which vendor libraries a runtime has.
 *
 * They are looked for by the first program that could call one: opening cuBLASLt maps half a
 * gigabyte. A runtime that runs nothing only looks whether the file is there: what it plans is for
 * other machines.
 */
#include "context/program.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static phasor_status cublaslt_get(struct phasor_runtime *runtime)
{
    struct cublaslt_info info;
    struct device_scope scope;
    if (!runtime->device)
        return cublaslt_find(&info);
    TRY(device_enter(runtime->device, &scope));
    const phasor_status status = cublaslt_open(&runtime->cublaslt);
    device_leave(runtime->device, &scope);
    return status;
}

int runtime_libraries(struct phasor_runtime *runtime)
{
    phasor_status status = PHASOR_OK;
    pthread_mutex_lock(&lock);
    if (!runtime->libraries_known) {
        status = cublaslt_get(runtime);
        runtime->libraries = status == PHASOR_OK ? LIBRARY_CUBLASLT : 0;
    }
    runtime->libraries_known = true;
    const int libraries = runtime->libraries;
    pthread_mutex_unlock(&lock);
    if (status != PHASOR_OK) /* no lock is held while the caller's log function runs */
        log_line(LOG_INFO, "%s", message_get());
    return libraries;
}

bool runtime_has_tensor_cores(const struct phasor_runtime *runtime)
{
    return atoi(runtime->arch + strlen("sm_")) >= 80;
}

int program_libraries(const struct phasor_program *program)
{
    const struct graph *graph = program_real(program);
    for (value v = 1; v < graph->nodes.count; v++)
        if (graph_node(graph, v)->op == OP_dot)
            return runtime_libraries(program->runtime);
    return 0;
}
