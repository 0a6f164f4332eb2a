/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system, Windows: threads, locks, and how many of anything a process may have. */
#include "os_windows.h"

#ifdef _WIN32

#include <process.h>
#include <string.h>

#define WIN_SMALL_STACK ((unsigned)256 << 10)
#define WIN_USUAL_STACK ((unsigned)8 << 20)
/* The C runtime has no more descriptors than this. */
#define WIN_MAX_DESCRIPTORS 2048

/* os.h keeps the system's headers out, so it declares both as the one pointer that they are. */
_Static_assert(sizeof(SRWLOCK) == sizeof(void *) && sizeof(CONDITION_VARIABLE) == sizeof(void *),
               "a lock and a condition are a pointer each");

static SRWLOCK *win_lock_of(coffer__mutex *mutex)
{
    return (SRWLOCK *)&mutex->lock;
}

static CONDITION_VARIABLE *win_variable_of(coffer__condition *condition)
{
    return (CONDITION_VARIABLE *)&condition->variable;
}

int coffer__os_mutex_init(coffer__mutex *mutex)
{
    InitializeSRWLock(win_lock_of(mutex));
    return 0;
}

void coffer__os_mutex_close(coffer__mutex *mutex)
{
    (void)mutex;
}

void coffer__os_mutex_lock(coffer__mutex *mutex)
{
    AcquireSRWLockExclusive(win_lock_of(mutex));
}

void coffer__os_mutex_unlock(coffer__mutex *mutex)
{
    ReleaseSRWLockExclusive(win_lock_of(mutex));
}

int coffer__os_condition_init(coffer__condition *condition)
{
    InitializeConditionVariable(win_variable_of(condition));
    return 0;
}

void coffer__os_condition_close(coffer__condition *condition)
{
    (void)condition;
}

/* The system counts the time by its ticks, not by the calendar. A wait of INFINITE milliseconds would never end, and
   is cut to one less; callers look again. */
bool coffer__os_condition_wait(coffer__condition *condition, coffer__mutex *mutex, uint64_t milliseconds)
{
    const DWORD wait = milliseconds < INFINITE ? (DWORD)milliseconds : INFINITE - 1;
    return SleepConditionVariableSRW(win_variable_of(condition), win_lock_of(mutex), wait, 0) != 0 ||
           GetLastError() != ERROR_TIMEOUT;
}

void coffer__os_condition_wake(coffer__condition *condition)
{
    WakeConditionVariable(win_variable_of(condition));
}

void coffer__os_condition_wake_all(coffer__condition *condition)
{
    WakeAllConditionVariable(win_variable_of(condition));
}

static unsigned __stdcall win_thread_main(void *arg)
{
    const coffer__thread *thread = arg;
    thread->run(thread->arg);
    return 0;
}

/* The size is what the stack may grow to; memory is committed as it grows. Windows delivers no signals to threads. */
int coffer__os_thread_start(coffer__thread *thread, void (*run)(void *arg), void *arg, bool small)
{
    thread->run = run;
    thread->arg = arg;
    const uintptr_t made = _beginthreadex(NULL, small ? WIN_SMALL_STACK : WIN_USUAL_STACK, win_thread_main, thread,
                                          STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    if (made == 0) {
        return errno != 0 ? errno : EAGAIN;
    }
    thread->handle = (void *)made; /* NOLINT(performance-no-int-to-ptr): that is how the runtime declares a handle */
    return 0;
}

void coffer__os_thread_join(coffer__thread *thread)
{
    (void)WaitForSingleObject(thread->handle, INFINITE);
    (void)CloseHandle(thread->handle);
}

size_t coffer__os_descriptors(void)
{
    return WIN_MAX_DESCRIPTORS;
}

/* The process may be bound to some of its group's processors. Processors of other groups do not count: its threads
   run there only when they ask to. */
unsigned coffer__os_processors(void)
{
    DWORD_PTR usable = 0;
    DWORD_PTR all = 0;
    unsigned count = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &usable, &all) != 0) {
        for (; usable != 0; usable &= usable - 1) {
            count++;
        }
    }
    return count < 1 ? 1 : count;
}

#endif
