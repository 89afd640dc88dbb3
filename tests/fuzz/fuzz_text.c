/* fuzz_text.c - .phasor text, with the file of tensors beside it.
 *
 *     phasor 1 "name"     the text, up to a NUL
 *     ...
 *     \0 bytes            beside.safetensors; without them there is no such file
 *
 * What is read passes the verifier, and prints a text that reads and prints the same.
 */
#include "fuzz.h"

#include "load/load.h"

#include <unistd.h>

static char folder[] = "/tmp/phasor-fuzz-text-XXXXXX", program[64], tensors[64];

static void folder_remove(void)
{
    unlink(program);
    unlink(tensors);
    rmdir(folder);
}

static void folder_make(void)
{
    if (program[0])
        return;
    EXPECT(mkdtemp(folder));
    snprintf(program, sizeof program, "%s/p.phasor", folder);
    snprintf(tensors, sizeof tensors, "%s/p.safetensors", folder);
    atexit(folder_remove);
}

static void file_write(const char *path, const void *bytes, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    EXPECT(file && fwrite(bytes, 1, nbytes, file) == nbytes);
    fclose(file);
}

/* Data that is not inline keeps its names: the same file of tensors serves the second reading. */
static void print_again(struct loaded_program *first)
{
    struct loaded_program second;
    struct text text = {0}, again = {0};
    graph_print(&first->graph, &text);
    file_write(program, text_get(&text), text.length);
    EXPECT(load_text(program, &second) == PHASOR_OK);
    graph_print(&second.graph, &again);
    EXPECT(strcmp(text_get(&text), text_get(&again)) == 0);
    load_free(&second);
    text_free(&text);
    text_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct loaded_program p;
    const uint8_t *end = nbytes ? memchr(bytes, '\0', nbytes) : NULL;
    const size_t length = end ? (size_t)(end - bytes) : nbytes;
    folder_make();
    file_write(program, bytes, length);
    if (end)
        file_write(tensors, end + 1, nbytes - length - 1);
    else
        unlink(tensors);
    const phasor_status status = load_text(program, &p);
    expect_file_status(status);
    if (status == PHASOR_OK) {
        EXPECT(graph_verify(&p.graph) == PHASOR_OK);
        print_again(&p);
        load_free(&p);
    }
    return 0;
}
