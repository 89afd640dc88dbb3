/* replay.c - gives the files of folders to a target, one after the other: the corpus as a test.
 *
 *     fuzz_python corpus/python   ->  "fuzz_python: 57 inputs", exit 0; or the sanitizer's report
 */
#include "fuzz.h"

#include <dirent.h>

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t nbytes, size_t room)
{
    (void)bytes;
    (void)room;
    return nbytes; /* only the fuzzer calls for it */
}

static int file_replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    const long size = ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1);
    if (!bytes || size < 0 || fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
    return 1;
}

static int folder_replay(const char *folder)
{
    DIR *entries = opendir(folder);
    int count = 0;
    if (!entries)
        return file_replay(folder);
    for (const struct dirent *entry; (entry = readdir(entries));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        count += file_replay(path);
    }
    closedir(entries);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count += folder_replay(argv[i]);
    printf("%s: %d inputs\n", argv[0], count);
    return count == 0; /* a corpus that is gone tests nothing */
}
