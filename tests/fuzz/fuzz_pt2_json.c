/* fuzz_pt2_json.c - the JSON of .pt2 files: the program and its tables of weights.
 *
 *     {"graph_module": ...} \0 {"config": ...} \0 {"config": ...}
 *         -> an archive with these as model.json and the tables of weights and constants, with
 *            weight_0 and constant_0 -> a verified graph
 */
#include "json_mutate.h"
#include "zip_write.h"

#include "load/load.h"

static const char nothing[] = "{\"config\":{}}";

static void archive_try(const char *model, const char *weights, const char *constants)
{
    static const uint8_t bytes[4096] = {1, 2, 3};
    const struct zip_part parts[] = {
        {"m/archive_format", "pt2", 3},
        {"m/archive_version", "0", 1},
        {"m/byteorder", "little", 6},
        {"m/data/weights/weight_0", bytes, sizeof bytes},
        {"m/data/constants/constant_0", bytes, 64},
        {"m/data/weights/model_weights_config.json", weights, strlen(weights)},
        {"m/data/constants/model_constants_config.json", constants, strlen(constants)},
        {"m/models/model.json", model, strlen(model)},
    };
    struct loaded_program p;
    struct text text = {0};
    struct zip_bytes zip = zip_write(parts, sizeof parts / sizeof *parts);
    const phasor_status status = load_pt2_memory(zip.at, zip.count, "m.pt2", NULL, &p);
    expect_file_status(status);
    if (status == PHASOR_OK) {
        EXPECT(graph_verify(&p.graph) == PHASOR_OK);
        graph_print(&p.graph, &text);
        load_free(&p);
    }
    text_free(&text);
    free(zip.at);
}

/* Where the k-th part starts; past the end: there is none. */
static size_t part_start(const uint8_t *bytes, size_t nbytes, int k)
{
    size_t at = 0;
    for (; k > 0 && at <= nbytes; k--) {
        const uint8_t *end = at < nbytes ? memchr(bytes + at, '\0', nbytes - at) : NULL;
        at = end ? (size_t)(end - bytes) + 1 : nbytes + 1;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    char *text = text_copy(bytes, nbytes);
    const size_t weights = part_start(bytes, nbytes, 1), constants = part_start(bytes, nbytes, 2);
    archive_try(text, weights <= nbytes ? text + weights : nothing,
                constants <= nbytes ? text + constants : nothing);
    free(text);
    return 0;
}

/* Changes one of the parts, most often the program. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t room, unsigned seed)
{
    const size_t start = part_start(bytes, nbytes, seed % 8 == 0 ? 1 + (int)(seed / 8 % 2) : 0);
    if (seed % 16 == 7 || start > nbytes)
        return LLVMFuzzerMutate(bytes, nbytes, room);
    const uint8_t *end = nbytes > start ? memchr(bytes + start, '\0', nbytes - start) : NULL;
    const size_t part = (end ? (size_t)(end - bytes) : nbytes) - start,
                 after = nbytes - start - part;
    uint8_t *rest = malloc(after ? after : 1);
    EXPECT(rest);
    memcpy(rest, bytes + start + part, after);
    size_t changed = json_mutate(bytes + start, part, room - start - after, seed);
    changed = changed ? changed : LLVMFuzzerMutate(bytes + start, part, room - start - after);
    memcpy(bytes + start + changed, rest, after);
    free(rest);
    return start + changed + after;
}
