/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a test in a process of its own, which may be watched and killed at any of its system calls, and which may give
 * up its rights or make a file system of its own without a trace in the test. It ends without the C library's clean-up, so
 * that a leak detector does not look at it (it could not, in a process that is watched).
 */
#ifndef COFFER_TESTS_SUPPORT_CHILD_H
#define COFFER_TESTS_SUPPORT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Runs run(ctx) in a child; returns its result (0 to 255), or 256 plus the number of the signal that ended it. */
int child_run(int (*run)(void *ctx), void *ctx);

/* What child_run says of a child that the test has started itself: waits for its end. With `goes_on` the child may be
   stopped, now or later, and goes on then. */
int child_end(pid_t child, bool goes_on);
/* The same of several. The one that is stopped, if any, goes on when all others have ended: a rank that is slow stops only
   then. `stopped` is its number; `count`: none. */
void children_end(const pid_t *children, size_t count, size_t stopped, int *ends);
/* Whether all of them ended with 0; `at` is where it went wrong, for the message. */
void assert_children_ended_well(const int *ends, size_t count, unsigned at);

/* As child_run, but kills the child when it is about to make its k-th system call, from 1. *killed tells whether it came to that
   before run returned. */
int child_run_killed(int (*run)(void *ctx), void *ctx, unsigned k, bool *killed);

/* The same without killing: calls seen(ctx, number of the call) for every system call, in the parent. */
int child_run_watched(int (*run)(void *ctx), void *ctx, void (*seen)(void *seen_ctx, uint64_t call), void *seen_ctx);

#endif
