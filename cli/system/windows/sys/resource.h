/* SPDX-License-Identifier: Apache-2.0 */
/* getrusage, for the memory that this process has used at most, and its time. */
#ifndef COFFER_WINDOWS_RESOURCE_H
#define COFFER_WINDOWS_RESOURCE_H

#define RUSAGE_SELF 0

#include <sys/time.h>

struct rusage {
    struct timeval ru_utime;
    struct timeval ru_stime;
    long ru_maxrss; /* units of 1024 bytes */
};

int getrusage(int who, struct rusage *usage);

#endif
