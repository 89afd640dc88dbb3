/* repeated.h - texts with very much of something.
 *
 *     repeated("[", "%d, ", 3, "9]")     "[0, 1, 2, 9]"; part is given the number and the next one
 */
#pragma once
#include "base/text.h"

#include <criterion/criterion.h>

/* Freed with memory_free. */
static inline char *repeated(const char *before, const char *part, int count, const char *after)
{
    struct text text = {0};
    text_add(&text, before);
    for (int i = 0; i < count; i++)
        text_format(&text, part, i, i + 1);
    text_add(&text, after);
    cr_assert_eq(text_status(&text), PHASOR_OK);
    return text.at;
}
