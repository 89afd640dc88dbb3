/* leak_options.h - how the leak check of the address sanitizer runs in tests that load and unload
 * shared libraries.
 *
 * gcc 12's check guesses where the loader has allocated thread-local memory of such libraries and
 * now and then reads where nothing is ("Tracer caught signal 11"). So that memory is not looked
 * through; the loader's own tables and messages, which only it points to, are then taken for leaks,
 * and so is what libcrypto (of Criterion's libraries) and keys of NVRTC keep for a thread. */
#pragma once

#if defined(__SANITIZE_ADDRESS__)
__attribute__((weak, visibility("default"))) const char *__lsan_default_options(void);
__attribute__((weak, visibility("default"))) const char *__lsan_default_suppressions(void);

__attribute__((weak, visibility("default"))) const char *__lsan_default_options(void)
{
    return "use_tls=0:print_suppressions=0";
}

__attribute__((weak, visibility("default"))) const char *__lsan_default_suppressions(void)
{
    return "leak:_dl_resize_dtv\nleak:_dl_add_to_slotinfo\nleak:tls_get_addr_tail\n"
           "leak:_dl_update_slotinfo\nleak:libcrypto.so\nleak:_dl_map_object_deps\n"
           "leak:pthread_setspecific\nleak:_dlerror_run\nleak:vasprintf\n";
}
#endif
