/* leak.h - the last line of a test body: under the address sanitizer, fails the test when memory
 * was leaked.
 *
 * Criterion runs each test in a child that ends without the sanitizer's own check. */
#pragma once
#include "support/leak_options.h"

#include <criterion/criterion.h>

#if defined(__SANITIZE_ADDRESS__)
int __lsan_do_recoverable_leak_check(void);
#define ASSERT_NO_LEAKS() \
    cr_assert_eq(__lsan_do_recoverable_leak_check(), 0, "the test leaks memory (the list is above)")
#else
#define ASSERT_NO_LEAKS() ((void)0)
#endif
