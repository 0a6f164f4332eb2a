/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: threads, locks, and how many of anything a process may have. */
#include "os_posix.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define OS_SMALL_STACK ((size_t)256 << 10)

int coffer__os_mutex_init(coffer__mutex *mutex)
{
    return pthread_mutex_init(&mutex->posix, NULL);
}

void coffer__os_mutex_deinit(coffer__mutex *mutex)
{
    (void)pthread_mutex_destroy(&mutex->posix);
}

void coffer__os_mutex_lock(coffer__mutex *mutex)
{
    (void)pthread_mutex_lock(&mutex->posix);
}

void coffer__os_mutex_unlock(coffer__mutex *mutex)
{
    (void)pthread_mutex_unlock(&mutex->posix);
}

int coffer__os_condition_init(coffer__condition *condition)
{
    pthread_condattr_t attributes;
    int os_error = pthread_condattr_init(&attributes);
    if (os_error != 0) {
        return os_error;
    }
    /* The calendar's clock may be set while somebody waits. */
    os_error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    os_error = os_error != 0 ? os_error : pthread_cond_init(&condition->posix, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return os_error;
}

void coffer__os_condition_deinit(coffer__condition *condition)
{
    (void)pthread_cond_destroy(&condition->posix);
}

bool coffer__os_condition_wait(coffer__condition *condition, coffer__mutex *mutex, uint64_t milliseconds)
{
    struct timespec until = { 0, 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t nanoseconds = (uint64_t)until.tv_nsec + milliseconds % 1000 * 1000000;
    until.tv_sec += (time_t)(milliseconds / 1000 + nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    return pthread_cond_timedwait(&condition->posix, &mutex->posix, &until) != ETIMEDOUT;
}

void coffer__os_condition_wake(coffer__condition *condition)
{
    (void)pthread_cond_signal(&condition->posix);
}

static void *os_thread_main(void *arg)
{
    const coffer__thread *thread = arg;
    thread->run(thread->arg);
    return NULL;
}

/* With those signals blocked that any thread of the program can take. Those that an instruction of the thread itself causes are left:
   blocked, they end the process instead of running the program's handler, which may be what lets it read maps of files that
   become shorter. */
int coffer__os_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *arg)
{
    static const int own[] = { SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP };
    sigset_t others;
    sigset_t before;
    (void)sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        (void)sigdelset(&others, own[i]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &others, &before);
    const int os_error = pthread_create(thread, attributes, main, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return os_error;
}

static int os_thread_create_small(coffer__thread *thread)
{
    pthread_attr_t attributes;
    int os_error = pthread_attr_init(&attributes);
    if (os_error != 0) {
        return os_error;
    }
    os_error = pthread_attr_setstacksize(&attributes, OS_SMALL_STACK);
    os_error = os_error != 0 ? os_error : coffer__os_thread_create(&thread->posix, &attributes, os_thread_main, thread);
    (void)pthread_attr_destroy(&attributes);
    return os_error;
}

int coffer__os_thread_start(coffer__thread *thread, void (*run)(void *arg), void *arg, bool small)
{
    thread->run = run;
    thread->arg = arg;
    /* A program with many thread-local variables, which lie on the stack, may have no room for them on a small one. */
    if (small && os_thread_create_small(thread) == 0) {
        return 0;
    }
    return coffer__os_thread_create(&thread->posix, NULL, os_thread_main, thread);
}

void coffer__os_thread_join(coffer__thread *thread)
{
    (void)pthread_join(thread->posix, NULL);
}

size_t coffer__os_descriptors(void)
{
    struct rlimit limit = { .rlim_cur = 0 };
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX;
}

unsigned coffer__os_processors(void)
{
#ifdef __linux__
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) == 0) {
        return (unsigned)CPU_COUNT(&usable);
    }
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (unsigned)online;
}
