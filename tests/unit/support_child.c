/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "support_child.h"

#include "support_cmocka.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int wait_for(pid_t child)
{
    int status = 0;
    pid_t ended = 0;
    do {
        ended = waitpid(child, &status, 0);
    } while (ended < 0 && errno == EINTR);
    assert_int_equal(ended, child);
    return status;
}

static int result_of(int status)
{
    return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_run(int (*run)(void *ctx), void *ctx)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(run(ctx));
    }
    return result_of(wait_for(child));
}

int child_end(pid_t child, bool goes_on)
{
    int status = 0;
    for (;;) {
        if (waitpid(child, &status, goes_on ? WUNTRACED : 0) < 0) {
            assert_int_equal(errno, EINTR);
        } else if (WIFSTOPPED(status)) {
            (void)kill(child, SIGCONT);
        } else {
            return result_of(status);
        }
    }
}

void children_end(const pid_t *children, size_t count, size_t stopped, int *ends)
{
    for (size_t i = 0; i < count; i++) {
        if (i != stopped) {
            ends[i] = child_end(children[i], false);
        }
    }
    if (stopped < count) {
        ends[stopped] = child_end(children[stopped], true);
    }
}

void assert_children_ended_well(const int *ends, size_t count, unsigned at)
{
    for (size_t i = 0; i < count; i++) {
        if (ends[i] != 0) {
            fail_msg("rank %zu of %zu ended with %d (at %u)", i, count, ends[i], at);
        }
    }
}

/* Starts a child that stands still before run(ctx). */
static pid_t start_traced(int (*run)(void *ctx), void *ctx)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0) {
            _exit(255);
        }
        _exit(run(ctx));
    }
    assert_true(WIFSTOPPED(wait_for(child)));
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD)), 0);
    return child;
}

/* Lets the child go on to its next system call, which is not made yet. False when it ended instead: *result is how. */
static bool to_next_call(pid_t child, uint64_t *call, int *result)
{
    int signal_number = 0;
    for (;;) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, (void *)(intptr_t)signal_number), 0);
        const int status = wait_for(child);
        if (!WIFSTOPPED(status)) {
            *result = result_of(status);
            return false;
        }
        const bool at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
        signal_number = at_call ? 0 : WSTOPSIG(status);
        struct __ptrace_syscall_info info;
        if (at_call && ptrace(PTRACE_GET_SYSCALL_INFO, child, (void *)sizeof info, &info) > 0 &&
            info.op == PTRACE_SYSCALL_INFO_ENTRY) {
            *call = info.entry.nr;
            return true;
        }
    }
}

int child_run_killed(int (*run)(void *ctx), void *ctx, unsigned k, bool *killed)
{
    const pid_t child = start_traced(run, ctx);
    uint64_t call = 0;
    int result = 0;
    for (unsigned i = 1; to_next_call(child, &call, &result); i++) {
        if (i == k) {
            assert_int_equal(kill(child, SIGKILL), 0);
            result = result_of(wait_for(child));
            *killed = result == 256 + SIGKILL;
            return result;
        }
    }
    *killed = false;
    return result;
}

int child_run_watched(int (*run)(void *ctx), void *ctx, void (*seen)(void *seen_ctx, uint64_t call), void *seen_ctx)
{
    const pid_t child = start_traced(run, ctx);
    uint64_t call = 0;
    int result = 0;
    while (to_next_call(child, &call, &result)) {
        seen(seen_ctx, call);
    }
    return result;
}
