/* host_state.h - what a kernel that was compiled as C++ is told by the one who runs it. Included by
 * C and by C++, so it includes nothing: kernels define names like int64_t themselves. */
#pragma once

struct host_state {
    unsigned blocks, threads;     /* gridDim.x, blockDim.x */
    unsigned block, thread;       /* blockIdx.x, threadIdx.x of the thread that runs now */
    unsigned long long *exchange; /* a word for each thread of the block, for shuffles */
    /* Each returns when all threads of the block, or of the warp, have called it. */
    void (*wait_block)(struct host_state *);
    void (*wait_warp)(struct host_state *);
};

/* One thread of a kernel; and the size of its argument. */
typedef void host_kernel(const void *arguments, struct host_state *state);
typedef unsigned long host_kernel_size(void);
