/* stand_in.h - what the stand-ins for NVRTC and the CUDA driver share, and what tests may ask them.
 *
 * PHASOR_NVRTC=.../libphasor_stand_in_nvrtc.so PHASOR_DRIVER=.../libphasor_stand_in_driver.so: the
 * whole runtime runs without a GPU. The stand-in NVRTC compiles a source as C++ (host_run.h); its
 * cubin is a shared object with a struct stand_in_trailer behind it, and the stand-in driver runs
 * the kernels of that on the CPU, in the call itself.
 *
 * Environment:
 *   PHASOR_STAND_IN_ARCHS=sm_90,sm_80            the devices; one sm_90 by default; "none" for none
 *   PHASOR_STAND_IN_MEMORY=1000000               bytes that a device has
 *   PHASOR_STAND_IN_FAIL=cuLaunchKernel=719,...  functions (symbols with their version) that fail,
 *                                                and how; *=719: all that need a context, as after
 *                                                a fault of the device
 *   PHASOR_STAND_IN_NVRTC_FAIL=nvrtcCompileProgram=6,nvrtcCreateProgram=null,...
 *                                                the same for NVRTC; null: success, and no program;
 *                                                empty: success, and a cubin of no bytes
 *   PHASOR_STAND_IN_NVRTC_DIE=TEXT               NVRTC kills its process at a source with this text
 *   PHASOR_STAND_IN_NVRTC_REFUSE=TEXT            ... or refuses that source
 *   PHASOR_STAND_IN_NVRTC_VERSION=12.4           what NVRTC says it is; 13.0 by default
 *   PHASOR_STAND_IN_KEEP=1                       a source is compiled once in a process
 */
#pragma once

#include <stdint.h>

/* In the padding of the ELF header, where a loader wants zeros, so that no other image is taken for
 * a stand-in's. */
#define STAND_IN_MARK "STANDIN"
enum { STAND_IN_MARK_AT = 9, STAND_IN_MARK_SIZE = 7 };

struct stand_in_trailer {
    char arch[16];   /* "sm_90" */
    uint64_t nbytes; /* of the shared object before it */
};

/* Functions of libphasor_stand_in_driver.so, found with dlsym. All count since the start of the
 * process. */
typedef long stand_in_count(void);
/* stand_in_launches      kernels run
 * stand_in_allocations   device allocations that are not freed
 * stand_in_corruptions   guard bytes found overwritten when memory was freed
 * stand_in_misuses       dead streams, wrong contexts, unknown pointers, calls that break a capture
 * stand_in_modules       modules that are loaded
 * stand_in_contexts      uses of primary contexts that are not given back */
