/* test_driver.c - the driver missing, without devices, or another library: what the user reads. */
#include "device/device.h"
#include "support/leak.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#ifdef PHASOR_CUDA

#define DRIVER PHASOR_TEST_LIBRARIES "/libphasor_stand_in_driver.so"

Test(driver, a_missing_driver)
{
    int count;
    setenv("PHASOR_DRIVER", "/nonexistent/libcuda.so.1", 1);
    cr_assert_eq(device_count(&count), PHASOR_ERROR_DEVICE);
    cr_assert_eq(count, 0);
    cr_assert(strstr(message_get(), "/nonexistent/libcuda.so.1"), "%s", message_get());
    cr_assert(strstr(message_get(), "correct PHASOR_DRIVER"), "%s", message_get());
    ASSERT_NO_LEAKS();
}

Test(driver, a_driver_without_devices)
{
    int count;
    setenv("PHASOR_DRIVER", DRIVER, 1);
    setenv("PHASOR_STAND_IN_ARCHS", "none", 1);
    cr_assert_eq(device_count(&count), PHASOR_ERROR_DEVICE);
    cr_assert(strstr(message_get(), "finds no device"), "%s", message_get());
    ASSERT_NO_LEAKS();
}

Test(driver, a_library_that_is_no_driver)
{
    int count;
    setenv("PHASOR_DRIVER", "libm.so.6", 1);
    cr_assert_eq(device_count(&count), PHASOR_ERROR_DEVICE);
    cr_assert(strstr(message_get(), "has no function cuInit"), "%s", message_get());
    ASSERT_NO_LEAKS();
}

#else

Test(driver, a_build_without_cuda_says_so)
{
    int count;
    cr_assert_eq(device_count(&count), PHASOR_ERROR_DEVICE);
    cr_assert(strstr(message_get(), "PHASOR_CUDA=OFF"), "%s", message_get());
    ASSERT_NO_LEAKS();
}

#endif
