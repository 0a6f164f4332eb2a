/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: with os_posix.c the only file that names it. A port is a second os_*.c with these contracts.
 * Functions that can fail for the system's reasons return 0 or a positive errno; callers turn that into a coffer_status.
 */
#ifndef COFFER_IO_OS_H
#define COFFER_IO_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- threads --------------------------------------------------------------------------------------------------------- */

typedef struct coffer__mutex {
    pthread_mutex_t posix;
} coffer__mutex;

typedef struct coffer__thread {
    pthread_t posix;
    void (*run)(void *arg);
    void *arg;
} coffer__thread;

int coffer__os_mutex_init(coffer__mutex *mutex);
void coffer__os_mutex_deinit(coffer__mutex *mutex);
void coffer__os_mutex_lock(coffer__mutex *mutex);
void coffer__os_mutex_unlock(coffer__mutex *mutex);
/* Runs run(arg) on a new thread; *thread must live until join. */
int coffer__os_thread_start(coffer__thread *thread, void (*run)(void *arg), void *arg);
void coffer__os_thread_join(coffer__thread *thread);
/* Processors that this process may use, at least 1. */
unsigned coffer__os_processors(void);

#endif
