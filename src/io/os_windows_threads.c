/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: threads and locks. The locks are the system's slim ones, which are one word of zeros when nobody
 * has them and need no end, so that nothing of them can fail.
 */
#include "os_windows.h"

#ifdef _WIN32

#include <errno.h>
#include <process.h>

#define OS_SMALL_STACK (256u << 10)
#define OS_DESCRIPTORS 8192 /* as many as the C library has */

static SRWLOCK *os_lock(coffer__mutex *mutex)
{
    return (SRWLOCK *)&mutex->windows;
}

static CONDITION_VARIABLE *os_variable(coffer__condition *condition)
{
    return (CONDITION_VARIABLE *)&condition->windows;
}

int coffer__os_mutex_init(coffer__mutex *mutex)
{
    InitializeSRWLock(os_lock(mutex));
    return 0;
}

void coffer__os_mutex_deinit(coffer__mutex *mutex)
{
    (void)mutex;
}

void coffer__os_mutex_lock(coffer__mutex *mutex)
{
    AcquireSRWLockExclusive(os_lock(mutex));
}

void coffer__os_mutex_unlock(coffer__mutex *mutex)
{
    ReleaseSRWLockExclusive(os_lock(mutex));
}

int coffer__os_condition_init(coffer__condition *condition)
{
    InitializeConditionVariable(os_variable(condition));
    return 0;
}

void coffer__os_condition_deinit(coffer__condition *condition)
{
    (void)condition;
}

bool coffer__os_condition_wait(coffer__condition *condition, coffer__mutex *mutex, uint64_t milliseconds)
{
    const DWORD wait = milliseconds < INFINITE ? (DWORD)milliseconds : INFINITE - 1;
    return SleepConditionVariableSRW(os_variable(condition), os_lock(mutex), wait, 0) ||
           GetLastError() != ERROR_TIMEOUT;
}

void coffer__os_condition_wake(coffer__condition *condition)
{
    WakeConditionVariable(os_variable(condition));
}

void coffer__os_condition_wake_all(coffer__condition *condition)
{
    WakeAllConditionVariable(os_variable(condition));
}

static unsigned __stdcall os_thread_entry(void *arg)
{
    const coffer__thread *thread = arg;
    thread->run(thread->arg);
    return 0;
}

/* By the C library's function, which gives the thread what that keeps for each. */
int coffer__os_thread_start(coffer__thread *thread, void (*run)(void *arg), void *arg, bool small)
{
    thread->run = run;
    thread->arg = arg;
    const uintptr_t made = _beginthreadex(NULL, small ? OS_SMALL_STACK : 0, os_thread_entry, thread,
                                          small ? STACK_SIZE_PARAM_IS_A_RESERVATION : 0, NULL);
    thread->windows = (void *)made; /* NOLINT(performance-no-int-to-ptr) */
    return made != 0 ? 0 : errno;
}

void coffer__os_thread_join(coffer__thread *thread)
{
    (void)WaitForSingleObject(thread->windows, INFINITE);
    (void)CloseHandle(thread->windows);
}

/* Those of the group that this process runs in, which has at most 64. */
unsigned coffer__os_processors(void)
{
    DWORD_PTR usable = 0;
    DWORD_PTR present = 0;
    unsigned count = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &usable, &present)) {
        for (; usable != 0; usable &= usable - 1) {
            count++;
        }
    }
    return count > 0 ? count : 1;
}

size_t coffer__os_descriptors(void)
{
    return OS_DESCRIPTORS;
}

#endif
