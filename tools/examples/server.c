/* server.c - an example: a server whose requests have lengths that nobody knows beforehand.
 *
 *     $ phasor_example_server rope.pt2 --dim q.1 --lengths 1:4096 --threads 8
 *     17                                            <- a request on standard input
 *     17: 39608.4 us, checksum 7ac8ddde36779cb3     -> its answer
 *     $ phasor_example_server rope.pt2 --dim q.1 --lengths 1:4096 --threads 8 --load 1000
 *                                                   -> answers 1000 random ones, and times them
 *
 * One runtime and one program serve all threads. Each thread has inputs, outputs and a state of its
 * own; it takes a request, runs, answers, takes the next. A real server would read the inputs from
 * the request: here they are random numbers, the same for everyone, so that answers of one length
 * must be equal. */
#include "server.h"

#include <getopt.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

void *memory_need(size_t count, size_t size)
{
    void *block = calloc(count ? count : 1, size ? size : 1);
    if (!block)
        exit((fputs("server: out of memory\n", stderr), 1));
    return block;
}

void threads_run(int threads, void *(*work)(void *), void *context)
{
    pthread_t *ids = memory_need((size_t)threads, sizeof *ids);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, context) != 0)
            exit((fprintf(stderr, "server: no thread number %d\n", i + 1), 1));
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    free(ids);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static size_t tensor_bytes(const DLTensor *tensor)
{
    size_t nbytes = tensor->dtype.bits / 8;
    for (int i = 0; i < tensor->ndim; i++)
        nbytes *= (size_t)tensor->shape[i];
    return nbytes;
}

/* -- inputs ------------------------------------------------------------------------------------ */

/* A float in (-1, -0.5] or [0.5, 1): random sign and fraction beside a fixed exponent. */
static uint64_t random_float(uint64_t random, int bits, bool is_bf16)
{
    switch (bits) {
    case 16: return is_bf16 ? 0x3f00 | (random & 0x807f) : 0x3800 | (random & 0x83ff);
    case 32: return 0x3f000000 | (random & 0x807fffff);
    default: return 0x3fe0000000000000 | (random & 0x800fffffffffffff);
    }
}

/* Integers and bools become 0 or 1: as indices they are right for any table. */
static void tensor_fill(const DLTensor *tensor)
{
    const int code = tensor->dtype.code;
    const bool is_float = code == kDLFloat || code == kDLBfloat || code == kDLComplex;
    const int bits = code == kDLComplex ? tensor->dtype.bits / 2 : tensor->dtype.bits;
    const size_t step = (size_t)bits / 8, nbytes = tensor_bytes(tensor);
    uint64_t random = 0x9e3779b97f4a7c15;
    for (size_t at = 0; at < nbytes; at += step) {
        random = random * 6364136223846793005 + 1442695040888963407;
        const uint64_t high = random >> 32, mixed = random ^ high;
        const uint64_t part = is_float ? random_float(mixed, bits, code == kDLBfloat) : high >> 31;
        memcpy((char *)tensor->data + at, &part, step); /* little-endian */
    }
}

/* Shapes for this length. Only the shapes: what the tensors hold stays where it is. */
static phasor_status worker_shape(struct worker *worker, int64_t length)
{
    const struct server *server = worker->server;
    const phasor_binding binding = {server->dim, length};
    const phasor_status status =
        phasor_program_sizes(server->program, &binding, 1, worker->dims, DIMS_MAX);
    int64_t *dims = worker->dims;
    for (int i = 0; status == PHASOR_OK && i < server->inputs; i++) {
        worker->tensors[i].shape = dims;
        if (worker->inputs[i].kind == PHASOR_TENSOR)
            dims += worker->tensors[i].ndim;
        else if (worker->inputs[i].kind == PHASOR_INT)
            worker->inputs[i].integer = *dims++;
    }
    return status;
}

void worker_open(struct worker *worker, const struct server *server)
{
    *worker = (struct worker){.server = server};
    for (int i = 0; i < server->inputs; i++) {
        phasor_spec spec = {.size = sizeof spec};
        CHECK(phasor_program_input(server->program, i, &spec));
        worker->inputs[i] = spec.constant ? *spec.constant : (phasor_value){.kind = spec.kind};
        worker->tensors[i] =
            (DLTensor){.device = {kDLCPU, 0}, .dtype = spec.dtype, .ndim = spec.rank};
        if (spec.kind == PHASOR_TENSOR)
            worker->inputs[i].tensor = &worker->tensors[i];
    }
    CHECK(worker_shape(worker, server->longest));
    for (int i = 0; i < server->inputs; i++)
        if (worker->inputs[i].kind == PHASOR_TENSOR) {
            worker->tensors[i].data = memory_need(tensor_bytes(&worker->tensors[i]), 1);
            tensor_fill(&worker->tensors[i]);
        }
    CHECK(phasor_state_new(server->program, &worker->state));
}

void worker_close(struct worker *worker)
{
    for (int i = 0; i < worker->server->inputs; i++)
        free(worker->tensors[i].data);
    free(worker->result);
    phasor_state_free(worker->state);
}

/* -- answers ----------------------------------------------------------------------------------- */

static uint64_t checksum_add(uint64_t checksum, const char *bytes, size_t nbytes)
{
    for (uint64_t word = 0; nbytes > 0; word = 0) {
        const size_t step = nbytes < sizeof word ? nbytes : sizeof word;
        memcpy(&word, bytes, step);
        checksum = (checksum ^ word) * 0x9e3779b97f4a7c15;
        checksum ^= checksum >> 32;
        bytes += step;
        nbytes -= step;
    }
    return checksum;
}

/* Brings a result to the host, from where a real server would send it. */
static phasor_status result_read(struct worker *worker, const DLTensor *tensor, uint64_t *checksum)
{
    const size_t nbytes = tensor_bytes(tensor);
    if (nbytes > worker->room) {
        free(worker->result);
        worker->result = memory_need(nbytes, 1);
        worker->room = nbytes;
    }
    const phasor_status status =
        phasor_copy_to_host(worker->server->runtime, tensor, worker->result, nbytes);
    if (status == PHASOR_OK)
        *checksum = checksum_add(*checksum, worker->result, nbytes);
    return status;
}

phasor_status worker_answer(struct worker *worker, int64_t length, struct answer *out)
{
    const struct server *server = worker->server;
    phasor_status status = worker_shape(worker, length);
    if (status != PHASOR_OK)
        return status;
    const double start = now();
    status = phasor_run(server->program, worker->state, worker->inputs, server->inputs,
                        worker->outputs, server->outputs, NULL);
    if (status != PHASOR_OK)
        return status;
    out->call = now() - start;
    out->checksum = 1;
    for (int i = 0; i < server->outputs; i++) {
        if (worker->outputs[i].kind != PHASOR_OWNED)
            continue;
        DLManagedTensor *output = worker->outputs[i].owned;
        if (status == PHASOR_OK)
            status = result_read(worker, &output->dl_tensor, &out->checksum);
        output->deleter(output);
    }
    out->whole = now() - start;
    out->checksum |= 1;
    return status;
}

/* One line, one request. All threads read from the same stream: getline locks it. */
static void *lines_serve(void *context)
{
    struct worker worker;
    struct answer answer;
    char *line = NULL;
    size_t room = 0;
    worker_open(&worker, context);
    while (getline(&line, &room, stdin) > 0) {
        const long long length = atoll(line);
        if (length < worker.server->shortest || length > worker.server->longest)
            printf("%lld: error: lengths are %lld to %lld\n", length,
                   (long long)worker.server->shortest, (long long)worker.server->longest);
        else if (worker_answer(&worker, length, &answer) != PHASOR_OK)
            printf("%lld: error: %s\n", length, phasor_message());
        else
            printf("%lld: %.1f us, checksum %016llx\n", length, answer.whole,
                   (unsigned long long)answer.checksum);
        fflush(stdout);
    }
    free(line);
    worker_close(&worker);
    return NULL;
}

/* -- the program ------------------------------------------------------------------------------- */

static void usage(void)
{
    fputs("usage: phasor_example_server PROGRAM --dim NAME [--lengths FROM:TO] [--threads N]\n"
          "       [--load REQUESTS] [--device cpu|cuda] [--mode exact|generic|auto]\n",
          stderr);
    exit(2);
}

static void options_read(int argc, char **argv, struct server *server, phasor_options *options,
                         long long *load, int *threads)
{
    static const struct option names[] = {
        {"dim", 1, NULL, 'd'},  {"lengths", 1, NULL, 'l'}, {"threads", 1, NULL, 't'},
        {"load", 1, NULL, 'n'}, {"device", 1, NULL, 'e'},  {"mode", 1, NULL, 'm'},
        {NULL, 0, NULL, 0},
    };
    long long from = 1, to = 256;
    for (int name; (name = getopt_long(argc, argv, "", names, NULL)) != -1;)
        switch (name) {
        case 'd': server->dim = optarg; break;
        case 'l': sscanf(optarg, "%lld:%lld", &from, &to) == 2 ? (void)0 : usage(); break;
        case 't': *threads = atoi(optarg); break;
        case 'n': *load = atoll(optarg); break;
        case 'e':
            options->device = strcmp(optarg, "cpu") ? PHASOR_DEVICE_CUDA : PHASOR_DEVICE_CPU;
            break;
        case 'm':
            options->mode = *optarg == 'e'   ? PHASOR_MODE_EXACT
                            : *optarg == 'g' ? PHASOR_MODE_GENERIC
                                             : PHASOR_MODE_AUTO;
            break;
        default: usage();
        }
    if (optind + 1 != argc || !server->dim || from < 0 || to < from || *threads < 1 || *load < 0)
        usage();
    server->shortest = from;
    server->longest = to;
}

int main(int argc, char **argv)
{
    struct server server = {0};
    phasor_options options = {.size = sizeof options};
    long long load = 0;
    int threads = 4;
    bool good = true;
    options_read(argc, argv, &server, &options, &load, &threads);
    CHECK(phasor_open(&server.runtime, &options));
    CHECK(phasor_program_load(server.runtime, argv[optind], NULL, &server.program));
    server.inputs = phasor_program_input_count(server.program);
    server.outputs = phasor_program_output_count(server.program);
    if (server.inputs > SLOTS_MAX || server.outputs > SLOTS_MAX)
        exit((fprintf(stderr, "server: more than %d inputs or outputs\n", SLOTS_MAX), 1));
    if (load > 0)
        good = load_run(&server, load, threads);
    else
        threads_run(threads, lines_serve, &server);
    phasor_program_close(server.program);
    phasor_close(server.runtime);
    return good ? 0 : 1;
}
