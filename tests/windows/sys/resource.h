/* SPDX-License-Identifier: Apache-2.0 */
/* Windows has no limits of a process that it could lower. */
#ifndef COFFER_TESTS_WINDOWS_RESOURCE_H
#define COFFER_TESTS_WINDOWS_RESOURCE_H

#include <stdint.h>

#define RLIMIT_FSIZE 1
#define RLIMIT_NOFILE 7
#define RLIMIT_NPROC 6
#define RLIMIT_MEMLOCK 8

typedef uint64_t rlim_t;

struct rlimit {
    rlim_t rlim_cur;
    rlim_t rlim_max;
};

int getrlimit(int what, struct rlimit *limit);
int setrlimit(int what, const struct rlimit *limit);

#endif
