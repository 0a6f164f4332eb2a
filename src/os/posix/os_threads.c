/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: threads, locks, and how many of anything a process may have. Locking an initialised
 * mutex of the default kind cannot fail unless the program is wrong, so results are not looked at.
 */
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

void coffer__os_mutex_close(coffer__mutex *mutex)
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

/* Waits are measured with the monotonic clock, since the calendar's clock may be set while somebody
   waits. macOS cannot choose the clock, but it waits for a duration, which is measured by a monotonic one. */
#ifdef __APPLE__
int coffer__os_condition_init(coffer__condition *condition)
{
    return pthread_cond_init(&condition->posix, NULL);
}
#else
int coffer__os_condition_init(coffer__condition *condition)
{
    pthread_condattr_t attributes;
    int os_error = pthread_condattr_init(&attributes);
    if (os_error != 0) {
        return os_error;
    }
    os_error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    os_error = os_error != 0 ? os_error : pthread_cond_init(&condition->posix, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return os_error;
}
#endif

void coffer__os_condition_close(coffer__condition *condition)
{
    (void)pthread_cond_destroy(&condition->posix);
}

#ifdef __APPLE__
bool coffer__os_condition_wait(coffer__condition *condition, coffer__mutex *mutex, uint64_t milliseconds)
{
    const struct timespec wait = { (time_t)(milliseconds / 1000), (long)(milliseconds % 1000 * 1000000) };
    return pthread_cond_timedwait_relative_np(&condition->posix, &mutex->posix, &wait) != ETIMEDOUT;
}
#else
/* pthreads wait until a point in time, by the clock of coffer__os_condition_init. Nanoseconds must
   stay below a second, so what exceeds it is carried. */
bool coffer__os_condition_wait(coffer__condition *condition, coffer__mutex *mutex, uint64_t milliseconds)
{
    struct timespec until = { 0, 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t nanoseconds = (uint64_t)until.tv_nsec + milliseconds % 1000 * 1000000;
    until.tv_sec += (time_t)(milliseconds / 1000 + nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    return pthread_cond_timedwait(&condition->posix, &mutex->posix, &until) != ETIMEDOUT;
}
#endif

void coffer__os_condition_wake(coffer__condition *condition)
{
    (void)pthread_cond_signal(&condition->posix);
}

void coffer__os_condition_wake_all(coffer__condition *condition)
{
    (void)pthread_cond_broadcast(&condition->posix);
}

static void *os_thread_main(void *arg)
{
    const coffer__thread *thread = arg;
    thread->run(thread->arg);
    return NULL;
}

/* A new thread inherits the signal mask, so signals are blocked here while it is created: its first
   instruction already runs with them blocked. Those that an instruction of the thread itself causes
   stay unblocked. Blocked, they would end the process instead of running the program's handler,
   which may be what lets the program read maps of files that become shorter. */
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

/* 256 KiB are too little for OpenSSL or a caller's function, but plenty for this library's own
   code, which does not recurse and has only small arrays. Many threads then cost little address
   space. */
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

/* Where a small stack is refused, the usual one is used: thread-local variables lie on the stack,
   and a program with many of them may have no space for them on a small one. */
int coffer__os_thread_start(coffer__thread *thread, void (*run)(void *arg), void *arg, bool small)
{
    thread->run = run;
    thread->arg = arg;
    if (small && os_thread_create_small(thread) == 0) {
        return 0;
    }
    return coffer__os_thread_create(&thread->posix, NULL, os_thread_main, thread);
}

void coffer__os_thread_join(coffer__thread *thread)
{
    (void)pthread_join(thread->posix, NULL);
}

/* RLIM_INFINITY is a very large number, and is answered as one. */
size_t coffer__os_descriptors(void)
{
    struct rlimit limit = { .rlim_cur = 0 };
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    return (uint64_t)limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX;
}

/* The affinity mask, not the machine: containers and batch systems restrict a process to few
   processors. It fails on machines with more than 1024, where all processors that are online count. */
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
