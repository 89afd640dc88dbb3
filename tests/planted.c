/* planted.c - a program with one planted fault, for the tests of the sanitizer presets.
 *
 *     planted leak   ->   under asan: "LeakSanitizer", exit code not 0
 *     planted none   ->   exit code 0
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the compiler cannot see through, so that it keeps the faults. */
static void *volatile hidden;
static volatile int number = INT_MAX;
static int shared;

static int fault_overflow(void)
{
    hidden = malloc(16);
    if (hidden)
        ((char *)hidden)[number - INT_MAX + 16] = 1;
    free(hidden);
    return 0;
}

static int fault_leak(void)
{
    hidden = malloc(16);
    hidden = NULL;
    return 0;
}

static int fault_undefined(void)
{
    int sum = number;
    sum += 1;
    return sum > 0;
}

static void *count_up(void *context)
{
    for (int i = 0; i < 1000; i++)
        shared++;
    return context;
}

static int fault_race(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, count_up, NULL) != 0)
        return 2;
    count_up(NULL);
    return pthread_join(thread, NULL);
}

static int fault_none(void)
{
    return 0;
}

static const struct fault {
    const char *name;
    int (*function)(void);
} faults[] = {{"overflow", fault_overflow},
              {"leak", fault_leak},
              {"undefined", fault_undefined},
              {"race", fault_race},
              {"none", fault_none}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof faults / sizeof *faults; i++)
        if (strcmp(argv[1], faults[i].name) == 0)
            return faults[i].function();
    fprintf(stderr, "usage: planted overflow|leak|undefined|race|none\n");
    return 2;
}
