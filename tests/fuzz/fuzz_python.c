/* fuzz_python.c - Python values of safetensors metadata: "4", "2.5", "'text'".
 *
 * What is understood is printed, and must be understood as the same again.
 */
#include "fuzz.h"

#include "load/safetensors.h"

static bool same(const phasor_value *a, const phasor_value *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case PHASOR_INT: return a->integer == b->integer;
    case PHASOR_FLOAT: return a->real == b->real || (a->real != a->real && b->real != b->real);
    case PHASOR_BOOL: return a->boolean == b->boolean;
    case PHASOR_STRING: return strcmp(a->string, b->string) == 0;
    default: return true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct arena arena = {0};
    struct text printed = {0};
    phasor_value value, again;
    char *text = text_copy(bytes, nbytes);
    if (python_parse(&arena, text, &value)) {
        python_print(&value, &printed);
        EXPECT(python_parse(&arena, text_get(&printed), &again));
        EXPECT(same(&value, &again));
    }
    free(text);
    text_free(&printed);
    arena_free(&arena);
    return 0;
}
