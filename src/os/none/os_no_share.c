/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: what os_share.c answers where memory cannot be shared like that. Nothing is made and nobody
 * answers, so the rest is never reached.
 */
#include "os.h"

#ifndef __linux__

int coffer__os_shared_new(const char *label, uint64_t size, int *fd)
{
    (void)label;
    (void)size;
    (void)fd;
    return EOPNOTSUPP;
}

int coffer__os_shared_seal(int fd, bool constant)
{
    (void)fd;
    (void)constant;
    return EOPNOTSUPP;
}

int coffer__os_shared_check(int fd, bool constant, uint64_t *size)
{
    (void)fd;
    (void)constant;
    (void)size;
    return EOPNOTSUPP;
}

int coffer__os_shared_map(int fd, uint64_t size, coffer__os_map *map)
{
    (void)fd;
    (void)size;
    (void)map;
    return EOPNOTSUPP;
}

void coffer__os_shared_huge(const coffer__os_map *map, uint64_t offset, uint64_t size)
{
    (void)map;
    (void)offset;
    (void)size;
}

void coffer__os_shared_discard(int fd, uint64_t offset, uint64_t size)
{
    (void)fd;
    (void)offset;
    (void)size;
}

int coffer__os_answer(const char *name, int *listener)
{
    (void)name;
    (void)listener;
    return EOPNOTSUPP;
}

int coffer__os_answer_all(int listener, int fd, uint32_t *given)
{
    (void)listener;
    (void)fd;
    *given = 0;
    return EOPNOTSUPP;
}

void coffer__os_answer_stop(int listener)
{
    (void)listener;
}

int coffer__os_callers_new(int *set)
{
    (void)set;
    return EOPNOTSUPP;
}

int coffer__os_callers_add(int set, int listener, uint32_t number)
{
    (void)set;
    (void)listener;
    (void)number;
    return EOPNOTSUPP;
}

int coffer__os_callers_await(int set, uint32_t *number)
{
    (void)set;
    (void)number;
    return EOPNOTSUPP;
}

int coffer__os_call(const char *name, int *caller)
{
    (void)name;
    (void)caller;
    return EOPNOTSUPP;
}

int coffer__os_await_passed(int caller, uint64_t milliseconds, int *fd)
{
    (void)caller;
    (void)milliseconds;
    (void)fd;
    return EOPNOTSUPP;
}

void coffer__os_word_await(_Atomic(uint32_t) *word, uint32_t value, uint64_t milliseconds)
{
    (void)word;
    (void)value;
    coffer__os_sleep(milliseconds);
}

void coffer__os_word_wake(_Atomic(uint32_t) *word)
{
    (void)word;
}

int coffer__os_hold_byte(int fd, uint64_t byte, int *holder)
{
    (void)fd;
    (void)byte;
    *holder = -1;
    return EOPNOTSUPP;
}

bool coffer__os_byte_is_held(int fd, uint64_t byte)
{
    (void)fd;
    (void)byte;
    return true;
}

#endif
