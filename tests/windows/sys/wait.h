/* SPDX-License-Identifier: Apache-2.0 */
/* Windows has no fork, so nothing is ever waited for. */
#ifndef COFFER_TESTS_WINDOWS_WAIT_H
#define COFFER_TESTS_WINDOWS_WAIT_H

#include <sys/types.h>

#define WIFEXITED(status) ((void)(status), 0)
#define WEXITSTATUS(status) ((void)(status), -1)
#define WIFSIGNALED(status) ((void)(status), 0)
#define WTERMSIG(status) ((void)(status), 0)

pid_t fork(void);
pid_t waitpid(pid_t child, int *status, int how);

#endif
