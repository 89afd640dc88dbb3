/* stamp.c - one hash of what a build is made of: stamp OUT.c FILE...
 *
 *     const char *phasor_generator(void)
 *     {
 *         return "3f0c...";
 *     }
 *
 * Over the contents alone, in the order of their own hashes: where the files lie, what they are
 * called, when they were written and who compiles them makes no difference. */
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hash_file(const char *path, char out[HASH_TEXT])
{
    static char bytes[1 << 22];
    FILE *in = fopen(path, "rb");
    if (!in) {
        perror(path);
        return 1;
    }
    const size_t nbytes = fread(bytes, 1, sizeof bytes, in);
    const int failed = ferror(in) || nbytes == sizeof bytes;
    if (failed)
        fprintf(stderr, "%s: cannot be read, or is too long\n", path);
    fclose(in);
    hash_text(hash_bytes(bytes, nbytes), out);
    return failed;
}

static int hash_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: stamp OUT.c FILE...\n");
        return 2;
    }
    const size_t count = (size_t)argc - 2;
    char(*hashes)[HASH_TEXT] = calloc(count, sizeof *hashes), all[HASH_TEXT];
    int failed = !hashes;
    for (size_t i = 0; !failed && i < count; i++)
        failed = hash_file(argv[i + 2], hashes[i]);
    FILE *out = failed ? NULL : fopen(argv[1], "w");
    if (!out)
        return 1;
    qsort(hashes, count, sizeof *hashes, hash_compare);
    hash_text(hash_bytes(hashes, count * sizeof *hashes), all);
    free(hashes);
    fprintf(out, "#include \"phasor.h\"\n\nconst char *phasor_generator(void)\n{\n");
    fprintf(out, "    return \"%s\";\n}\n", all);
    return fclose(out) != 0;
}
