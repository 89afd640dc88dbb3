/* child.h - what tests with other processes share.
 *
 *     in_child(serves)     0 when serves() gives 0 in a forked process; its status as wait() has it
 */
#pragma once
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline int in_child(int (*function)(void))
{
    const pid_t child = fork();
    if (child == 0)
        _exit(function());
    int status = 1;
    waitpid(child, &status, 0);
    return status;
}

static inline double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
