/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: its environment, and its clocks. */
#include "os_posix.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const char *coffer__os_variable(const char *name)
{
    /* Safe as long as the program does not change its environment in another thread, which POSIX makes the
       program's duty. */
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
    return value != NULL && value[0] != '\0' ? value : NULL;
}

uint64_t coffer__os_milliseconds(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t coffer__os_nanoseconds(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t coffer__os_time(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec;
}

void coffer__os_sleep(uint64_t milliseconds)
{
    struct timespec left = { (time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000 };
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

uint64_t coffer__os_process(void)
{
    return (uint64_t)getpid();
}

uint32_t coffer__os_unlikely_number(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t mixed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    mixed ^= coffer__os_process() << 40;
    mixed *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 32);
}
