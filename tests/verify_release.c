/* verify_release.c - verifiers as a release build has them: linked with the file that differs,
 * compiled without PHASOR_CHECKED. A fault is a status, and only where PHASOR_VERIFY=1 asks for it.
 *
 *     verify_release     ->   exit 0; what went wrong on stderr
 */
#include "base/verify.h"
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static phasor_status broken_graph_verify(void)
{
    struct arena arena = {0};
    struct sizes sizes = {0};
    struct graph graph = {0};
    phasor_status status = sizes_init(&sizes, &arena);
    if (status == PHASOR_OK)
        status = graph_init(&graph, &arena, &sizes, "broken");
    if (status == PHASOR_OK)
        status = graph_parse(&graph, "phasor 1 \"broken\"\ninput a: f32[4]\nb = exp(a)\noutput b\n",
                             "broken.phasor", NULL, NULL);
    if (status == PHASOR_OK) {
        graph.nodes.at[graph.outputs.at[0].node].dtype = DT_f64;
        status = graph_verify_after(&graph, "fold");
    }
    graph_free(&graph);
    sizes_free(&sizes);
    arena_free(&arena);
    return status;
}

int main(void)
{
    const char *expected =
        "after fold: broken: node b (exp): is f64[4], its operands make it f32[4]";
    unsetenv("PHASOR_VERIFY");
    if (broken_graph_verify() != PHASOR_OK)
        return fprintf(stderr, "verified though nobody asked: %s\n", message_get()), 1;
    setenv("PHASOR_VERIFY", "1", 1);
    const phasor_status status = broken_graph_verify();
    if (status != PHASOR_ERROR_FILE || strcmp(message_get(), expected) != 0)
        return fprintf(stderr, "status %d, \"%s\" for \"%s\"\n", (int)status, message_get(),
                       expected),
               1;
    return 0;
}
