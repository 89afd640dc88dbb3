/* embed.c - turns text files into one C table: embed OUT.c NAME FILE...
 *
 *     const struct embedded_file { const char *name, *text; } NAME[] = {{"map.cu", "..."}, {0}};
 *
 * The text is written as bytes, so that no file is too long for a string literal. */
#include <stdio.h>
#include <string.h>

static int embed(FILE *out, int index, const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in) {
        perror(path);
        return 1;
    }
    fprintf(out, "static const char file_%d[] = {", index);
    for (int c, n = 0; (c = getc(in)) != EOF; n++)
        fprintf(out, "%s%d,", n % 24 ? "" : "\n    ", c);
    fprintf(out, "\n    0};\n");
    return fclose(in);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: embed OUT.c NAME FILE...\n");
        return 2;
    }
    FILE *out = fopen(argv[1], "w");
    if (!out) {
        perror(argv[1]);
        return 1;
    }
    int failed = 0;
    for (int i = 3; i < argc; i++)
        failed |= embed(out, i, argv[i]);
    fprintf(out, "struct embedded_file {\n    const char *name, *text;\n};\n");
    fprintf(out, "extern const struct embedded_file %s[];\nconst struct embedded_file %s[] = {\n",
            argv[2], argv[2]);
    for (int i = 3; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/');
        fprintf(out, "    {\"%s\", file_%d},\n", slash ? slash + 1 : argv[i], i);
    }
    fprintf(out, "    {0, 0}};\n");
    return fclose(out) != 0 || failed;
}
